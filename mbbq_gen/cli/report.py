"""`mbbq-gen report`: the result of runs, for a person: in the terminal, as a page, as figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mbbq_gen.cli.options import Json, Packs, Verbose, example, print_json, resources, result_console, say, write_lines
from mbbq_gen.cli.statistics_options import CorrectedBy, RunPaths, WordingsChoice, several, usual_sampling
from mbbq_gen.errors import UsageError

if TYPE_CHECKING:
    import polars
    from rich.console import Console

    from mbbq_gen.report.html.contents import Source
    from mbbq_gen.resources import Resources
    from mbbq_gen.runs.folder import Manifest, RunFolder
    from mbbq_gen.statistics.labelled import LabelledFrame
    from mbbq_gen.statistics.panel import Sampling
    from mbbq_gen.statistics.score_report import ScoreReport

_STEPS_BESIDE_CHARTS = 1
"""Steps of making a page beside its charts and the items of each run: the scores."""


@example(
    "  mbbq-gen report my-run\n"
    "  mbbq-gen report my-run -o report.html --open\n"
    "  mbbq-gen report my-run -o report.html --corrected-by audit\n"
    "  mbbq-gen report my-run -o report.html --wordings random\n"
    "  mbbq-gen report my-run -o report.html --papers\n"
    "  mbbq-gen report run-a run-b -o report.html --figures figures"
)
def report(
    run_paths: RunPaths,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write a page for a browser.", metavar="FILE.html")
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page that -o writes.")] = False,
    figures: Annotated[
        Path | None, typer.Option(help="Write each chart as SVG, PNG and PDF, and the tables.", metavar="DIR")
    ] = None,
    papers: Annotated[
        bool, typer.Option("--papers", help="On the page, also the figures and tables in the papers' shapes.")
    ] = False,
    items: Annotated[int, typer.Option(min=0, help="Items in the page; of more, a sample is drawn.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sample of items and of the intervals.")] = 0,
    corrected_by: CorrectedBy = None,
    wordings: WordingsChoice = "fixed",
    verbose: Verbose = False,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Shows the result of runs: who was asked what, how the answers were read, accuracy and bias by language.

    Without -o and --figures, in the terminal, or with --json as the scores of all runs. With -o, as one page that works
    offline, with charts and the items to filter and read. All items of a run, however many: mbbq-gen view RUN.
    """
    from mbbq_gen.cli.loading import runs_labels
    from mbbq_gen.runs.folder import RunFolder

    if open_browser and output is None:
        raise UsageError("--open: give -o FILE.html too, the page that is to be opened")
    if corrected_by is not None and wordings != "fixed":
        raise UsageError(f"--corrected-by {corrected_by}: corrected scores hold wordings fixed; leave --wordings out")
    folders = [RunFolder(path) for path in dict.fromkeys(run_paths)]
    for folder in folders:
        folder.require()
    sampling = usual_sampling([folder.path for folder in folders], wordings, seed=seed)
    if papers and output is None:
        raise UsageError("--papers: for the page; give -o FILE.html too. --figures DIR draws them in any case")
    if as_json and (output or figures):
        raise UsageError("--json: for the scores alone; leave -o and --figures out")
    where = resources(packs)
    if output is None and figures is None:
        if as_json:
            _print_scores(folders, where, corrected_by, sampling)
            return
        labelled = {folder: runs_labels([folder.path], where, corrected_by) for folder in folders}
        for folder in folders:
            show_report(folder, where, labelled[folder], verbose=verbose, wordings=wordings)
        return
    _check_output(output)
    _write_report(
        folders,
        where,
        output=output,
        figures=figures,
        papers=papers,
        items=items,
        sampling=sampling,
        corrected_by=corrected_by,
    )
    if open_browser and output is not None:
        import webbrowser

        webbrowser.open(output.resolve().as_uri())


