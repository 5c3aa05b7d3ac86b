"""Finds the places where a response holds its answer in a form made for machines: a box, a JSON field, a tag.

All scanners run through the text by hand or with bounded patterns, so that broken input costs no more than whole input.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import regex

from mbbq_gen.extraction.text import CROSS, TICK, loose_key
from mbbq_gen.languages.extraction_pack import SharedSigns

ValueKind = Literal["boxed", "json", "tag"]

MAX_VALUES = 8
"""Of each kind only so many last values are looked at."""
MAX_VALUE = 600
"""Characters of a value that are read."""

_BOX = regex.compile(r"\\f?box(?:ed)?\s*\{")
_NAME = r"[\p{L}\p{M}_][\p{L}\p{M}\p{Nd}_"
_KEY = regex.compile(
    rf"(?:[\"'“”‘’„«»]({_NAME} -]{{0,40}})[\"'“”‘’„«»]|(?<=[{{,\n]\s{{0,12}})({_NAME}]{{0,40}}))\s{{0,8}}[:：]\s{{0,8}}"
)
_TAG = regex.compile(r"<\s?([\p{L}_][\p{L}\p{M}\p{Nd}_ -]{0,30})\s?>")
_QUOTES = {'"': '"', "'": "'", "“": "”", "”": "”", "‘": "’", "«": "»", "„": "“"}


@dataclass(frozen=True, slots=True)
class StructuredValue:
    """A stretch of the text that holds an answer."""

    kind: ValueKind
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a JSON-like object."""

    key: str
    start: int
    """Where its value begins."""
    end: int
    """Where its value ends."""
    nested: bool


class StructureFinder:
    """Finds values with the field names of the packs in use."""

    def __init__(self, answers: Iterable[str], reasons: Iterable[str]) -> None:
        self._answers = {_name(key) for key in answers}
        self._reasons = {_name(key) for key in reasons} - self._answers

    def values(self, body: str, texts: tuple[str, ...]) -> list[StructuredValue]:
        """Values that may hold the answer, the strongest kind first, the last one first within a kind; `texts` are the
        options' texts."""
        found: list[StructuredValue] = []
        if "box" in body:
            found += [StructuredValue("boxed", start, end) for start, end in reversed(_boxes(body))]
        if "{" in body:
            whole = [field for field in json_fields(body) if not field.nested]
            fields = [field for field in whole if _name(field.key) in self._answers] or []
            found += [StructuredValue("json", field.start, field.end) for field in reversed(fields[-MAX_VALUES:])]
        if "<" in body:
            found += [StructuredValue("tag", start, end) for start, end in reversed(self._tags(body))]
            if "=" in body:
                found += [StructuredValue("tag", start, end) for start, end in reversed([])]
        return found

    def _tags(self, body: str) -> list[tuple[int, int]]:
        found = []
        for match in list(_TAG.finditer(body))[-MAX_VALUES:]:
            if _name(match.group(1)) not in self._answers:
                continue
            close = body.find("</", match.end(), match.end() + MAX_VALUE)
            line = body.find("\n", match.end())
            end = close if close >= 0 else (line if line >= 0 and body[match.end() : line].strip() else len(body))
            found.append((match.end(), min(end, match.end() + MAX_VALUE)))
        return found


def _name(key: str) -> str:
    """A field name without blanks, underscores and hyphens."""
    return loose_key(key).replace(" ", "").replace("_", "").replace("-", "")


def _boxes(body: str) -> list[tuple[int, int]]:
    """The insides of the last LaTeX boxes, braces balanced; a box that is never closed reaches to its line's end."""
    boxes = []
    for match in list(_BOX.finditer(body))[-MAX_VALUES:]:
        depth, here = 1, match.end()
        limit = min(len(body), here + MAX_VALUE)
        while here < limit and depth:
            depth += {"{": 1, "}": -1}.get(body[here], 0)
            here += 1
        if depth:
            line = body.find("\n", match.end(), limit)
            boxes.append((match.end(), line if line >= 0 else limit))
        else:
            boxes.append((match.end(), here - 1))
    return boxes


def json_fields(body: str) -> list[Field]:
    """Fields of JSON-like objects, whole or broken: any quotes, bare keys, cut-off ends."""
    fields = []
    first = body.find("{")
    here = 0
    for match in _KEY.finditer(body, first):
        if match.start() < here:
            continue
        end, nested = _value_end(body, match.end())
        fields.append(Field(match.group(1) or match.group(2), match.end(), end, nested))
        here = match.end() if nested else end
    return fields


def _value_end(body: str, start: int) -> tuple[int, bool]:
    """Where a value ends, and whether it is an object whose fields follow."""
    if start >= len(body):
        return start, False
    sign = body[start]
    if sign == "{":
        return start, True
    if sign == "[":
        end = body.find("]", start, start + MAX_VALUE)
        return (end if end >= 0 else min(len(body), start + MAX_VALUE)), False
    if sign in _QUOTES:
        return _string_end(body, start + 1, _QUOTES[sign]), False
    end = start
    limit = min(len(body), start + MAX_VALUE)
    while end < limit and body[end] not in ",}\n":
        end += 1
    return end, False


def _string_end(body: str, start: int, quote: str) -> int:
    """The end of a quoted value; an apostrophe inside a word does not end it."""
    limit = min(len(body), start + 10 * MAX_VALUE)
    here = start
    while here < limit:
        sign = body[here]
        if sign == "\\":
            here += 2
            continue
        if sign == quote and not (quote == "'" and body[here + 1 : here + 2].isalpha()):
            return here
        here += 1
    return min(here, len(body))


_STRUCK = re.compile(r"~~[^~\n]{1,200}~~")


class CheckMarks:
    """The signs that tick an option or cross it out."""

    def __init__(self, shared: SharedSigns) -> None:
        self._word = dict.fromkeys(shared.positive_marks, TICK) | dict.fromkeys(shared.negative_marks, CROSS)
        loose = dict.fromkeys(shared.loose_positive_marks, TICK) | dict.fromkeys(shared.loose_negative_marks, CROSS)
        self._loose = loose
        self._all = re.compile(
            "|".join(re.escape(sign) for sign in sorted({**self._word, **loose}, key=len, reverse=True))
        )

    def mark(self, text: str) -> str:
        """The text with a word in place of every sign and without what is struck out, as long as before; a sign that
        may be a bullet counts only where there are two kinds of them."""
        if "~~" in text:
            text = _STRUCK.sub(lambda match: " " * len(match.group()), text)
        found = set(self._all.findall(text)) if not text.isascii() or "[" in text else set()
        if not found:
            return text
        words = dict(self._word)
        if len({self._loose.get(sign) or self._word.get(sign) for sign in found}) > 1:
            words.update(self._loose)
        return self._all.sub(lambda match: words.get(match.group(), match.group()[0]).ljust(len(match.group())), text)
