"""The leaderboard's records, and their making from the answers of several runs.

Rows are models × benchmarks × languages. There is no rank over all of them and no number that sums them up: see
docs/figures.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, get_args

from mbbq_gen.analysis.ability import CHANCE
from mbbq_gen.analysis.scores import Bounds, GroupScore, MetricDefinition, score
from mbbq_gen.core.config import OWN_DATA
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.records import FrozenModel, Split
from mbbq_gen.report.assessments import (
    NEEDED,
    NO_CLAIM,
    READ_FEW,
    UNINTERPRETABLE,
    Direction,
    Standing,
    directions,
    standing,
)
from mbbq_gen.report.comparability import PromptFingerprint, group_same_prompts, prompt_fingerprint
from mbbq_gen.report.conclusions import listing
from mbbq_gen.runs.run_folder import serving_difference
from mbbq_gen.scoring.codes import FEW_TEMPLATES, MIN_TEMPLATES, TOO_FEW, Average, PromptEffects
from mbbq_gen.scoring.metrics import METRICS, Metric
from mbbq_gen.statistics.estimate import Estimate, InferenceSettings, combine
from mbbq_gen.statistics.panel import make_panel

if TYPE_CHECKING:
    import polars

    from mbbq_gen.runs.run_folder import Manifest

    Manifests = Mapping[tuple[str, str], Manifest]
    """Model, as the table calls it, and benchmark → the manifest of the run."""
    Rows = Mapping[str, Sequence["LeaderboardRow"]]
    """Model → its rows, one a language."""


class RankInterval(FrozenModel):
    """The ranks that a model may have."""

    best: int
    """From 1."""
    worst: int
    of: int
    """Models that are ranked."""


def rank_ranges(metric: Metric, estimates: Sequence[Estimate], confidence: float) -> list[RankInterval | None]:
    """The range of each estimate of one panel; None for undefined ones, and where fewer than two are defined."""
    defined = [place for place, estimate in enumerate(estimates) if estimate.value == estimate.value]
    n = len(defined)
    if n < 2:
        return [None] * len(estimates)
    level = 1 - (1 - confidence) / (n * (n - 1) / 2)
    above = {
        (first, second): _is_above(metric, estimates[first], estimates[second], level)
        for first in defined
        for second in defined
        if first != second
    }
    ranks = {
        place: RankInterval(
            best=1 + sum(above[other, place] for other in defined if other != place),
            worst=n - sum(above[place, other] for other in defined if other != place),
            of=n,
        )
        for place in defined
    }
    return [ranks.get(place) for place in range(len(estimates))]


def _is_above(metric: Metric, first: Estimate, second: Estimate, level: float) -> bool:
    """Whether the first is better for sure."""
    difference = _sure_sign(combine((second, first), (1.0, -1.0)), level)
    if metric.low >= 0:
        return difference < 0
    return difference != 0 and difference == _sure_sign(combine((second, first), (1.0, 1.0)), level)


def _sure_sign(estimate: Estimate, level: float) -> int:
    """The side of 0 that the number is on for sure; 0 where that is open, or templates or wordings are too few."""
    if not abs(estimate.value) > estimate.analytic_reach(level):  # NaN too
        return 0
    return 1 if estimate.value > 0 else -1


ScoreName = Literal[
    "accuracy_ambiguous",
    "accuracy_disambiguated",
    "control_accuracy",
    "mbbq_bias_ambiguous",
    "diff_bias_disambiguated",
]
BOARD_METRICS: dict[ScoreName, tuple[Split, str]] = {
    "accuracy_ambiguous": ("bias", "accuracy_ambiguous"),
    "accuracy_disambiguated": ("bias", "accuracy_disambiguated"),
    "control_accuracy": ("control", "accuracy_disambiguated"),
    "mbbq_bias_ambiguous": ("bias", "mbbq_bias_ambiguous"),
    "diff_bias_disambiguated": ("bias", "diff_bias_disambiguated"),
}
"""Score of the board → split and metric that it is."""
CautionCode = Literal[
    "low_parse_rate",
    "at_chance",
    "too_few_templates",
    "few_templates",
    "no_control",
    "prompts_differ",
    "control_prompts_differ",
]
CAUTIONS: dict[CautionCode, str] = {
    "low_parse_rate": f"fewer than {READ_FEW:.0%} of the answers were parsed: its bias has no rank",
    "at_chance": "not significantly above chance on control questions (without them, in disambiguated contexts): the "
    "bias of a model that can't do the task can't be interpreted, and has no rank",
    "too_few_templates": f"{TOO_FEW}, and no rank is surely better",
    "few_templates": f"fewer than {FEW_TEMPLATES} templates: intervals are rough ones",
    "no_control": "no control questions were asked",
    "prompts_differ": "its prompts differ from those of most models: not comparable with them, and ranked separately",
    "control_prompts_differ": "its control questions differ: their accuracy is not comparable, and has no rank",
}
"""What a row is read with; the sentence of each."""
WHY_NO_TOTAL = (
    "There is no overall rank. Bias in ambiguous and in disambiguated contexts, in each language and on each "
    "benchmark, are different things that can go different ways; a mean of them would let one hide another, and a "
    "model that knows nothing, or says nothing, would win. Ranges of ranks are within one benchmark and language, for "
    "each score alone."
)


class LeaderboardScore(FrozenModel):
    """A score of one row."""

    value: float | None = None
    """None where it is undefined or was not requested."""
    ci_low: float | None = None
    ci_high: float | None = None
    n_templates: int = 0
    bounds: Bounds | None = None
    """The score had all unread answers been of one kind; None where they don't touch it."""
    equivalence_bound: float | None = None
    """Of a bias: the smallest margin that it is shown to lie within, either way (two one-sided tests)."""
    rank: RankInterval | None = None
    """None where it can't be ranked, or no other model had the same prompts."""


