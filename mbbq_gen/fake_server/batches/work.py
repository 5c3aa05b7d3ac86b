"""A batch on its way: its requests are done steadily from its creation to its end, some fail, some are left undone.

Nothing runs in the background: whenever somebody looks at a batch, what is due by then is done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import JsonValue

from mbbq_gen.fake_server.asked import Asked, Failure, FailureError
from mbbq_gen.fake_server.asking import Asking
from mbbq_gen.fake_server.dialects.base import Body, Dialect
from mbbq_gen.fake_server.faults import chance
from mbbq_gen.seeding import stable_number

_MOST_AT_ONCE = 20_000
"""Requests done whenever somebody looks: a large batch must not hold up everybody else."""


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """One request of a batch."""

    custom_id: str
    body: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What came of a request."""

    custom_id: str
    status: int
    body: Body
    """The answer, or the failure."""


@dataclass
class Batch:
    """A batch and what has come of it so far."""

    batch_id: str
    requests: Sequence[BatchRequest]
    created_at: float
    """By the server's clock."""
    delay_s: float
    cancelled_at: float | None = None
    done: int = 0
    """How many requests, from the first, have been looked at."""
    results: list[BatchResult] = field(default_factory=list)
    undone: list[str] = field(default_factory=list)
    """Custom ids of the requests that it expires without doing."""
    ended_at: float | None = None

    @property
    def state(self) -> Literal["working", "cancelling", "cancelled", "expired", "completed"]:
        """How it stands."""
        if self.ended_at is None:
            return "working" if self.cancelled_at is None else "cancelling"
        if self.cancelled_at is not None:
            return "cancelled"
        return "expired" if self.undone else "completed"

    @property
    def succeeded(self) -> list[BatchResult]:
        """The answers."""
        return [result for result in self.results if result.status == 200]

    @property
    def failed(self) -> list[BatchResult]:
        """The failures."""
        return [result for result in self.results if result.status != 200]

    def shuffled(self, results: Sequence[BatchResult]) -> list[BatchResult]:
        """Results in the order in which a service may hand them out: any."""
        return sorted(results, key=lambda result: stable_number(self.batch_id, result.custom_id))

    def told(self, results: Sequence[BatchResult], doubled: float) -> list[BatchResult]:
        """The same, and after them, for a share of the answers, another answer that contradicts them."""
        found = self.shuffled(results)
        others = [*found[1:], *found[:1]]
        return found + [
            BatchResult(result.custom_id, other.status, other.body)
            for result, other in zip(found, others, strict=True)
            if result.status == other.status == 200 and chance("doubled", self.batch_id, result.custom_id) < doubled
        ]

    def is_broken(self, custom_id: str, share: float) -> bool:
        """Whether the line of a result is cut in half."""
        return chance("broken", self.batch_id, custom_id) < share


class BatchBook:
    """All batches of one API."""

    def __init__(self, asking: Asking, clock: Callable[[], float], prefix: str) -> None:
        self.asking = asking
        self.clock = clock
        self._prefix = prefix
        self._batches: dict[str, Batch] = {}
        self._tries: Counter[str] = Counter()

    def create(self, requests: Sequence[BatchRequest]) -> Batch:
        """A new batch."""
        number = len(self._batches) + 1
        batch_id = f"{self._prefix}{number:06d}{stable_number(self._prefix, number):016x}"
        batch = Batch(batch_id, requests, self.clock(), self.asking.scenario.batches.delay_s)
        self._batches[batch_id] = batch
        self.asking.ledger.batches += 1
        return batch

    def get(self, batch_id: str, dialect_of: Callable[[Batch], Dialect]) -> Batch:
        """The batch of that id, brought up to now.

        Raises:
            FailureError: where there is none.
        """
        batch = self._batches.get(batch_id)
        if batch is None:
            raise FailureError(Failure("not_found", f"no batch found with id '{batch_id}'"))
        self._advance(batch, dialect_of(batch))
        return batch

    def ids(self) -> list[str]:
        """The ids of all batches, the newest first."""
        return list(reversed(self._batches))

    def cancel(self, batch: Batch) -> None:
        """Stops a batch where it is; one that has ended stays as it is."""
        if batch.ended_at is None and batch.cancelled_at is None:
            batch.cancelled_at = self.clock()

    def is_rejected(self, number_of_requests: int) -> bool:
        """Whether the next batch fails at validation."""
        scenario = self.asking.scenario
        point = chance("rejected", scenario.seed, self._prefix, len(self._batches), number_of_requests)
        return point < scenario.batches.rejected

    def _advance(self, batch: Batch, dialect: Dialect) -> None:
        """Does what is due by now."""
        if batch.ended_at is not None:
            return
        now, total = self.clock(), len(batch.requests)
        until = now if batch.cancelled_at is None else batch.cancelled_at
        share = 1.0 if batch.delay_s == 0 else min(1.0, (until - batch.created_at) / batch.delay_s)
        due = min(int(total * share), batch.done + _MOST_AT_ONCE)
        for request in batch.requests[batch.done : due]:
            self._do(batch, request, dialect)
        batch.done = due
        if due >= int(total * share) and (batch.cancelled_at is not None or share == 1.0):
            batch.ended_at = now

    def _do(self, batch: Batch, request: BatchRequest, dialect: Dialect) -> None:
        """One request: answered, failed, or left undone."""
        try:
            asked = dialect.parse(request.body, None)
            self.asking.check_asked(asked)
            if self._is_undone(asked):
                batch.undone.append(request.custom_id)
                return
            status, body = self.asking.answered(dialect, asked)
        except FailureError as error:
            status, body = dialect.failure(error.failure, f"req_{request.custom_id}")
        batch.results.append(BatchResult(request.custom_id, status, body))

    def _is_undone(self, asked: Asked) -> bool:
        """Whether a request is still undone when the batch expires.

        Raises:
            FailureError: where it fails.
        """
        scenario = self.asking.scenario
        settings, before = scenario.batches, self._tries[asked.digest]
        self._tries[asked.digest] += 1
        if before >= settings.most_per_request:
            return False
        point = chance("batch", scenario.seed, asked.digest, before)
        if point < settings.failed:
            raise FailureError(Failure("server_error", "the server had an error while processing the request"))
        return point < settings.failed + settings.expired


def page(ids: Sequence[str], after: str | None, limit: str | None) -> tuple[list[str], bool]:
    """The ids that follow one, at most so many (20 if not told), and whether there are more.

    Raises:
        FailureError: where `limit` is no number.
    """
    if limit is not None and not limit.isdigit():
        raise FailureError(Failure("invalid", "limit: expected a number", "limit"))
    start = ids.index(after) + 1 if after in ids else 0
    end = start + int(limit or 20)
    return list(ids[start:end]), end < len(ids)
