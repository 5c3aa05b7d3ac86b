"""The first request goes alone as long as a refusal may take; a slow answer holds nobody up."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from mbbq_gen.core.errors import ProviderError
from tests.support.api import answering, ask, provider, requests


@contextmanager
def answering_together(count: int) -> Iterator[str]:
    """The address of a server that answers nobody before it was asked by so many at once."""
    together = threading.Barrier(count, timeout=600)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            together.wait()
            answer = {"choices": [{"message": {"role": "assistant", "content": "A"}, "finish_reason": "stop"}]}
            body = json.dumps({"model": "fake", **answer}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join()


def test_a_slow_first_answer_holds_nobody_up() -> None:
    with answering_together(4) as address:
        asked = provider("openai:fake", base_url=address, api_key_env=None, max_connections=4)
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