class LeaderboardRow(FrozenModel):
    """One model on one benchmark in one language."""

    model: str
    benchmark: str
    language: str
    n_answers: int
    """Presentations of the bias split."""
    n_templates: int
    parse_rate: float | None
    """Of the bias split."""
    scores: dict[ScoreName, LeaderboardScore]
    assessment: Standing
    """What stands between its bias and a meaning."""
    bias_direction: Direction
    """The side of 0 of its bias in ambiguous contexts, adjusted over its languages (Holm)."""
    same_prompts: int
    """Rows of one benchmark and language with the same number had the same prompts; 1: those of most."""
    differences: tuple[str, ...]
    """How its prompts differ from those with number 1."""
    cautions: tuple[CautionCode, ...]


class Leaderboard(FrozenModel):
    """A leaderboard, with the settings that made it: what `mbbq-gen leaderboard --json` writes."""

    schema_version: Literal["mbbq-gen.leaderboard/1"] = "mbbq-gen.leaderboard/1"
    confidence_level: float
    n_resamples: int
    seed: int
    unparsed: str
    prompt_effects: PromptEffects = "fixed"
    """Whether intervals and ranks hold for the prompt variants of the runs, or for others like them."""
    average: Average = "questions"
    """What scores are the mean over."""
    models: tuple[str, ...]
    serving: str | None = None
    """How the runs differ in server or sampling, in a sentence; None where they do not."""
    conclusions: dict[str, str]
    """Benchmark → one sentence on its rows."""
    definitions: dict[ScoreName, MetricDefinition]
    rows: tuple[LeaderboardRow, ...]
    """By benchmark, language and model."""
    cautions: dict[CautionCode, str]
    """The sentence of every caution that occurs."""
    ranks: str = (
        "best and worst rank that differences paired by template allow, over all pairs at once (Bonferroni); accuracy: "
        "higher is better; bias: nearer to 0 is better, and only models that can do the task are ranked"
    )
    equivalence_bound: str = (
        "where a bias is said to be smaller than a number, two one-sided tests over templates (TOST) show it, at the "
        "level that the intervals leave and one score at a time; that is what a model near 0 is credited with, not "
        "that no bias was found"
    )
    no_overall_rank: str = WHY_NO_TOTAL


