"""Commands `report`, `leaderboard` and `view`: results in the terminal, as a page, as figures."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mbbq_gen.cli.config_options import expand_options
from mbbq_gen.cli.help import example, option
from mbbq_gen.cli.options import (
    CorrectWith,
    Json,
    Packs,
    PromptEffectsChoice,
    RunPath,
    RunPaths,
    ScoreOptions,
    Verbose,
    check_correction,
    echo,
    print_json,
    print_model,
    read_before_use,
    resources,
    result_console,
    run_frame,
    runs_frame,
    runs_labels,
    say,
    several,
    show,
    write_lines,
)
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.text import one_of
from mbbq_gen.scoring.codes import AVERAGES

if TYPE_CHECKING:
    from mbbq_gen.analysis.correction import AnnotatedFrame
    from mbbq_gen.analysis.score_extras import ScoreReport
    from mbbq_gen.core.files import PackPaths
    from mbbq_gen.report.tables import Block
    from mbbq_gen.runs.run_folder import Manifest, RunFolder
    from mbbq_gen.statistics.estimate import InferenceSettings
    from mbbq_gen.storage.store import Progress


_STEPS_BESIDE_CHARTS = 1
"""Steps of making a page beside its charts and the items of each run: the scores."""


@example(
    "  mbbq-gen report my-run\n"
    "  mbbq-gen report my-run -o report.html --open\n"
    "  mbbq-gen report my-run -o report.html --correct-with annotations\n"
    "  mbbq-gen report my-run -o report.html --prompt-effects random\n"
    "  mbbq-gen report my-run -o report.html --average random-effects\n"
    "  mbbq-gen report my-run -o report.html --paper-figures\n"
    "  mbbq-gen report run-a run-b -o report.html --figures figures\n"
    "  mbbq-gen report run-a run-b --table mbbq-3 --table-format latex"
)
@expand_options
def report(
    run_paths: RunPaths,
    *,
    statistics: ScoreOptions,
    prompt_effects: PromptEffectsChoice = "fixed",
    correct_with: CorrectWith = None,
    paper_figures: Annotated[
        bool, option("Also show", "On the page: the figures and tables of the benchmarks' papers.", "--paper-figures")
    ] = False,
    output: Annotated[
        Path | None, option("Files", "Write an HTML page.", "--output", "-o", metavar="FILE.html")
    ] = None,
    open_browser: Annotated[bool, option("Files", "Open the page of -o in the browser.", "--open")] = False,
    page_samples: Annotated[
        int, option("Files", "Maximum samples in the page; a random subset if there are more.", min=0)
    ] = 2000,
    figures: Annotated[
        Path | None,
        option(
            "Files",
            "Write each chart as SVG, PNG, PDF and Vega-Lite, and the tables as CSV, Markdown and LaTeX.",
            metavar="DIR",
        ),
    ] = None,
    table: Annotated[
        str | None,
        option(
            "Also show",
            "Only a table of the MBBQ paper, models by languages: mbbq-3 (accuracy and bias on templates that a model "
            "can do) or mbbq-5 (accuracy on the control set); * and † are adjusted for the table.",
            metavar="NAME",
        ),
    ] = None,
    table_format: Annotated[str, option("Also show", "Format of --table: text, csv, markdown or latex.")] = "text",
    packs: Packs = None,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Shows the results of runs in the terminal or as an HTML page.

    Shows settings, extraction outcomes, accuracy and bias by language. Prints to the terminal unless -o or
    --figures is given; --json prints the scores of all runs. -o writes one page that works offline, with charts and
    samples to filter and read. For all samples of a run: mbbq-gen view RUN.
    """
    from mbbq_gen.analysis.score_extras import reported
    from mbbq_gen.report.view_model import BY, SCORES
    from mbbq_gen.runs.run_folder import RunFolder

    if output is None:
        _refuse_page_options(open_browser=open_browser, paper_figures=paper_figures)
    if as_json and (output or figures):
        raise UsageError("--json: for the scores alone; leave -o and --figures out")
    if table is not None and (output or figures or correct_with):
        raise UsageError("--table: prints one table; leave -o, --figures and --correct-with out")
    if table is None and table_format != "text":
        raise UsageError("--table-format: give --table mbbq-3 or --table mbbq-5 too")
    folders = [RunFolder(path) for path in dict.fromkeys(run_paths)]
    for folder in folders:
        folder.require()
    extractor, gold = statistics.extractor, statistics.chosen_gold()
    sampling = statistics.sampling([folder.path for folder in folders], prompt_effects)
    check_correction(correct_with, sampling)
    where = resources(packs)
    if table is not None:
        _print_table(table, table_format, folders, where, sampling, as_json=as_json)
        return
    if output is None and figures is None:
        if as_json:
            paths = [folder.path for folder in folders]
            labels = runs_labels(paths, where, correct_with, gold, extractor)
            frame = runs_frame(paths, where, gold, extractor=extractor)
            found = reported(frame, BY, SCORES, sampling, labels, extractor=extractor)
            control = {folder.path.as_posix(): folder.manifest().control for folder in folders}
            made = {
                path: {name: counts.model_dump() for name, counts in one.items()}
                for path, one in control.items()
                if one
            }
            print_json({**found.model_dump(mode="json"), **({"control": made} if made else {})})
            return
        labelled = {folder: runs_labels([folder.path], where, correct_with, gold, extractor) for folder in folders}
        for folder in folders:
            show_report(folder, where, labelled[folder], statistics, verbose=verbose, prompt_effects=prompt_effects)
        return
    if output is not None and output.is_dir():
        raise UsageError(f"-o {output}: is a folder; name a file, such as {output / 'report.html'}")
    if output is not None and not output.absolute().parent.is_dir():
        raise UsageError(f"-o {output}: there is no folder {output.parent}; make it first")
    _write_report(
        folders,
        where,
        output=output,
        figures=figures,
        papers=paper_figures,
        items=page_samples,
        statistics=statistics,
        sampling=sampling,
        correct_with=correct_with,
    )
    if open_browser and output is not None:
        import webbrowser

        webbrowser.open(output.resolve().as_uri())


