"""Views of single answers, and the server of `mbbq-gen view`, which shows one run in a browser, read-only.

    GET /TOKEN/          the page: filters and an empty list
    GET /TOKEN/values    field → [[value, number of items], …]
    GET /TOKEN/items?language=tr&flipped=yes&offset=0&limit=20   {"total": …, "items": […]}

The server listens on the loopback address only and supports GET and HEAD only. Requests with another Host are refused
because of DNS rebinding, where a web page points its own host name to 127.0.0.1; so are requests from other sites.
Other users of this machine can reach the port, so the URL has a random token for each start.
"""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from mbbq_gen.core.errors import MbbqGenError, RunError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Extraction
from mbbq_gen.core.text import shortened, visible_text
from mbbq_gen.extraction.claims import WHY
from mbbq_gen.extraction.explain import DECISIONS
from mbbq_gen.extraction.reasoning import reasoning_version
from mbbq_gen.report.page import FIELD_TITLES, browser_data, language_names, page_assets, render
from mbbq_gen.runs.extraction import question_of
from mbbq_gen.runs.reasoning import reasoning_text, stored_reasoning
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.runs.samples import SampleIndex, SampleRow
from mbbq_gen.storage.queries import find_completed, stored_extractions
from mbbq_gen.storage.store import CompletedPrompt, RunStore

# --- sample cards ----------------------------------------------------------------------------------------------------

Piece = tuple[str, int]
"""A part of a text and its kind: PLAIN, EVIDENCE or LEFT_OUT."""
PLAIN, EVIDENCE, LEFT_OUT = 0, 1, 2


class ExcerptLengths(NamedTuple):
    """Numbers of characters shown of a long text: at its ends, and around the edges of evidence."""

    head: int
    tail: int
    around: int


IN_PAGE = ExcerptLengths(head=1500, tail=700, around=150)
"""For a report, which contains a few thousand items."""
IN_VIEWER = ExcerptLengths(head=20_000, tail=20_000, around=2000)


def pieces(text: str, spans: Sequence[tuple[int, int]], lengths: ExcerptLengths) -> list[Piece]:
    """The text in pieces: evidence is marked, long texts are shortened, invisible characters are made visible."""
    size = len(text)
    if not spans and size <= lengths.head + lengths.tail:
        return [(visible_text(text), PLAIN)] if text else []
    marked = [(max(0, start), min(end, size)) for start, end in _merged(spans) if start < size]
    kept = [(0, size)]
    if size > lengths.head + lengths.tail:  # head, tail, and the surroundings of both ends of evidence
        edges = [edge for span in marked for edge in span]
        near = [(max(0, edge - lengths.around), min(size, edge + lengths.around)) for edge in edges]
        kept = _merged([(0, lengths.head), (size - lengths.tail, size), *near])
    found: list[Piece] = []
    last_end = 0
    for start, end in kept:
        if start > last_end:
            found.append((f"⟨… {start - last_end:,} characters …⟩", LEFT_OUT))
        inside = {edge for low, high in marked if low < high for edge in (low, high) if start < edge < end}
        for first, last in pairwise(sorted({start, end} | inside)):
            is_evidence = any(low <= first < high for low, high in marked)
            found.append((visible_text(text[first:last]), EVIDENCE if is_evidence else PLAIN))
        last_end = end
    return found


