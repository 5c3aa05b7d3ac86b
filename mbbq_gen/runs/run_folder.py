"""The folder of a run: its lock, manifest and store.

RUN/run.sqlite      prompts, responses and extractions
RUN/shards/         in large runs: the records of run.sqlite, as Parquet files
RUN/manifest.json   the configuration, versions, and digests of packs and data
RUN/run.lock        locked by the process that writes
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit

from filelock import FileLock, Timeout
from pydantic import Field, JsonValue, ValidationError

from mbbq_gen.benchmarks.control.coverage import ControlCounts
from mbbq_gen.core.config import RunConfig
from mbbq_gen.core.errors import ConfigError, RunError, RunLockedError, UsageError, describe_fault
from mbbq_gen.core.reasoning import ReasoningSettings
from mbbq_gen.core.records import FrozenModel
from mbbq_gen.runs.budget import CostReport
from mbbq_gen.runs.stopping_rule import StoppingRecord
from mbbq_gen.storage.schema import is_writable
from mbbq_gen.storage.shards import write_durably
from mbbq_gen.storage.store import RunStore

MANIFEST_SCHEMA = 1
_SERVER_FIELDS: Final = ("version", "quantization", "dtype")
"""Fields of a server that comparisons show."""
_SAMPLING_ONLY: Final = ("top_p", "top_k", "min_p")
"""Sampling parameters without effect at temperature 0."""


class Counts(FrozenModel):
    """The size of a run."""

    instances: int
    prompts: int
    requests: int


class Serving(FrozenModel):
    """The server and the sampling of a run; empty for services, and before the first response."""

    server: dict[str, JsonValue] = Field(default_factory=dict)
    """Its name and reported facts: version, model_file, quantization, dtype, context_length, …"""
    sampling_sent: dict[str, JsonValue] = Field(default_factory=dict)
    sampling: dict[str, JsonValue] = Field(default_factory=dict)
    """Effective sampling parameters, by the names of mbbq-gen; None: unknown."""


class Manifest(FrozenModel):
    """Everything that determines the results of a run."""

    schema_version: int = MANIFEST_SCHEMA
    mbbq_gen: str
    git_revision: str | None = None
    """Commit of the checkout that ran, with `+` for uncommitted changes; None outside a checkout."""
    python: str
    created_at: str
    config: RunConfig
    provider_settings: dict[str, JsonValue]
    """Settings that affect the model's text; part of every request key."""
    runtime_info: dict[str, JsonValue] = Field(default_factory=dict)
    """Facts that do not affect the text: threads, device, versions."""
    reasoning: dict[str, ReasoningSettings] = Field(default_factory=dict)
    """Reasoning effort → the parameters sent for it, and those left out."""
    pack_digests: dict[str, str]
    data_digests: dict[str, str]
    """benchmark/split/language → sha256 of its questions in the run."""
    file_digests: dict[str, str] = Field(default_factory=dict)
    """Data file (benchmark/path in the user's copy) → sha256."""
    available: dict[str, int] = Field(default_factory=dict)
    """benchmark/split/language → number of questions before sampling."""
    counts: Counts
    control: dict[str, ControlCounts] = Field(default_factory=dict)
    """Benchmark → counts of its questions with and without a generated control question."""
    cost_report: CostReport | None = None
    """The cost of the run at its last execution; None for models without cost."""
    notices: tuple[str, ...] = ()
    """Notices about its benchmarks and why it stopped, shown with every result."""
    adaptive: StoppingRecord | None = None
    """How an adaptive run was sampled, and why it stopped."""

    @property
    def serving(self) -> Serving:
        """The recorded server and sampling."""
        info = self.runtime_info
        found = {name: value for name in Serving.model_fields if isinstance(value := info.get(name), dict)}
        return Serving.model_validate(found)


