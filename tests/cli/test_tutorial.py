from __future__ import annotations

from pathlib import Path

import pytest

from mbbq_gen.cli.main import run_command_line
from mbbq_gen.core.files import CACHE_VARIABLE
from mbbq_gen.providers.local.files import ModelSource
from tests.cli.test_guides import commands
from tests.conftest import FULL

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"
SHORTER = {
    "--sample 16": "--sample 2",
    "--max-tokens 24": "--max-tokens 8",
    "--variants letters --splits bias,control\n": "--variants letters --splits bias,control --sample 48\n",
}
"""Text of the page → smaller run, except in the full proof."""


@pytest.mark.model
@pytest.mark.slow
def test_the_tutorial_from_top_to_bottom(
    small_model: ModelSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(CACHE_VARIABLE, str(Path(small_model.location).parent.parent))
    text = TUTORIAL.read_text(encoding="utf-8")
    for whole, shorter in ({} if FULL else SHORTER).items():
        assert whole in text
        text = text.replace(whole, shorter)
    assert len(commands(text)) > 10
    for command in commands(text):
        code = run_command_line(command)
        assert (code, capsys.readouterr().err if code else "") == (0, ""), command
    run_command_line(["report", "rehearsal"])
    assert "+1.00" in capsys.readouterr().out
    assert Path("sheet.csv").read_text(encoding="utf-8").count("\n") > (20 if FULL else 10)
    assert "<html" in Path("first.html").read_text(encoding="utf-8")
    assert {path.suffix for path in Path("figures").iterdir()} >= {".svg", ".png", ".pdf", ".tex", ".csv"}
