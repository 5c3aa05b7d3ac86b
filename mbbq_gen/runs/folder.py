"""A run's folder: its lock, its manifest, its store.

RUN/run.sqlite      what was planned, received and extracted
RUN/records/        of large runs: the records of the former, as Parquet files
RUN/manifest.json   what shaped the numbers: settings, versions, digests of packs and data
RUN/run.lock        held by the one process that may write
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout
from pydantic import Field, JsonValue, ValidationError

from mbbq_gen.errors import RunError, RunLockedError, UsageError
from mbbq_gen.extraction.likelihood import Normalise
from mbbq_gen.languages import describe_fault
from mbbq_gen.reasoning import Thinking
from mbbq_gen.records import Method, Record, Split
from mbbq_gen.runs.goals import Stopping
from mbbq_gen.runs.money import Bill
from mbbq_gen.runs.read_only import copy_elsewhere, is_writable
from mbbq_gen.runs.store import RunStore
from mbbq_gen.substitution import ControlCounts

MANIFEST_SCHEMA = 1
OWN_DATA = "instances"
"""Name of the choice that is a file of the user's own."""


class BenchmarkChoice(Record):
    """A benchmark and where its files are."""

    name: str
    data: str | None = None
    """Folder or file of the user's copy; None for a benchmark that ships."""
    field_map: str | None = None
    """File that says which fields of the user's own file are which of ours; None where they have our names."""


def name_in_copy(choice: BenchmarkChoice, path: Path) -> str:
    """What a manifest calls a data file: the benchmark, and where the file stands in the user's copy of it."""
    root = Path(choice.data or "")
    place = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
    return f"{choice.name}/{place}"


class RunSettings(Record):
    """What the user asked for: the same settings and packs give the same plan."""

    model: str
    """`kind:model`."""
    model_options: dict[str, JsonValue] = Field(default_factory=dict)
    """Options of the provider that were given, by name."""
    system: str | None = None
    """Text of the system message, or None for none of ours."""
    benchmarks: tuple[BenchmarkChoice, ...]
    languages: tuple[str, ...]
    splits: tuple[Split, ...]
    make_control: bool = False
    """Whether control questions are made by substitution where the data has none."""
    variants: tuple[str, ...]
    """Ids of the prompt variants."""
    methods: tuple[Method, ...] = ("generate",)
    """What is asked of the model."""
    scored_variants: tuple[str, ...] = ()
    """Ids of the wordings that likelihoods of answers are asked after."""
    reasoning: tuple[str, ...] = ()
    """How much the model is to think first, each level in turn; empty: nothing is said of it."""
    normalise: Normalise = "sum"
    """How likelihoods are made comparable, unless a command says otherwise; shapes no request but for `pmi`."""
    prompts: Literal["own", "published"] = "own"
    """Whose wordings: out of our language packs, or the authors' out of the user's copy of a benchmark."""
    order: str
    """Option order policy."""
    label_styles: tuple[str, ...]
    shots: int = 0
    """Solved examples before each question."""
    instruction_language: str | None = None
    """Language of the wordings where it is not the questions'."""
    question_only: bool = False
    """Whether contexts are left out."""
    unknown_wording: str | None = None
    """How the unknown option is worded anew, as it was typed; None: as in the data."""
    seed: int
    sample: int | None = None
    """Questions for each benchmark × language × split, or None for all."""

    @property
    def is_scored(self) -> bool:
        """Whether any likelihood is asked for."""
        return any(method != "generate" for method in self.methods)


class Counts(Record):
    """How much a run asks."""

    instances: int
    presentations: int
    requests: int


