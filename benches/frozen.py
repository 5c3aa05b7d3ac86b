"""Freezes what a change of the code must not change, and compares another checkout with it.

    python -m benches.frozen record DIR [--quick]      writes the goldens of this checkout to DIR/quick or DIR/usual
    python -m benches.frozen compare DIR [--quick]     records this checkout again and prints every difference
    python -m benches.frozen compare DIR OTHER         compares two recorded folders

Recorded are scores, comparisons, reports and exports of runs that cover the features, a digest of every rendered prompt
with the extraction of its answer, extractions of stored texts, and the requests that each kind of API receives, all by
the command line. Times, paths, versions and file digests are masked.

`--names FILE` is a table of renamed keys, codes and option values (old name, new name, kind); either name is accepted.
`--explained FILE` is a table of intended differences (pattern, most, reason) from the commit before the packages became
rooms. A pattern is a regular expression of FILE#PATH, after "+" where only the new side has it and "-" where only the
old side has it, or a renamed key or value (old = new). With `--quick`, more differences than `most` are not explained.
In texts for people only numbers are compared. Numbers are equal within 1e-12. The exit code is 1 if a difference is not
explained. `--full` uses all material: 300,000 texts, every question of the starter benchmark in 22 languages, and the
control questions of large benchmarks. Needs the extra `dev`.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import math
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent)]

from frozen_record import STEPS, record  # noqa: E402

HERE = Path(__file__).resolve().parent.parent
MISSING = "(missing)"
TOLERANCE = 1e-12  # polars sums in an order that changes from call to call


class Names:
    """Renamed keys, codes and option values, from a table of old name, new name, kind."""

    def __init__(self, path: Path | None) -> None:
        self._new: defaultdict[str, set[str]] = defaultdict(set)
        self._ends: list[tuple[str, str]] = []
        self._starts: list[tuple[str, str]] = []
        rows = path.read_text(encoding="utf-8").splitlines() if path else []
        for row in csv.reader(rows, delimiter="\t"):
            if len(row) > 2 and row[2] in {"JSON", "field", "column head", "CLI", "file"}:
                self.add(re.sub(r" \(.*", "", row[0]), re.sub(r" \(.*", "", row[1]), row[2])

    def add(self, old: str, new: str, kind: str) -> None:
        """Accepts a new name in place of an old one."""
        if "…" in old:
            self._ends.append((old.rpartition("…")[2], new.rpartition("…")[2]))
        elif ":" in old and ":" in new:
            self._starts.append((old.partition(":")[0] + ":", new.partition(":")[0] + ":"))
        elif kind == "column head":
            self._new[old].add(new)
        else:  # `--method labels`, `outcome no_answer`, `parts.naming`, `RUN/records/`: the last words belong together
            olds, news = (re.split(r"[ ./]+", name.strip("/"))[::-1] for name in (old, new))
            for one, two in zip(olds, news, strict=False):
                self._new[one.lstrip("-")].add(two.lstrip("-"))
                self._new[one.lstrip("-").replace("-", "_")].add(two.lstrip("-").replace("-", "_"))

    def spellings(self, old: str) -> Iterator[str]:
        """How a key may be called on the other side, its own name first."""
        yield old
        yield from sorted(self._new.get(old, ()))
        yield from (old.removesuffix(end) + new for end, new in self._ends if end and old.endswith(end))

    def same(self, old: str, new: str) -> bool:
        """Whether two texts are the same but for renamed words in them."""
        if old == new or new in self.spellings(old):
            return True
        for start, other in self._starts:
            old = old.replace(start, other)
        words, others = re.split(r"([^\w]+)", old), re.split(r"([^\w]+)", new)
        alike = len(words) == len(others)
        return alike and all(two in self.spellings(one) for one, two in zip(words, others, strict=True))


Difference = tuple[str, Any, Any]


def differences(old: Any, new: Any, names: Names, path: str = "") -> Iterator[Difference]:
    """Every place where two goldens differ."""
    if old == new and type(old) is type(new):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        left = dict(new)
        for key, value in old.items():
            other = next((one for one in names.spellings(key) if one in left), None)
            other = other or next((one for one in left if names.same(key, one)), None)
            at = f"{path}/{key}"
            yield from [(at, value, MISSING)] if other is None else differences(value, left.pop(other), names, at)
        yield from ((f"{path}/{key}", MISSING, value) for key, value in left.items())
    elif isinstance(old, list) and isinstance(new, list):
        texts = all(isinstance(one, str) for one in [*old, *new])
        if len(old) == len(new) and texts and old == sorted(old) and new == sorted(new):  # renamed: sorted elsewhere
            new = sorted(new, key=lambda two: [not names.same(one, two) for one in old])
        for number in range(max(len(old), len(new))):
            one, two = (side[number] if number < len(side) else MISSING for side in (old, new))
            yield from differences(one, two, names, f"{path}/{number}")
    elif isinstance(old, str) and isinstance(new, str):
        if not (names.same(old, new) or _close(old, new)):
            yield path, old, new
    elif isinstance(old, bool) or isinstance(new, bool) or not _close(old, new):
        yield path, old, new


def _close(old: Any, new: Any) -> bool:
    """Whether two numbers, or texts of numbers, are equal up to the order of summation."""
    try:
        return math.isclose(float(old), float(new), rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    except (TypeError, ValueError):
        return False


def golden(path: Path) -> Any:
    """A golden's content; of texts for people, the numbers in them."""
    if path.suffix == ".gz":
        return [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
    found = json.loads(path.read_text(encoding="utf-8"))
    if not path.name.endswith(".text.json"):
        return found
    lines = (re.sub(r"\b\w*[a-f]\w*\b", "", line) for line in found)
    return [number for line in lines for number in re.findall(r"-?\d+(?:\.\d+)?", line)]


def compare(old: Path, new: Path, names: Names, explained: Sequence[Sequence[str]], *, part: bool = False) -> int:
    """Prints the differences of two folders; returns how many are not explained.

    Args:
        old: Folder of the recorded goldens.
        new: Folder of the goldens to check.
        names: Renamed names.
        explained: Pattern, largest number and reason of intended differences.
        part: Ignore files that only `old` has: not all steps were recorded.
    """
    found: defaultdict[str, list[Difference]] = defaultdict(list)
    counts, patterns = [0] * len(explained), [re.compile(pattern) for pattern, *_ in explained]
    files = {path.relative_to(side) for side in (old, new)[part:] for path in side.rglob("*") if path.is_file()}
    files = {file for file in files if file.name not in {"timings.json", "material.jsonl.gz"}}
    for file in sorted(files):
        one, two = (golden(side / file) if (side / file).is_file() else MISSING for side in (old, new))
        for path, before, after in differences(one, two, names):
            place = ("+" if before is MISSING else "-" if after is MISSING else "") + f"{file}#{path}"
            row = next((row for row, pattern in enumerate(patterns) if pattern.fullmatch(place)), None)
            if row is not None:
                counts[row] += 1
            if row is None or 0 < int(explained[row][1] or 0) < counts[row]:
                found[re.sub(r"/\d+(?=/|$)", "/*", place)].append((place, before, after))
    for kind, places in sorted(found.items()):
        place, before, after = places[0]
        print(f"{kind}  ({len(places):,})\n  {place}\n  old: {_short(before)}\n  new: {_short(after)}")
    for count, (pattern, most, reason) in zip(counts, explained, strict=True):
        print(f"{count:,} (at most {most}): {reason}" if count else f"explains nothing: {pattern}")
    count = sum(map(len, found.values()))
    print(f"{len(files)} files, {count:,} differences not explained, {sum(counts):,} explained")
    return count


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}…"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=("record", "compare"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("other", type=Path, nargs="?")
    parser.add_argument("--quick", dest="size", action="store_const", const="quick", default="usual")
    parser.add_argument("--full", dest="size", action="store_const", const="full")
    parser.add_argument("--steps", default=",".join(STEPS), help="default: %(default)s")
    parser.add_argument("--names", type=Path)
    parser.add_argument("--explained", type=Path, default=HERE / "benches" / "frozen_explained.tsv")
    chosen = parser.parse_args()
    folder, steps = chosen.folder / chosen.size, tuple(chosen.steps.split(","))
    if chosen.task == "record":
        record(folder.resolve(), chosen.size, steps)
        return
    names = Names(chosen.names)
    rows = chosen.explained.read_text(encoding="utf-8").splitlines() if chosen.explained.is_file() else []
    for row in (row for row in rows if " = " in row):
        names.add(*row.partition("\t")[0].split(" = "), "JSON")
    explained = [row.split("\t") for row in rows if " = " not in row]
    explained = explained if chosen.size == "quick" else [[pattern, "", reason] for pattern, _, reason in explained]
    if chosen.other:
        sys.exit(compare(chosen.folder, chosen.other, names, explained) > 0)
    with tempfile.TemporaryDirectory(prefix="frozen-now-") as name:
        now = Path(name).resolve()
        stored = folder.resolve() / "material.jsonl.gz"
        record(now, chosen.size, steps, stored if stored.is_file() else None)
        sys.exit(compare(folder, now, names, explained, part=steps != STEPS) > 0)


if __name__ == "__main__":
    main()
