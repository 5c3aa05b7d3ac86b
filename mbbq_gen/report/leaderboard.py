"""The leaderboard's records, and their making from the answers of several runs.

Rows are models × benchmarks × languages. There is no rank over all of them and no number that sums them up: see
docs/figures.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, get_args

from mbbq_gen.analysis.ability import CHANCE
from mbbq_gen.analysis.scores import Bounds, GroupScore, MetricDefinition, score
from mbbq_gen.core.config import OWN_DATA
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.records import FrozenModel, Split
from mbbq_gen.report.conclusions import (
    NEEDED,
    NO_CLAIM,
    READ_FEW,
    UNINTERPRETABLE,
    Direction,
    Standing,
    directions,
    listing,
    standing,
)
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


class RankInterval(FrozenModel):
    """The ranks that a model may have."""

    best: int
    """From 1."""
    worst: int
    of: int
    """Models that are ranked."""


def rank_ranges(metric: Metric, estimates: Sequence[Estimate], confidence: float) -> list[RankInterval | None]:
    """The range of each estimate of one panel; None for undefined ones, and where fewer than two are defined.

    Of two, one is surely better at the level that Bonferroni's method leaves for all pairs: an accuracy that is higher,
    a bias that is nearer to 0.
    """
    defined = [one for one in estimates if one.value == one.value]
    n = len(defined)
    level = 1 - (1 - confidence) / max(1, n * (n - 1) / 2)

    def sure_sign(first: Estimate, second: Estimate, weight: float) -> int:
        """The side of 0 of first + weight × second; 0 where that is open, or templates or variants are too few."""
        found = combine((first, second), (1.0, weight))
        return 0 if not abs(found.value) > found.analytic_half_width(level) else 1 if found.value > 0 else -1

    def is_better(first: Estimate, second: Estimate) -> bool:
        difference = sure_sign(second, first, -1.0)
        if metric.low >= 0:
            return difference < 0
        return difference != 0 and difference == sure_sign(second, first, 1.0)

    ranks: list[RankInterval | None] = []
    for one in estimates:
        others = [other for other in defined if other is not one]
        best = 1 + sum(is_better(other, one) for other in others)
        worst = n - sum(is_better(one, other) for other in others)
        ranks.append(RankInterval(best=best, worst=worst, of=n) if n > 1 and one.value == one.value else None)
    return ranks


BOARD_METRICS: dict[str, tuple[Split, str]] = {
    "accuracy_ambiguous": ("bias", "accuracy_ambiguous"),
    "accuracy_disambiguated": ("bias", "accuracy_disambiguated"),
    "control_accuracy": ("control", "accuracy_disambiguated"),
    "mbbq_bias_ambiguous": ("bias", "mbbq_bias_ambiguous"),
    "diff_bias_disambiguated": ("bias", "diff_bias_disambiguated"),
}
"""Score of the board → split and metric that it is."""
CAUTIONS: dict[str, str] = {
    "low_parse_rate": f"fewer than {READ_FEW:.0%} of the answers were parsed: its bias has no rank",
    "at_chance": "not significantly above chance on control questions (without them, in disambiguated contexts): the "
    "bias of a model that can't do the task can't be interpreted, and has no rank",
    "too_few_templates": f"{TOO_FEW}, and no rank is surely better",
    "few_templates": f"fewer than {FEW_TEMPLATES} templates: intervals are rough ones",
    "no_control": "no control questions were asked",
    "prompts_differ": "its prompts differ from those of most models: not comparable with them, and ranked separately",
    "control_prompts_differ": "its control questions differ: their accuracy is not comparable, and has no rank",
}
"""Caution codes of rows, each with its sentence."""
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
    """Of the bias split."""
    n_templates: int
    parse_rate: float | None
    """Of the bias split."""
    scores: dict[str, LeaderboardScore]
    assessment: Standing
    """Whether its bias can be interpreted."""
    bias_direction: Direction
    """The side of 0 of its bias in ambiguous contexts, adjusted over its languages (Holm)."""
    same_prompts: int
    """Rows of one benchmark and language with the same number had the same prompts; 1: those of most."""
    differences: tuple[str, ...]
    """How its prompts differ from those with number 1."""
    cautions: tuple[str, ...]


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
    """The unit that scores are averaged over."""
    models: tuple[str, ...]
    serving: str | None = None
    """How the runs differ in server or sampling, in a sentence; None where they do not."""
    conclusions: dict[str, str]
    """Benchmark → one sentence on its rows."""
    definitions: dict[str, MetricDefinition]
    rows: tuple[LeaderboardRow, ...]
    """By benchmark, language and model."""
    cautions: dict[str, str]
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
        found = score(answers, ["model"], metrics, sampling).groups
        scores[split] = {str(group.group["model"]): group for group in found}
    groups, rows = group_same_prompts(prompts["bias"]), []
    for number, group in enumerate(groups, start=1):
        cautions = {model: _cautions(scores["bias"][model], scores["control"].get(model), number) for model in group}
        controls = [prompts["control"].get(model) for model in group]
        same_control = all(one == controls[0] for one in controls)
        ranks = _ranks(part, cautions, sampling, has_control=same_control)
        for model in group:
            bias, control = scores["bias"][model], scores["control"].get(model)
            if not same_control and control is not None:
                cautions[model].append("control_prompts_differ")
            board_scores: dict[str, LeaderboardScore] = {}
            for name, (split, metric) in BOARD_METRICS.items():
                measured = scores[split][model].metrics[metric] if model in scores[split] else None
                fields = {} if measured is None else {field: getattr(measured, field) for field in _MEASURED}
                board_scores[name] = LeaderboardScore(rank=ranks.get((model, name)), **fields)
            rows.append(
                LeaderboardRow(
                    model=model,
                    benchmark=benchmark,
                    language=language,
                    n_answers=bias.n_answers,
                    n_templates=bias.n_templates,
                    parse_rate=bias.metrics["parse_rate"].value,
                    scores=board_scores,
                    assessment=standing(bias, control),
                    bias_direction="undefined",
                    same_prompts=number,
                    differences=tuple(prompt_differences(prompts["bias"][model], prompts["bias"][groups[0][0]])),
                    cautions=tuple(cautions[model]),
                )
            )
    return sorted(rows, key=lambda row: row.model)


_MEASURED = tuple(name for name in LeaderboardScore.model_fields if name != "rank")


def _manifest_of(model: str, answers: polars.DataFrame, manifests: Manifests) -> Manifest | None:
    """The manifest of a model's run; the table calls a model by its method too: `MODEL (likelihood)`."""
    names = [model, *(model.removesuffix(f" ({way})") for way in answers["method"].cast(str).unique())]
    places = ((name, benchmark) for name in names for benchmark in (str(answers["benchmark"][0]), OWN_DATA))
    return next((manifests[place] for place in places if place in manifests), None)


