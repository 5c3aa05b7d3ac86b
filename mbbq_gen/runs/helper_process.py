"""A second process of a command that asks a service: it extracts answers while this one sends requests.

It is forked before a store is opened and ends when this process does. Where there is none (not Linux, threads that may
hold locks, local models), the same functions run in this process.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


class HelperProcess:
    """Calls functions in another process once it is started, and in this one before."""

    def __init__(self, prepare: Callable[[], None] | None = None) -> None:
        """`prepare`: what the other process does first, such as imports; None: there is never another process."""
        self._prepare = prepare
        self._connection: Connection | None = None

    @property
    def is_running(self) -> bool:
        """Whether there is another process."""
        return self._connection is not None

    def start(self) -> None:
        """Forks this process, where that is safe. No file that is locked, and no database, may be open."""
        if self._prepare is None or self.is_running or sys.platform != "linux":
            return
        if len(list(Path("/proc/self/task").iterdir())) > 1:  # threads, of libraries such as polars too, may hold locks
            return
        context = get_context("fork")
        self._connection, theirs = context.Pipe()
        context.Process(target=_serve, args=(theirs, self._connection, self._prepare), daemon=True).start()
        theirs.close()

    def prepare(self) -> None:
        """Does here what the other process does first, where there is none."""
        if self._prepare is not None and not self.is_running:
            self._prepare()

    def call(self, work: Callable[..., T], *arguments: Any) -> T:
        """The result of a module's function: of the other process, or of this one where that can't give it."""
        if self._connection is not None:
            try:
                self._connection.send((work, arguments))
                is_done, result = self._connection.recv()
            except (EOFError, OSError):  # it was killed
                self._connection = None
            else:
                if is_done:
                    return result  # type: ignore[no-any-return]
        return work(*arguments)

    def close(self) -> None:
        """Lets the other process end."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _serve(connection: Connection, other_end: Connection, prepare: Callable[[], None]) -> None:
    """Does what is asked for until the other end is closed. Ctrl-C is for the process that asks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    other_end.close()
    try:
        prepare()
        while True:
            work, arguments = connection.recv()
            try:
                reply = True, work(*arguments)
            except Exception:  # the same call here says what is wrong
                reply = False, None
            connection.send(reply)
    finally:
        os._exit(0)
