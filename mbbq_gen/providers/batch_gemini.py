"""Batches of the Gemini API: all requests in one body, all answers in the operation that the batch is.

Our name of a batch is its display name. Requests go inline, which the service takes up to 20 MB, and carry our keys as
metadata. Reference: https://ai.google.dev/api/batch-api
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from pydantic import JsonValue

from mbbq_gen.errors import ProviderError, UsageError
from mbbq_gen.providers.batches import (
    BatchAnswer,
    BatchLimits,
    BatchMark,
    BatchPhase,
    BatchStatus,
    UnreadLine,
    read_line,
    told_if_too_large,
)
from mbbq_gen.providers.gemini_api import GeminiProvider
from mbbq_gen.providers.remote.faults import says_too_large
from mbbq_gen.providers.remote.transport import table_of, tables_of, words_of
from mbbq_gen.records import Request
from mbbq_gen.storable import count_or_none

_PAGE: Final = 100
_MOST_PAGES: Final = 50
_PHASES: Final[Mapping[str, BatchPhase]] = {
    "SUCCEEDED": "ended",
    "CANCELLED": "ended",
    "EXPIRED": "ended",
    "FAILED": "refused",
}
"""States, without the words that the service puts before them (BATCH_STATE_, JOB_STATE_)."""
_STATUS_OF: Final = {3: 400, 4: 504, 5: 404, 7: 403, 8: 429, 9: 400, 13: 500, 14: 503, 16: 401}
"""Code of an error (google.rpc.Code) → the HTTP status that it has when it comes by itself."""
_WAITS: Final = ("resource_exhausted", "quota", "enqueued")


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

    async def submit(self, mark: BatchMark, path: Path) -> str:
        """Sends all lines as one body; raises as `BatchService.submit`."""
        content = path.read_bytes()
        requests = [json.loads(line) for line in content.splitlines()]
        batch: JsonValue = {"displayName": mark.name, "inputConfig": {"requests": {"requests": requests}}}
        with told_if_too_large():
            target = f"{self._provider.model_path}:batchGenerateContent"
            reply = await self._provider.call("POST", target, body={"batch": batch}, repeat=False)
        name = words_of(table_of(reply.json()).get("name"))
        if not name:
            raise ProviderError(f"{self._provider.name}: the server answered a batch without 'name'")
        return name

    async def find(self, mark: BatchMark, known: frozenset[str]) -> str | None:
        """The batch that is displayed under our name."""
        token = ""
        for _ in range(_MOST_PAGES):
            listed = table_of((await self._provider.call("GET", f"/batches?pageSize={_PAGE}{token}")).json())
            for entry in tables_of(listed.get("operations")):
                if table_of(entry.get("metadata")).get("displayName") == mark.name:
                    return str(entry["name"])
            if not listed.get("nextPageToken"):
                return None
            token = f"&pageToken={listed['nextPageToken']}"
        return None

    async def status(self, service_id: str) -> BatchStatus:
        """How a batch stands; raises as `BatchService.status`."""
        found = table_of((await self._provider.call("GET", f"/{service_id}")).json())
        batch = table_of(found.get("metadata"))
        state = str(batch.get("state")).removeprefix("BATCH_STATE_").removeprefix("JOB_STATE_")
        phase = _PHASES.get(state, "running")
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
            reason=self._provider.hide(reason) or None,
            waits=error.get("code") == 8 or any(sign in reason.lower() for sign in _WAITS),
            too_large=says_too_large(reason),
            results=(f"/{service_id}",) if phase == "ended" else (),
            seconds=(ended - made).total_seconds() if made and ended else None,
        )

    async def results(self, status: BatchStatus) -> AsyncGenerator[BatchAnswer | UnreadLine, None]:
        """The answers, from the operation or from a file that it names; raises as `BatchService.results`."""
        for path in status.results:
            found = table_of((await self._provider.call("GET", path)).json())
            output = table_of(found.get("response")) or table_of(table_of(found.get("metadata")).get("output"))
            for answer in _inlined(output):
                yield answer
            file = words_of(output.get("responsesFile"))
            if file is not None:
                async for line in self._provider.stream(f"/{file}:download?alt=media", download=True):
                    if line.content.strip():
                        yield read_line(line, lambda row: _answer(row, str(row["key"])))

    async def cancel(self, service_id: str) -> None:
        """Asks to stop it; one that has ended can't be, and need not."""
        await self._provider.call("POST", f"/{service_id}:cancel", accept=(400, 409))


def _inlined(output: Mapping[str, Any]) -> Iterator[BatchAnswer | UnreadLine]:
    """The answers that stand in an operation."""
    rows = table_of(output.get("inlinedResponses")).get("inlinedResponses")
    for row in rows if isinstance(rows, list) else ():
        key = words_of(table_of(table_of(row).get("metadata")).get("key"))
        if key is None:
            yield UnreadLine(json.dumps(row)[:80])
        else:
            yield _answer(row, key)


def _answer(row: Mapping[str, Any], key: str) -> BatchAnswer:
    """What came of one request."""
    if row.get("response") is not None:
        return BatchAnswer(key, "answered", row["response"], headers={})
    error = table_of(row.get("error"))
    if not error:
        return BatchAnswer(key, "undone")
    code = count_or_none(error.get("code")) or 0
    return BatchAnswer(key, "failed", {"error": error}, _STATUS_OF.get(code, code if code >= 400 else 500), {})


def _time(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
