"""`mbbq-gen fake-server` as a user starts it, and its page in the documentation."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mbbq_gen.cli import run_command_line
from mbbq_gen.cli.fake_server import FLAGS, ScenarioFlags
from mbbq_gen.errors import UsageError
from mbbq_gen.fake_server.client import FakeServer
from mbbq_gen.fake_server.scenario import (
    Scenario,
    Settings,
    choices_of,
    load_scenario,
    read_scenario,
    settings_markdown,
)
from tests.test_fake_server import ask


@contextmanager
def started(*options: str) -> Iterator[tuple[FakeServer, subprocess.Popen[str]]]:
    """The command in a process of its own, on a free port; `--json` tells where."""
    command = [sys.executable, "-m", "mbbq_gen", "fake-server", "--port", "0", "--json", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield FakeServer(json.loads(process.stdout.readline())["root"]), process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_a_signal_and_sums_up(number: signal.Signals) -> None:
    with started("--set", "answers.fixed=C", "--latency", "0.01") as (server, process):
        assert [ask(server, text).json["choices"][0]["message"]["content"] for text in "xyx"] == ["C", "C", "C"]
        process.send_signal(number)
        out, err = process.communicate(timeout=600)
        assert process.returncode == 0, err
        stats = json.loads(out.splitlines()[-1])
        assert (stats["requests"], stats["distinct"], stats["paid_again"]) == (3, 2, 1)
        assert stats["seconds"] >= 0.03
        assert "knows no question" in err


def test_it_knows_a_benchmark() -> None:
    with started("--benchmark", "starter", "--languages", "nl", "--oracle", "stereotyped") as (server, _):
        assert server.stats().requests == 0


def test_the_summary_in_words(capfd: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-m", "mbbq_gen", "fake-server", "--port", "0", "--rate-limited", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    told = ""
    while "Ctrl-C ends it" not in told:
        told += process.stderr.readline()
    found = re.search(r"--base-url (http://127\.0\.0\.1:\d+)\n", told)
    assert found is not None
    server = FakeServer(found[1])
    assert [ask(server).status for _ in range(5)] == [429, 429, 429, 200, 200]
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=600)
    assert out.startswith("5 requests, 1 different questions, 2 answers")
    assert "by status  200: 2, 429: 3" in out
    assert "faults     rate_limited: 3" in out
    assert "1 answers were to questions that had been answered before" in out


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--oracle perfekt", "unknown oracle 'perfekt'; did you mean 'perfect'"),
        ("--rate-limited 2", "options: faults.rate_limited"),
        ("--set faults.cutt=1", "--set: faults.cutt: unknown key"),
        ("--set faults.cut", "write it as NAME=VALUE"),
        ("--benchmark starterr", "did you mean 'starter'?"),
        ("--benchmark starter --languages xx", "starter has none of the languages xx"),
        ("--data .", "give that too"),
        ("--scenario missing.toml", "missing.toml: No such file"),
        ("--speech loud", "options: answers.speech"),
    ],
)
def test_wrong_use_is_one_line(capsys: pytest.CaptureFixture[str], options: str, told: str) -> None:
    assert run_command_line(["fake-server", "--port", "0", *options.split()]) == 2
    error = capsys.readouterr().err.strip().splitlines()
    assert len(error) == 1, error
    assert told in error[0]


def test_options_come_before_the_file(tmp_path: Path) -> None:
    path = tmp_path / "storm.toml"
    path.write_text('seed = 4\n[faults]\ncut = 0.1\ndrop = 0.1\n[access]\nmodels = ["a"]\n', encoding="utf-8")
    flags = ScenarioFlags(rate_limited=0.2, models="b, c", settings=["faults.cut=0.3", "faults.drop=none"])
    found = flags.over(path)
    assert (found.seed, found.faults.cut, found.faults.drop, found.faults.rate_limited) == (4, 0.3, 0.0, 0.2)
    assert found.access.models == ("b", "c")


@pytest.mark.parametrize(("text", "told"), [("seed = ", "not TOML"), ("sed = 1", "sed: unknown key")])
def test_a_wrong_file_is_told(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "storm.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=f"storm.toml: {told}"):
        load_scenario(path)


CHOICES = [
    (f"{name}.{key}", choice)
    for name, field in Scenario.model_fields.items()
    if isinstance(field.default, Settings)
    for key, inner in type(field.default).model_fields.items()
    for choice in choices_of(inner)
]


def test_every_choice_can_be_made_on_the_command_line() -> None:
    """None of them reads as another JSON value or as the word for the default."""
    assert len(CHOICES) > 25
    for name, choice in CHOICES:
        table, _, key = name.partition(".")
        found = ScenarioFlags(settings=[f"{name}={choice}"]).over(None)
        assert getattr(getattr(found, table), key) == choice, name


def test_every_flag_stands_for_a_setting() -> None:
    tables = Scenario().model_dump()
    for setting in FLAGS.values():
        table, _, key = setting.rpartition(".")
        assert key in (tables[table] if table else tables)


# --- documentation ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    return (repository / "docs" / "fake-server.md").read_text(encoding="utf-8")


def test_the_table_of_settings_is_the_one_in_the_code(page: str) -> None:
    assert settings_markdown() in page


def test_the_scenario_on_the_page_is_one(page: str) -> None:
    block = page.partition("# storm.toml\n")[2].partition("\n\n")[0]
    text = "\n".join(line.removeprefix("    ") for line in block.splitlines())
    assert read_scenario(tomllib.loads(text), "page").limits.rpm == 5000


def test_the_commands_on_the_page_are_understood(page: str) -> None:
    lines = [line.strip() for line in page.splitlines() if line.startswith("    mbbq-gen fake-server")]
    assert len(lines) >= 3
    for line in lines:
        words = shlex.split(line)[2:]
        flags = {words[place].removeprefix("--").replace("-", "_") for place in range(0, len(words), 2)}
        known = {*FLAGS, "run", "benchmark", "scenario", "set"}
        assert flags <= known, flags - known
