"""Builds the development set of the extractor from `tests/data/extraction`.

`items.toml` holds invented questions; `cases_xx.jsonl` holds responses as chat models write them, with places for
labels and texts, so that each response is tried with several questions and display orders:

    {LX} {LY} {LU}   label of the right person, the other person, the unknown option; {L0} {L1} {L2} by place
    {lX}             the label in lower case; {FX} full-width, {CX} circled, {HX} a Cyrillic look-alike, {QX} squared
    {TX} {tX} {UX}   text as shown, inside a sentence, in capitals
    {M0} {x0} {V0}   a tick or cross, an `x` or blank, "correct" or "incorrect" for the option at a place

`gold` is X, Y, U, none, or an index into the case's own `options`, whose last one is the unknown option unless
`unknown` says otherwise.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import Any

from mbbq_gen.core.files import stable_number
from mbbq_gen.core.records import Extraction
from mbbq_gen.extraction import Question, load_extractor

FOLDER = Path(__file__).parents[1] / "data" / "extraction"
CORE = ("en", "nl", "es", "tr")
"""Languages whose cases cover every family."""
LANGUAGES = (
    *CORE,
    *sorted({path.stem.removeprefix("cases_") for path in FOLDER.glob("cases_*.jsonl")} - {*CORE, "any"}),
)
"""Every language that has cases."""
STYLES = {"": "ABC", "1": "123", "a": "abc", "ans": ("ans0", "ans1", "ans2")}
ORDERS = tuple(permutations("XYU"))
VARIANTS = 2
"""Questions and orders that every case is tried with."""


@dataclass(frozen=True)
class Case:
    """One response with what it must be read as."""

    name: str
    language: str
    family: str
    response: str
    options: tuple[str, ...]
    labels: tuple[str, ...]
    unknown_index: int
    gold: int | None

    @property
    def question(self) -> Question:
        """The question."""
        return Question(self.options, self.labels, self.unknown_index)


def load_cases(languages: tuple[str, ...] = CORE, variants: int = VARIANTS) -> Iterator[Case]:
    """Every case of the languages, in each of its variants."""
    items = tomllib.loads((FOLDER / "items.toml").read_text(encoding="utf-8"))
    shared = _rows("any")
    for language in languages:
        for source, rows in (("any", shared), (language, _rows(language))):
            for number, row in enumerate(rows, 1):
                yield from _variants(row, f"{source}:{number}", language, items[language], variants)


def _rows(name: str) -> list[dict[str, Any]]:
    text = (FOLDER / f"cases_{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def _variants(row: dict[str, Any], name: str, language: str, items: list[dict[str, Any]], count: int) -> Iterator[Case]:
    if "options" in row:
        options = tuple(row["options"])
        gold = None if row["gold"] == "none" else int(row["gold"])
        unknown = row.get("unknown", len(options) - 1)
        labels = tuple(row.get("labels", "ABCDEFGHIJ"[: len(options)]))
        yield Case(name, language, row["family"], row["response"], options, labels, unknown, gold)
        return
    start = stable_number(name, language)
    orders = [order for order in ORDERS if "place" not in row or order.index("X") == row["place"]]
    for variant in range(count):
        item = items[(start + variant) % len(items)]
        order = orders[(start // 7 + variant * 5) % len(orders)]
        style = row.get("labels", "")
        labels = tuple(STYLES.get(style, style))
        options = tuple(item[role.lower()]["text"] for role in order)
        response = row["response"].format_map(_values(item, order, labels, language))
        gold = None if row["gold"] == "none" else order.index(row["gold"])
        yield Case(f"{name}/{variant}", language, row["family"], response, options, labels, order.index("U"), gold)


def _values(item: dict[str, Any], order: tuple[str, ...], labels: tuple[str, ...], language: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for place, role in enumerate(order):
        text = item[role.lower()]["text"]
        mid = item[role.lower()].get("mid", text)
        letter = "ABC"[place]
        right = role == "X"
        for key in (role, str(place)):
            values |= {
                f"L{key}": labels[place],
                f"l{key}": labels[place].lower(),
                f"F{key}": chr(ord(letter) + 0xFEE0),
                f"C{key}": chr(ord("Ⓐ") + place),
                f"H{key}": "АВС"[place],
                f"Q{key}": chr(0x1F170 + place),
                f"T{key}": text,
                f"t{key}": mid,
                f"U{key}": (text.replace("i", "İ") if language == "tr" else text).upper(),
                f"M{key}": "✅" if right else "❌",
                f"x{key}": "x" if right else " ",
                f"V{key}": "correct" if right else "incorrect",
            }
    return values


@cache
def reading_of(case: Case) -> Extraction:
    """How a case is read as it stands: once for all tests that ask."""
    return load_extractor(case.language).extract(case.response, case.question)
