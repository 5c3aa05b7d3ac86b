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
from collections.abc import AsyncGenerator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, NamedTuple

from pydantic import JsonValue

from mbbq_gen.core.errors import ProviderError, UsageError
from mbbq_gen.core.records import FrozenModel, Request
from mbbq_gen.core.text import count_or_none, moment_of, storable_text
from mbbq_gen.providers.base import Provider
from mbbq_gen.providers.http.errors import RejectedError, RetriesExhaustedError, TransientError, says_too_large
from mbbq_gen.providers.http.replies import FormFile, read_json, table_of, tables_of, words_of

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
_WAITS: Final = ("token_limit_exceeded", "rate_limit", "enqueued", "resource_exhausted", "quota_exhausted")
"""Signs that a batch was refused only for what waits before it."""


class TooLargeError(ProviderError):
    """The service takes fewer requests or bytes in one batch; nothing in it was answered or paid."""


def is_cut_off(fault: TransientError, size: int) -> bool:
    """Whether sending so many bytes failed as it does where something on the way takes fewer."""
    return fault.kind in {"broken", "timeout"} and size > PASSED_ON


class BatchStatus(FrozenModel):
    """How a batch stands at the service."""

    service_id: str
    phase: BatchPhase
    state: str
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


class BatchRef(NamedTuple):
    """What a batch can be found by: our own name for it, the number of its requests, and when it was planned."""

    name: str
    requests: int
    planned_at: datetime


class BatchResult(NamedTuple):
    """The result of one request of a batch."""

    request_key: str
    outcome: Literal["answered", "failed", "undone"]
    """`undone`: not tried, because the batch expired or was cancelled."""
    payload: Any = None
    status: int = 200
    headers: Mapping[str, str] | None = None


class MalformedLine(NamedTuple):
    """The beginning of a line that is no result: broken, cut off, or of another shape."""

    start: str