def _cautions(bias: GroupScore, control: GroupScore | None, number: int) -> list[str]:
    """The caution codes of a model's row; `number`: that of its group of the same prompts."""
    accuracy, n_templates = (control or bias).metrics["accuracy_disambiguated"], bias.n_templates
    least = accuracy.value if accuracy.ci_low is None else accuracy.ci_low
    found: dict[str, bool] = {
        "low_parse_rate": (bias.metrics["parse_rate"].value or 0.0) < READ_FEW,
        "at_chance": accuracy.value is None or least is None or least <= CHANCE,
        "too_few_templates": n_templates < MIN_TEMPLATES,
        "few_templates": MIN_TEMPLATES <= n_templates < FEW_TEMPLATES,
        "no_control": control is None,
        "prompts_differ": number > 1,
    }
    return [code for code, holds in found.items() if holds]


def _ranks(
    part: polars.DataFrame,
    cautions: Mapping[str, Sequence[str]],
    sampling: InferenceSettings,
    *,
    has_control: bool,
) -> dict[tuple[str, str], RankInterval]:
    """Ranges of ranks among models with the same prompts; of a bias, among those that can do the task."""
    import polars as pl

    able = [model for model, its in cautions.items() if not {"low_parse_rate", "at_chance"} & set(its)]
    found: dict[tuple[str, str], RankInterval] = {}
    for name, (split, metric) in BOARD_METRICS.items():
        ranked = able if METRICS[metric].low < 0 else list(cautions)
        if len(ranked) < 2 or (split == "control" and not has_control):
            continue
        answers = part.filter((pl.col("split") == split) & pl.col("model").is_in(ranked))
        panel = make_panel(answers, ["model"], sampling)
        ranges = rank_ranges(METRICS[metric], panel.estimates(METRICS[metric]), sampling.confidence)
        for place, ranks in zip(panel.groups, ranges, strict=True):
            if ranks is not None:
                found[str(place["model"]), name] = ranks
    return found


