"""What is shown of single answers, and the server of `mbbq-gen view`: one run, read only, for this machine's browser.

A sample card holds the question as shown, the response with its evidence, and why it was read so. Its pieces are cut to
a bearable length here, and invisible characters made visible, so that the page's script has nothing to do but to put
text into elements.

    GET /TOKEN/          the page: filters and an empty list
    GET /TOKEN/values    field → [[value, how many items have it], …]
    GET /TOKEN/items?language=tr&flipped=yes&offset=0&limit=20   {"total": …, "items": […]}

It listens on the loopback address only. A web page elsewhere could still send the browser here under a name of its own
that it points to 127.0.0.1 (DNS rebinding), so a request whose Host is not ours is refused, and so is one that a
browser says another site caused. Other users and programs of this machine reach the port too: the address holds a token
that is made anew each time and that only who started the viewer sees. There is nothing but GET and HEAD, and no file
is served by a path.
"""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from mbbq_gen.core.errors import MbbqGenError, RunError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Extraction, Response
from mbbq_gen.core.text import shortened, visible_text
from mbbq_gen.extraction import Question
from mbbq_gen.extraction.claims import WHY
from mbbq_gen.extraction.explain import DECISIONS
from mbbq_gen.extraction.reasoning import ReasoningExtraction, reasoning_version
from mbbq_gen.report.page import language_names, page_assets, viewer_page
from mbbq_gen.report.sheets import merged
from mbbq_gen.runs.extraction import question_of
from mbbq_gen.runs.reasoning import ReasoningText, reasoning_text, stored_reasoning
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.storage.queries import find_completed, stored_extractions
from mbbq_gen.storage.samples import SampleIndex, SampleRow
from mbbq_gen.storage.store import CompletedPrompt, RunStore

# --- sample cards ----------------------------------------------------------------------------------------------------

Piece = tuple[str, int]
"""A stretch of a text, and what it is: PLAIN, EVIDENCE or LEFT_OUT."""
PLAIN, EVIDENCE, LEFT_OUT = 0, 1, 2


@dataclass(frozen=True)
class ExcerptLengths:
    """How much of a long text is shown, in characters."""

    head: int
    tail: int
    around: int
    """On each side of evidence."""


IN_PAGE = ExcerptLengths(head=1500, tail=700, around=150)
"""In a report, which holds a few thousand items."""
IN_VIEWER = ExcerptLengths(head=20_000, tail=20_000, around=2000)


def pieces(text: str, spans: Sequence[tuple[int, int]], lengths: ExcerptLengths) -> list[Piece]:
    """The text with its evidence marked, and with what is too long left out; every character is visible."""
    size = len(text)
    if not spans and size <= lengths.head + lengths.tail:
        return [(visible_text(text), PLAIN)] if text else []
    marked = [(max(0, start), min(end, size)) for start, end in merged(spans) if start < size]
    kept = [(0, size)]
    if size > lengths.head + lengths.tail:  # head, tail, and the surroundings of where evidence begins and ends
        edges = [edge for span in marked for edge in span]
        near = [(max(0, edge - lengths.around), min(size, edge + lengths.around)) for edge in edges]
        kept = merged([(0, lengths.head), (size - lengths.tail, size), *near])
    found: list[Piece] = []
    here = 0
    for start, end in kept:
        if start > here:
            found.append((f"⟨… {start - here:,} characters …⟩", LEFT_OUT))
        inside = {edge for low, high in marked if low < high for edge in (low, high) if start < edge < end}
        for first, last in pairwise(sorted({start, end} | inside)):
            is_evidence = any(low <= first < high for low, high in marked)
            found.append((visible_text(text[first:last]), EVIDENCE if is_evidence else PLAIN))
        here = end
    return found


def _why_read(extraction: Extraction) -> str:
    """Why a response was read as it was, in a few words: what its rule means."""
    if extraction.rule in DECISIONS:
        return DECISIONS[extraction.rule]
    if extraction.outcome == "multiple":
        return "More than one option is chosen."
    parts = extraction.rule.replace("+", ":").split(":")
    return next((WHY[part] for part in parts if part in WHY), extraction.rule)


def _response(
    response: Response, extraction: Extraction, reasoning: ReasoningText | None, lengths: ExcerptLengths
) -> list[Piece]:
    """The response with its evidence; reasoning that stands in it is shown by itself."""
    text, start = response.text or response.refusal or "", 0
    if reasoning is not None and reasoning.end is not None:
        start = len(text) - len(text[reasoning.end :].lstrip())
    spans = [(max(0, first - start), last - start) for first, last in extraction.spans if last > start]
    return pieces(text[start:], spans, lengths)


