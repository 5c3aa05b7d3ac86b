"""Simulated panels: other metrics, macro averages, random wordings, selected templates, variance components, power.

Run by `simulate_all.py`, which says what each table shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import get_args

import numpy as np
from simulated import BIAS, CHOICES, MBBQ, RIGHT, Array, Generator, Held, World, code, head, panel_of, row, speaks

from mbbq_gen.scoring.cells import CELLS
from mbbq_gen.scoring.codes import MIN_TEMPLATES, Average
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.statistics.estimate import Estimate, InferenceSettings, mean_of_strata
from mbbq_gen.statistics.hypothesis_tests import equality_test, friedman, zero_test
from mbbq_gen.statistics.panel import Panel, resample_weights
from mbbq_gen.statistics.sequential import FOR_DECISION, ErrorSpending, Interval, PastLook, median_unbiased
from mbbq_gen.statistics.variance_components import Cells, estimate_components

SAMPLING = InferenceSettings(n_resamples=1000)


def metrics(runs: int) -> None:
    """Prints coverage for metrics of ambiguous and told contexts, and for a paired difference of two languages."""
    sizes = (6, 10, 20, 40, 100)
    head("score", "sizes", *(f"{number} templates" for number in sizes))
    wanted = ("mbbq_bias_ambiguous", "diff_bias_disambiguated", "accuracy_disambiguated")
    cases = [(name, World(uneven=uneven), World().truth(name)) for uneven in (False, True) for name in wanted]
    pair = World((0.3, 0.3), (0.2, 0.6), interaction_sd=0.2)
    alone = (World((0.3,), (ability,), template_sd=(0.3**2 + 0.2**2) ** 0.5) for ability in (0.2, 0.6))
    one, other = (world.truth(BIAS.name) for world in alone)
    for name, world, truth in (*cases, (BIAS.name, pair, one - other)):
        counts = []
        for number in sizes:
            generator, held = np.random.default_rng([number, runs]), Held()
            for _ in range(runs):
                found = panel_of(world.draw(number, generator), SAMPLING).estimates(METRICS[name])
                held.add(found[0] if len(found) == 1 else found[0].subtract(found[1]), truth)
            counts.append(held)
        title = name if len(world.leans) == 1 else f"{name}, difference"
        row(title, "uneven" if world.uneven else "equal", *counts)


def power(runs: int) -> None:
    """Prints how often a difference of two languages that lean by 0.1 and 0.3 is found."""
    world = World((0.1, 0.3), (0.3, 0.3), interaction_sd=0.15)
    head("templates", "interval", "Friedman")
    for templates in (10, 40, 100):
        generator, found = np.random.default_rng([templates, runs, 7]), np.zeros(2)
        for _ in range(runs):
            panel = panel_of(world.draw(templates, generator), SAMPLING)
            equal = equality_test(panel.estimates(BIAS), "h", SAMPLING)
            found += [speaks(equal), speaks(friedman(panel.template_scores(BIAS).T, "h"))]
        row(templates, *(f"{100 * count / runs:.1f}" for count in found))


# --- averages over templates, and estimates of runs that stopped ------------------------------------------------------

AVERAGED: tuple[tuple[str, float, float, float], ...] = (
    *((BIAS.name, 0.2, 0.3, spread) for spread in (0.0, 0.1, 0.3, 0.6)),
    *((BIAS.name, lean, 0.9, 0.3) for lean in (0.0, 0.9)),
    ("diff_bias_disambiguated", 0.2, 0.5, 0.3),
    *(("accuracy_ambiguous", 0.2, ability, 0.3) for ability in (0.5, 0.98)),
)
"""Metric, lean, ability, sd of the templates' leans."""


