"""How the commands tell how far they are: words and bars on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mbbq_gen.cli.options import say
from mbbq_gen.runs.bars import Bar
from mbbq_gen.runs.watching import BARS, Stage


class Terminal:
    """Watches a run for a person at a terminal (a `runs.watching.Watcher`)."""

    def say(self, text: str) -> None:
        """Says a sentence."""
        say(text)

    @contextmanager
    def stage(self, stage: Stage, total: int | None = None) -> Iterator[Callable[[int], None]]:
        """Shows a bar on a terminal, elsewhere nothing."""
        unit, delay = BARS[stage]
        with Bar(stage, total, unit, delay=delay) as bar:
            yield bar.advance
