"""Every command that the tutorial shows works, in the order in which it is shown."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from mbbq_gen.cli import run_command_line

TUTORIAL = Path(__file__).parent.parent / "docs" / "tutorial.md"


def commands() -> list[list[str]]:
    """The command lines of the page, without the program's name."""
    blocks = re.findall(r"^```sh\n(.*?)^```", TUTORIAL.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    lines = [shlex.split(line) for block in blocks for line in block.splitlines()]
    assert len(lines) > 10
    assert {line[0] for line in lines} == {"mbbq-gen"}
    return [line[1:] for line in lines]


@pytest.mark.model
@pytest.mark.slow
def test_the_tutorial_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in commands():
        code = run_command_line(command)
        assert (code, capsys.readouterr().err if code else "") == (0, ""), command
    run_command_line(["report", "rehearsal"])
    assert "+1.00" in capsys.readouterr().out
    assert Path("sheet.csv").read_text(encoding="utf-8").count("\n") > 20
    assert "<html" in Path("first.html").read_text(encoding="utf-8")
    assert {path.suffix for path in Path("figures").iterdir()} >= {".svg", ".png", ".pdf", ".tex", ".md"}
