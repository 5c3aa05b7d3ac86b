"""Does `compare` find a difference in bias where there is one, and none where only ability or position differ?

    python benches/simulate_bias.py [RUNS]

Every line simulates RUNS runs (default 60) of a model in two languages, 40 templates × 3 wordings with their control
questions, end to end through `mbbq_gen.statistics.compare`, and says in how many per cent of them each statement was
made. The table stands in docs/statistics.md.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import polars as pl

from mbbq_gen.scoring import METRICS
from mbbq_gen.statistics.comparison import compare
from mbbq_gen.statistics.comparison_table import PairDifference
from mbbq_gen.statistics.panel import Sampling, excludes_zero
from tests.support.simulation import Design, SimulatedLanguage, SimulatedModel, simulate

DESIGN = Design(templates=40, variants=3, fillings=4)
SAMPLING = Sampling(resamples=500)
METRIC_NAMES = ("mbbq_bias_ambiguous", "diff_bias_disambiguated")
Language = SimulatedLanguage

WORLDS: dict[str, tuple[Language, Language]] = {
    "nothing differs": (Language(lean=0.3), Language(lean=0.3)),
    "lean 0.2 and 0.5": (Language(lean=0.2), Language(lean=0.5)),
    "lean 0.0 and 0.6": (Language(lean=0.0), Language(lean=0.6)),
    "no lean, ability 0.8 and 0.2": (Language(ability=0.8), Language(ability=0.2)),
    "lean 0.4 in both, ability 0.7 and 0.1": (Language(lean=0.4, ability=0.7), Language(lean=0.4, ability=0.1)),
    "no lean, one likes label A (0.5)": (Language(first_place=0.5), Language()),
    "lean 0.3 in both, one likes label A (0.2)": (Language(lean=0.3, first_place=0.2), Language(lean=0.3)),
    "no lean, the story leans in one (0.4)": (Language(artefact=0.4), Language()),
}
STATEMENTS = (
    "difference",
    "adjusted for control",
    "lean part",
    "naming part",
    "warned: ability",
    "warned: control",
)


def statements(pair: PairDifference) -> list[bool]:
    """What was said of one run."""
    p_value, adjusted = pair.tests[0].p_value, pair.adjusted_test.p_value
    return [
        p_value is not None and p_value < 0.05,
        adjusted is not None and adjusted < 0.05,
        pair.parts is not None and excludes_zero(pair.parts.lean),
        pair.parts is not None and excludes_zero(pair.parts.naming),
        "ability_could_explain" in pair.warnings,
        "control_differs" in pair.warnings,
    ]


def print_world(title: str, frames: list[pl.DataFrame]) -> None:
    found: dict[str, list[list[bool]]] = {name: [] for name in METRIC_NAMES}
    for frame in frames:
        table = compare(frame, "language", [METRICS[name] for name in METRIC_NAMES], sampling=SAMPLING)
        for metric in table.comparisons[0].metrics:
            found[metric.metric].append(statements(metric.pairs[0]))
    for name, rows in found.items():
        shares = [100 * sum(column) / len(rows) for column in zip(*rows, strict=True)]
        print(f"| {title} | {name} | " + " | ".join(f"{share:.0f}" for share in shares) + " |", flush=True)


def print_unbalanced(runs: int) -> None:
    """The target always first, negative questions only: a liking for label A looks like a bias, and is warned of."""
    design = replace(DESIGN, is_balanced=False)
    model = SimulatedModel({"en": Language(first_place=0.5), "tr": Language()})
    said = warned = 0
    for seed in range(runs):
        frame = simulate(model, design, seed).filter(pl.col("polarity") == "negative")
        (metric,) = (
            compare(frame, "language", [METRICS["mbbq_bias_ambiguous"]], sampling=SAMPLING).comparisons[0].metrics
        )
        said += excludes_zero(metric.pairs[0].difference)
        warned += "position_could_explain" in metric.pairs[0].warnings
    print(
        f"\nOrders that put the target first in negative questions, one language likes label A (0.5), no lean: a "
        f"difference in {100 * said / runs:.0f} %, and in {100 * warned / max(said, 1):.0f} % of these the warning "
        "`position_could_explain`."
    )


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    print("| world | score | " + " | ".join(STATEMENTS) + " |")
    print("|---|---|" + "---|" * len(STATEMENTS))
    for title, (one, other) in WORLDS.items():
        model = SimulatedModel({"en": one, "tr": other})
        print_world(title, [simulate(model, DESIGN, seed) for seed in range(runs)])
    print_unbalanced(runs)


if __name__ == "__main__":
    main()
