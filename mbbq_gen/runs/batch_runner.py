"""Sends requests in batches: plans, submits, recovers and collects them.

The store is consistent after every step, so that the next process continues from there: no response is lost, and no
request that a batch may still answer is submitted again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing, closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mbbq_gen.core.errors import ProviderError, RunError
from mbbq_gen.core.records import Request, Response
from mbbq_gen.providers.api.batches import BatchApi, BatchRef, BatchResult, BatchStatus, TooLargeError, is_cut_off
from mbbq_gen.providers.base import ExecutionContext
from mbbq_gen.providers.http.errors import TransientError, service_error
from mbbq_gen.providers.http.parameters import beside
from mbbq_gen.runs.batch_files import (
    Line,
    RequestFile,
    ResultProblems,
    clear_files,
    file_of,
    lines_of,
    one_line,
    parts,
    result_groups,
)
from mbbq_gen.runs.budget import CostGuard, InFlightLog
from mbbq_gen.runs.executor import ErrorRateGuard
from mbbq_gen.storage.cache import ResponseCache
from mbbq_gen.storage.ledgers import BatchRecord, BatchTable, StoredBatch
from mbbq_gen.storage.store import RunStore

if TYPE_CHECKING:
    from mbbq_gen.providers.api.provider import ApiProvider

MOST_TRIES: Final = 3
"""Batches that may come back without an answer to a request before that is recorded as a failure."""
_LOOKS: Final = 2
"""How often a batch is looked for before it counts as lost: a service's list may lag behind."""
_HANDOVERS: Final = 3
"""How often a failed submission of a batch is repeated."""
_FEW: Final = 100
"""Requests that are not halved any more where a service says that too much is waiting."""
_ALONE: Final = 3
"""Requests that are sent by themselves, if they fail, before a batch is made."""
_LONELY: Final = 3
"""Batches of a single request that may be refused for their size before we believe that none is taken."""


def _now() -> datetime:
    return datetime.now(UTC)


