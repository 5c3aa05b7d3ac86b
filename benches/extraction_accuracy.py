"""Accuracy of the extractor on labelled answers, by source and language, or by confidence.

    python -m benches.extraction_accuracy                             chat answers, by round and language
    python -m benches.extraction_accuracy --round 7 --round 12b       of these rounds
    python -m benches.extraction_accuracy --labelled FILE             real responses that a person has labelled
    python -m benches.extraction_accuracy --by-confidence             of all with an option; also with --real FOLDER
    python -m benches.extraction_accuracy --round 23 --misses nl      answers that are misread, of seen rounds and files
    python -m benches.extraction_accuracy --real FOLDER               real answers: the half that is developed on
    python -m benches.extraction_accuracy --real FOLDER --half held-out   the half that judges: figures only

`--real` reads `*.jsonl` and `*.jsonl.gz` (lines as for `--labelled`) and parts each file by a hash of the question. Of
the held-out half no text is ever shown. `lean` is the share read as a person where nobody is named, less the reverse.

A line of `tests/data/fresh/round_*.jsonl` holds context, question, options, labels, unknown_index, response, and what
a careful reader takes it to mean: `gold_option` (null: nothing is chosen) and `gold_outcome`. All but rounds 7, 9b,
10b, 11, 12b, 13b, 14b, 15b, 17b, 18b, 19b, 21b, 22, 24b, 25b and 27 have been looked at since; these judge the
extractor and are never looked at. The writers of rounds 6 to 8 wrote what is hard; those of rounds 9, 10, 12,
14, 15 and 17 to 27 answered our own prompts as today's chat models do, in round 10 three in eight without choosing
anything, in round 12 five in eight (12c: all of them). In rounds 15 and 17 to 27 about half of the answers are natural
ones, a third hard, and one in five or four chooses nothing (`group`); in round 16 none chooses, and in round 26 half
are hard and half choose nothing. Round 13 is hard prose in five languages. `tests/support/labelled_responses.py`
describes the lines of `--labelled`.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from mbbq_gen.extraction import Question
from tests.support.extraction_cases import LANGUAGES, load_cases
from tests.support.labelled_responses import Labelled, labelled_lines, load_labelled

FOLDER = Path(__file__).parent.parent / "tests" / "data" / "fresh"
_EARLY = ("6a", "6b", "8", "9a", "10a", "12a", "12c", "13a", "14a", "15a", "16", "17a", "18a", "19a", "20")
SEEN = (*_EARLY, "21a", "23", "24a", "25a", "26")
UNSEEN = ("7", "9b", "10b", "11", "12b", "13b", "14b", "15b", "17b", "18b", "19b", "21b", "22a", "22b", "24b", "25b")
ROUNDS = (*SEEN, *UNSEEN, "27a", "27b")
TARGETS = {"high": 0.993, "medium": 0.94, "low": 0.75}
RESULTS = ("right", "wrong option", "option where there is none", "missed")


def round_answers(name: str) -> Iterator[Labelled]:
    """The answers of a round."""
    for line in (FOLDER / f"round_{name}.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        question = (tuple(row["options"]), tuple(row["labels"]), row["unknown_index"])
        prompt = f"{row['context']}\n{row['question']}"
        yield Labelled(row["id"], row["language"], *question, prompt, row["response"], row["gold_option"])


def half_of(answer: Labelled) -> str:
    """`dev` or `held-out`: the same for all answers to a question."""
    return "held-out" if hashlib.sha256((answer.prompt or "").encode()).digest()[0] % 2 else "dev"


def real_answers(path: Path, half: str) -> Iterator[Labelled]:
    """The answers of one half of a file."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return (answer for answer in labelled_lines(data.decode("utf-8")) if half_of(answer) == half)


