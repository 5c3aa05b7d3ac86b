"""The one simulation that every interval and every test must pass: models from strong to random, few templates to many.

    python benches/simulate_all.py [--runs N] [coverage] [between] [reads] [levels]

`coverage`: how often 95 % intervals of a bias hold the truth, by true score, how often the model names a person (a
strong model hardly ever does, a guessing one in two of three answers) and sizes of templates (24 questions each, or
drawn from MBBQ's own), with the mean width; bootstrap alone → as the tool gives it. `between`: the same for true
scores between those. `reads`: the same where half of the answers or one in twenty could be read, and of the difference
of two languages that have the same score, whatever was read in each.

`levels`: how often each test speaks at the 5 % level where it must not, by what was read in the language, or in the
two of them: `sign_flip` and `wilcoxon` of one score that is 0, `tost` of a lean as large as the margin, `sign_flip` and
`friedman` of two languages that do not differ; and how often the interval for sampling and unread answers misses a
truth that the unread answers have pushed to a bound: of a score of 0.1, and of the difference of two scores of 0.1, and
of 0.9. In brackets, how often each can speak at most: p values of few templates are steps, and an interval wider than
twice the margin never lies within it.

The tables stand in docs/statistics.md. With 200 runs (default) the standard error of a rate of 5 % is 1.5 points.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from scipy import stats
from simulate_coverage import panel_of
from simulate_edge import without_room
from simulate_macro import SIZES

from mbbq_gen.scoring import METRICS
from mbbq_gen.scoring.cells import CELLS, Cell
from mbbq_gen.scoring.reasons import MIN_TEMPLATES
from mbbq_gen.statistics.equivalence import smaller_than
from mbbq_gen.statistics.panel import Panel, Sampling, contributions, shares
from mbbq_gen.statistics.significance import (
    EXACT_UP_TO,
    TestResult,
    friedman,
    sign_flip,
    sign_flip_groups,
    wilcoxon,
)
from mbbq_gen.statistics.unread import UnreadPanels, unread_bounds

Array = Any
BIAS = METRICS["mbbq_bias_ambiguous"]
SAMPLING = Sampling()
FASTER = Sampling(resamples=1000)
TEMPLATES = (2, 3, 5, 8, 15, 40, 98)
ALL_SIZES = np.array([size for sizes in SIZES.values() for size in sizes])
CHOICES = ("target", "non_target", "unknown", "undetected")


@dataclass(frozen=True)
class Model:
    """A model whose bias in ambiguous contexts is known exactly: naming · lean."""

    truth: float
    naming: float
    """How often it names a person."""
    spread: float = 0.3
    """Of the templates' leans, as far as there is room for it."""
    own: float = 0.15
    """Of template × language."""

    def leans(self, languages: int, templates: int, generator: np.random.Generator) -> Array:
        """Leans of languages × templates, with the wanted mean: scaled beta variables round it."""
        mean = self.truth / self.naming
        shared = _beta(mean, self.spread, templates, generator)
        return np.stack([_beta_round(shared, self.own, generator) for _ in range(languages)])


def _beta(mean: float, spread: float, count: int, generator: np.random.Generator) -> Array:
    """Numbers between −1 and 1 with that mean, and the standard deviation or what there is room for."""
    at = (mean + 1) / 2
    room = at * (1 - at)
    if room <= 0:
        return np.full(count, mean)
    share = min((spread / 2) ** 2, 0.15 * room)
    both = room / share - 1
    return 2 * generator.beta(at * both, (1 - at) * both, count) - 1


def _beta_round(means: Array, spread: float, generator: np.random.Generator) -> Array:
    """Numbers between −1 and 1, each with its own mean."""
    at = np.clip((means + 1) / 2, 1e-9, 1 - 1e-9)
    both = at * (1 - at) / np.minimum((spread / 2) ** 2, 0.15 * at * (1 - at)) - 1
    return 2 * generator.beta(at * both, (1 - at) * both) - 1


