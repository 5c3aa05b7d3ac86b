"""Who watches a run while it is planned, asked and read: told in sentences, and how far each stage is."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol

Stage = Literal["planning", "asking", "collecting", "reading"]
Advance = Callable[[int], None]
"""Takes how many steps were finished since it was last called."""

_log = logging.getLogger(__name__)


class Watcher(Protocol):
    """Hears what a run has to tell."""

    def say(self, text: str) -> None:
        """Takes a sentence that a person should know beside the result."""

    def stage(self, stage: Stage, total: int | None = None) -> AbstractContextManager[Advance]:
        """Opens a stage of so many steps (None: nobody knows); what it gives is told of each few that are finished."""


@dataclass(frozen=True)
class Step:
    """How far a stage of a run is."""

    stage: Stage
    done: int
    """Questions read and presentations made while planning; answers in the other stages."""
    total: int | None
    """None where nobody knows beforehand."""


@dataclass(frozen=True)
class Listener:
    """A watcher made of functions: what a caller from Python gives."""

    on_step: Callable[[Step], None] = lambda _: None
    on_words: Callable[[str], None] = _log.info

    def say(self, text: str) -> None:
        """Passes the sentence on."""
        self.on_words(text.strip())

    @contextmanager
    def stage(self, stage: Stage, total: int | None = None) -> Iterator[Advance]:
        """Tells of the stage with its sums."""
        done = 0

        def advance(steps: int) -> None:
            nonlocal done
            done += steps
            self.on_step(Step(stage, done, total))

        yield advance
