from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.cli.main import run_command_line
from mbbq_gen.runs.run_folder import RunFolder
from tests.fake_service.client import fake_server
from tests.providers.test_api_services import DESCRIPTION
from tests.support.api import KEY
from tests.support.cases import cases

pytestmark = pytest.mark.usefixtures("api_keys")

pytest.importorskip("aiohttp")

KINDS = ("openai", "anthropic", "gemini", "http")
VARIABLES = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "http": "SOME_API_KEY",
}
SELECTION = ["--benchmark", "starter", "--languages", "en", "--variants", "letters", "--sample", "12"]


def asked(kind: str, root: str, folder: Path, model: str = "fake") -> list[str]:
    if kind != "http":
        return ["--model", f"{kind}:{model}", "--base-url", f"{root}/v1" if kind == "openai" else root]
    path = folder / "endpoint.toml"
    key = f'key = "SOME_API_KEY"\nmodel = "{model}"'
    path.write_text(DESCRIPTION.format(address=f"{root}/v1", key=key), encoding="utf-8")
    return ["--model", f"http:{path}"]


def stopped(capsys: pytest.CaptureFixture[str], run: Path, options: list[str]) -> str:
    capsys.readouterr()
    assert run_command_line(["run", str(run), *options, *SELECTION, "--json"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert KEY not in captured.err
    errors = [line for line in captured.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert captured.err.rstrip().endswith(errors[0]), "nothing comes after it"
    return errors[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("scenario", "words", "answered"),
    cases("providers/api_stops", "it_stops_at_once_and_goes_on_later"),
    ids=["key", "model", "quota", "closed"],
)
def test_it_stops_at_once_and_goes_on_later(  # noqa: PLR0917
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    run_path: Path,
    kind: str,
    scenario: Any,
    words: str,
    answered: int,
) -> None:
    with fake_server(scenario, run=run_path) as server:
        options = asked(kind, server.root, tmp_path)
        assert words in stopped(capsys, run_path, [*options, "--max-connections", "1"])
        assert server.stats().requests <= answered + 1
        with RunFolder(run_path).open_store(read_only=True) as store:
            assert store.progress().answered == answered
        for table in scenario:
            server.change({table: None})
        assert run_command_line(["run", str(run_path), "--json"]) == 0
        assert server.stats().paid_again == 0
        with RunFolder(run_path).open_store(read_only=True) as store:
            assert store.progress().answered == 24


@pytest.mark.parametrize("kind", KINDS)
def test_no_key_is_in_what_a_run_leaves(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, run_path: Path, kind: str
) -> None:
    refused = ["max_tokens"] if kind == "openai" else []  # it has another name there; elsewhere the run would stop
    scenario = {
        "access": {"key": KEY, "refused_parameters": refused},
        "faults": {"server_error": 0.2, "most_per_request": 99, "routes": "asking"},
        "content": {"filtered_prompt": 0.2},
        "batches": {"failed": 0.3},
    }
    batch = ["--batch"] if kind in ("openai", "anthropic") else []
    with fake_server(scenario, run=run_path) as server:
        options = [*asked(kind, server.root, tmp_path), "--cache-dir", str(tmp_path / "c")]
        run_command_line(["run", str(run_path), *options, *SELECTION, *batch, "--model-arg", "attempts=3"])
        if batch:
            assert run_command_line(["batch", "collect", str(run_path), "--wait", "--every", "1", "--json"]) == 0
            assert run_command_line(["batch", "cancel", str(run_path)]) == 0
        for arguments in (
            ["run", str(run_path)],
            ["status", str(run_path), "--json"],
            ["score", str(run_path), "--json"],
        ):
            assert run_command_line(arguments) == 0
        server.change({"access": {"key": "another-key"}})
        again = tmp_path / "again"
        assert run_command_line(["run", str(again), *options[:-2], *SELECTION]) == 1
    captured = capfd.readouterr()
    assert "refuses the key in " in captured.err
    assert KEY not in captured.out + captured.err
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 4
    assert [str(path) for path in files if KEY.encode() in path.read_bytes()] == []