def _stamp() -> str:
    return _now().isoformat(timespec="milliseconds")


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
    """Where answers are shared with other runs."""
    errors: ErrorRateGuard = field(default_factory=ErrorRateGuard)
    """How much may fail before nothing more is submitted."""
    on_stored: Callable[[int], None] = lambda _: None
    """Called with the number of stored answers."""
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
        """Stores the results of all batches that have ended; says how many answers there were."""
        await self.recover()
        stored, found = 0, await self.refresh()
        refused = [batch for batch, status in found if status.phase == "refused"]
        for batch, status in found:
            if status.phase == "refused":
                self._close_refused(batch, status, alone=not self._rivals(batch, refused))
            elif status.phase == "ended":
                stored += await self._collect(batch, status)
        return stored

    def _rivals(self, batch: StoredBatch, refused: list[StoredBatch]) -> list[StoredBatch]:
        """The batches of this run that may have left the service no room for one that it refused."""
        earlier = [other for other in refused if other.number < batch.number]
        taken = [
            other
            for other in self.ledger.batches()
            if (other.is_open or other.state == "collected")
            and (other.record.closed_at or _stamp()) > batch.record.planned_at
        ]
        return earlier + [other for other in taken if other.number not in {entry.number for entry in refused}]

    def _close_refused(self, batch: StoredBatch, status: BatchStatus, *, alone: bool) -> None:
        """Closes a batch that the service would not take. What was too much for it is halved from now on."""
        reason = status.reason or status.state
        if status.too_large or (status.waits and alone and batch.record.requests > _FEW):
            self._close_too_large(batch, reason)
            return
        self.say(f"batch {batch.name} was refused: {reason}")
        keys, earlier = self.ledger.requests(batch), self.ledger.tried()
        if not status.waits:
            self._give_up(keys, earlier, f"refused with {MOST_TRIES} batches, the last time: {reason}")
        self.ledger.update(batch, "refused", closed_at=_stamp(), reason=status.reason, waits=status.waits)

    def _close_too_large(self, batch: StoredBatch, reason: str) -> None:
        """Closes a batch that was refused for its size; one request that is too large by itself has failed.

        Raises:
            RunError: where the service takes no batches, however small.
        """
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
        if len(alone) >= _LONELY and not any(found.is_open or found.state == "collected" for found in batches):
            raise RunError(
                f"{self.provider.name}: refuses even a batch of one request ({reason}); send requests one by one:"
                f" mbbq-gen run {self.folder} --no-batch"
            )

    async def _collect(self, batch: StoredBatch, status: BatchStatus) -> int:
        """Stores the results of one batch."""
        ours, earlier = self.ledger.requests(batch), self.ledger.tried()
        answered, strange, missing, oddities = 0, 0, set(ours), ResultProblems()
        async with aclosing(result_groups(self.service, status, self.pause, oddities)) as groups:
            async for group in groups:
                known = [answer for answer in group if answer.request_key in ours]
                strange += len(group) - len(known)
                read = [self._read(answer, status, earlier) for answer in known]
                responses = [response for response in read if response is not None]
                self._store(responses)
                answered += sum(response.error is None for response in responses)
                missing -= {response.request_key for response in responses}
        if strange and missing == ours:
            strangers = (*batch.record.strangers, status.service_id)
            self.ledger.update(batch, "planned", strangers=strangers)
            await self.recover()
            return 0
        if not batch.record.cancelled:
            self._give_up(
                missing, earlier, f"left without an answer by {MOST_TRIES} batches, the last one {status.state}", status
            )
        self._tell(batch, oddities)
        self.ledger.update(
            batch,
            "collected",
            closed_at=_stamp(),
            answered=answered,
            missing=len(missing),
            unparsed=oddities.unparsed,
            contradicted=len(oddities.contradicted),
        )
        return answered

    def _tell(self, batch: StoredBatch, oddities: ResultProblems) -> None:
        """Says what was odd about the results of a batch."""
        if oddities.unparsed:
            self.say(
                f"batch {batch.name}: {oddities.unparsed:,} lines of its results can't be read, the first:"
                f" {self.provider.hide(oddities.unparsed_start)!r}; requests without an answer go into another batch"
            )
        if oddities.contradicted:
            self.say(
                f"batch {batch.name}: {len(oddities.contradicted):,} requests have two different answers"
                f" (such as {min(oddities.contradicted)}); the first answer is kept"
            )

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
                response = self._with_unmetered(
                    self.provider.parse(key, answer.payload, headers, truncated_at=answer.truncated_at)
                )
                self.provider.notice(response)
            except TransientError as fault:
                if (most := self.provider.max_usage(self.store.request(key))) is not None:
                    self.in_flight.lose_in_batch(most)
                if earlier.get(key, 0) + 1 >= MOST_TRIES:
                    response = Response(request_key=key, error=str(fault))
        elif answer.outcome == "failed" and (
            self.provider.is_lasting(answer.status, answer.payload) or earlier.get(key, 0) + 1 >= MOST_TRIES
        ):
            response = self.provider.failure(key, service_error(answer.status, answer.payload), headers)
        if response is None:
            return None
        return response.model_copy(update={"batch": status.service_id, "latency_s": status.seconds})

    def _with_unmetered(self, response: Response) -> Response:
        """The answer, with the most that it can have taken where the service did not count it."""
        if response.usage.input_tokens and response.usage.output_tokens:
            return response
        most = self.provider.max_usage(self.store.request(response.request_key))
        missing = most and beside(response.usage, most, has_text=bool(response.text))
        return response.model_copy(update={"unmetered_usage": missing}) if missing else response

    def _give_up(self, keys: set[str], earlier: dict[str, int], why: str, status: BatchStatus | None = None) -> None:
        """Records as failed what as many batches as it takes have left without an answer."""
        self._store(
            [
                Response(request_key=key, error=why, batch=status.service_id if status else None)
                for key in sorted(keys)
                if earlier.get(key, 0) + 1 >= MOST_TRIES
            ]
        )

    # --- handing over -----------------------------------------------------------------------------------------------

    async def submit(self, *, failed_too: bool = False) -> int:
        """Hands over what is in no batch and has no answer; says how many batches that made.

        The first of these requests is sent by itself: what the model refuses, or a wrong key, shows before a batch is
        made. Where it fails, the next ones are. `failed_too`: also what has failed for good before.

        Raises:
            ProviderError: where the service refuses.
            RunError: where the first requests fail one and all, or a batch is refused time and again.
        """
        await self.recover()
        clear_files(self.folder)
        batches = self.ledger.batches()
        oldest = min((batch.number for batch in batches if batch.is_open), default=None)
        if oldest is not None and any(batch.record.waits for batch in batches if batch.number > oldest):
            return 0
        requests = self._to_send(failed_too)
        if self.cost_guard is not None:
            requests = self.cost_guard.reserve(requests)
        failed = [request async for request in self._first_failures(requests)]
        with self._disk_errors():
            made = await self._hand_over_all(self._lines(chain(failed, requests)))
        if self.cost_guard is not None and not self.ledger.open_batches():
            self.cost_guard.check()
        return made

    async def _first_failures(self, requests: Iterator[Request]) -> AsyncIterator[Request]:
        """Asks requests by themselves until one is answered; those that were not.

        Raises:
            ProviderError: where the service refuses.
            RunError: where none of the first few is answered.
        """
        alone = replace(self.errors)  # counts from nought
        for request in islice(requests, _ALONE):
            if self.cost_guard is not None and (most := self.provider.max_usage(request)) is not None:
                self.in_flight.record_sent([(request.request_key, most)])
            response = await self.provider.learn(request, self.context)
            self._store([response])
            if self.cost_guard is not None:
                self.cost_guard.settle([response], self.cost_guard.alone)
            if response.error is None:
                return
            alone.note(response)
            alone.check(_ALONE)
            yield request

    @contextmanager
    def _disk_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RunError(f"{self.folder}: can't write the file of a batch: {error.strerror or error}") from error

    def _to_send(self, failed_too: bool) -> Iterator[Request]:
        """What is in no batch and has no answer, in plan order; before the first batch also what failed alone."""
        failed_too = failed_too or not self.ledger.batches()
        held, failures = self.ledger.held(), set() if failed_too else self.ledger.failures()
        spent = set() if failed_too else {key for key, tries in self.ledger.tried().items() if tries >= MOST_TRIES}
        for request in self.store.pending():
            if request.request_key not in held | failures | spent:
                yield request

    def _lines(self, requests: Iterable[Request]) -> Iterator[Line]:
        for request in requests:
            most_cost = self.cost_guard.most(request) if self.cost_guard else 0.0
            yield Line(request.request_key, self.service.line(request), most_cost)

    def _most(self) -> int:
        """The requests that one batch may hold: by the service's limit, the user's, and what was refused before."""
        limits = (self.service.most_requests, self.most_requests, self.ledger.most_requests())
        return min(limit for limit in limits if limit is not None)

    async def _hand_over_all(self, lines: Iterable[Line]) -> int:
        """Hands over some requests, in batches as large as the service takes them; says how many that made."""
        made = 0
        with closing(parts(lines, self.folder, self._most, self.service.most_bytes)) as found:
            for part in found:
                made += await self._hand_over(part)
        return made

    async def _hand_over(self, part: RequestFile) -> int:
        """Hands over one batch, or where it is too large, what it holds in smaller ones; says how many that made."""
        batch = self._plan(part)
        path = file_of(self.folder, batch.name)
        try:
            try:
                await self._send(batch, path)
            except TooLargeError as error:
                self._close_too_large(batch, str(error))
                return 0 if len(part.keys) == 1 else await self._hand_over_all(lines_of(part, path))
            return 1
        finally:
            path.unlink(missing_ok=True)

    def _plan(self, part: RequestFile) -> StoredBatch:
        """Writes a batch down, with its file beside the store."""
        number, name = self.ledger.next_name()
        part.keep(file_of(self.folder, name))
        record = BatchRecord(
            requests=len(part.keys), size=part.size, planned_at=_now().isoformat(), most_cost=part.most_cost
        )
        return self.ledger.plan(number, name, part.keys, record)

    async def _send(self, batch: StoredBatch, path: Path) -> None:
        """Hands over a planned batch. Where it is not known whether the service has it, it is looked for first.

        Raises:
            TooLargeError: where the service takes smaller ones only.
            ProviderError: where it takes none.
            RunError: where it can't be reached.
        """
        cut_off = 0
        for _ in range(_HANDOVERS):
            service_id, fault = await self._try_to_submit(batch, path)
            if service_id is not None:
                self.ledger.update(batch, "sent", service_id, sent_at=_stamp())
                return
            cut_off += fault is not None and is_cut_off(fault, batch.record.size)
            self.say(f"{self.provider.name}: {fault}; checking whether batch {batch.name} has arrived")
            await asyncio.sleep(max(self.pause, (fault.pause if fault else None) or 0.0))
            found = await self._find(batch)
            if found.state == "sent":
                return
            batch = self.ledger.update(found, "planned", closed_at=None, reason=None)
        if cut_off == _HANDOVERS and batch.record.requests > 1:
            raise TooLargeError(f"{batch.record.size:,} bytes cannot be sent: {fault}")
        self.ledger.update(batch, "lost", closed_at=_stamp(), reason="could not be submitted")
        raise RunError(
            f"{self.provider.name}: batch {batch.name} could not be submitted; nothing is lost, try again later with"
            f" mbbq-gen run {self.folder} --collect, or in smaller ones: --batch-size N (now"
            f" {batch.record.requests:,} requests)"
        )

    async def _try_to_submit(self, batch: StoredBatch, path: Path) -> tuple[str | None, TransientError | None]:
        """The service's id of a batch, or why it is not known whether the service has it."""
        try:
            return await self.service.submit(_mark(batch), path), None
        except TransientError as fault:
            return None, fault
        except TooLargeError:
            raise
        except ProviderError as error:
            self.ledger.update(batch, "lost", closed_at=_stamp(), reason=str(error))
            raise


def _mark(batch: StoredBatch) -> BatchRef:
    return BatchRef(batch.name, batch.record.requests, datetime.fromisoformat(batch.record.planned_at))
