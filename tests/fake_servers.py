"""A fake server on a free port for tests: `with fake_server() as server:`, or the fixture `fake` (import it by name).

from tests.fake_servers import fake_server

with fake_server({"answers": {"oracle": "stereotyped"}}, run=run_path) as server:
    … ask server.openai (a base URL with /v1) or server.root (Anthropic, Gemini) …
    server.change({"faults": {"rate_limited": 0.1}})
    assert server.stats().paid_again == 0
    assert server.count([("user", "Who?")]).asked == 1
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.fake_server.asked import Turn, digest_of
from mbbq_gen.fake_server.ledger import Count, Stats
from mbbq_gen.fake_server.questions import Questions, RunQuestions
from mbbq_gen.fake_server.running import serving
from mbbq_gen.fake_server.scenario import read_scenario
from mbbq_gen.fake_server.service import FakeService


@dataclass(frozen=True)
class FakeServer:
    """A server that runs, as tests talk to it."""

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
        """What was asked and answered so far."""
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


@contextmanager
def fake_server(
    scenario: Mapping[str, Any] | None = None, run: Path | None = None, questions: Sequence[Questions] = ()
) -> Iterator[FakeServer]:
    """A server in a thread; `run` names the run folder whose questions it knows (it may be planned later)."""
    known = [*questions, *([RunQuestions(run)] if run is not None else [])]
    with serving(FakeService(read_scenario(scenario or {}, "test"), known)) as address:
        yield FakeServer(address.root)


@pytest.fixture
def fake() -> Iterator[FakeServer]:
    """A server with the settings as they come."""
    with fake_server() as server:
        yield server
