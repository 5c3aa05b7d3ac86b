from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from mbbq_gen.benchmarks.own_file import read_instances
from mbbq_gen.benchmarks.templates import STARTER_FOLDER, load_template_folder
from mbbq_gen.cli.command import add_command
from mbbq_gen.cli.data import Instantiate
from mbbq_gen.core.errors import PackError

app = typer.Typer()
add_command(app, "instantiate", Instantiate)
GOOD = Path(__file__).parents[1] / "data" / "templates" / "good"


def call(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(each) for each in arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    output = tmp_path / "questions.jsonl"
    printed = call(GOOD, "-o", output, "--languages", "en")
    assert printed.splitlines()[-1].split() == ["tiny", "en", "bias", "ses", "12"]
    assert list(read_instances(output)) == list(load_template_folder(GOOD, languages=["en"]))
    before = output.read_bytes()
    call(GOOD, "-o", output, "--languages", "en")
    assert output.read_bytes() == before


def test_both_splits(tmp_path: Path) -> None:
    output = tmp_path / "questions.jsonl"
    summary = json.loads(call(STARTER_FOLDER, "-o", output, "--languages", "en", "--splits", "bias,control", "--json"))
    assert summary["questions"] == 2 * 864
    assert {each["split"] for each in summary["counts"]} == {"bias", "control"}


def test_a_broken_template_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(GOOD, tmp_path / "mine"))
    (folder / "nl.toml").write_text("unknown = []", encoding="utf-8")
    with pytest.raises(PackError, match=r"nl\.toml"):
        call(folder, "-o", tmp_path / "questions.jsonl", "--languages", "en")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine"]
