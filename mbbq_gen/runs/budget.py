"""Reports the cost of a run, and enforces `--max-cost`.

Before a request is sent, its highest possible cost is reserved and stored: one token for every byte of the body (an
upper bound for any tokeniser), and a response of full length. When the response arrives, its actual cost is booked and
the rest released. Usage that no service reported (a response without usage, an interrupted attempt, requests in flight
when the process was killed) stays booked at its highest possible cost. So the limit is never exceeded if the service
respects the length limit of a request. If it does not, all bounds are multiplied by the largest excess seen.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, Literal, Protocol, Self

from mbbq_gen.core.errors import RunError
from mbbq_gen.core.records import FrozenModel, Request, Response, Usage
from mbbq_gen.providers.prices import Price, cost_of, price_of
from mbbq_gen.storage.store import Progress, RunStore

_UNMETERED_META: Final = "unmetered"
_TOGETHER: Final = 16
"""Requests that are stored in one commit before they are sent; few, since a killed process leaves them as sent."""
_FEWEST_EXPECTED: Final = 16
"""Fewest further requests that a commit covers in a run without a cost limit."""
MaxUsage = Callable[[Request], Usage | None]
"""The most tokens that a request can use; None without a limit."""


class PendingSource(Protocol):
    """A source of requests that stores their responses: a run, its follow-ups, or a judge."""

    def progress(self) -> Progress:
        """The numbers of requests, responses and failures."""

    def pending(self) -> Iterator[Request]:
        """The requests without a response; may be read while responses are added."""

    def meta(self, name: str, /) -> str | None:
        """A stored value, or None."""

    def set_meta(self, name: str, value: str, /) -> None:
        """Stores a value; durable when this returns."""

    def add_responses(self, responses: Sequence[tuple[Response, str]], meta: Mapping[str, str] = ..., /) -> None:
        """Stores responses with their times, and values in one transaction; durable when this returns."""


class TokenUsage(FrozenModel):
    """The tokens of some requests; all interrupted attempts of one request count as one."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(**{name: getattr(self, name) + getattr(other, name) for name in TokenUsage.model_fields})

    def times(self, factor: float) -> TokenUsage:
        """The same requests with the tokens multiplied by `factor`, rounded up."""
        tokens = {name: math.ceil(getattr(self, name) * factor) for name in ("input_tokens", "output_tokens")}
        return self.model_copy(update=tokens)

    @classmethod
    def of(cls, usage: Usage | None) -> Self:
        """The tokens of one request; None: zero requests."""
        if usage is None:
            return cls()
        return cls(requests=1, input_tokens=usage.input_tokens or 0, output_tokens=usage.output_tokens or 0)

    @property
    def usage(self) -> Usage:
        """The tokens as the usage of a response."""
        return Usage(input_tokens=self.input_tokens, output_tokens=self.output_tokens)


class UnmeteredUsage(FrozenModel):
    """Upper bounds for the tokens of requests whose usage no service reported."""

    lost: TokenUsage = TokenUsage()
    under_way: TokenUsage = TokenUsage()
    in_batches: TokenUsage = TokenUsage()
    excess: float = 1.0
    """Largest ratio of the cost of a response to the bound of its request."""

    @property
    def requested(self) -> TokenUsage:
        """The bound for requests sent one by one."""
        return self.lost + self.under_way


def load_unmetered(store: PendingSource, judge: str | None = None) -> UnmeteredUsage:
    """The unmetered usage of a run or of one of its judges; another process may be running it."""
    text = store.meta(_UNMETERED_META if judge is None else f"{_UNMETERED_META}:{judge}")
    return UnmeteredUsage() if text is None else UnmeteredUsage.model_validate_json(text)


def unmetered_of(response: Response, excess: float) -> TokenUsage:
    """The bound for the unmetered tokens of a response; times `excess`, unless its text gives the bound."""
    found = TokenUsage.of(response.unmetered_usage)
    is_bounded = response.text is not None and response.usage.output_tokens is None
    return found if is_bounded else found.times(excess)


