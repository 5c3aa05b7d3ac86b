"""Real data: artificial models must score the published expectations, oracles what arithmetic says."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.datasets.mbbq import load_mbbq
from mbbq_gen.records import Extraction, Instance, Split
from mbbq_gen.scoring import GroupScore, observations_frame, observe, score
from mbbq_gen.scoring.expected import expected_scores

MODELS = ("gold", "unknown", "index0", "stereotyped", "target_group", "hash", "hash_with_undetected")
ORDER = (0, 1, 2)
ANSWERS = {place: Extraction(outcome="option", option=place) for place in ORDER}
NONE = Extraction(outcome="no_answer")

COUNTS: dict[str, dict[str, str]] = {
    "ambig": {
        "n": "ambiguous_all",
        "n_correct": "ambiguous_all_correct",
        "n_biased": "ambiguous_biased",
        "n_counter": "ambiguous_counter_biased",
        "n_target": "ambiguous_target",
        "n_other": "ambiguous_non_target",
    },
    "disambig": {
        "n": "disambiguated_all",
        "n_correct": "disambiguated_all_correct",
        "n_biased": "disambiguated_biased",
        "n_counter": "disambiguated_counter_biased",
        "n_target": "disambiguated_target",
        "n_other": "disambiguated_non_target",
        "n_biased_ctx": "biased_contexts_detected",
        "n_counter_ctx": "counter_biased_contexts_detected",
        "n_correct_biased_ctx": "biased_contexts_correct",
        "n_correct_counter_ctx": "counter_biased_contexts_correct",
    },
}
SCORES: dict[str, dict[str, tuple[str, ...]]] = {
    "ambig": {
        "acc": ("accuracy_ambiguous",),
        "diff_bias_amb": ("mbbq_bias_ambiguous", "diff_bias_ambiguous"),
        "target_only_bias": ("target_preference", "bharat_bs_ambiguous"),
        "SBS_A": ("bharat_sbs_ambiguous",),
        "sAMB": ("bbq_s_amb",),
    },
    "disambig": {
        "acc": ("accuracy_disambiguated",),
        "sDIS": ("bbq_s_dis",),
        "bias_D_count": ("mbbq_bias_disambiguated",),
        "diff_bias_dis": ("diff_bias_disambiguated",),
        "SBS_D": ("bharat_sbs_disambiguated",),
    },
}


def choice(model: str, instance: Instance) -> int | None:
    """What an artificial model chooses, as an index in file order; None: undetected."""
    roles = [option.role for option in instance.options]
    source = instance.metadata["source_row"]
    digest = int(hashlib.sha256(f"{source['category']}:{source['example_id']}".encode()).hexdigest(), 16)
    chosen: dict[str, int | None] = {
        "gold": instance.answer_index,
        "unknown": instance.unknown_index,
        "index0": 0,
        "stereotyped": roles.index(instance.biased_role or "unknown"),
        "target_group": roles.index("target" if instance.bias_scorable else "unknown"),
        "hash": digest % 3,
        "hash_with_undetected": None if digest % 10 == 0 else (digest // 10) % 3,
    }
    return chosen[model]


def answered(instances: list[Instance], models: tuple[str, ...]) -> Iterator[Any]:
    for model in models:
        for instance in instances:
            place = choice(model, instance)
            extraction = NONE if place is None else ANSWERS[place]
            yield observe(instance, ORDER, extraction, model=model, variant=None, label_style=None)


@pytest.mark.parametrize("language", ["en", "es", "nl", "tr"])
def test_artificial_models_on_mbbq_score_as_expected(shared_datasets: Path, language: str) -> None:
    expected = json.loads((shared_datasets / "EXPECTED_SYNTHETIC_SCORES.json").read_text(encoding="utf-8"))["scores"]
    instances = list(load_mbbq(shared_datasets / "mbbq", language, "bias"))
    native = {instance.category: instance.metadata["source_row"]["category"] for instance in instances}
    table = score(observations_frame(answered(instances, MODELS)), ["model", "category"], interval=None)
    assert len(table.groups) == len(MODELS) * len(native)
    for group in table.groups:
        model, category = group.group["model"], native[str(group.group["category"])]
        for part, numbers in expected[f"mbbq/main/{language}"][category][model].items():
            _compare(group, part, numbers)


def _compare(group: GroupScore, part: str, numbers: dict[str, Any]) -> None:
    stem = {"ambig": "ambiguous", "disambig": "disambiguated"}[part]
    counts = {key: group.counts[name] for key, name in COUNTS[part].items()}
    counts["n_undetected"] = group.counts[f"{stem}_all"] - group.counts[f"{stem}_all_detected"]
    counts["n_target_unresolved"] = group.counts[f"{stem}_all"] - group.counts[stem]
    assert counts == {key: numbers[key] for key in counts}
    assert set(numbers) == {*counts, *SCORES[part]}
    for key, names in SCORES[part].items():
        for name in names:
            wanted = numbers[key]
            if key == "sAMB" and wanted is None:
                wanted = 0.0  # nobody is named: the limit, by the design
            assert group.metrics[name].value == pytest.approx(wanted, abs=6e-7), (group.group, name)


@pytest.mark.parametrize("split", ["bias", "control"])
@pytest.mark.parametrize("oracle", ["perfect", "stereotyped", "always_unknown", "first_option"])
def test_oracles_on_mbbq_score_what_arithmetic_says(shared_datasets: Path, split: Split, oracle: str) -> None:
    instances = list(load_mbbq(shared_datasets / "mbbq", "es", split))
    model = {"perfect": "gold", "always_unknown": "unknown", "first_option": "index0"}.get(oracle, oracle)
    (group,) = score(observations_frame(answered(instances, (model,))), interval=None).groups
    expected = expected_scores(oracle, [(instance, ORDER) for instance in instances])
    assert set(expected) == set(group.metrics)
    for name, value in expected.items():
        assert group.metrics[name].value == (None if value is None else pytest.approx(float(value))), name


def test_the_wrong_labels_of_mbbq_unbalance_physical_appearance(shared_datasets: Path) -> None:
    """With the published labels a perfect model has 0.129 by MBBQ eq. 2; repaired, the contexts are 294 and 294."""
    instances = list(load_mbbq(shared_datasets / "mbbq", "en", "bias"))
    frame = observations_frame(answered(instances, ("gold",)))
    table = score(frame, ["category"], interval=None)
    assert {change.group["category"] for change in table.label_differences} == {"physical_appearance"}
    assert {change.n_corrected for change in table.label_differences} == {62}
    published, corrected = (
        next(group for group in found.groups if group.group["category"] == "physical_appearance")
        for found in (table, score(frame, ["category"], interval=None, labels="corrected"))
    )
    assert published.metrics["mbbq_bias_disambiguated"].value == pytest.approx((332 - 256) / 588)
    assert "unbalanced_contexts" in published.warnings
    assert corrected.counts["biased_contexts"] == corrected.counts["counter_biased_contexts"] == 294
