"""Simulated runs through whole analyses: effects of axes, and comparison of two languages.

Run by `simulate_all.py`, which says what each table shows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import polars as pl
from simulated import BIAS, head, row, speaks

from mbbq_gen.analysis.comparison import compare
from mbbq_gen.analysis.comparison_table import PairDifference
from mbbq_gen.analysis.robustness import Effect, EffectTable, effect_table
from mbbq_gen.languages.axes import Design as CellDesign
from mbbq_gen.languages.axes import factorial_design, parse_axes, parse_variant_name
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.statistics.estimate import InferenceSettings
from tests.support.simulation import Design, SimulatedLanguage, SimulatedModel, simulate

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


def effects(runs: int) -> None:
    """Prints estimates of effects of axes and coverage, and how often any is found where none is."""
    head("design", "templates", "effect", "truth", "mean estimate", "held")
    for kind, axes in AXES.items():
        cells = factorial_design(parse_axes(axes), kind)
        for templates in (8, 30, 98):
            rows: dict[str, list[tuple[float, float, bool]]] = defaultdict(list)
            false_finds = 0
            for seed in range(runs):
                for effect in _effects(cells, templates, seed, {cell: shift(cell) for cell in cells}):
                    true, found = true_effect(effect, cells), effect.difference
                    held = (
                        found.ci_low is not None and found.ci_high is not None and found.ci_low <= true <= found.ci_high
                    )
                    rows[" × ".join(effect.levels)].append((true, found.value or 0.0, held))
                empty = _effects(cells, templates, seed + runs, dict.fromkeys(cells, 0.0))
                adjusted = [effect.test.p_adjusted for effect in empty]
                false_finds += any(p is not None and p < 0.05 for p in adjusted)
            for name, found_ones in rows.items():
                true, estimate, rate = (sum(column) / runs for column in zip(*found_ones, strict=True))
                row(kind, templates, name, f"{true:+.3f}", f"{estimate:+.3f}", f"{rate:.1%}")
            row(kind, templates, "any, where none is", "", "", f"found in {false_finds / runs:.1%}")


# --- compare ---------------------------------------------------------------------------------------------------------

DESIGN = Design(templates=40, variants=3, fillings=4)
Language = SimulatedLanguage
PAIRS: dict[str, tuple[Language, Language]] = {
    "nothing differs": (Language(lean=0.3), Language(lean=0.3)),
    "lean 0.2 and 0.5": (Language(lean=0.2), Language(lean=0.5)),
    "lean 0.0 and 0.6": (Language(lean=0.0), Language(lean=0.6)),
    "no lean, ability 0.8 and 0.2": (Language(ability=0.8), Language(ability=0.2)),
    "lean 0.4 in both, ability 0.7 and 0.1": (Language(lean=0.4, ability=0.7), Language(lean=0.4, ability=0.1)),
    "no lean, one likes label A (0.5)": (Language(first_place=0.5), Language()),
    "lean 0.3 in both, one likes label A (0.2)": (Language(lean=0.3, first_place=0.2), Language(lean=0.3)),
    "no lean, the story leans in one (0.4)": (Language(artefact=0.4), Language()),
}
STATEMENTS: dict[str, Callable[[PairDifference], bool]] = {
    "difference": lambda pair: speaks(pair.tests[0]),
    "adjusted for control": lambda pair: speaks(pair.adjusted_test),
    "lean part": lambda pair: pair.decomposition is not None and pair.decomposition.direction.excludes_zero,
    "naming part": lambda pair: pair.decomposition is not None and pair.decomposition.rate.excludes_zero,
    "warned: ability": lambda pair: "ability_could_explain" in pair.warnings,
    "warned: control": lambda pair: "control_differs" in pair.warnings,
}


def _pairs(frame: pl.DataFrame, *names: str) -> list[PairDifference]:
    """The pair of languages, by each metric."""
    found = compare(frame, "language", [METRICS[name] for name in names], sampling=InferenceSettings(n_resamples=500))
    return [metric.pairs[0] for metric in found.comparisons[0].metrics]


def comparison(runs: int) -> None:
    """Prints in how many per cent of the runs `compare` makes each statement about two languages."""
    metrics = ("mbbq_bias_ambiguous", "diff_bias_disambiguated")
    head("world", "score", *STATEMENTS)
    for title, (one, other) in PAIRS.items():
        model = SimulatedModel({"en": one, "tr": other})
        found = [_pairs(simulate(model, DESIGN, seed), *metrics) for seed in range(runs)]
        for name, pairs in zip(metrics, zip(*found, strict=True), strict=True):
            row(title, name, *(f"{100 * sum(map(said, pairs)) / runs:.0f}" for said in STATEMENTS.values()))
    model = SimulatedModel({"en": Language(first_place=0.5), "tr": Language()})
    frames = (simulate(model, replace(DESIGN, is_balanced=False), seed) for seed in range(runs))
    found = [_pairs(frame.filter(pl.col("polarity") == "negative"), BIAS.name) for frame in frames]
    loud = [pair for (pair,) in found if pair.difference.excludes_zero]
    warned = sum("position_could_explain" in pair.warnings for pair in loud)
    print(
        "\nOrders that put the target first in negative questions, one language likes label A (0.5), no lean: a "
        f"difference in {100 * len(loud) / runs:.0f} %, and in {100 * warned / max(len(loud), 1):.0f} % of these the "
        "warning `position_could_explain`."
    )


TABLES: dict[str, Callable[[int], None]] = {"effects": effects, "comparison": comparison}
