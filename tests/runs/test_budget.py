from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.core.records import Request, Response, Usage
from mbbq_gen.providers.http.errors import max_usage, unmetered_usage
from mbbq_gen.providers.prices import Price
from mbbq_gen.runs.budget import CostGuard, InFlightLog, load_unmetered
from mbbq_gen.runs.executor import open_cost_guard
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.storage.store import RunStore
from tests.fake_service.client import FakeServer, fake_server
from tests.support import api as api_support
from tests.support.cases import cases
from tests.support.extraction import Capture, call
from tests.support.prices import write_prices

pytestmark = pytest.mark.usefixtures("api_keys")

DOLLAR_A_TOKEN = 1_000_000.0
"""For a million of them: sums in these tests are tokens."""
ONE = Price.model_validate(
    {"kind": "openai", "models": ["fake"], "input": DOLLAR_A_TOKEN, "output": DOLLAR_A_TOKEN, "date": "2026-01-01"}
)

Go = Callable[..., tuple[int, str, str]]
"""Runs a command: its exit code, stdout, stderr."""


@pytest.fixture
def go(capsys: Capture) -> Go:
    return partial(call, capsys)


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    return write_prices(tmp_path, batch_input=DOLLAR_A_TOKEN, batch_output=DOLLAR_A_TOKEN)


def command(run: Path, server: FakeServer, prices: Path, *more: object) -> list[object]:
    asked = ["--model", "openai:fake", "--base-url", server.openai, "--benchmark", "starter", "--languages", "en"]
    return ["run", run, *asked, "--variants", "polite", "--sample", 40, "--prices", prices, *more]


def bill_of(go: Go, run: Path) -> dict[str, Any]:
    return dict(json.loads(go("status", run, "--json")[1])["cost_report"])


def test_what_no_service_counts_is_spent_for_good(run_path: Path, go: Go, prices: Path) -> None:
    with fake_server({"answers": {"usage": "missing"}}) as server:
        given = command(run_path, server, prices, "--max-tokens", 100, "--max-cost", 20_000)
        code, _, error = go(*given)
        assert (code, "--max-cost 20000" in error) == (1, True)
        paid = server.stats().paid
        assert 5 < paid < 80
        for again in (["run", run_path], given, ["run", run_path, "--max-cost", 20_000]):
            assert go(*again)[0] == 1
        assert server.stats().paid == paid
    bill = bill_of(go, run_path)
    assert bill["unmetered"] == paid
    assert 100 * paid < bill["unmetered_cost"] <= 20_000
    assert f"${bill['unmetered_cost']:,.2f} for {paid} requests" in go("report", run_path)[1]


@pytest.mark.parametrize("more", [("--model-arg", 'extra={"max_tokens": 5000}'), ("--max-connections", 2)])
def test_long_answers_that_extra_asks_for_or_nobody_are_counted(
    more: tuple[object, ...], run_path: Path, go: Go, prices: Path
) -> None:
    with fake_server({"answers": {"output_tokens": 5000}}) as server:
        assert go(*command(run_path, server, prices, *more, "--max-tokens", 10, "--max-cost", 60_000))[0] == 1
        stats = server.stats()
    assert stats.paid > 5
    assert stats.input_tokens + stats.output_tokens <= 60_000


@pytest.mark.parametrize("fault", ["lost", "cut", "malformed"])
def test_tries_that_broke_off_are_spent(fault: str, run_path: Path, go: Go, prices: Path) -> None:
    with fake_server({"faults": {fault: 1.0, "most_per_request": 2}, "answers": {"output_tokens": 100}}) as server:
        given = command(run_path, server, prices, "--max-tokens", 100, "--max-cost", 30_000)
        codes = {go(*given)[0] for _ in range(3)}
        stats = server.stats()
    assert codes == {1}
    assert stats.paid > 10
    assert stats.input_tokens + stats.output_tokens <= 30_000
    assert bill_of(go, run_path)["unmetered"] > 0


def test_being_told_to_wait_costs_nothing(run_path: Path, go: Go, prices: Path) -> None:
    faults = {"rate_limited": 0.3, "server_error": 0.3, "server_statuses": [500, 503, 529], "retry_after_s": 0.01}
    with fake_server({"faults": faults}) as server:
        assert go(*command(run_path, server, prices, "--max-cost", 1e9))[0] == 0
        assert server.stats().by_fault.keys() == {"rate_limited", "server_error"}
    assert bill_of(go, run_path)["unmetered"] == 0


