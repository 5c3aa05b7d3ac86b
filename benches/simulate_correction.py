"""Do corrected scores hold the truth in 95 % of samples, and is a difference that is not there found in 5 %?

    python benches/simulate_correction.py [RUNS]

Every line draws RUNS samples (default 1,000: the standard error of a rate of 5 % is then 0.7 points). A sample is 40
templates of 24 questions in two languages; a model that leans by template, and alike in both languages; a reader that
errs; and an audit of it: answers drawn as `mbbq-gen audit` draws them (strata by language, outcome and confidence, in
proportion to the root of their size), each labelled with what the answer says. The reader errs at the given rates, the
same in both languages or five times as often in the second, more often where it is less confident, and with a lean: of
the wrong readings of an "unknown" seven in ten are the person of the stereotype. "held" is how often the 95 % interval
of the second language holds the truth about all templates that there could be; "found" how often an interval says that
the languages differ, which they do not. The table stands in docs/statistics.md.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mbbq_gen.runs.audit import allocate
from mbbq_gen.scoring import METRICS
from mbbq_gen.scoring.cells import CELLS, Cell, Counts, count_matrix
from mbbq_gen.scoring.tally import Tally
from mbbq_gen.statistics.correction import CorrectableGroup, LabelledAnswers, correct, usual_error_rate
from mbbq_gen.statistics.panel import Panel, Sampling

Array = Any
CHOICES = ("target", "non_target", "unknown", "undetected")
CONTEXTS = ("ambiguous", "biased", "counter_biased")
RIGHT = {"ambiguous": "unknown", "biased": "target", "counter_biased": "non_target"}
CONFIDENCES = ("high", "medium", "low")
METRIC_NAMES = ("accuracy_ambiguous", "mbbq_bias_ambiguous", "diff_bias_disambiguated", "bbq_s_dis")
RATES = (0.01, 0.05, 0.1, 0.2)
LABELS = (50, 100, 200, 400)
"""In each language."""
ERRORS = np.array(
    [  # by what the answer says: what it is taken for when it is read wrong
        [0.0, 0.4, 0.3, 0.3],
        [0.4, 0.0, 0.3, 0.3],
        [0.7, 0.1, 0.0, 0.2],
        [0.5, 0.3, 0.2, 0.0],
    ]
)
CONFIDENCE_OF_RIGHT, CONFIDENCE_OF_WRONG = np.array([0.75, 0.17, 0.08]), np.array([0.25, 0.35, 0.40])


def code(context: str, choice: str) -> int:
    """The cell of an answer to a negative question."""
    verdict = "undetected" if choice == "undetected" else "right" if choice == RIGHT[context] else "wrong"
    condition = "ambiguous" if context == "ambiguous" else "disambiguated"
    return CELLS.index(Cell(condition, verdict, context, "negative", choice))  # type: ignore[arg-type]


CODES = np.array([[code(context, choice) for choice in CHOICES] for context in CONTEXTS])


@dataclass(frozen=True)
class World:
    """A model, and a reader of its answers."""

    error: tuple[float, float]
    """Rate of answers read wrong, by language."""
    lean: float = 0.2
    ability: float = 0.4
    template_sd: float = 0.3
    interaction_sd: float = 0.15
    templates: int = 40
    questions: int = 24

    def chances(self, lean: Array) -> Array:
        """Templates × contexts × choices: what the model answers."""
        person, silent = (1 - self.ability) * 0.65, (1 - self.ability) * 0.05
        base = np.stack(
            [person * (1 + lean) / 2, person * (1 - lean) / 2, (1 - self.ability) * 0.3 + 0 * lean, silent + 0 * lean],
            axis=-1,
        )
        found = np.repeat(base[:, None, :], len(CONTEXTS), axis=1)
        for place, context in enumerate(CONTEXTS):
            found[:, place, CHOICES.index(RIGHT[context])] += self.ability
        return found

    def leans(self, generator: np.random.Generator, templates: int) -> Array:
        """Languages × templates."""
        shared = generator.normal(0, self.template_sd, templates)
        own = generator.normal(0, self.interaction_sd, (2, templates))
        return np.clip(self.lean + shared + own, -0.95, 0.95)

    def truth(self, metric: str) -> float:
        """The metric over all templates that there could be, in either language."""
        lean = self.leans(np.random.default_rng(0), 400_000)[0]
        chances = self.chances(lean).mean(axis=0) * np.array([0.5, 0.25, 0.25])[:, None]
        cells = np.zeros(len(CELLS))
        cells[CODES.ravel()] = chances.ravel()
        return float(METRICS[metric].value(Counts(cells * 1e6 @ count_matrix(), "discard")))

    def draw(self, generator: np.random.Generator) -> Answers:
        """One sample of templates and answers, as they are and as they are read."""
        leans = self.leans(generator, self.templates)
        contexts = np.tile(np.repeat([0, 1, 2], np.array([2, 1, 1]) * self.questions // 4), self.templates)
        templates = np.repeat(np.arange(self.templates), self.questions)
        parts = [self._language(generator, leans[place], place, templates, contexts) for place in (0, 1)]
        return Answers(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _language(
        self, generator: np.random.Generator, lean: Array, place: int, templates: Array, contexts: Array
    ) -> tuple[Array, ...]:
        said = pick(generator, self.chances(lean)[templates, contexts])
        wrong = generator.random(len(said)) < self.error[place]
        read = np.where(wrong, pick(generator, ERRORS[said]), said)
        confidence = pick(generator, np.where(wrong[:, None], CONFIDENCE_OF_WRONG, CONFIDENCE_OF_RIGHT))
        return np.full(len(said), place), templates, contexts, said, read, confidence


@dataclass(frozen=True)
class Answers:
    """Columns of one length."""

    language: Array
    template: Array
    context: Array
    said: Array
    read: Array
    confidence: Array

    def audit(self, labels: int, generator: np.random.Generator) -> tuple[Array, Array]:
        """Places of the answers that are labelled, and the inverse of the probability of each."""
        strata = (self.language * 2 + (self.read == CHOICES.index("undetected"))) * 3 + self.confidence
        sizes = np.bincount(strata, minlength=12)
        shares = allocate({(str(place),): int(size) for place, size in enumerate(sizes) if size}, labels)
        drawn = np.array([shares.get((str(place),), 0) for place in range(12)])
        order = np.lexsort((generator.random(len(strata)), strata))
        rank = np.empty(len(strata), dtype=int)
        rank[order] = np.arange(len(strata)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        chosen = np.flatnonzero(rank < drawn[strata])
        return chosen, (sizes / np.maximum(drawn, 1))[strata[chosen]]

    def group(self, place: int, templates: int, chosen: Array, weight: Array) -> CorrectableGroup:
        """One language."""
        mine = self.language == place
        kind = np.array([0, 0, 1, 2])[self.read] * 3 + self.confidence
        cells, sizes = np.zeros((templates, len(CELLS))), np.zeros((templates, 9))
        np.add.at(cells, (self.template[mine], CODES[self.context[mine], self.read[mine]]), 1.0)
        np.add.at(sizes, (self.template[mine], kind[mine]), 1.0)
        kept = mine[chosen]
        which = chosen[kept]
        wrong = self.read[chosen] != self.said[chosen]
        return CorrectableGroup(
            cells=cells,
            settled=np.zeros_like(cells),
            classes=tuple((str(place), what, level) for what in ("person", "unknown", "none") for level in CONFIDENCES),
            class_sizes=sizes,
            labelled=LabelledAnswers(
                read=CODES[self.context[which], self.read[which]],
                right=CODES[self.context[which], self.said[which]],
                template=self.template[which],
                kind=kind[which],
                weight=weight[kept],
            ),
            error_rate=usual_error_rate(wrong, weight),
        )


def pick(generator: np.random.Generator, chances: Array) -> Array:
    """One place a row, by the row's chances."""
    ladder = np.cumsum(chances, axis=1)
    return (generator.random((len(chances), 1)) * ladder[:, -1:] > ladder).sum(axis=1)


