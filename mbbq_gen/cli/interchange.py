"""Commands `import` (logs of other programs) and `export` (tables for others)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mbbq_gen.cli.command import PackCommand, RunCommand, argument, flag, option, settings
from mbbq_gen.cli.options import GroupBy, MetricNames, ScoreOptions, groupings_of, load_questions, metrics_of
from mbbq_gen.cli.output import echo, print_json, print_rows, say
from mbbq_gen.core.config import RunConfig
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.progress import Bar
from mbbq_gen.core.records import Split
from mbbq_gen.core.text import one_of, words

if TYPE_CHECKING:
    from mbbq_gen.interchange.export import Kind


class Import(PackCommand):
    """Makes a run from the responses in another program's log.

    Reads logs of lm-eval, inspect-ai, HELM, lighteval, and tables. Each response is matched to a question of the
    benchmark, with the options in the order that the model saw, and keeps the ids of the log. Rows without a
    match are counted by reason. mbbq-gen extracts and scores the responses itself; all other commands take the run
    like any other.
    """

    help_examples = (
        "  mbbq-gen import --from lm-eval out/my-model -o my-run --benchmark bbq --data-dir BBQ\n"
        "  mbbq-gen import --from inspect logs/2026-01-31_mbbq.eval -o my-run --benchmark mbbq\n"
        "  mbbq-gen import --from csv answers.csv --columns map.toml -o my-run --benchmark starter"
    )
    source: Path = argument("LOG", "Log file or folder.", default=...)
    output: Path = option("Output", "Folder of the new run.", "--output", "-o", default=..., metavar="RUN")
    tool: str = option(
        "Log",
        "Program that wrote LOG: lm-eval (run with --log_samples), inspect (.eval or .json), helm, lighteval "
        "(--save-details), or csv (a table: CSV, TSV, Parquet, JSON or JSON Lines).",
        "--from",
        default=...,
    )
    columns: Path | None = option("Log", "With --from csv: file that maps its columns to our fields.", metavar="TOML")
    model: str | None = option("Log", "Name of the model. Default: the name in the log.")
    benchmark: str = option("Questions", "Benchmarks of the responses, comma-separated.", default="", metavar="NAME,…")
    config: RunConfig = settings(("data_dir", "instances", "instances_field_map", "languages"))
    splits: tuple[Split, ...] | None = option("Questions", "Only these splits: bias, control.", metavar="SPLIT,…")

    def _run(self) -> None:
        from mbbq_gen.interchange.importers import open_log
        from mbbq_gen.interchange.importers.base import TOOLS
        from mbbq_gen.interchange.importers.run_writer import import_answers
        from mbbq_gen.runs.resolve import located
        from mbbq_gen.runs.run_folder import RunFolder

        source = open_log(one_of("program", self.tool, TOOLS), self.source, self.columns)
        config = located(self.config.model_copy(update={"benchmark": tuple(words(self.benchmark))}))
        questions = load_questions(config, self.splits or (), self.resources)
        summary = import_answers(
            RunFolder(self.output), source, config.benchmarks, questions, resources=self.resources, model=self.model
        )
        if self.as_json:
            print_json(summary)
            return
        for note in summary.notes:
            say(note)
        echo(f"{summary.imported:,} of {summary.rows:,} answers of {summary.model} imported into {summary.run}")
        print_rows([part.model_dump() for part in summary.coverage])
        for problem, count in {
            "are errors": summary.failed,
            "were shown without labels: a letter alone chooses no option": summary.unlabelled,
            "had another text of the unknown option than the benchmark": summary.reworded,
        }.items():
            if count:
                echo(f"{count:,} {problem}")
        for entry in summary.skipped:
            say(f"skipped: {entry.count:,}: {entry.meaning}: {'; '.join(entry.examples[:3])}")
        say(f"next: mbbq-gen report {summary.run}")


class Export(RunCommand):
    """Writes the samples and scores of a run as tables.

    Each folder holds samples (one row per response, with question, response, extraction and evidence), scores, the
    manifest of the run and a data dictionary; export.json lists schema version, settings and the sha256 of every file.
    """

    help_examples = (
        "  mbbq-gen export my-run --parquet tables\n"
        "  mbbq-gen export my-run --csv sheets --group-by language,category,split\n"
        "  mbbq-gen export my-run --hf-dataset answers"
    )
    parquet: Path | None = option("Files", "Write samples, scores and data dictionary as Parquet.", metavar="DIR")
    csv: Path | None = option("Files", "Write the same as CSV, safe to open in a spreadsheet.", metavar="DIR")
    hf_dataset: Path | None = option("Files", "Write a folder for `datasets.load_dataset`, with card.", metavar="DIR")
    omit_questions: bool = flag("Files", "Leave out the benchmark's texts; ids are kept.")
    group_by: GroupBy = "benchmark,language,split"
    metric: MetricNames = "all"
    statistics: ScoreOptions

    def _run(self) -> None:
        from mbbq_gen.api import Run
        from mbbq_gen.interchange.cards import closed_benchmarks
        from mbbq_gen.interchange.export import ExportSettings, ExportSource, write_bundle

        folders: dict[Kind, Path | None] = {"parquet": self.parquet, "csv": self.csv, "hf-dataset": self.hf_dataset}
        if not any(folders.values()):
            raise UsageError("give at least one of --parquet DIR, --csv DIR or --hf-dataset DIR")
        run, groupings = Run(self.run_path, packs=self.packs), groupings_of(self.group_by)
        if len(run.manifest.config.method) > 1 and "method" not in groupings:
            groupings.append("method")
            say("methods are kept apart: added method to --group-by")
        chosen = ExportSettings(
            **self.statistics.model_dump(),
            by=tuple(groupings),
            metrics=None if self.metric == "all" else tuple(metric.name for metric in metrics_of(self.metric)),
            with_questions=not self.omit_questions,
        )
        with Bar("reading", None, "answers") as bar:
            run.extract(self.statistics.extractor, bar.advance)
        with Bar("writing", None, "items") as bar:
            source = ExportSource(run, chosen, bar.advance)
            progress, closed = source.progress, closed_benchmarks(run.manifest)
            if progress.pending:
                say(f"{run.path}: {progress.pending:,} of {progress.requests:,} requests have no response yet")
            if closed and chosen.with_questions:
                names = ", ".join(closed)
                say(f"the questions of {names} may not be redistributed: before publishing, use --omit-questions")
            written: dict[str, Any] = {}
            for kind, folder in folders.items():
                if folder is not None:
                    record = write_bundle(source, folder, kind)
                    items = sum(file.rows or 0 for file in record.files if file.path.startswith("samples"))
                    say(f"{folder}: {items:,} items, {len(record.files)} files; see {folder / 'data_dictionary.md'}")
                    written[kind.replace("-", "_")] = {"folder": str(folder), **record.model_dump()}
        if self.as_json:
            print_json({"run": str(self.run_path), **written})
