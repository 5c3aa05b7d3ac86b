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
from collections.abc import Iterable


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
