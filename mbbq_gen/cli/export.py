"""`mbbq-gen export`: a run as tables, as a data set folder, as metadata of a model card."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mbbq_gen.cli.option_groups import expand_options
from mbbq_gen.cli.options import Json, Packs, RunPath, example, print_json, say, write_lines
from mbbq_gen.cli.statistics_options import MetricNames, ReaderChoice, StatisticsOptions, WordingsChoice, wordings_of
from mbbq_gen.errors import UsageError
from mbbq_gen.runs.bars import Bar
from mbbq_gen.runs.names import all_of, words

if TYPE_CHECKING:
    from mbbq_gen.exports.bundle import Source
    from mbbq_gen.exports.settings import ExportRecord, ExportSettings


@example(
    "  mbbq-gen export my-run --parquet tables\n"
    "  mbbq-gen export my-run --csv sheets --by language,category,split\n"
    "  mbbq-gen export my-run --parquet tables --wordings random    (intervals over wordings like those asked)\n"
    "  mbbq-gen export my-run --hf-dataset answers --eval-results results.yaml"
)
@expand_options
def export(
    run_path: RunPath,
    parquet: Annotated[
        Path | None, typer.Option(help="Items, scores and what they mean, as Parquet.", metavar="DIR")
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(help="The same as CSV, safe to open in a spreadsheet.", metavar="DIR")
    ] = None,
    hf_dataset: Annotated[
        Path | None, typer.Option(help="A folder that `datasets.load_dataset` reads, with its card.", metavar="DIR")
    ] = None,
    eval_results: Annotated[
        Path | None,
        typer.Option(help="Scores as `model-index` metadata of a model card (YAML; .md: as a card).", metavar="FILE"),
    ] = None,
    by: Annotated[
        str, typer.Option(help="Group the scores by these, comma-separated.", metavar="NAME,…")
    ] = "benchmark,language,split",
    metric: MetricNames = None,
    no_questions: Annotated[
        bool, typer.Option("--no-questions", help="Leave the benchmark's own text out; the ids stay.")
    ] = False,
    extractor: ReaderChoice = "engine",
    wordings: WordingsChoice = "fixed",
    *,
    statistics: StatisticsOptions,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Writes a run for others: its items and scores as tables with a data dictionary, or as metadata.

    Each folder holds items (one row an answer, with question, response, reading and evidence), scores, the run's
    manifest, and a data dictionary; export.json in it tells the schema version, the settings and every file's sha256.
    """
    from mbbq_gen.api import Run
    from mbbq_gen.exports.bundle import Source
    from mbbq_gen.exports.settings import ExportSettings
    from mbbq_gen.scoring import GROUPINGS, METRICS

    if not any((parquet, csv, hf_dataset, eval_results)):
        raise UsageError("say where to: --parquet DIR, --csv DIR, --hf-dataset DIR or --eval-results FILE")
    run = Run(run_path, packs=packs)
    groupings = all_of("grouping", by, list(GROUPINGS)) if words(by) else []
    if len(run.manifest.settings.methods) > 1 and "method" not in groupings:
        groupings.append("method")
        say("ways of asking are kept apart: added method to --by")
    settings = ExportSettings(
        extractor=extractor,
        labels=statistics.chosen_labels(),
        undetected=statistics.chosen_undetected(),
        by=tuple(groupings),
        metrics=tuple(all_of("metric", metric, list(METRICS))) if metric else None,
        interval=statistics.interval,
        resamples=statistics.resamples,
        seed=statistics.seed,
        wordings=wordings_of(wordings),
        with_questions=not no_questions,
    )
    _read_first(run, extractor)
    with Bar("writing", None, "items", delay=1.0) as bar:
        source = Source(run, settings, bar.advance)
        _warn(source, folders=[folder for folder in (parquet, csv, hf_dataset) if folder])
        summary = _write(source, parquet=parquet, csv=csv, hf_dataset=hf_dataset, eval_results=eval_results)
    if as_json:
        print_json({"run": str(run_path), **summary})


def _read_first(run: Any, extractor: str) -> None:
    """Reads what is unread, with a bar."""
    from mbbq_gen.cli.loading import read_before_use

    read_before_use(run.folder, run.resources, extractor)


def _warn(source: Source, folders: list[Path]) -> None:
    """Says what a reader of the export should know: that it is of a part, that texts may not be passed on."""
    from mbbq_gen.exports.cards import closed_benchmarks

    progress, manifest = source.progress, source.run.manifest
    if progress.pending:
        say(f"{source.run.path}: {progress.pending:,} of {progress.requests:,} requests have no answer yet: a part")
    closed = closed_benchmarks(manifest)
    if folders and closed and source.settings.with_questions:
        say(
            f"the questions of {', '.join(closed)} may not be free to pass on: for publishing, leave them out with "
            "--no-questions"
        )


def _write(
    source: Source, *, parquet: Path | None, csv: Path | None, hf_dataset: Path | None, eval_results: Path | None
) -> dict[str, Any]:
    """Writes what was asked for; says what each holds."""
    from mbbq_gen.exports.bundle import write_bundle
    from mbbq_gen.exports.hf_dataset import write_hf_dataset

    found: dict[str, Any] = {}
    if parquet is not None:
        found["parquet"] = _told(parquet, write_bundle(source, parquet, "parquet"))
    if csv is not None:
        found["csv"] = _told(csv, write_bundle(source, csv, "csv"))
    if hf_dataset is not None:
        found["hf_dataset"] = _told(hf_dataset, write_hf_dataset(source, hf_dataset))
    if eval_results is not None:
        found["eval_results"] = _write_results(source, eval_results)
    return found


def _told(folder: Path, record: ExportRecord) -> dict[str, Any]:
    items = sum(file.rows or 0 for file in record.files if file.path.startswith("items"))
    say(f"{folder}: {items:,} items, {len(record.files)} files; what they hold: {folder / 'data_dictionary.md'}")
    return {"folder": str(folder), **record.model_dump()}


def _write_results(source: Source, path: Path) -> dict[str, Any]:
    """Writes the metadata of a model card."""
    from mbbq_gen.exports.cards import RESULT_BY, card_metadata, model_index
    from mbbq_gen.report.tables import SUMMARY_METRICS

    settings: ExportSettings = source.settings
    scores = source.scores if settings.by == RESULT_BY else source.scores_by(RESULT_BY)
    metadata = model_index(source.run.manifest, scores, settings.metrics or SUMMARY_METRICS)
    text = card_metadata(metadata, is_markdown=path.suffix.lower() == ".md")
    write_lines(path, text.splitlines())
    say(f"{path}: {len(scores.groups)} results")
    return {"file": str(path), **metadata}
