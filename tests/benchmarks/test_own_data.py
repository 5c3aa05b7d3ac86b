from __future__ import annotations

import csv
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbbq_gen.benchmarks.own_file import read_instances
from mbbq_gen.core.errors import DataError, MbbqGenError, UsageError
from mbbq_gen.core.records import Instance
from mbbq_gen.runs.run_folder import RunFolder
from tests.support.extraction import Capture, call, stderr_of, succeed

OWN = Path(__file__).parents[1] / "data" / "own"
BROKEN = tomllib.loads((OWN / "broken.toml").read_text(encoding="utf-8"))["case"]


def own(path: Path = OWN / "questions.csv", field_map: Path | None = OWN / "map.toml") -> list[Instance]:
    return list(read_instances(path, field_map))


def test_a_table_with_a_field_map() -> None:
    first, second, third, fourth = own()
    assert first.key == "mine/bias/nl/1"
    assert (first.template_id, first.condition, first.polarity) == ("tram", "ambiguous", "negative")
    assert [option.role for option in first.options] == ["target", "non_target", "unknown"]
    assert [option.group for option in first.options] == ["oud", "jong", None]
    expected = ("unknown", None, {"source": "https://example.org/tram"})
    assert (first.gold_role, first.alignment, first.metadata) == expected
    assert [option.role for option in second.options] == ["non_target", "unknown", "target"]
    assert (second.gold_role, second.alignment) == ("non_target", "counter_biased")
    assert (third.gold_role, third.alignment) == ("target", "counter_biased")
    assert third.metadata == {}
    assert not fourth.has_single_target
    assert fourth.no_target_reason == "no single target: the data names none"
    assert [option.role for option in fourth.options] == [None, None, "unknown"]


def rows() -> list[dict[str, str]]:
    with (OWN / "questions.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_places_counted_from_one_nested_fields_and_a_fixed_unknown_place(tmp_path: Path) -> None:
    text = (OWN / "map.toml").read_text(encoding="utf-8")
    changes = {
        'texts = ["ans0", "ans1", "ans2"]': 'texts = ["shown.0", "shown.1", "shown.2"]\ncounted_from = 1',
        'groups = ["tag0", "tag1", "tag2"]\n': "",
        'target = "target_place"': 'target = "info.target"',
        'unknown = "unknown_place"': "unknown = 3",
        'source = "url"': "",
        'ambig = "ambiguous"': 'true = "ambiguous"\n2 = "disambiguated"',
    }
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new, 1)
    (tmp_path / "map.toml").write_text(text, encoding="utf-8")
    row: dict[str, Any] = {"id": "7", "template": "t", "kind": True}
    row |= {"sign": "neg", "story": "Een dag.", "asked": "Wie?"}
    row |= {"shown": ["Ada", "Bo", "Niemand"], "info": {"target": 2}, "label": 3, "passed": "over", "subcategory": "x"}
    path = tmp_path / "own.jsonl"
    path.write_text(json.dumps(row) + "\n" + json.dumps(row | {"id": "8", "kind": 2, "label": 2.0}), encoding="utf-8")
    first, second = own(path, tmp_path / "map.toml")
    assert [option.role for option in first.options] == ["non_target", "target", "unknown"]
    assert (first.gold_role, first.subcategory, first.options[0].group) == ("unknown", "x", None)
    assert (second.gold_role, second.alignment) == ("target", "biased")


@pytest.mark.parametrize("case", BROKEN, ids=[case["says"] for case in BROKEN])
def test_what_is_wrong_is_named_by_file_row_and_field(tmp_path: Path, case: dict[str, str]) -> None:
    for name in ("questions.csv", "map.toml"):
        text = (OWN / name).read_text(encoding="utf-8")
        if name == case["in"]:
            assert case["from"] in text
            text = text.replace(case["from"], case["to"], 1)
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(MbbqGenError, match=case["says"]) as caught:
        own(tmp_path / "questions.csv", tmp_path / "map.toml")
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


def flat(instance: Instance) -> dict[str, Any]:
    record = instance.model_dump(mode="json")
    cells = {name: value for name, value in record.items() if name not in ("options", "metadata", "data_issues")}
    for place, option in enumerate(record["options"]):
        cells |= {f"options.{place}.{name}": value for name, value in option.items()}
    cells |= {f"metadata.{name}": value for name, value in record["metadata"].items()}
    return {**cells, "data_issues": json.dumps(record["data_issues"])}


def whole(instance: Instance) -> dict[str, Any]:
    record = instance.model_dump(mode="json")
    return {name: json.dumps(value) if isinstance(value, list | dict) else value for name, value in record.items()}


