"""Exports of a run: a folder of tables with a data dictionary.

    DIR/samples.parquet          one row per response (samples.csv with --csv)
    DIR/scores.parquet           one row per group and metric (scores.csv)
    DIR/scores.json              the same with counts, definitions and warnings
    DIR/manifest.json            the manifest of the run
    DIR/data_dictionary.md       meaning of every column
    DIR/import_map.toml          field map to import the samples with `mbbq-gen import --from csv`
    DIR/export.json              settings, schema version, rows and sha256 of every file

Files are written into a temporary folder and moved at the end; samples in batches, so memory stays small.
"""

from __future__ import annotations

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
from mbbq_gen.extraction import ENGINE
from mbbq_gen.interchange.cards import dataset_card, markdown_table
from mbbq_gen.report.score_tables import UTF8_MARK, csv_cells, score_rows
from mbbq_gen.runs.run_folder import Manifest
from mbbq_gen.runs.samples import item_schema
from mbbq_gen.scoring.cells import UnparsedPolicy
from mbbq_gen.scoring.codes import Average, PromptEffects
from mbbq_gen.scoring.observations import GoldLabels
from mbbq_gen.scoring.tally import STRATA, WEIGHT, strata_weights
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
"""Columns of samples with texts of the benchmark, which `with_questions=False` omits."""


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
    """Intervals for these prompt variants (fixed) or for variants like them (random)."""
    average: Average = "questions"
    """The units that scores are means over."""
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
    """Incremented when a file changes its name or kind."""
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
    """Requests with a response; if fewer than `requests`, the run is not finished."""
    files: tuple[ExportedFile, ...] = Field(default=())


RECORD_NAME = "export.json"
_TEMPORARY = ".export-"
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
        """The scores by these groupings; methods are never pooled."""
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
        """The samples in batches, with types that any reader supports; the first batch is empty."""
        import polars as pl
        import polars.selectors as cs

        chosen, weights = self.settings, self.weights
        batches = self.run.sample_batches(gold=chosen.gold, extractor=chosen.extractor, messages=chosen.with_questions)
        for batch in chain([pl.DataFrame(schema=item_schema(messages=True))], batches):
            plain = batch.select(name for name in self.schema() if name != WEIGHT).with_columns(
                cs.by_dtype(pl.Categorical, pl.Enum).cast(pl.String),
                cs.by_name("option_roles").cast(pl.List(pl.String)),
                pl.col("context_id").cast(pl.String),
            )
            if weights is not None:
                plain = plain.join(weights, on=STRATA, how="left", nulls_equal=True, maintain_order="left")
            yield plain
            self.step(batch.height)

    def schema(self) -> dict[str, polars.DataType]:
        """The columns of the samples with their polars types."""
        columns = item_schema(messages=True)
        kept = [name for name in columns if self.settings.with_questions or name not in QUESTION_COLUMNS]
        weight: dict[str, polars.DataType] = {} if self.weights is None else {WEIGHT: self.weights.schema[WEIGHT]}
        return {name: columns[name] for name in kept} | weight


def write_bundle(source: ExportSource, folder: Path, kind: Kind) -> ExportRecord:
    """Writes a run as a folder of tables. Raises UsageError and RunError."""
    with write_errors(folder):
        _check_folder(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=_TEMPORARY, dir=folder) as place:
            made = Path(place)
            rows = _write_tables(source, made, kind)
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
                    for path in (made / name,)
                ),
            )
            (made / RECORD_NAME).write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8")
            for name in (*rows, RECORD_NAME):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (made / name).replace(folder / name)
    return record


