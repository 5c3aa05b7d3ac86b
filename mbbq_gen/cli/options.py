"""Options that commands share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from mbbq_gen.cli.command import Options, PackCommand, argument, option, settings
from mbbq_gen.cli.output import say
from mbbq_gen.core.config import BenchmarkChoice, RunConfig
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.progress import Bar
from mbbq_gen.core.records import NO_RESPONSE, Instance, Normalise, Split
from mbbq_gen.core.text import all_of, words
from mbbq_gen.scoring.codes import Average, PromptEffects

if TYPE_CHECKING:
    import polars

    from mbbq_gen.analysis.correction import AnnotatedFrame
    from mbbq_gen.analysis.design import Components
    from mbbq_gen.runs.run_folder import RunFolder
    from mbbq_gen.scoring.metrics import Metric
    from mbbq_gen.statistics.estimate import InferenceSettings


def _expand_studies(paths: list[Path] | None) -> list[Path] | None:
    """The run folders, with each study replaced by its runs."""
    from mbbq_gen.runs.study import resolve_run_paths

    return resolve_run_paths(paths) if paths else paths


_RUNS = "Run folders, or a study's file or folder."
GROUPS = "comma-separated: model, benchmark, language, split, category, template, variant, …"
GROUPED = f"Group the scores by these, {GROUPS}"

RunPaths = Annotated[list[Path], argument("RUN", _RUNS, default=..., callback=_expand_studies)]
AnyRunPaths = Annotated[list[Path] | None, argument("RUN", _RUNS, callback=_expand_studies)]
Languages = Annotated[
    str | None, option("Questions", "Only these languages, comma-separated. Default: all.", metavar="XX,…")
]
Splits = Annotated[
    tuple[Split, ...],
    option("Questions", "Splits, comma-separated: bias, control, or both.", metavar="SPLIT,…"),
]
HtmlPage = Annotated[Path | None, option("Files", "Write an HTML page.", "--output", "-o", metavar="FILE.html")]
MetricNames = Annotated[
    str, option("Grouping", "Metrics, comma-separated, or `all`; for names: `mbbq-gen score --help`.", metavar="NAME,…")
]
NormalizationChoice = Annotated[
    Normalise | None,
    option(
        "What to score",
        "Normalization of loglikelihoods: sum (none); token, char or byte (divided by their number; char is acc_norm "
        "of lm-eval); or pmi (see `mbbq-gen run --help`). Default: the run's.",
    ),
]
GroupBy = Annotated[str, option("Grouping", GROUPED, metavar="NAME,…")]
AnswersChoice = Annotated[
    Literal["first", "follow-up"],
    option("What to score", "Answers to score: first, or follow-up (`run --follow-up`) where nothing could be read."),
]
CorrectWith = Annotated[
    Literal["annotations"] | None,
    option("Also show", "Scores corrected for extraction errors: annotations (of `mbbq-gen annotate`)."),
]
PromptEffectsChoice = Annotated[
    PromptEffects,
    option(
        "Statistics",
        "What intervals and tests hold for: fixed (only these prompt variants) or random (all variants like them; "
        "needs at least three).",
    ),
]
AverageChoice = Annotated[
    Average,
    option(
        "Statistics",
        "What a score is the mean over: questions (large templates weigh more) or templates (each alike).",
    ),
]
ConfidenceLevel = Annotated[float, option("Statistics", "Confidence level of the intervals.", min=0.5, max=0.999)]


def equivalence_option(what: str) -> Any:
    """Declares --equivalence-margin; `what` names the tested scores."""
    text = f"Also test whether {what} is within ±MARGIN of 0, such as 0.03. Default: no test."
    return option("Statistics", text, min=0.0001, max=0.9999, metavar="MARGIN")


class ExtractionOptions(Options):
    """Options for the extractions and gold labels that count."""

    extractor: str = option(
        "What to score",
        "Extractor whose results are used: rules, a simple one (strict-match, first-label, mbbq-like, answer-line), "
        "judge:NAME, or a stored version.",
        default="rules",
    )
    gold: Literal["published", "corrected"] = option(
        "What to score", "Gold labels: published, or corrected (known errors fixed).", default="published"
    )


class InferenceOptions(ExtractionOptions):
    """Options of every score with an interval."""

    unparsed: Literal["discard", "keep"] = option(
        "Statistics",
        "Unparsed responses in the denominators of bias scores: discard (left out) or keep (counted as neither "
        "answer).",
        default="discard",
    )
    confidence_level: ConfidenceLevel = 0.95
    n_resamples: int = option("Statistics", "Number of bootstrap resamples of templates.", default=2000, min=100)
    seed: int = option("Statistics", "Seed of bootstrap resamples and permutation tests.", default=0, min=0)

    def frame(self, paths: Sequence[Path], resources: PackPaths, **more: Any) -> polars.DataFrame:
        """The observations of runs, after missing extractions; `more`: further fields of `LoadOptions`."""
        from mbbq_gen.runs.observations import LoadOptions, load_observations

        with Bar("reading", None, "answers") as bar:
            reading = LoadOptions(resources, self.gold, self.extractor, step=bar.advance, tell=say, **more)
            frame = load_observations(paths, reading)
        warn_without_responses(frame)
        return frame

    def labels(self, paths: Sequence[Path], resources: PackPaths, source: str | None) -> AnnotatedFrame | None:
        """The annotated responses of runs, None without a source; prints how many are left out."""
        from mbbq_gen.annotation.annotations import runs_labels
        from mbbq_gen.statistics.ppi import MIN_LABELS

        if source is None:
            return None
        labels = runs_labels(paths, resources, gold=self.gold, extractor=self.extractor, at_least=MIN_LABELS)
        if labels.unsampled_annotations:
            say(f"{labels.unsampled_annotations:,} annotations are in no sample that was drawn: left out")
        return labels

    def sampling(self, runs: Sequence[Path] = ()) -> InferenceSettings:
        """The settings of intervals and tests; intervals are wider for runs with interim looks."""
        from mbbq_gen.runs.run_folder import RunFolder
        from mbbq_gen.runs.stopping_rule import sequential_inference
        from mbbq_gen.statistics.estimate import InferenceSettings

        folders = map(RunFolder, dict.fromkeys(runs))
        adaptive = [folder.manifest().adaptive for folder in folders if folder.manifest_path.is_file()]
        rest = self.model_dump(exclude={"extractor", "gold", "confidence_level"})
        return sequential_inference(InferenceSettings(self.confidence_level, **rest), adaptive, say)


class ScoreOptions(InferenceOptions):
    """Options of scores that can be averaged over templates."""

    average: AverageChoice = "questions"
    prompt_effects: PromptEffectsChoice = "fixed"


class RunsCommand(PackCommand):
    """A command for the scores of runs."""

    run_paths: RunPaths


class QuestionCommand(PackCommand):
    """A command for the questions of a benchmark or a file."""

    benchmark: str | None = argument("BENCHMARK", "Benchmark, see `mbbq-gen data list`.")
    config: RunConfig = settings(("data_dir", "instances", "instances_field_map", "languages"))

    def questions(self, splits: Sequence[Split] = ()) -> Iterator[Instance]:
        """The questions in the chosen languages and these splits; without splits, in all."""
        from mbbq_gen.benchmarks.registry import find_benchmark

        if self.benchmark is None and self.config.instances is None:
            raise UsageError("name a benchmark (see `mbbq-gen data list`) or give --instances FILE")
        if self.benchmark is not None:
            find_benchmark(self.benchmark)
        names = (self.benchmark,) if self.benchmark is not None else ()
        for _, loaded in load_questions(self.config.model_copy(update={"benchmark": names}), splits, self.resources):
            yield from loaded


def load_questions(
    config: RunConfig, splits: Sequence[Split], resources: PackPaths
) -> Iterator[tuple[BenchmarkChoice, Iterator[Instance]]]:
    """Each benchmark of a configuration with its questions in these languages and splits; without splits, in all."""
    from mbbq_gen.runs.resolve import ALL, InstanceSource, located

    config = located(config)
    source, languages = InstanceSource(config, resources), () if config.languages == ALL else config.languages
    for choice in config.benchmarks:
        yield choice, (question.build() for question in source(choice, languages, splits))


def extract_missing(folder: RunFolder, resources: PackPaths, extractor: str = "rules") -> dict[str, str]:
    """Extracts responses that are not extracted yet; returns the extractor version of each language."""
    from mbbq_gen.runs.observations import ensure_extracted

    with Bar("reading", None, "answers") as bar:
        return ensure_extracted(folder, resources, extractor, bar.advance)


def warn_without_responses(frame: polars.DataFrame) -> None:
    """Prints a warning if no request has a response."""
    if frame.height and frame["outcome"].cast(str).is_in(sorted(NO_RESPONSE)).all():
        say(f"none of the {frame.height:,} requests has a response (error or filtered): every score is undefined")


def varying(frame: polars.DataFrame, *groupings: str) -> list[str]:
    """The groupings with several values in the table."""
    from mbbq_gen.scoring.tally import GROUPINGS

    return [name for name in groupings if frame[GROUPINGS[name]].n_unique() > 1]


def variances_of(path: Path, metric: str, resources: PackPaths) -> Components:
    """The variances of a run's bias split."""
    from mbbq_gen.analysis.design import measured_components
    from mbbq_gen.scoring.metrics import METRICS

    return measured_components(InferenceOptions().frame([path], resources), METRICS[metric], str(path))


def check_correction(correct_with: str | None, sampling: InferenceSettings, answers: str = "first") -> None:
    """Raises UsageError if scores can't be corrected with these settings."""
    if correct_with is None:
        return
    corrected = f"--correct-with {correct_with}: corrected scores are"
    if answers != "first":
        raise UsageError(f"{corrected} of first answers; leave --answers out")
    if sampling.prompt_effects == "random":
        raise UsageError(f"{corrected} for fixed prompt variants; leave --prompt-effects out")
    if sampling.average != "questions":
        raise UsageError(f"{corrected} means over questions; leave --average out")


def metrics_of(names: str) -> list[Metric]:
    """The metrics of a comma-separated list, or of `all`."""
    from mbbq_gen.scoring.metrics import METRICS

    return [METRICS[name] for name in (METRICS if names == "all" else all_of("metric", names, list(METRICS)))]


def groupings_of(names: str | None) -> list[str]:
    """The groupings of a comma-separated list."""
    from mbbq_gen.scoring.tally import GROUPINGS

    return all_of("grouping", names, list(GROUPINGS)) if names and words(names) else []
