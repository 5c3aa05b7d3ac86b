"""Runs in rounds whose scores are known: coverage where they stop, and widths that `design` predicts.

Run by `simulate_all.py stops designs`. 98 templates with the numbers of ambiguous questions that MBBQ has in a
language, five wordings, every question in one option order: 25,180 requests a language. Templates, their questions and
all answers are drawn anew for every run; templates count alike. A run looks after every round as `mbbq-gen run
--until-…` does, by the same functions. The tables stand in docs/sample-size.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

import numpy as np
from simulated import AMBIGUOUS, BIAS, CHOICES, MBBQ, Array, Generator, head, row

from mbbq_gen.analysis.design import Components, DesignSearch, DesignSpace, Price
from mbbq_gen.analysis.power import VarianceAssumptions
from mbbq_gen.runs.adaptive import round_sizes
from mbbq_gen.runs.stopping import answer_of
from mbbq_gen.scoring.cells import CELLS
from mbbq_gen.statistics.estimate import InferenceSettings
from mbbq_gen.statistics.panel import Panel
from mbbq_gen.statistics.sequential import (
    FOR_DECISION,
    FOR_WIDTH,
    InterimEstimate,
    Interval,
    SequentialMonitor,
    interval_at,
    is_undecidable,
    measures,
    reach_of,
    variance_of_width,
    variance_to_find,
)

SIZES = np.sort([size for sizes in MBBQ.values() for size in sizes])
WORDINGS = 5
STOCK = SIZES * WORDINGS
NAMED = 0.56
"""How often a person is named."""
QUESTION, INTERACTION, WORDED = 0.2, 0.15, 0.1
"""Standard deviations of leans: of questions, of template × language, of template × wording."""
SMALL, FIND = 0.03, 0.08


@dataclass(frozen=True)
class Asked:
    """Columns of all requests of a language."""

    template: Array
    question: Array
    """Of all templates' questions."""
    wording: Array
    look: Array
    """The first that counts it."""


@dataclass(frozen=True, eq=False)
class Shape:
    """What a benchmark offers in a language."""

    sizes: Array
    """Ambiguous questions of each template."""

    @cached_property
    def stock(self) -> Array:
        """Requests of each template."""
        return self.sizes * WORDINGS

    @cached_property
    def looks(self) -> list[int]:
        """Answers of a template after each round."""
        most = int(self.stock.max())
        return [*takewhile(lambda size: size < most, round_sizes(2)), most]

    @cached_property
    def asked(self) -> Asked:
        """All requests in order: every question in turn, in a wording that changes from one to the next."""
        template = np.repeat(np.arange(len(self.sizes)), self.stock)
        place = np.arange(self.stock.sum()) - np.repeat(self.stock.cumsum() - self.stock, self.stock)
        turn, within = np.divmod(place, self.sizes[template])
        return Asked(
            template=template,
            question=within + (self.sizes.cumsum() - self.sizes)[template],
            wording=(turn + place) % WORDINGS,
            look=np.searchsorted(self.looks, place, side="right"),
        )

    def part(self, looks: int) -> float:
        """The part of all requests that so many looks have asked."""
        return float(np.minimum(self.looks[looks - 1], self.stock).sum() / self.stock.sum())


WHOLE = Shape(SIZES)


@dataclass(frozen=True)
class World:
    """A model; leans are of the templates, of which `share` has another one."""

    name: str
    leans: tuple[float, ...] = (0.0,)
    """Of each language."""
    spread: float = 0.3
    share: float = 0.0
    other: float = 0.0
    lost: float = 0.0
    shape: Shape = WHOLE
    width: float = 0.15
    """That a run is after."""

    def templates(self, number: int, generator: Generator) -> tuple[Array, Array]:
        """Lean and share of answers that can't be read: languages × templates."""
        shared = generator.normal(0, self.spread, number)
        carries = generator.random(number) < self.share
        own = generator.normal(0, INTERACTION, (len(self.leans), number))
        lean = np.array(self.leans)[:, None] + shared + own
        lean = np.where(carries, self.other, lean)
        lost = self.lost * 2 * generator.random(number)
        return np.clip(lean, -1, 1), np.broadcast_to(lost, lean.shape)

    def truth(self) -> float:
        """The score, or the difference of two languages, over all templates that there could be."""
        generator = np.random.default_rng(99)
        lean, lost = self.templates(2_000_000, generator)
        lean = np.clip(lean + generator.normal(0, np.hypot(QUESTION, WORDED), lean.shape), -1, 1)
        first, *second = NAMED * ((1 - lost) * lean).sum(axis=1) / (1 - lost).sum(axis=1)
        return float(first - sum(second))


