"""What a repetition penalty does to scores: read rate, accuracy, bias and position bias of a model, by language.

    python benches/penalty_effect.py FOLDER --data-dir MBBQ [--model transformers:smollm2] [--sample 160]

Makes a run in FOLDER for each penalty (or continues it) and prints a table in Markdown with 95 % intervals over
templates. Position bias: the share of the parsed answers that choose the option shown first; 33 % without a preference.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import polars as pl

from mbbq_gen import Run
from mbbq_gen.analysis.position import read_answers
from mbbq_gen.report.tables import estimate_text, share_text
from mbbq_gen.scoring.tally import TEMPLATE, template_expression
from mbbq_gen.statistics.estimate import EstimateResult, InferenceSettings, ratio_of
from mbbq_gen.statistics.panel import resample_weights

METRICS = ("parse_rate", "accuracy_ambiguous", "accuracy_disambiguated", "mbbq_bias_ambiguous")
LANGUAGES = ("en", "es", "nl", "tr")


def first_shown(frame: pl.DataFrame, settings: InferenceSettings) -> EstimateResult:
    """The share of the parsed answers that choose the option shown first."""
    counts = read_answers(frame).group_by(template_expression()).agg((pl.col("chosen_position") == 0).sum(), pl.len())
    names, above, below = counts.sort(TEMPLATE).select(TEMPLATE, "chosen_position", "len")
    weights = resample_weights(tuple(map(str, names)), settings.n_resamples, settings.seed)
    return ratio_of(above.to_numpy(), below.to_numpy(), weights).score(settings)


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("folder", type=Path)
parser.add_argument("--data-dir", required=True)
parser.add_argument("--model", default="transformers:smollm2")
parser.add_argument("--sample", type=int, default=160)
given = parser.parse_args()
lines = []
for penalty in (1.0, 1.05, 1.1, 1.3):
    fields: dict[str, Any] = {"benchmark": "mbbq", "languages": LANGUAGES, "variants": "letters", "splits": "bias"}
    fields |= {"model": given.model, "data_dir": given.data_dir, "sample": given.sample, "max_tokens": 32}
    run = Run.create(given.folder / f"penalty-{penalty}", **fields, model_args={"repetition_penalty": penalty})
    run.execute()
    scores = {group.group["language"]: group.metrics for group in run.scores(("language",), METRICS).groups}
    frame = run.observations()
    for language in LANGUAGES:
        found = [scores[language][name] for name in METRICS]
        first = first_shown(frame.filter(pl.col("language") == language), InferenceSettings())
        shown = [*map(share_text, found[:3]), estimate_text(found[3]), share_text(first)]
        lines.append((language, penalty, f"| {language} | {penalty} | {' | '.join(shown)} |"))
print("| language | penalty | read | accuracy, ambiguous | accuracy, disambiguated | bias, ambiguous | first option |")
print("|---|---|---|---|---|---|---|", *(line for *_, line in sorted(lines)), sep="\n")
