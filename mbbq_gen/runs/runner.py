"""Asks what is pending and stores what comes back: group commits, one writer, stops cleanly.

    cache ──► store          answers of earlier runs, first
    provider ──► store ──► cache

Answers that arrive within a moment of each other go into one commit. So an answer is durable a moment after its
arrival, and thousands a second are no more commits than the disk can take.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Final, Protocol

from mbbq_gen.errors import RunError
from mbbq_gen.providers.base import Provider, scores_of
from mbbq_gen.records import Request, Response
from mbbq_gen.runs.cache import SharedCache
from mbbq_gen.runs.purse import Purse
from mbbq_gen.runs.store import Progress
from mbbq_gen.runs.uncounted import Kept, Sendings

OnStored = Callable[[list[Response]], None]
Respond = Callable[[Iterable[Request]], AsyncGenerator[Response, None]]
"""What a provider answers requests with: `generate`, or `score_options`."""


class Asked(Kept, Protocol):
    """What is asked, and where the answers go: the plan of a run (`RunStore`), or a judge's (`judging.ledger`)."""

    def progress(self) -> Progress:
        """How far it is."""

    def pending(self) -> Iterator[Request]:
        """The requests without an answer; may be read while answers are added."""


_MOMENT: Final = 0.02
"""Seconds for which answers are gathered, at least, before they are committed together."""
_COMMITTING: Final = 0.05
"""Share of the time that commits may take: they hold up the event loop, so on a slow disk there are fewer."""
_MOST_UNSTORED: Final = 250
"""Answers that are committed at once, however short the moment: what a crash can cost is bounded on slow disks too."""
_LOOKED_UP: Final = 500
"""Requests that are looked up in the cache together."""
_ALL_FAILED: Final = 20
_ENOUGH_TO_JUDGE: Final = 100


@dataclass
class ErrorLimit:
    """Stops a run of which too much fails."""

    share: float = 1.0
    """Of the requests of this session; 1: never."""
    again: str = "the same command asks the others again"
    """How what failed is asked again."""
    _finished: int = field(default=0, init=False)
    _failed: int = field(default=0, init=False)
    _last: str | None = field(default=None, init=False)

    def note(self, response: Response) -> None:
        """Takes note of what came back."""
        self._finished += 1
        if response.error is not None:
            self._failed += 1
            self._last = response.error

    def check(self, all_failed: int = _ALL_FAILED) -> None:
        """Makes sure that not too much has failed; `all_failed`: how many failures stop where there is nothing else.

        Raises:
            RunError: where more than the share failed, or everything so far.
        """
        too_many = self._finished >= _ENOUGH_TO_JUDGE and self._failed > self.share * self._finished
        nothing_else = self.share < 1 and self._failed == self._finished >= all_failed
        if too_many or nothing_else:
            raise RunError(
                f"stopped: {self._failed:,} of {self._finished:,} requests failed, the last one: {self._last};"
                f" what arrived is kept, {self.again} (--max-errors sets the share)"
            )

    def count(self, response: Response) -> None:
        """Takes note of what came back; raises RunError as `check`, where it failed."""
        self.note(response)
        if response.error is not None:
            self.check()


async def answer_pending(
    store: Asked,
    provider: Provider,
    on_stored: OnStored,
    *,
    purse: Purse | None = None,
    cache: SharedCache | None = None,
    errors: ErrorLimit | None = None,
    close: bool = True,
) -> None:
    """Asks the provider everything that has no answer yet; `on_stored` hears of answers once they are durable.

    `close`: whether the provider is closed afterwards; a run in rounds needs it again.

    Raises:
        ProviderError: where no further request can succeed; what had arrived is stored.
        CostLimitError: where the next request could pass the purse's limit.
        RunError: where too many requests fail.
        CancelledError: where the task is cancelled, on Ctrl-C say; what had arrived is stored.
    """
    if cache is not None:
        copy_cached(store, cache, on_stored)
    sendings = Sendings(store) if purse is None else purse.sendings
    await _Asking(store, provider, sendings, on_stored, purse, cache, errors or ErrorLimit(), close).ask()


def copy_cached(store: Asked, cache: SharedCache, on_stored: OnStored) -> None:
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


def _is_scored(request: Request) -> bool:
    """Whether a request asks for likelihoods, not for words."""
    return request.presentation.method != "generate"


@dataclass
class _Asking:
    """One session of asking."""

    store: Asked
    provider: Provider
    sendings: Sendings
    on_stored: OnStored
    purse: Purse | None
    cache: SharedCache | None
    errors: ErrorLimit
    close: bool
    _arrived: list[tuple[Response, str]] = field(default_factory=list)

    async def ask(self) -> None:
        """Asks all that is pending and can be paid."""
        if self.purse is not None and hasattr(self.provider, "may_resend"):
            self.provider.may_resend = self.purse.again
        scoring = scores_of(self.provider)
        try:
            await self._ask(self.provider.generate, scored=False)
            if scoring is not None and any(_is_scored(request) for request in self.store.pending()):
                await self._ask(scoring.score_options, scored=True)
        finally:
            in_doubt: Mapping[str, int] | None = getattr(self.provider, "in_doubt", None)
            if in_doubt is not None:
                self.sendings.end(in_doubt)
            if self.close:
                await self.provider.aclose()

    async def _ask(self, respond: Respond, *, scored: bool) -> None:
        """Asks for words, or for likelihoods, whatever is pending and can be paid."""
        pending = (request for request in self.store.pending() if _is_scored(request) is scored)
        while True:
            requests: Iterator[Request] = self.purse.affordable(pending) if self.purse else pending
            async with aclosing(respond(requests)) as responses:
                await self._store_all(responses)
            if self.purse is None or not self.purse.check():
                return

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
            if self.purse is not None:
                self.purse.settle([response])
            self._arrived.append((response, _now()))
            self.errors.count(response)
            if len(self._arrived) >= _MOST_UNSTORED:
                self._commit()

    def _commit(self) -> float:
        """Stores and empties what has arrived; says how many seconds it took."""
        if not self._arrived:
            return 0.0
        begin = time.perf_counter()
        batch = self._arrived.copy()
        self.sendings.store_responses(batch)
        del self._arrived[: len(batch)]
        if self.cache is not None:
            self.cache.keep(batch)
        responses = [response for response, _ in batch]
        self.on_stored(responses)
        return time.perf_counter() - begin
