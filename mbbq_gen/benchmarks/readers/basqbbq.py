"""Reads BasqBBQ: BBQ translated into Basque and adapted, eight categories.

Paper:    Saralegi, Zulaika (2025): BasqBBQ: A QA Benchmark for Assessing Social Biases in LLMs for Basque, a
          Low-Resource Language. COLING, 4753-4767. https://aclanthology.org/2025.coling-main.318
Data:     https://github.com/orai-nlp/BasqBBQ, `data/BasqBBQ/<Category>.jsonl`, the large categories in two files,
          `_ambig` and `_disambig`

What the fields mean here (BBQ's record, with Basque names of the categories)
* target: the one person whose group is among `stereotyped_groups`; the groups are consistent here.
* A group may be missing: 184 entries of Nazionalitate hold `NaN`, which is no JSON; they become empty.
* wrong labels: Itxura_fisikoa has inherited BBQ's, versions b of templates 6 and 10 (58 rows).
* Basque marks who acts, so the two questions of a block may inflect the options differently.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from mbbq_gen.benchmarks.bbq_record import (
    AnswerInfo,
    BbqRow,
    SplitInfo,
    in_blocks,
    instance_of,
    listed_target,
)
from mbbq_gen.benchmarks.registry import find_benchmark
from mbbq_gen.benchmarks.rows import find_files, read_json_lines
from mbbq_gen.core.records import Instance, Split

_PLACES: Final = ("data/BasqBBQ", "BasqBBQ", "")


def _without_nan(value: Any) -> Any:
    """The entry with an empty text where the data has NaN."""
    return [item if item == item else "" for item in value] if isinstance(value, list) else value  # noqa: PLR0124


Info = Annotated[list[str], Field(min_length=2), BeforeValidator(_without_nan)]


class _AnswerInfo(AnswerInfo):
    """The same, tolerating NaN."""

    ans0: Info
    ans1: Info
    ans2: Info


class BasqbbqRow(BbqRow):
    """One published row."""

    answer_info: _AnswerInfo


def load_basqbbq(folder: Path, language: str, split: Split) -> Iterator[Instance]:
    """The instances in file order. `folder`: a checkout of orai-nlp/BasqBBQ, or its folder with the files."""
    names: dict[str, str] = {}
    for category in find_benchmark("basqbbq").categories:
        halves = [f"{category}_ambig.jsonl", f"{category}_disambig.jsonl"]
        is_split = any((folder / place / half).is_file() for place in _PLACES for half in halves)
        names |= dict.fromkeys(halves if is_split else [f"{category}.jsonl"], category)
    paths = find_files(folder, names, "basqbbq", inside=_PLACES, partial=True)
    return _read([(path, names[path.name]) for path in paths], language, split)


def _read(files: list[tuple[Path, str]], language: str, split: Split) -> Iterator[Instance]:
    """The instances of the files with their categories; the halves of one are merged by `example_id`."""
    info = find_benchmark("basqbbq")
    for category, slug in info.categories.items():
        source = SplitInfo("basqbbq", info.version, language, split, slug)
        halves = [read_json_lines(path, BasqbbqRow) for path, published in files if published == category]
        for block in in_blocks(heapq.merge(*halves, key=lambda found: found[1].example_id), category):
            for place, row in block:
                yield instance_of(row, place, source, target=listed_target(row, place))
