"""Gemini's batches: /v1beta/models/MODEL:batchGenerateContent and /v1beta/batches, requests and answers inline.

Shapes: https://ai.google.dev/api/batch-api
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from mbbq_gen.fake_server.asked import Asked, Failure, FailureError
from mbbq_gen.fake_server.asking import Asking, parse_json
from mbbq_gen.fake_server.batches.work import Batch, BatchBook, BatchRequest, BatchResult, page
from mbbq_gen.fake_server.dialects.base import Body, in_future
from mbbq_gen.fake_server.dialects.gemini import Gemini
from mbbq_gen.fake_server.http import HttpRequest, Reply, json_reply
from mbbq_gen.fake_server.routing import Route

_STATES = {
    "working": "RUNNING",
    "cancelling": "RUNNING",
    "cancelled": "CANCELLED",
    "expired": "EXPIRED",
    "completed": "SUCCEEDED",
}
_CODES = {400: 3, 404: 5, 413: 3, 429: 8, 500: 13, 503: 14, 504: 4}
"""HTTP status → google.rpc.Code, which a batch's errors have."""


class _OfModel(Gemini):
    """Gemini's dialect for the requests of a batch, whose model stands in the batch's address."""

    def __init__(self, model: str) -> None:
        self._model = model

    def parse(self, body: Mapping[str, JsonValue], path_model: str | None) -> Asked:
        """The question in a body."""
        return super().parse(body, path_model or self._model)


@dataclass
class _Record:
    """What a batch says beside the work that is done."""

    dialect: _OfModel
    name: str
    """Its display name."""
    created: str
    ended: str | None = None
    failed: str | None = None
    """Why validation refused it."""


class GeminiBatches:
    """Answers at :batchGenerateContent and /v1beta/batches."""

    def __init__(self, asking: Asking, clock: Callable[[], float]) -> None:
        self._asking = asking
        self._book = BatchBook(asking, clock, "")
        self._records: dict[str, _Record] = {}

    def create(self, request: HttpRequest, parts: dict[str, str]) -> Reply:
        """Makes a batch."""
        settings = self._asking.scenario.batches
        if len(request.body) > settings.max_bytes:
            raise FailureError(Failure("too_large", "request payload size exceeds the limit"))
        body = parse_json(request.body).get("batch")
        if not isinstance(body, dict) or not body.get("displayName"):
            raise FailureError(Failure("invalid", "batch.display_name is required", "batch"))
        requests = read_requests(body)
        if len(requests) > settings.max_requests:
            raise FailureError(Failure("invalid", f"at most {settings.max_requests} requests in a batch", "requests"))
        failed = "the input could not be read" if self._book.is_rejected(len(requests)) else None
        batch = self._book.create([] if failed else requests)
        self._records[batch.batch_id] = _Record(
            _OfModel(parts["model"]), str(body["displayName"]), in_future(0), failed=failed
        )
        return json_reply(200, self._describe(batch, with_answers=False))

    def list_batches(self, request: HttpRequest, _parts: dict[str, str]) -> Reply:
        """All batches, the newest first."""
        ids, more = page(self._book.ids(), request.query.get("pageToken"), request.query.get("pageSize"))
        entries: list[JsonValue] = [self._describe(self._get(batch_id), with_answers=False) for batch_id in ids]
        return json_reply(200, {"operations": entries} | ({"nextPageToken": ids[-1]} if more else {}))

    def show(self, _request: HttpRequest, parts: dict[str, str]) -> Reply:
        """One batch, brought up to now, with its answers once it has ended."""
        return json_reply(200, self._describe(self._get(parts["id"]), with_answers=True))

    def cancel(self, _request: HttpRequest, parts: dict[str, str]) -> Reply:
        """Stops a batch; its answers so far stay."""
        batch = self._get(parts["id"])
        if batch.ended_at is not None:
            raise FailureError(Failure("invalid", "the batch has ended"))
        self._book.cancel(batch)
        return json_reply(200, {})

    def _get(self, batch_id: str) -> Batch:
        return self._book.get(batch_id, lambda batch: self._records[batch.batch_id].dialect)

    def _describe(self, batch: Batch, *, with_answers: bool) -> Body:
        """The operation that a batch is."""
        record = self._records[batch.batch_id]
        ended = batch.ended_at is not None or record.failed is not None
        if ended and record.ended is None:
            record.ended = in_future(0)
        state = "FAILED" if record.failed else _STATES[batch.state]
        metadata: Body = {
            "@type": "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch",
            "name": f"batches/{batch.batch_id}",
            "displayName": record.name,
            "state": f"BATCH_STATE_{state}",
            "createTime": record.created,
            "batchStats": {
                "requestCount": str(len(batch.requests)),
                "successfulRequestCount": str(len(batch.succeeded)),
                "failedRequestCount": str(len(batch.failed)),
            },
        }
        operation: Body = {"name": f"batches/{batch.batch_id}", "metadata": metadata}
        if not ended:
            return operation
        metadata["endTime"] = record.ended
        operation["done"] = True
        if record.failed is not None:
            return operation | {"error": {"code": 3, "message": record.failed}}
        if with_answers:
            settings = self._asking.scenario.batches
            rows: list[JsonValue] = [
                {"response": result.body} if batch.is_broken(result.custom_id, settings.broken_lines) else _row(result)
                for result in batch.told(batch.results, settings.doubled_lines)
            ]
            operation["response"] = {"inlinedResponses": {"inlinedResponses": rows}}
        return operation


def _row(result: BatchResult) -> Body:
    metadata: Body = {"key": result.custom_id}
    if result.status == 200:
        return {"response": result.body, "metadata": metadata}
    error = result.body.get("error")
    fault = error if isinstance(error, dict) else {}
    status: Body = {"code": _CODES.get(result.status, 13), "message": fault.get("message")}
    return {"error": {**status, "details": fault.get("details", [])}, "metadata": metadata}


def read_requests(batch: Mapping[str, JsonValue]) -> list[BatchRequest]:
    """The requests of a new batch.

    Raises:
        FailureError: where one is wrong, or there is none.
    """
    config = batch.get("inputConfig")
    inner = config.get("requests") if isinstance(config, dict) else None
    rows = inner.get("requests") if isinstance(inner, dict) else None
    if not isinstance(rows, list) or not rows:
        raise FailureError(Failure("invalid", "inputConfig.requests.requests: expected at least one", "requests"))
    requests = []
    for number, row in enumerate(rows):
        body = row.get("request") if isinstance(row, dict) else None
        metadata = row.get("metadata") if isinstance(row, dict) else None
        key = metadata.get("key") if isinstance(metadata, dict) else None
        if not isinstance(body, dict) or not isinstance(key, str):
            raise FailureError(Failure("invalid", f"requests[{number}]: needs a request and a key", "requests"))
        requests.append(BatchRequest(key, body))
    return requests


def gemini_batch_routes(asking: Asking, dialect: Gemini, clock: Callable[[], float]) -> list[Route]:
    """The addresses of Gemini's batches."""
    batches = GeminiBatches(asking, clock)
    found = {
        ("POST", "/v1beta/models/{model}:batchGenerateContent"): batches.create,
        ("GET", "/v1beta/batches"): batches.list_batches,
        ("GET", "/v1beta/batches/{id}"): batches.show,
        ("POST", "/v1beta/batches/{id}:cancel"): batches.cancel,
    }
    return [Route(method, path, asking.guarded(dialect, handler)) for (method, path), handler in found.items()]