def plain_intervals(groups: list[CorrectableGroup], metric: str) -> list[tuple[float, float, float]]:
    """Value and analytic interval of both languages and of their difference, as they are read."""
    cells = np.stack([group.cells for group in groups])
    names = tuple(f"t{place}" for place in range(cells.shape[1]))
    tallies = tuple(Tally({"language": str(row)}, 0, {}, {}, 0, names, cells[row]) for row in (0, 1))
    panel = Panel(tuple(tally.group for tally in tallies), tallies, names, cells, Sampling(resamples=2))
    first, second = panel.estimates(METRICS[metric])
    scores = [estimate.score(Sampling()) for estimate in (first, second, first.minus(second))]
    return [(score.value or 0.0, score.analytic_low or 0.0, score.analytic_high or 0.0) for score in scores]


def line(world: World, labels: int, runs: int, truths: dict[str, float]) -> dict[str, Array]:
    """Metric → shares of samples: truth held, as read and corrected; difference found, likewise; and mean λ."""
    generator = np.random.default_rng([labels, runs, world.templates, round(1000 * sum(world.error))])
    found = {name: np.zeros(5) for name in METRIC_NAMES}
    for _ in range(runs):
        answers = world.draw(generator)
        chosen, weight = answers.audit(2 * labels, generator)
        groups = [answers.group(place, world.templates, chosen, weight) for place in (0, 1)]
        for name in METRIC_NAMES:
            first, second = (correct(METRICS[name], group, "discard") for group in groups)
            difference = first.minus(second)
            plain = plain_intervals(groups, name)
            found[name] += [
                plain[1][1] <= truths[name] <= plain[1][2],
                abs(second.value - truths[name]) <= second.margin(0.95),
                not plain[2][1] <= 0 <= plain[2][2],
                abs(difference.value) > difference.margin(0.95),
                second.weight_of_readings,
            ]
    return {name: counts / runs for name, counts in found.items()}


