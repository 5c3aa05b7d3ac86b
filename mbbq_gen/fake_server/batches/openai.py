"""OpenAI's files and batches: /v1/files and /v1/batches.

Shapes: https://platform.openai.com/docs/api-reference/batch
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from mbbq_gen.fake_server.asked import Failure, FailureError
from mbbq_gen.fake_server.asking import Asking, parse_json
from mbbq_gen.fake_server.batches.files import FileStore, parse_form
from mbbq_gen.fake_server.batches.work import Batch, BatchBook, BatchRequest, BatchResult, page
from mbbq_gen.fake_server.dialects.base import Body, Dialect
from mbbq_gen.fake_server.http import HttpRequest, Reply, json_bytes, json_reply
from mbbq_gen.fake_server.routing import Route

_DAY = 24 * 3600
_STATUSES = {
    "working": "in_progress",
    "cancelling": "cancelling",
    "cancelled": "cancelled",
    "expired": "expired",
    "completed": "completed",
}


@dataclass
class _Record:
    """What a batch object says beside the work that is done."""

    endpoint: str
    input_file_id: str
    metadata: JsonValue
    created_at: int
    errors: list[JsonValue] = field(default_factory=list)
    """What validation found wrong."""
    output_file_id: str | None = None
    error_file_id: str | None = None
    ended_at: int | None = None
    cancelling_at: int | None = None


class OpenAIBatches:
    """Answers at /v1/files and /v1/batches."""

    def __init__(self, asking: Asking, dialects: Mapping[str, Dialect], clock: Callable[[], float]) -> None:
        self._asking = asking
        self._dialects = dialects
        self._files = FileStore()
        self._book = BatchBook(asking, clock, "batch_")
        self._records: dict[str, _Record] = {}

    # --- files ----------------------------------------------------------------------------------------------------

    def upload(self, request: HttpRequest, _parts: dict[str, str]) -> Reply:
        """Takes a file."""
        form = parse_form(request.headers, request.body)
        if "file" not in form or "purpose" not in form:
            raise FailureError(Failure("invalid", "a form with the fields file and purpose is needed", "file"))
        content = form["file"].content
        if len(content) > self._asking.scenario.batches.max_bytes:
            raise FailureError(Failure("too_large", "the file is too large", "file"))
        purpose = form["purpose"].content.decode(errors="replace")
        stored = self._files.add(form["file"].filename or "file.jsonl", purpose, content)
        return json_reply(200, stored.describe())

    def list_files(self, request: HttpRequest, _parts: dict[str, str]) -> Reply:
        """All files, the newest first."""
        ids, more = page(self._files.ids(), request.query.get("after"), request.query.get("limit", "10000"))
        return json_reply(200, _listing([self._files.get(file_id).describe() for file_id in ids], ids, more))

    def show_file(self, _request: HttpRequest, parts: dict[str, str]) -> Reply:
        """One file."""
        return json_reply(200, self._files.get(parts["id"]).describe())

    def content(self, _request: HttpRequest, parts: dict[str, str]) -> Reply:
        """A file's content."""
        if (elsewhere := self._asking.scenario.batches.results_at) is not None:
            return Reply(307, b"", headers={"location": elsewhere})
        return Reply(200, self._files.get(parts["id"]).content, content_type="application/octet-stream")

    def delete_file(self, _request: HttpRequest, parts: dict[str, str]) -> Reply:
        """Forgets a file."""
        self._files.delete(parts["id"])
        return json_reply(200, {"id": parts["id"], "object": "file", "deleted": True})

    # --- batches --------------------------------------------------------------------------------------------------

    def create(self, request: HttpRequest, _parts: dict[str, str]) -> Reply:
        """Makes a batch of an uploaded file."""
        body = parse_json(request.body)
        endpoint, file_id = str(body.get("endpoint")), str(body.get("input_file_id"))
        if endpoint not in self._dialects:
            raise FailureError(Failure("invalid", f"endpoint: {endpoint!r} takes no batches", "endpoint"))
        if body.get("completion_window") != "24h":
            raise FailureError(Failure("invalid", "completion_window: expected '24h'", "completion_window"))
        stored = self._files.get(file_id)
        requests, errors = read_lines(stored.content, endpoint, self._asking.scenario.batches.max_requests)
        if not errors and self._book.is_rejected(len(requests)):
            errors = [_problem("invalid_json_line", "the input could not be read", None)]
        errors = errors or self._too_much_waiting(len(requests))
        batch = self._book.create([] if errors else requests)
        self._records[batch.batch_id] = _Record(endpoint, file_id, body.get("metadata"), int(time.time()), errors)
        return json_reply(200, self._describe(batch, just_made=True))

    def _too_much_waiting(self, more: int) -> list[JsonValue]:
        """What is wrong with a new batch of so many requests while others wait."""
        most = self._asking.scenario.batches.max_waiting
        waiting = sum(len(batch.requests) for batch in map(self._get, self._book.ids()) if batch.ended_at is None)
        if most is None or waiting + more <= most:
            return []
        return [_problem("token_limit_exceeded", f"enqueued token limit reached; limit: {most} enqueued", None)]

    def list_batches(self, request: HttpRequest, _parts: dict[str, str]) -> Reply:
        """All batches, the newest first."""
        ids, more = page(self._book.ids(), request.query.get("after"), request.query.get("limit"))
        return json_reply(200, _listing([self._describe(self._get(batch_id)) for batch_id in ids], ids, more))

    def show_batch(self, _request: HttpRequest, parts: dict[str, str]) -> Reply:
        """One batch, brought up to now."""
        return json_reply(200, self._describe(self._get(parts["id"])))

    def cancel(self, _request: HttpRequest, parts: dict[str, str]) -> Reply:
        """Stops a batch; its answers so far stay."""
        batch = self._get(parts["id"])
        if batch.ended_at is not None:
            raise FailureError(Failure("invalid", f"a batch that is {batch.state} can't be cancelled", status=409))
        self._book.cancel(batch)
        self._records[batch.batch_id].cancelling_at = int(time.time())
        return json_reply(200, self._describe(batch))

    def _get(self, batch_id: str) -> Batch:
        return self._book.get(batch_id, lambda batch: self._dialects[self._records[batch.batch_id].endpoint])

    def _describe(self, batch: Batch, *, just_made: bool = False) -> Body:
        """The batch object."""
        record = self._records[batch.batch_id]
        if batch.ended_at is not None and record.ended_at is None:
            self._write_files(batch, record)
        status = "failed" if record.errors else "validating" if just_made else _STATUSES[batch.state]
        ended: Body = {f"{state}_at": None for state in ("completed", "failed", "expired", "cancelled")}
        if f"{status}_at" in ended:
            ended[f"{status}_at"] = record.ended_at or record.created_at
        return {
            "id": batch.batch_id,
            "object": "batch",
            "endpoint": record.endpoint,
            "errors": {"object": "list", "data": record.errors} if record.errors else None,
            "input_file_id": record.input_file_id,
            "completion_window": "24h",
            "status": status,
            "output_file_id": record.output_file_id,
            "error_file_id": record.error_file_id,
            "created_at": record.created_at,
            "in_progress_at": None if just_made or record.errors else record.created_at,
            "expires_at": record.created_at + _DAY,
            "finalizing_at": record.ended_at,
            "cancelling_at": record.cancelling_at,
            **ended,
            "request_counts": {
                "total": len(batch.requests),
                "completed": len(batch.succeeded),
                "failed": len(batch.failed),
            },
            "metadata": record.metadata,
        }

    def _write_files(self, batch: Batch, record: _Record) -> None:
        """Leaves behind what an ended batch leaves: answers, and failures apart from them."""
        record.ended_at = int(time.time())
        settings = self._asking.scenario.batches
        answers = [
            _broken(_line(batch, result))
            if batch.is_broken(result.custom_id, settings.broken_lines)
            else _line(batch, result)
            for result in batch.told(batch.succeeded, settings.doubled_lines)
        ]
        failures = [_line(batch, result) for result in batch.shuffled(batch.failed)]
        failures += [_undone_line(batch, custom_id) for custom_id in batch.undone]
        if answers:
            record.output_file_id = self._files.add("output.jsonl", "batch_output", b"".join(answers)).file_id
        if failures:
            record.error_file_id = self._files.add("error.jsonl", "batch_output", b"".join(failures)).file_id


