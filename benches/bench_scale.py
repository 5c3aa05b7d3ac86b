"""Reading and scoring of large runs by workers: rates, memory, and whether time grows as answers do.

    python benches/bench_scale.py --answers 250000,500000,1000000 --read
    python benches/bench_scale.py --answers 1000000 --one-file --plain         in one SQLite file; also without Ray
    python benches/bench_scale.py --answers 20000000 --read                    on a quiet machine with 60 GB to spare

An oracle that writes free text answers a small run, and its questions are copied, with what was planned, answered
and, without `--read`, read, until there are so many answers: copies are other questions of the same templates. The copy
keeps its records in shards. Everything timed is a whole command. Memory is what the largest process held, and what all
held together, looked at five times a second; pages that processes share count in each. Seconds of processors are those
of all processes: where others use the machine too, they say more than the clock.
"""

from __future__ import annotations

import argparse
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path

from mbbq_gen.core.files import PackPaths
from mbbq_gen.runs.extraction import batch_extractor, extractor_versions, store_extractions
from mbbq_gen.runs.run_folder import RunFolder

_TOGETHER = 4_000
"""Questions that are copied before what came of them goes to shards."""
COPY = "json_set({column}, '$.instance_id', json_extract({column}, '$.instance_id') || :mark, '$.parallel_id', :twin)"


def command(*given: object) -> list[str]:
    return [sys.executable, "-m", "mbbq_gen", *map(str, given)]


class Watch:
    """What a command and the Ray that it started take: most memory, in megabytes, and seconds of processors."""

    def __init__(self, process: int) -> None:
        self.largest = self.together = 0.0
        self._seconds: dict[str, float] = {}
        self._process, self._ended = process, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        while not self._ended.wait(0.2):
            ours = [path for path in Path("/proc").glob("[0-9]*") if self._is_ours(path)]
            held = [_megabytes(path) for path in ours]
            self._seconds |= {path.name: max(self._seconds.get(path.name, 0.0), _seconds(path)) for path in ours}
            self.largest, self.together = max([self.largest, *held]), max(self.together, sum(held))

    def _is_ours(self, path: Path) -> bool:
        with suppress(OSError):
            mark = f"MBBQ_GEN_RAY={self._process}".encode()
            return int(path.name) == self._process or mark in (path / "environ").read_bytes().split(b"\0")
        return False

    @property
    def seconds(self) -> float:
        """Seconds that processors worked: they tell the work on a machine that others use too."""
        return sum(self._seconds.values())

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()


def _seconds(path: Path) -> float:
    with suppress(OSError, ValueError, IndexError):
        user, system = (path / "stat").read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _megabytes(path: Path) -> float:
    with suppress(OSError, ValueError):
        return int((path / "statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6
    return 0.0


def timed(name: str, answers: int, given: Sequence[object]) -> bytes:
    """Runs a command, prints what it took, and gives what it wrote."""
    begin = time.monotonic()
    process = subprocess.Popen(command(*given), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    watch = Watch(process.pid)
    out, _ = process.communicate()
    watch.stop()
    seconds = time.monotonic() - begin
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, given))}: exit code {process.returncode}")
    print(
        f"{name:18} {answers:11,} answers {seconds:8.1f} s {answers / seconds:9,.0f} a second;"
        f" processors {watch.seconds:7.1f} s, {1e3 * watch.seconds / answers:.3f} ms each;"
        f" largest process {watch.largest:6,.0f} MB, all together {watch.together:6,.0f} MB",
        flush=True,
    )
    return out


def steps(run: Path) -> None:
    """What an answer that is read by a worker costs this process, and what it costs the worker."""
    folder = RunFolder(run)
    with folder.open_store() as store:
        (language, *_), read = store.languages(), batch_extractor("rules", PackPaths())
        version = extractor_versions([language], PackPaths())[language]
        begin = time.monotonic()
        records = tuple(store.without_extraction(version, language))
        handed_on = pickle.dumps((language, records))
        taken = time.monotonic()
        _, readings = read(pickle.loads(handed_on))
        done = time.monotonic()
        store_extractions(store, language, version, readings)
        end = time.monotonic()
    each = [1e3 * seconds / len(records) for seconds in (taken - begin, end - done, done - taken)]
    print(
        f"an answer of {len(handed_on) / len(records):,.0f} bytes: handed on in {each[0]:.3f} ms, stored in"
        f" {each[1]:.3f} ms; read by a worker in {each[2]:.3f} ms",
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
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--one-file", action="store_true", help="without shards")
    parser.add_argument("--plain", action="store_true", help="scores also without Ray, and compare the bytes")
    parser.add_argument("--folder", help="where runs are made; default: the system's temporary folder")
    given = parser.parse_args()
    here = ["--ray", "local", "--workers", given.workers]
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        base = folder / "base"
        model = ["--model", "oracle:verbose_perfect", "--benchmark", "starter", "--languages", "en,tr", "--sample", 400]
        subprocess.run(command("run", base, *model), check=True, capture_output=True)
        if given.read:
            made = copied(base, folder / "steps", 8_000, is_read=False, in_shards=not given.one_file)
            steps(folder / "steps")
        for size in map(int, given.answers.split(",")):
            run, begin = folder / f"run-{size}", time.monotonic()
            made = copied(base, run, size, is_read=not given.read, in_shards=not given.one_file)
            print(f"{made:,} answers made in {time.monotonic() - begin:,.0f} s; {size_of(run, made)}", flush=True)
            if given.read:
                timed("extract --ray local", made, ["extract", run, *here, "--json"])
            found = timed("score --ray local", made, ["score", run, "--json", *here])
            if given.plain:
                print("the same bytes:", timed("score", made, ["score", run, "--json"]) == found)
            print(size_of(run, made), flush=True)
            shutil.rmtree(run)


if __name__ == "__main__":
    main()
