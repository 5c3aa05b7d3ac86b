"""Batched runs: chooses the mode, and plans, submits, recovers and collects batches.

The store is consistent after every step, so that the next process continues from there: no response is lost, and no
request that a batch may still answer is submitted again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import ExitStack, aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from mbbq_gen.core.errors import ProviderError, RunError
from mbbq_gen.core.records import Response
from mbbq_gen.providers.api.batches import (
    BatchApi,
    BatchRef,
    BatchResult,
    BatchStatus,
    MalformedLine,
    TooLargeError,
    batch_service,
    is_cut_off,
)
from mbbq_gen.providers.base import ExecutionContext
from mbbq_gen.providers.http.errors import TransientError, service_error, unmetered_usage
from mbbq_gen.providers.prices import read_prices
from mbbq_gen.runs.budget import CostGuard, InFlightLog
from mbbq_gen.runs.executor import ErrorRateGuard, Session, copy_cached, open_cost_guard
from mbbq_gen.storage.cache import ResponseCache
from mbbq_gen.storage.ledgers import MOST_REQUESTS, BatchMode, BatchRecord, BatchTable, StoredBatch, mode_of
from mbbq_gen.storage.store import RunStore

if TYPE_CHECKING:
    from mbbq_gen.providers.api.provider import ApiProvider

MOST_TRIES: Final = 3
"""Batches that may come back without an answer to a request before that is recorded as a failure."""
_LOOKS: Final = 2
"""How often a batch is looked for before it counts as lost: a service's list may lag behind."""
_SUBMISSIONS: Final = 3
"""How often a failed submission of a batch is repeated."""
_FEW: Final = 100
"""Requests that are not halved any more where a service says that too much is waiting."""
_ALONE: Final = 3
"""Requests that are sent by themselves, if they fail, before a batch is made."""
_SINGLE: Final = 3
"""Batches of a single request that may be refused for their size before we believe that none is taken."""
_TOGETHER: Final = 500
_READS: Final = 5
"""How often the results of a batch are requested before that is given up for now."""
_LONGEST_PAUSE: Final = 60.0
"""Seconds that a service may ask to wait before its results are requested again."""


def _stamp() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@contextmanager
def _one_line(service: BatchApi) -> Iterator[None]:
    """Turns a transient failure into one line."""
    try:
        yield
    except TransientError as fault:
        raise ProviderError(f"{service.provider.name}: {fault}; nothing is lost, try again later") from fault


class _Line(NamedTuple):
    """One request of a batch, and the most that it can cost in US dollars: 0 where there is no limit."""

    key: str
    content: bytes
    most_cost: float


def _mark(batch: StoredBatch) -> BatchRef:
    return BatchRef(batch.name, batch.record.requests, datetime.fromisoformat(batch.record.planned_at))