class BatchApi(ABC):
    """A service that takes batches."""

    most_requests: int
    most_bytes: int
    path: ClassVar[str] = "/batches"
    page: ClassVar[str] = f"/batches?limit={_PAGE}"
    """Where the service lists its batches."""
    after: ClassVar[str] = "after"
    """The parameter of the next page."""
    cancels: ClassVar[str] = "/cancel"
    """What stands behind a batch's address to stop it."""
    entries: ClassVar[str] = "data"
    id_field: ClassVar[str] = "id"
    name_field: ClassVar[str] = "mbbq_gen_batch"
    """The field of a batch's metadata with our name."""

    def __init__(self, provider: Any) -> None:
        """`provider`: the ApiProvider of this service."""
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
    async def status(self, service_id: str) -> BatchStatus:
        """How a batch stands; raises ProviderError where the service does not know it."""

    @abstractmethod
    def read(self, row: Any) -> BatchResult:
        """The result in one line, by its JSON."""

    async def stream(self, path: str) -> AsyncGenerator[BatchResult | MalformedLine, None]:
        """The results in the lines of a file, some of which may be broken."""
        async for line in self.provider.stream(path):
            if line.strip():
                try:
                    yield self.read(read_json(line))
                except (ValueError, KeyError, TypeError, AttributeError):
                    yield MalformedLine(storable_text(line[:_SHOWN].decode("utf-8", "replace")))

    def line(self, request: Request) -> bytes:
        """One request as a line of the batch's file, with its line end."""
        return json.dumps(self.row(request), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"

    async def results(self, status: BatchStatus) -> AsyncGenerator[BatchResult | MalformedLine, None]:
        """The results of an ended batch, in any order, and the lines that are none; raises as `ApiService.stream`."""
        for path in status.results:
            async for result in self.stream(path):
                yield result

    async def cancel(self, service_id: str) -> None:
        """Asks the service to stop a batch; what it has answered by then stays. One that has ended can't be stopped."""
        await self.provider.call("POST", f"{self.path}/{service_id}{self.cancels}", accept=(400, 409))

    async def post(self, path: str, *, body: JsonValue = None, form: FormFile | None = None) -> str:
        """Posts a batch, or a form with its lines; the service's id of it. TooLargeError where it takes less."""
        try:
            reply = await self.provider.call("POST", path, body=body, form=form, repeat=form is not None)
        except RetriesExhaustedError as error:
            size = form.path.stat().st_size if form is not None else 0
            if not is_cut_off(error.fault, size):
                raise
            raise TooLargeError(f"{size:,} bytes do not get through: {error.fault}") from error
        except RejectedError as refusal:
            found = refusal.error
            is_bad = found.status in {400, 422} and says_too_large(f"{found.code} {found.message}")
            if found.status != 413 and not is_bad:
                raise
            raise TooLargeError(str(refusal)) from refusal
        return self.field(reply.json(), self.id_field)

    def field(self, found: Any, name: str) -> str:
        """A field that every reply of the service has; raises ProviderError where it has not."""
        if not table_of(found).get(name):
            raise ProviderError(
                f"{self.provider.name}: the server answered a batch without {name!r}: does it take batches?"
            )
        return str(found[name])

    def refused(self, reason: str, codes: str) -> dict[str, Any]:
        """Why a batch was refused, by the service's words and codes."""
        waits = any(sign in codes.lower() for sign in _WAITS)
        return {"reason": self.provider.hide(reason) or None, "waits": waits, "too_large": says_too_large(codes)}

    async def listed(self) -> AsyncGenerator[dict[str, Any], None]:
        """The batches that the service lists, a page after another."""
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

    async def find(self, mark: BatchRef, known: frozenset[str]) -> str | None:
        """The id of the batch that was handed over under that mark, if there is one that is not `known`."""
        async for entry in self.listed():
            if table_of(entry.get("metadata")).get(self.name_field) == mark.name:
                return str(entry[self.id_field])
        return None


class OpenAIBatches(BatchApi):
    """Batches of OpenAI, and of servers with the same API."""

    most_requests, most_bytes = 50_000, 200_000_000
    _phases: ClassVar[Mapping[str, BatchPhase]] = {
        **dict.fromkeys(("completed", "expired", "cancelled"), "ended"),
        "failed": "refused",
    }

    def row(self, request: Request) -> dict[str, Any]:
        """With the endpoint that answers it."""
        body = self.provider.body_of(request)
        return {"custom_id": request.request_key, "method": "POST", "url": self.provider.batch_endpoint, "body": body}

    async def submit(self, mark: BatchRef, path: Path) -> str:
        """Uploads the file and makes the batch."""
        form = FormFile(path, f"{mark.name}.jsonl", {"purpose": "batch"})
        body: dict[str, JsonValue] = {
            "input_file_id": await self.post("/files", form=form),
            "endpoint": self.provider.batch_endpoint,
            "completion_window": "24h",
            "metadata": {self.name_field: mark.name},
        }
        return await self.post(self.path, body=body)

    async def status(self, service_id: str) -> BatchStatus:
        """As `BatchApi`."""
        found = (await self.provider.call("GET", f"{self.path}/{service_id}")).json()
        state = self.field(found, "status")
        problems = tables_of(table_of(found.get("errors")).get("data"))
        reason = "; ".join(str(entry.get("message") or entry.get("code")) for entry in problems[:3])
        codes = " ".join(f"{entry.get('code')} {entry.get('message')}" for entry in problems)
        counts = table_of(found.get("request_counts"))
        files = [found.get("output_file_id"), found.get("error_file_id")]
        return BatchStatus(
            service_id=service_id,
            phase=self._phases.get(state, "running"),
            state=state,
            results=tuple(f"/files/{file}/content" for file in files if file),
            done=count_or_none(counts.get("completed")),
            failed=count_or_none(counts.get("failed")),
            **self.refused(reason, codes),
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
    """Batches of Anthropic, which keeps no names: they are found by their time and size."""

    most_requests, most_bytes = 20_000, 32_000_000
    """The service takes 100,000 requests and 256 MB; but a batch goes out in one piece, held in memory."""
    path = "/v1/messages/batches"
    page = f"{path}?limit={_PAGE}"
    after = "after_id"
    _earlier, _later = timedelta(minutes=5), timedelta(minutes=15)
    """How far the time at which a batch was made, by the service's clock, may be from that at which it was planned."""

    def row(self, request: Request) -> dict[str, Any]:
        """Its key and body."""
        return {"custom_id": request.request_key, "params": self.provider.body_of(request)}

    async def submit(self, mark: BatchRef, path: Path) -> str:
        """Sends all lines as one body."""
        return await self.post(self.path, body={"requests": _rows(path)})

    async def find(self, mark: BatchRef, known: frozenset[str]) -> str | None:
        """The oldest batch that no other mark has, made at about that time, with that many requests."""
        first, last = mark.planned_at - self._earlier, mark.planned_at + self._later
        oldest = None
        async for entry in self.listed():  # the newest first
            made = moment_of(str(entry.get("created_at")))
            if made is not None and made < first:
                break
            held = sum(count_or_none(count) or 0 for count in table_of(entry.get("request_counts")).values())
            is_ours = str(entry["id"]) not in known and held == mark.requests
            if made is not None and made <= last and is_ours:
                oldest = str(entry["id"])
        return oldest

    async def status(self, service_id: str) -> BatchStatus:
        """As `BatchApi`."""
        found = (await self.provider.call("GET", f"{self.path}/{service_id}")).json()
        state = str(found.get("processing_status"))
        has_ended, counts = state == "ended", table_of(found.get("request_counts"))
        return BatchStatus(
            service_id=service_id,
            phase="ended" if has_ended else "running",
            state=state,
            done=counts.get("succeeded") if has_ended else None,
            failed=counts.get("errored") if has_ended else None,
            results=(f"{self.path}/{service_id}/results",) if has_ended else (),
        )

    def read(self, row: Any) -> BatchResult:
        """As `BatchApi`."""
        key, result = str(row["custom_id"]), row["result"]
        if result["type"] == "succeeded":
            return BatchResult(key, "answered", result.get("message"), headers={})
        if result["type"] == "errored":
            fault = result.get("error")
            inner = table_of(table_of(fault).get("error", fault))
            # the statuses that such errors have when they come by themselves; all others may pass
            status = {"invalid_request_error": 400, "request_too_large": 413}.get(str(inner.get("type")), 500)
            return BatchResult(key, "failed", fault, status, {})
        return BatchResult(key, "undone")


class GeminiBatches(BatchApi):
    """Batches of the Gemini API."""

    most_requests, most_bytes = 10_000, 15_000_000
    path, cancels = "", ":cancel"
    page = f"/batches?pageSize={_PAGE}"
    entries, id_field, name_field = "operations", "name", "displayName"
    _phases: ClassVar[Mapping[str, BatchPhase]] = {
        **dict.fromkeys(("SUCCEEDED", "CANCELLED", "EXPIRED"), "ended"),
        "FAILED": "refused",
    }
    """States, without the words that the service puts before them (BATCH_STATE_, JOB_STATE_)."""

    def row(self, request: Request) -> dict[str, Any]:
        """Its body and key."""
        return {"request": self.provider.body_of(request), "metadata": {"key": request.request_key}}

    async def submit(self, mark: BatchRef, path: Path) -> str:
        """Sends all lines as one body."""
        batch: JsonValue = {"displayName": mark.name, "inputConfig": {"requests": {"requests": _rows(path)}}}
        return await self.post(f"{self.provider.model_path}:batchGenerateContent", body={"batch": batch})

    async def status(self, service_id: str) -> BatchStatus:
        """As `BatchApi`."""
        found = table_of((await self.provider.call("GET", f"/{service_id}")).json())
        batch = table_of(found.get("metadata"))
        state = str(batch.get("state")).removeprefix("BATCH_STATE_").removeprefix("JOB_STATE_")
        phase, counts = self._phases.get(state, "running"), table_of(batch.get("batchStats"))
        error = table_of(found.get("error"))
        reason = words_of(error.get("message")) or ""
        return BatchStatus(
            service_id=service_id,
            phase=phase,
            state=state.lower(),
            results=(f"/{service_id}",) if phase == "ended" else (),
            done=count_or_none(counts.get("successfulRequestCount")),
            failed=count_or_none(counts.get("failedRequestCount")),
            **self.refused(reason, f"{reason} {'resource_exhausted' if error.get('code') == 8 else ''}"),
        )

    async def results(self, status: BatchStatus) -> AsyncGenerator[BatchResult | MalformedLine, None]:
        """As `BatchApi`, from the operation or from a file that it names."""
        for path in status.results:
            found = table_of((await self.provider.call("GET", path)).json())
            output = table_of(found.get("response")) or table_of(table_of(found.get("metadata")).get("output"))
            rows = table_of(output.get("inlinedResponses")).get("inlinedResponses")
            for row in rows if isinstance(rows, list) else ():
                key = words_of(table_of(table_of(row).get("metadata")).get("key"))
                yield MalformedLine(json.dumps(row)[:_SHOWN]) if key is None else self.read({**row, "key": key})
            file = words_of(output.get("responsesFile"))
            if file is not None:
                async for result in self.stream(f"/{file}:download?alt=media"):
                    yield result

    def read(self, row: Any) -> BatchResult:
        """As `BatchApi`."""
        key, error = str(row["key"]), table_of(row.get("error"))
        if row.get("response") is not None:
            return BatchResult(key, "answered", row["response"], headers={})
        if not error:
            return BatchResult(key, "undone")
        code = count_or_none(error.get("code")) or 0
        # google.rpc.Code: invalid argument, failed precondition; all others may pass
        status = {3: 400, 9: 400}.get(code, code if code >= 400 else 500)
        return BatchResult(key, "failed", {"error": error}, status, {})


def _rows(path: Path) -> list[JsonValue]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


_SERVICES: Final[dict[str, Any]] = {"openai": OpenAIBatches, "anthropic": AnthropicBatches, "gemini": GeminiBatches}


def batch_service(provider: Provider) -> BatchApi:
    """The batches of a provider's service; raises UsageError where it has none that we know of."""
    if provider.kind not in _SERVICES:
        kinds = ", ".join(sorted(_SERVICES))
        raise UsageError(f"--batch: {provider.name} has no batches; kinds that have: {kinds}")
    if not provider.capabilities.batches:
        raise UsageError(f"--batch: {provider.name}: Vertex AI takes batches from buckets only; leave out one of them")
    batches: BatchApi = _SERVICES[provider.kind](provider)
    return batches
