"""Do the intervals of variance components hold the truth? Scores made of known effects of template, language, wording.

    python benches/simulate_components.py [RUNS]

Every cell of 40 templates × 3 languages × 5 wordings is one number, a sum of normal effects with known standard
deviations; RUNS (default 300) of them are taken apart. The table stands in docs/statistics.md.
"""

from __future__ import annotations

import sys
from itertools import product

import numpy as np

from mbbq_gen.statistics.components import Cells, estimate_components
from mbbq_gen.statistics.panel import Sampling

SIZES = {"template": 40, "language": 3, "wording": 5}
TRUTH = {
    ("template",): 0.15,
    ("language",): 0.08,
    ("wording",): 0.04,
    ("template", "language"): 0.10,
    ("template", "wording"): 0.08,
    ("language", "wording"): 0.0,
    ("template", "language", "wording"): 0.12,
}
GRID = np.array(list(product(*(range(size) for size in SIZES.values()))))


def codes_of(term: tuple[str, ...]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The number of each cell's combination of the term's factors."""
    columns = [GRID[:, list(SIZES).index(name)] for name in term]
    if not columns:
        return np.zeros(len(GRID), dtype=np.int64)
    _, codes = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    return codes.reshape(-1)


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    generator = np.random.default_rng(1)
    codes = {term: codes_of(term) for term in ((), *TRUTH)}
    inside = dict.fromkeys(TRUTH, 0)
    found: dict[tuple[str, ...], list[float]] = {term: [] for term in TRUTH}
    for run in range(runs):
        scores = np.zeros(len(GRID))
        for term, sd in TRUTH.items():
            scores += generator.normal(0, sd, codes[term].max() + 1)[codes[term]]
        cells = Cells(scores, codes, None, 0.0, np.ones(len(GRID)))
        for term, (variance, low, high) in estimate_components(cells, Sampling(seed=run)).items():
            if term:
                found[term].append(variance)
                inside[term] += low is not None and high is not None and low <= TRUTH[term] <= high
    print("| component | levels | true sd | root of the mean estimated variance | coverage of 95 % intervals |")
    print("|---|---|---|---|---|")
    for term, sd in TRUTH.items():
        mean = max(float(np.mean(found[term])), 0.0) ** 0.5
        share, levels = 100 * inside[term] / runs, codes[term].max() + 1
        print(f"| {' × '.join(term)} | {levels} | {sd:.2f} | {mean:.3f} | {share:.0f} % |")


if __name__ == "__main__":
    main()
