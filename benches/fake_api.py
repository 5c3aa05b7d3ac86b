"""What the API benches share: the fake service as a process, commands that are timed, tables in Markdown."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))  # for tests/fake_service, where benches/ is all that is on it

from tests.fake_service.client import FakeServer  # noqa: E402

ENVIRONMENT = {
    **os.environ,
    "OPENAI_API_KEY": "fake-key",
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "",  # as users have it: modules are compiled once, not by every command
}


@contextmanager
def server(*assignments: str, run: Path | None = None) -> Iterator[FakeServer]:
    """A fake service on a free port, with settings such as `faults.cut=0.1`; it knows the questions of a run."""
    settings: dict[str, Any] = {}
    for name, _, value in (assignment.partition("=") for assignment in assignments):
        table, _, key = name.partition(".")
        settings.setdefault(table, {})[key] = json.loads(value) if value[0] in "[0123456789" else value
    command = [sys.executable, "-m", "tests.fake_service.client", json.dumps(settings)]
    command += [str(run)] if run is not None else []
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            sys.exit(f"the fake service did not start: {' '.join(command)}")
        yield FakeServer(line.strip())
    finally:
        process.kill()
        process.communicate()


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    seconds: float
    processor_s: float
    """Of all processors together."""
    code: int
    rss_mb: float
    """Most memory that it had at any time."""
    output: str
    """The end of what it said."""


def run_command(
    command: Sequence[str],
    log: Path,
    environment: Mapping[str, str] = ENVIRONMENT,
    kill_after_s: float | None = None,
    cwd: Path | None = None,
) -> Ended:
    """Runs a command, its words going to a file; kills it (SIGKILL) after some seconds if it still runs."""
    began = time.perf_counter()
    with log.open("w", encoding="utf-8") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, env=dict(environment), cwd=cwd)
        killer = threading.Timer(kill_after_s or 0, process.send_signal, [signal.SIGKILL])
        if kill_after_s is not None:
            killer.start()
        _, status, usage = os.wait4(process.pid, 0)
        killer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - began
    text = log.read_text(encoding="utf-8", errors="replace")
    return Ended(seconds, usage.ru_utime + usage.ru_stime, process.returncode, usage.ru_maxrss / 1024, text[-2000:])


def must(ended: Ended, what: str) -> Ended:
    """The same, if it went well; else the bench ends with what the command said."""
    if ended.code != 0:
        sys.exit(f"{what} failed with exit code {ended.code}:\n{ended.output}")
    return ended


def mbbq_gen_run(folder: Path, at: FakeServer, *options: str) -> list[str]:
    """The command that runs a benchmark against the server."""
    model = ["--model", "openai:fake", "--base-url", at.openai]
    return [sys.executable, "-m", "mbbq_gen", "run", str(folder), *model, "--benchmark", "starter", *options]


def questions(languages: str, each: int, variants: str, *more: str) -> list[str]:
    """Options for `each` questions of every language and of both splits, in some prompt variants."""
    chosen = ["--languages", languages, "--splits", "bias,control", "--sample", str(each), "--variants", variants]
    return [*chosen, *more]


def say(text: str) -> None:
    """Tells what is going on, beside the table."""
    print(text, file=sys.stderr, flush=True)


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])