def draw(
    model: Model,
    read: tuple[float, ...],
    templates: int,
    sizes: str,
    generator: np.random.Generator,
    *,
    lost: Sequence[str] = (),
) -> Array:
    """Cells of languages × templates. `lost`: of each language, the choice that alone goes unread; none: all do."""
    asked = np.full(templates, 24) if sizes == "equal" else _sizes(templates, generator)
    cells = np.zeros((len(read), templates, len(CELLS)))
    leans = model.leans(len(read), templates, generator)
    for row, rate in enumerate(read):
        named = np.full(templates, model.naming)
        chances = np.stack([named * (1 + leans[row]) / 2, named * (1 - leans[row]) / 2, 1 - named], axis=1)
        said = generator.multinomial(asked, chances / chances.sum(axis=1, keepdims=True))
        kept = generator.binomial(said, rate) if not lost else said.copy()
        if lost:
            place = CHOICES.index(lost[row])
            kept[:, place] = generator.binomial(said[:, place], rate)
        for place, choice in enumerate(CHOICES[:3]):
            cells[row, :, _code(choice)] = kept[:, place]
        cells[row, :, _code("undetected")] = (said - kept).sum(axis=1)
    return cells


def _sizes(templates: int, generator: np.random.Generator) -> Array:
    return ALL_SIZES if templates == ALL_SIZES.size else generator.choice(ALL_SIZES, templates)


def _code(choice: str) -> int:
    verdict = {"undetected": "undetected", "unknown": "right"}.get(choice, "wrong")
    return CELLS.index(Cell("ambiguous", verdict, "ambiguous", "negative", choice))  # type: ignore[arg-type]


# --- coverage --------------------------------------------------------------------------------------------------------

MODELS = (
    Model(0.0, 0.01),
    Model(0.0, 0.1),
    Model(0.0, 0.67),
    Model(0.1, 0.15),
    Model(-0.1, 0.67),
    Model(0.9, 0.95),
    Model(-0.9, 0.99),
    Model(1.0, 1.0),
)
WHERE_READ = (Model(0.0, 0.1), Model(0.1, 0.15), Model(-0.1, 0.67), Model(0.9, 0.95))
BETWEEN = (Model(0.6, 0.9), Model(0.75, 0.95), Model(-0.8, 0.82), Model(0.97, 0.98))


def coverage(runs: int, models: Sequence[Model] = MODELS) -> None:
    """Prints a line for each model and kind of sizes."""
    print("| true score | a person named | sizes | " + " | ".join(f"{n} templates" for n in TEMPLATES) + " |")
    print("|---|---|---|" + "---|" * len(TEMPLATES))
    for model in models:
        for sizes in ("equal", "MBBQ's"):
            cells = [_told(held(model, sizes, templates, runs)) for templates in TEMPLATES]
            print(f"| {model.truth:+g} | {model.naming:.0%} | {sizes} | {' | '.join(cells)} |", flush=True)


def held(model: Model, sizes: str, templates: int, runs: int) -> tuple[Array, Array] | None:
    """How often intervals hold the truth, and how wide they are: by the bootstrap alone, and now; None: no interval."""
    generator = np.random.default_rng([templates, runs, round(model.naming * 100), 56])
    inside, wide = np.zeros(2), np.zeros(2)
    for _ in range(runs):
        (found,) = panel_of(draw(model, (0.95,), templates, sizes, generator), SAMPLING).estimates(BIAS)
        for place, one in enumerate((without_room(found), found)):
            ends = one.interval(0.95)
            if ends is None:
                return None
            inside[place] += ends[0] - 1e-9 <= model.truth <= ends[1] + 1e-9
            wide[place] += ends[1] - ends[0]
    return inside / runs, wide / runs


def _told(found: tuple[Array, Array] | None) -> str:
    if found is None:
        return "none"
    (before, now), (narrow, broad) = 100 * found[0], found[1]
    return f"{before:.0f} → {now:.1f} ({narrow:.2f} → {broad:.2f})"


def reads(runs: int) -> None:
    """Prints how often intervals of scores and of differences hold where less is read; templates of MBBQ's sizes."""
    print("| | true score | a person named | read | " + " | ".join(f"{n} templates" for n in FEW) + " |")
    print("|---|---|---|---|" + "---|" * len(FEW))
    for model in WHERE_READ:
        for read in RATES:
            what, told = "difference" if len(read) > 1 else "score", " and ".join(f"{rate:.0%}" for rate in read)
            cells = " | ".join(held_where_read(model, read, templates, runs) for templates in FEW)
            print(f"| {what} | {model.truth:+g} | {model.naming:.0%} | {told} | {cells} |", flush=True)


