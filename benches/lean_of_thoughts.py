"""How often the lean of long, thought-like texts is what their labels say.

    python -m benches.lean_of_thoughts FILE.jsonl[.gz] [--sample N] [--seed S] [--without-last-line] [--misses]

One JSON object a line: language, context, question, options, labels, unknown_index, response, label (an index).
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

from mbbq_gen.extraction.question import Question
from mbbq_gen.extraction.thoughts import STANCES, load_thought_reader
from mbbq_gen.records import DETECTED
from mbbq_gen.resources import Resources


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, packed or not."""
    packed = path.read_bytes()
    text = (gzip.decompress(packed) if path.suffix == ".gz" else packed).decode("utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


def main() -> None:
    parser = argparse.ArgumentParser(description="How often the lean of long texts is what their labels say.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--sample", type=int, default=1200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without-last-line", action="store_true", help="cut the line off that names the answer")
    parser.add_argument("--misses", action="store_true", help="print what is read otherwise")
    arguments = parser.parse_args()
    rows = read_rows(arguments.file)
    random.Random(arguments.seed).shuffle(rows)
    rows = rows[: arguments.sample]
    verdicts: Counter[str] = Counter()
    stances: Counter[str] = Counter()
    resources, started = Resources(), time.perf_counter()
    for row in rows:
        text = row["response"].rstrip()
        if arguments.without_last_line:
            text = text.rpartition("\n")[0]
        prompt = f"{row['context']}\n{row['question']}"
        reader = load_thought_reader(row["language"], resources)
        found = reader.read(text, Question(row["options"], row["labels"], row["unknown_index"], prompt))
        right = found.option == int(row["label"])
        verdict = "right" if right else "another option" if found.outcome in DETECTED else "nothing"
        verdicts[verdict] += 1
        stances.update(found.stances)
        if arguments.misses and not right:
            print(f"{row['id']}: {row['label']} read as {found.option} ({found.rule})\n{text[-600:]}\n")
    for verdict, count in verdicts.most_common():
        print(f"{verdict:15} {count:5} {count / len(rows):6.1%}")
    print("speak of: " + ", ".join(f"{stance} {stances[stance] / len(rows):.0%}" for stance in STANCES))
    print(f"{(time.perf_counter() - started) / len(rows) * 1000:.1f} ms each")


if __name__ == "__main__":
    main()