@dataclass
class BatchRunner:
    """One session of work on the batches of a run, inside one event loop."""

    store: RunStore
    service: BatchApi
    folder: Path
    """The run's folder: files that are on their way to the service stand in it for a moment."""
    most_requests: int | None = None
    """The user's limit of one batch; None: what the service takes."""
    cost_guard: CostGuard | None = None
    cache: ResponseCache | None = None
    errors: ErrorRateGuard = field(default_factory=ErrorRateGuard)
    on_stored: Callable[[int], None] = lambda _: None
    say: Callable[[str], None] = lambda _: None
    pause: float = 2.0
    """Seconds before a batch is looked for again."""
    provider: ApiProvider = field(init=False)
    context: ExecutionContext = field(init=False)
    ledger: BatchTable = field(init=False)
    in_flight: InFlightLog = field(init=False)

    def __post_init__(self) -> None:
        self.provider, self.context = self.service.provider, ExecutionContext(notify=self.say)
        self.ledger = BatchTable(self.store)
        self.in_flight = InFlightLog(self.store) if self.cost_guard is None else self.cost_guard.in_flight

    # --- what stands at the service ---------------------------------------------------------------------------------

    async def recover(self) -> None:
        """Finds out what became of the batches that were planned when a process ended: sent, or never arrived."""
        for batch in self.ledger.open_batches():
            if batch.state == "planned" and not await self._is_found(batch):
                self.ledger.update(batch, "lost", closed_at=_stamp(), reason="never reached the service")

    async def _is_found(self, batch: StoredBatch) -> bool:
        """Whether the service has a planned batch, which counts as sent then."""
        for look in range(_LOOKS):
            if look:
                await asyncio.sleep(self.pause)
            with _one_line(self.service):
                service_id = await self.service.find(_mark(batch), self.ledger.known_ids())
            if service_id is not None:
                self.ledger.update(batch, "sent", service_id, sent_at=_stamp())
                return True
        return False

    async def refresh(self) -> list[tuple[StoredBatch, BatchStatus]]:
        """Asks how the sent batches stand, and writes it down."""
        found = []
        for batch in self.ledger.open_batches():
            if batch.service_id is None:
                continue
            with _one_line(self.service):
                status = await self.service.status(batch.service_id)
            now = self.ledger.update(batch, service_state=status.state, done=status.done, failed=status.failed)
            found.append((now, status))
        return found

    async def cancel(self) -> int:
        """Asks the service to stop all open batches; says how many there were."""
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
        """Stores the results of all batches that have ended; returns how many answers there were."""
        await self.recover()
        stored, found = 0, await self.refresh()
        refused = {batch.number for batch, status in found if status.phase == "refused"}
        for batch, status in found:
            if status.phase == "refused":
                self._close_refused(batch, status, refused)
            elif status.phase == "ended":
                stored += await self._collect(batch, status)
        return stored

    def _close_refused(self, batch: StoredBatch, status: BatchStatus, refused: set[int]) -> None:
        """Closes a batch that the service would not take. What was too much for it is halved from now on."""
        reason = status.reason or status.state
        is_halved = status.too_large
        if status.waits and batch.record.requests > _FEW and not any(number < batch.number for number in refused):
            # halved where no other batch of this run may have left the service no room for it
            is_halved |= not any(
                (other.is_open or other.state == "collected")
                and (other.record.closed_at or _stamp()) > batch.record.planned_at
                for other in self.ledger.batches()
                if other.number not in refused
            )
        if is_halved:
            self._close_too_large(batch, reason)
            return
        self.say(f"batch {batch.name} was refused: {reason}")
        if not status.waits:
            why = f"refused with {MOST_TRIES} batches, the last time: {reason}"
            self._give_up(self.ledger.requests(batch), self.ledger.tried(), why)
        self.ledger.update(batch, "refused", closed_at=_stamp(), reason=status.reason, waits=status.waits)

    def _close_too_large(self, batch: StoredBatch, reason: str) -> None:
        """Closes a batch that was refused for its size; one request that is too large by itself has failed."""
        held, said = batch.record.requests, f"batch {batch.name} is too large for the service ({reason})"
        if held == 1:
            error = f"too large for a batch of its own: {reason}"
            self._store([Response(request_key=key, error=error) for key in self.ledger.requests(batch)])
        else:
            said += f": at most {held // 2:,} requests in one batch from now on, instead of {held:,}"
        self.say(said)
        self.ledger.update(batch, "refused", closed_at=_stamp(), reason=reason, too_large=True)
        batches = self.ledger.batches()
        alone = [found for found in batches if found.record.too_large and found.record.requests == 1]
        if len(alone) >= _SINGLE and not any(found.is_open or found.state == "collected" for found in batches):
            raise RunError(
                f"{self.provider.name}: refuses even a batch of one request ({reason}); send requests one by one:"
                f" mbbq-gen run {self.folder} --no-batch"
            )

    async def _collect(self, batch: StoredBatch, status: BatchStatus) -> int:
        """Stores the results of one batch."""
        ours, earlier = self.ledger.requests(batch), self.ledger.tried()
        answered, strange, missing, unread = 0, 0, set(ours), list[MalformedLine]()
        async with aclosing(self._results(status, unread)) as groups:
            async for group in groups:
                known = [result for result in group if result.request_key in ours]
                strange += len(group) - len(known)
                responses = [found for result in known if (found := self._read(result, status, earlier))]
                self._store(responses)
                answered += sum(response.error is None for response in responses)
                missing -= {response.request_key for response in responses}
        if strange and missing == ours:
            self.ledger.update(batch, "planned", strangers=(*batch.record.strangers, status.service_id))
            await self.recover()
            return 0
        if not batch.record.cancelled:
            why = f"left without an answer by {MOST_TRIES} batches, the last one {status.state}"
            self._give_up(missing, earlier, why, status.service_id)
        if unread:
            self.say(
                f"batch {batch.name}: {len(unread):,} lines of its results can't be read, the first:"
                f" {self.provider.hide(unread[0].start)!r}; requests without an answer go into another batch"
            )
        self.ledger.update(batch, "collected", closed_at=_stamp(), answered=answered, missing=len(missing))
        return answered

    async def _results(
        self, status: BatchStatus, unread: list[MalformedLine]
    ) -> AsyncGenerator[list[BatchResult], None]:
        """The results of an ended batch in groups, each once; the lines that can't be read go into `unread`.

        They are requested again where the connection breaks on the way, and once more where lines can't be read.
        ProviderError where they can't be had.
        """
        group: list[BatchResult] = []
        is_answered: dict[str, bool] = {}
        was_read = False
        for left in reversed(range(_READS)):
            unread.clear()
            try:
                async with aclosing(self.service.results(status)) as results:
                    async for result in results:
                        if isinstance(result, MalformedLine):
                            unread.append(result)
                            continue
                        key, answered = result.request_key, result.outcome == "answered"
                        before = is_answered.get(key)
                        if before is None or (answered and not before):
                            is_answered[key] = answered
                            group.append(result)
                        if len(group) == _TOGETHER:
                            yield group
                            group = []
            except TransientError as fault:
                if not left:
                    with _one_line(self.service):
                        raise
                await asyncio.sleep(max(self.pause, min(fault.pause or 0.0, _LONGEST_PAUSE)))
            else:
                if was_read or not unread:
                    break
                was_read = True
        yield group

    def _store(self, responses: list[Response]) -> None:
        """Makes answers durable."""
        if not responses:
            return
        stamped = [(response, _stamp()) for response in responses]
        self.in_flight.store_responses(stamped)
        if self.cache is not None:
            self.cache.keep(stamped)
        for response in responses:
            self.errors.note(response)
        self.on_stored(len(responses))

    def _read(self, answer: BatchResult, status: BatchStatus, earlier: dict[str, int]) -> Response | None:
        """What came of one request; None where it is to go into another batch."""
        key, headers = answer.request_key, answer.headers or {}
        response = None
        if answer.outcome == "answered":
            try:
                response = self.provider.parse(key, answer.payload, headers)
                if not (response.usage.input_tokens and response.usage.output_tokens):  # booked as the most it can be
                    most = self.provider.max_usage(self.store.request(key))
                    if missing := most and unmetered_usage(response, most):
                        response = response.model_copy(update={"unmetered_usage": missing})
                self.provider.notice(response)
            except TransientError as fault:
                self.in_flight.lose_in_batch(self.provider.max_usage(self.store.request(key)))
                if earlier.get(key, 0) + 1 >= MOST_TRIES:
                    response = Response(request_key=key, error=str(fault))
        elif answer.outcome == "failed" and (
            self.provider.is_lasting(answer.status, answer.payload) or earlier.get(key, 0) + 1 >= MOST_TRIES
        ):
            response = self.provider.failure(key, service_error(answer.status, answer.payload), headers)
        return response and response.model_copy(update={"batch": status.service_id})

    def _give_up(self, keys: set[str], earlier: dict[str, int], why: str, batch: str | None = None) -> None:
        """Records as failed what as many batches as it takes have left without an answer."""
        keys = {key for key in keys if earlier.get(key, 0) + 1 >= MOST_TRIES}
        self._store([Response(request_key=key, error=why, batch=batch) for key in sorted(keys)])

    # --- submitting -------------------------------------------------------------------------------------------------

    async def submit(self, *, failed_too: bool = False) -> int:
        """Submits what is in no batch and has no answer; returns how many batches that made.

        The first of these requests is sent by itself: what the model refuses, or a wrong key, shows before a batch is
        made. Where it fails, the next ones are. `failed_too`: also what has failed for good before.
        """
        await self.recover()
        for path in self.folder.glob("mbbq-gen-*.jsonl"):  # of a process that was killed
            path.unlink(missing_ok=True)
        batches, guard = self.ledger.batches(), self.cost_guard
        oldest = min((batch.number for batch in batches if batch.is_open), default=None)
        if oldest is not None and any(batch.record.waits for batch in batches if batch.number > oldest):
            return 0
        left_out = self.ledger.held()
        if batches and not failed_too:  # before the first batch, what failed by itself is sent again
            left_out |= self.ledger.failures()
            left_out |= {key for key, tries in self.ledger.tried().items() if tries >= MOST_TRIES}
        pending = (request for request in self.store.pending() if request.request_key not in left_out)
        requests = pending if guard is None else guard.reserve(pending)
        failed, alone = [], replace(self.errors)  # counts from nought
        for request in islice(requests, _ALONE):
            if guard is not None and (most := self.provider.max_usage(request)) is not None:
                self.in_flight.record_sent([(request.request_key, most)])
            response = await self.provider.learn(request, self.context)
            self._store([response])
            if guard is not None:
                guard.settle([response], guard.alone)
            if response.error is None:
                break
            alone.note(response)
            alone.check(_ALONE)
            failed.append(request)
        lines = (
            _Line(request.request_key, self.service.line(request), guard.most(request) if guard else 0.0)
            for request in chain(failed, requests)
        )
        try:
            made = await self._submit_all(lines)
        except OSError as error:
            raise RunError(f"{self.folder}: can't write the file of a batch: {error.strerror or error}") from error
        if guard is not None and not self.ledger.open_batches():
            guard.check()
        return made

    async def _submit_all(self, lines: Iterator[_Line]) -> int:
        """Submits requests in batches as large as the service takes them; returns how many that made."""
        made, line = 0, next(lines, None)
        while line is not None:
            limits = (self.service.most_requests, self.most_requests, self.ledger.most_requests())
            most = min(limit for limit in limits if limit is not None)
            number, name = self.ledger.next_name()
            path, keys, costs, size = self.folder / f"{name}.jsonl", list[str](), list[float](), 0
            with path.open("wb") as stream:
                while line and (not keys or (len(keys) < most and size + len(line.content) <= self.service.most_bytes)):
                    stream.write(line.content)
                    keys.append(line.key)
                    costs.append(line.most_cost)
                    size += len(line.content)
                    line = next(lines, None)
            now = datetime.now(UTC).isoformat()
            record = BatchRecord(requests=len(keys), size=size, planned_at=now, most_cost=sum(costs))
            batch = self.ledger.plan(number, name, keys, record)
            try:
                await self._send(batch, path)
                made += 1
            except TooLargeError as error:
                self._close_too_large(batch, str(error))
                self.errors.check()
                if len(keys) > 1:
                    with path.open("rb") as stream:
                        made += await self._submit_all(map(_Line, keys, stream, costs))
            finally:
                path.unlink(missing_ok=True)
        return made

    async def _send(self, batch: StoredBatch, path: Path) -> None:
        """Submits a planned batch. Where it is not known whether the service has it, it is looked for first."""
        cut_off = 0
        for _ in range(_SUBMISSIONS):
            try:
                service_id = await self.service.submit(_mark(batch), path)
                self.ledger.update(batch, "sent", service_id, sent_at=_stamp())
                return
            except TransientError as error:
                fault = error
            except TooLargeError:
                raise
            except ProviderError as error:
                self.ledger.update(batch, "lost", closed_at=_stamp(), reason=str(error))
                raise
            cut_off += is_cut_off(fault, batch.record.size)
            self.say(f"{self.provider.name}: {fault}; checking whether batch {batch.name} has arrived")
            await asyncio.sleep(max(self.pause, fault.pause or 0.0))
            if await self._is_found(batch):
                return
        if cut_off == _SUBMISSIONS and batch.record.requests > 1:
            raise TooLargeError(f"{batch.record.size:,} bytes cannot be sent: {fault}")
        self.ledger.update(batch, "lost", closed_at=_stamp(), reason="could not be submitted")
        raise RunError(
            f"{self.provider.name}: batch {batch.name} could not be submitted; nothing is lost, try again later with"
            f" mbbq-gen run {self.folder} --collect, or in smaller ones: --batch-size N (now"
            f" {batch.record.requests:,} requests)"
        )


