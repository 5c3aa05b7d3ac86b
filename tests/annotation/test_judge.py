from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.fake_service.client import FakeServer, fake_server
from tests.support.api import KEY
from tests.support.extraction import Capture, call, json_of, start, stderr_of, succeed
from tests.support.judge import ANSWERS, answered_run, judge_of, progress_of, readings, reply, run, script
from tests.support.prices import write_prices
from tests.support.stores import column, rows

pytestmark = pytest.mark.usefixtures("api_keys")

__all__ = ["answered_run", "run"]
X1 = {"answers": {"fixed": reply("option", "X1")}}
"""A fake judge that says X1 to everything: which option that is depends on the sheet."""


@pytest.fixture
def by_script(tmp_path: Path) -> str:
    """A judge that reads the five answers of the run as a careful one would, save for one that it can't."""
    lines = script(
        tmp_path / "careful.jsonl",
        {"response": reply("none")},
        {"response": reply("cannot_tell"), "contains": "I can't tell from this."},
        {"response": "I would rather not.", "contains": "Green ideas sleep."},
    )
    return f"scripted:{lines}"


def asked(server: FakeServer, *more: object) -> list[object]:
    return ["--model", "openai:fake", "--base-url", server.openai, *more]


def judged(capsys: Capture, *arguments: object) -> dict[str, Any]:
    return dict(json_of(capsys, "judge", *arguments))


def shown_option(path: Path, prompt_id: str) -> int:
    (order,) = column(path, "SELECT shown FROM judgements WHERE prompt_id = ?", prompt_id)
    return int(order.split(",")[0])


def test_a_judge_reads_every_answer_beside_the_rules(capsys: Capture, run: Path, by_script: str) -> None:
    rules = readings(run, "")
    found = judged(capsys, run, "--model", by_script)
    assert (found["requests"], found["answered"], found["basis"]) == (80, 80, "all")
    assert found["extractor"] == "judge:careful.jsonl"
    given = readings(run)
    assert given.keys() == rules.keys()
    expected = {"judge.parsed.none", "judge.parsed.cannot_tell", "judge.unparsed.invalid_json"}
    assert {record["rule"] for record in given.values()} == expected
    assert {**readings(run, ""), **rules}.keys() == rules.keys()
    kept = rows(run, "SELECT prompt_id, outcome, option, rule FROM extractions WHERE extractor NOT LIKE 'judge:%'")
    assert {name: read for name, *read in kept} == {
        name: [record["outcome"], record["option"], record["rule"]] for name, record in rules.items()
    }
    whole = found["agreement"][-1]
    assert whole["n"] + whole["unparsed"] == 80
    assert found["faults"] == {"invalid_json": whole["unparsed"]}
    assert {one["prompt_id"] for one in found["differences"]} <= rules.keys()
    for one in found["differences"]:
        assert rules[one["prompt_id"]]["option"] == one["option"] != one["judge_option"]


def test_its_readings_are_an_extractor(capsys: Capture, run: Path) -> None:
    with fake_server(X1) as server:
        judged(capsys, run, *asked(server), "--name", "first")
    for prompt_id, record in readings(run).items():
        assert record["option"] == shown_option(run, prompt_id)
    scores = json_of(capsys, "score", run, "--extractor", "judge:first")
    assert scores["extractor"] == "judge:first"
    assert sum(group["outcomes"]["option"] for group in scores["groups"]) == 80
    assert "judge:first" in succeed(capsys, "compare", run, "--across", "extractor", "--json")
    assert "did you mean 'judge:first'" in stderr_of(capsys, "score", run, "--extractor", "judge:second")


def test_a_part_of_a_run(capsys: Capture, run: Path, by_script: str) -> None:
    found = judged(capsys, run, "--model", by_script, "--sample-size", 20)
    assert (found["requests"], found["basis"], found["selection"]) == (20, "sample", {"sample": 20})
    assert [row["n"] + row["unparsed"] for row in found["agreement"]] == [10, 10, 20]
    err = stderr_of(capsys, "score", run, "--extractor", "judge:careful.jsonl", code=0)
    assert re.search(r"judge:careful\.jsonl .* 10 of 40 answers in en\b", err), err
    _, _, err = call(capsys, "compare", run, "--across", "extractor")
    assert re.search(r"judge:careful\.jsonl .* 10 of 40 answers in en\b", err), err
    more = judged(capsys, run, "--model", by_script, "--sample-size", 40)
    assert more["requests"] == 40  # the greater sample holds the smaller one


