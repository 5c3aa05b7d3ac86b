"""How fast templates become questions, and in how much memory.

    python benches/bench_instantiate.py FOLDER [FOLDER …] [--repeats 3]

Each folder holds templates of one of the three forms, or a checkout that holds them. Every measurement runs in a
process of its own, so that peak memory is that of one folder; nothing is kept of the questions. The median of the times
is told, and the smallest, which other work on the machine disturbs least.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import statistics
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

from mbbq_gen.datasets.template_folders import find_form, load_template_folder
from mbbq_gen.records import to_jsonl

_KIBIBYTES = 1024 if sys.platform == "darwin" else 1
"""What one unit of `ru_maxrss` has to be divided by to be a kibibyte."""


def measure(folder: Path, answer: Connection) -> None:
    """Sends questions, seconds and peak memory in MiB of filling the folder's templates once."""
    start = time.perf_counter()
    count = sum(1 for _ in to_jsonl(load_template_folder(folder)))
    seconds = time.perf_counter() - start
    answer.send((count, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KIBIBYTES / 1024))


def in_own_process(folder: Path) -> tuple[int, float, float]:
    """What `measure` sends."""
    receiver, sender = multiprocessing.get_context("spawn").Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=measure, args=(folder, sender))
    process.start()
    sender.close()
    found: tuple[int, float, float] = receiver.recv()
    process.join()
    return found


def main() -> None:
    """Prints one line a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    settings = parser.parse_args()
    print(f"{'folder':<32}{'form':<9}{'questions':>10}{'median s':>10}{'least s':>9}{'a second':>10}{'peak MiB':>10}")
    for folder in settings.folders:
        form, _ = find_form(folder)
        runs = [in_own_process(folder) for _ in range(settings.repeats)]
        count, least = runs[0][0], min(seconds for _, seconds, _ in runs)
        median = statistics.median(seconds for _, seconds, _ in runs)
        peak = max(memory for _, _, memory in runs)
        name, rate = str(folder)[-30:], count / least
        print(f"{name:<32}{form:<9}{count:>10,}{median:>10.2f}{least:>9.2f}{rate:>10,.0f}{peak:>10.0f}")


if __name__ == "__main__":
    main()
