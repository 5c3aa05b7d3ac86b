from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from mbbq_gen.analysis.power import SHAPES
from mbbq_gen.core.records import Instance
from tests.conftest import Load
from tests.support.artificial_models import expected_key
from tests.support.cases import cases

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def published(request: pytest.FixtureRequest, load_published: Load) -> list[Instance]:
    """The instances of a benchmark and language, named by the test: read once, then all tests of them in a row."""
    name, language = request.param
    return load_published(name, language, "bias")


def about(*sets: tuple[str, str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "published", sets, indirect=True, ids=[f"{name}-{language}" for name, language in sets]
    )


def native(instance: Instance) -> str:
    return str(instance.metadata["source_row"]["category"])


def counts(instances: list[Instance]) -> dict[str, int]:
    found = Counter(n=len(instances), templates=len({instance.template_id for instance in instances}))
    for instance in instances:
        found["ambig" if instance.condition == "ambiguous" else "disambig"] += 1
        found["neg" if instance.polarity == "negative" else "nonneg"] += 1
        found["target_unresolved"] += not instance.has_single_target
        if instance.condition == "disambiguated":
            kind = {"biased": "biased", "counter_biased": "counter", None: "unresolved"}[instance.alignment]
            found[f"disambig_{kind}"] += 1
    return {key: count for key, count in found.items() if count}


@about(("bbq", "en"), ("esbbq", "es"), ("kobbq", "ko"))
def test_power_knows_the_templates(published: list[Instance]) -> None:
    asked = [found for found in published if found.condition == "ambiguous" and found.has_single_target]
    sizes = Counter((found.category, found.template_id) for found in asked).values()
    shape = SHAPES[published[0].benchmark]
    assert shape.templates == len(sizes)
    assert shape.questions == pytest.approx(sum(sizes) / len(sizes), abs=0.05)
    effective = sum(sizes) ** 2 / sum(size**2 for size in sizes)
    assert shape.effective_share == pytest.approx(effective / len(sizes), abs=0.001)


@about(("bbq", "en"), ("esbbq", "es"), ("cabbq", "ca"), ("kobbq", "ko"))
def test_counts(published: list[Instance], shared_datasets: Path) -> None:
    name = published[0].benchmark
    text = (shared_datasets / "EXPECTED_COUNTS.json").read_text(encoding="utf-8")
    expected = json.loads(text)[expected_key(name, published[0].language)]
    assert {native(instance) for instance in published} == set(expected)
    for category, numbers in expected.items():
        # Left out: what the naive match of groups would give, and templates where the expected file has none.
        wanted = {field: number for field, number in numbers.items() if isinstance(number, int)}
        found = counts([instance for instance in published if native(instance) == category])
        if "templates" not in wanted:
            found.pop("templates")
        assert found == wanted, category


ROWS = {(name, language): (rows, lone) for name, language, rows, lone in cases("benchmarks/published", "rows")}
"""Rows in the files at hand, and how many of them have no single target."""


@about(*ROWS)
def test_rows_and_targets(published: list[Instance]) -> None:
    which = published[0].benchmark, published[0].language
    assert (len(published), sum(not instance.has_single_target for instance in published)) == ROWS[which]
    assert len({instance.key for instance in published}) == len(published)


DEFECTS: dict[str, Callable[[Instance], bool]] = {
    "same_gender_pair": lambda i: not i.has_single_target and i.category == "gender_identity",
    "wrong_gold_label": lambda i: i.corrected_gold_role is not None,
    "stereotyped_group_in_ans1": lambda i: i.benchmark in ("esbbq", "cabbq") and i.options[1].role == "target",
    "wrong_question_type": lambda i: "alignment_mismatch" in i.data_issues,
    "control_char_U+0008": lambda i: "control_character" in i.data_issues,
}


@about(("bbq", "en"), ("esbbq", "es"), ("cabbq", "ca"), ("kobbq", "ko"))
def test_known_defects_come_out_and_no_others(published: list[Instance], shared_datasets: Path) -> None:
    issues = json.loads((shared_datasets / "KNOWN_ISSUES.json").read_text(encoding="utf-8"))
    expected = {issue["code"]: issue["row_ids"] for issue in issues if issue["dataset"] == published[0].benchmark}
    for code, holds in DEFECTS.items():
        found = [instance.metadata["source_row"]["example_id"] for instance in published if holds(instance)]
        assert found == expected.get(code, []), code


CROSSED = {(name, language): rows for name, language, rows in cases("benchmarks/published", "crossed")}
"""Rows by template whose two people have each other's groups."""


@about(*CROSSED)
def test_crossed_groups(published: list[Instance]) -> None:
    which = published[0].benchmark, published[0].language
    crossed = [instance for instance in published if instance.groups_swapped]
    assert Counter(instance.template_id for instance in crossed) == CROSSED[which]
    assert {instance.key for instance in crossed} == {i.key for i in published if "groups_swapped" in i.data_issues}


@about(("cbbq", "zh"))
def test_cbbq_targets_agree_with_every_disambiguated_label(published: list[Instance]) -> None:
    alignments = Counter(i.alignment for i in published if i.condition == "disambiguated")
    assert alignments == {"counter_biased": 17_860}