def table(worlds: Sequence[World], labels: Sequence[int], runs: int) -> None:
    """Prints a line for each world and number of labels."""
    accuracy, bias = METRIC_NAMES[:2]
    print("| read wrong | templates | labels | " + " | ".join(f"held: {name}" for name in METRIC_NAMES), end="")
    print(" | as read: accuracy | as read: bias | found: accuracy, as read | corrected ", end="")
    print("| found: bias, as read | corrected | λ |")
    print("|---|---|---|" + "---|" * (len(METRIC_NAMES) + 7))
    for world in worlds:
        truths = {name: world.truth(name) for name in METRIC_NAMES}
        for number in labels:
            rows = line(world, number, runs, truths)
            shares = [rows[name][1] for name in METRIC_NAMES] + [rows[accuracy][0], rows[bias][0]]
            shares += [*rows[accuracy][2:4], *rows[bias][2:4]]
            rates = " and ".join(f"{100 * rate:g}" for rate in dict.fromkeys(world.error))
            numbers = " | ".join(f"{100 * share:.1f}" for share in shares)
            print(f"| {rates} % | {world.templates} | {number} | {numbers} | {rows[bias][4]:.2f} |", flush=True)


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(f"{runs:,} samples a line, in per cent; labels in each language\n")
    errors = [pair for rate in RATES for pair in ((rate, rate), (rate / 5, rate))]
    table([World(error) for error in errors], LABELS, runs)
    print("\nFewer templates, more templates, and fewer labels\n")
    table([World((0.02, 0.1), templates=templates) for templates in (12, 100)], (50, 200), runs)
    table([World(error) for error in ((0.01, 0.01), (0.1, 0.1), (0.2, 0.2))], (25,), runs)


if __name__ == "__main__":
    main()
