from __future__ import annotations

import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from mbbq_gen.analysis.design import (
    ORDERS,
    Components,
    DesignSearch,
    DesignSpace,
    DesignTarget,
    Price,
    assumed_components,
    measured_assumptions,
    pooled_share,
    question_counts,
)
from mbbq_gen.analysis.power import DEFAULTS, power_table
from mbbq_gen.scoring.codes import PromptEffects
from mbbq_gen.scoring.metrics import METRICS
from tests.support.cases import known
from tests.support.extraction import Capture, call, json_of, succeed
from tests.support.prices import write_prices
from tests.support.simulation import Design as Simulated
from tests.support.simulation import SimulatedLanguage, SimulatedModel, simulate

ASSUMED = assumed_components(METRICS["mbbq_bias_ambiguous"])
STOCK = (4, 4, 8, 12, 30, 60)
SELECTION = ["--model", "oracle:random", "--benchmark", "starter", "--languages", "en,tr", "--splits", "bias"]


def width_by_hand(study: DesignSearch, shape: tuple[int, int, int, int, int]) -> tuple[float, float]:
    """(width, requests) of (templates, questions, wordings, wordings of a question, orders), written out plainly."""
    templates, questions, wordings, each, orders = shape
    sd, share = study.components.assumptions, study.components.question_share
    offer = study.space
    taken = [min(questions, stock) for stock in offer.stock]
    given = [min(questions * each * orders, stock * offer.prompt_variants * offer.orders) for stock in offer.stock]
    answers = sum(
        sd.answer**2 * (share / asked + (1 - share) / count) for asked, count in zip(taken, given, strict=True)
    ) / len(taken)
    if study.target == "score":
        variance = (sd.template**2 + sd.template_language**2 + answers) / templates
        variance += sd.template_prompt_variant**2 / (templates * min(wordings, questions * each))
        of_wordings = sd.prompt_variant**2 / wordings
    else:
        variance = 2 * (sd.template_language**2 + answers) / templates
        of_wordings = 2 * sd.language_prompt_variant**2 / wordings
    square = float(stats.t.ppf(0.975, templates - 1)) ** 2 * variance
    if study.speaks_of == "random":
        square += float(stats.t.ppf(0.975, wordings - 1)) ** 2 * of_wordings if wordings >= 3 else math.inf
    width = 2 * math.sqrt(square)
    return width, templates * sum(given) / len(given) * offer.cells


def grid(study: DesignSearch) -> list[tuple[int, int, int, int, int]]:
    offer = study.space
    wordings = range(1, offer.prompt_variants + 1)
    return [
        (templates, questions, total, each, orders)
        for templates, total, each, orders in product(range(5, len(offer.stock) + 1), wordings, wordings, ORDERS)
        if each <= total and orders <= offer.orders
        for questions in question_counts(
            math.ceil(max(offer.stock) * offer.prompt_variants * offer.orders / (each * orders))
        )
    ]


@pytest.mark.parametrize("goal", ["score", "difference between languages"])
@pytest.mark.parametrize("speaks_of", ["fixed", "random"])
@pytest.mark.parametrize("wanted", [0.5, 0.7, 0.9])
def test_the_best_design_is_the_best_of_all(goal: DesignTarget, speaks_of: PromptEffects, wanted: float) -> None:
    study = DesignSearch(
        goal, ASSUMED, DesignSpace(STOCK, 3, 3, 2), Price(online=0.01, batch=None), speaks_of=speaks_of
    )
    found = next(iter(study.ranked(width=wanted)), None)
    every = [width_by_hand(study, shape) for shape in grid(study)]
    fewest = min((requests for width, requests in every if width <= wanted), default=None)
    assert (found is None) == (fewest is None)
    if found is not None and fewest is not None:
        assert found.width <= wanted
        assert found.requests == round(fewest)
        assert found.cost == pytest.approx(0.01 * found.requests)
        narrowest = study.ranked(requests=found.requests)[0]
        assert narrowest.width == pytest.approx(min(width for width, requests in every if requests <= found.requests))


@pytest.mark.parametrize("speaks_of", ["fixed", "random"])
def test_a_design_speaks_of_what_intervals_speak_of(speaks_of: PromptEffects) -> None:
    """The widths of all of it are those that `power` has for a run of that size, of the same wordings."""
    offer, free = DesignSpace((50,) * 24, 5, 1, 2), Price(online=None, batch=None)
    study = DesignSearch("difference between languages", ASSUMED, offer, free, speaks_of=speaks_of)
    everything = study.everything()
    table = power_table("starter", 24, 5, questions=50, prompt_effects=speaks_of)
    (two,) = [found for found in table.detectable if found.question == "two languages"]
    sd = ASSUMED.assumptions
    drawn = 2 * sd.language_prompt_variant**2 / 5 if speaks_of == "random" else 0.0
    templates = two.standard_error**2 - drawn
    wide = stats.t.ppf(0.975, 23) ** 2 * templates + stats.t.ppf(0.975, 4) ** 2 * drawn
    assert everything.width == pytest.approx(2 * wide**0.5)


