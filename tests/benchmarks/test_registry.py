from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from mbbq_gen.benchmarks.own_file import read_instances
from mbbq_gen.benchmarks.registry import find_benchmark, load_benchmark
from mbbq_gen.core.errors import DataError, UnknownNameError, UsageError
from tests.support.questions import question


@pytest.fixture
def mbbq(data: Path) -> Path:
    return data / "datasets" / "mbbq"


def test_mistyped_name_offers_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown benchmark 'mbqb'; did you mean 'mbbq'"):
        load_benchmark("mbqb")
    assert find_benchmark("mbbq").needs_data


def test_language_or_split_that_is_not_there_names_those_that_are(mbbq: Path) -> None:
    with pytest.raises(UsageError, match=r"^mbbq has no language 'de'; it has en, nl, es, tr$"):
        load_benchmark("mbbq", data=mbbq, languages=["en", "de"])
    with pytest.raises(UsageError, match=r"^mbbq has no split 'test'; it has bias, control$"):
        load_benchmark("mbbq", data=mbbq, splits=["test"])  # type: ignore[list-item]


def test_missing_data_is_told_before_the_first_instance(mbbq: Path, tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"get them with `mbbq-gen data download mbbq`, or from https://.*--data-dir DIR"
    ):
        load_benchmark("mbbq")
    with pytest.raises(UsageError, match=r"no folder .*gone"):
        load_benchmark("mbbq", data=tmp_path / "gone")
    with pytest.raises(UsageError, match=r"no Age_control_es\.jsonl"):
        load_benchmark("mbbq", data=mbbq, languages=["en", "es"])


own_question = partial(
    question, language="nl", context="Een opa en een kleinzoon zaten op één bank.", question="Wie viel in slaap?"
)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"benchmark": "own"', r"own\.jsonl:2: benchmark: not JSON: .*; the line is cut off"),
        (own_question().model_dump_json().encode("latin-1"), r":2: context: not UTF-8 \(byte 0xe9 "),
        (b"{}", r":2: benchmark: Field required \(and \d+ more\)"),
        (own_question().model_dump_json()[:-1].encode() + b', "labels": []}', r":2: labels: unknown key"),
        (own_question().model_dump_json().encode(), r":2: instance_id: 'own/bias/nl/1' is already in row 1"),
        (
            own_question(instance_id="2")
            .model_dump_json()
            .replace('"gold_role":"unknown"', '"gold_role":"target"')
            .encode(),
            r"own\.jsonl:2: .*'target' is not the role of option 2",
        ),
    ],
)
def test_wrong_rows_are_named(tmp_path: Path, line: bytes, message: str) -> None:
    path = tmp_path / "own.jsonl"
    path.write_bytes(own_question().model_dump_json().encode() + b"\n" + line + b"\n")
    with pytest.raises(DataError, match=message) as caught:
        list(read_instances(path))
    assert "\n" not in str(caught.value)