def _check_folder(folder: Path) -> None:
    """Raises UsageError for a file, and for a folder that is no export or was changed."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: is a file; name a folder for the export")
    entries = folder.iterdir() if folder.is_dir() else ()
    foreign = next((entry for entry in entries if not entry.name.startswith(_TEMPORARY)), None)
    if foreign is None:
        return
    path = folder / RECORD_NAME
    if not path.is_file():
        raise UsageError(f"{folder}: holds {foreign.name!r} and is not an export; name a new or empty folder")
    try:
        files = ExportRecord.model_validate_json(path.read_bytes()).files
    except ValidationError as error:
        raise UsageError(f"{path}: no record of an export; name a new or empty folder") from error
    for file in files:
        path = folder / file.path
        if path.is_file() and (path.stat().st_size, file_digest(path)) != (file.size, file.sha256):
            raise UsageError(f"{path}: was changed since it was exported; name another folder, or move this one away")


def _write_tables(source: ExportSource, folder: Path, kind: Kind) -> dict[str, int | None]:
    """Writes all files except export.json; returns their names with the number of rows."""
    splits, scores = source.run.manifest.config.splits, score_rows(source.scores)
    texts = _documents(source, scores)
    rows: dict[str, int | None] = {}
    if kind == "csv":
        rows["samples.csv"] = _write_csv(folder / "samples.csv", source.samples())
        rows["scores.csv"] = _write_csv(folder / "scores.csv", [scores])
    else:
        split_of: dict[str, str | None] = {"samples.parquet": None}
        if kind == "hf-dataset":
            split_of = {f"samples/{split}.parquet": split for split in splits}
            texts["README.md"] = dataset_card(source, splits)
        rows |= _write_parquet(source, folder, split_of) | {"scores.parquet": scores.height}
        scores.write_parquet(folder / "scores.parquet")
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")
    return rows | dict.fromkeys(texts)


# --- tables ----------------------------------------------------------------------------------------------------------


def _write_parquet(source: ExportSource, folder: Path, split_of: Mapping[str, str | None]) -> dict[str, int]:
    """Writes samples into Parquet files in batches; `split_of`: file → its split (None: all)."""
    import polars as pl

    str(folder).encode()  # polars needs a path that UTF-8 can encode: UnicodeEncodeError
    parts = folder / "parts"
    parts.mkdir()
    for number, batch in enumerate(source.samples()):
        batch.write_parquet(parts / f"{number:06}.parquet")
    rows = {}
    for name, split in split_of.items():
        table = pl.scan_parquet(sorted(parts.glob("*.parquet")))
        table.filter(split is None or pl.col("split") == split).sink_parquet(folder / name, mkdir=True)
        rows[name] = pl.scan_parquet(folder / name).select(pl.len()).collect().item()
    return rows


def _write_csv(path: Path, frames: Iterable[polars.DataFrame]) -> int:
    """Writes tables as one CSV for a spreadsheet; returns the number of rows."""
    rows = 0
    with path.open("w", encoding="utf-8", newline="") as stream:
        stream.write(UTF8_MARK)
        for number, frame in enumerate(frames):
            stream.write(csv_cells(frame).write_csv(include_header=number == 0, line_terminator="\r\n"))
            rows += frame.height
    return rows


def _documents(source: ExportSource, scores: polars.DataFrame) -> dict[str, str]:
    """File name → text: scores, manifest, data dictionary and field map."""
    columns = source.schema()
    lead = f"Columns of the export of `{source.run.name}`. Empty cells are null."
    fields = [f'{name} = "{column}"\n' for name, column in _IMPORT_FIELDS.items() if column in columns]
    return {
        "scores.json": source.scores.model_dump_json(indent=2) + "\n",
        "manifest.json": without_folders(source.run.manifest).model_dump_json(indent=2) + "\n",
        "data_dictionary.md": data_dictionary(columns, scores.schema, source.scores.definitions, lead),
        "import_map.toml": "".join(["[fields]\n", *fields]),
    }


def without_folders(manifest: Manifest) -> Manifest:
    """The manifest with names instead of paths of files and folders."""
    named: dict[str, str | dict[str, str] | None] = {}
    for name in ("data_dir", "instances", "instances_field_map", "prices", "cache_dir"):
        path = getattr(manifest.config, name)
        if isinstance(path, dict):
            named[name] = {benchmark: Path(folder).name for benchmark, folder in path.items()}
        else:
            named[name] = None if path is None else Path(path).name
    return manifest.model_copy(update={"config": manifest.config.model_copy(update=named)})


_TEXTS: Final[dict[str, dict[str, str]]] = tomllib.loads(
    Path(__file__).with_name("data_dictionary.toml").read_text(encoding="utf-8")
)
SCHEMA_VERSION: Final = "mbbq-gen.samples/1"
"""Incremented when a column changes its name or meaning, not for new columns."""


def data_dictionary(
    items: Mapping[str, polars.DataType],
    scores: Mapping[str, polars.DataType],
    metrics: Mapping[str, MetricDefinition],
    lead: str,
) -> str:
    """The meaning of columns and metrics as Markdown; `items`: the columns of `Run.samples`."""
    meanings, head = _TEXTS["samples"] | _TEXTS["samples_of_some_runs"], ("column", "type", "meaning", "values")
    of_scores = _TEXTS["scores"]
    group = "The group's value of this grouping."
    where = "Keys of `export.json`, and of `runtime_info` in `manifest.json`."
    defined = [(f"`{name}`", one.formula, one.meaning, one.sign, one.source) for name, one in metrics.items()]
    keys, outcomes = ([(f"`{name}`", text) for name, text in _TEXTS[part].items()] for part in ("run", "outcomes"))
    lines = [
        *("# Data dictionary", "", lead, "", f"Schema: `{SCHEMA_VERSION}`.", ""),
        *_section("samples", head, [_row(name, kind, meanings[name]) for name, kind in items.items()]),
        *_section("scores", head, [_row(name, kind, of_scores.get(name, group)) for name, kind in scores.items()]),
        *_section("Metrics", ("metric", "formula", "meaning", "sign", "source"), defined),
        *_section("Server and sampling", ("key", "meaning"), keys, where),
        *_section("Outcomes", ("outcome", "meaning"), outcomes),
    ]
    return "\n".join(lines)


def _row(name: str, kind: polars.DataType, meaning: str) -> tuple[str, str, str, str]:
    """Name, type, meaning and, for enums, the possible values of a column."""
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
    """A heading and a table."""
    return [f"## {title}", "", *([lead, ""] if lead else []), *markdown_table(head, rows), ""]
