from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from mbbq_gen.scoring.cells import Array
from mbbq_gen.statistics.estimate import Estimate, InferenceSettings, ratio_of
from mbbq_gen.statistics.hypothesis_tests import equality_test
from mbbq_gen.statistics.panel import resample_weights
from mbbq_gen.statistics.ppi import CorrectedEstimate
from tests.support.cases import known

SAMPLING = InferenceSettings()


def template_interval(scores: Array) -> Estimate:
    names = tuple(f"t{place:02d}" for place in range(scores.size))
    return ratio_of(scores, np.ones(scores.size), resample_weights(names, 2000, 0), (-1.0, 1.0))


def corrected(extracted: Estimate, off: Array, rare: float = 0.0) -> CorrectedEstimate:
    influences = extracted.influence_values + off
    return CorrectedEstimate(
        value=extracted.value,
        influence_values=influences,
        adjusted_influence=influences,
        template_weights=extracted.template_weights,
        bootstrap_values=np.zeros(0),
        bounds=extracted.bounds,
        extracted=extracted,
        annotation_influence=off,
        rare_variance=rare,
    )


@pytest.mark.parametrize("scores", [np.linspace(-0.2, 0.4, 15), np.r_[np.zeros(14), 0.2], np.linspace(0.7, 0.98, 15)])
def test_labels_add_their_variance_to_the_plain_interval(scores: Array) -> None:
    extracted = template_interval(scores)
    plain = known(extracted.interval(0.95))
    assert corrected(extracted, np.zeros(15)).interval(0.95) == pytest.approx(plain)
    wider = known(corrected(extracted, np.zeros(15), rare=0.05**2).interval(0.95))
    for end, before in zip(wider, plain, strict=True):
        reach = abs(before - extracted.value)
        degrees = 14 * ((reach / stats.t.ppf(0.975, 14)) ** 2 + 0.05**2) ** 2
        degrees /= max((reach / stats.t.ppf(0.975, 14)) ** 4, 1e-300)
        wanted = stats.t.ppf(0.975, degrees) * math.hypot(reach / stats.t.ppf(0.975, 14), 0.05)
        assert abs(end - extracted.value) == pytest.approx(
            min(max(wanted, reach), abs(np.sign(end - before) - extracted.value))
        )


def test_levels_known_unequally_well_are_compared_by_pairs() -> None:
    """Under 20 templates; with more, or errors alike, by sign flips."""
    generator = np.random.default_rng(5)
    for templates, spread, wanted in ((12, 0.5, "interval"), (12, 0.1, "sign_flip"), (30, 0.5, "sign_flip")):
        even = np.linspace(-1, 1, templates)
        levels = [template_interval(sd * generator.permutation(even)) for sd in (0.1, 0.1, spread)]
        found = equality_test(levels, "all levels are equal", SAMPLING)
        assert found.test == wanted
        assert found.p_value is not None
