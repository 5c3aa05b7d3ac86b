"""Command `score`: all metrics by any grouping, with counts and intervals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mbbq_gen.cli.command import PackCommand, flag, option
from mbbq_gen.cli.options import (
    GROUPED,
    AnswersChoice,
    AnyRunPaths,
    CorrectWith,
    MetricNames,
    NormalizationChoice,
    ScoreOptions,
    check_correction,
    equivalence_option,
    groupings_of,
    metrics_of,
    warn_without_responses,
)
from mbbq_gen.cli.output import open_lines, say, show_result
from mbbq_gen.core.errors import DataError, UsageError

if TYPE_CHECKING:
    import polars

    from mbbq_gen.analysis.correction import AnnotatedFrame
    from mbbq_gen.analysis.score_extras import ScoreReport, StoppedEstimate
    from mbbq_gen.statistics.estimate import InferenceSettings


class Score(PackCommand):
    """Scores runs, or answers in a JSON Lines file.

    Shows all metrics with counts and confidence intervals clustered by template. The scores of one run are also written
    to RUN/scores.json, unless --extractor, --normalization or --answers select others. --jsonl always prints JSON.

    Metrics: parse_rate, accuracy_ambiguous, accuracy_disambiguated, mbbq_bias_ambiguous, mbbq_bias_disambiguated,
    diff_bias_ambiguous, diff_bias_disambiguated, diff_bias_ambiguous_bound, diff_bias_disambiguated_bound, bbq_s_dis,
    bbq_s_amb, bbq_nonaligned_cost, bharat_bs_ambiguous, bharat_bs_disambiguated, bharat_sbs_ambiguous,
    bharat_sbs_disambiguated, target_preference, bias_adjusted_accuracy.
    """

    help_examples = (
        "  mbbq-gen score my-run --group-by language,category --json\n"
        "  mbbq-gen score run-a run-b --group-by model,language,split --macro-average category\n"
        "  mbbq-gen score my-run --equivalence-margin 0.03          (is every bias within 0.03 of 0?)\n"
        "  mbbq-gen score --jsonl answers.jsonl > scores.json"
    )
    run_paths: AnyRunPaths = None
    jsonl: Path | None = option(
        "What to score",
        "Instead of runs: JSON Lines of questions, each with its `option`, `outcome` or `response`; - reads stdin.",
    )
    normalization: NormalizationChoice = None
    subset: Literal["all", "bharat_pairs"] = option(
        "What to score", "Responses: all, or bharat_pairs (BharatBBQ's pair-filtered subset).", default="all"
    )
    group_by: str | None = option("Grouping", f"{GROUPED} Default: language,split.", metavar="NAME,…")
    metric: MetricNames = "all"
    macro_average: Literal["category", "variant"] | None = option("Grouping", "Also average over: category or variant.")
    answers: AnswersChoice = "first"
    statistics: ScoreOptions
    tests: bool = flag("Statistics", "Also test whether each score differs from 0.")
    equivalence_margin: float | None = equivalence_option("each bias")
    control_adjusted: bool = flag("Also show", "Each bias minus the same score on the control split.")
    baselines: bool = flag("Also show", "Scores of trivial models on the same questions.")
    correct_with: CorrectWith = None
    csv: Path | None = option("Files", "Also write the scores as CSV, one row per group and metric.", metavar="FILE")

    def _run(self) -> None:
        from mbbq_gen.report.score_tables import score_report_blocks, write_scores
        from mbbq_gen.scoring.tally import subset

        runs = self.run_paths or []
        groupings = ["language", "split"] if self.group_by is None else groupings_of(self.group_by)
        sampling = self.statistics.sampling(runs)
        self._check(sampling)
        labelled = self.statistics.labels(runs, self.resources, self.correct_with)
        frame = subset(self._observations(), self.subset)
        if self.normalization is not None and (frame["method"] == "generate").all():
            raise UsageError(f"--normalization {self.normalization}: there are no loglikelihoods here; leave it out")
        for grouping, noun in _missing_groupings(frame, groupings, with_models=self.group_by is None):
            say(f"{noun} are kept apart: added {grouping} to --group-by")
            groupings.append(grouping)
        report = self._scored(frame, groupings, sampling, labelled).model_copy(
            update={"subset": self.subset, "normalization": self.normalization, "answers": self.answers}
        )
        if self.csv is not None:
            write_scores(report, self.csv)
        if len(runs) == 1 and (self.statistics.extractor, self.normalization, self.answers) == ("rules", None, "first"):
            _store(report, runs[0] / "scores.json")
        show_result(report, score_report_blocks, as_json=self.as_json or self.jsonl is not None)

    def _check(self, sampling: InferenceSettings) -> None:
        """Raises UsageError for options that exclude each other."""
        jsonl, extractor, runs = self.jsonl, self.statistics.extractor, self.run_paths or []
        if bool(runs) == (jsonl is not None):
            raise UsageError("give a run folder or --jsonl FILE, one of them")
        check_correction(self.correct_with, sampling, self.answers)
        if jsonl is not None and extractor != "rules":
            raise UsageError(
                f"first: mbbq-gen extract --jsonl {jsonl} --extractor {extractor} -o FILE; then score FILE"
            )
        for name, other, are_given in (
            ("--jsonl", "--answers", jsonl is not None and self.answers != "first"),
            ("--jsonl", "--correct-with", jsonl is not None and self.correct_with is not None),
            ("--subset", "--correct-with", self.subset != "all" and self.correct_with is not None),
        ):
            if are_given:
                raise UsageError(f"{name}, {other}: do not go together; leave one of the two out")

    def _observations(self) -> polars.DataFrame:
        """The observations of the runs or of the file."""
        from mbbq_gen.interchange.jsonl import observe_lines
        from mbbq_gen.scoring.observations import observations_frame

        resources, gold, path = self.resources, self.statistics.gold, self.jsonl
        if path is None:
            choice: dict[str, Any] = {"normalise": self.normalization, "answers": self.answers}
            return self.statistics.frame(self.run_paths or (), resources, **choice)
        frame = observations_frame(observe_lines(open_lines(path), str(path), gold=gold, resources=resources))
        if not frame.height:
            raise DataError(f"{path}: no line with an answer in it: there is nothing to score")
        repeats = frame.height - frame.select(_SAME_PROMPT).n_unique()
        if repeats:
            say(f"{path}: {repeats:,} lines repeat the prompt of another line: all of them count, copies too")
        warn_without_responses(frame)
        return frame

    def _scored(
        self,
        frame: polars.DataFrame,
        by: list[str],
        sampling: InferenceSettings,
        labelled: AnnotatedFrame | None,
    ) -> ScoreReport:
        """The scores, with the requested tests and analyses."""
        from mbbq_gen.analysis import score_extras as extras
        from mbbq_gen.analysis.ability import adjusted_scores
        from mbbq_gen.analysis.correction import confidence_shares, correction
        from mbbq_gen.analysis.scores import score
        from mbbq_gen.runs.observations import follow_up_reports

        paths, margin, metrics = self.run_paths or [], self.equivalence_margin, metrics_of(self.metric)
        gold = self.statistics.gold
        more: dict[str, Iterable[Any]] = {"stopped": _stopped_estimates(paths)}
        if self.macro_average:
            more["macro_averages"] = extras.macro_averages(frame, by, self.macro_average, metrics, sampling)
        if self.control_adjusted:  # compares the two splits, so split is no grouping
            biases = [metric for metric in metrics if metric.low < 0]
            more["adjusted"] = adjusted_scores(frame, [name for name in by if name != "split"], biases, sampling)
        if self.tests or margin is not None:
            more["tests"] = extras.group_tests(frame, by, metrics, sampling, against_zero=self.tests, margin=margin)
        if self.baselines:
            more["baselines"] = extras.baseline_scores(frame, by, metrics, sampling)
        if self.jsonl is None:
            more["confidences"] = confidence_shares(frame, by)
        if paths:
            more["follow_ups"] = follow_up_reports(paths, self.resources, sampling, gold)
        fields: dict[str, Any] = dict(score(frame, by, [metric.name for metric in metrics], sampling, gold=gold))
        fields |= {name: tuple(entries) for name, entries in more.items()}
        if labelled is not None:
            fields["correction"] = correction(frame, labelled, by, metrics, sampling)
        return extras.ScoreReport(**fields, extractor=self.statistics.extractor)


def _store(report: ScoreReport, path: Path) -> None:
    """Writes scores into the folder of their run; says so if it can't be written to."""
    from mbbq_gen.storage.shards import write_durably

    try:
        write_durably(path, f"{report.model_dump_json(indent=2)}\n".encode())
    except OSError as error:
        say(f"{path}: not written: {error.strerror}")


