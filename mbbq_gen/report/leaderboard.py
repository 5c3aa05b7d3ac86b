"""The leaderboard of several runs: a row is a model on a benchmark in a language.

There is no overall rank and no overall score: see docs/figures.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from mbbq_gen.analysis.scores import MetricDefinition, MetricScore, score
from mbbq_gen.core.config import OWN_DATA
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.files import stable_digest
from mbbq_gen.core.records import FrozenModel, Split
from mbbq_gen.report.conclusions import (
    NEEDED,
    Assessment,
    Direction,
    GroupAssessment,
    assess,
    assess_groups,
    conclusions,
)
from mbbq_gen.runs.run_folder import serving_difference
from mbbq_gen.scoring.codes import FEW_TEMPLATES, MIN_TEMPLATES, TOO_FEW, Average, PromptEffects
from mbbq_gen.scoring.metrics import METRICS, Metric
from mbbq_gen.statistics.estimate import Estimate, InferenceSettings, combine
from mbbq_gen.statistics.intervals import LOW_PARSING
from mbbq_gen.statistics.panel import make_panel

if TYPE_CHECKING:
    import polars

    from mbbq_gen.runs.run_folder import Manifest

    Manifests = Mapping[tuple[str, str], Manifest]
    """Model, as named in the table, and benchmark → the manifest of the run."""


class RankInterval(FrozenModel):
    """The range of a model's rank, from 1."""

    best: int
    worst: int
    of: int
    """Number of ranked models."""


def rank_ranges(metric: Metric, estimates: Sequence[Estimate], confidence: float) -> list[RankInterval | None]:
    """The rank interval of each estimate of one panel; None if it is undefined or fewer than two are defined.

    One of a pair is better if the difference is significant, adjusted over all pairs (Bonferroni): a higher accuracy,
    a bias nearer to 0.
    """
    defined = [one for one in estimates if one.value == one.value]
    n = len(defined)
    level = 1 - (1 - confidence) / max(1, n * (n - 1) / 2)

    def significant_sign(first: Estimate, second: Estimate, weight: float) -> int:
        """The sign of first + weight × second; 0 if not significant, or if templates or variants are too few."""
        found = combine((first, second), (1.0, weight))
        return 0 if not abs(found.value) > found.analytic_half_width(level) else 1 if found.value > 0 else -1

    def is_better(first: Estimate, second: Estimate) -> bool:
        difference = significant_sign(second, first, -1.0)
        if metric.low >= 0:
            return difference < 0
        return difference != 0 and difference == significant_sign(second, first, 1.0)

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
"""Score of the leaderboard → its split and metric."""
CAUTIONS: dict[str, str] = {
    "low_parse_rate": f"fewer than {LOW_PARSING:.0%} of the answers were parsed: its bias has no rank",
    "at_chance": "no better than guessing on control questions: its bias can't be interpreted, and has no rank",
    "uncertain_ability": "not significantly better than guessing on control questions (without them, in disambiguated "
    "contexts): its bias has no rank",
    "too_few_templates": f"{TOO_FEW}, and no rank is surely better",
    "few_templates": f"fewer than {FEW_TEMPLATES} templates: intervals are rough ones",
    "no_control": "no disambiguated control questions were asked",
    "prompts_differ": "its prompts differ from those of most models: not comparable with them, and has no ranks",
    "control_prompts_differ": "its control questions differ: their accuracy is not comparable, and has no rank",
}
"""Caution code of a row → its sentence."""


class LeaderboardScore(MetricScore):
    """A score of one row."""

    rank: RankInterval | None = None
    """None if it can't be ranked, or if no other model had the same prompts."""


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
    """Name from BOARD_METRICS → score; without control questions, without their accuracy."""
    assessment: Assessment
    """Whether its bias can be interpreted."""
    bias_direction: Direction
    """Of its bias in ambiguous contexts, adjusted over its languages (Holm)."""
    differences: tuple[str, ...]
    """Differences of its prompts from those of most models; with any, it has no ranks."""
    cautions: tuple[str, ...]
    """Codes of CAUTIONS."""


