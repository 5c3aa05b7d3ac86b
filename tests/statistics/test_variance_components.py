from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import optimize

from mbbq_gen.scoring.cells import Array
from mbbq_gen.statistics.variance_components import Cells, Codes, Term, TooFewCellsError, estimate_components

TERMS: dict[Term, float] = {
    ("template",): 0.3,
    ("language",): 0.1,
    ("variant",): 0.0,
    ("template", "language"): 0.15,
    ("template", "variant"): 0.1,
    ("language", "variant"): 0.0,
    ("template", "language", "variant"): 0.1,
}
"""With the standard deviation of each."""


def design(templates: int, generator: np.random.Generator, kept: float = 1.0) -> dict[Term, Codes]:
    """The codes of templates × 3 languages × 2 prompt variants, of which a share is there."""
    places = np.array(list(product(range(templates), range(3), range(2))))
    places = places[generator.random(len(places)) < kept]
    names = ("template", "language", "variant")
    return {
        term: np.unique(places[:, [names.index(name) for name in term]], axis=0, return_inverse=True)[1]
        .reshape(-1)
        .astype(np.int64)
        for term in TERMS
    }


def draw(codes: dict[Term, Codes], answers: Array, generator: np.random.Generator) -> Cells:
    scores = generator.normal(0, 0.7, answers.size) / answers**0.5
    for term, sd in TERMS.items():
        scores = scores + generator.normal(0, sd, codes[term].max() + 1)[codes[term]]
    return Cells(scores, codes, 0.49, answers)


def restricted_likelihood(cells: Cells, variances: Array) -> float:
    covariance = np.diag(0.49 / cells.answers)
    for variance, codes in zip(variances, cells.codes.values(), strict=True):
        covariance += variance * (codes[:, None] == codes[None, :])
    ones, inverse = np.ones((cells.scores.size, 1)), np.linalg.inv(covariance)
    information = ones.T @ inverse @ ones
    away = cells.scores - float((ones.T @ inverse @ cells.scores).item() / information.item())
    logs = np.linalg.slogdet(covariance)[1] + np.linalg.slogdet(information)[1]
    return -0.5 * float(logs + away @ inverse @ away)


@pytest.mark.parametrize("kept", [1.0, 0.8])
def test_the_likelihood_is_greatest(kept: float) -> None:
    """Of unlike numbers of answers, and where cells are missing: no search over whole matrices finds a better place."""
    generator = np.random.default_rng(4)
    codes = design(8, generator, kept)
    cells = draw(codes, generator.integers(2, 40, codes["template",].size).astype(float), generator)
    found = np.array([variance for variance, _, _ in estimate_components(cells).values()])
    assert (found >= 0).all()
    searched = optimize.minimize(
        lambda variances: -restricted_likelihood(cells, variances),
        np.full(len(TERMS), 0.02),
        bounds=[(0, None)] * len(TERMS),
        method="L-BFGS-B",
    )
    assert restricted_likelihood(cells, found) >= -float(searched.fun) - 1e-6
    assert found == pytest.approx(searched.x, abs=2e-3)


def test_intervals_hold_the_truth() -> None:
    generator = np.random.default_rng(5)
    codes, runs, inside = design(30, generator), 80, dict.fromkeys(TERMS, 0)
    for _ in range(runs):
        answers = generator.choice([4.0, 16.0, 64.0, 240.0], 30)[codes["template",]]
        for term, (_, low, high) in estimate_components(draw(codes, answers, generator)).items():
            inside[term] += low is not None and high is not None and low <= TERMS[term] <= high
    assert sum(inside.values()) / runs / len(TERMS) >= 0.93
    assert min(inside.values()) / runs >= 0.95 - 4 * (0.05 * 0.95 / runs) ** 0.5


def test_too_few_cells_have_no_components() -> None:
    """48 cells of 15 terms, some of which differ in few cells: the likelihood grows without end."""
    generator = np.random.default_rng(0)
    factors = [generator.integers(0, levels, 48) for levels in (2, 3, 4, 6)]
    codes: dict[Term, Codes] = {}
    for number in range(1, 16):
        chosen = [place for place in range(4) if number >> place & 1]
        term = tuple("abcd"[place] for place in chosen)
        levels = np.unique(np.array([factors[place] for place in chosen]).T, axis=0, return_inverse=True)
        codes[term] = levels[1].reshape(-1)
    with pytest.raises(TooFewCellsError):
        estimate_components(Cells(generator.choice([-1.0, 0.0, 1.0], 48), codes, None, np.ones(48)))
