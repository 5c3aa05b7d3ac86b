"""Connects to a running Ray, or starts one on this machine for a command; maps work that needs no model over workers.

A Ray started here listens on the loopback address only and needs a token; it has no dashboard and no usage statistics,
and keeps its files in one folder of the system's temporary directory, which is removed at the end.

    parts ─► workers, prepared once each ─► the result of each part, in the order of the parts

Mapped work costs nothing and is deterministic, so Ray replaces a worker that dies and repeats its parts. Each worker
has two parts at a time, which bounds memory.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import signal
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from mbbq_gen.core.errors import MbbqGenError, MissingExtraError, RunError, UsageError
from mbbq_gen.providers.base import is_installed

HERE: Final = "local"
"""The value of `--ray` for a Ray that this command starts."""
_INSTALL: Final = "pip install 'mbbq-gen[ray]'"
_STORE_BYTES: Final = 100_000_000
"""Shared memory of a Ray started here: blocks are small, and answers go through files."""
_OURS: Final = "MBBQ_GEN_RAY"
"""Variable with the process that imported Ray in our environment, which Ray reads only then."""
_FOLDER: Final = "mbbq-ray-"
_SESSION: Final = "MBBQ_GEN_RAY_FOLDER"
"""Variable with the folder of a Ray that was started here, in its own processes."""
_TOO_BUSY: Final = "timed out during startup"
"""Ray's message if it has not started after half a minute, which can't be changed."""
_TOKEN: Final = secrets.token_hex(32)
"""Token of a Ray started here; one for this process, because Ray reads it once."""
_QUIET: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # it tells of dead workers on stdout, where our results go
}
_LOCAL: Final = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # Ray's switch for "one machine only": all its parts bind to 127.0.0.1
    "RAY_AUTH_MODE": "token",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # a worker without a GPU of its own sees those that are there
}


def check_on(on: str) -> None:
    """Makes sure that `--ray` names a Ray, else UsageError, and that the package is there, else MissingExtraError."""
    host, _, port = on.removeprefix("ray://").rpartition(":")
    if on != HERE and not (host and port.isdigit()):
        raise UsageError(f"--ray {on}: write local (one is started here), ray://HOST:PORT or HOST:PORT")
    if not is_installed("ray"):
        raise MissingExtraError(f"--ray {on} needs Ray, which is not installed: {_INSTALL}")


@contextmanager
def connected(on: str, workers: int) -> Iterator[Any]:
    """The package `ray`, connected for the block; an existing connection of this process is used and left open.

    `on`: `local`, or an address; `workers`: places of a Ray started here. RunError if it can't be reached or started.
    """
    own = {**_QUIET, **_LOCAL, "RAY_AUTH_TOKEN": _TOKEN}
    with _environment(own if on == HERE else _QUIET):
        if "ray" not in sys.modules:
            os.environ[_OURS] = str(os.getpid())
        import ray

        if ray.is_initialized():
            yield ray
        elif on == HERE:
            if os.environ.get(_OURS) != str(os.getpid()):
                raise RunError(
                    "--ray local: this program has already imported Ray, so it cannot stay on this machine; call"
                    " ray.init() first, or import it later"
                )
            with _started(ray, workers):
                yield ray
        else:
            _init(ray, on, address=on)
            try:
                yield ray
            finally:
                ray.shutdown()


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Sets variables, and puts back what they were."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@contextmanager
def _started(ray: Any, workers: int) -> Iterator[None]:
    """A Ray of our own on this machine; removes first what killed commands have left."""
    for path in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
        with suppress(ValueError, OSError):
            process = int(path.name.removeprefix(_FOLDER).split("-")[0])
            if path.stat().st_uid == os.getuid():
                try:
                    os.kill(process, 0)
                except ProcessLookupError:  # it has ended
                    _end_processes_of(path)
                    shutil.rmtree(path, ignore_errors=True)
    for is_last in (False, False, True):  # started again if the machine is too busy for Ray's half a minute
        folder = Path(tempfile.mkdtemp(prefix=f"{_FOLDER}{os.getpid()}-"))
        given = {"_node_ip_address": "127.0.0.1", "_temp_dir": str(folder), "include_dashboard": False}
        try:
            with _environment({_SESSION: str(folder)}):
                _init(ray, "this machine", address="local", num_cpus=workers, object_store_memory=_STORE_BYTES, **given)
            break
        except BaseException as error:
            ray.shutdown()
            _end_processes_of(folder)
            shutil.rmtree(folder, ignore_errors=True)
            if is_last or not isinstance(error, RunError) or _TOO_BUSY not in str(error):
                raise
    try:
        yield
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def _init(ray: Any, where: str, **given: Any) -> None:
    try:
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **given)
    except Exception as error:  # whatever Ray raises: it has no tree of its own for this
        raise RunError(f"--ray: no Ray at {where}: {str(error).splitlines()[0] if str(error) else error!r}") from error


def _end_processes_of(folder: Path) -> None:
    """Ends the processes of Ray that were started for a folder, where the system has /proc."""
    mark = f"{_SESSION}={folder}".encode()
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            handle = os.pidfd_open(int(path.name))  # the process that is looked at is the one that is ended
            try:
                line, variables = (path / "cmdline").read_bytes(), (path / "environ").read_bytes().split(b"\0")
                if mark in variables and (line.startswith(b"ray::") or os.fsencode(folder) in line):
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
            finally:
                os.close(handle)


P = TypeVar("P")
R = TypeVar("R")
_AHEAD: Final = 2
"""Parts that a worker has at a time, so that it never waits for the next one."""
_MOST_TRIES: Final = 3
"""Times that a part is repeated because its worker died."""


@dataclass(frozen=True)
class MapWorkers:
    """Workers that map a function over parts."""

    ray: str
    """`local`: started here for this command; else the address of a running Ray."""
    number: int

    def each(self, prepare: Callable[[], Callable[[P], R]], parts: Iterable[P]) -> Iterator[R]:
        """The result of each part, in order; each worker calls `prepare` once, and its function with parts.

        Raises what a worker raised; RunError if Ray can't be reached, or workers die over a part again and again.
        """
        with connected(self.ray, self.number) as ray:
            options = {"num_cpus": 1, "max_restarts": -1, "max_task_retries": _MOST_TRIES}
            kind = ray.remote(_Helper).options(**options)
            actors = [kind.remote(prepare) for _ in range(self.number)]
            under_way: deque[Any] = deque()
            try:
                for number, part in enumerate(parts):
                    if len(under_way) == _AHEAD * len(actors):
                        yield _result(ray, under_way.popleft())
                    under_way.append(actors[number % len(actors)].work.remote(part))
                while under_way:
                    yield _result(ray, under_way.popleft())
            finally:
                for actor in actors:
                    ray.kill(actor)


def _result(ray: Any, reference: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, MbbqGenError):
            raise error.cause from None
        raise RunError(f"--ray: a worker failed: {str(error).strip().splitlines()[-1]}") from error
    except ray.exceptions.RayError as error:
        raise RunError(f"--ray: a worker died {_MOST_TRIES + 1} times over one part; check the memory") from error


class _Helper:
    """Made an actor by `MapWorkers`."""

    def __init__(self, prepare: Callable[[], Callable[[Any], Any]]) -> None:
        self._work = prepare()

    def work(self, part: Any) -> Any:
        """The result of a part."""
        return self._work(part)
