from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
import pytest

from mbbq_gen.analysis.robustness import Effect, EffectTable, effect_table
from mbbq_gen.languages.axes import factorial_design, parse_axes
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.statistics.estimate import InferenceSettings
from tests.support.cases import known
from tests.support.simulation import Design, SimulatedLanguage, SimulatedModel, simulate

METRIC = METRICS["mbbq_bias_ambiguous"]
SAMPLING = InferenceSettings(n_resamples=300)
FULL = factorial_design(parse_axes("format=free+json+line,hint=all"), "full")
SURE = SimulatedLanguage(ability=0.0, unknown=0.0)


def frame(cells: Sequence[str], shifts: Mapping[str, float], **settings: float) -> pl.DataFrame:
    design = Design(templates=30, variants=len(cells), fillings=4, splits=("bias",), names=tuple(cells))
    model = SimulatedModel({"en": SURE, "tr": SURE}, shifts=shifts, **settings)  # type: ignore[arg-type]
    return simulate(model, design, seed=3)


def table(observations: pl.DataFrame) -> EffectTable:
    found = effect_table(observations, METRIC, SAMPLING)
    assert isinstance(found, EffectTable)
    return found


def by_levels(effects: Sequence[Effect]) -> dict[tuple[str, ...], Effect]:
    return {effect.levels: effect for effect in effects}


SHIFTS = {"plain_1+json": 0.3, "plain_1+json+say_so": 0.3 - 0.2 + 0.25, "plain_1+say_so": -0.2}
SHIFTS["plain_1+line+say_so"] = -0.2
"""json: +0.3; say_so: -0.2; both beyond that: +0.25."""


def test_effects_are_differences_of_means_of_cells() -> None:
    """Exactly: recomputed from the cells' own scores, however answers fell out."""
    observations = frame(FULL, SHIFTS)
    found = table(observations)
    score = {
        cell: float(
            observations.filter((pl.col("variant") == cell) & (pl.col("condition") == "ambiguous"))
            .select(pl.col("biased").cast(pl.Int32).mean() - pl.col("counter_biased").cast(pl.Int32).mean())
            .item()
        )
        for cell in FULL
    }
    main, both = by_levels(found.main), by_levels(found.interactions)
    free = (score["plain_1"] + score["plain_1+say_so"]) / 2
    json = (score["plain_1+json"] + score["plain_1+json+say_so"]) / 2
    assert main["json",].difference.value == pytest.approx(json - free)
    told = score["plain_1+json+say_so"] - score["plain_1+say_so"] - score["plain_1+json"] + score["plain_1"]
    assert both["json", "say_so"].difference.value == pytest.approx(told)
    means = {(mean.axis, mean.level): mean.score.value for mean in found.means}
    assert means["format", "json"] == pytest.approx(json)
    languages = by_levels([effect for effect in found.by_language if effect.language == "tr"])
    other = by_levels([effect for effect in found.by_language if effect.language == "en"])
    pairs = [languages["json",].difference.value, other["json",].difference.value]
    assert sum(value for value in pairs if value is not None) / 2 == pytest.approx(json - free)


def test_what_was_put_in_comes_out() -> None:
    found = table(frame(FULL, SHIFTS, template_sd=0.1, interaction_sd=0.05))
    main, both = by_levels(found.main), by_levels(found.interactions)
    for effect, truth in (
        (main["json",], 0.3 + 0.25 / 2),
        (main["line",], 0.0),
        (main["say_so",], -0.2 + 0.25 / 3),
        (both["json", "say_so"], 0.25),
        (both["line", "say_so"], 0.0),
    ):
        assert known(effect.difference.ci_low) <= truth <= known(effect.difference.ci_high)
        assert (known(effect.test.p_adjusted) < 0.05) == (truth != 0)


def test_what_a_fraction_does_not_tell_apart_is_said() -> None:
    axes = "politeness=plain+courteous,format=free+json,hint=all,debias=none+no_stereotypes"
    found = table(frame(factorial_design(parse_axes(axes), "fractional"), {}))
    told = {effect.axes: effect.aliased_with for effect in found.interactions}
    assert told["politeness", "format"] == (("hint", "debias"),)
    assert all(told.values())