def write_table(path: Path, records: list[dict[str, Any]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(dict.fromkeys(name for record in records for name in record)))
        writer.writeheader()
        writer.writerows(records)
    return path


@pytest.mark.parametrize("form", [flat, whole])
def test_our_fields_in_a_table_give_the_same_questions(tmp_path: Path, form: Any) -> None:
    changes = {"metadata": {"source": "s"}, "data_issues": ("odd",)}
    instances = [instance.model_copy(update=changes) for instance in own()]
    assert own(write_table(tmp_path / "own.csv", [form(instance) for instance in instances]), None) == instances


def test_a_column_that_we_do_not_know_is_refused(tmp_path: Path) -> None:
    path = write_table(tmp_path / "own.csv", [{**flat(own()[0]), "metadata.source": "", "labels": "A"}])
    with pytest.raises(DataError, match=r"own\.csv:2: labels: unknown key"):
        own(path, None)
    path = write_table(tmp_path / "own.csv", [{**whole(own()[0]), "options": "[{"}])
    with pytest.raises(DataError, match=r"own\.csv:2: options: not JSON"):
        own(path, None)


def test_parquet_streams_and_counts_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mbbq_gen.core.tables._BATCH", 3)
    records = [{**rows()[0], "id": str(number)} for number in range(1, 8)]
    path = tmp_path / "own.parquet"
    polars.DataFrame(records).write_parquet(path)
    assert [instance.instance_id for instance in own(path)] == [str(number) for number in range(1, 8)]
    polars.DataFrame([*records, {**records[0], "id": "8", "sign": "maybe"}]).write_parquet(path)
    with pytest.raises(DataError, match=r"own\.parquet:8: sign: 'maybe' is not among neg, nonneg"):
        own(path)


@settings(max_examples=60)
@given(
    st.dictionaries(
        st.sampled_from(
            ["id", "template", "kind", "sign", "story", "asked", "ans0", "target_place", "unknown_place", "label"]
        ),
        st.one_of(
            st.none(), st.text(max_size=4), st.integers(-3, 5), st.booleans(), st.lists(st.integers(), max_size=2)
        ),
    )
)
def test_whatever_a_row_holds_it_is_read_or_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, changes: dict[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("own") / "own.jsonl"
    path.write_text(json.dumps({**rows()[0], **changes}), encoding="utf-8")
    try:
        said = str(own(path)[0].condition)
    except DataError as error:
        said = str(error)
    assert said in ("ambiguous", "disambiguated") or re.fullmatch(r"[^\n]*own\.jsonl:1: [^\n]+", said)


FILES = ("--instances", OWN / "questions.csv", "--instances-field-map", OWN / "map.toml")


def test_own_data_can_be_asked(tmp_path: Path, capsys: Capture) -> None:
    given = ["--model", "oracle:stereotyped", *FILES, "--variants", "bare", "--json"]
    code, out, _ = call(capsys, "run", tmp_path / "run", *given)
    assert (code, json.loads(out)["prompts"]) == (0, 4)
    manifest = RunFolder(tmp_path / "run").manifest()
    assert set(manifest.file_digests) == {"instances/questions.csv", "instances/map.toml"}
    assert manifest.config.benchmarks[0].field_map == str(OWN / "map.toml")
    assert call(capsys, "run", tmp_path / "run")[0] == 0


def test_own_data_can_be_shown_audited_and_counted(capsys: Capture) -> None:
    def printed(*arguments: object) -> str:
        return succeed(capsys, "data", *arguments, *FILES)

    assert "De opa  [target, oud, biased]" in printed("show", "--limit", 4)
    assert len(printed("show", "--json", "--languages", "nl").splitlines()) == 4
    found = json.loads(printed("validate", "--json"))
    assert {"no_single_target", "contexts_unbalanced"} <= {finding["code"] for finding in found["findings"]}
    assert json.loads(printed("stats", "--json"))[-1]["rows"] == 4


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("data", "show", "mbbq", *FILES), "--instances"),
        (("data", "stats", *FILES, "--data-dir", "x"), "--instances"),
        (("data", "validate", "starter", "--instances-field-map", "x.toml"), "--instances"),
        (("run", "r", "--model", "oracle:perfect", "--benchmark", "starter", "--instances-field-map", "x"), "-map"),
        (("run", "r", "--model", "oracle:perfect", "--benchmark", "starter", *FILES), "--instances"),
        (("data", "validate"), "--instances"),
    ],
)
def test_options_that_contradict_each_other(capsys: Capture, arguments: tuple[object, ...], says: str) -> None:
    assert says in stderr_of(capsys, *arguments)


def test_missing_files_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no file .*gone\.csv"):
        read_instances(tmp_path / "gone.csv")
    with pytest.raises(UsageError, match=r"--instances-field-map .*gone\.toml: no such file"):
        read_instances(OWN / "questions.csv", tmp_path / "gone.toml")


def test_what_is_no_parquet_is_told_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "own.parquet"
    path.write_text("not at all", encoding="utf-8")
    with pytest.raises(DataError, match=r"own\.parquet: not a Parquet file: ") as caught:
        own(path)
    assert "\n" not in str(caught.value)
