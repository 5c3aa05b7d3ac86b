from __future__ import annotations

import shutil
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.benchmarks.templates import instantiate, load_templates
from mbbq_gen.core.errors import PackError, UnknownNameError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Instance
from tests.support.cases import cases

DATA = Path(__file__).parents[1] / "data" / "templates"
GOOD = DATA / "good"
FAULTS: list[dict[str, Any]] = tomllib.loads((DATA / "faults.toml").read_text(encoding="utf-8"))["fault"]


def by_id(language: str) -> dict[str, Instance]:
    return {
        instance.instance_id: instance
        for instance in instantiate(load_templates(GOOD), language, ["bias"], PackPaths())
    }


def test_each_story_gives_twelve_questions() -> None:
    instances = list(instantiate(load_templates(GOOD), "en", ["bias"], PackPaths()))
    stories = Counter((instance.template_id, instance.metadata["filler"]) for instance in instances)
    assert stories == {("age_01", "runner"): 12, ("age_01", "swimmer"): 12, ("ses_01", "guest"): 12}
    assert len({instance.instance_id for instance in instances}) == 36
    kinds = Counter(
        (instance.metadata["order_of_mention"], instance.condition, instance.polarity, instance.alignment)
        for instance in instances
        if instance.template_id == "ses_01"
    )
    assert len(kinds) == 12


@pytest.mark.parametrize(
    ("instance_id", "context", "gold_role"), cases("benchmarks/templates", "disambiguated_instance")
)
def test_disambiguated_instance(instance_id: str, context: str, gold_role: str) -> None:
    instance = by_id("en")[instance_id]
    assert instance.context == context
    assert instance.gold_role == gold_role
    assert instance.alignment == instance_id.rsplit(".", 1)[1]


@pytest.mark.parametrize("fault", FAULTS, ids=[fault["id"] for fault in FAULTS])
def test_faults_are_found(fault: dict[str, Any], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(GOOD, tmp_path / "templates"))
    file = folder / fault["file"]
    text = file.read_text(encoding="utf-8")
    assert fault["old"] in text, "the fault no longer fits the folder `good`"
    file.write_text(text.replace(fault["old"], fault["new"], 1), encoding="utf-8")
    with pytest.raises(PackError) as raised:
        load_templates(folder)
    line = str(raised.value)
    assert line.startswith(str(folder))
    assert all(word in line for word in fault["finding"]), line
    assert "\n" not in line


def test_files_that_are_missing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no templates\.toml in it"):
        load_templates(tmp_path)
    shutil.copy(GOOD / "templates.toml", tmp_path)
    with pytest.raises(PackError, match=r"no language file beside templates\.toml"):
        load_templates(tmp_path)


def test_unknown_language() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown language 'fr'; known: en, nl \(benchmark tiny\)"):
        instantiate(load_templates(GOOD), "fr", ["bias"], PackPaths())


def test_options_are_balanced_over_places() -> None:
    """Over a template with few fillers too: no place goes with a role."""
    for template in ("age_01", "ses_01"):
        instances = [instance for instance in by_id("en").values() if instance.template_id == template]
        counts = Counter((place, option.role) for one in instances for place, option in enumerate(one.options))
        assert max(counts.values()) - min(counts.values()) <= 6
        assert len(counts) == 9
