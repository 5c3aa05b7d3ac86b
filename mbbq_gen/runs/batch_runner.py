"""Batched runs: plans, submits, recovers and collects batches.

The store is consistent after every step, so another process can continue: no response is lost, and no request in an
open batch is submitted again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import ExitStack, aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mbbq_gen.core.errors import ProviderError, RunError
from mbbq_gen.core.records import Request, Response
from mbbq_gen.providers.api.batches import BatchApi, BatchRef, BatchResult, BatchStatus, TooLargeError, batch_service
from mbbq_gen.providers.base import ExecutionContext
from mbbq_gen.providers.http.errors import TransientError, service_error, unmetered_usage
from mbbq_gen.providers.prices import read_prices
from mbbq_gen.runs.budget import CostGuard, InFlightLog
from mbbq_gen.runs.executor import ErrorRateGuard, Session, copy_cached, open_cost_guard
from mbbq_gen.storage.ledgers import SIZE_META, Batch, BatchMode, BatchTable, mode_of
from mbbq_gen.storage.schema import ResponseCache
from mbbq_gen.storage.store import RunStore

if TYPE_CHECKING:
    from mbbq_gen.providers.api.provider import ApiProvider

MOST_TRIES: Final = 3
"""Batches without a response to a request, after which it is recorded as a failure."""
_SEARCHES: Final = 2
"""Searches for a batch before it counts as lost; lists of services may be out of date."""
_SUBMISSIONS: Final = 3
_MIN_HALVED: Final = 100
"""Largest batch that is not halved if the service reports too many queued requests."""
_FIRST_SINGLY: Final = 3
"""Most requests that are sent one by one, until one succeeds, before the first batch."""
_COMMIT: Final = 500
_READS: Final = 5
_LONGEST_PAUSE: Final = 60.0
"""Longest wait before results are requested again, in seconds."""


@contextmanager
def _one_line(service: BatchApi) -> Iterator[None]:
    """Turns a transient error into a ProviderError of one line."""
    try:
        yield
    except TransientError as fault:
        raise ProviderError(f"{service.provider.name}: {fault}; nothing is lost, try again later") from fault


def _ref(batch: Batch) -> BatchRef:
    return BatchRef(batch.name, batch.requests, datetime.fromisoformat(batch.planned_at))


@dataclass
class BatchRunner:
    """Submits and collects the batches of a run, inside one event loop."""

    store: RunStore
    service: BatchApi
    folder: Path
    """The run folder, which has the file of a batch while it is submitted."""
    most_requests: int | None = None
    """The user's limit for one batch; None: the service's."""
    cost_guard: CostGuard | None = None
    cache: ResponseCache | None = None
    errors: ErrorRateGuard = field(default_factory=ErrorRateGuard)
    on_stored: Callable[[int], None] = lambda _: None
    say: Callable[[str], None] = lambda _: None
    pause: float = 2.0
    """Seconds before a batch is searched for again."""
    provider: ApiProvider = field(init=False)
    ledger: BatchTable = field(init=False)
    in_flight: InFlightLog = field(init=False)

    def __post_init__(self) -> None:
        self.provider, self.ledger = self.service.provider, BatchTable(self.store)
        self.in_flight = InFlightLog(self.store) if self.cost_guard is None else self.cost_guard.in_flight

    async def recover(self) -> None:
        """Checks whether batches that were planned when a process ended have reached the service."""
        for batch in self.ledger.open_batches():
            if batch.state == "planned" and not await self._is_found(batch):
                self.ledger.update(batch, state="lost", reason="never reached the service")

    async def _is_found(self, batch: Batch) -> bool:
        """Whether the service has a planned batch; if so, marks it as sent."""
        batches = self.ledger.batches()
        known = frozenset(one.service_id for one in batches if one.service_id is not None)
        known = known.union(*(one.foreign_ids for one in batches))
        for attempt in range(_SEARCHES):
            if attempt:
                await asyncio.sleep(self.pause)
            with _one_line(self.service):
                service_id = await self.service.find(_ref(batch), known)
            if service_id is not None:
                self.ledger.update(batch, state="sent", service_id=service_id)
                return True
        return False

    async def refresh(self) -> list[tuple[Batch, BatchStatus]]:
        """Fetches and stores the status of the sent batches; returns both."""
        found = []
        for batch in self.ledger.open_batches():
            if batch.service_id is not None:
                with _one_line(self.service):
                    status = await self.service.status(batch.service_id)
                changes = {"service_state": status.state, "done": status.done, "failed": status.failed}
                found.append((self.ledger.update(batch, **changes), status))
        return found

    async def cancel(self) -> int:
        """Cancels all open batches; returns their number."""
        await self.recover()
        batches = self.ledger.open_batches()
        for batch in batches:
            assert batch.service_id is not None  # recovered batches have one
            with _one_line(self.service):
                await self.service.cancel(batch.service_id)
            self.ledger.update(batch, cancelled=True)
        return len(batches)

    # --- collecting -------------------------------------------------------------------------------------------------

    async def collect(self) -> int:
        """Stores the results of all batches that have ended; returns the number of answers."""
        await self.recover()
        answers, found = 0, await self.refresh()
        refused = {batch.number for batch, status in found if status.phase == "refused"}
        for batch, status in found:
            if status.phase == "refused":
                self._close_refused(batch, status, refused)
            elif status.phase == "ended":
                answers += await self._collect(batch, status)
        return answers

    def _close_refused(self, batch: Batch, status: BatchStatus, refused: set[int]) -> None:
        """Closes a batch that the service refused; after a batch that was too large, later ones are halved."""
        reason, is_too_large = status.reason or status.state, status.too_large
        if status.waits and batch.requests > _MIN_HALVED and batch.number == min(refused):
            # too large if no other batch of this run can have filled the queue
            is_too_large |= not any(
                other.is_open or (other.state == "collected" and str(other.closed_at) > batch.planned_at)
                for other in self.ledger.batches()
                if other.number not in refused
            )
        if is_too_large:
            self._close_too_large(batch, reason)
            return
        self.say(f"batch {batch.name} was refused: {reason}")
        if not status.waits:
            error = f"refused with {MOST_TRIES} batches, the last time: {reason}"
            self._give_up(self.ledger.requests(batch), self.ledger.tries(), error)
        self.ledger.update(batch, state="refused", reason=status.reason, waits=status.waits)

    def _close_too_large(self, batch: Batch, reason: str) -> None:
        """Closes a batch that was refused for its size; RunError if it has one request."""
        self.ledger.update(batch, state="refused", reason=reason, too_large=True)
        if batch.requests == 1:
            raise RunError(
                f"{self.provider.name}: refuses even a batch of one request ({reason}); send requests one by one:"
                f" mbbq-gen run {self.folder} --no-batch"
            )
        self.say(
            f"batch {batch.name} is too large for the service ({reason}): at most {batch.requests // 2:,} requests in"
            f" one batch from now on, instead of {batch.requests:,}"
        )

    async def _collect(self, batch: Batch, status: BatchStatus) -> int:
        """Stores the results of one batch; returns the number of answers."""
        own_keys, tries_before = self.ledger.requests(batch), self.ledger.tries()
        answered, n_foreign, missing = 0, 0, set(own_keys)
        responses = list[Response]()
        async with aclosing(self._results(status)) as results:
            async for result in results:
                if result.request_key not in own_keys:
                    n_foreign += 1
                elif response := self._response(result, status, tries_before):
                    responses.append(response)
                    missing.discard(response.request_key)
                    answered += response.error is None
                    if len(responses) == _COMMIT:
                        self._store(responses)
                        responses = []
        self._store(responses)
        if n_foreign and missing == own_keys:
            foreign = (*batch.foreign_ids, status.service_id)
            self.ledger.update(batch, state="planned", service_id=None, foreign_ids=foreign)
            await self.recover()
            return 0
        if not batch.cancelled:
            error = f"left without an answer by {MOST_TRIES} batches, the last one {status.state}"
            self._give_up(missing, tries_before, error, status.service_id)
        self.ledger.update(batch, state="collected", answered=answered, missing=len(missing))
        return answered

    async def _results(self, status: BatchStatus) -> AsyncGenerator[BatchResult, None]:
        """The results of an ended batch, once per request; an answer may follow a failure.

        They are read again if the connection breaks, or lines are malformed.
        """
        seen = dict[str, int]()
        for left in reversed(range(_READS)):
            self.service.n_malformed = 0
            try:
                async with aclosing(self.service.results(status)) as results:
                    async for result in results:
                        if (rank := int(result.outcome == "answered")) > seen.get(result.request_key, -1):
                            seen[result.request_key] = rank
                            yield result
                if not self.service.n_malformed or not left:
                    return
            except TransientError as fault:
                if not left:
                    with _one_line(self.service):
                        raise
                await asyncio.sleep(max(self.pause, min(fault.pause or 0.0, _LONGEST_PAUSE)))

    def _response(self, result: BatchResult, status: BatchStatus, tries_before: dict[str, int]) -> Response | None:
        """The response to one request; None if the request is sent again."""
        key, headers, response = result.request_key, result.headers or {}, None
        is_last = tries_before.get(key, 0) + 1 >= MOST_TRIES
        if result.outcome == "answered":
            try:
                response = self.provider.parse(key, result.payload, headers)
                if not (response.usage.input_tokens and response.usage.output_tokens):  # counted at its highest cost
                    most = self.provider.max_usage(self.store.request(key))
                    if missing := most and unmetered_usage(response, most):
                        response = response.model_copy(update={"unmetered_usage": missing})
                self.provider.note_response(response)
            except TransientError as fault:
                self.in_flight.add_lost_in_batch(self.provider.max_usage(self.store.request(key)))
                response = Response(request_key=key, error=str(fault)) if is_last else None
        elif result.outcome == "failed" and (is_last or self.provider.is_permanent(result.status, result.payload)):
            response = self.provider.failure(key, service_error(result.status, result.payload), headers)
        return response and response.model_copy(update={"batch": status.service_id})

    def _give_up(self, keys: set[str], tries_before: dict[str, int], error: str, batch: str | None = None) -> None:
        """Records requests as failed after MOST_TRIES batches without a response."""
        keys = {key for key in keys if tries_before.get(key, 0) + 1 >= MOST_TRIES}
        self._store([Response(request_key=key, error=error, batch=batch) for key in sorted(keys)])

    def _store(self, responses: list[Response]) -> None:
        """Stores responses, also in the cache; durable when this returns."""
        if not responses:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        dated = [(response, now) for response in responses]
        self.in_flight.store_responses(dated)
        if self.cache is not None:
            self.cache.keep(dated)
        for response in responses:
            self.errors.note(response)
        self.on_stored(len(responses))

    # --- submitting -------------------------------------------------------------------------------------------------

    async def submit(self, *, retry_failed: bool = False) -> int:
        """Submits requests that have no response and are in no open batch; returns the number of batches.

        The first request is sent alone, to detect a wrong key before a batch is made; if it fails, the next ones too.
        `retry_failed`: also requests whose failure is recorded.
        """
        await self.recover()
        for path in self.folder.glob("mbbq-gen-*.jsonl"):  # left by a killed process
            path.unlink(missing_ok=True)
        batches, guard = self.ledger.batches(), self.cost_guard
        oldest = min((batch.number for batch in batches if batch.is_open), default=None)
        if oldest is not None and any(batch.waits for batch in batches if batch.number > oldest):
            return 0
        left_out = self.ledger.open_requests()
        if batches and not retry_failed:  # before the first batch, failed single requests are sent again
            left_out |= {key for (key,) in self.store.query("SELECT request_key FROM responses WHERE is_error = 1")}
            left_out |= {key for key, tries in self.ledger.tries().items() if tries >= MOST_TRIES}
        pending = (request for request in self.store.pending() if request.request_key not in left_out)
        requests = pending if guard is None else guard.reserve(pending)
        failed, single_errors = [], replace(self.errors)  # with new counts
        for request in islice(requests, _FIRST_SINGLY):
            if guard is not None and (most := self.provider.max_usage(request)) is not None:
                self.in_flight.record_sent([(request.request_key, most)])
            response = await self.provider.learn(request, ExecutionContext(notify=self.say))
            self._store([response])
            if guard is not None:
                guard.settle([response], guard.alone)
            if response.error is None:
                break
            single_errors.note(response)
            single_errors.check(_FIRST_SINGLY)
            failed.append(request)
        try:
            made = await self._submit_all(chain(failed, requests))
        except OSError as error:
            raise RunError(f"{self.folder}: can't write the file of a batch: {error.strerror or error}") from error
        if guard is not None and not self.ledger.open_batches():
            guard.check()
        return made

    async def _submit_all(self, requests: Iterator[Request]) -> int:
        """Submits requests in batches of the largest size allowed; returns the number of batches."""
        made, request = 0, next(requests, None)
        while request is not None:
            limits = (self.service.most_requests, self.most_requests, self.ledger.most_requests())
            most = min(limit for limit in limits if limit is not None)
            number, name = self.ledger.next_name()
            path, keys, size = self.folder / f"{name}.jsonl", list[str](), 0
            with path.open("wb") as stream:
                while request is not None and len(keys) < most:
                    line = self.service.line(request)
                    if keys and size + len(line) > self.service.most_bytes:
                        break
                    stream.write(line)
                    keys.append(request.request_key)
                    size += len(line)
                    request = next(requests, None)
            batch = self.ledger.plan(number, name, keys)
            try:
                await self._send(batch, path)
                made += 1
            except TooLargeError as error:
                self._close_too_large(batch, str(error))
                requests = chain(map(self.store.request, keys), [] if request is None else [request], requests)
                request = next(requests)
            finally:
                path.unlink(missing_ok=True)
        return made

    async def _send(self, batch: Batch, path: Path) -> None:
        """Submits a planned batch; after a transient error, checks whether it has arrived before the next attempt."""
        for _ in range(_SUBMISSIONS):
            try:
                service_id = await self.service.submit(_ref(batch), path)
                self.ledger.update(batch, state="sent", service_id=service_id)
                return
            except TransientError as error:
                fault = error
            except TooLargeError:
                raise
            except ProviderError as error:
                self.ledger.update(batch, state="lost", reason=str(error))
                raise
            self.say(f"{self.provider.name}: {fault}; checking whether batch {batch.name} has arrived")
            await asyncio.sleep(max(self.pause, fault.pause or 0.0))
            if await self._is_found(batch):
                return
        self.ledger.update(batch, state="lost", reason="could not be submitted")
        raise RunError(
            f"{self.provider.name}: batch {batch.name} could not be submitted; nothing is lost, try again later with"
            f" mbbq-gen run {self.folder}, or in smaller ones: --batch-size N (now {batch.requests:,} requests)"
        )


@asynccontextmanager
async def batch_runner(session: Session, *, spends: bool) -> AsyncGenerator[BatchRunner]:
    """The batch runner of a run; `spends`: whether it submits batches, so that `--max-cost` applies."""
    store, provider, config, watcher = session.store, session.provider, session.config, session.watcher
    service, path, most = batch_service(provider), session.folder.path, store.meta(SIZE_META)
    read_prices(config.prices)  # report a wrong price file before anything is sent
    guard = None
    if spends and config.max_cost is not None:
        guard = open_cost_guard(store, provider, config, config.max_cost, for_batches=True)
    errors = ErrorRateGuard(config.max_error_rate, f"ask the others again with mbbq-gen run {path} --batch")
    with ExitStack() as stack:
        cache = stack.enter_context(ResponseCache(Path(config.cache_dir))) if config.cache_dir is not None else None
        advance = stack.enter_context(watcher.stage("collecting"))
        limit = None if most is None else int(most)
        try:
            yield BatchRunner(store, service, path, limit, guard, cache, errors, advance, watcher.say)
        finally:
            try:
                await provider.aclose()
            finally:
                session.store_runtime_info()


async def run_batches(session: Session, mode: BatchMode, *, retry_failed: bool) -> bool:
    """Collects finished batches and submits missing requests; returns whether batches are open."""
    say, cache_dir = session.watcher.say, session.config.cache_dir
    async with batch_runner(session, spends=mode == "on") as batching:
        if batching.cache is not None:
            copied: list[Response] = []
            copy_cached(session.store, batching.cache, copied.extend)
            if copied:
                say(f"{len(copied):,} answers came from the cache {cache_dir} and cost nothing")
        if answers := await batching.collect():
            say(f"{answers:,} answers collected")
        batching.errors.check()
        if made := await batching.submit(retry_failed=retry_failed) if mode == "on" else 0:
            say(f"{made:,} batch{'es' if made > 1 else ''} submitted")
    return report_batches(session)


def report_batches(session: Session) -> bool:
    """Reports how many requests are in batches, or were never sent; returns whether batches are open."""
    progress, path, say = session.store.progress(), session.folder.path, session.watcher.say
    if batches := BatchTable(session.store).open_batches():
        held = sum(batch.requests for batch in batches)
        say(
            f"{len(batches)} batch{'es' if len(batches) > 1 else ''} with {held:,} requests under way; the service"
            f" answers within a day. Later: mbbq-gen run {path}"
        )
    elif (left := progress.pending - progress.failed) > 0 and mode_of(session.store) == "stopped":
        say(f"{left:,} requests were never sent: send them with mbbq-gen run {path} --batch, or --no-batch")
    return bool(batches)
