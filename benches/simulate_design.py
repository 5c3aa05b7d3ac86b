"""Do runs in rounds stop at numbers that hold, and what do they save? Models whose truth is known, MBBQ's structure.

    python benches/simulate_design.py [RUNS] [coverage|saving|decided|designs]

Every line simulates RUNS runs (default 200). 98 templates with the numbers of ambiguous questions that MBBQ has in a
language, five wordings, every question in one option order: 25,180 requests a language. Templates, their questions and
all answers are drawn anew for every run; templates count alike. A run looks after every round as `mbbq-gen run
--until-…` does, by the same functions. The tables stand in docs/design.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product, takewhile
from typing import Any

import numpy as np
from scipy import stats

from mbbq_gen.runs.rounds import round_sizes
from mbbq_gen.runs.stopping import answer_of
from mbbq_gen.scoring import METRICS
from mbbq_gen.scoring.cells import CELLS, Cell
from mbbq_gen.statistics.design import Components, Offer, Price, Study
from mbbq_gen.statistics.panel import Panel, Sampling
from mbbq_gen.statistics.power import VarianceAssumptions
from mbbq_gen.statistics.sequential import (
    FOR_DECISION,
    FOR_WIDTH,
    Interval,
    Looks,
    Measure,
    interval_at,
    is_undecidable,
    measures,
    reach_of,
    variance_of_width,
    variance_to_find,
)

Array = Any
Generator = np.random.Generator
BIAS = METRICS["mbbq_bias_ambiguous"]
SIZES = np.repeat(
    [4, 8, 12, 16, 24, 32, 36, 48, 60, 64, 80, 84, 100, 120, 140, 144, 168, 240],
    [18, 3, 5, 11, 13, 2, 15, 5, 1, 6, 2, 1, 3, 1, 2, 1, 2, 7],
)
"""Ambiguous questions of MBBQ's templates in a language."""
WORDINGS = 5
STOCK = SIZES * WORDINGS
REQUESTS = int(STOCK.sum())
NAMED = 0.56
"""How often a person is named."""
QUESTION, INTERACTION, WORDED = 0.2, 0.15, 0.1
"""Standard deviations of leans: of questions, of template × language, of template × wording."""
CHOICES = ("target", "non_target", "unknown", "undetected")
PLACES = [
    CELLS.index(
        Cell(
            "ambiguous",
            "undetected" if choice == "undetected" else "right" if choice == "unknown" else "wrong",
            "ambiguous",
            "negative",
            choice,  # type: ignore[arg-type]
        )
    )
    for choice in CHOICES
]
SMALL = 0.03


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
        """All requests in the order of asking."""
        return Asked.of(self.sizes, self.looks)

    def part(self, looks: int) -> float:
        """The part of all requests that so many looks have asked."""
        return float(np.minimum(self.looks[looks - 1], self.stock).sum() / self.stock.sum())


MBBQ = Shape(SIZES)


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
    alike: float = 0.0
    """How far answers to one question in two languages go together, beside what their templates share."""
    shape: Shape = MBBQ
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

    def truth(self) -> Array:
        """The score of each language over all templates that there could be."""
        generator = np.random.default_rng(99)
        lean, lost = self.templates(2_000_000, generator)
        lean = np.clip(lean + generator.normal(0, np.hypot(QUESTION, WORDED), lean.shape), -1, 1)
        return NAMED * ((1 - lost) * lean).sum(axis=1) / (1 - lost).sum(axis=1)


def draw(world: World, generator: Generator, part: float = 1.0) -> Array:
    """Counts after each look, in languages × looks × templates × CHOICES.

    `part`: of all requests, a plain random part of which is counted in place of the first ones.
    """
    sizes, asked = world.shape.sizes, world.shape.asked
    requests = len(asked.template)
    lean, lost = world.templates(len(sizes), generator)
    found = np.zeros((len(world.leans), len(world.shape.looks), len(sizes), len(CHOICES)))
    shared = generator.random(requests)
    for language in range(len(world.leans)):
        by_question = generator.normal(0, QUESTION, int(sizes.sum()))
        by_wording = generator.normal(0, WORDED, (len(sizes), WORDINGS))
        leans = lean[language][asked.template] + by_question[asked.question]
        leans += by_wording[asked.template, asked.wording]
        biased = NAMED * (1 + np.clip(leans, -1, 1)) / 2
        drawn = generator.random(requests)
        if world.alike:
            drawn = np.where(generator.random(requests) < world.alike**0.5, shared, drawn)
        answers = np.where(drawn < biased, 0, np.where(drawn < NAMED, 1, 2))
        if lost.any():
            answers[generator.random(requests) < lost[language][asked.template]] = 3
        place = (asked.look * len(sizes) + asked.template) * len(CHOICES) + answers
        if part < 1:
            place = place[generator.random(requests) < part]
        found[language] = np.bincount(place, minlength=found[language].size).reshape(found[language].shape)
    return found.cumsum(axis=1)


