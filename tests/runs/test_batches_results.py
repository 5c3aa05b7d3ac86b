from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.core.records import Response
from tests.fake_service.client import fake_server
from tests.runs.test_batches import KINDS, SELECTION, Calls, command, ledger_of, started, status_of, told
from tests.support.api import KEY, Heard, spoken
from tests.support.stores import column, rows

__all__ = ["command"]


def responses_of(run: Path) -> dict[str, Response]:
    stored = rows(run, "SELECT request_key, record FROM responses")
    return {key: Response.model_validate_json(record) for key, record in stored}


def requested(run: Path) -> set[str]:
    return set(column(run, "SELECT request_key FROM batch_requests"))


def line_of(kind: str, key: str, text: str = "A") -> bytes:
    if kind == "openai":
        body: dict[str, Any] = {"choices": [{"message": {"content": text}, "finish_reason": "stop"}], "model": "m"}
        row: dict[str, Any] = {"custom_id": key, "response": {"status_code": 200, "body": body}, "error": None}
    else:
        message = {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "model": "m"}
        row = {"custom_id": key, "result": {"type": "succeeded", "message": message}}
    return json.dumps(row).encode() + b"\n"


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_bad_and_contradictory_lines_cost_no_other_answer(
    command: Calls, run_path: Path, tmp_path: Path, kind: str
) -> None:
    with fake_server({}, run=run_path) as server:
        assert command(*started(server, kind, run_path))[0] == 0
        keys = sorted(requested(run_path))
        good = [line_of(kind, key, "B") for key in keys]
        lines = [line[: len(line) // 2] + b"\n" for line in good[:10]] + good[10:]
        lines[0] = line_of(kind, keys[0], "B. " + "y" * 17_000_000)  # longer than an answer may be
        lines += [line_of(kind, key, "C") for key in keys[20:25]]
        tmp_path.joinpath("lines").write_bytes(b"".join(lines))
        server.change({"batches": {"results_file": str(tmp_path / "lines")}})
        assert command("batch", "collect", run_path)[0] == 0
        record = ledger_of(run_path)[0]
        assert (record.missing, record.answered) == (10, 69)
        found = responses_of(run_path)
        assert {found[key].text for key in keys[10:]} == {"B"}
        server.change({"batches": {"results_file": None}})
        for _ in range(3):
            assert command("run", run_path)[0] == 0
        assert status_of(command, run_path)["answered"] == 80


def test_batches_of_azure(command: Calls, run_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AZURE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    with fake_server({}, run=run_path) as server:

        def forwarded(heard: Heard) -> tuple[int, dict[str, str], bytes]:
            import httpx

            keep: dict[str, str] = {
                name: heard.headers[name] for name in ("content-type", "api-key") if name in heard.headers
            }
            with httpx.Client(trust_env=False) as client:
                told = client.request(heard.method, server.root + heard.path, content=heard.body, headers=keep)
            return told.status_code, {"content-type": told.headers["content-type"]}, told.content

        with spoken(forwarded) as azure:
            options = ["--model", "openai:m", "--model-arg", "service=azure", "--base-url", azure.root]
            assert command("run", run_path, *options, *SELECTION, "--batch")[0] == 0
            assert command("run", run_path)[0] == 0
            paths = {(heard.method, heard.path) for heard in azure.heard}
    assert status_of(command, run_path)["answered"] == 80
    version = "api-version=2024-10-21"
    assert ("POST", f"/openai/deployments/m/chat/completions?{version}") in paths
    assert ("POST", f"/openai/files?{version}") in paths
    assert ("POST", f"/openai/batches?{version}") in paths
    assert all(path.count("?") == 1 and version in path for _, path in paths)
    assert all("/deployments/" not in path for _, path in paths if "completions" not in path)
    (upload,) = [heard for heard in azure.heard if heard.path.startswith("/openai/files?")]
    lines = [json.loads(line) for line in upload.body.splitlines() if line.startswith(b"{")]
    assert {line["url"] for line in lines} == {"/chat/completions"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_instead_of_the_results_is_one_line(command: Calls, run_path: Path, kind: str) -> None:
    """Nothing is given up for it: the batch stays open, and later it is collected."""
    with fake_server({}, run=run_path) as server:
        assert command(*started(server, kind, run_path, "--model-arg", "attempts=2"))[0] == 0
        server.change({"faults": {"page": 1.0, "routes": "all", "most_per_request": 9999}})
        assert "Access denied" in told(command, 1, "batch", "collect", run_path)
        assert ledger_of(run_path)[0].state == "sent"
        server.change({"faults": {"page": 0.0}})
        assert command("run", run_path)[0] == 0
    assert status_of(command, run_path)["answered"] == 80


def test_an_answer_stands_over_a_failure_of_the_same_request(command: Calls, run_path: Path, tmp_path: Path) -> None:
    """Whichever line comes first."""
    with fake_server({}, run=run_path) as server:
        assert command(*started(server, "openai", run_path))[0] == 0
        failed = {"custom_id": "", "response": None, "error": {"code": "server_error", "message": "no"}}
        lines = b""
        for key in sorted(requested(run_path)):
            lines += json.dumps(failed | {"custom_id": key}).encode() + b"\n" + line_of("openai", key)
        tmp_path.joinpath("lines").write_bytes(lines)
        server.change({"batches": {"results_file": str(tmp_path / "lines")}})
        assert command("run", run_path)[0] == 0
    found = responses_of(run_path)
    assert {found[key].text for key in requested(run_path)} == {"A"}
    assert len(ledger_of(run_path)) == 1