def _reasoning(
    reasoning: ReasoningText | None, bias: ReasoningExtraction | None, lengths: ExcerptLengths
) -> dict[str, Any] | None:
    """The reasoning trace, and what was extracted from it."""
    if reasoning is None:
        return None
    return {
        "text": pieces(reasoning.text, bias.spans if bias is not None else (), lengths),
        "characters": len(reasoning.text),
        "option": bias.option if bias is not None else None,
        "parsed": bias is not None,
        "stances": sorted(bias.stances) if bias is not None else [],
    }


def _options(
    answered: CompletedPrompt, question: Question, extraction: Extraction, lengths: ExcerptLengths
) -> list[dict[str, Any]]:
    """The options as shown."""
    instance, order = answered.instance, answered.prompt.option_order
    chosen = extraction.option
    if chosen is None and extraction.outcome in {"abstention", "refusal"}:
        chosen = question.unknown_index
    return [
        {
            "label": visible_text(label),
            "text": pieces(text, (), lengths),
            "role": instance.options[order[place]].role or "person",
            "right": order[place] == instance.gold_index,
            "chosen": place == chosen,
        }
        for place, (label, text) in enumerate(zip(question.labels, question.options, strict=True))
    ]


def item_views(
    store: RunStore, items: Sequence[SampleRow], lengths: ExcerptLengths, *, with_prompt: bool = False
) -> Iterator[dict[str, Any]]:
    """The views of items, each looked up in the run."""
    version = reasoning_version(PackPaths())
    for item in items:
        answered = find_completed(store, item.prompt_id, with_parallels=False)
        extraction = stored_extractions(store, item.prompt_id).get(item.extractor)
        if answered is not None and extraction is not None:
            response, question = answered.response, question_of(answered)
            missing = None if response.error is None else shortened(response.error, 300)
            if missing is None and response.finish_reason == "content_filter":
                missing = "the answer was blocked by the service"
            reasoning, bias = reasoning_text(response, PackPaths()), None
            if version is not None and reasoning is not None:
                bias = stored_reasoning(store, item.prompt_id, version)
            view: dict[str, Any] = {
                **{name: visible_text(value) for name, value in item._asdict().items() if isinstance(value, str)},
                "polarity": answered.instance.polarity,
                "label_style": answered.prompt.label_style,
                "context": pieces(answered.instance.context, (), lengths),
                "question": pieces(answered.instance.question, (), lengths),
                "options": _options(answered, question, extraction, lengths),
                "response": _response(response, extraction, reasoning, lengths),
                "reasoning": _reasoning(reasoning, bias, lengths),
                "missing": missing,
                "rule": visible_text(extraction.rule),
                "why": _why_read(extraction),
                "conflicts": [visible_text(conflict) for conflict in extraction.conflicts],
                "no_context": answered.prompt.no_context,
            }
            if with_prompt:
                view["messages"] = [
                    {"role": message.role, "content": pieces(message.content, (), lengths)}
                    for message in answered.prompt.messages
                ]
            yield view


# --- the server ------------------------------------------------------------------------------------------------------

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
    """The viewer of a run; `versions`: language → the extractor version whose readings are shown."""
    with folder.open_store(read_only=True) as store:
        index = SampleIndex(store, versions, step=step)
    assets, names = page_assets(connects=True), language_names(versions, where)
    page = viewer_page(folder.manifest().config.model, str(folder.path), index.count(), names, assets)
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
        answer = self._refusal()
        if answer is None and self.path == _ICON:
            answer = Answer(HTTPStatus.NO_CONTENT, "image/x-icon", b"")
        elif answer is None and (path := self.server.within(self.path)) is not None:
            answer = self.server.viewer.answer(path)
        answer = answer or _plain(HTTPStatus.FORBIDDEN, "open the whole address that mbbq-gen view printed")
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    do_HEAD = do_GET  # noqa: N815

    def _refusal(self) -> Answer | None:
        """Why the request is not answered; None where it may be."""
        if len(self.headers.get_all("Host") or []) != 1 or not self.server.knows(self.headers["Host"]):
            return _plain(HTTPStatus.MISDIRECTED_REQUEST, "this server answers to its own address only")
        site, origin = self.headers.get("Sec-Fetch-Site", "none"), self.headers.get("Origin")
        is_foreign = site not in {"none", "same-origin"} and self.path != f"/{self.server.token}/"
        if is_foreign or (origin is not None and not self.server.knows(origin.removeprefix("http://"))):
            return _plain(HTTPStatus.FORBIDDEN, "another site requested this")
        return None

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
