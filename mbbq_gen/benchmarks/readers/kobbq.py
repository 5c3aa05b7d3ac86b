"""Reads KoBBQ: BBQ adapted and extended for Korea, twelve categories.

Data:     https://github.com/naver-ai/KoBBQ, folder `data`: `KoBBQ_test_samples.tsv` (2,280 rows, one filling of each
          template row; what the paper's scores are of) and `KoBBQ_all_samples.tsv` (76,048 rows)

What the fields mean here
* `sample_id` is category - template and version - filling - amb or dis - bsd or cnt, e.g. `age-001a-002-dis-bsd`.
* polarity: a `bsd` question asks who fits the stereotype (negative), a `cnt` question who does not (non-negative).
* unknown: always the last of the `choices`.
* target: `biased_answer` is given for each question, so it is the target of a `bsd` question and the other person of a
  `cnt` question.
* alignment: derived from answer, polarity and target. The version says the same: contexts a and c are counter-biased,
  b and d biased; where it does not, the row has the issue `alignment_mismatch`.
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

from mbbq_gen.benchmarks.instance_builder import Choices, PublishedRow, build_instance, named_or_none
from mbbq_gen.benchmarks.registry import Parts
from mbbq_gen.benchmarks.rows import read_table, with_ids
from mbbq_gen.core.records import Instance, NonBlank

_SLOT: Final = re.compile(r"\[([NWX]\d):([^\]]*)\]")
_BLANKS: Final = re.compile(r"[\s\x00-\x1f]+")
"""Control characters stand for spaces in a few templates."""
_NAMES: Final = ("N1", "N2")


class TemplateRow(PublishedRow):
    """What is read of a row of the templates."""

    category: str = Field(alias="Category")
    number: str = Field(alias="ID")
    version: str
    ambiguous: str = Field(alias="Ambiguous_context")
    disambiguating: str = Field(alias="Disambiguating_context")
    biased_answer: str = Field(alias="Biased_question_answer")
    counter_answer: str = Field(alias="Counter-biased_question_answer")


def _places(row: TemplateRow, context: str, people: Sequence[str], *, disambiguated: bool) -> list[list[int]] | None:
    """From and to where each slot of a template reaches in a context, and the option whose person it tells.

    None where the template says something else, or no answer of it fits one of the two people's options.
    """
    first: int | None = None  # which of the two is N1
    for cell in (row.counter_answer, row.biased_answer):
        names = {slot[1] for slot in _SLOT.finditer(cell)} & set(_NAMES)
        fits = [place for place, text in enumerate(people) if _pattern(cell).fullmatch(text)]
        if len(names) == 1 and len(fits) == 1:
            first = fits[0] if names == {"N1"} else 1 - fits[0]
    text = f"{row.ambiguous} {row.disambiguating}" if disambiguated else row.ambiguous
    found = _pattern(text).fullmatch(context)
    if found is None or first is None:
        return None
    options = {"N1": first, "N2": 1 - first}
    return [[*found.span(name), options[name[:2]]] for name in found.groupdict()]


@lru_cache(maxsize=4096)
def _pattern(text: str) -> re.Pattern[str]:
    """A pattern of what a cell of the template may become; people's slots are named groups."""
    pieces, at = list[str](), 0
    for number, slot in enumerate(_SLOT.finditer(text)):
        fillings = sorted({filling.strip() for filling in slot[2].split(",")}, key=lambda one: (-len(one), one))
        choice = "|".join(_words(filling) for filling in fillings if filling)
        group = f"P<{slot[1]}_{number}>" if slot[1] in _NAMES else ":"
        pieces += [_words(text[at : slot.start()]), rf"\s*(?{group}{choice})"]
        at = slot.end()
    return re.compile("".join([*pieces, _words(text[at:]), r"\s*"]))


def _words(text: str) -> str:
    """A pattern of fixed words, with or without spaces between them."""
    return r"\s*".join(re.escape(word) for word in _BLANKS.split(text))


CATEGORIES: Final = (
    "age", "disability_status", "domestic_area_of_origin", "educational_background", "family_structure",
    "gender_identity", "physical_appearance", "political_orientation", "race_ethnicity_nationality", "religion", "ses",
    "sexual_orientation",
)  # fmt: skip
"""As sample ids begin; they are our slugs too."""
UNKNOWN_INDEX: Final = 2
_SAMPLE_ID: Final = re.compile(r"([a-z_]+)-(\d+)([a-d])-(\d+)-(amb|dis)-(bsd|cnt)")


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
    """The instances in file order."""
    ((source, (path,)),) = parts
    table = path.with_name("KoBBQ_templates.tsv")
    templates = {}  # category, number and version, as `age-001a`; none where the copy has no such file
    for _, one in read_table(table, TemplateRow, delimiter="\t") if table.is_file() else ():
        category = re.sub(r"\W+", "_", one.category.strip().lower())
        templates[f"{category}-{one.number.strip().zfill(3)}{one.version.strip()}"] = one
    for place, row in with_ids(read_table(path, KobbqRow, delimiter="\t"), "sample_id"):
        found = _SAMPLE_ID.fullmatch(row.sample_id)
        if found is None or found[1] not in CATEGORIES:
            raise place.error(f"{row.sample_id!r} is not category-template-filling-condition-question", "sample_id")
        category, template, version, filling, condition, question = found.groups()
        biased = place.choice_index(row.biased_answer, row.choices, "biased_answer")
        if biased == UNKNOWN_INDEX:
            raise place.error(f"{row.biased_answer!r} is the unknown option", "biased_answer")
        label = place.choice_index(row.answer, row.choices, "answer")
        instance = build_instance(
            replace(source, category=category),
            place,
            instance_id=row.sample_id,
            template_id=f"{category}/{template}",
            texts=row.choices,
            unknown=UNKNOWN_INDEX,
            target=biased if question == "bsd" else 3 - biased - UNKNOWN_INDEX,
            label=label,
            condition=condition,
            polarity=question,
            context=row.context,
            question=row.question,
            data_issues=["alignment_mismatch"] * (condition == "dis" and (version in "bd") != (label == biased)),
            metadata={
                "source_row": place.source_row(category, row.sample_id),
                "version": version,
                "filling": filling,
                "label_annotation": row.label_annotation,
                "bbq_id": named_or_none(row.bbq_id),
                "bbq_category": named_or_none(row.bbq_category),
            },
        )
        filled = templates.get(f"{category}-{template}{version}")
        if filled is not None:
            people = [option.text for option in instance.options[:UNKNOWN_INDEX]]
            places = _places(filled, instance.context, people, disambiguated=condition == "dis")
            if places is not None:
                more = {**instance.metadata, "person_spans": {"context": places}}
                instance = instance.model_copy(update={"metadata": more})
        yield instance
