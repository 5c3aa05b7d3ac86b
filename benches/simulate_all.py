"""Coverage of every 95 % interval, levels and power of every test, and promises of `power` and `design`, by simulation.

    python -m benches.simulate_all [--quick] [--runs N] [TABLE …]        without names: all tables

The models have scores that are known exactly (`simulated.py`). The tables stand in docs/evidence.md:

scores       accuracies and biases, 5 to 98 templates of equal and of MBBQ's sizes, even, uneven and little parsing
posteriors   accuracies against the posterior of a beta-binomial model
metrics      all other metrics
differences  two languages with one score: coverage, which is the level of the test `interval`
tests        how often rank tests, sign flips and `tost` reject where they must not
bounds       how often the interval for sampling and unparsed answers misses a truth at a bound
power        how often a difference is found, by each test
macro        means over categories
prompts      `--prompt-effects random`
selection    `compare --template-filter above-chance`
components   variance components
corrected    scores corrected by annotations
promises     what `power` says is found in 80 % of the runs
widths       widths that `design` predicts
stops        intervals of runs in rounds, where they stop
effects      effects of axes
comparison   statements of `compare` about ability, position and control
averages     means over templates; `estimates`: of runs that stopped; `follow_up`: replies to follow-ups

`--quick` looks at fewer cells, in a few minutes. Coverage is in per cent; in brackets stands the least of the cells
that a figure is the mean of. Seeds are fixed.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent)]

import simulate_averages  # noqa: E402
import simulate_models  # noqa: E402
import simulate_runs  # noqa: E402
from simulated import (  # noqa: E402
    BIAS,
    CHOICES,
    CODES,
    MBBQ,
    RIGHT,
    Array,
    BetaBinomial,
    Generator,
    Grid,
    Held,
    Model,
    batches,
    draw_sizes,
    head,
    panel_of,
    row,
    speaks,
)

from mbbq_gen.scoring.cells import CELLS  # noqa: E402
from mbbq_gen.scoring.metrics import METRICS, Metric  # noqa: E402
from mbbq_gen.statistics.estimate import Estimate, InferenceSettings, mean_of_strata  # noqa: E402
from mbbq_gen.statistics.hypothesis_tests import (  # noqa: E402
    equality_test,
    tost,
    zero_test,
)
from mbbq_gen.statistics.missing_data import missing_data_bounds  # noqa: E402
from mbbq_gen.statistics.panel import resample_weights  # noqa: E402

SAMPLING = InferenceSettings(n_resamples=1000)
AGAIN = 1000
"""Runs of a cell whose intervals held too seldom in the first ones."""
ACCURACY = METRICS["accuracy_ambiguous"]
ACCURACIES = (0.6, 0.75, 0.9, 0.97, 0.99, 0.999)
BIASES = (0.0, 0.1, -0.1, 0.5, -0.5, 0.95, -0.95, 1.0)


@dataclass(frozen=True)
class Reading:
    """What share of the answers is parsed, and whether that varies between templates."""

    name: str
    shares: tuple[float, ...]
    uneven: bool = False


READINGS = (Reading("95 %", (0.95,)), Reading("60 %, uneven", (0.6,), True), Reading("10 %, uneven", (0.1,), True))
PAIRS = (
    Reading("95 and 95 %", (0.95, 0.95)),
    Reading("60 and 60 %, uneven", (0.6, 0.6), True),
    Reading("95 and 10 %, uneven", (0.95, 0.1), True),
)
ScoreCell = tuple[Model, str, int, Reading]
"""A model, the sizes of templates and their number, and what is parsed."""


def accurate(accuracy: float, icc: float, languages: int = 1) -> Model:
    """A model with that accuracy in ambiguous contexts."""
    return Model((accuracy,) * languages, (0.0,) * languages, icc=icc)


def biased(bias: float, icc: float, languages: int = 1, naming: float | None = None) -> Model:
    """A model with that bias in ambiguous contexts, where it names a person in two thirds, or as often as it must."""
    named = naming or (2 / 3 if abs(bias) <= 0.5 else min(1.0, abs(bias) + 0.03))
    return Model((1 - named,) * languages, (bias / named,) * languages, icc=icc)


def cells_of(  # noqa: PLR0917
    model: Model, sizes: str, templates: int, reading: Reading, runs: int, seed: int = 0
) -> Iterator[tuple[Array, Array]]:
    """Sizes (runs × templates) and cells (runs × languages × templates × CELLS) of many runs, batch by batch."""
    numbers = [*model.unknown, *model.direction, model.ability, model.icc, *reading.shares]
    generator = np.random.default_rng([seed, templates, len(sizes), *(round(1000 * (2 + part)) for part in numbers)])
    for size in batches(runs):
        drawn = draw_sizes(sizes, size, templates, generator)
        yield drawn, model.draw(drawn, reading.shares, generator, uneven=reading.uneven)


def pairs(cells: Array, metric: Metric, sampling: InferenceSettings = SAMPLING) -> Iterator[list[Estimate]]:
    """The estimates of each run's languages."""
    runs, languages = cells.shape[:2]
    found = panel_of(cells.reshape(-1, *cells.shape[2:]), sampling).estimates(metric)
    for run in range(runs):
        yield found[run * languages : (run + 1) * languages]