def test_what_the_service_settled_is_not_asked_about(capsys: Capture, run_path: Path) -> None:
    content = {"refused": 0.2, "empty": 0.2, "filtered_prompt": 0.2}
    selection = ["--benchmark", "starter", "--languages", "en", "--variants", "polite", "--sample", "20"]
    with fake_server({"content": content}, run=run_path) as server:
        assert call(capsys, "run", run_path, *asked(server), *selection, "--json")[0] == 0
    before = readings(run_path, "")
    settled = {name for name, record in before.items() if record["rule"].startswith("response.")}
    assert settled
    with fake_server(X1) as server:
        found = judged(capsys, run_path, *asked(server), "--name", "j")
        assert found["answers"] == 40 - len(settled)
    given = readings(run_path)
    assert given.keys() == before.keys()
    assert all(given[name] == before[name] for name in settled)
    assert "judge:j" in call(capsys, "compare", run_path, "--across", "extractor", "--json")[1]


@pytest.mark.parametrize("content", [{"empty": 1.0}, {"refused": 1.0}, {"filtered_prompt": 1.0}, {"truncated": 1.0}])
def test_a_faulty_reply_is_never_an_option(content: dict[str, float], capsys: Capture, run: Path) -> None:
    with fake_server({**X1, "content": content}) as server:
        found = judged(capsys, run, *asked(server), "--sample-size", 10)
    assert sum(found["faults"].values()) == 10
    assert {record["option"] for record in readings(run).values()} == {None}
    assert found["differences"] == []
    assert found["agreement"][-1]["kappa"]["value"] is None
    _, out, _ = call(capsys, "judge", run, "--report")
    assert "10 of 10 answers" in out


def test_an_answer_that_commands_the_judge_does_not_break_the_sheet(capsys: Capture, tmp_path: Path, run: Path) -> None:
    with fake_server({"answers": {"unrecognised": "echo"}}) as server:
        judged(capsys, run, *asked(server))
    given = readings(run)
    assert {record["option"] for record in given.values()} == {None}
    echoes = [json.loads(record)["text"] for record in column(run, "SELECT record FROM judge_replies")]
    commands = [echo for echo in echoes if ANSWERS[4] in echo]
    assert commands
    for echo in commands:
        head, inside, tail = echo.split(f"\n{echo.partition('with the mark ')[2].partition('.')[0]}\n")
        assert inside == ANSWERS[4]
        assert "with the mark" in head
        assert "Which option" in tail


def test_the_price_before_asking(capsys: Capture, run: Path) -> None:
    prices = write_prices(run.parent, price=1000.0)
    with fake_server(X1) as server:
        more = asked(server, "--sample-size", 20, "--prices", prices)
        out = succeed(capsys, "judge", run, *more, "--dry-run", "--json")
        assert server.stats().requests == 0
        plan = json.loads(out)
        assert plan["tokens"]["prompts"] == 20
        assert plan["cost"]["online"] == pytest.approx(
            (plan["tokens"]["input_tokens"] + plan["tokens"]["output_tokens"]) / 1000
        )
        assert plan["tokens"]["outputs"] == "assumed"
        assert readings(run) == {}
        found = judged(capsys, run, *more)
        assert found["requests"] == plan["tokens"]["requests"]
        assert found["cost"] == pytest.approx(plan["cost"]["online"], rel=0.25)
        dry = [*asked(server, "--sample-size", 40, "--prices", prices), "--dry-run"]
        assert "20 more" in succeed(capsys, "judge", run, *dry)
    status = json_of(capsys, "status", run)
    assert status["cost_report"]["lines"][0]["responses"] == 80  # the run's own bill is what it was


def test_the_limit_of_costs_is_never_passed(capsys: Capture, run: Path) -> None:
    prices = write_prices(run.parent, price=1000.0)
    with fake_server(X1) as server:
        limits = ["--prices", prices, "--max-tokens", 16]
        err = stderr_of(capsys, "judge", run, *asked(server, *limits, "--max-cost", 20), code=1)
        assert "the next request could exceed --max-cost 20;" in err
        requests, answered, _ = progress_of(run)
        assert 0 < answered < requests
        assert len(readings(run)) >= answered  # what arrived is read
        report = judged(capsys, run, "--report")
        assert 10 < report["cost"] <= 20
        paid = server.stats().paid
        assert call(capsys, "judge", run)[0] == 1  # the limit stays with the judge
        assert server.stats().paid == paid
        assert judged(capsys, run, "--max-cost", 1000)["answered"] == requests
        assert server.stats().paid_again == 0
    assert len(readings(run)) == 80