def test_the_share_of_questions_is_measured() -> None:
    """Effects of questions with a share of 0.3 of the variance, answers in uneven numbers."""
    generator = np.random.default_rng(1)
    parts = []
    for question in range(4000):
        gaps = generator.normal(generator.normal(0, 0.3**0.5), 0.7**0.5, int(generator.integers(1, 6)))
        parts.append(pl.DataFrame({"question": [question] * gaps.size, "gap": gaps}))
    assert known(pooled_share(pl.concat(parts))) == pytest.approx(0.3, abs=0.03)
    assert pooled_share(pl.DataFrame({"question": [1, 2], "gap": [0.5, -0.5]})) is None


def designed(capsys: Capture, *arguments: object) -> dict[str, Any]:
    return dict(json_of(capsys, "design", *SELECTION, *arguments, quiet=True))


def test_the_command_counts_what_there_is(capsys: Capture, tmp_path: Path) -> None:
    prices = write_prices(tmp_path, "oracle:random", 3.0, output=5.0, batch_input=1.5, batch_output=2.5)
    found = designed(capsys, "--ci-width", "0.4", "--variants", "bare,letters", "--prices", prices)
    assert (found["templates"], found["questions"], found["prompt_variants"]) == (24, 24 * 12 // 2 * 2, 2)
    best = found["best"]
    assert best["width"] <= 0.4
    assert best["cost"] == pytest.approx(2 * best["batch_cost"])
    each = found["request_cost"]
    assert best["cost"] == pytest.approx(best["requests"] * each)
    same = designed(capsys, "--max-cost", best["cost"] * 1.0001, "--variants", "bare,letters", "--prices", prices)
    assert same["best"]["width"] <= best["width"] + 1e-9
    assert found["everything"]["width"] < best["width"]


def test_the_command_says_what_no_money_buys(capsys: Capture) -> None:
    found = designed(capsys, "--ci-width", "0.01", "--goal", "difference between languages")
    assert found["best"] is None
    assert "a width of 0.01 cannot be reached" in " ".join(found["notes"])
    out = succeed(capsys, "design", *SELECTION, "--ci-width", "0.4")
    assert "everything" in out
    assert "--answers-per-template" in out


def test_a_pilot_tells_the_components(capsys: Capture, tmp_path: Path) -> None:
    run = tmp_path / "pilot"
    assert call(capsys, "run", run, *SELECTION, "--variants", "bare,letters", "--sample", 96)[0] == 0
    found = designed(capsys, "--ci-width", "0.5", "--pilot", run)
    components = Components.model_validate(found["components"])
    assert str(run) in components.assumptions.source
    assert components.assumptions.answer != DEFAULTS.answer
    assert components.question_share < 0.5  # the random oracle answers each wording anew
    assert found["best"] is not None


def test_a_pilot_of_few_answers_tells_templates_and_chance() -> None:
    """Two answers to each kind of question, in wordings that change: no table of components could tell them apart."""
    named, template, crossed = 0.56, 0.4, 0.3
    language = SimulatedLanguage(ability=0.0, unknown=1 - named)
    model = SimulatedModel({"en": language, "tr": language}, template_sd=template, interaction_sd=crossed)
    found = []
    for seed in range(12):
        whole = simulate(model, Simulated(templates=60, variants=5, splits=("bias",)), seed)
        ambiguous = whole.filter(pl.col("condition") == "ambiguous")
        place = pl.int_range(pl.len()).shuffle(seed=seed).over("template_id", "language", "polarity")
        told = measured_assumptions(ambiguous.filter(place < 2), METRICS["mbbq_bias_ambiguous"], "a run")
        found.append((told.template, told.template_language, told.answer))
    means = (np.array(found) ** 2).mean(axis=0) ** 0.5
    answer = (named - named**2 * (template**2 + crossed**2)) ** 0.5
    assert means == pytest.approx([named * template, named * crossed, answer], rel=0.2)


def test_a_pilot_is_part_of_the_run(capsys: Capture, run_path: Path) -> None:
    """A few answers of every template tell what is needed, and the same run goes on to it."""
    assert call(capsys, "run", run_path, *SELECTION, "--answers-per-template", 4)[0] == 0
    found = designed(capsys, "--ci-width", "0.3", "--pilot", run_path)
    assert str(run_path) in found["components"]["assumptions"]["source"]
    best = found["as_run"]
    assert best["answers"] > 4
    assert json_of(capsys, "run", run_path, "--answers-per-template", best["answers"])["requests"] == best["requests"]