def clustered(estimate: Estimate) -> tuple[float, float] | None:
    """The cluster-robust t interval with the correction CR2 (Bell & McCaffrey 2002), to compare widths with."""
    one = mean_of_strata([estimate])
    reach = one.analytic_half_width(0.95)
    return None if np.isnan(reach) else (one.value - reach, one.value + reach)


class Summary:
    """Coverages of many cells, by whatever a table is made by."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._cells: list[tuple[tuple[str, ...], Held]] = []
        self._again: list[tuple[float, str]] = []

    def add(self, names: tuple[object, ...], held: Held, again: Callable[[int, int], Held]) -> None:
        """A cell of the grid; one that holds in less than 93 % is simulated `again`, with other runs and seed."""
        if held.made < self._grid.runs / 4:
            return
        self._cells.append((tuple(map(str, names)), held))
        if held.rate < 93:
            self._again.append((again(AGAIN, 1).rate, ", ".join(self._cells[-1][0])))

    def table(self, title: str, rows: int, columns: int) -> None:
        """Prints mean and least coverage by two of the names."""
        found: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for names, held in self._cells:
            found[names[rows]][names[columns]].append(held.rate)
        heads = list(dict.fromkeys(names[columns] for names, _ in self._cells))
        print()
        head(title, *(f"{name} templates" for name in heads))
        for name, parts in found.items():
            row(name, *(f"{np.mean(part):.1f} ({min(part):.1f})" if (part := parts[key]) else "–" for key in heads))

    def low(self) -> None:
        """Prints how many cells there are, their mean, and which hold in less than 93 %."""
        rates = np.array([held.rate for _, held in self._cells])
        least = [f"{name}: {rate:.1f}" for rate, name in sorted(self._again) if rate < 93]
        print(
            f"\n{len(rates):,} cells of {self._grid.runs:,} runs, {rates.mean():.1f} % in the mean,"
            f" {len(self._again)} below 93 %. In {AGAIN:,} new runs of each of them, below 93 %:"
            f" {'; '.join(least) or 'none'}.\n"
        )


# --- scores and differences ------------------------------------------------------------------------------------------


def coverage(metric: Metric, cell: ScoreCell, runs: int, seed: int, plain: Held | None = None) -> Held:
    """The intervals of a score, or of the difference of two languages; `plain` gets those of CR2."""
    model, *_, reading = cell
    first, *second = (model.truth(metric, share) for share in reading.shares)
    held = Held()
    for _, cells in cells_of(*cell, runs, seed):
        for one, *other in pairs(cells, metric):
            estimate = one.subtract(other[0]) if other else one
            held.add(estimate.interval(0.95), first - sum(second))
            if plain is not None:
                plain.add(clustered(estimate), first - sum(second))
    return held


def scores(grid: Grid) -> None:
    """Coverage of accuracies and biases; widths against CR2."""
    summary, widths = Summary(grid), defaultdict(list)
    wanted: list[tuple[str, Metric, float, Callable[[float, float], Model]]]
    wanted = [("accuracy", ACCURACY, value, accurate) for value in ACCURACIES]
    wanted += [("bias", BIAS, value, biased) for value in BIASES]
    for (kind, metric, value, make), sizes, icc, reading, templates in product(
        wanted, ("equal", "MBBQ"), grid.iccs, READINGS, grid.templates
    ):
        plain, cell = Held(), (make(value, icc), sizes, templates, reading)
        held = coverage(metric, cell, grid.runs, 0, plain)
        names = (f"{kind} {value:g}", sizes, f"icc {icc:g}", reading.name, templates)
        summary.add(names, held, partial(coverage, metric, cell))
        if plain.wide > 0 and held.made:
            widths[f"{kind} {value:g}", templates].append((held.width / plain.width, plain.rate))
    for place, title in enumerate(("score", "sizes", "correlation", "parsed")):
        summary.table(title, place, 4)
    summary.low()
    head("width over that of CR2; its coverage", *(f"{number} templates" for number in grid.templates))
    for name in ("accuracy 0.6", "accuracy 0.9", "bias 0", "bias 0.5", "bias 0.95"):
        parts = [list(zip(*widths[name, number], strict=True)) or [(np.nan,)] * 2 for number in grid.templates]
        row(name, *(f"{np.median(ratios):.2f}; {np.mean(rates):.1f}" for ratios, rates in parts))


def posteriors(grid: Grid) -> None:
    """Coverage and widths of accuracies against the posterior of a beta-binomial model, all answers parsed."""
    posterior = BetaBinomial(24)
    head(
        "accuracy", "icc", *(f"{number} templates: coverage; posterior's; width over its" for number in grid.templates)
    )
    for value, icc in product((0.6, 0.75, 0.9, 0.97), grid.iccs):
        columns = []
        for templates in grid.templates:
            held, bayes = Held(), Held()
            for numbers, cells in cells_of(accurate(value, icc), "equal", templates, Reading("", (1.0,)), grid.runs):
                for run, (estimate,) in enumerate(pairs(cells, ACCURACY)):
                    held.add(estimate.interval(0.95), value)
                    bayes.add(posterior.interval(cells[run, 0, :, CODES[0, 2]].astype(int), numbers[run]), value)
            columns.append(f"{held.rate:.1f}; {bayes.rate:.1f}; {held.width / bayes.width:.2f}")
        row(value, f"{icc:g}", *columns)


def metrics(grid: Grid) -> None:
    """Coverage of all other metrics, of models from ordinary to strong."""
    summary = Summary(grid)
    models = (
        Model((0.5,), (0.3,), 0.2),
        Model((0.9,), (0.3,), 0.9),
        Model((0.97,), (0.5,), 0.97),
        Model((0.3,), (-0.5,), 0.5),
    )
    kinds = list({(*metric.fractions, metric.combine): metric for metric in METRICS.values()}.values())
    for (number, model), sizes, reading, templates in product(
        enumerate(models), ("equal", "MBBQ"), READINGS[:2], grid.templates
    ):
        found = [Held() for _ in kinds]
        for _, cells in cells_of(model, sizes, templates, reading, grid.runs):
            panel = panel_of(cells[:, 0], SAMPLING)
            for metric, held in zip(kinds, found, strict=True):
                truth = model.truth(metric, reading.shares[0])
                for estimate in panel.estimates(metric):
                    held.add(estimate.interval(0.95), truth)
        for metric, held in zip(kinds, found, strict=True):
            names = (metric.name, sizes, f"model {number + 1}", reading.name, templates)
            summary.add(names, held, partial(coverage, metric, (model, sizes, templates, reading)))
    summary.table("metric", 0, 4)
    summary.low()


def differences(grid: Grid) -> None:
    """Coverage of the difference of two languages that have one score, which is what the test `interval` keeps."""
    summary = Summary(grid)
    wanted = [
        (f"accuracy {value:g}", ACCURACY, accurate(value, icc, 2), icc)
        for value in (0.6, 0.9, 0.99)
        for icc in grid.iccs
    ]
    wanted += [
        (f"bias {value:g}", BIAS, biased(value, icc, 2), icc) for value in (0.0, 0.5, -0.95) for icc in grid.iccs
    ]
    for (name, metric, model, icc), sizes, reading, templates in product(
        wanted, ("equal", "MBBQ"), PAIRS, grid.templates
    ):
        again = partial(coverage, metric, (model, sizes, templates, reading))
        summary.add((name, sizes, f"icc {icc:g}", reading.name, templates), again(grid.runs, 0), again)
    summary.table("difference", 0, 4)
    summary.table("parsed", 3, 4)
    summary.low()


# --- tests -----------------------------------------------------------------------------------------------------------


def tests(grid: Grid) -> None:
    """How often tests reject at 5 % where they must not, of those that are offered."""
    head(
        "test, mean (least to most) of sizes and biases",
        "parsed",
        *(f"{number} templates" for number in grid.templates),
    )
    names = ("all levels, 3", "TOST at its margin")
    for reading in (Reading("95 %", (0.95,) * 3), Reading("95, 95 and 10 %, uneven", (0.95, 0.95, 0.1), True)):
        columns = []
        for number in grid.templates:
            models = [replace(biased(bias, 0.15, 3), shared=0.0) for bias in (0.1, 0.5)]
            found = [
                _rejected(model, sizes, number, reading, grid.runs) for model in models for sizes in ("equal", "MBBQ")
            ]
            columns.append(list(zip(*found, strict=True)))
        for place, name in enumerate(names):
            rates = [[rate for rate in column[place] if rate is not None] for column in columns]
            if any(rates):
                shown = (f"{np.mean(r):.1f} ({min(r):.1f} to {max(r):.1f})" if r else "–" for r in rates)
                row(name, reading.name, *shown)


def _rejected(model: Model, sizes: str, templates: int, reading: Reading, runs: int) -> list[float | None]:
    """In per cent, for each test; None where it is offered in fewer than a tenth of the runs."""
    counts, offered, truth = np.zeros(2), np.zeros(2), abs(model.truth(BIAS))
    for _, cells in cells_of(model, sizes, templates, reading, runs, 1):
        for run in cells:
            estimates = panel_of(run, SAMPLING).estimates(BIAS)
            found = equality_test(estimates, "h", SAMPLING), tost(estimates[0], truth, "h", SAMPLING)
            offered += [test.p_value is not None for test in found]
            counts += [speaks(test) for test in found]
    return [100 * one / other if other >= runs / 10 else None for one, other in zip(counts, offered, strict=True)]


def power(grid: Grid) -> None:
    """How often a difference of two languages is found, by each test."""
    head("biases", "parsed", "templates", "`interval`", "CR2")
    readings = (PAIRS[0], Reading("95 and 30 %, uneven", (0.95, 0.3), True))
    for (low, high), reading, templates in product(((0.1, 0.25), (0.5, 0.6)), readings, (40, 98)):
        model = Model((1 / 3, 1 / 3 - 1e-3), (1.5 * low, 1.5 * high), icc=0.15)
        found = np.zeros(2)
        for _, cells in cells_of(model, "MBBQ", templates, reading, grid.runs, 2):
            for run in cells:
                panel = panel_of(run, SAMPLING)
                one, other = panel.estimates(BIAS)
                gap = one.subtract(other)
                ends = clustered(gap)
                by_errors = ends is not None and (ends[0] > 0 or ends[1] < 0)
                found += [speaks(zero_test(gap, "h", SAMPLING)), by_errors]
        cells = [f"{100 * count / grid.runs:.1f}" for count in found]
        row(f"{low:g} and {high:g}", reading.name, templates, *cells)


def bounds(grid: Grid) -> None:
    """How often the interval for sampling and unparsed answers misses a truth that these have pushed to a bound."""
    head("score", "parsed", *(f"{number} templates" for number in grid.templates))
    for (name, model), rate in product((("bias 0.1", biased(0.1, 0.15)), ("bias 0.9", biased(0.9, 0.15))), (0.95, 0.5)):
        columns = []
        for templates in grid.templates:
            missed, generator = 0, np.random.default_rng([templates, grid.runs])
            for _, cells in cells_of(model, "MBBQ", templates, Reading("", (1.0,)), grid.runs, 3):
                biased_cell, silent = CODES[0, 0], CODES[0, 3]
                lost = generator.binomial(cells[..., biased_cell].astype(int), 1 - rate)
                cells[..., biased_cell] -= lost
                cells[..., silent] += lost
                panel = panel_of(cells[:, 0], SAMPLING)
                ends = panel.extremes(BIAS)
                assert ends is not None
                for low, high, plain in zip(*ends, panel.estimates(BIAS), strict=True):
                    found, truth = missing_data_bounds(low, high, plain, SAMPLING), model.truth(BIAS)
                    if found.interval_low is not None and found.interval_high is not None:
                        missed += not found.interval_low - 1e-9 <= truth <= found.interval_high + 1e-9
            columns.append(f"{100 * missed / grid.runs:.1f}")
        row(name, f"{rate:.0%}", *columns)


# --- averages, prompt variants, selected templates -------------------------------------------------------------------


def macro(grid: Grid) -> None:
    """Coverage of means over MBBQ's six categories, with all of its questions or a tenth."""
    weights = np.concatenate(
        [resample_weights(tuple(f"{name} {n}" for n in range(len(sizes))), 1000, 0) for name, sizes in MBBQ.items()], 1
    )
    owner = np.repeat(np.arange(len(MBBQ)), [len(sizes) for sizes in MBBQ.values()])
    questions = np.concatenate([np.array(sizes) for sizes in MBBQ.values()])
    head("score", "icc", *(f"{share:.0%} of the questions" for share in (1.0, 0.1)))
    for name, icc in product(("mbbq_bias_ambiguous", "diff_bias_disambiguated", "accuracy_ambiguous"), (0.05, 0.15)):
        metric, model, columns = METRICS[name], Model((0.5,), (0.3,), 0.4, icc), []
        for share in (1.0, 0.1):
            generator, held, truth = np.random.default_rng([7, grid.runs]), Held(), model.truth(metric, 0.95)
            sizes = np.maximum(2, np.round(questions * share)).astype(int)
            for size in batches(grid.runs):
                for run in model.draw(np.tile(sizes, (size, 1)), (0.95,), generator)[:, 0]:
                    strata = np.where((owner == np.arange(len(MBBQ))[:, None])[..., None], run, 0.0)
                    panel = panel_of(strata, SAMPLING)
                    drawn = np.einsum("rt,gtc->grc", weights, panel.by_template.values)
                    values = metric.value(type(panel.by_template)(drawn, SAMPLING.unparsed))
                    own = panel.estimates(metric)
                    parts = [replace(part, bootstrap_values=values[place]) for place, part in enumerate(own)]
                    held.add(mean_of_strata(parts).interval(0.95), truth)
            columns.append(held)
        row(name, f"{icc:g}", *columns)


