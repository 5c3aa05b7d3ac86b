from __future__ import annotations

import logging
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from mbbq_gen.benchmarks.quality import KINDS
from mbbq_gen.benchmarks.registry import BENCHMARKS, load_benchmark
from mbbq_gen.core.errors import DataError
from mbbq_gen.core.records import Instance
from tests.support.cases import cases

FOLDERS = {"cabbq": "cabbq", "kobbq_all": ""}
PUBLISHED = [name for name, info in BENCHMARKS.items() if info.needs_data and FOLDERS.get(name, name)]
PARTIAL = {"mbbq", "bharatbbq", "bbg"}
AVAILABLE = {("mbbq", "en"), ("mbbq", "es"), ("bharatbbq", "en"), ("bbg", "en")}


@pytest.fixture
def own(data: Path) -> Path:
    return data / "datasets"


def shown(instance: Instance) -> str:
    """An instance in one line: id, roles in published order, role that is right, alignment, corrected role, issues."""
    letters = {"target": "t", "non_target": "n", "unknown": "u", None: "?"}
    roles = "".join(letters[option.role] for option in instance.options)
    alignment = {"biased": "biased", "counter_biased": "counter", None: "-"}[instance.alignment]
    corrected = instance.corrected_gold_role and f"→{letters[instance.corrected_gold_role]}"
    parts = (instance.instance_id, roles, letters[instance.gold_role], alignment, corrected, *instance.data_issues)
    return " ".join(filter(None, parts))


def rows(own: Path, name: str, language: str | None = None) -> list[Instance]:
    languages = None if language is None else [language]
    return list(load_benchmark(name, data=own / name, languages=languages, splits=["bias"]))


EXPECTED = tomllib.loads(
    (Path(__file__).parents[1] / "data" / "datasets" / "expected_roles.toml").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("which", EXPECTED)
def test_roles_answers_and_alignment(own: Path, which: str) -> None:
    name, _, language = which.partition("/")
    found = [shown(instance) for instance in rows(own, name, language or BENCHMARKS[name].languages[0])]
    assert found == EXPECTED[which].splitlines()


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_reader_gives_sound_instances(own: Path, name: str) -> None:
    info = BENCHMARKS[name]
    available = [language for language in info.languages if (name, language) in AVAILABLE or name not in PARTIAL]
    for language in available:
        instances = rows(own, name, language)
        assert instances
        assert len({instance.key for instance in instances}) == len(instances)
        assert {(i.benchmark, i.language) for i in instances} == {(name, language)}
        assert [Instance.model_validate_json(one.model_dump_json()) for one in instances] == instances
        for instance in instances:
            assert all(KINDS[code].loader for code in instance.data_issues)
            assert instance.template_id.startswith(instance.category + "/")
            assert {"file", "row", "category", "example_id"} == set(instance.metadata["source_row"])
            assert all(option.text == option.text.strip() for option in instance.options)


def test_bbq_without_its_template_files_goes_by_the_rows(own: Path, tmp_path: Path) -> None:
    shutil.copytree(own / "bbq" / "data", tmp_path / "data")
    with_templates = {i.key: shown(i) for i in load_benchmark("bbq", data=own / "bbq")}
    without = {i.key: i for i in load_benchmark("bbq", data=tmp_path / "data")}
    for key, instance in without.items():
        if instance.category.startswith("race_x"):
            assert not instance.has_single_target
            assert (instance.no_target_reason or "").endswith("stereotyped is not given")
        else:
            assert shown(instance) == with_templates[key]


def test_bbq_goes_by_the_authors_own_table_where_it_is(own: Path, tmp_path: Path) -> None:
    shutil.copytree(own / "bbq", tmp_path / "bbq")
    for path in (tmp_path / "bbq" / "data").glob("*.jsonl"):
        if path.stem != "Nationality":
            path.unlink()
    table = tmp_path / "bbq" / "analysis_scripts" / "additional_metadata.csv"
    table.parent.mkdir()
    # The table names the other person than the groups would, and on non-negative questions the biased answer.
    lines = [f'"Nationality","1",{row},{place},"label"' for row, place in enumerate((0, 0, 1, 1))]
    table.write_text("\n".join(['"category","question_index","example_id","target_loc","label_type"', *lines]) + "\n")
    read = list(load_benchmark("bbq", data=tmp_path / "bbq"))
    assert [shown(instance) for instance in read] == [
        "nationality/0 tnu u -",
        "nationality/1 tnu t biased",
        "nationality/2 tnu u -",
        "nationality/3 tnu n biased",
    ]
    table.write_text(table.read_text().replace('"1",0,0', '"1",0,NA'))
    assert not any(instance.has_single_target for instance in load_benchmark("bbq", data=tmp_path / "bbq"))
    table.write_text("\n".join(table.read_text().splitlines()[:1]) + "\n")
    with pytest.raises(DataError, match=r"Nationality\.jsonl:1: example_id: not in additional_metadata\.csv"):
        list(load_benchmark("bbq", data=tmp_path / "bbq"))


def test_bbq_says_which_categories_the_copy_lacks(own: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        list(load_benchmark("bbq", data=own / "bbq"))
    assert "lacks Age.jsonl, Disability_status.jsonl, Race_ethnicity.jsonl" in caplog.text


def test_unfit_parts_are_left_out_or_said(own: Path) -> None:
    unscorable = next(i for i in rows(own, "cbbq") if i.instance_id == "educational_qualification/ambiguous/1")
    assert "polarity" in (unscorable.no_target_reason or "")
    assert "\b" not in "".join(i.context for i in rows(own, "kobbq"))
    assert rows(own, "jbbq")[0].metadata["is_additional"] == 1


def test_the_languages_of_pakbbq_are_parallel(own: Path) -> None:
    english, urdu = rows(own, "pakbbq", "en"), rows(own, "pakbbq", "ur")
    assert [(i.parallel_id, shown(i)) for i in english] == [(i.parallel_id, shown(i)) for i in urdu]


BROKEN = cases("datasets/broken.toml", "case")


@pytest.mark.parametrize("case", BROKEN, ids=[f"{case['benchmark']}-{case['new']}" for case in BROKEN])
def test_broken_files_are_named(own: Path, tmp_path: Path, case: dict[str, str]) -> None:
    name = case["benchmark"]
    shutil.copytree(own / name, tmp_path / name)
    path = tmp_path / name / case["file"]
    text = path.read_text(encoding="utf-8")
    assert case["old"] in text
    path.write_text(text.replace(case["old"], case["new"], 1), encoding="utf-8")
    with pytest.raises(DataError, match=case["message"]) as caught:
        list(load_benchmark(name, data=tmp_path / name, languages=BENCHMARKS[name].languages[:1]))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("breaking", "message"),
    [
        (lambda text: text.encode("latin-1"), r":2: not UTF-8 \(byte 0x.*; save the file as UTF-8"),
        (lambda text: text[:-3].encode() + b'"', r":4: (not a table|\d+ cells|source)"),
    ],
    ids=["latin-1", "unclosed quote"],
)
def test_broken_tables_are_named(own: Path, tmp_path: Path, breaking: Callable[[str], bytes], message: str) -> None:
    shutil.copytree(own / "esbbq", tmp_path / "esbbq")
    path = tmp_path / "esbbq" / "data_es" / "Age.full.csv"
    path.write_bytes(breaking(path.read_text(encoding="utf-8")))
    with pytest.raises(DataError, match=r"Age\.full\.csv" + message):
        list(load_benchmark("esbbq", data=tmp_path / "esbbq"))