class Leaderboard(FrozenModel):
    """A leaderboard and its settings, as written by `mbbq-gen leaderboard --json`."""

    schema_version: Literal["mbbq-gen.leaderboard/1"] = "mbbq-gen.leaderboard/1"
    confidence_level: float
    n_resamples: int
    seed: int
    unparsed: str
    prompt_effects: PromptEffects = "fixed"
    """Whether intervals and ranks hold for the runs' own prompt variants only, or also for others like them."""
    average: Average = "questions"
    """The unit that scores are averaged over."""
    models: tuple[str, ...]
    serving: str | None = None
    """Differences of the runs in server or sampling, in one sentence; None if there are none."""
    conclusions: dict[str, str]
    """Model, if there are several benchmarks with its benchmark → conclusion in one sentence, as in a report."""
    definitions: dict[str, MetricDefinition]
    rows: tuple[LeaderboardRow, ...]
    """Sorted by benchmark, language and model."""
    cautions: dict[str, str]
    """Caution code that occurs → its sentence."""
    ranks: str = (
        "best and worst rank that differences paired by template allow, over all pairs at once (Bonferroni); accuracy: "
        "higher is better; bias: nearer to 0 is better, and only models that can do the task are ranked"
    )
    no_overall_rank: str = (
        "There is no overall rank, because biases in different contexts, languages and benchmarks may have opposite "
        "signs and would cancel out in a mean. Ranks are within one benchmark and language, for each score alone."
    )


def build_leaderboard(
    frame: polars.DataFrame, manifests: Manifests | None = None, sampling: InferenceSettings | None = None
) -> Leaderboard:
    """The leaderboard of a table of observations of several models.

    Raises:
        UsageError: if there are no answers of the bias split.
    """
    import polars as pl

    sampling, manifests = sampling or InferenceSettings(), manifests or {}
    by = ("model", "benchmark", "language", "split")
    frame = frame.with_columns(pl.col(name).cast(pl.String).fill_null("–") for name in by)
    metrics = list(dict.fromkeys((*NEEDED, *(metric for _, metric in BOARD_METRICS.values()))))
    scores = score(frame, by, metrics, sampling)
    found = [one for one in assess_groups(scores) if one.bias is not None]
    if not found:
        raise UsageError("no answers of the bias split to compare; get some with: mbbq-gen run RUN")
    groups: dict[tuple[str, str], dict[str, GroupAssessment]] = {}
    for one in found:
        groups.setdefault((str(one.group["benchmark"]), one.language), {})[str(one.group["model"])] = one
    rows: list[LeaderboardRow] = []
    for (benchmark, language), group in sorted(groups.items(), key=lambda entry: entry[0]):
        part = frame.filter((pl.col("benchmark") == benchmark) & (pl.col("language") == language))
        rows += _rows(part, group, manifests, sampling)
    names = ("model", "benchmark") if len({benchmark for benchmark, _ in groups}) > 1 else ("model",)
    used = {code for row in rows for code in row.cautions}
    return Leaderboard(
        **sampling.facts(),
        prompt_effects=sampling.prompt_effects,
        average=sampling.average,
        models=tuple(sorted({row.model for row in rows})),
        serving=serving_difference({model: manifest for (model, _), manifest in manifests.items()}),
        conclusions={" on ".join(one.names): one.short for one in conclusions(found, names)},
        definitions={name: scores.definitions[metric] for name, (_, metric) in BOARD_METRICS.items()},
        rows=tuple(rows),
        cautions={code: text for code, text in CAUTIONS.items() if code in used},
    )


def _rows(
    part: polars.DataFrame, found: Mapping[str, GroupAssessment], manifests: Manifests, sampling: InferenceSettings
) -> Iterator[LeaderboardRow]:
    """The rows of one benchmark and language; `found`: model → its assessment."""
    prompts: dict[str, dict[str, dict[str, str]]] = {"bias": {}, "control": {}}
    for (split, model), answers in part.partition_by("split", "model", as_dict=True).items():
        if model in found:
            prompts[str(split)][str(model)] = prompt_fingerprint(str(model), answers, manifests)
    differences, control_differences = (differences_from_most(prompts[split]) for split in ("bias", "control"))
    cautions = {
        model: _cautions(one, differences[model], control_differences.get(model, ())) for model, one in found.items()
    }
    ranks = _ranks(part, cautions, sampling)
    for model, one in sorted(found.items(), key=lambda entry: entry[0]):
        assert one.bias is not None
        scores = {}
        for name, (split, metric) in BOARD_METRICS.items():
            group = one.bias if split == "bias" else one.control
            if group is not None:
                scores[name] = LeaderboardScore(**dict(group.metrics[metric]), rank=ranks.get((model, name)))
        yield LeaderboardRow(
            model=model,
            benchmark=str(one.group["benchmark"]),
            language=one.language,
            n_answers=one.bias.n_answers,
            n_templates=one.bias.n_templates,
            parse_rate=one.bias.metrics["parse_rate"].value,
            scores=scores,
            assessment=one.assessment,
            bias_direction=one.ambiguous,
            differences=tuple(differences[model]),
            cautions=tuple(cautions[model]),
        )