def test_batches_whose_tokens_nobody_counts_are_spent(run_path: Path, go: Go, prices: Path) -> None:
    with fake_server({"answers": {"usage": "missing"}}, run=run_path) as server:
        given = ["--max-tokens", 100, "--max-cost", 20_000, "--batch"]
        go(*command(run_path, server, prices, *given))
        for _ in range(4):
            go("run", run_path)
        paid = server.stats().paid
        assert 5 < paid < 80
        bill = bill_of(go, run_path)
    assert bill["unmetered"] == paid
    assert 100 * paid < bill["unmetered_cost"] <= 20_000


def test_batches_made_without_a_limit_count_as_soon_as_there_is_one(run_path: Path, go: Go, prices: Path) -> None:
    with fake_server({"batches": {"delay_s": 3600}}, run=run_path) as server:
        assert go(*command(run_path, server, prices, "--max-tokens", 100, "--batch"))[0] == 0
        asked = api_support.provider("openai:fake", base_url=server.openai, max_tokens=100)
    with RunFolder(run_path).open_store() as store:
        config = RunFolder(run_path).manifest().config
        held = open_cost_guard(store, asked, config, 1e9, for_batches=True).spent
        requests = len(list(store.pending()))
    assert requests > 70
    assert held > 100 * (requests - 1)


DESCRIPTION = """
url = "{root}/v1/chat/completions"
[body]
model = "fake"
messages = "{{messages}}"
{length}
[answer]
text = "choices.0.message.content"
"""


def test_a_limit_needs_a_bound_on_the_wire(tmp_path: Path, go: Go, prices: Path) -> None:
    write_prices(prices.parent, "http:e.toml")
    chosen = ["--benchmark", "starter", "--languages", "en", "--sample", 5, "--prices", prices, "--max-cost", 1e9]
    with fake_server() as server:
        for length, code in (("", 2), ('answer_budget = "{max_tokens}"', 0)):
            file = tmp_path / "e.toml"
            file.write_text(DESCRIPTION.format(root=server.root, length=length), encoding="utf-8")
            ended, _, error = go("run", tmp_path / f"run{code}", "--model", f"http:{file}", *chosen)
            assert ended == code, error
            assert ("--max-cost" in error) == (code == 2)
    assert bill_of(go, tmp_path / "run0")["unmetered"] > 0  # the file names no places for tokens


@pytest.mark.parametrize(("body", "written"), cases("runs/budget", "the_longest_answer_is_read_from_the_body"))
def test_the_longest_answer_is_read_from_the_body(body: dict[str, Any], written: int | None) -> None:
    found = max_usage(body)
    assert (None if found is None else found.output_tokens) == written
    assert found is None or (found.input_tokens or 0) >= len(json.dumps(body).encode())


@pytest.mark.parametrize(("usage", "has_text", "missing"), cases("runs/budget", "what_is_missing_from_a_count"))
def test_what_is_missing_from_a_count(usage: dict[str, int], has_text: bool, missing: list[int] | None) -> None:
    response = Response(request_key="k", text="A" if has_text else "", usage=Usage(**usage))
    found = unmetered_usage(response, Usage(input_tokens=50, output_tokens=20))
    assert (found and [found.input_tokens, found.output_tokens]) == missing


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with RunStore(tmp_path / "run.sqlite") as store:
        yield store


MOST = Usage(input_tokens=60, output_tokens=40)


def guard(store: RunStore, limit: float, spent: float = 0.0) -> CostGuard:
    return CostGuard(limit, ONE, spent, lambda _: MOST, InFlightLog(store))


def answer(request: Request, tokens: int | None) -> tuple[Response, str]:
    usage = Usage() if tokens is None else Usage(input_tokens=tokens, output_tokens=0)
    uncounted = MOST if tokens is None else None
    return Response(request_key=request.request_key, text="A", usage=usage, unmetered_usage=uncounted), "2026-01-01"


