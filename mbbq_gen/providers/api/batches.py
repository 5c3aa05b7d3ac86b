"""Batches: many requests handed over at once, answered within a day, at about half the price.

The network can fail at any point of handing a batch over, so a batch can be found again by the name that we gave it, or
where a service keeps no names, by when it was made and how many requests it holds.

OpenAI       a file of lines is uploaded, then made into a batch whose metadata has our name. Answers come in one
             file, failures and what was not done in another. https://platform.openai.com/docs/api-reference/batch
Anthropic    all lines as one body; no names. https://docs.anthropic.com/en/api/creating-message-batches
Gemini       all lines as one body with our name. https://ai.google.dev/gemini-api/docs/batch-api
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, NamedTuple

from pydantic import JsonValue

from mbbq_gen.core.errors import ProviderError, UsageError
from mbbq_gen.core.records import FrozenModel, Request
from mbbq_gen.core.text import count_or_none, storable_text
from mbbq_gen.providers.base import Provider
from mbbq_gen.providers.http.errors import RejectedError, RetriesExhaustedError, TransientError, says_too_large
from mbbq_gen.providers.http.replies import FormFile, Line, table_of, tables_of, words_of

BatchPhase = Literal[
    "running",
    "ended",  # its results, whole or in part, can be had
    "refused",  # the service would not take it: nothing in it was answered or paid
]
PASSED_ON: Final = 1_000_000
"""Bytes that whatever stands between us and a service accepts by default (nginx: 1 MB)."""
_SHOWN: Final = 80
_MOST_PAGES: Final = 50
"""Pages of a service's list that are looked through for one of our batches."""
_PAGE: Final = 100


class TooLargeError(ProviderError):
    """The service takes fewer requests or bytes in one batch; nothing in it was answered or paid."""


def is_cut_off(fault: TransientError, size: int) -> bool:
    """Whether sending so many bytes failed as it does where something on the way takes fewer."""
    return fault.kind in {"broken", "timeout"} and size > PASSED_ON


@contextmanager
def explain_if_too_large(size: int = 0) -> Iterator[None]:
    """Turns a refusal for size into a TooLargeError, and the sending of so many bytes that breaks off each time."""
    try:
        yield
    except RetriesExhaustedError as error:
        if is_cut_off(error.fault, size):
            raise TooLargeError(f"{size:,} bytes do not get through: {error.fault}") from error
        raise
    except RejectedError as refusal:
        error = refusal.error
        is_bad = error.status in {400, 422} and says_too_large(f"{error.code} {error.message}")
        if is_bad or error.status == 413:
            raise TooLargeError(str(refusal)) from refusal
        raise


class BatchStatus(FrozenModel):
    """How a batch stands at the service."""

    service_id: str
    phase: BatchPhase
    state: str
    total: int | None = None
    done: int | None = None
    """Answered requests; None where the service does not tell before the end."""
    failed: int | None = None
    reason: str | None = None
    waits: bool = False
    """Whether it was refused only because too much is waiting already: it may be taken later."""
    too_large: bool = False
    """Whether it was refused for the number of its requests or bytes."""
    results: tuple[str, ...] = ()
    """Where its results are, below the service's address."""
    seconds: float | None = None


class BatchRef(NamedTuple):
    """What a batch can be found by: our own name for it, the number of its requests, and when it was planned."""

    name: str
    requests: int
    planned_at: datetime


@dataclass(frozen=True)
class BatchResult:
    """What came of one request of a batch."""

    request_key: str
    outcome: Literal["answered", "failed", "undone"]
    """`undone`: nobody tried, because the batch expired or was cancelled."""
    payload: Any = None
    status: int = 200
    headers: Mapping[str, str] | None = None
    truncated_at: int | None = None
    """Bytes after which its line was no longer taken; None: it is whole."""


class MalformedLine(NamedTuple):
    """The beginning of a line of a batch's results that is no result: broken, cut off, or of another shape."""

    start: str


