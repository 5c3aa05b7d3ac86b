"""`mbbq-gen models KIND: --live`: the list that a service gives, over a real socket."""

from __future__ import annotations

import json

import pytest

from mbbq_gen.cli.main import run_command_line
from tests.fake_service.client import fake_server
from tests.support.api import KEY

pytestmark = pytest.mark.usefixtures("api_keys")

KINDS = ("openai", "anthropic", "gemini")
NAMES = ["gpt-4o-mini", "mine"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_service_lists_its_models(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    with fake_server({"access": {"models": NAMES, "key": KEY}}) as server:
        at = ["--base-url", server.openai if kind == "openai" else server.root]
        assert run_command_line(["models", f"{kind}:", "--live", *at, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert [entry["name"] for entry in found] == [f"{kind}:gpt-4o-mini", f"{kind}:mine"]
        assert run_command_line(["models", f"{kind}:", "--live", *at]) == 0
        assert f"{kind}:mine" in capsys.readouterr().out
        server.change({"access": {"key": "another"}})
        assert run_command_line(["models", f"{kind}:", "--live", *at]) == 1
        assert "refuses the key in" in capsys.readouterr().err
