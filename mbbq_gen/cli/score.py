"""`mbbq-gen score`: every metric, by any grouping, with counts and intervals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mbbq_gen.cli.config_options import WorkerOptions, expand_options
from mbbq_gen.cli.help import example
from mbbq_gen.cli.options import (
    CorrectWith,
    EquivalenceMargin,
    GroupBy,
    Json,
    NormalizationChoice,
    Packs,
    PromptEffectsChoice,
    ReaderChoice,
    ScoreOptions,
    open_lines,
    resources,
    say,
    show_result,
    studied,
)
from mbbq_gen.core.errors import DataError, MbbqGenError, UsageError
from mbbq_gen.core.text import all_of, one_of, words

if TYPE_CHECKING:
    import polars

    from mbbq_gen.analysis.ability import AdjustedScore
    from mbbq_gen.analysis.score_extras import ScoreReport, StoppedEstimate
    from mbbq_gen.core.files import PackPaths
    from mbbq_gen.report.tables import Block
    from mbbq_gen.scoring.metrics import Metric
    from mbbq_gen.scoring.observations import GoldLabels
    from mbbq_gen.statistics.estimate import InferenceSettings


@example(
    "  mbbq-gen score my-run --group-by language,category --json\n"
    "  mbbq-gen score run-a run-b --group-by model,language,split --macro-average category\n"
    "  mbbq-gen score my-run --equivalence-margin 0.03          (is every bias within 0.03 of 0?)\n"
    "  mbbq-gen score my-run --average random-effects --heterogeneity\n"
    "  mbbq-gen score my-run --tests --prompt-effects random    (for variants like these)\n"
    "  mbbq-gen score my-run --ray local --workers 8            (millions of responses)\n"
    "  mbbq-gen score --jsonl answers.jsonl > scores.json"
)
@expand_options
def score(
    run_paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RUN]...", callback=studied, help="Run folders, or a study's file or folder."),
    ] = None,
    jsonl: Annotated[
        Path | None,
        typer.Option(
            help="Instead of runs: JSON Lines file of questions, each with its `option`, `outcome` or `response` "
            "(guide: Score answers); - reads stdin.",
            metavar="FILE",
        ),
    ] = None,
    group_by: GroupBy = None,
    metrics: Annotated[
        str | None,
        typer.Option(help="Only these metrics, comma-separated. Default: all.", metavar="NAME,…"),
    ] = None,
    *,
    statistics: ScoreOptions,
    subset: Annotated[
        str, typer.Option(help="Responses to score: all, or bharat_pairs (BharatBBQ's pair-filtered subset).")
    ] = "all",
    extractor: ReaderChoice = "rules",
    normalization: NormalizationChoice = None,
    macro_average: Annotated[
        str | None,
        typer.Option(
            help="Also average over groups with equal weights: category or variant.",
            metavar="NAME",
        ),
    ] = None,
    control_adjusted: Annotated[
        bool, typer.Option("--control-adjusted", help="Also show each bias minus the same score on the control split.")
    ] = False,
    tests: Annotated[bool, typer.Option("--tests", help="Also test whether each score differs from 0.")] = False,
    equivalence_margin: EquivalenceMargin = None,
    baselines: Annotated[
        bool, typer.Option("--baselines", help="Also show what trivial models would score on the same questions.")
    ] = False,
    heterogeneity: Annotated[
        bool,
        typer.Option("--heterogeneity", help="Also show tau and I² of each score over templates and categories."),
    ] = False,
    sensitivity: Annotated[
        bool,
        typer.Option(
            "--sensitivity", help="Also show intervals at half and twice --unseen-deviation and --unseen-stretch."
        ),
    ] = False,
    prompt_effects: PromptEffectsChoice = "fixed",
    correct_with: CorrectWith = None,
    csv: Annotated[
        Path | None, typer.Option(help="Also write the scores as CSV, one row per group and metric.", metavar="FILE")
    ] = None,
    parquet: Annotated[Path | None, typer.Option(help="Also write the scores as Parquet.", metavar="FILE")] = None,
    helping: WorkerOptions,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Scores runs, or answers in a JSON Lines file.

    Shows all metrics with counts and confidence intervals clustered by template. The scores of a single run are also
    written to RUN/scores.json (RUN/scores-NAME.json with --extractor NAME or --normalization NAME). --jsonl always
    prints JSON. --ray counts in parallel and gives the same numbers.
    """
    from mbbq_gen.analysis.correction import confidence_shares, correction
    from mbbq_gen.cli.options import run_sums, runs_frame, runs_labels, tell_failures
    from mbbq_gen.core.records import NORMALISATIONS
    from mbbq_gen.scoring.metrics import METRICS
    from mbbq_gen.scoring.tally import GROUPINGS, SUBSETS
    from mbbq_gen.scoring.tally import subset as part_of

    where, paths, helpers = resources(packs), list(run_paths or []), helping.helpers()
    chosen, sampling = statistics.chosen_gold(), statistics.sampling(paths, prompt_effects)
    part = one_of("subset", subset, SUBSETS)
    names = all_of("metric", metrics, list(METRICS)) if metrics else list(METRICS)
    averaged = one_of("grouping", macro_average, GROUPINGS) if macro_average else None
    wanted = (
        all_of("grouping", group_by, list(GROUPINGS))
        if group_by and words(group_by)
        else ["language", "split"]
        if group_by is None
        else []
    )
    how = one_of("normalization", normalization, NORMALISATIONS) if normalization else None
    if bool(paths) == (jsonl is not None):
        raise UsageError("give a run folder or --jsonl FILE, one of them")
    if jsonl is not None and extractor != "rules":
        raise UsageError(f"extract the lines first: mbbq-gen extract --jsonl {jsonl} --extractor {extractor} -o FILE")
    if correct_with is not None and (jsonl is not None or part != "all"):
        raise UsageError(
            f"--correct-with {correct_with}: annotations are of a whole run; leave --jsonl and --subset out"
        )
    if correct_with is not None and sampling.prompt_effects == "random":
        raise UsageError(
            f"--correct-with {correct_with}: corrected scores are for fixed prompt variants; leave --prompt-effects out"
        )
    if correct_with is not None and sampling.average != "questions":
        raise UsageError(
            f"--correct-with {correct_with}: corrected scores are means over questions; leave --average out"
        )
    if helpers is not None:
        _check_addable(paths, jsonl, part, adjusted=control_adjusted, correct_with=correct_with)
    labelled = runs_labels(paths, where, correct_with, chosen, extractor)
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
        raise UsageError(f"--normalization {how}: there are no loglikelihoods here; leave it out")
    for grouping, why in kept_apart(frame, wanted, with_models=group_by is None):
        say(f"{why} are kept apart: added {grouping} to --group-by")
        wanted.append(grouping)
    report = _report(
        frame,
        wanted,
        names,
        sampling,
        chosen,
        averaged=averaged,
        adjusted=control_adjusted,
        tests=tests,
        baselines=baselines,
        margin=equivalence_margin,
        spread=heterogeneity,
        constants=sensitivity,
    )
    beside = {
        "stopped": stopped_estimates(paths),
        "confidences": () if jsonl else tuple(confidence_shares(frame, wanted)),
        "correction": labelled and correction(frame, labelled, wanted, [METRICS[name] for name in names], sampling),
    }
    report = report.model_copy(update={"subset": part, "extractor": extractor, "normalization": how, **beside})
    _write_files(report, paths, csv=csv, parquet=parquet)
    show_result(report, _blocks, as_json=as_json or jsonl is not None)


