"""Simulated runs through whole analyses: stops of runs in rounds, effects of axes, and comparison of two languages.

Run by `simulate_all.py`, which says what each table shows. A run in rounds asks 98 templates with the numbers of
ambiguous questions that MBBQ has in a language, five prompt variants, every question in one option order: 25,180
requests a language. It looks after every round as `mbbq-gen run --stop-…` does, by the same functions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile

import numpy as np
import polars as pl
from simulated import ALL_SIZES, BIAS, CHOICES, CODES, Array, Generator, Grid, head, row, speaks

from mbbq_gen.analysis.comparison import compare
from mbbq_gen.analysis.comparison_table import PairDifference
from mbbq_gen.analysis.robustness import Effect, EffectTable, effect_table
from mbbq_gen.languages.axes import Design as CellDesign
from mbbq_gen.languages.axes import factorial_design, parse_axes, parse_variant_name
from mbbq_gen.runs.adaptive import answer_of, round_sizes
from mbbq_gen.scoring.cells import CELLS
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.statistics.estimate import InferenceSettings
from mbbq_gen.statistics.panel import Panel
from mbbq_gen.statistics.sequential import (
    FOR_DECISION,
    FOR_WIDTH,
    InterimEstimate,
    Interval,
    interim_estimates,
    interval_after,
    is_undecidable,
    variance_of_width,
)
from tests.support.simulation import Design, SimulatedLanguage, SimulatedModel, simulate

SIZES = np.sort(ALL_SIZES)
VARIANTS = 5
NAMED = 0.56
"""How often a person is named."""
QUESTION, INTERACTION, WORDED = 0.2, 0.15, 0.1
"""Standard deviations of leans: of questions, of template × language, of template × variant."""
SMALL = 0.03


@dataclass(frozen=True)
class Plan:
    """Columns of all requests of a language."""

    template: Array
    question: Array
    """Of all templates' questions."""
    variant: Array
    look: Array
    """The first that counts it."""


@dataclass(frozen=True, eq=False)
class Shape:
    """What a benchmark offers in a language."""

    sizes: Array
    """Ambiguous questions of each template."""

    @cached_property
    def stock(self) -> Array:
        """Requests of each template."""
        return self.sizes * VARIANTS

    @cached_property
    def looks(self) -> list[int]:
        """Answers of a template after each round."""
        most = int(self.stock.max())
        return [*takewhile(lambda size: size < most, round_sizes(2)), most]

    @cached_property
    def plan(self) -> Plan:
        """All requests in order: every question in turn, in a variant that changes from one to the next."""
        template = np.repeat(np.arange(len(self.sizes)), self.stock)
        place = np.arange(self.stock.sum()) - np.repeat(self.stock.cumsum() - self.stock, self.stock)
        turn, within = np.divmod(place, self.sizes[template])
        return Plan(
            template=template,
            question=within + (self.sizes.cumsum() - self.sizes)[template],
            variant=(turn + place) % VARIANTS,
            look=np.searchsorted(self.looks, place, side="right"),
        )

    def part(self, looks: int) -> float:
        """The part of all requests of so many looks."""
        return float(np.minimum(self.looks[looks - 1], self.stock).sum() / self.stock.sum())


WHOLE = Shape(SIZES)


@dataclass(frozen=True)
class World:
    """A model; leans are of the templates, of which `share` has another one."""

    name: str
    leans: tuple[float, ...] = (0.0,)
    """Of each language."""
    spread: float = 0.3
    share: float = 0.0
    other: float = 0.0
    lost: float = 0.0
    shape: Shape = WHOLE
    width: float = 0.15
    """That a run is after."""

    def templates(self, number: int, generator: Generator) -> tuple[Array, Array]:
        """Lean and share of answers that can't be read: languages × templates."""
        shared = generator.normal(0, self.spread, number)
        carries = generator.random(number) < self.share
        own = generator.normal(0, INTERACTION, (len(self.leans), number))
        lean = np.array(self.leans)[:, None] + shared + own
        lean = np.where(carries, self.other, lean)
        lost = self.lost * 2 * generator.random(number)
        return np.clip(lean, -1, 1), np.broadcast_to(lost, lean.shape)

    def truth(self) -> float:
        """The score, or the difference of two languages, over all templates that there could be."""
        generator = np.random.default_rng(99)
        lean, lost = self.templates(2_000_000, generator)
        lean = np.clip(lean + generator.normal(0, np.hypot(QUESTION, WORDED), lean.shape), -1, 1)
        first, *second = NAMED * ((1 - lost) * lean).sum(axis=1) / (1 - lost).sum(axis=1)
        return float(first - sum(second))


