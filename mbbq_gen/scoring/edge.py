"""Intervals where nearly all templates say the same, or most do: strong models, scores near 0, 1 or −1.

No resample can show what was not seen. Where 40 templates were answered without a mistake, a bootstrap says that
there are none, [1.00, 1.00]; with one answer in a thousand wrong it holds the truth in 60 % of samples. So where more
than half of the templates (by size) have one and the same score, and the others are few, the interval allows for a
template that was not seen: weights of the templates and of one more are drawn from a Dirichlet distribution (the
Bayesian bootstrap of Rubin 1981, with the added end of Gaffke 2005), and the one more lies as far off as the farthest
that was seen, or UNSEEN if none lies farther. For scores of 0 and 1 alone, with UNSEEN at 1, this is Clopper and
Pearson's interval. The interval is the wider one of this and the bootstrap's, end by end.

The same on one side, however many templates there are, where scores are skewed: most templates at one place, a few far
from it. A bootstrap with few of these, or none, stays too near the others. And where the score
lies nearer to an end of its scale than UNSEEN: templates can't lie so far off on the end's side, so a tail on the other
side is to be expected, whether or not one was seen (docs/decisions/0013-intervals-over-templates.md).

`benches/simulate_all.py` holds it to what it promises (docs/statistics.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from mbbq_gen.seeding import stable_number

if TYPE_CHECKING:
    from mbbq_gen.scoring.cells import Array

UNSEEN: Final = 0.3
"""How far a template that was not seen may lie from the others: an assumption, larger than what is usually seen.
Nearer than this to an end of the scale, a score has a tail on the other side."""
STRETCH: Final = 1.2
"""How much farther it may lie off near an end of the scale, away from the end: there the tail has one side only."""
ENOUGH: Final = 10
"""Effective number of templates apart from the others, from which an interval does not rest on what was not seen."""
SKEWED: Final = 1.0
"""Skewness of the templates' scores, either way, from which there is room on the side of the long tail."""
_DRAWS: Final = 1000
_DIGITS: Final = 9
"""Scores that agree in so many digits are the same."""


def edge_interval(
    scores: Array, sizes: Array, confidence: float, ends: tuple[float, float], unseen: float = UNSEEN
) -> Room | None:
    """The interval of Σ size · score / Σ size, with room for a template that was not seen.

    Args:
        scores: of each template; NaN for none.
        sizes: what each template weighs.
        confidence: such as 0.95.
        ends: smallest and largest score that there can be.
        unseen: how far off an unseen template may be.

    Returns:
        None where scores differ enough for a bootstrap, or no template has one.
    """
    import numpy as np

    has = (sizes > 0) & ~np.isnan(scores)
    scores, sizes = np.round(scores[has], _DIGITS), sizes[has]
    if not scores.size:
        return None
    middle = float(scores @ sizes / sizes.sum())
    near = (middle - ends[0] < unseen, ends[1] - middle < unseen)
    sides = _sides(scores, sizes, middle, near)
    if sides is None:
        return None
    drawn = _gamma(scores.size)
    extra = drawn[:, -1] * sizes.mean()
    below = drawn[:, :-1] @ sizes + extra
    told = drawn[:, :-1] @ (sizes * scores)
    tail, low, high = (1 - confidence) / 2, middle, middle
    up, down = (unseen * (STRETCH if is_near else 1.0) for is_near in near)
    if sides.down is not None:
        low = float(np.quantile((told + extra * max(ends[0], sides.start - max(down, sides.down))) / below, tail))
    if sides.up is not None:
        high = float(np.quantile((told + extra * min(ends[1], sides.start + max(up, sides.up))) / below, 1 - tail))
    return Room(min(low, middle), max(high, middle), rests_on_unseen=sides.are_few)


@dataclass(frozen=True)
class Room:
    """An interval with room for a template that was not seen."""

    low: float
    high: float
    rests_on_unseen: bool
    """Whether so few templates lie off the others that the interval stands on the assumption: it is warned of."""

    @property
    def ends(self) -> tuple[float, float]:
        """Low and high."""
        return self.low, self.high


@dataclass(frozen=True)
class _Sides:
    """To which sides a template may lie that was not seen."""

    start: float
    """What it is reckoned from."""
    down: float | None
    """How far below it the farthest lies that was seen; None: no room is needed there."""
    up: float | None
    are_few: bool
    """Whether there are effectively fewer than ENOUGH templates there."""


def _sides(scores: Array, sizes: Array, middle: float, near: tuple[bool, bool]) -> _Sides | None:
    """Both sides where nearly all say the same; the side of a long tail, seen or to be expected; else None.

    `near`: whether the score is near the lower and the upper end of its scale.
    """
    import numpy as np

    usual = _usual(scores, sizes)
    if usual is not None:
        apart = np.abs(scores - usual)
        if _effective(sizes * apart) < ENOUGH:
            return _Sides(usual, float(apart.max()), float(apart.max()), are_few=True)
    away = scores - middle
    skew = _skewness(away, sizes)
    down = np.maximum(-away, 0.0) if skew < -SKEWED or near[1] else None
    up = np.maximum(away, 0.0) if skew > SKEWED or near[0] else None
    tails = [tail for tail in (down, up) if tail is not None]
    if not tails:
        return None
    are_few = any(_effective(sizes * tail) < ENOUGH for tail in tails)
    return _Sides(middle, _largest(down), _largest(up), are_few)


def _largest(tail: Array | None) -> float | None:
    return None if tail is None else float(tail.max())


def _skewness(away: Array, sizes: Array) -> float:
    """Of deviations from their mean, by size; 0 where there are none."""
    spread = float(sizes @ away**2 / sizes.sum())
    return float(sizes @ away**3 / sizes.sum()) / spread**1.5 if spread > 0 else 0.0


def _usual(scores: Array, sizes: Array) -> float | None:
    """The score that more than half of the templates have, by size; None for none."""
    import numpy as np

    values, places = np.unique(scores, return_inverse=True)
    weights = np.bincount(places, weights=sizes)
    most = int(weights.argmax())
    return float(values[most]) if weights[most] > sizes.sum() / 2 else None


def _effective(parts: Array) -> float:
    """How many parts of one size would count as much; 0 where all are 0."""
    squares = float((parts**2).sum())
    return float(parts.sum()) ** 2 / squares if squares else 0.0


@lru_cache(maxsize=64)
def _gamma(templates: int) -> Array:
    """Weights of templates and of one more, not yet divided by their sum: draws × (templates + 1)."""
    import numpy as np

    generator = np.random.default_rng(stable_number("edge", templates))
    drawn: Array = generator.exponential(size=(_DRAWS, templates + 1))
    return drawn