def prompts(grid: Grid) -> None:
    """Coverage over prompt variants like those of the run, held fixed → random: a score, a difference of languages."""
    sampling = InferenceSettings(n_resamples=600, prompt_effects="random")
    head("sd of prompt variants", "templates", "prompt variants", "score", "difference")
    for spread, templates, number in product((0.0, 0.05, 0.2), (8, 98), (3, 12)):
        generator = np.random.default_rng([templates, number, round(100 * spread), grid.runs])
        held, both = [Held() for _ in range(4)], (2, templates, number)
        for _ in range(grid.runs):
            leans = generator.normal(0, 0.2, (1, templates, 1)) + generator.normal(0, 0.15, (2, templates, 1))
            leans = leans + generator.normal(0, 0.1, both) + generator.normal(0, spread, (1, 1, number))
            leans = np.clip(leans + generator.normal(0, spread, (2, 1, number)), -0.95, 0.95)
            chances = np.stack([0.67 * (1 + leans) / 2, 0.67 * (1 - leans) / 2, np.full(both, 0.33)], axis=-1)
            cells = np.zeros((*both, len(CELLS)))
            cells[..., CODES[0, :3]] = generator.multinomial(24, chances / chances.sum(axis=-1, keepdims=True))
            first, second = panel_of(cells.sum(axis=2), sampling, cells).estimates(BIAS)
            for place, random in enumerate((first, first.subtract(second))):
                held[2 * place].add(replace(random, crossed_effect=None).interval(0.95), 0.0)
                held[2 * place + 1].add(random.interval(0.95), 0.0)
        row(f"{spread:g}", templates, number, f"{held[0]} → {held[1]}", f"{held[2]} → {held[3]}")


