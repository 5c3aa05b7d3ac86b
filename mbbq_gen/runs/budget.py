"""Reports what a run has cost, and enforces `--max-cost`.

Before a request is sent, its highest possible cost is reserved and stored: one token for every byte of the body (no
tokeniser makes more), and a response of full length. When the response arrives, its real cost is booked and the rest
released. Usage that no service reported (a response without usage, an interrupted attempt, requests in flight when the
process was killed) stays booked at its highest possible cost. So the limit is never exceeded by a service that keeps to
the longest answer that a request allows. Where one does not, its answers show by how much, and all bounds grow by that.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, Protocol, Self

from mbbq_gen.core.errors import RunError
from mbbq_gen.core.records import FrozenModel, Request, Response, Usage
from mbbq_gen.providers.prices import Price, cost_of, price_of
from mbbq_gen.storage.queries import usage_totals
from mbbq_gen.storage.store import Progress, RunStore

_NAME: Final = "unmetered"
_TOGETHER: Final = 16
"""Requests at most that are written down at once before they are sent: each time the disk is waited for."""
MostUsage = Callable[[Request], Usage | None]
"""The most tokens that a request can take; None where nothing limits them."""


class PendingSource(Protocol):
    """Requests, and where their responses go: the store of a run, its follow-ups, or the requests of a judge."""

    def progress(self) -> Progress:
        """How far it is."""

    def pending(self) -> Iterator[Request]:
        """The requests without a response; may be read while responses are added."""

    def meta(self, name: str, /) -> str | None:
        """A stored value, or None."""

    def set_meta(self, name: str, value: str, /) -> None:
        """Stores a value; durable when this returns."""

    def add_responses(self, responses: Sequence[tuple[Response, str]], meta: Mapping[str, str] = ..., /) -> None:
        """Stores responses, each with its time, and values that change with it; durable when this returns."""


class TokenUsage(FrozenModel):
    """So many tokens of so many requests; all tries of a request that broke off are one."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(**{name: getattr(self, name) + getattr(other, name) for name in TokenUsage.model_fields})

    def times(self, factor: float) -> TokenUsage:
        """As many requests that took so many times as many tokens, rounded up."""
        tokens = (math.ceil(self.input_tokens * factor), math.ceil(self.output_tokens * factor))
        return TokenUsage(requests=self.requests, input_tokens=tokens[0], output_tokens=tokens[1])

    @classmethod
    def of(cls, usage: Usage | None) -> Self:
        """The tokens of one request; None: nothing."""
        if usage is None:
            return cls()
        return cls(requests=1, input_tokens=usage.input_tokens or 0, output_tokens=usage.output_tokens or 0)

    @property
    def usage(self) -> Usage:
        """The same as the tokens of an answer."""
        return Usage(input_tokens=self.input_tokens, output_tokens=self.output_tokens)


class UnmeteredUsage(FrozenModel):
    """The most that requests can have taken whose tokens nobody counted."""

    lost: TokenUsage = TokenUsage()
    under_way: TokenUsage = TokenUsage()
    in_batches: TokenUsage = TokenUsage()
    excess: float = 1.0
    """How many times as much as its request allows an answer has taken at most."""

    @property
    def requested(self) -> TokenUsage:
        """Of requests sent one by one."""
        return self.lost + self.under_way


def load_unmetered(store: PendingSource, judge: str | None = None) -> UnmeteredUsage:
    """What a run, or one of its judges, may have taken unmetered so far; another process may be at work."""
    text = store.meta(_NAME if judge is None else f"{_NAME}:{judge}")
    return UnmeteredUsage() if text is None else UnmeteredUsage.model_validate_json(text)


def unmetered_of(response: Response, excess: float) -> TokenUsage:
    """The most that a response took unmetered, with what services take beyond their bounds.

    The bound of an answer without usage was taken from its text already; that of lost attempts was not.
    """
    found = TokenUsage.of(response.unmetered_usage)
    is_bounded = response.text is not None and response.usage.output_tokens is None
    return found if is_bounded else found.times(excess)


