"""docs/providers.md: its provider runs, its description of an endpoint is one, and it names every option."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mbbq_gen.cli import run_command_line
from mbbq_gen.providers.http_api import read_description
from mbbq_gen.providers.registry import KINDS


def blocks(repository: Path, language: str) -> list[str]:
    text = (repository / "docs" / "providers.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_provider_of_the_page_runs(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (source,) = blocks(repository, "python")
    assert len(source.splitlines()) <= 40
    (tmp_path / "parrot_provider.py").write_text(source, encoding="utf-8")
    metadata = tmp_path / "parrot_provider-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: parrot-provider\nVersion: 1.0\n")
    entry = re.search(r'(parrot) = "(.*)"', "".join(blocks(repository, "toml")))
    assert entry is not None
    (metadata / "entry_points.txt").write_text(f"[mbbq_gen.providers]\n{entry[1]} = {entry[2]}\n")
    monkeypatch.syspath_prepend(tmp_path)
    arguments = ["--benchmark", "starter", "--languages", "en", "--variants", "polite", "--sample", "6"]
    more = ["--model", "parrot:B", "--option", "times=2", "--json"]
    assert run_command_line(["run", str(tmp_path / "run"), *arguments, *more]) == 0
    assert json.loads(capsys.readouterr().out)["answered"] == 12


def test_the_endpoint_of_the_page_is_one(repository: Path, tmp_path: Path) -> None:
    path = tmp_path / "endpoint.toml"
    path.write_text(next(block for block in blocks(repository, "toml") if "[answer]" in block), encoding="utf-8")
    described = read_description(path)
    assert described.answer.text == "outputs.0.text"
    assert described.finish_reasons.content_filter == ("blocked",)


def test_every_kind_behind_an_api_is_on_the_page(repository: Path) -> None:
    text = (repository / "docs" / "providers.md").read_text(encoding="utf-8")
    for kind, found in KINDS.items():
        if found.target.startswith("mbbq_gen.providers.") and "_api:" in found.target:
            assert f"`{kind}:" in text
            assert str(found.install) in text