def averages(runs: int) -> None:
    """Prints coverage of each average on templates of MBBQ's sizes, and the width of random effects over questions'."""
    every = np.array([size for sizes in MBBQ.values() for size in sizes])
    names = get_args(Average)
    head("score", "lean", "ability", "sd", "templates", *names, "random effects / questions")
    for (name, lean, ability, spread), is_pair in (*product(AVERAGED, (False,)), *product(AVERAGED[1:3], (True,))):
        world = World((lean, lean) if is_pair else (lean,), (ability,) * (1 + is_pair), spread, 0.15 * is_pair)
        truth = 0.0 if is_pair else world.truth(name)
        for templates in (15, 40, 98):
            generator, held = np.random.default_rng([templates, runs]), {average: Held() for average in names}
            for _ in range(runs):
                sizes = every if templates == every.size else generator.choice(every, templates)
                cells = replace(world, fixed=tuple(2 * int(size) for size in sizes)).draw(templates, generator)
                for average in names:
                    found = panel_of(cells, replace(SAMPLING, average=average)).estimates(METRICS[name])
                    held[average].add(found[0].subtract(found[1]) if is_pair else found[0], truth)
            ratio = held["random-effects"].wide / held["questions"].wide
            row(name + ", difference" * is_pair, lean, ability, spread, templates, *held.values(), f"{ratio:.2f}")


def estimates(runs: int) -> None:
    """Prints plain and median-unbiased estimates of runs that stop for a decision, by true score."""
    looks, small, error = 6, 0.03, 0.03
    information = np.arange(1, looks + 1) / looks / error**2
    bounds = ErrorSpending(0.05, FOR_DECISION)
    margins = [bounds.look(now, part / looks) / now**0.5 for part, now in enumerate(information, 1)]
    steps = np.diff(information, prepend=0.0)
    kinds = [f"{what}, {name}" for what in ("mean", "median", "above the truth") for name in ("plain", "adjusted")]
    head("true score", "looks", *kinds)
    for truth in (0.0, 0.03, 0.06, 0.1, 0.15, 0.2):
        generator, found, number = np.random.default_rng([runs, 3]), np.zeros((runs, 2)), 0
        paths = generator.normal(truth * steps, np.sqrt(steps), (runs, looks)).cumsum(axis=1) / information
        for run, path in enumerate(paths):
            past: list[PastLook] = []
            for value, margin, now in zip(path, margins, information, strict=True):
                past.append(PastLook(1 / now, Interval(value, value - margin, value + margin, 0.05)))
                if abs(value) > margin or abs(value) + margin < small:
                    break
            found[run] = past[-1].interval.value, median_unbiased(past, small)
            number += len(past)
        numbers = (*found.mean(axis=0), *np.median(found, axis=0))
        above = [f"{share:.0%}" for share in (found > truth).mean(axis=0)]
        row(truth, f"{number / runs:.1f}", *(f"{value:.3f}" for value in numbers), *above)


# --- macro averages over categories ----------------------------------------------------------------------------------


def macro(runs: int) -> None:
    """Prints coverage of means over MBBQ's six categories, with all of its questions or a tenth."""
    drawn = [resample_weights(tuple(f"{name} {n}" for n in range(len(sizes))), 1000, 0) for name, sizes in MBBQ.items()]
    weights = np.concatenate(drawn, axis=1)
    head("score", "sd of templates", "questions asked", "held (mean width)")
    for name, spread, share in product(
        ("mbbq_bias_ambiguous", "diff_bias_disambiguated", "accuracy_ambiguous"), (0.1, 0.3), (1.0, 0.1)
    ):
        world, held = World(template_sd=spread), Held()
        truth, generator = world.truth(name), np.random.default_rng([runs, int(spread * 10)])
        for _ in range(runs):
            held.add(mean_of_strata(_by_category(_categories(world, share, generator), weights, name)), truth)
        row(name, f"{spread:g}", f"{share:.0%}", held)


def _categories(world: World, share: float, generator: Generator) -> Panel:
    """One group a category, over the templates of all."""
    asked = [np.maximum(2, np.round(np.array(sizes) * share)).astype(int) for sizes in MBBQ.values()]
    cells, start = np.zeros((len(asked), sum(map(len, asked)), len(CELLS))), 0
    for place, sizes in enumerate(asked):
        own = replace(world, fixed=tuple(int(size) * 2 for size in sizes))
        cells[place, start : start + len(sizes)] = own.draw(len(sizes), generator)[0]
        start += len(sizes)
    return panel_of(cells, SAMPLING)


def _by_category(panel: Panel, weights: Array, name: str) -> list[Estimate]:
    """The metric of every category, its resamples drawn within it."""
    drawn = np.einsum("rt,gtc->grc", weights, panel.by_template.values)
    values = METRICS[name].value(type(panel.by_template)(drawn, panel.sampling.unparsed))
    return [
        replace(found, bootstrap_values=values[place]) for place, found in enumerate(panel.estimates(METRICS[name]))
    ]


