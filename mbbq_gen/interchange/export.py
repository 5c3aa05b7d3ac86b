"""Exports of a run: a folder of tables with a data dictionary and a record.

    DIR/samples.parquet            one row per response       (samples.csv with --csv)
    DIR/scores.parquet           one row per group and metric           (scores.csv)
    DIR/scores.json              the same with counts, definitions and warnings
    DIR/manifest.json            the manifest of the run
    DIR/data_dictionary.md       meaning of every column
    DIR/import_map.toml          field map to import the samples with `mbbq-gen import --from csv`
    DIR/export.json              settings, schema version, rows and sha256 of every file; written last

Items are written in parts, so memory does not grow with the run.
"""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field, JsonValue, ValidationError

import mbbq_gen
from mbbq_gen.analysis.scores import ScoreTable
from mbbq_gen.api import Run
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.files import file_digest, write_errors
from mbbq_gen.core.records import FrozenModel
from mbbq_gen.extraction.simple import ENGINE
from mbbq_gen.interchange.cards import dataset_card
from mbbq_gen.report.score_tables import UTF8_MARK, csv_cells, score_rows
from mbbq_gen.runs.run_folder import Manifest
from mbbq_gen.runs.samples import item_schema
from mbbq_gen.scoring.cells import UnparsedPolicy
from mbbq_gen.scoring.codes import Average, PromptEffects
from mbbq_gen.scoring.observations import GoldLabels
from mbbq_gen.scoring.tally import STRATA, WEIGHT, strata_weights
from mbbq_gen.statistics.intervals import STRETCH, UNSEEN_TEMPLATE_DEVIATION
from mbbq_gen.storage.store import Progress

if TYPE_CHECKING:
    import polars

    from mbbq_gen.analysis.scores import MetricDefinition


Kind = Literal["parquet", "csv", "hf-dataset"]
DEFAULT_BY = ("benchmark", "language", "split")
QUESTION_COLUMNS = (
    *("context", "question", "options", "option_groups", "chosen_text", "unknown_text", "metadata"),
    *("prompt", "messages"),
)
"""Columns of samples with the benchmark's own text, which `with_questions=False` omits."""


class ExportSettings(FrozenModel):
    """Settings of extraction, scoring and export."""

    extractor: str = ENGINE
    """Name of an extractor, or a stored version."""
    gold: GoldLabels = "published"
    unparsed: UnparsedPolicy = "discard"
    by: tuple[str, ...] = DEFAULT_BY
    """Groupings of the scores."""
    metrics: tuple[str, ...] | None = None
    """None: all."""
    confidence_level: float = 0.95
    n_resamples: int = 2000
    seed: int = 0
    prompt_effects: PromptEffects = "fixed"
    """Intervals for these prompt variants, or for variants like them."""
    average: Average = "questions"
    """What scores are the mean over."""
    unseen_deviation: float = UNSEEN_TEMPLATE_DEVIATION
    unseen_stretch: float = STRETCH
    """How far off a template that was not seen may lie, and how much farther near an end of the scale."""
    with_questions: bool = True
    """Whether to include the benchmark's own text (`QUESTION_COLUMNS`)."""


class ExportedFile(FrozenModel):
    """One file of an export."""

    path: str
    """Path within the folder, with `/`."""
    rows: int | None
    """None if it is not a table."""
    size: int
    """Bytes."""
    sha256: str


class ExportRecord(FrozenModel):
    """The content of export.json."""

    schema_version: Literal["mbbq-gen.export/1"] = "mbbq-gen.export/1"
    """Raised when a file changes its name or kind."""
    mbbq_gen: str
    """Version of the package that wrote it."""
    run: str
    """Name of the run's folder."""
    model: str
    kind: Kind
    settings: ExportSettings
    extractors: dict[str, str]
    """Language → extractor version."""
    server: dict[str, JsonValue] = Field(default_factory=dict)
    sampling_sent: dict[str, JsonValue] = Field(default_factory=dict)
    sampling: dict[str, JsonValue] = Field(default_factory=dict)
    """These three are explained in the data dictionary; they are empty for services."""
    requests: int
    answered: int
    """Requests with a response; if fewer than `requests`, the export is of a part of the run."""
    files: tuple[ExportedFile, ...] = Field(default=())


