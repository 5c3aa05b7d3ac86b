"""Commands that analyse runs: compare, agreement, diff, position-bias, power, robustness, reasoning."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from mbbq_gen.cli.config_options import expand_options
from mbbq_gen.cli.help import example, option
from mbbq_gen.cli.options import (
    GROUPS,
    AnswersChoice,
    CorrectWith,
    GroupBy,
    HtmlFile,
    InferenceOptions,
    Json,
    MetricNames,
    NormalizationChoice,
    Packs,
    PromptEffectsChoice,
    RunPath,
    RunPaths,
    ScoreOptions,
    chosen_answers,
    equivalence_option,
    extraction_bar,
    metrics_of,
    prompt_effects_of,
    read_before_use,
    resources,
    run_frame,
    runs_frame,
    runs_labels,
    say,
    several,
    show_result,
    write_lines,
)
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.progress import Bar
from mbbq_gen.core.text import all_of, one_of

if TYPE_CHECKING:
    from mbbq_gen.analysis.design import Components
    from mbbq_gen.core.files import PackPaths


@example(
    "  mbbq-gen compare my-run --across language --template-filter above-chance\n"
    "  mbbq-gen compare my-run --across language --group-by category --p-adjust-over all --simultaneous-intervals\n"
    "  mbbq-gen compare my-run --across language --prompt-effects random    (for variants like these)\n"
    "  mbbq-gen compare my-run --across language --split control    (is it as able in every language?)\n"
    "  mbbq-gen compare my-run --across language --average random-effects\n"
    "  mbbq-gen compare run-a run-b --across model --metric mbbq_bias_ambiguous --json"
)
@expand_options
def compare(
    run_paths: RunPaths,
    across: Annotated[
        str,
        option(
            "What to score",
            "What to compare: language, model, variant, reasoning_effort, method or extractor.",
            metavar="WHAT",
        ),
    ],
    template_filter: Annotated[
        str | None,
        option(
            "What to score",
            "Only templates that the model can answer in everything compared, by its accuracy on the control split: "
            "above-chance, or above-chance-exact (significantly above chance). Default: all templates.",
        ),
    ] = None,
    split: Annotated[
        str, option("What to score", "Questions to compare: bias or control (accuracy, as in MBBQ's Table 5).")
    ] = "bias",
    metric: Annotated[
        str | None,
        option(
            "Grouping",
            "Metrics, comma-separated, or `all`; for names: `mbbq-gen score --help`. Default: "
            "mbbq_bias_ambiguous,diff_bias_disambiguated; of control accuracy_disambiguated,accuracy_ambiguous.",
            metavar="NAME,…",
        ),
    ] = None,
    group_by: Annotated[
        str | None,
        option(
            "Grouping",
            "Also compare within each group of these, comma-separated: category, split, variant, …",
            metavar="NAME,…",
        ),
    ] = None,
    p_adjust_over: Annotated[
        str,
        option(
            "Statistics",
            "Adjust p values by Holm over: pairs (all pairs of one metric) or all (pairs, metrics and groups).",
            metavar="FAMILY",
        ),
    ] = "pairs",
    simultaneous_intervals: Annotated[
        bool,
        option(
            "Statistics",
            "Intervals of differences that hold all at once (Bonferroni), over what --p-adjust-over names.",
            "--simultaneous-intervals",
        ),
    ] = False,
    *,
    statistics: ScoreOptions,
    prompt_effects: PromptEffectsChoice = "fixed",
    equivalence_margin: Annotated[float | None, equivalence_option("each bias and each difference")] = None,
    answers: AnswersChoice = "first",
    correct_with: CorrectWith = None,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Compares bias across languages, models, variants, reasoning efforts, methods or extractors.

    Shows each score beside that of the control split, one test over all scores, the difference of each pair (paired by
    template), and possible explanations: ability, control, parsing, position. A difference is first minus second; above
    0, the first is more stereotypical. Models, benchmarks and languages that are not what is compared are kept apart:
    each gets its own comparison.
    """
    from mbbq_gen.analysis.ability import Selection
    from mbbq_gen.analysis.comparison import ACROSS, CONTROL_METRICS, DEFAULT_METRICS, FAMILIES, HypothesisFamily
    from mbbq_gen.analysis.comparison import compare as compute
    from mbbq_gen.core.records import Split
    from mbbq_gen.report.comparison_tables import comparison_blocks
    from mbbq_gen.runs.run_folder import RunFolder, serving_difference
    from mbbq_gen.scoring.tally import GROUPINGS

    level = one_of("thing to compare across", across, ACROSS)
    selection = one_of("template filter", template_filter, get_args(Selection)) if template_filter else None
    part = one_of("split", split, get_args(Split))
    usual = CONTROL_METRICS if part == "control" else DEFAULT_METRICS
    metrics, sampling = metrics_of(metric or usual), statistics.sampling(run_paths, prompt_effects)
    if correct_with is not None and level == "extractor":
        raise UsageError(
            f"--correct-with {correct_with}: corrected scores are the same for all extractors; leave it out"
        )
    where = resources(packs)
    gold, every = statistics.chosen_gold(), level == "extractor"
    if every and statistics.extractor != "rules":
        raise UsageError("--across extractor compares all extractors of the runs; leave --extractor out")
    labelled = runs_labels(run_paths, where, correct_with, gold, statistics.extractor)
    chosen = chosen_answers(answers, correct_with)
    frame = runs_frame(run_paths, where, gold, extractor=statistics.extractor, all_extractors=every, answers=chosen)
    family = one_of("choice for --p-adjust-over", p_adjust_over, FAMILIES)
    asked = all_of("grouping", group_by, list(GROUPINGS)) if group_by else []
    within = [name for name in several(frame, "model", "benchmark", "language") if name != level]
    within += [name for name in asked if name not in within]
    table = compute(
        frame,
        level,
        metrics,
        within=within,
        select=selection,
        sampling=sampling,
        labelled=labelled,
        margin=equivalence_margin,
        family=HypothesisFamily(family, simultaneous=simultaneous_intervals),
        may_leave_out=bool(asked),
        split=part,
    )
    serving = serving_difference({str(path): RunFolder(path).manifest() for path in run_paths})
    show_result(table.model_copy(update={"serving": serving}), comparison_blocks, as_json=as_json)


