"""Real responses of chat models with what a person read in them: one JSON object a line, from the user's own copy.

{"language": "nl", "context", "question", "options": […], "option_labels": […], "unknown_index": 2,
 "response": "…", "label": "0" | "1" | … | "refusal" | "none"}
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Extraction
from mbbq_gen.extraction import Question, load_extractor

ReadResult = Literal["right", "wrong option", "missed", "option where there is none"]


@dataclass(frozen=True)
class Labelled:
    """One response with its label."""

    name: str
    language: str
    options: tuple[str, ...]
    labels: tuple[str, ...]
    unknown_index: int | None
    prompt: str | None
    response: str
    gold: int | None
    """The option that a person read; a refusal counts as the unknown option."""

    def read(self) -> Extraction:
        """What the engine reads."""
        extractor = load_extractor(self.language)
        question = Question(self.options, self.labels, self.unknown_index, self.prompt)
        return extractor.extract(self.response, question)

    def result(self, found: Extraction) -> ReadResult:
        """How a reading compares with the label."""
        if found.option == self.gold:
            return "right"
        if self.gold is None:
            return "option where there is none"
        return "missed" if found.option is None else "wrong option"


def load_labelled(path: Path) -> Iterator[Labelled]:
    """The responses of a file in languages that have a pack."""
    return labelled_lines(path.read_text(encoding="utf-8"))


def labelled_lines(lines: str) -> Iterator[Labelled]:
    """The responses of JSON Lines in languages that have a pack; one whose labels are not known is left out."""
    known = set(PackPaths().names("extractors"))
    for number, line in enumerate(lines.split("\n"), 1):
        if not line.strip():
            continue
        row = json.loads(line)
        if row["language"] not in known:
            continue
        said, unknown = str(row["label"]), row.get("unknown_index")
        yield Labelled(
            name=row.get("id", f"line {number}"),
            language=row["language"],
            options=tuple(row["options"]),
            labels=tuple(row["labels"] if "labels" in row else row["option_labels"]),
            unknown_index=unknown,
            prompt="\n".join(row[key] for key in ("context", "question") if row.get(key)) or None,
            response=row["response"],
            gold=unknown if said == "refusal" else None if said == "none" else int(said),
        )