def draw(world: World, generator: Generator) -> Array:
    """Counts after each look, in languages × looks × templates × CHOICES."""
    sizes, asked = world.shape.sizes, world.shape.asked
    requests = len(asked.template)
    lean, lost = world.templates(len(sizes), generator)
    found = np.zeros((len(world.leans), len(world.shape.looks), len(sizes), len(CHOICES)))
    for language in range(len(world.leans)):
        by_question = generator.normal(0, QUESTION, int(sizes.sum()))
        by_wording = generator.normal(0, WORDED, (len(sizes), WORDINGS))
        leans = lean[language][asked.template] + by_question[asked.question]
        leans += by_wording[asked.template, asked.wording]
        biased = NAMED * (1 + np.clip(leans, -1, 1)) / 2
        drawn = generator.random(requests)
        answers = np.where(drawn < biased, 0, np.where(drawn < NAMED, 1, 2))
        if lost.any():
            answers[generator.random(requests) < lost[language][asked.template]] = 3
        place = (asked.look * len(sizes) + asked.template) * len(CHOICES) + answers
        found[language] = np.bincount(place, minlength=found[language].size).reshape(found[language].shape)
    return found.cumsum(axis=1)


def measured(counts: Array, offered: Array) -> list[InterimEstimate]:
    """The scores of many runs' counts (runs × templates × CHOICES); every template counts alike."""
    cells = np.zeros((*counts.shape[:2], len(CELLS)))
    cells[:, :, AMBIGUOUS] = counts
    number = cells.sum(axis=-1, keepdims=True)
    alike = np.divide(number.mean(axis=1, keepdims=True), number, out=np.zeros_like(number), where=number > 0)
    names = tuple(f"t{place:02d}" for place in range(cells.shape[1]))
    panel = Panel(tuple({} for _ in cells), (), names, cells * alike, InferenceSettings(n_resamples=1))
    return measures(BIAS, panel, cells, np.broadcast_to(offered.astype(float), cells.shape[:2]))


@dataclass(frozen=True)
class Stop:
    """Where a rule stopped a run."""

    interval: Interval
    look: int
    """Its number, from 1."""


def simulated(world: World, runs: int, seed: int) -> Iterator[list[InterimEstimate]]:
    """The scores, or differences, that each run sees at its looks."""
    generator = np.random.default_rng(seed)
    left = runs
    while left > 0:
        counts = np.stack([draw(world, generator) for _ in range(min(left, 100))])
        left -= len(counts)
        looks, offered = range(len(world.shape.looks)), world.shape.stock
        first, *second = [
            [measured(counts[:, code, look], offered) for look in looks] for code in range(counts.shape[1])
        ]
        for run in range(len(counts)):
            yield [first[look][run].minus(second[0][look][run]) if second else first[look][run] for look in looks]


def until_width(looks: Sequence[InterimEstimate], width: float) -> Stop:
    """As `--stop-at-ci-width`."""
    so_far = SequentialMonitor(0.05, FOR_WIDTH)
    for number, last in enumerate(looks, 1):  # noqa: B007
        interval = so_far.next(last, variance_of_width(width, last, 0.05))
        if interval.width <= width:
            break
    return Stop(interval, number)


def until_decided(looks: Sequence[InterimEstimate], find: float | None = None) -> Stop:
    """As `--stop-when-decided`, and `--detectable-effect`."""
    so_far = SequentialMonitor(0.05, FOR_DECISION)
    for number, last in enumerate(looks, 1):  # noqa: B007
        aim = variance_of_width(SMALL, last, 0.05) if find is None else variance_to_find(find, last, 0.05)
        interval = so_far.next(last, aim)
        if answer_of(interval, SMALL) or is_undecidable(last, interval, SMALL, 0.05):
            break
        if find is not None and last.variance <= aim:
            break
    return Stop(interval, number)