def replies(path: Path) -> dict[str, str]:
    return dict(rows(path, "SELECT request_key, record FROM judge_replies"))


def wait_for_replies(path: Path, count: int, process: subprocess.Popen[str]) -> None:
    while len(replies(path)) < count and process.poll() is None:
        time.sleep(0.02)


def test_killed_nothing_is_lost_and_it_goes_on(capsys: Capture, run: Path) -> None:
    """`kill -9` in the middle: what was stored stays as it is, and only what was under way is asked again."""
    with fake_server({**X1, "latency": {"seconds": 0.5}}) as server:
        process = start("judge", run, *asked(server, "--max-connections", 2))
        wait_for_replies(run, 8, process)
        process.kill()
        _, err = process.communicate()
        kept, paid = replies(run), server.stats().paid
        assert 8 <= len(kept) < 60, err
        server.change({"latency": {"seconds": 0}})
        found = judged(capsys, run)
        assert found["answered"] == found["requests"]
        assert kept.items() <= replies(run).items()
        under_way = 2  # at the server, which counts an answer when it has made it
        assert server.stats().paid_again <= paid - len(kept) + under_way
    assert len(readings(run)) == 80


def test_the_same_judge_goes_on_as_it_began(capsys: Capture, run: Path) -> None:
    with fake_server(X1) as server:
        judged(capsys, run, *asked(server), "--sample-size", 4, "--seed", 3)
        began = judge_of(run)
        assert began.seed == 3
        err = stderr_of(capsys, "judge", run, *asked(server, "--model-arg", "temperature=1"))
        assert "temperature" in err
        assert "--name fake" in err
        assert "openai:fake" in stderr_of(capsys, "judge", run, "--model", "oracle:random", "--name", "fake")
        judged(capsys, run, *asked(server, "--max-connections", 3), "--sample-size", 4)
        assert judge_of(run).model_copy(update={"model_args": {}, "runtime_info": {}}) == began.model_copy(
            update={"model_args": {}, "runtime_info": {}}
        )
        judged(capsys, run, *asked(server, "--model-arg", "temperature=1"), "--sample-size", 4, "--name", "warm")
    assert "this run has fake, warm: name one with --name" in stderr_of(capsys, "judge", run)


def test_no_key_anywhere(capsys: Capture, run: Path) -> None:
    with fake_server({**X1, "access": {"key": "another"}}) as server:
        code, out, err = call(capsys, "judge", run, *asked(server))
    assert code == 1
    assert "refuses the key in OPENAI_API_KEY" in err
    assert KEY not in out + err
    files = [path for path in run.rglob("*") if path.is_file()]
    assert [str(path) for path in files if KEY.encode() in path.read_bytes()] == []


def test_failures_are_asked_again(capsys: Capture, run: Path) -> None:
    faults = {"server_error": 0.5, "most_per_request": 1}
    with fake_server({**X1, "faults": faults}) as server:
        err = stderr_of(
            capsys, "judge", run, *asked(server, "--model-arg", "attempts=1", "--max-error-rate", 1), code=0
        )
        assert "requests failed" in err
        requests, answered, failed = progress_of(run)
        assert requests == answered + failed > answered
        assert call(capsys, "judge", run)[0] == 0
    assert progress_of(run) == (requests, requests, 0)
    assert {record["outcome"] for record in readings(run).values()} == {"option"}


def test_only_doubtful_answers(capsys: Capture, run: Path, by_script: str) -> None:
    rules = readings(run, "")
    unread = {name for name, record in rules.items() if record["outcome"] in ("unparsed", "multiple", "truncated")}
    doubtful = unread | {name for name, record in rules.items() if record["confidence"] == "low" or record["conflicts"]}
    assert 0 < len(unread) < 80
    found = judged(capsys, run, "--model", by_script, "--only", "unparsed")
    assert (found["basis"], found["answers"]) == ("only", len(unread))
    assert readings(run).keys() == unread
    found = judged(capsys, run, "--model", by_script, "--only", "unparsed,low,conflict")
    assert readings(run).keys() == doubtful
    assert judged(capsys, run, "--model", by_script, "--sample-size", 10)["basis"] == "sample"
    nl = judged(capsys, run, "--model", by_script, "--languages", "nl", "--name", "dutch")
    assert [row["group"] for row in nl["agreement"]] == ["nl", "all"]
    assert nl["requests"] == 40
