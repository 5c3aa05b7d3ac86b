"""A run as a folder of tables that says what it is.

    DIR/items.parquet            one row an answered presentation       (items.csv with --csv)
    DIR/scores.parquet           one row a group and metric             (scores.csv)
    DIR/scores.json              the same with counts, definitions and warnings
    DIR/manifest.json            what shaped the numbers: the run's own manifest
    DIR/data_dictionary.json     what every column means (and .md)
    DIR/import_map.toml          what `mbbq-gen import --from csv` needs to read the items back
    DIR/export.json              settings, schema version, rows and sha256 of every file; written last

Items are taken a part at a time, so a run of a million answers needs no more memory than one of 20,000.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Self

import mbbq_gen
from mbbq_gen.api import Run
from mbbq_gen.errors import RunError, UsageError
from mbbq_gen.exports.dictionary import data_dictionary, dictionary_page
from mbbq_gen.exports.settings import QUESTION_COLUMNS, ExportedFile, ExportRecord, ExportSettings
from mbbq_gen.report.csv_cells import UTF8_MARK, csv_cells
from mbbq_gen.report.score_files import score_rows
from mbbq_gen.resources import file_digest
from mbbq_gen.runs.folder import Manifest
from mbbq_gen.runs.items import item_schema
from mbbq_gen.runs.store import Progress
from mbbq_gen.scoring import ScoreTable
from mbbq_gen.scoring.weights import STRATA, WEIGHT, strata_weights

if TYPE_CHECKING:
    import polars

RECORD_NAME = "export.json"
_MARK_NAME = ".export-under-way"
_PARTS_PREFIX = ".export-parts-"
Kind = Literal["parquet", "csv", "hf-dataset"]
_IMPORT_FIELDS: Final = {
    "response": "response",
    "id": "presentation_id",
    "instance": "instance_key",
    "context": "context",
    "question": "question",
    "options": "options",
    "labels": "option_labels",
    "prompt": "prompt",
    "model": "response_model",
    "variant": "variant",
    "error": "error",
    "finish_reason": "finish_reason",
    "refusal": "refusal",
    "reasoning": "reasoning",
}
"""Field of an import → our column."""


@dataclass(frozen=True)
class Source:
    """A run, and how it is to be passed on; what several exports need of it is made once."""

    run: Run
    settings: ExportSettings
    step: Callable[[int], None] = lambda _: None
    """Hears of each batch of items that is written."""

    @cached_property
    def extractors(self) -> dict[str, str]:
        """Language → version of the extractor whose readings these are."""
        return self.run.read(self.settings.extractor)

    @cached_property
    def progress(self) -> Progress:
        """How far the run is."""
        return self.run.progress()

    @cached_property
    def scores(self) -> ScoreTable:
        """The scores, as the settings want them."""
        return self.scores_by(self.settings.by)

    def scores_by(self, by: tuple[str, ...]) -> ScoreTable:
        """The scores by other groupings, with all other settings the same; ways of asking are never pooled."""
        chosen = self.settings
        if len(self.run.manifest.settings.methods) > 1 and "method" not in by:
            by = (*by, "method")
        return self.run.scores(
            by,
            chosen.metrics,
            labels=chosen.labels,
            extractor=chosen.extractor,
            undetected=chosen.undetected,
            interval=chosen.interval,
            resamples=chosen.resamples,
            seed=chosen.seed,
            wordings=chosen.wordings,
        )

    @cached_property
    def weights(self) -> polars.DataFrame | None:
        """What answers weigh by the design of a run in rounds; None where they all weigh alike."""
        chosen = self.settings
        if self.run.manifest.stopping is None:
            return None
        return strata_weights(self.run.observations(labels=chosen.labels, extractor=chosen.extractor))

    def items(self) -> Iterator[polars.DataFrame]:
        """The items a part at a time, in types that any reader of files knows."""
        chosen = self.settings
        batches = self.run.item_batches(
            labels=chosen.labels, extractor=chosen.extractor, messages=chosen.with_questions
        )
        for batch in batches:
            yield self._plain(batch)
            self.step(batch.height)

    def schema(self) -> dict[str, polars.DataType]:
        """The columns of the items and their types, before they are made plain."""
        columns = item_schema(messages=True)
        kept = [name for name in columns if self.settings.with_questions or name not in QUESTION_COLUMNS]
        weight: dict[str, polars.DataType] = {} if self.weights is None else {WEIGHT: self.weights.schema[WEIGHT]}
        return {name: columns[name] for name in kept} | weight

    def empty(self) -> polars.DataFrame:
        """The table of no items."""
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


def write_bundle(source: Source, folder: Path, kind: Literal["parquet", "csv"]) -> ExportRecord:
    """Writes a run as a folder of tables; says what is in it.

    Raises:
        UsageError: where the folder holds something that is no earlier export.
        RunError: where something can't be written.
    """
    with bundle(source, folder, kind) as files:
        rows = write_items(source, folder, kind)
        files.append((f"items.{kind}", rows))
        scores = score_rows(source.scores)
        if kind == "csv":
            _write_csv(folder / "scores.csv", [scores])
        else:
            scores.write_parquet(folder / "scores.parquet")
        files.append((f"scores.{kind}", scores.height))
        files.extend((name, None) for name in write_papers(source, folder))
    return read_record(folder)


@contextmanager
def bundle(source: Source, folder: Path, kind: Kind) -> Iterator[list[tuple[str, int | None]]]:
    """A folder to write an export into: takes the files that were written, with their rows, and records them last.

    Raises:
        UsageError: where the folder holds something that is no earlier export.
        RunError: where something can't be written.
    """
    written: list[tuple[str, int | None]] = []
    try:
        _open_folder(folder)
        yield written
        record = ExportRecord(
            mbbq_gen=mbbq_gen.__version__,
            run=source.run.name,
            model=source.run.manifest.settings.model,
            kind=kind,
            settings=source.settings,
            extractors=source.extractors,
            requests=source.progress.requests,
            answered=source.progress.answered,
            files=tuple(_described(folder, name, rows) for name, rows in sorted(written)),
        )
        (folder / RECORD_NAME).write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8")
        (folder / _MARK_NAME).unlink()
    except OSError as error:
        raise RunError(f"{error.filename or folder}: can't write: {error.strerror or error}") from error


def read_record(folder: Path) -> ExportRecord:
    """What an export's folder says of itself."""
    return ExportRecord.model_validate_json((folder / RECORD_NAME).read_text(encoding="utf-8"))


