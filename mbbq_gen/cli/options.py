"""Options that commands share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, get_args

from pydantic import model_validator

from mbbq_gen.cli.command import Options, Packs, argument, option
from mbbq_gen.cli.output import say
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Instance, Split
from mbbq_gen.core.text import all_of, one_of, words
from mbbq_gen.scoring.codes import Average, PromptEffects

if TYPE_CHECKING:
    import polars

    from mbbq_gen.runs.distributed.cluster import MapWorkers
    from mbbq_gen.runs.observations import Answers
    from mbbq_gen.scoring.metrics import Metric
    from mbbq_gen.scoring.observations import GoldLabels
    from mbbq_gen.statistics.estimate import InferenceSettings


def _studied(paths: list[Path] | None) -> list[Path] | None:
    """The run folders, with a study's file or folder replaced by its runs."""
    from mbbq_gen.runs.study import resolve_run_paths

    return resolve_run_paths(paths) if paths else paths


_RUNS = "Run folders, or a study's file or folder."
PRICES = "Your own prices (TOML); they override those of the package genai-prices."
GROUPS = "comma-separated: model, benchmark, language, split, category, template, variant, …"

RunPaths = Annotated[list[Path], argument("RUN", _RUNS, default=..., callback=_studied)]
AnyRunPaths = Annotated[list[Path] | None, argument("RUN", _RUNS, callback=_studied)]
Verbose = Annotated[
    bool, option("", "Also show both splits, all footnotes and the outcomes of extraction.", "--verbose", "-v")
]
Languages = Annotated[
    str | None, option("Questions", "Only these languages, comma-separated. Default: all.", metavar="XX,…")
]
RunLanguages = Annotated[
    str | None,
    option("What to extract", "Only these languages of the run, comma-separated. Default: all.", metavar="XX,…"),
]
Data = Annotated[
    Path | None,
    option(
        "Questions",
        "Folder of the benchmark's published files. Default: the release from `mbbq-gen data download`.",
        metavar="DIR",
    ),
]
Instances = Annotated[
    Path | None,
    option("Questions", "Your own questions instead: a JSON Lines, CSV, TSV or Parquet file.", metavar="FILE"),
]
FieldMap = Annotated[
    Path | None,
    option("Questions", "TOML file that maps the fields of --instances to those of mbbq-gen.", metavar="TOML"),
]
Splits = Annotated[str, option("Questions", "Splits, comma-separated: bias, control, or both.", metavar="SPLIT,…")]
HtmlFile = Annotated[Path | None, option("Files", "Also write the tables as an HTML page.", metavar="FILE.html")]
HtmlPage = Annotated[Path | None, option("Files", "Write an HTML page.", "--output", "-o", metavar="FILE.html")]
MetricNames = Annotated[
    str, option("Grouping", "Metrics, comma-separated, or `all`; for names: `mbbq-gen score --help`.", metavar="NAME,…")
]
NormalizationChoice = Annotated[
    str | None,
    option(
        "What to score",
        "Normalization of loglikelihoods: sum (none); token, char or byte (divided by their number; char is acc_norm "
        "of lm-eval); or pmi (see `mbbq-gen run --help`). Default: the run's.",
        metavar="TYPE",
    ),
]
GroupBy = Annotated[str, option("Grouping", f"Group the scores by these, {GROUPS}", metavar="NAME,…")]
AnswersChoice = Annotated[
    str,
    option(
        "What to score",
        "Answers to score: first, or follow-up (replies to `run --follow-up` where nothing could be read).",
    ),
]
CorrectWith = Annotated[
    str | None,
    option(
        "Also show",
        "Scores corrected for extraction errors: annotations (of `mbbq-gen annotate`) or follow-up (`run --follow-up "
        "unread --follow-up-check N`).",
        metavar="SOURCE",
    ),
]
PromptEffectsChoice = Annotated[
    str,
    option(
        "Statistics",
        "What intervals and tests hold for: fixed (only these prompt variants) or random (all variants like them; "
        "needs at least three).",
        metavar="TYPE",
    ),
]
ConfidenceLevel = Annotated[float, option("Statistics", "Confidence level of the intervals.", min=0.5, max=0.999)]


