"""Do intervals hold the truth on templates that the control answers selected (`compare --select above-chance`)?

    python benches/simulate_selection.py [RUNS]

Two languages. In a share of the templates the model guesses in both (ability 0), in the others its ability is drawn
between 0.2 and 0.9 in each language, and where it is able it leans less; 12 disambiguated control questions and 24
ambiguous ones a template. Kept are the templates with more than a third of the control questions right in both. For the
first language's bias and for the difference of the two, over RUNS samples (default 300): how often the 95 % interval
holds the mean of the templates that such answers keep, with the selected templates drawn (as `compare` does) and with
all templates drawn and then selected (through the selection), with mean widths; how often the former holds the mean of
the templates that the model can do in truth; and how many templates are kept. The table stands in docs/statistics.md.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from simulate_coverage import _code, panel_of

from mbbq_gen.scoring import METRICS
from mbbq_gen.scoring.cells import CELLS
from mbbq_gen.statistics.panel import Estimate, Sampling

Array = Any
SAMPLING = Sampling(resamples=800)
BIAS = METRICS["mbbq_bias_ambiguous"]
TEMPLATES = (15, 40, 98)
GUESSED = (0.2, 0.6)
CONTROL, ASKED = 12, 24
LARGE = 200_000


class Sample:
    """Templates of two languages with what the model does there, and what it answered."""

    def __init__(self, templates: int, guessed: float, generator: np.random.Generator) -> None:
        able = generator.random(templates) >= guessed
        self.able = able
        ability = np.where(able, generator.uniform(0.2, 0.9, (2, templates)), 0.0)
        right = generator.binomial(CONTROL, (1 + 2 * ability) / 3)
        self.kept: Array = (3 * right > CONTROL).all(axis=0)
        shared = generator.normal(0, 0.2, templates)
        lean = np.clip(np.where(able, 0.2, 0.0) + np.array([[0.15], [0.0]]) + shared, -0.95, 0.95)
        lean = np.clip(lean + generator.normal(0, 0.15, (2, templates)), -0.95, 0.95)
        named = 0.67 * (1 - ability)
        self.bias = named * lean
        self._chances = np.stack([named * (1 + lean) / 2, named * (1 - lean) / 2, 1 - named], axis=-1)

    def truths(self, which: Array) -> tuple[float, float]:
        """The first language's bias on some templates, and the difference."""
        first, second = self.bias[:, which].mean(axis=1)
        return float(first), float(first - second)

    def answers(self, generator: np.random.Generator) -> Array:
        """Cells of two languages × templates."""
        said = generator.multinomial(ASKED, self._chances)
        cells = np.zeros((*said.shape[:2], len(CELLS)))
        for place, choice in enumerate(("target", "non_target", "unknown")):
            cells[..., _code("ambiguous", choice, "unknown")] = said[..., place]
        return cells


def estimates(cells: Array) -> tuple[Estimate, Estimate]:
    """The first language's bias, and the difference."""
    first, second = panel_of(cells, SAMPLING).estimates(BIAS)
    return first, first.minus(second)


def line(templates: int, guessed: float, runs: int) -> str:
    """One line of the table."""
    large = Sample(LARGE, guessed, np.random.default_rng(1))
    passing, doing = large.truths(large.kept), large.truths(large.able)
    generator = np.random.default_rng([templates, round(100 * guessed), runs])
    held, wide, made, kept = np.zeros((2, 3)), np.zeros((2, 2)), 0, 0
    for _ in range(runs):
        sample = Sample(templates, guessed, generator)
        cells = sample.answers(generator)
        kept += int(sample.kept.sum())
        if sample.kept.sum() < 5:
            continue
        made += 1
        through = np.where(sample.kept[None, :, None], cells, 0.0)
        for place, pair in enumerate(zip(estimates(cells[:, sample.kept]), estimates(through), strict=True)):
            ends = [one.interval(0.95) or (0.0, 0.0) for one in pair]
            held[place, :2] += [low <= passing[place] <= high for low, high in ends]
            held[place, 2] += ends[0][0] <= doing[place] <= ends[0][1]
            wide[place] += [high - low for low, high in ends]
    held, wide = 100 * held / made, wide / made
    cells_of = [
        f"{held[place, 0]:.0f} ({wide[place, 0]:.2f}) | {held[place, 1]:.0f} ({wide[place, 1]:.2f}) | "
        f"{held[place, 2]:.0f}"
        for place in range(2)
    ]
    return f"| {guessed:.0%} | {templates} | {kept / runs:.1f} | {' | '.join(cells_of)} |"


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    each = "selected templates drawn | through the selection | of those it can do"
    print(f"| guessed | templates | kept | score: {each} | difference: {each} |")
    print("|" + "---|" * 9)
    for guessed in GUESSED:
        for templates in TEMPLATES:
            print(line(templates, guessed, runs), flush=True)


if __name__ == "__main__":
    main()
