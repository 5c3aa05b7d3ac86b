from __future__ import annotations

import json
import ssl
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.runs.study import read_study
from tests.support.api import KEY, replying
from tests.support.cases import cases
from tests.support.extraction import Capture, call

pytest.importorskip("aiohttp")

SELECTION = ["--benchmark", "starter", "--languages", "en", "--variants", "letters", "--splits", "bias"]
ANSWER = {"body": {"choices": [{"finish_reason": "stop", "message": {"content": "B"}}]}}
REFUSED = {"status": 500, "body": {"error": {"message": "could not broadcast input array from shape (7,) into (3,)"}}}
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(capsys: Capture) -> Command:
    return partial(call, capsys)


def error_of(err: str) -> str:
    errors = [line for line in err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, err
    assert err.rstrip().endswith(errors[0])
    return errors[0]


def run_at(command: Command, folder: Path, url: str, *more: object) -> tuple[int, str]:
    given = ["--model", "openai:m", "--base-url", url, "--sample", 8, *more]
    code, _, err = command("run", folder, *SELECTION, *given, "--json")
    return code, error_of(err) if code else err


# --- exit codes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failing", "share", "expected"),
    [(8, 0.2, 1), (8, 1, 1), (3, 0.2, 1), (2, 0.25, 0), (2, 0.24, 1), (1, 0.2, 0), (7, 1, 0)],
)
def test_the_exit_code_follows_the_share_of_failures(
    command: Command, tmp_path: Path, failing: int, share: float, expected: int
) -> None:
    with replying([*[ANSWER] * (8 - failing), *[REFUSED] * failing]) as server:
        options = ("--max-error-rate", share, "--max-connections", 1)
        code, line = run_at(command, tmp_path / "run", f"{server.root}/v1", *options)
        assert len(server.bodies) == 8, "what is too long is sent once"
    assert code == expected
    assert "too long for the context window" in line
    _, out, _ = command("status", tmp_path / "run", "--json")
    status = json.loads(out)
    assert (status["answered"], status["failures"]) == (8 - failing, {"too long for the context window": failing})


# --- addresses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reply", cases("cli/local_servers", "a_base_url_without_v1"), ids=["LM Studio", "FastAPI", "Ollama"]
)
def test_a_base_url_without_v1(command: Command, tmp_path: Path, reply: dict[str, Any]) -> None:
    with replying([reply]) as server:
        code, line = run_at(command, tmp_path / "run", server.root)
        assert len(server.bodies) <= 2
        assert (code, "--base-url, which mostly ends in /v1" in line) == (1, True), line


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    folder = tmp_path_factory.mktemp("tls")
    names = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem"), "-subj", "/CN=localhost"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names]
    try:
        subprocess.run(made, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("needs openssl")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


def test_https_at_an_http_server_and_an_untrusted_one(command: Command, tmp_path: Path, tls: ssl.SSLContext) -> None:
    with replying([ANSWER]) as server:
        code, line = run_at(command, tmp_path / "a", f"{server.root}/v1".replace("http:", "https:"))
        assert (code, "write http:// in --base-url" in line) == (1, True), line
    with replying([ANSWER], tls) as server:
        code, line = run_at(command, tmp_path / "c", f"{server.root}/v1")
        assert (code, "SSL_CERT_FILE" in line) == (1, True), line
        assert server.bodies == []


# --- keys and names ---------------------------------------------------------------------------------------------------


def test_a_server_that_needs_a_key(command: Command, tmp_path: Path) -> None:
    with replying([{"status": 401, "body": {"error": {"message": "Invalid API Key"}}}]) as server:
        code, line = run_at(command, tmp_path / "run", f"{server.root}/v1")
    assert (code, "--api-key-env" in line) == (1, True), line


@pytest.mark.parametrize("key", ["sk-abc\ndef0123456789", "sk-abc def", "“sk-abc”"])
def test_a_key_that_can_not_be_sent(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    code, line = run_at(command, tmp_path / "run", "http://127.0.0.1:9/v1")
    assert (code, "OPENAI_API_KEY" in line, "abc" in line) == (2, True, False)


@pytest.mark.parametrize("typed", cases("cli/local_servers", "a_key_in_the_wrong_place"))
def test_a_key_in_the_wrong_place_is_neither_written_nor_shown(
    command: Command, tmp_path: Path, typed: list[str]
) -> None:
    keys = {"KEY": KEY, "BACKWARDS": KEY[::-1], "UNDERSCORED": KEY.replace("-", "_"), "HEX": "0123456789abcdef" * 2}
    for name, key in keys.items():
        typed = [word.replace(name, key) for word in typed]
    code, out, err = command("run", tmp_path / "run", *SELECTION, *typed)
    assert code == 2, err
    assert error_of(err)
    assert [name for name, key in keys.items() if key in out + err] == []
    assert [path for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()] == []


def test_a_short_key_of_a_local_server_is_found_in_extra(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "local-secret")
    options = ["--model", "openai:m", "--base-url", "http://127.0.0.1:9/v1"]
    code, _, err = command("run", tmp_path / "run", *SELECTION, *options, "--model-arg", 'extra={"u": "local-secret"}')
    assert (code, "local-secret" in err) == (2, False)


# --- studies ----------------------------------------------------------------------------------------------------------


def test_init_writes_the_base_url_of_openai_models(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    models = ["--model", "openai:m,oracle:perfect", "--benchmark", "starter", "--languages", "en", "--sample", 4]
    with replying([ANSWER]) as first:
        code, _, err = command("init", *models, "--base-url", f"{first.root}/v1")
        assert code == 0, err
        runs = read_study(Path("study.toml"))[1].values()
        assert [run.base_url for run in runs] == [f"{first.root}/v1", None]
        code, _, err = command("run", "study.toml", "--json")
        assert (code, first.bodies == []) == (0, False), err
    assert RunFolder(Path("study/oracle-perfect--starter")).manifest().config.base_url is None


def test_a_base_url_for_no_model(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    given = ["--model", "oracle:perfect", "--benchmark", "starter", "--languages", "en"]
    assert command("init", path, *given, "--base-url", "http://127.0.0.1:9/v1")[0] == 2
    assert command("init", path, *given)[0] == 0
    code, _, err = command("run", path, "--base-url", "http://127.0.0.1:9/v1")
    assert (code, "set it in" in error_of(err)) == (2, True)


@pytest.mark.parametrize(("model", "typed"), cases("cli/local_servers", "servers_that_are_no_kind_of_provider"))
def test_servers_that_are_no_kind_of_provider(command: Command, tmp_path: Path, model: str, typed: str) -> None:
    code, _, err = command("run", tmp_path / "run", *SELECTION, "--model", model)
    assert (code, typed in error_of(err)) == (2, True), err
