"""Views of single answers, and the server of `mbbq-gen view`, which shows the answers of one run in a browser."""

from __future__ import annotations

import html
import re
import secrets
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from mbbq_gen.core.errors import MbbqGenError, RunError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.option_display import options_in_order, unknown_position
from mbbq_gen.core.records import Extraction
from mbbq_gen.core.text import shortened
from mbbq_gen.extraction.explain import reason_of
from mbbq_gen.extraction.reasoning import ReasoningExtraction, reasoning_version
from mbbq_gen.report.explanation import pieces
from mbbq_gen.report.page import html_page, template_environment
from mbbq_gen.report.tables import STANCE_TITLES, escaped
from mbbq_gen.runs.reasoning import reasoning_text, stored_reasoning
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.runs.samples import SampleIndex, SampleRow
from mbbq_gen.storage.queries import find_completed, stored_extractions
from mbbq_gen.storage.store import CompletedPrompt, RunStore

# --- views of answers ------------------------------------------------------------------------------------------------

IN_PAGE, IN_VIEWER = 2200, 200_000
"""Numbers of characters shown of a text: in a report, which contains a few thousand answers, and in the viewer."""


def _html(text: str, limit: int, spans: Sequence[tuple[int, int]] = ()) -> str:
    """The text in pieces as HTML, escaped."""
    if not spans and len(text) <= limit:  # most texts
        return escaped(text)
    parts = ((html.escape(piece), kind) for piece, kind in pieces(text, spans, limit))
    return "".join(f"<{kind}>{piece}</{kind}>" if kind else piece for piece, kind in parts)


def item_views(
    store: RunStore, items: Sequence[SampleRow], limit: int, *, with_prompt: bool = False
) -> Iterator[dict[str, Any]]:
    """The values of `answers.html` for each answer, with its texts from the run's store."""
    version, command = reasoning_version(PackPaths()), f"mbbq-gen explain {shlex.quote(str(store.path.parent))}"
    for item in items:
        answered = find_completed(store, item.prompt_id)
        extraction = stored_extractions(store, item.prompt_id).get(item.extractor)
        if answered is None or extraction is None:
            continue
        response, instance, prompt = answered.response, answered.instance, answered.prompt
        blocked = "the answer was blocked by the service" if response.finish_reason == "content_filter" else None
        missing = blocked if response.error is None else shortened(response.error, 300)
        text, start = response.text or response.refusal or "", 0
        trace, reasoning = reasoning_text(response, PackPaths()), None
        if trace is not None:
            found = stored_reasoning(store, item.prompt_id, version)
            reasoning = _reasoning_view(trace.text, found, prompt.option_labels, limit)
            if trace.end is not None:  # the response begins with the reasoning, which is shown separately
                start = len(text) - len(text[trace.end :].lstrip())
        spans = [(max(0, first - start), last - start) for first, last in extraction.spans if last > start]
        choice = item.outcome.replace("_", " ")
        if item.role != "none":
            choice = f"{item.role.replace('_', ' ')}, {'correct' if item.correct == 'yes' else 'incorrect'}"
        yield {
            **item._asdict(),
            "choice": choice,
            "where": f"{item.language} · {item.category} · {item.condition} · {item.variant}",
            "beginning": shortened(text[start:], 90) or missing or "no text",
            "no_context": prompt.no_context,
            "context": _html(instance.context, limit),
            "question": _html(instance.question, limit),
            "options": _option_views(answered, extraction, limit),
            "reasoning": reasoning,
            "response": _html(text[start:], limit, spans),
            "missing": missing,
            "facts": [
                _reading(extraction, prompt.option_labels),
                f"question {item.key}, {instance.polarity.replace('_', ' ')}; template {item.template}",
                f"prompt variant {item.variant}, labels {prompt.label_style}, reasoning effort {item.reasoning_effort}",
                f"choice differs between prompt variants and option orders: {item.flipped}",
            ],
            "command": f"{command} {item.prompt_id}",
            "messages": [
                {"role": message.role, "html": _html(message.content, limit)}
                for message in (prompt.messages if with_prompt else ())
            ],
        }


def _reading(extraction: Extraction, labels: Sequence[str]) -> str:
    """The extraction in words: outcome, option, reason, conflicts."""
    option = "" if extraction.option is None else f" {labels[extraction.option]}"
    against = f", against {', '.join(extraction.conflicts)}" if extraction.conflicts else ""
    facts = f"rule {extraction.rule}, confidence {extraction.confidence}{against}"
    return f"read as {extraction.outcome.replace('_', ' ')}{option}: {reason_of(extraction.rule)} ({facts})"


def _reasoning_view(trace: str, found: ReasoningExtraction | None, labels: Sequence[str], limit: int) -> dict[str, str]:
    summary = f"{len(trace):,} characters"
    if found is None:
        return {"summary": summary, "html": _html(trace, limit)}
    summary += ", no conclusion" if found.option is None else f", concludes option {labels[found.option]}"
    summary = "; speaks of ".join([summary, *(STANCE_TITLES[stance] for stance in sorted(found.stances))])
    return {"summary": summary, "html": _html(trace, limit, found.spans)}


