"""What the tests of models behind an API share."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from mbbq_gen.core.records import Message, Request, Response
from mbbq_gen.providers.api.provider import ApiProvider
from mbbq_gen.providers.base import ExecutionContext
from mbbq_gen.providers.http.servers import known_servers
from mbbq_gen.providers.registry import open_provider
from tests.fake_service.client import FakeServer, fake_server
from tests.support.providers import make_request

KEY = "sk-test-0123456789abcdef"
"""A key that must turn up nowhere."""


@pytest.fixture
def fake() -> Iterator[FakeServer]:
    """A fake service with its default settings."""
    with fake_server() as server:
        yield server


def requests(count: int, start: int = 0) -> list[Request]:
    """Different requests, each with a key of its own."""
    return [
        make_request(prompt_id=f"p{number}", text=f"Question {number}: who forgets things?").model_copy(
            update={"request_key": f"{number:064d}"}
        )
        for number in range(start, start + count)
    ]


def provider(name: str, **options: Any) -> ApiProvider:
    """A provider of a model behind an API."""
    found = open_provider(name, options)
    assert isinstance(found, ApiProvider)
    return found


def ask(
    model: ApiProvider,
    wanted: Iterable[Request],
    notices: list[str] | None = None,
    arrived: list[Response] | None = None,
) -> list[Response]:
    """All that comes back; `notices` takes what is said once, `arrived` what came before a failure."""
    context = ExecutionContext() if notices is None else ExecutionContext(notify=notices.append)
    found = [] if arrived is None else arrived

    async def gather() -> None:
        try:
            async with aclosing(model.generate(wanted, context)) as responses:
                async for response in responses:
                    found.append(response)
        finally:
            await model.aclose()

    asyncio.run(gather())
    return found


def conversation(request: Request) -> list[tuple[str, str]]:
    """A request's messages as the fake server's counts know them."""
    return [(message.role, message.content) for message in request.messages]


def with_system(text: str, system: str) -> Request:
    """A request with a system message."""
    return make_request(messages=(Message(role="system", content=system), Message(role="user", content=text)))


PROBED = {probe.path for entry in known_servers() for probe in entry.probe}
"""Paths at which a server says what it is; the servers below are of no known kind."""


@dataclass(frozen=True)
class Heard:
    """A request that a `spoken` server got."""

    method: str
    path: str
    headers: dict[str, str]
    """By name in small letters."""
    body: bytes


@dataclass
class Spoken:
    """A server whose replies a function makes, and what it heard."""

    root: str
    heard: list[Heard]

    @property
    def bodies(self) -> list[Any]:
        """What was sent, without the requests at which a server says what it is."""
        return [json.loads(one.body or b"null") for one in self.heard if one.path not in PROBED]


@contextmanager
def spoken(
    reply: Callable[[Heard], tuple[int, dict[str, str], bytes]],
    *,
    probed: bool = False,
    tls: ssl.SSLContext | None = None,
) -> Iterator[Spoken]:
    """A server on this machine that says what `reply` makes of each request: status, headers, body.

    `probed`: whether it also replies where a server says what it is.
    """
    heard: list[Heard] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle(self) -> None:
            if tls is None and self.connection.recv(1, socket.MSG_PEEK) == b"\x16":  # TLS begins so, and has no lines
                self.wfile.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                return
            try:
                super().handle()
            except ssl.SSLError:  # what is left unread would reset the connection
                socket.socket.recv(self.connection, 65536)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Heard(self.command, self.path, headers, body)
            heard.append(request)
            status, given, content = reply(request)
            self.send_response_only(status)
            for name, value in ({"Content-Type": "application/json"} | given).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            if self.path in PROBED and not probed:
                self.send_error(404)
            else:
                self.do_POST()

        def log_message(self, format: str, *arguments: Any) -> None:
            """Says nothing."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 1024  # connections that are opened at once; those beyond it hang
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that stopped reading is what some tests are about."""

    with Server(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield Spoken(f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}", heard)
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def answering(*replies: tuple[int, Any]) -> Iterator[str]:
    """The address of a server that gives these (status, JSON or text) in turn, the last one for ever after."""
    given = [{"status": status, "text" if isinstance(text, str) else "body": text} for status, text in replies]
    with replying(given) as server:
        yield server.root


@contextmanager
def replying(replies: Sequence[Mapping[str, Any]], tls: ssl.SSLContext | None = None) -> Iterator[Spoken]:
    """A server whose replies are `status` (200), `headers`, and `body` (JSON) or `text`; the last one is repeated.

    A reply with `path` is given for every request to that path instead.
    """
    left = [reply for reply in replies if "path" not in reply]
    by_path = {reply["path"]: reply for reply in replies if "path" in reply}

    def reply(heard: Heard) -> tuple[int, dict[str, str], bytes]:
        if heard.method == "GET" and heard.path in PROBED and heard.path not in by_path:
            return 404, {}, b""
        found = by_path.get(heard.path) or (left.pop(0) if len(left) > 1 else left[0])
        text = found["text"] if "text" in found else json.dumps(found["body"])
        return found.get("status", 200), found.get("headers", {}), text.encode()

    with spoken(reply, probed=True, tls=tls) as server:
        yield server


def answer(kind: str, text: str = "A", **more: Any) -> dict[str, Any]:
    """An answer as that kind of service gives it."""
    if kind == "openai":
        return {"choices": [{"message": {"content": text}, "finish_reason": "stop"}], "model": "m"} | more
    if kind == "anthropic":
        return {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "model": "m"} | more
    return {"candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": "STOP"}]} | more
