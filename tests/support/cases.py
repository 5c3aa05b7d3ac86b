"""Cases of parametrised tests, and other values that stand in data files."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

DATA = Path(__file__).parents[1] / "data"


@cache
def read_data(file: str) -> Any:
    """Returns what a JSON, JSON Lines or TOML file below `tests/data` holds; `.json` may be left out."""
    path = DATA / (file if "." in file else f"{file}.json")
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()]
    return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)


def cases(file: str, test: str | None = None) -> list[Any]:
    """Returns the cases of a file below `tests/data`, or those that it holds by the name of a test."""
    found = read_data(file)
    return list(found if test is None else found[test])


def by_language(
    languages: Iterable[str], fast: Iterable[str] = ("en", "es", "hi", "nl", "tr", "zh")
) -> pytest.MarkDecorator:
    """The decorator of a test of every language; those that are not in `fast` are slow."""
    listed = sorted(languages)
    chosen = [one if one in fast else pytest.param(one, marks=pytest.mark.slow) for one in listed]
    return pytest.mark.parametrize("language", chosen)


def known(value: T | None) -> T:
    """The value, which must not be None."""
    assert value is not None
    return value