def equivalence_option(what: str) -> Any:
    """The option --equivalence-margin of a command; `what` is tested."""
    text = f"Also test whether {what} is within ±MARGIN of 0, such as 0.03. Default: no test."
    return option("Statistics", text, min=0.0001, max=0.9999, metavar="MARGIN")


class InferenceOptions(Options):
    """Options of every score with an interval."""

    extractor: str = option(
        "What to score",
        "Extractor whose results are used: rules, a simple one (strict-match, first-label, mbbq-like, answer-line), "
        "judge:NAME, or a stored version.",
        default="rules",
    )
    gold: str = option(
        "What to score",
        "Gold labels: published, or corrected (known errors fixed).",
        default="published",
        metavar="SOURCE",
    )
    unparsed: str = option(
        "Statistics",
        "Unparsed responses in the denominators of bias scores: discard (left out) or keep (counted as neither "
        "answer).",
        default="discard",
        metavar="ACTION",
    )
    confidence_level: ConfidenceLevel = 0.95
    n_resamples: int = option("Statistics", "Number of bootstrap resamples of templates.", default=2000, min=100)
    seed: int = option("Statistics", "Seed of bootstrap resamples and permutation tests.", default=0, min=0)

    def chosen_gold(self) -> GoldLabels:
        """The gold labels to score by."""
        from mbbq_gen.scoring.observations import GoldLabels

        return one_of("gold labels", self.gold, get_args(GoldLabels))

    def frame(self, paths: Sequence[Path], where: PackPaths, **more: Any) -> polars.DataFrame:
        """The observations of runs; `more` as `loading.runs_frame` takes it."""
        from mbbq_gen.cli.loading import runs_frame

        return runs_frame(paths, where, self.chosen_gold(), extractor=self.extractor, **more)

    def settings(self) -> InferenceSettings:
        """The settings of intervals and tests as given."""
        from mbbq_gen.scoring.cells import UnparsedPolicy
        from mbbq_gen.statistics.estimate import InferenceSettings

        unparsed = one_of("choice for --unparsed", self.unparsed, get_args(UnparsedPolicy))
        return InferenceSettings(self.confidence_level, self.n_resamples, self.seed, unparsed)

    def sampling(self, runs: Sequence[Path] = ()) -> InferenceSettings:
        """The settings of intervals and tests; wider intervals for runs with interim looks."""
        from mbbq_gen.runs.run_folder import RunFolder
        from mbbq_gen.runs.stopping_rule import sequential_inference

        folders = map(RunFolder, dict.fromkeys(runs))
        stops = [folder.manifest().adaptive for folder in folders if folder.manifest_path.is_file()]
        return sequential_inference(self.settings(), stops, say)


class ScoreOptions(InferenceOptions):
    """Options of scores that can be averaged over templates."""

    average: str = option(
        "Statistics",
        "What a score is the mean over: questions (large templates weigh more), templates (each alike) or "
        "random-effects (templates, weighted by how exactly each is known; narrower intervals).",
        default="questions",
        metavar="TYPE",
    )
    unseen_deviation: float = option(
        "Statistics",
        "How far the score of an unseen template may lie off, where few templates differ (0 to 2).",
        default=0.3,
        min=0,
    )
    unseen_stretch: float = option(
        "Statistics", "How much farther near an end of the scale, times the scale's length.", default=1.2, min=0
    )
    prompt_effects: PromptEffectsChoice = "fixed"

    def settings(self) -> InferenceSettings:
        """The settings of intervals and tests as given."""
        return replace(
            InferenceOptions.settings(self),
            prompt_effects=prompt_effects_of(self.prompt_effects),
            average=average_of(self.average),
            unseen_deviation=self.unseen_deviation,
            unseen_stretch=self.unseen_stretch,
        )


