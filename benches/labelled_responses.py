"""How well real responses are read that a person has labelled, by language.

    python -m benches.labelled_responses FILE.jsonl [--misses]

The file's form is told in `tests/labelled_responses.py`.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from tests.labelled_responses import load_labelled


def main() -> None:
    parser = argparse.ArgumentParser(description="How well labelled responses are read.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--misses", action="store_true", help="print every response that is read otherwise")
    arguments = parser.parse_args()
    counts: dict[str, Counter[str]] = {}
    for labelled in load_labelled(arguments.file):
        found = labelled.read()
        verdict = labelled.verdict(found)
        for language in (labelled.language, "all"):
            counts.setdefault(language, Counter())[verdict] += 1
        if arguments.misses and verdict != "right":
            print(
                f"{labelled.name} {labelled.language}: {verdict}: {labelled.gold} read as {found.option} ({found.rule})"
            )
            print(f"    {dict(zip(labelled.labels, labelled.options, strict=True))}\n    {labelled.response!r}")
    for language, kinds in sorted(counts.items(), key=lambda entry: (entry[0] == "all", entry[0])):
        parts = ", ".join(f"{kind} {number}" for kind, number in kinds.most_common())
        print(f"{language:4} {kinds['right'] / kinds.total():6.1%} of {kinds.total():4} right: {parts}")


if __name__ == "__main__":
    main()
