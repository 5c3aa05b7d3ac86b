"""Batches of OpenAI and of servers that speak its language: a file of lines is uploaded, then made into a batch.

Our name of a batch stands in its metadata. Answers come back in one file, failures and requests that were not done in
another. Reference: https://platform.openai.com/docs/api-reference/batch
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from pydantic import JsonValue

from mbbq_gen.core.errors import ProviderError, UsageError
from mbbq_gen.core.records import Request
from mbbq_gen.core.text import count_or_none
from mbbq_gen.providers.api.anthropic import AnthropicProvider
from mbbq_gen.providers.api.batches import (
    BatchLimits,
    BatchPhase,
    BatchRef,
    BatchResult,
    BatchStatus,
    MalformedLine,
    explain_if_too_large,
    read_line,
)
from mbbq_gen.providers.api.gemini import GeminiProvider
from mbbq_gen.providers.api.openai import OpenAIProvider
from mbbq_gen.providers.http.errors import says_too_large
from mbbq_gen.providers.http.transport import FormFile, table_of, tables_of, words_of

_METADATA: Final = "mbbq_gen_batch"
_OPENAI_PAGE: Final = 100
_OPENAI_MAX_PAGES: Final = 50
"""Pages of the list of batches that are looked through for one of ours."""
_OPENAI_PHASES: Final[Mapping[str, BatchPhase]] = {
    "failed": "refused",
    "completed": "ended",
    "expired": "ended",
    "cancelled": "ended",
}
_OPENAI_WAITS: Final = ("token_limit_exceeded", "rate_limit", "enqueued")
"""Signs that a batch was refused only for what waits before it."""
_UNDONE: Final = ("batch_expired", "batch_cancelled")


class OpenAIBatches:
    """Hands over batches to OpenAI, or to a server like it."""

    limits = BatchLimits(requests=50_000, size=200_000_000)

    def __init__(self, provider: OpenAIProvider) -> None:
        self._provider = provider

    @property
    def _endpoint(self) -> str:
        """What answers each request, in the service's own words."""
        return self._provider.batch_endpoint

    def line(self, request: Request) -> bytes:
        """One request as a line of the batch's file."""
        row = {
            "custom_id": request.request_key,
            "method": "POST",
            "url": self._endpoint,
            "body": self._provider.body_of(request),
        }
        return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"

    async def submit(self, mark: BatchRef, path: Path) -> str:
        """Uploads the file and makes the batch; raises as `BatchApi.submit`."""
        form = FormFile(path, f"{mark.name}.jsonl", {"purpose": "batch"})
        with explain_if_too_large(path.stat().st_size):
            uploaded = await self._provider.call("POST", "/files", form=form)
        body: dict[str, JsonValue] = {
            "input_file_id": str(_field(uploaded.json(), "id")),
            "endpoint": self._endpoint,
            "completion_window": "24h",
            "metadata": {_METADATA: mark.name},
        }
        with explain_if_too_large():
            made = await self._provider.call("POST", "/batches", body=body, repeat=False)
        return str(_field(made.json(), "id"))

    async def find(self, mark: BatchRef, known: frozenset[str]) -> str | None:
        """The batch whose metadata holds our name."""
        after = ""
        for _ in range(_OPENAI_MAX_PAGES):
            reply = await self._provider.call("GET", f"/batches?limit={_OPENAI_PAGE}{after}")
            listed = reply.json()
            entries = listed.get("data") or []
            for entry in entries:
                if (entry.get("metadata") or {}).get(_METADATA) == mark.name:
                    return str(entry["id"])
            if not entries or not listed.get("has_more"):
                return None
            after = f"&after={entries[-1]['id']}"
        return None

    async def status(self, service_id: str) -> BatchStatus:
        """How a batch stands; raises as `BatchApi.status`."""
        found = (await self._provider.call("GET", f"/batches/{service_id}")).json()
        state = str(_field(found, "status"))
        counts = table_of(found.get("request_counts"))
        problems = tables_of(table_of(found.get("errors")).get("data"))
        reason = "; ".join(str(entry.get("message") or entry.get("code")) for entry in problems[:3])
        codes = " ".join(f"{entry.get('code')} {entry.get('message')}" for entry in problems).lower()
        files = [found.get("output_file_id"), found.get("error_file_id")]
        ended = next((found[name] for name in _END_TIMES if found.get(name) is not None), None)
        return BatchStatus(
            service_id=service_id,
            phase=_OPENAI_PHASES.get(state, "running"),
            state=state,
            total=count_or_none(counts.get("total")),
            done=count_or_none(counts.get("completed")),
            failed=count_or_none(counts.get("failed")),
            reason=self._provider.hide(reason) or None,
            waits=any(sign in codes for sign in _OPENAI_WAITS),
            too_large=says_too_large(codes),
            results=tuple(f"/files/{file}/content" for file in files if file),
            seconds=None if ended is None else max(0.0, float(ended) - float(found.get("created_at") or ended)),
        )

    async def results(self, status: BatchStatus) -> AsyncGenerator[BatchResult | MalformedLine, None]:
        """The lines of both files; raises as `BatchApi.results`."""
        for path in status.results:
            async for line in self._provider.stream(path):
                if line.content.strip():
                    yield read_line(line, _openai_result)

    async def cancel(self, service_id: str) -> None:
        """Asks to stop it; one that has ended can't be, and need not."""
        await self._provider.call("POST", f"/batches/{service_id}/cancel", accept=(400, 409))