def held_where_read(model: Model, read: tuple[float, ...], templates: int, runs: int) -> str:
    """How often intervals of a score, or of a difference that is 0, hold the truth; with the mean width."""
    generator = np.random.default_rng([templates, runs, round(model.naming * 100), 65])
    inside, wide, made = 0, 0.0, 0
    truth = model.truth if len(read) == 1 else 0.0
    for _ in range(runs):
        found = panel_of(draw(model, read, templates, "MBBQ's", generator), FASTER).estimates(BIAS)
        ends = (found[0] if len(read) == 1 else found[0].minus(found[1])).interval(0.95)
        if ends is None:  # in too few templates anything was read
            continue
        made += 1
        inside += ends[0] - 1e-9 <= truth <= ends[1] + 1e-9
        wide += ends[1] - ends[0]
    none = f"; none in {1 - made / runs:.0%}" if made < runs else ""
    return f"{100 * inside / made:.1f} ({wide / made:.2f}{none})" if made else "none"


def between(runs: int) -> None:
    """The same for true scores between those of the table."""
    coverage(runs, BETWEEN)


# --- levels ----------------------------------------------------------------------------------------------------------

READ = (0.95, 0.5, 0.05)
PAIRS = tuple(combinations_with_replacement(READ, 2))
RATES: tuple[tuple[float, ...], ...] = ((0.5,), (0.05,), (0.95, 0.95), (0.95, 0.05))
"""Read in the language, or the two of them, whose intervals are looked at."""
NULL = Model(0.0, 0.67)
MARGIN = Model(0.1, 0.67)
NEAR_AN_END = Model(0.9, 0.95)
LEVEL = 0.05
FEW = tuple(templates for templates in TEMPLATES if templates >= MIN_TEMPLATES)


@dataclass(frozen=True)
class Level:
    """How often a test speaks where it must not."""

    rate: float
    most: float | None
    """How often it can at most; None: as often as it likes."""


def levels(runs: int) -> None:
    """Prints a line for each test, share read and kind of sizes."""
    print("| test | read | sizes | " + " | ".join(f"{n} templates" for n in FEW) + " |")
    print("|---|---|---|" + "---|" * len(FEW))
    for many, reads in ((of_one, [(rate,) for rate in READ]), (of_two, PAIRS)):
        for read in reads:
            for sizes in ("equal", "MBBQ's"):
                columns = [many(read, sizes, templates, runs) for templates in FEW]
                told = " and ".join(f"{rate:.0%}" for rate in read)
                for name in columns[0]:
                    cells = " | ".join(cell(column[name]) for column in columns)
                    print(f"| {name} | {told} | {sizes} | {cells} |", flush=True)


def of_one(read: tuple[float, ...], sizes: str, templates: int, runs: int) -> dict[str, Level]:
    """How often each test of one score speaks where it must not, and can at most."""
    generator, spoken, errors = np.random.default_rng([templates, runs, 56]), np.zeros(4), 0.0
    for run in range(runs):
        panel = panel_of(draw(NULL, read, templates, sizes, generator), replace(SAMPLING, resamples=10))
        lean = panel_of(draw(MARGIN, read, templates, sizes, generator), SAMPLING).estimates(BIAS)[0]
        tests = (
            sign_flip(contributions(panel.estimates(BIAS)[0]), "h", seed=run % 4),
            wilcoxon(panel.template_scores(BIAS)[0], "h"),
            smaller_than(lean, abs(MARGIN.truth), "h", SAMPLING),
        )
        spoken[:3] += [speaks(test) for test in tests]
        spoken[3] += misses(
            panel_of(draw(MARGIN, read, templates, sizes, generator, lost=("target",)), SAMPLING), MARGIN.truth
        )
        errors += lean.error / runs
    most = (most_of_signs(templates), most_of_ranks(templates), most_of_tost(errors, templates), None)
    names = ("sign flip, score", "Wilcoxon, score", "TOST", "bounds miss")
    return dict(zip(names, map(Level, spoken / runs, most), strict=True))