def _option_views(answered: CompletedPrompt, extraction: Extraction, limit: int) -> list[dict[str, str | bool]]:
    """The options in the order of the prompt."""
    instance, prompt, chosen = answered.instance, answered.prompt, extraction.option
    if chosen is None and extraction.outcome in {"abstention", "refusal"}:
        chosen = unknown_position(instance, prompt.option_order)
    texts = options_in_order(instance, prompt.option_order, prompt.unknown_text)
    found: list[dict[str, str | bool]] = []
    for place, (label, text, option) in enumerate(zip(prompt.option_labels, texts, prompt.option_order, strict=True)):
        tags = (instance.options[option].role or "person").replace("_", " ")
        tags += (", correct" if option == instance.gold_index else "") + (", chosen" if place == chosen else "")
        found.append({"label": label, "html": _html(text, limit), "tags": tags, "chosen": place == chosen})
    return found


# --- the server ------------------------------------------------------------------------------------------------------

LOOPBACK = "127.0.0.1"
PAGE_SIZE = 20
"""Number of answers on a page."""
_MAX_VALUE_LENGTH = 500


class ViewServer(ThreadingHTTPServer):
    """A read-only server of one run on a port of the loopback address, with one path:

        GET /TOKEN/?language=tr&flipped=yes&page=2

    Other users of this machine can reach the port, so the URL has a random token for each start. Requests with another
    Host are refused because of DNS rebinding, where a web page points its own host name to 127.0.0.1.
    """

    daemon_threads = True

    def __init__(self, folder: RunFolder, versions: Mapping[str, str], port: int = 0) -> None:
        """`versions`: language → version of the extractor in use; `port`: 0 for any free one.

        Raises:
            RunError: if the port is not available.
        """
        self.folder, self.token = folder, secrets.token_urlsafe(16)
        with folder.open_store(read_only=True) as store:
            self.index = SampleIndex(store, versions)
        template_environment()  # raises for missing packages
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except OSError as error:
            raise RunError(f"port {port}: {error.strerror or error}; name another with --port") from error
        self.url = f"http://{LOOPBACK}:{self.server_port}/{self.token}/"
        """The address for the browser, with the token."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores connections that the browser closed; prints all other errors."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)

    def page(self, query: Mapping[str, str]) -> str:
        """A page of answers; `query`: the filters, and `page`, the number of the page from 1."""
        text = query.get("page", "1")
        if not re.fullmatch("[1-9][0-9]{0,8}", text):
            raise UsageError(f"page: {text!r} is not the number of a page")
        number, first = int(text), (int(text) - 1) * PAGE_SIZE
        filters = {name: value[:_MAX_VALUE_LENGTH] for name, value in query.items() if name != "page"}
        total, rows = self.index.count(filters), self.index.page(filters, first, PAGE_SIZE)
        with self.folder.open_store(read_only=True) as store:
            items = list(item_views(store, rows, IN_VIEWER, with_prompt=True))
        answers = {
            "note": f"{self.index.count():,} answers, read by `mbbq-gen view` on this machine. Nothing can be changed.",
            "fields": self.index.values(),
            "address": "?",
            "count": f"Answers {first + 1:,} to {first + len(rows):,} of {total:,}" if rows else "No answers.",
            "listed": items,
            "chosen": filters,
            "next": f"?{urlencode(filters | {'page': str(number + 1)})}" if first + PAGE_SIZE < total else "",
            "packed": "",
        }
        model = self.folder.manifest().config.model
        return html_page(f"Answers of {self.folder.path}: {model}", answers=answers)


class _Handler(BaseHTTPRequestHandler):
    """The handler of one connection."""

    server: ViewServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "mbbq-gen", ""
    error_content_type = "text/plain; charset=utf-8"
    error_message_format = "%(code)d %(message)s\n"
    timeout = 60

    def do_GET(self) -> None:
        """Sends the response to GET."""
        parts, body, media_type = urlsplit(self.path), "", self.error_content_type
        hosts = [f"{name}:{self.server.server_port}" for name in (LOOPBACK, "localhost")]
        if self.headers.get("Host") not in hosts:
            status, body = HTTPStatus.MISDIRECTED_REQUEST, "this server answers to its own address only\n"
        elif parts.path == "/favicon.ico":  # requested by browsers automatically, without the token
            status = HTTPStatus.NO_CONTENT
        elif not secrets.compare_digest(parts.path.encode(), f"/{self.server.token}/".encode()):
            status, body = HTTPStatus.FORBIDDEN, "open the whole address that mbbq-gen view printed\n"
        else:
            try:
                status, body = HTTPStatus.OK, self.server.page(dict(parse_qsl(parts.query)))
                media_type = "text/html; charset=utf-8"
            except MbbqGenError as error:
                status, body = HTTPStatus.BAD_REQUEST, f"{error}\n"
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body.encode(errors="replace"))))
        self.end_headers()
        self.wfile.write(body.encode(errors="replace"))

    def end_headers(self) -> None:
        """Adds the security headers to every response, including errors."""
        self.send_header("Content-Security-Policy", "frame-ancestors 'none'")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        """Logs nothing, because the command prints only the address."""