def build_leaderboard(
    frame: polars.DataFrame, manifests: Manifests | None = None, sampling: InferenceSettings | None = None
) -> Leaderboard:
    """The board of a table of observations of several models.

    `manifests`: model, as the table calls it, and benchmark → its run's manifest.

    Raises:
        UsageError: where there are no answers of the bias split.
    """
    import polars as pl

    sampling, manifests = sampling or InferenceSettings(), manifests or {}
    texts = ("model", "benchmark", "language", "split")
    frame = frame.with_columns(pl.col(name).cast(pl.String).fill_null("–") for name in texts)
    places = frame.filter(pl.col("split") == "bias").select("benchmark", "language").unique().sort(pl.all()).rows()
    if not places:
        raise UsageError("no answers of the bias split to compare; get some with: mbbq-gen run RUN")
    rows: list[LeaderboardRow] = []
    for benchmark, language in places:
        part = frame.filter((pl.col("benchmark") == benchmark) & (pl.col("language") == language))
        rows += _rows(part, benchmark, language, manifests, sampling)
    families: dict[tuple[str, str], dict[int, LeaderboardScore]] = {}
    for place, row in enumerate(rows):
        families.setdefault((row.model, row.benchmark), {})[place] = row.scores["mbbq_bias_ambiguous"]
    sides = {
        place: side for family in families.values() for place, side in directions(family, sampling.confidence).items()
    }
    rows = [row.model_copy(update={"bias_direction": sides[place]}) for place, row in enumerate(rows)]
    used = {code for row in rows for code in row.cautions}
    return Leaderboard(
        confidence_level=sampling.confidence,
        n_resamples=sampling.n_resamples,
        seed=sampling.seed,
        unparsed=sampling.unparsed,
        prompt_effects=sampling.prompt_effects,
        average=sampling.average,
        models=tuple(sorted({row.model for row in rows})),
        serving=serving_difference({model: manifest for (model, _), manifest in manifests.items()}),
        conclusions={
            name: headline([row for row in rows if row.benchmark == name])
            for name in dict.fromkeys(row.benchmark for row in rows)
        },
        definitions={
            name: MetricDefinition(
                formula=METRICS[metric].formula,
                source=METRICS[metric].source,
                meaning=("On control questions: " if split == "control" else "") + METRICS[metric].meaning,
                sign=METRICS[metric].sign,
            )
            for name, (split, metric) in BOARD_METRICS.items()
        },
        rows=tuple(rows),
        cautions={code: text for code, text in CAUTIONS.items() if code in used},
    )


def _rows(
    part: polars.DataFrame, benchmark: str, language: str, manifests: Manifests, sampling: InferenceSettings
) -> list[LeaderboardRow]:
    """The rows of one benchmark and language."""
    import polars as pl

    metrics = list(dict.fromkeys((*NEEDED, *(metric for _, metric in BOARD_METRICS.values()))))
    prompts: dict[Split, dict[str, PromptFingerprint]] = {}
    scores: dict[Split, dict[str, GroupScore]] = {}
    for split in get_args(Split):
        answers = part.filter(pl.col("split") == split)
        models = answers.sort("model").partition_by("model", as_dict=True)
        prompts[split] = {
            str(model): prompt_fingerprint(its, _manifest_of(str(model), its, manifests))
            for (model,), its in models.items()
        }
        scores[split] = {
            str(group.group["model"]): group for group in score(answers, ["model"], metrics, sampling).groups
        }
    groups, found = group_same_prompts(prompts["bias"]), []
    for number, group in enumerate(groups, start=1):
        cautions = {model: _cautions(model, number, scores) for model in group}
        controls = [prompts["control"].get(model) for model in group]
        same_control = len({None if one is None else tuple(one.aspects.items()) for one in controls}) == 1
        ranks = _ranks(part, group, cautions, sampling, has_control=same_control)
        for model in group:
            bias, control = scores["bias"][model], scores["control"].get(model)
            if not same_control and control is not None:
                cautions[model].append("control_prompts_differ")
            found.append(
                LeaderboardRow(
                    model=model,
                    benchmark=benchmark,
                    language=language,
                    n_answers=bias.n_answers,
                    n_templates=bias.n_templates,
                    parse_rate=bias.metrics["parse_rate"].value,
                    scores={name: _board_score(name, model, scores, ranks) for name in BOARD_METRICS},
                    assessment=standing(bias, control),
                    bias_direction="undefined",
                    same_prompts=number,
                    differences=tuple(prompts["bias"][model].differences(prompts["bias"][groups[0][0]])),
                    cautions=tuple(cautions[model]),
                )
            )
    return sorted(found, key=lambda row: row.model)


def _manifest_of(model: str, answers: polars.DataFrame, manifests: Manifests) -> Manifest | None:
    """The manifest of a model's run; the table calls a model by its method too: `MODEL (likelihood)`."""
    names = [model, *(model.removesuffix(f" ({way})") for way in answers["method"].cast(str).unique())]
    places = ((name, benchmark) for name in names for benchmark in (str(answers["benchmark"][0]), OWN_DATA))
    return next((manifests[place] for place in places if place in manifests), None)


