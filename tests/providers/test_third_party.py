"""A provider of another package, found by its entry point, asked for text and for loglikelihoods."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mbbq_gen.cli.main import run_command_line
from mbbq_gen.core.errors import UsageError
from mbbq_gen.providers.api.batch_apis import supports_batches
from mbbq_gen.providers.registry import open_provider

PACKAGE = Path(__file__).parent.parent / "third_party"
SELECTION = ["--benchmark", "starter", "--languages", "en", "--variants", "letters", "--sample", "12"]


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package stands where Python looks for packages, with its entry point."""
    monkeypatch.syspath_prepend(PACKAGE)


def test_the_package_is_the_one_of_the_docs(repository: Path) -> None:
    source = (PACKAGE / "parrot_provider.py").read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 60
    assert source.partition("\n\n")[2] in (repository / "docs" / "providers.md").read_text(encoding="utf-8")


def test_it_is_listed_and_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["models", "--json"]) == 0
    listed = {entry["name"]: entry["summary"] for entry in json.loads(capsys.readouterr().out)}
    assert listed["parrot:MODEL"] == "from parrot-provider 1.0"
    run = tmp_path / "run"
    methods = ["--method", "generate,label-loglikelihood"]
    command = ["run", str(run), "--model", "parrot:B", *SELECTION, *methods, "--model-arg", "times=2", "--json"]
    assert run_command_line(command) == 0
    done = json.loads(capsys.readouterr().out)
    assert done["answered"] == done["requests"] > 24
    assert json.loads((run / "manifest.json").read_text(encoding="utf-8"))["provider_settings"] == {"times": 2}
    assert run_command_line(["score", str(run), "--group-by", "method", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["groups"]) == 4


def test_what_it_does_not_declare_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", str(tmp_path / "run"), "--model", "parrot:B", *SELECTION]
    for wrong, words in (
        (
            ["--method", "loglikelihood"],
            "parrot:B can't be asked so; it can be asked by: generate, label-loglikelihood",
        ),
        (["--reasoning-effort", "low"], "--reasoning-effort"),
        (["--model-arg", "times=0"], "parrot: option times"),
    ):
        assert run_command_line([*command, *wrong]) == 2
        assert words in capsys.readouterr().err
    asked = open_provider("parrot:B")
    asked.check_access()
    assert (asked.name, asked.status(), asked.runtime_info()) == ("parrot:B", "", {})
    with pytest.raises(UsageError, match="can't be told"):
        asked.reasoning_settings("low")


@pytest.mark.parametrize("name", ["openai:m", "anthropic:m", "gemini:m", "oracle:perfect", "parrot:B"])
def test_batches_are_declared_as_they_are_offered(name: str) -> None:
    assert open_provider(name).capabilities.batches is supports_batches(name.partition(":")[0])
