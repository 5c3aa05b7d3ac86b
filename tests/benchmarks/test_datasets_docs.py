"""docs/datasets.md names every data issue, benchmark and data command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mbbq_gen.benchmarks.quality import KINDS
from mbbq_gen.benchmarks.registry import BENCHMARKS
from mbbq_gen.cli.data import data_app


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    return (repository / "docs" / "datasets.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", sorted(KINDS))
def test_every_code_is_explained(page: str, code: str) -> None:
    assert re.search(rf"^\|[^|]*`{code}`", page, re.M)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_is_in_the_table(page: str, name: str) -> None:
    assert re.search(rf"^\| `{name}`", page, re.M)


def test_every_command_about_data_is_there(page: str) -> None:
    names = {str(command.name) for command in data_app.registered_commands}
    assert {"list", "download", "show", "validate", "stats"} <= names
    assert all(f"mbbq-gen data {name}" in page for name in names)