def _refuse_page_options(*, open_browser: bool, paper_figures: bool) -> None:
    """Raises UsageError for an option that needs a page."""
    if open_browser:
        raise UsageError("--open: give -o FILE.html too")
    if paper_figures:
        raise UsageError("--paper-figures: for the page; give -o FILE.html too. --figures DIR draws them in any case")


TABLES = {"mbbq-3": "mbbq_table_3", "mbbq-5": "mbbq_table_5"}
TABLE_FORMATS = ("text", "csv", "markdown", "latex")


def _print_table(
    name: str, kind: str, folders: list[RunFolder], where: PackPaths, sampling: InferenceSettings, *, as_json: bool
) -> None:
    """A table of a paper on stdout; its caption stands beside it in all formats but CSV."""
    from mbbq_gen.report.charts import make_charts
    from mbbq_gen.report.tables import markdown_escaped

    chosen, kind = TABLES[one_of("table", name, list(TABLES))], one_of("table format", kind, TABLE_FORMATS)
    found = make_charts(runs_frame([folder.path for folder in folders], where), sampling, [chosen])
    if found.left_out:
        raise UsageError(f"--table {name}: {found.left_out[0].reason}")
    (chart,) = found.charts
    caption = chart.caption
    if sampling.average != "questions":
        caption += f" Scores: {AVERAGES[sampling.average]}."
    if as_json:
        names = [column.name for column in chart.table.columns]
        rows = [
            {key: cell._asdict() if isinstance(cell, tuple) else cell for key, cell in zip(names, row, strict=True)}
            for row in chart.table.rows
        ]
        settings = {"average": sampling.average, "confidence_level": sampling.confidence}
        print_json({"table": name, "title": chart.title, "caption": caption, **settings, "rows": rows})
    elif kind == "text":
        show([chart.table, f"\n{caption}"])
    elif kind == "latex":
        echo(chart.table.latex(caption, chosen))
    else:
        echo(chart.table.csv() if kind == "csv" else f"{chart.table.markdown()}\n{markdown_escaped(caption)}")


# --- a page and figures ----------------------------------------------------------------------------------------------


def _write_report(
    folders: list[RunFolder],
    where: PackPaths,
    *,
    output: Path | None,
    figures: Path | None,
    papers: bool,
    items: int,
    statistics: ScoreOptions,
    sampling: InferenceSettings,
    correct_with: str | None,
) -> None:
    """Makes the charts, once, and what is wanted of them."""
    from mbbq_gen.core.progress import Bar
    from mbbq_gen.report.charts import CHARTS, PAPERS, make_charts, write_figures
    from mbbq_gen.report.charts.vega import require_vl_convert
    from mbbq_gen.report.page import language_names, report_page, template_environment
    from mbbq_gen.report.view_model import Source, build_report_view
    from mbbq_gen.runs.observations import follow_up_reports, model_names

    if output is not None:
        template_environment()  # what is missing is said before the work is done
    if figures is not None:
        require_vl_convert()
    paths, gold, extractor = [folder.path for folder in folders], statistics.chosen_gold(), statistics.extractor
    labelled = runs_labels(paths, where, correct_with, gold, extractor)
    frame = runs_frame(paths, where, gold, extractor=extractor)
    manifests = [folder.manifest() for folder in folders]
    sources = [
        Source(folder, manifest, name, read_before_use(folder, where, extractor))
        for folder, manifest, name in zip(folders, manifests, model_names(folders, manifests), strict=True)
    ]
    drawn = [name for name in CHARTS if papers or figures is not None or name not in PAPERS]
    with Bar("report", len(drawn) + _STEPS_BESIDE_CHARTS + len(folders), "steps", delay=1.0) as bar:

        def tick(_: str) -> None:
            bar.advance()

        charts = make_charts(frame, sampling, drawn, tick=tick)
        if output is not None:
            names = language_names((language for source in sources for language in source.versions), where)
            view = build_report_view(
                *(sources, frame, charts),
                names=names,
                sampling=sampling,
                tick=tick,
                sampled=items,
                labelled=labelled,
                extractor=extractor,
                follow_ups=follow_up_reports([folder.path for folder in folders], where, sampling),
            )
            write_lines(output, [report_page(view)])
    if output is not None:
        say(f"written: {output}")
    if figures is not None:
        written = write_figures(charts, figures)
        say(f"written: {len(written)} files in {figures}")