# --- wordings like those asked ---------------------------------------------------------------------------------------


def wordings(runs: int) -> None:
    """Prints coverage and levels where wordings vary, held fixed → random: of a score, of a difference."""
    head("sd of wordings", "templates", "wordings", *("held", "test speaks", "difference held", "test speaks"))
    for spread, templates, number in product((0.0, 0.05, 0.2), (8, 40, 98), (3, 6, 12)):
        generator = np.random.default_rng([templates, number, round(100 * spread), runs])
        held, spoken = [Held() for _ in range(4)], np.zeros(4)
        for _ in range(runs):
            for place, random in enumerate(_over_wordings(templates, number, spread, generator)):
                fixed = replace(random, crossed_effect=None)
                held[2 * place].add(fixed, 0)
                held[2 * place + 1].add(random, 0)
                tests = zero_test(fixed, "h", SAMPLING), zero_test(random, "h", SAMPLING)
                spoken[2 * place : 2 * place + 2] += [speaks(test) for test in tests]
        rates = [f"{100 * count / runs:.1f}" for count in spoken]
        cells = [(f"{held[at]} → {held[at + 1]}", f"{rates[at]} → {rates[at + 1]}") for at in (0, 2)]
        row(f"{spread:g}", templates, number, *cells[0], *cells[1])


def _over_wordings(templates: int, number: int, spread: float, generator: Generator) -> tuple[Estimate, Estimate]:
    """The first language's score, and the difference of two that do not lean."""
    normal, both = generator.normal, (2, templates, number)
    leans = normal(0, 0.2, (1, templates, 1)) + normal(0, 0.15, (2, templates, 1)) + normal(0, 0.1, both)
    leans = leans + normal(0, spread, (1, 1, number)) + normal(0, spread, (2, 1, number))
    leans, named = np.clip(leans, -0.95, 0.95), np.full(both, 0.67)
    chances = np.stack([named * (1 + leans) / 2, named * (1 - leans) / 2, 1 - named], axis=-1)
    said = generator.multinomial(24, chances / chances.sum(axis=-1, keepdims=True))
    cells = np.zeros((*both, len(CELLS)))
    for place, choice in enumerate(CHOICES[:3]):
        cells[..., code("ambiguous", choice)] = said[..., place]
    first, second = panel_of(
        cells.sum(axis=2), InferenceSettings(n_resamples=600, prompt_effects="random"), cells
    ).estimates(BIAS)
    return first, first.subtract(second)


# --- templates that the control answers selected ---------------------------------------------------------------------


class Selected:
    """Templates of two languages, in a share of which the model guesses, and what it answered: bias and control."""

    def __init__(self, templates: int, guessed: float, generator: Generator) -> None:
        able = generator.random(templates) >= guessed
        self._ability = np.where(able, generator.uniform(0.2, 0.9, (2, templates)), 0.0)
        lean = np.where(able, 0.2, 0.0) + np.array([[0.15], [0.0]]) + generator.normal(0, 0.2, templates)
        story = generator.normal(0.1, 0.1, templates)
        both = lean + generator.normal(0, 0.15, (2, templates)) + story
        self._leans = np.clip(np.stack([both, np.broadcast_to(story, both.shape)]), -0.95, 0.95)
        self.cells = self._answers(generator)
        told = [code(context, right) for context, right in RIGHT.items() if context != "ambiguous"]
        self.kept: Array = (3 * self.cells[1][..., told].sum(axis=-1) > 12).all(axis=0)

    def _answers(self, generator: Generator) -> Array:
        """Cells of bias and control split × languages × templates."""
        named = 2 / 3 * (1 - self._ability)
        cells = np.zeros((*self._leans.shape, len(CELLS)))
        for context, right in RIGHT.items():
            persons = [named * (1 + self._leans) / 2, named * (1 - self._leans) / 2]
            chances = np.stack([*persons, np.broadcast_to(named / 2, self._leans.shape)], axis=-1)
            chances[..., CHOICES.index(right)] += self._ability
            asked = 24 if context == "ambiguous" else 6
            said = generator.multinomial(asked, chances / chances.sum(axis=-1, keepdims=True))
            for place, choice in enumerate(CHOICES[:3]):
                cells[..., code(context, choice)] += said[..., place]
        return cells

    def truths(self, *, adjusted: bool) -> tuple[float, float]:
        """The first language's score on the kept templates, and the difference; alike in told contexts."""
        lean = self._leans[0] - self._leans[1] if adjusted else self._leans[0]
        first, second = (2 / 3 * (1 - self._ability) * lean)[:, self.kept].mean(axis=1)
        return float(first), float(first - second)