def read_lines(content: bytes, endpoint: str, most: int) -> tuple[list[BatchRequest], list[JsonValue]]:
    """The requests of an input file, and what is wrong with it."""
    requests: list[BatchRequest] = []
    seen: set[str] = set()
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            custom_id, body, url = row["custom_id"], row["body"], row["url"]
        except (ValueError, KeyError, TypeError):
            return [], [_problem("invalid_json_line", "this line is no request", number)]
        if url != endpoint:
            return [], [_problem("mismatched_endpoint", f"url {url!r} is not the batch's endpoint", number)]
        if custom_id in seen:
            return [], [_problem("duplicate_custom_id", f"custom_id {custom_id!r} stands twice", number)]
        seen.add(custom_id)
        requests.append(BatchRequest(custom_id, body))
    if not requests:
        return [], [_problem("empty_file", "the input file is empty", None)]
    if len(requests) > most:
        return [], [_problem("too_many_tasks", f"a batch holds {most} requests at most", None)]
    if len({str(request.body.get("model")) for request in requests}) > 1:
        return [], [_problem("mismatched_model", "all requests of a batch must name the same model", None)]
    return requests, []


def _problem(code: str, message: str, line: int | None) -> JsonValue:
    return {"code": code, "message": message, "param": None, "line": line}


