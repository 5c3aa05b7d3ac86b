"""Does a score depend on how many questions its templates have? Then it says as much of the sizes as of the model.

MBBQ's templates have 4 to 240 questions, and a score over answers is mostly that of the large ones. Where
larger templates score otherwise (Spearman's rank correlation, p below 1 %, for many scores are looked at), the score
with every template counting alike is another one, and stands beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mbbq_gen.scoring.cells import Array

FEWEST: Final = 10
"""Templates below which nothing is said."""
LEVEL: Final = 0.01


def template_mean(scores: Array) -> float:
    """The mean with every template counting alike; NaN for no template with a score."""
    import numpy as np

    known = scores[~np.isnan(scores)]
    return float(known.mean()) if known.size else float("nan")


def mid_ranks(values: Array) -> Array:
    """The rank of each value, from 1; equal ones share the middle of theirs (`scipy.stats.rankdata`, a slow import)."""
    import numpy as np

    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    found: Array = (np.cumsum(counts) - (counts - 1) / 2)[place]
    return found


def sizes_matter(scores: Array, sizes: Array) -> bool:
    """Whether larger templates score otherwise for sure. `scores`: NaN for none; `sizes`: 0 for a template without."""
    import numpy as np
    from scipy import special

    has = (sizes > 0) & ~np.isnan(scores)
    scores, sizes = scores[has], sizes[has]
    n = scores.size
    if n < FEWEST or sizes.min() == sizes.max() or scores.min() == scores.max():
        return False
    correlation = float(np.corrcoef(mid_ranks(scores), mid_ranks(sizes))[0, 1])
    away = abs(correlation) * ((n - 2) / max(1 - correlation**2, 1e-12)) ** 0.5
    return bool(2 * special.stdtr(n - 2, -away) < LEVEL)