_SAME_PROMPT = (
    *("model", "method", "benchmark", "split", "language", "category", "template_id", "instance_id"),
    *("variant", "label_style", "option_order"),
)
"""Columns that are equal for two answers to the same prompt."""


def _missing_groupings(frame: polars.DataFrame, by: list[str], *, with_models: bool) -> Iterator[tuple[str, str]]:
    """The groupings to add so that methods, models and splits are not pooled."""
    if "method" not in by and frame["method"].n_unique() > 1:
        yield "method", "methods"
    models = [part["model"].n_unique() for part in frame.partition_by("method")]
    if with_models and "model" not in by and max(models, default=0) > 1:
        yield "model", "models"
    if "split" not in by and frame["split"].n_unique() > 1:
        yield "split", "bias and control questions"


def _stopped_estimates(paths: list[Path]) -> Iterator[StoppedEstimate]:
    """The estimates of adaptive runs that stopped on their result, with adjusted values."""
    from mbbq_gen.analysis.score_extras import StoppedEstimate
    from mbbq_gen.runs.run_folder import RunFolder

    names = [name for name in StoppedEstimate.model_fields if name != "run"]
    for folder in map(RunFolder, dict.fromkeys(paths)):
        stop = folder.manifest().adaptive if folder.manifest_path.is_file() else None
        for target in () if stop is None else stop.targets:
            if target.adjusted_value is not None:
                yield StoppedEstimate(run=str(folder.path), **{name: getattr(target, name) for name in names})
