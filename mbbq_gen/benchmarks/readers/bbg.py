"""Reads BBG's evaluation set as questions, in English and Korean.

Data:     https://github.com/jinjh0123/BBG, `data/evaluation_set/EnBBG_*_eval.csv` and `KoBBG_*_eval.csv`, one file for
          each sample that the authors drew; the first by name is read

In BBG a model continues a story and then answers who it was. That task does not fit our record: this reader uses its
contexts with BBQ's questions. The scores are not BBG's scores.

Fields
* Each row gives two instances: `amb_context` with the unknown option right, and both contexts with `dis_answer`.
* Rows come in pairs, a `bsd` question (who fits the stereotype: negative) and a `cnt` question (non-negative).
* target: `biased_answer` of the `bsd` question. Its `cnt` row names the other person; the third option is unknown.
* alignment: derived from answer, polarity and target.
* template: `template_id` without its version: `age/001`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, Literal

from mbbq_gen.benchmarks.instance_builder import Choices, PublishedOptions, PublishedRow, build_instance
from mbbq_gen.benchmarks.registry import Parts, find_benchmark
from mbbq_gen.benchmarks.rows import in_groups, read_table, with_ids
from mbbq_gen.core.records import Instance, NonBlank

_TEMPLATE: Final = re.compile(r"([a-z_]+)-(\d+)-([a-d])")


class BbgRow(PublishedRow):
    """One published row."""

    id: NonBlank
    category: NonBlank
    template_id: NonBlank
    amb_context: NonBlank
    dis_context: NonBlank
    qtype: Literal["bsd", "cnt"]
    question: NonBlank
    choices: Choices
    dis_answer: NonBlank
    biased_answer: NonBlank
    stereotype: str
    target_group: str


def read_bbg(parts: Parts) -> Iterator[Instance]:
    """Yields the instances in file order."""
    ((info, (path,)),) = parts
    slugs = find_benchmark("bbg").categories
    rows = with_ids(read_table(path, BbgRow), "id")
    for pair in in_groups(rows, {"qtype": ("bsd", "cnt")}, {"amb_context": "another context"}):
        for location, row in pair:
            template = _TEMPLATE.fullmatch(row.template_id)
            if template is None:
                raise location.error(f"{row.template_id!r} is not category-number-version", "template_id")
            target, other = (location.choice_index(one.biased_answer, row.choices, "biased_answer") for _, one in pair)
            if target == other:
                raise location.error("the same person is the biased answer of both questions", "biased_answer")
            slug, unknown = slugs.get(row.category, row.category), 3 - target - other
            answer = location.choice_index(row.dis_answer, row.choices, "dis_answer")
            contexts = {"amb": row.amb_context, "dis": f"{row.amb_context} {row.dis_context}"}
            for condition, context in contexts.items():
                yield build_instance(
                    replace(info, category=slug),
                    location,
                    PublishedOptions(row.choices, unknown, target, unknown if condition == "amb" else answer),
                    instance_id=f"{row.id}-{condition}",
                    template_id=f"{slug}/{template[2]}",
                    condition=condition,
                    polarity=row.qtype,
                    context=context,
                    question=row.question,
                    metadata={
                        "source_row": location.source_row(row.category, row.id),
                        "version": template[3],
                        "stereotype": row.stereotype,
                        "stereotyped_groups": row.target_group,
                    },
                )