SUMMARY_METRICS = "accuracy_ambiguous,accuracy_disambiguated,mbbq_bias_ambiguous,mbbq_bias_disambiguated"


@example("  mbbq-gen agreement my-run\n  mbbq-gen agreement my-run --normalization char --html agreement.html")
@expand_options
def agreement(
    run_path: RunPath,
    html: HtmlFile = None,
    metric: MetricNames = SUMMARY_METRICS,
    normalization: NormalizationChoice = None,
    *,
    statistics: InferenceOptions,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Shows how often the scoring methods of a run disagree.

    Methods are generate, loglikelihood, …; by language and split: how often both choose the same role, Cohen's kappa,
    the most frequent flips (target, non-target, unknown, unparsed), and the scores of each method with their
    differences. Needs a run with several methods, such as `run --method both`.
    """
    from mbbq_gen.analysis.agreement import MethodAgreement, method_agreement, method_scores, tie_rates
    from mbbq_gen.core.records import NORMALISATIONS
    from mbbq_gen.report.comparison_tables import agreement_blocks
    from mbbq_gen.report.page import blocks_page
    from mbbq_gen.runs.run_folder import RunFolder

    folder = RunFolder(run_path)
    folder.require()
    manifest, sampling = folder.manifest(), statistics.sampling()
    methods = manifest.config.method
    if len(methods) < 2:
        raise UsageError(f"{run_path}: has one method, {methods[0]}; make a run with --method both to compare methods")
    how = one_of("normalization", normalization, NORMALISATIONS) if normalization else None
    frame, progress = run_frame(
        folder, manifest, resources(packs), statistics.chosen_gold(), extractor=statistics.extractor, normalise=how
    )
    if progress.pending:
        say(f"{run_path}: {progress.pending:,} of {progress.requests:,} requests have no response yet")
    found = MethodAgreement(
        run=str(run_path),
        model=manifest.config.model,
        methods=methods,
        normalization=how or manifest.config.normalization,
        confidence_level=sampling.confidence,
        n_resamples=sampling.n_resamples,
        seed=sampling.seed,
        unparsed=sampling.unparsed,
        pairs=tuple(method_agreement(frame, methods, sampling)),
        scores=tuple(method_scores(frame, methods, metrics_of(metric), sampling)),
        tie_rates=tie_rates(frame, methods),
    )
    if html is not None:
        write_lines(html, [blocks_page(f"Scoring methods: {found.model}", agreement_blocks(found))])
        say(f"written: {html}")
    show_result(found, agreement_blocks, as_json=as_json)


@example(
    "  mbbq-gen diff run-march run-june\n  mbbq-gen diff run-a run-b --metric mbbq_bias_ambiguous --examples 20 --json"
)
@expand_options
def diff(
    first: Annotated[Path, typer.Argument(metavar="RUN_A", help="Folder of the first run.")],
    second: Annotated[Path, typer.Argument(metavar="RUN_B", help="Folder of the second run.")],
    metric: MetricNames = f"parse_rate,{SUMMARY_METRICS}",
    examples: Annotated[int, option("Output", "Number of examples of each kind of flip in --json.", min=1)] = 3,
    *,
    statistics: InferenceOptions,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Shows what changed between two runs.

    Compares settings, packs, model version, scores and choices. Samples are paired by what was sent, then by
    question, variant and option order. Scores are compared over the paired samples; the change (second minus first)
    is paired by template. Flips are counted by choice before and after.
    """
    from mbbq_gen.report.run_tables import difference_blocks
    from mbbq_gen.runs.run_diff import Choice, compare_runs
    from mbbq_gen.runs.run_folder import RunFolder

    with Bar("reading", None, "items", delay=1.0) as bar:
        choice = Choice(
            metrics=tuple(chosen.name for chosen in metrics_of(metric)),
            gold=statistics.chosen_gold(),
            extractor=statistics.extractor,
            sampling=statistics.sampling([first, second]),
            examples=examples,
            step=bar.advance,
        )
        found = compare_runs(RunFolder(first), RunFolder(second), resources(packs), choice)
    for side in (found.first, found.second):
        if side.answered < side.requests:
            say(f"{side.run}: {side.requests - side.answered:,} of {side.requests:,} requests have no response yet")
    show_result(found, difference_blocks, as_json=as_json)


@example("  mbbq-gen position-bias my-run\n  mbbq-gen position-bias my-run --group-by model,language,split --json")
@expand_options
def position_bias(
    run_paths: RunPaths,
    group_by: GroupBy = "model,language,split",
    metric: MetricNames = "mbbq_bias_ambiguous,diff_bias_disambiguated",
    *,
    statistics: InferenceOptions,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Shows which labels and positions a model prefers.

    Shows the share of each position next to the share expected without a preference, with an exact test. Also shows
    the bias with all option orders weighted equally, and how often each text of the unknown option was chosen. A
    preference above 0 means that the position is chosen more often; a bias above 0 is stereotypical.
    """
    from mbbq_gen.analysis.position import PositionTable, position_reports
    from mbbq_gen.report.analysis_tables import position_blocks
    from mbbq_gen.scoring.tally import GROUPINGS

    metrics, sampling = metrics_of(metric), statistics.sampling(run_paths)
    groupings = all_of("grouping", group_by, list(GROUPINGS))
    frame = runs_frame(run_paths, resources(packs), statistics.chosen_gold(), extractor=statistics.extractor)
    table = PositionTable(
        confidence_level=sampling.confidence,
        n_resamples=sampling.n_resamples,
        seed=sampling.seed,
        unparsed=sampling.unparsed,
        signs={measured.name: measured.sign for measured in metrics},
        groups=tuple(position_reports(frame, groupings, metrics, sampling)),
    )
    show_result(table, position_blocks, as_json=as_json)


@example(
    "  mbbq-gen power --benchmark mbbq --templates 98 --variants 5\n"
    "  mbbq-gen power --benchmark mbbq --templates 40 --variants 3 --pilot my-run --json"
)
def power(
    benchmark: Annotated[str, option("Run", "Benchmark of the run: mbbq, esbbq, kobbq, starter, …")],
    templates: Annotated[int, option("Run", "Number of templates.", min=1)],
    variants: Annotated[int, option("Run", "Number of prompt variants.", min=1)],
    questions: Annotated[
        float | None,
        option("Run", "Ambiguous questions per template, on average. Default: as in the benchmark.", metavar="N"),
    ] = None,
    pilot: Annotated[
        Path | None, option("Run", "Take the variances from this run. Default: assumed.", metavar="RUN")
    ] = None,
    metric: Annotated[str, option("Statistics", "Metric whose variances --pilot takes.")] = "mbbq_bias_ambiguous",
    prompt_effects: PromptEffectsChoice = "fixed",
    level: Annotated[
        float, option("Statistics", "Significance level of the two-sided test.", min=0.0001, max=0.5)
    ] = 0.05,
    target: Annotated[float, option("Statistics", "Power of the test.", "--power", min=0.5, max=0.999)] = 0.8,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Shows the smallest score or difference that a run can detect.

    In units of the score, regardless of its sign. Variances are assumed and printed; --pilot RUN takes those of a run.
    """
    from mbbq_gen.analysis.power import DEFAULTS, QUESTION_SHARE, SHAPES, power_table
    from mbbq_gen.benchmarks.registry import benchmark_name, find_benchmark
    from mbbq_gen.report.analysis_tables import power_blocks
    from mbbq_gen.scoring.metrics import METRICS

    name = one_of("metric", metric, METRICS)
    benchmark = benchmark_name(benchmark)
    if benchmark not in SHAPES and questions is None:
        find_benchmark(benchmark)
    measured = None if pilot is None else variances_of(pilot, name, resources(packs))
    table = power_table(
        benchmark,
        templates,
        variants,
        questions=questions,
        level=level,
        power=target,
        assumptions=DEFAULTS if measured is None else measured.assumptions,
        question_share=QUESTION_SHARE if measured is None else measured.question_share,
        metric=name,
        prompt_effects=prompt_effects_of(prompt_effects),
        effective_share=None if pilot is None or questions is None else 1.0,
    )
    show_result(table, power_blocks, as_json=as_json)


def variances_of(path: Path, metric: str, where: PackPaths) -> Components:
    """The variances of a run's bias split."""
    from mbbq_gen.analysis.design import measured_components
    from mbbq_gen.scoring.metrics import METRICS

    return measured_components(runs_frame([path], where), METRICS[metric], str(path))


@example("  mbbq-gen robustness my-run\n  mbbq-gen robustness run-a run-b --metric mbbq_bias_ambiguous --json")
@expand_options
def robustness(
    run_paths: RunPaths,
    metric: MetricNames = "accuracy_disambiguated,mbbq_bias_ambiguous,mbbq_bias_disambiguated",
    *,
    statistics: InferenceOptions,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Shows how much scores depend on the prompt and the language.

    For every model and split, shows the spread of each score over prompt variants, option orders, label styles,
    reasoning efforts and languages. Also shows the share of responses that flip, Fleiss' kappa, and variance
    components. With several models, shows how stable their ranks are. A bias above 0 is stereotypical.
    """
    from mbbq_gen.analysis.robustness import FACTORS, RobustnessTable, rank_stability, robustness_reports
    from mbbq_gen.report.analysis_tables import robustness_blocks

    metrics, sampling = metrics_of(metric), statistics.sampling(run_paths)
    frame = runs_frame(run_paths, resources(packs), statistics.chosen_gold(), extractor=statistics.extractor)
    ranks = [
        found
        for measured in metrics
        for factor in FACTORS
        if (found := rank_stability(frame, measured, factor, sampling)) is not None
    ]
    table = RobustnessTable(
        confidence_level=sampling.confidence,
        n_resamples=sampling.n_resamples,
        seed=sampling.seed,
        unparsed=sampling.unparsed,
        signs={measured.name: measured.sign for measured in metrics},
        groups=tuple(robustness_reports(frame, ["model", "split"], metrics, sampling)),
        ranks=tuple(ranks),
    )
    show_result(table, robustness_blocks, as_json=as_json)


@example(
    "  mbbq-gen reasoning my-run\n"
    "  mbbq-gen reasoning my-run --group-by language,reasoning_effort,split --html reasoning.html"
)
@expand_options
def reasoning(
    run_path: RunPath,
    group_by: Annotated[
        str | None,
        option(
            "Grouping",
            f"Group the scores by these, {GROUPS} Default: split,language and, if there are several, reasoning_effort.",
            metavar="NAME,…",
        ),
    ] = None,
    html: HtmlFile = None,
    metric: MetricNames = "mbbq_bias_ambiguous,mbbq_bias_disambiguated,accuracy_ambiguous,accuracy_disambiguated",
    *,
    statistics: InferenceOptions,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Compares the conclusions of reasoning traces with the answers.

    From each trace: the option it concludes, whether it says that the context does not tell, what it refers to, and its
    language. By split, language and reasoning effort: how often the answer follows the conclusion or changes to
    unknown, to the target or to the non-target, and the scores of conclusions and answers.
    """
    from mbbq_gen.analysis.reasoning import ReasoningReport, reasoning_groups
    from mbbq_gen.core.text import words
    from mbbq_gen.report.analysis_tables import reasoning_blocks
    from mbbq_gen.report.page import blocks_page
    from mbbq_gen.runs.reasoning import extract_all_reasoning, load_reasoning_frames
    from mbbq_gen.runs.run_folder import RunFolder

    folder, where, sampling = RunFolder(run_path), resources(packs), statistics.sampling([run_path])
    folder.require()
    manifest = folder.manifest()
    metrics = metrics_of(metric)
    extractors = read_before_use(folder, where, statistics.extractor)
    with extraction_bar() as bar:
        version = extract_all_reasoning(folder, where, bar.advance)
    with folder.open_store(read_only=True) as store:
        frames = load_reasoning_frames(store, version, extractors, manifest.config.model, statistics.chosen_gold())
        pending = store.progress().pending
    if pending:
        say(f"{run_path}: {pending:,} requests have no response yet: these are the traces of a part")
    if not frames.facts["has_thought"].any():
        raise UsageError(
            f"{run_path}: no response has a reasoning trace; run a reasoning model (run --reasoning-effort …) whose"
            " service returns its reasoning"
        )
    usual = ["split", "language", *(["reasoning_effort"] if frames.answers["reasoning_effort"].n_unique() > 1 else [])]
    groups = words(group_by) if group_by is not None else usual
    found = ReasoningReport(
        run=str(run_path),
        model=manifest.config.model,
        version=version,
        confidence_level=sampling.confidence,
        n_resamples=sampling.n_resamples,
        seed=sampling.seed,
        unparsed=sampling.unparsed,
        groups=tuple(reasoning_groups(frames, groups, metrics, sampling)),
    )
    if html is not None:
        write_lines(html, [blocks_page(f"Reasoning: {found.model}", reasoning_blocks(found))])
        say(f"written: {html}")
    show_result(found, reasoning_blocks, as_json=as_json)