def selection(runs: int) -> None:
    """Prints coverage on templates with more than a third of 12 told control questions right in both languages."""
    told = METRICS["diff_bias_disambiguated"]
    cases = ((BIAS, False, "score"), (BIAS, True, "adjusted, ambiguous"), (told, True, "adjusted, told"))
    names = [f"{name}{what}" for *_, name in cases for what in ("", ": difference")]
    head("guessed", "templates", "kept", *names)
    for guessed, templates in product((0.2, 0.6), (15, 40, 98)):
        large = Selected(200_000, guessed, np.random.default_rng(1))
        truths = [large.truths(adjusted=adjusted) for _, adjusted, _ in cases]
        generator = np.random.default_rng([templates, round(100 * guessed), runs])
        held, kept = [Held() for _ in names], 0
        for _ in range(runs):
            sample = Selected(templates, guessed, generator)
            kept += int(sample.kept.sum())
            if sample.kept.sum() < MIN_TEMPLATES:
                continue
            cells = sample.cells[:, :, sample.kept]
            panel = panel_of(cells.reshape(-1, *cells.shape[2:]), InferenceSettings(n_resamples=800))
            for place, (metric, adjusted, _) in enumerate(cases):
                first, second, control, its = panel.estimates(metric)
                if adjusted:
                    first, second = first.subtract(control), second.subtract(its)
                held[2 * place].add(first, truths[place][0])
                held[2 * place + 1].add(first.subtract(second), truths[place][1])
        row(f"{guessed:.0%}", templates, f"{kept / runs:.1f}", *held)


# --- variance components ---------------------------------------------------------------------------------------------

FACTORS = {"template": 40, "language": 3, "wording": 5}
COMPONENTS = {
    ("template",): 0.15,
    ("language",): 0.08,
    ("wording",): 0.04,
    ("template", "language"): 0.10,
    ("template", "wording"): 0.08,
    ("language", "wording"): 0.0,
    ("template", "language", "wording"): 0.12,
}
"""Factors → standard deviation of their effects."""


def components(runs: int) -> None:
    """Prints estimates and coverage of variance components whose true values are known."""
    generator = np.random.default_rng(1)
    grid = np.array(list(product(*map(range, FACTORS.values()))))
    codes: dict[tuple[str, ...], Array] = {(): np.zeros(len(grid), dtype=np.int64)}
    for term in COMPONENTS:
        columns = grid[:, [list(FACTORS).index(name) for name in term]]
        codes[term] = np.unique(columns, axis=0, return_inverse=True)[1].reshape(-1)
    inside: dict[tuple[str, ...], int] = dict.fromkeys(COMPONENTS, 0)
    found: dict[tuple[str, ...], list[float]] = {term: [] for term in COMPONENTS}
    for run in range(runs):
        scores = np.zeros(len(grid))
        for term, sd in COMPONENTS.items():
            scores += generator.normal(0, sd, codes[term].max() + 1)[codes[term]]
        estimates = estimate_components(Cells(scores, codes, None, np.ones(len(grid))), InferenceSettings(seed=run))
        for term, sd in COMPONENTS.items():
            variance, low, high = estimates[term]
            found[term].append(variance)
            inside[term] += low is not None and high is not None and low <= sd <= high
    head("component", "levels", "true sd", "root of the mean estimated variance", "coverage of 95 % intervals")
    for term, sd in COMPONENTS.items():
        mean = max(float(np.mean(found[term])), 0.0) ** 0.5
        row(" × ".join(term), codes[term].max() + 1, f"{sd:.2f}", f"{mean:.3f}", f"{inside[term] / runs:.0%}")


TABLES: dict[str, Callable[[int], None]] = {
    "metrics": metrics,
    "power": power,
    "averages": averages,
    "estimates": estimates,
    "macro": macro,
    "wordings": wordings,
    "selection": selection,
    "components": components,
}
