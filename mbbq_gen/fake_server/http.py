"""HTTP/1.1 on a socket: requests in, replies out, and replies that go wrong on purpose.

Written on `asyncio.Protocol` because a request costs two thirds of what it costs aiohttp's server (decision 0067),
because it needs no package, and because a reply can be late, slow, cut off or missing. Handlers are plain functions:
they return a Reply, and the connection sends it when its delay is over. One request at a time on a connection, kept
alive between them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Literal
from urllib.parse import parse_qsl, unquote

from pydantic import JsonValue

Manner = Literal["whole", "slow", "cut", "lost", "drop", "hang"]
"""How a reply reaches the client: `lost` and `drop` close the connection without a word, `hang` keeps it open."""

MAX_HEAD = 64 * 1024
MAX_BODY = 1 << 30
_PIECES = 10
"""How many pieces a slow body comes in."""
_LAST_TURNS = 10
"""Turns of the event loop that closing takes, so that no socket is left open."""

_STATUS_LINES = {code.value: f"HTTP/1.1 {code.value} {code.phrase}\r\n".encode() for code in HTTPStatus}


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request as it came."""

    method: str
    path: str
    """Without the query, with %XX decoded."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes
    is_local: bool
    """Whether it comes from this machine."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What is sent back, when, and how."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    """Seconds until it is sent."""
    manner: Manner = "whole"
    slow_s: float = 0.0
    """Seconds that a slow body takes."""
    on_end: Callable[[bool], None] | None = None
    """Hears when the reply is over, and whether the connection was still there to take all of it."""


def json_reply(status: int, value: JsonValue, **rest: object) -> Reply:
    """A reply with a JSON body."""
    return Reply(status, json_bytes(value), **rest)  # type: ignore[arg-type]


def json_bytes(value: JsonValue) -> bytes:
    """A value as compact JSON in UTF-8."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # half a surrogate pair, which JSON can only spell
        return json.dumps(value, separators=(",", ":")).encode()


Handler = Callable[[HttpRequest], Reply]
"""What answers requests; never raises."""


class _BadRequestError(Exception):
    """What came is no HTTP that we understand."""


class _Chunks:
    """Takes the chunks of a body out of a buffer as they come."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def take(self, buffer: bytearray) -> bytes | None:
        """The body; None while it is not complete."""
        while (end := buffer.find(b"\r\n")) >= 0:
            try:
                size = int(bytes(buffer[:end]).split(b";")[0], 16)
            except ValueError:
                raise _BadRequestError("a chunk without its size") from None
            start = end + 2
            self._size += size
            if self._size > MAX_BODY:
                raise _BadRequestError("the body is too long")
            if len(buffer) < start + size + 2:
                self._size -= size
                return None
            self._parts.append(bytes(buffer[start : start + size]))
            del buffer[: start + size + 2]
            if size == 0:
                return b"".join(self._parts)
        return None


@dataclass(slots=True)
class _Head:
    """The first lines of a request."""

    method: str
    target: str
    version: str
    headers: dict[str, str]
    length: int
    """Bytes of the body, where it does not come in chunks."""
    chunks: _Chunks | None = None

    @property
    def keeps_alive(self) -> bool:
        wish = self.headers.get("connection", "").lower()
        return wish != "close" and (self.version == "HTTP/1.1" or wish == "keep-alive")


def _parse_head(lines: list[str]) -> _Head:
    try:
        method, target, version = lines[0].split(" ")
    except ValueError:
        raise _BadRequestError("no request line") from None
    headers = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return _Head(method, target, version, headers, 0, _Chunks())
    length = headers.get("content-length", "0")
    if not length.isdigit() or int(length) > MAX_BODY:
        raise _BadRequestError("content-length is wrong or too much")
    return _Head(method, target, version, headers, int(length))