class QuestionOptions(Options):
    """A benchmark and where its files are, or a file."""

    benchmark: str | None = argument("BENCHMARK", "Benchmark, see `mbbq-gen data list`.")
    data_dir: Data = None
    instances: Instances = None
    instances_field_map: FieldMap = None
    languages: Languages = None
    packs: Packs = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        from mbbq_gen.runs.resolve import check_own_data

        check_own_data(self.benchmark, self.data_dir, self.instances, self.instances_field_map)
        return self

    def load(self, splits: list[Split] | None = None) -> Iterator[Instance]:
        """The questions in the languages and these splits, one by one; None for all there are.

        Raises:
            UsageError: where there is nothing to read, or no such language.
            DataError: while reading, at the first row that is wrong.
        """
        from mbbq_gen.benchmarks.own_file import read_instances
        from mbbq_gen.benchmarks.registry import load_benchmark
        from mbbq_gen.benchmarks.releases import benchmark_folder

        languages = words(self.languages) if self.languages else None
        if self.instances is not None:
            return (
                found
                for found in read_instances(self.instances, self.instances_field_map)
                if (languages is None or found.language in languages) and (splits is None or found.split in splits)
            )
        if self.benchmark is None:
            raise UsageError("name a benchmark (see `mbbq-gen data list`) or give --instances FILE")
        return load_benchmark(
            self.benchmark,
            data=benchmark_folder(self.benchmark, self.data_dir),
            languages=languages,
            splits=splits,
            resources=PackPaths(packs=self.packs),
        )


class WorkerOptions(Options):
    """Where stored responses are extracted and scored."""

    ray: str | None = option(
        "Scale",
        "Use Ray workers: local (starts Ray here), HOST:PORT or ray://HOST:PORT. Default: in this process.",
        metavar="WHERE",
    )
    workers: int | None = option("Scale", "With --ray: number of workers. Default: 2.", min=1)

    def helpers(self) -> MapWorkers | None:
        """The workers; None: this process.

        Raises:
            UsageError: options of workers are given without --ray.
            MissingExtraError: Ray is not installed.
        """
        from mbbq_gen.runs.distributed.cluster import MapWorkers, check_on

        if self.ray is None:
            if self.workers is not None:
                raise UsageError("--workers: needs --ray")
            return None
        check_on(self.ray)
        return MapWorkers(self.ray, self.workers or 2)


def inference_facts(sampling: InferenceSettings) -> dict[str, Any]:
    """What a report says of its intervals and tests."""
    return {
        "confidence_level": sampling.confidence,
        "n_resamples": sampling.n_resamples,
        "seed": sampling.seed,
        "unparsed": sampling.unparsed,
    }


def average_of(name: str) -> Average:
    """The checked value of --average."""
    return one_of("average", name, get_args(Average))


def prompt_effects_of(name: str) -> PromptEffects:
    """The checked value of --prompt-effects."""
    return one_of("choice for --prompt-effects", name, get_args(PromptEffects))


def answers_of(name: str, correct_with: str | None) -> Answers:
    """The checked value of --answers."""
    from mbbq_gen.runs.observations import Answers

    if name != "first" and correct_with is not None:
        raise UsageError(
            f"--answers {name}: --correct-with {correct_with} corrects first answers; leave one of them out"
        )
    return one_of("choice for --answers", name, get_args(Answers))


def check_correction(correct_with: str | None, sampling: InferenceSettings) -> None:
    """Makes sure that scores can be corrected with these settings.

    Raises:
        UsageError: they can't.
    """
    if correct_with is None:
        return
    corrected = f"--correct-with {correct_with}: corrected scores are"
    if sampling.prompt_effects == "random":
        raise UsageError(f"{corrected} for fixed prompt variants; leave --prompt-effects out")
    if sampling.average != "questions":
        raise UsageError(f"{corrected} means over questions; leave --average out")


def metrics_of(names: str) -> list[Metric]:
    """The metrics of a comma-separated list, or all."""
    from mbbq_gen.scoring.metrics import METRICS

    return [METRICS[name] for name in (METRICS if names == "all" else all_of("metric", names, list(METRICS)))]
