"""The server of `mbbq-gen view`: one run, read only, for the browser of this machine.

    GET /TOKEN/          the page: filters and an empty list
    GET /TOKEN/values    field → [[value, how many items have it], …]
    GET /TOKEN/items?language=tr&flipped=yes&offset=0&limit=20   {"total": …, "items": […]}

It listens on the loopback address only. A web page elsewhere could still send the browser here under a name of its own
that it points to 127.0.0.1 (DNS rebinding), so a request whose Host is not ours is refused, and so is one that a
browser says another site caused. Other users and programs of this machine reach the port too: the address holds a token
that is made anew each time and that only who started the viewer is told. There is nothing but GET and HEAD, and no file
is served by a path.
"""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from mbbq_gen.core.errors import MbbqGenError, RunError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.report.page import page_assets, viewer_page
from mbbq_gen.report.sample_cards import IN_VIEWER, item_views
from mbbq_gen.report.view_model import language_names, run_facts
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.runs.samples import SampleIndex

LOOPBACK = "127.0.0.1"
MOST_ITEMS = 100
"""That one request may ask for."""
_LONGEST_VALUE = 500
_TOKEN_BYTES = 16
_ICON = "/favicon.ico"
"""What browsers ask for by themselves, without a token; there is none."""
_NAMES = ("127.0.0.1", "localhost")
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True)
class Answer:
    """What goes back to the browser."""

    status: HTTPStatus
    kind: str
    """Media type."""
    body: bytes


@dataclass(frozen=True)
class SampleViewer:
    """What is served: a page, and the items of one run."""

    folder: RunFolder
    index: SampleIndex
    page: str
    policy: str
    """The page's content security policy, sent as a header too."""

    def answer(self, path: str) -> Answer:
        """What a GET of this path gives."""
        parts = urlsplit(path)
        try:
            if parts.path == "/":
                return Answer(HTTPStatus.OK, "text/html; charset=utf-8", self.page.encode())
            if parts.path == "/values":
                return _json({field: list(counts.items()) for field, counts in self.index.values().items()})
            if parts.path == "/items":
                return _json(self._items(dict(parse_qsl(parts.query))))
        except UsageError as error:
            return _plain(HTTPStatus.BAD_REQUEST, str(error))
        except MbbqGenError as error:
            return _plain(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
        return _plain(HTTPStatus.NOT_FOUND, "there is nothing here")

    def _items(self, query: Mapping[str, str]) -> dict[str, Any]:
        filters = {name: value[:_LONGEST_VALUE] for name, value in query.items() if name not in {"offset", "limit"}}
        offset, limit = _number(query, "offset", 0), min(_number(query, "limit", 20), MOST_ITEMS)
        total = self.index.count(filters)
        with self.folder.open_store(read_only=True) as store:
            found = self.index.page(filters, offset, limit)
            return {"total": total, "items": list(item_views(store, found, IN_VIEWER, with_prompt=True))}


def open_viewer(
    folder: RunFolder, versions: Mapping[str, str], where: PackPaths, step: Callable[[int], None]
) -> SampleViewer:
    """The viewer of a run.

    Args:
        folder: The run.
        versions: Language → the extractor version whose readings are shown.
        where: Where packs are looked for, for the names of languages.
        step: Hears of items that are read.
    """
    manifest = folder.manifest()
    with folder.open_store(read_only=True) as store:
        index = SampleIndex(store, versions, step=step)
        facts = run_facts(folder, manifest, store, manifest.config.model, versions)
    assets = page_assets(connects=True)
    page = viewer_page(facts, index.count(), language_names(versions, where), assets)
    return SampleViewer(folder, index, page, assets.policy)


def _number(query: Mapping[str, str], name: str, usual: int) -> int:
    text = query.get(name, str(usual))
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise UsageError(f"{name}: {text!r} is not a whole number")
    return int(text)


def _json(value: Any) -> Answer:
    text = json.dumps(value, ensure_ascii=True, allow_nan=False)
    return Answer(HTTPStatus.OK, "application/json; charset=utf-8", text.encode())


def _plain(status: HTTPStatus, text: str) -> Answer:
    return Answer(status, "text/plain; charset=utf-8", f"{text}\n".encode(errors="replace"))


class ViewServer(ThreadingHTTPServer):
    """Serves a viewer on a port of the loopback address."""

    daemon_threads = True

    def __init__(self, viewer: SampleViewer, port: int = 0) -> None:
        """Binds the port; 0: any free one.

        Raises:
            RunError: where the port can't be had.
        """
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except OSError as error:
            raise RunError(f"port {port}: {error.strerror or error}; name another with --port") from error
        self.viewer = viewer
        self.token = secrets.token_urlsafe(_TOKEN_BYTES)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Passes over connections that the browser dropped; shows all other faults."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        """Where the browser finds it: an address that nobody can guess."""
        return f"http://{LOOPBACK}:{self.server_port}/{self.token}/"

    def within(self, path: str) -> str | None:
        """The part of a path after the token; None where the token is not there."""
        token, slash, rest = path.removeprefix("/").partition("/")
        is_ours = secrets.compare_digest(token.encode(), self.token.encode())
        return f"/{rest}" if is_ours and slash else None

    def knows(self, host: str | None) -> bool:
        """Whether a Host header names this server."""
        return host in {f"{name}:{self.server_port}" for name in _NAMES}


class _Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    server: ViewServer
    protocol_version = "HTTP/1.1"
    error_content_type = "text/plain; charset=utf-8"
    error_message_format = "%(code)d %(message)s\n"
    timeout = 60

    def do_GET(self) -> None:
        """Answers a GET."""
        self._send(self._refusal() or self._answer())

    do_HEAD = do_GET  # noqa: N815

    def _answer(self) -> Answer:
        if self.path == _ICON:
            return Answer(HTTPStatus.NO_CONTENT, "image/x-icon", b"")
        path = self.server.within(self.path)
        if path is None:
            return _plain(HTTPStatus.FORBIDDEN, "open the whole address that mbbq-gen view printed")
        return self.server.viewer.answer(path)

    def _refusal(self) -> Answer | None:
        """Why the request is not answered; None where it may be."""
        if len(self.headers.get_all("Host") or []) != 1 or not self.server.knows(self.headers["Host"]):
            return _plain(HTTPStatus.MISDIRECTED_REQUEST, "this server answers to its own address only")
        if (
            self.headers.get("Sec-Fetch-Site", "none") not in {"none", "same-origin"}
            and self.path != f"/{self.server.token}/"
        ):
            return _plain(HTTPStatus.FORBIDDEN, "another site requested this")
        origin = self.headers.get("Origin")
        if origin is not None and not self.server.knows(origin.removeprefix("http://")):
            return _plain(HTTPStatus.FORBIDDEN, "another site requested this")
        return None

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def end_headers(self) -> None:
        """Ends the head of every answer, errors too, with what the browser must not do with it."""
        policy = f"{self.server.viewer.policy}; frame-ancestors 'none'"
        for name, value in {**_HEADERS, "Content-Security-Policy": policy}.items():
            self.send_header(name, value)
        super().end_headers()

    def version_string(self) -> str:
        """What the server calls itself."""
        return "mbbq-gen"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        """Says nothing: whoever looks at a page does not want a line for every part of it."""
