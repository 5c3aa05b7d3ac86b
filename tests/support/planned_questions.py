"""The planned requests of a run folder, found by their messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from mbbq_gen.core.files import stable_digest
from mbbq_gen.core.records import Request
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.storage.store import RunStore

Turn = tuple[str, str]
"""Role and text of a message."""


def digest_of(turns: Sequence[Turn]) -> str:
    """A digest of a conversation, whatever the API, model and settings."""
    return stable_digest(*(part for turn in turns for part in turn))[:32]


class PlannedQuestions:
    """The questions of a run folder, by their exact messages; the run may be planned while the service is up."""

    def __init__(self, path: Path) -> None:
        self._folder = RunFolder(path)
        self.store: RunStore | None = None
        self._keys: dict[str, str] = {}
        self._last: tuple[int, str] | None = None

    def find(self, digest: str) -> Request | None:
        """The planned request with exactly these messages."""
        if digest not in self._keys and (self.store or self._folder.manifest_path.is_file()):
            self.store = self.store or self._folder.open_store(read_only=True)
            last = self.store.query("SELECT number, prompt_id FROM prompts ORDER BY number DESC LIMIT 1").fetchone()
            if last is not None and last != self._last:
                self._last, self._keys = last, {}
                for key, record in self.store.query("SELECT request_key, record FROM prompts ORDER BY number"):
                    turns = [(message["role"], message["content"]) for message in json.loads(record)["messages"]]
                    self._keys.setdefault(digest_of(turns), key)
        key = self._keys.get(digest)
        return None if key is None or self.store is None else self.store.request(key)
