"""The observer of a run: gets messages, and how far each stage is."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Protocol, Self

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn


Stage = Literal["planning", "asking", "collecting", "reading"]
Advance = Callable[[int], None]
"""Takes how many steps were finished since it was last called."""

_log = logging.getLogger(__name__)


class ProgressListener(Protocol):
    """Hears what a run has to tell."""

    def say(self, text: str) -> None:
        """Takes a sentence that a person should know beside the result."""

    def stage(
        self, stage: Stage, total: int | None = None, status: Callable[[], str] = lambda: ""
    ) -> AbstractContextManager[Advance]:
        """Opens a stage; returns a function that takes the number of steps finished since the last call.

        `status` tells how it stands in a few words, such as the requests under way; may be called on any thread.
        """


@dataclass(frozen=True)
class ProgressEvent:
    """How far a stage of a run is."""

    stage: Stage
    done: int
    """Questions read and prompts made while planning; answers in the other stages."""
    total: int | None
    """None where nobody knows beforehand."""
    status: str = ""
    """How the stage stands in a few words, such as the requests under way."""


@dataclass(frozen=True)
class CallbackListener:
    """A watcher made of functions: what a caller from Python gives."""

    on_step: Callable[[ProgressEvent], None] = lambda _: None
    on_words: Callable[[str], None] = _log.info

    def say(self, text: str) -> None:
        """Passes the sentence on."""
        self.on_words(text.strip())

    @contextmanager
    def stage(
        self, stage: Stage, total: int | None = None, status: Callable[[], str] = lambda: ""
    ) -> Iterator[Advance]:
        """Tells of the stage with its sums."""
        done = 0

        def advance(steps: int) -> None:
            nonlocal done
            done += steps
            self.on_step(ProgressEvent(stage, done, total, status()))

        yield advance


@dataclass
class Bar:
    """Shows how far a piece of work is. It appears after `delay` seconds, so that short work stays quiet.

    Title and total may change while it is shown.
    """

    title: str
    total: int | None
    unit: str
    delay: float = 1.0
    status: Callable[[], str] = lambda: ""
    """Tells how the work stands in a few words, shown at the end of the line."""
    done: int = 0
    _progress: Progress | None = None

    def __enter__(self) -> Self:
        self._begin = time.monotonic() + self.delay
        self.advance(0)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._progress is not None:
            self._progress.stop()

    def advance(self, steps: int = 1) -> None:
        """Counts finished steps."""
        self.done += steps
        if self._progress is not None:
            task = self._progress.task_ids[0]
            self._progress.update(task, description=self.title, total=self.total, completed=self.done)
        elif sys.stderr.isatty() and time.monotonic() >= self._begin:
            from rich.console import Console
            from rich.progress import Progress

            self._progress = Progress(*_columns(self.unit, self.status), console=Console(stderr=True))
            self._progress.start()
            self._progress.add_task(self.title, total=self.total, completed=self.done)


@dataclass(frozen=True)
class ProgressBars:
    """Watches a run with a bar for each long stage (a `ProgressListener`)."""

    say: Callable[[str], None]
    """Takes the sentences."""

    @contextmanager
    def stage(
        self, stage: Stage, total: int | None = None, status: Callable[[], str] = lambda: ""
    ) -> Iterator[Advance]:
        """Shows a bar on a terminal, elsewhere nothing."""
        unit, delay = "steps" if stage == "planning" else "answers", 0.0 if stage == "asking" else 1.0
        with Bar(stage, total, unit, delay=delay, status=status) as bar:
            yield bar.advance


def _columns(unit: str, status: Callable[[], str]) -> list[ProgressColumn]:
    from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class State(ProgressColumn):
        """Finished steps a second, and how the work stands: requests under way, or why none is sent."""

        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            rate = "" if speed is None else f"{speed:,.1f} {unit}/s  "
            return Text(rate + (status() if not task.finished else ""))

    return [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), State()]