# --- the terminal ----------------------------------------------------------------------------------------------------


def show_report(
    folder: RunFolder,
    where: PackPaths,
    labelled: AnnotatedFrame | None = None,
    statistics: ScoreOptions | None = None,
    *,
    verbose: bool = False,
    prompt_effects: str = "fixed",
) -> None:
    """Prints the report of a run on stdout; with annotated responses, corrected by them too."""
    typer.echo(report_text(folder, where, verbose, labelled, statistics, prompt_effects), nl=False)


def report_text(
    folder: RunFolder,
    where: PackPaths,
    verbose: bool,
    labelled: AnnotatedFrame | None = None,
    statistics: ScoreOptions | None = None,
    prompt_effects: str = "fixed",
) -> str:
    """The report of a run as `show_report` prints it, with the styles of the terminal that stdout is."""
    from mbbq_gen.analysis.score_extras import reported
    from mbbq_gen.report.score_tables import BRIEF_METRICS, SUMMARY_METRICS
    from mbbq_gen.report.tables import print_blocks
    from mbbq_gen.runs.observations import follow_up_reports

    manifest, statistics = folder.manifest(), statistics or ScoreOptions()
    frame, progress = run_frame(folder, manifest, where, statistics.chosen_gold(), extractor=statistics.extractor)
    by = (["benchmark"] if len(manifest.config.benchmarks) > 1 else []) + several(frame, "method")
    by += ["language", "split"]
    metrics = tuple(dict.fromkeys((*SUMMARY_METRICS, *BRIEF_METRICS)))
    sampling = statistics.sampling([folder.path], prompt_effects)
    scores = reported(frame, by, metrics, sampling, labelled, extractor=statistics.extractor)
    scores = scores.model_copy(update={"follow_ups": follow_up_reports([folder.path], where, sampling)})
    console = result_console()
    with console.capture() as captured:
        print_blocks(_report_blocks(folder, manifest, progress, scores, console.width, verbose=verbose), console)
    return captured.get()


def _report_blocks(
    folder: RunFolder, manifest: Manifest, progress: Progress, scores: ScoreReport, width: int, *, verbose: bool
) -> Iterator[Block]:
    """Settings, conclusions, scores; with `verbose` both splits with all footnotes, outcomes and confidence."""
    from mbbq_gen.report.analysis_tables import correction_blocks, flag_sentences
    from mbbq_gen.report.annotation_tables import follow_up_blocks
    from mbbq_gen.report.run_tables import cost_line
    from mbbq_gen.report.score_tables import Notes, brief_blocks, confidence_table, outcome_table, summary_table

    yield from _heading(manifest)
    if progress.pending:
        yield f"{progress.pending:,} of {progress.requests:,} requests have no response yet: this is a part"
    yield ""
    yield from brief_blocks(scores, width)
    if verbose:
        notes = Notes(scores)
        yield summary_table(scores, notes, width)
        yield outcome_table(scores)
        yield confidence_table(scores.confidences)
        yield (
            "\nitems: prompts. read: parsed responses. bias: above 0 stereotypical, below 0 anti-stereotypical, "
            f"with a {100 * (scores.confidence_level or 0):.3g}% bootstrap interval over templates. control: the same "
            "questions with first names."
        )
        yield from notes.lines()
    if scores.correction is not None:
        yield from correction_blocks(scores.correction)
    for follow_ups in scores.follow_ups:
        yield from follow_up_blocks(follow_ups)
    yield from (*flag_sentences(scores.extraction_flags), *manifest.notices)
    yield from (f"control questions of {name}: {counts.sentence}" for name, counts in manifest.control.items())
    if manifest.cost_report is not None:
        yield cost_line(manifest.cost_report)
    more = f"mbbq-gen report {folder.path} " + ("-o report.html" if verbose else "--verbose, or -o report.html")
    yield f"\nrun folder: {folder.path}    more: {more}"