def test_a_killed_process_leaves_its_sendings_spent(store: RunStore) -> None:
    first = guard(store, 550)
    handed_out = list(first.admit(iter(api_support.requests(9))))
    assert len(handed_out) == 5
    assert load_unmetered(store).under_way.requests == 5
    first.in_flight.store_responses([answer(handed_out[0], 10), answer(handed_out[1], None)])
    found = load_unmetered(store)
    assert (found.lost.requests, found.under_way.requests) == (1, 3)
    after = InFlightLog(store)  # another process, after `kill -9`
    assert after.n_unmetered == 4
    assert load_unmetered(store).requested.usage == Usage(input_tokens=240, output_tokens=160)


def test_what_was_never_sent_is_not_spent(store: RunStore) -> None:
    first = guard(store, 10_000)
    handed_out = list(first.admit(iter(api_support.requests(5))))
    first.in_flight.end({handed_out[2].request_key: 1, handed_out[3].request_key: 0})
    assert load_unmetered(store).requested.usage == Usage(input_tokens=60, output_tokens=40)


def test_another_try_needs_money_of_its_own(store: RunStore) -> None:
    found = guard(store, 350)
    first, second, third = found.admit(iter(api_support.requests(9)))
    assert not found.reserve_again(first)
    found.settle([answer(third, 60)[0]])
    assert not found.reserve_again(second)
    assert guard(store, 350, spent=250).reserve_again(first)


def test_a_failure_that_is_asked_again_stays_spent(store: RunStore) -> None:
    (request,) = api_support.requests(1)
    InFlightLog(store).store_responses(
        [(Response(request_key=request.request_key, error="x", unmetered_usage=MOST), "t")]
    )
    InFlightLog(store).store_responses([answer(request, 5)])
    assert load_unmetered(store).lost.requests == 1


# --- services that do not keep to the bound, and runs without a limit -------------------------------------------------


def test_the_bound_is_learned_from_the_first_answer_beyond_it(store: RunStore) -> None:
    found = guard(store, 5000)
    pending = iter(api_support.requests(99))
    wanted = found.admit(pending)
    first = next(wanted)
    found.settle([answer(first, 1000)[0]])
    assert found.in_flight.excess == 10
    assert list(wanted) == [], "those that were admitted with it are withdrawn"
    assert len(list(found.admit(pending))) == 4  # each may now take 1,000
    found.in_flight.store_responses([answer(first, 1000)])
    again = InFlightLog(store)
    assert again.excess == 10
    assert load_unmetered(store).requested.output_tokens >= 4 * 400


@pytest.mark.parametrize("usage", ["told", "missing"])
def test_long_answers_pass_the_limit_by_those_under_way_only(usage: str, tmp_path: Path, go: Go, prices: Path) -> None:
    """Answers of 2,000 characters to requests that allow ten tokens."""
    answers: dict[str, Any] = {"usage": usage, "padding": 2000, "output_tokens": 2000}
    with fake_server({"answers": answers}) as server:
        run = tmp_path / "run"
        code, _, error = go(*command(run, server, prices, "--max-tokens", 10, "--max-cost", 20_000))
        stats = server.stats()
    assert code == 1
    assert stats.input_tokens + stats.output_tokens <= 20_000 + 4 * 3_000
    assert 0 < stats.paid < 20
    assert "--max-cost 20000" in error
    bill = bill_of(go, run)
    known = sum(line["cost"] or 0 for line in bill["lines"])
    assert known + bill["unmetered_cost"] >= stats.input_tokens + stats.output_tokens


def test_a_kill_of_a_run_without_a_limit_leaves_its_requests_on_the_bill(store: RunStore) -> None:
    log, in_doubt = InFlightLog(store), dict[str, int]()
    wanted = log.watch(iter(api_support.requests(500)), lambda _: MOST, in_doubt)
    sent = [next(wanted) for _ in range(100)]
    log.store_responses([answer(request, 10) for request in sent[:60]])
    found = load_unmetered(store).under_way
    assert 40 <= found.requests <= 40 + 2 * 60
    assert found.output_tokens == 40 * found.requests
    assert InFlightLog(store).n_unmetered == found.requests


def test_a_stop_leaves_those_under_way(store: RunStore) -> None:
    log, in_doubt = InFlightLog(store), dict[str, int]()
    sent = list(log.watch(iter(api_support.requests(50)), lambda _: MOST, in_doubt))
    in_doubt |= {request.request_key: 1 for request in sent[:7]}
    log.end(in_doubt)
    assert load_unmetered(store).requested.requests == 7
