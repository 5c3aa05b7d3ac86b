"""Reads GG-BBQ: the gender category of BBQ in German, in two parts.

Data:     https://github.com/shalakasatheesh/GG-BBQ: `data/subset-1` (groups, 968 rows), `data/subset-2` (proper names,
          10,900 rows); ambiguous and disambiguated rows in separate files, with the same `index`

Fields
* unknown: the option whose group in `choice_info` is `unknown`; always the last one.
* target: the one person whose group is among `known_stereotyped_groups`: F or M; if these are trans people, the person
  whose group is `non_binary`.
* alignment: derived from label, polarity and target. Subset 2 has far more counter-biased than biased contexts, so use
  difference scores, not counts.
* template: not in the rows. Rows come in pairs, a negative and a non-negative question about one context; pairs with
  the same two questions are one template, numbered within the subset in file order. Two of the authors' templates with
  the same questions count as one.
* subcategory: `groups` for subset 1, `proper_names` for subset 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Json

from mbbq_gen.benchmarks.instance_builder import (
    Label,
    PublishedOptions,
    PublishedRow,
    build_instance,
    no_target_reason,
    only_stereotyped,
)
from mbbq_gen.benchmarks.registry import Parts
from mbbq_gen.benchmarks.rows import in_groups, python_literal, read_json_lines
from mbbq_gen.core.records import Instance, NonBlank, Polarity

CATEGORY: Final = "gender_identity"


class GgBbqRow(PublishedRow):
    """One published row."""

    index: int
    context: NonBlank
    question: NonBlank
    label: Label
    choice_0: NonBlank
    choice_1: NonBlank
    choice_2: NonBlank
    question_type: Polarity
    context_type: Literal["ambiguous_context", "disambiguous_context"]
    known_stereotyped_groups: Json[list[str]]
    relevant_social_values: str | None
    choice_info: Annotated[dict[int, tuple[str, str]], BeforeValidator(python_literal)]


def read_gg_bbq(parts: Parts) -> Iterator[Instance]:
    """Yields the instances of both subsets; the files of a subset number their templates together."""
    templates: dict[str, dict[tuple[str, str], int]] = {}
    ((split_info, paths),) = parts
    info = replace(split_info, category=CATEGORY)
    for path in paths:
        subcategory = "proper_names" if "proper_names" in path.name else "groups"
        numbers = templates.setdefault(subcategory, {})
        polarities, number = {"question_type": ("negative", "non_negative")}, 0
        for pair in in_groups(read_json_lines(path, GgBbqRow), polarities, {"context": "another context"}):
            questions = pair[0][1].question.strip(), pair[1][1].question.strip()
            template = f"{subcategory}-{numbers.setdefault(questions, len(numbers) + 1)}"
            for location, row in pair:
                if row.index != number:
                    raise location.error(f"{row.index} where {number} comes next; a row is missing", "index")
                number += 1
                if sorted(row.choice_info) != [0, 1, 2]:
                    raise location.error("must hold option and group for 0, 1 and 2", "choice_info")
                groups = [row.choice_info[index][1] for index in range(3)]
                if (count := groups.count("unknown")) != 1:
                    raise location.error(f"{count} options have the group 'unknown', not one", "choice_info")
                unknown, listed = groups.index("unknown"), row.known_stereotyped_groups
                kind = "disamb" if row.context_type == "disambiguous_context" else "amb"
                # Every list of stereotyped trans people holds "trans".
                as_listed = ["trans" if group == "non_binary" else group for group in groups]
                target = only_stereotyped(as_listed, listed, unknown)
                texts = (row.choice_0, row.choice_1, row.choice_2)
                yield build_instance(
                    info,
                    location,
                    PublishedOptions(texts, unknown, target, row.label, groups),
                    instance_id=f"{subcategory}/{kind}/{row.index}",
                    template_id=f"{CATEGORY}/{template}",
                    subcategory=subcategory,
                    reason=no_target_reason(groups, listed, unknown),
                    condition=row.context_type,
                    polarity=row.question_type,
                    context=row.context,
                    question=row.question,
                    metadata={
                        "source_row": location.source_row(CATEGORY, row.index),
                        "stereotyped_groups": listed,
                        "social_value": row.relevant_social_values,
                        "proper_names": subcategory == "proper_names",
                    },
                )