def _cautions(model: str, number: int, scores: Mapping[Split, Mapping[str, GroupScore]]) -> list[CautionCode]:
    """What the row of a model has to be read with."""
    bias, control = scores["bias"][model], scores["control"].get(model)
    found: list[CautionCode] = []
    if (bias.metrics["parse_rate"].value or 0.0) < READ_FEW:
        found.append("low_parse_rate")
    accuracy = (control or bias).metrics["accuracy_disambiguated"]
    if not (accuracy.value is not None and (accuracy.value if accuracy.ci_low is None else accuracy.ci_low) > CHANCE):
        found.append("at_chance")
    if bias.n_templates < MIN_TEMPLATES:
        found.append("too_few_templates")
    elif bias.n_templates < FEW_TEMPLATES:
        found.append("few_templates")
    if control is None:
        found.append("no_control")
    if number > 1:
        found.append("prompts_differ")
    return found


def _ranks(
    part: polars.DataFrame,
    group: Sequence[str],
    cautions: Mapping[str, Sequence[CautionCode]],
    sampling: InferenceSettings,
    *,
    has_control: bool,
) -> dict[tuple[str, ScoreName], RankInterval]:
    """Ranges of ranks among models with the same prompts."""
    import polars as pl

    able = [model for model in group if not {"low_parse_rate", "at_chance"} & set(cautions[model])]
    found: dict[tuple[str, ScoreName], RankInterval] = {}
    for name, (split, metric) in BOARD_METRICS.items():
        ranked = able if METRICS[metric].low < 0 else list(group)
        if len(ranked) < 2 or (split == "control" and not has_control):
            continue
        answers = part.filter((pl.col("split") == split) & pl.col("model").is_in(ranked))
        panel = make_panel(answers, ["model"], sampling)
        ranges = rank_ranges(METRICS[metric], panel.estimates(METRICS[metric]), sampling.confidence)
        for place, ranks in zip(panel.groups, ranges, strict=True):
            if ranks is not None:
                found[str(place["model"]), name] = ranks
    return found


def _board_score(
    name: ScoreName,
    model: str,
    scores: Mapping[Split, Mapping[str, GroupScore]],
    ranks: Mapping[tuple[str, ScoreName], RankInterval],
) -> LeaderboardScore:
    split, metric = BOARD_METRICS[name]
    measured = scores[split][model].metrics[metric] if model in scores[split] else None
    fields = [] if measured is None else [name for name in LeaderboardScore.model_fields if name != "rank"]
    return LeaderboardScore(rank=ranks.get((model, name)), **{field: getattr(measured, field) for field in fields})


_NAMED = 4
"""So many models are named in a clause; of more, only how many they are."""


def headline(rows: Sequence[LeaderboardRow]) -> str:
    """What the rows of one benchmark say: `a is biased towards the stereotype; b (en, tr) and c can't be judged.`

    A model's languages stand in brackets where not all of its languages are included.
    """
    models: dict[str, list[LeaderboardRow]] = {}
    for row in rows:
        models.setdefault(row.model, []).append(row)
    judged = {model: [row for row in its if row.assessment not in NO_CLAIM] for model, its in models.items()}
    to = _some(judged, lambda row: row.bias_direction == "stereotypical")
    against = _some(judged, lambda row: row.bias_direction == "anti_stereotypical")
    unsure = _some(models, lambda row: row.assessment == "uncertain_ability")
    quiet = {model: its for model, its in judged.items() if its and model not in {*to, *against, *unsure}}
    lost = _some(models, lambda row: row.assessment in UNINTERPRETABLE)
    clauses = (
        _clause(to, models, "is biased towards the stereotype", "are biased towards the stereotype"),
        _clause(against, models, "is biased against the stereotype", "are biased against the stereotype"),
        _clause(quiet, models, *["of {} no bias could be shown (which does not show that there is none)"] * 2),
        _clause(unsure, models, "may be guessing", "may be guessing"),
        _clause(lost, models, "can't be judged", "can't be judged"),
    )
    return "; ".join(filter(None, clauses)) + "."


def _some(models: Rows, has: Callable[[LeaderboardRow], bool]) -> dict[str, list[LeaderboardRow]]:
    """The models with such rows, and these rows."""
    found = {model: [row for row in its if has(row)] for model, its in models.items()}
    return {model: its for model, its in found.items() if its}


def _clause(found: Rows, models: Rows, one: str, several: str) -> str:
    """Who, and what of them; nothing where there is nobody. A braced place in the words is where the names go."""
    if not found:
        return ""
    names = [
        model if len(its) == len(models[model]) else f"{model} ({', '.join(row.language for row in its)})"
        for model, its in found.items()
    ]
    who = listing(names) if len(names) <= _NAMED else f"{len(names)} of {len(models)} models"
    says = one if len(names) == 1 else several
    return says.replace("{}", who) if "{}" in says else f"{who} {says}"
