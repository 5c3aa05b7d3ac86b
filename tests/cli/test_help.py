from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from mbbq_gen.cli.main import all_commands, app
from mbbq_gen.core.config import RunConfig, setting_info
from mbbq_gen.scoring.metrics import METRICS


def commands(command: Any, names: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield names
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, (*names, name))


def shown(*names: str) -> str:
    return CliRunner().invoke(app, [*names, "--help"], prog_name="mbbq-gen", terminal_width=100).output


@pytest.mark.parametrize("names", list(commands(all_commands())), ids=" ".join)
def test_defaults_and_values_have_one_form(names: tuple[str, ...]) -> None:
    text = shown(*names)
    assert re.findall(r"<\w+>|\[default|\[required|x[<>]=|\{\w+", text) == []
    assert text.count("\nExamples:\n") == 1


def test_run_has_its_groups_in_order() -> None:
    sections = re.findall(r"^(\w[\w -]*):$", shown("run"), re.MULTILINE)
    groups = list(dict.fromkeys(setting_info(name)["group"] for name in RunConfig.model_fields))
    assert [name for name in sections if name in groups] == groups


def test_the_help_of_score_names_every_metric() -> None:
    assert [name for name in METRICS if not re.search(rf"\b{name}\b", shown("score"))] == []
