"""A fake server on a free port for tests: `with fake_server() as server:`, or the fixture `fake` (import it by name).

from tests.fake_servers import fake_server

with fake_server({"answers": {"oracle": "stereotyped"}}, run=run_path) as server:
    … ask server.openai (a base URL with /v1) or server.root (Anthropic, Gemini) …
    server.change({"faults": {"rate_limited": 0.1}})
    assert server.stats().paid_again == 0
    assert server.count([("user", "Who?")]).asked == 1
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.fake_server.client import FakeServer
from mbbq_gen.fake_server.questions import Questions, RunQuestions
from mbbq_gen.fake_server.running import serving
from mbbq_gen.fake_server.scenario import read_scenario
from mbbq_gen.fake_server.service import FakeService


@contextmanager
def fake_server(
    scenario: Mapping[str, Any] | None = None,
    run: Path | None = None,
    questions: Sequence[Questions] = (),
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[FakeServer]:
    """A server in a thread; `run` names the run folder whose questions it knows (it may be planned later).

    `clock` is what batches go by.
    """
    known = [*questions, *([RunQuestions(run)] if run is not None else [])]
    with serving(FakeService(read_scenario(scenario or {}, "test"), known, clock=clock)) as address:
        yield FakeServer(address.root)


@pytest.fixture
def fake() -> Iterator[FakeServer]:
    """A server with the settings as they come."""
    with fake_server() as server:
        yield server
