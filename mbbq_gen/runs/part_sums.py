"""A run's observations added up part after part, here or by workers: what scores need, without a row an answer.

Each part (`RunStore.parts`) is read from the run's file, observed and added up by itself (`scoring.sums`); at no time
is there more than one part in a process, and the sums are as small for a hundred million answers as for a thousand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mbbq_gen.runs.reading import observations
from mbbq_gen.runs.store import Part, RunStore
from mbbq_gen.scoring.observations import Labels
from mbbq_gen.scoring.sums import added, sums

if TYPE_CHECKING:
    import polars

    from mbbq_gen.runs.spread.helpers import Helpers

PART: Final = 20_000
"""Presentations of a part, about: some tens of megabytes while they are added up."""


@dataclass(frozen=True)
class Wanted:
    """What is to be added up."""

    store: Path
    """The run's file; workers reach it under that name."""
    versions: Mapping[str, Sequence[str]]
    """Language → the extractor versions whose readings count."""
    model: str
    labels: Labels
    groups: tuple[str, ...]
    """Columns of the groups of the scores."""
    beside: tuple[str, ...] = ()
    """Columns that other scores of the same table are grouped by."""

    def __call__(self) -> Callable[[Part], polars.DataFrame]:
        """Opens the file, once for each worker, and gives what adds up a part."""
        store = RunStore(self.store, read_only=True)

        def add_up(part: Part) -> polars.DataFrame:
            frame = observations(store, self.versions, self.model, self.labels, part)
            return sums(frame, self.groups, self.beside)

        return add_up


def add_up_run(
    store: RunStore, wanted: Wanted, helpers: Helpers | None = None, *, size: int = PART
) -> polars.DataFrame:
    """The observations of a run, added up, by workers where there are some.

    Raises:
        RunError: where its answers are not in the order of its questions.
    """
    parts = store.parts(size)
    return added(map(wanted(), parts) if helpers is None else helpers.each(wanted, parts))
