"""Commands `report`, `leaderboard` and `view`, which show results in the terminal, as pages and figures."""

from __future__ import annotations

import shlex
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from mbbq_gen.cli.command import RunCommand, flag, option
from mbbq_gen.cli.options import (
    CorrectWith,
    HtmlPage,
    RunsCommand,
    ScoreOptions,
    check_correction,
    extract_missing,
    varying,
)
from mbbq_gen.cli.output import echo, print_json, result_console, say, show, write_lines
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.files import PackPaths, check_output
from mbbq_gen.core.progress import Bar

if TYPE_CHECKING:
    from mbbq_gen.analysis.correction import AnnotatedFrame
    from mbbq_gen.runs.run_folder import RunFolder
    from mbbq_gen.statistics.estimate import InferenceSettings


class Report(RunsCommand):
    """Shows the results of runs in the terminal or as an HTML page.

    Shows settings, extraction outcomes, accuracy and bias by language. Prints to the terminal unless -o or
    --figures is given; --json prints the scores of all runs. -o writes one page that works offline, with charts and
    samples to filter and read. For all samples of a run: mbbq-gen view RUN.
    """

    help_examples = (
        "  mbbq-gen report my-run\n"
        "  mbbq-gen report my-run -o report.html\n"
        "  mbbq-gen report my-run -o report.html --correct-with annotations\n"
        "  mbbq-gen report run-a run-b -o report.html --figures figures"
    )
    statistics: ScoreOptions
    correct_with: CorrectWith = None
    output: HtmlPage = None
    page_samples: int = option("Files", "Maximum samples in the page, drawn at random.", default=2000, min=0)
    figures: Path | None = option("Files", "Write each chart, and the tables as CSV and LaTeX.", metavar="DIR")

    def _run(self) -> None:
        from mbbq_gen.runs.run_folder import RunFolder

        if self.as_json and (self.output or self.figures):
            raise UsageError("--json: for the scores alone; leave -o and --figures out")
        if self.output is not None:
            check_output(self.output)
        folders = [RunFolder(path).require() for path in dict.fromkeys(self.run_paths)]
        sampling = self.statistics.sampling(self.run_paths)
        check_correction(self.correct_with, sampling)
        if self.output is not None or self.figures is not None:
            self._write(folders, sampling)
        elif self.as_json:
            self._print_scores(folders, sampling)
        else:
            labelled = [self.statistics.labels([run.path], self.resources, self.correct_with) for run in folders]
            for folder, labels in zip(folders, labelled, strict=True):
                typer.echo(report_text(folder, self.resources, labels, self.statistics), nl=False)

    def _print_scores(self, folders: list[RunFolder], sampling: InferenceSettings) -> None:
        """Prints the scores of all runs as JSON."""
        from mbbq_gen.analysis.score_extras import reported
        from mbbq_gen.report.view_model import BY, SCORES

        labels = self.statistics.labels(self.run_paths, self.resources, self.correct_with)
        frame = self.statistics.frame(self.run_paths, self.resources)
        scores = reported(frame, BY, SCORES, sampling, labels, extractor=self.statistics.extractor)
        counts = {run.path.as_posix(): run.manifest().model_dump(include={"control"})["control"] for run in folders}
        control = {path: count for path, count in counts.items() if count}
        print_json(scores.model_dump(mode="json") | ({"control": control} if control else {}))

    def _write(self, folders: list[RunFolder], sampling: InferenceSettings) -> None:
        """Makes the charts and writes the page and the figures."""
        from mbbq_gen.report import charts, page, view_model
        from mbbq_gen.report.charts.vega import require_vl_convert
        from mbbq_gen.runs.observations import follow_up_reports, named_runs

        if self.output is not None:
            page.template_environment()  # raises for missing packages before the work
        if self.figures is not None:
            require_vl_convert()
        paths, resources, extractor = [folder.path for folder in folders], self.resources, self.statistics.extractor
        labelled = self.statistics.labels(paths, resources, self.correct_with)
        frame = self.statistics.frame(paths, resources)
        sources = [view_model.Source(*run, extract_missing(run[0], resources, extractor)) for run in named_runs(paths)]
        with Bar("report", len(charts.CHARTS) + 1 + len(folders), "steps") as bar:

            def tick(_: str) -> None:
                bar.advance()

            drawings = charts.make_charts(frame, sampling, tick=tick)
            if self.output is not None:
                view = view_model.build_report_view(
                    *(sources, frame, drawings),
                    names=page.language_names((code for source in sources for code in source.versions), resources),
                    sampling=sampling,
                    tick=tick,
                    sampled=self.page_samples,
                    labelled=labelled,
                    extractor=extractor,
                    follow_ups=follow_up_reports(paths, resources, sampling),
                )
                write_lines(self.output, [page.report_page(view)])
                say(f"written: {self.output}")
        if self.figures is not None:
            say(f"written: {len(charts.write_figures(drawings, self.figures))} files in {self.figures}")
            for name, reason in drawings.left_out.items():
                say(f"not drawn: {charts.CHARTS[name][1]}: {reason}")


