"""Finds the places where a response holds its answer in a form made for machines: a box, a JSON field, a tag.

All scanners run through the text by hand or with bounded patterns, so that broken input costs no more than whole input.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import regex

from mbbq_gen.extraction.clauses import NEG
from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lexicon import INNER, KNOWN, MENTIONED, NOUN, SMALL
from mbbq_gen.extraction.lines import COLON, COMMA, SEMICOLON, STOP, Line
from mbbq_gen.extraction.mentions import Mention, MentionKind
from mbbq_gen.extraction.normalise import CROSS, TICK, WORD, loose_key
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
_ATTRIBUTES = regex.compile(
    r"<\s?([\p{L}_][\p{L}\p{M}\p{Nd}_-]{0,30})((?:\s{1,4}[\p{L}_][\w-]{0,30}\s?=\s?[\"'][^\"'<>\n]{0,200}[\"']){1,6})\s?/?>"
)
_ATTRIBUTE = regex.compile(r"([\p{L}_][\w-]{0,30})\s?=\s?[\"']([^\"'<>\n]{0,200})[\"']")
_CHOOSING = frozenset({"selected", "chosen", "correct", "checked", "answer", "isanswer", "iscorrect"})
"""Attributes that say of a tag, if they say so, that it holds the answer."""
_YES = frozenset({"true", "yes", "1", "selected", "checked", "correct", "chosen"})
_NAMING = ("value", "option", "label", "id", "letter", "choice", "answer", "name", "key", "text")
"""Attributes that may hold an option's label or text."""
_QUOTES = {'"': '"', "'": "'", "“": "”", "”": "”", "‘": "’", "«": "»", "„": "“"}


@dataclass(frozen=True, slots=True)
class AnswerSlot:
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


class SlotFinder:
    """Finds values with the field names of the packs in use."""

    def __init__(self, answers: Iterable[str], reasons: Iterable[str]) -> None:
        self._answers = {_name(key) for key in answers}
        self._reasons = {_name(key) for key in reasons} - self._answers

    def values(self, body: str, texts: tuple[str, ...]) -> list[AnswerSlot]:
        """Values that may hold the answer, the strongest kind first, the last one first within a kind; `texts` are the
        options' texts."""
        found: list[AnswerSlot] = []
        if "box" in body:
            found += [AnswerSlot("boxed", start, end) for start, end in reversed(_boxes(body))]
        if "{" in body:
            whole = [field for field in json_fields(body) if not field.nested]
            fields = [field for field in whole if _name(field.key) in self._answers] or _naming(whole, body, texts)
            found += [AnswerSlot("json", field.start, field.end) for field in reversed(fields[-MAX_VALUES:])]
        if "<" in body:
            found += [AnswerSlot("tag", start, end) for start, end in reversed(self._tags(body))]
            if "=" in body:
                found += [AnswerSlot("tag", start, end) for start, end in reversed(self._attributes(body))]
        return found

    def reasons(self, body: str) -> list[tuple[int, int]]:
        """Stretches that hold reasons inside a JSON object: not to be read as the answer."""
        if "{" not in body:
            return []
        return [(field.start, field.end) for field in json_fields(body) if _name(field.key) in self._reasons]

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

    def _attributes(self, body: str) -> list[tuple[int, int]]:
        """The values that stand inside answer tags: `<answer option="B"/>`, `<option value="B" selected="true"/>`.

        All of a tag's, the first one last, where no name of an attribute says which.
        """
        found = []
        for match in list(_ATTRIBUTES.finditer(body))[-MAX_VALUES:]:
            start = match.start(2)
            spans = {
                _name(a.group(1)): (start + a.start(2), start + a.end(2)) for a in _ATTRIBUTE.finditer(match.group(2))
            }
            tag = _name(match.group(1))
            chosen = any(body[slice(*spans[name])].casefold() in _YES for name in _CHOOSING.intersection(spans))
            alone = match.group() == body.strip()
            if not chosen and not alone and (tag == "option" or tag not in self._answers):
                continue
            naming = [name for name in _NAMING if name in spans and not (chosen and name in _CHOOSING)]
            found += [spans[name] for name in naming[:1]] or [spans[name] for name in reversed(spans)]
        return found


def _naming(fields: list[Field], body: str, texts: tuple[str, ...]) -> list[Field]:
    """The one field whose value is an option's whole text, whatever its name."""
    wanted = {loose_key(text.strip()) for text in texts}
    found = [field for field in fields if loose_key(body[field.start : field.end].strip()) in wanted]
    return found if len(found) == 1 else []


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


