"""What outages and slow servers cost: a server that fails for a while, or answers only so many requests at a time.

    python benches/bench_outages.py outages [--seconds 1,2,5,30,300] [--concurrency 8,64,256] [--kinds refused,…]
    python benches/bench_outages.py slow [--slots 1,4,16] [--latency 0.2,1,10]

outages  1,500 prompts, 300 ms to an answer; after 300 answers the server fails in one way for some seconds
slow     120 prompts (24 where an answer takes 10 s), default options and --timeout 30; the server works on a few
         requests at a time, and goes on with those whose client has left

The servers run in this process, the commands in processes of their own, `--parallel` cells at a time: they mostly wait.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from fake_api import questions, run_command, say, table

from mbbq_gen.runs.run_folder import RunFolder
from tests.support.unsteady import Unsteady

KINDS = ("refused", "closed", "500", "503", "529", "page", "429")


@dataclass(frozen=True)
class Finished:
    """What became of a command."""

    code: int
    seconds: float
    answered: int
    requests: int
    sent: int
    """Attempts of the requests that have a response."""
    output: str


async def run(folder: Path, server: Unsteady, *options: str) -> Finished:
    """One run against the server."""
    model = ["--model", "openai:fake", "--base-url", server.root]
    command = [sys.executable, "-m", "mbbq_gen", "run", str(folder), *model, "--benchmark", "starter", "--json"]
    ended = await asyncio.to_thread(run_command, [*command, *options], folder.with_suffix(".log"))
    with RunFolder(folder).open_store(read_only=True) as store:
        progress = store.progress()
        (sent,) = store.query("SELECT total(json_extract(record, '$.n_attempts')) FROM responses").fetchone()
    output = ended.output.strip().rpartition("\n")[2]
    return Finished(ended.code, ended.seconds, progress.answered, progress.requests, int(sent), output)


Row = list[str]


async def outage(folder: Path, kind: str, seconds: float, concurrency: int) -> Row:
    """One cell of the first table."""
    server = Unsteady(after=300, outage=kind, seconds=seconds, latency=0.3)
    await server.start()
    name = folder / f"{kind}-{seconds:g}-{concurrency}"
    ended = await run(name, server, *questions("en", 375, "bare,letters", "--max-connections", str(concurrency)))
    await server.stop()
    most = max(server.by_second.values(), default=0)
    if kind == "refused":  # nobody can count refused connections but the client: all of them, at most in one second
        most = ended.sent - ended.answered
    lost = ended.requests - ended.answered
    if ended.code:
        say(f"{name.name}: {ended.output}")
    return [kind, f"{seconds:g} s", str(concurrency), str(most), str(lost), str(ended.code), f"{ended.seconds:.0f} s"]


async def slow(folder: Path, slots: int, latency: float) -> Row:
    """One cell of the second table."""
    server = Unsteady(latency=latency, slots=slots)
    await server.start()
    each = 6 if latency >= 10 else 30
    ended = await run(
        folder / f"slow-{slots}-{latency:g}", server, *questions("en", each, "bare,letters", "--timeout", "30")
    )
    await asyncio.sleep(min(latency, 1.0))
    await server.stop()
    ideal = ended.requests * latency / slots
    if ended.code:
        say(f"slow-{slots}-{latency:g}: {ended.output}")
    arrived = f"{ended.answered} of {ended.requests}"
    whole = f"{ended.seconds:.0f} s ({ideal:.0f} s)"
    return [str(slots), f"{latency:g} s", arrived, str(server.answered), str(server.peak), str(ended.code), whole]


async def all_of(cells: list[Callable[[], Awaitable[Row]]], parallel: int) -> list[Row]:
    """All cells, so many at a time, in their order."""
    places = asyncio.Semaphore(parallel)

    async def one(cell: Callable[[], Awaitable[Row]]) -> Row:
        async with places:
            row = await cell()
            say(" | ".join(row))
            return row

    return list(await asyncio.gather(*(one(cell) for cell in cells)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=("outages", "slow"))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--seconds", default="1,2,5,30,300")
    parser.add_argument("--concurrency", default="8,64,256")
    parser.add_argument("--slots", default="1,4,16")
    parser.add_argument("--latency", default="0.2,1,10")
    parser.add_argument("--parallel", type=int, default=6, help="cells at a time")
    parser.add_argument("--folder", type=Path, help="where runs are written; default: a temporary folder")
    given = parser.parse_args()
    numbers: dict[str, list[Any]] = {
        name: [float(text) for text in getattr(given, name).split(",")]
        for name in ("seconds", "concurrency", "slots", "latency")
    }
    with contextlib.ExitStack() as stack:
        folder = given.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        cells: list[Callable[[], Awaitable[Row]]]
        if given.table == "outages":
            titles = ["failure", "for", "at a time", "most in a second", "lost", "exit code", "whole run"]
            triples = product(given.kinds.split(","), numbers["seconds"], numbers["concurrency"])
            cells = [partial(outage, folder, kind, seconds, int(most)) for kind, seconds, most in triples]
        else:
            titles = ["slots", "an answer", "arrived", "worked out", "most in flight", "exit code", "run (ideal)"]
            pairs = product(numbers["slots"], numbers["latency"])
            cells = [partial(slow, folder, int(slots), latency) for slots, latency in pairs]
        print(table(titles, asyncio.run(all_of(cells, given.parallel))))


if __name__ == "__main__":
    main()
