"""Files and batches of OpenAI, Anthropic and Gemini. Whenever somebody looks at a batch, what is due by then is done.

https://platform.openai.com/docs/api-reference/batch, https://docs.anthropic.com/en/api/creating-message-batches,
https://ai.google.dev/api/batch-api
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aiohttp import web

from mbbq_gen.seeding import stable_number
from tests.fake_service.dialects import Body, Dialect, failure_of, rfc3339
from tests.fake_service.faults import chance, json_bytes
from tests.fake_service.model import FailureError

if TYPE_CHECKING:
    from tests.fake_service.app import Service

Route = tuple[str, str, Callable[[web.Request, bytes], Body | bytes]]


class Result(NamedTuple):
    custom_id: str
    status: int  # 0: expired, -1: cancelled
    body: Body


@dataclass
class Batch:
    """A batch and its results so far."""

    batch_id: str
    requests: list[tuple[str, Body]]
    dialect: Dialect
    model: str | None  # in the path
    told: Body  # what its API repeats: endpoint, name
    rejection: str  # code and message; empty: none
    began: float = field(default_factory=time.time)
    cancelled: float | None = None
    ended: float | None = None
    done: int = 0
    results: list[Result] = field(default_factory=list)

    @property
    def state(self) -> str:
        if self.rejection:
            return "failed"
        if self.ended is None:
            return "in_progress" if self.cancelled is None else "cancelling"
        return "cancelled" if self.cancelled else "expired" if self.count(0) else "completed"

    def count(self, status: int) -> int:
        return sum(result.status == status for result in self.results)

    @property
    def failed(self) -> int:
        return len(self.results) - self.count(0) - self.count(200)


class BatchBook:
    """All batches of one API."""

    prefix = ""

    def __init__(self, service: Service, dialect: Dialect) -> None:
        self.service, self.dialect = service, dialect
        self._batches: dict[str, Batch] = {}
        self._tries: Counter[str] = Counter()

    @property
    def settings(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.service.settings["batches"]
        return found

    def routes(self) -> Iterator[Route]:
        raise NotImplementedError

    def describe(self, batch: Batch) -> Body:
        raise NotImplementedError

    def add(self, batch: Batch) -> Batch:
        """Takes a new batch, unless it is drawn for rejection."""
        number, seed = len(self._batches), self.service.settings["seed"]
        if chance("rejected", seed, self.prefix, number, len(batch.requests)) < self.settings["rejected"]:
            batch.rejection = batch.rejection or "invalid_json_line: the input could not be read"
        if batch.rejection:
            batch.requests, batch.ended = [], batch.began
        assert len({custom_id for custom_id, _ in batch.requests}) == len(batch.requests)
        batch.batch_id = f"{self.prefix}{number + 1:06d}{stable_number(self.prefix, number + 1):016x}"
        self._batches[batch.batch_id] = batch
        self.service.stats.batches += 1
        return batch

    def check_size(self, content: bytes, number: int) -> None:
        """Raises FailureError where a batch is too large."""
        if len(content) > self.settings["max_bytes"]:
            raise FailureError("too_large", "the batch is too large")
        if number > self.settings["max_requests"]:
            raise FailureError("invalid", f"requests: at most {self.settings['max_requests']} in a batch", "requests")

    def get(self, batch_id: str) -> Batch:
        """A batch, brought up to now; raises FailureError where there is none."""
        batch = self._batches.get(batch_id)
        if batch is None:
            raise FailureError("not_found", f"no batch found with id '{batch_id}'")
        if batch.ended is None:
            until, delay_s = batch.cancelled or time.time(), self.settings["delay_s"]
            share = min(1.0, (until - batch.began) / delay_s) if delay_s else 1.0
            due = int(len(batch.requests) * share)
            batch.results += [self._result(batch, *request) for request in batch.requests[batch.done : due]]
            batch.done = due
            batch.ended = time.time() if batch.cancelled or share == 1.0 else None
        return batch

    def all(self, *_: object) -> Body:
        """The list of batches, the newest first."""
        return {"data": [self.describe(self.get(batch_id)) for batch_id in reversed(self._batches)]}

    def show(self, request: web.Request, _content: bytes) -> Body:
        return self.describe(self.get(request.match_info["id"]))

    def cancel(self, request: web.Request, _content: bytes) -> Body:
        batch = self.get(request.match_info["id"])
        if batch.ended is not None and self.prefix != "msgbatch_":
            raise FailureError("invalid", "the batch has ended", status=409)
        batch.cancelled = time.time() if batch.ended is None else batch.cancelled
        return self.describe(batch)

    def _result(self, batch: Batch, custom_id: str, body: Body) -> Result:
        try:
            asked = batch.dialect.parse(body, batch.model)
            self.service.check(asked)
            before = self._tries[asked.digest]
            self._tries[asked.digest] += 1
            if before < self.settings["most_per_request"]:
                point = chance("batch", self.service.settings["seed"], asked.digest, before)
                if point < self.settings["failed"]:
                    raise FailureError("server_error", "the server had an error while processing the request")
                if point < self.settings["failed"] + self.settings["expired"]:
                    return Result(custom_id, 0, {})
            return Result(custom_id, 200, self.service.answered(batch.dialect, asked))
        except FailureError as error:
            return Result(custom_id, *failure_of(batch.dialect, error))

    def told(self, batch: Batch, *, answers: bool) -> list[Result]:
        """Answers, or the other results, in any order; some answers contradicted by a second one after them."""
        found = [result for result in batch.results if (result.status == 200) is answers]
        found.sort(key=lambda result: stable_number(batch.batch_id, result.custom_id))
        others, share = [*found[1:], *found[:1]], self.settings["doubled_lines"] if answers else 0
        return found + [
            result._replace(body=other.body)
            for result, other in zip(found, others, strict=True)
            if chance("doubled", batch.batch_id, result.custom_id) < share
        ]

    def is_broken(self, batch: Batch, result: Result) -> bool:
        """Whether the line of a result is cut in half."""
        share = self.settings["broken_lines"] if result.status == 200 else 0
        return chance("broken", batch.batch_id, result.custom_id) < share

    def lines(self, batch: Batch, results: Iterable[Result], row_of: Callable[[Result], Body]) -> bytes:
        """Results as JSON lines."""
        if (elsewhere := self.settings["results_at"]) is not None:
            raise web.HTTPTemporaryRedirect(elsewhere)
        lines = []
        for result in results:
            line = json_bytes({"custom_id": result.custom_id} | row_of(result))
            lines.append(line[: len(line) // 2] if self.is_broken(batch, result) else line)
        return b"".join(line + b"\n" for line in lines)


class OpenAIBatches(BatchBook):
    prefix = "batch_"

    def __init__(self, service: Service, dialect: Dialect, endpoints: Mapping[str, Dialect]) -> None:
        super().__init__(service, dialect)
        self._endpoints = endpoints
        self._files: list[bytes] = []

    def routes(self) -> Iterator[Route]:
        for root in ("/v1", "/openai"):
            yield "POST", f"{root}/files", self._upload
            yield "GET", root + "/files/{id}/content", self._content
            yield "POST", f"{root}/batches", self._create
            yield "GET", f"{root}/batches", self.all
            yield "GET", root + "/batches/{id}", self.show
            yield "POST", root + "/batches/{id}/cancel", self.cancel

    def _upload(self, request: web.Request, content: bytes) -> Body:
        """Keeps the file of a form (RFC 7578)."""
        boundary = request.headers["content-type"].partition("boundary=")[2].strip('"')
        pieces = [piece.partition(b"\r\n\r\n") for piece in (b"\r\n" + content).split(f"\r\n--{boundary}".encode())]
        self._files.append(next(rest for head, _, rest in pieces if b"filename" in head))
        self.check_size(self._files[-1], 0)
        return {"id": f"file-{len(self._files) - 1}", "object": "file"}

    def _content(self, request: web.Request, _content: bytes) -> bytes:
        """The answers of a batch, or its failures."""
        batch_id, _, kind = request.match_info["id"].partition("-")
        batch = self.get(batch_id)
        return self.lines(batch, self.told(batch, answers=kind == "output"), self._row)

    def _row(self, result: Result) -> Body:
        if result.status == 0:
            return {"response": None, "error": {"code": "batch_expired", "message": "it expired before this was done"}}
        response = {"status_code": result.status, "request_id": f"req_{result.custom_id}", "body": result.body}
        return {"response": response, "error": None}

    def _create(self, _request: web.Request, content: bytes) -> Body:
        body, most = json.loads(content), self.settings["max_waiting"]
        rows = [json.loads(line) for line in self._files[int(body["input_file_id"].removeprefix("file-"))].splitlines()]
        assert {row["url"] for row in rows} == {body["endpoint"]}
        waiting = sum(len(batch.requests) for batch in self._batches.values() if batch.ended is None)
        rejection = ""
        if len(rows) > self.settings["max_requests"]:
            rejection = f"too_many_tasks: a batch holds {self.settings['max_requests']} requests at most"
        elif most is not None and waiting + len(rows) > most:
            rejection = f"token_limit_exceeded: enqueued token limit reached; limit: {most} enqueued"
        told = {"endpoint": body["endpoint"], "metadata": body["metadata"]}
        dialect = self._endpoints[body["endpoint"].removeprefix("/v1")]
        requests = [(row["custom_id"], row["body"]) for row in rows]
        return self.describe(self.add(Batch("", requests, dialect, None, told, rejection)))

    def describe(self, batch: Batch) -> Body:
        over, answers = batch.ended is not None, batch.count(200)
        code, _, message = batch.rejection.partition(": ")
        return {
            **batch.told,
            "id": batch.batch_id,
            "errors": {"data": [{"code": code, "message": message}]} if batch.rejection else None,
            "status": batch.state,
            "output_file_id": f"{batch.batch_id}-output" if over and answers else None,
            "error_file_id": f"{batch.batch_id}-error" if over and len(batch.results) > answers else None,
            "created_at": int(batch.began),
            **({f"{batch.state}_at": int(batch.ended)} if batch.ended is not None else {}),
            "request_counts": {"total": len(batch.requests), "completed": answers, "failed": batch.failed},
        }


class AnthropicBatches(BatchBook):
    prefix = "msgbatch_"

    def routes(self) -> Iterator[Route]:
        root = "/v1/messages/batches"
        yield "POST", root, self._create
        yield "GET", root, self.all
        yield "GET", root + "/{id}", self.show
        yield "GET", root + "/{id}/results", self._results
        yield "POST", root + "/{id}/cancel", self.cancel

    def _create(self, _request: web.Request, content: bytes) -> Body:
        rows = json.loads(content)["requests"]
        self.check_size(content, len(rows))
        requests = [(row["custom_id"], row["params"]) for row in rows]
        batch = self.add(Batch("", requests, self.dialect, None, {}, ""))
        if batch.rejection:
            raise FailureError("server_error", "the batch could not be made")
        return self.describe(batch)

    def _results(self, request: web.Request, _content: bytes) -> bytes:
        batch = self.get(request.match_info["id"])
        undone = [Result(custom_id, -1, {}) for custom_id, _ in batch.requests[batch.done :]]
        return self.lines(
            batch, [*self.told(batch, answers=True), *self.told(batch, answers=False), *undone], self._row
        )

    def _row(self, result: Result) -> Body:
        if result.status == 200:
            return {"result": {"type": "succeeded", "message": result.body}}
        undone = {0: {"type": "expired"}, -1: {"type": "canceled"}}
        return {"result": undone.get(result.status, {"type": "errored", "error": result.body})}

    def describe(self, batch: Batch) -> Body:
        """The batch; its counts stay at 0 until it ends."""
        over, total = batch.ended is not None, len(batch.requests)
        counts = {"succeeded": batch.count(200), "errored": batch.failed, "expired": batch.count(0)}
        counts["canceled"] = total - batch.done
        return {
            "id": batch.batch_id,
            "processing_status": "ended" if over else "canceling" if batch.cancelled else "in_progress",
            "request_counts": {"processing": 0, **counts} if over else {"processing": total} | dict.fromkeys(counts, 0),
            "created_at": rfc3339(batch.began),
            "ended_at": None if batch.ended is None else rfc3339(batch.ended),
        }


class GeminiBatches(BatchBook):
    _states: Final = {"in_progress": "RUNNING", "cancelling": "RUNNING", "completed": "SUCCEEDED"}
    _codes: Final = {400: 3, 404: 5, 413: 3, 429: 8, 500: 13, 503: 14, 504: 4}  # google.rpc.Code

    def routes(self) -> Iterator[Route]:
        yield "POST", "/v1beta/models/{model}:batchGenerateContent", self._create
        yield "GET", "/v1beta/batches", lambda *_: {"operations": self.all()["data"]}
        yield "GET", "/v1beta/batches/{id}", self.show
        yield "POST", "/v1beta/batches/{id}:cancel", self.cancel

    def _create(self, request: web.Request, content: bytes) -> Body:
        given = json.loads(content)["batch"]
        rows = given["inputConfig"]["requests"]["requests"]
        self.check_size(content, len(rows))
        requests = [(row["metadata"]["key"], row["request"]) for row in rows]
        told = {"displayName": given["displayName"]}
        return self.describe(self.add(Batch("", requests, self.dialect, request.match_info["model"], told, "")))

    def describe(self, batch: Batch) -> Body:
        """A batch, with its answers once it has ended; a broken one has lost its key."""
        counts = {"requestCount": len(batch.requests), "successfulRequestCount": batch.count(200)}
        counts["failedRequestCount"] = batch.failed
        metadata: Body = {
            **batch.told,
            "state": f"BATCH_STATE_{self._states.get(batch.state, batch.state.upper())}",
            "createTime": rfc3339(batch.began),
            "batchStats": {name: str(count) for name, count in counts.items()},
        }
        operation: Body = {"name": f"batches/{batch.batch_id}", "metadata": metadata}
        if batch.ended is None:
            return operation
        metadata["endTime"] = rfc3339(batch.ended)
        if batch.rejection:
            return operation | {"done": True, "error": {"code": 3, "message": batch.rejection.partition(": ")[2]}}
        rows = []
        for result in [*self.told(batch, answers=True), *self.told(batch, answers=False)]:
            row: Body = {} if self.is_broken(batch, result) else {"metadata": {"key": result.custom_id}}
            if result.status == 200:
                rows.append({"response": result.body, **row})
            elif result.status != 0:
                rows.append({"error": {**result.body["error"], "code": self._codes.get(result.status, 13)}, **row})
        return operation | {"done": True, "response": {"inlinedResponses": {"inlinedResponses": rows}}}