def _merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans in order; overlapping ones are merged."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def item_views(
    store: RunStore, items: Sequence[SampleRow], lengths: ExcerptLengths, *, with_prompt: bool = False
) -> Iterator[dict[str, Any]]:
    """The views of items, with their texts from the run's store, as JSON objects for the page."""
    version = reasoning_version(PackPaths())
    for item in items:
        answered = find_completed(store, item.prompt_id)
        extraction = stored_extractions(store, item.prompt_id).get(item.extractor)
        if answered is None or extraction is None:
            continue
        response, instance, prompt = answered.response, answered.instance, answered.prompt
        missing = None if response.error is None else shortened(response.error, 300)
        if missing is None and response.finish_reason == "content_filter":
            missing = "the answer was blocked by the service"
        text, start = response.text or response.refusal or "", 0
        reasoning, trace = reasoning_text(response, PackPaths()), None
        if reasoning is not None:
            bias = None if version is None else stored_reasoning(store, item.prompt_id, version)
            trace = {
                "text": pieces(reasoning.text, bias.spans if bias is not None else (), lengths),
                "characters": len(reasoning.text),
                "option": bias.option if bias is not None else None,
                "parsed": bias is not None,
                "stances": sorted(bias.stances) if bias is not None else [],
            }
            if reasoning.end is not None:  # the response begins with the reasoning, which is shown separately
                start = len(text) - len(text[reasoning.end :].lstrip())
        spans = [(max(0, first - start), last - start) for first, last in extraction.spans if last > start]
        rules = extraction.rule.replace("+", ":").split(":")
        why = DECISIONS.get(extraction.rule) or next((WHY[rule] for rule in rules if rule in WHY), extraction.rule)
        if extraction.outcome == "multiple" and extraction.rule not in DECISIONS:
            why = "More than one option is chosen."
        view: dict[str, Any] = {
            **{name: visible_text(value) for name, value in item._asdict().items() if isinstance(value, str)},
            "polarity": instance.polarity,
            "label_style": prompt.label_style,
            "context": pieces(instance.context, (), lengths),
            "question": pieces(instance.question, (), lengths),
            "options": _options(answered, extraction, lengths),
            "response": pieces(text[start:], spans, lengths),
            "reasoning": trace,
            "missing": missing,
            "rule": visible_text(extraction.rule),
            "why": why,
            "conflicts": [visible_text(conflict) for conflict in extraction.conflicts],
            "no_context": prompt.no_context,
        }
        if with_prompt:
            view["messages"] = [
                {"role": message.role, "content": pieces(message.content, (), lengths)} for message in prompt.messages
            ]
        yield view


def _options(answered: CompletedPrompt, extraction: Extraction, lengths: ExcerptLengths) -> list[dict[str, Any]]:
    """The options in the order of the prompt."""
    instance, question, chosen = answered.instance, question_of(answered), extraction.option
    if chosen is None and extraction.outcome in {"abstention", "refusal"}:
        chosen = question.unknown_index
    shown = zip(question.labels, question.options, answered.prompt.option_order, strict=True)
    return [
        {
            "label": visible_text(label),
            "text": pieces(text, (), lengths),
            "role": instance.options[option].role or "person",
            "right": option == instance.gold_index,
            "chosen": place == chosen,
        }
        for place, (label, text, option) in enumerate(shown)
    ]


# --- the server ------------------------------------------------------------------------------------------------------

LOOPBACK = "127.0.0.1"
_MAX_ITEMS = 100
"""The most items of one response."""
_MAX_VALUE_LENGTH = 500
_TOKEN_BYTES = 16
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_HTML, _JSON, _TEXT = "text/html; charset=utf-8", "application/json; charset=utf-8", "text/plain; charset=utf-8"
_Response = tuple[HTTPStatus, str, str]
"""Status, media type, body."""


@dataclass(frozen=True)
class SampleViewer:
    """The resources of one run: the page, the values of the filters, the items."""

    folder: RunFolder
    index: SampleIndex
    page: str
    policy: str
    """The page's content security policy, which is also sent as a header."""

    def respond(self, path: str) -> _Response:
        """The response to GET for this path."""
        parts = urlsplit(path)
        try:
            if parts.path == "/":
                return HTTPStatus.OK, _HTML, self.page
            if parts.path == "/values":
                values = {field: list(counts.items()) for field, counts in self.index.values().items()}
                return HTTPStatus.OK, _JSON, json.dumps(values)
            if parts.path == "/items":
                return HTTPStatus.OK, _JSON, json.dumps(self._items(dict(parse_qsl(parts.query))), allow_nan=False)
        except UsageError as error:
            return HTTPStatus.BAD_REQUEST, _TEXT, f"{error}\n"
        except MbbqGenError as error:
            return HTTPStatus.INTERNAL_SERVER_ERROR, _TEXT, f"{error}\n"
        return HTTPStatus.NOT_FOUND, _TEXT, "there is nothing here\n"

    def _items(self, query: Mapping[str, str]) -> dict[str, Any]:
        filters = {name: value[:_MAX_VALUE_LENGTH] for name, value in query.items() if name not in {"offset", "limit"}}
        numbers = {name: query.get(name, default) for name, default in (("offset", "0"), ("limit", "20"))}
        for name, text in numbers.items():
            if not (text.isascii() and text.isdigit() and len(text) < 10):
                raise UsageError(f"{name}: {text!r} is not a whole number")
        with self.folder.open_store(read_only=True) as store:
            found = self.index.page(filters, int(numbers["offset"]), min(int(numbers["limit"]), _MAX_ITEMS))
            views = list(item_views(store, found, IN_VIEWER, with_prompt=True))
        return {"total": self.index.count(filters), "items": views}


