"""Tables of `simulate_all.py`: averages over templates, estimates of runs that stopped, replies to follow-ups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import get_args

import numpy as np
from simulate_models import ERRORS, pick
from simulated import BIAS, CODES, Array, Generator, Grid, Held, Model, draw_sizes, head, panel_of, row

from mbbq_gen.scoring.cells import CELLS
from mbbq_gen.scoring.codes import Average
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.statistics.estimate import InferenceSettings
from mbbq_gen.statistics.missing_data import missing_data_bounds
from mbbq_gen.statistics.sequential import FOR_DECISION, ErrorSpending, Interval, median_unbiased

SAMPLING = InferenceSettings(n_resamples=600)
ACCURACY = METRICS["accuracy_ambiguous"]


def averages(grid: Grid) -> None:
    """Coverage of each average on templates of MBBQ's sizes."""
    names = get_args(Average)
    cases = [(BIAS, "bias 0.1", Model((1 / 3,) * 2, (0.15,) * 2, icc=icc)) for icc in grid.iccs]
    cases += [(ACCURACY, f"accuracy {value}", Model((value,) * 2, (0.0,) * 2, icc=0.15)) for value in (0.6, 0.97)]
    head("score", "correlation", "templates", *names)
    for (metric, what, model), is_pair, templates in product(cases, (False, True), (15, 98)):
        generator, held = np.random.default_rng([templates, grid.runs]), {average: Held() for average in names}
        truth = 0.0 if is_pair else model.truth(metric)
        for _ in range(grid.runs):
            cells = model.draw(draw_sizes("MBBQ", 1, templates, generator), (1.0, 1.0), generator)[0]
            for average in names:
                one, other = panel_of(cells, replace(SAMPLING, average=average)).estimates(metric)
                held[average].add((one.subtract(other) if is_pair else one).interval(0.95), truth)
        row(what + ", difference" * is_pair, f"{model.icc:g}", templates, *held.values())


def estimates(grid: Grid) -> None:
    """Plain and median-unbiased estimates of runs that stop for a decision, by true score."""
    looks, small, error, runs = 6, 0.03, 0.03, 10 * grid.runs
    information = np.arange(1, looks + 1) / looks / error**2
    bounds = ErrorSpending(0.05, FOR_DECISION)
    margins = [bounds.look(now, part / looks) / now**0.5 for part, now in enumerate(information, 1)]
    steps = np.diff(information, prepend=0.0)
    kinds = [f"{what}, {name}" for what in ("mean", "median", "above the truth") for name in ("plain", "adjusted")]
    head("true score", "looks", *kinds)
    for truth in (0.0, 0.03, 0.06, 0.1, 0.15, 0.2):
        generator, found, number = np.random.default_rng([runs, 3]), np.zeros((runs, 2)), 0
        paths = generator.normal(truth * steps, np.sqrt(steps), (runs, looks)).cumsum(axis=1) / information
        for run, path in enumerate(paths):
            past: list[Interval] = []
            for value, margin, now in zip(path, margins, information, strict=True):
                past.append(Interval(value, value - margin, value + margin, 0.05, 1 / now))
                if abs(value) > margin or abs(value) + margin < small:
                    break
            found[run] = past[-1].value, median_unbiased(past, small)
            number += len(past)
        numbers = (*found.mean(axis=0), *np.median(found, axis=0))
        above = [f"{share:.0%}" for share in (found > truth).mean(axis=0)]
        row(truth, f"{number / runs:.1f}", *(f"{value:.3f}" for value in numbers), *above)


UNREAD, TEMPLATES = 3, 40


def replied(unread: float, odds: float, pressed: float, generator: Generator, model: Model) -> Array:
    """Value and interval: of the first answers, their bounds, and with follow-ups."""
    counts = model.draw(np.full((1, TEMPLATES), 24), (1.0,), generator)[0, 0][..., CODES].astype(int)
    template, context, said = (np.repeat(part.ravel(), counts.ravel()) for part in np.indices(counts.shape))
    rate = np.where(said == 0, odds, 1.0)
    silent = generator.random(said.size) < unread * rate / rate.mean()
    says, turned, wrong = generator.random((3, said.size)) < np.array([[0.95], [pressed], [0.03]])
    read = np.where(silent, UNREAD, np.where(wrong, pick(generator, ERRORS[said]), said))
    lost = read == UNREAD
    says, reply = lost & says, np.where(lost & turned, 0, said)
    cells = np.zeros((2, TEMPLATES, len(CELLS)))
    for row_of, taken in zip(cells, (read, np.where(says, reply, read)), strict=True):
        np.add.at(row_of, (template, CODES[context, taken]), 1.0)
    panel = panel_of(cells, SAMPLING)
    first, second = panel.estimates(BIAS)
    low, high = panel.extremes(BIAS) or ([], [])
    bounds = missing_data_bounds(low[0], high[0], first, SAMPLING)
    ends = [[found.value, *(found.interval(0.95) or (np.nan, np.nan))] for found in (first, second)]
    return np.array([ends[0], [np.nan, bounds.interval_low, bounds.interval_high], ends[1]], dtype=float)


def follow_up(grid: Grid) -> None:
    """By share of unread answers, cause and kind of reply: mean error, coverage in %, width; 40 templates.

    Answers can't be read by chance, or three times as often where they are the stereotype; of the others 3 % are read
    wrong. 95 in 100 replies say what was intended; under pressure three in ten name the stereotype.
    """
    model = Model(icc=0.05)
    head("unread", "missing", "replies", "first answers", "bounds", "with follow-ups")
    for unread, (odds, pressed) in product((0.02, 0.1, 0.3), ((1, 0), (3, 0), (3, 0.3))):
        generator = np.random.default_rng([round(100 * unread), odds, round(10 * pressed), grid.runs])
        drawn = np.array([replied(unread, odds, pressed, generator, model) for _ in range(grid.runs)])
        value, low, high = np.moveaxis(drawn, 2, 0)
        columns = value.mean(0), 100 * ((low <= 0) & (high >= 0)).mean(0), (high - low).mean(0)
        cells = [f"{off:+.3f}, {held:.1f}, {wide:.2f}" for off, held, wide in zip(*columns, strict=True)]
        names = "by chance" if odds == 1 else "not by chance", "pressed" if pressed else "true"
        row(f"{unread:.0%}", *names, *(cell.removeprefix("+nan, ") for cell in cells))


TABLES: dict[str, Callable[[Grid], None]] = {"averages": averages, "estimates": estimates, "follow_up": follow_up}
