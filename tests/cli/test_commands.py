from __future__ import annotations

import json
import random
import re
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.cli.main import all_commands
from mbbq_gen.runs.run_folder import RunFolder
from tests.conftest import FULL
from tests.fake_service.client import FakeServer, fake_server
from tests.support.api import conversation
from tests.support.extraction import Capture, call, json_of, start, stderr_of, succeed
from tests.support.planned_questions import digest_of
from tests.support.stores import column

STARTER = ["--benchmark", "starter", "--languages", "en,tr", "--variants", "bare,letters"]


def commands() -> Iterator[tuple[str, Any]]:
    def walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        inner = getattr(command, "commands", None)
        if inner is None:
            yield name, command
        else:
            for word, found in inner.items():
                yield from walk(f"{name} {word}".strip(), found)

    return walk("", all_commands())


def test_a_run_from_start_to_table(capsys: Capture, run_path: Path) -> None:
    code, out, err = call(capsys, "run", run_path, "--model", "oracle:stereotyped", *STARTER, "--sample", 48)
    assert code == 0, err
    assert ", 384 prompts" in err
    rows = [line for line in out.splitlines() if re.match(r"^(en|tr)\s+100%", line)]
    assert len(rows) == 2
    assert all("+1.00" in row for row in rows)
    assert "guessing in en and tr" in out
    out = succeed(capsys, "report", run_path)
    assert str(run_path) in out
    assert "not a validated instrument" in out
    assert "answered already" in stderr_of(capsys, "run", run_path, code=0)


def test_extract_and_score_lines_from_anywhere(capsys: Capture, tmp_path: Path) -> None:
    out = succeed(capsys, "data", "show", "--languages", "en", "--limit", 6, "--json")
    instances = [json.loads(line) for line in out.splitlines()]
    questions, answers = tmp_path / "questions.jsonl", tmp_path / "answers.jsonl"
    with questions.open("w") as to_read, answers.open("w") as to_score:
        for number, instance in enumerate(instances):
            texts = [option["text"] for option in instance["options"]]
            line = {
                "id": number,
                "language": "en",
                "options": texts,
                "labels": ["A", "B", "C"],
                "unknown_index": [option["role"] for option in instance["options"]].index("unknown"),
                "response": f"The answer is {texts[instance['gold_index']]}.",
                "note": "carried",
            }
            to_read.write(json.dumps(line) + "\n")
            to_score.write(json.dumps({**instance, "response": line["response"]}) + "\n")
    read = tmp_path / "read.jsonl"
    assert call(capsys, "extract", "--jsonl", questions, "-o", read)[0] == 0
    lines = [json.loads(line) for line in read.read_text().splitlines()]
    assert [line["option"] for line in lines] == [instance["gold_index"] for instance in instances]
    assert all(line["note"] == "carried" and line["rule"] and line["spans"] for line in lines)
    (group,) = json_of(capsys, "score", "--jsonl", answers)["groups"]
    assert group["metrics"]["accuracy_disambiguated"]["value"] == 1
    assert group["n_answers"] == 6


@pytest.mark.parametrize(
    ("arguments", "shape"),
    [
        (["languages", "--json"], list),
        (["models", "--json"], list),
        (["check", "--languages", "tr", "--json"], dict),
        (["prompts", "list", "--language", "tr", "--json"], list),
        (["prompts", "show", "--language", "nl", "--variant", "letters", "--json"], list),
    ],
)
def test_lists_are_json_on_request(capsys: Capture, arguments: list[str], shape: type) -> None:
    assert isinstance(json.loads(succeed(capsys, *arguments, quiet=True)), shape)
    plain = call(capsys, *arguments[:-1])
    assert plain[0] == 0
    assert plain[1].strip()


def test_the_prompt_shown_is_the_prompt_sent(capsys: Capture, run_path: Path) -> None:
    call(capsys, "run", run_path, "--model", "oracle:perfect", "--benchmark", "starter", "--languages", "tr",
         "--splits", "bias", "--variants", "all", "--sample", 24)  # fmt: skip
    query = "SELECT record FROM prompts GROUP BY json_extract(record, '$.variant')"
    records = [json.loads(record) for record in column(run_path, query)]
    assert len(records) > 4
    for sent in records:
        instance = sent["instance_key"].rpartition("/")[2]
        _, out, _ = call(capsys, "prompts", "show", "--language", "tr", "--variant", sent["variant"],
                         "--instance", instance, "--json")  # fmt: skip
        assert json.loads(out) == [sent]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


ASKED = ["--benchmark", "starter", "--languages", "en,tr", "--variants", "bare,polite", "--sample", "40"]
REQUESTS = 40 * 2 * 2 * 2
PATIENCE = 600
"""Seconds to wait for what must come: with fifteen others on two cores a command takes a minute."""


def asked_of(server: FakeServer, *more: str) -> list[str]:
    """A run whose answers come at the server's pace: there is a middle of it, however fast or busy the machine is."""
    return ["--model", "openai:fake", "--base-url", server.openai, *ASKED, *more]


