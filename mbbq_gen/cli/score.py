"""`mbbq-gen score`: every metric, by any grouping, with counts and intervals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mbbq_gen.cli.option_groups import expand_options
from mbbq_gen.cli.options import Json, Packs, example, open_lines, resources, result_console, say
from mbbq_gen.cli.spread_options import HelperOptions
from mbbq_gen.cli.statistics_options import (
    CorrectedBy,
    ReaderChoice,
    SmallerThan,
    StatisticsOptions,
    WordingsChoice,
    studied,
)
from mbbq_gen.errors import DataError, UsageError
from mbbq_gen.runs.names import all_of, one_of, words

if TYPE_CHECKING:
    import polars

    from mbbq_gen.resources import Resources
    from mbbq_gen.scoring import Labels, Metric
    from mbbq_gen.statistics.ability import AdjustedScore
    from mbbq_gen.statistics.panel import Sampling
    from mbbq_gen.statistics.score_report import ScoreReport


@example(
    "  mbbq-gen score my-run --by language,category --json\n"
    "  mbbq-gen score run-a run-b --by model,language,split --macro category\n"
    "  mbbq-gen score my-run --smaller-than 0.03          (is no lean larger than 0.03?)\n"
    "  mbbq-gen score my-run --tests --wordings random    (over wordings like those asked)\n"
    "  mbbq-gen score my-run --on ray --workers 8            (millions of answers)\n"
    "  mbbq-gen score --jsonl answers.jsonl > scores.json"
)
@expand_options
def score(
    run_paths: Annotated[
        list[Path] | None, typer.Argument(metavar="[RUN]...", callback=studied, help="The runs' folders, or a study's.")
    ] = None,
    jsonl: Annotated[
        Path | None,
        typer.Option(help="Instead of runs: instance records with `option`, `outcome` or `response`.", metavar="FILE"),
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="Group by these, comma-separated; default: language,split.", metavar="NAME,…")
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(help="Only these metrics, comma-separated; default: all.", metavar="NAME,…")
    ] = None,
    *,
    statistics: StatisticsOptions,
    subset: Annotated[
        str, typer.Option(help="Answers that count: all, or bharat_pairs (BharatBBQ's pair-filtered subset).")
    ] = "all",
    extractor: ReaderChoice = "engine",
    normalise: Annotated[
        str | None,
        typer.Option(
            help="How likelihoods are made comparable: sum, mean, per_char, per_byte or pmi; none: as the run says."
        ),
    ] = None,
    macro: Annotated[
        str | None,
        typer.Option(help="Also average over a grouping, each value alike: category or variant.", metavar="NAME"),
    ] = None,
    adjusted: Annotated[
        bool, typer.Option("--adjusted", help="Also show each bias minus the same score on the control questions.")
    ] = False,
    tests: Annotated[bool, typer.Option("--tests", help="Also test every score against 0.")] = False,
    smaller_than: SmallerThan = None,
    baselines: Annotated[
        bool, typer.Option("--baselines", help="Also show what trivial models would score on the same questions.")
    ] = False,
    wordings: WordingsChoice = "fixed",
    corrected_by: CorrectedBy = None,
    csv: Annotated[
        Path | None, typer.Option(help="Also write one row a group and metric as CSV.", metavar="FILE")
    ] = None,
    parquet: Annotated[Path | None, typer.Option(help="The same as Parquet.", metavar="FILE")] = None,
    helping: HelperOptions,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Scores runs, or answers from anywhere: all metrics with their counts and intervals clustered by template.

    The scores of a single run are also written to RUN/scores.json (RUN/scores-NAME.json with --extractor NAME or
    --normalise NAME). With --jsonl, JSON is always printed. With --on, answers are counted part after part by workers,
    and the numbers are the same.
    """
    from mbbq_gen.cli.loading import run_sums, runs_frame, runs_labels, tell_failures
    from mbbq_gen.extraction.likelihood import NORMALISATIONS
    from mbbq_gen.scoring import GROUPINGS, METRICS
    from mbbq_gen.scoring.subsets import SUBSETS
    from mbbq_gen.scoring.subsets import subset as part_of
    from mbbq_gen.statistics.corrected_scores import confidence_shares, correction

    where, paths, helpers = resources(packs), list(run_paths or []), helping.helpers()
    chosen, sampling = statistics.chosen_labels(), statistics.sampling(paths, wordings)
    part = one_of("subset", subset, SUBSETS)
    names = all_of("metric", metrics, list(METRICS)) if metrics else list(METRICS)
    averaged = one_of("grouping", macro, GROUPINGS) if macro else None
    wanted = (
        all_of("grouping", by, list(GROUPINGS)) if by and words(by) else ["language", "split"] if by is None else []
    )
    how = one_of("normalisation", normalise, NORMALISATIONS) if normalise else None
    if bool(paths) == (jsonl is not None):
        raise UsageError("give a run folder or --jsonl FILE, one of them")
    if jsonl is not None and extractor != "engine":
        raise UsageError(f"read the lines first: mbbq-gen extract --jsonl {jsonl} --extractor {extractor} -o FILE")
    if corrected_by is not None and (jsonl is not None or part != "all"):
        raise UsageError(f"--corrected-by {corrected_by}: labels belong to a whole run; leave --jsonl and --subset out")
    if corrected_by is not None and sampling.wordings == "random":
        raise UsageError(f"--corrected-by {corrected_by}: corrected scores hold wordings fixed; leave --wordings out")
    if helpers is not None:
        _check_addable(paths, jsonl, part, adjusted=adjusted, corrected_by=corrected_by)
    labelled = runs_labels(paths, where, corrected_by, chosen, extractor)
    if jsonl is not None:
        frame = _jsonl_frame(jsonl, where, chosen)
        tell_failures(frame)
    elif helpers is not None:
        frame = run_sums(
            *(paths[0], where, chosen),
            by=wanted,
            beside=["variant", *([averaged] if averaged else [])],
            extractor=extractor,
            normalise=how,
            helpers=helpers,
        )
    else:
        frame = runs_frame(paths, where, chosen, extractor=extractor, normalise=how)
    frame = part_of(frame, part)
    if how is not None and (frame["method"] == "generate").all():
        raise UsageError(f"--normalise {how}: nothing here was asked for likelihoods; leave it out")
    for grouping, why in kept_apart(frame, wanted, with_models=by is None):
        say(f"{why} are kept apart: added {grouping} to --by")
        wanted.append(grouping)
    report = _report(
        frame,
        wanted,
        names,
        sampling,
        chosen,
        averaged=averaged,
        adjusted=adjusted,
        tests=tests,
        baselines=baselines,
        margin=smaller_than,
    )
    beside = {
        "confidences": () if jsonl else tuple(confidence_shares(frame, wanted)),
        "correction": labelled and correction(frame, labelled, wanted, [METRICS[name] for name in names], sampling),
    }
    report = report.model_copy(update={"subset": part, "extractor": extractor, "normalise": how, **beside})
    _write_files(report, paths, csv=csv, parquet=parquet)
    if as_json or jsonl:
        typer.echo(report.model_dump_json(indent=2))
    else:
        _show(report, names)


