"""Commands `import` (logs of other programs) and `export` (tables for others)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mbbq_gen.cli.config_options import expand_options
from mbbq_gen.cli.data_source import Choice, Data, FieldMap, Instances
from mbbq_gen.cli.help import example, option
from mbbq_gen.cli.options import (
    GroupBy,
    Json,
    Languages,
    MetricNames,
    Packs,
    PromptEffectsChoice,
    RunPacks,
    RunPath,
    ScoreOptions,
    average_of,
    data_folder,
    echo,
    metrics_of,
    print_json,
    print_model,
    prompt_effects_of,
    read_before_use,
    resources,
    say,
    write_lines,
)
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.progress import Bar
from mbbq_gen.core.text import all_of, one_of, splits_of, words

if TYPE_CHECKING:
    from mbbq_gen.core.config import BenchmarkChoice
    from mbbq_gen.core.records import Instance
    from mbbq_gen.interchange.export import ExportRecord, ExportSettings, ExportSource, Kind
    from mbbq_gen.interchange.importers.run_writer import ImportSummary


@example(
    "  mbbq-gen import --from lm-eval out/my-model -o my-run --benchmark bbq --data-dir BBQ\n"
    "  mbbq-gen import --from inspect logs/2026-01-31_mbbq.eval -o my-run --benchmark mbbq\n"
    "  mbbq-gen import --from helm runs/suite/bbq:model=m -o my-run --benchmark bbq\n"
    "  mbbq-gen import --from lighteval out -o my-run --benchmark bbq\n"
    "  mbbq-gen import --from euroeval MODEL-DATASET-model-outputs.json -o my-run --benchmark mbbq\n"
    "  mbbq-gen import --from csv answers.csv --columns map.toml -o my-run --benchmark starter"
)
def import_answers(
    source: Annotated[Path, typer.Argument(metavar="LOG", help="Log file or folder.")],
    output: Annotated[Path, option("Output", "Folder of the new run.", "--output", "-o", metavar="RUN")],
    tool: Annotated[
        str,
        typer.Option(
            "--from",
            help="Program that wrote LOG: lm-eval (run with --log_samples), inspect (.eval or .json), helm, lighteval "
            "(--save-details), euroeval (--debug), or csv (a table: CSV, TSV, Parquet, .xlsx, JSON or JSON Lines).",
            metavar="PROGRAM",
            rich_help_panel="Log",
        ),
    ],
    columns: Annotated[
        Path | None,
        option("Log", "With --from csv: TOML file that maps the columns to the fields of mbbq-gen.", metavar="TOML"),
    ] = None,
    model: Annotated[str | None, option("Log", "Name of the model. Default: the name in the log.")] = None,
    benchmark: Annotated[
        str | None,
        option(
            "Questions", "Benchmarks of the responses, comma-separated; see `mbbq-gen data list`.", metavar="NAME,…"
        ),
    ] = None,
    data_dir: Data = None,
    instances: Instances = None,
    instances_field_map: FieldMap = None,
    languages: Languages = None,
    splits: Annotated[
        str | None,
        option("Questions", "Only these splits, comma-separated: bias, control. Default: all.", metavar="SPLIT,…"),
    ] = None,
    packs: RunPacks = None,
    as_json: Json = False,
) -> None:
    """Makes a run from the responses in another program's log.

    Reads logs of lm-eval, inspect-ai, HELM, lighteval, EuroEval, and tables. Each response is matched to a question
    of the benchmark, with the options in the order that the model saw, and keeps the ids of the log. Rows without a
    match are counted by reason. mbbq-gen extracts and scores the responses itself; all other commands take the run
    like any other.
    """
    from mbbq_gen.interchange.importers import open_log
    from mbbq_gen.interchange.importers.base import TOOLS
    from mbbq_gen.interchange.importers.run_writer import Importer
    from mbbq_gen.runs.run_folder import RunFolder

    where = resources(packs)
    opened = open_log(one_of("program", tool, TOOLS), source, columns)
    choices = tuple(_choices(benchmark, data_dir, instances, instances_field_map))
    importer = Importer(
        folder=RunFolder(output),
        source=opened,
        choices=choices,
        instances=_questions(choices, languages, splits, packs),
        resources=where,
        model=model,
    )
    with Bar("reading", None, "questions", delay=1.0) as bar:
        importer.read_questions(bar.advance)
    with Bar("importing", None, "answers", delay=1.0) as bar:
        summary = importer.run(bar.advance)
    if as_json:
        print_model(summary)
    else:
        _show(summary)


def _choices(
    benchmark: str | None, data_dir: Path | None, instances: Path | None, field_map: Path | None
) -> Iterator[BenchmarkChoice]:
    """The benchmarks of an import, as the manifest names them."""
    from mbbq_gen.benchmarks.registry import benchmark_name
    from mbbq_gen.core.config import OWN_DATA, BenchmarkChoice
    from mbbq_gen.runs.resolve import check_own_data

    check_own_data(benchmark, data_dir, instances, field_map)
    if instances is not None:
        yield BenchmarkChoice(
            name=OWN_DATA, data_dir=str(instances), field_map=None if field_map is None else str(field_map)
        )
    elif benchmark is None:
        raise UsageError("give --benchmark NAME (see `mbbq-gen data list`) or --instances FILE")
    for name in map(benchmark_name, words(benchmark or "")):
        folder = data_folder(name, data_dir)
        yield BenchmarkChoice(name=name, data_dir=str(folder) if folder else None)


def _questions(
    choices: Sequence[BenchmarkChoice], languages: str | None, splits: str | None, packs: Path | None
) -> Iterator[tuple[BenchmarkChoice, Iterable[Instance]]]:
    """The questions of each benchmark, of several in those of the languages and splits that it has."""
    from mbbq_gen.benchmarks.registry import find_benchmark
    from mbbq_gen.core.config import OWN_DATA

    parts = splits_of(splits) if splits else None
    for choice in choices:
        place = Path(choice.data_dir) if choice.data_dir else None
        if choice.name == OWN_DATA:
            fields = Path(choice.field_map) if choice.field_map else None
            yield choice, Choice(None, None, place, fields, languages, packs).load(parts)
            continue
        info = find_benchmark(choice.name)
        codes, kept = words(languages or ""), parts
        if len(choices) > 1:
            codes = [code for code in codes if code in info.languages]
            kept = parts and [split for split in parts if split in info.splits]
        if (codes or not languages) and kept != []:
            named = ",".join(codes) if languages else None
            yield choice, Choice(choice.name, place, languages=named, packs=packs).load(kept)


def _show(summary: ImportSummary) -> None:
    """Prints what was imported on stdout, the rest on stderr."""
    for note in summary.notes:
        say(note)
    echo(f"{summary.imported:,} of {summary.rows:,} answers of {summary.model} imported into {summary.run}")
    for part in summary.coverage:
        echo(
            f"  {part.benchmark} {part.split} {part.language}: {part.answered:,} of {part.questions:,} questions"
            + (f", {part.answers:,} answers" if part.answers != part.answered else "")
        )
    for count, what in (
        (summary.failed, "are errors"),
        (summary.unlabelled, "were shown without labels: a letter alone chooses no option"),
        (summary.reworded, "had another text of the unknown option than the benchmark"),
    ):
        if count:
            echo(f"  {count:,} {what}")
    for entry in summary.skipped:
        say(f"skipped: {entry.count:,}: {entry.meaning}")
        for shown in entry.examples:
            say(f"    {shown}")
    say(f"next: mbbq-gen report {summary.run}")


@example(
    "  mbbq-gen export my-run --parquet tables\n"
    "  mbbq-gen export my-run --csv sheets --group-by language,category,split\n"
    "  mbbq-gen export my-run --parquet tables --prompt-effects random    (for variants like these)\n"
    "  mbbq-gen export my-run --hf-dataset answers --model-index results.yaml"
)
@expand_options
def export(
    run_path: RunPath,
    parquet: Annotated[
        Path | None, option("Files", "Write samples, scores and data dictionary as Parquet.", metavar="DIR")
    ] = None,
    csv: Annotated[
        Path | None,
        option(
            "Files", "Write samples, scores and data dictionary as CSV, safe to open in a spreadsheet.", metavar="DIR"
        ),
    ] = None,
    hf_dataset: Annotated[
        Path | None, option("Files", "Write a folder for `datasets.load_dataset`, with a dataset card.", metavar="DIR")
    ] = None,
    model_index: Annotated[
        Path | None,
        option(
            "Files",
            "Write scores as `model-index` metadata: into a YAML file, or into a model card (.md).",
            metavar="FILE",
        ),
    ] = None,
    omit_questions: Annotated[
        bool, option("Files", "Leave out the benchmark's texts; ids are kept.", "--omit-questions")
    ] = False,
    packs: Packs = None,
    group_by: GroupBy = "benchmark,language,split",
    metric: MetricNames = "all",
    *,
    statistics: ScoreOptions,
    prompt_effects: PromptEffectsChoice = "fixed",
    as_json: Json = False,
) -> None:
    """Writes the samples and scores of a run as tables.

    Each folder holds samples (one row per response, with question, response, extraction and evidence), scores, the
    manifest of the run and a data dictionary; export.json lists schema version, settings and the sha256 of every file.
    """
    from mbbq_gen.api import Run
    from mbbq_gen.interchange.export import ExportSettings, ExportSource
    from mbbq_gen.scoring.tally import GROUPINGS

    if not any((parquet, csv, hf_dataset, model_index)):
        raise UsageError("give at least one of --parquet DIR, --csv DIR, --hf-dataset DIR or --model-index FILE")
    run = Run(run_path, packs=packs)
    groupings = all_of("grouping", group_by, list(GROUPINGS)) if words(group_by) else []
    if len(run.manifest.config.method) > 1 and "method" not in groupings:
        groupings.append("method")
        say("methods are kept apart: added method to --group-by")
    settings = ExportSettings(
        extractor=statistics.extractor,
        gold=statistics.chosen_gold(),
        unparsed=statistics.chosen_unparsed(),
        by=tuple(groupings),
        metrics=None if metric == "all" else tuple(chosen.name for chosen in metrics_of(metric)),
        confidence_level=statistics.confidence_level,
        n_resamples=statistics.n_resamples,
        seed=statistics.seed,
        prompt_effects=prompt_effects_of(prompt_effects),
        average=average_of(statistics.average),
        unseen_deviation=statistics.unseen_deviation,
        unseen_stretch=statistics.unseen_stretch,
        with_questions=not omit_questions,
    )

    read_before_use(run.folder, run.resources, statistics.extractor)
    with Bar("writing", None, "items", delay=1.0) as bar:
        source = ExportSource(run, settings, bar.advance)
        _warn(source, folders=[folder for folder in (parquet, csv, hf_dataset) if folder])
        summary = _write(source, parquet=parquet, csv=csv, hf_dataset=hf_dataset, eval_results=model_index)
    if as_json:
        print_json({"run": str(run_path), **summary})


def _warn(source: ExportSource, folders: list[Path]) -> None:
    """Warns of an incomplete run and of texts that may not be redistributed."""
    from mbbq_gen.interchange.cards import closed_benchmarks

    progress, manifest = source.progress, source.run.manifest
    if progress.pending:
        say(f"{source.run.path}: {progress.pending:,} of {progress.requests:,} requests have no response yet")
    closed = closed_benchmarks(manifest)
    if folders and closed and source.settings.with_questions:
        say(f"the questions of {', '.join(closed)} may not be redistributed: before publishing, use --omit-questions")


def _write(
    source: ExportSource, *, parquet: Path | None, csv: Path | None, hf_dataset: Path | None, eval_results: Path | None
) -> dict[str, Any]:
    """Writes the exports and returns their records."""
    from mbbq_gen.interchange.export import write_bundle

    found: dict[str, Any] = {}
    folders: dict[Kind, Path | None] = {"parquet": parquet, "csv": csv, "hf-dataset": hf_dataset}
    for kind, folder in folders.items():
        if folder is not None:
            found[kind.replace("-", "_")] = _report_export(folder, write_bundle(source, folder, kind))
    if eval_results is not None:
        from mbbq_gen.interchange.cards import RESULT_BY, card_metadata, model_index
        from mbbq_gen.report.score_tables import SUMMARY_METRICS

        settings: ExportSettings = source.settings
        scores = source.scores if settings.by == RESULT_BY else source.scores_by(RESULT_BY)
        metadata = model_index(source.run.manifest, scores, settings.metrics or SUMMARY_METRICS)
        text = card_metadata(metadata, is_markdown=eval_results.suffix.lower() == ".md")
        write_lines(eval_results, text.splitlines())
        say(f"{eval_results}: {len(scores.groups)} results")
        found["eval_results"] = {"file": str(eval_results), **metadata}
    return found


def _report_export(folder: Path, record: ExportRecord) -> dict[str, Any]:
    items = sum(file.rows or 0 for file in record.files if file.path.startswith("samples"))
    say(f"{folder}: {items:,} items, {len(record.files)} files; see {folder / 'data_dictionary.md'}")
    return {"folder": str(folder), **record.model_dump()}
