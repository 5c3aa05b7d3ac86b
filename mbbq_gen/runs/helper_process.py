"""A helper process that extracts responses while this process sends requests.

It is forked before a store is opened and ends with this process. If forking is unsafe (not Linux, other threads, local
models), the functions run in this process.
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
    """Calls functions in another process once it is started, else in this one."""

    def __init__(self, prepare: Callable[[], None] | None = None) -> None:
        """`prepare`: called first in the other process, to import packages; None: no other process is started."""
        self._prepare = prepare
        self._connection: Connection | None = None

    @property
    def is_running(self) -> bool:
        """Whether the other process is running."""
        return self._connection is not None

    def start(self) -> None:
        """Forks this process if that is safe. No locked file and no database may be open."""
        if self._prepare is None or self.is_running or sys.platform != "linux":
            return
        if len(list(Path("/proc/self/task").iterdir())) > 1:  # threads, also those of polars, may hold locks
            return
        context = get_context("fork")
        self._connection, child = context.Pipe()
        context.Process(target=_serve, args=(child, self._connection, self._prepare), daemon=True).start()
        child.close()

    def prepare(self) -> None:
        """Runs `prepare` in this process if there is no other."""
        if self._prepare is not None and not self.is_running:
            self._prepare()

    def call(self, work: Callable[..., T], *arguments: Any) -> T:
        """Calls a module-level function in the other process, or in this one if that fails."""
        if self._connection is not None:
            try:
                self._connection.send((work, arguments))
                succeeded, result = self._connection.recv()
            except (EOFError, OSError):  # the other process was killed
                self._connection = None
            else:
                if succeeded:
                    return result  # type: ignore[no-any-return]
        return work(*arguments)

    def close(self) -> None:
        """Ends the other process."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _serve(connection: Connection, other_end: Connection, prepare: Callable[[], None]) -> None:
    """Serves calls until the other end is closed. Ignores Ctrl-C, which the calling process handles."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    other_end.close()
    try:
        prepare()
        while True:
            work, arguments = connection.recv()
            try:
                reply = True, work(*arguments)
            except Exception:  # the caller repeats the call and raises the error
                reply = False, None
            connection.send(reply)
    finally:
        os._exit(0)
