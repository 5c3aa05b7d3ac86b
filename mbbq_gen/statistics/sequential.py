"""Group-sequential intervals of adaptive runs, by error spending.

Look k of a run in rounds has the interval

    value ± t(p_k; n − 1) · standard error,        p_k: the nominal level of look k

All intervals of a run together have the given coverage 1 − α. The error spent at information fraction t is α · t^ρ
(Lan & DeMets 1983, Biometrika 70; Kim & DeMets 1987, Biometrika 74). They are repeated confidence intervals (Jennison &
Turnbull 1989, JRSS B 51), valid for any stopping rule. Runs for a target width use ρ = 6, which keeps nearly all of α
for the last look; runs for a decision use ρ = 0.7.

Information is 1 / variance of a score. The variance has a part due to templates, which is constant, and a part due to
their answers, which falls with the number of answers. Successive scores have independent increments (Jennison &
Turnbull 1997, JASA 92; Lee & DeMets 1991, JASA 86). Bounds are integrated numerically (Armitage, McPherson & Rowe 1969,
JRSS A 132; Jennison & Turnbull 2000, ch. 19; t instead of the normal: §11.5). `benches/simulate_all.py` checks them.
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
from mbbq_gen.statistics.panel import Panel

GRID_POINTS: Final = 201
"""Grid points of the numerical integration."""
MIN_GROWTH: Final = 1e-3
"""Least relative growth of the information between looks, since the estimated variance may rise."""
MAX_BOUND: Final = 12.0
"""The largest bound, in standard errors."""
RESERVED_SHARE: Final = 0.1
"""Share of the error reserved for looks after the planned information."""
MIN_SPENT_SHARE: Final = 0.1
"""Least share of the remaining error spent at such a look."""
FIRST_FRACTION: Final = 0.2
"""Information fraction of a look without an estimated variance."""
LAST_LOOK_LEVEL: Final = 0.6
"""The assumed nominal level of the last look, relative to α."""
FOR_WIDTH: Final = 6.0
FOR_DECISION: Final = 0.7
"""The exponent ρ of error spending, for runs with a target width or a decision."""
FUTILITY_LEVEL: Final = 0.05
"""The probability to give up on a width that all questions together would have reached."""


def _step(grid: Array, points: Array, weights: Array, sd: float) -> Array:
    """The density on a grid after a normal step of standard deviation `sd` from weighted points."""
    z = (grid[:, None] - points[None, :]) / sd
    density: Array = (np.exp(-0.5 * z**2) @ weights) / (sd * math.sqrt(2 * math.pi))
    return density


class ErrorSpending:
    """The critical values of successive looks."""

    def __init__(self, alpha: float, rho: float) -> None:
        self._alpha, self._rho, self._information, self._spent = alpha, rho, 0.0, 0.0
        self._points, self._weights = np.zeros(1), np.ones(1)
        """The distribution of score × information on the paths that have not crossed a bound."""

    def look(self, information: float, fraction: float) -> float:
        """The critical value of this look for a normal score, in standard errors.

        `information` is 1 / variance, in any unit; `fraction` is the share of the planned information.
        """
        now = max(information, self._information * (1 + MIN_GROWTH))
        due = (1 - RESERVED_SHARE) * self._alpha * math.pow(min(fraction, 1.0), self._rho) - self._spent
        error = due if fraction < 1 and due > 0 else max(due, MIN_SPENT_SHARE * (self._alpha - self._spent))
        scale, sd = math.sqrt(now), math.sqrt(now - self._information)

        def excess(bound: float) -> float:
            """The probability to cross this bound first, minus `error`."""
            up = special.ndtr((self._points - bound * scale) / sd)
            down = special.ndtr((-self._points - bound * scale) / sd)
            return float(self._weights @ (up + down)) - error

        critical = MAX_BOUND if excess(MAX_BOUND) >= 0 else float(optimize.brentq(excess, 0.0, MAX_BOUND, xtol=1e-6))
        grid = np.linspace(-critical * scale, critical * scale, GRID_POINTS)
        widths = np.full(GRID_POINTS, grid[1] - grid[0])
        widths[[0, -1]] /= 2
        self._points, self._weights = grid, _step(grid, self._points, self._weights, sd) * widths
        self._information, self._spent = now, self._spent + error
        return critical


@dataclass(frozen=True)
class InterimEstimate:
    """An estimate at a look, with the parts of its variance."""

    estimate: Estimate
    noise: float
    """The variance due to answers, now and with all questions."""
    noise_at_end: float
    answers: int

    @property
    def variance(self) -> float:
        """The variance of the score; NaN for fewer than two templates."""
        return self.estimate.standard_error**2

    def information_fraction(self, aim: float = 0.0) -> float:
        """The information relative to that at variance `aim`, or to that with all questions if it is less."""
        at_end = max(self.variance - self.noise, 0.0) + self.noise_at_end
        return min(max(at_end, aim) / self.variance, 1.0) if self.variance > 0 else 1.0

    def subtract(self, other: InterimEstimate) -> InterimEstimate:
        """The difference, paired by template."""
        noise, at_end = self.noise + other.noise, self.noise_at_end + other.noise_at_end
        return InterimEstimate(self.estimate.subtract(other.estimate), noise, at_end, self.answers + other.answers)


def interim_estimates(metric: Metric, panel: Panel, requested: Array, offered: Array) -> list[InterimEstimate]:
    """The metric of every group of a panel, at a look, from the numbers of answers.

    `requested`: groups × templates × CELLS; `offered`: those that count with all questions, groups × templates.
    """
    needed = np.array(needed_cells([metric]))
    each = np.broadcast_to(count_matrix(), (len(panel.groups), *count_matrix().shape))
    single = Counts(each, panel.sampling.unparsed)
    influences = influence_values(metric, single, panel.total)[:, None, :]  # of one answer in each cell
    counted = np.where(needed, requested, 0.0)
    n = counted.sum(axis=-1)
    weight = quotient(np.where(needed, panel.cells, 0.0).sum(axis=-1), n, 0.0)
    mean = quotient((counted * influences).sum(axis=-1), n, 0.0)
    variance = quotient((counted * influences**2).sum(axis=-1), n, 0.0) - mean**2
    noise = weight**2 * n * np.maximum(variance, 0.0) * quotient(n, n - 1, 0.0)
    fractions = np.minimum(quotient(n, offered, 0.0), 1.0)
    found = []
    for row, (estimate, now, fraction) in enumerate(zip(panel.estimates(metric), noise, fractions, strict=True)):
        plain = float((estimate.influence_values**2).sum())
        factor = estimate.standard_error**2 / plain if plain > 0 else 1.0  # the small-sample correction
        parts = float(now.sum()) * factor, float((now * fraction).sum()) * factor
        found.append(InterimEstimate(estimate, *parts, int(requested[row].sum())))
    return found


@dataclass(frozen=True)
class Interval:
    """The interval of a score at a look."""

    value: float
    low: float
    high: float
    level: float
    """The nominal level p_k."""
    variance: float

    @property
    def width(self) -> float:
        """The width; NaN if undefined."""
        return self.high - self.low


def interval_at(interim: InterimEstimate, critical: float) -> Interval:
    """The interval of a look with a normal critical value, which allows for unseen templates."""
    level, estimate = nominal_level(critical), interim.estimate
    margin = estimate.standard_error * t_quantile(1 - level, estimate.units)
    ends = max(estimate.value - margin, estimate.bounds[0]), min(estimate.value + margin, estimate.bounds[1])
    low, high = estimate.widened(*ends, 1 - level)
    return Interval(estimate.value, low, high, level, interim.variance)


def interval_after(looks: Sequence[InterimEstimate], alpha: float, rho: float, aim: float = 0.0) -> Interval:
    """The interval of the last look; the intervals of all looks have the simultaneous coverage 1 − alpha.

    Looks with a variance of 0 spend no error; their interval is that of a first look at FIRST_FRACTION. `rho`: the
    exponent of error spending; `aim`: the target variance (0: that with all questions). It may change between looks,
    since the bounds do not depend on the score.
    """
    spending, critical = ErrorSpending(alpha, rho), ErrorSpending(alpha, rho).look(1.0, FIRST_FRACTION)
    for interim in looks:
        if interim.variance > 0:
            critical = spending.look(1 / interim.variance, interim.information_fraction(aim))
    return interval_at(looks[-1], critical)


def median_unbiased(looks: Sequence[Interval], small: float) -> float:
    """The median-unbiased estimate after the last look, in the stage-wise ordering.

    An earlier stop above 0 is ordered higher, an earlier stop below 0 lower, others by value (Tsiatis, Rosner & Mehta
    1984, Biometrics 40; Jennison & Turnbull 2000, ch. 8). A run also stops if its interval is within ± `small`.
    """
    known = [look for look in looks if look.variance > 0 and not math.isnan(look.width)]
    if not known:
        return looks[-1].value
    stages: list[_Stage] = []
    points, weights, before = np.zeros(1), np.ones(1), 0.0
    for look in known:
        now = max(1 / look.variance, before * (1 + MIN_GROWTH))
        below, above = look.value - look.low, look.high - look.value
        stages.append(_Stage(points, weights, before, now, below, -above, (below - small, small - above)))
        points, weights = stages[-1].continuation()
        before = now
    last, value = stages[-1], known[-1].value
    least = math.inf if value > last.upper else -math.inf if value < last.lower else value

    def excess(truth: float) -> float:
        """The probability of an equal or higher result, minus one half."""
        p = last.probability(truth, value, math.inf)
        for stage in stages[:-1]:
            p += stage.probability(truth, stage.upper, math.inf)
            low, high = max(stage.inner[0], least, stage.lower), min(stage.inner[1], stage.upper)
            p += stage.probability(truth, low, high) if low < high else 0.0
        return p - 0.5

    half_width = MAX_BOUND / math.sqrt(last.information)
    ends = value - half_width, value + half_width
    if excess(ends[0]) >= 0 or excess(ends[1]) <= 0:
        return value
    return float(optimize.brentq(excess, *ends, xtol=1e-7))


@dataclass(frozen=True)
class _Stage:
    """The distribution of a score before a look under a true value of 0, and the stopping bounds of the look."""

    points: Array
    """Values of score × information at the previous look, and their probabilities."""
    weights: Array
    before: float
    information: float
    upper: float
    lower: float
    inner: tuple[float, float]
    """The run stops above `upper`, below `lower`, and between these."""

    def probability(self, truth: float, low: float, high: float) -> float:
        """The probability that the run reaches this look with a score between low and high."""
        step = self.information - self.before
        tilted = self.weights * np.exp(truth * self.points - truth**2 * self.before / 2)
        means, sd = self.points + truth * step, math.sqrt(step)
        up, down = (special.ndtr((end * self.information - means) / sd) for end in (high, low))
        return float(tilted @ (up - down))

    def continuation(self) -> tuple[Array, Array]:
        """The distribution of score × information if the run continues, under a true value of 0."""
        low, high = self.inner
        parts = [(self.lower, min(low, self.upper)), (max(high, self.lower), self.upper)]
        parts = [part for part in parts if part[0] < part[1]] if low < high else [(self.lower, self.upper)]
        sd = math.sqrt(self.information - self.before)
        edges = [np.linspace(*part, GRID_POINTS) * self.information for part in parts] or [np.zeros(2)]
        points, widths = np.concatenate([(one[1:] + one[:-1]) / 2 for one in edges]), np.concatenate(np.diff(edges))
        return points, _step(points, self.points, self.weights, sd) * widths


def critical_value(level: float) -> float:
    """The normal critical value of a nominal level."""
    return float(-special.ndtri(level / 2))


def nominal_level(critical: float) -> float:
    """The nominal level of a normal critical value."""
    return float(2 * special.ndtr(-critical))


def variance_of_width(width: float, interim: InterimEstimate, alpha: float) -> float:
    """The variance at which the interval of the last look has about this width."""
    t = t_quantile(1 - LAST_LOOK_LEVEL * alpha, interim.estimate.n_effective)
    return (width / (2 * t)) ** 2 if t > 0 else 0.0


def width_at_end(interim: InterimEstimate, critical: float, alpha: float) -> float:
    """A lower limit of the interval's width with all questions, at FUTILITY_LEVEL."""
    critical = min(critical, critical_value((1 - RESERVED_SHARE) * alpha))
    templates, variance = interim.estimate.n_effective, 0.0
    if templates > 1 and interim.variance > 0:
        smallest = interim.variance * (templates - 1) / float(special.chdtri(templates - 1, FUTILITY_LEVEL))
        variance = max(smallest - interim.noise, 0.0) + interim.noise_at_end
    return 2 * t_quantile(1 - nominal_level(critical), templates) * math.sqrt(variance)


def is_undecidable(interim: InterimEstimate, interval: Interval, small: float, alpha: float) -> bool:
    """Whether even all questions are unlikely to show that a score is not 0, or that it is within ± `small`.

    The interval would be too wide, and more answers would move the score by less than two standard errors.
    """
    half_width = width_at_end(interim, critical_value(interval.level), alpha) / 2
    change = 2 * math.sqrt(max(interim.noise - interim.noise_at_end, 0.0))
    return half_width > small and abs(interval.value) + change < half_width
