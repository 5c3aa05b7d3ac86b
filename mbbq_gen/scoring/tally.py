"""Counts what stands in a table of observations: cells by group and template, in one pass over the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, get_args

from mbbq_gen.errors import UnknownNameError
from mbbq_gen.records import Outcome
from mbbq_gen.scoring.cells import CELLS, Counts, Undetected, cell_expression, count_matrix
from mbbq_gen.scoring.sums import questions_by, rows_of
from mbbq_gen.scoring.weights import weight_of_rows
from mbbq_gen.scoring.wordings import Wordings

if TYPE_CHECKING:
    import polars

    from mbbq_gen.scoring.cells import Array

GROUPINGS: dict[str, str] = {
    "model": "model",
    "method": "method",
    "benchmark": "benchmark",
    "version": "version",
    "split": "split",
    "language": "language",
    "category": "category",
    "subcategory": "subcategory",
    "template": "template_id",
    "variant": "variant",
    "order": "order",
    "label_style": "label_style",
    "thinking": "thinking",
    "polarity": "polarity",
    "unknown_text": "unknown_text",
    "extractor": "extractor",
    "proper_names": "proper_names",
    "comparison": "comparison",
    "target_group": "target_group",
    "non_target_group": "non_target_group",
}
"""What scores can be grouped by → the column that holds it."""

CLUSTER = ("benchmark", "category", "template_id")
"""What makes a template: all its languages, splits, wordings and orders are one cluster."""
WORDING = "variant"
"""The column that tells wordings apart: one id is one wording, whatever the language."""
_WORDING_CODE = "wording_code"


@dataclass(frozen=True)
class Tally:
    """What was counted in one group."""

    group: dict[str, str | None]
    n_instances: int
    outcomes: dict[Outcome, int]
    pooled: dict[str, int]
    """How many models, splits, benchmarks and ways of asking the group holds."""
    n_corrected: int
    templates: tuple[str, ...]
    """Names of the clusters, sorted: the rows of `cells`."""
    cells: Array
    """Templates × CELLS: how many answers fell into each cell; by their weights, where the design gave some."""
    without_weights: Array | None = None
    """The same without weights; None: `cells` has none."""
    by_wording: Array | None = None
    """Templates × wordings × CELLS, wordings being those of the whole table; None: not asked for."""

    def counts(self, undetected: Undetected, cells: Array | None = None) -> Counts:
        """Named counts by template, or of other tallies of cells."""
        return Counts((self.cells if cells is None else cells) @ count_matrix(), undetected)

    @cached_property
    def total(self) -> Array:
        """All templates together."""
        summed: Array = self.cells.sum(axis=0)
        return summed

    @property
    def asked(self) -> Array:
        """Templates × CELLS: how many answers fell into each cell, whatever they weigh."""
        return self.cells if self.without_weights is None else self.without_weights


def grouping_columns(by: Sequence[str]) -> dict[str, str]:
    """The groupings → their columns, in order; a column's own name is understood too.

    Raises:
        UnknownNameError: where there is no such grouping; it offers the nearest ones.
    """
    names = {column: name for name, column in GROUPINGS.items()}
    for name in by:
        if name not in GROUPINGS and name not in names:
            raise UnknownNameError("grouping", name, GROUPINGS)
    chosen = [names.get(name, name) for name in by]
    return {name: GROUPINGS[name] for name in chosen}


def tally_groups(frame: polars.DataFrame, columns: dict[str, str], wordings: Wordings = "fixed") -> Iterator[Tally]:
    """What every group holds, sorted by the group's values: one pass over the rows, the rest on its small result.

    With `random` wordings they are also counted by wording.
    """
    import polars as pl

    crossed = [WORDING] if wordings == "random" else []

    keys = {f"by_{name}": pl.col(column).cast(pl.String) for name, column in columns.items()}
    template = pl.concat_str([pl.col(column).cast(pl.String) for column in CLUSTER], separator=" / ")
    counted = (
        frame.lazy()
        .with_columns(cell_expression(), was_corrected=pl.col("corrected_index").is_not_null())
        .group_by(
            *dict.fromkeys((*columns.values(), *CLUSTER, "model", "split", "method", *crossed)),
            "outcome",
            "cell",
            "was_corrected",
        )
        .agg(rows_of(frame).alias("rows"), weight_of_rows(frame).alias("weight"))
        .with_columns(**keys, cluster=template, everything=pl.lit(0))
        .collect()
    )
    names = ["everything", *keys]
    instances = {row[:-1]: row[-1] for row in questions_by(frame, everything=pl.lit(0), **keys).rows()}
    clusters = counted["cluster"].unique().sort()
    coded = counted.with_columns(
        pl.col("cluster").replace_strict(clusters, range(len(clusters)), return_dtype=pl.Int32).alias("template"),
        *((pl.col(name).cast(pl.String).fill_null("").rank("dense") - 1).alias(_WORDING_CODE) for name in crossed),
    )
    for values, part in sorted(coded.partition_by(names, as_dict=True).items(), key=lambda item: _order(item[0])):
        group = dict(zip(columns, values[1:], strict=True))
        n_wordings = coded[_WORDING_CODE].n_unique() if crossed else None
        yield _tally_of(part, group, instances[values], clusters.to_list(), n_wordings)


def _order(values: tuple[object, ...]) -> list[tuple[bool, str]]:
    """Sorts group values as text, None last."""
    return [(value is None, str(value)) for value in values]


def _tally_of(
    part: polars.DataFrame,
    group: dict[str, str | None],
    n_instances: int,
    clusters: list[str],
    n_wordings: int | None,
) -> Tally:
    """What one group holds; `template` in `part` is a place in `clusters`, which is sorted."""
    import numpy as np

    rows, weights = part["rows"].to_numpy(), part["weight"].to_numpy()
    outcomes = np.bincount(part["outcome"].to_physical().to_numpy(), rows, len(get_args(Outcome)))
    answered = part["cell"].is_not_null().to_numpy()
    numbers, where = np.unique(part["template"].to_numpy()[answered], return_inverse=True)
    cells, asked = np.zeros((len(numbers), len(CELLS))), np.zeros((len(numbers), len(CELLS)))
    places = (where, part["cell"].fill_null(0).to_numpy()[answered])
    np.add.at(cells, places, weights[answered])
    np.add.at(asked, places, rows[answered])
    by_wording = None
    if n_wordings is not None:
        by_wording = np.zeros((len(numbers), n_wordings, len(CELLS)))
        np.add.at(by_wording, (where, part[_WORDING_CODE].to_numpy()[answered], places[1]), weights[answered])
    return Tally(
        group=group,
        n_instances=n_instances,
        outcomes={outcome: int(count) for outcome, count in zip(get_args(Outcome), outcomes, strict=True)},
        pooled={name: part[name].n_unique() for name in ("model", "split", "benchmark", "method")},
        n_corrected=int(rows[part["was_corrected"].to_numpy()].sum()),
        templates=tuple(clusters[number] for number in numbers),
        cells=cells,
        without_weights=asked,
        by_wording=by_wording,
    )
