"""Anthropic's message batches: all requests in one body, all results in one file.

A batch of theirs has no name. One that was made just before a crash is found by when it was made and how many requests
it holds; that it is ours is seen from its results, which carry our request keys.
Reference: https://docs.anthropic.com/en/api/creating-message-batches
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from mbbq_gen.errors import ProviderError, UsageError
from mbbq_gen.providers.anthropic_api import AnthropicProvider
from mbbq_gen.providers.batches import (
    BatchAnswer,
    BatchLimits,
    BatchMark,
    BatchStatus,
    UnreadLine,
    read_line,
    told_if_too_large,
)
from mbbq_gen.providers.remote.transport import table_of
from mbbq_gen.records import Request

_EARLIER: Final = timedelta(minutes=5)
_LATER: Final = timedelta(minutes=15)
"""How far the time at which a batch was made, by the service's clock, may be from that at which it was planned."""
_PAGE: Final = 100
_MOST_PAGES: Final = 10
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

    async def submit(self, mark: BatchMark, path: Path) -> str:
        """Sends all lines as one body; raises as `BatchService.submit`."""
        requests = [json.loads(line) for line in path.read_bytes().splitlines()]
        with told_if_too_large():
            reply = await self._provider.call("POST", self._path, body={"requests": requests}, repeat=False)
        made = reply.json()
        if not isinstance(made, dict) or not made.get("id"):
            raise ProviderError(f"{self._provider.name}: the server answered a batch without 'id'")
        return str(made["id"])

    async def find(self, mark: BatchMark, known: frozenset[str]) -> str | None:
        """The oldest batch that no other mark has, made at about that time, with that many requests."""
        matches: list[tuple[datetime, str]] = []
        after = ""
        for _ in range(_MOST_PAGES):
            listed = (await self._provider.call("GET", f"{self._path}?limit={_PAGE}{after}")).json()
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
        """How a batch stands; raises as `BatchService.status`."""
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

    async def results(self, status: BatchStatus) -> AsyncGenerator[BatchAnswer | UnreadLine, None]:
        """The lines of the results; raises as `BatchService.results`."""
        for path in status.results:
            async for line in self._provider.stream(path):
                if line.content.strip():
                    yield read_line(line, _answer)

    async def cancel(self, service_id: str) -> None:
        """Asks to stop it; one that has ended can't be, and need not."""
        await self._provider.call("POST", f"{self._path}/{service_id}/cancel", accept=(400, 409))


def _answer(row: Any) -> BatchAnswer:
    """What came of the request of one line."""
    key, result = str(row["custom_id"]), row["result"]
    kind = result["type"]
    if kind == "succeeded":
        return BatchAnswer(key, "answered", result.get("message"), headers={})
    if kind == "errored":
        fault = result.get("error")
        inner = table_of(table_of(fault).get("error", fault))
        return BatchAnswer(key, "failed", fault, _STATUS_OF.get(str(inner.get("type")), 500), {})
    return BatchAnswer(key, "undone")


def _total(entry: Mapping[str, Any]) -> int:
    """How many requests a batch holds, in whatever state they are."""
    return sum(count for count in (entry.get("request_counts") or {}).values() if isinstance(count, int))


def _time(text: Any) -> datetime | None:
    return datetime.fromisoformat(text) if isinstance(text, str) else None
