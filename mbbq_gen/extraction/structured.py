"""Finds structured answers: boxes, JSON fields, tags, ticked lists, lists of probabilities, bold type.

All repetitions in patterns and loops are bounded, so that malformed input takes no longer than valid input.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

import regex

from mbbq_gen.extraction.option_matcher import OptionMatcher, SlotContent, fold
from mbbq_gen.extraction.text import CROSS, TICK, loose_key
from mbbq_gen.languages.extraction_pack import SharedSigns

MAX_VALUES = 8
"""Last values of each kind that are read."""
MAX_VALUE = 600
"""First characters of a value that are read."""
_BOX = regex.compile(r"\\f?box(?:ed)?\s*\{")
_NAME = r"[\p{L}\p{M}_][\p{L}\p{M}\p{Nd}_"
_KEY = regex.compile(
    rf"(?:[\"'“”‘’„«»]({_NAME} -]{{0,40}})[\"'“”‘’„«»]|(?<=[{{,\n]\s{{0,12}})({_NAME}]{{0,40}}))\s{{0,8}}[:：]\s{{0,8}}"
)
_TAG = regex.compile(r"<\s?([\p{L}_][\p{L}\p{M}\p{Nd}_ -]{0,30})\s?>")
_QUOTES = {'"': '"', "'": "'", "“": "”", "”": "”", "‘": "’", "«": "»", "„": "“"}
_STRUCK = re.compile(r"~~[^~\n]{1,200}~~")
_MARKS = re.compile(rf"[{TICK}{CROSS}]|\([xX ]\)|\[[xX ]?\]|[☐⬜□]")
_NUMBER = re.compile(r"(?<![\w.,])(\d{1,3}(?:[.,]\d{1,4})?)\s?(%?)(?![\w])")


class StructuredValue(NamedTuple):
    """The value of a box, JSON field or tag."""

    kind: Literal["boxed", "json", "tag"]
    start: int
    end: int


def field_name(key: str) -> str:
    """A field name without spaces, underscores and hyphens."""
    return loose_key(key).replace(" ", "").replace("_", "").replace("-", "")


def structured_values(body: str, names: frozenset[str]) -> list[StructuredValue]:
    """Values of boxes, and of fields and tags with these names, the strongest first."""
    found: list[StructuredValue] = []
    for match in reversed(list(_BOX.finditer(body))[-MAX_VALUES:] if "box" in body else []):
        depth, here = 1, match.end()
        limit = min(len(body), here + MAX_VALUE)
        while here < limit and depth:
            depth += {"{": 1, "}": -1}.get(body[here], 0)
            here += 1
        line = body.find("\n", match.end(), limit)  # a box that is never closed ends with its line
        end = here - 1 if not depth else line if line >= 0 else limit
        found.append(StructuredValue("boxed", match.end(), end))
    if "{" in body:
        fields = [field for field in json_fields(body) if field_name(field[0]) in names]
        found += [StructuredValue("json", start, end) for _, start, end in reversed(fields[-MAX_VALUES:])]
    for match in reversed(list(_TAG.finditer(body))[-MAX_VALUES:] if "<" in body else []):
        if field_name(match.group(1)) in names:
            close = body.find("</", match.end(), match.end() + MAX_VALUE)
            line = body.find("\n", match.end())
            end = close if close >= 0 else (line if line >= 0 and body[match.end() : line].strip() else len(body))
            found.append(StructuredValue("tag", match.end(), min(end, match.end() + MAX_VALUE)))
    return found


def json_fields(body: str) -> list[tuple[str, int, int]]:
    """Key, start and end of the value of each field of JSON-like objects, except fields that are objects.

    Quotes of any kind, keys without quotes, and a missing end are accepted.
    """
    fields: list[tuple[str, int, int]] = []
    here = 0
    for match in _KEY.finditer(body, body.find("{")):
        start = match.end()
        sign = body[start : start + 1]
        if match.start() < here or sign == "{":
            continue
        limit = min(len(body), start + MAX_VALUE)
        if sign in _QUOTES:
            end = _end_of_string(body, start + 1, _QUOTES[sign])
        elif sign == "[":
            close = body.find("]", start, limit)
            end = close if close >= 0 else limit
        else:
            end = start
            while end < limit and body[end] not in ",}\n":
                end += 1
        fields.append((match.group(1) or match.group(2), start, end))
        here = end
    return fields


def _end_of_string(body: str, start: int, quote: str) -> int:
    """The end of a quoted value; an apostrophe inside a word does not end it."""
    limit = min(len(body), start + 10 * MAX_VALUE)
    here = start
    while here < limit:
        if body[here] == quote and not (quote == "'" and body[here + 1 : here + 2].isalpha()):
            return here
        here += 2 if body[here] == "\\" else 1
    return min(here, len(body))


class CheckMarks:
    """Signs that tick an option or cross it out."""

    def __init__(self, shared: SharedSigns) -> None:
        self._marks = dict.fromkeys(shared.positive_marks, TICK) | dict.fromkeys(shared.negative_marks, CROSS)
        loose = dict.fromkeys(shared.loose_positive_marks, TICK) | dict.fromkeys(shared.loose_negative_marks, CROSS)
        self._all = self._marks | loose
        self._sign = re.compile("|".join(re.escape(sign) for sign in sorted(self._all, key=len, reverse=True)))

    def mark(self, text: str) -> str:
        """The text, as long as before, with words for ticks and without struck-out text.

        A sign that may be a bullet counts only if the text has both a tick and a cross.
        """
        if "~~" in text:
            text = _STRUCK.sub(lambda match: " " * len(match.group()), text)
        found = set(self._sign.findall(text)) if not text.isascii() or "[" in text else set()
        if not found:
            return text
        marks = self._all if len({self._all[sign] for sign in found}) > 1 else self._marks
        return self._sign.sub(lambda match: marks.get(match.group(), match.group()[0]).ljust(len(match.group())), text)


def ticked_option(body: str, matcher: OptionMatcher) -> SlotContent | None:
    """The only ticked option of a list in which others have no tick."""
    marks = list(_MARKS.finditer(body))
    if len(marks) < 2:
        return None
    ticked: dict[int, SlotContent] = {}
    other: set[int] = set()
    first = matcher.at(body, body.rfind("\n", 0, marks[0].start()) + 1)
    in_front = first is not None and first.end <= marks[0].start()
    for number, mark in enumerate(marks):
        content = None if in_front else matcher.at(body, mark.end())
        if content is None or "\n" in body[mark.end() : content.start]:
            line = body.rfind("\n", 0, mark.start()) + 1
            content = matcher.at(body, max(line, marks[number - 1].end() if number else 0))
            if content is None or content.end > mark.start():
                return None
        if mark.group() in {TICK, "(x)", "(X)", "[x]", "[X]"}:
            ticked[content.option] = content
        else:
            other.add(content.option)
    return next(iter(ticked.values())) if len(ticked) == 1 and other - set(ticked) else None


def greatest_share(body: str, matcher: OptionMatcher) -> tuple[int | None, int, int] | None:
    """The option with the greatest share (None for a tie), with start and end."""
    if not any(sign in body for sign in ("%", "0.", "0,")):
        return None
    shares: dict[int, tuple[float, int, int]] = {}
    percent = end = 0
    for number in _NUMBER.finditer(body):
        line = max(body.rfind("\n", end, number.start()), body.rfind("{", end, number.start()), end - 1) + 1
        name = fold(body[line : number.start()]).strip(" \t\"'|:：=,;{}()[]*_→~•.")
        option = matcher.option_names.get(name, matcher.option_names.get(name.split(")")[0].split(":")[0].strip("( ")))
        end = number.end()
        if option is not None and option not in shares:
            percent += bool(number.group(2))
            shares[option] = float(number.group(1).replace(",", ".")), line, end
    total = sum(value for value, _, _ in shares.values())
    if len(shares) < matcher.count or not (percent == len(shares) or abs(total - 1) < 0.06 or abs(total - 100) < 3):
        return None
    best = max(value for value, _, _ in shares.values())
    winners = [(option, start, end) for option, (value, start, end) in shares.items() if value == best]
    return winners[0] if len(winners) == 1 else (None, *winners[0][1:])


def only_bold(body: str, matcher: OptionMatcher) -> SlotContent | None:
    """The only bold text, if it is one option."""
    if body.count("**") != 2:
        return None
    start, end = body.index("**"), body.rindex("**")
    content = matcher.at(body, start)
    if content is None or content.end > end or body[content.end : end].strip(" .:)"):
        return None
    return content
