"""Servers of one's own: what is recognised, what is kept of what they tell, and the fields that pin their sampling."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.providers.http.servers import known_servers, recognise_server, server_root

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "providers" / "servers.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_recognises(case: dict[str, Any]) -> None:
    async def get(path: str) -> Any:
        return case["routes"].get(path, case["routes"].get("*"))

    found = asyncio.run(recognise_server(get, case["model"]))
    assert (found.name if found else None) == case["server"]
    if found is not None:
        digest = found.facts.pop("chat_template_digest", None)
        assert found.facts == case["facts"]
        assert (digest is not None) == case.get("digest", False)


def test_every_server_has_a_case_and_is_neutral() -> None:
    assert {case["server"] for case in CASES} - {None} == {entry.name for entry in known_servers()}
    neutral = {"top_p": 1.0, "min_p": 0.0, "typical_p": 1.0, "repeat_penalty": 1.0, "repetition_penalty": 1.0}
    off = {"presence_penalty", "frequency_penalty", "dry_multiplier", "xtc_probability"}
    for entry in known_servers():
        for name, value in entry.fields.items():
            assert (name == "top_k" and value in (0, -1)) or value == neutral.get(name, 0.0 if name in off else None)


@pytest.mark.parametrize(
    ("base_url", "root"),
    [
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000"),
        ("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://host/proxy/v1", "http://host/proxy"),
    ],
)
def test_root(base_url: str, root: str) -> None:
    assert server_root(base_url) == root