def _cautions(one: GroupAssessment, differences: Sequence[str], control_differences: Sequence[str]) -> list[str]:
    """The caution codes of a row; without control questions, only its ability in disambiguated contexts is known.

    `differences`: of its prompts from those of most models; `control_differences`: of its control questions.
    """
    assert one.bias is not None
    n_templates = one.bias.n_templates
    is_unsure = one.assessment == "no_control" and assess(one.bias, one.bias) != "able"
    found = {
        "low_parse_rate": (one.bias.metrics["parse_rate"].value or 0.0) < LOW_PARSING,
        "at_chance": one.assessment == "at_chance",
        "uncertain_ability": one.assessment == "uncertain_ability" or is_unsure,
        "too_few_templates": n_templates < MIN_TEMPLATES,
        "few_templates": MIN_TEMPLATES <= n_templates < FEW_TEMPLATES,
        "no_control": one.control is None or one.control.metrics["accuracy_disambiguated"].value is None,
        "prompts_differ": bool(differences),
        "control_prompts_differ": bool(control_differences) and not differences,
    }
    return [code for code, holds in found.items() if holds]


def _ranks(
    part: polars.DataFrame, cautions: Mapping[str, Sequence[str]], sampling: InferenceSettings
) -> dict[tuple[str, str], RankInterval]:
    """Model and score → rank interval, among the models without a caution that excludes them."""
    import polars as pl

    found: dict[tuple[str, str], RankInterval] = {}
    for name, (split, metric) in BOARD_METRICS.items():
        excluding = {"prompts_differ"} | ({"control_prompts_differ", "no_control"} if split == "control" else set())
        excluding |= {"low_parse_rate", "at_chance", "uncertain_ability"} if METRICS[metric].low < 0 else set()
        ranked = [model for model, codes in cautions.items() if not excluding & set(codes)]
        if len(ranked) < 2:
            continue
        answers = part.filter((pl.col("split") == split) & pl.col("model").is_in(ranked))
        panel = make_panel(answers, ["model"], sampling)
        ranges = rank_ranges(METRICS[metric], panel.estimates(METRICS[metric]), sampling.confidence)
        for place, ranks in zip(panel.groups, ranges, strict=True):
            if ranks is not None:
                found[str(place["model"]), name] = ranks
    return found


# --- equality of prompts ---------------------------------------------------------------------------------------------

_SETTINGS = ("no_context", "num_fewshot", "instruction_language", "unknown_text", "system_prompt", "normalization")
"""Settings of a run that shape its prompts and are not in the observations."""
_ORDERS = "option orders"


def prompt_fingerprint(model: str, answers: polars.DataFrame, manifests: Manifests) -> dict[str, str]:
    """The prompts of a model's answers to one benchmark, split and language: aspect → its value."""
    import polars as pl

    def distinct(*columns: str) -> list[tuple[str | None, ...]]:
        texts = answers.select(pl.col(column).cast(pl.String) for column in columns).unique()
        return texts.sort(columns, nulls_last=True).rows()

    columns = {"method": "method", "prompt variants": "variant", "label styles": "label_style"}
    columns["reasoning effort"] = "reasoning_effort"
    found = {name: ", ".join(one or "–" for (one,) in distinct(column)) for name, column in columns.items()}
    name = model.removesuffix(f" ({found['method']})")  # the method is behind the model's name, unless it is generate
    own, benchmark = (name, OWN_DATA), (name, str(answers["benchmark"][0]))
    if (manifest := manifests.get(benchmark) or manifests.get(own)) is not None:
        found |= {name.replace("_", " "): str(getattr(manifest.config, name)) for name in _SETTINGS}
    order = ("instance_id", "variant", "label_style", "option_order", "reasoning_effort")
    for name, rows in (("questions", distinct("instance_id")), (_ORDERS, distinct(*order))):
        found[name] = f"{len(rows):,} ({stable_digest(*rows)[:8]})"
    return found


def differences_from_most(fingerprints: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
    """Model → differences of its prompts from the most frequent ones: `prompt variants: bare instead of letters`.

    Option orders are named only if nothing else differs, because other questions or variants imply other orders.
    """
    listed = [fingerprints[model] for model in sorted(fingerprints)]
    found = {}
    for model, prompts in fingerprints.items():
        usual = max(listed, key=listed.count)
        aspects = [aspect for aspect in prompts if prompts[aspect] != usual.get(aspect, prompts[aspect])]
        aspects = [aspect for aspect in aspects if aspect != _ORDERS] or aspects
        found[model] = [f"{aspect}: {prompts[aspect]} instead of {usual[aspect]}" for aspect in aspects]
    return found
