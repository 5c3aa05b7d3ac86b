"""Finds the question that a conversation asks, so that an oracle can answer it: in the store of a planned run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from mbbq_gen.fake_server.asked import Turn, digest_of
from mbbq_gen.records import Request
from mbbq_gen.runs.folder import RunFolder
from mbbq_gen.runs.store import RunStore


class Questions(Protocol):
    """Knows questions."""

    def find(self, turns: Sequence[Turn], digest: str) -> Request | None:
        """The question that a conversation asks, with the way it is shown; None where it is not known."""

    def close(self) -> None:
        """Frees what is held."""


class RunQuestions:
    """The questions of a run folder, by the exact messages that its plan sends.

    The run may be planned while the server is up already: when messages come that are not known, the plan is read on.
    """

    def __init__(self, path: Path) -> None:
        self._folder = RunFolder(path)
        self._store: RunStore | None = None
        self._numbers: dict[str, int] = {}
        self._last: tuple[int, str] | None = None

    def find(self, turns: Sequence[Turn], digest: str) -> Request | None:
        """The planned request with exactly these messages."""
        if digest not in self._numbers:
            self._read_on()
        number = self._numbers.get(digest)
        return None if number is None or self._store is None else self._store.planned_request(number)

    def close(self) -> None:
        """Closes the store."""
        if self._store is not None:
            self._store.close()

    def _read_on(self) -> None:
        """Learns what was planned since; a plan that was made anew is read from its start."""
        if self._store is None:
            if not self._folder.manifest_path.is_file():
                return  # nothing is planned yet
            self._store = self._folder.open_store(read_only=True)
        last = self._store.last_planned()
        if last is None or last == self._last:
            return
        self._numbers.clear()
        for number, messages in self._store.planned_messages(after=0):
            turns = [Turn(message["role"], message["content"]) for message in json.loads(messages)]
            self._numbers.setdefault(digest_of(turns), number)
        self._last = last
