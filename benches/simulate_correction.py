"""Corrected scores: do intervals hold the truth, and is a difference that is not there found in 5 %?

Run by `simulate_all.py correction`. A sample is 40 templates of 24 questions in two languages; a model that leans by
template, and alike in both languages; an extractor that errs; and an audit of it: answers drawn as `mbbq-gen annotate`
draws them (strata by language, outcome and confidence, in proportion to the root of their size), each labelled with
what the answer says. The extractor errs at the given rates, the same in both languages or five times as often in the
second, more often where it is less confident, and with a lean: of the wrong readings of an "unknown" seven in ten are
the person of the stereotype. "held" is how often the interval of the second language holds the truth about all
templates that there could be; "found" how often an interval says that the languages differ, which they do not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from simulated import CHOICES, CODES, RIGHT, SHARES, Array, Generator, head, panel_of, row

from mbbq_gen.annotation.review import allocate
from mbbq_gen.scoring.cells import CELLS, Counts, count_matrix
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.statistics.estimate import InferenceSettings
from mbbq_gen.statistics.ppi import AnnotatedCells, PPIGroup, correct, usual_error_rate

CONFIDENCES = ("high", "medium", "low")
METRIC_NAMES = ("accuracy_ambiguous", "mbbq_bias_ambiguous", "diff_bias_disambiguated", "bbq_s_dis")
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
        found = np.repeat(base[:, None, :], len(RIGHT), axis=1)
        for place, right in enumerate(RIGHT.values()):
            found[:, place, CHOICES.index(right)] += self.ability
        return found

    def leans(self, generator: Generator, templates: int) -> Array:
        """Languages × templates."""
        shared = generator.normal(0, self.template_sd, templates)
        own = generator.normal(0, self.interaction_sd, (2, templates))
        return np.clip(self.lean + shared + own, -0.95, 0.95)

    def truth(self, metric: str) -> float:
        """The metric over all templates that there could be, in either language."""
        lean = self.leans(np.random.default_rng(0), 400_000)[0]
        chances = self.chances(lean).mean(axis=0) * np.array([*SHARES.values()])[:, None] / 4
        cells = np.zeros(len(CELLS))
        cells[CODES.ravel()] = chances.ravel()
        return float(METRICS[metric].value(Counts(cells * 1e6 @ count_matrix(), "discard")))

    def draw(self, generator: Generator) -> Answers:
        """One sample of templates and answers, as they are and as they are read."""
        leans = self.leans(generator, self.templates)
        contexts = np.tile(np.repeat([0, 1, 2], np.array([*SHARES.values()]) * self.questions // 4), self.templates)
        templates = np.repeat(np.arange(self.templates), self.questions)
        parts = [self._language(generator, leans[place], place, templates, contexts) for place in (0, 1)]
        return Answers(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _language(
        self, generator: Generator, lean: Array, place: int, templates: Array, contexts: Array
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

    def audit(self, labels: int, generator: Generator) -> tuple[Array, Array]:
        """Places of the answers that are labelled, and the inverse of the probability of each."""
        strata = (self.language * 2 + (self.read == CHOICES.index("unparsed"))) * 3 + self.confidence
        sizes = np.bincount(strata, minlength=12)
        shares = allocate({(str(place),): int(size) for place, size in enumerate(sizes) if size}, labels)
        drawn = np.array([shares.get((str(place),), 0) for place in range(12)])
        order = np.lexsort((generator.random(len(strata)), strata))
        rank = np.empty(len(strata), dtype=int)
        rank[order] = np.arange(len(strata)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        chosen = np.flatnonzero(rank < drawn[strata])
        return chosen, (sizes / np.maximum(drawn, 1))[strata[chosen]]

    def group(self, place: int, templates: int, chosen: Array, weight: Array) -> PPIGroup:
        """One language."""
        mine = self.language == place
        kind = np.array([0, 0, 1, 2])[self.read] * 3 + self.confidence
        cells, sizes = np.zeros((templates, len(CELLS))), np.zeros((templates, 9))
        np.add.at(cells, (self.template[mine], CODES[self.context[mine], self.read[mine]]), 1.0)
        np.add.at(sizes, (self.template[mine], kind[mine]), 1.0)
        kept = mine[chosen]
        which = chosen[kept]
        wrong = self.read[chosen] != self.said[chosen]
        return PPIGroup(
            cells=cells,
            settled=np.zeros_like(cells),
            classes=tuple((str(place), what, level) for what in ("person", "unknown", "none") for level in CONFIDENCES),
            class_sizes=sizes,
            labelled=AnnotatedCells(
                read=CODES[self.context[which], self.read[which]],
                right=CODES[self.context[which], self.said[which]],
                template=self.template[which],
                kind=kind[which],
                weight=weight[kept],
            ),
            error_rate=usual_error_rate(wrong, weight),
        )


def pick(generator: Generator, chances: Array) -> Array:
    """One place a row, by the row's chances."""
    ladder = np.cumsum(chances, axis=1)
    return (generator.random((len(chances), 1)) * ladder[:, -1:] > ladder).sum(axis=1)


def correction(runs: int) -> None:
    """Prints a line for each pair of error rates and number of labels in each language."""
    held, found = ([f"{what}: {name}" for name in METRIC_NAMES[:most]] for what, most in (("held", 4), ("found", 2)))
    head("read wrong, in %", "templates", "labels", *held, *found, "λ of a bias")
    rates = (0.01, 0.05, 0.1, 0.2)
    cases = [(World(pair), labels) for rate in rates for pair in ((rate, rate), (rate / 5, rate)) for labels in LABELS]
    cases += [(World((0.02, 0.1), templates=templates), labels) for templates in (12, 100) for labels in (50, 200)]
    cases += [(World((rate, rate)), 25) for rate in (0.01, 0.1, 0.2)]
    cases += [(World((rate, rate), 0.75, 0.97, templates=number), 100) for rate, number in ((0.0, 15), (0.01, 98))]
    for world, labels in cases:
        truths = {name: world.truth(name) for name in METRIC_NAMES}
        generator = np.random.default_rng([labels, runs, world.templates, round(1000 * sum(world.error))])
        counts = np.zeros((3, len(METRIC_NAMES)))
        for _ in range(runs):
            answers = world.draw(generator)
            chosen, weight = answers.audit(2 * labels, generator)
            groups = [answers.group(place, world.templates, chosen, weight) for place in (0, 1)]
            panel = panel_of(np.stack([group.cells for group in groups]), InferenceSettings(n_resamples=600))
            for place, name in enumerate(METRIC_NAMES):
                extracted = panel.estimates(METRICS[name])
                first, second = (
                    correct(METRICS[name], group, "discard", plain)
                    for group, plain in zip(groups, extracted, strict=True)
                )
                low, high = second.interval(0.95) or (0.0, 0.0)
                is_held = low <= truths[name] <= high
                low, high = first.minus(second).interval(0.95) or (0.0, 0.0)
                is_found = low > 0 or high < 0
                counts[:, place] += is_held, is_found, second.ppi_lambda
        wrong = " and ".join(f"{100 * rate:g}" for rate in dict.fromkeys(world.error))
        shares = (f"{100 * count / runs:.1f}" for count in (*counts[0], *counts[1, :2]))
        row(wrong, world.templates, labels, *shares, f"{counts[2, 1] / runs:.2f}")


TABLES: dict[str, Callable[[int], None]] = {"correction": correction}
