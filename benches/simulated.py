"""What the simulations share: models whose scores are known, panels of their answers, and counts of what was found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy import special

from mbbq_gen.scoring.cells import CELLS, Cell, Counts, count_matrix
from mbbq_gen.scoring.metrics import METRICS, Metric
from mbbq_gen.scoring.tally import Tally
from mbbq_gen.statistics.estimate import InferenceSettings
from mbbq_gen.statistics.hypothesis_tests import TestResult
from mbbq_gen.statistics.panel import Panel

Array = Any
Generator = np.random.Generator
BIAS = METRICS["mbbq_bias_ambiguous"]
CHOICES = ("target", "non_target", "unknown", "unparsed")
RIGHT: Final = {"ambiguous": "unknown", "biased": "target", "counter_biased": "non_target"}
"""Context → the right choice, in negative questions."""
MBBQ: dict[str, tuple[int, ...]] = {
    "age": (168, 168, 144, 140, 140, 100, 100, 80, 80, 64, 64, 64, 48, 48, 48, 48, 36, 36, 36, 16, 16, 16),
    "disability_status": (120, 84, 64, 60, 36, 36, 32, 24, 24, 24, 24, 24, 24, 16, 16, 16, 16, 8),
    "gender_identity": (64, 36, 36, 32, 16, 8, *[4] * 18),
    "physical_appearance": (100, 64, 48, *[36] * 8, 24, 24, 16, 16, 8),
    "ses": (*[240] * 7, *[24] * 5),
    "sexual_orientation": (16, *[12] * 5),
}
"""Category → ambiguous questions with a single target in each of its templates, in MBBQ's files of one language."""
ALL_SIZES = np.array([size for sizes in MBBQ.values() for size in sizes])
Sizes = str
"""`equal`: 24 ambiguous questions of every template; `MBBQ`: templates of MBBQ's sizes."""


@dataclass(frozen=True)
class Grid:
    """How much is simulated."""

    runs: int
    """Of a cell."""
    templates: tuple[int, ...] = (5, 8, 15, 40, 98)
    iccs: tuple[float, ...] = (0.05, 0.15, 0.5)
    """Intraclass correlations of a template's answers."""


def code(context: str, choice: str) -> int:
    """The cell of an answer to a negative question."""
    outcome = "unparsed" if choice == "unparsed" else "right" if choice == RIGHT[context] else "wrong"
    condition = "ambiguous" if context == "ambiguous" else "disambiguated"
    return CELLS.index(Cell(condition, outcome, context, "negative", choice))  # type: ignore[arg-type]


CODES = np.array([[code(context, choice) for choice in CHOICES] for context in RIGHT])
"""Contexts × choices."""


def beta(mean: float, icc: float, shape: tuple[int, ...], generator: Generator) -> Array:
    """Shares with that mean, whose variance is `icc` of mean · (1 − mean): so are answers correlated in a template."""
    if mean * (1 - mean) * icc == 0:
        return np.full(shape, mean)
    both = 1 / icc - 1
    return generator.beta(mean * both, (1 - mean) * both, shape)