def of_two(read: tuple[float, ...], sizes: str, templates: int, runs: int) -> dict[str, Level]:
    """The same for tests of a difference of two languages."""
    generator, spoken = np.random.default_rng([templates, runs, 57]), np.zeros(2)
    missing, missed = np.random.default_rng([templates, runs, 67]), np.zeros(2)
    for run in range(runs):
        panel = panel_of(draw(NULL, read, templates, sizes, generator), replace(SAMPLING, resamples=10))
        flipped = sign_flip_groups(shares(panel.estimates(BIAS)), "h", seed=run % 4)
        spoken += [speaks(flipped), speaks(friedman(panel.template_scores(BIAS).T, "h"))]
        for place, model in enumerate((MARGIN, NEAR_AN_END)):
            apart = draw(model, read, templates, sizes, missing, lost=("target", "non_target"))
            missed[place] += misses(panel_of(apart, FASTER), 0.0)
    most = (most_of_signs(templates), most_of_heads(templates), None, None)
    names = ("sign flip, difference", "Friedman, difference", "bounds miss, difference", "the same, near an end")
    return dict(zip(names, map(Level, np.concatenate((spoken, missed)) / runs, most), strict=True))


def speaks(test: TestResult) -> bool:
    """Whether a test finds what it is after."""
    return test.p_value is not None and test.p_value < LEVEL


def cell(level: Level) -> str:
    """In per cent."""
    return f"{100 * level.rate:.1f}" if level.most is None else f"{100 * level.rate:.1f} ({100 * level.most:.1f})"


def most_of_signs(templates: int) -> float:
    """The largest level below 5 % of tests by signs: steps of 2 / 2ⁿ, or of one of the permutations drawn."""
    if templates > EXACT_UP_TO:
        return LEVEL
    return step_below(np.full(2**templates // 2, 2 / 2**templates))


def most_of_ranks(templates: int) -> float:
    """The same for signed ranks without ties: of all sums of ranks, the extreme ones at both ends."""
    chances = np.ones(1)
    for rank in range(1, templates + 1):
        chances = (np.append(chances, np.zeros(rank)) + np.append(np.zeros(rank), chances)) / 2
    return step_below(2 * chances[: chances.size // 2])


def most_of_heads(templates: int) -> float:
    """The same for who is ahead in a template, without ties."""
    return step_below(2 * stats.binom.pmf(np.arange(templates // 2), templates, 0.5))


def step_below(chances: Array) -> float:
    """The largest sum of the first chances that is below 5 %."""
    sums = np.cumsum(chances)
    return float(max(sums[sums < LEVEL], default=0.0))


def most_of_tost(error: float, templates: int) -> float:
    """How often a t interval of that error lies within the margin, the truth being at its end."""
    reach = stats.t.ppf(1 - LEVEL, templates - 1)
    return max(0.0, LEVEL - float(stats.t.cdf(reach - 2 * MARGIN.truth / error, templates - 1)))


def misses(panel: Panel, truth: float) -> bool:
    """Whether the interval for sampling and unread answers misses: of a score, or of the difference of two."""
    ends, plain = UnreadPanels(panel).ends(BIAS), panel.estimates(BIAS)
    assert ends is not None
    (low, *lows), (high, *highs), score = *ends, plain[0]
    if lows:
        low, high, score = low.minus(highs[0]), high.minus(lows[0]), score.minus(plain[1])
    found = unread_bounds(low, high, score, panel.sampling)
    lowest, highest = found.interval_low, found.interval_high
    return lowest is not None and highest is not None and not lowest - 1e-9 <= truth <= highest + 1e-9


TABLES = {"coverage": coverage, "between": between, "reads": reads, "levels": levels}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []], default=[])
    parser.add_argument("--runs", type=int, default=200)
    asked = parser.parse_args()
    for name in asked.tables or TABLES:
        TABLES[name](asked.runs)
        print()


if __name__ == "__main__":
    main()
