"""What a distributed run keeps: the status of its workers, and shards of responses, in a folder or an object store.

    /shared/shards   file:///shared/shards   s3://bucket/run-7   gs://…   abfs://…

Files are written whole or not at all. Keys come from the environment, as for the services' own tools.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit
from urllib.request import url2pathname

from mbbq_gen.core.errors import MissingExtraError, RunError, UsageError
from mbbq_gen.core.progress import ProgressListener
from mbbq_gen.core.records import FrozenModel, Response
from mbbq_gen.runs.budget import InFlightLog
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.storage.queries import unanswered
from mbbq_gen.storage.shards import digest, write_durably
from mbbq_gen.storage.store import RunStore

_NOT_SHARED: Final = frozenset({"memory", "http", "https", "data", "local+memory"})
"""Kinds of addresses that only one process reaches, or that nothing can be written to."""
_WITHOUT_FOLDERS: Final = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "oss", "oci"})
STATUS: Final = "workers"
"""Name of the stored value with the status of the workers: a `DistributedStatus`."""


@dataclass(frozen=True)
class DistributedConfig:
    """How an evaluation is distributed."""

    ray: str
    """`local`: started here for this command; else the address of a running Ray."""
    workers: int
    gpus_per_worker: float = 0.0
    shards: str | None = None
    """Folder that all workers reach, or an address that fsspec knows; None: in the run's."""


class WorkerLine(FrozenModel):
    """A worker, as `status` shows it."""

    number: int
    process: int | None
    """Its process, on its own machine; None before its first block."""
    answered: int
    blocks: int
    deaths: int
    per_minute: float | None
    """Answers a minute while it was at work; None before its first block."""


class DistributedStatus(FrozenModel):
    """How the workers of a run stand."""

    ray: str
    at: float
    """Unix time of this."""
    workers: tuple[WorkerLine, ...]
    lost: int
    """Workers that died; each was replaced."""
    n_blocks_rerun: int
    """Blocks that were under way in a worker that died and left no shard."""
    has_ended: bool = False
    """Whether nothing is under way any more."""


def worker_status(store: RunStore) -> DistributedStatus | None:
    """How the workers of a run stood last; None where it was never distributed."""
    text = store.meta(STATUS)
    return None if text is None else DistributedStatus.model_validate_json(text)


class ShardStorage(Protocol):
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


class FolderStorage:
    """A folder of a file system."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __str__(self) -> str:
        return str(self._path)

    def is_there(self) -> bool:
        """As `ShardStorage` says."""
        return self._path.is_dir()

    def make(self) -> None:
        """As `ShardStorage` says."""
        self._path.mkdir(parents=True, exist_ok=True)

    def names(self, begin: str = "") -> list[str]:
        """As `ShardStorage` says."""
        return sorted(path.name for path in self._path.iterdir() if path.name.startswith(begin))

    def read(self, name: str) -> bytes:
        """As `ShardStorage` says."""
        return (self._path / name).read_bytes()

    def write(self, name: str, data: bytes) -> None:
        """As `ShardStorage` says."""
        write_durably(self._path / name, data)

    def remove(self, name: str) -> None:
        """As `ShardStorage` says."""
        (self._path / name).unlink(missing_ok=True)


class FsspecStorage:
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
                f"--shard-dir {address}: not all workers can write to {self._kind}://; name s3://… or a folder"
            )
        if "@" in urlsplit(address).netloc:
            raise UsageError("--shard-dir: an address must not contain keys; set them in the environment (AWS_…)")
        try:
            import fsspec

            self._files: Any = fsspec.filesystem(self._kind, use_listings_cache=False, skip_instance_cache=True)
        except ValueError as error:
            raise UsageError(f"--shard-dir {address}: {error}") from error
        except ImportError as error:
            raise MissingExtraError(f"--shard-dir {address}: {error} (`mbbq-gen[s3]` has what s3:// needs)") from error
        self._path = str(self._files._strip_protocol(self._address))

    def __str__(self) -> str:
        return self._address

    def is_there(self) -> bool:
        """As `ShardStorage` says; in a store without folders, whether something is in it."""
        with _as_os_errors():
            return bool(self._files.exists(self._path))

    def make(self) -> None:
        """As `ShardStorage` says; nothing in a store without folders."""
        if self._kind not in _WITHOUT_FOLDERS:
            with _as_os_errors():
                self._files.makedirs(self._path, exist_ok=True)

    def names(self, begin: str = "") -> list[str]:
        """As `ShardStorage` says."""
        with _as_os_errors():
            try:
                found = self._files.ls(self._path, detail=False, refresh=True)
            except FileNotFoundError:
                return []
        names = (str(path).rstrip("/").rpartition("/")[2] for path in found)
        return sorted(name for name in names if name.startswith(begin))

    def read(self, name: str) -> bytes:
        """As `ShardStorage` says."""
        with _as_os_errors():
            return bytes(self._files.cat_file(f"{self._path}/{name}"))

    def write(self, name: str, data: bytes) -> None:
        """As `ShardStorage` says."""
        with _as_os_errors():
            self._files.pipe_file(f"{self._path}/{name}", data)

    def remove(self, name: str) -> None:
        """As `ShardStorage` says."""
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


def place_of(name: str | Path) -> ShardStorage:
    """The place of that name: a path, or an address.

    Raises:
        UsageError: where no such address can be used.
        MissingExtraError: where the package for it is not installed.
    """
    if isinstance(name, Path) or "://" not in name:
        return FolderStorage(Path(name))
    if name.startswith("file://"):
        return FolderStorage(Path(url2pathname(urlsplit(name).path)))
    return FsspecStorage(name)


META: Final = "shards"
"""Name of the value of a run that says in which folder its shards are."""
OWN_FOLDER: Final = "worker-shards"
"""Folder of the workers' shards inside the run folder, unless `--shard-dir` names another."""
_OWNER: Final = "run.json"