def print_real(source: str, answers: Iterable[Labelled], misses: str | None) -> None:
    """The figures of one source, a line for each language and one for all; `misses` is the language whose misread
    answers are printed."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    seconds = 0.0
    for answer in answers:
        start = time.process_time()
        found = answer.read()
        seconds += time.process_time() - start
        result = answer.result(found)
        tally = Counter({"n": 1, result: 1, "high": found.confidence == "high" and found.option is not None})
        tally["high_wrong"] = found.confidence == "high" and found.option not in {None, answer.gold}
        if found.option is not None and found.option != answer.gold:
            tally["to person"] = answer.gold == answer.unknown_index
            tally["from person"] = answer.gold is not None and found.option == answer.unknown_index
        for key in {answer.language, "all"}:
            counts[key].update(tally)
        if result != "right" and misses in {answer.language, "all"}:
            print(f"--- {answer.name}: {result}: {answer.gold} read as {found.option} ({found.rule})")
            print(f"    {dict(zip(answer.labels, answer.options, strict=True))}")
            print(f"    {answer.prompt!r}\n    {answer.response!r}")
    for key, count in sorted(counts.items(), key=lambda entry: (entry[0] != "all", entry[0])):
        n = count["n"]
        share = [100 * count[name] / n for name in ("right", "wrong option", "option where there is none", "missed")]
        high = 100 * count["high_wrong"] / max(count["high"], 1)
        speed = f"{n / seconds:7.0f}/s" if key == "all" else ""
        if key == "all" or len(counts) > 2:
            to, back = count["to person"], count["from person"]
            shares = "".join(f"{value:7.2f}" for value in share)
            lean, sure = 100 * (to - back) / n, 100 * count["high"] / n
            name = source if key == "all" else ""
            print(f"{name:36}{key:4}{n:6}{shares}{to:5}{back:5}{lean:7.2f}{sure:6.0f}{high:7.2f}{speed}")


def hard_cases() -> Iterator[Labelled]:
    """The development set of the extractor."""
    for number, case in enumerate(load_cases(LANGUAGES)):
        shown: Question = case.question
        question = (tuple(shown.options), tuple(shown.labels), shown.unknown_index)
        yield Labelled(f"case {number}", case.language, *question, shown.prompt, case.response, case.gold)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--round", action="append", choices=ROUNDS)
    parser.add_argument("--labelled", action="append", default=[], type=Path)
    parser.add_argument("--cases", action="store_true")
    parser.add_argument("--real", type=Path, help="folder of real answers, or one file of them")
    parser.add_argument("--half", choices=("dev", "held-out"), default="dev")
    parser.add_argument("--only", default="", help="of --real only files with this in their name")
    parser.add_argument("--by-confidence", action="store_true")
    parser.add_argument("--misses", metavar="XX", help="language whose misread answers are printed")
    chosen = parser.parse_args()
    files = [] if not chosen.real else [chosen.real] if chosen.real.is_file() else sorted(chosen.real.glob("*.jsonl*"))
    if chosen.real and not chosen.by_confidence:
        print(f"{chosen.half:40}     n  right  wrong  where none  missed  >p  p>  lean  high%  wrong of high")
        for path in files:
            if chosen.only in path.name:
                shown = chosen.misses if chosen.half == "dev" else None
                print_real(path.name.split(".")[0], real_answers(path, chosen.half), shown)
        return
    rounds = chosen.round or (() if chosen.labelled or chosen.cases or chosen.real else ROUNDS)
    sources = [(f"round {name}", round_answers(name), name in SEEN) for name in rounds]
    sources += [(str(path), load_labelled(path), True) for path in chosen.labelled]
    sources += [("hard cases", hard_cases(), True)] if chosen.cases else []
    sources += [(path.name, real_answers(path, chosen.half), False) for path in files if chosen.only in path.name]
    confidences: dict[str, dict[str, Counter[bool]]] = defaultdict(lambda: defaultdict(Counter))
    for title, answers, is_seen in sources:
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for answer in answers:
            found = answer.read()
            result = answer.result(found)
            for key in (answer.language, "all"):
                counts[key][result] += 1
                confidences[key][found.confidence][result == "right"] += found.option is not None
            if result != "right" and chosen.misses == answer.language and is_seen:
                print(f"{answer.name}: {result}: {answer.gold} read as {found.option} ({found.rule})")
                print(f"    {dict(zip(answer.labels, answer.options, strict=True))}\n    {answer.response!r}")
        if not chosen.by_confidence:
            print(f"{title}: right %, {', '.join(RESULTS[1:])}, of")
            for key, count in sorted(counts.items(), key=lambda entry: (entry[0] == "all", entry[0])):
                others = " ".join(f"{count[result]:4}" for result in RESULTS[1:])
                print(f"  {key:<4} {100 * count['right'] / count.total():5.1f} {others} {count.total():5}")
    for key in sorted(confidences, key=lambda name: (name == "all", name)) if chosen.by_confidence else ():
        cells = []
        for name, target in TARGETS.items():
            rights = confidences[key][name]
            share = rights[True] / rights.total() if rights.total() else 1.0
            cells.append(f"{name} {share:7.1%} of {rights.total():5,}{' ' if share >= target else ' <'}")
        print(f"{key:8}" + "   ".join(cells))


if __name__ == "__main__":
    main()