RECORD_NAME = "export.json"
_MARK_NAME = ".export-under-way"
_PARTS_PREFIX = ".export-parts-"
_IMPORT_FIELDS: Final = {
    "response": "response",
    "id": "prompt_id",
    "instance": "instance_key",
    "context": "context",
    "question": "question",
    "options": "options",
    "labels": "option_labels",
    "prompt": "prompt",
    "model": "served_model",
    "variant": "variant",
    "error": "error",
    "finish_reason": "finish_reason",
    "refusal": "refusal",
    "reasoning": "reasoning",
}
"""Field of an import → our column."""


@dataclass(frozen=True)
class ExportSource:
    """A run with export settings; caches what several exports need."""

    run: Run
    settings: ExportSettings
    step: Callable[[int], None] = lambda _: None
    """Gets the size of each written batch."""

    @cached_property
    def extractors(self) -> dict[str, str]:
        """Language → extractor version."""
        return self.run.extract(self.settings.extractor)

    @cached_property
    def progress(self) -> Progress:
        """The progress of the run."""
        return self.run.progress()

    @cached_property
    def scores(self) -> ScoreTable:
        """The scores by the groupings of the settings."""
        return self.scores_by(self.settings.by)

    def scores_by(self, by: tuple[str, ...]) -> ScoreTable:
        """The scores by other groupings; methods are never pooled."""
        chosen = self.settings
        if len(self.run.manifest.config.method) > 1 and "method" not in by:
            by = (*by, "method")
        options = chosen.model_dump(exclude={"by", "metrics", "with_questions"})
        return self.run.scores(by, chosen.metrics, **options)

    @cached_property
    def weights(self) -> polars.DataFrame | None:
        """Sampling weights of a run in rounds; None if all are equal."""
        chosen = self.settings
        if self.run.manifest.adaptive is None:
            return None
        return strata_weights(self.run.observations(gold=chosen.gold, extractor=chosen.extractor))

    def samples(self) -> Iterator[polars.DataFrame]:
        """The samples in parts, with types that any reader supports."""
        chosen = self.settings
        batches = self.run.sample_batches(gold=chosen.gold, extractor=chosen.extractor, messages=chosen.with_questions)
        for batch in batches:
            yield self._plain(batch)
            self.step(batch.height)

    def schema(self) -> dict[str, polars.DataType]:
        """The columns of the samples with their polars types."""
        columns = item_schema(messages=True)
        kept = [name for name in columns if self.settings.with_questions or name not in QUESTION_COLUMNS]
        weight: dict[str, polars.DataType] = {} if self.weights is None else {WEIGHT: self.weights.schema[WEIGHT]}
        return {name: columns[name] for name in kept} | weight

    def empty(self) -> polars.DataFrame:
        """The empty table of samples."""
        import polars as pl

        return self._plain(pl.DataFrame(schema=item_schema(messages=True)))

    def _plain(self, batch: polars.DataFrame) -> polars.DataFrame:
        import polars as pl
        import polars.selectors as cs

        text, texts = cs.by_dtype(pl.Categorical, pl.Enum), cs.by_name("option_roles")
        plain = batch.select(name for name in self.schema() if name != WEIGHT).with_columns(
            text.cast(pl.String), texts.cast(pl.List(pl.String)), pl.col("context_id").cast(pl.String)
        )
        if self.weights is None:
            return plain
        return plain.join(self.weights, on=STRATA, how="left", nulls_equal=True, maintain_order="left")


def write_bundle(source: ExportSource, folder: Path, kind: Kind) -> ExportRecord:
    """Writes a run as a folder of tables; its record is written last. Raises UsageError and RunError."""
    with write_errors(folder):
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{folder}: is a file; name a folder for the export")
        folder.mkdir(parents=True, exist_ok=True)
        _refuse_changed(folder)
        foreign = next(folder.iterdir(), None)
        if foreign is not None and not any((folder / name).is_file() for name in (RECORD_NAME, _MARK_NAME)):
            raise UsageError(f"{folder}: holds {foreign.name!r} and is not an export; name a new or empty folder")
        (folder / _MARK_NAME).touch()
        for left in folder.rglob(f"{_PARTS_PREFIX}*"):
            shutil.rmtree(left)
        rows = _write_tables(source, folder, kind)
        record = ExportRecord(
            mbbq_gen=mbbq_gen.__version__,
            run=source.run.name,
            model=source.run.manifest.config.model,
            kind=kind,
            settings=source.settings,
            extractors=source.extractors,
            **dict(source.run.manifest.serving),
            requests=source.progress.requests,
            answered=source.progress.answered,
            files=tuple(
                ExportedFile(path=name, rows=count, size=path.stat().st_size, sha256=file_digest(path))
                for name, count in sorted(rows.items())
                for path in (folder / name,)
            ),
        )
        (folder / RECORD_NAME).write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8")
        (folder / _MARK_NAME).unlink()
    return read_record(folder)


