from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.core.records import Response, Usage
from mbbq_gen.providers.prices import read_prices
from mbbq_gen.report.run_tables import cost_text
from mbbq_gen.runs.budget import cost_report
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.runs.status import RunStatus, run_status
from tests.support.extraction import Capture, call
from tests.support.prices import write_prices

SELECTION = ["--benchmark", "starter", "--languages", "en", "--variants", "bare", "--sample", "20"]
START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
OTHER_PRICES = {"output": 20.0, "cached_input": 1.0, "batch_input": 5.0, "batch_output": 10.0}


@pytest.fixture
def run(capsys: Capture, run_path: Path) -> Path:
    assert call(capsys, "run", run_path, *SELECTION, "--model", "oracle:perfect", "--json")[0] == 0
    with RunFolder(run_path).open_store() as store:
        store.change(("DELETE FROM responses", [()]), ("DELETE FROM extractions", [()]))
    return run_path


def answer(path: Path, *responses: dict[str, Any], every: float = 1.0) -> None:
    with RunFolder(path).open_store() as store:
        keys = [request.request_key for request in store.pending()]
        for number, (key, fields) in enumerate(zip(keys, responses, strict=False)):
            given = {"text": "A", "finish_reason": "stop"} if "error" not in fields else {}
            response = Response(request_key=key, **{**given, **fields})
            store.add_responses([(response, (START + timedelta(seconds=every * number)).isoformat())])


def status_at(path: Path, seconds: float, tmp_path: Path) -> RunStatus:
    prices = write_prices(tmp_path, "oracle:perfect,dear-1", 10.0, **OTHER_PRICES)
    folder = RunFolder(path)
    with folder.open_store(read_only=True) as store:
        return run_status(
            store, folder.manifest(), str(path), read_prices(prices), None, now=START + timedelta(seconds=seconds)
        )


def used(read: int, written: int, **more: Any) -> dict[str, Any]:
    return {"usage": Usage(input_tokens=read, output_tokens=written), "model": "perfect", **more}


def test_a_run_on_its_way(run: Path, tmp_path: Path) -> None:
    answer(run, *[used(1000, 100)] * 20, every=3.0)
    found = status_at(run, 60, tmp_path)
    assert (found.requests, found.answered, found.failed, found.not_sent) == (40, 20, 0, 20)
    assert found.per_minute == pytest.approx(20)
    assert found.is_running
    assert found.seconds_left == pytest.approx(60)
    assert found.cost == pytest.approx(20 * (1000 * 10 + 100 * 20) / 1e6)
    assert found.expected_cost == pytest.approx(2 * 20 * (1000 * 10 + 100 * 20) / 1e6)


def test_failures_are_counted_by_kind(run: Path, tmp_path: Path) -> None:
    errors = ["sent 6 times, last: overloaded (529)", "sent once, last: bad gateway (502)", "bad gateway (502)"]
    answer(run, *({"error": error} for error in errors), used(1, 1), {"finish_reason": "length"})
    found = status_at(run, 60, tmp_path)
    assert found.failures == {"HTTP 502": 2, "HTTP 529": 1}
    assert (found.answered, found.failed, found.truncated, found.content_filter) == (2, 3, 1, 0)
    assert found.not_sent == 35


def test_money_by_model_and_way_of_asking(run: Path, tmp_path: Path) -> None:
    answer(
        run,
        used(1_000_000, 0),
        used(1_000_000, 0, batch="batch_1"),
        used(1_000_000, 0, cached=True),
        {"usage": Usage(input_tokens=1_000_000, output_tokens=0, cached_input_tokens=1_000_000), "model": "dear-1"},
        used(0, 1_000_000, model="unheard-of"),  # the price of what was asked for holds
        {"model": "perfect"},
    )
    found = status_at(run, 60, tmp_path)
    costs = {(line.model, line.batch, line.cached): line.cost for line in found.cost_report.lines}
    assert costs == {
        ("perfect", False, False): pytest.approx(10.0),
        ("perfect", True, False): pytest.approx(5.0),
        ("perfect", False, True): 0.0,
        ("dear-1", False, False): pytest.approx(1.0),
        ("unheard-of", False, False): pytest.approx(20.0),
    }
    assert found.cost == pytest.approx(36.0)
    assert found.cost_report.charged("n_without_usage") == 1
    assert "without 1 answers" in cost_text(found.cost_report)


def test_without_a_price_the_cost_is_unknown_and_not_nought(run: Path) -> None:
    answer(run, used(1000, 100))
    with RunFolder(run).open_store(read_only=True) as store:
        bill = cost_report(store, "oracle", "perfect", ())
        assert bill.total is None
        assert bill.most == 0
    assert "not known" in cost_text(bill)
