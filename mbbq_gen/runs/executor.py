"""Sends pending requests and commits their responses in groups.

    cache ──► store          responses of earlier runs, first
    provider ──► store ──► cache

Responses that arrive within a moment of each other share one commit: each is durable a moment after its arrival, and
thousands a second need no more commits than the disk can take.
"""

from __future__ import annotations

import asyncio
import textwrap
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import Final

from mbbq_gen.core.config import RunConfig
from mbbq_gen.core.errors import RunError, UsageError
from mbbq_gen.core.progress import ProgressListener
from mbbq_gen.core.records import Method, Request, Response
from mbbq_gen.providers.base import ExecutionContext, Provider
from mbbq_gen.providers.http.errors import failure_kind
from mbbq_gen.providers.prices import Price, price_of, read_prices
from mbbq_gen.runs.budget import CostGuard, InFlightLog, MostUsage, PendingSource, cost_report, known_cost
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.storage.cache import ResponseCache
from mbbq_gen.storage.ledgers import BatchTable
from mbbq_gen.storage.queries import recorded_failures
from mbbq_gen.storage.store import RunStore

OnStored = Callable[[list[Response]], None]


_MOMENT: Final = 0.02
"""Seconds for which answers are gathered, at least, before they are committed together."""
_COMMITTING: Final = 0.05
"""Share of the time that commits may take: they hold up the event loop, so on a slow disk there are fewer."""
_MOST_UNSTORED: Final = 250
"""Answers that are committed at once, however short the moment: what a crash can cost is bounded on slow disks too."""
_LOOKED_UP: Final = 500
_ALL_FAILED: Final = 20
_ENOUGH_TO_JUDGE: Final = 100
_LONGEST_REASON: Final = 200
"""Characters of a failure's line that are shown."""


@dataclass
class ErrorRateGuard:
    """Stops a run of which too much fails."""

    share: float = 1.0
    """Of the requests of this session; 1: never."""
    again: str = "the same command sends the others again"
    """How what failed is requested again."""
    _finished: int = field(default=0, init=False)
    _failures: Counter[str] = field(default_factory=Counter, init=False)

    def note(self, response: Response) -> None:
        """Counts a response."""
        self._finished += 1
        if response.error is not None:
            self._failures[response.error] += 1

    def check(self, all_failed: int = _ALL_FAILED) -> None:
        """Raises RunError where more than the share failed, or all of the first so many requests."""
        failed = self._failures.total()
        too_many = self._finished >= _ENOUGH_TO_JUDGE and is_above(failed, self._finished, self.share)
        if too_many or (self.share < 1 and failed == self._finished >= all_failed):
            raise RunError(
                f"stopped: {failed:,} of {self._finished:,} requests failed, {most_frequent(self._failures)};"
                f" received responses are kept, {self.again} (--max-error-rate sets the share)"
            )


@dataclass
class CutAnswers:
    """Says early, and once more at the end, that answers are cut at the limit of tokens, with the likely reason.

    Nothing is said of a provider without such a limit, whose answers may break off on purpose (`synthetic:`).
    """

    provider: Provider
    say: Callable[[str], None]
    _answers: int = field(default=0, init=False)
    _cut: int = field(default=0, init=False)
    _thinks: bool = field(default=False, init=False)
    _is_said: bool = field(default=False, init=False)

    def count(self, responses: Iterable[Response]) -> None:
        """Counts responses; says it if the first five are cut, or more than half of the first fifty."""
        if self.provider.settings.get("max_tokens") is None:
            return
        for response in responses:
            if response.error is not None or response.scores is not None:
                continue
            self._answers += 1
            if response.finish_reason == "length":
                self._cut += 1
                self._thinks |= bool(response.reasoning) or "<think" in (response.text or "")
            if not self._is_said and (self._answers == self._cut == 5 or (self._answers == 50 and self._cut > 25)):
                self._is_said = True
                self._say(f"{self._cut} of the first {self._answers} answers")

    def sum_up(self) -> None:
        """Says at the end of a run how many answers were cut, if they are more than a tenth."""
        if self._cut >= 5 and self._cut > 0.1 * self._answers:
            self._say(f"{self._cut:,} of {self._answers:,} answers")

    def _say(self, what: str) -> None:
        sampling, limit = self.provider.runtime_info().get("sampling"), self.provider.settings.get("max_tokens")
        penalty = sampling.get("repetition_penalty") if isinstance(sampling, dict) else 1.0
        advice = "raise --max-tokens"
        if self._thinks:
            advice = "the model thinks first: give --reasoning-effort none, or raise --max-tokens"
        elif penalty is None:
            advice += "; or the server applies a repetition penalty, with which models often do not end their answers"
        elif penalty != 1:
            advice = (
                f"with a repetition penalty ({penalty}), models often do not end their answers: give --model-arg"
                " repetition_penalty=1, or raise --max-tokens"
            )
        self.say(f"{self.provider.name}: {what} are cut at {limit} tokens; {advice}")


