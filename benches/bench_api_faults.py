"""What faults of a service do to a run: each by itself, then all of them together, against the fake service.

    python benches/bench_api_faults.py [--quick] [--only cut,everything,batches]

Every row is a run of 5,000 requests (5 wordings, 4 languages, both splits of the starter benchmark) whose answers come
from the oracle `stereotyped`. The same questions are asked of the oracle itself, without a server. A row holds only if
the command ends well, every presentation has a response or a recorded error, and every answer that the service did not
filter, refuse, cut short or leave empty is read as the oracle's own: so every score is exact. The one row that must not
go on, a refused parameter that shapes the text, holds only if the command ends with one line that says so.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from fake_api import Ended, mbbq_gen_run, must, questions, run_command, say, server, table

from mbbq_gen.runs.run_folder import RunFolder
from tests.fake_service.client import FakeServer

_UNANSWERED = frozenset({"content_filter", "refusal", "truncated", "empty", "error"})
"""Outcomes that content verdicts of the service lead to."""


@dataclass(frozen=True)
class Case:
    """What goes wrong in a run."""

    name: str
    settings: tuple[str, ...] = ()
    """Of the fake service, as NAME=VALUE."""
    options: tuple[str, ...] = ()
    """Of the command."""
    changes_answers: bool = False
    """Whether the service keeps some answers back."""
    commands: tuple[tuple[str, ...], ...] = field(default=((),))
    """What is added to the command each time; more than one where a run is made in several goes."""
    may_stop: bool = False
    """Whether a command may end with one line, for the next one to go on."""
    stops: str = ""
    """What the one line says with which the command has to end."""


_FAULTS = {
    "rate_limited": ("faults.rate_limited=0.05", "faults.retry_after_s=0.5"),
    "server_error": ("faults.server_error=0.05",),
    "hang": ("faults.hang=0.01",),
    "drop": ("faults.drop=0.05",),
    "lost": ("faults.lost=0.05",),
    "cut": ("faults.cut=0.05",),
    "slow": ("faults.slow=0.05", "faults.slow_s=0.5"),
    "malformed": ("faults.malformed=0.05",),
}
_CONTENT = {
    "filtered_prompt": ("content.filtered_prompt=0.02",),
    "filtered_answer": ("content.filtered_answer=0.02",),
    "refused": ("content.refused=0.02",),
    "empty": ("content.empty=0.02",),
    "truncated": ("content.truncated=0.02",),
}
_PATIENT = ("--timeout", "3")
"""Who hangs is given up after this; answers themselves come at once."""
_RENAMED = 'access.refused_parameters=["max_tokens"]'
"""What a service refuses and takes under another name."""
_SHAPING = 'access.refused_parameters=["temperature"]'
"""What nothing stands in for, because it shapes the text."""
_MANY = (
    *(f"faults.{name}=0.03" for name in _FAULTS),
    *(setting for settings in _FAULTS.values() for setting in settings[1:]),
    *(setting for settings in _CONTENT.values() for setting in settings),
    "faults.hang=0.005",
    "limits.concurrency=48",
    _RENAMED,
)

CASES = (
    Case("none"),
    *(Case(name, settings, _PATIENT if name == "hang" else ()) for name, settings in _FAULTS.items()),
    *(
        Case(f"rate_limited, {form}", (*_FAULTS["rate_limited"], f"faults.retry_after_form={form}"))
        for form in ("date", "milliseconds", "untold")
    ),
    *(Case(name, settings, changes_answers=True) for name, settings in _CONTENT.items()),
    Case("max_tokens refused", (_RENAMED,)),
    Case("temperature refused", (_SHAPING,), stops="it shapes the text"),
    Case("more at a time than it takes", ("limits.concurrency=16",)),
    Case("everything", _MANY, _PATIENT, changes_answers=True),
    Case(
        "batches, everything",
        (*_MANY, "faults.routes=all", "batches.failed=0.05", "batches.expired=0.05", "batches.max_requests=700"),
        _PATIENT,
        changes_answers=True,
        commands=(("--batch",), *(((),) * 12)),
        may_stop=True,
    ),
)


Reading = dict[str, tuple[str, int | None]]
"""Presentation → outcome and option."""


def reading(path: Path) -> Reading:
    """How the answers of a run were read."""
    with RunFolder(path).open_store(read_only=True) as store:
        rows = store.query("SELECT prompt_id, outcome, json_extract(record, '$.option') FROM extractions ORDER BY 1")
        return {identity: (outcome, option) for identity, outcome, option in rows}


def check(found: Reading, truth: Reading, case: Case) -> tuple[int, Counter[str]]:
    """How many answers are the oracle's own, and what became of the others; ends the bench where one is wrong."""
    if found.keys() != truth.keys():
        sys.exit(f"{case.name}: {len(truth.keys() - found.keys())} prompts have neither response nor error")
    others = Counter(outcome for key, (outcome, _) in found.items() if found[key] != truth[key])
    strange = others.keys() - (_UNANSWERED if case.changes_answers else {"error"})
    if strange:
        sys.exit(f"{case.name}: answers are not the oracle's: {others}")
    return len(found) - sum(others.values()), others


