"""Coverage of every 95 % interval, and levels of every test, by simulated models whose scores are known.

    python benches/simulate_all.py [--runs N] [TABLE …]        without names: all tables; N: 200

The tables stand in docs/evidence.md, those of `stops` and `designs` in docs/sample-size.md:

coverage     scores of models from strong to random over few templates to many, of 24 questions or of MBBQ's sizes
between      the same for true scores between those
reads        the same where half of the answers or one in twenty could be read, and of differences of two languages
levels       how often each test speaks at 5 % where it must not, and in brackets how often it can at most; how often
             the interval for sampling and unread answers misses a truth that unread answers have pushed to a bound
metrics      other metrics, and a paired difference
power        how often a difference is found
macro        means over categories
wordings     `--prompt-effects random`
selection    `compare --select above-chance`
components   variance components
effects      effects of axes
comparison   statements of `compare` about ability, position and control
correction   scores corrected by labels
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
from scipy import stats
from simulated import AMBIGUOUS, BIAS, CHOICES, MBBQ, Array, Generator, Held, head, panel_of, row, speaks

from mbbq_gen.scoring.cells import CELLS
from mbbq_gen.scoring.codes import MIN_TEMPLATES
from mbbq_gen.statistics.estimate import InferenceSettings
from mbbq_gen.statistics.hypothesis_tests import equality_test, friedman, tost, wilcoxon, zero_test
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
LEVEL = 0.05
FEW = tuple(templates for templates in TEMPLATES if templates >= MIN_TEMPLATES)


@dataclass(frozen=True)
class Level:
    """How often a test speaks where it must not."""

    rate: float
    most: float | None
    """How often it can at most; None: as often as it likes."""

    def __str__(self) -> str:
        return f"{100 * self.rate:.1f}" if self.most is None else f"{100 * self.rate:.1f} ({100 * self.most:.1f})"


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


def of_one(read: tuple[float, ...], sizes: str, templates: int, runs: int) -> dict[str, Level]:
    """How often each test of one score speaks where it must not, and can at most."""
    generator, spoken, errors = np.random.default_rng([templates, runs, 56]), np.zeros(4), 0.0
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
        errors += lean.standard_error / runs
    most = (None, most_of_ranks(templates), most_of_tost(errors, templates), None)
    names = ("interval, score", "Wilcoxon, score", "TOST", "bounds miss")
    return dict(zip(names, map(Level, spoken / runs, most), strict=True))


def of_two(read: tuple[float, ...], sizes: str, templates: int, runs: int) -> dict[str, Level]:
    """The same for tests of a difference of two languages; Friedman's is made where both were read alike."""
    generator, spoken = np.random.default_rng([templates, runs, 57]), np.zeros(3)
    missing, missed = np.random.default_rng([templates, runs, 67]), np.zeros(2)
    for _ in range(runs):
        panel = panel_of(draw(NULL, read, templates, sizes, generator), FASTER)
        ranks = friedman(panel.template_scores(BIAS).T, "h", is_even=panel.has_even_counts(BIAS))
        high = panel_of(draw(NEAR_AN_END, read, templates, sizes, generator), FASTER).estimates(BIAS)
        equal = [equality_test(scores, "h", FASTER) for scores in (panel.estimates(BIAS), high)]
        spoken += [speaks(equal[0]), speaks(ranks), speaks(equal[1])]
        for place, model in enumerate((MARGIN, NEAR_AN_END)):
            apart = draw(model, read, templates, sizes, missing, lost=("target", "non_target"))
            missed[place] += misses(panel_of(apart, FASTER), 0.0)
    names = (
        "interval, difference",
        "Friedman, difference",
        "interval, near an end",
        "bounds miss",
        "bounds, near an end",
    )
    most = (None, most_of_heads(templates), None, None, None)
    return dict(zip(names, map(Level, np.concatenate((spoken, missed)) / runs, most), strict=True))


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
    **simulate_averages.TABLES,
    **simulate_commands.TABLES,
    **simulate_correction.TABLES,
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
