"""Do intervals and tests over wordings like those asked (`--wordings random`) keep what they promise?

    python benches/simulate_wordings.py [RUNS]

Every line draws RUNS samples (default 300): two languages, templates and wordings, 24 ambiguous questions a template in
each wording, no lean on average. Leans vary by template (sd 0.2), template × language (0.15), template × wording (0.1),
and by wording, and by language × wording, as the line says. How often the 95 % interval of one score and of the
difference of the languages holds 0, with wordings held fixed → random, and (mean widths); and how often the tests speak
at the 5 % level. The table stands in docs/statistics.md.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
from simulate_coverage import FastPanel, _code

from mbbq_gen.scoring import METRICS
from mbbq_gen.scoring.cells import CELLS
from mbbq_gen.scoring.tally import Tally
from mbbq_gen.statistics.crossed import crossed
from mbbq_gen.statistics.panel import Estimate, Sampling, contributions
from mbbq_gen.statistics.significance import sign_flip

Array = Any
SAMPLING = Sampling(resamples=600, wordings="random")
BIAS = METRICS["mbbq_bias_ambiguous"]
NAMING = 0.67
SPREADS = (0.0, 0.05, 0.2)
TEMPLATES = (8, 40, 98)
WORDINGS = (3, 6, 12)


def draw(templates: int, wordings: int, spread: float, generator: np.random.Generator) -> Array:
    """Cells of two languages × templates × wordings."""
    normal, both = generator.normal, (2, templates, wordings)
    leans = normal(0, 0.2, (1, templates, 1)) + normal(0, 0.15, (2, templates, 1)) + normal(0, 0.1, both)
    leans = leans + normal(0, spread, (1, 1, wordings)) + normal(0, spread, (2, 1, wordings))
    leans = np.clip(leans, -0.95, 0.95)
    named = np.full(both, NAMING)
    chances = np.stack([named * (1 + leans) / 2, named * (1 - leans) / 2, 1 - named], axis=-1)
    said = generator.multinomial(24, chances / chances.sum(axis=-1, keepdims=True))
    cells = np.zeros((*both, len(CELLS)))
    for place, choice in enumerate(("target", "non_target", "unknown")):
        cells[..., _code("ambiguous", choice, "unknown")] = said[..., place]
    return cells


def estimates(cells: Array) -> tuple[Estimate, Estimate]:
    """The first language's score, and the difference of the two."""
    names = tuple(f"t{number}" for number in range(cells.shape[1]))
    summed = cells.sum(axis=2)
    tallies = tuple(Tally({"language": str(row)}, 0, {}, {}, 0, names, summed[row]) for row in range(2))
    groups = tuple(tally.group for tally in tallies)
    first, second = FastPanel(groups, tallies, names, summed, SAMPLING, None, cells).estimates(BIAS)
    return first, first.minus(second)


def line(templates: int, wordings: int, spread: float, runs: int) -> str:
    """One line of the table."""
    generator = np.random.default_rng([templates, wordings, round(100 * spread), runs])
    held, spoken, wide = np.zeros(4), np.zeros(4), np.zeros(4)
    for run in range(runs):
        for place, random in enumerate(estimates(draw(templates, wordings, spread, generator))):
            fixed = replace(random, crossing=None)
            tests = (sign_flip(contributions(fixed), "h", seed=run), crossed(random, "h", seed=run))
            for kind, (one, test) in enumerate(zip((fixed, random), tests, strict=True)):
                low, high = one.interval(0.95) or (0.0, 0.0)
                held[2 * place + kind] += low <= 0 <= high
                wide[2 * place + kind] += high - low
                spoken[2 * place + kind] += (test.p_value or 0.0) < 0.05
    held, spoken, wide = 100 * held / runs, 100 * spoken / runs, wide / runs
    cells = [
        f"{held[at]:.0f} → {held[at + 1]:.0f} ({wide[at]:.2f} → {wide[at + 1]:.2f}) | {spoken[at]:.1f} → "
        f"{spoken[at + 1]:.1f}"
        for at in (0, 2)
    ]
    return f"| {spread:g} | {templates} | {wordings} | {' | '.join(cells)} |"


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    print("| sd of wordings | templates | wordings | score: held | test speaks | difference: held | test speaks |")
    print("|---|---|---|---|---|---|---|")
    for spread in SPREADS:
        for templates in TEMPLATES:
            for wordings in WORDINGS:
                print(line(templates, wordings, spread, runs), flush=True)


if __name__ == "__main__":
    main()