def _write_tables(source: ExportSource, folder: Path, kind: Kind) -> dict[str, int | None]:
    """Writes every file but the record; returns their names with the rows of tables."""
    rows: dict[str, int | None] = {}
    splits, scores = source.run.manifest.config.splits, score_rows(source.scores)
    texts = _documents(source)
    if kind == "csv":
        rows["samples.csv"] = _write_csv(folder / "samples.csv", chain([source.empty()], source.samples()))
        rows["scores.csv"] = _write_csv(folder / "scores.csv", [scores])
    else:
        of_split: dict[str, str | None] = {"samples.parquet": None}
        if kind == "hf-dataset":
            of_split = {f"samples/{split}.parquet": split for split in splits}
            (folder / "samples").mkdir(exist_ok=True)
            texts["README.md"] = dataset_card(source, splits)
        rows |= _write_parquet(source, folder, of_split)
        rows["scores.parquet"] = scores.height
        scores.write_parquet(folder / "scores.parquet")
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")
    return rows | dict.fromkeys(texts)


def read_record(folder: Path) -> ExportRecord:
    """The record of an export folder."""
    return ExportRecord.model_validate_json((folder / RECORD_NAME).read_bytes())


def _refuse_changed(folder: Path) -> None:
    """Raises UsageError where a file of an earlier export was changed since."""
    if not (folder / RECORD_NAME).is_file() or (folder / _MARK_NAME).is_file():
        return
    try:
        files = read_record(folder).files
    except ValidationError as error:
        raise UsageError(f"{folder / RECORD_NAME}: no record of an export; name a new or empty folder") from error
    for file in files:
        path = folder / file.path
        if path.is_file() and (path.stat().st_size, file_digest(path)) != (file.size, file.sha256):
            raise UsageError(f"{path}: was changed since it was exported; name another folder, or move this one away")


# --- tables ----------------------------------------------------------------------------------------------------------


def _write_parquet(source: ExportSource, folder: Path, of_split: Mapping[str, str | None]) -> dict[str, int]:
    """Writes the samples of each split, or all, into a file of that name; returns names and rows.

    One part is held in memory at a time; the files appear at the end.
    """
    import polars as pl

    str(folder).encode()  # polars opens no other path: UnicodeEncodeError
    rows = dict.fromkeys(of_split, 0)
    with TemporaryDirectory(prefix=_PARTS_PREFIX, dir=folder) as parts:
        for number, batch in enumerate(chain([source.empty()], source.samples())):
            for place, (name, split) in enumerate(of_split.items()):
                part = batch if split is None else batch.filter(pl.col("split") == split)
                part.write_parquet(Path(parts) / f"{place}-{number:06}.parquet")
                rows[name] += part.height
        for place, name in enumerate(of_split):
            pl.scan_parquet(sorted(Path(parts).glob(f"{place}-*.parquet"))).sink_parquet(folder / name)
    return rows


def _write_csv(path: Path, frames: Iterable[polars.DataFrame]) -> int:
    """Concatenates tables as CSV for a spreadsheet and returns the number of rows."""
    temporary, rows = path.with_name(path.name + ".part"), 0
    try:
        with temporary.open("w", encoding="utf-8", newline="") as stream:
            stream.write(UTF8_MARK)
            for number, frame in enumerate(frames):
                stream.write(csv_cells(frame).write_csv(include_header=number == 0, line_terminator="\r\n"))
                rows += frame.height
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return rows


def _documents(source: ExportSource) -> dict[str, str]:
    """Texts by the names of their files: scores.json, manifest.json, the data dictionary, and the field map."""
    columns = source.schema()
    scores = dict(score_rows(source.scores).schema)
    lead = f"Columns of the export of `{source.run.name}`. Empty cells are null."
    fields = {name: column for name, column in _IMPORT_FIELDS.items() if column in columns}
    return {
        "scores.json": source.scores.model_dump_json(indent=2) + "\n",
        "manifest.json": without_folders(source.run.manifest).model_dump_json(indent=2) + "\n",
        "data_dictionary.md": data_dictionary(columns, scores, source.scores.definitions, lead),
        "import_map.toml": "\n".join(["[fields]", *(f'{name} = "{column}"' for name, column in fields.items())]) + "\n",
    }