def draw(world: World, generator: Generator) -> Array:
    """Counts after each look, in languages × looks × templates × CHOICES."""
    sizes, plan = world.shape.sizes, world.shape.plan
    requests = len(plan.template)
    lean, lost = world.templates(len(sizes), generator)
    found = np.zeros((len(world.leans), len(world.shape.looks), len(sizes), len(CHOICES)))
    for language in range(len(world.leans)):
        by_question = generator.normal(0, QUESTION, int(sizes.sum()))
        by_variant = generator.normal(0, WORDED, (len(sizes), VARIANTS))
        leans = lean[language][plan.template] + by_question[plan.question]
        leans += by_variant[plan.template, plan.variant]
        biased = NAMED * (1 + np.clip(leans, -1, 1)) / 2
        drawn = generator.random(requests)
        answers = np.where(drawn < biased, 0, np.where(drawn < NAMED, 1, 2))
        if lost.any():
            answers[generator.random(requests) < lost[language][plan.template]] = 3
        place = (plan.look * len(sizes) + plan.template) * len(CHOICES) + answers
        found[language] = np.bincount(place, minlength=found[language].size).reshape(found[language].shape)
    return found.cumsum(axis=1)


def measured(counts: Array, offered: Array) -> list[InterimEstimate]:
    """The scores of many runs' counts (runs × templates × CHOICES); every template counts alike."""
    cells = np.zeros((*counts.shape[:2], len(CELLS)))
    cells[:, :, CODES[0]] = counts
    number = cells.sum(axis=-1, keepdims=True)
    alike = np.divide(number.mean(axis=1, keepdims=True), number, out=np.zeros_like(number), where=number > 0)
    names = tuple(f"t{place:02d}" for place in range(cells.shape[1]))
    panel = Panel(tuple({} for _ in cells), (), names, cells * alike, InferenceSettings(n_resamples=1))
    return interim_estimates(BIAS, panel, cells, np.broadcast_to(offered.astype(float), cells.shape[:2]))


@dataclass(frozen=True)
class Stop:
    """Where a rule stopped a run."""

    interval: Interval
    look: int
    """Its number, from 1."""


def simulated(world: World, runs: int, seed: int) -> Iterator[list[InterimEstimate]]:
    """The scores, or differences, that each run sees at its looks."""
    generator = np.random.default_rng(seed)
    left = runs
    while left > 0:
        counts = np.stack([draw(world, generator) for _ in range(min(left, 100))])
        left -= len(counts)
        looks, offered = range(len(world.shape.looks)), world.shape.stock
        first, *second = [
            [measured(counts[:, code, look], offered) for look in looks] for code in range(counts.shape[1])
        ]
        for run in range(len(counts)):
            yield [first[look][run].subtract(second[0][look][run]) if second else first[look][run] for look in looks]


def until_width(looks: Sequence[InterimEstimate], width: float) -> Stop:
    """As `--stop-at-ci-width`."""
    for number, last in enumerate(looks, 1):
        interval = interval_after(looks[:number], 0.05, FOR_WIDTH, variance_of_width(width, last, 0.05))
        if interval.width <= width:
            break
    return Stop(interval, number)


def until_decided(looks: Sequence[InterimEstimate]) -> Stop:
    """As `--stop-when-decided`."""
    for number, last in enumerate(looks, 1):
        interval = interval_after(looks[:number], 0.05, FOR_DECISION, variance_of_width(SMALL, last, 0.05))
        if answer_of(interval, SMALL) or is_undecidable(last, interval, SMALL, 0.05):
            break
    return Stop(interval, number)


WORLDS = (
    World("no bias"),
    World("small bias", (0.1,)),
    World("large bias", (0.5,)),
    World("one template in twelve carries it all", spread=0.05, share=1 / 12, other=0.9),
    World("languages differ (difference)", (0.3, 0.1)),
    World("languages alike (difference)", (0.2, 0.2)),
    World("30 % unparsed, small bias", (0.1,), lost=0.3),
    World("24 templates of 12 questions, no bias", shape=Shape(np.repeat(12, 24)), width=0.3),
    World("8 templates of 12 questions, no bias", shape=Shape(np.repeat(12, 8)), width=0.5),
)


