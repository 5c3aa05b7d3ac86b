"""Errors with exit codes: 2 for wrong use or bad input, 1 for failed work.

Every message is one sentence that a user can act on. No class derives from KeyError, which quotes its text.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails


class MbbqGenError(Exception):
    """Base class of all errors that mbbq-gen raises."""

    exit_code = 1


class UsageError(MbbqGenError):
    """Wrong use: an argument, option or setting is wrong."""

    exit_code = 2


class UnknownNameError(UsageError):
    """An unknown name; the message suggests the nearest known names."""

    def __init__(self, kind: str, name: str, known: Iterable[str], hint: str = "") -> None:
        names = sorted(known)
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        if near:
            advice = f"did you mean {' or '.join(repr(match) for match in near)}?"
        else:
            advice = f"known: {', '.join(names) if names else 'none'}"
        super().__init__(f"unknown {kind} {name!r}; {advice}" + (f" {hint}" if hint else ""))


class Spelling(NamedTuple):
    """The spelling of settings: as options, Python keywords, or keys of a file."""

    prefix: str = ""
    dash: str = "_"
    equals: str = "="

    def name(self, setting: str) -> str:
        """The setting as the user types it."""
        name = "model_arg" if self.prefix and setting == "model_args" else setting
        return self.prefix + name.replace("_", self.dash)

    def value(self, value: Any) -> str:
        """A value in one line: lists with commas, tables as NAME=VALUE."""
        if isinstance(value, Mapping):
            return ",".join(f"{name}={self.value(entry)}" for name, entry in value.items() if entry is not None)
        if isinstance(value, list | tuple):
            return ",".join(map(self.value, value))
        if isinstance(value, bool):
            return str(value).lower()
        return repr(value) if isinstance(value, str) and (not value or " " in value) else str(value)


PYTHON: Final = Spelling()
COMMAND: Final = Spelling("--", "-", " ")
FILE: Final = Spelling(equals=" = ")


class ConfigError(UsageError):
    """A wrong setting of a run, with its value, the allowed values and the nearest name."""

    def __init__(
        self, setting: str, value: Any, problem: str, known: Iterable[str] = (), *, wrong: str | None = None
    ) -> None:
        """`known`: the allowed names, of which the nearest to `wrong` (default: the value) is suggested."""
        super().__init__(setting, value, problem)
        self.setting, self.value, self.problem = setting, value, problem
        self.near = difflib.get_close_matches(str(value) if wrong is None else wrong, list(known), n=1)
        self.spelling: Spelling | None = None
        self.place = ""
        """The file of the setting and a colon, if it is in one."""

    def spelled(self, spelling: Spelling, place: str = "") -> ConfigError:
        """This error, with a spelling and a place unless it has them already."""
        if self.spelling is None:
            self.spelling, self.place = spelling, place
        return self

    def __str__(self) -> str:
        """The error in one line; `{name}` in the problem is replaced by another setting."""
        spelling = self.spelling or PYTHON
        flag = self.value is None or (spelling.prefix and self.value is True)
        given = "" if flag else f"{spelling.equals}{spelling.value(self.value)}"
        problem = re.sub(r"\{(\w+)\}", lambda found: spelling.name(found[1]), self.problem)
        near = f"; did you mean {self.near[0]!r}?" if self.near else ""
        return f"{self.place}{spelling.name(self.setting)}{given}: {problem}{near}"


class MissingExtraError(UsageError):
    """An optional package is missing; the message names the command that installs it."""


class DataError(MbbqGenError):
    """A data file is wrong; the message names file, row and field."""

    exit_code = 2


class PackError(MbbqGenError):
    """A language pack is wrong; the message names file, key and value."""

    exit_code = 2


class RunError(MbbqGenError):
    """A run can't start or continue."""


class RunLockedError(RunError):
    """Another process has locked the run folder."""


class DownloadError(MbbqGenError):
    """A published release can't be downloaded, or the download differs from it."""


class ProviderError(MbbqGenError):
    """A model is not available, or fails with an error that is not transient."""


def describe_fault(error: ValidationError, tables: Mapping[str, Any]) -> str:
    """The first error of a validation as key, problem and, if short, value."""
    first, *others = describe_faults(error, tables)
    return first + (f" (and {len(others)} more)" if others else "")


def describe_faults(error: ValidationError, tables: Mapping[str, Any]) -> list[str]:
    """Every error of a validation, one line each."""
    return [_describe(fault, tables) for fault in error.errors(include_url=False)]


def _describe(fault: ErrorDetails, tables: Mapping[str, Any]) -> str:
    key = _key_path(fault["loc"], tables)
    message = fault["msg"].removeprefix("Value error, ")
    if fault["type"] == "extra_forbidden":
        message = "unknown key; remove it or correct its spelling"
    value = fault["input"]
    shown = f" (value: {value!r})" if isinstance(value, str | int | float | bool) and len(repr(value)) <= 80 else ""
    return f"{key}: {message}{shown}" if key else message


def _key_path(location: tuple[int | str, ...], tables: Any) -> str:
    """The path of a key, such as `variant 'plain'.text`: list entries are named by their ids."""
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