class InFlightLog:
    """What one session sends and stores. Made under the run's lock, before anything is sent."""

    def __init__(self, store: PendingSource) -> None:
        """What an earlier session left under way counts as lost from now on."""
        self._store = store
        before = load_unmetered(store)
        self._lost, self._in_batches = before.requested, before.in_batches
        self._under_way: dict[str, list[Usage]] = {}
        self.excess = before.excess
        """How many times as much as its request allows an answer has taken at most."""
        self._in_doubt: Mapping[str, int] | None = None
        """Of a run without a limit: request key → how often it was sent and may have been paid."""
        self._taken, self._noted, self._ahead = 0, 0, 16
        """Requests under way, those that were written down last, and those that may be taken until that is repeated."""
        self._longest: dict[str | None, int] = {}
        """Reasoning effort → characters of the longest request with it."""
        self._most = TokenUsage()
        if before.under_way.requests:
            self._write()

    @property
    def n_unmetered(self) -> int:
        """Requests whose tokens nobody counted."""
        return self._lost.requests + self._in_batches.requests

    def record_sent(self, in_flight: Iterable[tuple[str, Usage]]) -> None:
        """Writes down what is about to be sent: request key and the most tokens; durable when this returns."""
        for key, most in in_flight:
            self._under_way.setdefault(key, []).append(most)
        self._write()

    def watch(
        self, requests: Iterator[Request], most_usage: MostUsage, in_doubt: Mapping[str, int]
    ) -> Iterator[Request]:
        """The requests of a run without a limit, with the most that those under way can take written down.

        Nobody waits for the disk: commits of responses write it down for as many requests as come until the next.
        `in_doubt`: request key → how often it was sent and may have been paid.
        """
        self._in_doubt = in_doubt
        for request in requests:
            self._taken += 1
            effort, length = request.prompt.reasoning_effort, sum(len(message.content) for message in request.messages)
            if length > self._longest.get(effort, -1):
                self._longest[effort] = length
                most, before = TokenUsage.of(most_usage(request)), self._most
                self._most = TokenUsage(
                    input_tokens=max(most.input_tokens, before.input_tokens),
                    output_tokens=max(most.output_tokens, before.output_tokens),
                )
            if self._taken > self._noted:
                self._write()
            yield request

    def withdraw(self, request_keys: Iterable[str]) -> None:
        """Strikes out what was admitted and not sent."""
        for key in request_keys:
            self._under_way.pop(key, None)
        self._write()

    def end(self, in_doubt: Mapping[str, int]) -> None:
        """At the end of a session, strikes out what was admitted and never sent, or sent for nothing."""
        if self._in_doubt is not None:
            self._taken = self._ahead = 0
            self._write()
        kept = {key: mosts[: in_doubt.get(key, 0)] for key, mosts in self._under_way.items()}
        if kept != self._under_way:
            self._under_way = {key: mosts for key, mosts in kept.items() if mosts}
            self._write()

    def store_responses(self, responses: list[tuple[Response, str]]) -> None:
        """Stores responses, each with its time, and what they took unmetered; durable when this returns."""
        lost, in_batches = self._lost, self._in_batches
        for response, _ in responses:
            if response.unmetered_usage is None or response.cached:
                continue
            if response.batch is None:
                lost += unmetered_of(response, self.excess)
            else:
                in_batches += TokenUsage.of(response.unmetered_usage)
        arrived = {response.request_key for response, _ in responses}
        left = {key: mosts for key, mosts in self._under_way.items() if key not in arrived}
        changed = len(left) < len(self._under_way) or lost != self._lost or in_batches != self._in_batches
        if self._in_doubt is not None:
            self._taken, self._ahead = max(0, self._taken - len(responses)), max(16, 2 * len(responses))
            changed = True
        self._lost, self._in_batches, self._under_way = lost, in_batches, left
        self._store.add_responses(responses, {_NAME: self._state()} if changed else {})

    def lose_in_batch(self, most: Usage | None) -> None:
        """Writes down an answer of a batch that was paid and can't be read."""
        self._in_batches += TokenUsage.of(most)
        self._write()

    def _write(self) -> None:
        self._store.set_meta(_NAME, self._state())

    def _state(self) -> str:
        if self._in_doubt is None:
            under_way = sum((TokenUsage.of(most) for sent in self._under_way.values() for most in sent), TokenUsage())
            under_way = under_way.model_copy(update={"requests": len(self._under_way)})
        else:
            self._noted = self._taken + self._ahead
            count, most = max(self._noted, sum(self._in_doubt.values())), self._most
            tokens = count * most.input_tokens, count * most.output_tokens
            under_way = TokenUsage(requests=count, input_tokens=tokens[0], output_tokens=tokens[1])
        return UnmeteredUsage(
            lost=self._lost, under_way=under_way.times(self.excess), in_batches=self._in_batches, excess=self.excess
        ).model_dump_json()


