"""`--max-cost` over kills and resumes: what the service was really paid, against the limit, with and without usage.

    python benches/bench_money.py [--quick] [--kills 50] [--only batches]

Each row is one run. It is killed (SIGKILL) at so many random moments and gone on with after each, then gone on with
until it stops by itself, and twice more. A token costs a dollar, so the fake service's own count of the tokens that it
has read and written, whether or not its answers arrived, is what was paid. A row holds only if that never passes the
limit, and if the run says at the end that it can have cost as much as that.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from fake_api import ENVIRONMENT, mbbq_gen_run, questions, run_command, say, server, table

from tests.fake_service.client import FakeServer

CONCURRENCY = 16
LONGEST = 32
"""Tokens of an answer at most."""
_PRICES = """
[[price]]
kind = "openai"
models = ["fake"]
input = 1000000
output = 1000000
batch_input = 1000000
batch_output = 1000000
date = 2026-01-01
"""
_NO_USAGE = ("answers.usage=missing",)
_LOSSES = ("faults.lost=0.05", "faults.cut=0.05", "faults.malformed=0.05", "faults.server_error=0.05")


@dataclass(frozen=True)
class Case:
    """One row."""

    name: str
    settings: tuple[str, ...] = ()
    """Of the fake service, as NAME=VALUE."""
    options: tuple[str, ...] = ()
    """Of the command."""
    in_batches: bool = False


CASES = (
    Case("tokens reported"),
    Case("tokens reported, answers lost on the way", _LOSSES),
    Case("tokens not reported", _NO_USAGE),
    Case("tokens not reported, answers lost on the way", _NO_USAGE + _LOSSES),
    Case(
        "a longest answer of 200 in `extra`",
        ("answers.output_tokens=200",),
        ("--model-arg", 'extra={"max_tokens": 200}'),
    ),
    Case("batches, tokens reported", options=("--batch", "--batch-size", "100"), in_batches=True),
    Case("batches, tokens not reported", _NO_USAGE, ("--batch", "--batch-size", "100"), in_batches=True),
)


def paid(at: FakeServer) -> int:
    """What the service was paid, in tokens and so in dollars."""
    stats = at.stats()
    return stats.input_tokens + stats.output_tokens


def spent(run: Path) -> float:
    """The most that the run says it can have cost."""
    command = [sys.executable, "-m", "mbbq_gen", "status", str(run), "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    if ended.returncode:
        sys.exit(f"{' '.join(command)}: {ended.stderr}")
    bill = json.loads(ended.stdout)["cost_report"]
    return sum(line["cost"] or 0.0 for line in bill["lines"]) + (bill["unmetered_cost"] or 0.0)


def killed_after(command: list[str], at: FakeServer, requests: int, log: Path) -> bool:
    """Runs a command and kills it once the server has heard of so many more requests; whether it was in time."""
    goal = at.stats().requests + requests
    with log.open("w", encoding="utf-8") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, env=ENVIRONMENT)
        while process.poll() is None:
            if at.stats().requests >= goal:
                process.send_signal(signal.SIGKILL)
                process.wait()
                return True
            time.sleep(0.002)
    return False


def killed_at(command: list[str], manifest: Path, seconds: float, log: Path) -> bool:
    """Runs a command and kills it after some seconds in which there was a plan; whether it was in time."""
    with log.open("w", encoding="utf-8") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, env=ENVIRONMENT)
        while not manifest.exists() and process.poll() is None:
            time.sleep(0.01)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            return True
    return False


def run_case(case: Case, folder: Path, kills: int, seed: int) -> tuple[str, ...]:
    """One row of the table; ends the bench where it does not hold."""
    run, prices = folder / case.name.replace(" ", "-").replace("`", ""), folder / "prices.toml"
    prices.write_text(_PRICES, encoding="utf-8")
    chance, in_time, log = random.Random(seed), 0, run.with_suffix(".log")
    with server("latency.seconds=0.02", *case.settings, run=run) as at:
        limit = 60_000 * kills if "lost" in case.name or "not reported" in case.name else 30_000 * kills
        chosen = questions("en,nl", 400, "bare,letters,polite")
        limits = ["--prices", str(prices), "--max-cost", str(limit), "--max-tokens", str(LONGEST)]
        first = mbbq_gen_run(run, at, *chosen, *limits, "--max-connections", str(CONCURRENCY), *case.options)
        again = [sys.executable, "-m", "mbbq_gen", "run", str(run)]
        for number in range(kills):
            command = again if (run / "manifest.json").exists() else first
            if case.in_batches:
                in_time += killed_at(command, run / "manifest.json", chance.uniform(1.0, 6.0), log)
            else:
                in_time += killed_after(command, at, chance.randrange(1, 120), log)
            if paid(at) > limit:
                sys.exit(f"{case.name}: {paid(at):,} paid of {limit:,} after {number + 1} kills")
        codes = [run_command(again, log).code for _ in range(30 if case.in_batches else 3)]
        after, reported, stats = paid(at), spent(run), at.stats()
        if not after <= reported <= limit:
            sys.exit(f"{case.name}: paid {after:,}; reported {reported:,.0f}; limit {limit:,}")
    say(f"  {case.name}: {in_time} kills in time, {after:,} of {limit:,} paid, {reported:,.0f} counted; {codes[-1]}")
    return (
        case.name,
        f"{in_time}",
        f"{stats.paid:,} ({stats.paid_again:,} twice)",
        f"${limit:,}",
        f"${after:,}",
        f"${reported:,.0f}",
        "never",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three kills of each run")
    parser.add_argument("--kills", type=int, help="of each run (50; quick: 3)")
    parser.add_argument("--only", default="", help="a part of a row's name")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    kills = given.kills or (3 if given.quick else 50)
    cases = [case for case in CASES if given.only in case.name]
    with tempfile.TemporaryDirectory() as folder:
        rows = [run_case(case, Path(folder), kills, given.seed) for case in cases]
    titles = ("what the service does", "kills", "answers paid", "limit", "really paid", "most by the run", "passed")
    print(table(titles, rows))


if __name__ == "__main__":
    main()
