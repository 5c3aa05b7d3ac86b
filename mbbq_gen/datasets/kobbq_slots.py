"""Where the two people of a KoBBQ sample stand in its context, as its published template says.

`KoBBQ_templates.tsv` has the contexts with slots, each with all that may stand in it, ending included:

    오늘 [N1: 손자와, 손녀와] [N2: 할아버지를, 할머니를] 봤습니다.        N1, N2: the two people
    [W1: 공원에서, 도서관에서] …                                         W1, X1: other words that vary

The published samples do not say which filling they have, so each is laid on its template: the fixed words must be the
same (blanks aside, of which the samples lack a few), and in each slot one of its words must stand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from mbbq_gen.datasets.rows import read_table

FILE: Final = "KoBBQ_templates.tsv"
_SLOT: Final = re.compile(r"\[([NWX]\d):([^\]]*)\]")
_BLANKS: Final = re.compile(r"[\s\x00-\x1f]+")
"""Control characters stand for blanks in a few templates."""
_NAMES: Final = ("N1", "N2")


class TemplateRow(BaseModel):
    """What is read of a row of the templates."""

    model_config = ConfigDict(frozen=True)

    category: str = Field(alias="Category")
    number: str = Field(alias="ID")
    version: str
    ambiguous: str = Field(alias="Ambiguous_context")
    disambiguating: str = Field(alias="Disambiguating_context")
    biased_answer: str = Field(alias="Biased_question_answer")
    counter_answer: str = Field(alias="Counter-biased_question_answer")


Places = list[list[int]]
"""From and to where each slot reaches, and the option whose person it tells."""


class TemplateSlots:
    """The slots of the templates' contexts."""

    def __init__(self, path: Path) -> None:
        """Raises DataError where the file is not as published."""
        self._templates = {_key(row): row for _, row in read_table(path, TemplateRow, delimiter="\t")}
        self._patterns: dict[tuple[str, bool], re.Pattern[str]] = {}

    def of(self, key: str, *, disambiguated: bool, context: str, people: Sequence[str]) -> Places | None:
        """The slots in a context; None where the template is missing or says something else.

        Args:
            key: category, number and version, as `age-001a`.
            disambiguated: whether the context has its second part.
            context: of the sample.
            people: the sample's options for the two people; a place tells which of them it is about.
        """
        row = self._templates.get(key)
        if row is None:
            return None
        place = (key, disambiguated)
        if place not in self._patterns:
            text = f"{row.ambiguous} {row.disambiguating}" if disambiguated else row.ambiguous
            self._patterns[place] = re.compile("".join(_pattern(text)) + r"\s*")
        found = self._patterns[place].fullmatch(context)
        first = _first_person(row, people)
        if found is None or first is None:
            return None
        options = {"N1": first, "N2": 1 - first}
        return [[*found.span(name), options[name[:2]]] for name in found.groupdict()]


def _first_person(row: TemplateRow, people: Sequence[str]) -> int | None:
    """Which of the two options is about N1; None where no answer of the template fits."""
    for cell in (row.biased_answer, row.counter_answer):
        names = {slot[1] for slot in _SLOT.finditer(cell)} & set(_NAMES)
        fits = [place for place, text in enumerate(people) if re.fullmatch("".join(_pattern(cell)), text)]
        if len(names) == 1 and len(fits) == 1:
            return fits[0] if names == {"N1"} else 1 - fits[0]
    return None


def _key(row: TemplateRow) -> str:
    """As sample ids begin: `age-001a`."""
    category = re.sub(r"\W+", "_", row.category.strip().lower())
    return f"{category}-{row.number.strip().zfill(3)}{row.version.strip()}"


def _pattern(text: str) -> Iterator[str]:
    """The pieces of a pattern in which a context of the template is written; people's slots are named groups."""
    at = 0
    for number, slot in enumerate(_SLOT.finditer(text)):
        yield _words(text[at : slot.start()])
        fillings = sorted({filling.strip() for filling in slot[2].split(",")}, key=lambda one: (-len(one), one))
        choice = "|".join(_words(filling) for filling in fillings if filling)
        yield rf"\s*(?P<{slot[1]}_{number}>{choice})" if slot[1] in _NAMES else rf"\s*(?:{choice})"
        at = slot.end()
    yield _words(text[at:])


def _words(text: str) -> str:
    """A pattern of fixed words, with or without blanks between them."""
    return r"\s*".join(re.escape(word) for word in _BLANKS.split(text))
