"""Intervals that speak of wordings like those asked, and not of these alone: what the choice of wordings adds.

Templates are crossed with wordings: every wording asks (nearly) every template. The variance of a score over both is
the templates' own, which the intervals over templates hold, and what wordings add to it,

    K / (K − 1) · Σ_w ψ_w²  −  K / (K − 1) · n / (n − 1) · Σ_tw ρ_tw²

ψ_w being the influence of wording w and ρ_tw what is left of the influence of template t in wording w when both are
taken off: the analysis of variance of a crossed design (Cornfield & Tukey 1956), for influences in place of scores, as
the sandwich with two ways of clusters does for large numbers of both (Cameron, Gelbach & Miller 2011). Wordings are
few, so each part keeps its own t quantile: an interval's end is moved out to

    value ± √((end − value)² + t²_{K − 1} · variance of wordings)

(for sums of variance components: Howe 1974; for ends of intervals: Zou & Donner 2008, MOVER). Joined degrees of freedom
(Satterthwaite) hold the truth in 91 % where three wordings make most of the spread, this in 94 to 97 %
(docs/decisions/0016-prompt-variants.md, `benches/simulate_all.py`). A bootstrap of three wordings has ten
different samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from mbbq_gen.scoring.cells import Array, Counts
    from mbbq_gen.scoring.metrics import Metric

Wordings = Literal["fixed", "random"]
"""Whether a statement is about the wordings that were asked, or about wordings like these."""
MIN_WORDINGS: Final = 3
"""Wordings below which nothing is said of wordings like them: two hold the truth in 91 %, with t = 12.7."""
TOO_FEW_WORDINGS: Final = (
    f"fewer than {MIN_WORDINGS} wordings: nothing can be said of wordings like them (--wordings random)"
)


@dataclass(frozen=True)
class Crossing:
    """What each template in each wording makes of a number."""

    pulls: Array
    """Templates × wordings: influences; they add up to 0."""
    sizes: Array
    """Templates × wordings: shares of the weight; they add up to 1."""

    @property
    def count(self) -> int:
        """Wordings that bear on it."""
        return int((self.sizes.sum(axis=0) > 0).sum())

    @property
    def effective(self) -> float:
        """How many wordings that weigh alike would count as much; 0 for none."""
        return _effective(self.sizes.sum(axis=0))

    @property
    def variance(self) -> float:
        """What the choice of wordings adds to the number's variance; NaN for fewer than MIN_WORDINGS."""
        import numpy as np

        wordings, templates = self.effective, _effective(self.sizes.sum(axis=1))
        if self.count < MIN_WORDINGS or templates <= 1:
            return float("nan")
        of_template, of_wording = (self.pulls.sum(axis=axis, keepdims=True) for axis in (1, 0))
        rest = self.pulls - of_template * self._share(1) - of_wording * self._share(0)
        mended = wordings / (wordings - 1)
        together = templates / (templates - 1) * float((np.where(self.sizes > 0, rest, 0.0) ** 2).sum())
        return max(mended * (float((of_wording**2).sum()) - together), 0.0)

    def reach(self, confidence: float) -> float:
        """How far the choice of wordings alone makes an interval reach; NaN for fewer than MIN_WORDINGS."""
        from scipy import special

        quantile = float(special.stdtrit(self.effective - 1, (1 + confidence) / 2))
        return quantile * math.sqrt(self.variance)

    def _share(self, axis: int) -> Array:
        """What share of its template (axis 1), or of its wording (axis 0), each cell is."""
        import numpy as np

        whole = self.sizes.sum(axis=axis, keepdims=True)
        found: Array = np.divide(self.sizes, whole, out=np.zeros_like(self.sizes), where=whole > 0)
        return found


def _effective(sizes: Array) -> float:
    squares = float((sizes**2).sum())
    return float(sizes.sum()) ** 2 / squares if squares else 0.0


def crossings(metric: Metric, crossed: Counts, total: Counts) -> list[Crossing]:
    """The crossing of a metric in every group; `crossed`: groups × templates × wordings, `total`: groups."""
    from mbbq_gen.scoring.cells import Counts
    from mbbq_gen.scoring.influence import influence, least_even, share_of

    groups, templates, wordings, names = crossed.values.shape
    flat = Counts(crossed.values.reshape(groups, templates * wordings, names), crossed.undetected)
    pulls = influence(metric, flat, total).reshape(groups, templates, wordings)
    sizes = least_even([share_of(fraction.denominator(flat)) for fraction in metric.fractions])
    sizes = sizes.reshape(groups, templates, wordings)
    return [Crossing(pulls[place], sizes[place]) for place in range(groups)]


def moved_out(
    value: float, interval: tuple[float, float], reach: float, ends: tuple[float, float]
) -> tuple[float, float]:
    """The ends of an interval over templates with what wordings add; never beyond where the number can be."""
    low, high = interval
    below, above = math.hypot(max(value - low, 0.0), reach), math.hypot(max(high - value, 0.0), reach)
    return max(min(low, value - below), min(ends[0], low)), min(max(high, value + above), max(ends[1], high))