class _CountedRequests:
    """The requests in flight of a run without a cost limit, of which only the number is stored.

    Each commit also covers the requests that are expected before the next one, so no request waits for the disk.
    """

    def __init__(self, max_usage: MaxUsage, in_doubt: Mapping[str, int]) -> None:
        self._max_usage, self._in_doubt = max_usage, in_doubt
        self._in_flight = 0
        self._expected = _FEWEST_EXPECTED
        """Further requests expected before the next commit."""
        self._covered = 0
        """Requests that the last commit covers."""
        self._longest: dict[str | None, int] = {}
        """Reasoning effort → characters of its longest request."""
        self._largest = TokenUsage()

    def add(self, request: Request) -> bool:
        """Counts a request before it is sent; returns whether the last commit does not cover it."""
        self._in_flight += 1
        effort, length = request.prompt.reasoning_effort, sum([len(message.content) for message in request.messages])
        if length > self._longest.get(effort, -1):
            self._longest[effort] = length
            most, before = TokenUsage.of(self._max_usage(request)), self._largest
            self._largest = TokenUsage(
                input_tokens=max(most.input_tokens, before.input_tokens),
                output_tokens=max(most.output_tokens, before.output_tokens),
            )
        if self._in_flight <= self._covered:
            return False
        self._expected = max(self._expected, self._in_flight)  # doubled, so that few commits are needed
        return True

    def remove(self, count: int) -> None:
        """Removes answered requests; at most twice as many are expected before the next commit."""
        self._in_flight = max(0, self._in_flight - count)
        self._expected = max(_FEWEST_EXPECTED, 2 * count)

    def end(self) -> None:
        """Removes all requests; those that may be charged still count."""
        self._in_flight = self._expected = 0

    def cover(self) -> TokenUsage:
        """The bound for the next commit: as many of the largest request as are in flight or expected."""
        self._covered = self._in_flight + self._expected
        count = max(self._covered, sum(self._in_doubt.values()))
        return self._largest.times(count).model_copy(update={"requests": count})


class InFlightLog:
    """Stores a bound for the tokens of requests in flight. Created under the run's lock, before anything is sent.

    With a cost limit, each request is stored before it is sent (`record_sent`); without one, only the number (`watch`).
    """

    def __init__(self, store: PendingSource) -> None:
        """Requests that an earlier session left in flight count as lost."""
        self._store = store
        before = load_unmetered(store)
        self._lost, self._in_batches, self.excess = before.requested, before.in_batches, before.excess
        self._sent: dict[str, list[TokenUsage]] = {}
        """Request key → bound of each attempt in flight."""
        self._counted: _CountedRequests | None = None
        """The requests in flight, if only their number is stored."""
        if before.under_way.requests:
            self._write()

    @property
    def n_unmetered(self) -> int:
        """Requests whose usage no service reported."""
        return self._lost.requests + self._in_batches.requests

    def record_sent(self, in_flight: Iterable[tuple[str, Usage]]) -> None:
        """Stores requests before they are sent: key and bound of tokens; durable when this returns."""
        for key, most in in_flight:
            self._sent.setdefault(key, []).append(TokenUsage.of(most))
        self._write()

    def watch(self, requests: Iterator[Request], max_usage: MaxUsage, in_doubt: Mapping[str, int]) -> Iterator[Request]:
        """The requests of a run without a limit, each covered by a commit before it is yielded.

        `in_doubt`: request key → attempts that may be charged.
        """
        self._counted = counted = _CountedRequests(max_usage, in_doubt)
        for request in requests:
            if counted.add(request):
                self._write()
            yield request

    def withdraw(self, request_keys: Iterable[str]) -> None:
        """Removes requests that were stored as sent but were not sent."""
        for key in request_keys:
            self._sent.pop(key, None)
        self._write()

    def end(self, in_doubt: Mapping[str, int]) -> None:
        """Ends a session; removes requests that were not sent, or sent without cost."""
        before, self._sent = self._sent, {}
        for key, attempts in before.items():
            if charged := attempts[: in_doubt.get(key, 0)]:
                self._sent[key] = charged
        if self._counted is not None:
            self._counted.end()
        if self._counted is not None or self._sent != before:
            self._write()

    def store_responses(self, responses: list[tuple[Response, str]]) -> None:
        """Stores responses with their times, and their unmetered usage; durable when this returns."""
        before, n_before = (self._lost, self._in_batches), len(self._sent)
        for response, _ in responses:
            self._sent.pop(response.request_key, None)
            if response.unmetered_usage is not None and not response.cached:
                if response.batch is None:
                    self._lost += unmetered_of(response, self.excess)
                else:
                    self._in_batches += TokenUsage.of(response.unmetered_usage)
        changed = len(self._sent) < n_before or before != (self._lost, self._in_batches)
        if self._counted is not None:
            self._counted.remove(len(responses))
            changed = True
        self._store.add_responses(responses, {_UNMETERED_META: self._bounds()} if changed else {})

    def add_lost_in_batch(self, most: Usage | None) -> None:
        """Stores the usage of a charged response in a batch that can't be parsed."""
        self._in_batches += TokenUsage.of(most)
        self._write()

    def _write(self) -> None:
        self._store.set_meta(_UNMETERED_META, self._bounds())

    def _bounds(self) -> str:
        """The UnmeteredUsage of the next commit, as JSON."""
        if self._counted is None:
            under_way = sum((attempt for attempts in self._sent.values() for attempt in attempts), TokenUsage())
            under_way = under_way.model_copy(update={"requests": len(self._sent)})
        else:
            under_way = self._counted.cover()
        return UnmeteredUsage(
            lost=self._lost, under_way=under_way.times(self.excess), in_batches=self._in_batches, excess=self.excess
        ).model_dump_json()


