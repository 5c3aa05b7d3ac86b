"""Reads the SES category of BBQ as BIG-bench has it, in an early edition.

Paper:    Srivastava et al. (2023): Beyond the Imitation Game. TMLR. https://arxiv.org/abs/2206.04615; BBQ: see `bbq`
Data:     PyPI `bigbench` 1.0.0, `bigbench/benchmark_tasks/bbq_lite/resources/SES.json`, 1,984 rows under `examples`.
          The file carries a canary string: keep it, and never train on it.
Licence:  Apache-2.0

What the fields mean here: BBQ's record. The one person whose group is among `stereotyped_groups` is the target. Rows of
the other category that this edition had complete, Race_ethnicity, have wrong groups and are not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from mbbq_gen.datasets.assemble import Source, no_target, sole_match
from mbbq_gen.datasets.bbq_schema import BbqRow, in_blocks, instance_of
from mbbq_gen.datasets.rows import Place, find_files, note_file
from mbbq_gen.errors import DataError
from mbbq_gen.languages import describe_fault
from mbbq_gen.records import Instance, Split

BENCHMARK: Final = "bbq_lite"
VERSION: Final = "1.0.0"
FILE: Final = "SES.json"


class _File(BaseModel):
    """The file: rows among much else."""

    model_config = ConfigDict(extra="ignore")

    examples: list[BbqRow]


def load_bbq_lite(folder: Path, language: str, split: Split) -> Iterator[Instance]:
    """The instances, in file order; a place's row counts the examples from 1.

    Args:
        folder: where `SES.json` is: BIG-bench's folder `bbq_lite/resources`, or one above.
        language: en.
        split: bias.

    Raises:
        UsageError: at once, where the file is missing.
        DataError: while reading, at the first example that is not as published; file, row and field.
    """
    path = find_files(folder, [FILE], BENCHMARK, inside=("", "resources", "bbq_lite", "bbq_lite/resources"))[0]
    return _read(path, Source(BENCHMARK, VERSION, language, split, "ses"))


def _read(path: Path, source: Source) -> Iterator[Instance]:
    """The instances of a file that is there."""
    try:
        rows = _File.model_validate_json(note_file(path).read_bytes()).examples
    except ValidationError as error:
        raise DataError(f"{path}: {describe_fault(error, {})}") from error
    places = ((Place(path, number), row) for number, row in enumerate(rows, start=1))
    for block in in_blocks(places, "SES"):
        for place, row in block:
            unknown = row.unknown_index(place)
            listed = row.additional_metadata.stereotyped_groups
            target = sole_match(row.groups, listed, unknown)
            yield instance_of(row, place, source, target=target, reason=no_target(row.groups, listed, unknown))