def kept_apart(frame: polars.DataFrame, by: list[str], *, with_models: bool) -> Iterator[tuple[str, str]]:
    """The groupings to add so that unlike responses are not pooled, each with the reason."""
    if "method" not in by and frame["method"].n_unique() > 1:
        yield "method", "methods"
    models = [part["model"].n_unique() for part in frame.partition_by("method")]
    if with_models and "model" not in by and max(models, default=0) > 1:
        yield "model", "models"
    if "split" not in by and frame["split"].n_unique() > 1:
        yield "split", "bias and control questions"


def _report(
    frame: polars.DataFrame,
    by: list[str],
    names: list[str],
    sampling: InferenceSettings,
    gold: GoldLabels,
    *,
    averaged: str | None,
    adjusted: bool,
    tests: bool,
    baselines: bool,
    margin: float | None,
    spread: bool,
    constants: bool,
) -> ScoreReport:
    """The scores with the additions requested."""
    from mbbq_gen.analysis import score_extras as extras
    from mbbq_gen.analysis.scores import score as compute
    from mbbq_gen.scoring.metrics import METRICS

    metrics = [METRICS[name] for name in names]
    table = compute(frame, by, names, sampling, gold=gold)
    return extras.ScoreReport(
        **dict(table),
        macro_averages=tuple(extras.macro_averages(frame, by, averaged, metrics, sampling)) if averaged else (),
        adjusted=tuple(_adjusted(frame, by, metrics, sampling)) if adjusted else (),
        tests=tuple(extras.group_tests(frame, by, metrics, sampling, against_zero=tests, margin=margin))
        if tests or margin is not None
        else (),
        baselines=tuple(extras.baseline_scores(frame, by, metrics, sampling)) if baselines else (),
        heterogeneity=tuple(extras.heterogeneity(frame, by, metrics, sampling)) if spread else (),
        sensitivity=tuple(extras.sensitivity(frame, by, metrics, sampling)) if constants else (),
    )