@dataclass(frozen=True)
class Model:
    """A model whose scores are known exactly, in some languages over the same templates."""

    unknown: tuple[float, ...] = (1 / 3,)
    """Of each language: how often it chooses "unknown" in ambiguous contexts."""
    direction: tuple[float, ...] = (0.0,)
    """Of each language: biased minus counter-biased choices of a person, in shares of both."""
    ability: float = 0.4
    """How often it knows the answer of a disambiguated context; otherwise it guesses, "unknown" in a quarter."""
    icc: float = 0.15
    shared: float = 0.6
    """Share of the templates that have the same effect in all languages."""

    def chances(self, unknown: Array, direction: Array, ability: Array) -> Array:
        """… × contexts × the three choices."""
        found = []
        for right in RIGHT.values():
            is_ambiguous = right == "unknown"
            known = 0 * ability if is_ambiguous else ability
            silent = unknown if is_ambiguous else (1 - ability) / 4
            person = 1 - known - silent
            parts = [person * (1 + direction) / 2, person * (1 - direction) / 2, silent]
            parts[CHOICES.index(right)] = parts[CHOICES.index(right)] + known
            found.append(np.stack(parts, axis=-1))
        return np.stack(found, axis=-2)

    def draw(self, sizes: Array, read: tuple[float, ...], generator: Generator, *, uneven: bool = False) -> Array:
        """Cells of runs × languages × templates. `sizes`: runs × templates; `read`: share parsed in each language."""
        runs, languages, templates = len(sizes), len(self.unknown), sizes.shape[1]
        common = generator.random((runs, templates)) < self.shared
        drawn = []
        for means in (self.unknown, [(1 + lean) / 2 for lean in self.direction], [self.ability] * languages):
            own = np.stack([beta(mean, self.icc, (runs, templates), generator) for mean in means], axis=1)
            if languages > 1:  # of languages with one mean; others keep their own templates
                for place in range(1, languages):
                    if means[place] == means[0]:
                        own[:, place] = np.where(common, own[:, 0], own[:, place])
            drawn.append(own)
        chances = self.chances(drawn[0], 2 * drawn[1] - 1, drawn[2])
        kept = np.stack([beta(rate, 0.25 * uneven, (runs, templates), generator) for rate in read], axis=1)
        kept = np.clip(kept, 1e-3, 1)[..., None, None]
        chances = np.concatenate([chances * kept, np.broadcast_to(1 - kept, (*chances.shape[:-1], 1))], axis=-1)
        halves = np.stack([sizes, sizes - sizes // 2, sizes // 2], axis=-1)[:, None]
        counts = generator.multinomial(np.broadcast_to(halves, chances.shape[:-1]), np.clip(chances, 0, 1))
        cells = np.zeros((runs, languages, templates, len(CELLS)))
        cells[..., CODES.ravel()] = counts.reshape(runs, languages, templates, -1)
        return cells

    def truth(self, metric: Metric, read: float = 1.0, language: int = 0) -> float:
        """The metric over all templates that there could be, where that share of the answers is parsed."""
        ones = np.ones(1)
        means = self.unknown[language] * ones, self.direction[language] * ones, self.ability * ones
        cells = np.zeros(len(CELLS))
        parsed = self.chances(*means)[0] * read
        cells[CODES[:, :3].ravel()] = (parsed * [[2], [1], [1]]).ravel()
        cells[CODES[:, 3]] = np.array([2, 1, 1]) * (1 - read)
        return float(metric.value(Counts(cells * 1e9 @ count_matrix(), "discard")))


def draw_sizes(kind: Sizes, runs: int, templates: int, generator: Generator) -> Array:
    """Ambiguous questions: runs × templates."""
    if kind == "equal":
        return np.full((runs, templates), 24)
    return np.stack([generator.permutation(ALL_SIZES)[:templates] for _ in range(runs)])


def panel_of(cells: Array, sampling: InferenceSettings, crossed: Array | None = None) -> Panel:
    """A panel of drawn cells of groups × templates; `crossed`: by prompt variant too."""
    groups, templates = cells.shape[:2]
    names = tuple(f"t{number}" for number in range(templates))
    tallies = tuple(Tally({"language": str(row)}, 0, {}, {}, 0, names, cells[row]) for row in range(groups))
    return Panel(tuple(tally.group for tally in tallies), tallies, names, cells, sampling, None, crossed)


def batches(runs: int, size: int = 50) -> Iterator[int]:
    """Numbers of runs that are drawn together."""
    for start in range(0, runs, size):
        yield min(size, runs - start)


class Held:
    """How often intervals hold a truth, how wide they are, and how often they exclude 0."""

    def __init__(self) -> None:
        self.tried = self.made = self.inside = self.found = 0
        self.wide = 0.0

    def add(self, ends: tuple[float, float] | None, truth: float) -> None:
        """Counts an interval."""
        self.tried += 1
        if ends is not None:
            self.made += 1
            self.inside += ends[0] - 1e-9 <= truth <= ends[1] + 1e-9
            self.found += ends[0] > 0 or ends[1] < 0
            self.wide += ends[1] - ends[0]

    @property
    def rate(self) -> float:
        """The part of the intervals that hold it, in per cent."""
        return 100 * self.inside / self.made

    @property
    def width(self) -> float:
        """The mean width."""
        return self.wide / self.made

    def __str__(self) -> str:
        return f"{self.rate:.1f} ({self.width:.3f})" if self.made else "none"


class BetaBinomial:
    """The posterior of the mean share, with flat priors of mean and intraclass correlation, on a grid."""

    def __init__(self, most: int) -> None:
        """`most`: the largest number of answers to a template."""
        self.means = special.expit(np.linspace(-9, 9, 241))
        icc = np.linspace(0.01, 0.97, 25)
        both = (1 / icc - 1)[None, :, None]
        place = np.arange(most)
        alpha = self.means[:, None, None] * both
        self._tables = [np.log(part + place) for part in (alpha, both - alpha, np.broadcast_to(both, alpha.shape))]
        self._prior = np.log(self.means * (1 - self.means))[:, None]

    def interval(self, successes: Array, trials: Array) -> tuple[float, float]:
        """The central 95 % of the posterior."""
        places = np.arange(self._tables[0].shape[-1])[:, None]
        numbers = [(part > places).sum(axis=1) for part in (successes, trials - successes, trials)]
        first, second, whole = (table @ number for table, number in zip(self._tables, numbers, strict=True))
        likelihood = first + second - whole + self._prior
        weights = np.exp(likelihood - likelihood.max()).sum(axis=1).cumsum()
        low, high = np.interp([0.025, 0.975], weights / weights[-1], self.means)
        return float(low), float(high)


def speaks(test: TestResult) -> bool:
    """Whether a test finds something at the 5 % level."""
    return test.p_value is not None and test.p_value < 0.05


def head(*names: str) -> None:
    """Prints the head of a table."""
    row(*names)
    print("|" + "---|" * len(names))


def row(*cells: object) -> None:
    """Prints a line of a table."""
    print("|" + "|".join(map(str, cells)) + "|", flush=True)
