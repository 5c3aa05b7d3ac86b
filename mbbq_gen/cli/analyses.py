"""Commands that analyse runs: compare, agreement, diff, position-bias, power, robustness, reasoning."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from mbbq_gen.cli.command import PackCommand, RunCommand, argument, option
from mbbq_gen.cli.options import (
    GROUPED,
    GROUPS,
    AnswersChoice,
    CorrectWith,
    ExtractionOptions,
    GroupBy,
    InferenceOptions,
    MetricNames,
    NormalizationChoice,
    PromptEffectsChoice,
    RunsCommand,
    ScoreOptions,
    check_correction,
    equivalence_option,
    extract_missing,
    groupings_of,
    metrics_of,
    variances_of,
    varying,
)
from mbbq_gen.cli.output import say, show_result
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.progress import Bar
from mbbq_gen.core.records import Split
from mbbq_gen.core.text import one_of


class Compare(RunsCommand):
    """Compares bias across languages, models, variants, reasoning efforts, methods or extractors.

    Shows each score beside that of the control split, one test over all scores, the difference of each pair (paired by
    template), and possible explanations: ability, control, parsing, position. A difference is first minus second; above
    0, the first has the higher score. Models, benchmarks and languages that are not what is compared are kept apart:
    each gets its own comparison.
    """

    help_examples = (
        "  mbbq-gen compare my-run --across language --template-filter above-chance\n"
        "  mbbq-gen compare my-run --across language --group-by category --p-adjust-over all\n"
        "  mbbq-gen compare my-run --across language --split control    (is it as able in every language?)\n"
        "  mbbq-gen compare run-a run-b --across model --metric mbbq_bias_ambiguous --json"
    )
    across: Literal["language", "model", "variant", "reasoning_effort", "method", "extractor"] = option(
        "What to score", "Compare these: language, model, variant, reasoning_effort, method, extractor.", default=...
    )
    template_filter: Literal["above-chance"] | None = option(
        "What to score",
        "Only templates that the model can answer in all that is compared, by its control accuracy: above-chance.",
    )
    split: Split = option("What to score", "Questions to compare: bias or control.", default="bias")
    metric: str | None = option(
        "Grouping",
        "Metrics, comma-separated, or `all`; for names: `mbbq-gen score --help`. Default: "
        "mbbq_bias_ambiguous,diff_bias_disambiguated; of control accuracy_disambiguated,accuracy_ambiguous.",
        metavar="NAME,…",
    )
    group_by: str | None = option("Grouping", f"Also compare within each group of these, {GROUPS}", metavar="NAME,…")
    p_adjust_over: Literal["pairs", "all"] = option(
        "Statistics", "Adjust p values over: pairs (of one metric) or all (pairs, metrics and groups).", default="pairs"
    )
    statistics: ScoreOptions
    equivalence_margin: float | None = equivalence_option("each bias and each difference")
    answers: AnswersChoice = "first"
    correct_with: CorrectWith = None

    def _run(self) -> None:
        from mbbq_gen.analysis import comparison
        from mbbq_gen.report.analysis_tables import comparison_blocks
        from mbbq_gen.runs.run_folder import RunFolder, serving_difference

        statistics, source = self.statistics, self.correct_with
        across_extractors = self.across == "extractor"
        if across_extractors and source is not None:
            raise UsageError(f"--correct-with {source}: corrected scores are the same for all extractors; leave it out")
        if across_extractors and statistics.extractor != "rules":
            raise UsageError("--across extractor compares all extractors of the runs; leave --extractor out")
        default = comparison.CONTROL_METRICS if self.split == "control" else comparison.DEFAULT_METRICS
        metrics, sampling = metrics_of(self.metric or default), statistics.sampling(self.run_paths)
        check_correction(source, sampling, self.answers)
        labelled = statistics.labels(self.run_paths, self.resources, source)
        frame = statistics.frame(self.run_paths, self.resources, all_extractors=across_extractors, answers=self.answers)
        groupings = groupings_of(self.group_by)
        separate = [name for name in varying(frame, "model", "benchmark", "language") if name != self.across]
        table = comparison.compare(
            *(frame, self.across, metrics),
            within=list(dict.fromkeys((*separate, *groupings))),
            select=self.template_filter,
            sampling=sampling,
            labelled=labelled,
            margin=self.equivalence_margin,
            adjust_over=self.p_adjust_over,
            may_leave_out=bool(groupings),
            split=self.split,
        )
        serving = serving_difference({str(path): RunFolder(path).manifest() for path in self.run_paths})
        show_result(table.model_copy(update={"serving": serving}), comparison_blocks, as_json=self.as_json)


class Agreement(RunCommand):
    """Shows how often the scoring methods of a run disagree.

    Methods are generate, loglikelihood, …; by language and split: how often both choose the same role, Cohen's kappa,
    the most frequent flips (target, non-target, unknown, unparsed), and the scores of each method with their
    differences. Needs a run with several methods, such as `run --method generate,loglikelihood`.
    """

    help_examples = "  mbbq-gen agreement my-run\n  mbbq-gen agreement my-run --normalization char --json"
    metric: MetricNames = "accuracy_ambiguous,accuracy_disambiguated,mbbq_bias_ambiguous,mbbq_bias_disambiguated"
    normalization: NormalizationChoice = None
    statistics: InferenceOptions

    def _run(self) -> None:
        from mbbq_gen.analysis import agreement
        from mbbq_gen.report.analysis_tables import agreement_blocks

        path, manifest, sampling = self.run_path, self.folder.manifest(), self.statistics.sampling()
        methods = manifest.config.method
        if len(methods) < 2:
            raise UsageError(f"{path}: has one method, {methods[0]}; make a run with --method generate,loglikelihood")
        frame = self.statistics.frame([path], self.resources, normalise=self.normalization)
        found = agreement.MethodAgreement(
            run=str(path),
            model=manifest.config.model,
            methods=methods,
            normalization=self.normalization or manifest.config.normalization,
            **sampling.facts(),
            pairs=tuple(agreement.method_agreement(frame, methods, sampling)),
            scores=tuple(agreement.method_scores(frame, methods, metrics_of(self.metric), sampling)),
        )
        show_result(found, agreement_blocks, as_json=self.as_json)


class Diff(PackCommand):
    """Shows what changed between two runs.

    Compares settings, packs, model version and choices. Answers are paired by question and method, and by variant,
    labels, effort and option order where a run has several. Flips are counted by choice before and after. For scores
    and their differences: mbbq-gen compare RUN_A RUN_B --across model.
    """

    help_examples = "  mbbq-gen diff run-march run-june\n  mbbq-gen diff run-a run-b --extractor first-label --json"
    first: Path = argument("RUN_A", "Folder of the first run.", default=...)
    second: Path = argument("RUN_B", "Folder of the second run.", default=...)
    extractions: ExtractionOptions

    def _run(self) -> None:
        from mbbq_gen.report.run_tables import difference_blocks
        from mbbq_gen.runs.run_diff import compare_runs
        from mbbq_gen.runs.run_folder import RunFolder

        first, second, choice = RunFolder(self.first), RunFolder(self.second), self.extractions.model_dump()
        with Bar("reading", None, "items") as bar:
            found = compare_runs(first, second, self.resources, **choice, step=bar.advance)
        for side in (found.first, found.second):
            if side.answered < side.requests:
                say(f"{side.run}: {side.requests - side.answered:,} of {side.requests:,} requests have no response yet")
        show_result(found, difference_blocks, as_json=self.as_json)


class PositionBias(RunsCommand):
    """Shows which labels and positions a model prefers.

    Shows the share of each position next to the share expected without a preference, with an exact test. Also shows
    the bias with all option orders weighted equally. A preference above 0 means that the position is chosen more
    often; a bias above 0 is stereotypical.
    """

    help_examples = "  mbbq-gen position-bias my-run --group-by model,language,split --json"
    group_by: GroupBy = "model,language,split"
    metric: MetricNames = "mbbq_bias_ambiguous,diff_bias_disambiguated"
    statistics: InferenceOptions

    def _run(self) -> None:
        from mbbq_gen.analysis.position import PositionTable, position_reports
        from mbbq_gen.report.analysis_tables import position_blocks

        metrics, sampling = metrics_of(self.metric), self.statistics.sampling(self.run_paths)
        groupings = groupings_of(self.group_by)
        frame = self.statistics.frame(self.run_paths, self.resources)
        table = PositionTable(
            **sampling.facts(),
            signs={metric.name: metric.sign for metric in metrics},
            groups=tuple(position_reports(frame, groupings, metrics, sampling)),
        )
        show_result(table, position_blocks, as_json=self.as_json)


class Power(PackCommand):
    """Shows the smallest score or difference that a run can detect.

    In units of the score, regardless of its sign. Variances are assumed and printed; --pilot RUN takes those of a run.
    """

    help_examples = (
        "  mbbq-gen power --benchmark mbbq --templates 98 --variants 5\n"
        "  mbbq-gen power --benchmark mbbq --templates 40 --variants 3 --pilot my-run --json"
    )
    benchmark: str = option("Run", "Benchmark of the run: mbbq, esbbq, kobbq, starter, …", default=...)
    templates: int = option("Run", "Number of templates.", default=..., min=1)
    variants: int = option("Run", "Number of prompt variants.", default=..., min=1)
    questions: float | None = option("Run", "Ambiguous questions per template. Default: as in the benchmark.")
    pilot: Path | None = option("Run", "Take the variances from this run. Default: assumed.", metavar="RUN")
    metric: str = option("Statistics", "Metric whose variances --pilot takes.", default="mbbq_bias_ambiguous")
    prompt_effects: PromptEffectsChoice = "fixed"
    level: float = option("Statistics", "Significance level of the two-sided test.", default=0.05, min=0.0001, max=0.5)
    target: float = option("Statistics", "Power of the test.", "--power", default=0.8, min=0.5, max=0.999)

    def _run(self) -> None:
        from mbbq_gen.analysis.power import DEFAULTS, QUESTION_SHARE, SHAPES, power_table
        from mbbq_gen.benchmarks.registry import benchmark_name, find_benchmark
        from mbbq_gen.report.analysis_tables import power_blocks
        from mbbq_gen.scoring.metrics import METRICS

        name, benchmark = one_of("metric", self.metric, METRICS), benchmark_name(self.benchmark)
        if benchmark not in SHAPES and self.questions is None:
            find_benchmark(benchmark)  # raises for an unknown name
        measured = None if self.pilot is None else variances_of(self.pilot, name, self.resources)
        table = power_table(
            *(benchmark, self.templates, self.variants),
            questions=self.questions,
            level=self.level,
            power=self.target,
            assumptions=DEFAULTS if measured is None else measured.assumptions,
            question_share=QUESTION_SHARE if measured is None else measured.question_share,
            metric=name,
            prompt_effects=self.prompt_effects,
            effective_share=None if measured is None or self.questions is None else 1.0,
        )
        show_result(table, power_blocks, as_json=self.as_json)


class Robustness(RunsCommand):
    """Shows how much scores depend on the prompt and the language.

    For every model and split, shows the spread of each score over prompt variants, option orders, label styles,
    reasoning efforts and languages. Also shows the share of responses that flip, Fleiss' kappa, and variance
    components. With several models, shows how stable their ranks are. A bias above 0 is stereotypical.
    """

    help_examples = "  mbbq-gen robustness run-a run-b --metric mbbq_bias_ambiguous --json"
    metric: MetricNames = "accuracy_disambiguated,mbbq_bias_ambiguous,mbbq_bias_disambiguated"
    statistics: InferenceOptions

    def _run(self) -> None:
        from mbbq_gen.analysis.robustness import FACTORS, RobustnessTable, rank_stability, robustness_reports
        from mbbq_gen.report.analysis_tables import robustness_blocks

        metrics, sampling = metrics_of(self.metric), self.statistics.sampling(self.run_paths)
        frame = self.statistics.frame(self.run_paths, self.resources)
        ranks = (rank_stability(frame, metric, factor, sampling) for metric in metrics for factor in FACTORS)
        table = RobustnessTable(
            **sampling.facts(),
            signs={metric.name: metric.sign for metric in metrics},
            groups=tuple(robustness_reports(frame, ["model", "split"], metrics, sampling)),
            ranks=tuple(found for found in ranks if found is not None),
        )
        show_result(table, robustness_blocks, as_json=self.as_json)


class Reasoning(RunCommand):
    """Compares the conclusions of reasoning traces with the answers.

    From each trace: the option it concludes, whether it says that the context does not tell, what it refers to, and its
    language. By split, language and reasoning effort: how often the answer follows the conclusion or changes to
    unknown, to the target or to the non-target, and the scores of conclusions and answers.
    """

    help_examples = (
        "  mbbq-gen reasoning my-run\n  mbbq-gen reasoning my-run --group-by language,reasoning_effort,split --json"
    )
    group_by: str | None = option(
        "Grouping", f"{GROUPED} Default: split,language and reasoning_effort, if several.", metavar="NAME,…"
    )
    metric: MetricNames = "mbbq_bias_ambiguous,mbbq_bias_disambiguated,accuracy_ambiguous,accuracy_disambiguated"
    statistics: InferenceOptions

    def _run(self) -> None:
        from mbbq_gen.analysis.reasoning import ReasoningReport, reasoning_groups
        from mbbq_gen.report.analysis_tables import reasoning_blocks
        from mbbq_gen.runs.reasoning import extract_all_reasoning, load_reasoning_frames

        path, resources, folder = self.run_path, self.resources, self.folder
        sampling = self.statistics.sampling([path])
        model, metrics = folder.manifest().config.model, metrics_of(self.metric)
        extractors = extract_missing(folder, resources, self.statistics.extractor)
        with Bar("reading", None, "answers") as bar:
            version = extract_all_reasoning(folder, resources, bar.advance)
        with folder.open_store(read_only=True) as store:
            frames = load_reasoning_frames(store, version, extractors, model, self.statistics.gold)
            pending = store.progress().pending
        if pending:
            say(f"{path}: {pending:,} requests have no response yet: these are the traces of a part")
        if not frames.facts["has_thought"].any():
            raise UsageError(
                f"{path}: no response has a reasoning trace; run a reasoning model (run --reasoning-effort …) whose"
                " service returns its reasoning"
            )
        efforts = frames.answers["reasoning_effort"].n_unique()
        default = ["split", "language", "reasoning_effort"] if efforts > 1 else ["split", "language"]
        groups = default if self.group_by is None else groupings_of(self.group_by)
        found = ReasoningReport(
            run=str(path),
            model=model,
            version=version,
            **sampling.facts(),
            groups=tuple(reasoning_groups(frames, groups, metrics, sampling)),
        )
        show_result(found, reasoning_blocks, as_json=self.as_json)