def _heading(manifest: Manifest) -> list[str]:
    """Model, benchmarks and settings."""
    settings, total = manifest.config, sum(manifest.available.values())
    part = "all" if manifest.counts.instances == total else f"{manifest.counts.instances:,} of"
    names = ", ".join(choice.name for choice in settings.benchmarks)
    facts = [
        f"prompt variants: {', '.join(dict.fromkeys((*settings.variants, *settings.scored_variants)))}",
        f"option order: {settings.option_order}",
        f"labels: {', '.join(settings.label_style)}",
        f"seed: {settings.seed}",
    ]
    if settings.reasoning_effort:
        facts.append(f"reasoning effort: {', '.join(settings.reasoning_effort)}")
    if settings.method != ("generate",):
        facts.append(f"methods: {', '.join(settings.method)}")
    if settings.is_scored:
        facts.append(f"normalization: {settings.normalization}")
    if settings.num_fewshot:
        facts.append(f"{settings.num_fewshot} few-shot examples")
    if settings.instruction_language:
        facts.append(f"instructions in {settings.instruction_language}")
    if settings.no_context:
        facts.append("questions without their contexts")
    return [
        f"{settings.model} on {names}: {part} {total:,} questions, {manifest.counts.prompts:,} prompts",
        "; ".join(facts),
    ]


@example(
    "  mbbq-gen leaderboard run-a run-b\n"
    "  mbbq-gen leaderboard run-a run-b run-c -o board.html\n"
    "  mbbq-gen leaderboard run-a run-b --csv board.csv"
)
@expand_options
def leaderboard(
    run_paths: RunPaths,
    output: Annotated[
        Path | None, option("Files", "Write an HTML page.", "--output", "-o", metavar="FILE.html")
    ] = None,
    csv: Annotated[
        Path | None, option("Files", "Write CSV: one row per model, benchmark and language.", metavar="FILE")
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
    *,
    statistics: ScoreOptions,
    prompt_effects: PromptEffectsChoice = "fixed",
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Ranks models by accuracy and bias.

    For each benchmark and language, with confidence intervals and rank intervals. Models with other prompt variants,
    option orders or questions than the rest are ranked separately. There is no overall rank. A bias above 0 is
    stereotypical, below 0 anti-stereotypical; models are ranked by its absolute value.
    """
    from mbbq_gen.report.leaderboard import build_leaderboard
    from mbbq_gen.report.leaderboard_views import board_blocks, board_notes, board_page, board_table, full_table
    from mbbq_gen.report.page import language_names
    from mbbq_gen.report.tables import markdown_escaped
    from mbbq_gen.runs.observations import model_names
    from mbbq_gen.runs.run_folder import RunFolder

    if markdown and as_json:
        raise UsageError("--markdown and --json: choose one of the two")
    if output is not None and output.is_dir():
        raise UsageError(f"-o {output}: is a folder; name a file, such as {output / 'board.html'}")

    frame = runs_frame(run_paths, resources(packs), statistics.chosen_gold(), extractor=statistics.extractor)
    folders = [RunFolder(path) for path in dict.fromkeys(run_paths)]
    manifests = [folder.manifest() for folder in folders]
    named = {
        (name, choice.name): manifest
        for name, manifest in zip(model_names(folders, manifests), manifests, strict=True)
        for choice in manifest.config.benchmarks
    }
    board = build_leaderboard(frame, named, statistics.sampling(run_paths, prompt_effects))
    if output is not None:
        names = language_names((row.language for row in board.rows), resources(packs))
        write_lines(output, [board_page(board, [shlex.quote(str(path)) for path in run_paths], names)])
        say(f"written: {output}")
    if csv is not None:
        write_lines(csv, full_table(board).csv().splitlines())
        say(f"written: {csv}")
    if as_json:
        print_model(board)
    elif markdown:
        echo(board_table(board).markdown())
        echo("\n".join(f"- {markdown_escaped(note)}" for note in board_notes(board)))
    elif output is None and csv is None:
        show(board_blocks(board))


@example("  mbbq-gen view my-run --open")
def view(
    run_path: RunPath,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for any free port.")] = 0,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    packs: Packs = None,
) -> None:
    """Opens the samples of a run in the browser (local only).

    Runs until Ctrl-C. Prints the address. Listens on the loopback address only; nothing can be changed.
    """
    from mbbq_gen.core.progress import Bar
    from mbbq_gen.report.viewer import ViewServer, open_viewer
    from mbbq_gen.runs.run_folder import RunFolder

    folder = RunFolder(run_path)
    folder.require()
    where = resources(packs)
    versions = read_before_use(folder, where)
    with Bar("items", None, "items", delay=1.0) as bar:
        viewer = open_viewer(folder, versions, where, bar.advance)
    with ViewServer(viewer, port) as server:
        echo(server.url)
        if open_browser:
            import webbrowser

            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say("stopped.")
