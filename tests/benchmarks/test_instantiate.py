from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from mbbq_gen.benchmarks.own_file import read_instances
from mbbq_gen.benchmarks.templates.fill import find_template_format, load_template_folder, starter_folder
from mbbq_gen.cli.command import add_command
from mbbq_gen.cli.data import Instantiate
from mbbq_gen.core.errors import DataError
from tests.support.templates import SUPPER, write_workbook

app = typer.Typer()
add_command(app, "instantiate", Instantiate)


def call(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(each) for each in arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


@pytest.fixture
def esbbq(tmp_path: Path) -> Path:
    write_workbook(tmp_path / "esbbq" / "Age.xlsx", [SUPPER])
    return tmp_path / "esbbq"


def test_forms_are_found_out(esbbq: Path, tmp_path: Path) -> None:
    assert find_template_format(esbbq) == ("esbbq", esbbq)
    checkout = tmp_path / "checkout"
    write_workbook(checkout / "templates" / "Age.xlsx", [SUPPER])
    assert find_template_format(checkout) == ("esbbq", checkout / "templates")
    assert find_template_format(starter_folder()) == ("starter", starter_folder())
    assert {each.benchmark for each in load_template_folder(esbbq)} == {"esbbq", "cabbq"}


def test_what_is_written_is_read_back(esbbq: Path, tmp_path: Path) -> None:
    output = tmp_path / "questions.jsonl"
    printed = call(esbbq, "-o", output, "--languages", "es")
    assert printed.splitlines()[-1].split() == ["esbbq", "es", "bias", "age", "12"]
    assert list(read_instances(output)) == list(load_template_folder(esbbq, languages=["es"]))
    before = output.read_bytes()
    call(esbbq, "-o", output, "--languages", "es")
    assert output.read_bytes() == before


def test_both_splits_of_our_own_form(tmp_path: Path) -> None:
    output = tmp_path / "questions.jsonl"
    summary = json.loads(
        call(starter_folder(), "-o", output, "--languages", "en", "--splits", "bias,control", "--json")
    )
    assert summary["questions"] == 2 * 864
    assert {each["split"] for each in summary["counts"]} == {"bias", "control"}


def test_a_broken_template_leaves_nothing_behind(esbbq: Path, tmp_path: Path) -> None:
    write_workbook(esbbq / "SES.xlsx", [SUPPER, {**SUPPER, "names_es": "NAME1: [a"}])
    output = tmp_path / "questions.jsonl"
    with pytest.raises(DataError, match=r"SES\.xlsx:3: names: broken list"):
        call(esbbq, "-o", output, "--languages", "es")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["esbbq"]
