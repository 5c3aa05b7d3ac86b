"""Status of the workers of a distributed run, and shards in a folder or object store.

    /shared/shards   file:///shared/shards   s3://bucket/run-7   gs://…   abfs://…

Files are written atomically. Credentials come from the environment, as for the services' own tools.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from mbbq_gen.core.errors import MissingExtraError, RunError, UsageError
from mbbq_gen.core.progress import ProgressListener
from mbbq_gen.core.records import FrozenModel, Response
from mbbq_gen.runs.budget import InFlightLog
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.storage.shards import digest, write_durably
from mbbq_gen.storage.store import RunStore

_NOT_SHARED: Final = frozenset({"memory", "http", "https", "data", "local+memory"})
"""Schemes of addresses that are limited to one process or can't be written."""
_WITHOUT_FOLDERS: Final = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "oss", "oci"})
STATUS_META: Final = "workers"
FOLDER_META: Final = "shards"
"""Name in `meta` of the folder of a run's shards."""
OWN_FOLDER: Final = "worker-shards"
"""Folder of the workers' shards inside the run folder, unless `--shard-dir` names another."""
_OWNER: Final = "run.json"


@dataclass(frozen=True)
class DistributedConfig:
    """Settings of a distributed run."""

    ray: str
    """`local`: started here for this command; else the address of a running Ray."""
    workers: int
    gpus_per_worker: float = 0.0
    shards: str | None = None
    """Folder that all workers can access, or an address for fsspec; None: in the run folder."""


class WorkerLine(FrozenModel):
    """The status of a worker."""

    number: int
    process: int | None
    """Its process id on its machine; None before its first block."""
    answered: int
    blocks: int
    deaths: int
    per_minute: float | None


class DistributedStatus(FrozenModel):
    """The status of the workers of a run."""

    ray: str
    at: float
    workers: tuple[WorkerLine, ...]
    lost: int
    n_blocks_rerun: int
    """Blocks that were sent again because their worker died without writing a shard."""
    has_ended: bool = False


@contextmanager
def _one_line(what: str) -> Iterator[None]:
    """Turns errors of the disk or the service's package into a RunError of one line."""
    try:
        yield
    except RunError:
        raise
    except Exception as error:
        reason = str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        raise RunError(f"{what}: {getattr(error, 'strerror', None) or reason}") from error


def _file_system(address: str) -> Any:
    """The fsspec file system of an address; UsageError if it is unknown or not shared by all workers."""
    kind = address.partition("://")[0]
    if kind in _NOT_SHARED:
        raise UsageError(f"--shard-dir {address}: not all workers can write to {kind}://; name s3://… or a folder")
    if "@" in urlsplit(address).netloc:
        raise UsageError("--shard-dir: an address must not contain keys; set them in the environment (AWS_…)")
    try:
        import fsspec

        return fsspec.filesystem(kind, use_listings_cache=False, skip_instance_cache=True)
    except ValueError as error:
        raise UsageError(f"--shard-dir {address}: {error}") from error
    except ImportError as error:
        raise MissingExtraError(f"--shard-dir {address}: {error} (`mbbq-gen[s3]` has what s3:// needs)") from error


