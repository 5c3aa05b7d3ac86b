"""Do the effects of axes come out as they were put in? Simulated runs with known main effects and interactions.

    python benches/simulate_effects.py [RUNS]

Each run asks two languages in all cells of three axes (`full`), or in half of the cells of four (`fractional`). `json`
adds 0.20 to the lean, `say_so` takes 0.25 off, and both together add 0.20 more; everything else does nothing. Printed:
the mean estimate beside the truth, how often the 95 % interval holds the truth, and how often any effect is found where
none is (Holm), which must be 5 % at most.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence

from mbbq_gen.axes import Design as CellDesign
from mbbq_gen.axes import aliases, design_cells, parse_axes, parse_cell
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.statistics.effects import Effect, EffectTable, effect_table
from mbbq_gen.statistics.panel import Sampling
from tests.support.simulation import Design, SimulatedLanguage, SimulatedModel, simulate

METRIC = METRICS["mbbq_bias_ambiguous"]
LANGUAGE = SimulatedLanguage(ability=0.2, unknown=0.25)
SEEN = (1 - LANGUAGE.ability) * (1 - LANGUAGE.unknown)
"""How much of a lean the score shows."""
AXES: Mapping[CellDesign, str] = {
    "full": "politeness=plain+courteous,format=free+json,hint=all",
    "fractional": "politeness=plain+courteous,format=free+json,hint=all,debias=none+no_stereotypes",
}
ALONE = {"json": 0.20, "say_so": -0.25}
TOGETHER = {frozenset({"json", "say_so"}): 0.20}


def shift(cell: str) -> float:
    """What a cell adds to the lean."""
    levels = set((parse_cell(cell) or {}).values())
    return sum(size for level, size in ALONE.items() if level in levels) + sum(
        size for pair, size in TOGETHER.items() if pair <= levels
    )


def truth(effect: Effect, cells: Sequence[str], shifts: Mapping[str, float]) -> float:
    """The effect in expectation, by plain means over cells."""
    levels = [(parse_cell(cell) or {}, shifts[cell]) for cell in cells]

    def mean(**wanted: str) -> float:
        found = [size for cell, size in levels if all(cell[axis] == level for axis, level in wanted.items())]
        return sum(found) / len(found)

    if len(effect.axes) == 1:
        (axis,), (level,), (base,) = effect.axes, effect.levels, effect.against
        return SEEN * (mean(**{axis: level}) - mean(**{axis: base}))
    (one, other), (level, its), (base, its_base) = effect.axes, effect.levels, effect.against
    told = mean(**{one: level, other: its}) - mean(**{one: base, other: its})
    return SEEN * (told - mean(**{one: level, other: its_base}) + mean(**{one: base, other: its_base}))


def simulated(cells: Sequence[str], shifts: Mapping[str, float], templates: int, seed: int) -> EffectTable:
    """The effects found in one simulated run."""
    design = Design(
        templates=templates, variants=len(cells), fillings=2, splits=("bias",), names=tuple(cells), sizes_differ=True
    )
    model = SimulatedModel(
        {"en": LANGUAGE, "tr": LANGUAGE}, template_sd=0.15, interaction_sd=0.1, template_wording_sd=0.15, shifts=shifts
    )
    found = effect_table(simulate(model, design, seed), METRIC, Sampling(resamples=400, seed=seed))
    assert isinstance(found, EffectTable), found
    return found


def show(kind: CellDesign, templates: int, runs: int) -> None:
    """One design: estimates and coverage with effects, and false finds without."""
    cells = design_cells(parse_axes(AXES[kind]), kind)
    shifts = {cell: shift(cell) for cell in cells}
    none = dict.fromkeys(cells, 0.0)
    values: dict[str, list[float]] = defaultdict(list)
    covered: dict[str, list[bool]] = defaultdict(list)
    true: dict[str, float] = {}
    false_finds = 0
    for seed in range(runs):
        for effect in (*(table := simulated(cells, shifts, templates, seed)).main, *table.interactions):
            name = " × ".join(effect.levels)
            low, high = effect.difference.low, effect.difference.high
            assert effect.difference.value is not None
            assert low is not None
            assert high is not None
            true[name] = truth(effect, cells, shifts)
            values[name].append(effect.difference.value)
            covered[name].append(low <= true[name] <= high)
        empty = simulated(cells, none, templates, seed + runs)
        tested = [effect.test.p_adjusted for effect in (*empty.main, *empty.interactions)]
        false_finds += any(p is not None and p < 0.05 for p in tested)
    print(f"\n{kind}, {len(cells)} cells, {templates} templates, {runs} runs; aliased: {len(aliases(cells))} pairs")
    for name, found in values.items():
        rate = sum(covered[name]) / len(covered[name])
        print(f"  {name:32} true {true[name]:+.3f}   mean {sum(found) / len(found):+.3f}   covered {rate:.1%}")
    print(f"  any effect found where none is: {false_finds / runs:.1%}")


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    for kind in AXES:
        for count in (8, 30, 98):
            show(kind, count, number)