def _print_scores(folders: list[RunFolder], where: Resources, corrected_by: str | None, sampling: Sampling) -> None:
    """The scores of the report as JSON."""
    from mbbq_gen.cli.loading import runs_frame, runs_labels
    from mbbq_gen.report.html.contents import BY, SCORES
    from mbbq_gen.statistics.score_report import reported

    paths = [folder.path for folder in folders]
    labelled = runs_labels(paths, where, corrected_by)
    found = reported(runs_frame(paths, where), BY, SCORES, sampling, labelled)
    control = {folder.path.as_posix(): folder.manifest().control for folder in folders}
    made = {
        path: {name: counts.model_dump() for name, counts in found.items()} for path, found in control.items() if found
    }
    print_json({**found.model_dump(mode="json"), **({"control": made} if made else {})})


def _check_output(output: Path | None) -> None:
    """Refuses a place that can't be written to before the work is done."""
    if output is not None and output.is_dir():
        raise UsageError(f"-o {output}: is a folder; name a file, such as {output / 'report.html'}")
    if output is not None and not output.absolute().parent.is_dir():
        raise UsageError(f"-o {output}: there is no folder {output.parent}; make it first")


# --- a page and figures ----------------------------------------------------------------------------------------------


def _write_report(
    folders: list[RunFolder],
    where: Resources,
    *,
    output: Path | None,
    figures: Path | None,
    papers: bool,
    items: int,
    sampling: Sampling,
    corrected_by: str | None,
) -> None:
    """Makes the charts, once, and what is wanted of them."""
    from mbbq_gen.cli.loading import runs_labels
    from mbbq_gen.report.figures import CHARTS, PAPERS, make_charts, write_figures
    from mbbq_gen.report.figures.files import require_matplotlib
    from mbbq_gen.report.html.contents import contents, language_names
    from mbbq_gen.report.html.page import report_page, template_environment
    from mbbq_gen.runs.bars import Bar

    if output is not None:
        template_environment()  # what is missing is said before the work is done
    if figures is not None:
        require_matplotlib()
    labelled = runs_labels([folder.path for folder in folders], where, corrected_by)
    sources, frame = _load(folders, where)
    drawn = [name for name in CHARTS if papers or figures is not None or name not in PAPERS]
    with Bar("report", len(drawn) + _STEPS_BESIDE_CHARTS + len(folders), "steps", delay=1.0) as bar:

        def tick(_: str) -> None:
            bar.advance()

        charts = make_charts(frame, sampling, drawn, tick=tick)
        if output is not None:
            names = language_names((language for source in sources for language in source.versions), where)
            found = contents(
                sources, frame, charts, names=names, sampling=sampling, tick=tick, sampled=items, labelled=labelled
            )
            write_lines(output, [report_page(found)])
    if output is not None:
        say(f"written: {output}")
    if figures is not None:
        written = write_figures(charts, figures)
        say(f"written: {len(written)} files in {figures}")


def _load(folders: list[RunFolder], where: Resources) -> tuple[list[Source], polars.DataFrame]:
    """The runs with whose readings count, and all their observations."""
    from mbbq_gen.cli.loading import read_before_use, runs_frame
    from mbbq_gen.report.html.contents import Source
    from mbbq_gen.runs.frames import model_names

    frame = runs_frame([folder.path for folder in folders], where)
    manifests = [folder.manifest() for folder in folders]
    names = model_names(folders, manifests)
    sources = [
        Source(folder, manifest, name, read_before_use(folder, where))
        for folder, manifest, name in zip(folders, manifests, names, strict=True)
    ]
    return sources, frame


# --- the terminal ----------------------------------------------------------------------------------------------------