class CostLimitError(RunError):
    """The run stopped because the next request could exceed the cost limit."""


def known_cost(usage: Usage | None, price: Price) -> float:
    """The cost of the reported tokens, in US dollars."""
    if usage is None:
        return 0.0
    counts = {"input_tokens": usage.input_tokens or 0, "output_tokens": usage.output_tokens or 0}
    cost = cost_of(usage.model_copy(update=counts), price)
    assert cost is not None  # both counts are given
    return cost


class CostGuard:
    """Admits requests within the cost limit of a run."""

    def __init__(
        self,
        limit: float,
        price: Price,
        spent: float,
        max_usage: MaxUsage,
        in_flight: InFlightLog,
        *,
        alone: Price | None = None,
    ) -> None:
        """`spent`: highest cost of earlier sessions; `alone`: price of single requests, if `price` is for batches."""
        self._limit, self._price, self._max_usage = limit, price, max_usage
        self.alone, self.in_flight = alone or price, in_flight
        self._reserved: dict[str, float] = {}
        """Request key → highest cost of its attempts in flight, in US dollars, without `excess`."""
        self._reserved_total = 0.0
        self._held_back: deque[Request] = deque()
        self.spent = spent
        """Highest cost of the run so far, in US dollars."""

    def admit(self, requests: Iterator[Request]) -> Iterator[Request]:
        """The requests within the limit, each stored before it is yielded."""
        while group := deque(islice(self.reserve(requests), _TOGETHER)):
            self.in_flight.record_sent([(request.request_key, self._max_tokens_of(request)) for request in group])
            while group and self.spent + self._reserved_total * self.in_flight.excess <= self._limit:
                yield group.popleft()
            if group:  # the bounds have increased since they were reserved
                for request in group:
                    self._release(request.request_key)
                self.in_flight.withdraw([request.request_key for request in group])
                self._held_back.extendleft(reversed(group))
                return

    def reserve(self, requests: Iterator[Request]) -> Iterator[Request]:
        """As `admit`, without storing the requests."""
        while (request := self._held_back.popleft() if self._held_back else next(requests, None)) is not None:
            if not self._reserve(request):
                self._held_back.appendleft(request)
                return
            yield request

    def reserve_again(self, request: Request) -> bool:
        """Reserves another attempt of a request that may be charged; False if the limit does not allow it."""
        if not self._reserve(request):
            return False
        self.in_flight.record_sent([(request.request_key, self._max_tokens_of(request))])
        return True

    def _reserve(self, request: Request) -> bool:
        most = known_cost(self._max_tokens_of(request), self._price)
        if self.spent + (self._reserved_total + most) * self.in_flight.excess > self._limit:
            return False
        self._reserved[request.request_key] = self._reserved.get(request.request_key, 0.0) + most
        self._reserved_total += most
        return True

    def _release(self, request_key: str) -> float:
        """Releases the reserved cost of a request and returns it."""
        most = self._reserved.pop(request_key, 0.0)
        self._reserved_total = self._reserved_total - most if self._reserved else 0.0
        return most

    def _max_tokens_of(self, request: Request) -> Usage:
        found = self._max_usage(request)
        if found is None:
            raise CostLimitError("--max-cost: nothing in what is sent limits the length of an answer")
        return found

    def most(self, request: Request) -> float:
        """The highest cost of a request, in US dollars."""
        return known_cost(self._max_tokens_of(request), self._price) * self.in_flight.excess

    def settle(self, responses: Sequence[Response], price: Price | None = None) -> None:
        """Books the cost of responses, at the guard's price or another; unmetered usage at its highest cost."""
        price = price or self._price
        for response in responses:
            most, known = self._release(response.request_key), known_cost(response.usage, price)
            if most:
                taken = known + known_cost(response.unmetered_usage, price)
                self.in_flight.excess = max(self.in_flight.excess, taken / most)
            self.spent += known + known_cost(unmetered_of(response, self.in_flight.excess).usage, price)

    def check(self) -> bool:
        """Whether the limit allows further requests after all were settled; CostLimitError if it allows none."""
        if not self._held_back:
            return False
        excess = self.in_flight.excess
        if self.spent + self.most(self._held_back[0]) > self._limit:
            unmetered = self.in_flight.n_unmetered
            part = f" (part of it the most for {unmetered:,} requests that nobody counted)" if unmetered else ""
            more = f" (the service took up to {excess:.3g} times what its requests allow)" if excess > 1 else ""
            raise CostLimitError(
                f"stopped at ${self.spent:.4f} at most{part}: the next request could exceed --max-cost"
                f" {self._limit:g}{more}; received responses are kept, continue with the same command and a higher"
                " --max-cost"
            )
        return True