_END_TIMES: Final = ("completed_at", "expired_at", "cancelled_at", "failed_at")


def _openai_result(row: Any) -> BatchResult:
    """What came of the request of one line."""
    key, response, fault = str(row["custom_id"]), row.get("response"), table_of(row.get("error"))
    if response is None:
        undone = not fault or fault.get("code") in _UNDONE
        return BatchResult(key, "undone" if undone else "failed", {"error": fault}, status=500)
    status = count_or_none(response.get("status_code")) or 200
    headers = {"x-request-id": str(response["request_id"])} if response.get("request_id") else {}
    return BatchResult(key, "answered" if status == 200 else "failed", response.get("body"), status, headers)


def _field(found: Any, name: str) -> Any:
    """A field that every answer of the service has.

    Raises:
        ProviderError: where it has not.
    """
    if not isinstance(found, dict) or found.get(name) is None:
        raise ProviderError(f"the server answered a batch without {name!r}: does it take batches?")
    return found[name]


_EARLIER: Final = timedelta(minutes=5)
_LATER: Final = timedelta(minutes=15)
"""How far the time at which a batch was made, by the service's clock, may be from that at which it was planned."""
_ANTHROPIC_PAGE: Final = 100
_ANTHROPIC_MAX_PAGES: Final = 10
_STATUS_OF: Final = {
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


class AnthropicBatches:
    """Hands over batches to Anthropic."""

    limits = BatchLimits(requests=20_000, size=32_000_000)
    """The service takes 100,000 requests and 256 MB; but a batch goes out in one piece, held in memory."""

    def __init__(self, provider: AnthropicProvider) -> None:
        """Raises UsageError on Vertex AI, whose batches are made of files in a bucket."""
        if provider.is_vertex:
            raise UsageError(
                f"--batch: {provider.name}: Vertex AI takes batches from buckets only; ask Anthropic itself"
            )
        self._provider = provider
        self._path = f"{provider.path}/batches"

    def line(self, request: Request) -> bytes:
        """One request as a line of the batch's file."""
        row = {"custom_id": request.request_key, "params": self._provider.body_of(request)}
        return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"

    async def submit(self, mark: BatchRef, path: Path) -> str:
        """Sends all lines as one body; raises as `BatchApi.submit`."""
        requests = [json.loads(line) for line in path.read_bytes().splitlines()]
        with explain_if_too_large():
            reply = await self._provider.call("POST", self._path, body={"requests": requests}, repeat=False)
        made = reply.json()
        if not isinstance(made, dict) or not made.get("id"):
            raise ProviderError(f"{self._provider.name}: the server answered a batch without 'id'")
        return str(made["id"])

    async def find(self, mark: BatchRef, known: frozenset[str]) -> str | None:
        """The oldest batch that no other mark has, made at about that time, with that many requests."""
        matches: list[tuple[datetime, str]] = []
        after = ""
        for _ in range(_ANTHROPIC_MAX_PAGES):
            listed = (await self._provider.call("GET", f"{self._path}?limit={_ANTHROPIC_PAGE}{after}")).json()
            entries = listed.get("data") or []
            for entry in entries:
                made = _time(entry.get("created_at"))
                if made is None or str(entry["id"]) in known or _total(entry) != mark.requests:
                    continue
                if mark.planned_at - _EARLIER <= made <= mark.planned_at + _LATER:
                    matches.append((made, str(entry["id"])))
            oldest = _time(entries[-1].get("created_at")) if entries else None
            if oldest is None or oldest < mark.planned_at - _EARLIER or not listed.get("has_more"):
                break
            after = f"&after_id={entries[-1]['id']}"
        return min(matches)[1] if matches else None

    async def status(self, service_id: str) -> BatchStatus:
        """How a batch stands; raises as `BatchApi.status`."""
        found = (await self._provider.call("GET", f"{self._path}/{service_id}")).json()
        state = str(found.get("processing_status"))
        has_ended = state == "ended"
        counts = found.get("request_counts") or {}
        made, ended = _time(found.get("created_at")), _time(found.get("ended_at"))
        return BatchStatus(
            service_id=service_id,
            phase="ended" if has_ended else "running",
            state=state,
            total=_total(found),
            done=counts.get("succeeded") if has_ended else None,
            failed=counts.get("errored") if has_ended else None,
            results=(f"{self._path}/{service_id}/results",) if has_ended else (),
            seconds=(ended - made).total_seconds() if made and ended else None,
        )

    async def results(self, status: BatchStatus) -> AsyncGenerator[BatchResult | MalformedLine, None]:
        """The lines of the results; raises as `BatchApi.results`."""
        for path in status.results:
            async for line in self._provider.stream(path):
                if line.content.strip():
                    yield read_line(line, _anthropic_result)

    async def cancel(self, service_id: str) -> None:
        """Asks to stop it; one that has ended can't be, and need not."""
        await self._provider.call("POST", f"{self._path}/{service_id}/cancel", accept=(400, 409))


def _anthropic_result(row: Any) -> BatchResult:
    """What came of the request of one line."""
    key, result = str(row["custom_id"]), row["result"]
    kind = result["type"]
    if kind == "succeeded":
        return BatchResult(key, "answered", result.get("message"), headers={})
    if kind == "errored":
        fault = result.get("error")
        inner = table_of(table_of(fault).get("error", fault))
        return BatchResult(key, "failed", fault, _STATUS_OF.get(str(inner.get("type")), 500), {})
    return BatchResult(key, "undone")


def _total(entry: Mapping[str, Any]) -> int:
    """How many requests a batch holds, in whatever state they are."""
    return sum(count for count in (entry.get("request_counts") or {}).values() if isinstance(count, int))


def _time(text: Any) -> datetime | None:
    return datetime.fromisoformat(text) if isinstance(text, str) else None


_GEMINI_PAGE: Final = 100
_GEMINI_MAX_PAGES: Final = 50
_GEMINI_PHASES: Final[Mapping[str, BatchPhase]] = {
    "SUCCEEDED": "ended",
    "CANCELLED": "ended",
    "EXPIRED": "ended",
    "FAILED": "refused",
}
"""States, without the words that the service puts before them (BATCH_STATE_, JOB_STATE_)."""
_GEMINI_STATUS: Final = {3: 400, 4: 504, 5: 404, 7: 403, 8: 429, 9: 400, 13: 500, 14: 503, 16: 401}
"""Code of an error (google.rpc.Code) → the HTTP status that it has when it comes by itself."""
_GEMINI_WAITS: Final = ("resource_exhausted", "quota_exhausted", "enqueued")


class GeminiBatches:
    """Hands over batches to the Gemini API."""

    limits = BatchLimits(requests=10_000, size=15_000_000)

    def __init__(self, provider: GeminiProvider) -> None:
        """Raises UsageError on Vertex AI, whose batches are made of files in a bucket."""
        if provider.is_vertex:
            raise UsageError(f"--batch: {provider.name}: Vertex AI takes batches from buckets only; use the Gemini API")
        self._provider = provider

    def line(self, request: Request) -> bytes:
        """One request as a line of the batch's file."""
        row = {"request": self._provider.body_of(request), "metadata": {"key": request.request_key}}
        return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"

    async def submit(self, mark: BatchRef, path: Path) -> str:
        """Sends all lines as one body; raises as `BatchApi.submit`."""
        content = path.read_bytes()
        requests = [json.loads(line) for line in content.splitlines()]
        batch: JsonValue = {"displayName": mark.name, "inputConfig": {"requests": {"requests": requests}}}
        with explain_if_too_large():
            target = f"{self._provider.model_path}:batchGenerateContent"
            reply = await self._provider.call("POST", target, body={"batch": batch}, repeat=False)
        name = words_of(table_of(reply.json()).get("name"))
        if not name:
            raise ProviderError(f"{self._provider.name}: the server answered a batch without 'name'")
        return name

    async def find(self, mark: BatchRef, known: frozenset[str]) -> str | None:
        """The batch that is displayed under our name."""
        token = ""
        for _ in range(_GEMINI_MAX_PAGES):
            listed = table_of((await self._provider.call("GET", f"/batches?pageSize={_GEMINI_PAGE}{token}")).json())
            for entry in tables_of(listed.get("operations")):
                if table_of(entry.get("metadata")).get("displayName") == mark.name:
                    return str(entry["name"])
            if not listed.get("nextPageToken"):
                return None
            token = f"&pageToken={listed['nextPageToken']}"
        return None

    async def status(self, service_id: str) -> BatchStatus:
        """How a batch stands; raises as `BatchApi.status`."""
        found = table_of((await self._provider.call("GET", f"/{service_id}")).json())
        batch = table_of(found.get("metadata"))
        state = str(batch.get("state")).removeprefix("BATCH_STATE_").removeprefix("JOB_STATE_")
        phase = _GEMINI_PHASES.get(state, "running")
        counts, error = table_of(batch.get("batchStats")), table_of(found.get("error"))
        made, ended = _gemini_time(batch.get("createTime")), _gemini_time(batch.get("endTime"))
        reason = words_of(error.get("message")) or ""
        return BatchStatus(
            service_id=service_id,
            phase=phase,
            state=state.lower(),
            total=count_or_none(counts.get("requestCount")),
            done=count_or_none(counts.get("successfulRequestCount")),
            failed=count_or_none(counts.get("failedRequestCount")),
            reason=self._provider.hide(reason) or None,
            waits=error.get("code") == 8 or any(sign in reason.lower() for sign in _GEMINI_WAITS),
            too_large=says_too_large(reason),
            results=(f"/{service_id}",) if phase == "ended" else (),
            seconds=(ended - made).total_seconds() if made and ended else None,
        )

    async def results(self, status: BatchStatus) -> AsyncGenerator[BatchResult | MalformedLine, None]:
        """The answers, from the operation or from a file that it names; raises as `BatchApi.results`."""
        for path in status.results:
            found = table_of((await self._provider.call("GET", path)).json())
            output = table_of(found.get("response")) or table_of(table_of(found.get("metadata")).get("output"))
            for answer in _inlined(output):
                yield answer
            file = words_of(output.get("responsesFile"))
            if file is not None:
                async for line in self._provider.stream(f"/{file}:download?alt=media", download=True):
                    if line.content.strip():
                        yield read_line(line, lambda row: _gemini_result(row, str(row["key"])))

    async def cancel(self, service_id: str) -> None:
        """Asks to stop it; one that has ended can't be, and need not."""
        await self._provider.call("POST", f"/{service_id}:cancel", accept=(400, 409))


def _inlined(output: Mapping[str, Any]) -> Iterator[BatchResult | MalformedLine]:
    """The answers that stand in an operation."""
    rows = table_of(output.get("inlinedResponses")).get("inlinedResponses")
    for row in rows if isinstance(rows, list) else ():
        key = words_of(table_of(table_of(row).get("metadata")).get("key"))
        if key is None:
            yield MalformedLine(json.dumps(row)[:80])
        else:
            yield _gemini_result(row, key)


def _gemini_result(row: Mapping[str, Any], key: str) -> BatchResult:
    """What came of one request."""
    if row.get("response") is not None:
        return BatchResult(key, "answered", row["response"], headers={})
    error = table_of(row.get("error"))
    if not error:
        return BatchResult(key, "undone")
    code = count_or_none(error.get("code")) or 0
    return BatchResult(key, "failed", {"error": error}, _GEMINI_STATUS.get(code, code if code >= 400 else 500), {})


def _gemini_time(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