class CostLimitError(RunError):
    """The run stopped because it would have cost more than it may."""


def known_cost(usage: Usage | None, price: Price) -> float:
    """What the tokens that were counted cost, in US dollars; those that were not are left out."""
    if usage is None:
        return 0.0
    counts = {"input_tokens": usage.input_tokens or 0, "output_tokens": usage.output_tokens or 0}
    cost = cost_of(usage.model_copy(update=counts), price)
    assert cost is not None  # both counts are given
    return cost


class CostGuard:
    """The budget of a run."""

    def __init__(
        self,
        limit: float,
        price: Price,
        spent: float,
        most_usage: MostUsage,
        in_flight: InFlightLog,
        *,
        alone: Price | None = None,
        concurrency: int = 1,
    ) -> None:
        """`spent`: by earlier sessions, at most; `alone`: the price of what is sent singly, with `price` for batches.

        Four times in `concurrency` requests the disk is waited for, so that what a killed process had written down and
        not sent yet is a small part of what it had sent.
        """
        self._limit, self._price, self._most_usage = limit, price, most_usage
        self.alone = alone or price
        self._together = min(_TOGETHER, max(1, concurrency // 4))
        self.in_flight = in_flight
        self._reserved: dict[str, float] = {}
        self._reserved_total = 0.0
        self._held_back: deque[Request] = deque()
        self.spent = spent
        """US dollars that the run can have cost at most."""

    def admit(self, requests: Iterator[Request]) -> Iterator[Request]:
        """The requests that there is budget for, written down as sent before they are admitted."""
        while together := deque(islice(self.reserve(requests), self._together)):
            self.in_flight.record_sent([(request.request_key, self._most_tokens(request)) for request in together])
            while together and self.spent + self._reserved_total * self.in_flight.excess <= self._limit:
                yield together.popleft()
            if together:  # what was reserved has turned out not to be enough
                for request in together:
                    self._free(request.request_key)
                self.in_flight.withdraw([request.request_key for request in together])
                self._held_back.extendleft(reversed(together))
                return

    def reserve(self, requests: Iterator[Request]) -> Iterator[Request]:
        """As `admit`, for requests that are written down elsewhere."""
        while True:
            request = self._held_back.popleft() if self._held_back else next(requests, None)
            if request is None:
                return
            if not self._take(request):
                self._held_back.appendleft(request)
                return
            yield request

    def again(self, request: Request) -> bool:
        """Whether there is budget to send a request once more whose last sending may have been paid; reserves it."""
        if not self._take(request):
            return False
        self.in_flight.record_sent([(request.request_key, self._most_tokens(request))])
        return True

    def _take(self, request: Request) -> bool:
        most = known_cost(self._most_tokens(request), self._price)
        if self.spent + (self._reserved_total + most) * self.in_flight.excess > self._limit:
            return False
        self._reserved[request.request_key] = self._reserved.get(request.request_key, 0.0) + most
        self._reserved_total += most
        return True

    def _free(self, request_key: str) -> float:
        """Frees what was reserved for a request, and says how much it was."""
        most = self._reserved.pop(request_key, 0.0)
        self._reserved_total = self._reserved_total - most if self._reserved else 0.0
        return most

    def _most_tokens(self, request: Request) -> Usage:
        found = self._most_usage(request)
        if found is None:
            raise CostLimitError("--max-cost: nothing in what is sent limits the length of an answer")
        return found

    def most(self, request: Request) -> float:
        """The most that a request can cost, in US dollars."""
        return known_cost(self._most_tokens(request), self._price) * self.in_flight.excess

    def settle(self, responses: Sequence[Response], price: Price | None = None) -> None:
        """Books what stored responses took, at the guard's price or another; what nobody counted, at its most."""
        price = price or self._price
        for response in responses:
            most, known = self._free(response.request_key), known_cost(response.usage, price)
            if most:
                taken = known + known_cost(response.unmetered_usage, price)
                self.in_flight.excess = max(self.in_flight.excess, taken / most)
            self.spent += known
            if response.unmetered_usage is not None:
                self.spent += known_cost(unmetered_of(response, self.in_flight.excess).usage, price)

    def check(self) -> bool:
        """Whether there are requests left that can be paid, once all are settled; CostLimitError where none can."""
        if not self._held_back:
            return False
        most, excess = self.most(self._held_back[0]), self.in_flight.excess
        if self.spent + most > self._limit:
            unmetered = self.in_flight.n_unmetered
            part = f" (part of it the most for {unmetered:,} requests that nobody counted)" if unmetered else ""
            how = f"before --max-cost {self._limit:g} would be passed"
            if self.spent > self._limit:
                how = f"which is more than --max-cost {self._limit:g}"
            if excess > 1:
                how += f": the service took up to {excess:.3g} times what its requests allow"
            raise CostLimitError(
                f"stopped at ${self.spent:.4f} at most{part}, {how}; received responses are kept, continue with the"
                " same command and a higher --max-cost"
            )
        return True


class UsageLine(FrozenModel):
    """What the answers of one model and one way of sending took and cost."""

    model: str | None
    """The name under which the model or server answered; None where it gave none."""
    batch: bool
    cached: bool
    """Whether they were copied from an earlier run, and so cost nothing here."""
    responses: int
    """Answers, and failures that were recorded."""
    input_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cached_input_tokens: int
    n_without_usage: int
    """Answers whose tokens nobody counted; the cost leaves them out."""
    cost: float | None
    """In US dollars; None where no price is known."""
    price: Price | None


class CostReport(FrozenModel):
    """What a run has cost so far."""

    lines: tuple[UsageLine, ...]
    unmetered: int = 0
    """Requests of which nobody said what they took: answers without usage, tries that broke off or were killed."""
    unmetered_cost: float | None = 0.0
    """The most that those can have cost beside the lines, in US dollars; None where no price is known."""

    @property
    def total(self) -> float | None:
        """In US dollars; None where a line of it has no price. A run without answers has cost nothing."""
        costs = [line.cost for line in self.lines]
        return None if any(cost is None for cost in costs) else sum(cost for cost in costs if cost is not None)

    @property
    def known(self) -> float:
        """The part of it whose price is known, in US dollars."""
        return sum(line.cost or 0.0 for line in self.lines)

    @property
    def most(self) -> float:
        """The most that the run can have cost, in US dollars, as far as prices are known."""
        return self.known + (self.unmetered_cost or 0.0)

    @property
    def input_tokens(self) -> int:
        """Of all answers that were paid for."""
        return sum(line.input_tokens for line in self.lines if not line.cached)

    @property
    def output_tokens(self) -> int:
        """Of all answers that were paid for."""
        return sum(line.output_tokens for line in self.lines if not line.cached)

    @property
    def n_without_usage(self) -> int:
        """Answers whose tokens nobody counted."""
        return sum(line.n_without_usage for line in self.lines if not line.cached)


def cost_report(
    store: RunStore,
    kind: str,
    model: str,
    own: tuple[Price, ...],
    base_url: str | None = None,
    *,
    judge: str | None = None,
) -> CostReport:
    """What the stored responses of a run, or the replies of one of its judges, took and cost.

    `model`: the one that was requested: its price holds where the name in the answer has none. `own`: the prices of the
    user's file. `base_url`: None for the service's own.
    """
    requested = price_of(kind, model, own, base_url=base_url)
    lines, unmetered = [], load_unmetered(store, judge)
    for total in usage_totals(store, judge):
        longest = total.pop("longest_input")
        model_price = price_of(kind, total["model"], own, base_url=base_url) if total["model"] else None
        price = model_price or requested
        price = None if price is None else price.at(longest)
        usage = Usage(**{name: total[name] for name in ("input_tokens", "output_tokens", "cached_input_tokens")})
        cost = _cost(usage, price, batch=total["batch"], free=total["cached"])
        lines.append(UsageLine(**total, cost=cost, price=price))
    alone = _cost(unmetered.requested.usage, requested, batch=False)
    together = _cost(unmetered.in_batches.usage, requested, batch=True)
    return CostReport(
        lines=tuple(lines),
        unmetered=unmetered.requested.requests + unmetered.in_batches.requests,
        unmetered_cost=None if alone is None or together is None else alone + together,
    )


def _cost(usage: Usage, price: Price | None, *, batch: bool, free: bool = False) -> float | None:
    """What tokens cost: nothing where they were not bought, or where there are none."""
    if free or not (usage.input_tokens or usage.output_tokens):
        return 0.0
    return None if price is None else cost_of(usage, price, batch)