def open_viewer(folder: RunFolder, versions: Mapping[str, str], where: PackPaths) -> SampleViewer:
    """The viewer of a run; `versions`: language → version of the extractor in use."""
    with folder.open_store(read_only=True) as store:
        index = SampleIndex(store, versions)
    assets, path, name = page_assets(connects=True), str(folder.path), folder.manifest().config.model
    page = render(
        "viewer.html",
        f"Items of {path}: {name}",
        assets,
        runs=(path,),
        n_answers=index.count(),
        fields=FIELD_TITLES,
        server=browser_data([(name, path)], language_names(versions, where)),
    )
    return SampleViewer(folder, index, page, assets["policy"])


class ViewServer(ThreadingHTTPServer):
    """A server of a viewer on a port of the loopback address."""

    daemon_threads = True

    def __init__(self, viewer: SampleViewer, port: int = 0) -> None:
        """Binds the port; 0: any free one.

        Raises:
            RunError: if the port is not available.
        """
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except OSError as error:
            raise RunError(f"port {port}: {error.strerror or error}; name another with --port") from error
        self.viewer = viewer
        self.token = secrets.token_urlsafe(_TOKEN_BYTES)
        self.url = f"http://{LOOPBACK}:{self.server_port}/{self.token}/"
        """The address for the browser, with the token."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores connections that the browser closed; prints all other errors."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)

    def respond(self, path: str, headers: Message) -> _Response:
        """The response to a request: an error by host, site or token, or the viewer's for the path after the token."""
        hosts = [f"{name}:{self.server_port}" for name in (LOOPBACK, "localhost")]
        requested_hosts = headers.get_all("Host") or []
        if len(requested_hosts) != 1 or requested_hosts[0] not in hosts:
            return HTTPStatus.MISDIRECTED_REQUEST, _TEXT, "this server answers to its own address only\n"
        site, origin = headers.get("Sec-Fetch-Site", "none"), headers.get("Origin")
        is_foreign = site not in {"none", "same-origin"} and path != f"/{self.token}/"
        if is_foreign or (origin is not None and origin.removeprefix("http://") not in hosts):
            return HTTPStatus.FORBIDDEN, _TEXT, "another site requested this\n"
        if path == "/favicon.ico":  # requested by browsers automatically, without the token
            return HTTPStatus.NO_CONTENT, "image/x-icon", ""
        token, slash, rest = path.removeprefix("/").partition("/")
        if not (secrets.compare_digest(token.encode(), self.token.encode()) and slash):
            return HTTPStatus.FORBIDDEN, _TEXT, "open the whole address that mbbq-gen view printed\n"
        return self.viewer.respond(f"/{rest}")


class _Handler(BaseHTTPRequestHandler):
    """The handler of one connection."""

    server: ViewServer
    protocol_version = "HTTP/1.1"
    error_content_type = _TEXT
    error_message_format = "%(code)d %(message)s\n"
    timeout = 60

    def do_GET(self) -> None:
        """Sends the response to GET or HEAD."""
        status, media_type, text = self.server.respond(self.path, self.headers)
        body = text.encode(errors="replace")
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815

    def end_headers(self) -> None:
        """Adds the security headers to every response, including errors."""
        policy = f"{self.server.viewer.policy}; frame-ancestors 'none'"
        for name, value in {**_HEADERS, "Content-Security-Policy": policy}.items():
            self.send_header(name, value)
        super().end_headers()

    def version_string(self) -> str:
        """The value of the header `Server`."""
        return "mbbq-gen"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        """Logs nothing, because a page causes many requests."""