def is_above(failed: int, finished: int, share: float) -> bool:
    """Whether more than the share failed. A share typed as a decimal equals the quotient: the bound is exact."""
    return finished > 0 and failed / finished > share


def most_frequent(failures: Mapping[str, int]) -> str:
    """The most frequent kind of failure and its most frequent line, in one line."""
    kinds: Counter[str] = Counter()
    for line, count in failures.items():
        kinds[failure_kind(line)] += count
    (kind, count), *_ = kinds.most_common(1)
    lines = {line: count for line, count in failures.items() if failure_kind(line) == kind}
    example = textwrap.shorten(max(lines, key=lines.__getitem__), _LONGEST_REASON, placeholder=" …")
    return f"most often ({count:,}): {example}"


def check_failures(store: RunStore, share: float, again: str, left_out: int = 0) -> str | None:
    """What failed at the end of a run, in one line; None where nothing did, RunError where too much did.

    `again`: how what failed is requested again; `left_out`: failed requests that are being sent again.
    """
    progress = store.progress()
    failed = progress.failed - left_out
    finished = progress.answered + failed
    if not failed:
        return None
    line = f"{failed:,} of {finished:,} requests failed, {most_frequent(recorded_failures(store))}"
    if failed == finished or is_above(failed, finished, share):
        raise RunError(f"{line}; received responses are kept, {again} (--max-error-rate sets the share)")
    return f"{line}; {again}"


def copy_cached(store: PendingSource, cache: ResponseCache, on_stored: OnStored) -> None:
    """Stores the answers that the cache has."""
    pending = store.pending()
    while requests := list(islice(pending, _LOOKED_UP)):
        found = list(cache.find([request.request_key for request in requests]).values())
        if found:
            now = _now()
            store.add_responses([(response, now) for response in found])
            on_stored(found)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass
