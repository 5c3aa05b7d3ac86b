"""What `run --ray local` costs: overhead beside a plain run, and one pace for all workers.

    python benches/bench_ray.py                      scripted answers, the pace
    python benches/bench_ray.py --only model         the small chat model: whole commands, with Ray and without

Everything runs on this machine, as whole commands, so starting Ray is in the times.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from fake_api import server

STARTER = ["--benchmark", "starter", "--languages", "en"]
RAY = ["--ray", "local", "--workers", "2"]


def command(run: Path, given: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "mbbq_gen", "run", str(run), *given, "--json"]


def timed(run: Path, given: Sequence[str]) -> float:
    """Seconds that the whole command took."""
    begin = time.monotonic()
    subprocess.run(command(run, given), check=True, capture_output=True)
    return time.monotonic() - begin


def texts(run: Path) -> dict[str, str]:
    with sqlite3.connect(run / "run.sqlite") as store:
        return dict(store.execute("SELECT request_key, json_extract(record, '$.text') FROM responses"))


def asking_seconds(run: Path) -> float:
    """Seconds from the first to the last answer that came: without the start of Ray, with the store's commits."""
    statement = "SELECT (julianday(max(received_at)) - julianday(min(received_at))) * 86400 FROM responses"
    with sqlite3.connect(run / "run.sqlite") as store:
        return float(store.execute(statement).fetchone()[0])


def compare(folder: Path, name: str, model: Sequence[str]) -> None:
    """A plain run beside one by two workers."""
    plain, spread = folder / f"{name}-plain", folder / f"{name}-ray"
    seconds = timed(plain, model), timed(spread, [*model, *RAY])
    same = texts(plain) == texts(spread)
    asking = asking_seconds(plain), asking_seconds(spread)
    print(f"{name}: {len(texts(plain)):,} answers; same texts: {same}")
    print(f"    plain   {seconds[0]:6.1f} s, first to last answer {asking[0]:6.1f} s")
    print(f"    2 workers {seconds[1]:4.1f} s, first to last answer {asking[1]:6.1f} s")


def pace(folder: Path, workers: int, rpm: int) -> None:
    """A server with a limit, with requests at that limit."""
    run = folder / "paced"
    with server(f"limits.rpm={rpm}", "limits.burst_s=3.0", run=run) as at:
        given = ["--model", "openai:m", "--base-url", at.openai, *STARTER, "--variants", "bare", "--rpm", str(rpm)]
        subprocess.run(
            command(run, [*given, "--ray", "local", "--workers", str(workers)]), check=True, capture_output=True
        )
        found = at.stats()
    used = found.answered / found.seconds * 60 / rpm
    print(
        f"{workers} workers, {rpm:,} requests a minute: {found.answered:,} answered in {found.seconds:.1f} s,"
        f" {used:.0%} of the limit, passed {found.by_fault.get('pace', 0)} times, sent again {found.paid_again}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="scripted,pace")
    parser.add_argument("--rpm", type=int, default=2400)
    given = parser.parse_args()
    wanted = given.only.split(",")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script = folder / "answers.jsonl"
        script.write_text("".join(json.dumps({"response": text}) + "\n" for text in ("A", "B", "The answer is C.")))
        if "scripted" in wanted:
            compare(folder, "scripted", ["--model", f"scripted:{script}", *STARTER])
        if "model" in wanted:
            part = ["--splits", "bias", "--variants", "bare", "--sample", "400"]
            compare(folder, "smollm2", ["--model", "transformers:smollm2", *STARTER, *part])
        if "pace" in wanted:
            pace(folder, 4, given.rpm)


if __name__ == "__main__":
    main()
