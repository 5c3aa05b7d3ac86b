from __future__ import annotations

import json
import logging
import re
from pathlib import Path

import pytest

from mbbq_gen.cli.main import run_command_line
from mbbq_gen.cli.output import print_json
from tests.support.cases import cases, known
from tests.support.extraction import Capture, call, stderr_of

ESCAPE = "\x1b]0;title\x07\x1b[2J\x9b31m\u202e"
ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def check(*texts: str) -> None:
    for text in texts:
        assert not ACTING.search(text), repr(text)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("escapes")
    script = folder / f"script{ESCAPE.replace('/', '')}.jsonl"
    lines = [{"response": f"B {ESCAPE}"}, {"error": f"down {ESCAPE}"}]
    script.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    run = folder / f"run{ESCAPE}"
    arguments = ["run", run, "--model", f"scripted:{script}", "--benchmark", "starter", "--languages", "en"]
    assert run_command_line([*map(str, arguments), "--variants", "letters", "--sample", "24"]) in {0, 1}
    return run


@pytest.mark.parametrize("arguments", cases("cli/terminal_escapes", "commands_on_a_hostile_run"))
def test_commands_on_a_hostile_run(capsys: Capture, run: Path, arguments: tuple[str, ...]) -> None:
    code, out, err = call(capsys, *(argument.replace("RUN", str(run)) for argument in arguments))
    assert code in {0, 1, 2}
    assert out or err
    check(out, err)


def test_messages_about_a_data_file(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / f"own{ESCAPE}.jsonl"
    path.write_text(json.dumps({"instance_id": "a", "condition": ESCAPE}) + "\n", encoding="utf-8")
    for command in (
        ("data", "validate", "--instances", path),
        ("extract", "--jsonl", path),
        ("score", "--jsonl", path),
    ):
        check(stderr_of(capsys, *command))


def test_warnings_of_the_library(capsys: Capture) -> None:
    run_command_line(["--version"])
    record = logging.LogRecord("mbbq_gen", logging.WARNING, "", 0, "lacks %s", (ESCAPE,), None)
    known(logging.lastResort).handle(record)
    check(capsys.readouterr().err)


def test_json_keeps_every_character(capsys: Capture) -> None:
    print_json({"a": ESCAPE})
    out = capsys.readouterr().out
    check(out.replace("\n", ""))
    assert json.loads(out) == {"a": ESCAPE}
