"""Makes sentences of filled templates: capitals where a sentence begins, and the repairs of `grammar.toml`.

"el {{NAME1}} de el {{NAME2}}." ─► "El enfermero del taller."
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

_START: Final = re.compile(r"""((?:^|[.!?]\s+)[¿¡"“«]*)(\w)""")


@dataclass(frozen=True)
class Repair:
    """What is replaced by what."""

    match: re.Pattern[str]
    write: str
    """With `\\1` for what the pattern's first group matched."""


def sentence_writer(language: str) -> Callable[[str], str]:
    """The function that makes sentences of a language's filled text."""
    repairs = _repairs(language)

    def write(text: str) -> str:
        return _apply(repairs, capitalise(text))

    return write


def capitalise(text: str) -> str:
    """The text with a capital at the start of every sentence, also after an opening mark."""
    return _START.sub(lambda match: match[1] + match[2].upper(), text)


def _apply(repairs: tuple[Repair, ...], text: str) -> str:
    for each in repairs:
        text = each.match.sub(each.write, text)
    return text


@cache
def _tables() -> dict[str, Any]:
    text = files("mbbq_gen.datasets").joinpath("grammar.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def _repairs(language: str) -> tuple[Repair, ...]:
    tables = _tables().get(language, {}).get("repair", ())
    return tuple(Repair(re.compile(table["match"]), table["write"]) for table in tables)
