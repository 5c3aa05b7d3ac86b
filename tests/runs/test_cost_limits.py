"""Services that do not keep to the longest answer, limits that slow a run down, and kills of runs without a limit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.core.records import Request, Response, Usage
from mbbq_gen.providers.prices import Price
from mbbq_gen.runs.budget import CostGuard, CostLimitError, InFlightLog, load_unmetered
from mbbq_gen.storage.store import RunStore
from tests.fake_service.client import FakeServer, fake_server
from tests.runs.test_budget import Go, go, store
from tests.support.api import requests
from tests.support.prices import write_prices

pytestmark = pytest.mark.usefixtures("api_keys")

DOLLAR_A_TOKEN = Price.model_validate(
    {"kind": "openai", "models": ["fake"], "input": 1_000_000.0, "output": 1_000_000.0, "date": "2026-01-01"}
)
MOST = Usage(input_tokens=60, output_tokens=40)

__all__ = ["go", "store"]


def command(folder: Path, server: FakeServer, *more: object) -> list[object]:
    prices = write_prices(folder)
    asked = ["--model", "openai:fake", "--base-url", server.openai, "--benchmark", "starter", "--languages", "en"]
    return ["run", folder / "run", *asked, "--variants", "polite", "--sample", 40, "--prices", prices, *more]


def guard(store: RunStore, limit: float, spent: float = 0.0) -> CostGuard:
    """A budget for which each request takes 100 tokens at most, of a dollar each."""
    return CostGuard(limit, DOLLAR_A_TOKEN, spent, lambda _: MOST, InFlightLog(store))


def answer(request: Request, tokens: int) -> Response:
    usage = Usage(input_tokens=tokens, output_tokens=0)
    return Response(request_key=request.request_key, text="A", usage=usage)


def test_the_bound_is_learned_from_the_first_answer_beyond_it(store: RunStore) -> None:
    found = guard(store, 5000)
    wanted = found.admit(iter(requests(99)))
    first = next(wanted)
    found.settle([answer(first, 1000)])
    assert found.in_flight.excess == 10
    assert len(list(wanted)) == 4  # each may now take 1,000
    found.in_flight.store_responses([(answer(first, 1000), "2026-01-01")])
    again = InFlightLog(store)
    assert again.excess == 10
    assert load_unmetered(store).requested.output_tokens >= 4 * 400


def test_the_message_tells_when_the_limit_was_passed(store: RunStore) -> None:
    found = guard(store, 250)
    wanted = list(found.admit(iter(requests(9))))
    assert len(wanted) == 2
    found.settle([answer(request, 300) for request in wanted])
    with pytest.raises(CostLimitError, match=r"\$600.* more than --max-cost 250.* 3 times"):
        found.check()


def test_a_limit_that_slows_the_run_down_says_so_once(store: RunStore) -> None:
    found, said = guard(store, 1000), list[str]()
    found.notify = said.append
    for _ in range(2):
        wanted = list(found.admit(iter(requests(30))))
        found.settle([answer(request, 10) for request in wanted])
        assert found.check()
    assert len(said) == 1
    assert "--max-cost 1000" in said[0]


@pytest.mark.parametrize("usage", ["told", "missing"])
def test_long_answers_pass_the_limit_by_those_under_way_only(usage: str, tmp_path: Path, go: Go) -> None:
    """Answers of 2,000 characters to requests that allow ten tokens."""
    answers: dict[str, Any] = {"usage": usage, "padding": 2000, "output_tokens": 2000}
    with fake_server({"answers": answers}) as server:
        code, _, error = go(*command(tmp_path, server, "--max-tokens", 10, "--max-cost", 20_000))
        stats = server.stats()
    assert code == 1
    assert stats.input_tokens + stats.output_tokens <= 20_000 + 4 * 3_000
    assert 0 < stats.paid < 20
    assert "--max-cost 20000" in error
    bill = json.loads(go("status", tmp_path / "run", "--json")[1])["cost_report"]
    known = sum(line["cost"] or 0 for line in bill["lines"])
    assert known + bill["unmetered_cost"] >= stats.input_tokens + stats.output_tokens


def test_a_kill_of_a_run_without_a_limit_leaves_its_requests_on_the_bill(store: RunStore) -> None:
    log, in_doubt = InFlightLog(store), dict[str, int]()
    wanted = log.watch(iter(requests(500)), lambda _: MOST, in_doubt)
    sent = [next(wanted) for _ in range(100)]
    log.store_responses([(answer(request, 10), "2026-01-01") for request in sent[:60]])
    found = load_unmetered(store).under_way
    assert 40 <= found.requests <= 40 + 2 * 60
    assert found.output_tokens == 40 * found.requests
    assert InFlightLog(store).n_unmetered == found.requests


def test_a_run_without_a_limit_that_ends_leaves_nothing(store: RunStore) -> None:
    log, in_doubt = InFlightLog(store), dict[str, int]()
    sent = list(log.watch(iter(requests(50)), lambda _: MOST, in_doubt))
    log.store_responses([(answer(request, 10), "2026-01-01") for request in sent])
    log.end(in_doubt)
    assert load_unmetered(store).requested.requests == 0


def test_a_stop_leaves_those_under_way(store: RunStore) -> None:
    log, in_doubt = InFlightLog(store), dict[str, int]()
    sent = list(log.watch(iter(requests(50)), lambda _: MOST, in_doubt))
    in_doubt |= {request.request_key: 1 for request in sent[:7]}
    log.end(in_doubt)
    assert load_unmetered(store).requested.requests == 7
