"""Every command that the tutorial shows works, in the order in which it is shown."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from mbbq_gen.cli import run_command_line
from mbbq_gen.providers.local_source import ModelSource
from mbbq_gen.resources import CACHE_VARIABLE
from tests.conftest import FULL

TUTORIAL = Path(__file__).parent.parent / "docs" / "tutorial.md"
SHORTER = {
    "--sample 16": "--sample 2",
    "--max-new-tokens 24": "--max-new-tokens 8",
    "--variants letters --splits bias,control\n": "--variants letters --splits bias,control --sample 48\n",
}
"""What is asked unless all is to be proven: fewer questions, and shorter answers of the real model."""


def commands() -> list[list[str]]:
    """The command lines of the page, without the program's name."""
    text = TUTORIAL.read_text(encoding="utf-8")
    for whole, shorter in ({} if FULL else SHORTER).items():
        assert whole in text
        text = text.replace(whole, shorter)
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [shlex.split(line) for block in blocks for line in block.splitlines()]
    assert len(lines) > 10
    assert {line[0] for line in lines} == {"mbbq-gen"}
    return [line[1:] for line in lines]


@pytest.mark.model
@pytest.mark.slow
def test_the_tutorial_from_top_to_bottom(
    small_model: ModelSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(CACHE_VARIABLE, str(Path(small_model.location).parent.parent))
    for command in commands():
        code = run_command_line(command)
        assert (code, capsys.readouterr().err if code else "") == (0, ""), command
    run_command_line(["report", "rehearsal"])
    assert "+1.00" in capsys.readouterr().out
    assert Path("sheet.csv").read_text(encoding="utf-8").count("\n") > (20 if FULL else 10)
    assert "<html" in Path("first.html").read_text(encoding="utf-8")
    assert {path.suffix for path in Path("figures").iterdir()} >= {".svg", ".png", ".pdf", ".tex", ".md"}
