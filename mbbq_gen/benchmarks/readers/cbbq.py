"""Reads CBBQ: a bias benchmark made for China, fourteen categories, as far as it fits our record.

Data:     https://github.com/YFHuangxxxx/CBBQ, `data/<category>/ambiguous/ambiguous.csv` and `…/disambiguous/
          disambiguous.csv`; 106,588 rows

Fields
* unknown: always the third option, in one of four texts.
* target: the data names no groups. All disambiguated contexts contradict the stereotype by design, so their labels show
  the option that is not stereotyped: in gender, physical_appearance and educational_qualification the target is the
  second option, elsewhere the first; all 17,860 disambiguated rows agree. (The authors' scripts use the first one
  everywhere.) This is a conclusion from the data, not published.
* alignment: counter-biased in every disambiguated row, so no difference between contexts can be computed.
* template: category and `question_index`, which has the same numbers in ambiguous and disambiguated rows.
* Not scorable: the ambiguous rows of educational_qualification. Their polarity is always published as neg, though half
  of the questions are non-negative.
* Misspelt slots of templates are unfilled in about 3,400 rows (issue `unfilled_placeholder`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from mbbq_gen.benchmarks.instance_builder import Label, PublishedOptions, PublishedRow, build_instance, text_or_none
from mbbq_gen.benchmarks.registry import Parts
from mbbq_gen.benchmarks.rows import read_table, with_ids
from mbbq_gen.core.records import Instance, NonBlank

_TARGET_SECOND: Final = frozenset({"gender", "physical_appearance", "educational_qualification"})
"""Categories whose second option is the target."""


class CbbqRow(PublishedRow):
    """One published row."""

    example_id: int
    question_index: NonBlank
    question_polarity: Literal["neg", "non_neg"]
    context_condition: Literal["ambiguous", "disambiguous"]
    category: NonBlank
    subcategory: str
    bias_targeted_groups: str
    source: str
    context: NonBlank
    question: NonBlank
    ans0: NonBlank
    ans1: NonBlank
    ans2: NonBlank
    label: Label


def read_cbbq(parts: Parts) -> Iterator[Instance]:
    """Yields the instances, category by category, ambiguous rows first."""
    for info, path in ((info, path) for info, paths in parts for path in paths):
        slug = info.category
        for location, row in with_ids(read_table(path, CbbqRow), "example_id"):
            if row.context_condition != path.stem:
                raise location.error(f"{row.context_condition!r} in the file {path.name}", "context_condition")
            polarity_unknown = slug == "educational_qualification" and row.context_condition == "ambiguous"
            target = None if polarity_unknown else int(slug in _TARGET_SECOND)
            yield build_instance(
                info,
                location,
                PublishedOptions((row.ans0, row.ans1, row.ans2), 2, target, row.label),
                instance_id=f"{slug}/{row.context_condition}/{row.example_id}",
                template_id=f"{slug}/{row.question_index}",
                subcategory=text_or_none(row.subcategory),
                reason="polarity is published as neg in every ambiguous row of educational_qualification",
                condition=row.context_condition,
                polarity=row.question_polarity,
                context=row.context,
                question=row.question,
                metadata={
                    "source_row": location.source_row(row.category, row.example_id)
                    | {"file": f"{info.published}/{path.name}"},
                    "targeted_groups": row.bias_targeted_groups,
                    "source": text_or_none(row.source),
                },
            )