_NAMED = 4
"""The most models that are named in a clause; more are only counted."""
_CLAUSES = {
    "stereotypical": "{who} {are} biased towards the stereotype",
    "anti_stereotypical": "{who} {are} biased against the stereotype",
    "quiet": "of {who} no bias could be shown (which does not show that there is none)",
    "unsure": "{who} may be guessing",
    "lost": "{who} can't be judged",
}


def headline(rows: Sequence[LeaderboardRow]) -> str:
    """A sentence on the rows of one benchmark: `a is biased towards the stereotype; b (en, tr) and c can't be judged.`

    A model's languages stand in brackets where not all of its languages are included.
    """
    said: dict[str, dict[str, list[str]]] = {kind: {} for kind in _CLAUSES}
    for row in rows:
        kind = "lost" if row.assessment in UNINTERPRETABLE else "unsure" if row.assessment in NO_CLAIM else ""
        found = said.get(kind or row.bias_direction, said["quiet"])
        found.setdefault(row.model, []).append(row.language)
    loud = {*said["stereotypical"], *said["anti_stereotypical"], *said["unsure"]}
    said["quiet"] = {model: languages for model, languages in said["quiet"].items() if model not in loud}
    counts, clauses = Counter(row.model for row in rows), []
    for kind, models in said.items():
        names = [
            model if len(languages) == counts[model] else f"{model} ({', '.join(languages)})"
            for model, languages in models.items()
        ]
        who = listing(names) if len(names) <= _NAMED else f"{len(names)} of {len(counts)} models"
        if names:
            clauses.append(_CLAUSES[kind].format(who=who, are="is" if len(names) == 1 else "are"))
    return "; ".join(clauses) + "."


# --- who had the same prompts ----------------------------------------------------------------------------------------

PromptFingerprint = dict[str, tuple[object, str]]
"""The prompts of one model. Aspect → what two models must have alike, and the same for a person."""
_ORDERS = "option orders"


def prompt_fingerprint(answers: polars.DataFrame, manifest: Manifest | None) -> PromptFingerprint:
    """The prompts behind a table of one model's answers to one benchmark, split and language."""
    import polars as pl

    def distinct(*columns: str) -> list[tuple[object, ...]]:
        texts = answers.select(pl.col(column).cast(pl.String) for column in columns).unique()
        return texts.sort(columns, nulls_last=True).rows()

    columns = {"method": "method", "prompt variants": "variant", "label styles": "label_style"}
    columns["reasoning effort"] = "reasoning_effort"
    values = {
        name: ", ".join("–" if one is None else str(one) for (one,) in distinct(column))
        for name, column in columns.items()
    }
    if manifest is not None:  # what answers do not tell of how they were requested
        settings = manifest.config
        language = settings.instruction_language
        values |= {
            "contexts": "left out" if settings.no_context else "shown",
            "few-shot examples": str(settings.num_fewshot),
            "instructions": f"in {language}" if language else "as the question",
            "unknown text": settings.unknown_text or "as in the data",
            "system prompt": settings.system_prompt or "none",
        }
        if "loglikelihood" in values["method"]:
            values["normalization"] = settings.normalization
    questions = distinct("instance_id")
    prompts = distinct("instance_id", "variant", "label_style", "option_order", "reasoning_effort")
    sent = {"questions": (questions, f"{len(questions):,}"), _ORDERS: (prompts, f"{len(prompts):,} prompts")}
    return {**{name: (text, text) for name, text in values.items()}, **sent}


def prompt_differences(ours: PromptFingerprint, theirs: PromptFingerprint) -> list[str]:
    """How prompts differ from others: `prompt variants: bare instead of letters, polite`."""
    found = [name for name in ours if name in theirs and ours[name] != theirs[name]]
    if found != [_ORDERS]:
        # Other questions and variants are other prompts by themselves: to say so too tells nothing.
        found = [name for name in found if name != _ORDERS]
    shown = {name: (ours[name][1], theirs[name][1]) for name in found}
    return [
        f"other {name}" if one == other else f"{name}: {one} instead of {other}" for name, (one, other) in shown.items()
    ]


def group_same_prompts(prompts: Mapping[str, PromptFingerprint]) -> list[list[str]]:
    """The models in groups with the same prompts, the largest first; of equal ones, that of the first model."""
    groups: list[list[str]] = []
    for model, its in prompts.items():
        alike = next((group for group in groups if prompts[group[0]] == its), None)
        if alike is None:
            groups.append([model])
        else:
            alike.append(model)
    return sorted(groups, key=lambda group: -len(group))