@dataclass(frozen=True)
class Asked:
    """All requests of a language in the order of asking, template by template."""

    template: Array
    question: Array
    """Of all templates' questions."""
    wording: Array
    look: Array
    """The first that counts it."""

    @classmethod
    def of(cls, sizes: Array, looks: list[int]) -> Asked:
        """Every question in turn, in a wording that changes from one to the next."""
        stock = sizes * WORDINGS
        template = np.repeat(np.arange(len(sizes)), stock)
        place = np.arange(stock.sum()) - np.repeat(stock.cumsum() - stock, stock)
        within = place % sizes[template]
        return cls(
            template=template,
            question=within + (sizes.cumsum() - sizes)[template],
            wording=(place // sizes[template] + place) % WORDINGS,
            look=np.searchsorted(looks, place, side="right"),
        )


def measured(counts: Array, offered: Array, *, weighted: bool = True) -> list[Measure]:
    """The scores of many runs' counts (runs × templates × CHOICES); every template counts alike, unless not."""
    cells = np.zeros((*counts.shape[:2], len(CELLS)))
    cells[:, :, PLACES] = counts
    number = cells.sum(axis=-1, keepdims=True)
    alike = np.divide(number.mean(axis=1, keepdims=True), number, out=np.zeros_like(number), where=number > 0)
    names = tuple(f"t{place:02d}" for place in range(cells.shape[1]))
    panel = Panel(tuple({} for _ in cells), (), names, cells * alike if weighted else cells, Sampling(resamples=1))
    return measures(BIAS, panel, cells, np.broadcast_to(offered.astype(float), cells.shape[:2]))


def goal(found: list[Measure]) -> Measure:
    """The score, or the difference of two languages."""
    return found[0] if len(found) == 1 else found[0].minus(found[1])


@dataclass(frozen=True)
class Stop:
    """Where a rule stopped a run."""

    interval: Interval
    look: int
    """Its number, from 1."""


def simulated(world: World, runs: int, seed: int) -> Iterator[list[Measure]]:
    """The scores, or differences, that each run sees at its looks."""
    generator = np.random.default_rng(seed)
    left = runs
    while left > 0:
        counts = np.stack([draw(world, generator) for _ in range(min(left, 100))])
        left -= len(counts)
        looks, offered = range(len(world.shape.looks)), world.shape.stock
        found = [[measured(counts[:, code, look], offered) for look in looks] for code in range(counts.shape[1])]
        for run in range(len(counts)):
            yield [goal([each[look][run] for each in found]) for look in looks]


def until_width(looks: Sequence[Measure], width: float) -> Stop:
    """As `--until-width`."""
    so_far = Looks(0.05, FOR_WIDTH)
    for number, last in enumerate(looks, 1):  # noqa: B007
        interval = so_far.next(last, variance_of_width(width, last, 0.05))
        if interval.width <= width:
            break
    return Stop(interval, number)


def until_decided(looks: Sequence[Measure], small: float = SMALL, find: float | None = None) -> Stop:
    """As `--until-decided`, and `--to-find`."""
    so_far = Looks(0.05, FOR_DECISION)
    for number, last in enumerate(looks, 1):  # noqa: B007
        aim = variance_of_width(small, last, 0.05) if find is None else variance_to_find(find, last, 0.05)
        interval = so_far.next(last, aim)
        if answer_of(interval, small) or is_undecidable(last, interval, small, 0.05):
            break
        if find is not None and last.variance <= aim:
            break
    return Stop(interval, number)


def naive(looks: Sequence[Measure]) -> Stop:
    """Stops when the usual interval excludes 0."""
    for number, last in enumerate(looks, 1):  # noqa: B007
        interval = interval_at(last, reach_of(0.05))
        if interval.low > 0 or interval.high < 0:
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


def holds(interval: Interval, true: float) -> bool:
    """Whether an interval holds the truth."""
    return interval.low <= true <= interval.high


def coverage(runs: int) -> Iterator[str]:
    """How often the interval at the stop holds the truth."""
    yield f"<!-- coverage: {runs:,} runs a line -->"
    yield (
        "| model | until a width: held | asked | until decided: held | wrong answer | asked"
        ' | naive rule: held | says "bias" |'
    )
    yield "|---|---|---|---|---|---|---|---|"
    for world in WORLDS:
        truth = world.truth()
        true = float(truth[0] - (truth[1] if len(truth) > 1 else 0))
        rows = [
            [until_width(looks, world.width), until_decided(looks), naive(looks)] for looks in simulated(world, runs, 7)
        ]
        held = [np.mean([holds(row[rule].interval, true) for row in rows]) for rule in range(3)]
        part = [float(np.median([world.shape.part(row[rule].look) for row in rows])) for rule in range(3)]
        said = [answer_of(row[1].interval, SMALL) or "" for row in rows]
        is_none, is_small = abs(true) < 1e-3, abs(true) < SMALL
        wrong = np.mean(
            [(text.startswith("yes") and is_none) or (text.startswith("smaller") and not is_small) for text in said]
        )
        loud = np.mean([row[2].interval.low > 0 or row[2].interval.high < 0 for row in rows])
        yield (
            f"| {world.name} ({true:+.3f}) | {held[0]:.1%} | {part[0]:.1%} | {held[1]:.1%} | {wrong:.1%}"
            f" | {part[1]:.1%} | {held[2]:.1%} | {loud:.1%} |"
        )


def saving(runs: int) -> Iterator[str]:
    """Widths beside the full factorial's, and beside a plain random sample's of as many requests."""
    yield f"<!-- saving: {runs:,} runs a line -->"
    yield (
        "| model | full factorial: width | asked for 1.25 times that, until width | as many requests, balanced: width"
        " | plain random sample of questions that count | the same, weighted | of all questions |"
    )
    yield "|---|---|---|---|---|---|---|"
    for world in WORLDS[:3]:
        generator = np.random.default_rng(80)
        rows = []
        for looks in simulated(world, runs, 8):
            full = interval_at(looks[-1], reach_of(0.05)).width
            stop = until_width(looks, 1.25 * full)
            part = MBBQ.part(stop.look)
            plain, half = (draw(world, generator, part * share)[0, -1] for share in (1.0, 0.5))
            found = looks[stop.look - 1], by_chance(plain), by_chance(plain, weighted=True), by_chance(half)
            rows.append((full, part, *(interval_at(each, reach_of(0.05)).width for each in found)))
        full, part, balanced, *plain = np.median(np.array(rows), axis=0)
        widths = " | ".join(f"{width:.3f} ({1 - balanced / width:.0%} narrower)" for width in plain)
        yield f"| {world.name} | {full:.3f} | {part:.1%} of the requests | {balanced:.3f} | {widths} |"


def by_chance(counts: Array, *, weighted: bool = False) -> Measure:
    """The score of a plain random part; weighted so that the templates it met count alike, or as it is."""
    met = counts[counts.sum(axis=1) > 0]
    (found,) = measured(met[None], met.sum(axis=1), weighted=weighted)
    return found


GAPS = (0.0, 0.11, 0.15, 0.2, 0.3)
PLANNED = 0.08
"""The difference that the fixed design is made for."""
ALIKE = 0.29
"""How far answers to one question in two languages go together within a template: DeepSeek-R1 in English and Dutch."""


def decided(runs: int) -> Iterator[str]:
    """Requests until "en != tr" is decided, beside a fixed design of 90 % power."""
    yield f"<!-- decided: {runs:,} runs a line -->"
    yield (
        "| answers to a question in both languages | true difference | `--to-find` | answered yes | open"
        " | requests, median (mean) | of the fixed design's | of one that asks both languages the same"
        " | of a plain random sample that does | the least median that any test can have |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for alike, gap in product((0.0, ALIKE), GAPS):
        world = World("", (gap / 2, -gap / 2), alike=alike)
        truth = world.truth()
        true = float(truth[0] - truth[1])
        runs_looks = list(simulated(world, runs, 9))
        for find in (None, PLANNED):
            stops = [until_decided(looks, find=find) for looks in runs_looks]
            yield decided_line(stops, alike, true, find)
    yield ""
    plain = " or ".join(f"{fixed_sample(PLANNED, alike):,.0f}" for alike in (0.0, ALIKE))
    yield (
        f"The fixed design finds a difference of {PLANNED} in 90 %: {fixed_design(PLANNED):,.0f} requests,"
        f" {fixed_design(PLANNED, ALIKE):,.0f} where it asks both languages the same; a plain sample: {plain}."
    )


def decided_line(stops: Sequence[Stop], alike: float, true: float, find: float | None) -> str:
    """A line of that table."""
    yes = np.mean([(answer_of(stop.interval, SMALL) or "").startswith("yes") for stop in stops])
    left = np.mean([answer_of(stop.interval, SMALL) is None for stop in stops])
    asked = [2 * REQUESTS * MBBQ.part(stop.look) for stop in stops]
    median, mean = float(np.median(asked)), float(np.mean(asked))
    fixed = fixed_design(PLANNED), fixed_design(PLANNED, alike), fixed_sample(PLANNED, alike)
    shares = " | ".join(f"{median / requests:.0%} ({mean / requests:.0%})" for requests in fixed)
    least = "–" if abs(true) < 1e-3 else f"{fixed_design(true, alike, 0.5) / fixed[0]:.0%}"
    return (
        f"| {f'{alike:.2f} correlated' if alike else 'independent'} | {true:.3f} | {find or '–'} | {yes:.1%}"
        f" | {left:.1%} | {median:,.0f} ({mean:,.0f}) | {shares} | {least} |"
    )


def fixed_design(difference: float, alike: float = 0.0, power: float = 0.9) -> float:
    """Requests of the smallest balanced sample that finds a difference in 90 % at 5 %, by the true variances.

    With a power of 0.5 it is the least median that a test of 5 % can have, whenever it looks: by then it has found the
    difference in half of all runs, and no test of all that was asked by then finds it more often.
    """
    reach = stats.t.ppf(0.975, len(SIZES) - 1) + stats.t.ppf(power, len(SIZES) - 1)
    for size in range(1, int(STOCK.max()) + 1):
        taken = np.minimum(size, STOCK)
        noise = (1 - alike) * answer_sd() ** 2 * (1 / taken).mean()
        if reach * (2 * ((NAMED * INTERACTION) ** 2 + noise) / len(SIZES)) ** 0.5 <= difference:
            return float(2 * taken.sum())
    return 2.0 * REQUESTS


def fixed_sample(difference: float, alike: float = 0.0, power: float = 0.9) -> float:
    """Requests of the plain random sample, of questions that count, that finds a difference in 90 % at 5 %.

    Questions count alike, so large templates count more: as fewer templates of one size.
    """
    templates = SIZES.sum() ** 2 / (SIZES**2).sum()
    reach = stats.t.ppf(0.975, templates - 1) + stats.t.ppf(power, templates - 1)
    noise = (1 - alike) * answer_sd() ** 2
    left = (difference / reach) ** 2 / 2 - (NAMED * INTERACTION) ** 2 / templates
    return min(2 * noise / left, 2.0 * REQUESTS) if left > 0 else 2.0 * REQUESTS


def answer_sd() -> float:
    """Of one answer, its question included; leans are of little weight in it."""
    return float((NAMED - NAMED**2 * (0.3**2 + INTERACTION**2)) ** 0.5)


def designs(runs: int) -> Iterator[str]:
    """Widths that `mbbq-gen design` predicts, and those of simulated runs; and whose design is best."""
    sd = VarianceAssumptions(
        template=NAMED * 0.3,
        template_language=NAMED * INTERACTION,
        wording=0.0,
        template_wording=NAMED * WORDED,
        language_wording=0.0,
        answer=answer_sd(),
        source="true",
    )
    share = (NAMED * QUESTION) ** 2 / answer_sd() ** 2
    components = Components(assumptions=sd, question_share=share, question_source="true")
    study = Study("score", components, Offer(tuple(SIZES.tolist()), WORDINGS, 1, 1), Price(online=None, batch=None))
    yield f"<!-- designs: {runs:,} runs a line -->"
    yield "| questions of each template | wordings of a question | requests | width as predicted | simulated |"
    yield "|---|---|---|---|---|"
    generator = np.random.default_rng(10)
    for questions, each in ((4, 1), (8, 1), (16, 1), (32, 1), (64, 1), (2, 2), (4, 2), (2, 5), (4, 5), (240, 5)):
        predicted = study.at(len(SIZES), questions, WORDINGS, each)
        widths = [simulated_width(questions, each, generator) for _ in range(runs)]
        yield f"| {questions} | {each} | {predicted.requests:,} | {predicted.width:.3f} | {np.mean(widths):.3f} |"


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


TABLES = {"coverage": coverage, "saving": saving, "decided": decided, "designs": designs}


def main() -> None:
    """Prints the tables that were asked for."""
    words = sys.argv[1:]
    runs = int(words[0]) if words and words[0].isdigit() else 200
    for name in [word for word in words if word in TABLES] or list(TABLES):
        for line in TABLES[name](runs):
            print(line, flush=True)
        print()


if __name__ == "__main__":
    main()
