"""Extraction and scoring of large runs: rates, memory, and whether time grows as answers do.

    python benches/bench_scale.py --answers 250000,500000,1000000 --read
    python benches/bench_scale.py --answers 1000000 --one-file         in one SQLite file

An oracle that writes free text answers a small run, and its questions are copied, with what was planned, answered
and, without `--read`, read, until there are so many answers: copies are other questions of the same templates. The copy
keeps its records in shards. Everything timed is a whole command. Where others use the machine too, the seconds of
processors say more than the clock.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

from mbbq_gen.runs.run_folder import RunFolder

_TOGETHER = 4_000
"""Questions that are copied before what came of them goes to shards."""
COPY = "json_set({column}, '$.instance_id', json_extract({column}, '$.instance_id') || :mark, '$.parallel_id', :twin)"


def command(*given: object) -> list[str]:
    return [sys.executable, "-m", "mbbq_gen", *map(str, given)]


def timed(name: str, answers: int, given: Sequence[object]) -> None:
    """Runs a command and prints what it took."""
    begin = time.monotonic()
    process = subprocess.Popen(command(*given), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    seconds, worked = time.monotonic() - begin, used.ru_utime + used.ru_stime
    if status:
        raise SystemExit(f"{' '.join(map(str, given))}: exit code {os.waitstatus_to_exitcode(status)}")
    print(
        f"{name:8} {answers:11,} answers {seconds:8.1f} s {answers / seconds:9,.0f} a second;"
        f" processors {worked:7.1f} s, {1e3 * worked / answers:.3f} ms each; memory {used.ru_maxrss / 1e3:6,.0f} MB",
        flush=True,
    )


def copied(base: Path, run: Path, answers: int, *, is_read: bool, in_shards: bool) -> int:
    """Makes a run of about so many answers out of a small one; says how many they are."""
    run.mkdir()
    (run / "manifest.json").write_bytes((base / "manifest.json").read_bytes())
    with closing(sqlite3.connect(base / "run.sqlite")) as store:
        keys = [key for (key,) in store.execute("SELECT key FROM instances WHERE asked")]
        number = int(store.execute("SELECT count(*) FROM prompts").fetchone()[0])
        store.execute("CREATE INDEX IF NOT EXISTS by_question ON prompts (instance_key)")
        store.commit()
    times = max(1, round(answers / number))
    copies = iter(sorted((key, f"#{copy:05}") for key in keys for copy in range(times)))
    with (
        RunFolder(run).open_store() as packing,
        closing(sqlite3.connect(run / "run.sqlite", isolation_level=None)) as store,
    ):
        if in_shards:
            packing.records.enable_shards()
        store.execute("PRAGMA synchronous = OFF")
        store.execute("ATTACH ? AS base", (str(base / "run.sqlite"),))
        store.execute("INSERT OR IGNORE INTO meta SELECT * FROM base.meta")
        while questions := list(islice(copies, _TOGETHER)):
            store.execute("BEGIN")
            for key, mark in questions:
                copy_question(store, key, mark, is_read=is_read)
            store.execute("COMMIT")
            packing.records.pack()
        if in_shards:
            packing.records.enable_shards()  # as a plan: the file gets small once
    return times * number


def copy_question(store: sqlite3.Connection, key: str, mark: str, *, is_read: bool) -> None:
    """One question with all that belongs to it, under another id."""
    given = {"key": key, "mark": mark, "twin": key.split("/", 3)[3] + mark}
    where = "base.prompts p {} WHERE p.instance_key = :key ORDER BY p.number"
    prompt = "json_set(record, '$.prompt_id', prompt_id || :mark, '$.instance_key', instance_key || :mark)"
    marked = dict.fromkeys(("key", "prompt_id", "instance_key", "request_key"), "{} || :mark")
    twins = {"instance_id": "instance_id || :mark", "parallel_id": ":twin", "twin": ":twin"}
    instance = {**marked, **twins, "record": COPY.format(column="record")}
    response = {**marked, "record": "json_set(r.record, '$.request_key', r.request_key || :mark)"}
    responses = where.format("JOIN base.responses r ON r.request_key = p.request_key")
    statements = [
        insert(store, "instances", "base.instances WHERE key = :key", instance),
        insert(store, "prompts", where.format(""), {**marked, "number": "NULL", "record": prompt}),
        insert(store, "responses", responses, response, alias="r."),
    ]
    if is_read:
        extractions = where.format("JOIN base.extractions e ON e.prompt_id = p.prompt_id")
        statements.append(insert(store, "extractions", extractions, marked, alias="e."))
    for statement in statements:
        store.execute(statement, given)


def insert(store: sqlite3.Connection, table: str, source: str, changed: dict[str, str], alias: str = "") -> str:
    """A statement that copies rows of a table, some columns changed."""
    names = [name for _, name, *_ in store.execute(f"PRAGMA main.table_info({table})")]
    values = [changed.get(name, "{}").format(alias + name) for name in names]
    return f"INSERT OR IGNORE INTO {table} SELECT {', '.join(values)} FROM {source}"


def size_of(run: Path, answers: int) -> str:
    """What a run takes on the disk."""
    shards = sum(path.stat().st_size for path in run.rglob("*.parquet"))
    file = (run / "run.sqlite").stat().st_size
    return f"run.sqlite {file / answers:,.0f}, shards {shards / answers:,.0f} bytes an answer"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", default="250000", help="sizes of runs, comma-separated")
    parser.add_argument("--read", action="store_true", help="read them too")
    parser.add_argument("--one-file", action="store_true", help="without shards")
    parser.add_argument("--folder", help="where runs are made; default: the system's temporary folder")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        base = folder / "base"
        model = ["--model", "oracle:verbose_perfect", "--benchmark", "starter", "--languages", "en,tr", "--sample", 400]
        subprocess.run(command("run", base, *model), check=True, capture_output=True)
        for size in map(int, given.answers.split(",")):
            run, begin = folder / f"run-{size}", time.monotonic()
            made = copied(base, run, size, is_read=not given.read, in_shards=not given.one_file)
            print(f"{made:,} answers made in {time.monotonic() - begin:,.0f} s; {size_of(run, made)}", flush=True)
            if given.read:
                timed("extract", made, ["extract", run, "--json"])
            timed("score", made, ["score", run, "--json"])
            print(size_of(run, made), flush=True)
            shutil.rmtree(run)


if __name__ == "__main__":
    main()
