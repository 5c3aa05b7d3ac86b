"""Answers whose right reading somebody has said, as a table of observations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars


@dataclass(frozen=True)
class LabelledFrame:
    """Labelled answers, and what was left out of them."""

    source: str
    """Who gave the labels."""
    frame: polars.DataFrame
    """The observations as they were read, with `presentation_id`, `weight` (answers that each stands for), and of the
    label `right_outcome`, `right_role`, `right_index` and `right_cell`. A label that only says what is wrong makes a
    row for each other answer."""
    labels: int
    """Answers that have one."""
    undrawn: int
    """Judged answers that are in no sample: they are left out."""
    half_told: int
    """Labels that only say what is wrong; the other answers share their weight."""
    outdated: int
    """Labels that only said that a reading is wrong which has changed since: they are left out."""


def joined(parts: Iterable[LabelledFrame]) -> LabelledFrame:
    """The labelled answers of several runs, by one source."""
    import polars as pl

    found = list(parts)
    return LabelledFrame(
        source=found[0].source,
        frame=pl.concat([part.frame for part in found]),
        labels=sum(part.labels for part in found),
        undrawn=sum(part.undrawn for part in found),
        half_told=sum(part.half_told for part in found),
        outdated=sum(part.outdated for part in found),
    )