def kept_apart(frame: polars.DataFrame, by: list[str], *, with_models: bool) -> Iterator[tuple[str, str]]:
    """The groupings that have to be added so that nothing is pooled unasked, and what is kept apart so."""
    if "method" not in by and frame["method"].n_unique() > 1:
        yield "method", "ways of asking"
    models = [part["model"].n_unique() for part in frame.partition_by("method")]
    if with_models and "model" not in by and max(models, default=0) > 1:
        yield "model", "models"
    if "split" not in by and frame["split"].n_unique() > 1:
        yield "split", "bias and control questions"


def _report(
    frame: polars.DataFrame,
    by: list[str],
    names: list[str],
    sampling: Sampling,
    labels: Labels,
    *,
    averaged: str | None,
    adjusted: bool,
    tests: bool,
    baselines: bool,
    margin: float | None,
) -> ScoreReport:
    """The scores, and beside them what was asked for."""
    from mbbq_gen.scoring import METRICS
    from mbbq_gen.scoring import score as compute
    from mbbq_gen.statistics.score_report import ScoreReport, baseline_scores, group_tests, macro_averages

    metrics = [METRICS[name] for name in names]
    table = compute(
        frame,
        by,
        names,
        interval=sampling.confidence,
        resamples=sampling.resamples,
        seed=sampling.seed,
        undetected=sampling.undetected,
        labels=labels,
        wordings=sampling.wordings,
    )
    return ScoreReport(
        **dict(table),
        macro_averages=tuple(macro_averages(frame, by, averaged, metrics, sampling)) if averaged else (),
        adjusted=tuple(_adjusted(frame, by, metrics, sampling)) if adjusted else (),
        tests=tuple(group_tests(frame, by, metrics, sampling, against_zero=tests, margin=margin))
        if tests or margin is not None
        else (),
        baselines=tuple(baseline_scores(frame, by, metrics, sampling)) if baselines else (),
    )


