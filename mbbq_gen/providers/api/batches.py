"""Batch APIs: many requests submitted at once, answered within a day, at about half the price.

The network can fail at any point of a submission, so a batch can be found again by our name for it or, if a service
stores no names, by its creation time and number of requests.

OpenAI       a JSON Lines file is uploaded, then a batch is created whose metadata has our name. Answers are in one
             file, failed and unprocessed requests in another. https://platform.openai.com/docs/api-reference/batch
Anthropic    all lines as one body; no names. https://docs.anthropic.com/en/api/creating-message-batches
Gemini       all lines as one body with our name. https://ai.google.dev/gemini-api/docs/batch-api
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, NamedTuple

from pydantic import JsonValue

from mbbq_gen.core.errors import ProviderError, UsageError
from mbbq_gen.core.records import FrozenModel, Request
from mbbq_gen.core.text import count_or_none, parse_date
from mbbq_gen.providers.base import Provider
from mbbq_gen.providers.http.errors import RejectedError, is_too_large
from mbbq_gen.providers.http.replies import FormFile, read_json, table_of, tables_of, text_or_none, value_at

BatchPhase = Literal[
    "running",
    "ended",  # results are available, whole or in part
    "refused",  # the service refused it: nothing in it was answered or billed
]
_MOST_PAGES: Final = 50
"""Maximum pages of a service's list that are searched for a batch."""
_PAGE: Final = 100
_WAITS: Final = ("token_limit_exceeded", "rate_limit", "enqueued", "resource_exhausted", "quota_exhausted")
"""Texts of refusals that are due to other queued batches."""


class TooLargeError(ProviderError):
    """A batch has too many requests or bytes for the service; nothing in it was answered or billed."""


class BatchStatus(FrozenModel):
    """The status of a batch at the service."""

    service_id: str
    state: str
    phase: BatchPhase
    done: int | None = None
    """Number of answered requests; None if the service does not report it yet."""
    failed: int | None = None
    reason: str | None = None
    waits: bool = False
    """Whether it was refused because of other queued batches, so that it may be accepted later."""
    too_large: bool = False
    """Whether it was refused for the number of its requests or bytes."""
    results: tuple[str, ...] = ()
    """Paths of its results, below the base URL."""


class BatchRef(NamedTuple):
    """Our name for a batch, the number of its requests, and its planning time, to find it again."""

    name: str
    requests: int
    planned_at: datetime


class BatchResult(NamedTuple):
    """The result of one request of a batch."""

    request_key: str
    outcome: Literal["answered", "failed", "undone"]
    """`undone`: not processed, because the batch expired or was cancelled."""
    payload: Any = None
    status: int = 200
    headers: Mapping[str, str] | None = None


