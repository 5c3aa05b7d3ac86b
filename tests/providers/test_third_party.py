"""A provider of another package, found by its entry point, asked for text and for loglikelihoods."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mbbq_gen.cli.main import run_command_line
from mbbq_gen.core.errors import ProviderError
from mbbq_gen.providers.registry import list_models, open_provider

PACKAGE = Path(__file__).parent.parent / "third_party"
SELECTION = ["--benchmark", "starter", "--languages", "en", "--variants", "letters", "--sample", "12"]


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package stands where Python looks for packages, with its entry point."""
    monkeypatch.syspath_prepend(PACKAGE)


def test_the_package_is_the_one_of_the_docs(repository: Path) -> None:
    page = (repository / "docs" / "guides" / "add-a-provider.md").read_text(encoding="utf-8")
    source = (PACKAGE / "parrot_provider.py").read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 60
    assert source.partition("\n\n")[2] in page


def test_it_is_listed_and_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert {entry.name: entry.summary for entry in list_models()}["parrot:MODEL"] == "from parrot-provider 1.0"
    run, methods = str(tmp_path / "run"), ["--method", "generate,label-loglikelihood", "--model-arg", "times=2"]
    assert run_command_line(["run", run, "--model", "parrot:B", *SELECTION, *methods, "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert done["answered"] == done["requests"] > 24
    assert run_command_line(["score", run, "--group-by", "method", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["groups"]) == 4


def test_what_it_does_not_declare_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for wrong, words in (
        (["--method", "loglikelihood"], "it supports: generate, label-loglikelihood"),
        (["--reasoning-effort", "low"], "parrot:B has no setting for reasoning effort"),
        (["--model-arg", "times=0"], "parrot: option times"),
    ):
        assert run_command_line(["run", str(tmp_path / "run"), "--model", "parrot:B", *SELECTION, *wrong]) == 2
        assert words in capsys.readouterr().err


def test_a_package_can_replace_no_kind_of_ours_and_its_faults_are_told() -> None:
    assert open_provider("oracle:perfect").kind == "oracle"
    with pytest.raises(ProviderError, match=r"provider 'broken' of parrot-provider 1\.0 can't be imported \(parrot_is"):
        open_provider("broken:x")
