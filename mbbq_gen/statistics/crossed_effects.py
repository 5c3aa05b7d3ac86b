"""What the choice of prompt variants adds to an interval that holds for prompt variants like those of the run.

Templates are crossed with prompt variants: every prompt variant asks (nearly) every template. The variance of a score
over both is the templates' own, which the intervals over templates hold, and what prompt variants add to it,

    K / (K − 1) · Σ_w ψ_w²  −  K / (K − 1) · n / (n − 1) · Σ_tw ρ_tw²

ψ_w being the influence of prompt variant w and ρ_tw what is left of the influence of template t in prompt variant w
when both are taken off: the analysis of variance of a crossed design (Cornfield & Tukey 1956), for influences in place
of scores, as the sandwich with two ways of clusters does for large numbers of both (Cameron, Gelbach & Miller 2011).
Prompt variants are few, so each part keeps its own t quantile: an interval's end is moved out to

    value ± √((end − value)² + t²_{K − 1} · variance of prompt variants)

(for sums of variance components: Howe 1974; for ends of intervals: Zou & Donner 2008, MOVER). Joined degrees of freedom
(Satterthwaite) hold the truth in 91 % where three prompt variants make most of the spread, this in 94 to 97 %
(docs/decisions/0016-prompt-variants.md, `benches/simulate_all.py`). A bootstrap of three prompt variants has ten
different samples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from mbbq_gen.scoring.cells import Array
from mbbq_gen.statistics.intervals import Ends, effective_number, t_quantile

MIN_PROMPT_VARIANTS: Final = 3
"""Fewest prompt variants for a statement about others like them: two hold the truth in 91 %, with t = 12.7."""
TOO_FEW_PROMPT_VARIANTS: Final = (
    f"fewer than {MIN_PROMPT_VARIANTS} prompt variants: no interval and no p value with --prompt-effects random"
)


@dataclass(frozen=True)
class CrossedEffect:
    """What each template in each prompt variant makes of a number."""

    influences: Array
    """Templates × prompt variants: influences; they add up to 0."""
    sizes: Array
    """Templates × prompt variants: shares of the weight; they add up to 1."""

    @classmethod
    def combine(cls, effects: Sequence[CrossedEffect], factors: Sequence[float]) -> CrossedEffect:
        """The effect on a weighted sum."""
        pairs = list(zip(effects, factors, strict=True))
        sizes = np.sum([abs(factor) * effect.sizes for effect, factor in pairs], axis=0)
        whole = float(sizes.sum())
        return cls(np.sum([factor * effect.influences for effect, factor in pairs], axis=0), sizes / (whole or 1.0))

    @property
    def count(self) -> int:
        """Prompt variants that bear on it."""
        return int((self.sizes.sum(axis=0) > 0).sum())

    @property
    def effective(self) -> float:
        """How many prompt variants that weigh alike would count as much; 0 for none."""
        return effective_number(self.sizes.sum(axis=0))

    @property
    def variance(self) -> float:
        """What the choice of prompt variants adds to the number's variance; NaN for fewer than MIN_PROMPT_VARIANTS."""
        variants, templates = self.effective, effective_number(self.sizes.sum(axis=1))
        if self.count < MIN_PROMPT_VARIANTS or templates <= 1:
            return math.nan
        of_template, of_variant = (self.influences.sum(axis=axis, keepdims=True) for axis in (1, 0))
        rest = self.influences - of_template * self._share(1) - of_variant * self._share(0)
        factor = variants / (variants - 1)
        together = templates / (templates - 1) * float((np.where(self.sizes > 0, rest, 0.0) ** 2).sum())
        return max(factor * (float((of_variant**2).sum()) - together), 0.0)

    def reach(self, confidence: float) -> float:
        """How far prompt variants alone make an interval reach; NaN for fewer than MIN_PROMPT_VARIANTS."""
        return t_quantile(confidence, self.effective) * math.sqrt(self.variance)

    def _share(self, axis: int) -> Array:
        """What share of its template (axis 1), or of its prompt variant (axis 0), each cell is."""
        whole = self.sizes.sum(axis=axis, keepdims=True)
        found: Array = np.divide(self.sizes, whole, out=np.zeros_like(self.sizes), where=whole > 0)
        return found


def widen_for_prompts(value: float, interval: Ends, reach: float, ends: Ends) -> Ends:
    """The ends of an interval over templates with what prompt variants add; never beyond where the number can be."""
    low, high = interval
    below, above = math.hypot(max(value - low, 0.0), reach), math.hypot(max(high - value, 0.0), reach)
    return max(min(low, value - below), min(ends[0], low)), min(max(high, value + above), max(ends[1], high))
