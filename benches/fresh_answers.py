"""How fresh chat answers are read, by language: answers by writers who saw no pack, no rule and no case.

    python -m benches.fresh_answers                     every round
    python -m benches.fresh_answers --round 7           one of them
    python -m benches.fresh_answers --misses en         what is read otherwise, of the rounds that may be looked at

A line of `tests/data/fresh/round_*.jsonl` holds context, question, options, labels, unknown_index, response, and what
a careful reader takes it to mean: `gold_option` (null: nothing is chosen) and `gold_outcome`. All but rounds 7, 9b,
10b, 11, 12b, 13b, 14b, 15b, 17b, 18b, 19b, 21b, 22, 24b, 25b and 27 have been looked at since; these judge the reader
and are never looked at. The writers of rounds 6 to 8 were asked for what is hard; those of rounds 9, 10, 12, 14, 15
and 17 to 27 answered our own prompts as today's chat models do, in round 10 three in eight without choosing anything,
in round 12 five in eight (12c: all of them). In rounds 15 and 17 to 27 about half of the answers are natural ones, a
third hard, and one in five or four chooses nothing (`group`); in round 16 none chooses, and in round 26 half are hard
and half choose nothing. Round 13 is hard prose in five languages.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mbbq_gen.extraction import Question, load_extractor
from mbbq_gen.records import Extraction

FOLDER = Path(__file__).parent.parent / "tests" / "data" / "fresh"
_EARLY = ("6a", "6b", "8", "9a", "10a", "12a", "12c", "13a", "14a", "15a", "16", "17a", "18a", "19a", "20")
LOOKED_AT = (*_EARLY, "21a", "23", "24a", "25a", "26")
JUDGES = ("7", "9b", "10b", "11", "12b", "13b", "14b", "15b", "17b", "18b", "19b", "21b", "22a", "22b", "24b", "25b")
ROUNDS = (*LOOKED_AT, *JUDGES, "27a", "27b")


def answers(name: str) -> Iterator[dict[str, Any]]:
    """The answers of a round."""
    for line in (FOLDER / f"round_{name}.jsonl").read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def read(row: dict[str, Any]) -> Extraction:
    """What the reader takes an answer to mean."""
    prompt = f"{row['context']}\n{row['question']}"
    extractor = load_extractor(row["language"])
    return extractor.extract(row["response"], Question(row["options"], row["labels"], row["unknown_index"], prompt))


def verdict(row: dict[str, Any], option: int | None) -> str:
    """How a reading compares with what a careful reader says."""
    if option == row["gold_option"]:
        return "right"
    if row["gold_option"] is None:
        return "invented"
    return "missed" if option is None else "wrong"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--round", action="append", choices=ROUNDS)
    parser.add_argument("--misses", metavar="XX")
    chosen = parser.parse_args()
    for name in chosen.round or ROUNDS:
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for row in answers(name):
            found = read(row)
            how = verdict(row, found.option)
            for key in (row["language"], "all"):
                counts[key].update([how, "answers"])
            if how != "right" and chosen.misses == row["language"] and name in LOOKED_AT:
                print(row["id"], how, row["gold_option"], "read as", found.option, found.rule)
                print("  " + row["response"])
        print(f"round {name}: right %, wrong option, chosen where there is none, missed, of")
        for key in sorted(counts, key=lambda key: (key == "all", key)):
            count = counts[key]
            print(
                f"  {key:<4} {100 * count['right'] / count['answers']:5.1f} {count['wrong']:4} {count['invented']:4} "
                f"{count['missed']:4} {count['answers']:5}"
            )


if __name__ == "__main__":
    main()
