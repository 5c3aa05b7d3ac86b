"""docs/datasets.md names every code that the audit may give, every benchmark, and examples that can be typed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mbbq_gen.datasets.audit import KINDS
from mbbq_gen.datasets.registry import BENCHMARKS


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
    from mbbq_gen.cli.data import app

    names = {str(command.name) for command in app.registered_commands}
    assert {"list", "pull", "show", "audit", "stats"} <= names
    assert all(f"mbbq-gen data {name}" in page for name in names)