Answers = Sequence[tuple[Response, str]]
"""Responses, each with the time (ISO 8601, UTC) at which it came."""


class ResponseShards:
    """The shards of one run."""

    def __init__(self, place: str | Path) -> None:
        """`place`: a folder, or an address that fsspec knows; raises as `place_of`."""
        self.place = place_of(place)

    def claim(self, created_at: str) -> None:
        """Makes the folder, and this run its owner.

        Raises:
            UsageError: where it holds something else, or another run's shards.
            RunError: where it can't be written.
        """
        place = self.place
        try:
            place.make()
            names = place.names()
            if _OWNER in names:
                if json.loads(place.read(_OWNER)) != {"run_created_at": created_at}:
                    raise UsageError(f"--shard-dir {place}: holds the shards of another run; name another folder")
                return
            if names:
                raise UsageError(f"--shard-dir {place}: holds {names[0]!r}; name a new or empty folder")
            place.write(_OWNER, json.dumps({"run_created_at": created_at}).encode() + b"\n")
        except (OSError, ValueError) as error:
            raise RunError(f"--shard-dir {place}: can't be used: {error}") from error

    def write(self, block: str, answers: Answers) -> str:
        """Writes a shard and says its name; durable when this returns.

        Raises:
            RunError: where it can't be written.
        """
        import polars

        columns = {
            "request_key": [response.request_key for response, _ in answers],
            "received_at": [received_at for _, received_at in answers],
            "record": [response.model_dump_json() for response, _ in answers],
        }
        content = io.BytesIO()
        polars.DataFrame(columns, schema=dict.fromkeys(columns, polars.String)).write_parquet(content)
        data = content.getvalue()
        name = f"{block}-{digest(data)}.parquet"
        try:
            self.place.write(name, data)
        except OSError as error:
            raise RunError(f"{self.place}/{name}: can't write: {error.strerror or error}") from error
        return name

    def names(self) -> list[str]:
        """The shards that are there, by name.

        Raises:
            RunError: where the place can't be reached.
        """
        return self.of_block("")

    def of_block(self, block: str) -> list[str]:
        """The shards of a block: none where it was not finished; raises as `names`."""
        try:
            return [name for name in self.place.names(block) if name.endswith(".parquet")]
        except OSError as error:
            raise RunError(f"{self.place}: can't be read: {error.strerror or error}") from error

    def read(self, name: str) -> list[tuple[Response, str]]:
        """The answers of a shard.

        Raises:
            RunError: where it can't be read, or is not what was written.
        """
        import polars

        path = f"{self.place}/{name}"
        try:
            data = self.place.read(name)
        except OSError as error:
            raise RunError(f"{path}: can't read: {error.strerror or error}") from error
        if not name.endswith(f"-{digest(data)}.parquet"):
            raise RunError(f"{path}: damaged (its digest differs from its name); remove it to send its requests again")
        rows = polars.read_parquet(io.BytesIO(data), columns=["received_at", "record"]).iter_rows()
        return [(Response.model_validate_json(record), received_at) for received_at, record in rows]

    def clear_parts(self) -> None:
        """Removes what a worker had begun to write when it died. Only under the run's lock, with no worker at work."""
        for name in self.place.names():
            if name.endswith(".part"):
                self.place.remove(name)


def fold_shards(store: RunStore, folder: ResponseShards, names: Iterable[str]) -> int:
    """Stores what stands in these shards and not in the store, and says how many answers that was.

    A failure in a shard counts only where nothing else is known.
    """
    in_flight, found = InFlightLog(store), 0
    for name in names:
        answers = _new(store, folder.read(name))
        if answers:
            in_flight.store_responses(answers)
            found += sum(response.error is None for response, _ in answers)
    return found


def _new(store: RunStore, answers: Iterable[tuple[Response, str]]) -> list[tuple[Response, str]]:
    """Of a shard's answers, those that the run planned and has not."""
    by_key = {response.request_key: (response, at) for response, at in answers}
    return [
        by_key[key]
        for key, has_failed in unanswered(store, list(by_key)).items()
        if not has_failed or by_key[key][0].error is None
    ]


def shard_folder(store: RunStore, folder: RunFolder) -> ResponseShards | None:
    """Where the shards of a run are; None where it was never distributed."""
    named = store.meta(META)
    if named is None:
        return None
    return ResponseShards(named or folder.path / OWN_FOLDER)


def fold_left_over(store: RunStore, folder: RunFolder, watcher: ProgressListener) -> list[str]:
    """Stores what an earlier session left in shards, before anything is sent; says which shards there were.

    Raises:
        UsageError: where the run's shards are in a folder that is not there.
        RunError: where the place can't be reached.
    """
    shards = shard_folder(store, folder)
    if shards is None:
        return []
    try:
        is_there = shards.place.is_there()
    except OSError as error:
        raise RunError(f"{shards.place}: can't be reached: {error.strerror or error}") from error
    if not is_there:
        raise UsageError(
            f"{shards.place}: the shards of {folder.path} are not there; bring them back, or name them with --shard-dir"
        )
    shards.clear_parts()
    names = shards.names()
    if found := fold_shards(store, shards, names):
        watcher.say(f"{found:,} answers were in shards already")
    return names