def _adjusted(frame: polars.DataFrame, by: list[str], metrics: list[Metric], sampling: Sampling) -> list[AdjustedScore]:
    """Bias minus control, of the metrics that tell a bias; the two splits are compared, so they are no grouping."""
    from mbbq_gen.statistics.ability import adjusted_scores

    biases = [metric for metric in metrics if metric.low < 0]
    return adjusted_scores(frame, [name for name in by if name != "split"], biases, sampling)


def _check_addable(
    paths: list[Path], jsonl: Path | None, part: str, *, adjusted: bool, corrected_by: str | None
) -> None:
    """Makes sure that what is wanted can be had from sums, without single answers."""
    single = {
        "--jsonl": jsonl is not None,
        "--subset": part != "all",
        "--adjusted": adjusted,
        "--corrected-by": corrected_by is not None,
    }
    for name, is_wanted in single.items():
        if is_wanted:
            raise UsageError(f"--on: {name} looks at single answers, in this process; leave one of the two out")
    if len(paths) > 1:
        raise UsageError("--on: one run at a time; score them one by one")


def _jsonl_frame(path: Path, where: Resources, labels: Labels) -> polars.DataFrame:
    from mbbq_gen.scoring import observations_frame
    from mbbq_gen.scoring.lines import observe_lines

    with open_lines(path) as lines:
        frame = observations_frame(observe_lines(lines, str(path), labels=labels, resources=where))
    if not frame.height:
        raise DataError(f"{path}: no line with an answer in it: there is nothing to score")
    _tell_repeats(frame, path)
    return frame


_ASKED_ALIKE = (
    "model", "method", "benchmark", "split", "language", "category", "template_id", "instance_id", "variant",
    "label_style", "order",
)  # fmt: skip


def _tell_repeats(frame: polars.DataFrame, path: Path) -> None:
    """One line where several lines answer one question, asked alike: repeats, or copies."""
    repeats = frame.height - frame.select(_ASKED_ALIKE).n_unique()
    if repeats:
        say(
            f"{path}: {repeats:,} lines answer a question that another line answers, asked alike: all count, copies too"
        )


def _write_files(report: ScoreReport, paths: list[Path], *, csv: Path | None, parquet: Path | None) -> None:
    from mbbq_gen.report.score_files import write_scores

    if len(paths) == 1:
        reader = "" if report.extractor == "engine" else f"-{report.extractor.replace(':', '-')}"
        reader += f"-{report.normalise}" if report.normalise else ""
        _write(paths[0] / f"scores{reader}.json", report)
    if csv is not None:
        write_scores(report, csv, "csv")
    if parquet is not None:
        write_scores(report, parquet, "parquet")


def _write(path: Path, report: ScoreReport) -> None:
    try:
        path.write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        say(f"{path}: not written: {error.strerror or error}")


def _show(report: ScoreReport, names: list[str]) -> None:
    from mbbq_gen.report.brief import sentences
    from mbbq_gen.report.correction_tables import confidence_table, print_correction
    from mbbq_gen.report.statistics_tables import print_beside
    from mbbq_gen.report.tables import Notes, metric_table
    from mbbq_gen.report.verdicts import NEEDED, verdicts

    console = result_console()
    if {"language", "split"} <= set(report.by) and set(NEEDED) <= set(names):
        for line in sentences(verdicts(report), [name for name in report.by if name not in {"language", "split"}]):
            console.print(line)
        console.print()
    notes = Notes(report)
    console.print(metric_table(report, names, notes))
    if report.correction is not None:
        print_correction(report.correction, console)
    if report.confidences:
        console.print("\nHow sure the reader was\n")
        console.print(confidence_table(report.confidences))
    print_beside(report, console)
    for line in notes.lines():
        console.print(line)