def without_folders(manifest: Manifest) -> Manifest:
    """The manifest with names instead of paths of files and folders."""
    named: dict[str, str | dict[str, str] | None] = {}
    for name in ("data_dir", "instances", "instances_field_map", "prices", "cache_dir", "api_key_file", "shard_dir"):
        path = getattr(manifest.config, name)
        if isinstance(path, dict):
            named[name] = {benchmark: Path(folder).name for benchmark, folder in path.items()}
        else:
            named[name] = None if path is None else Path(path).name
    return manifest.model_copy(update={"config": manifest.config.model_copy(update=named)})


_TEXTS: Final[dict[str, dict[str, str]]] = tomllib.loads(
    Path(__file__).with_name("data_dictionary.toml").read_text(encoding="utf-8")
)
ITEM_COLUMNS, DESIGN_COLUMNS = _TEXTS["samples"], _TEXTS["samples_of_some_runs"]
"""Column of samples → meaning; the second has those that only some runs have."""
SCHEMA_VERSION: Final = "mbbq-gen.samples/1"
"""Raised when a column changes its name or meaning; new columns may come without."""
GROUP_COLUMN = "The group's value of this grouping."
SCORE_COLUMNS, RUN_KEYS, OUTCOMES = _TEXTS["scores"], _TEXTS["run"], _TEXTS["outcomes"]
"""Column of scores, key of export.json, and outcome, → meaning."""


def data_dictionary(
    items: Mapping[str, polars.DataType],
    scores: Mapping[str, polars.DataType],
    metrics: Mapping[str, MetricDefinition],
    lead: str = "",
) -> str:
    """The meaning of these columns and metrics as Markdown; items as of `Run.samples`."""
    meanings = ITEM_COLUMNS | DESIGN_COLUMNS
    lines = ["# Data dictionary", "", *([lead, ""] if lead else []), f"Schema: `{SCHEMA_VERSION}`.", ""]
    head = ("column", "type", "meaning", "values")
    lines += _section("samples", head, [_row(name, kind, meanings[name]) for name, kind in items.items()])
    found = [_row(name, kind, SCORE_COLUMNS.get(name, GROUP_COLUMN)) for name, kind in scores.items()]
    lines += _section("scores", head, found)
    if metrics:
        defined = [(f"`{name}`", one.formula, one.meaning, one.sign, one.source) for name, one in metrics.items()]
        lines += _section("Metrics", ("metric", "formula", "meaning", "sign", "source"), defined)
    keys = [(f"`{name}`", meaning) for name, meaning in RUN_KEYS.items()]
    where = "Keys of `export.json`, and of `runtime_info` in `manifest.json`."
    lines += _section("Server and sampling", ("key", "meaning"), keys, where)
    outcomes = [(f"`{name}`", meaning) for name, meaning in OUTCOMES.items()]
    return "\n".join([*lines, *_section("Outcomes", ("outcome", "meaning"), outcomes)])


def _row(name: str, kind: polars.DataType, meaning: str) -> tuple[str, str, str, str]:
    """Name, type, meaning and, if they are few, the possible values of a column."""
    import polars as pl

    inner = kind
    while isinstance(inner, pl.List):
        inner = inner.inner  # type: ignore[assignment]
    values = ", ".join(f"`{value}`" for value in inner.categories) if isinstance(inner, pl.Enum) else ""
    return f"`{name}`", "text" if name == "context_id" else _type_name(kind), meaning, values


def _type_name(kind: polars.DataType) -> str:
    import polars as pl

    if isinstance(kind, pl.List):
        return f"list of {_type_name(kind.inner)}"  # type: ignore[arg-type]
    if isinstance(kind, pl.Struct):
        return "{" + ", ".join(field.name for field in kind.fields) + "}"
    if kind.is_integer():
        return "whole number"
    return "number" if kind.is_float() else "true/false" if kind == pl.Boolean() else "text"


def _section(title: str, head: Sequence[str], rows: Iterable[Sequence[str]], lead: str = "") -> list[str]:
    """A heading and a table, whose cells are escaped."""
    cells = ((cell.replace("|", "\\|") for cell in row) for row in rows)
    return [
        *(f"## {title}", "", *([lead, ""] if lead else [])),
        *(f"| {' | '.join(head)} |", "|" + "---|" * len(head)),
        *(f"| {' | '.join(row)} |" for row in cells),
        "",
    ]
