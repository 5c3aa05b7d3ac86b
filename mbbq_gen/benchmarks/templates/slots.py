"""The parts of EsBBQ's workbooks: rows in one language, slots and word lists, and sentences of filled text.

Columns of several languages end in the language's code: `names_es`, `names_ca`. One language is read, without the
ending; the others are left out. Cells lose the spaces at their edges; a whole number is written without a fraction.
openpyxl is imported when a workbook is opened. Functions about slots and lists raise ValueErrors that name the slot.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final, TypeVar

from pydantic import BaseModel

from mbbq_gen.benchmarks.rows import RowLocation, checked
from mbbq_gen.core.errors import UnknownNameError
from mbbq_gen.core.tables import cell_text, open_workbook

RowT = TypeVar("RowT", bound=BaseModel)

_ENDING: Final = re.compile(r"(.+)_([a-z]{2})")


def workbook_languages(path: Path, column: str) -> list[str]:
    """The languages that a workbook has a column in, sorted: `["ca", "es"]` for `names_ca` and `names_es`."""
    return _languages(next(iter(_rows(path, last=1)), []), column)


def read_workbook(path: Path, schema: type[RowT], language: str, marker: str) -> Iterator[tuple[RowLocation, RowT]]:
    """The rows of the first sheet that are not blank, in one language, each checked against a schema.

    Args:
        schema: its fields are named as the columns, without a language's ending.
        marker: a column that every language has; it tells which endings are languages.

    Raises:
        UnknownNameError: where the workbook is not written in that language.
        DataError: where the file is no workbook, lacks a column, or at the first row that is not of the schema.
    """
    header, *rows = _rows(path) or [[]]
    place, languages = RowLocation(path, 1), _languages(header, marker)
    if not languages:
        raise place.error(f"no column {marker}_xx with a language's code; columns: {', '.join(header)}")
    if language not in languages:
        raise UnknownNameError("language", language, languages, f"({path})")
    columns = list[str]()
    for name in header:  # a column of another language has no name
        match = None if name in schema.model_fields else _ENDING.fullmatch(name)
        is_of_language = match is not None and match[2] in languages
        columns.append(name if match is None or not is_of_language else match[1] if match[2] == language else "")
    for name, field in schema.model_fields.items():
        if columns.count(name) > 1 or (field.is_required() and name not in columns):
            raise place.error(f"is missing or listed twice; give one column {name} or {name}_{language}", name)
    for number, cells in enumerate(rows, start=2):
        if any(cells):
            fields = {name: cell for name, cell in zip(columns, cells, strict=False) if name}
            yield (place := RowLocation(path, number)), checked(fields, schema, place)


def _languages(header: list[str], column: str) -> list[str]:
    matches = (match for name in header if (match := _ENDING.fullmatch(name)))
    return sorted(match[2] for match in matches if match[1] == column)


def _rows(path: Path, last: int | None = None) -> list[list[str]]:
    with closing(open_workbook(path)) as book:
        rows = book.worksheets[0].iter_rows(max_row=last, values_only=True)
        return [[cell_text(cell).strip() for cell in cells] for cells in rows]


_START: Final = re.compile(r"""((?:^|[.!?]\s+)[¿¡"“«]*)(\w)""")


@cache
def sentence_writer(language: str) -> Callable[[str], str]:
    """The function that writes a language's filled text: a capital begins each sentence, and contractions are made."""
    tables = tomllib.loads(files("mbbq_gen.benchmarks").joinpath("grammar.toml").read_text(encoding="utf-8"))
    repairs = [(re.compile(table["match"]), table["write"]) for table in tables.get(language, {}).get("repair", ())]

    def write(text: str) -> str:
        text = _START.sub(lambda match: match[1] + match[2].upper(), text)
        for pattern, replacement in repairs:
            text = pattern.sub(replacement, text)
        return text

    return write


_SLOT: Final = re.compile(r"\{\{([^{}]*)\}\}")
_NAME: Final = re.compile(r"(?:(?:NAME|GEN|OCC)[12]|WORD[1-9])(?:-(?:def|indef))?")
_TORN_SLOT: Final = re.compile(r"\{[{\[(]?\s*(?:NAME|WORD|GEN|OCC)\d|(?:NAME|WORD|GEN|OCC)\d(?:-\w+)?\s*[)\]}]?\}")
_ENTRY: Final = re.compile(rf"\s*(?:\{{\{{)?({_NAME.pattern})(?:\}}\}})?\s*:\s*\[([^\[\];]*)\]\s*(?:;|\Z)")


def check_slots(text: str) -> str:
    """The text, with no slot that no template knows, and none that lacks a brace."""
    for name in _SLOT.findall(text):
        if not _NAME.fullmatch(name):
            raise ValueError(f"unknown placeholder {{{{{name}}}}}; known: NAME1, NAME2, WORD1 and so on, -def, -indef")
    torn = _TORN_SLOT.search(_SLOT.sub("", text))
    if torn:
        raise ValueError(f"a placeholder lacks a brace at {torn[0]!r}; write it as {{{{NAME1}}}}")
    return text


def fill_slots(text: str, values: Mapping[str, str]) -> str:
    """The text with its slots filled; each must have a value."""
    for name in _SLOT.findall(text):
        if name not in values:
            raise ValueError(f"nothing to put in {{{{{name}}}}}; list words for it or correct the placeholder")
    return _SLOT.sub(lambda match: values[match[1]], text)


def swap_names(text: str) -> str:
    """The text with NAME1 in the place of NAME2 and the other way round."""
    return re.sub(r"(?<=\{\{NAME)[12]", lambda match: "2" if match[0] == "1" else "1", text)


def named_person(answer: str) -> int:
    """Whom an answer names, and no other: 0 for NAME1, 1 for NAME2."""
    named = {name[4] for name in _SLOT.findall(answer) if name.startswith("NAME")}
    if len(named) != 1:
        raise ValueError(f"names {len(named)} of the two people; write NAME1 or NAME2")
    return int(named.pop()) - 1


def parse_lists(cell: str) -> dict[str, tuple[str, ...]]:
    """The words that a cell `NAME1: [one, two]; NAME2: [three]` lists for each slot, in its order; none if empty."""
    lists: dict[str, tuple[str, ...]] = {}
    at = 0
    while at < len(cell.rstrip()):
        entry = _ENTRY.match(cell, at)
        words = tuple(word.strip() for word in entry[2].split(",")) if entry else ()
        if entry is None or not all(words) or entry[1] in lists:
            raise ValueError(f"broken list at {cell[at : at + 40].strip()!r}; write NAME1: [one, two]; NAME2: [three]")
        lists[entry[1]] = words
        at = entry.end()
    return lists


def parallel_forms(lists: Mapping[str, tuple[str, ...]], slot: str) -> list[dict[str, str]]:
    """The words of a slot, each in the forms that are listed for it: `{"": "aunt", "-def": "the aunt"}`."""
    listed = {form: lists[slot + form] for form in ("", "-def", "-indef") if slot + form in lists}
    if len(set(map(len, listed.values()))) > 1:
        raise ValueError(f"the lists of {slot} have different lengths; list the same words in every form")
    return [dict(zip(listed, words, strict=True)) for words in zip(*listed.values(), strict=True)]
