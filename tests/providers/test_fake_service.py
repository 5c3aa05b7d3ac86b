from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.fake_service.client import FakeServer, fake_server
from tests.support.api import conversation, requests
from tests.support.planned_questions import digest_of


def post(server: FakeServer, text: str) -> tuple[int, Any, Any]:
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    request = urllib.request.Request(f"{server.openai}/chat/completions", json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request) as reply:
            return reply.status, reply.headers, json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, json.load(error)


def test_what_is_paid_twice_is_counted() -> None:
    (request,) = requests(1)
    with fake_server() as server:
        for _ in range(3):
            assert post(server, request.messages[0].content)[0] == 200
        assert post(server, "another question")[2]["choices"][0]["message"]["content"] == "A"
        stats = server.stats()
        assert (stats.requests, stats.paid, stats.distinct_paid, stats.paid_again) == (4, 4, 2, 2)
        assert server.stats().asked[digest_of(conversation(request))] == 3
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


def test_it_runs_as_a_process(repository: Path) -> None:
    settings = json.dumps({"answers": {"fixed": "C"}})
    command = [sys.executable, "-m", "tests.fake_service.client", settings]
    with subprocess.Popen(command, cwd=repository, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            server = FakeServer(process.stdout.readline().strip())
            assert post(server, "Who?")[2]["choices"][0]["message"]["content"] == "C"
        finally:
            process.kill()