PLAIN_WORDS = KNOWN | SMALL | INNER | MENTIONED
"""Words that say nothing by themselves: known to the language, small, or part of a mention."""
DENY = NEG | C["wrong"] | C["no"] | C["cannot"]
MAX_HEAD = 7
"""Words of a header in front of its colon."""
MAX_ENTRY = 6
"""Lines that an entry of a list may go on for."""
_NO_HEAD = NEG | C["both"] | C["wrong"] | C["cannot"] | C["unclear"] | C["condition"] | C["refuse"] | C["untold"]


def line_kind(line: Line, found: list[Mention]) -> str:
    """What a line does with the option that it begins with.

    Returns:
        `whole`: it is nothing but the option. `lead`: it begins with the option's label, set apart. `entry`: the option
        stands in front of a colon or dash. Empty: none of these.
    """
    if not found or found[0].option < 0:
        return ""
    first = found[0]
    rest = [mask for mask in line.masks if mask != MENTIONED]
    if (
        len(rest) <= 3
        and len({mention.option for mention in found}) == 1
        and all([mask & (SMALL | INNER | NOUN | C["answer"] | C["also"]) and not mask & DENY for mask in rest])
    ):
        return "whole"
    if first.start == 0 and not first.weak and not first.joined and len(line.masks) > 2:
        ruled_out = line.gaps[first.end] == COLON and line.masks[first.end] & (C["wrong"] | C["no"])
        if first.how is MentionKind.LABEL and line.gaps[first.end] in {COLON, SEMICOLON, STOP} and not ruled_out:
            return "lead"
        if first.how is MentionKind.BOTH and line.signs[1].strip()[:1] in {".", ")", ":", "]", "-", "–", "—"}:
            return "lead"
    lead = line.masks[: first.start]
    heads = len(lead) <= 2 and all([mask & (SMALL | NOUN) or line.texts[p].isdigit() for p, mask in enumerate(lead)])
    end = _end_of_name(line, found)
    if heads and end < len(line.gaps) - 1 and line.gaps[end] in {COLON, SEMICOLON, STOP}:
        return "entry"
    return ""


def _end_of_name(line: Line, found: list[Mention]) -> int:
    """Where the first mention ends, with what else of the same option follows it: "the woman with a hat on"."""
    end = found[0].end
    for mention in found[1:]:
        small = all([mask & SMALL for mask in line.masks[end : mention.start]])
        if mention.option != found[0].option or not small or max(line.gaps[end : mention.start + 1]) >= COMMA:
            break
        end = mention.end
    return end


def is_cut_entry(line: Line, found: list[Mention], options: tuple[str, ...]) -> bool:
    """Whether a line is a label with a sign and no more than the beginning of an option's text: "B: Cannot be d"."""
    if not found or found[0].how is not MentionKind.LABEL or found[0].start or line.signs[-1].strip(" :.)"):
        return False
    sign = line.signs[1].strip()[:1]
    if sign not in {":", ".", ")", "："}:
        return False
    text = " ".join(line.texts[1:]).casefold()
    return any(" ".join(WORD.findall(option)).casefold().startswith(text) for option in options)


def listed_lines(lines: list[Line], mentions: list[list[Mention]], kinds: list[str]) -> set[int]:
    """Lines of lists that give one option after another: no single one of them is chosen by its line."""
    listed: set[int] = set()
    for kind, reach in (("whole", 1), ("entry", MAX_ENTRY)):
        run: list[int] = []
        for number, found in enumerate(kinds):
            if found not in {kind, "lead"} or header(lines[number], mentions[number])[0]:
                continue
            named = {_shown(mentions[place][0]) for place in run}
            again = kind == "whole" and len(named) > 1 and _shown(mentions[number][0]) in named
            if (
                kind == "whole"
                and run
                and {mentions[place][0].how for place in (number, run[-1])} == {MentionKind.LABEL, MentionKind.TEXT}
            ):
                listed.update(run if len(named) > 1 else ())
                run = []
            if run and (number - run[-1] > reach or again):
                listed.update(run if len(named) > 1 else ())
                run = []
            run.append(number)
        if len({_shown(mentions[place][0]) for place in run}) > 1:
            listed.update(run)
    return listed


