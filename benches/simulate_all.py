"""Coverage of every 95 % interval, and levels of every test, by simulated models whose scores are known.

    python benches/simulate_all.py [--runs N] [TABLE …]        without names: all tables; N: 200

The tables stand in docs/evidence.md, those of `stops` and `designs` in docs/sample-size.md:

coverage     scores of models from strong to random over few templates to many, of 24 questions or of MBBQ's sizes
between      the same for true scores between those
reads        the same where half of the answers or one in twenty could be read, and of differences of two languages
levels       how often each test speaks at 5 % where it must not; how often the interval for sampling and unread
             answers misses a truth that unread answers have pushed to a bound
unlike       tests of languages that are read unlike
metrics      other metrics, and a paired difference
power        how often a difference is found
averages     means over questions, over templates, and random-effects means, on templates of MBBQ's sizes
estimates    estimates of runs that stopped, plain and median-unbiased
macro        means over categories
wordings     `--prompt-effects random`
selection    `compare --select above-chance`
components   variance components
effects      effects of axes
comparison   statements of `compare` about ability, position and control
correction   scores corrected by labels
follow_up    scores with replies to follow-ups
stops        intervals of runs in rounds, where they stop
designs      widths that `design` predicts

A cell holds a coverage in per cent and, in brackets, the mean width. The standard error of a rate of 5 % is 1.5 points
over 200 runs, 0.5 over 2,000.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
import simulate_averages
import simulate_commands
import simulate_correction
import simulate_design
import simulate_follow_up
from simulated import AMBIGUOUS, BIAS, CHOICES, MBBQ, Array, Generator, Held, head, panel_of, row, speaks

from mbbq_gen.scoring.cells import CELLS
from mbbq_gen.scoring.codes import MIN_TEMPLATES
from mbbq_gen.statistics.estimate import InferenceSettings
from mbbq_gen.statistics.hypothesis_tests import equality_test, friedman, kruskal_wallis, tost, wilcoxon, zero_test
from mbbq_gen.statistics.missing_data import MissingDataPanels, missing_data_bounds
from mbbq_gen.statistics.panel import Panel

SAMPLING = InferenceSettings()
FASTER = InferenceSettings(n_resamples=1000)
TEMPLATES = (2, 3, 5, 8, 15, 40, 98)
ALL_SIZES = np.array([size for sizes in MBBQ.values() for size in sizes])


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

    def leans(self, languages: int, templates: int, generator: Generator) -> Array:
        """Leans of languages × templates, with the wanted mean: scaled beta variables round it."""
        mean = self.truth / self.naming
        shared = _beta(mean, self.spread, templates, generator)
        return np.stack([_beta_round(shared, self.own, generator) for _ in range(languages)])


def _beta(mean: float, spread: float, count: int, generator: Generator) -> Array:
    """Numbers between −1 and 1 with that mean, and the standard deviation or what there is room for."""
    at = (mean + 1) / 2
    room = at * (1 - at)
    if room <= 0:
        return np.full(count, mean)
    share = min((spread / 2) ** 2, 0.15 * room)
    both = room / share - 1
    return 2 * generator.beta(at * both, (1 - at) * both, count) - 1


def _beta_round(means: Array, spread: float, generator: Generator) -> Array:
    """Numbers between −1 and 1, each with its own mean."""
    at = np.clip((means + 1) / 2, 1e-9, 1 - 1e-9)
    both = at * (1 - at) / np.minimum((spread / 2) ** 2, 0.15 * at * (1 - at)) - 1
    return 2 * generator.beta(at * both, (1 - at) * both) - 1


def mbbq_sizes(templates: int, generator: Generator) -> Array:
    """Sizes of so many of MBBQ's templates."""
    return ALL_SIZES if templates == ALL_SIZES.size else generator.choice(ALL_SIZES, templates)


def draw(
    model: Model,
    read: tuple[float, ...],
    templates: int,
    sizes: str,
    generator: Generator,
    *,
    lost: Sequence[str] = (),
) -> Array:
    """Cells of languages × templates. `lost`: of each language, the choice that alone goes unread; none: all do."""
    asked = np.full(templates, 24) if sizes == "equal" else mbbq_sizes(templates, generator)
    cells = np.zeros((len(read), templates, len(CELLS)))
    leans = model.leans(len(read), templates, generator)
    for place, rate in enumerate(read):
        named = np.full(templates, model.naming)
        chances = np.stack([named * (1 + leans[place]) / 2, named * (1 - leans[place]) / 2, 1 - named], axis=1)
        said = generator.multinomial(asked, chances / chances.sum(axis=1, keepdims=True))
        kept = generator.binomial(said, rate) if not lost else said.copy()
        if lost:
            silent = CHOICES.index(lost[place])
            kept[:, silent] = generator.binomial(said[:, silent], rate)
        cells[place, :, AMBIGUOUS] = np.column_stack([kept, (said - kept).sum(axis=1)]).T
    return cells


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
    head("true score", "a person named", "sizes", *(f"{number} templates" for number in TEMPLATES))
    for model in models:
        for sizes in ("equal", "MBBQ's"):
            cells = [held(model, (0.95,), sizes, templates, runs) for templates in TEMPLATES]
            row(f"{model.truth:+g}", f"{model.naming:.0%}", sizes, *cells)