class RunFolder:
    """The files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store_path = path / "run.sqlite"
        self.manifest_path = path / "manifest.json"

    def exists(self) -> bool:
        """Whether the folder has a run."""
        return self.store_path.is_file()

    def create(self) -> None:
        """Creates the folder; UsageError if it has other content, RunError if it can't be created."""
        if self.path.exists() and not self.path.is_dir():
            raise UsageError(f"{self.path}: is a file; name a folder for the run")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            foreign = [entry.name for entry in self.path.iterdir() if entry.name != "run.lock"]
        except OSError as error:
            raise RunError(f"{self.path}: can't make the run folder: {error.strerror or error}") from error
        if foreign and not self.exists():
            raise UsageError(f"{self.path}: holds {foreign[0]!r} and is not a run folder; name a new or empty folder")

    def require(self) -> Self:
        """Returns this folder; UsageError if it has no planned run."""
        if not self.exists() or not self.manifest_path.is_file():
            raise UsageError(
                f"{self.path}: no run here; make one with: mbbq-gen run {self.path} --model … --benchmark …"
            )
        return self

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the lock of the run, which ends with the process; RunLockedError if another process has it."""
        lock = FileLock(self.path / "run.lock", timeout=0)
        try:
            lock.acquire()
        except Timeout as error:
            raise RunLockedError(f"{self.path}: another process is working on this run; wait for it to end") from error
        except OSError as error:
            raise RunError(f"{self.path}: can't lock the run: {error.strerror or error}") from error
        try:
            yield
        finally:
            lock.release()

    def open_store(self, *, read_only: bool = False) -> RunStore:
        """Opens the store; for writing only under the lock."""
        return RunStore(self.store_path, read_only=read_only)

    @contextmanager
    def for_extractions(self) -> Iterator[RunStore]:
        """Opens the store for adding extractions, under the lock; RunError if the folder is read-only."""
        if not is_writable(self.path):
            raise RunError(f"{self.path}: has answers to extract, but is read-only; copy the folder, and use the copy")
        with self.locked(), self.open_store() as store:
            yield store

    def manifest(self) -> Manifest:
        """Reads the manifest; RunError if it is missing or invalid."""
        try:
            text = self.manifest_path.read_bytes()
        except OSError as error:
            raise RunError(f"{self.manifest_path}: {error.strerror or error}") from error
        try:
            return Manifest.model_validate_json(text)
        except ValidationError as error:
            raise RunError(f"{self.manifest_path}: {describe_fault(error, {})}") from error
        except ConfigError as error:
            raise RunError(f"{self.manifest_path}: config.{error}") from error

    def write_manifest(self, manifest: Manifest) -> None:
        """Writes the manifest atomically."""
        try:
            write_durably(self.manifest_path, f"{manifest.model_dump_json(indent=2)}\n".encode())
        except OSError as error:
            raise RunError(
                f"{self.manifest_path}: can't write: {error.strerror or error}; fix this and repeat the command"
            ) from error


def serving_difference(manifests: Mapping[str, Manifest]) -> str | None:
    """One sentence on how named runs differ in server or sampling; None if they do not, or none is recorded."""
    served = {name: manifest.serving for name, manifest in manifests.items()}
    known = [one.sampling for one in served.values() if one.server]
    drawn = any(sampling.get("temperature") for sampling in known)
    options = {name: None for sampling in known for name in sampling if drawn or name not in _SAMPLING_ONLY}
    differing = [name for name in options if len({str(sampling.get(name)) for sampling in known}) > 1]
    groups = defaultdict[str, list[str]](list)
    for name, one in served.items():
        address = manifests[name].runtime_info.get("base_url")
        if known and one.server:
            values = {option: one.sampling.get(option) for option in differing}
            stated = [f"{option} {'not known' if value is None else value}" for option, value in values.items()]
            server, version, *facts = (one.server.get(key) for key in ("name", *_SERVER_FIELDS))
            label = [f"{server} {version}" if version else server, *facts]
            groups[", ".join([*(str(part) for part in label if part), *stated])].append(name)
        elif known and isinstance(address, str):  # a service; an oracle has no address
            groups[urlsplit(address).hostname or address].append(name)
    if len(groups) < 2:
        return None
    parts = "; ".join(f"{', '.join(names)}: {what}" for what, names in groups.items())
    return f"The runs differ in server or sampling, which can change scores: {parts}."
