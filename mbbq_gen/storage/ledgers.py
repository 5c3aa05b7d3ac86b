"""The requests and replies of a judge, in the run's store; its extractions stand beside those of the rules.

    judges         the judge: its model, its prompt, the rules of asking          written before it is sent
    judgements     which answers it is to read, and which request asks for each   written before it is sent
    judge_replies  the response                                                 replaced only where it was an error
    extractions    what a reply means, as the version `judge:NAME`                made of the replies, again and again

The requests are made again from the judge's own copy of the prompt, so a judge goes on by the text that it began with.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from mbbq_gen.core.records import FrozenModel
from mbbq_gen.storage.store import RunStore

BatchState = Literal["planned", "sent", "collected", "refused", "lost"]
OPEN: Final[tuple[BatchState, ...]] = ("planned", "sent")
"""States in which a batch's requests may still be answered by it."""
_OPEN_SQL: Final = "(" + ", ".join(f"'{state}'" for state in OPEN) + ")"
_RUN_NAME: Final = "batch_name"


class BatchRecord(FrozenModel):
    """What is known of a batch beside its state."""

    requests: int
    size: int
    """In bytes."""
    planned_at: str
    """ISO 8601, UTC."""
    most_cost: float = 0.0
    """The most that it can cost, in US dollars, where a limit was set; else 0."""
    sent_at: str | None = None
    service_state: str | None = None
    """In the service's own word, at the last check."""
    done: int | None = None
    """Answered requests, at the last check; None where it does not tell."""
    failed: int | None = None
    cancelled: bool = False
    """Whether it was cancelled."""
    closed_at: str | None = None
    """When it was collected, refused or found lost."""
    answered: int | None = None
    """Answers that were stored from it."""
    missing: int | None = None
    """Requests that it left without an answer or a lasting failure."""
    unparsed: int = 0
    """Lines of its results that are no result."""
    contradicted: int = 0
    """Requests that it answers twice, each time otherwise; the first answer was stored."""
    reason: str | None = None
    """Why it was refused or lost."""
    strangers: tuple[str, ...] = ()
    """Ids of batches that were taken for it and turned out not to be."""
    waits: bool = False
    """Whether it was refused only for what was waiting before it."""
    too_large: bool = False
    """Whether it was refused for its size: at most half as many requests go into one batch from then on."""


@dataclass(frozen=True)
class StoredBatch:
    """A batch of the ledger."""

    number: int
    name: str
    state: BatchState
    service_id: str | None
    record: BatchRecord

    @property
    def is_open(self) -> bool:
        """Whether its requests may still be answered by it."""
        return self.state in OPEN


class BatchTable:
    """Reads and writes the batches of a run. Written under the run's lock only."""

    def __init__(self, store: RunStore) -> None:
        self._store = store

    def batches(self) -> list[StoredBatch]:
        """All of them, in the order in which they were planned."""
        if not self._store.has_table("batches"):
            return []
        rows = self._store.query("SELECT number, name, state, service_id, record FROM batches ORDER BY number")
        return [
            StoredBatch(number, name, state, service_id, BatchRecord.model_validate_json(record))
            for number, name, state, service_id, record in rows
        ]

    def open_batches(self) -> list[StoredBatch]:
        """Those whose requests may still be answered by them."""
        return [batch for batch in self.batches() if batch.is_open]

    def known_ids(self) -> frozenset[str]:
        """The ids, at the service, of all batches that are known to be ours or not to be."""
        batches = self.batches()
        own = {batch.service_id for batch in batches if batch.service_id is not None}
        return frozenset(own.union(*(batch.record.strangers for batch in batches)))

    def most_requests(self) -> int | None:
        """What one batch may hold, as the service's refusals say; None where it has refused none for its size."""
        refused = [batch.record.requests for batch in self.batches() if batch.record.too_large]
        return max(1, min(refused) // 2) if refused else None

    def next_name(self) -> tuple[int, str]:
        """Number and name of the next batch; no other run's batches have such names."""
        prefix = self._store.meta(_RUN_NAME)
        if prefix is None:
            prefix = f"mbbq-gen-{secrets.token_hex(8)}"
            self._store.set_meta(_RUN_NAME, prefix)
        (last,) = self._store.query("SELECT coalesce(max(number), 0) FROM batches").fetchone()
        return last + 1, f"{prefix}-{last + 1:05d}"

    def plan(self, number: int, name: str, keys: Sequence[str], record: BatchRecord) -> StoredBatch:
        """Writes down a batch and its requests; durable when this returns."""
        self._store.change(
            ("INSERT INTO batches VALUES (?, ?, 'planned', NULL, ?)", [(number, name, record.model_dump_json())]),
            ("INSERT INTO batch_requests VALUES (?, ?)", [(key, number) for key in keys]),
        )
        return StoredBatch(number, name, "planned", None, record)

    def update(
        self, batch: StoredBatch, state: BatchState | None = None, service_id: str | None = None, **changes: object
    ) -> StoredBatch:
        """Writes down what became of a batch; durable when this returns. A planned batch has no id at the service."""
        record = BatchRecord.model_validate(batch.record.model_dump() | changes)
        state = state or batch.state
        found = None if state == "planned" else service_id or batch.service_id
        now = StoredBatch(batch.number, batch.name, state, found, record)
        if now != batch:
            row = (now.state, now.service_id, record.model_dump_json(), now.number)
            self._store.change(("UPDATE batches SET state = ?, service_id = ?, record = ? WHERE number = ?", [row]))
        return now

    def requests(self, batch: StoredBatch) -> set[str]:
        """The keys of a batch's requests."""
        rows = self._store.query("SELECT request_key FROM batch_requests WHERE batch = ?", (batch.number,))
        return {key for (key,) in rows}

    def held(self) -> set[str]:
        """The keys of all requests that an open batch holds."""
        rows = self._store.query(
            "SELECT request_key FROM batch_requests JOIN batches ON number = batch WHERE state IN " + _OPEN_SQL
        )
        return {key for (key,) in rows}

    def tried(self) -> dict[str, int]:
        """Request → how many batches came back without an answer to it, of those requests that have none at all."""
        rows = self._store.query(
            "SELECT q.request_key, count(*) FROM batch_requests q JOIN batches b ON b.number = q.batch"
            " LEFT JOIN responses r ON r.request_key = q.request_key WHERE r.request_key IS NULL"
            " AND (b.state = 'collected' OR (b.state = 'refused' AND NOT json_extract(b.record, '$.waits')"
            " AND NOT coalesce(json_extract(b.record, '$.too_large'), 0)))"
            " AND NOT json_extract(b.record, '$.cancelled') GROUP BY q.request_key"
        )
        return dict(rows)

    def failures(self) -> set[str]:
        """The keys of the requests whose failure is recorded."""
        return {key for (key,) in self._store.query("SELECT request_key FROM responses WHERE is_error = 1")}
