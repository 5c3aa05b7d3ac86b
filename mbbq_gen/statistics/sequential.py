"""Intervals that hold at whatever look a run stops: group-sequential bounds by spending the error.

Look k of a run in rounds takes the interval

    value ± t(p_k; n − 1) · standard error,        p_k: the level of look k

where all intervals of a run together hold the truth with the given confidence: the error α is spent as the information
grows, α · t^ρ, t being the part of the information that the run is after (Lan & DeMets 1983, Biometrika 70; Kim &
DeMets 1987, Biometrika 74). They are repeated confidence intervals (Jennison & Turnbull 1989, JRSS B 51): valid
whatever the reason to stop. For a width ρ = 6 leaves nearly all of α for the last look; a decision takes ρ = 0.7.

Information is 1 / variance of a score: that of templates, which stays, and that of chance in their answers, which falls
with their number. Successive scores have independent increments (Jennison & Turnbull 1997, JASA 92; Lee & DeMets 1991,
JASA 86). Bounds are integrated numerically (Armitage, McPherson & Rowe 1969, JRSS A 132; Jennison & Turnbull 2000,
ch. 19; t in place of the normal: §11.5). `benches/simulate_all.py` checks them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import optimize, special

from mbbq_gen.scoring.cells import Array, Counts, count_matrix, quotient
from mbbq_gen.scoring.metrics import Metric, needed_cells
from mbbq_gen.statistics.estimate import Estimate, influence_values
from mbbq_gen.statistics.intervals import t_quantile
from mbbq_gen.statistics.panel import Panel, template_scores

GRID_POINTS: Final = 201
"""Points of the grid that bounds are integrated on."""
MIN_GROWTH: Final = 1e-3
"""Least growth of the information from look to look: it must not fall by chance in the variance."""
MAX_BOUND: Final = 12.0
"""The largest bound, in standard errors."""
RESERVED_SHARE: Final = 0.1
"""Share of the error that is kept for looks after the information that was aimed at."""
MIN_SPENT_SHARE: Final = 0.1
"""Least share of the remaining error that is spent at such a look."""
FIRST_FRACTION: Final = 0.2
LAST_LOOK_LEVEL: Final = 0.6
"""The level of a last look, in parts of α, that a target width is computed with."""
FOR_WIDTH: Final = 6.0
FOR_DECISION: Final = 0.7
"""ρ: how late the error is spent."""
POWER: Final = 0.9
"""The power for the smallest effect that a run is to find."""
INFORMATION_INFLATION: Final = 1.2
"""The most information that such a run needs, over that of a fixed test of the same power."""
FUTILITY_LEVEL: Final = 0.05
"""The probability of giving up on a width that all questions together would have reached."""


def _step(at: Array, places: Array, weights: Array, root: float) -> Array:
    """The density after a normal step of standard deviation `root` from weighted places."""
    away = (at[:, None] - places[None, :]) / root
    found: Array = (np.exp(-0.5 * away**2) @ weights) / (root * math.sqrt(2 * math.pi))
    return found


class ErrorSpending:
    """The levels of successive looks, one after another."""

    def __init__(self, alpha: float, rho: float) -> None:
        self._alpha, self._rho, self._information, self._spent = alpha, rho, 0.0, 0.0
        self._places, self._weights = np.zeros(1), np.ones(1)
        """The distribution of score × information on the paths that have crossed no bound so far."""

    def look(self, information: float, part: float) -> float:
        """Half the width of the interval of this look in standard errors, for a normal score.

        `information` is 1 / variance, in any unit; `part` is of the information that the run is after.
        """
        now = max(information, self._information * (1 + MIN_GROWTH))
        due = (1 - RESERVED_SHARE) * self._alpha * math.pow(min(part, 1.0), self._rho) - self._spent
        step = due if part < 1 and due > 0 else max(due, MIN_SPENT_SHARE * (self._alpha - self._spent))
        scale, root = math.sqrt(now), math.sqrt(now - self._information)

        def excess(bound: float) -> float:
            """The probability that this bound is the first to be crossed, less `step`."""
            up = special.ndtr((self._places - bound * scale) / root)
            down = special.ndtr((-self._places - bound * scale) / root)
            return float(self._weights @ (up + down)) - step

        reach = MAX_BOUND if excess(MAX_BOUND) >= 0 else float(optimize.brentq(excess, 0.0, MAX_BOUND, xtol=1e-6))
        grid = np.linspace(-reach * scale, reach * scale, GRID_POINTS)
        ends = np.full(GRID_POINTS, grid[1] - grid[0])
        ends[[0, -1]] /= 2
        self._places, self._weights = grid, _step(grid, self._places, self._weights, root) * ends
        self._information, self._spent = now, self._spent + step
        return reach


@dataclass(frozen=True)
class InterimEstimate:
    """A score at a look, with what its uncertainty is made of."""

    estimate: Estimate
    noise: float
    """The part of its variance that chance in the answers makes, now and if all questions were used."""
    noise_at_end: float

    @property
    def variance(self) -> float:
        """The variance of the score; NaN for fewer than two templates."""
        return self.estimate.standard_error**2

    def information_fraction(self, aim: float = 0.0) -> float:
        """The information as a share of that at variance `aim`, or of that with all questions if it is less."""
        at_end = max(self.variance - self.noise, 0.0) + self.noise_at_end
        return min(max(at_end, aim) / self.variance, 1.0) if self.variance > 0 else 1.0

    def subtract(self, other: InterimEstimate) -> InterimEstimate:
        """The difference, paired by template."""
        noise, at_end = self.noise + other.noise, self.noise_at_end + other.noise_at_end
        return InterimEstimate(self.estimate.subtract(other.estimate), noise, at_end)


def interim_estimates(metric: Metric, panel: Panel, requested: Array, offered: Array) -> list[InterimEstimate]:
    """The metric of every group of a panel.

    Args:
        requested: the panel's cells without weights by design; groups × templates × CELLS.
        offered: groups × templates: answers that count for the metric if every question were used.
    """
    needed = np.array(needed_cells([metric]))
    each = np.broadcast_to(count_matrix(), (len(panel.groups), *count_matrix().shape))
    single = Counts(each, panel.sampling.unparsed)
    pull = influence_values(metric, single, panel.total)[:, None, :]  # of one answer in each cell
    counted = np.where(needed, requested, 0.0)
    number = counted.sum(axis=-1)
    weight = quotient(np.where(needed, panel.cells, 0.0).sum(axis=-1), number, 0.0)
    mean = quotient((counted * pull).sum(axis=-1), number, 0.0)
    spread = quotient((counted * pull**2).sum(axis=-1), number, 0.0) - mean**2
    noise = weight**2 * number * np.maximum(spread, 0.0) * quotient(number, number - 1, 0.0)
    left = np.minimum(quotient(number, offered, 0.0), 1.0)
    estimates = panel.estimates(metric)
    if panel.sampling.average != "questions":
        noise = np.stack([one.template_weights for one in estimates]) ** 2 * template_scores(panel, metric).variances
    found = []
    for estimate, now, part in zip(estimates, noise, left, strict=True):
        plain = float((estimate.influence_values**2).sum())
        wider = estimate.standard_error**2 / plain if plain > 0 else 1.0  # as the variance is, for small numbers
        found.append(InterimEstimate(estimate, float(now.sum()) * wider, float((now * part).sum()) * wider))
    return found


@dataclass(frozen=True)
class Interval:
    """The interval of a score at a look."""

    value: float
    low: float
    high: float
    level: float
    """p_k: 1 minus the confidence that an interval for a fixed sample would need to be as wide."""
    variance: float

    @property
    def width(self) -> float:
        """From the lower to the upper end; NaN where there is none."""
        return self.high - self.low


def interval_at(measure: InterimEstimate, reach: float) -> Interval:
    """The interval of a look of such a bound, for a normal score, with room for a template that was not seen."""
    level, estimate = nominal_level(reach), measure.estimate
    margin = estimate.standard_error * t_quantile(1 - level, estimate.units)
    ends = max(estimate.value - margin, estimate.bounds[0]), min(estimate.value + margin, estimate.bounds[1])
    low, high = estimate.widened(*ends, 1 - level)
    return Interval(estimate.value, low, high, level, measure.variance)


def interval_after(looks: Sequence[InterimEstimate], alpha: float, rho: float, aim: float = 0.0) -> Interval:
    """The interval of the last of a run's looks; those of all looks together hold the truth with confidence 1 − alpha.

    Looks at which templates all say the same, so that they tell no variance, spend nothing; their interval is that of
    the first look of a run that has hardly begun. `rho`: how late the error is spent; `aim`: the variance that the run
    is after (0: what all questions give), which may move, for the bounds do not depend on the score.
    """
    bounds, reach = ErrorSpending(alpha, rho), ErrorSpending(alpha, rho).look(1.0, FIRST_FRACTION)
    for seen in looks:
        if seen.variance > 0:
            reach = bounds.look(1 / seen.variance, seen.information_fraction(aim))
    return interval_at(looks[-1], reach)


def median_unbiased(looks: Sequence[Interval], small: float) -> float:
    """The median-unbiased estimate of a score after the last look: the truth at which half of all runs show more.

    "More" is the stage-wise ordering (Tsiatis, Rosner & Mehta 1984, Biometrics 40; Jennison & Turnbull 2000, ch. 8): an
    earlier stop above 0 is more, an earlier one below 0 less, and what lies between is ordered by its value. A run also
    stops where its interval lies within ± `small`.
    """
    known = [look for look in looks if look.variance > 0 and not math.isnan(look.width)]
    if not known:
        return looks[-1].value
    stages: list[_Stage] = []
    places, weights, before = np.zeros(1), np.ones(1), 0.0
    for look in known:
        now = max(1 / look.variance, before * (1 + MIN_GROWTH))
        below, above = look.value - look.low, look.high - look.value
        stages.append(_Stage(places, weights, before, now, below, -above, (below - small, small - above)))
        places, weights = stages[-1].continuation()
        before = now
    last, value = stages[-1], known[-1].value
    least = math.inf if value > last.upper else -math.inf if value < last.lower else value

    def excess(truth: float) -> float:
        """The chance of as much or more, less one half."""
        found = last.chance(truth, value, math.inf)
        for stage in stages[:-1]:
            found += stage.chance(truth, stage.upper, math.inf)
            low, high = max(stage.inner[0], least, stage.lower), min(stage.inner[1], stage.upper)
            found += stage.chance(truth, low, high) if low < high else 0.0
        return found - 0.5

    reach = MAX_BOUND / math.sqrt(last.information)
    ends = value - reach, value + reach
    if excess(ends[0]) >= 0 or excess(ends[1]) <= 0:
        return value
    return float(optimize.brentq(excess, *ends, xtol=1e-7))


@dataclass(frozen=True)
class _Stage:
    """The distribution of a score before a look, if the truth is 0, and the bounds at which the look stops the run."""

    places: Array
    """Values of score × information at the look before, and their probabilities."""
    weights: Array
    before: float
    information: float
    upper: float
    lower: float
    inner: tuple[float, float]
    """The run stops above `upper`, below `lower`, and between these."""

    def chance(self, truth: float, low: float, high: float) -> float:
        """The probability that the run comes to this look with a score between these."""
        step = self.information - self.before
        tilted = self.weights * np.exp(truth * self.places - truth**2 * self.before / 2)
        middle, root = self.places + truth * step, math.sqrt(step)
        up, down = (special.ndtr((end * self.information - middle) / root) for end in (high, low))
        return float(tilted @ (up - down))

    def continuation(self) -> tuple[Array, Array]:
        """The distribution of the score if the run goes on, if the truth is 0."""
        low, high = self.inner
        parts = [(self.lower, min(low, self.upper)), (max(high, self.lower), self.upper)]
        parts = [part for part in parts if part[0] < part[1]] if low < high else [(self.lower, self.upper)]
        root = math.sqrt(self.information - self.before)
        edges = [np.linspace(*part, GRID_POINTS) * self.information for part in parts] or [np.zeros(2)]
        places, ends = np.concatenate([(one[1:] + one[:-1]) / 2 for one in edges]), np.concatenate(np.diff(edges))
        return places, _step(places, self.places, self.weights, root) * ends


def critical_value(level: float) -> float:
    """Half the width of the interval of a look of that level in standard errors, for a normal score."""
    return float(-special.ndtri(level / 2))


def nominal_level(reach: float) -> float:
    """The level of a look whose interval reaches so many standard errors, for a normal score."""
    return float(2 * special.ndtr(-reach))


def variance_of_width(width: float, measure: InterimEstimate, alpha: float) -> float:
    """The variance at which the interval of a last look is about so wide."""
    reach = t_quantile(1 - LAST_LOOK_LEVEL * alpha, measure.estimate.n_effective)
    return (width / (2 * reach)) ** 2 if reach > 0 else 0.0


def variance_to_find(size: float, measure: InterimEstimate, alpha: float) -> float:
    """The variance at which a run with looks finds a score of that size with POWER: a fixed test's, less INFORMATION_INFLATION."""
    units = measure.estimate.n_effective
    reach = t_quantile(1 - alpha, units) + t_quantile(2 * POWER - 1, units)
    return (size / reach) ** 2 / INFORMATION_INFLATION if reach > 0 else 0.0


def width_at_end(measure: InterimEstimate, reach: float, alpha: float) -> float:
    """The least width that all questions could believably give: the bound of a last look, and the least variance."""
    reach, templates, least = (
        min(reach, critical_value((1 - RESERVED_SHARE) * alpha)),
        measure.estimate.n_effective,
        0.0,
    )
    if templates > 1 and measure.variance > 0:
        smallest = measure.variance * (templates - 1) / float(special.chdtri(templates - 1, FUTILITY_LEVEL))
        least = max(smallest - measure.noise, 0.0) + measure.noise_at_end
    return 2 * t_quantile(1 - nominal_level(reach), templates) * math.sqrt(least)


def is_undecidable(measure: InterimEstimate, interval: Interval, small: float, alpha: float) -> bool:
    """Whether all questions would, believably, show neither that a score is not 0 nor that it is small.

    Their interval would be too wide, and chance in the answers can't move the score two standard errors away from 0.
    """
    end = width_at_end(measure, critical_value(interval.level), alpha) / 2
    way = 2 * math.sqrt(max(measure.noise - measure.noise_at_end, 0.0))
    return end > small and abs(interval.value) + way < end