class Manifest(Record):
    """What shaped the numbers of a run."""

    schema_version: int = MANIFEST_SCHEMA
    mbbq_gen: str
    """Version of the package."""
    git_revision: str | None = None
    """Commit of the checkout that ran, with `+` if it had changes; None outside a checkout."""
    python: str
    created_at: str
    """ISO 8601, UTC."""
    settings: RunSettings
    provider_settings: dict[str, JsonValue]
    """What shapes the model's text: part of every request key."""
    provider_facts: dict[str, JsonValue] = Field(default_factory=dict)
    """What is true of the run but does not shape the text: threads, device, versions."""
    reasoning: dict[str, Thinking] = Field(default_factory=dict)
    """Level of thinking → what was sent for it and what was left out."""
    packs: dict[str, str]
    """Pack file → sha256."""
    data: dict[str, str]
    """benchmark/split/language → sha256 of its questions as they were read, before sampling."""
    files: dict[str, str] = Field(default_factory=dict)
    """Data file (benchmark/its place in the user's copy) → sha256."""
    available: dict[str, int] = Field(default_factory=dict)
    """benchmark/split/language → questions there were before sampling."""
    counts: Counts
    control: dict[str, ControlCounts] = Field(default_factory=dict)
    """Benchmark → which of its questions got a control question by substitution, and why the others did not."""
    bill: Bill | None = None
    """What the run had cost when it was last asked; None for models that cost nothing."""
    notices: tuple[str, ...] = ()
    """What every result of this run has to say: of its benchmarks, and of how it was stopped."""
    stopping: Stopping | None = None
    """Of a run in rounds: how its sample was chosen, and why it stopped; None for all others."""


class RunFolder:
    """The files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def store_path(self) -> Path:
        """The SQLite file."""
        return self.path / "run.sqlite"

    @property
    def manifest_path(self) -> Path:
        """The manifest."""
        return self.path / "manifest.json"

    def exists(self) -> bool:
        """Whether there is a run here already."""
        return self.store_path.is_file()

    def create(self) -> None:
        """Makes the folder; one that holds something else is refused.

        Raises:
            UsageError: where the path is a file or a folder with other things in it.
            RunError: where it can't be made.
        """
        if self.path.exists() and not self.path.is_dir():
            raise UsageError(f"{self.path}: is a file; name a folder for the run")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            foreign = [entry.name for entry in self.path.iterdir() if entry.name != "run.lock"]
        except OSError as error:
            raise RunError(f"{self.path}: can't make the run folder: {error.strerror or error}") from error
        if foreign and not self.exists():
            raise UsageError(f"{self.path}: holds {foreign[0]!r} and is no run folder; name a new or empty folder")

    def require(self) -> None:
        """Makes sure that there is a planned run here.

        Raises:
            UsageError: where there is none.
        """
        if not self.exists() or not self.manifest_path.is_file():
            raise UsageError(
                f"{self.path}: no run here; make one with: mbbq-gen run {self.path} --model … --benchmark …"
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the run's lock, which ends with the process whatever happens to it.

        Raises:
            RunLockedError: where another process holds it.
        """
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
    def for_readings(self) -> Iterator[RunStore]:
        """The store, for adding readings: under the lock, or where nothing can be written here, a copy of it.

        Raises:
            RunLockedError: where another process holds the lock.
        """
        if is_writable(self.path):
            with self.locked(), self.open_store() as store:
                yield store
        else:
            with RunStore(copy_elsewhere(self.store_path), folder=self.path) as store:
                yield store

    def manifest(self) -> Manifest:
        """The manifest.

        Raises:
            RunError: where it is missing or was changed into something else.
        """
        try:
            text = self.manifest_path.read_text(encoding="utf-8")
        except OSError as error:
            raise RunError(f"{self.manifest_path}: {error.strerror or error}") from error
        try:
            return Manifest.model_validate_json(text)
        except ValidationError as error:
            raise RunError(f"{self.manifest_path}: {describe_fault(error, {})}") from error

    def write_manifest(self, manifest: Manifest) -> None:
        """Writes the manifest: the old one or the new one is there at any moment."""
        temporary = self.manifest_path.with_suffix(".json.part")
        try:
            with temporary.open("w", encoding="utf-8") as stream:
                stream.write(manifest.model_dump_json(indent=2) + "\n")
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(self.manifest_path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise RunError(
                f"{self.manifest_path}: can't write: {error.strerror or error}; mend it and give the same command again"
            ) from error
