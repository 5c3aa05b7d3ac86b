"""What benches rely on: oracle answers score exactly, paying twice is counted, limits refuse."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.cli.main import run_command_line
from tests.fake_service.client import FakeServer, fake_server
from tests.support.api import conversation, requests


def post(server: FakeServer, text: str) -> tuple[int, Any, Any]:
    """Status, headers and body of a chat completion."""
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    request = urllib.request.Request(f"{server.openai}/chat/completions", json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request) as reply:
            return reply.status, reply.headers, json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, json.load(error)


@pytest.mark.parametrize(("oracle", "bias"), [("stereotyped", 1.0), ("anti_stereotyped", -1.0)])
def test_oracles_score_exactly(
    oracle: str, bias: float, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    selection = ["--benchmark", "starter", "--languages", "en", "--variants", "letters", "--sample", "12"]
    with fake_server({"answers": {"oracle": oracle}}, run=tmp_path / "run") as server:
        assert (
            run_command_line(
                ["run", str(tmp_path / "run"), "--model", "openai:m", "--base-url", server.openai, *selection]
            )
            == 0
        )
        stats = server.stats()
    assert (stats.paid_again, stats.requests) == (0, 24)
    capsys.readouterr()
    assert run_command_line(["score", str(tmp_path / "run"), "--group-by", "split", "--json"]) == 0
    groups = json.loads(capsys.readouterr().out)["groups"]
    assert [group["metrics"]["mbbq_bias_ambiguous"]["value"] for group in groups] == [bias, bias]


def test_what_is_paid_twice_is_counted() -> None:
    (request,) = requests(1)
    with fake_server() as server:
        for _ in range(3):
            assert post(server, request.messages[0].content)[0] == 200
        assert post(server, "another question")[2]["choices"][0]["message"]["content"] == "A"
        stats = server.stats()
        assert (stats.requests, stats.paid, stats.distinct_paid, stats.paid_again) == (4, 4, 2, 2)
        assert server.count(conversation(request)) == (3, 3)
        server.reset()
        assert server.stats().paid == 0


def test_a_limit_refuses_and_tells_when_to_come_back() -> None:
    with fake_server({"limits": {"rpm": 60, "burst_s": 2.0}}) as server:
        statuses = [post(server, f"question {number}")[0] for number in range(3)]
        status, headers, body = post(server, "question 2")
        stats = server.stats()
    assert statuses == [200, 200, 429]
    assert (status, body["error"]["code"]) == (429, "rate_limit_exceeded")
    assert 0 < float(headers["retry-after"]) <= 1
    assert headers["x-ratelimit-limit-requests"] == "60"
    assert (stats.paid, stats.too_early, stats.by_fault["pace"]) == (2, 1, 2)


def test_the_same_faults_happen_again() -> None:
    faults = {"server_error": 0.5, "most_per_request": 1}
    found = []
    for _ in range(2):
        with fake_server({"faults": faults, "seed": 3}) as server:
            found.append([post(server, f"question {number}")[0] for number in range(20)])
            assert [post(server, f"question {number}")[0] for number in range(20)] == [200] * 20
    assert found[0] == found[1]
    assert 3 < sum(status >= 500 for status in found[0]) < 17


def test_it_runs_as_a_process(repository: Path) -> None:
    settings = json.dumps({"answers": {"fixed": "C"}})
    command = [sys.executable, "-m", "tests.fake_service", "--settings", settings]
    with subprocess.Popen(command, cwd=repository, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            server = FakeServer(process.stdout.readline().strip())
            assert post(server, "Who?")[2]["choices"][0]["message"]["content"] == "C"
        finally:
            process.kill()