class BatchApi(ABC):
    """A service that takes batches."""

    most_requests: int
    most_bytes: int
    path: str = "/batches"
    cancels: ClassVar[str] = "/cancel"
    """What stands behind a batch's address to stop it."""
    refused_on_vertex: ClassVar[str] = ""
    """What to do instead on Vertex AI, whose batches are made of files in a bucket; empty where that can't be."""

    def __init__(self, provider: Any) -> None:
        """`provider`: the ApiProvider of this service. Raises UsageError where it is asked on Vertex AI."""
        if self.refused_on_vertex and provider.is_vertex:
            raise UsageError(
                f"--batch: {provider.name}: Vertex AI takes batches from buckets only; {self.refused_on_vertex}"
            )
        self.provider = provider

    @abstractmethod
    def row(self, request: Request) -> dict[str, Any]:
        """One request as the service takes it in a batch."""

    @abstractmethod
    async def submit(self, mark: BatchRef, path: Path) -> str:
        """Hands over the batch whose lines are in a file; the service's id of it.

        Raises:
            TooLargeError: where the service takes smaller ones only.
            ProviderError: where the service will not take it.
            TransientError: where it is not known whether it did.
        """

    @abstractmethod
    async def find(self, mark: BatchRef, known: frozenset[str]) -> str | None:
        """The id of the batch that was handed over under that mark, if there is one that is not `known`."""

    @abstractmethod
    async def status(self, service_id: str) -> BatchStatus:
        """How a batch stands; raises ProviderError where the service does not know it."""

    @abstractmethod
    def read(self, row: Any) -> BatchResult:
        """What came of the request of one line of the results, by its JSON."""

    def read_line(self, line: Line) -> BatchResult | MalformedLine:
        """The same, of a line that may be broken."""
        try:
            answer = self.read(line.json())
        except (ValueError, KeyError, TypeError, AttributeError):
            return MalformedLine(storable_text(line.content[:_SHOWN].decode("utf-8", "replace")))
        return replace(answer, truncated_at=len(line.content)) if line.is_cut else answer

    def line(self, request: Request) -> bytes:
        """One request as a line of the batch's file, with its line end."""
        return json.dumps(self.row(request), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"

    async def results(self, status: BatchStatus) -> AsyncGenerator[BatchResult | MalformedLine, None]:
        """What came of the requests of an ended batch, in any order, and the lines that tell of none.

        Raises:
            ProviderError: where they can't be had.
            TransientError: where the connection broke on the way.
        """
        for path in status.results:
            async for line in self.provider.stream(path):
                if line.content.strip():
                    yield self.read_line(line)

    async def cancel(self, service_id: str) -> None:
        """Asks the service to stop a batch; what it has answered by then stays. One that has ended can't be stopped."""
        await self.provider.call("POST", f"{self.path}/{service_id}{self.cancels}", accept=(400, 409))

    async def post(self, path: str, body: JsonValue, name: str) -> str:
        """Posts a batch; the service's id of it, which is in a field of its reply."""
        with explain_if_too_large():
            reply = await self.provider.call("POST", path, body=body, repeat=False)
        return self.field(reply.json(), name)

    def field(self, found: Any, name: str) -> str:
        """A field that every reply of the service has; raises ProviderError where it has not."""
        if not table_of(found).get(name):
            raise ProviderError(
                f"{self.provider.name}: the server answered a batch without {name!r}: does it take batches?"
            )
        return str(found[name])

    async def listed(
        self, path: str, name: str, next_page: Callable[[Any], str | None]
    ) -> AsyncGenerator[dict[str, Any], None]:
        """The entries in a field of a service's list, a page after another.

        `next_page`: page → what is added to the query of `path` for the next one, or None.
        """
        query: str | None = ""
        for _ in range(_MOST_PAGES):
            page = table_of((await self.provider.call("GET", f"{path}{query}")).json())
            for entry in tables_of(page.get(name)):
                yield entry
            query = next_page(page)
            if query is None:
                return


class OpenAIBatches(BatchApi):
    """Batches of OpenAI, and of servers that speak its language."""

    most_requests, most_bytes = 50_000, 200_000_000
    _metadata: Final = "mbbq_gen_batch"
    _phases: ClassVar[Mapping[str, BatchPhase]] = dict.fromkeys(("completed", "expired", "cancelled"), "ended")
    _waits: Final = ("token_limit_exceeded", "rate_limit", "enqueued")
    """Signs that a batch was refused only for what waits before it."""
    _undone: Final = ("batch_expired", "batch_cancelled")

    def row(self, request: Request) -> dict[str, Any]:
        """With the endpoint that answers it."""
        body = self.provider.body_of(request)
        return {"custom_id": request.request_key, "method": "POST", "url": self.provider.batch_endpoint, "body": body}

    async def submit(self, mark: BatchRef, path: Path) -> str:
        """Uploads the file and makes the batch."""
        form = FormFile(path, f"{mark.name}.jsonl", {"purpose": "batch"})
        with explain_if_too_large(path.stat().st_size):
            uploaded = await self.provider.call("POST", "/files", form=form)
        body: dict[str, JsonValue] = {
            "input_file_id": self.field(uploaded.json(), "id"),
            "endpoint": self.provider.batch_endpoint,
            "completion_window": "24h",
            "metadata": {self._metadata: mark.name},
        }
        return await self.post("/batches", body, "id")

    async def find(self, mark: BatchRef, known: frozenset[str]) -> str | None:
        """The batch whose metadata holds our name."""

        def next_page(page: Any) -> str | None:
            entries = tables_of(page.get("data"))
            return f"&after={entries[-1]['id']}" if entries and page.get("has_more") else None

        async for entry in self.listed(f"/batches?limit={_PAGE}", "data", next_page):
            if table_of(entry.get("metadata")).get(self._metadata) == mark.name:
                return str(entry["id"])
        return None

    async def status(self, service_id: str) -> BatchStatus:
        """How a batch stands."""
        found = (await self.provider.call("GET", f"/batches/{service_id}")).json()
        state = self.field(found, "status")
        counts = table_of(found.get("request_counts"))
        problems = tables_of(table_of(found.get("errors")).get("data"))
        reason = "; ".join(str(entry.get("message") or entry.get("code")) for entry in problems[:3])
        codes = " ".join(f"{entry.get('code')} {entry.get('message')}" for entry in problems).lower()
        files = [found.get("output_file_id"), found.get("error_file_id")]
        ends = [found.get(f"{name}_at") for name in ("completed", "expired", "cancelled", "failed")]
        ended = next((end for end in ends if end is not None), None)
        return BatchStatus(
            service_id=service_id,
            phase="refused" if state == "failed" else self._phases.get(state, "running"),
            state=state,
            total=count_or_none(counts.get("total")),
            done=count_or_none(counts.get("completed")),
            failed=count_or_none(counts.get("failed")),
            reason=self.provider.hide(reason) or None,
            waits=any(sign in codes for sign in self._waits),
            too_large=says_too_large(codes),
            results=tuple(f"/files/{file}/content" for file in files if file),
            seconds=None if ended is None else max(0.0, float(ended) - float(found.get("created_at") or ended)),
        )

    def read(self, row: Any) -> BatchResult:
        """What came of the request of one line."""
        key, response, fault = str(row["custom_id"]), row.get("response"), table_of(row.get("error"))
        if response is None:
            undone = not fault or fault.get("code") in self._undone
            return BatchResult(key, "undone" if undone else "failed", {"error": fault}, status=500)
        status = count_or_none(response.get("status_code")) or 200
        headers = {"x-request-id": str(response["request_id"])} if response.get("request_id") else {}
        return BatchResult(key, "answered" if status == 200 else "failed", response.get("body"), status, headers)


class AnthropicBatches(BatchApi):
    """Batches of Anthropic, which keeps no names: they are found by their time and size."""

    most_requests, most_bytes = 20_000, 32_000_000
    """The service takes 100,000 requests and 256 MB; but a batch goes out in one piece, held in memory."""
    refused_on_vertex = "ask Anthropic itself"
    _earlier, _later = timedelta(minutes=5), timedelta(minutes=15)
    """How far the time at which a batch was made, by the service's clock, may be from that at which it was planned."""
    _status_of: ClassVar[Mapping[str, int]] = {
        "invalid_request_error": 400,
        "authentication_error": 401,
        "permission_error": 403,
        "not_found_error": 404,
        "request_too_large": 413,
        "rate_limit_error": 429,
        "api_error": 500,
        "timeout_error": 504,
        "overloaded_error": 529,
    }
    """Type of an error → the HTTP status that it has when it comes by itself."""

    def __init__(self, provider: Any) -> None:
        """Raises UsageError on Vertex AI."""
        super().__init__(provider)
        self.path = f"{provider.path}/batches"

    def row(self, request: Request) -> dict[str, Any]:
        """Its key and body."""
        return {"custom_id": request.request_key, "params": self.provider.body_of(request)}

    async def submit(self, mark: BatchRef, path: Path) -> str:
        """Sends all lines as one body."""
        requests = [json.loads(line) for line in path.read_bytes().splitlines()]
        return await self.post(self.path, {"requests": requests}, "id")

    async def find(self, mark: BatchRef, known: frozenset[str]) -> str | None:
        """The oldest batch that no other mark has, made at about that time, with that many requests."""
        first, last = mark.planned_at - self._earlier, mark.planned_at + self._later

        def next_page(page: Any) -> str | None:
            entries = tables_of(page.get("data"))
            oldest = _time(entries[-1].get("created_at")) if entries else None
            is_last = oldest is None or oldest < first or not page.get("has_more")
            return None if is_last else f"&after_id={entries[-1]['id']}"

        matches: list[tuple[datetime, str]] = []
        async for entry in self.listed(f"{self.path}?limit={_PAGE}", "data", next_page):
            made = _time(entry.get("created_at"))
            is_ours = str(entry["id"]) not in known and self._total(entry) == mark.requests
            if made is not None and is_ours and first <= made <= last:
                matches.append((made, str(entry["id"])))
        return min(matches)[1] if matches else None

    async def status(self, service_id: str) -> BatchStatus:
        """How a batch stands."""
        found = (await self.provider.call("GET", f"{self.path}/{service_id}")).json()
        state = str(found.get("processing_status"))
        has_ended, counts = state == "ended", found.get("request_counts") or {}
        made, ended = _time(found.get("created_at")), _time(found.get("ended_at"))
        return BatchStatus(
            service_id=service_id,
            phase="ended" if has_ended else "running",
            state=state,
            total=self._total(found),
            done=counts.get("succeeded") if has_ended else None,
            failed=counts.get("errored") if has_ended else None,
            results=(f"{self.path}/{service_id}/results",) if has_ended else (),
            seconds=(ended - made).total_seconds() if made and ended else None,
        )

    @staticmethod
    def _total(entry: Mapping[str, Any]) -> int:
        """How many requests a batch holds, in whatever state they are."""
        return sum(count for count in (entry.get("request_counts") or {}).values() if isinstance(count, int))

    def read(self, row: Any) -> BatchResult:
        """What came of the request of one line."""
        key, result = str(row["custom_id"]), row["result"]
        kind = result["type"]
        if kind == "succeeded":
            return BatchResult(key, "answered", result.get("message"), headers={})
        if kind == "errored":
            fault = result.get("error")
            inner = table_of(table_of(fault).get("error", fault))
            status = self._status_of.get(str(inner.get("type")), 500)
            return BatchResult(key, "failed", fault, status, {})
        return BatchResult(key, "undone")


def _time(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None


class GeminiBatches(BatchApi):
    """Batches of the Gemini API."""

    most_requests, most_bytes = 10_000, 15_000_000
    path, cancels = "", ":cancel"
    refused_on_vertex = "use the Gemini API"
    _phases: ClassVar[Mapping[str, BatchPhase]] = dict.fromkeys(("SUCCEEDED", "CANCELLED", "EXPIRED"), "ended")
    """States, without the words that the service puts before them (BATCH_STATE_, JOB_STATE_)."""
    _status_of: ClassVar[Mapping[int, int]] = dict(
        zip((3, 4, 5, 7, 8, 9, 13, 14, 16), (400, 504, 404, 403, 429, 400, 500, 503, 401), strict=True)
    )
    """Code of an error (google.rpc.Code) → the HTTP status that it has when it comes by itself."""
    _waits: Final = ("resource_exhausted", "quota_exhausted", "enqueued")

    def row(self, request: Request) -> dict[str, Any]:
        """Its body and key."""
        return {"request": self.provider.body_of(request), "metadata": {"key": request.request_key}}

    async def submit(self, mark: BatchRef, path: Path) -> str:
        """Sends all lines as one body."""
        requests = [json.loads(line) for line in path.read_bytes().splitlines()]
        batch: JsonValue = {"displayName": mark.name, "inputConfig": {"requests": {"requests": requests}}}
        return await self.post(f"{self.provider.model_path}:batchGenerateContent", {"batch": batch}, "name")

    async def find(self, mark: BatchRef, known: frozenset[str]) -> str | None:
        """The batch that is displayed under our name."""
        pages = self.listed(
            f"/batches?pageSize={_PAGE}",
            "operations",
            lambda page: f"&pageToken={page['nextPageToken']}" if page.get("nextPageToken") else None,
        )
        async for entry in pages:
            if table_of(entry.get("metadata")).get("displayName") == mark.name:
                return str(entry["name"])
        return None

    async def status(self, service_id: str) -> BatchStatus:
        """How a batch stands."""
        found = table_of((await self.provider.call("GET", f"/{service_id}")).json())
        batch = table_of(found.get("metadata"))
        state = str(batch.get("state")).removeprefix("BATCH_STATE_").removeprefix("JOB_STATE_")
        phase: BatchPhase = "refused" if state == "FAILED" else self._phases.get(state, "running")
        counts, error = table_of(batch.get("batchStats")), table_of(found.get("error"))
        made, ended = _time(batch.get("createTime")), _time(batch.get("endTime"))
        reason = words_of(error.get("message")) or ""
        return BatchStatus(
            service_id=service_id,
            phase=phase,
            state=state.lower(),
            total=count_or_none(counts.get("requestCount")),
            done=count_or_none(counts.get("successfulRequestCount")),
            failed=count_or_none(counts.get("failedRequestCount")),
            reason=self.provider.hide(reason) or None,
            waits=error.get("code") == 8 or any(sign in reason.lower() for sign in self._waits),
            too_large=says_too_large(reason),
            results=(f"/{service_id}",) if phase == "ended" else (),
            seconds=(ended - made).total_seconds() if made and ended else None,
        )

    async def results(self, status: BatchStatus) -> AsyncGenerator[BatchResult | MalformedLine, None]:
        """The answers, from the operation or from a file that it names."""
        for path in status.results:
            found = table_of((await self.provider.call("GET", path)).json())
            output = table_of(found.get("response")) or table_of(table_of(found.get("metadata")).get("output"))
            rows = table_of(output.get("inlinedResponses")).get("inlinedResponses")
            for row in rows if isinstance(rows, list) else ():
                key = words_of(table_of(table_of(row).get("metadata")).get("key"))
                yield MalformedLine(json.dumps(row)[:_SHOWN]) if key is None else self.read({**row, "key": key})
            file = words_of(output.get("responsesFile"))
            if file is not None:
                async for line in self.provider.stream(f"/{file}:download?alt=media", download=True):
                    if line.content.strip():
                        yield self.read_line(line)

    def read(self, row: Any) -> BatchResult:
        """What came of one request."""
        key = str(row["key"])
        if row.get("response") is not None:
            return BatchResult(key, "answered", row["response"], headers={})
        error = table_of(row.get("error"))
        if not error:
            return BatchResult(key, "undone")
        code = count_or_none(error.get("code")) or 0
        status = self._status_of.get(code, code if code >= 400 else 500)
        return BatchResult(key, "failed", {"error": error}, status, {})


_SERVICES: Final[dict[str, Any]] = {"openai": OpenAIBatches, "anthropic": AnthropicBatches, "gemini": GeminiBatches}


def supports_batches(kind: str) -> bool:
    """Whether a kind of provider has batches."""
    return kind in _SERVICES


def batch_service(provider: Provider) -> BatchApi:
    """The batches of a provider's service; raises UsageError where it has none that we know of."""
    if provider.kind not in _SERVICES:
        kinds = ", ".join(sorted(_SERVICES))
        raise UsageError(f"--batch: {provider.name} has no batches; kinds that have: {kinds}")
    batches: BatchApi = _SERVICES[provider.kind](provider)
    return batches
