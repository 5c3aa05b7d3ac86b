"""Progress listeners of a run, and progress bars."""

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
"""Gets the number of steps finished since the last call."""
Status = Callable[[], str]
"""Returns a few words, such as the number of requests under way; it may be called on any thread."""

_log = logging.getLogger(__name__)


class ProgressListener(Protocol):
    """Gets the messages and the progress of a run."""

    def say(self, text: str) -> None:
        """Gets a message for the user."""

    def stage(
        self, stage: Stage, total: int | None = None, status: Status = lambda: ""
    ) -> AbstractContextManager[Advance]:
        """Starts a stage; the context is a function that gets the steps finished since its last call."""


@dataclass(frozen=True)
class ProgressEvent:
    """The progress of a stage of a run."""

    stage: Stage
    done: int
    """Questions read and prompts made in planning; answers in other stages."""
    total: int | None
    """None if it is not known in advance."""
    status: str = ""
    """A few words, such as the number of requests under way."""


@dataclass(frozen=True)
class CallbackListener:
    """A listener made of two functions."""

    on_step: Callable[[ProgressEvent], None] = lambda _: None
    on_message: Callable[[str], None] = _log.info

    def say(self, text: str) -> None:
        """Passes the message on."""
        self.on_message(text.strip())

    @contextmanager
    def stage(self, stage: Stage, total: int | None = None, status: Status = lambda: "") -> Iterator[Advance]:
        """Passes the progress on, as the total of finished steps."""
        done = 0

        def advance(steps: int) -> None:
            nonlocal done
            done += steps
            self.on_step(ProgressEvent(stage, done, total, status()))

        yield advance


@dataclass
class Bar:
    """A progress bar on a terminal that appears after `delay` seconds. Title and total may change."""

    title: str
    total: int | None
    unit: str
    delay: float = 1.0
    status: Status = lambda: ""
    done: int = 0
    _progress: Progress | None = None

    def __enter__(self) -> Self:
        self._begin, self._is_terminal = time.monotonic() + self.delay, sys.stderr.isatty()
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
        elif self._is_terminal and time.monotonic() >= self._begin:
            from rich.console import Console
            from rich.progress import Progress

            self._progress = Progress(*_columns(self.unit, self.status), console=Console(stderr=True))
            self._progress.start()
            self._progress.add_task(self.title, total=self.total, completed=self.done)


@dataclass(frozen=True)
class ProgressBars:
    """A `ProgressListener` that shows a bar for each long stage."""

    say: Callable[[str], None]
    """Gets the messages."""

    @contextmanager
    def stage(self, stage: Stage, total: int | None = None, status: Status = lambda: "") -> Iterator[Advance]:
        """Shows a bar on a terminal, elsewhere nothing."""
        unit, delay = "steps" if stage == "planning" else "answers", 0.0 if stage == "asking" else 1.0
        with Bar(stage, total, unit, delay=delay, status=status) as bar:
            yield bar.advance


def _columns(unit: str, status: Status) -> list[ProgressColumn]:
    from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class SpeedColumn(ProgressColumn):
        """Finished steps per second, and the status."""

        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            rate = "" if speed is None else f"{speed:,.1f} {unit}/s  "
            return Text(rate + (status() if not task.finished else ""))

    return [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), SpeedColumn()]
