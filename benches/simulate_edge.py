"""Do 95 % intervals hold the truth where models are strong: nearly always right, nearly always "can't be told"?

    python benches/simulate_edge.py [RUNS]

Every line draws RUNS samples (default 400) of templates and answers, 24 ambiguous questions a template on average, and
counts how often the interval holds the truth, with the bootstrap alone and with room for what was not seen; and how
wide both are on average. The table stands in docs/statistics.md.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
from simulate_coverage import _code, panel_of

from mbbq_gen.scoring import METRICS
from mbbq_gen.scoring.cells import CELLS
from mbbq_gen.statistics.panel import Estimate, Sampling

Array = Any
Generator = np.random.Generator
SAMPLING = Sampling(resamples=1000)
TEMPLATES = (5, 8, 15, 40, 98)
CHOICES = ("target", "non_target", "unknown")
"""To negative questions: biased, counter-biased, right."""


def strong(share: float, hard: float, easy: float) -> Callable[[int, Generator], Array]:
    """Chances of templates × CHOICES: a share of them is as hard as that, the others as easy; wrong ones lean."""

    def chances(templates: int, generator: Generator) -> Array:
        right = np.where(generator.random(templates) < share, hard, easy)
        return np.stack([(1 - right) * 0.8, (1 - right) * 0.2, right], axis=1)

    return chances


def lean(templates: int, generator: Generator) -> Array:
    """Ordinary models: 40 % right, templates lean by 0.3 with sd 0.3."""
    own = np.clip(generator.normal(0.3, 0.3, templates), -1, 1)
    return np.stack([0.6 * (1 + own) / 2, 0.6 * (1 - own) / 2, 0 * own + 0.4], axis=1)


WORLDS: dict[str, Callable[[int, Generator], Array]] = {
    "a tenth of the templates at 0.7, the others at 0.998": strong(0.1, 0.7, 0.998),
    "0.999 everywhere": strong(0.0, 0.0, 0.999),
    "one in twenty at 0.5, the others never wrong": strong(0.05, 0.5, 1.0),
    "0.98 everywhere": strong(0.0, 0.0, 0.98),
    "ordinary": lean,
}


def draw(world: Callable[[int, Generator], Array], templates: int, sizes: str, generator: Generator) -> Array:
    """Cells of one language × templates."""
    asked = np.full(templates, 24)
    if sizes == "uneven":
        asked = np.maximum(4, np.exp(generator.normal(np.log(24) - 0.5, 1.0, templates)).astype(int))
    counts = generator.multinomial(asked, world(templates, generator))
    cells = np.zeros((1, templates, len(CELLS)))
    for place, choice in enumerate(CHOICES):
        cells[0, :, _code("ambiguous", choice, "unknown")] += counts[:, place]
    return cells


def truth(world: Callable[[int, Generator], Array], metric: str) -> float:
    """The metric in the population."""
    chances = world(400_000, np.random.default_rng(1)).mean(axis=0)
    return float(chances[2] if metric == "accuracy_ambiguous" else chances[0] - chances[1])


class WithoutRoom(Estimate):
    """The same number with the bootstrap alone."""

    def with_room(self, low: float, high: float, confidence: float, beyond: float = math.inf) -> tuple[float, float]:
        return low, high


def without_room(estimate: Estimate) -> Estimate:
    """The same number, as the bootstrap alone has it."""
    return WithoutRoom(**{field.name: getattr(estimate, field.name) for field in fields(estimate)})


def line(title: str, metric: str, sizes: str, runs: int) -> None:
    """One line of the table."""
    world = WORLDS[title]
    wanted, parts = truth(world, metric), []
    for templates in TEMPLATES:
        generator = np.random.default_rng([templates, runs, 3])
        held, wide = np.zeros(2), np.zeros(2)
        for _ in range(runs):
            (estimate,) = panel_of(draw(world, templates, sizes, generator), SAMPLING).estimates(METRICS[metric])
            for place, one in enumerate((without_room(estimate), estimate)):
                found = one.score(SAMPLING)
                low, high = found.low or 0.0, found.high or 0.0
                held[place] += low - 1e-4 <= wanted <= high + 1e-4
                wide[place] += high - low
        (before, now), (narrow, broad) = 100 * held / runs, wide / runs
        parts.append(f"{before:.0f} → {now:.0f} % ({narrow:.3f} → {broad:.3f})")
    print(f"| {title} | {metric} | {sizes} | {' | '.join(parts)} |", flush=True)


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    print(f"| model | score | template sizes | {' | '.join(f'{count} templates' for count in TEMPLATES)} |")
    print("|---|---|---|" + "---|" * len(TEMPLATES))
    for title in WORLDS:
        for metric in ("accuracy_ambiguous", "mbbq_bias_ambiguous"):
            for sizes in ("equal", "uneven"):
                line(title, metric, sizes, runs)


if __name__ == "__main__":
    main()