def _open_folder(folder: Path) -> None:
    """Makes the folder and marks it as an export under way; one that holds something else than an export is refused.

    What an export that was cut short left behind is cleared away.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: is a file; name a folder for the export")
    folder.mkdir(parents=True, exist_ok=True)
    foreign = next(folder.iterdir(), None)
    if foreign is not None and not any((folder / name).is_file() for name in (RECORD_NAME, _MARK_NAME)):
        raise UsageError(f"{folder}: holds {foreign.name!r} and is no earlier export; name a new or empty folder")
    (folder / _MARK_NAME).touch()
    for left in folder.rglob(f"{_PARTS_PREFIX}*"):
        shutil.rmtree(left)


def _described(folder: Path, name: str, rows: int | None) -> ExportedFile:
    path = folder / name
    return ExportedFile(path=name, rows=rows, size=path.stat().st_size, sha256=file_digest(path))


# --- tables ----------------------------------------------------------------------------------------------------------


def write_items(source: Source, folder: Path, kind: Literal["parquet", "csv"]) -> int:
    """Writes items.parquet or items.csv; says how many rows."""
    path = folder / f"items.{kind}"
    if kind == "csv":
        return _write_csv(path, [source.empty()], source.items())
    with ParquetParts(path, source.empty()) as parts:
        for batch in source.items():
            parts.add(batch)
    return parts.rows


class ParquetParts:
    """Writes tables one under the other as one Parquet file; each is held only while it is added.

    The file appears when the parts are whole: at the end of the `with`, unless something went wrong in it.
    """

    def __init__(self, path: Path, empty: polars.DataFrame) -> None:
        self.path = path
        self.rows = 0
        self._folder = TemporaryDirectory(prefix=_PARTS_PREFIX, dir=path.parent)
        self._count = 0
        self.add(empty)

    def add(self, part: polars.DataFrame) -> None:
        """Writes some rows."""
        part.write_parquet(Path(self._folder.name) / f"{self._count:06}.parquet")
        self._count += 1
        self.rows += part.height

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        import polars as pl

        with self._folder:
            if error is None:
                pl.scan_parquet(sorted(Path(self._folder.name).glob("*.parquet"))).sink_parquet(self.path)


def _write_csv(path: Path, head: list[polars.DataFrame], batches: Iterator[polars.DataFrame] | None = None) -> int:
    """Writes tables one under the other as CSV for a spreadsheet, the first with its heading; says how many rows."""
    temporary, rows = path.with_name(path.name + ".part"), 0
    try:
        with temporary.open("w", encoding="utf-8", newline="") as stream:
            stream.write(UTF8_MARK)
            for frame in head:
                stream.write(csv_cells(frame).write_csv(line_terminator="\r\n"))
                rows += frame.height
            for frame in batches or ():
                stream.write(csv_cells(frame).write_csv(include_header=False, line_terminator="\r\n"))
                rows += frame.height
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return rows


def write_papers(source: Source, folder: Path) -> list[str]:
    """Writes what says what the tables are: scores.json, manifest.json, the data dictionary; says the files' names."""
    dictionary = data_dictionary(source.schema(), dict(score_rows(source.scores).schema), source.scores.definitions)
    lead = f"Of the export of `{source.run.name}`. Empty cells are null: there is no such value."
    texts = {
        "scores.json": source.scores.model_dump_json(indent=2) + "\n",
        "manifest.json": without_folders(source.run.manifest).model_dump_json(indent=2) + "\n",
        "data_dictionary.json": json.dumps(dictionary.model_dump(), ensure_ascii=False, indent=2) + "\n",
        "data_dictionary.md": dictionary_page(dictionary, lead=lead),
        "import_map.toml": _import_map(source.schema()),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return list(texts)


def _import_map(columns: Collection[str]) -> str:
    """Which column is which field of `mbbq-gen import --from csv`."""
    fields = {name: column for name, column in _IMPORT_FIELDS.items() if column in columns}
    return "\n".join(["[fields]", *(f'{name} = "{column}"' for name, column in fields.items())]) + "\n"


def without_folders(manifest: Manifest) -> Manifest:
    """The manifest with the names of data files and folders only: where they lie on a machine is nobody's business."""
    choices = tuple(
        choice.model_copy(update={"data": _name(choice.data), "field_map": _name(choice.field_map)})
        for choice in manifest.settings.benchmarks
    )
    return manifest.model_copy(update={"settings": manifest.settings.model_copy(update={"benchmarks": choices})})


def _name(path: str | None) -> str | None:
    return None if path is None else Path(path).name