def _broken(line: bytes) -> bytes:
    return line[: len(line) // 2] + b"\n"


def _line(batch: Batch, result: BatchResult) -> bytes:
    response: Body = {"status_code": result.status, "request_id": f"req_{result.custom_id}", "body": result.body}
    row: Body = {"id": f"batch_req_{result.custom_id}", "custom_id": result.custom_id, "response": response}
    return json_bytes({**row, "error": None}) + b"\n"


def _undone_line(batch: Batch, custom_id: str) -> bytes:
    error: Body = {"code": "batch_expired", "message": "the batch expired before this request was done"}
    row: Body = {"id": f"batch_req_{custom_id}", "custom_id": custom_id, "response": None, "error": error}
    return json_bytes(row) + b"\n"


def _listing(entries: list[Body], ids: list[str], more: bool) -> Body:
    first, last = (ids[0], ids[-1]) if ids else (None, None)
    return {"object": "list", "data": list(entries), "first_id": first, "last_id": last, "has_more": more}


def openai_batch_routes(asking: Asking, dialects: Mapping[str, Dialect], clock: Callable[[], float]) -> list[Route]:
    """The addresses of files and batches; `dialects` by endpoint."""
    batches = OpenAIBatches(asking, dialects, clock)
    shared = dialects["/v1/chat/completions"]
    found = {
        ("POST", "/v1/files"): batches.upload,
        ("GET", "/v1/files"): batches.list_files,
        ("GET", "/v1/files/{id}"): batches.show_file,
        ("GET", "/v1/files/{id}/content"): batches.content,
        ("DELETE", "/v1/files/{id}"): batches.delete_file,
        ("POST", "/v1/batches"): batches.create,
        ("GET", "/v1/batches"): batches.list_batches,
        ("GET", "/v1/batches/{id}"): batches.show_batch,
        ("POST", "/v1/batches/{id}/cancel"): batches.cancel,
    }
    return [Route(method, path, asking.guarded(shared, handler)) for (method, path), handler in found.items()]