class Executor:
    """Asks a provider everything that has no answer yet, once."""

    store: PendingSource
    provider: Provider
    on_stored: OnStored
    cost_guard: CostGuard | None = None
    cache: ResponseCache | None = None
    errors: ErrorRateGuard = field(default_factory=ErrorRateGuard)
    context: ExecutionContext = field(default_factory=ExecutionContext)
    close: bool = True
    """Whether the provider is closed afterwards; an adaptive run needs it again."""
    methods: tuple[Method, ...] = ()
    in_flight: InFlightLog = field(init=False)
    _arrived: list[tuple[Response, str]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.in_flight = InFlightLog(self.store) if self.cost_guard is None else self.cost_guard.in_flight

    async def run(self) -> None:
        """Sends all that is pending and can be paid: first for text, then for loglikelihoods; what arrives is stored.

        ProviderError where no further request can succeed, CostLimitError where the next one could pass the limit,
        RunError where too many fail, CancelledError where the task is cancelled, on Ctrl-C say.
        """
        if self.cache is not None:
            copy_cached(self.store, self.cache, self.on_stored)
        guard, context, is_paid = self.cost_guard, self.context, self.provider.capabilities.base_url is not None
        if guard is not None:
            context.may_resend = guard.again
        text = (request for request in self.store.pending() if request.prompt.method == "generate")
        scored = (request for request in self.store.pending() if request.prompt.method != "generate")
        pending: Iterator[Request] = chain(text, scored)
        if guard is None and is_paid:
            pending = self.in_flight.watch(pending, self.provider.max_usage, context.in_doubt)
        try:
            await self.provider.check_methods(self.methods)
            while True:
                requests = pending if guard is None else guard.admit(pending)
                async with aclosing(self.provider.generate(requests, context)) as responses:
                    await self._store_all(responses)
                if guard is None or not guard.check():
                    return
        finally:
            if is_paid:
                self.in_flight.end(context.in_doubt)
            if self.close:
                await self.provider.aclose()

    async def _store_all(self, responses: AsyncGenerator[Response, None]) -> None:
        """Moves responses from the provider to the store until there are no more."""
        receiver = asyncio.create_task(self._receive(responses))
        moment = _MOMENT
        try:
            while not receiver.done() or self._arrived:
                await asyncio.wait((receiver,), timeout=moment)
                moment = max(_MOMENT, self._commit() / _COMMITTING)
            await receiver
        finally:
            receiver.cancel()
            await asyncio.gather(receiver, return_exceptions=True)
            self._commit()

    async def _receive(self, responses: AsyncGenerator[Response, None]) -> None:
        async for response in responses:
            if self.cost_guard is not None:
                self.cost_guard.settle([response])
            self._arrived.append((response, _now()))
            self.errors.note(response)
            if response.error is not None:
                self.errors.check()
            if len(self._arrived) >= _MOST_UNSTORED:
                self._commit()

    def _commit(self) -> float:
        """Stores and empties what has arrived; says how many seconds it took."""
        if not self._arrived:
            return 0.0
        begin = time.perf_counter()
        batch = self._arrived.copy()
        self.in_flight.store_responses(batch)
        del self._arrived[: len(batch)]
        if self.cache is not None:
            self.cache.keep(batch)
        responses = [response for response, _ in batch]
        self.on_stored(responses)
        return time.perf_counter() - begin


@dataclass(frozen=True)
class Session:
    """A run during execution: locked, its store open for writing."""

    folder: RunFolder
    store: RunStore
    provider: Provider
    rules: RunConfig
    watcher: ProgressListener

    def store_runtime_info(self) -> None:
        """Writes into the manifest what was found out about the model, and what the run has cost."""
        store, provider, manifest = self.store, self.provider, self.folder.manifest()
        base_url, prices = provider.capabilities.base_url, read_prices(self.rules.prices)
        bill = None if base_url is None else cost_report(store, provider.kind, provider.model, prices, base_url)
        changes = {"runtime_info": {**manifest.runtime_info, **provider.runtime_info()}, "cost_report": bill}
        changed = manifest.model_copy(update=changes)
        if changed != manifest:
            self.folder.write_manifest(changed)


async def execute(
    session: Session, source: PendingSource, hear: Callable[[list[Response]], None] = lambda _: None
) -> None:
    """Sends what has no response yet, of the run or its follow-ups, within the budget; the provider stays open."""
    store, provider, rules, folder = session.store, session.provider, session.rules, session.folder.path
    try:
        guard = None if rules.max_cost is None else open_cost_guard(store, provider, rules, rules.max_cost)
        await execute_planned(source, provider, rules, session.watcher, guard, hear=hear, close=False, folder=folder)
    finally:
        session.store_runtime_info()


async def execute_planned(
    source: PendingSource,
    provider: Provider,
    rules: RunConfig,
    watcher: ProgressListener,
    cost_guard: CostGuard | None,
    *,
    hear: Callable[[list[Response]], None] = lambda _: None,
    close: bool = True,
    folder: Path | None = None,
) -> None:
    """Sends what has no response yet, of a run, its follow-ups or a judge, and says how far it is.

    `hear` is called with responses once they are stored. `close`: whether the provider is closed afterwards. `folder`:
    where the provider may write a log.
    """
    progress = source.progress()
    if progress.answered:
        watcher.say(f"{progress.answered:,} answered already, {progress.pending:,} to go")
    copied, cuts = 0, CutAnswers(provider, watcher.say)
    errors, context = ErrorRateGuard(rules.max_error_rate), ExecutionContext(notify=watcher.say, folder=folder)
    with ExitStack() as stack:
        cache = stack.enter_context(ResponseCache(Path(rules.cache_dir))) if rules.cache_dir is not None else None
        advance = stack.enter_context(watcher.stage("asking", progress.pending, provider.status))

        def stored(responses: list[Response]) -> None:
            nonlocal copied
            cuts.count(responses)
            copied += sum(response.cached for response in responses)
            hear(responses)
            advance(len(responses))

        try:
            await Executor(source, provider, stored, cost_guard, cache, errors, context, close, rules.method).run()
        finally:
            cuts.sum_up()
    if copied:
        watcher.say(f"{copied:,} answers came from the cache {rules.cache_dir} and cost nothing")


def open_cost_guard(
    store: RunStore, provider: Provider, rules: RunConfig, limit: float, *, for_batches: bool = False
) -> CostGuard:
    """The budget of a run, less what it has cost already, and less the most that open batches can cost.

    UsageError where the price of the model is not known, or nothing limits the length of an answer.
    """
    prices, base_url = read_prices(rules.prices), provider.capabilities.base_url
    before = cost_report(store, provider.kind, provider.model, prices, base_url).most
    before += held_by_batches(store, provider.max_usage, known_price(provider, rules))
    return cost_guard_with(store, provider, rules, limit, before, for_batches=for_batches)


def held_by_batches(store: RunStore, max_usage: MostUsage, price: Price) -> float:
    """The most that open batches can still cost, in US dollars; `price`: of those that were made without a limit."""
    ledger, held = BatchTable(store), 0.0
    for batch in ledger.open_batches():
        held += batch.record.most_cost
        if not batch.record.most_cost:
            held += sum(known_cost(max_usage(store.request(key)), price) for key in ledger.requests(batch))
    return held


def cost_guard_with(
    source: PendingSource,
    provider: Provider,
    rules: RunConfig,
    limit: float,
    before: float,
    *,
    for_batches: bool = False,
) -> CostGuard:
    """The budget that there is under a limit, less the most that was spent before; raises as `open_cost_guard`."""
    price, name, max_usage = known_price(provider, rules), provider.name, provider.max_usage
    request = next(source.pending(), None)
    if request is not None and max_usage(request) is None:
        raise UsageError(
            f"--max-cost: nothing in what is sent to {name} limits the length of an answer; leave --max-cost out"
        )
    paid = _batch_price(price, name) if for_batches else price
    concurrency = provider.capabilities.max_connections or 1
    return CostGuard(limit, paid, before, max_usage, InFlightLog(source), alone=price, concurrency=concurrency)


def known_price(provider: Provider, rules: RunConfig) -> Price:
    """The price of the model; UsageError where it has none, or it is not known."""
    base_url = provider.capabilities.base_url
    price = price_of(provider.kind, provider.model, read_prices(rules.prices), base_url=base_url)
    if price is None and base_url is None:
        raise UsageError(f"--max-cost: {provider.name} uses no paid service; leave the option out")
    if price is None:
        raise UsageError(
            f"--max-cost: no price known for {provider.name} at {base_url};"
            " give it with --prices FILE (docs/guides/benchmark-an-api.md shows one)"
        )
    return price


def _batch_price(price: Price, name: str) -> Price:
    """The price of a model in batches, as if it were its only one."""
    if price.batch_input is None or price.batch_output is None:
        raise UsageError(f"--max-cost: no batch price known for {name}; give it with --prices (batch_input, …)")
    beyond = None if price.beyond is None else _batch_price(price.beyond, name)
    changes = {"input": price.batch_input, "output": price.batch_output, "cached_input": None, "beyond": beyond}
    return price.model_copy(update=changes)
