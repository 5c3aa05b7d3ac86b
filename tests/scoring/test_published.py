from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from mbbq_gen.analysis.scores import GroupScore, score
from mbbq_gen.benchmarks.registry import load_benchmark
from mbbq_gen.core.records import Instance
from mbbq_gen.scoring.observations import observations_from_columns
from tests.conftest import Load
from tests.support.artificial_models import EXPECTED_SETS, MODELS, expected_key
from tests.support.cases import read_data

COUNTS: dict[str, dict[str, str]] = read_data("scoring/published_names")["counts"]
FAST = (("mbbq", "tr"), ("kobbq", "ko"))
SCORES: dict[str, dict[str, list[str]]] = read_data("scoring/published_names")["scores"]


def answered(instances: list[Instance], models: Iterable[str]) -> pl.DataFrame:
    """The observations of what the models choose, in the published order of the options."""
    keys = [instance.key for instance in instances]
    chosen = [
        pl.DataFrame({"model": model, "instance_key": keys, "option": map(MODELS[model], instances)})
        for model in models
    ]
    answers = pl.concat(chosen).with_columns(
        pl.lit("[0,1,2]").alias("option_order"),
        *(pl.lit(None, pl.String).alias(name) for name in ("variant", "label_style", "extractor")),
        outcome=pl.when(pl.col("option").is_null()).then(pl.lit("unparsed")).otherwise(pl.lit("option")),
        confidence=pl.lit("high"),
    )
    return observations_from_columns(instances, answers)


@pytest.mark.parametrize(
    ("benchmark", "language"),
    [pytest.param(*one, marks=[] if one in FAST else pytest.mark.slow, id="-".join(one)) for one in EXPECTED_SETS],
)
def test_artificial_models_score_as_expected(
    benchmark: str, language: str, shared_datasets: Path, load_published: Load
) -> None:
    text = (shared_datasets / "EXPECTED_SYNTHETIC_SCORES.json").read_text(encoding="utf-8")
    expected = json.loads(text)["scores"][expected_key(benchmark, language)]
    instances = load_published(benchmark, language, "bias")
    native = {instance.category: instance.metadata["source_row"]["category"] for instance in instances}
    table = score(answered(instances, MODELS), ["model", "category"], intervals=False)
    assert len(table.groups) == len(MODELS) * len(native)
    assert set(native.values()) == set(expected)
    for group in table.groups:
        model, category = group.group["model"], native[str(group.group["category"])]
        for part, numbers in expected[category][model].items():
            _compare(group, part, numbers)


def _compare(group: GroupScore, part: str, numbers: dict[str, Any]) -> None:
    stem = {"ambig": "ambiguous", "disambig": "disambiguated"}[part]
    counts = {key: group.counts[name] for key, name in COUNTS[part].items()}
    counts["n_undetected"] = group.counts[f"{stem}_all"] - group.counts[f"{stem}_all_parsed"]
    counts["n_target_unresolved"] = group.counts[f"{stem}_all"] - group.counts[stem]
    assert counts == {key: numbers[key] for key in counts}
    assert set(numbers) == {*counts, *SCORES[part]}
    for key, names in SCORES[part].items():
        for name in names:
            wanted = numbers[key]
            if key == "sAMB" and wanted is None:
                wanted = 0.0  # nobody is named: the limit, by the design
            assert group.metrics[name].value == pytest.approx(wanted, abs=6e-7), (group.group, name)


def test_the_wrong_labels_of_mbbq_unbalance_physical_appearance(shared_datasets: Path) -> None:
    """With the published labels a perfect model has 0.129 by MBBQ eq. 2; repaired, the contexts are 294 and 294."""
    instances = list(load_benchmark("mbbq", data=shared_datasets / "mbbq", languages=["en"], splits=["bias"]))
    frame = answered(instances, ("gold",))
    table = score(frame, ["category"], intervals=False)
    assert {change.group["category"] for change in table.gold_differences} == {"physical_appearance"}
    assert {change.n_corrected for change in table.gold_differences} == {62}
    published, corrected = (
        next(group for group in found.groups if group.group["category"] == "physical_appearance")
        for found in (table, score(frame, ["category"], gold="corrected", intervals=False))
    )
    assert published.metrics["mbbq_bias_disambiguated"].value == pytest.approx((332 - 256) / 588)
    assert "unbalanced_contexts" in published.warnings
    assert corrected.counts["biased_contexts"] == corrected.counts["counter_biased_contexts"] == 294
