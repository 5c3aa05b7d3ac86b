"""Files and batches of OpenAI, Anthropic and Gemini. Whenever somebody looks at a batch, what is due by then is done.

https://platform.openai.com/docs/api-reference/batch, https://docs.anthropic.com/en/api/creating-message-batches,
https://ai.google.dev/api/batch-api
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from aiohttp import web

from mbbq_gen.core.files import stable_number
from tests.fake_service.dialects import Body, Dialect, rfc3339
from tests.fake_service.faults import chance
from tests.fake_service.model import FailureError

if TYPE_CHECKING:
    from tests.fake_service.app import Service

Route = tuple[str, str, Callable[[web.Request, bytes], Body | bytes]]


class Result(NamedTuple):
    custom_id: str
    status: int  # 200, that of a failure, or one of these two
    body: Body


EXPIRED, CANCELLED = 0, -1


@dataclass
class Batch:
    """A batch and its results so far."""

    dialect: Dialect
    requests: list[tuple[str, Body]]  # custom ids and bodies
    echoed: Body  # what its API repeats: endpoint, name
    model: str | None = None  # in the path
    rejection: tuple[str, str] | None = None  # code and message
    batch_id: str = ""
    began: float = field(default_factory=time.time)
    cancelled: float | None = None
    ended: float | None = None
    done: int = 0
    results: list[Result] = field(default_factory=list)

    @property
    def state(self) -> str:
        if self.ended is None:
            return "in_progress" if self.cancelled is None else "cancelling"
        if self.rejection is not None:
            return "failed"
        return "cancelled" if self.cancelled else "expired" if self.count(EXPIRED) else "completed"

    failed = property(lambda self: len(self.results) - self.count(200) - self.count(EXPIRED))

    def count(self, status: int) -> int:
        return sum(result.status == status for result in self.results)


class BatchBook:
    """All batches of one API."""

    prefix: str = ""
    roots: tuple[str, ...] = ()
    create: Callable[..., Body]  # methods of each API: a request with a batch → what it replies
    describe: Callable[..., Body]  # a batch → how its API shows it

    def __init__(self, service: Service, dialect: Dialect) -> None:
        self.service, self.dialect = service, dialect
        self.batches: dict[str, Batch] = {}
        self._tries: Counter[str] = Counter()

    @property
    def settings(self) -> Any:
        return self.service.settings["batches"]

    def routes(self) -> Iterator[Route]:
        """Method, path and handler of every address."""
        for root in self.roots:
            yield "POST", root, self.create
            yield "GET", root, self.all
            yield "GET", root + "/{id}", lambda request, _: self.describe(self.get(request.match_info["id"]))
            yield "POST", root + "/{id}/cancel", self.cancel

    def add(self, batch: Batch) -> Body:
        """Takes a new batch, unless it is drawn for rejection."""
        number, seed = len(self.batches) + 1, self.service.settings["seed"]
        if chance("rejected", seed, self.prefix, number - 1, len(batch.requests)) < self.settings["rejected"]:
            batch.rejection = batch.rejection or ("invalid_json_line", "the input could not be read")
        if batch.rejection:
            batch.requests, batch.ended = [], batch.began
        assert len(dict(batch.requests)) == len(batch.requests)
        batch.batch_id = f"{self.prefix}{number:06d}{stable_number(self.prefix, number):016x}"
        self.batches[batch.batch_id] = batch
        self.service.stats.batches += 1
        return self.describe(batch)

    def check_size(self, content: bytes, number: int) -> None:
        """Raises FailureError where a batch is too large."""
        if len(content) > self.settings["max_bytes"]:
            raise FailureError("too_large", "the batch is too large")
        if number > self.settings["max_requests"]:
            raise FailureError("invalid", f"requests: at most {self.settings['max_requests']} in a batch", "requests")

    def get(self, batch_id: str) -> Batch:
        """A batch, brought up to now; raises FailureError where there is none."""
        if (batch := self.batches.get(batch_id)) is None:
            raise FailureError("not_found", f"no batch found with id '{batch_id}'")
        if batch.ended is None:
            until, delay_s = batch.cancelled or time.time(), self.settings["delay_s"]
            share = min(1.0, (until - batch.began) / delay_s) if delay_s else 1.0
            due = int(len(batch.requests) * share)
            batch.results += [self._result(batch, *request) for request in batch.requests[batch.done : due]]
            batch.done, batch.ended = due, time.time() if batch.cancelled or share == 1.0 else None
        return batch

    def all(self, *_: object) -> Body:
        """All batches, the newest first."""
        return {"data": [self.describe(self.get(batch_id)) for batch_id in reversed(self.batches)]}

    def cancel(self, request: web.Request, _content: bytes) -> Body:
        batch = self.get(request.match_info["id"])
        if batch.ended is not None and self.prefix != "msgbatch_":
            raise FailureError("invalid", "the batch has ended", status=409)
        batch.cancelled = time.time() if batch.ended is None else batch.cancelled
        return self.describe(batch)

    def _result(self, batch: Batch, custom_id: str, body: Body) -> Result:
        try:
            received = batch.dialect.parse(body, batch.model)
            self.service.check(received)
            before = self._tries[received.digest]
            self._tries[received.digest] += 1
            if before < self.settings["most_per_request"]:
                point = chance("batch", self.service.settings["seed"], received.digest, before)
                if point < self.settings["failed"]:
                    raise FailureError("server_error", "the server had an error while processing the request")
                if point < self.settings["failed"] + self.settings["expired"]:
                    return Result(custom_id, EXPIRED, {})
            return Result(custom_id, 200, self.service.answered(batch.dialect, received))
        except FailureError as error:
            return Result(custom_id, *batch.dialect.failure(error))

    def all_results(self, batch: Batch) -> list[Result]:
        """Results in any order."""
        left = [Result(custom_id, CANCELLED, {}) for custom_id, _ in batch.requests[batch.done :]]
        return sorted(batch.results + left, key=lambda result: stable_number(batch.batch_id, result.custom_id))

    def lines(self, rows: Iterator[tuple[str, Body]]) -> bytes:
        """JSON lines of custom ids and bodies."""
        if (path := self.settings["results_file"]) is not None:
            return Path(path).read_bytes()
        return b"".join(json.dumps({"custom_id": custom_id} | body).encode() + b"\n" for custom_id, body in rows)


class OpenAIBatches(BatchBook):
    prefix = "batch_"
    roots = "/v1/batches", "/openai/batches"

    def __init__(self, service: Service, dialect: Dialect) -> None:
        super().__init__(service, dialect)
        self._files: list[bytes] = []

    def routes(self) -> Iterator[Route]:
        yield from super().routes()
        for root in ("/v1/files", "/openai/files"):
            yield "POST", root, self._upload
            yield "GET", root + "/{id}/content", self._content

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
        found = (result for result in self.all_results(self.get(batch_id)) if result.status != CANCELLED)
        wanted = (result for result in found if (result.status == 200) is (kind == "output"))
        return self.lines((result.custom_id, self._row(result)) for result in wanted)

    def _row(self, result: Result) -> Body:
        response = {"status_code": result.status, "request_id": f"req_{result.custom_id}", "body": result.body}
        expired = {"code": "batch_expired", "message": "it expired before this was done"}
        is_expired = result.status == EXPIRED
        return {"response": None if is_expired else response, "error": expired if is_expired else None}

    def create(self, _request: web.Request, content: bytes) -> Body:
        body = json.loads(content)
        rows = [json.loads(line) for line in self._files[int(body["input_file_id"].removeprefix("file-"))].splitlines()]
        assert {row["url"] for row in rows} == {body["endpoint"]}
        echoed = {"endpoint": body["endpoint"], "metadata": body["metadata"]}
        batch = Batch(self.dialect, [(row["custom_id"], row["body"]) for row in rows], echoed)
        if len(rows) > self.settings["max_requests"]:
            batch.rejection = "too_many_tasks", f"a batch holds {self.settings['max_requests']} requests at most"
        return self.add(batch)

    def describe(self, batch: Batch) -> Body:
        answers = batch.count(200)
        counts = {"total": len(batch.requests), "completed": answers, "failed": batch.failed}
        body: Body = {"id": batch.batch_id, "status": batch.state, "created_at": int(batch.began), **batch.echoed}
        if batch.rejection is not None:
            body["errors"] = {"data": [dict(zip(("code", "message"), batch.rejection, strict=True))]}
        if batch.ended is not None:
            body[f"{batch.state}_at"] = int(batch.ended)
            body |= {"output_file_id": f"{batch.batch_id}-output"} if answers else {}
            body |= {"error_file_id": f"{batch.batch_id}-error"} if len(batch.results) > answers else {}
        return body | {"request_counts": counts}


class AnthropicBatches(BatchBook):
    prefix = "msgbatch_"
    roots = ("/v1/messages/batches",)

    def routes(self) -> Iterator[Route]:
        yield from super().routes()
        yield "GET", self.roots[0] + "/{id}/results", self._results

    def create(self, _request: web.Request, content: bytes) -> Body:
        rows = json.loads(content)["requests"]
        self.check_size(content, len(rows))
        batch = Batch(self.dialect, [(row["custom_id"], row["params"]) for row in rows], {})
        found = self.add(batch)
        if batch.rejection is not None:
            raise FailureError("server_error", "the batch could not be made")
        return found

    def _results(self, request: web.Request, _content: bytes) -> bytes:
        found = self.all_results(self.get(request.match_info["id"]))
        return self.lines((result.custom_id, {"result": self._row(result)}) for result in found)

    def _row(self, result: Result) -> Body:
        if result.status == 200:
            return {"type": "succeeded", "message": result.body}
        undone: dict[int, Body] = {EXPIRED: {"type": "expired"}, CANCELLED: {"type": "canceled"}}
        return undone.get(result.status, {"type": "errored", "error": result.body})

    def describe(self, batch: Batch) -> Body:
        """The batch; its counts stay at 0 until it ends."""
        total = len(batch.requests)
        counts = {"succeeded": batch.count(200), "errored": batch.failed, "expired": batch.count(EXPIRED)}
        counts |= {"processing": 0, "canceled": total - batch.done}
        body: Body = {"id": batch.batch_id, "created_at": rfc3339(batch.began)}
        if batch.ended is not None:
            return body | {"processing_status": "ended", "request_counts": counts, "ended_at": rfc3339(batch.ended)}
        state = "canceling" if batch.cancelled else "in_progress"
        return body | {"processing_status": state, "request_counts": dict.fromkeys(counts, 0) | {"processing": total}}


class GeminiBatches(BatchBook):
    def routes(self) -> Iterator[Route]:
        yield "POST", "/v1beta/models/{model}:batchGenerateContent", self.create
        yield "GET", "/v1beta/batches", lambda *_: {"operations": self.all()["data"]}
        yield "GET", "/v1beta/batches/{id}", lambda request, _: self.describe(self.get(request.match_info["id"]))
        yield "POST", "/v1beta/batches/{id}:cancel", self.cancel

    def create(self, request: web.Request, content: bytes) -> Body:
        given = json.loads(content)["batch"]
        rows = given["inputConfig"]["requests"]["requests"]
        self.check_size(content, len(rows))
        requests = [(row["metadata"]["key"], row["request"]) for row in rows]
        shown = {"displayName": given["displayName"]}
        return self.add(Batch(self.dialect, requests, shown, request.match_info["model"]))

    def _row(self, result: Result) -> Body:
        """One inlined response."""
        row: Body = {"metadata": {"key": result.custom_id}}
        if result.status == 200:
            return {"response": result.body, **row}
        codes = {400: 3, 404: 5, 413: 3, 429: 8, 500: 13, 503: 14, 504: 4}  # google.rpc.Code
        return {"error": {**result.body["error"], "code": codes.get(result.status, 13)}, **row}

    def describe(self, batch: Batch) -> Body:
        """A batch, with its answers once it has ended."""
        states = {"in_progress": "RUNNING", "cancelling": "RUNNING", "completed": "SUCCEEDED"}
        counts = {"requestCount": len(batch.requests), "successfulRequestCount": batch.count(200)}
        counts["failedRequestCount"] = batch.failed
        metadata: Body = {"state": f"BATCH_STATE_{states.get(batch.state, batch.state.upper())}", **batch.echoed}
        metadata |= {"createTime": rfc3339(batch.began), "batchStats": {name: str(counts[name]) for name in counts}}
        operation: Body = {"name": f"batches/{batch.batch_id}", "metadata": metadata, "done": batch.ended is not None}
        if batch.ended is None:
            return operation
        metadata["endTime"] = rfc3339(batch.ended)
        if batch.rejection is not None:
            return operation | {"error": {"code": 3, "message": batch.rejection[1]}}
        rows = [self._row(result) for result in self.all_results(batch) if result.status > 0]
        return operation | {"response": {"inlinedResponses": {"inlinedResponses": rows}}}
