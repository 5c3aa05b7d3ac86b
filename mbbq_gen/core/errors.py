"""The error tree: what can go wrong, and the exit code that each kind of it has.

    MbbqGenError              1   the work failed
    ├── UsageError            2   wrong use: an option, a name, a folder
    │   ├── UnknownNameError  2   a name that nobody answers to, with the nearest ones
    │   └── MissingExtraError 2   an optional package is not installed; says how to get it
    ├── DataError             2   a data file is wrong: file, row, field, what to do
    ├── PackError             2   a language pack is wrong: file, key, value, what to do
    ├── RunError              1   a run can't begin or go on
    │   └── RunLockedError    1   another process works on the run folder
    ├── DownloadError         1   a published release can't be had, or is not what it should be
    └── ProviderError         1   a model can't be had or fails for good

Every message is one sentence that a user can act on. No class derives from KeyError (it prints quotes round its text).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails


class MbbqGenError(Exception):
    """Anything that mbbq-gen raises on purpose."""

    exit_code = 1


class UsageError(MbbqGenError):
    """Wrong use: what the user typed can't be done as typed."""

    exit_code = 2


class UnknownNameError(UsageError):
    """A name that nothing answers to; the message offers the nearest known names."""

    def __init__(self, kind: str, name: str, known: Iterable[str], hint: str = "") -> None:
        names = sorted(known)
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        if near:
            advice = f"did you mean {' or '.join(repr(match) for match in near)}?"
        else:
            advice = f"known: {', '.join(names) if names else 'none'}"
        super().__init__(f"unknown {kind} {name!r}; {advice}" + (f" {hint}" if hint else ""))


class MissingExtraError(UsageError):
    """An optional package is missing; the message names the command that installs it."""


class DataError(MbbqGenError):
    """A data file is wrong; the message names file, row and field."""

    exit_code = 2


class PackError(MbbqGenError):
    """A language pack is wrong; the message names file, key and value."""

    exit_code = 2


class RunError(MbbqGenError):
    """A run can't begin or go on."""


class RunLockedError(RunError):
    """Another process works on the run folder."""


class DownloadError(MbbqGenError):
    """A published release can't be had, or what was had is not the release."""


class ProviderError(MbbqGenError):
    """A model can't be had, or fails in a way that no retry mends."""


def describe_fault(error: ValidationError, tables: Mapping[str, Any]) -> str:
    """The first fault of a validation error, in one line: key, what is wrong, and the value if it is short."""
    first, *others = describe_faults(error, tables)
    return first + (f" (and {len(others)} more)" if others else "")


def describe_faults(error: ValidationError, tables: Mapping[str, Any]) -> list[str]:
    """Every fault of a validation error, one line each."""
    faults = error.errors(include_url=False)
    return [_describe(fault, tables) for fault in faults if not _is_echo(fault, faults)]


def _is_echo(fault: ErrorDetails, faults: list[ErrorDetails]) -> bool:
    """Whether a list is too short only because an entry in it is faulty. That entry has an error of its own."""
    place = fault["loc"]
    inside = (other for other in faults if len(other["loc"]) > len(place) and other["loc"][: len(place)] == place)
    return fault["type"] == "too_short" and any(inside)


def _describe(fault: ErrorDetails, tables: Mapping[str, Any]) -> str:
    key = _key_path(fault["loc"], tables)
    message = fault["msg"].removeprefix("Value error, ")
    if fault["type"] == "extra_forbidden":
        message = "unknown key; remove it or correct its spelling"
    value = fault["input"]
    shown = f" (value: {value!r})" if isinstance(value, str | int | float | bool) and len(repr(value)) <= 80 else ""
    return f"{key}: {message}{shown}" if key else message


def _key_path(location: tuple[int | str, ...], tables: Any) -> str:
    """`variant 'plain'.text` rather than `variant.3.text`: a list's entry is named by its id where it has one."""
    path, here = "", tables
    for step in location:
        if isinstance(step, int):
            entry = here[step] if isinstance(here, list | tuple) and step < len(here) else None
            name = entry.get("id") if isinstance(entry, dict) else None
            path += f" {name!r}" if name else f"[{step}]"
            here = entry
        else:
            path += f".{step}" if path else step
            here = here.get(step) if isinstance(here, dict) else None
    return path