class Connection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, handler: Handler, connections: set[Connection]) -> None:
        self._handler = handler
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._head: _Head | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._pending: Reply | None = None
        self._is_local = True

    # --- what asyncio calls ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Notes who is there."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self._is_local = peer is None or str(peer[0]).startswith("127.") or peer[0] in ("::1", "::ffff:127.0.0.1")
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        """Takes bytes; a whole request is answered at once."""
        self._buffer += data
        self._proceed()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the client; a reply that waits will never reach it."""
        self._connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        self._end(reached=False)

    def close(self) -> None:
        """Ends the connection."""
        self._transport.abort()

    # --- reading --------------------------------------------------------------------------------------------------

    def _proceed(self) -> None:
        """Reads and answers what is complete, one request at a time."""
        try:
            while self._pending is None and (request := self._next_request()) is not None:
                self._answer(request)
        except _BadRequestError as error:
            self._write(json_reply(400, {"error": {"message": str(error), "type": "invalid_request_error"}}))
            self._transport.close()

    def _next_request(self) -> HttpRequest | None:
        if self._head is None:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > MAX_HEAD:
                    raise _BadRequestError("the headers are too long")
                return None
            self._head = _parse_head(self._buffer[:end].decode("latin-1").split("\r\n"))
            del self._buffer[: end + 4]
            if "expect" in self._head.headers:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = self._take_body(self._head)
        return None if body is None else self._request(self._head, body)

    def _take_body(self, head: _Head) -> bytes | None:
        if head.chunks is not None:
            return head.chunks.take(self._buffer)
        if len(self._buffer) < head.length:
            return None
        body = bytes(self._buffer[: head.length])
        del self._buffer[: head.length]
        return body

    def _request(self, head: _Head, body: bytes) -> HttpRequest:
        path, _, query = head.target.partition("?")
        return HttpRequest(
            method=head.method,
            path=unquote(path) if "%" in path else path,
            query=dict(parse_qsl(query)) if query else {},
            headers=head.headers,
            body=body,
            is_local=self._is_local,
        )

    # --- answering ------------------------------------------------------------------------------------------------

    def _answer(self, request: HttpRequest) -> None:
        reply = self._handler(request)
        self._pending = reply
        if reply.manner == "hang":
            return
        if reply.delay_s > 0:
            self._timer = self._loop.call_later(reply.delay_s, self._send)
        else:
            self._send()

    def _send(self) -> None:
        """Sends the pending reply in its manner."""
        self._timer = None
        if self._pending is None or self._transport.is_closing():
            return
        reply = self._pending
        if reply.manner == "whole":
            self._write(reply)
            self._finish()
        elif reply.manner == "slow":
            head, body = self._head_bytes(reply), reply.body
            size = max(1, -(-len(body) // _PIECES))
            self._transport.write(head)
            self._send_pieces([body[at : at + size] for at in range(0, len(body), size)], reply.slow_s / _PIECES)
        else:
            if reply.manner == "cut":
                self._transport.write(self._head_bytes(reply) + reply.body[: len(reply.body) // 2])
            self._end(reached=False)
            self._transport.close()

    def _send_pieces(self, pieces: list[bytes], pause: float) -> None:
        """Sends one piece after another, with a pause before each."""
        if not pieces:
            self._finish()
            return

        def send_next() -> None:
            self._timer = None
            self._transport.write(pieces.pop(0))
            self._send_pieces(pieces, pause)

        self._timer = self._loop.call_later(pause, send_next)

    def _finish(self) -> None:
        """The reply is out: the next request may come."""
        head, self._head = self._head, None
        self._end(reached=True)
        if head is not None and not head.keeps_alive:
            self._transport.close()
        elif self._buffer:
            self._loop.call_soon(self._proceed)

    def _end(self, *, reached: bool) -> None:
        if self._pending is not None:
            reply, self._pending = self._pending, None
            if reply.on_end is not None:
                reply.on_end(reached)

    def _write(self, reply: Reply) -> None:
        self._transport.write(self._head_bytes(reply) + reply.body)

    def _head_bytes(self, reply: Reply) -> bytes:
        lines = "".join(f"{name}: {value}\r\n" for name, value in reply.headers.items())
        keep = self._head is None or self._head.keeps_alive
        return _STATUS_LINES.get(reply.status, b"HTTP/1.1 %d Error\r\n" % reply.status) + (
            f"content-type: {reply.content_type}\r\ncontent-length: {len(reply.body)}\r\n{lines}"
            f"{'' if keep else 'connection: close' + chr(13) + chr(10)}\r\n"
        ).encode("latin-1")


class Listener:
    """A listening socket and the connections that came through it."""

    def __init__(self, server: asyncio.Server, connections: set[Connection]) -> None:
        self._server = server
        self._connections = connections

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stops listening and ends every connection."""
        self._server.close()
        for _ in range(_LAST_TURNS):  # a connection just accepted shows up, and one just closed lets go, a turn later
            for connection in list(self._connections):
                connection.close()
            await asyncio.sleep(0)


async def listen(handler: Handler, host: str, port: int) -> Listener:
    """Listens on an address; port 0 takes a free one.

    Raises:
        OSError: where the address can't be had.
    """
    connections: set[Connection] = set()
    make: Callable[[], Connection] = lambda: Connection(handler, connections)  # noqa: E731
    server = await asyncio.get_running_loop().create_server(make, host, port, backlog=2048)
    return Listener(server, connections)
