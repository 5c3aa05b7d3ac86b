"""`mbbq-gen score`: every metric, by any grouping, with counts and intervals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mbbq_gen.cli.config_options import WorkerOptions, expand_options
from mbbq_gen.cli.help import example, option
from mbbq_gen.cli.options import (
    GROUPS,
    AnswersChoice,
    CorrectWith,
    Json,
    MetricNames,
    NormalizationChoice,
    Packs,
    PromptEffectsChoice,
    ScoreOptions,
    check_correction,
    chosen_answers,
    equivalence_option,
    metrics_of,
    open_lines,
    resources,
    run_sums,
    runs_frame,
    runs_labels,
    say,
    show_result,
    studied,
    tell_failures,
)
from mbbq_gen.core.errors import DataError, MbbqGenError, UsageError
from mbbq_gen.core.text import all_of, one_of, words

if TYPE_CHECKING:
    import polars

    from mbbq_gen.analysis.score_extras import ScoreReport, StoppedEstimate
    from mbbq_gen.core.files import PackPaths
    from mbbq_gen.report.tables import Block
    from mbbq_gen.scoring.observations import GoldLabels


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
        typer.Argument(metavar="RUN", callback=studied, help="Run folders, or a study's file or folder."),
    ] = None,
    jsonl: Annotated[
        Path | None,
        option(
            "What to score",
            "Instead of runs: JSON Lines file of questions, each with its `option`, `outcome` or `response` "
            "(docs/guides/score-your-answers.md); - reads stdin.",
            metavar="FILE",
        ),
    ] = None,
    normalization: NormalizationChoice = None,
    subset: Annotated[
        str, option("What to score", "Responses: all, or bharat_pairs (BharatBBQ's pair-filtered subset).")
    ] = "all",
    group_by: Annotated[
        str | None,
        option("Grouping", f"Group the scores by these, {GROUPS} Default: language,split.", metavar="NAME,…"),
    ] = None,
    metric: MetricNames = "all",
    macro_average: Annotated[
        str | None, option("Grouping", "Also average over groups with equal weights: category or variant.")
    ] = None,
    *,
    answers: AnswersChoice = "first",
    statistics: ScoreOptions,
    prompt_effects: PromptEffectsChoice = "fixed",
    tests: Annotated[bool, option("Statistics", "Also test whether each score differs from 0.", "--tests")] = False,
    equivalence_margin: Annotated[float | None, equivalence_option("each bias")] = None,
    control_adjusted: Annotated[
        bool, option("Also show", "Each bias minus the same score on the control split.", "--control-adjusted")
    ] = False,
    baselines: Annotated[
        bool, option("Also show", "Scores of trivial models on the same questions.", "--baselines")
    ] = False,
    heterogeneity: Annotated[
        bool, option("Also show", "Tau and I² of each score over templates and categories.", "--heterogeneity")
    ] = False,
    sensitivity: Annotated[
        bool,
        option("Also show", "Intervals at half and twice --unseen-deviation and --unseen-stretch.", "--sensitivity"),
    ] = False,
    correct_with: CorrectWith = None,
    csv: Annotated[
        Path | None, option("Files", "Also write the scores as CSV, one row per group and metric.", metavar="FILE")
    ] = None,
    parquet: Annotated[Path | None, option("Files", "Also write the scores as Parquet.", metavar="FILE")] = None,
    packs: Packs = None,
    helping: WorkerOptions,
    as_json: Json = False,
) -> None:
    """Scores runs, or answers in a JSON Lines file.

    Shows all metrics with counts and confidence intervals clustered by template. The scores of a single run are also
    written to RUN/scores.json (RUN/scores-NAME.json with --extractor, --normalization or --answers NAME). --jsonl
    always prints JSON. --ray counts in parallel and gives the same numbers.

    Metrics: parse_rate, accuracy_ambiguous, accuracy_disambiguated, mbbq_bias_ambiguous, mbbq_bias_disambiguated,
    diff_bias_ambiguous, diff_bias_disambiguated, diff_bias_ambiguous_bound, diff_bias_disambiguated_bound, bbq_s_dis,
    bbq_s_amb, bbq_nonaligned_cost, bharat_bs_ambiguous, bharat_bs_disambiguated, bharat_sbs_ambiguous,
    bharat_sbs_disambiguated, target_preference, bias_adjusted_accuracy.
    """
    from mbbq_gen.analysis import score_extras as extras
    from mbbq_gen.analysis.ability import adjusted_scores
    from mbbq_gen.analysis.correction import confidence_shares, correction
    from mbbq_gen.analysis.scores import score as compute
    from mbbq_gen.core.records import NORMALISATIONS
    from mbbq_gen.runs.observations import follow_up_reports
    from mbbq_gen.scoring.tally import GROUPINGS, SUBSETS
    from mbbq_gen.scoring.tally import subset as part_of

    extractor = statistics.extractor
    where, paths, helpers = resources(packs), list(run_paths or []), helping.helpers()
    gold, sampling = statistics.chosen_gold(), statistics.sampling(paths, prompt_effects)
    part = one_of("subset", subset, SUBSETS)
    metrics = metrics_of(metric)
    averaged = one_of("grouping", macro_average, GROUPINGS) if macro_average else None
    wanted = (
        all_of("grouping", group_by, list(GROUPINGS))
        if group_by and words(group_by)
        else ["language", "split"]
        if group_by is None
        else []
    )
    kind = chosen_answers(answers, correct_with)
    how = one_of("normalization", normalization, NORMALISATIONS) if normalization else None
    if bool(paths) == (jsonl is not None):
        raise UsageError("give a run folder or --jsonl FILE, one of them")
    if kind != "first" and jsonl is not None:
        raise UsageError(f"--answers {kind}: leave --jsonl out; follow-ups are of runs")
    if jsonl is not None and extractor != "rules":
        raise UsageError(f"first: mbbq-gen extract --jsonl {jsonl} --extractor {extractor} -o FILE; then score FILE")
    if correct_with is not None and (jsonl is not None or part != "all"):
        raise UsageError(
            f"--correct-with {correct_with}: annotations are of a whole run; leave --jsonl and --subset out"
        )
    check_correction(correct_with, sampling)
    if helpers is not None:
        _check_addable(paths, jsonl, part, adjusted=control_adjusted, correct_with=correct_with)
    labelled = runs_labels(paths, where, correct_with, gold, extractor)
    if jsonl is not None:
        frame = _jsonl_frame(jsonl, where, gold)
        tell_failures(frame)
    elif helpers is not None:
        frame = run_sums(
            *(paths[0], where, gold),
            by=wanted,
            beside=["variant", *([averaged] if averaged else [])],
            extractor=extractor,
            normalise=how,
            answers=kind,
            helpers=helpers,
        )
    else:
        frame = runs_frame(paths, where, gold, extractor=extractor, normalise=how, answers=kind)
    frame = part_of(frame, part)
    if how is not None and (frame["method"] == "generate").all():
        raise UsageError(f"--normalization {how}: there are no loglikelihoods here; leave it out")
    for grouping, why in kept_apart(frame, wanted, with_models=group_by is None):
        say(f"{why} are kept apart: added {grouping} to --group-by")
        wanted.append(grouping)
    table = compute(frame, wanted, [chosen.name for chosen in metrics], sampling, gold=gold)
    biases = [chosen for chosen in metrics if chosen.low < 0]
    # The two splits are compared, so they are no grouping.
    apart = [name for name in wanted if name != "split"]
    labels = labelled and correction(frame, labelled, wanted, metrics, sampling)
    report = extras.ScoreReport(
        **dict(table),
        macro_averages=tuple(extras.macro_averages(frame, wanted, averaged, metrics, sampling)) if averaged else (),
        adjusted=tuple(adjusted_scores(frame, apart, biases, sampling)) if control_adjusted else (),
        tests=tuple(extras.group_tests(frame, wanted, metrics, sampling, against_zero=tests, margin=equivalence_margin))
        if tests or equivalence_margin is not None
        else (),
        baselines=tuple(extras.baseline_scores(frame, wanted, metrics, sampling)) if baselines else (),
        heterogeneity=tuple(extras.heterogeneity(frame, wanted, metrics, sampling)) if heterogeneity else (),
        sensitivity=tuple(extras.sensitivity(frame, wanted, metrics, sampling)) if sensitivity else (),
    ).model_copy(
        update={
            "subset": part,
            "extractor": extractor,
            "normalization": how,
            "stopped": stopped_estimates(paths),
            "confidences": () if jsonl else tuple(confidence_shares(frame, wanted)),
            "correction": labels,
            "answers": kind,
            "follow_ups": follow_up_reports(paths, where, sampling, gold) if paths and helpers is None else (),
        }
    )
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
    from mbbq_gen.core.files import write_text
    from mbbq_gen.report.score_tables import write_scores

    if len(paths) == 1:
        reader = "" if report.extractor == "rules" else f"-{report.extractor.replace(':', '-')}"
        reader += f"-{report.normalization}" if report.normalization else ""
        reader += "-follow-up" if report.answers == "follow-up" else ""
        try:
            write_text(paths[0] / f"scores{reader}.json", [report.model_dump_json(indent=2) + "\n"], is_derived=True)
        except MbbqGenError as error:
            say(str(error))
    if csv is not None:
        write_scores(report, csv, "csv")
    if parquet is not None:
        write_scores(report, parquet, "parquet")


def _blocks(report: ScoreReport) -> Iterator[Block]:
    """The conclusions where the scores allow them, every score, corrections, and what was requested beside them."""
    from mbbq_gen.report.analysis_tables import correction_blocks, score_blocks
    from mbbq_gen.report.annotation_tables import follow_up_blocks
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
    for found in report.follow_ups:
        yield from follow_up_blocks(found)
    yield from notes.lines()
