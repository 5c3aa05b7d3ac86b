"""Do intervals hold the truth on templates that the control answers selected (`compare --select above-chance`)?

    python benches/simulate_selection.py [RUNS] [scores] [adjusted]

Two languages. In a share of the templates the model guesses in both (ability 0), in the others its ability is drawn
between 0.2 and 0.9 in each language, and where it is able it leans less; 12 disambiguated questions and 24 ambiguous
ones a template and split. Kept are the templates with more than a third of the disambiguated control questions right in
both. The story of a template leans too, on bias and control questions alike.

For the first language's score and for the difference of the two, over RUNS samples (default 300): how often the 95 %
interval holds the mean of the templates that such answers keep, with the selected templates drawn (as `compare` does)
and with all templates drawn and then selected (through the selection), with mean widths; how often the former holds the
mean of the templates that the model can do in truth; and how many templates are kept. `scores`: the bias in ambiguous
contexts. `adjusted`: the same with control taken off, and the bias in told contexts with control taken off, where the
very answers that select are those that are taken off. The tables stand in docs/statistics.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from simulate_coverage import CONTEXTS, _code, panel_of

from mbbq_gen.scoring import METRICS
from mbbq_gen.scoring.cells import CELLS
from mbbq_gen.scoring.reasons import MIN_TEMPLATES
from mbbq_gen.statistics.panel import Estimate, Sampling

Array = Any
SAMPLING = Sampling(resamples=800)
AMBIGUOUS, TOLD = METRICS["mbbq_bias_ambiguous"], METRICS["diff_bias_disambiguated"]
TEMPLATES = (15, 40, 98)
GUESSED = (0.2, 0.6)
ASKED: Final = {"ambiguous": 24, "biased": 6, "counter_biased": 6}
CONTROL: Final = ASKED["biased"] + ASKED["counter_biased"]
CHOICES = ("target", "non_target", "unknown")
LARGE = 200_000
Truths = list[tuple[float, float]]


class Sample:
    """Templates of two languages with what the model does there, and what it answered."""

    def __init__(self, templates: int, guessed: float, generator: np.random.Generator) -> None:
        self.able = generator.random(templates) >= guessed
        self._ability = np.where(self.able, generator.uniform(0.2, 0.9, (2, templates)), 0.0)
        lean = np.where(self.able, 0.2, 0.0) + np.array([[0.15], [0.0]]) + generator.normal(0, 0.2, templates)
        story = generator.normal(0.1, 0.1, templates)
        both = lean + generator.normal(0, 0.15, (2, templates)) + story
        self._leans = np.clip(np.stack([both, np.broadcast_to(story, both.shape)]), -0.95, 0.95)
        self.cells = self._answers(generator)
        self.kept: Array = (3 * self._right() > CONTROL).all(axis=0)

    def _answers(self, generator: np.random.Generator) -> Array:
        """Cells of bias and control split × languages × templates."""
        named = 2 / 3 * (1 - self._ability)
        cells = np.zeros((*self._leans.shape, len(CELLS)))
        for context, _, right in CONTEXTS:
            persons = [named * (1 + self._leans) / 2, named * (1 - self._leans) / 2]
            chances = np.stack([*persons, np.broadcast_to(named / 2, self._leans.shape)], axis=-1)
            chances[..., CHOICES.index(right)] += self._ability
            said = generator.multinomial(ASKED[context], chances / chances.sum(axis=-1, keepdims=True))
            for place, choice in enumerate(CHOICES):
                cells[..., _code(context, choice, right)] += said[..., place]
        return cells

    def _right(self) -> Array:
        """Right answers to disambiguated control questions, of languages × templates."""
        told = [_code(context, right, right) for context, _, right in CONTEXTS if context != "ambiguous"]
        return self.cells[1][..., told].sum(axis=-1)

    def truths(self, which: Array, *, adjusted: bool) -> Truths:
        """The first language's score on some templates, and the difference: of ambiguous contexts, and of told ones.

        Naming times lean is the bias in either: a person is named wrongly as often in told contexts.
        """
        lean = self._leans[0] - self._leans[1] if adjusted else self._leans[0]
        first, second = (2 / 3 * (1 - self._ability) * lean)[:, which].mean(axis=1)
        return [(float(first), float(first - second))] * (2 if adjusted else 1)


def estimates(cells: Array, *, adjusted: bool) -> list[tuple[Estimate, Estimate]]:
    """The first language's score and the difference, of each metric; cells: splits × languages × templates."""
    panel = panel_of(cells.reshape(-1, *cells.shape[2:]), SAMPLING)
    found = []
    for metric in (AMBIGUOUS, TOLD) if adjusted else (AMBIGUOUS,):
        first, second, control, its = panel.estimates(metric)
        if adjusted:
            first, second = first.minus(control), second.minus(its)
        found.append((first, first.minus(second)))
    return found


def line(templates: int, guessed: float, runs: int, *, adjusted: bool) -> str:
    """One line of a table."""
    large = Sample(LARGE, guessed, np.random.default_rng(1))
    passing, doing = (large.truths(which, adjusted=adjusted) for which in (large.kept, large.able))
    generator = np.random.default_rng([templates, round(100 * guessed), runs])
    metrics, made, kept = len(passing), 0, 0
    held, wide = np.zeros((metrics, 2, 3)), np.zeros((metrics, 2, 2))
    for _ in range(runs):
        sample = Sample(templates, guessed, generator)
        kept += int(sample.kept.sum())
        if sample.kept.sum() < MIN_TEMPLATES:
            continue
        made += 1
        through = np.where(sample.kept[:, None], sample.cells, 0.0)
        drawn = [estimates(cells, adjusted=adjusted) for cells in (sample.cells[:, :, sample.kept], through)]
        for metric, what in np.ndindex(metrics, 2):
            ends = [found[metric][what].interval(0.95) or (0.0, 0.0) for found in drawn]
            truths = (passing[metric][what], passing[metric][what], doing[metric][what])
            for place, (low, high) in enumerate((*ends, ends[0])):
                held[metric, what, place] += low <= truths[place] <= high
            wide[metric, what] += [high - low for low, high in ends]
    cells = [
        _told(100 * held[metric, what] / made, wide[metric, what] / made) for metric, what in np.ndindex(metrics, 2)
    ]
    return f"| {guessed:.0%} | {templates} | {kept / runs:.1f} | {' | '.join(cells)} |"


def _told(held: Array, wide: Array) -> str:
    return f"{held[0]:.1f} ({wide[0]:.2f}) | {held[1]:.1f} ({wide[1]:.2f}) | {held[2]:.1f}"


def table(runs: int, names: Sequence[str], *, adjusted: bool) -> None:
    """Prints a line for each share guessed and number of templates."""
    each = "selected templates drawn | through the selection | of those it can do"
    print(f"| guessed | templates | kept | {' | '.join(f'{name}: {each}' for name in names)} |")
    print("|" + "---|" * (3 + 3 * len(names)))
    for guessed in GUESSED:
        for templates in TEMPLATES:
            print(line(templates, guessed, runs, adjusted=adjusted), flush=True)
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="?", type=int, default=300)
    parser.add_argument("tables", nargs="*", choices=["scores", "adjusted", []], default=[])
    asked = parser.parse_args()
    tables = asked.tables or ["scores", "adjusted"]
    if "scores" in tables:
        table(asked.runs, ("score", "difference"), adjusted=False)
    if "adjusted" in tables:
        names = [f"{what}, {where}" for where in ("ambiguous", "told") for what in ("score", "difference")]
        table(asked.runs, names, adjusted=True)


if __name__ == "__main__":
    main()
