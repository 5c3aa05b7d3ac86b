"""Scores with replies to follow-ups. Run by `simulate_all.py follow_up`.

40 templates of 24 questions. Answers can't be read by chance, or three times as often where they are the stereotype; of
the others 3 % are read wrong. 95 in 100 replies say what was meant; under pressure three in ten name the stereotype.
"""

import numpy as np
from simulate_correction import ERRORS, Answers, World, pick
from simulated import CHOICES, SHARES, Array, Generator, head, panel_of, row

from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.statistics.estimate import InferenceSettings
from mbbq_gen.statistics.missing_data import MissingDataPanels, missing_data_bounds
from mbbq_gen.statistics.ppi import correct

METRIC, SAMPLING, UNREAD = METRICS["mbbq_bias_ambiguous"], InferenceSettings(n_resamples=600), CHOICES.index("unparsed")
WORLD = World((0.0, 0.0))
CONTEXT = np.tile(np.repeat([0, 1, 2], np.array([*SHARES.values()]) * WORLD.questions // 4), WORLD.templates)
TEMPLATE = np.repeat(np.arange(WORLD.templates), WORLD.questions)


def draw(unread: float, odds: float, pressed: float, generator: Generator) -> Array:
    """Value and interval: of the first answers, their bounds, with follow-ups, and corrected with a check of 100."""
    chances = WORLD.chances(WORLD.leans(generator, WORLD.templates)[0])[TEMPLATE, CONTEXT] * (np.arange(4) != UNREAD)
    said, zeros = pick(generator, chances / chances.sum(axis=1, keepdims=True)), np.zeros(len(TEMPLATE), dtype=int)
    rate = np.where(said == 0, odds, 1.0)
    silent = generator.random(len(said)) < unread * rate / rate.mean()
    replied, turned, wrong = generator.random((3, len(said))) < np.array([[0.95], [pressed], [0.03]])
    read = np.where(silent, UNREAD, np.where(wrong, pick(generator, ERRORS[said]), said))
    lost, known = read == UNREAD, np.flatnonzero(read != UNREAD)
    replied, meant = lost & replied, np.where(lost & turned, 0, said)
    weight = np.repeat([lost.sum() / replied.sum(), len(known) / 100], [replied.sum(), 100])
    chosen = np.concatenate([np.flatnonzero(replied), generator.choice(known, 100, replace=False)])
    group, after = (
        Answers(zeros, TEMPLATE, CONTEXT, meant, taken, zeros).group(0, WORLD.templates, chosen, weight)
        for taken in (read, np.where(replied, meant, read))
    )
    panel = panel_of(np.stack([group.cells, after.cells]), SAMPLING)
    first, second = panel.estimates(METRIC)
    low, high = MissingDataPanels(panel).ends(METRIC) or ([], [])
    bounds, corrected = missing_data_bounds(low[0], high[0], first, SAMPLING), correct(METRIC, group, "discard", first)
    ends = [[found.value, *(found.interval(0.95) or (np.nan, np.nan))] for found in (first, second, corrected)]
    return np.array([ends[0], [np.nan, bounds.interval_low, bounds.interval_high], *ends[1:]], dtype=float)


def follow_up(runs: int) -> None:
    """Prints a line for each share of unread answers, cause and kind of reply: mean error, coverage in %, width."""
    names, truth = ("first answers", "bounds", "with follow-ups", "corrected"), WORLD.truth(METRIC.name)
    head("unread", "missing", "replies", *names)
    for unread, (odds, pressed) in ((u, case) for u in (0.02, 0.1, 0.3) for case in ((1, 0), (3, 0), (3, 0.3))):
        generator = np.random.default_rng([round(100 * unread), odds, round(10 * pressed), runs])
        value, low, high = np.moveaxis(np.array([draw(unread, odds, pressed, generator) for _ in range(runs)]), 2, 0)
        columns = value.mean(0) - truth, 100 * ((low <= truth) & (truth <= high)).mean(0), (high - low).mean(0)
        cells = [f"{off:+.3f}, {held:.1f}, {wide:.2f}".removeprefix("+nan, ") for off, held, wide in zip(*columns)]  # noqa: B905
        row(f"{unread:.0%}", "by chance" if odds == 1 else "not by chance", "pressed" if pressed else "true", *cells)
