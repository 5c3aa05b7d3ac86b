"""Anthropic's message batches: /v1/messages/batches.

Shapes: https://docs.anthropic.com/en/api/creating-message-batches
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from pydantic import JsonValue

from mbbq_gen.fake_server.asked import Failure, FailureError
from mbbq_gen.fake_server.asking import Asking, parse_json
from mbbq_gen.fake_server.batches.work import Batch, BatchBook, BatchRequest, page
from mbbq_gen.fake_server.dialects.anthropic import Anthropic
from mbbq_gen.fake_server.dialects.base import Body, in_future
from mbbq_gen.fake_server.http import HttpRequest, Reply, json_bytes, json_reply
from mbbq_gen.fake_server.routing import Route

_CUSTOM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class AnthropicBatches:
    """Answers at /v1/messages/batches."""

    def __init__(self, asking: Asking, dialect: Anthropic, clock: Callable[[], float]) -> None:
        self._asking = asking
        self._dialect = dialect
        self._book = BatchBook(asking, clock, "msgbatch_")
        self._made: dict[str, tuple[str, str]] = {}
        """Batch id → when it was made and when it expires, as RFC 3339."""
        self._ended: dict[str, str] = {}

    def create(self, request: HttpRequest, _parts: dict[str, str]) -> Reply:
        """Makes a batch."""
        settings = self._asking.scenario.batches
        if len(request.body) > settings.max_bytes:
            raise FailureError(Failure("too_large", "the batch is too large"))
        requests = read_requests(parse_json(request.body))
        if len(requests) > settings.max_requests:
            raise FailureError(Failure("invalid", f"requests: at most {settings.max_requests} in a batch", "requests"))
        if self._book.is_rejected(len(requests)):
            raise FailureError(Failure("server_error", "the batch could not be made"))
        batch = self._book.create(requests)
        self._made[batch.batch_id] = (in_future(0), in_future(24 * 3600))
        return json_reply(200, self._describe(batch, request))

    def list_batches(self, request: HttpRequest, _parts: dict[str, str]) -> Reply:
        """All batches, the newest first."""
        ids, more = page(self._book.ids(), request.query.get("after_id"), request.query.get("limit"))
        entries: list[JsonValue] = [self._describe(self._get(batch_id), request) for batch_id in ids]
        first, last = (ids[0], ids[-1]) if ids else (None, None)
        return json_reply(200, {"data": entries, "has_more": more, "first_id": first, "last_id": last})

    def show(self, request: HttpRequest, parts: dict[str, str]) -> Reply:
        """One batch, brought up to now."""
        return json_reply(200, self._describe(self._get(parts["id"]), request))

    def cancel(self, request: HttpRequest, parts: dict[str, str]) -> Reply:
        """Stops a batch; its answers so far stay."""
        batch = self._get(parts["id"])
        self._book.cancel(batch)
        return json_reply(200, self._describe(batch, request))

    def delete(self, _request: HttpRequest, parts: dict[str, str]) -> Reply:
        """Says that an ended batch is deleted."""
        batch = self._get(parts["id"])
        if batch.ended_at is None:
            raise FailureError(Failure("invalid", "a batch can be deleted only once it has ended"))
        return json_reply(200, {"id": batch.batch_id, "type": "message_batch_deleted"})

    def results(self, _request: HttpRequest, parts: dict[str, str]) -> Reply:
        """What came of each request, one a line, in any order."""
        batch = self._get(parts["id"])
        if batch.ended_at is None:
            raise FailureError(Failure("not_found", "the batch has no results before it has ended"))
        settings = self._asking.scenario.batches
        if settings.results_at is not None:
            return Reply(307, b"", headers={"location": settings.results_at})
        told = batch.told(batch.results, settings.doubled_lines)
        lines = [
            _line(result.custom_id, {"type": "succeeded", "message": result.body})
            if result.status == 200
            else _line(result.custom_id, {"type": "errored", "error": result.body})
            for result in told
        ]
        for number, result in enumerate(told):
            if batch.is_broken(result.custom_id, settings.broken_lines):
                lines[number] = lines[number][: len(lines[number]) // 2] + b"\n"
        lines += [_line(custom_id, {"type": "expired"}) for custom_id in batch.undone]
        lines += [_line(request.custom_id, {"type": "canceled"}) for request in batch.requests[batch.done :]]
        return Reply(200, b"".join(lines), content_type="application/x-jsonl")

    def _get(self, batch_id: str) -> Batch:
        return self._book.get(batch_id, lambda _: self._dialect)

    def _describe(self, batch: Batch, request: HttpRequest) -> Body:
        """The batch object; its counts stay at nought until it ends."""
        created, expires = self._made[batch.batch_id]
        ended = batch.ended_at is not None
        root = f"http://{request.headers.get('host', '127.0.0.1')}"
        working = {"working": "in_progress", "cancelling": "canceling"}
        return {
            "id": batch.batch_id,
            "type": "message_batch",
            "processing_status": working.get(batch.state, "ended"),
            "request_counts": {
                "processing": 0 if ended else len(batch.requests),
                "succeeded": len(batch.succeeded) if ended else 0,
                "errored": len(batch.failed) if ended else 0,
                "canceled": len(batch.requests) - batch.done if ended else 0,
                "expired": len(batch.undone) if ended else 0,
            },
            "created_at": created,
            "expires_at": expires,
            "ended_at": self._ended.setdefault(batch.batch_id, in_future(0)) if ended else None,
            "archived_at": None,
            "cancel_initiated_at": created if batch.cancelled_at is not None else None,
            "results_url": f"{root}/v1/messages/batches/{batch.batch_id}/results" if ended else None,
        }


def read_requests(body: Mapping[str, JsonValue]) -> list[BatchRequest]:
    """The requests of a new batch.

    Raises:
        FailureError: where one is wrong, or there is none.
    """
    rows = body.get("requests")
    if not isinstance(rows, list) or not rows:
        raise FailureError(Failure("invalid", "requests: expected a list with at least one request", "requests"))
    requests: dict[str, BatchRequest] = {}
    for number, row in enumerate(rows):
        custom_id = row.get("custom_id") if isinstance(row, dict) else None
        params = row.get("params") if isinstance(row, dict) else None
        if not isinstance(custom_id, str) or not _CUSTOM_ID.fullmatch(custom_id) or not isinstance(params, dict):
            raise FailureError(Failure("invalid", f"requests.{number}: needs a valid custom_id and params", "requests"))
        if custom_id in requests:
            raise FailureError(Failure("invalid", f"requests.{number}.custom_id: stands twice", "requests"))
        requests[custom_id] = BatchRequest(custom_id, params)
    return list(requests.values())


def _line(custom_id: str, result: Body) -> bytes:
    return json_bytes({"custom_id": custom_id, "result": result}) + b"\n"


def anthropic_batch_routes(asking: Asking, dialect: Anthropic, clock: Callable[[], float]) -> list[Route]:
    """The addresses of message batches."""
    batches = AnthropicBatches(asking, dialect, clock)
    found = {
        ("POST", "/v1/messages/batches"): batches.create,
        ("GET", "/v1/messages/batches"): batches.list_batches,
        ("GET", "/v1/messages/batches/{id}"): batches.show,
        ("GET", "/v1/messages/batches/{id}/results"): batches.results,
        ("POST", "/v1/messages/batches/{id}/cancel"): batches.cancel,
        ("DELETE", "/v1/messages/batches/{id}"): batches.delete,
    }
    return [Route(method, path, asking.guarded(dialect, handler)) for (method, path), handler in found.items()]
