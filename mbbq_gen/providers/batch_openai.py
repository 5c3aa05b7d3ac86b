"""Batches of OpenAI and of servers that speak its language: a file of lines is uploaded, then made into a batch.

Our name of a batch stands in its metadata. Answers come back in one file, failures and requests that were not done in
another. Reference: https://platform.openai.com/docs/api-reference/batch
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import JsonValue

from mbbq_gen.errors import ProviderError
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
from mbbq_gen.providers.openai_api import OpenAIProvider
from mbbq_gen.providers.remote.faults import says_too_large
from mbbq_gen.providers.remote.transport import FormFile, table_of, tables_of
from mbbq_gen.records import Request
from mbbq_gen.storable import count_or_none

_METADATA: Final = "mbbq_gen_batch"
_PAGE: Final = 100
_MOST_PAGES: Final = 50
"""Pages of the list of batches that are looked through for one of ours."""
_PHASES: Final[Mapping[str, BatchPhase]] = {
    "failed": "refused",
    "completed": "ended",
    "expired": "ended",
    "cancelled": "ended",
}
_WAITS: Final = ("token_limit_exceeded", "rate_limit", "enqueued")
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

    async def submit(self, mark: BatchMark, path: Path) -> str:
        """Uploads the file and makes the batch; raises as `BatchService.submit`."""
        form = FormFile(path, f"{mark.name}.jsonl", {"purpose": "batch"})
        with told_if_too_large(path.stat().st_size):
            uploaded = await self._provider.call("POST", "/files", form=form)
        body: dict[str, JsonValue] = {
            "input_file_id": str(_field(uploaded.json(), "id")),
            "endpoint": self._endpoint,
            "completion_window": "24h",
            "metadata": {_METADATA: mark.name},
        }
        with told_if_too_large():
            made = await self._provider.call("POST", "/batches", body=body, repeat=False)
        return str(_field(made.json(), "id"))

    async def find(self, mark: BatchMark, known: frozenset[str]) -> str | None:
        """The batch whose metadata holds our name."""
        after = ""
        for _ in range(_MOST_PAGES):
            reply = await self._provider.call("GET", f"/batches?limit={_PAGE}{after}")
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
        """How a batch stands; raises as `BatchService.status`."""
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
            phase=_PHASES.get(state, "running"),
            state=state,
            total=count_or_none(counts.get("total")),
            done=count_or_none(counts.get("completed")),
            failed=count_or_none(counts.get("failed")),
            reason=self._provider.hide(reason) or None,
            waits=any(sign in codes for sign in _WAITS),
            too_large=says_too_large(codes),
            results=tuple(f"/files/{file}/content" for file in files if file),
            seconds=None if ended is None else max(0.0, float(ended) - float(found.get("created_at") or ended)),
        )

    async def results(self, status: BatchStatus) -> AsyncGenerator[BatchAnswer | UnreadLine, None]:
        """The lines of both files; raises as `BatchService.results`."""
        for path in status.results:
            async for line in self._provider.stream(path):
                if line.content.strip():
                    yield read_line(line, _answer)

    async def cancel(self, service_id: str) -> None:
        """Asks to stop it; one that has ended can't be, and need not."""
        await self._provider.call("POST", f"/batches/{service_id}/cancel", accept=(400, 409))


_END_TIMES: Final = ("completed_at", "expired_at", "cancelled_at", "failed_at")


def _answer(row: Any) -> BatchAnswer:
    """What came of the request of one line."""
    key, response, fault = str(row["custom_id"]), row.get("response"), table_of(row.get("error"))
    if response is None:
        undone = not fault or fault.get("code") in _UNDONE
        return BatchAnswer(key, "undone" if undone else "failed", {"error": fault}, status=500)
    status = count_or_none(response.get("status_code")) or 200
    headers = {"x-request-id": str(response["request_id"])} if response.get("request_id") else {}
    return BatchAnswer(key, "answered" if status == 200 else "failed", response.get("body"), status, headers)


def _field(found: Any, name: str) -> Any:
    """A field that every answer of the service has.

    Raises:
        ProviderError: where it has not.
    """
    if not isinstance(found, dict) or found.get(name) is None:
        raise ProviderError(f"the server answered a batch without {name!r}: does it take batches?")
    return found[name]
