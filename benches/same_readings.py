"""Whether another checkout reads every text as this one does: for changes that must not move a reading.

    python benches/same_readings.py --against FOLDER
    python benches/same_readings.py --against FOLDER --file answers.jsonl.gz    with real answers, as `extract --jsonl`

Texts are the cases and chat answers of `tests/data`, the examples of all packs, and the files' answers; each whole, cut
twice, with its lines and its sentences shuffled, as it ends for want of room, and as an answer to a question in another
language. Compared are outcome, option, confidence, rule, places and conflicts. Readings that differ are listed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_extraction import read_rows

if TYPE_CHECKING:
    from mbbq_gen.extraction import Question

HERE = Path(__file__).parent.parent
FRESH = [HERE / "tests" / "data" / "fresh" / f"round_{name}.jsonl" for name in ("6a", "6b", "8", "9a", "10a")]
Row = dict[str, Any]


def base_rows(files: Iterable[Path]) -> Iterator[Row]:
    """Answers with their questions: language, response, options, labels, unknown, prompt."""
    from mbbq_gen.extraction import Question
    from mbbq_gen.extraction.engine import read_grammar
    from mbbq_gen.resources import Resources
    from tests.extraction_cases import LANGUAGES, load_cases

    for row in read_rows([*FRESH, *files]):
        prompt = "\n".join(row[key] for key in ("context", "question") if row.get(key)) or None
        asked = Question(row["options"], row["labels"], row["unknown_index"], prompt)
        yield _row(row["language"], row["response"], asked)
    for case in load_cases(LANGUAGES):
        yield _row(case.language, case.response, case.question)
    for language in Resources().names("extractors"):
        for example in read_grammar(language, Resources()).example:
            yield _row(language, example.response, example.asked)


def _row(language: str, response: str, asked: Question) -> Row:
    shown = {"options": list(asked.options), "labels": list(asked.labels), "unknown": asked.unknown_index}
    return {"language": language, "response": response, "finish": None, **shown, "prompt": asked.prompt}


def changed(row: Row, draw: random.Random) -> Iterator[Row]:
    """The answer as it is, and what may become of it."""
    text = row["response"]
    yield row
    yield {**row, "response": text[: len(text) * 2 // 5]}
    yield {**row, "response": text[: len(text) * 4 // 5], "finish": "length"}
    yield {**row, "language": "en" if row["language"] != "en" else draw.choice(["nl", "es", "tr", "zh", "ar"])}
    lines, sentences = text.split("\n"), re.split(r"(?<=[.!?。])\s+", text)
    for parts, sign in ((lines, "\n"), (sentences, " ")):
        if len(parts) > 1:
            draw.shuffle(parts)
            yield {**row, "response": sign.join(parts)}


def read(texts: Path, to: Path) -> None:
    """Reads every text of a file; a line for each reading."""
    from mbbq_gen.extraction import Question, load_extractor

    with texts.open(encoding="utf-8") as rows, to.open("w", encoding="utf-8") as out:
        for line in rows:
            row = json.loads(line)
            question = Question(row["options"], row["labels"], row["unknown"], row["prompt"])
            reader = load_extractor(row["language"])
            out.write(reader.extract(row["response"], question, finish_reason=row["finish"]).model_dump_json() + "\n")


@dataclass(frozen=True)
class Side:
    """A checkout and its readings."""

    tree: Path
    readings: Path

    def start(self, texts: Path) -> subprocess.Popen[bytes]:
        """Reads in a process of its own, whose package is that of the checkout."""
        command = [sys.executable, __file__, "--read", str(texts), "--to", str(self.readings)]
        return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(self.tree)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path, action="append", default=[], help="JSON Lines; may be .gz")
    parser.add_argument("--against", type=Path, help="another checkout of this project")
    parser.add_argument("--every", type=int, default=1, help="only every so many-th answer")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--to", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.read is not None:
        read(chosen.read, chosen.to)
        return
    sys.path.append(str(HERE))  # for the cases
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        texts, draw, count = folder / "texts.jsonl", random.Random(1), 0
        with texts.open("w", encoding="utf-8") as out:
            for row in list(base_rows(chosen.file))[:: chosen.every]:
                for text in changed(row, draw):
                    out.write(json.dumps(text, ensure_ascii=True) + "\n")
                    count += 1
        sides = [Side(HERE, folder / "one"), Side(chosen.against.resolve(), folder / "two")]
        codes = [process.wait() for process in [side.start(texts) for side in sides]]
        if any(codes):
            sys.exit("a text could not be read")
        print(f"{count} texts, {differing(texts, *sides)} read differently")


def differing(texts: Path, one: Side, two: Side) -> int:
    """How many readings differ; the first ones are shown."""
    found = 0
    rows = zip(*(file.open(encoding="utf-8") for file in (texts, one.readings, two.readings)), strict=True)
    for text, first, second in rows:
        if first != second:
            found += 1
            if found <= 20:
                print(text, first, second, sep="", end="\n")
    return found


if __name__ == "__main__":
    main()
