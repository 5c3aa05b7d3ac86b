"""Freezes what a change of the code must not change, and compares another checkout with it.

    python -m benches.frozen record DIR [--quick]      writes the goldens of this checkout to DIR/quick or DIR/usual
    python -m benches.frozen compare DIR [--quick]     records this checkout again and prints every difference
    python -m benches.frozen compare DIR OTHER         compares two recorded folders

Recorded are scores, comparisons, reports and exports of runs that span the features, a digest of every rendered
prompt with what was read in its answer, extractions of stored texts, and the requests that each kind of API gets. Only
the command line is used. What differs from call to call (times, paths, versions, file digests) is masked.

`--names FILE` is a table of renamed keys, codes and option values (old name, new name, kind), `--explained FILE` one of
intended differences (pattern of FILE#PATH, reason). Either spelling of a renamed name is taken. In texts for people
only the numbers are compared. Numbers are the same within 1e-12. The exit code is 1 where a difference is not
explained. `--full` takes all there is: 300,000 texts, every question of the starter benchmark in 22 languages, and
control questions of large benchmarks. Needs the extra `dev`.
"""

from __future__ import annotations

import argparse
import csv
import fnmatch
import gzip
import json
import math
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent)]

from frozen_record import STEPS, record  # noqa: E402

HERE = Path(__file__).resolve().parent.parent
MISSING = "(missing)"
TOLERANCE = 1e-12
"""Polars sums in an order that differs from call to call."""


class Names:
    """Which spelling may stand for which: a table of old name, new name, kind."""

    def __init__(self, path: Path | None) -> None:
        self._new: defaultdict[str, set[str]] = defaultdict(set)
        self._ends: list[tuple[str, str]] = []
        self._starts: list[tuple[str, str]] = []
        rows = path.read_text(encoding="utf-8").splitlines() if path else []
        for row in csv.reader(rows, delimiter="\t"):
            if len(row) > 2 and row[2] in {"JSON", "field", "column head", "CLI", "file"}:
                self._add(re.sub(r" \(.*", "", row[0]), re.sub(r" \(.*", "", row[1]), row[2])

    def _add(self, old: str, new: str, kind: str) -> None:
        if "…" in old:
            self._ends.append((old.rpartition("…")[2], new.rpartition("…")[2]))
        elif ":" in old and ":" in new:
            self._starts.append((old.partition(":")[0] + ":", new.partition(":")[0] + ":"))
        elif kind == "file":
            self._new[Path(old).name].add(Path(new).name)
        elif kind == "CLI":
            words, others = old.split(), new.split()
            pairs = zip(words, others, strict=False)
            for one, two in ((a.lstrip("-"), b.lstrip("-")) for a, b in pairs):
                self._new[one].add(two)
                self._new[one.replace("-", "_")].add(two.replace("-", "_"))
        elif kind == "JSON" and " " in old:
            self._new[old.partition(" ")[2]].add(new)
        elif "." in old:
            for one, two in zip(reversed(old.split(".")), reversed(new.split(".")), strict=False):
                self._new[one].add(two)
        else:
            self._new[old].add(new)

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
        words = len(old) == len(new) and all(isinstance(one, str) for one in [*old, *new])
        if words and old == sorted(old) and new == sorted(new) and _matched(old, new, names):
            return
        for number in range(max(len(old), len(new))):
            one, two = (side[number] if number < len(side) else MISSING for side in (old, new))
            yield from differences(one, two, names, f"{path}/{number}")
    elif isinstance(old, str) and isinstance(new, str):
        if not (names.same(old, new) or _close(old, new)):
            yield path, old, new
    elif isinstance(old, bool) or isinstance(new, bool) or not _close(old, new):
        yield path, old, new


def _close(old: Any, new: Any) -> bool:
    """Whether two numbers, or texts of numbers, are the same up to the order in which parts are summed."""
    try:
        return math.isclose(float(old), float(new), rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    except (TypeError, ValueError):
        return False


def _matched(old: list[str], new: list[str], names: Names) -> bool:
    """Whether each of two sorted lists has a partner in the other: renamed words are sorted elsewhere."""
    left = list(new)
    for one in old:
        other = next((two for two in left if names.same(one, two)), None)
        if other is None:
            return False
        left.remove(other)
    return True


def golden(path: Path) -> Any:
    """A golden's content; of texts for people, the numbers in them."""
    if path.suffix == ".gz":
        return [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
    found = json.loads(path.read_text(encoding="utf-8"))
    if path.name.endswith(".text.json"):
        return [
            number for line in found for number in re.findall(r"-?\d+(?:\.\d+)?", re.sub(r"\b\w*[a-f]\w*\b", "", line))
        ]
    return found


def compare(old: Path, new: Path, names: Names, explained: list[tuple[str, str]], *, part: bool = False) -> int:
    """Prints how two folders differ; the number of differences that are not explained.

    Args:
        old: Goldens from before.
        new: Goldens of today.
        names: What was renamed.
        explained: Patterns of intended differences, each with its reason.
        part: Leave out what only `old` holds: not all steps were recorded.
    """
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    first: dict[str, Difference] = {}
    files = {path.relative_to(side) for side in (old, new)[part:] for path in side.rglob("*") if path.is_file()}
    files = {file for file in files if file.name not in {"timings.json", "material.jsonl.gz"}}
    for file in sorted(files):
        sides = [golden(side / file) if (side / file).is_file() else MISSING for side in (old, new)]
        for path, one, two in differences(sides[0], sides[1], names):
            place = f"{file}#{path}"
            reason = next((reason for pattern, reason in explained if fnmatch.fnmatchcase(place, pattern)), None)
            if reason is not None:
                reasons[reason] += 1
                continue
            kind = re.sub(r"/\d+(?=/|$)", "/*", place)
            counts[kind] += 1
            first.setdefault(kind, (place, one, two))
    for kind, count in sorted(counts.items()):
        place, one, two = first[kind]
        print(f"{kind}  ({count:,})\n  {place}\n  old: {_short(one)}\n  new: {_short(two)}")
    for reason, count in reasons.items():
        print(f"explained: {reason} ({count:,})")
    print(f"{len(files)} files, {counts.total():,} differences not explained, {reasons.total():,} explained")
    return counts.total()


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
    parser.add_argument(
        "--steps", type=lambda text: tuple(text.split(",")), default=STEPS, help=f"of {','.join(STEPS)}"
    )
    parser.add_argument("--names", type=Path, help="default: docs/names.tsv")
    parser.add_argument("--explained", type=Path, default=HERE / "benches" / "frozen_explained.tsv")
    chosen = parser.parse_args()
    folder = chosen.folder / chosen.size
    if chosen.task == "record":
        record(folder.resolve(), chosen.size, chosen.steps)
        return
    table = chosen.names or HERE / "docs" / "names.tsv"
    names = Names(table if chosen.names or table.is_file() else None)
    rows = chosen.explained.read_text(encoding="utf-8").splitlines() if chosen.explained.is_file() else []
    explained = [(pattern, reason) for pattern, _, reason in (row.partition("\t") for row in rows) if reason]
    if chosen.other is not None:
        sys.exit(1 if compare(chosen.folder, chosen.other, names, explained) else 0)
    with tempfile.TemporaryDirectory(prefix="frozen-now-") as name:
        now = Path(name).resolve()
        stored = folder.resolve() / "material.jsonl.gz"
        record(now, chosen.size, chosen.steps, stored if stored.is_file() else None)
        code = compare(folder, now, names, explained, part=tuple(chosen.steps) != STEPS)
    sys.exit(1 if code else 0)


if __name__ == "__main__":
    main()
