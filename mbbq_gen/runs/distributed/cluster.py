"""Connects to a running Ray, or starts one on this machine.

A Ray started here listens on the loopback address only and requires a token; it has no dashboard and no usage
statistics. Its files are in one folder of the system's temporary directory, which is removed at the end.
"""

from __future__ import annotations

import logging
import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryDirectory
from typing import Any, Final

from mbbq_gen.core.errors import MissingExtraError, RunError, UsageError
from mbbq_gen.providers.base import is_installed

LOCAL: Final = "local"
"""The value of `--ray` for a Ray that this command starts."""
_INSTALL: Final = "pip install 'mbbq-gen[ray]'"
_STORE_BYTES: Final = 100_000_000
"""Shared memory of a Ray started here; messages are small."""
_IMPORTED_BY: Final = "MBBQ_GEN_RAY"
"""Environment variable: the process that imported Ray, which reads its environment at import."""
_START_TIMEOUT: Final = "timed out during startup"
"""Ray's message if it has not started within half a minute, a fixed timeout."""
_TOKEN: Final = secrets.token_hex(32)
"""Token of a Ray started here; the same for the whole process, because Ray reads it once."""
_ENVIRONMENT: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # no messages about dead workers on stdout, which is for results
}
_LOCAL_ENVIRONMENT: Final = {
    **_ENVIRONMENT,
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # makes all parts of Ray bind to 127.0.0.1
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": _TOKEN,
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
    is_local = address == LOCAL
    with ExitStack() as stack:
        stack.enter_context(_environment(_LOCAL_ENVIRONMENT if is_local else _ENVIRONMENT))
        if "ray" not in sys.modules:
            os.environ[_IMPORTED_BY] = str(os.getpid())
        import ray

        if not ray.is_initialized():
            given: dict[str, Any] = {"address": address}
            if is_local:
                if os.environ.get(_IMPORTED_BY) != str(os.getpid()):
                    raise RunError(
                        "--ray local: this program has already imported Ray, so it cannot stay on this machine; call"
                        " ray.init() first, or import it later"
                    )
                folder = TemporaryDirectory(prefix=f"mbbq-ray-{os.getpid()}-", ignore_cleanup_errors=True)
                given |= {"_temp_dir": stack.enter_context(folder), "_node_ip_address": "127.0.0.1"}
                given |= {"num_cpus": workers, "object_store_memory": _STORE_BYTES, "include_dashboard": False}
            stack.callback(ray.shutdown)
            _init(ray, "this machine" if is_local else address, given)
        yield ray


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


def _init(ray: Any, where: str, given: Mapping[str, Any]) -> None:
    """Starts or connects Ray; tries again if the machine is so busy that Ray gave up."""
    for is_last in (False, False, True):
        try:
            ray.init(log_to_driver=False, logging_level=logging.ERROR, **given)
        except Exception as error:  # Ray raises many types
            ray.shutdown()
            if is_last or _START_TIMEOUT not in str(error):
                why = str(error).splitlines()[0] if str(error) else repr(error)
                raise RunError(f"--ray: no Ray at {where}: {why}") from error
        else:
            return