class BatchApi(ABC):
    """The batch API of a service."""

    most_requests: int
    most_bytes: int
    path: ClassVar[str] = "/batches"
    page: ClassVar[str] = f"/batches?limit={_PAGE}"
    """Path of the service's list of batches."""
    after: ClassVar[str] = "after"
    """Query parameter of the next page."""
    cancel_suffix: ClassVar[str] = "/cancel"
    """End of the path that cancels a batch."""
    entries: ClassVar[str] = "data"
    id_field: ClassVar[str] = "id"
    name_field: ClassVar[str] = "mbbq_gen_batch"
    """The field of a batch's metadata that holds our name."""
    phases: ClassVar[Mapping[str, BatchPhase]] = {
        **dict.fromkeys(("completed", "expired", "cancelled", "ended", "succeeded"), "ended"),
        "failed": "refused",
    }
    """The service's state of a batch, in lower case → our phase; other states mean `running`."""

    def __init__(self, provider: Any) -> None:
        """`provider`: the ApiProvider of this service."""
        self.provider = provider
        self.n_malformed = 0
        """Lines of results that could not be parsed; their requests have no answer."""

    @abstractmethod
    def row(self, request: Request) -> dict[str, Any]:
        """One request in the format of the service's batches."""

    @abstractmethod
    async def submit(self, ref: BatchRef, path: Path) -> str:
        """Submits the batch whose lines are in a file; returns the service's id of it.

        Raises:
            TooLargeError: the batch has too many requests or bytes.
            ProviderError: the service refused the batch.
            TransientError: it is unknown whether the service accepted the batch.
        """

    @abstractmethod
    def read_status(self, service_id: str, found: dict[str, Any]) -> BatchStatus:
        """The status in the service's JSON."""

    @abstractmethod
    def read(self, row: Any) -> BatchResult:
        """The result in the JSON of one line."""

    async def status(self, service_id: str) -> BatchStatus:
        """The status of a batch; raises ProviderError if there is no such batch."""
        reply = await self.provider.call("GET", self.path_of(service_id))
        return self.read_status(service_id, table_of(reply.json()))

    def _status(self, service_id: str, state: str, *, reason: str = "", codes: str = "", **facts: Any) -> BatchStatus:
        """The status of a batch with its phase; `reason` and `codes`: why it was refused, for people and for us."""
        return BatchStatus(
            service_id=service_id,
            state=state,
            phase=self.phases.get(state, "running"),
            reason=self.provider.hide(reason) or None,
            waits=any(sign in codes.lower() for sign in _WAITS),
            too_large=is_too_large(codes),
            **facts,
        )

    def path_of(self, service_id: str) -> str:
        """The path of a batch."""
        return f"{self.path}/{service_id}"

    def line(self, request: Request) -> bytes:
        """One request as a line of the batch's file, with a newline."""
        return json.dumps(self.row(request), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"

    async def results(self, status: BatchStatus) -> AsyncGenerator[BatchResult, None]:
        """Yields the results of an ended batch in any order; counts malformed lines; raises as `ApiService.stream`."""
        for path in status.results:
            async for line in self.provider.stream(path):
                if not line.strip():
                    continue
                try:
                    result = self.read(read_json(line))
                except (ValueError, KeyError, TypeError, AttributeError):
                    self.n_malformed += 1
                    continue
                yield result

    async def cancel(self, service_id: str) -> None:
        """Cancels a batch; existing answers are kept. For a batch that has ended, nothing happens."""
        await self.provider.call("POST", f"{self.path_of(service_id)}{self.cancel_suffix}", accept=(400, 409))

    async def post(self, path: str, *, body: JsonValue = None, form: FormFile | None = None) -> str:
        """Posts a batch, or a form with its lines, and returns its id; raises TooLargeError if it is too large."""
        try:
            reply = await self.provider.call("POST", path, body=body, form=form, repeat=form is not None)
        except RejectedError as refusal:
            found = refusal.error
            is_bad = found.status in {400, 422} and is_too_large(f"{found.code} {found.message}")
            if found.status != 413 and not is_bad:
                raise
            raise TooLargeError(str(refusal)) from refusal
        if not (service_id := table_of(reply.json()).get(self.id_field)):
            raise ProviderError(f"{self.provider.name}: the server made no batch of it: does it take batches?")
        return str(service_id)

    async def listed(self) -> AsyncGenerator[dict[str, Any], None]:
        """Yields the batches that the service lists, page by page."""
        query = ""
        for _ in range(_MOST_PAGES):
            page = table_of((await self.provider.call("GET", f"{self.page}{query}")).json())
            entries = tables_of(page.get(self.entries))
            for entry in entries:
                yield entry
            if token := page.get("nextPageToken"):
                query = f"&pageToken={token}"
            elif entries and page.get("has_more"):
                query = f"&{self.after}={entries[-1]['id']}"
            else:
                return

    async def find(self, ref: BatchRef, known: frozenset[str]) -> str | None:
        """The id of a submitted batch, or None; `known`: ids of other batches."""
        async for entry in self.listed():
            if table_of(entry.get("metadata")).get(self.name_field) == ref.name:
                return str(entry[self.id_field])
        return None


class OpenAIBatches(BatchApi):
    """Batches of OpenAI, and of servers with the same API."""

    most_requests, most_bytes = 50_000, 200_000_000

    def row(self, request: Request) -> dict[str, Any]:
        """Key, endpoint and body."""
        body = self.provider.body_of(request)
        return {"custom_id": request.request_key, "method": "POST", "url": self.provider.batch_endpoint, "body": body}

    async def submit(self, ref: BatchRef, path: Path) -> str:
        """Uploads the file and creates the batch."""
        form = FormFile(path, f"{ref.name}.jsonl", {"purpose": "batch"})
        body: dict[str, JsonValue] = {
            "input_file_id": await self.post("/files", form=form),
            "endpoint": self.provider.batch_endpoint,
            "completion_window": "24h",
            "metadata": {self.name_field: ref.name},
        }
        return await self.post(self.path, body=body)

    def read_status(self, service_id: str, found: dict[str, Any]) -> BatchStatus:
        """As `BatchApi`."""
        problems, counts = tables_of(value_at(found, "errors.data")), table_of(found.get("request_counts"))
        files = filter(None, (found.get("output_file_id"), found.get("error_file_id")))
        return self._status(
            service_id,
            str(found.get("status")),
            reason="; ".join(str(entry.get("message") or entry.get("code")) for entry in problems[:3]),
            codes=" ".join(f"{entry.get('code')} {entry.get('message')}" for entry in problems),
            results=tuple(f"/files/{file}/content" for file in files),
            done=count_or_none(counts.get("completed")),
            failed=count_or_none(counts.get("failed")),
        )

    def read(self, row: Any) -> BatchResult:
        """As `BatchApi`."""
        key, response, fault = str(row["custom_id"]), row.get("response"), table_of(row.get("error"))
        if response is None:
            is_undone = not fault or fault.get("code") in ("batch_expired", "batch_cancelled")
            return BatchResult(key, "undone" if is_undone else "failed", {"error": fault}, status=500)
        status = count_or_none(response.get("status_code")) or 200
        headers = {"x-request-id": str(response["request_id"])} if response.get("request_id") else {}
        return BatchResult(key, "answered" if status == 200 else "failed", response.get("body"), status, headers)


class AnthropicBatches(BatchApi):
    """Batches of Anthropic, which stores no names: they are found by time and size."""

    most_requests, most_bytes = 20_000, 32_000_000
    """The service accepts 100,000 requests and 256 MB, but a batch is sent as one body, held in memory."""
    path = "/v1/messages/batches"
    page = f"{path}?limit={_PAGE}"
    after = "after_id"
    _earlier, _later = timedelta(minutes=5), timedelta(minutes=15)
    """Maximum difference between the planning time of a batch and its creation by the service's clock."""

    def row(self, request: Request) -> dict[str, Any]:
        """Key and body."""
        return {"custom_id": request.request_key, "params": self.provider.body_of(request)}

    async def submit(self, ref: BatchRef, path: Path) -> str:
        """Sends all lines as one body."""
        return await self.post(self.path, body={"requests": _rows(path)})

    async def find(self, ref: BatchRef, known: frozenset[str]) -> str | None:
        """The oldest unknown batch with the same number of requests that was created at about that time."""
        first, last = ref.planned_at - self._earlier, ref.planned_at + self._later
        oldest = None
        async for entry in self.listed():  # the newest first
            created = parse_date(str(entry.get("created_at")))
            if created is not None and created < first:
                break
            count = sum(count_or_none(number) or 0 for number in table_of(entry.get("request_counts")).values())
            is_ours = str(entry["id"]) not in known and count == ref.requests
            if created is not None and created <= last and is_ours:
                oldest = str(entry["id"])
        return oldest

    def read_status(self, service_id: str, found: dict[str, Any]) -> BatchStatus:
        """As `BatchApi`."""
        state, counts = str(found.get("processing_status")), table_of(found.get("request_counts"))
        if state != "ended":
            return self._status(service_id, state)
        results = (f"{self.path_of(service_id)}/results",)
        done, failed = counts.get("succeeded"), counts.get("errored")
        return self._status(service_id, state, results=results, done=done, failed=failed)

    def read(self, row: Any) -> BatchResult:
        """As `BatchApi`."""
        key, result = str(row["custom_id"]), row["result"]
        if result["type"] == "succeeded":
            return BatchResult(key, "answered", result.get("message"), headers={})
        if result["type"] == "errored":
            fault = result.get("error")
            inner = table_of(table_of(fault).get("error", fault))
            # the HTTP statuses of these errors outside of batches; all others are transient
            status = {"invalid_request_error": 400, "request_too_large": 413}.get(str(inner.get("type")), 500)
            return BatchResult(key, "failed", fault, status, {})
        return BatchResult(key, "undone")


class GeminiBatches(BatchApi):
    """Batches of the Gemini API."""

    most_requests, most_bytes = 10_000, 15_000_000
    path, cancel_suffix = "", ":cancel"
    page = f"/batches?pageSize={_PAGE}"
    entries, id_field, name_field = "operations", "name", "displayName"

    def row(self, request: Request) -> dict[str, Any]:
        """Body and key."""
        return {"request": self.provider.body_of(request), "metadata": {"key": request.request_key}}

    async def submit(self, ref: BatchRef, path: Path) -> str:
        """Sends all lines as one body."""
        batch: JsonValue = {"displayName": ref.name, "inputConfig": {"requests": {"requests": _rows(path)}}}
        return await self.post(f"{self.provider.model_path}:batchGenerateContent", body={"batch": batch})

    def read_status(self, service_id: str, found: dict[str, Any]) -> BatchStatus:
        """As `BatchApi`."""
        batch, error = table_of(found.get("metadata")), table_of(found.get("error"))
        counts, reason = table_of(batch.get("batchStats")), text_or_none(error.get("message")) or ""
        state = str(batch.get("state")).removeprefix("BATCH_STATE_").removeprefix("JOB_STATE_").lower()
        return self._status(
            service_id,
            state,
            reason=reason,
            codes=f"{reason} {'resource_exhausted' if error.get('code') == 8 else ''}",
            results=(self.path_of(service_id),) if self.phases.get(state) == "ended" else (),
            done=count_or_none(counts.get("successfulRequestCount")),
            failed=count_or_none(counts.get("failedRequestCount")),
        )

    async def results(self, status: BatchStatus) -> AsyncGenerator[BatchResult, None]:
        """As `BatchApi`, from the operation."""
        for path in status.results:
            found = table_of((await self.provider.call("GET", path)).json())
            output = table_of(found.get("response")) or table_of(value_at(found, "metadata.output"))
            rows = value_at(output, "inlinedResponses.inlinedResponses")
            for row in rows if isinstance(rows, list) else ():
                if (key := text_or_none(value_at(row, "metadata.key"))) is not None:
                    yield self.read({**row, "key": key})

    def read(self, row: Any) -> BatchResult:
        """As `BatchApi`."""
        key, error = str(row["key"]), table_of(row.get("error"))
        if row.get("response") is not None:
            return BatchResult(key, "answered", row["response"], headers={})
        if not error:
            return BatchResult(key, "undone")
        code = count_or_none(error.get("code")) or 0
        # google.rpc.Code: invalid argument, failed precondition; all others are transient
        status = {3: 400, 9: 400}.get(code, code if code >= 400 else 500)
        return BatchResult(key, "failed", {"error": error}, status, {})


def _rows(path: Path) -> list[JsonValue]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


_SERVICES: Final[Mapping[str, type[BatchApi]]] = {
    "openai": OpenAIBatches, "anthropic": AnthropicBatches, "gemini": GeminiBatches
}  # fmt: skip


def batch_service(provider: Provider) -> BatchApi:
    """The batch API of a provider; raises UsageError if it has none."""
    if provider.kind not in _SERVICES:
        kinds = ", ".join(sorted(_SERVICES))
        raise UsageError(f"--batch: {provider.name} has no batches; kinds that have: {kinds}")
    if not provider.capabilities.batches:
        raise UsageError(f"--batch: {provider.name}: Vertex AI takes batches from buckets only; leave out one of them")
    return _SERVICES[provider.kind](provider)