def stops(grid: Grid) -> None:
    """Prints how often the interval at the stop holds the truth, and the median share of the requests sent by then."""
    rules = ("until a width", "until decided")
    head("model", *(f"{rule}: {what}" for rule in rules for what in ("holds", "requests")), "decided wrong")
    for world in WORLDS:
        true, found = world.truth(), []
        for looks in simulated(world, grid.runs, 7):
            found.append((until_width(looks, world.width), until_decided(looks)))
        cells = []
        for ends in zip(*found, strict=True):
            held = np.mean([stop.interval.low <= true <= stop.interval.high for stop in ends])
            cells += [f"{held:.1%}", f"{np.median([world.shape.part(stop.look) for stop in ends]):.1%}"]
        said = [answer_of(decided.interval, SMALL) or "" for _, decided in found]
        false = ("yes",) * (abs(true) < 1e-3) + ("smaller",) * (abs(true) >= SMALL)
        row(f"{world.name} ({true:+.3f})", *cells, f"{np.mean([text.startswith(false) for text in said]):.1%}")


# --- effects of axes -------------------------------------------------------------------------------------------------

LANGUAGE = SimulatedLanguage(ability=0.2, unknown=0.25)
SEEN = (1 - LANGUAGE.ability) * (1 - LANGUAGE.unknown)
"""How much of a lean the score shows."""
AXES: Mapping[CellDesign, str] = {
    "full": "politeness=plain+courteous,format=free+json,hint=all",
    "fractional": "politeness=plain+courteous,format=free+json,hint=all,debias=none+no_stereotypes",
}


def shift(cell: str) -> float:
    """What a cell adds to the lean."""
    levels = set((parse_variant_name(cell) or {}).values())
    return 0.2 * ("json" in levels) - 0.25 * ("say_so" in levels) + 0.2 * ({"json", "say_so"} <= levels)


def true_effect(effect: Effect, cells: Sequence[str]) -> float:
    """The effect in expectation, by plain means over cells."""
    shifts = [(parse_variant_name(cell) or {}, shift(cell)) for cell in cells]

    def mean(*levels: str) -> float:
        wanted = dict(zip(effect.axes, levels, strict=True))
        found = [size for cell, size in shifts if wanted.items() <= cell.items()]
        return SEEN * sum(found) / len(found)

    if len(effect.axes) == 1:
        return mean(*effect.levels) - mean(*effect.against)
    (one, other), (base, its) = effect.levels, effect.against
    return mean(one, other) - mean(base, other) - mean(one, its) + mean(base, its)


def _effects(cells: Sequence[str], templates: int, seed: int, shifts: Mapping[str, float]) -> list[Effect]:
    """The effects found in one simulated run."""
    design = Design(
        templates=templates, variants=len(cells), fillings=2, splits=("bias",), names=tuple(cells), sizes_differ=True
    )
    model = SimulatedModel(
        {"en": LANGUAGE, "tr": LANGUAGE}, template_sd=0.15, interaction_sd=0.1, template_wording_sd=0.15, shifts=shifts
    )
    found = effect_table(simulate(model, design, seed), BIAS, InferenceSettings(n_resamples=400, seed=seed))
    assert isinstance(found, EffectTable), found
    return [*found.main, *found.interactions]