class UsageLine(FrozenModel):
    """Usage and cost of the responses of one model that were sent in one way."""

    model: str | None
    """The model that the service reported; None if it reported none."""
    batch: bool
    cached: bool
    """Whether they were copied from the cache, so they cost nothing."""
    responses: int
    """Includes recorded failures."""
    input_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cached_input_tokens: int
    n_without_usage: int
    """Answers without reported usage; the cost leaves them out."""
    cost: float | None
    price: Price | None


class CostReport(FrozenModel):
    """The cost of a run so far."""

    lines: tuple[UsageLine, ...]
    unmetered: int = 0
    """Requests without reported usage: answers, and attempts that were interrupted or killed."""
    unmetered_cost: float | None = 0.0
    """Their highest cost, not included in `lines`, in US dollars; None if no price is known."""

    @property
    def total(self) -> float | None:
        """In US dollars; None if a line has no price. A run without answers has cost nothing."""
        return None if any(line.cost is None for line in self.lines) else self.known

    @property
    def known(self) -> float:
        """The part of the cost whose price is known, in US dollars."""
        return sum(line.cost or 0.0 for line in self.lines)

    @property
    def most(self) -> float:
        """The highest cost of the run, in US dollars, as far as prices are known."""
        return self.known + (self.unmetered_cost or 0.0)

    def charged(self, count: Literal["responses", "n_without_usage", "input_tokens", "output_tokens"]) -> int:
        """The sum of a count over the responses that were charged."""
        return sum(getattr(line, count) for line in self.lines if not line.cached)


def cost_report(
    store: RunStore,
    kind: str,
    model: str,
    user_prices: tuple[Price, ...],
    base_url: str | None = None,
    *,
    judge: str | None = None,
) -> CostReport:
    """Usage and cost of the responses of a run or of one of its judges.

    `model`: used for responses that name no model; `user_prices`: prices of the user's file; `base_url`: None for the
    service's own address.
    """
    requested = price_of(kind, model, user_prices, base_url=base_url)
    lines, unmetered = [], load_unmetered(store, judge)
    counts = ("input_tokens", "output_tokens", "reasoning_tokens", "cached_input_tokens")
    rows = store.query(
        "SELECT model, batch_id IS NOT NULL AS batched, cached, count(*), count(*) FILTER"
        " (WHERE is_error = 0 AND (input_tokens IS NULL OR output_tokens IS NULL)),"
        f" {', '.join(f'total({name})' for name in counts)}"
        f" FROM {'responses' if judge is None else 'judge_replies WHERE judge = ?'}"
        " GROUP BY model, batched, cached ORDER BY model, batched, cached",
        [] if judge is None else [judge],
    )
    for name, batch, cached, responses, n_without_usage, *totals in rows:
        price = (price_of(kind, name, user_prices, base_url=base_url) if name else None) or requested
        tokens = dict(zip(counts, map(int, totals), strict=True))
        usage = Usage(**{count: tokens[count] for count in counts if count != "reasoning_tokens"})
        cost = 0.0 if cached else _cost(usage, price, batch=batch)
        answers = {"responses": responses, "n_without_usage": n_without_usage}
        lines.append(UsageLine(model=name, batch=batch, cached=cached, **answers, **tokens, cost=cost, price=price))
    alone = _cost(unmetered.requested.usage, requested, batch=False)
    in_batches = _cost(unmetered.in_batches.usage, requested, batch=True)
    return CostReport(
        lines=tuple(lines),
        unmetered=unmetered.requested.requests + unmetered.in_batches.requests,
        unmetered_cost=None if alone is None or in_batches is None else alone + in_batches,
    )


def _cost(usage: Usage, price: Price | None, *, batch: bool) -> float | None:
    """The cost of tokens; None if the price is not known."""
    if not (usage.input_tokens or usage.output_tokens):
        return 0.0
    return None if price is None else cost_of(usage, price, batch)