def wait_until(process: subprocess.Popen[str], condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition() and process.poll() is None:
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.01)


def responses(run_path: Path) -> dict[str, tuple[str, str]]:
    if not (run_path / "run.sqlite").exists():
        return {}
    with sqlite3.connect(run_path / "run.sqlite") as db:
        try:
            rows = db.execute("SELECT request_key, received_at, record FROM responses").fetchall()
        except sqlite3.OperationalError:  # killed before the tables were made
            return {}
    return {key: (at, record) for key, at, record in rows}


def stored(run_path: Path) -> int:
    if not (run_path / "run.sqlite").exists():
        return 0
    with closing(sqlite3.connect(run_path / "run.sqlite")) as db:
        try:
            return int(db.execute("SELECT count(*) FROM responses").fetchone()[0])
        except sqlite3.OperationalError:  # before the tables were made
            return 0


def asked_each(server: FakeServer, run_path: Path, keys: Iterable[str]) -> dict[str, int]:
    with RunFolder(run_path).open_store(read_only=True) as store:
        return {key: server.stats().asked[digest_of(conversation(store.request(key)))] for key in keys}


@pytest.mark.slow
def test_killed_again_and_again_nothing_is_lost_or_asked_twice(run_path: Path) -> None:
    """`kill -9` while it starts, plans and asks: what was stored stays as it is, and the run ends complete."""
    moments = random.Random(7)
    kept: dict[str, tuple[str, str]] = {}
    store = run_path / "run.sqlite"
    with fake_server({"latency": {"seconds": 0.2}}) as server:
        arguments = asked_of(server, "--max-connections", "8")
        for kill in range(10 if FULL else 6):
            process = start("run", run_path, *arguments)
            if kill < 3:  # while it starts and plans
                wait_until(process, [run_path.exists, store.exists, (run_path / "manifest.json").exists][kill])
            else:  # while it asks
                goal = len(kept) + moments.randrange(1, 30)
                wait_until(process, lambda goal=goal: stored(run_path) >= goal)  # type: ignore[misc]
            process.kill()
            _, err = process.communicate()
            now = responses(run_path)
            assert kept.items() <= now.items()
            assert kill < 3 or len(kept) < len(now) < REQUESTS, err
            kept = now
        before = asked_each(server, run_path, kept)
        assert min(before.values()) >= 1
        server.change({"latency": {"seconds": 0}})
        process = start("run", run_path, *arguments)
        _, err = process.communicate()
        assert process.returncode == 0, err
        final = responses(run_path)
        assert kept.items() <= final.items()
        with closing(sqlite3.connect(store)) as db:
            planned = [key for (key,) in db.execute("SELECT request_key FROM prompts")]
            (read,) = db.execute("SELECT count(DISTINCT prompt_id) FROM extractions").fetchone()
        assert sorted(final) == sorted(set(planned))
        assert len(planned) == read == REQUESTS
        assert asked_each(server, run_path, before) == before, "what was stored is not asked again"


def test_ctrl_c_stops_cleanly_and_says_how_to_go_on(run_path: Path) -> None:
    with fake_server({"latency": {"seconds": 0.2}}) as server:
        process = start("run", run_path, *asked_of(server, "--max-connections", "8"))
        wait_until(process, lambda: stored(run_path) >= 20)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130, err
        assert f"mbbq-gen run {run_path}" in err.splitlines()[-1]
        assert "Traceback" not in err
        server.change({"latency": {"seconds": 0}})
        process = start("run", run_path)
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err
        assert "answered already" in err
        assert len(responses(run_path)) == REQUESTS


@pytest.mark.slow
def test_a_full_disk_gives_one_line_and_the_run_goes_on(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("needs the right to mount a small tmpfs")
    run_path, filler = disk / "run", disk / "filler"
    try:
        answers = {"fixed": "A" + " " * 100_000}  # each larger than what SQLite has put by, and soon read
        with fake_server({"latency": {"seconds": 0.2}, "answers": answers}) as server:
            process = start("run", run_path, *asked_of(server, "--max-connections", "8", "--max-tokens", "100000"))
            wait_until(process, lambda: stored(run_path) >= 20)
            server.change({"latency": {"seconds": 3}})  # no answer comes in while the disk is being filled
            fill_up(filler)
            server.change({"latency": {"seconds": 0}})
            _, err = process.communicate(timeout=PATIENCE)
            assert process.returncode == 1, err
            errors = [line for line in err.splitlines() if line.startswith("error: ")]
            assert len(errors) == 1
            assert "Traceback" not in err
            assert f"{run_path}/" in errors[0]
            assert "can't write" in errors[0]
            filler.unlink()
            before = responses(run_path)
            assert 20 <= len(before) < REQUESTS
            process = start("run", run_path)
            _, err = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0, err
            after = responses(run_path)
            assert before.items() <= after.items()
            assert len(after) == REQUESTS
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def fill_up(filler: Path) -> None:
    with filler.open("wb", buffering=0) as stream:
        for size in (1 << 20, 1 << 12):  # fast, then to the last page
            with suppress(OSError):
                while stream.write(bytes(size)):
                    pass
