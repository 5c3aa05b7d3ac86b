from __future__ import annotations

from pathlib import Path

import pytest

from mbbq_gen.benchmarks.registry import find_benchmark, load_benchmark
from mbbq_gen.core.errors import UnknownNameError, UsageError


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
