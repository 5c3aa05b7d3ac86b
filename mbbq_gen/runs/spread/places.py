"""Where shards are: a folder that all workers reach under one name, or a place that fsspec knows by its address.

    /shared/shards   file:///shared/shards   s3://bucket/run-7   gs://…   abfs://…

Both write a file whole or not at all. Keys come from the environment, as the services' own tools take them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit
from urllib.request import url2pathname

from mbbq_gen.errors import MissingExtraError, UsageError
from mbbq_gen.runs.record_files import write_durably

_NOT_SHARED: Final = frozenset({"memory", "http", "https", "data", "local+memory"})
"""Kinds of addresses that only one process reaches, or that nothing can be written to."""
_WITHOUT_FOLDERS: Final = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "oss", "oci"})


class Place(Protocol):
    """Files in one folder, without folders in it. All raise OSError where the place can't be had."""

    def is_there(self) -> bool:
        """Whether the folder is there."""

    def make(self) -> None:
        """Makes it."""

    def names(self, begin: str = "") -> list[str]:
        """The files whose names begin so, sorted."""

    def read(self, name: str) -> bytes:
        """What stands in a file."""

    def write(self, name: str, data: bytes) -> None:
        """Writes a file, whole or not at all; it lasts when this returns."""

    def remove(self, name: str) -> None:
        """Removes a file, if it is there."""


class FolderPlace:
    """A folder of a file system."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __str__(self) -> str:
        return str(self._path)

    def is_there(self) -> bool:
        """As `Place` says."""
        return self._path.is_dir()

    def make(self) -> None:
        """As `Place` says."""
        self._path.mkdir(parents=True, exist_ok=True)

    def names(self, begin: str = "") -> list[str]:
        """As `Place` says."""
        return sorted(path.name for path in self._path.iterdir() if path.name.startswith(begin))

    def read(self, name: str) -> bytes:
        """As `Place` says."""
        return (self._path / name).read_bytes()

    def write(self, name: str, data: bytes) -> None:
        """As `Place` says."""
        write_durably(self._path / name, data)

    def remove(self, name: str) -> None:
        """As `Place` says."""
        (self._path / name).unlink(missing_ok=True)


class RemotePlace:
    """A place that fsspec knows: an object is there when it was taken whole, and never in part."""

    def __init__(self, address: str) -> None:
        """Asks nothing yet.

        Raises:
            UsageError: where no such address can be used.
            MissingExtraError: where the package for it is not installed.
        """
        self._address = address.rstrip("/")
        self._kind, _, _ = address.partition("://")
        if self._kind in _NOT_SHARED:
            raise UsageError(
                f"--shards {address}: not all workers can write to {self._kind}://; name s3://… or a folder"
            )
        if "@" in urlsplit(address).netloc:
            raise UsageError("--shards: keys don't belong in an address; leave them to the environment (AWS_…)")
        try:
            import fsspec

            self._files: Any = fsspec.filesystem(self._kind, use_listings_cache=False, skip_instance_cache=True)
        except ValueError as error:
            raise UsageError(f"--shards {address}: {error}") from error
        except ImportError as error:
            raise MissingExtraError(f"--shards {address}: {error} (`mbbq-gen[s3]` has what s3:// needs)") from error
        self._path = str(self._files._strip_protocol(self._address))

    def __str__(self) -> str:
        return self._address

    def is_there(self) -> bool:
        """As `Place` says; in a store without folders, whether something is in it."""
        with _as_os_errors():
            return bool(self._files.exists(self._path))

    def make(self) -> None:
        """As `Place` says; nothing in a store without folders."""
        if self._kind not in _WITHOUT_FOLDERS:
            with _as_os_errors():
                self._files.makedirs(self._path, exist_ok=True)

    def names(self, begin: str = "") -> list[str]:
        """As `Place` says."""
        with _as_os_errors():
            try:
                found = self._files.ls(self._path, detail=False, refresh=True)
            except FileNotFoundError:
                return []
        names = (str(path).rstrip("/").rpartition("/")[2] for path in found)
        return sorted(name for name in names if name.startswith(begin))

    def read(self, name: str) -> bytes:
        """As `Place` says."""
        with _as_os_errors():
            return bytes(self._files.cat_file(f"{self._path}/{name}"))

    def write(self, name: str, data: bytes) -> None:
        """As `Place` says."""
        with _as_os_errors():
            self._files.pipe_file(f"{self._path}/{name}", data)

    def remove(self, name: str) -> None:
        """As `Place` says."""
        with _as_os_errors():
            if self._files.exists(f"{self._path}/{name}"):
                self._files.rm_file(f"{self._path}/{name}")


@contextmanager
def _as_os_errors() -> Iterator[None]:
    """What the services' packages raise, each its own, as the one kind that callers know."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(f"{type(error).__name__}: {error}") from error


def place_of(name: str | Path) -> Place:
    """The place of that name: a path, or an address.

    Raises:
        UsageError: where no such address can be used.
        MissingExtraError: where the package for it is not installed.
    """
    if isinstance(name, Path) or "://" not in name:
        return FolderPlace(Path(name))
    if name.startswith("file://"):
        return FolderPlace(Path(url2pathname(urlsplit(name).path)))
    return RemotePlace(name)