def show_report(
    folder: RunFolder,
    where: Resources,
    labelled: LabelledFrame | None = None,
    *,
    verbose: bool = False,
    wordings: str = "fixed",
) -> None:
    """Prints the report of a run on stdout; with labelled answers, corrected by them too."""
    from mbbq_gen.cli.loading import run_frame
    from mbbq_gen.report.brief import BRIEF_METRICS, print_brief
    from mbbq_gen.report.correction_tables import flag_sentences, print_correction
    from mbbq_gen.report.money_tables import cost_line
    from mbbq_gen.report.tables import SUMMARY_METRICS
    from mbbq_gen.statistics.score_report import reported

    manifest = folder.manifest()
    frame, progress = run_frame(folder, manifest, where)
    by = (["benchmark"] if len(manifest.settings.benchmarks) > 1 else []) + several(frame, "method")
    by += ["language", "split"]
    metrics = tuple(dict.fromkeys((*SUMMARY_METRICS, *BRIEF_METRICS)))
    sampling = usual_sampling([folder.path], wordings)
    scores = reported(frame, by, metrics, sampling, labelled)
    console = result_console()
    for line in _heading(manifest):
        console.print(line)
    if progress.pending:
        console.print(f"{progress.pending:,} of {progress.requests:,} requests have no answer yet: this is a part")
    console.print()
    print_brief(scores, console)
    if verbose:
        _print_everything(scores, console, sampling.confidence)
    if scores.correction is not None:
        print_correction(scores.correction, console)
    for line in [*flag_sentences(scores.reading_flags), *manifest.notices]:
        console.print(line)
    for name, counts in manifest.control.items():
        console.print(f"control questions of {name}: {counts.sentence}")
    if manifest.bill is not None:
        console.print(cost_line(manifest.bill))
    more = f"mbbq-gen report {folder.path} " + ("-o report.html" if verbose else "--verbose, or -o report.html")
    console.print(f"\nrun folder: {folder.path}    more: {more}")


def _print_everything(scores: ScoreReport, console: Console, confidence: float) -> None:
    """Both splits with every footnote, how the answers were read, and how sure the reader was."""
    from mbbq_gen.report.correction_tables import confidence_table
    from mbbq_gen.report.tables import Notes, outcome_table, summary_table

    notes = Notes(scores)
    console.print("\nThe bias questions and the control questions\n")
    console.print(summary_table(scores, notes, console.width))
    console.print("\nHow the answers were read\n")
    console.print(outcome_table(scores))
    console.print("\nHow sure the reader was\n")
    console.print(confidence_table(scores.confidences))
    console.print(
        "\nitems: presentations asked. read: an answer could be read. bias: above 0 leans to the stereotype, below 0 "
        f"against it, with a {100 * confidence:.3g}% bootstrap interval over templates. control: the same "
        "questions with first names."
    )
    for line in notes.lines():
        console.print(line)


def _heading(manifest: Manifest) -> list[str]:
    """Who was asked what, with which settings."""
    settings, total = manifest.settings, sum(manifest.available.values())
    part = "all" if manifest.counts.instances == total else f"{manifest.counts.instances:,} of"
    names = ", ".join(choice.name for choice in settings.benchmarks)
    facts = [
        f"wordings: {', '.join(dict.fromkeys((*settings.variants, *settings.scored_variants)))}",
        f"option order: {settings.order}",
        f"labels: {', '.join(settings.label_styles)}",
        f"seed: {settings.seed}",
    ]
    if settings.reasoning:
        facts.append(f"thinking: {', '.join(settings.reasoning)}")
    if settings.methods != ("generate",):
        facts.append(f"asked by: {', '.join(settings.methods)}")
    if settings.is_scored:
        facts.append(f"likelihoods: {settings.normalise}")
    if settings.shots:
        facts.append(f"{settings.shots} solved examples")
    if settings.instruction_language:
        facts.append(f"instructions in {settings.instruction_language}")
    if settings.question_only:
        facts.append("questions without their contexts")
    return [
        f"{settings.model} on {names}: {part} {total:,} questions, {manifest.counts.presentations:,} presentations",
        "; ".join(facts),
    ]