def run_case(case: Case, folder: Path, chosen: list[str], truth: Reading) -> tuple[str, ...]:
    """One row of the table."""
    path = folder / case.name.replace(" ", "-").replace(",", "")
    with server("answers.oracle=stereotyped", *case.settings, run=path) as at:
        seconds = sum(run_once(path, at, chosen, case, more).seconds for more in case.commands)
        stats = at.stats()
    if case.stops:
        say(f"  {case.name}: stops with one line, {stats.requests} requests")
        return (case.name, "–", f"{stats.requests:,}", f"{stats.paid_again:,}", "stops with one line", "–")
    exact, others = check(reading(path), truth, case)
    if stats.too_early and "date" not in case.name:  # dates are whole seconds
        sys.exit(f"{case.name}: {stats.too_early} requests came before they might")
    met = ", ".join(f"{name} {count}" for name, count in sorted(stats.by_fault.items())) or "–"
    kept_back = ", ".join(f"{name} {count}" for name, count in sorted(others.items())) or "–"
    say(f"  {case.name}: {seconds:.1f} s, {stats.requests} requests, {exact} exact, {kept_back}")
    return (case.name, met, f"{stats.requests:,}", f"{stats.paid_again:,}", f"{exact:,} of {len(truth):,}", kept_back)


def run_once(path: Path, at: FakeServer, chosen: list[str], case: Case, more: tuple[str, ...]) -> Ended:
    """One command of a case: the run as it is made, or the rest of it."""
    if path.exists() and not more:
        command = [sys.executable, "-m", "mbbq_gen", "run", str(path)]
    else:
        command = mbbq_gen_run(path, at, *chosen, *case.options, *more)
    ended = run_command(command, path.with_suffix(".log"))
    last = ended.output.splitlines()[-1] if ended.code == 1 else ""
    stopped = last.startswith("error: ") and "Traceback" not in ended.output
    if case.stops and not (stopped and case.stops in last):
        sys.exit(f"{case.name}: did not stop with one line: {ended.output[-500:]}")
    return ended if stopped and (case.stops or case.may_stop) else must(ended, case.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="240 requests a row: shows that it works")
    parser.add_argument("--only", default="", help="rows whose name holds one of these, comma-separated")
    given = parser.parse_args()
    wanted = [name for name in given.only.split(",") if name]
    chosen = questions("en,nl,es,tr", 6 if given.quick else 125, "all", "--max-connections", "64")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        oracle = [sys.executable, "-m", "mbbq_gen", "run", str(folder / "oracle"), "--model", "oracle:stereotyped"]
        must(run_command([*oracle, "--benchmark", "starter", *chosen[:-2]], folder / "oracle.log"), "the oracle")
        truth = reading(folder / "oracle")
        cases = [case for case in CASES if not wanted or any(name in case.name for name in wanted)]
        rows = [run_case(case, folder, chosen, truth) for case in cases]
    columns = ("what goes wrong", "faults met", "requests", "paid twice", "read as the oracle's", "kept back or failed")
    print(table(columns, rows))


if __name__ == "__main__":
    main()
