"""Batched runs: chooses the mode, and plans, submits, recovers and collects batches.

The store is consistent after every step, so that the next process continues from there: no response is lost, and no
request that a batch may still answer is submitted again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import ExitStack, aclosing, closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from mbbq_gen.core.errors import ProviderError, RunError, UsageError
from mbbq_gen.core.records import Response
from mbbq_gen.providers.api.batches import (
    BatchApi,
    BatchRef,
    BatchResult,
    BatchStatus,
    TooLargeError,
    batch_service,
    is_cut_off,
)
from mbbq_gen.providers.base import ExecutionContext
from mbbq_gen.providers.http.errors import TransientError, service_error
from mbbq_gen.providers.http.parameters import unmetered_usage
from mbbq_gen.providers.prices import read_prices
from mbbq_gen.runs.batch_files import PART, Line, ResultProblems, one_line, parts, result_groups
from mbbq_gen.runs.budget import CostGuard, InFlightLog
from mbbq_gen.runs.executor import ErrorRateGuard, Session, copy_cached, open_cost_guard
from mbbq_gen.storage.cache import ResponseCache
from mbbq_gen.storage.ledgers import BatchRecord, BatchTable, StoredBatch
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
_MODE: Final = "batches"
_MOST: Final = "batch_requests"

Mode = Literal["off", "on", "stopped"]
"""How requests are sent: one by one, in batches, or in batches of which no more are made."""


def _stamp() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def choose_mode(store: RunStore, batch: bool | None, most_requests: int | None) -> None:
    """Stores how requests are sent, and how many go into a batch; None: as before. UsageError with open batches."""
    if batch is False and BatchTable(store).open_batches():
        raise UsageError(
            f"--no-batch: {store.path.parent} has batches on their way; first: mbbq-gen batch collect"
            f" {store.path.parent}, or mbbq-gen batch cancel {store.path.parent}"
        )
    if batch is not None:
        set_mode(store, "on" if batch else "off")
    if most_requests is not None:
        store.set_meta(_MOST, str(most_requests))


def mode_of(store: RunStore) -> Mode:
    """How the requests of a run are sent."""
    found = store.meta(_MODE)
    return found if found in ("on", "stopped") else "off"  # type: ignore[return-value]


def set_mode(store: RunStore, mode: Mode) -> None:
    """Stores how the requests of a run are sent."""
    store.set_meta(_MODE, mode)


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
    """Made for the batch price; None: no limit."""
    cache: ResponseCache | None = None
    errors: ErrorRateGuard = field(default_factory=ErrorRateGuard)
    """How much may fail before nothing more is submitted."""
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
            if batch.state == "planned":
                await self._find(batch)

    async def _find(self, batch: StoredBatch) -> StoredBatch:
        """A planned batch as sent, if the service has it, else as lost."""
        for look in range(_LOOKS):
            if look:
                await asyncio.sleep(self.pause)
            with one_line(self.service):
                service_id = await self.service.find(_mark(batch), self.ledger.known_ids())
            if service_id is not None:
                return self.ledger.update(batch, "sent", service_id, sent_at=_stamp())
        return self.ledger.update(batch, "lost", closed_at=_stamp(), reason="never reached the service")

    async def refresh(self) -> list[tuple[StoredBatch, BatchStatus]]:
        """Asks how the sent batches stand, and writes it down."""
        found = []
        for batch in self.ledger.open_batches():
            if batch.service_id is None:
                continue
            with one_line(self.service):
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
            with one_line(self.service):
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
        keys, earlier = self.ledger.requests(batch), self.ledger.tried()
        if not status.waits:
            self._give_up(keys, earlier, f"refused with {MOST_TRIES} batches, the last time: {reason}")
        self.ledger.update(batch, "refused", closed_at=_stamp(), reason=status.reason, waits=status.waits)

    def _close_too_large(self, batch: StoredBatch, reason: str) -> None:
        """Closes a batch that was refused for its size; one request that is too large by itself has failed."""
        held = batch.record.requests
        if held > 1:
            self.say(
                f"batch {batch.name} is too large for the service ({reason}): at most {held // 2:,} requests in one"
                f" batch from now on, instead of {held:,}"
            )
        else:
            error = f"too large for a batch of its own: {reason}"
            self._store([Response(request_key=key, error=error) for key in self.ledger.requests(batch)])
            self.say(f"batch {batch.name} holds one request and is too large for the service: {reason}")
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
        answered, strange, missing, problems = 0, 0, set(ours), ResultProblems()
        async with aclosing(result_groups(self.service, status, self.pause, problems)) as groups:
            async for group in groups:
                known = [answer for answer in group if answer.request_key in ours]
                strange += len(group) - len(known)
                read = [self._read(answer, status, earlier) for answer in known]
                responses = [response for response in read if response is not None]
                self._store(responses)
                answered += sum(response.error is None for response in responses)
                missing -= {response.request_key for response in responses}
        if strange and missing == ours:
            others = (*batch.record.strangers, status.service_id)
            self.ledger.update(batch, "planned", strangers=others)
            await self.recover()
            return 0
        if not batch.record.cancelled:
            self._give_up(
                missing, earlier, f"left without an answer by {MOST_TRIES} batches, the last one {status.state}", status
            )
        if problems.unparsed:
            self.say(
                f"batch {batch.name}: {problems.unparsed:,} lines of its results can't be read, the first:"
                f" {self.provider.hide(problems.unparsed_start)!r}; requests without an answer go into another batch"
            )
        if problems.contradicted:
            self.say(
                f"batch {batch.name}: {len(problems.contradicted):,} requests have two different answers"
                f" (such as {min(problems.contradicted)}); the first answer is kept"
            )
        self.ledger.update(
            batch,
            "collected",
            closed_at=_stamp(),
            answered=answered,
            missing=len(missing),
            unparsed=problems.unparsed,
            contradicted=len(problems.contradicted),
        )
        return answered

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
        changes = {"batch": status.service_id, "latency_s": status.seconds}
        return response and response.model_copy(update=changes)

    def _give_up(self, keys: set[str], earlier: dict[str, int], why: str, status: BatchStatus | None = None) -> None:
        """Records as failed what as many batches as it takes have left without an answer."""
        self._store(
            [
                Response(request_key=key, error=why, batch=status.service_id if status else None)
                for key in sorted(keys)
                if earlier.get(key, 0) + 1 >= MOST_TRIES
            ]
        )

    # --- submitting -------------------------------------------------------------------------------------------------

    async def submit(self, *, failed_too: bool = False) -> int:
        """Submits what is in no batch and has no answer; returns how many batches that made.

        The first of these requests is sent by itself: what the model refuses, or a wrong key, shows before a batch is
        made. Where it fails, the next ones are. `failed_too`: also what has failed for good before.
        """
        await self.recover()
        for path in [*self.folder.glob("mbbq-gen-*.jsonl"), self.folder / PART]:  # of a process that was killed
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
            Line(request.request_key, self.service.line(request), guard.most(request) if guard else 0.0)
            for request in chain(failed, requests)
        )
        try:
            made = await self._submit_all(lines)
        except OSError as error:
            raise RunError(f"{self.folder}: can't write the file of a batch: {error.strerror or error}") from error
        if guard is not None and not self.ledger.open_batches():
            guard.check()
        return made

    def _most(self) -> int:
        """The requests that one batch may hold: by the service's limit, the user's, and what was refused before."""
        limits = (self.service.most_requests, self.most_requests, self.ledger.most_requests())
        return min(limit for limit in limits if limit is not None)

    async def _submit_all(self, lines: Iterable[Line]) -> int:
        """Submits requests in batches as large as the service takes them; returns how many that made."""
        made = 0
        with closing(parts(lines, self.folder, self._most, self.service.most_bytes)) as found:
            for part in found:
                number, name = self.ledger.next_name()
                path, planned_at = self.folder / f"{name}.jsonl", datetime.now(UTC).isoformat()
                part.keep(path)
                record = BatchRecord(
                    requests=len(part.keys), size=part.size, planned_at=planned_at, most_cost=sum(part.costs)
                )
                batch = self.ledger.plan(number, name, part.keys, record)
                try:
                    await self._send(batch, path)
                    made += 1
                except TooLargeError as error:
                    self._close_too_large(batch, str(error))
                    made += 0 if len(part.keys) == 1 else await self._submit_all(part.lines(path))
                finally:
                    path.unlink(missing_ok=True)
        return made

    async def _send(self, batch: StoredBatch, path: Path) -> None:
        """Submits a planned batch. Where it is not known whether the service has it, it is looked for first."""
        cut_off = 0
        for _ in range(_SUBMISSIONS):
            try:
                service_id = await self.service.submit(_mark(batch), path)
            except TransientError as error:
                fault = error
            except TooLargeError:
                raise
            except ProviderError as error:
                self.ledger.update(batch, "lost", closed_at=_stamp(), reason=str(error))
                raise
            else:
                self.ledger.update(batch, "sent", service_id, sent_at=_stamp())
                return
            cut_off += is_cut_off(fault, batch.record.size)
            self.say(f"{self.provider.name}: {fault}; checking whether batch {batch.name} has arrived")
            await asyncio.sleep(max(self.pause, fault.pause or 0.0))
            found = await self._find(batch)
            if found.state == "sent":
                return
            batch = self.ledger.update(found, "planned", closed_at=None, reason=None)
        if cut_off == _SUBMISSIONS and batch.record.requests > 1:
            raise TooLargeError(f"{batch.record.size:,} bytes cannot be sent: {fault}")
        self.ledger.update(batch, "lost", closed_at=_stamp(), reason="could not be submitted")
        raise RunError(
            f"{self.provider.name}: batch {batch.name} could not be submitted; nothing is lost, try again later with"
            f" mbbq-gen run {self.folder} --collect, or in smaller ones: --batch-size N (now"
            f" {batch.record.requests:,} requests)"
        )


def _mark(batch: StoredBatch) -> BatchRef:
    return BatchRef(batch.name, batch.record.requests, datetime.fromisoformat(batch.record.planned_at))


Work = Callable[[BatchRunner], Coroutine[Any, Any, None]]


async def in_session(session: Session, work: Work, *, spends: bool) -> None:
    """Works on the batches of a run; `spends`: whether it submits batches, which `--max-cost` limits."""
    store, provider, rules, watcher = session.store, session.provider, session.rules, session.watcher
    service, path, most = batch_service(provider), session.folder.path, store.meta(_MOST)
    read_prices(rules.prices)  # a price file that is wrong is said before anything is sent
    guard = None
    if spends and rules.max_cost is not None:
        guard = open_cost_guard(store, provider, rules, rules.max_cost, for_batches=True)
    errors = ErrorRateGuard(rules.max_error_rate, f"ask the others again with mbbq-gen run {path} --batch")
    with ExitStack() as stack:
        cache = stack.enter_context(ResponseCache(Path(rules.cache_dir))) if rules.cache_dir is not None else None
        advance = stack.enter_context(watcher.stage("collecting"))
        limit = None if most is None else int(most)
        batching = BatchRunner(store, service, path, limit, guard, cache, errors, advance, watcher.say)
        try:
            await work(batching)
        finally:
            try:
                await provider.aclose()
            finally:
                session.store_runtime_info()


async def run_batches(session: Session, mode: Mode, *, again: bool) -> bool:
    """Collects what has come, submits what is missing (`again`: failures too); whether batches are under way."""
    say, cache_dir = session.watcher.say, session.rules.cache_dir
    if cache_dir is not None:
        with ResponseCache(Path(cache_dir)) as cache:
            copied: list[Response] = []
            copy_cached(session.store, cache, copied.extend)
        if copied:
            say(f"{len(copied):,} answers came from the cache {cache_dir} and cost nothing")

    async def work(batching: BatchRunner) -> None:
        if answers := await batching.collect():
            say(f"{answers:,} answers collected")
        batching.errors.check()
        if made := await batching.submit(failed_too=again) if mode == "on" else 0:
            say(f"{made:,} batch{'es' if made > 1 else ''} submitted")

    await in_session(session, work, spends=mode == "on")
    return report_batches(session)


def report_batches(session: Session) -> bool:
    """Says how a run in batches stands; whether batches are under way."""
    progress, path = session.store.progress(), session.folder.path
    if batches := BatchTable(session.store).open_batches():
        held = sum(batch.record.requests for batch in batches)
        session.watcher.say(
            f"{len(batches)} batch{'es' if len(batches) > 1 else ''} with {held:,} requests under way; the service"
            f" answers within a day. Later: mbbq-gen run {path} --collect"
            f"    or: mbbq-gen batch status {path}"
        )
        return True
    left = progress.pending - progress.failed
    if left > 0 and mode_of(session.store) == "stopped":
        session.watcher.say(
            f"{left:,} requests were never sent: send them with mbbq-gen run {path} --batch, or --no-batch"
        )
    return False
