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
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
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
"""Variable that holds the process that imported Ray in an environment of ours: Ray reads it then and never again."""
_FOLDER: Final = "mbbq-ray-"
_TOO_BUSY: Final = "timed out during startup"
"""What Ray says where its parts are not there after half a minute, a time that can't be set."""
_QUIET: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # it tells of dead workers on stdout, where our results go
}
_LOCAL: Final = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # Ray's switch for "one machine only": all its parts bind to 127.0.0.1
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),  # one for this process, for Ray reads it once
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
    """The package `ray`, connected; a Ray that this process is connected to already is used and left as it is.

    `on`: `local`, or the address of one that is there; `workers`: how many a Ray started here has room for. Raises
    RunError where it can't be reached or started.
    """
    is_new = "ray" not in sys.modules
    os.environ.update({**_QUIET, **(_LOCAL if on == HERE else {}), **({_OURS: str(os.getpid())} if is_new else {})})
    import ray

    if ray.is_initialized():
        yield ray
        return
    if on == HERE and os.environ.get(_OURS) != str(os.getpid()):
        raise RunError(
            "--ray local: this program has already imported Ray, so it cannot stay on this machine; call"
            " ray.init() first, or import it later"
        )
    with _started(ray, workers) if on == HERE else _joined(ray, on, address=on):
        yield ray


@contextmanager
def _started(ray: Any, workers: int) -> Iterator[None]:
    """A Ray of our own on this machine. Folders of commands that were killed are removed."""
    for path in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
        try:
            os.kill(int(path.name.removeprefix(_FOLDER).split("-")[0]), 0)
        except ProcessLookupError:
            shutil.rmtree(path, ignore_errors=True)
        except (ValueError, OSError):  # not ours
            continue
    prefix = f"{_FOLDER}{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as folder:
        here = {"address": "local", "_node_ip_address": "127.0.0.1", "_temp_dir": folder, "num_cpus": workers}
        few = {"include_dashboard": False, "object_store_memory": _STORE_BYTES}
        with _joined(ray, "this machine", **here, **few):
            yield


@contextmanager
def _joined(ray: Any, where: str, **given: Any) -> Iterator[None]:
    """Ray, as it is given; tried again where the machine is too busy for Ray's half a minute."""
    try:
        for is_last in (False, False, True):
            try:
                ray.init(log_to_driver=False, logging_level=logging.ERROR, **given)
                break
            except Exception as error:  # whatever Ray raises: it has no tree of its own for this
                line = str(error).splitlines()[0] if str(error) else repr(error)
                if is_last or _TOO_BUSY not in line:
                    raise RunError(f"--ray: no Ray at {where}: {line}") from error
                ray.shutdown()
        yield
    finally:
        ray.shutdown()


P = TypeVar("P")
R = TypeVar("R")
_AHEAD: Final = 2
"""Parts that a helper has at a time: it does not wait for the next one."""
_MOST_TRIES: Final = 3
"""Times that a part is done again because its helper died."""


@dataclass(frozen=True)
class MapWorkers:
    """Where work is done, and by how many."""

    ray: str
    """`local`: started here for this command; else the address of a running Ray."""
    number: int

    def each(self, prepare: Callable[[], Callable[[P], R]], parts: Iterable[P]) -> Iterator[R]:
        """The result of each part, in their order. Each helper calls `prepare` once, and its function with parts.

        Raises what a helper raised, and RunError where Ray can't be had, or helpers die over a part again and again.
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