WORLDS = (
    World("no bias"),
    World("small bias", (0.1,)),
    World("large bias", (0.5,)),
    World("one template in twelve carries it all", spread=0.05, share=1 / 12, other=0.9),
    World("languages differ (difference)", (0.3, 0.1)),
    World("languages alike (difference)", (0.2, 0.2)),
    World("30 % unread, small bias", (0.1,), lost=0.3),
    World("24 templates of 12 questions, no bias", shape=Shape(np.repeat(12, 24)), width=0.3),
    World("8 templates of 12 questions, no bias", shape=Shape(np.repeat(12, 8)), width=0.5),
)


def stops(runs: int) -> None:
    """Prints how often the interval at the stop holds the truth, and the median share of the requests asked by then."""
    rules = ("until a width", "until decided", f"to find {FIND}")
    head("model", *(f"{rule}: {what}" for rule in rules for what in ("held", "asked")), "decided wrong")
    for world in WORLDS:
        true, found = world.truth(), []
        for looks in simulated(world, runs, 7):
            found.append((until_width(looks, world.width), until_decided(looks), until_decided(looks, FIND)))
        cells = []
        for ends in zip(*found, strict=True):
            held = np.mean([stop.interval.low <= true <= stop.interval.high for stop in ends])
            cells += [f"{held:.1%}", f"{np.median([world.shape.part(stop.look) for stop in ends]):.1%}"]
        said = [answer_of(decided.interval, SMALL) or "" for _, decided, _ in found]
        false = ("yes",) * (abs(true) < 1e-3) + ("smaller",) * (abs(true) >= SMALL)
        row(f"{world.name} ({true:+.3f})", *cells, f"{np.mean([text.startswith(false) for text in said]):.1%}")


ANSWER = (NAMED - NAMED**2 * (0.3**2 + INTERACTION**2)) ** 0.5
"""Standard deviation of one answer, its question included."""


def designs(runs: int) -> None:
    """Prints widths that `mbbq-gen design` predicts, and those of simulated runs."""
    sd = VarianceAssumptions(
        template=NAMED * 0.3,
        template_language=NAMED * INTERACTION,
        prompt_variant=0.0,
        template_prompt_variant=NAMED * WORDED,
        language_prompt_variant=0.0,
        answer=ANSWER,
        source="true",
    )
    share = (NAMED * QUESTION) ** 2 / ANSWER**2
    components = Components(assumptions=sd, question_share=share, question_source="true")
    study = DesignSearch(
        "score", components, DesignSpace(tuple(SIZES.tolist()), WORDINGS, 1, 1), Price(online=None, batch=None)
    )
    head("questions of each template", "wordings of a question", "requests", "width as predicted", "simulated")
    generator = np.random.default_rng(10)
    for questions, each in ((4, 1), (8, 1), (16, 1), (32, 1), (64, 1), (2, 2), (4, 2), (2, 5), (4, 5), (240, 5)):
        predicted = study.at(len(SIZES), questions, WORDINGS, each)
        widths = [simulated_width(questions, each, generator) for _ in range(runs)]
        row(questions, each, f"{predicted.requests:,}", f"{predicted.width:.3f}", f"{np.mean(widths):.3f}")


def simulated_width(questions: int, each: int, generator: Generator) -> float:
    """The width of one run that asks so many questions of each template in so many wordings, or all there are."""
    lean, _ = World("").templates(len(SIZES), generator)
    asks = np.minimum(questions * each, STOCK)
    template = np.repeat(np.arange(len(SIZES)), asks)
    place = np.arange(asks.sum()) - np.repeat(asks.cumsum() - asks, asks)
    own = np.minimum(questions, SIZES)[template]
    question, turn = place % own, place // own
    wording = (turn + question) % WORDINGS
    leans = lean[0][template] + generator.normal(0, QUESTION, (len(SIZES), SIZES.max()))[template, question]
    leans += generator.normal(0, WORDED, (len(SIZES), WORDINGS))[template, wording]
    drawn = generator.random(len(template))
    answers = np.where(drawn < NAMED * (1 + np.clip(leans, -1, 1)) / 2, 0, np.where(drawn < NAMED, 1, 2))
    counts = np.bincount(template * len(CHOICES) + answers, minlength=len(SIZES) * len(CHOICES))
    return interval_at(measured(counts.reshape(1, len(SIZES), -1), STOCK)[0], reach_of(0.05)).width


TABLES: dict[str, Callable[[int], None]] = {"stops": stops, "designs": designs}
