"""How fast, small and sure runs over an API are, against the fake server on this machine.

    python benches/bench_api.py [--quick] [--only asking,whole,long,memory,limits,kills,batches] [--repeats 3]
                                [--kills 50]

asking  3,000 short prompts at 50 ms and 256 at a time: requests a second while asking, beside a bare aiohttp loop that
        stores nothing; and the whole command, from its start to everything answered, stored, read and scored
whole   the same command at 50 ms and at 1 s: how long it asks, beside the ideal, and how long it does anything else
long    20,000 prompts at 1 s and 500 at a time, beside the ideal: prompts × latency / concurrency
memory  400,000 requests: the most memory that the command had
limits  5 % answered 429 with Retry-After: throughput beside the undisturbed run, who came too early or needlessly
kills   kill -9 at random moments while asking, then the same command again
batches kill -9 at random moments of submitting and of collecting batches

Each way is measured in turn, several times over; medians are compared. Server and client share the machine's cores.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fake_api import Ended, mbbq_gen_run, must, questions, run_command, say, server, table

from tests.fake_service.client import FakeServer
from tests.support.planned_questions import digest_of

_BARE = """
import asyncio, json, sys
import aiohttp

async def main(base_url, count, concurrency):
    async def worker(session):
        while numbers:
            number = numbers.pop()
            text = f"Question {number}: " + "who was it, the first or the second? " * 8
            body = {"model": "fake", "messages": [{"role": "user", "content": text}], "max_tokens": 16}
            async with session.post(base_url + "/chat/completions", json=body) as reply:
                answer = await reply.json()
                assert answer["choices"][0]["message"]["content"]
    numbers = list(range(count))
    connector = aiohttp.TCPConnector(limit=concurrency)
    async with aiohttp.ClientSession(connector=connector) as session:
        await asyncio.gather(*(worker(session) for _ in range(concurrency)))

asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
"""
"""A loop that asks and forgets: what the machine can do."""

Row = tuple[str, str, str, str]


@dataclass(frozen=True)
class Bench:
    """What all parts need."""

    folder: Path
    quick: bool
    repeats: int
    kills: int
    seed: int

    def fresh(self, name: str) -> Path:
        """A run folder that does not exist yet."""
        path = self.folder / name
        shutil.rmtree(path, ignore_errors=True)
        return path

    def run(self, name: str, at: FakeServer, *options: str, kill_after_s: float | None = None) -> Ended:
        """One run, or the rest of it where the folder is there already."""
        command = mbbq_gen_run(self.folder / name, at, *options)
        return run_command(command, self.folder / f"{name}.log", kill_after_s=kill_after_s)


def bare_loop(bench: Bench, at: FakeServer, count: int, concurrency: int) -> float:
    """Requests a second of a loop that stores nothing."""
    at.reset()
    command = [sys.executable, "-c", _BARE, at.openai, str(count), str(concurrency)]
    must(run_command(command, bench.folder / "bare.log"), "the bare loop")
    return rate(at, count)


def rate(at: FakeServer, count: int) -> float:
    """Answers a second, from the first request's arrival to the last answer's end."""
    stats = at.stats()
    assert stats.distinct_paid == count, f"{stats.distinct_paid} questions answered, not {count}"
    speed: float = stats.answered / stats.seconds
    return speed


# --- asking ----------------------------------------------------------------------------------------------------------


def bench_asking(bench: Bench) -> list[Row]:
    each, concurrency = (75, 64) if bench.quick else (750, 256)
    count = each * 4
    bare, asking, whole = [], [], []
    with server("latency.seconds=0.05") as at:
        for number in range(bench.repeats):
            bare.append(bare_loop(bench, at, count, concurrency))
            at.reset()
            name = bench.fresh(f"asking-{number}").name
            chosen = questions("en", each, "bare,letters", "--max-connections", str(concurrency))
            whole.append(must(bench.run(name, at, *chosen), "the run").seconds)
            asking.append(rate(at, count))
            say(f"  bare {bare[-1]:,.0f}/s, ours {asking[-1]:,.0f}/s, whole command {whole[-1]:.2f} s")
    loop, ours = statistics.median(bare), statistics.median(asking)
    what = f"{count:,} prompts, 50 ms, {concurrency} at a time"
    return [
        (what, "bare aiohttp loop", f"{loop:,.0f} requests/s", ""),
        (what, "mbbq-gen, while asking", f"{ours:,.0f} requests/s", f"{ours / loop:.0%} of the loop (bar: 50 %)"),
        (what, "mbbq-gen, whole command", f"{statistics.median(whole):.2f} s", "see bench_api_peers.py"),
    ]


def bench_whole(bench: Bench) -> list[Row]:
    """From the first request's arrival to the last answer's end is asking; the rest of the command is not."""
    each, concurrency = (75, 64) if bench.quick else (750, 256)
    count, rows = each * 4, []
    for latency in (0.05, 1.0):
        asking, rest = [], []
        with server(f"latency.seconds={latency}") as at:
            for number in range(bench.repeats):
                at.reset()
                name = bench.fresh(f"whole-{latency:g}-{number}").name
                chosen = questions("en", each, "bare,letters", "--max-connections", str(concurrency))
                whole = must(bench.run(name, at, *chosen), "the run").seconds
                asking.append(count / rate(at, count))
                rest.append(whole - asking[-1])
                say(f"  {latency:g} s: asking {asking[-1]:.1f} s, everything else {rest[-1]:.1f} s")
        what, ideal = f"{count:,} prompts, {latency:g} s, {concurrency} at a time", count * latency / concurrency
        taken = statistics.median(asking)
        rows += [
            (what, "mbbq-gen, while asking", f"{taken:.1f} s", f"{ideal / taken:.0%} of the ideal {ideal:.1f} s"),
            (what, "mbbq-gen, everything else", f"{statistics.median(rest):.1f} s", "(bar: 3 s)"),
        ]
    return rows


def bench_long(bench: Bench) -> list[Row]:
    each, variants, concurrency = (100, "bare,letters", 200) if bench.quick else (500, "all", 500)
    count = 4 * 2 * each * (2 if bench.quick else 5)
    ideal = count * 1.0 / concurrency
    rates, whole = [], []
    with server("latency.seconds=1") as at:
        for number in range(1 if bench.quick else max(1, bench.repeats // 2)):
            at.reset()
            name = bench.fresh(f"long-{number}").name
            chosen = questions("en,nl,es,tr", each, variants, "--max-connections", str(concurrency))
            whole.append(must(bench.run(name, at, *chosen), "the run").seconds)
            rates.append(rate(at, count))
            say(f"  {count / rates[-1]:.1f} s asking, ideal {ideal:.1f} s, whole command {whole[-1]:.1f} s")
    asking = count / statistics.median(rates)
    what = f"{count:,} prompts, 1 s, {concurrency} at a time"
    return [
        (
            what,
            "mbbq-gen, while asking",
            f"{asking:.1f} s",
            f"{ideal / asking:.0%} of the ideal {ideal:.0f} s (bar: 90 %)",
        ),
        (what, "mbbq-gen, whole command", f"{statistics.median(whole):.1f} s", ""),
    ]


def bench_memory(bench: Bench) -> list[Row]:
    each = 20 if bench.quick else 834
    more = ("--option-order", "all", "--label-style", "A,1", "--max-connections", "256")
    count = 4 * 2 * each * 5 * 6 * 2
    with server("latency.seconds=0.02") as at:
        name = bench.fresh("memory").name
        ended = must(bench.run(name, at, *questions("en,nl,es,tr", each, "all", *more)), "the run")
        speed = rate(at, count)
    shutil.rmtree(bench.folder / name)
    row = (f"{count:,} requests", "mbbq-gen, most memory", f"{ended.rss_mb:.0f} MB", "(bar: 600 MB)")
    whole = (f"{count:,} requests", "mbbq-gen, whole command", f"{ended.seconds:.0f} s", f"{speed:,.0f} requests/s")
    return [row, whole]


# --- limits ----------------------------------------------------------------------------------------------------------


def bench_limits(bench: Bench) -> list[Row]:
    each, languages, concurrency = (75, "en", 64) if bench.quick else (750, "en,nl,es,tr", 64)
    variants = "bare,letters,polite,single_letter"  # long enough that the last waits do not count for much
    count = each * 8 * len(languages.split(","))
    speeds: dict[float, list[float]] = {0.0: [], 0.05: []}
    early = again = needless = 0
    with server("latency.seconds=0.05", "faults.retry_after_s=1") as at:
        for number in range(bench.repeats):
            for share, found in speeds.items():
                at.change({"faults": {"rate_limited": share}})
                at.reset()
                name = bench.fresh(f"limits-{number}-{share}").name
                chosen = questions(languages, each, variants, "--max-connections", str(concurrency))
                must(bench.run(name, at, *chosen), "the run")
                found.append(rate(at, count))
                stats = at.stats()
                early, again = early + stats.too_early, again + stats.paid_again
                needless += stats.requests - count - stats.by_fault.get("rate_limited", 0)
                say(f"  {share:.0%} of 429: {found[-1]:,.0f}/s, {stats.requests} requests, {stats.too_early} too early")
    calm, limited = map(statistics.median, speeds.values())
    what = f"{count:,} prompts, 50 ms, {concurrency} at a time, 5 % answered 429 with Retry-After: 1"
    facts = f"{early} too early, {again} paid twice, {needless} sent needlessly (bar: 0, 0, 0)"
    return [
        (what, "mbbq-gen, undisturbed", f"{calm:,.0f} requests/s", ""),
        (what, "mbbq-gen", f"{limited:,.0f} requests/s", f"{limited / calm:.0%} of undisturbed (bar: 85 %); {facts}"),
    ]


# --- kills -----------------------------------------------------------------------------------------------------------


def bench_kills(bench: Bench) -> list[Row]:
    """kill -9 while asking: what was recorded is never paid again, what was in flight may be."""
    moments, concurrency, rows = bench.kills, 32, 400
    chosen = questions("en", 100, "bare,letters", "--max-connections", str(concurrency))
    chance, worst, paid_again, killed = random.Random(bench.seed), 0, 0, 0
    whole = _undisturbed(bench, "latency.seconds=0.1", options=chosen)
    for number in range(moments):
        path = bench.fresh(f"kill-{number}")
        with server("answers.oracle=stereotyped", "latency.seconds=0.1", run=path) as at:
            first = bench.run(path.name, at, *chosen, kill_after_s=chance.uniform(0.1, 1.0) * whole)
            killed += first.code != 0
            recorded, paid = _recorded(path), _paid(at)
            must(bench.run(path.name, at, *chosen), "the run after kill -9")
            stats, later = at.stats(), _paid(at)
        again = [digest for digest in recorded if later[digest] != paid[digest]]
        assert not again, f"{len(again)} answers that were recorded were paid again"
        _check_scores(bench, path, rows)
        assert stats.distinct_paid == rows, f"{stats.distinct_paid} of {rows} answered"
        worst, paid_again = max(worst, stats.paid_again), paid_again + stats.paid_again
        shutil.rmtree(path)
        say(f"  kill {number + 1}: code {first.code}, {stats.paid_again} paid twice")
    note = (
        f"{killed} of them in time; {paid_again} answers paid twice in all, {worst} at most (in flight: {concurrency})"
    )
    # Under way, just read, and gathered for the next commit (runs/runner.py): the guide on APIs states this bound.
    assert worst <= 2 * concurrency + 250, note
    return [(f"kill -9 at {moments} random moments", "mbbq-gen", "nothing lost, scores exact", note)]


def _undisturbed(bench: Bench, *settings: str, options: list[str]) -> float:
    """Seconds that a command takes when nobody kills it: moments are drawn from all of it."""
    path = bench.fresh("undisturbed")
    with server(*settings, run=path) as at:
        return must(bench.run(path.name, at, *options), "the undisturbed run").seconds


def _paid(at: FakeServer) -> dict[str, int]:
    """Digest of a question → how often it was answered, and so paid."""
    return at.stats().paid_for


def _recorded(path: Path) -> set[str]:
    """The questions, by the server's digest, whose answers are in a run's store."""
    from mbbq_gen.core.errors import MbbqGenError
    from mbbq_gen.runs.run_folder import RunFolder

    try:
        with RunFolder(path).open_store(read_only=True) as store:
            rows = store.query(
                "SELECT json_extract(p.record, '$.messages') FROM prompts p JOIN responses USING (request_key)"
                " WHERE NOT is_error"
            )
            conversations = [json.loads(messages) for (messages,) in rows]
    except MbbqGenError:
        return set()
    return {digest_of([(turn["role"], turn["content"]) for turn in turns]) for turns in conversations}


def bench_batches(bench: Bench) -> list[Row]:
    """kill -9 of submitting and of collecting: no batch doubled, nothing lost."""
    moments, rows = bench.kills, 400
    chosen = questions("en", 100, "bare,letters")
    chance, paid_again, killed = random.Random(bench.seed + 1), 0, 0
    limits = ("batches.failed=0.1", "batches.expired=0.1", "batches.delay_s=1")
    whole = _undisturbed(bench, *limits, options=[*chosen, "--batch"])
    for number in range(moments):
        path = bench.fresh(f"batch-{number}")
        with server("answers.oracle=stereotyped", *limits, run=path) as at:
            first = bench.run(path.name, at, *chosen, "--batch", kill_after_s=chance.uniform(0.1, 1.0) * whole)
            killed += first.code != 0
            if first.code != 0:
                must(bench.run(path.name, at, *chosen, "--batch"), "the batch after kill -9")
            tries = 0
            resume = [sys.executable, "-m", "mbbq_gen", "run", str(path)]
            while at.stats().distinct_paid < rows or _answered(bench, path) < rows:
                kill = chance.uniform(0.1, 1.0) * whole if tries == 0 else None
                run_command(resume, bench.folder / f"{path.name}.log", kill_after_s=kill)
                tries += 1
                assert tries < 20, "the batches are never collected"
            stats = at.stats()
        _check_scores(bench, path, rows)
        # Before a batch one question is sent by itself, to learn what the model refuses: it may be in flight.
        assert stats.paid_again <= 2, f"{stats.paid_again} answers were paid twice: a batch was doubled"
        paid_again += stats.paid_again
        shutil.rmtree(path)
        say(f"  kill {number + 1}: code {first.code}, {stats.batches} batches, {stats.paid_again} paid twice")
    note = f"{killed} of them while submitting, the others while collecting; {paid_again} answers paid twice"
    return [(f"batches, kill -9 at {moments} random moments", "mbbq-gen", "nothing lost, no batch doubled", note)]


def _answered(bench: Bench, path: Path) -> int:
    """How many requests of a run have an answer."""
    from mbbq_gen.core.errors import MbbqGenError
    from mbbq_gen.runs.run_folder import RunFolder

    try:
        with RunFolder(path).open_store(read_only=True) as store:
            return store.progress().answered
    except MbbqGenError:
        return 0


def _check_scores(bench: Bench, path: Path, rows: int) -> None:
    """The stereotyped oracle scores +1, from every one of the answers."""
    log = bench.folder / "score.log"
    command = [sys.executable, "-m", "mbbq_gen", "score", str(path), "--json", "--n-resamples", "100"]
    must(run_command(command, log), "scoring")
    groups = json.loads(log.read_text(encoding="utf-8"))["groups"]
    assert sum(group["outcomes"]["option"] for group in groups) == rows, "an answer is missing"
    for counts in (group["counts"] for group in groups):
        for condition in ("ambiguous", "disambiguated"):
            assert counts[f"{condition}_biased"] == counts[condition], f"{condition}: not every answer is biased"


PARTS: dict[str, Callable[[Bench], list[Row]]] = {
    "asking": bench_asking,
    "whole": bench_whole,
    "long": bench_long,
    "memory": bench_memory,
    "limits": bench_limits,
    "kills": bench_kills,
    "batches": bench_batches,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it works, not how fast it is")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, comma-separated")
    parser.add_argument("--repeats", type=int, help="rounds of each measurement (3; quick: 1)")
    parser.add_argument("--kills", type=int, help="random moments of each kind (50; quick: 3)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random moments")
    parser.add_argument("--folder", type=Path, help="where runs are written; default: a temporary folder")
    given = parser.parse_args()
    repeats, kills = given.repeats or (1 if given.quick else 3), given.kills or (3 if given.quick else 50)
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        bench = Bench(Path(folder), given.quick, repeats, kills, given.seed)
        rows: list[Row] = []
        for name in given.only.split(","):
            say(f"{name}:")
            rows += PARTS[name](bench)
    print(table(("what", "who", "measured", "in comparison"), rows))


if __name__ == "__main__":
    main()
