"""Reads EsBBQ (Spanish) and CaBBQ (Catalan): BBQ adapted to the stereotypes of Spain, ten categories, 323 templates.

Data:     https://github.com/langtech-bsc/EsBBQ-CaBBQ: `data_es` and `data_ca`, `<Category>.full.csv`;
          27,320 Spanish and 27,344 Catalan rows

Fields
* unknown: always the third option, and always the placeholder `unknown`. It is replaced by one of our texts in the
  language, the same for all rows of a filled template (issue `unknown_placeholder`); the paper scores nine texts.
* target: the one person whose group, the last part of the last entry of `answer_info`, is among `stereotyped_groups`.
  Not the first option: in 12 Spanish and 36 Catalan rows of PhysicalAppearance that is the other person. In 4 of these
  12, and in 12 of the 36, the tags are swapped: "La embarazada" is tagged notPregnant (`groups_swapped`).
* alignment: derived from label, polarity and target. `question_type` agrees except in 4 Spanish and 12 Catalan rows of
  PhysicalAppearance, where it is wrong (issue `alignment_mismatch`).
* template: category and `template_id`. `flipped` names the sentences in which the two people are swapped.
* The published order is confounded with the role: target first, unknown last. Don't use that order.
* parallel_id: the same row of the same template and version in both languages. None in two templates of
  PhysicalAppearance: 20b, where Catalan has one word more than Spanish, and 32, where the right answers of 8 rows
  differ. The ids have a prefix of their own, since two benchmarks share them.
* About twice as many rows are disambiguated as ambiguous, because repeated ambiguous rows were dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from mbbq_gen.benchmarks.instance_builder import (
    Label,
    PublishedOptions,
    PublishedRow,
    build_instance,
    draw_unknown_text,
    no_target_reason,
    only_stereotyped,
    text_or_none,
)
from mbbq_gen.benchmarks.registry import Parts
from mbbq_gen.benchmarks.rows import python_literal, read_table, with_ids
from mbbq_gen.core.records import Instance, NonBlank

UNKNOWN_INDEX: Final = 2
PLACEHOLDER: Final = "unknown"
_NOT_PARALLEL: Final = frozenset({"20b", "32a", "32b"})
"""Templates of PhysicalAppearance that differ between the languages."""

Texts = Annotated[list[str], BeforeValidator(python_literal)]
Info = Annotated[list[str], Field(min_length=2), BeforeValidator(python_literal)]


class EsbbqRow(PublishedRow):
    """One published row."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    instance_id: int
    template_id: NonBlank
    version: str
    template_label: Literal["t", "m", "n"]
    flipped: Literal["original", "ambig", "disambig", "all"]
    question_polarity: Literal["neg", "nonneg"]
    context_condition: Literal["ambig", "disambig"]
    category: NonBlank
    subcategory: str
    relevant_social_value: str
    stereotyped_groups: Texts
    info0: Info = Field(alias="answer_info.ans0")
    info1: Info = Field(alias="answer_info.ans1")
    info2: Info = Field(alias="answer_info.ans2")
    stated_gender_info: str
    proper_nouns_only: bool
    context: NonBlank
    question: NonBlank
    ans0: NonBlank
    ans1: NonBlank
    ans2: NonBlank
    question_type: Literal["pro-stereo", "anti-stereo", "n/a"]
    label: Label
    source: Texts

    @property
    def groups(self) -> list[str]:
        """The group of each option: the last part of its info, split at commas."""
        return [info[-1].split(",")[-1].strip() for info in (self.info0, self.info1, self.info2)]

    @property
    def template(self) -> str:
        """Number and version of the template: `20b`."""
        return self.template_id + self.version


def read_esbbq(parts: Parts) -> Iterator[Instance]:
    """Yields the instances of EsBBQ or, in Catalan, CaBBQ, in file order."""
    for info, (path,) in parts:
        seen: Counter[str] = Counter()  # rows of each template and version, for the parallel ids
        for location, row in with_ids(read_table(path, EsbbqRow), "instance_id", increasing=True):
            if row.ans2 != PLACEHOLDER or row.groups[UNKNOWN_INDEX] != PLACEHOLDER:
                raise location.error(f"{row.ans2!r} where the placeholder {PLACEHOLDER!r} is published", "ans2")
            target = only_stereotyped(row.groups, row.stereotyped_groups, UNKNOWN_INDEX)
            disambiguated, negative = row.context_condition == "disambig", row.question_polarity == "neg"
            alignment = "pro-stereo" if (row.label == target) == negative else "anti-stereo"
            mismatch = target is not None and disambiguated and row.question_type != alignment
            kind = f"{row.question_polarity}-{row.context_condition}"
            # The languages list different words in two templates.
            is_parallel = info.category != "physical_appearance" or row.template not in _NOT_PARALLEL
            parallel_id = f"esbbq-cabbq/{info.category}/{row.template}/{row.flipped}/{seen[row.template]}/{kind}"
            terms = [row.info0[0], row.info1[0]]
            unknown = draw_unknown_text(info.language, info.benchmark, info.category, row.template, *terms)
            first, second = row.info0[0].casefold(), row.info1[0].casefold()
            one, other = row.ans0.casefold(), row.ans1.casefold()
            texts, groups = (row.ans0, row.ans1, unknown), (row.info0[-1], row.info1[-1], PLACEHOLDER)
            yield build_instance(
                info,
                location,
                PublishedOptions(texts, UNKNOWN_INDEX, target, row.label, groups),
                instance_id=f"{info.category}/{row.instance_id}",
                template_id=f"{info.category}/{row.template_id}",
                subcategory=text_or_none(row.subcategory),
                parallel_id=parallel_id if is_parallel else None,
                reason=no_target_reason(row.groups, row.stereotyped_groups, UNKNOWN_INDEX),
                condition=row.context_condition,
                polarity=row.question_polarity,
                context=row.context,
                question=row.question,
                groups_swapped=second in one and first in other and not (first in one and second in other),
                data_issues=("unknown_placeholder", *["alignment_mismatch"] * mismatch),
                metadata={
                    "source_row": location.source_row(row.category, row.instance_id),
                    "stereotyped_groups": row.stereotyped_groups,
                    "version": text_or_none(row.version),
                    "source": row.source,
                    "terms": terms,
                    "template_label": row.template_label,
                    "flipped": row.flipped,
                    "social_value": text_or_none(row.relevant_social_value),
                    "stated_gender": text_or_none(row.stated_gender_info),
                    "proper_names": row.proper_nouns_only,
                },
            )
            seen[row.template] += 1
