"""Every command of docs/walkthroughs.md works, in order, from an empty folder."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from mbbq_gen.cli.main import run_command_line
from tests.fake_service.client import fake_server

SERVER = "http://127.0.0.1:8000/v1"


def walkthroughs(repository: Path) -> dict[str, list[list[str]]]:
    """Returns heading → command lines without the program's name."""
    text = (repository / "docs" / "walkthroughs.md").read_text(encoding="utf-8")
    found = {}
    for part in text.split("\n## ")[1:]:
        blocks = re.findall(r"^```sh\n(.*?)^```", part, re.DOTALL | re.MULTILINE)
        found[part.splitlines()[0]] = [shlex.split(line) for block in blocks for line in block.splitlines()]
    return found


@pytest.fixture
def folder(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with nothing but logs of other programs."""
    shutil.copytree(data / "imports", tmp_path / "logs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-stand-in")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("number", range(5))
def test_a_walkthrough_from_top_to_bottom(
    number: int, folder: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("jinja2")
    pytest.importorskip("vl_convert")
    pytest.importorskip("openai")
    heading, commands = list(walkthroughs(repository).items())[number]
    assert commands, heading
    with fake_server({"answers": {"oracle": "stereotyped"}}, run=folder / "api") as server:
        for line in commands:
            assert line[0] == "mbbq-gen"
            typed = [server.openai if word == SERVER else word for word in line[1:]]
            code = run_command_line(typed)
            assert (code, capsys.readouterr().err if code else "") == (0, ""), line
