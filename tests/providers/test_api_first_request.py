"""The first request goes alone as long as a refusal may take; a slow answer holds nobody up."""

from __future__ import annotations

import json
import threading

import pytest

from mbbq_gen.core.errors import ProviderError
from tests.support.api import Heard, answer, answering, ask, provider, requests, spoken


def test_a_slow_first_answer_holds_nobody_up() -> None:
    together = threading.Barrier(4, timeout=600)  # the server answers nobody before it was asked by so many at once

    def reply(_: Heard) -> tuple[int, dict[str, str], bytes]:
        together.wait()
        return 200, {}, json.dumps(answer("openai")).encode()

    with spoken(reply) as server:
        asked = provider("openai:fake", base_url=f"{server.root}/v1", api_key_env=None, max_connections=4)
        responses = ask(asked, requests(8))
    assert [response.text for response in responses] == ["A"] * 8


def test_a_refusal_stops_the_others_before_they_are_sent() -> None:
    refusal = {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}
    with answering((401, refusal)) as address:
        asked = provider("openai:fake", base_url=f"{address}/v1", max_connections=64)
        taken = iter(requests(500))
        with pytest.raises(ProviderError, match="refuses"):
            ask(asked, taken)
    assert sum(1 for _ in taken) > 400
