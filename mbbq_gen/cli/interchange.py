"""Commands `import` (logs of other programs) and `export` (tables for others)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mbbq_gen.cli.command import PackCommand, RunCommand, RunPacks, argument, option
from mbbq_gen.cli.options import (
    Data,
    FieldMap,
    GroupBy,
    Instances,
    Languages,
    MetricNames,
    QuestionOptions,
    ScoreOptions,
    metrics_of,
)
from mbbq_gen.cli.output import echo, print_json, say, write_lines
from mbbq_gen.core.config import OWN_DATA, BenchmarkChoice
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.progress import Bar
from mbbq_gen.core.records import Instance
from mbbq_gen.core.text import all_of, one_of, splits_of, words

if TYPE_CHECKING:
    from mbbq_gen.interchange.export import ExportRecord, ExportSource, Kind
    from mbbq_gen.interchange.importers.run_writer import ImportSummary


class Import(PackCommand):
    """Makes a run from the responses in another program's log.

    Reads logs of lm-eval, inspect-ai, HELM, lighteval, EuroEval, and tables. Each response is matched to a question
    of the benchmark, with the options in the order that the model saw, and keeps the ids of the log. Rows without a
    match are counted by reason. mbbq-gen extracts and scores the responses itself; all other commands take the run
    like any other.
    """

    help_examples = (
        "  mbbq-gen import --from lm-eval out/my-model -o my-run --benchmark bbq --data-dir BBQ\n"
        "  mbbq-gen import --from inspect logs/2026-01-31_mbbq.eval -o my-run --benchmark mbbq\n"
        "  mbbq-gen import --from helm runs/suite/bbq:model=m -o my-run --benchmark bbq\n"
        "  mbbq-gen import --from lighteval out -o my-run --benchmark bbq\n"
        "  mbbq-gen import --from euroeval MODEL-DATASET-model-outputs.json -o my-run --benchmark mbbq\n"
        "  mbbq-gen import --from csv answers.csv --columns map.toml -o my-run --benchmark starter"
    )
    source: Path = argument("LOG", "Log file or folder.", default=...)
    output: Path = option("Output", "Folder of the new run.", "--output", "-o", default=..., metavar="RUN")
    tool: str = option(
        "Log",
        "Program that wrote LOG: lm-eval (run with --log_samples), inspect (.eval or .json), helm, lighteval "
        "(--save-details), euroeval (--debug), or csv (a table: CSV, TSV, Parquet, .xlsx, JSON or JSON Lines).",
        "--from",
        default=...,
        metavar="PROGRAM",
    )
    columns: Path | None = option(
        "Log", "With --from csv: TOML file that maps the columns to the fields of mbbq-gen.", metavar="TOML"
    )
    model: str | None = option("Log", "Name of the model. Default: the name in the log.")
    benchmark: str | None = option(
        "Questions", "Benchmarks of the responses, comma-separated; see `mbbq-gen data list`.", metavar="NAME,…"
    )
    data_dir: Data = None
    instances: Instances = None
    instances_field_map: FieldMap = None
    languages: Languages = None
    splits: str | None = option(
        "Questions", "Only these splits, comma-separated: bias, control. Default: all.", metavar="SPLIT,…"
    )
    packs: RunPacks = None

    def _run(self) -> None:
        from mbbq_gen.interchange.importers import open_log
        from mbbq_gen.interchange.importers.base import TOOLS
        from mbbq_gen.interchange.importers.run_writer import import_answers
        from mbbq_gen.runs.run_folder import RunFolder

        source = open_log(one_of("program", self.tool, TOOLS), self.source, self.columns)
        choices = tuple(self._choices())
        questions = self._questions(choices)
        summary = import_answers(
            RunFolder(self.output), source, choices, questions, resources=self.where, model=self.model
        )
        if self.as_json:
            print_json(summary)
        else:
            _show(summary)

    def _choices(self) -> Iterator[BenchmarkChoice]:
        """The benchmarks, as the manifest names them."""
        from mbbq_gen.benchmarks.registry import benchmark_name
        from mbbq_gen.benchmarks.releases import benchmark_folder
        from mbbq_gen.runs.resolve import check_own_data

        field_map = self.instances_field_map
        check_own_data(self.benchmark, self.data_dir, self.instances, field_map)
        if self.instances is not None:
            yield BenchmarkChoice(
                name=OWN_DATA, data_dir=str(self.instances), field_map=None if field_map is None else str(field_map)
            )
        elif self.benchmark is None:
            raise UsageError("give --benchmark NAME (see `mbbq-gen data list`) or --instances FILE")
        for name in map(benchmark_name, words(self.benchmark or "")):
            folder = benchmark_folder(name, self.data_dir)
            yield BenchmarkChoice(name=name, data_dir=str(folder) if folder else None)

    def _questions(self, choices: tuple[BenchmarkChoice, ...]) -> Iterator[tuple[BenchmarkChoice, Iterable[Instance]]]:
        """The questions of each benchmark, of several in those of the languages and splits that it has."""
        from mbbq_gen.benchmarks.registry import find_benchmark

        parts = splits_of(self.splits) if self.splits else None
        for choice in choices:
            if choice.name == OWN_DATA:
                source = QuestionOptions(
                    instances=self.instances,
                    instances_field_map=self.instances_field_map,
                    languages=self.languages,
                    packs=self.packs,
                )
                yield choice, source.load(parts)
                continue
            info, codes, kept = find_benchmark(choice.name), words(self.languages or ""), parts
            if len(choices) > 1:
                codes = [code for code in codes if code in info.languages]
                kept = parts and [split for split in parts if split in info.splits]
            if (codes or not self.languages) and kept != []:
                source = QuestionOptions(
                    benchmark=choice.name,
                    data_dir=Path(choice.data_dir) if choice.data_dir else None,
                    languages=",".join(codes) if self.languages else None,
                    packs=self.packs,
                )
                yield choice, source.load(kept)


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


class Export(RunCommand):
    """Writes the samples and scores of a run as tables.

    Each folder holds samples (one row per response, with question, response, extraction and evidence), scores, the
    manifest of the run and a data dictionary; export.json lists schema version, settings and the sha256 of every file.
    """

    help_examples = (
        "  mbbq-gen export my-run --parquet tables\n"
        "  mbbq-gen export my-run --csv sheets --group-by language,category,split\n"
        "  mbbq-gen export my-run --parquet tables --prompt-effects random    (for variants like these)\n"
        "  mbbq-gen export my-run --hf-dataset answers --model-index results.yaml"
    )
    parquet: Path | None = option("Files", "Write samples, scores and data dictionary as Parquet.", metavar="DIR")
    csv: Path | None = option(
        "Files", "Write samples, scores and data dictionary as CSV, safe to open in a spreadsheet.", metavar="DIR"
    )
    hf_dataset: Path | None = option(
        "Files", "Write a folder for `datasets.load_dataset`, with a dataset card.", metavar="DIR"
    )
    model_index: Path | None = option(
        "Files", "Write scores as `model-index` metadata: into a YAML file, or into a model card (.md).", metavar="FILE"
    )
    omit_questions: bool = option("Files", "Leave out the benchmark's texts; ids are kept.", default=False)
    group_by: GroupBy = "benchmark,language,split"
    metric: MetricNames = "all"
    statistics: ScoreOptions

    def _run(self) -> None:
        from mbbq_gen.api import Run
        from mbbq_gen.cli.loading import extracted
        from mbbq_gen.interchange.cards import closed_benchmarks
        from mbbq_gen.interchange.export import ExportSettings, ExportSource
        from mbbq_gen.scoring.tally import GROUPINGS

        folders = [folder for folder in (self.parquet, self.csv, self.hf_dataset) if folder is not None]
        if not folders and self.model_index is None:
            raise UsageError("give at least one of --parquet DIR, --csv DIR, --hf-dataset DIR or --model-index FILE")
        run = Run(self.run_path, packs=self.packs)
        groupings = all_of("grouping", self.group_by, list(GROUPINGS)) if words(self.group_by) else []
        if len(run.manifest.config.method) > 1 and "method" not in groupings:
            groupings.append("method")
            say("methods are kept apart: added method to --group-by")
        sampling = self.statistics.settings()
        settings = ExportSettings(
            extractor=self.statistics.extractor,
            gold=self.statistics.chosen_gold(),
            unparsed=sampling.unparsed,
            by=tuple(groupings),
            metrics=None if self.metric == "all" else tuple(metric.name for metric in metrics_of(self.metric)),
            confidence_level=sampling.confidence,
            n_resamples=sampling.n_resamples,
            seed=sampling.seed,
            prompt_effects=sampling.prompt_effects,
            average=sampling.average,
            unseen_deviation=sampling.unseen_deviation,
            unseen_stretch=sampling.unseen_stretch,
            with_questions=not self.omit_questions,
        )
        extracted(run.folder, run.resources, self.statistics.extractor)
        with Bar("writing", None, "items") as bar:
            source = ExportSource(run, settings, bar.advance)
            progress, closed = source.progress, closed_benchmarks(run.manifest)
            if progress.pending:
                say(f"{run.path}: {progress.pending:,} of {progress.requests:,} requests have no response yet")
            if folders and closed and settings.with_questions:
                named = ", ".join(closed)
                say(f"the questions of {named} may not be redistributed: before publishing, use --omit-questions")
            written = self._write(source)
        if self.as_json:
            print_json({"run": str(self.run_path), **written})

    def _write(self, source: ExportSource) -> dict[str, Any]:
        """Writes the exports and returns their records."""
        from mbbq_gen.interchange.cards import RESULT_BY, card_metadata, model_index
        from mbbq_gen.interchange.export import write_bundle
        from mbbq_gen.report.score_tables import SUMMARY_METRICS

        found: dict[str, Any] = {}
        folders: dict[Kind, Path | None] = {"parquet": self.parquet, "csv": self.csv, "hf-dataset": self.hf_dataset}
        for kind, folder in folders.items():
            if folder is not None:
                found[kind.replace("-", "_")] = _reported(folder, write_bundle(source, folder, kind))
        if (file := self.model_index) is not None:
            scores = source.scores if source.settings.by == RESULT_BY else source.scores_by(RESULT_BY)
            metadata = model_index(source.run.manifest, scores, source.settings.metrics or SUMMARY_METRICS)
            write_lines(file, card_metadata(metadata, is_markdown=file.suffix.lower() == ".md").splitlines())
            say(f"{file}: {len(scores.groups)} results")
            found["eval_results"] = {"file": str(file), **metadata}
        return found


def _reported(folder: Path, record: ExportRecord) -> dict[str, Any]:
    """The record of a folder, after a line about it."""
    items = sum(file.rows or 0 for file in record.files if file.path.startswith("samples"))
    say(f"{folder}: {items:,} items, {len(record.files)} files; see {folder / 'data_dictionary.md'}")
    return {"folder": str(folder), **record.model_dump()}
