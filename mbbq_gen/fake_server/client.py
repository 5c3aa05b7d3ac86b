"""Talks to a fake server that runs, here or in another process: where it is, its settings, what it was asked."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mbbq_gen.fake_server.asked import Turn, digest_of
from mbbq_gen.fake_server.ledger import Count, Stats


@dataclass(frozen=True)
class FakeServer:
    """A server that runs, as tests and benches talk to it."""

    root: str
    """Base URL without a path: for Anthropic, Gemini, Azure."""

    @property
    def openai(self) -> str:
        """Base URL for OpenAI and compatible clients."""
        return f"{self.root}/v1"

    def change(self, changes: Mapping[str, Any]) -> None:
        """Changes settings while it runs; tables are merged."""
        self._admin("PATCH", "scenario", changes)

    def stats(self) -> Stats:
        """What was asked and answered since the last reset."""
        return Stats.model_validate(self._admin("GET", "stats"))

    def count(self, messages: Sequence[tuple[str, str]]) -> Count:
        """How often a conversation of (role, text) was asked and paid."""
        digest = digest_of([Turn(role, text) for role, text in messages])
        return Count.model_validate(self._admin("GET", f"asked?digest={digest}"))

    def counts(self) -> list[Count]:
        """The same for every question."""
        with urllib.request.urlopen(f"{self.root}/admin/asked") as reply:
            return [Count.model_validate_json(line) for line in reply]

    def reset(self) -> None:
        """Sets all counts to nought."""
        self._admin("POST", "reset")

    def _admin(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.root}/admin/{path}", data=data, method=method)
        with urllib.request.urlopen(request) as reply:
            return json.load(reply)