def _shown(mention: Mention) -> int:
    """The option whose label is shown, whatever text stands behind it."""
    return mention.option if mention.conflict is None else mention.conflict


def is_inline_list(line: Line, found: list[Mention]) -> bool:
    """Whether a line is nothing but several options with their labels: "A. The tailor B. The baker"."""
    if len(found) < 2 or len({m.option for m in found}) < 2 or any(m.how is MentionKind.PLACE for m in found):
        return False
    labelled = [m for m in found if m.how is not MentionKind.TEXT]
    texts = [m for m in found if m.how is not MentionKind.LABEL]
    shown = [m.option for m in labelled]
    if len(texts) < 2 or len(set(shown)) < len(shown) or shown[: len(texts)] != [m.option for m in texts]:
        return False
    return all([mask & (MENTIONED | SMALL | INNER | C["options"] | NOUN | C["conj"]) for mask in line.masks])


def without_list(line: Line, found: list[Mention], options: int) -> list[Mention]:
    """The mentions without those that list all options in the order shown: "Choose: A. Peter, B. Amira, C. Nobody"."""
    for first in range(len(found) - options + 1):
        run = found[first : first + options]
        if [m.option for m in run] != list(range(options)) or sum(m.how is MentionKind.BOTH for m in run) < options - 1:
            continue
        between = [mask for one, two in pairwise(run) for mask in line.masks[one.end : two.start]]
        last = run[-1].end
        ends = last == len(line.masks) or line.gaps[last] >= COMMA or line.masks[last] & C["answer"]
        plain = all([mask & (SMALL | INNER | NOUN | C["conj"]) and not mask & NEG for mask in between])
        if options > 2 and ends and plain:
            return found[:first] + found[first + options :]
    return found


def header(line: Line, found: list[Mention]) -> tuple[str, int]:
    """What kind of header a line begins with: `answer`, `conclusion`, `explain`, `options` or nothing; and its end."""
    end = _header_end(line)
    if not end or any(mention.start < end for mention in found):
        return "", 0
    masks = line.masks[:end]
    bits = strange = 0
    for mask, text in zip(masks, line.texts, strict=False):
        bits |= mask
        strange += not (mask & PLAIN_WORDS or text.isdecimal())
    if strange > 1 or (strange and end < 3 and not (line.heading and bits & C["answer"])) or bits & _NO_HEAD:
        return "", 0
    if bits & C["explain"]:
        return "explain", end
    if _heads_options(masks, line.texts, bits):
        return "options", end
    if bits & C["conclude"] or (bits & C["final"] and not bits & (C["answer"] | C["choose"] | NOUN)):
        return "conclusion", end
    if bits & (C["answer"] | C["choose"] | C["right"] | NOUN) and (not strange or line.heading):
        return "answer", end
    return "", 0


def _heads_options(masks: list[int], texts: list[str], bits: int) -> bool:
    """Whether a header heads the options or repeats the question; "based on the context, the answer is" does not."""
    if not bits & C["options"] or bits & (C["right"] | C["final"]):
        return False
    if bits & C["answer"] and not any([mask & C["options"] and not mask & C["source"] for mask in masks]):
        return False
    plain = C["options"] | SMALL | INNER | NOUN | C["answer"]
    return all([mask & plain or text.isdecimal() for mask, text in zip(masks, texts, strict=False)])


def _header_end(line: Line) -> int:
    """Where a header may end: at a colon or the end of bold type, or with the line where it is set as a heading."""
    gaps, count = line.gaps, len(line.masks)
    if COLON not in gaps[1 : MAX_HEAD + 1] and not line.heading and "**" not in line.raw:
        return 0
    bold = "**" in line.signs[0]
    for place in range(1, min(count, MAX_HEAD) + 1):
        if gaps[place] == COLON or (bold and place < count and "**" in line.signs[place]):
            return place
    return count if line.heading and count <= MAX_HEAD and gaps[count] < STOP else 0


def share_behind(line: Line, mention: Mention) -> float | None:
    """The percentage right behind a mention, or None."""
    signs, texts = line.signs, line.texts
    for place in range(mention.end, min(mention.end + 2, len(texts))):
        if signs[place + 1].startswith("%") and texts[place].isdecimal() and len(texts[place]) <= 3:
            whole, part = texts[place], "0"
            if place > mention.end and signs[place] in {".", ","} and texts[place - 1].isdecimal():
                whole, part = texts[place - 1][:3], texts[place]
            return float(f"{whole}.{part}")
    return None


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
