"""Slots of published templates, and the cells that list what may stand in them.

    {{NAME1}}  {{NAME2-def}}  {{WORD1-indef}}  {{GEN1}}  {{OCC2}}
    NAME1: [grandson, nephew]; NAME2: [grandfather, uncle]; WORD1-def: [the shop, the market]

BBQ writes some lists as `{{NAME1}}: […]`; the braces mean nothing there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_SLOT: Final = re.compile(r"\{\{([^{}]*)\}\}")
_NAME: Final = re.compile(r"(?:(?:NAME|GEN|OCC)[12]|WORD[1-9])(?:-(?:def|indef))?")
_TORN_SLOT: Final = re.compile(r"\{[{\[(]?\s*(?:NAME|WORD|GEN|OCC)\d|(?:NAME|WORD|GEN|OCC)\d(?:-\w+)?\s*[)\]}]?\}")
_ENTRY: Final = re.compile(r"\s*(?:\{\{)?([^:;\[\]{}]*?)(?:\}\})?\s*:\s*\[([^\[\]]*)\]\s*(?:;|\Z)")


def slots(text: str) -> list[str]:
    """What stands between double braces, in order."""
    return _SLOT.findall(text)


def check_slots(text: str) -> None:
    """Refuses a text with a slot that no template knows, or one that lacks a brace.

    Raises:
        ValueError: names the slot.
    """
    for name in slots(text):
        if not _NAME.fullmatch(name):
            raise ValueError(f"unknown placeholder {{{{{name}}}}}; known: NAME1, NAME2, WORD1 and so on, -def, -indef")
    torn = _TORN_SLOT.search(_SLOT.sub("", text))
    if torn:
        raise ValueError(f"a placeholder lacks a brace at {torn[0]!r}; write it as {{{{NAME1}}}}")


def fill_slots(text: str, values: Mapping[str, str]) -> str:
    """The text with its slots filled.

    Raises:
        ValueError: for a slot without a value; it names the slot.
    """

    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise ValueError(f"nothing to put in {match[0]}; list words for it or correct the placeholder")
        return values[match[1]]

    return _SLOT.sub(value, text)


def swap_names(text: str) -> str:
    """The text with NAME1 in the place of NAME2 and the other way round."""
    return re.sub(r"(?<=\{\{NAME)[12]", lambda match: "2" if match[0] == "1" else "1", text)


def named_person(answer: str) -> int:
    """Whom an answer names: 0 for NAME1, 1 for NAME2.

    Raises:
        ValueError: where it names neither or both.
    """
    named = {name[4] for name in slots(answer) if name.startswith("NAME")}
    if len(named) != 1:
        raise ValueError(f"names {len(named)} of the two people; write NAME1 or NAME2")
    return int(named.pop()) - 1


def parse_lists(cell: str) -> dict[str, tuple[str, ...]]:
    """The words that a cell lists for each slot, in the order of the cell; empty for an empty cell.

    Raises:
        ValueError: where the cell is not of the form `NAME1: [one, two]; NAME2: [three]`.
    """
    lists: dict[str, tuple[str, ...]] = {}
    at = 0
    while at < len(cell.rstrip()):
        entry = _ENTRY.match(cell, at)
        if entry is None:
            raise ValueError(f"broken list at {cell[at : at + 40].strip()!r}; write NAME1: [one, two]; NAME2: [three]")
        name, words = entry[1].strip(), tuple(word.strip() for word in entry[2].split(","))
        _check_list(name, words, lists)
        lists[name] = words
        at = entry.end()
    return lists


def _check_list(name: str, words: tuple[str, ...], lists: Mapping[str, tuple[str, ...]]) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no placeholder; known: NAME1, NAME2, WORD1 and so on, -def, -indef")
    if name in lists:
        raise ValueError(f"{name} is listed twice")
    if not all(words):
        raise ValueError(f"the list of {name} has an empty word")
    if any(";" in word for word in words):
        raise ValueError(f"broken list: a semicolon stands inside the list of {name}; separate its words by commas")


def parallel_forms(lists: Mapping[str, tuple[str, ...]], slot: str) -> list[dict[str, str]]:
    """The words of a slot, each in the forms that are listed for it: `{"": "aunt", "-def": "the aunt"}`.

    Raises:
        ValueError: where the lists of two forms have different lengths.
    """
    listed = {form: lists[slot + form] for form in ("", "-def", "-indef") if slot + form in lists}
    lengths = {slot + form: len(words) for form, words in listed.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ValueError(f"the lists of {slot} have different lengths ({told}); list the same words in every form")
    return [dict(zip(listed, words, strict=True)) for words in zip(*listed.values(), strict=True)]
