"""How right readings of each confidence are, by language, over labelled answers of several kinds.

    python -m benches.confidence tests/data/fresh/round_6a.jsonl
    python -m benches.confidence tests/data/fresh/*.jsonl --cases --labelled FILE

`--cases` adds our own hard cases, `--labelled FILE` real responses that a person has labelled (their form is told in
`tests/labelled_responses.py`). Wanted: high 99.3 %, medium 94 %, low 75 %.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from mbbq_gen.extraction import Question, load_extractor
from mbbq_gen.resources import Resources
from tests.extraction_cases import load_cases
from tests.labelled_responses import load_labelled

WANTED = {"high": 0.993, "medium": 0.94, "low": 0.75}


def readings(arguments: argparse.Namespace) -> Iterator[tuple[str, str, bool]]:
    """Language, confidence, and whether it is right, of every reading."""
    for path in arguments.files:
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            prompt = f"{row['context']}\n{row['question']}"
            reader = load_extractor(row["language"])
            question = Question(row["options"], row["labels"], row["unknown_index"], prompt)
            found = reader.extract(row["response"], question)
            yield row["language"], found.confidence, found.option == row["gold_option"]
    for path in arguments.labelled:
        for labelled in load_labelled(path):
            found = labelled.read()
            yield labelled.language, found.confidence, found.option == labelled.gold
    languages = tuple(Resources().names("extractors"))
    for case in load_cases(languages) if arguments.cases else ():
        found = load_extractor(case.language).extract(case.response, case.question)
        yield case.language, found.confidence, found.option == case.gold


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--labelled", action="append", default=[], type=Path)
    parser.add_argument("--cases", action="store_true")
    counts: dict[str, dict[str, Counter[bool]]] = defaultdict(lambda: defaultdict(Counter))
    for language, confidence, right in readings(parser.parse_args()):
        for key in (language, "all"):
            counts[key][confidence][right] += 1
    print("language" + "".join(f"{name:>24}" for name in WANTED))
    for language in sorted(counts, key=lambda name: (name == "all", name)):
        cells = []
        for name, wanted in WANTED.items():
            count = counts[language][name]
            share = count[True] / count.total() if count.total() else 1.0
            cells.append(f"{share:7.1%} of {count.total():5,}{' ' if share >= wanted else ' <':<2}")
        print(f"{language:8}" + "".join(f"{cell:>24}" for cell in cells))


if __name__ == "__main__":
    main()
