from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.cli.main import run_command_line
from tests.fake_service.client import FakeServer, fake_server
from tests.support.extraction import Capture, json_of
from tests.support.prices import write_prices
from tests.support.stores import column

pytestmark = pytest.mark.usefixtures("api_keys")


def command(path: Path, server: FakeServer, *more: str, sample: int = 12) -> list[str]:
    asked = ["--model", "openai:fake", "--base-url", server.openai, "--benchmark", "starter", "--languages", "en"]
    return ["run", str(path), *asked, "--variants", "polite", "--sample", str(sample), *more, "--json"]


def result(capsys: Capture) -> dict[str, Any]:
    return dict(json.loads(capsys.readouterr().out))


def counted(path: Path, capsys: Capture) -> Any:
    return json_of(capsys, "score", path, "--group-by", "split")["groups"]


def responses(path: Path) -> list[dict[str, Any]]:
    return [json.loads(record) for record in column(path, "SELECT record FROM responses")]


def test_all_faults_together_change_no_score(tmp_path: Path, capsys: Capture) -> None:
    calm, rough = tmp_path / "calm", tmp_path / "rough"
    oracle = {"oracle": "stereotyped"}
    faults = {"rate_limited": 0.1, "retry_after_s": 0.1, "server_error": 0.1}
    faults |= {"drop": 0.05, "lost": 0.05, "cut": 0.05, "malformed": 0.05}
    with fake_server({"answers": oracle}, run=calm) as server:
        assert run_command_line(command(calm, server, sample=30)) == 0
    access = {"refused_parameters": ["max_tokens"]}
    with fake_server({"answers": oracle, "faults": faults, "access": access}, run=rough) as server:
        assert run_command_line(command(rough, server, "--max-connections", "30", sample=30)) == 0
        stats = server.stats()
    assert stats.by_fault
    assert counted(calm, capsys) == counted(rough, capsys)
    assert len(responses(calm)) == len(responses(rough)) == 60


def test_the_cost_limit_is_never_passed(tmp_path: Path, run_path: Path, capsys: Capture) -> None:
    prices = write_prices(tmp_path, price=1000)
    limits = ["--prices", str(prices), "--max-tokens", "16"]
    with fake_server() as server:
        code = run_command_line(command(run_path, server, *limits, "--max-cost", "3.0", sample=40))
        assert code == 1
        error = capsys.readouterr().err
        assert "the next request could exceed --max-cost 3;" in error
        paid = [found["usage"] for found in responses(run_path)]
        cost = sum(usage["input_tokens"] + usage["output_tokens"] for usage in paid) / 1000
        assert 1.0 < cost <= 3.0
        assert 0 < len(paid) < 80
        before = server.stats().paid
        assert run_command_line(["run", str(run_path), "--json"]) == 1  # the limit stays with the run
        assert server.stats().paid == before
        capsys.readouterr()
        assert run_command_line(["run", str(run_path), "--max-cost", "100", "--json"]) == 0
        assert result(capsys)["answered"] == 80
        assert server.stats().paid_again == 0


def test_a_cost_limit_needs_a_price(tmp_path: Path, capsys: Capture) -> None:
    with fake_server() as server:
        assert run_command_line(command(tmp_path / "run", server, "--max-cost", "1")) == 2
        assert server.stats().requests == 0
    assert "--max-cost: no price known for openai:fake at http" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_runs_share_a_cache(tmp_path: Path, capsys: Capture) -> None:
    cache = ["--cache-dir", str(tmp_path / "cache")]
    with fake_server() as server:
        assert run_command_line(command(tmp_path / "a", server, *cache)) == 0
        asked = server.stats().requests
        assert run_command_line(command(tmp_path / "b", server, *cache, sample=18)) == 0
        stats = server.stats()
        assert stats.paid_again == 0
        assert asked < stats.requests == len(stats.asked)
        assert "came from the cache" in capsys.readouterr().err
        assert run_command_line(command(tmp_path / "c", server, *cache, "--model-arg", "temperature=1")) == 0
        assert server.stats().requests == stats.requests + asked  # another setting is another request
    copied = [found["cached"] for found in responses(tmp_path / "b")]
    assert copied.count(True) == 36 - (stats.requests - asked)


def test_a_run_with_too_many_errors_stops(tmp_path: Path, capsys: Capture) -> None:
    faults = {"server_error": 1.0, "most_per_request": 99}
    with fake_server({"faults": faults}) as server:
        more = ["--model-arg", "attempts=1", "--max-connections", "4"]
        assert run_command_line(command(tmp_path / "run", server, *more, sample=150)) == 1
        assert server.stats().requests < 150
    assert "stopped: " in capsys.readouterr().err


def test_a_broken_cache_is_one_line(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "responses.sqlite").write_bytes(b"no database at all, only some words" * 50)
    with fake_server() as server:
        assert run_command_line(command(tmp_path / "run", server, "--cache-dir", str(tmp_path / "cache"))) == 1
    assert "name another --cache-dir" in capsys.readouterr().err