def between(runs: int) -> None:
    """The same for true scores between those of the table."""
    coverage(runs, BETWEEN)


def reads(runs: int) -> None:
    """Prints coverage of scores and of differences that are 0, where less is read; templates of MBBQ's sizes."""
    head("", "true score", "a person named", "read", *(f"{number} templates" for number in FEW))
    for model in WHERE_READ:
        for read in RATES:
            cells = [held(model, read, "MBBQ's", templates, runs, seed=65, sampling=FASTER) for templates in FEW]
            what = "difference" if len(read) > 1 else "score"
            row(what, f"{model.truth:+g}", f"{model.naming:.0%}", " and ".join(f"{rate:.0%}" for rate in read), *cells)


def held(
    model: Model,
    read: tuple[float, ...],
    sizes: str,
    templates: int,
    runs: int,
    *,
    seed: int = 56,
    sampling: InferenceSettings = SAMPLING,
) -> Held:
    """How often intervals of the score, or of the difference of two languages that is 0, hold the truth."""
    generator, found = np.random.default_rng([templates, runs, round(model.naming * 100), seed]), Held()
    for _ in range(runs):
        first, *second = panel_of(draw(model, read, templates, sizes, generator), sampling).estimates(BIAS)
        found.add(first.subtract(second[0]) if second else first, 0.0 if second else model.truth)
    return found


# --- levels ----------------------------------------------------------------------------------------------------------

READ = (0.95, 0.5, 0.05)
PAIRS = tuple(combinations_with_replacement(READ, 2))
RATES: tuple[tuple[float, ...], ...] = ((0.5,), (0.05,), (0.95, 0.95), (0.95, 0.05))
"""Read in the language, or the two of them, whose intervals are looked at."""
NULL = Model(0.0, 0.67)
MARGIN = Model(0.1, 0.67)
NEAR_AN_END = Model(0.9, 0.95)
FEW = tuple(templates for templates in TEMPLATES if templates >= MIN_TEMPLATES)


def levels(runs: int) -> None:
    """Prints a line for each test, share read and kind of sizes."""
    head("test", "read", "sizes", *(f"{number} templates" for number in FEW))
    for many, reads in ((of_one, [(rate,) for rate in READ]), (of_two, PAIRS)):
        for read in reads:
            for sizes in ("equal", "MBBQ's"):
                columns = [many(read, sizes, templates, runs) for templates in FEW]
                told = " and ".join(f"{rate:.0%}" for rate in read)
                for name in columns[0]:
                    row(name, told, sizes, *(column[name] for column in columns))


def of_one(read: tuple[float, ...], sizes: str, templates: int, runs: int) -> dict[str, float]:
    """How often, in per cent, each test of one score speaks where it must not."""
    generator, spoken = np.random.default_rng([templates, runs, 56]), np.zeros(4)
    for _ in range(runs):
        panel = panel_of(draw(NULL, read, templates, sizes, generator), FASTER)
        lean = panel_of(draw(MARGIN, read, templates, sizes, generator), SAMPLING).estimates(BIAS)[0]
        tests = (
            zero_test(panel.estimates(BIAS)[0], "h", FASTER),
            wilcoxon(panel.template_scores(BIAS)[0], "h"),
            tost(lean, abs(MARGIN.truth), "h", SAMPLING),
        )
        spoken[:3] += [speaks(test) for test in tests]
        spoken[3] += misses(
            panel_of(draw(MARGIN, read, templates, sizes, generator, lost=("target",)), SAMPLING), MARGIN.truth
        )
    return rates(("interval, score", "Wilcoxon, score", "TOST", "bounds miss"), spoken, runs)


