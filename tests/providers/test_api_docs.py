from __future__ import annotations

import re
from pathlib import Path

import pytest

from mbbq_gen.cli.main import run_command_line
from tests.fake_service.client import fake_server
from tests.support.api import KEY
from tests.support.cases import known
from tests.support.extraction import Capture, json_of, stderr_of


def installed(repository: Path, kind: str, folder: Path) -> None:
    page = (repository / "docs" / "guides" / "add-a-provider.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (source,) = [block for block in blocks if f'kind = "{kind}"' in block]
    assert len(source.splitlines()) <= 40
    (folder / f"{kind}_provider.py").write_text(source, encoding="utf-8")
    metadata = folder / f"{kind}_provider-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {kind}-provider\nVersion: 1.0\n")
    entry = known(re.search(rf'\b({kind}) = "(.*)"', page))
    (metadata / "entry_points.txt").write_text(f"[mbbq_gen.providers]\n{entry[1]} = {entry[2]}\n")


def test_the_provider_behind_an_api_runs_against_a_server_with_faults(
    repository: Path, tmp_path: Path, run_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    installed(repository, "acme", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    selection = ["--benchmark", "starter", "--languages", "en", "--variants", "polite", "--sample", "12"]
    scenario = {
        "answers": {"oracle": "stereotyped"},
        "faults": {"rate_limited": 0.2, "retry_after_s": 0.1, "server_error": 0.1, "cut": 0.1, "malformed": 0.1},
        "access": {"key": KEY, "refused_parameters": ["max_tokens"]},
    }
    with fake_server(scenario, run=run_path) as server:
        command = ["run", str(run_path), "--model", "acme:fake", "--base-url", server.openai, *selection, "--json"]
        monkeypatch.delenv("ACME_API_KEY", raising=False)
        assert run_command_line(["run", str(run_path), "--model", "acme:fake", *selection]) == 2
        assert "acme:fake: no key; set ACME_API_KEY" in capsys.readouterr().err
        monkeypatch.setenv("ACME_API_KEY", "sk-wrong-0123456789")
        assert "refuses the key in ACME_API_KEY" in stderr_of(capsys, *command, code=1)
        monkeypatch.setenv("ACME_API_KEY", KEY)
        assert json_of(capsys, *command)["answered"] == 24
        assert server.stats().by_fault
    groups = json_of(capsys, "score", run_path, "--group-by", "split")["groups"]
    assert [group["metrics"]["mbbq_bias_ambiguous"]["value"] for group in groups] == [1.0, 1.0]
