"""The folder of a run: its lock, manifest and store.

RUN/run.sqlite      prompts, responses and extractions
RUN/shards/         of large runs: the records of run.sqlite, as Parquet files
RUN/manifest.json   the configuration, versions, and digests of packs and data
RUN/run.lock        held by the one process that may write
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
from mbbq_gen.storage.schema import copy_elsewhere, is_writable
from mbbq_gen.storage.shards import write_durably
from mbbq_gen.storage.store import RunStore

MANIFEST_SCHEMA = 1
_SERVER_FACTS: Final = ("version", "quantization", "dtype")
"""Facts of a server that a comparison names."""
_FOR_DRAWS: Final = ("top_p", "top_k", "min_p")
"""Sampling that changes nothing at a temperature of 0."""


class Counts(FrozenModel):
    """How much a run asks."""

    instances: int
    prompts: int
    requests: int


class Serving(FrozenModel):
    """The server and the sampling of a run; empty for services, and before the first answer."""

    server: dict[str, JsonValue] = Field(default_factory=dict)
    """Its name and what it reports: version, model_file, quantization, dtype, context_length, …"""
    sampling_sent: dict[str, JsonValue] = Field(default_factory=dict)
    sampling: dict[str, JsonValue] = Field(default_factory=dict)
    """Sampling parameters that apply, by the names of mbbq-gen; None: not known."""


class Manifest(FrozenModel):
    """What shaped the numbers of a run."""

    schema_version: int = MANIFEST_SCHEMA
    mbbq_gen: str
    git_revision: str | None = None
    """Commit of the checkout that ran, with `+` if it had changes; None outside a checkout."""
    python: str
    created_at: str
    config: RunConfig
    provider_settings: dict[str, JsonValue]
    """What shapes the model's text: part of every request key."""
    runtime_info: dict[str, JsonValue] = Field(default_factory=dict)
    """What does not shape the text: threads, device, versions."""
    reasoning: dict[str, ReasoningSettings] = Field(default_factory=dict)
    """Reasoning effort → what was sent for it and what was left out."""
    pack_digests: dict[str, str]
    data_digests: dict[str, str]
    """benchmark/split/language → sha256 of its questions in the run."""
    file_digests: dict[str, str] = Field(default_factory=dict)
    """Data file (benchmark/its place in the user's copy) → sha256."""
    available: dict[str, int] = Field(default_factory=dict)
    """benchmark/split/language → questions there were before sampling."""
    counts: Counts
    control: dict[str, ControlCounts] = Field(default_factory=dict)
    """Benchmark → which of its questions got a control question by substitution, and why the others did not."""
    cost_report: CostReport | None = None
    """What the run had cost at its last execution; None for models that cost nothing."""
    notices: tuple[str, ...] = ()
    """Notices about its benchmarks and how it stopped, for every result."""
    adaptive: StoppingRecord | None = None
    """How the sample of an adaptive run was chosen, and why it stopped."""

    @property
    def serving(self) -> Serving:
        """The server and sampling that are recorded."""
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
        """Whether there is a run here already."""
        return self.store_path.is_file()

    def create(self) -> None:
        """Makes the folder; UsageError where it holds something else, RunError where it can't be made."""
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
        """This folder; raises UsageError where there is no planned run here."""
        if not self.exists() or not self.manifest_path.is_file():
            raise UsageError(
                f"{self.path}: no run here; make one with: mbbq-gen run {self.path} --model … --benchmark …"
            )
        return self

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the run's lock, which ends with the process; RunLockedError where another process holds it."""
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
        """The store; for writing only under the lock."""
        return RunStore(self.store_path, read_only=read_only)

    @contextmanager
    def for_extractions(self) -> Iterator[RunStore]:
        """The store, for adding extractions: under the lock, or where nothing can be written here, a copy of it."""
        if is_writable(self.path):
            with self.locked(), self.open_store() as store:
                yield store
        else:
            with RunStore(copy_elsewhere(self.store_path), folder=self.path) as store:
                yield store

    def manifest(self) -> Manifest:
        """The manifest; RunError where it is missing or was changed into something else."""
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
        """Writes the manifest: the old one or the new one is there at any moment."""
        try:
            write_durably(self.manifest_path, f"{manifest.model_dump_json(indent=2)}\n".encode())
        except OSError as error:
            raise RunError(
                f"{self.manifest_path}: can't write: {error.strerror or error}; fix this and repeat the command"
            ) from error


def serving_difference(manifests: Mapping[str, Manifest]) -> str | None:
    """One sentence on how runs, by name, differ in server or sampling; None where they do not, or none is recorded."""
    served = {name: manifest.serving for name, manifest in manifests.items()}
    known = [one.sampling for one in served.values() if one.server]
    drawn = any(sampling.get("temperature") for sampling in known)
    options = {name: None for sampling in known for name in sampling if drawn or name not in _FOR_DRAWS}
    differing = [name for name in options if len({str(sampling.get(name)) for sampling in known}) > 1]
    groups = defaultdict[str, list[str]](list)
    for name, one in served.items():
        address = manifests[name].runtime_info.get("base_url")
        if known and one.server:
            values = {option: one.sampling.get(option) for option in differing}
            stated = [f"{option} {'not known' if value is None else value}" for option, value in values.items()]
            server, version, *facts = (one.server.get(key) for key in ("name", *_SERVER_FACTS))
            label = [f"{server} {version}" if version else server, *facts]
            groups[", ".join([*(str(part) for part in label if part), *stated])].append(name)
        elif known and isinstance(address, str):  # a service; an oracle has no address
            groups[urlsplit(address).hostname or address].append(name)
    if len(groups) < 2:
        return None
    parts = "; ".join(f"{', '.join(names)}: {what}" for what, names in groups.items())
    return f"The runs differ in server or sampling, which can change scores: {parts}."