def report_text(
    folder: RunFolder,
    resources: PackPaths,
    labelled: AnnotatedFrame | None = None,
    statistics: ScoreOptions | None = None,
) -> str:
    """The report of a run, styled for stdout; with annotations, also corrected scores."""
    from mbbq_gen.analysis.score_extras import reported
    from mbbq_gen.report.score_tables import BRIEF_METRICS, report_blocks
    from mbbq_gen.report.tables import print_blocks
    from mbbq_gen.runs.observations import LoadOptions, follow_up_reports, load_run_observations

    manifest, statistics = folder.manifest(), statistics or ScoreOptions()
    gold, extractor = statistics.gold, statistics.extractor
    with Bar("reading", None, "answers") as bar:
        reading = LoadOptions(resources, gold, extractor, step=bar.advance, tell=say)
        frame, progress = load_run_observations(folder, manifest, reading)
    by = (["benchmark"] if len(manifest.config.benchmarks) > 1 else []) + varying(frame, "method")
    sampling = statistics.sampling([folder.path])
    scores = reported(frame, [*by, "language", "split"], BRIEF_METRICS, sampling, labelled, extractor=extractor)
    scores = scores.model_copy(update={"follow_ups": follow_up_reports([folder.path], resources, sampling)})
    console = result_console()
    with console.capture() as captured:
        print_blocks(report_blocks(str(folder.path), manifest, progress, scores), console)
    return captured.get()


class Leaderboard(RunsCommand):
    """Ranks models by accuracy and bias.

    For each benchmark and language, with confidence intervals and rank intervals. Models with other prompt variants,
    option orders or questions than the rest are listed, not ranked. There is no overall rank. A bias above 0 is
    stereotypical, below 0 anti-stereotypical; models are ranked by its absolute value.
    """

    help_examples = (
        "  mbbq-gen leaderboard run-a run-b run-c -o board.html\n  mbbq-gen leaderboard run-a run-b --csv board.csv"
    )
    output: HtmlPage = None
    csv: Path | None = option(
        "Files", "Write CSV: one row per score of a model, benchmark and language.", metavar="FILE"
    )
    statistics: ScoreOptions

    def _run(self) -> None:
        from mbbq_gen.report import leaderboard_views as views
        from mbbq_gen.report.leaderboard import build_leaderboard
        from mbbq_gen.runs.observations import named_runs

        if self.output is not None:
            check_output(self.output)
        frame = self.statistics.frame(self.run_paths, self.resources)
        named = {
            (name, choice.name): manifest
            for _, manifest, name in named_runs(self.run_paths)
            for choice in manifest.config.benchmarks
        }
        board = build_leaderboard(frame, named, self.statistics.sampling(self.run_paths))
        if self.output is not None:
            write_lines(self.output, [views.board_page(board, [shlex.quote(str(path)) for path in self.run_paths])])
        if self.csv is not None:
            write_lines(self.csv, views.full_table(board).csv().splitlines())
        for file in filter(None, (self.output, self.csv)):
            say(f"written: {file}")
        if self.as_json:
            print_json(board)
        elif self.output is None and self.csv is None:
            show(views.board_blocks(board))


class View(RunCommand):
    """Opens the samples of a run in the browser (local only).

    Runs until Ctrl-C. Prints the address; --json: as JSON. Listens on the loopback address only; nothing can be
    changed.
    """

    help_examples = "  mbbq-gen view my-run --open"
    port: int = option("", "Port; 0 for any free port.", default=0, min=0, max=65535)
    open_browser: bool = flag("", "Open the page in the browser.", "--open")

    def _run(self) -> None:
        from mbbq_gen.report.viewer import ViewServer

        with ViewServer(self.folder, extract_missing(self.folder, self.resources), self.port) as server:
            print_json({"url": server.url}) if self.as_json else echo(server.url)
            if self.open_browser:
                webbrowser.open(server.url)
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                say("stopped.")
