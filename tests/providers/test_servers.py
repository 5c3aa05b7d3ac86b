from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.providers.http.servers import known_servers, recognise_server
from tests.support.api import Heard, answer, ask, provider, requests, spoken

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "providers" / "servers.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_recognises(case: dict[str, Any]) -> None:
    async def get(path: str) -> Any:
        return case["routes"].get(path, case["routes"].get("*"))

    entry, facts = asyncio.run(recognise_server(get, case["model"]))
    assert entry.name == (case["server"] or "unknown")
    digest = facts.pop("chat_template_digest", None)
    assert facts == case.get("facts", {})
    assert (digest is not None) == case.get("digest", False)


def test_every_server_has_a_case_and_is_neutral() -> None:
    assert {case["server"] for case in CASES} - {None} == {entry.name for entry in known_servers()}
    neutral = {"top_p": 1.0, "min_p": 0.0, "typical_p": 1.0, "repeat_penalty": 1.0, "repetition_penalty": 1.0}
    off = {"presence_penalty", "frequency_penalty", "dry_multiplier", "xtc_probability"}
    for entry in known_servers():
        for name, value in entry.fields.items():
            assert (name == "top_k" and value in (0, -1)) or value == neutral.get(name, 0.0 if name in off else None)


def replying(
    routes: dict[str, Any], refused: str | None = None
) -> Callable[[Heard], tuple[int, dict[str, str], bytes]]:
    """What a server says at each path, and to questions; one that `refused` a field says so."""

    def reply(heard: Heard) -> tuple[int, dict[str, str], bytes]:
        if heard.method == "GET":
            found = routes.get(heard.path)
            text = found if isinstance(found, str) else json.dumps(found)
            return (404, {}, b"{}") if found is None else (200, {}, text.encode())
        if refused is not None and refused in json.loads(heard.body):
            error = {"message": f"Unrecognized request argument supplied: {refused}", "param": refused}
            return 400, {}, json.dumps({"error": error}).encode()
        return 200, {}, json.dumps(answer("openai", usage={"prompt_tokens": 9, "completion_tokens": 1})).encode()

    return reply


@pytest.mark.parametrize(
    ("name", "options", "sent"),
    [
        ("vllm", {"sampling": "server"}, {}),
        ("vllm", {"sampling": "server", "repetition_penalty": 1.1}, {"repetition_penalty": 1.1}),
        ("llama-cpp-python", {"repetition_penalty": 1.1}, {"repeat_penalty": 1.1, "min_p": 0.0}),
        ("llama-cpp-python", {"top_p": 0.9, "min_p": 0.1}, {"top_p": 0.9, "min_p": 0.1, "repeat_penalty": 1.0}),
        ("transformers serve", {"repetition_penalty": 1.5}, {"frequency_penalty": 0.5, "top_p": 1.0}),
        ("nothing at all", {"repetition_penalty": 1.2}, {"repetition_penalty": 1.2, "top_p": 1.0}),
    ],
)
def test_users_settings_come_first(name: str, options: dict[str, Any], sent: dict[str, Any]) -> None:
    routes = next(case["routes"] for case in CASES if case["name"] == name)
    with spoken(replying(routes), probed=True) as server:
        asked = provider("openai:smol", base_url=f"{server.root}/v1", **options)
        ask(asked, requests(1), [])
        body = json.loads(server.heard[-1].body)
    assert {field: body.get(field) for field in sent} == sent
    assert options.get("sampling") != "server" or "top_p" not in body