def effects(grid: Grid) -> None:
    """Prints estimates of effects of axes and coverage, and how often any is found where none is."""
    runs, numbers = max(grid.runs // 4, 2), (8, 30, 98)
    head("design", "effect", "truth", *(f"{number} templates: mean estimate, held" for number in numbers))
    for kind, axes in AXES.items():
        cells = factorial_design(parse_axes(axes), kind)
        rows: dict[tuple[str, str], list[str]] = defaultdict(list)
        for templates in numbers:
            found_ones: dict[tuple[str, str], list[tuple[float, bool]]] = defaultdict(list)
            false_finds = 0
            for seed in range(runs):
                for effect in _effects(cells, templates, seed, {cell: shift(cell) for cell in cells}):
                    true, found = true_effect(effect, cells), effect.difference
                    low, high = found.ci_low, found.ci_high
                    held = low is not None and high is not None and low <= true <= high
                    found_ones[" × ".join(effect.levels), f"{true:+.3f}"].append((found.value or 0.0, held))
                empty = _effects(cells, templates, seed + runs, dict.fromkeys(cells, 0.0))
                adjusted = [effect.test.p_adjusted for effect in empty]
                false_finds += any(p is not None and p < 0.05 for p in adjusted)
            for name, pairs in found_ones.items():
                estimate, rate = (sum(column) / runs for column in zip(*pairs, strict=True))
                rows[name].append(f"{estimate:+.3f}, {rate:.1%}")
            rows["any, where none is", ""].append(f"found in {false_finds / runs:.1%}")
        for name, columns in rows.items():
            row(kind, *name, *columns)


# --- compare ---------------------------------------------------------------------------------------------------------

DESIGN = Design(templates=40, variants=3, fillings=4)
Language = SimulatedLanguage
PAIRS: dict[str, tuple[Language, Language]] = {
    "nothing differs": (Language(lean=0.3), Language(lean=0.3)),
    "bias 0.2 and 0.5": (Language(lean=0.2), Language(lean=0.5)),
    "bias 0.0 and 0.6": (Language(lean=0.0), Language(lean=0.6)),
    "no bias, ability 0.8 and 0.2": (Language(ability=0.8), Language(ability=0.2)),
    "bias 0.4 in both, ability 0.7 and 0.1": (Language(lean=0.4, ability=0.7), Language(lean=0.4, ability=0.1)),
    "no bias, one likes label A (0.5)": (Language(first_place=0.5), Language()),
    "bias 0.3 in both, one likes label A (0.2)": (Language(lean=0.3, first_place=0.2), Language(lean=0.3)),
    "no bias, the context is biased in one (0.4)": (Language(artefact=0.4), Language()),
}
STATEMENTS: dict[str, Callable[[PairDifference], bool]] = {
    "difference": lambda pair: speaks(pair.tests[0]),
    "adjusted for control": lambda pair: speaks(pair.adjusted_test),
    "direction part": lambda pair: pair.decomposition is not None and pair.decomposition.direction.excludes_zero,
    "rate part": lambda pair: pair.decomposition is not None and pair.decomposition.rate.excludes_zero,
    "warned: ability": lambda pair: "ability_could_explain" in pair.warnings,
    "warned: control": lambda pair: "control_differs" in pair.warnings,
}


def _pairs(frame: pl.DataFrame, *names: str) -> list[PairDifference]:
    """The pair of languages, by each metric."""
    found = compare(frame, "language", [METRICS[name] for name in names], sampling=InferenceSettings(n_resamples=500))
    return [metric.pairs[0] for metric in found.comparisons[0].metrics]


def comparison(grid: Grid) -> None:
    """Prints in how many per cent of the runs `compare` makes each statement about two languages."""
    metrics, runs = ("mbbq_bias_ambiguous", "diff_bias_disambiguated"), max(grid.runs // 8, 2)
    head("world", "context", *STATEMENTS)
    for title, (one, other) in PAIRS.items():
        model = SimulatedModel({"en": one, "tr": other})
        found = [_pairs(simulate(model, DESIGN, seed), *metrics) for seed in range(runs)]
        for name, pairs in zip(metrics, zip(*found, strict=True), strict=True):
            made = (f"{100 * sum(map(said, pairs)) / runs:.0f}" for said in STATEMENTS.values())
            row(title, METRICS[name].condition, *made)
    model = SimulatedModel({"en": Language(first_place=0.5), "tr": Language()})
    frames = (simulate(model, replace(DESIGN, is_balanced=False), seed) for seed in range(runs))
    found = [_pairs(frame.filter(pl.col("polarity") == "negative"), BIAS.name) for frame in frames]
    loud = [pair for (pair,) in found if pair.difference.excludes_zero]
    warned = sum("position_could_explain" in pair.warnings for pair in loud)
    print(
        "\nOrders that put the target first in negative questions, one language likes label A (0.5), no bias: a "
        f"difference in {100 * len(loud) / runs:.0f} %, and in {100 * warned / max(len(loud), 1):.0f} % of these the "
        "warning `position_could_explain`."
    )


TABLES: dict[str, Callable[[Grid], None]] = {"stops": stops, "effects": effects, "comparison": comparison}
