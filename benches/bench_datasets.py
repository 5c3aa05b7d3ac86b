"""How fast published files become questions, and how much memory that takes: MBBQ, and BharatBBQ in eight languages.

    python benches/bench_datasets.py FOLDER

FOLDER holds `mbbq` and `bharatbbq`, as released. Of BharatBBQ only the English rows are in its repository; they are
read eight times, once under each language's name. Each line is a process of its own: nothing is kept of what is read,
so the peak is what reading itself needs (`import` alone is the first line).
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mbbq_gen.benchmarks.quality import count_instances, validate
from mbbq_gen.benchmarks.registry import load_benchmark
from mbbq_gen.core.records import Instance

LANGUAGES = {
    "hi": "Hindi",
    "mr": "Marathi",
    "bn": "Bengali",
    "ta": "Tamil",
    "te": "Telugu",
    "or": "Odia",
    "as": "Assamese",
}
WORK = ("import", "read", "count", "audit")


@contextmanager
def in_eight_languages(folder: Path) -> Iterator[Path]:
    """A folder in which the English files stand under every language's name."""
    (english,) = folder.rglob("Examples")
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for language in ("Examples", *LANGUAGES.values()):
            (root / language).symlink_to(english.resolve(), target_is_directory=True)
        yield root


def rows_of(instances: Iterable[Instance]) -> int:
    """How many there are; none is kept."""
    return sum(1 for _ in instances)


def measure(benchmark: str, folder: Path, work: str) -> None:
    """Does one piece of work and prints what it took."""
    start = time.perf_counter()
    rows = 0
    if work == "read":
        rows = rows_of(load_benchmark(benchmark, data=folder))
    elif work == "count":
        rows = sum(
            count.rows for count in count_instances(load_benchmark(benchmark, data=folder)) if count.category == "all"
        )
    elif work == "audit":
        rows = len(validate(load_benchmark(benchmark, data=folder)))
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    what = "findings" if work == "audit" else "questions"
    print(f"{benchmark:<10} {work:<7} {rows:>8,} {what:<9} {seconds:>6.1f} s  peak {peak:>4.0f} MB", flush=True)


def main() -> None:
    if len(sys.argv) == 4:
        measure(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
        return
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    root = Path(sys.argv[1])
    with in_eight_languages(root / "bharatbbq") as bharatbbq:
        for benchmark, folder in (("mbbq", root / "mbbq"), ("bharatbbq", bharatbbq)):
            for work in WORK:
                subprocess.run([sys.executable, __file__, benchmark, str(folder), work], check=True)


if __name__ == "__main__":
    main()