class ResponseShards:
    """The shards of one run. All methods raise RunError if the place can't be reached, read or written."""

    def __init__(self, place: str | Path) -> None:
        """`place`: a folder, or an address for fsspec; raises as `_file_system`."""
        name = str(place)
        if name.startswith("file://"):
            name = url2pathname(urlsplit(name).path)
        self._files = _file_system(name) if "://" in name and not isinstance(place, Path) else None
        self.place = str(Path(name)) if self._files is None else name.rstrip("/")
        self._path = self.place if self._files is None else str(self._files._strip_protocol(self.place))

    def is_there(self) -> bool:
        """Whether the folder exists; in an object store, whether it has files."""
        with _one_line(f"{self.place}: can't be reached"):
            return Path(self._path).is_dir() if self._files is None else bool(self._files.exists(self._path))

    def claim(self, created_at: str) -> None:
        """Creates the folder and makes this run its owner; UsageError if it has other content."""
        owner = {"run_created_at": created_at}
        with _one_line(f"--shard-dir {self.place}: can't be used"):
            if self._files is None:
                Path(self._path).mkdir(parents=True, exist_ok=True)
            elif self.place.partition("://")[0] not in _WITHOUT_FOLDERS:
                self._files.makedirs(self._path, exist_ok=True)
            names = self._names()
            found = json.loads(self.get(_OWNER)) if _OWNER in names else None
            if not names:
                self.put(_OWNER, json.dumps(owner).encode() + b"\n")
        if found is not None and found != owner:
            raise UsageError(f"--shard-dir {self.place}: holds the shards of another run; name another folder")
        if found is None and names:
            raise UsageError(f"--shard-dir {self.place}: holds {names[0]!r}; name a new or empty folder")

    def write(self, block: str, answers: Sequence[tuple[Response, str]]) -> str:
        """Writes a shard of responses with their times (ISO 8601, UTC); returns its name. Durable on return."""
        import polars

        columns = {
            "request_key": [response.request_key for response, _ in answers],
            "received_at": [received_at for _, received_at in answers],
            "record": [response.model_dump_json() for response, _ in answers],
        }
        content = io.BytesIO()
        polars.DataFrame(columns, schema=dict.fromkeys(columns, polars.String)).write_parquet(content)
        name = f"{block}-{digest(content.getvalue())}.parquet"
        self.put(name, content.getvalue())
        return name

    def names(self, block: str = "") -> list[str]:
        """The names of the existing shards, or those of one block, sorted."""
        return [name for name in self._names(block) if name.endswith(".parquet")]

    def read(self, name: str) -> list[tuple[Response, str]]:
        """The responses of a shard with their times; RunError also if the digest is wrong."""
        import polars

        data = self.get(name)
        if not name.endswith(f"-{digest(data)}.parquet"):
            hint = "remove it to send its requests again"
            raise RunError(f"{self.place}/{name}: damaged (its digest differs from its name); {hint}")
        rows = polars.read_parquet(io.BytesIO(data), columns=["received_at", "record"]).iter_rows()
        return [(Response.model_validate_json(record), received_at) for received_at, record in rows]

    def clear_parts(self) -> None:
        """Removes partial files of dead workers. Only under the run's lock, while no worker is running."""
        with _one_line(f"{self.place}: can't remove the files of a worker that died"):
            for path in Path(self._path).glob("*.part") if self._files is None else ():
                path.unlink(missing_ok=True)

    def _names(self, prefix: str = "") -> list[str]:
        """The names of files with this prefix, sorted."""
        with _one_line(f"{self.place}: can't be read"):
            if self._files is None:
                found = [*Path(self._path).iterdir()]
            else:
                found = self._files.ls(self._path, detail=False, refresh=True) if self.is_there() else []
        names = (str(path).rstrip("/").rpartition("/")[2] for path in found)
        return sorted(name for name in names if name.startswith(prefix))

    def get(self, name: str) -> bytes:
        """The content of a file."""
        path = f"{self._path}/{name}"
        with _one_line(f"{self.place}/{name}: can't read"):
            return Path(path).read_bytes() if self._files is None else bytes(self._files.cat_file(path))

    def put(self, name: str, data: bytes) -> None:
        """Writes a file atomically; durable when this returns."""
        path = f"{self._path}/{name}"
        with _one_line(f"{self.place}/{name}: can't write"):
            if self._files is None:
                write_durably(Path(path), data)
            else:
                self._files.pipe_file(path, data)


def fold_shards(store: RunStore, folder: ResponseShards, names: Iterable[str]) -> int:
    """Stores responses of shards that the store lacks, and errors of new requests; returns the number of answers."""
    in_flight, found = InFlightLog(store), 0
    for name in names:
        by_key = {response.request_key: (response, at) for response, at in folder.read(name)}
        rows = store.query(  # planned requests without a response; has_failed: an error is recorded
            "SELECT w.value, r.is_error FROM json_each(?) w LEFT JOIN responses r ON r.request_key = w.value"
            " WHERE coalesce(r.is_error, 1) AND (EXISTS (SELECT 1 FROM prompts p WHERE p.request_key = w.value)"
            " OR EXISTS (SELECT 1 FROM follow_ups u WHERE u.request_key = w.value))",
            (json.dumps(list(by_key)),),
        ).fetchall()
        answers = [by_key[key] for key, has_failed in rows if not has_failed or by_key[key][0].error is None]
        if answers:
            in_flight.store_responses(answers)
            found += sum(response.error is None for response, _ in answers)
    return found


def fold_left_over(store: RunStore, folder: RunFolder, watcher: ProgressListener) -> list[str]:
    """Stores responses that an earlier session left in shards; returns the names of the shards."""
    named = store.meta(FOLDER_META)
    if named is None:
        return []
    shards = ResponseShards(named or folder.path / OWN_FOLDER)
    if not shards.is_there():
        raise UsageError(
            f"{shards.place}: the shards of {folder.path} are not there; bring them back, or name them with --shard-dir"
        )
    shards.clear_parts()
    names = shards.names()
    if found := fold_shards(store, shards, names):
        watcher.say(f"{found:,} answers were in shards already")
    return names
