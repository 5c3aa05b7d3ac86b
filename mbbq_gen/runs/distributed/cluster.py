"""Connects to a running Ray, or starts one on this machine.

A Ray started here listens on the loopback address only and requires a token; it has no dashboard and no usage
statistics. Its files are in one folder of the system's temporary directory, which is removed at the end.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from mbbq_gen.core.errors import MissingExtraError, RunError, UsageError
from mbbq_gen.providers.base import is_installed

LOCAL: Final = "local"
"""The value of `--ray` for a Ray that this command starts."""
_INSTALL: Final = "pip install 'mbbq-gen[ray]'"
_STORE_BYTES: Final = 100_000_000
"""Shared memory of a Ray started here; blocks are small, and responses are passed in files."""
_IMPORTED_BY: Final = "MBBQ_GEN_RAY"
"""Environment variable: the process that imported Ray, which reads its environment at import."""
_FOLDER: Final = "mbbq-ray-"
_FOLDER_OF: Final = "MBBQ_GEN_RAY_FOLDER"
"""Environment variable of Ray's processes with the folder of a Ray started here."""
_START_TIMEOUT: Final = "timed out during startup"
"""Ray's message if it has not started within half a minute, a fixed timeout."""
_TOKEN: Final = secrets.token_hex(32)
"""Token of a Ray started here; the same for the whole process, because Ray reads it once."""
_ENVIRONMENT: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # no messages about dead workers on stdout, which is for results
}
_LOCAL_ENVIRONMENT: Final = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # makes all parts of Ray bind to 127.0.0.1
    "RAY_AUTH_MODE": "token",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # workers without a GPU of their own can use all
}


def check_ray(address: str) -> None:
    """Checks `--ray`: UsageError for an invalid address, MissingExtraError if the package is not installed."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if address != LOCAL and not (host and port.isdigit()):
        raise UsageError(f"--ray {address}: write local (one is started here), ray://HOST:PORT or HOST:PORT")
    if not is_installed("ray"):
        raise MissingExtraError(f"--ray {address} needs Ray, which is not installed: {_INSTALL}")


@contextmanager
def connected(address: str, workers: int) -> Iterator[Any]:
    """Connects the package `ray` and yields it; an existing connection of this process is used and left open.

    `address`: `local`, or of a running Ray; `workers`: CPUs of a local Ray. RunError if it can't be reached or started.
    """
    own = {**_ENVIRONMENT, **_LOCAL_ENVIRONMENT, "RAY_AUTH_TOKEN": _TOKEN}
    with _environment(own if address == LOCAL else _ENVIRONMENT):
        if "ray" not in sys.modules:
            os.environ[_IMPORTED_BY] = str(os.getpid())
        import ray

        if ray.is_initialized():
            yield ray
        elif address == LOCAL:
            if os.environ.get(_IMPORTED_BY) != str(os.getpid()):
                raise RunError(
                    "--ray local: this program has already imported Ray, so it cannot stay on this machine; call"
                    " ray.init() first, or import it later"
                )
            with _started(ray, workers):
                yield ray
        else:
            _init(ray, address, address=address)
            try:
                yield ray
            finally:
                ray.shutdown()


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Sets environment variables, and restores them afterwards."""
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
    """Starts Ray on this machine, after removing processes and folders of killed commands."""
    for path in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
        with suppress(ValueError, OSError):
            process = int(path.name.removeprefix(_FOLDER).split("-")[0])
            if path.stat().st_uid == os.getuid():
                try:
                    os.kill(process, 0)
                except ProcessLookupError:  # it has ended
                    _end_processes_of(path)
                    shutil.rmtree(path, ignore_errors=True)
    for is_last in (False, False, True):  # repeated if Ray's start timed out
        folder = Path(tempfile.mkdtemp(prefix=f"{_FOLDER}{os.getpid()}-"))
        given = {"_node_ip_address": "127.0.0.1", "_temp_dir": str(folder), "include_dashboard": False}
        try:
            with _environment({_FOLDER_OF: str(folder)}):
                _init(ray, "this machine", address="local", num_cpus=workers, object_store_memory=_STORE_BYTES, **given)
            break
        except BaseException as error:
            ray.shutdown()
            _end_processes_of(folder)
            shutil.rmtree(folder, ignore_errors=True)
            if is_last or not isinstance(error, RunError) or _START_TIMEOUT not in str(error):
                raise
    try:
        yield
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def _init(ray: Any, where: str, **given: Any) -> None:
    try:
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **given)
    except Exception as error:  # Ray raises many types
        raise RunError(f"--ray: no Ray at {where}: {str(error).splitlines()[0] if str(error) else error!r}") from error


def _end_processes_of(folder: Path) -> None:
    """Kills the Ray processes that were started for a folder, if the system has /proc."""
    mark = f"{_FOLDER_OF}={folder}".encode()
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            handle = os.pidfd_open(int(path.name))  # so that the process checked is the one killed
            try:
                line, variables = (path / "cmdline").read_bytes(), (path / "environ").read_bytes().split(b"\0")
                if mark in variables and (line.startswith(b"ray::") or os.fsencode(folder) in line):
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
            finally:
                os.close(handle)