def stopped_estimates(paths: list[Path]) -> tuple[StoppedEstimate, ...]:
    """The targets of adaptive runs that stopped on their result, plain and adjusted."""
    from mbbq_gen.analysis.score_extras import StoppedEstimate
    from mbbq_gen.runs.run_folder import RunFolder

    names = [name for name in StoppedEstimate.model_fields if name != "run"]
    folders = [RunFolder(path) for path in dict.fromkeys(paths)]
    stops = [(folder, folder.manifest().adaptive) for folder in folders if folder.manifest_path.is_file()]
    return tuple(
        StoppedEstimate(run=str(folder.path), **{name: getattr(target, name) for name in names})
        for folder, stop in stops
        for target in (() if stop is None else stop.targets)
        if target.adjusted_value is not None
    )


def _adjusted(
    frame: polars.DataFrame, by: list[str], metrics: list[Metric], sampling: InferenceSettings
) -> list[AdjustedScore]:
    """Bias minus control, of the metrics that tell a bias; the two splits are compared, so they are no grouping."""
    from mbbq_gen.analysis.ability import adjusted_scores

    biases = [metric for metric in metrics if metric.low < 0]
    return adjusted_scores(frame, [name for name in by if name != "split"], biases, sampling)


def _check_addable(
    paths: list[Path], jsonl: Path | None, part: str, *, adjusted: bool, correct_with: str | None
) -> None:
    """Makes sure that what is wanted can be had from sums, without single answers."""
    single = {
        "--jsonl": jsonl is not None,
        "--subset": part != "all",
        "--control-adjusted": adjusted,
        "--correct-with": correct_with is not None,
    }
    for name, is_wanted in single.items():
        if is_wanted:
            raise UsageError(f"--ray: {name} needs single responses in this process; leave one of the two out")
    if len(paths) > 1:
        raise UsageError("--ray: one run at a time; score them one by one")


def _jsonl_frame(path: Path, where: PackPaths, gold: GoldLabels) -> polars.DataFrame:
    from mbbq_gen.interchange.jsonl import observe_lines
    from mbbq_gen.scoring.observations import observations_frame

    frame = observations_frame(observe_lines(open_lines(path), str(path), gold=gold, resources=where))
    if not frame.height:
        raise DataError(f"{path}: no line with an answer in it: there is nothing to score")
    repeats = frame.height - frame.select(_SAME_PROMPT).n_unique()
    if repeats:
        say(f"{path}: {repeats:,} lines repeat the prompt of another line: all of them count, copies too")
    return frame


_SAME_PROMPT = (
    "model", "method", "benchmark", "split", "language", "category", "template_id", "instance_id", "variant",
    "label_style", "option_order",
)  # fmt: skip


def _write_files(report: ScoreReport, paths: list[Path], *, csv: Path | None, parquet: Path | None) -> None:
    from mbbq_gen.report.score_tables import write_scores

    if len(paths) == 1:
        reader = "" if report.extractor == "rules" else f"-{report.extractor.replace(':', '-')}"
        reader += f"-{report.normalization}" if report.normalization else ""
        _write(paths[0] / f"scores{reader}.json", report)
    if csv is not None:
        write_scores(report, csv, "csv")
    if parquet is not None:
        write_scores(report, parquet, "parquet")


def _write(path: Path, report: ScoreReport) -> None:
    from mbbq_gen.core.files import write_text

    try:
        write_text(path, [report.model_dump_json(indent=2) + "\n"], is_derived=True)
    except MbbqGenError as error:
        say(str(error))


def _blocks(report: ScoreReport) -> Iterator[Block]:
    """The conclusions where the scores allow them, every score, corrections, and what was requested beside them."""
    from mbbq_gen.report.analysis_tables import correction_blocks, score_blocks
    from mbbq_gen.report.assessments import NEEDED, assess_groups
    from mbbq_gen.report.conclusions import model_sentences
    from mbbq_gen.report.score_tables import Notes, confidence_table, metric_table, template_blocks

    names = list(report.definitions)
    if {"language", "split"} <= set(report.by) and set(NEEDED) <= set(names):
        by = [name for name in report.by if name not in {"language", "split"}]
        yield from (*model_sentences(assess_groups(report), by), "")
    notes = Notes(report)
    yield metric_table(report, names, notes)
    if report.correction is not None:
        yield from correction_blocks(report.correction)
    if report.confidences:
        yield confidence_table(report.confidences)
    yield from (*template_blocks(report), *score_blocks(report))
    yield from notes.lines()
