"""Reads KoBBQ: BBQ adapted and extended for Korea, twelve categories.

Data:     https://github.com/naver-ai/KoBBQ, folder `data`: `KoBBQ_test_samples.tsv` (2,280 rows, one filling of each
          template row; the paper's scores use it) and `KoBBQ_all_samples.tsv` (76,048 rows)

Fields
* `sample_id` is category - template and version - filling - amb or dis - bsd or cnt, e.g. `age-001a-002-dis-bsd`.
* polarity: a `bsd` question asks who fits the stereotype (negative), a `cnt` question who does not (non-negative).
* unknown: always the last of the `choices`.
* target: `biased_answer` belongs to the question, so it is the target of a `bsd` question and the other person of a
  `cnt` question.
* alignment: derived from answer, polarity and target. The version has the same information: contexts a and c are
  counter-biased, b and d biased; other rows have the issue `alignment_mismatch`.
* template: category and number, e.g. `age/001`. The groups have no labels of their own.
* `label_annotation`, in the metadata: ST transferred from BBQ, TM with another target, NC newly made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from pydantic import Field

from mbbq_gen.benchmarks.instance_builder import Choices, PublishedOptions, PublishedRow, build_instance, text_or_none
from mbbq_gen.benchmarks.registry import Parts
from mbbq_gen.benchmarks.rows import read_table, with_ids
from mbbq_gen.core.records import Instance, NonBlank

_SLOT: Final = re.compile(r"\[([NWX]\d):([^\]]*)\]")
_BLANKS: Final = re.compile(r"[\s\x00-\x1f]+")
"""Control characters stand for spaces in a few templates."""
_NAMES: Final = ("N1", "N2")
CATEGORIES: Final = (
    "age", "disability_status", "domestic_area_of_origin", "educational_background", "family_structure",
    "gender_identity", "physical_appearance", "political_orientation", "race_ethnicity_nationality", "religion", "ses",
    "sexual_orientation",
)  # fmt: skip
"""First parts of sample ids, also our slugs."""
UNKNOWN_INDEX: Final = 2
_SAMPLE_ID: Final = re.compile(r"([a-z_]+)-(\d+)([a-d])-(\d+)-(amb|dis)-(bsd|cnt)")


class TemplateRow(PublishedRow):
    """The columns of the template file that are used."""

    category: str = Field(alias="Category")
    number: str = Field(alias="ID")
    version: str
    ambiguous: str = Field(alias="Ambiguous_context")
    disambiguating: str = Field(alias="Disambiguating_context")
    biased_answer: str = Field(alias="Biased_question_answer")
    counter_answer: str = Field(alias="Counter-biased_question_answer")


def _spans(row: TemplateRow, context: str, people: Sequence[str], *, disambiguated: bool) -> list[list[int]] | None:
    """Start, end and option of each of a template's person slots in a context.

    None if the context does not match the template, or no answer of the template matches one of the people's options.
    """
    first: int | None = None  # which of the two is N1
    for cell in (row.counter_answer, row.biased_answer):
        names = {slot[1] for slot in _SLOT.finditer(cell)} & set(_NAMES)
        matching = [index for index, option in enumerate(people) if _pattern(cell).fullmatch(option)]
        if len(names) == 1 and len(matching) == 1:
            first = matching[0] if names == {"N1"} else 1 - matching[0]
    text = f"{row.ambiguous} {row.disambiguating}" if disambiguated else row.ambiguous
    found = _pattern(text).fullmatch(context)
    if found is None or first is None:
        return None
    options = {"N1": first, "N2": 1 - first}
    return [[*found.span(name), options[name[:2]]] for name in found.groupdict()]


@lru_cache(maxsize=4096)
def _pattern(text: str) -> re.Pattern[str]:
    """A pattern of all fillings of a template cell; the slots of people are named groups."""
    pieces, at = list[str](), 0
    for number, slot in enumerate(_SLOT.finditer(text)):
        fillings = sorted({filling.strip() for filling in slot[2].split(",")}, key=lambda one: (-len(one), one))
        choice = "|".join(_words(filling) for filling in fillings if filling)
        group = f"P<{slot[1]}_{number}>" if slot[1] in _NAMES else ":"
        pieces += [_words(text[at : slot.start()]), rf"\s*(?{group}{choice})"]
        at = slot.end()
    return re.compile("".join([*pieces, _words(text[at:]), r"\s*"]))


def _words(text: str) -> str:
    """A pattern of words, with or without spaces between them."""
    return r"\s*".join(re.escape(word) for word in _BLANKS.split(text))


class KobbqRow(PublishedRow):
    """One published row."""

    sample_id: NonBlank
    label_annotation: NonBlank
    context: NonBlank
    question: NonBlank
    choices: Choices
    biased_answer: NonBlank
    answer: NonBlank
    bbq_id: str
    bbq_category: str


def read_kobbq(parts: Parts) -> Iterator[Instance]:
    """Yields the instances in file order."""
    ((info, (path,)),) = parts
    table = path.with_name("KoBBQ_templates.tsv")
    templates = {}  # by category, number and version, as `age-001a`; empty without the file
    for _, one in read_table(table, TemplateRow, delimiter="\t") if table.is_file() else ():
        category = re.sub(r"\W+", "_", one.category.strip().lower())
        templates[f"{category}-{one.number.strip().zfill(3)}{one.version.strip()}"] = one
    for location, row in with_ids(read_table(path, KobbqRow, delimiter="\t"), "sample_id"):
        found = _SAMPLE_ID.fullmatch(row.sample_id)
        if found is None or found[1] not in CATEGORIES:
            raise location.error(f"{row.sample_id!r} is not category-template-filling-condition-question", "sample_id")
        category, template, version, filling, condition, question = found.groups()
        biased = location.choice_index(row.biased_answer, row.choices, "biased_answer")
        if biased == UNKNOWN_INDEX:
            raise location.error(f"{row.biased_answer!r} is the unknown option", "biased_answer")
        label = location.choice_index(row.answer, row.choices, "answer")
        target = biased if question == "bsd" else 3 - biased - UNKNOWN_INDEX
        instance = build_instance(
            replace(info, category=category),
            location,
            PublishedOptions(row.choices, UNKNOWN_INDEX, target, label),
            instance_id=row.sample_id,
            template_id=f"{category}/{template}",
            condition=condition,
            polarity=question,
            context=row.context,
            question=row.question,
            data_issues=["alignment_mismatch"] * (condition == "dis" and (version in "bd") != (label == biased)),
            metadata={
                "source_row": location.source_row(category, row.sample_id),
                "version": version,
                "filling": filling,
                "label_annotation": row.label_annotation,
                "bbq_id": text_or_none(row.bbq_id),
                "bbq_category": text_or_none(row.bbq_category),
            },
        )
        if (filled := templates.get(f"{category}-{template}{version}")) is not None:
            people = [option.text for option in instance.options[:UNKNOWN_INDEX]]
            spans = _spans(filled, instance.context, people, disambiguated=condition == "dis")
            if spans is not None:
                metadata = {**instance.metadata, "person_spans": {"context": spans}}
                instance = instance.model_copy(update={"metadata": metadata})
        yield instance
