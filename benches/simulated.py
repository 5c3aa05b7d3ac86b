"""What the simulations share: models whose scores are known, panels of their answers, and counts of what was found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from mbbq_gen.scoring.cells import CELLS, Cell
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.scoring.tally import Tally
from mbbq_gen.statistics.estimate import Estimate, InferenceSettings
from mbbq_gen.statistics.hypothesis_tests import TestResult
from mbbq_gen.statistics.panel import Panel

Array = Any
Generator = np.random.Generator
BIAS = METRICS["mbbq_bias_ambiguous"]
CHOICES = ("target", "non_target", "unknown", "unparsed")
RIGHT: Final = {"ambiguous": "unknown", "biased": "target", "counter_biased": "non_target"}
"""Context → the right choice."""
SHARES: Final = {"ambiguous": 2, "biased": 1, "counter_biased": 1}
"""Context → its quarters of all questions."""
MBBQ: dict[str, tuple[int, ...]] = {
    "age": (168, 168, 144, 140, 140, 100, 100, 80, 80, 64, 64, 64, 48, 48, 48, 48, 36, 36, 36, 16, 16, 16),
    "disability_status": (120, 84, 64, 60, 36, 36, 32, 24, 24, 24, 24, 24, 24, 16, 16, 16, 16, 8),
    "gender_identity": (64, 36, 36, 32, 16, 8, *[4] * 18),
    "physical_appearance": (100, 64, 48, *[36] * 8, 24, 24, 16, 16, 8),
    "ses": (*[240] * 7, *[24] * 5),
    "sexual_orientation": (16, *[12] * 5),
}
"""Category → ambiguous questions with a single target to each of its templates, in MBBQ's files of one language."""


def code(context: str, choice: str) -> int:
    """The cell of an answer to a negative question."""
    verdict = "unparsed" if choice == "unparsed" else "right" if choice == RIGHT[context] else "wrong"
    condition = "ambiguous" if context == "ambiguous" else "disambiguated"
    return CELLS.index(Cell(condition, verdict, context, "negative", choice))  # type: ignore[arg-type]


CODES = np.array([[code(context, choice) for choice in CHOICES] for context in RIGHT])
"""Contexts × choices."""

AMBIGUOUS = CODES[0]
"""The cells of answers to ambiguous questions, by choice."""


def panel_of(cells: Array, sampling: InferenceSettings, crossed: Array | None = None) -> Panel:
    """A panel of drawn cells of groups × templates; `crossed`: by wording too."""
    groups, templates = cells.shape[:2]
    names = tuple(f"t{number}" for number in range(templates))
    tallies = tuple(Tally({"language": str(row)}, 0, {}, {}, 0, names, cells[row]) for row in range(groups))
    return Panel(tuple(tally.group for tally in tallies), tallies, names, cells, sampling, None, crossed)


@dataclass(frozen=True)
class World:
    """A population of templates, and a model's habits in each of some languages."""

    leans: tuple[float, ...] = (0.3,)
    abilities: tuple[float, ...] = (0.3,)
    template_sd: float = 0.3
    interaction_sd: float = 0.0
    uneven: bool = False
    """Whether sizes of templates are log-normal."""
    fixed: tuple[int, ...] = ()
    """Ambiguous questions of each template; none: 24."""

    def draw(self, templates: int, generator: Generator) -> Array:
        """Cells of languages × templates: as many told questions as ambiguous ones; 5 % of answers can't be read."""
        sizes = np.array(self.fixed) if self.fixed else np.full(templates, 24)
        if self.uneven:
            sizes = np.maximum(4, np.exp(generator.normal(np.log(24) - 0.5, 1.0, templates)).astype(int))
        shared = generator.normal(0, self.template_sd, templates)
        found = np.zeros((len(self.leans), templates, len(CELLS)))
        for cells, lean, ability in zip(found, self.leans, self.abilities, strict=True):
            own = np.clip(lean + shared + generator.normal(0, self.interaction_sd, templates), -0.95, 0.95)
            person = (1 - ability) * 0.7
            for context, quarters in SHARES.items():
                chances = np.stack(
                    [person * (1 + own) / 2, person * (1 - own) / 2, np.full(templates, (1 - ability) * 0.3)], axis=1
                )
                chances[:, CHOICES.index(RIGHT[context])] += ability
                read = chances * 0.95
                counts = generator.multinomial(sizes * quarters // 2, np.column_stack([read, 1 - read.sum(axis=1)]))
                for place, choice in enumerate(CHOICES):
                    cells[:, code(context, choice)] += counts[:, place]
        return found

    def truth(self, metric: str) -> float:
        """The first language's metric in the population, from a very large sample."""
        panel = panel_of(self.draw(100_000, np.random.default_rng(1)), InferenceSettings(n_resamples=1))
        return float(METRICS[metric].value(panel.total)[0])


class Held:
    """How often intervals hold a truth, and how wide they are."""

    def __init__(self) -> None:
        self.tried = self.made = self.inside = 0
        self.wide = 0.0

    def add(self, estimate: Estimate, truth: float) -> None:
        """Counts the 95 % interval of an estimate."""
        self.tried += 1
        ends = estimate.interval(0.95)
        if ends is not None:
            self.made += 1
            self.inside += ends[0] - 1e-9 <= truth <= ends[1] + 1e-9
            self.wide += ends[1] - ends[0]

    @property
    def rate(self) -> float:
        """The part of the intervals that hold it."""
        return self.inside / self.made

    def __str__(self) -> str:
        if not self.made:
            return "none"
        none = f"; none in {1 - self.made / self.tried:.0%}" if self.made < self.tried else ""
        return f"{100 * self.rate:.1f} ({self.wide / self.made:.2f}{none})"


def speaks(test: TestResult) -> bool:
    """Whether a test finds something at the 5 % level."""
    return test.p_value is not None and test.p_value < 0.05


def head(*names: str) -> None:
    """Prints the head of a table."""
    row(*names)
    print("|" + "---|" * len(names))


def row(*cells: object) -> None:
    """Prints a line of a table."""
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)
