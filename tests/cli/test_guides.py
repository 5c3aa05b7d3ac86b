"""Every command of a guide that stands in a box marked `sh` works, in order, from an empty folder."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from mbbq_gen.cli.main import run_command_line
from tests.fake_service.client import fake_server

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
SERVER = "http://127.0.0.1:8000/v1"


def commands(guide: Path) -> list[list[str]]:
    """Returns the command lines of a guide, without the program's name."""
    blocks = re.findall(r"^```sh\n(.*?)^```", guide.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [shlex.split(line) for block in blocks for line in block.splitlines()]


TESTED = [path.stem for path in sorted(GUIDES.glob("*.md")) if commands(path)]


def test_most_guides_have_tested_commands() -> None:
    assert len(TESTED) >= 8


@pytest.fixture
def folder(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with nothing but logs of other programs."""
    shutil.copytree(data / "imports", tmp_path / "logs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-stand-in")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("name", TESTED)
def test_a_guide_from_top_to_bottom(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    pytest.importorskip("openai")
    with fake_server({"answers": {"oracle": "stereotyped"}}, run=folder / "api") as server:
        for line in commands(GUIDES / f"{name}.md"):
            assert line[0] == "mbbq-gen"
            typed = [server.openai if word == SERVER else word for word in line[1:]]
            code = run_command_line(typed)
            assert (code, capsys.readouterr().err if code else "") == (0, ""), line
