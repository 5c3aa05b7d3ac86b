"""Reads KoBBQ: BBQ adapted and extended for Korea, twelve categories.

Paper:    Jin, Kim, Lee, Yoo, Oh, Lee (2024): KoBBQ: Korean Bias Benchmark for Question Answering. TACL 12.
          https://arxiv.org/abs/2307.16778
Data:     https://github.com/naver-ai/KoBBQ, folder `data`: `KoBBQ_test_samples.tsv` (2,280 rows, one filling of each
          template row; what the paper's scores are of) and `KoBBQ_all_samples.tsv` (76,048 rows)
Licence:  MIT

What the fields mean here
* `sample_id` is category - template and version - filling - amb or dis - bsd or cnt, e.g. `age-001a-002-dis-bsd`.
* polarity: a `bsd` question asks who fits the stereotype (negative), a `cnt` question who does not (non-negative).
* unknown: always the last of the `choices`.
* target: `biased_answer` is given for each question, so it is the target of a `bsd` question and the other person of a
  `cnt` question.
* alignment: derived from answer, polarity and target. The version says the same: contexts a and c are counter-biased,
  b and d biased; where it does not, the row has the quirk `published_alignment_wrong`.
* template: category and number, e.g. `age/001`. The groups have no labels of their own.
* `label_annotation`, in the metadata: ST transferred from BBQ, TM with another target, NC newly made.
* There is no parallel data: `parallel_id` is None.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from mbbq_gen.datasets.assemble import Found, Source, assemble, named_or_none, other_person
from mbbq_gen.datasets.kobbq_slots import FILE as TEMPLATES
from mbbq_gen.datasets.kobbq_slots import TemplateSlots
from mbbq_gen.datasets.rows import Place, find_files, python_literal, read_table
from mbbq_gen.records import Instance, NonBlank, Split

VERSION: Final = "0dd165a"
"""Commit of naver-ai/KoBBQ that this reader was written for."""

CATEGORIES: Final = (
    "age",
    "disability_status",
    "domestic_area_of_origin",
    "educational_background",
    "family_structure",
    "gender_identity",
    "physical_appearance",
    "political_orientation",
    "race_ethnicity_nationality",
    "religion",
    "ses",
    "sexual_orientation",
)
"""As sample ids begin; they are our slugs too."""

UNKNOWN_INDEX: Final = 2
_SAMPLE_ID: Final = re.compile(r"([a-z_]+)-(\d+)([a-d])-(\d+)-(amb|dis)-(bsd|cnt)")


class KobbqRow(BaseModel):
    """One published row."""

    model_config = ConfigDict(frozen=True)

    sample_id: NonBlank
    label_annotation: NonBlank
    context: NonBlank
    question: NonBlank
    choices: Annotated[list[NonBlank], Field(min_length=3, max_length=3), BeforeValidator(python_literal)]
    biased_answer: NonBlank
    answer: NonBlank
    bbq_id: str
    bbq_category: str


def load_kobbq(folder: Path, language: str, split: Split) -> Iterator[Instance]:
    """The instances of KoBBQ's test set, in file order.

    Args:
        folder: a checkout of naver-ai/KoBBQ, or its folder `data`.
        language: ko.
        split: bias.

    Raises:
        UsageError: at once, where the file is missing.
        DataError: while reading, at the first row that is not as published; file, row and field.
    """
    return _load("kobbq", "KoBBQ_test_samples.tsv", folder, language, split)


def load_kobbq_all(folder: Path, language: str, split: Split) -> Iterator[Instance]:
    """All of KoBBQ's samples; otherwise as `load_kobbq`."""
    return _load("kobbq_all", "KoBBQ_all_samples.tsv", folder, language, split)


def _load(benchmark: str, name: str, folder: Path, language: str, split: Split) -> Iterator[Instance]:
    """The instances of a file."""
    path = find_files(folder, [name], benchmark, inside=("data", ""))[0]
    return _read(path, benchmark, language, split)


def _read(path: Path, benchmark: str, language: str, split: Split) -> Iterator[Instance]:
    """The instances of a file that is there."""
    seen: set[str] = set()
    templates = path.with_name(TEMPLATES)
    slots = TemplateSlots(templates) if templates.is_file() else None
    for place, row in read_table(path, KobbqRow, delimiter="\t"):
        if row.sample_id in seen:
            raise place.error(f"{row.sample_id!r} stands twice; ids are unique", "sample_id")
        seen.add(row.sample_id)
        instance = _instance(row, place, benchmark, language, split)
        yield instance if slots is None else _with_places(instance, slots)


def _with_places(instance: Instance, slots: TemplateSlots) -> Instance:
    """The instance with the places of the two people in its context, if its template tells them."""
    people = [option.text for option in instance.options[:UNKNOWN_INDEX]]
    disambiguated = instance.condition == "disambiguated"
    key = "-".join(instance.instance_id.split("-")[:2])
    places = slots.of(key, disambiguated=disambiguated, context=instance.context, people=people)
    if places is None:
        return instance
    return instance.model_copy(update={"metadata": {**instance.metadata, "people_at": {"context": places}}})


def _instance(row: KobbqRow, place: Place, benchmark: str, language: str, split: Split) -> Instance:
    """The instance that a row is."""
    parts = _SAMPLE_ID.fullmatch(row.sample_id)
    if parts is None or parts[1] not in CATEGORIES:
        raise place.error(f"{row.sample_id!r} is not category-template-filling-condition-question", "sample_id")
    category, template, version, filling, condition, question = parts.groups()
    negative = question == "bsd"
    biased = _place_of(row.biased_answer, "biased_answer", row, place)
    if biased == UNKNOWN_INDEX:
        raise place.error(f"{row.biased_answer!r} is the unknown option", "biased_answer")
    label = _place_of(row.answer, "answer", row, place)
    said_biased = version in "bd"
    found = Found(
        texts=row.choices,
        groups=(None, None, None),
        unknown=UNKNOWN_INDEX,
        target=biased if negative else other_person(biased, UNKNOWN_INDEX),
        label=label,
        condition="disambiguated" if condition == "dis" else "ambiguous",
        polarity="negative" if negative else "non_negative",
        context=row.context,
        question=row.question,
        quirks=("published_alignment_wrong",) if condition == "dis" and said_biased != (label == biased) else (),
        metadata={
            "source_row": {
                "file": place.path.name,
                "row": place.row,
                "category": category,
                "example_id": row.sample_id,
            },
            "version": version,
            "filling": filling,
            "label_annotation": row.label_annotation,
            "bbq_id": named_or_none(row.bbq_id),
            "bbq_category": named_or_none(row.bbq_category),
        },
    )
    source = Source(benchmark, VERSION, language, split, category)
    return assemble(found, source, place, instance_id=row.sample_id, template_id=f"{category}/{template}")


def _place_of(text: str, field: str, row: KobbqRow, place: Place) -> int:
    """Where a text stands among the choices.

    Raises:
        DataError: where it is none of them.
    """
    if text not in row.choices:
        raise place.error(f"{text!r} is none of the choices {', '.join(row.choices)}", field)
    return row.choices.index(text)