@asynccontextmanager
async def batch_runner(session: Session, *, spends: bool) -> AsyncGenerator[BatchRunner]:
    """What works on the batches of a run; `spends`: whether it submits batches, which `--max-cost` limits."""
    store, provider, rules, watcher = session.store, session.provider, session.rules, session.watcher
    service, path, most = batch_service(provider), session.folder.path, store.meta(MOST_REQUESTS)
    read_prices(rules.prices)  # a price file that is wrong is said before anything is sent
    guard = None
    if spends and rules.max_cost is not None:
        guard = open_cost_guard(store, provider, rules, rules.max_cost, for_batches=True)
    errors = ErrorRateGuard(rules.max_error_rate, f"ask the others again with mbbq-gen run {path} --batch")
    with ExitStack() as stack:
        cache = stack.enter_context(ResponseCache(Path(rules.cache_dir))) if rules.cache_dir is not None else None
        advance = stack.enter_context(watcher.stage("collecting"))
        limit = None if most is None else int(most)
        try:
            yield BatchRunner(store, service, path, limit, guard, cache, errors, advance, watcher.say)
        finally:
            try:
                await provider.aclose()
            finally:
                session.store_runtime_info()


async def run_batches(session: Session, mode: BatchMode, *, again: bool) -> bool:
    """Collects what has come, submits what is missing (`again`: failures too); whether batches are under way."""
    say, cache_dir = session.watcher.say, session.rules.cache_dir
    async with batch_runner(session, spends=mode == "on") as batching:
        if batching.cache is not None:
            copied: list[Response] = []
            copy_cached(session.store, batching.cache, copied.extend)
            if copied:
                say(f"{len(copied):,} answers came from the cache {cache_dir} and cost nothing")
        if answers := await batching.collect():
            say(f"{answers:,} answers collected")
        batching.errors.check()
        if made := await batching.submit(failed_too=again) if mode == "on" else 0:
            say(f"{made:,} batch{'es' if made > 1 else ''} submitted")
    return report_batches(session)


def report_batches(session: Session) -> bool:
    """Says how a run in batches stands; whether batches are under way."""
    progress, path, say = session.store.progress(), session.folder.path, session.watcher.say
    if batches := BatchTable(session.store).open_batches():
        held = sum(batch.record.requests for batch in batches)
        say(
            f"{len(batches)} batch{'es' if len(batches) > 1 else ''} with {held:,} requests under way; the service"
            f" answers within a day. Later: mbbq-gen run {path} --collect    or: mbbq-gen batch status {path}"
        )
    elif (left := progress.pending - progress.failed) > 0 and mode_of(session.store) == "stopped":
        say(f"{left:,} requests were never sent: send them with mbbq-gen run {path} --batch, or --no-batch")
    return bool(batches)
