"""Changes of a response or its options that must change nothing, on real and fresh answers: how often they do.

    python -m benches.metamorphic ../shared/reference/responses_r1_en_nl.jsonl.gz     real answers, from your own copy
    python -m benches.metamorphic tests/data/fresh/round_6a.jsonl --show 5

A line holds options, labels (or option_labels), unknown_index, language, response, context, question. The changes:

permuted   the options in another order, labels in the text renamed with them: the same option
relabelled other labels, renamed in the text: the same option
mirrored   the two people change places in the options and in the text: the other one, or the same unknown option
explained  a neutral sentence behind an answer that is declared with its label: the same option
objected   a sentence against choosing the other person by prejudice behind such an answer: the same option
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from mbbq_gen.core.records import Extraction
from mbbq_gen.extraction import Question, load_extractor

NEUTRAL = {
    "en": "That is how I read the text.",
    "nl": "Zo lees ik de tekst.",
    "es": "Así leo yo el texto.",
    "tr": "Metni böyle okuyorum.",
    "de": "So lese ich den Text.",
    "fr": "C'est ainsi que je lis le texte.",
    "it": "È così che leggo il testo.",
    "pt": "É assim que leio o texto.",
    "ca": "Així és com llegeixo el text.",
}
OBJECTION = {
    "en": "Thinking of {} here would be a stereotype.",
    "nl": "Hier aan {} denken zou een stereotype zijn.",
    "es": "Pensar aquí en {} sería un estereotipo.",
    "tr": "Burada {} diye düşünmek bir kalıp yargı olurdu.",
    "de": "Hier an {} zu denken wäre ein Klischee.",
    "fr": "Penser ici à {} serait un stéréotype.",
    "it": "Pensare qui a {} sarebbe uno stereotipo.",
    "pt": "Pensar aqui em {} seria um estereótipo.",
    "ca": "Pensar aquí en {} seria un estereotip.",
}


@dataclass(frozen=True)
class Answer:
    """A response with what it answers."""

    name: str
    language: str
    options: tuple[str, ...]
    labels: tuple[str, ...]
    unknown: int | None
    prompt: str
    response: str

    def read(self) -> Extraction:
        """What the reader takes it to mean."""
        question = Question(self.options, self.labels, self.unknown, self.prompt)
        return load_extractor(self.language).extract(self.response, question)


def answers(path: Path) -> Iterator[Answer]:
    """The answers of a file."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        row = json.loads(line)
        yield Answer(
            str(row.get("id", number)),
            row["language"],
            tuple(row["options"]),
            tuple(row.get("labels") or row["option_labels"]),
            row["unknown_index"],
            f"{row.get('context') or ''}\n{row.get('question') or ''}",
            row["response"],
        )


def renamed(response: str, names: dict[str, str]) -> str | None:
    """The response with its labels renamed; None where a label might be a word of the text."""
    if not all(re.fullmatch(r"ans\d|[B-Z]", name) or name not in response for name in names):
        return None
    return re.sub(r"\b(" + "|".join(map(re.escape, names)) + r")\b", lambda found: names[found.group()], response)


def permuted(answer: Answer) -> tuple[Answer, list[int]] | None:
    """The options turned by one place; where each of them was."""
    count = len(answer.options)
    order = [*range(1, count), 0]
    names = {answer.labels[old]: answer.labels[new] for new, old in enumerate(order)}
    response = renamed(answer.response, names)
    if response is None:
        return None
    unknown = None if answer.unknown is None else order.index(answer.unknown)
    options = tuple(answer.options[old] for old in order)
    return replace(answer, options=options, unknown=unknown, response=response), order


def relabelled(answer: Answer) -> tuple[Answer, list[int]] | None:
    """Letters for words of their own kind, and the other way round."""
    labels = tuple(f"ans{place}" for place in range(len(answer.labels)))
    if answer.labels == labels:
        labels = tuple("XYZVWU"[: len(labels)])
    response = renamed(answer.response, dict(zip(answer.labels, labels, strict=True)))
    return None if response is None else (replace(answer, labels=labels, response=response), list(range(len(labels))))


def mirrored(answer: Answer) -> tuple[Answer, list[int]] | None:
    """The two people change places: the names of one stand where the other's stood."""
    persons = [place for place in range(len(answer.options)) if place != answer.unknown]
    if len(persons) != 2:
        return None
    words = [re.findall(r"\w+", answer.options[place]) for place in persons]
    own = [[word for word in words[side] if word not in words[1 - side]] for side in (0, 1)]
    if len(own[0]) != 1 or len(own[1]) != 1:
        return None
    names = {own[0][0]: own[1][0], own[1][0]: own[0][0]}
    pattern = re.compile(r"\b(" + "|".join(map(re.escape, names)) + r")\b")

    def swap(text: str) -> str:
        return pattern.sub(lambda found: names[found.group()], text)

    order = list(range(len(answer.options)))
    return (
        replace(
            answer,
            options=tuple(map(swap, answer.options)),
            response=swap(answer.response),
            prompt=swap(answer.prompt),
        ),
        order,
    )


def added(answer: Answer, found: Extraction, sentence: str | None) -> tuple[Answer, list[int]] | None:
    """A sentence of its own behind an answer that is declared."""
    if sentence is None or found.confidence != "high" or found.option is None:
        return None
    return replace(answer, response=f"{answer.response.rstrip()}\n\n{sentence}"), list(range(len(answer.options)))


def objection(answer: Answer, found: Extraction) -> str | None:
    """A sentence against choosing a person who is not chosen."""
    others = [place for place in range(len(answer.options)) if place not in (answer.unknown, found.option)]
    text = OBJECTION.get(answer.language)
    return text.format(answer.options[others[0]]) if text and others else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--show", type=int, default=0, help="print so many changes that changed a reading")
    chosen = parser.parse_args()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    shown = 0
    for answer in answers(chosen.file):
        found = answer.read()
        changes = {
            "permuted": permuted(answer),
            "relabelled": relabelled(answer),
            "mirrored": mirrored(answer),
            "explained": added(answer, found, NEUTRAL.get(answer.language)),
            "objected": added(answer, found, objection(answer, found)),
        }
        for name, change in changes.items():
            if change is None:
                continue
            other, order = change
            again = other.read()
            place = None if again.option is None else order[again.option]
            same = place == found.option
            counts[name].update(["tried", "same" if same else "changed"])
            if not same and shown < chosen.show:
                shown += 1
                print(f"--- {name} {answer.name}: {found.option} ({found.rule}) became {place} ({again.rule})")
                print(other.options, other.labels)
                print(other.response)
    print("change      tried  changed")
    for name, count in counts.items():
        print(f"{name:10} {count['tried']:6,}  {count['changed']:7,}")


if __name__ == "__main__":
    main()