def selection(grid: Grid) -> None:
    """Coverage on the templates on which more than a third of 12 control questions are right in both languages."""
    right = [CODES[1, 0], CODES[2, 1]]
    head("guessed", "templates", "score", "difference", "adjusted for control", "its difference")
    for guessed, templates in product((0.2, 0.6), (15, 40, 98)):
        generator = np.random.default_rng([templates, round(100 * guessed), grid.runs])
        held = [Held() for _ in range(4)]

        def draw(number: int, guessed: float = guessed, generator: Generator = generator) -> tuple[Array, Array, Array]:
            """Cells of (bias, control) × languages × templates, kept templates, and expected biases."""
            able = generator.random(number) >= guessed
            ability = np.where(able, generator.uniform(0.2, 0.9, (2, number)), 0.0)
            story = generator.normal(0.1, 0.1, number)
            lean = np.where(able, 0.2, 0.0) + np.array([[0.15], [0.0]]) + generator.normal(0, 0.2, number)
            lean = lean + generator.normal(0, 0.15, (2, number)) + story
            leans = np.clip(np.stack([lean, np.broadcast_to(story, lean.shape)]), -0.95, 0.95)
            named, cells = 2 / 3 * (1 - ability), np.zeros((2, 2, number, len(CELLS)))
            for context, choice in enumerate(RIGHT.values()):
                parts = [named * (1 + leans) / 2, named * (1 - leans) / 2, np.broadcast_to(named / 2, leans.shape)]
                chances = np.stack(parts, axis=-1)
                chances[..., CHOICES.index(choice)] += ability
                count = 12 if context else 24
                said = generator.multinomial(count // 2 if context else count, chances / chances.sum(-1, keepdims=True))
                cells[..., CODES[context, :3]] = said
            return cells, (3 * cells[1][..., right].sum(axis=-1) > 12).all(axis=0), named * leans

        _, kept, expected = draw(400_000, generator=np.random.default_rng(1))
        (one, other), control = expected[..., kept].mean(axis=-1)
        truths = (one, one - other, one - control[0], one - control[0] - other + control[1])
        for _ in range(grid.runs):
            cells, kept, _ = draw(templates)
            if kept.sum() >= 5:
                first, second, control_one, control_two = panel_of(
                    cells[:, :, kept].reshape(4, -1, len(CELLS)), SAMPLING
                ).estimates(BIAS)
                adjusted = first.subtract(control_one), second.subtract(control_two)
                found = first, first.subtract(second), adjusted[0], adjusted[0].subtract(adjusted[1])
                for part, estimate, truth in zip(held, found, truths, strict=True):
                    part.add(estimate.interval(0.95), truth)
        row(f"{guessed:.0%}", templates, *held)


TABLES: dict[str, Callable[[Grid], None]] = {
    "scores": scores,
    "posteriors": posteriors,
    "metrics": metrics,
    "differences": differences,
    "tests": tests,
    "bounds": bounds,
    "power": power,
    "macro": macro,
    "prompts": prompts,
    "selection": selection,
    **simulate_models.TABLES,
    **simulate_runs.TABLES,
    **simulate_averages.TABLES,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []], default=[], metavar="TABLE")
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--quick", action="store_true")
    chosen = parser.parse_args()
    grid = Grid(20, (8, 40), (0.15,)) if chosen.quick else Grid(chosen.runs)
    for name in chosen.tables or TABLES:
        print(f"\n{name}: {grid.runs:,} runs\n")
        TABLES[name](grid)


if __name__ == "__main__":
    main()
