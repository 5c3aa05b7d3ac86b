"""Sends pending requests and commits their responses in groups.

    cache ──► store          responses of earlier runs, first
    provider ──► store ──► cache

Responses that arrive within 20 ms are committed together, so thousands of responses a second need few commits.
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
from mbbq_gen.runs.budget import CostGuard, InFlightLog, PendingSource, cost_report
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.storage.ledgers import BatchTable
from mbbq_gen.storage.queries import recorded_failures
from mbbq_gen.storage.schema import ResponseCache
from mbbq_gen.storage.store import Progress, RunStore

OnStored = Callable[[list[Response]], None]
_COMMIT_INTERVAL: Final = 0.02
"""Shortest time between two commits, in seconds."""
_COMMIT_SHARE: Final = 0.05
"""Largest share of the time that commits may take; they block the event loop. A slow disk gets fewer commits."""
_MAX_UNCOMMITTED: Final = 250
"""Responses that are committed at once. Limits the loss by a crash on a slow disk."""
_CACHE_BATCH: Final = 500
_ALL_FAILED: Final = 20
_MIN_REQUESTS: Final = 100
_MAX_MESSAGE: Final = 200
"""Characters of an error message that are shown."""


@dataclass
class ErrorRateGuard:
    """Stops a run in which too many requests fail."""

    share: float = 1.0
    """Largest share of failed requests in this session; 1 never stops."""
    retry_hint: str = "the same command sends the others again"
    """How to send failed requests again."""
    _finished: int = field(default=0, init=False)
    _failures: Counter[str] = field(default_factory=Counter, init=False)

    def note(self, response: Response) -> None:
        """Counts a response."""
        self._finished += 1
        if response.error is not None:
            self._failures[response.error] += 1

    def check(self, all_failed: int = _ALL_FAILED) -> None:
        """Raises RunError if more than the share failed, or all of the first `all_failed` requests."""
        failed = self._failures.total()
        too_many = self._finished >= _MIN_REQUESTS and failed > self.share * self._finished
        if too_many or (self.share < 1 and failed == self._finished >= all_failed):
            raise RunError(
                f"stopped: {failure_line(self._failures, self._finished)}; received responses are kept,"
                f" {self.retry_hint} (--max-error-rate sets the share)"
            )


@dataclass
class TruncationMonitor:
    """Warns, early and at the end, of responses truncated at the token limit."""

    provider: Provider
    say: Callable[[str], None]
    _n_answers: int = field(default=0, init=False)
    _n_truncated: int = field(default=0, init=False)

    def count(self, responses: Iterable[Response]) -> None:
        """Counts responses; warns if the first five are truncated."""
        for response in responses:
            if response.error is None and response.scores is None:
                self._n_answers += 1
                self._n_truncated += response.finish_reason == "length"
                if self._n_answers == self._n_truncated == 5:
                    self._warn("the first 5 answers")

    def sum_up(self) -> None:
        """Warns if more than a tenth of the responses of a run were truncated."""
        if self._n_truncated >= 5 and self._n_truncated > 0.1 * self._n_answers:
            self._warn(f"{self._n_truncated:,} of {self._n_answers:,} answers")

    def _warn(self, what: str) -> None:
        if (limit := self.provider.settings.get("max_tokens")) is not None:
            self.say(
                f"{self.provider.name}: {what} are cut at {limit} tokens; raise --max-tokens, or let the model reason"
                " less (--reasoning-effort)"
            )


def failure_line(failures: Mapping[str, int], finished: int) -> str:
    """One line about failed requests, with the most frequent message of the most frequent kind."""
    kinds: Counter[str] = Counter()
    for message, count in failures.items():
        kinds[failure_kind(message)] += count
    (kind, count), *_ = kinds.most_common(1)
    messages = [message for message in failures if failure_kind(message) == kind]
    example = textwrap.shorten(max(messages, key=failures.__getitem__), _MAX_MESSAGE, placeholder=" …")
    return f"{kinds.total():,} of {finished:,} requests failed, most often ({count:,}): {example}"


def check_failures(store: RunStore, progress: Progress, share: float, retry_hint: str) -> str | None:
    """One line about the failed requests of a finished run, None without any; RunError if more than `share` failed."""
    if not progress.failed:
        return None
    finished = progress.answered + progress.failed
    line = failure_line(recorded_failures(store), finished)
    if not progress.answered or progress.failed > share * finished:
        raise RunError(f"{line}; received responses are kept, {retry_hint} (--max-error-rate sets the share)")
    return f"{line}; {retry_hint}"


def copy_cached(store: PendingSource, cache: ResponseCache, on_stored: OnStored) -> None:
    """Copies cached responses into the store."""
    pending = store.pending()
    while requests := list(islice(pending, _CACHE_BATCH)):
        found = list(cache.find([request.request_key for request in requests]).values())
        if found:
            now = _now()
            store.add_responses([(response, now) for response in found])
            on_stored(found)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass
class Executor:
    """Sends pending requests to a provider and stores the responses."""

    store: PendingSource
    provider: Provider
    on_stored: OnStored
    cost_guard: CostGuard | None = None
    cache: ResponseCache | None = None
    errors: ErrorRateGuard = field(default_factory=ErrorRateGuard)
    context: ExecutionContext = field(default_factory=ExecutionContext)
    close: bool = True
    """Whether to close the provider afterwards; an adaptive run uses it again."""
    methods: tuple[Method, ...] = ()
    in_flight: InFlightLog = field(init=False)
    _uncommitted: list[tuple[Response, str]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.in_flight = InFlightLog(self.store) if self.cost_guard is None else self.cost_guard.in_flight

    async def run(self) -> None:
        """Sends all pending requests within the budget, generation first, and stores every response.

        Raises:
            ProviderError: no further request can succeed.
            CostLimitError: the next request could exceed the budget.
            RunError: too many requests failed.
        """
        if self.cache is not None:
            copy_cached(self.store, self.cache, self.on_stored)
        guard, context, is_paid = self.cost_guard, self.context, self.provider.capabilities.base_url is not None
        if guard is not None:
            context.may_resend = guard.reserve_again
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
        """Stores responses until the provider is done."""
        receiver = asyncio.create_task(self._receive(responses))
        interval = _COMMIT_INTERVAL
        try:
            while not receiver.done() or self._uncommitted:
                await asyncio.wait((receiver,), timeout=interval)
                interval = max(_COMMIT_INTERVAL, self._commit() / _COMMIT_SHARE)
            await receiver
        finally:
            receiver.cancel()
            await asyncio.gather(receiver, return_exceptions=True)
            self._commit()

    async def _receive(self, responses: AsyncGenerator[Response, None]) -> None:
        async for response in responses:
            if self.cost_guard is not None:
                self.cost_guard.settle([response])
            self._uncommitted.append((response, _now()))
            self.errors.note(response)
            if response.error is not None:
                self.errors.check()
            if len(self._uncommitted) >= _MAX_UNCOMMITTED:
                self._commit()

    def _commit(self) -> float:
        """Commits the responses received since the last commit; returns the seconds it took."""
        if not self._uncommitted:
            return 0.0
        begin = time.perf_counter()
        batch = self._uncommitted.copy()
        self.in_flight.store_responses(batch)
        del self._uncommitted[: len(batch)]
        if self.cache is not None:
            self.cache.keep(batch)
        responses = [response for response, _ in batch]
        self.on_stored(responses)
        return time.perf_counter() - begin


@dataclass(frozen=True)
class Session:
    """A run during execution, with its folder locked and its store open for writing."""

    folder: RunFolder
    store: RunStore
    provider: Provider
    config: RunConfig
    watcher: ProgressListener

    def store_runtime_info(self) -> None:
        """Writes the runtime info of the model and the cost report into the manifest."""
        store, provider, manifest = self.store, self.provider, self.folder.manifest()
        base_url, prices = provider.capabilities.base_url, read_prices(self.config.prices)
        bill = None if base_url is None else cost_report(store, provider.kind, provider.model, prices, base_url)
        changes = {"runtime_info": {**manifest.runtime_info, **provider.runtime_info()}, "cost_report": bill}
        changed = manifest.model_copy(update=changes)
        if changed != manifest:
            self.folder.write_manifest(changed)


async def execute(session: Session, source: PendingSource, on_stored: OnStored = lambda _: None) -> None:
    """Sends the pending requests of a run or its follow-ups within the budget; the provider stays open."""
    store, provider, config = session.store, session.provider, session.config
    try:
        guard = None if config.max_cost is None else open_cost_guard(store, provider, config, config.max_cost)
        await execute_planned(source, provider, config, session.watcher, guard, on_stored=on_stored, close=False)
    finally:
        session.store_runtime_info()


async def execute_planned(
    source: PendingSource,
    provider: Provider,
    config: RunConfig,
    watcher: ProgressListener,
    cost_guard: CostGuard | None,
    *,
    on_stored: OnStored = lambda _: None,
    close: bool = True,
) -> None:
    """Sends the pending requests of a run, its follow-ups or a judge, and shows progress.

    `cost_guard`: the budget, None without a limit; `on_stored`: called with responses once they are stored; `close`:
    whether to close the provider afterwards.
    """
    progress = source.progress()
    if progress.answered:
        watcher.say(f"{progress.answered:,} answered already, {progress.pending:,} to go")
    copied, truncation = 0, TruncationMonitor(provider, watcher.say)
    errors, context = ErrorRateGuard(config.max_error_rate), ExecutionContext(notify=watcher.say)
    with ExitStack() as stack:
        cache = stack.enter_context(ResponseCache(Path(config.cache_dir))) if config.cache_dir is not None else None
        advance = stack.enter_context(watcher.stage("asking", progress.pending, provider.status))

        def stored(responses: list[Response]) -> None:
            nonlocal copied
            truncation.count(responses)
            copied += sum(response.cached for response in responses)
            on_stored(responses)
            advance(len(responses))

        try:
            await Executor(source, provider, stored, cost_guard, cache, errors, context, close, config.method).run()
        finally:
            truncation.sum_up()
    if copied:
        watcher.say(f"{copied:,} answers came from the cache {config.cache_dir} and cost nothing")


def open_cost_guard(
    store: RunStore, provider: Provider, config: RunConfig, limit: float, *, for_batches: bool = False
) -> CostGuard:
    """The remaining budget of a run (limit − cost so far − highest cost of open batches), as `cost_guard_with`."""
    prices, base_url = read_prices(config.prices), provider.capabilities.base_url
    before = cost_report(store, provider.kind, provider.model, prices, base_url).most
    guard = cost_guard_with(store, provider, config, limit, before, for_batches=for_batches)
    if for_batches:
        guard.spent += sum(guard.most(store.request(key)) for key in BatchTable(store).open_requests())
    return guard


def cost_guard_with(
    source: PendingSource,
    provider: Provider,
    config: RunConfig,
    limit: float,
    before: float,
    *,
    for_batches: bool = False,
) -> CostGuard:
    """The remaining budget: the limit minus the highest cost so far (`before`).

    UsageError if the price of the model is not known, or nothing limits the length of an answer.
    """
    price, name, max_usage = known_price(provider, config), provider.name, provider.max_usage
    request = next(source.pending(), None)
    if request is not None and max_usage(request) is None:
        raise UsageError(
            f"--max-cost: nothing in what is sent to {name} limits the length of an answer; leave --max-cost out"
        )
    paid = _batch_price(price, name) if for_batches else price
    return CostGuard(limit, paid, before, max_usage, InFlightLog(source), alone=price)


def known_price(provider: Provider, config: RunConfig) -> Price:
    """The price of the model; UsageError if it is free or its price is unknown."""
    base_url = provider.capabilities.base_url
    price = price_of(provider.kind, provider.model, read_prices(config.prices), base_url=base_url)
    if price is None and base_url is None:
        raise UsageError(f"--max-cost: {provider.name} uses no paid service; leave the option out")
    if price is None:
        raise UsageError(
            f"--max-cost: no price known for {provider.name} at {base_url};"
            " give it with --prices FILE (docs/guides/benchmark-an-api.md shows one)"
        )
    return price


def _batch_price(price: Price, name: str) -> Price:
    """The batch price of a model as a regular price."""
    if price.batch_input is None or price.batch_output is None:
        raise UsageError(f"--max-cost: no batch price known for {name}; give it with --prices (batch_input, …)")
    changes = {"input": price.batch_input, "output": price.batch_output, "cached_input": None}
    return price.model_copy(update=changes)