def of_two(read: tuple[float, ...], sizes: str, templates: int, runs: int) -> dict[str, float]:
    """The same for tests of a difference of two languages."""
    generator, spoken = np.random.default_rng([templates, runs, 57]), np.zeros(2)
    missing, missed = np.random.default_rng([templates, runs, 67]), np.zeros(2)
    for _ in range(runs):
        panel = panel_of(draw(NULL, read, templates, sizes, generator), FASTER)
        ranks = friedman(panel.template_scores(BIAS).T, "h", is_even=panel.has_even_counts(BIAS))
        spoken += [speaks(equality_test(panel.estimates(BIAS), "h", FASTER)), speaks(ranks)]
        for place, model in enumerate((MARGIN, NEAR_AN_END)):
            apart = draw(model, read, templates, sizes, missing, lost=("target", "non_target"))
            missed[place] += misses(panel_of(apart, FASTER), 0.0)
    names = ("interval, difference", "Friedman, difference", "bounds miss, difference", "the same, near an end")
    return rates(names, np.concatenate((spoken, missed)), runs)


def rates(names: Sequence[str], counts: Array, runs: int) -> dict[str, float]:
    """Counts by name, in per cent."""
    return {name: round(100 * float(count) / runs, 1) for name, count in zip(names, counts, strict=True)}


UNLIKE = (((0.5, 0.6), (0.95, 0.3)), ((0.9, 0.9), (0.95, 0.1)), ((0.5, 0.5), (0.95, 0.3)), ((0.9, 0.9), (0.95, 0.85)))
"""True scores of two languages that name a person in 95 %, and the mean shares read of them."""


def unlike(runs: int) -> None:
    """Prints how often a difference is found where languages are read unlike, 98 templates of MBBQ's sizes."""
    names = ("interval", "its interval excludes 0", "they disagree", "Wilcoxon", "Friedman", "Kruskal–Wallis")
    head("true scores", "read", *names, "ranks are refused")
    for truths, reads in UNLIKE:
        generator, found = np.random.default_rng([runs, round(100 * sum(reads))]), np.zeros(7)
        for _ in range(runs):
            leans = [Model(truth, 0.95).leans(1, 98, generator)[0] for truth in truths]
            shares = [np.clip(generator.beta(3 * read, 3 - 3 * read, 98), 0.01, 1) for read in reads]
            named = [np.stack([1 + lean, 1 - lean, np.full(98, 2 / 19)], axis=1) / (2 + 2 / 19) for lean in leans]
            cells = np.zeros((2, 98, len(CELLS)))
            for place, (chances, share) in enumerate(zip(named, shares, strict=True)):
                said = generator.multinomial(ALL_SIZES, chances)
                kept = generator.binomial(said, share[:, None])
                cells[place, :, AMBIGUOUS] = np.column_stack([kept, (said - kept).sum(axis=1)]).T
            panel = panel_of(cells, FASTER)
            scores, gap = panel.template_scores(BIAS), panel.estimates(BIAS)[0].subtract(panel.estimates(BIAS)[1])
            is_found, excludes = speaks(zero_test(gap, "h", FASTER)), gap.score(FASTER).excludes_zero
            ranks = wilcoxon(scores[0] - scores[1], "h"), friedman(scores.T, "h")
            ranked = [speaks(test) for test in (*ranks, kruskal_wallis(list(scores), "h", "template"))]
            found += [is_found, excludes, is_found != excludes, *ranked, not panel.has_even_counts(BIAS)]
        row(truths, reads, *rates([*names, "refused"], found, runs).values())


def misses(panel: Panel, truth: float) -> bool:
    """Whether the interval for sampling and unread answers misses: of a score, or of the difference of two."""
    ends, plain = MissingDataPanels(panel).ends(BIAS), panel.estimates(BIAS)
    assert ends is not None
    (low, *lows), (high, *highs), score = *ends, plain[0]
    if lows:
        low, high, score = low.subtract(highs[0]), high.subtract(lows[0]), score.subtract(plain[1])
    found = missing_data_bounds(low, high, score, panel.sampling)
    lowest, highest = found.interval_low, found.interval_high
    return lowest is not None and highest is not None and not lowest - 1e-9 <= truth <= highest + 1e-9


TABLES: dict[str, Callable[[int], None]] = {
    "coverage": coverage,
    "between": between,
    "reads": reads,
    "levels": levels,
    "unlike": unlike,
    **simulate_averages.TABLES,
    **simulate_commands.TABLES,
    **simulate_correction.TABLES,
    "follow_up": simulate_follow_up.follow_up,
    **simulate_design.TABLES,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []], default=[], metavar="TABLE")
    parser.add_argument("--runs", type=int, default=200)
    asked = parser.parse_args()
    for name in asked.tables or TABLES:
        print(f"\n{name}: {asked.runs:,} runs\n")
        TABLES[name](asked.runs)


if __name__ == "__main__":
    main()
