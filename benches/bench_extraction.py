"""How many answers a second and core the reader reads, of distinct texts as chat models write them.

    python -m benches.bench_extraction                              chat answers of tests/data/fresh
    python -m benches.bench_extraction --file answers.jsonl.gz      your own: lines as for `extract --jsonl`
    python -m benches.bench_extraction --against FOLDER             in turns with another checkout; the ratio

Half of the texts warm up, the other half is timed (processor time), in a process for each round; medians are printed.
`short` are the last sentences of each text, up to 200 characters. A pack is loaded behind the package's imports; all
packs are, once a process, before the first text is looked at that may be in a third language.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent.parent
FRESH = [HERE / "tests" / "data" / "fresh" / f"round_{name}.jsonl" for name in ("6a", "6b", "8", "9a")]
MOST = 1200
"""Texts that are read."""
SHORT = 200
"""Characters of a short text."""


def rows_of(files: Iterable[Path]) -> list[dict[str, Any]]:
    """At most `MOST` rows of the files, evenly spread."""
    rows: list[dict[str, Any]] = []
    for file in files:
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        rows += [json.loads(line) for line in data.decode("utf-8").splitlines()]
    return rows[:: max(1, len(rows) // MOST)][:MOST]


def shortened(text: str) -> str:
    """The last sentences of a text, as far as they have 200 characters."""
    short = ""
    for sentence in reversed(re.findall(r"[^.!?。\n]+[.!?。\n]*", text)):
        if short and len(sentence) + len(short) > SHORT:
            break
        short = sentence + short
    return short[-SHORT:]


def measure(files: list[Path]) -> dict[str, float]:
    """Answers a second, whole and short, their characters, and the seconds that a pack takes to load."""
    from mbbq_gen.extraction import Question, load_extractor

    start = time.process_time()
    load_extractor("en")
    found = {"load": time.process_time() - start}
    load_extractor("en").extract(
        "Hm, hm, hm.", Question(["The tailor", "The baker"], ["A", "B"], None)
    )  # loads all packs
    rows = rows_of(files)
    for kind in ("whole", "short"):
        texts = [shortened(row["response"]) if kind == "short" else row["response"] for row in rows]
        found[f"{kind} characters"] = statistics.mean(map(len, texts))
        work = list(zip(rows, texts, strict=True))
        for half in (work[::2], work[1::2]):
            start = time.process_time()
            for row, text in half:
                prompt = "\n".join(row[key] for key in ("context", "question") if row.get(key)) or None
                reader = load_extractor(row["language"])
                reader.extract(text, Question(row["options"], row["labels"], row["unknown_index"], prompt))
            found[kind] = len(half) / (time.process_time() - start)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path, action="append", help="JSON Lines, as for extract --jsonl; may be .gz")
    parser.add_argument("--against", type=Path, help="another checkout of this project, read with in turns")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    files = [file.resolve() for file in chosen.file or FRESH]
    if chosen.measure:
        print(json.dumps(measure(files)))
        return
    trees = [HERE] + ([chosen.against.resolve()] if chosen.against else [])
    rounds: dict[Path, list[dict[str, float]]] = {tree: [] for tree in trees}
    for _ in range(chosen.rounds):
        for tree in trees:
            command = [
                sys.executable,
                __file__,
                "--measure",
                *(part for file in files for part in ("--file", str(file))),
            ]
            environment = {**os.environ, "PYTHONPATH": str(tree)}
            rounds[tree].append(
                json.loads(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)
            )
    for kind in ("whole", "short"):
        medians = [statistics.median(found[kind] for found in rounds[tree]) for tree in trees]
        ratio = f"  the other {medians[1]:.0f}, ratio {medians[0] / medians[1]:.2f}" if chosen.against else ""
        print(
            f"{kind}: {rounds[HERE][0][f'{kind} characters']:.0f} characters, {medians[0]:.0f} answers a second{ratio}"
        )
    print(f"a pack loads in {statistics.median(found['load'] for found in rounds[HERE]):.2f} s")


if __name__ == "__main__":
    main()
