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


def commands(page: str) -> list[list[str]]:
    blocks = re.findall(r"^```sh\nmbbq-gen (.*?)^```", page, re.DOTALL | re.MULTILINE)
    return [shlex.split(line) for block in blocks for line in block.removesuffix("\n").split("\nmbbq-gen ")]


TESTED = {path.stem: lines for path in sorted(GUIDES.glob("*.md")) if (lines := commands(path.read_text("utf-8")))}
assert len(TESTED) >= 8


@pytest.mark.slow
@pytest.mark.parametrize("name", TESTED)
def test_a_guide_from_top_to_bottom(
    name: str, tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("jinja2", "matplotlib", "openai"):
        pytest.importorskip(module)
    shutil.copytree(data / "imports", tmp_path / "logs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-stand-in")
    with fake_server({"answers": {"oracle": "stereotyped"}}, run=tmp_path / "api") as server:
        for line in TESTED[name]:
            code = run_command_line([server.openai if word == SERVER else word for word in line])
            assert (code, capsys.readouterr().err if code else "") == (0, ""), line
