"""Enforces `--max-cost` and reports what a run has cost.

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
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple, Protocol, Self

from mbbq_gen.core.errors import RunError
from mbbq_gen.core.records import FrozenModel, Request, Response, Usage
from mbbq_gen.providers.prices import Price, cost_of, price_of
from mbbq_gen.storage.ledgers import BatchTable
from mbbq_gen.storage.queries import UsageTotals, usage_totals
from mbbq_gen.storage.store import RunStore

NAME: Final = "unmetered"
"""The name of the value that a run keeps."""


class ResponseSink(Protocol):
    """What holds responses, and values beside them: the store of a run, or what a judge keeps there."""

    def meta(self, name: str, /) -> str | None:
        """A value, or None."""

    def set_meta(self, name: str, value: str, /) -> None:
        """Keeps a value; durable when this returns."""

    def add_responses(self, responses: Sequence[tuple[Response, str]], meta: Mapping[str, str] = ..., /) -> None:
        """Stores responses, each with its time, and values that change with it; durable when this returns."""


def name_for(judge: str) -> str:
    """The name of the value that a run keeps for one of its judges."""
    return f"{NAME}:{judge}"


class TokenUsage(FrozenModel):
    """So many tokens of so many requests."""

    requests: int = 0
    """An answer whose tokens nobody counted is one, and so are all tries of a request that broke off."""
    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(
            requests=self.requests + other.requests,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )

    def times(self, factor: float) -> TokenUsage:
        """As many requests that took so many times as many tokens, rounded up."""
        return TokenUsage(
            requests=self.requests,
            input_tokens=math.ceil(self.input_tokens * factor),
            output_tokens=math.ceil(self.output_tokens * factor),
        )

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
    """All of them."""

    lost: TokenUsage = TokenUsage()
    under_way: TokenUsage = TokenUsage()
    in_batches: TokenUsage = TokenUsage()
    excess: float = 1.0
    """How many times as much as its request allows an answer has taken at most."""

    @property
    def requested(self) -> TokenUsage:
        """Of requests sent one by one."""
        return self.lost + self.under_way


def load_unmetered(store: ResponseSink, name: str = NAME) -> UnmeteredUsage:
    """What a run, or the judge of that name, may have taken unmetered so far; another process may be asking."""
    text = store.meta(name)
    return UnmeteredUsage() if text is None else UnmeteredUsage.model_validate_json(text)


class InFlightLog:
    """What one session of asking sends and stores. Made under the run's lock, before anything is sent."""

    def __init__(self, store: ResponseSink) -> None:
        """What an earlier session left under way counts as lost from now on."""
        self._store = store
        before = load_unmetered(store)
        self._lost, self._in_batches = before.requested, before.in_batches
        self._under_way: dict[str, list[Usage]] = {}
        self.excess = before.excess
        """How many times as much as its request allows an answer has taken at most."""
        self._watched: _Watched | None = None
        if before.under_way.requests:
            self._write()

    @property
    def n_unmetered(self) -> int:
        """Requests of which nobody said what they took."""
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

        Args:
            requests: to be sent.
            most_usage: the most tokens that a request can take.
            in_doubt: request key → how often it was sent and may have been paid.
        """
        self._watched = watched = _Watched(in_doubt)
        for request in requests:
            watched.take(request, most_usage)
            if watched.taken > watched.noted:
                self._write()
            yield request

    def note_excess(self, excess: float) -> None:
        """Takes note of an answer that took so many times as much as its request allows."""
        self.excess = max(self.excess, excess)

    def withdraw(self, request_keys: Iterable[str]) -> None:
        """Strikes out what was let out and not sent."""
        for key in request_keys:
            self._under_way.pop(key, None)
        self._write()

    def end(self, in_doubt: Mapping[str, int]) -> None:
        """At the end of a session, strikes out what was let out and never sent, or sent for nothing.

        Args:
            in_doubt: request key → how often it was sent and may have been paid.
        """
        if self._watched is not None:
            self._watched.taken, self._watched.ahead = 0, 0
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
                lost += TokenUsage.of(unmetered_of(response, self.excess))
            else:
                in_batches += TokenUsage.of(response.unmetered_usage)
        arrived = {response.request_key for response, _ in responses}
        left = {key: mosts for key, mosts in self._under_way.items() if key not in arrived}
        changed = len(left) < len(self._under_way) or lost != self._lost or in_batches != self._in_batches
        if self._watched is not None:
            self._watched.arrived(len(responses))
            changed = True
        self._lost, self._in_batches, self._under_way = lost, in_batches, left
        self._store.add_responses(responses, {NAME: self._state().model_dump_json()} if changed else {})

    def lose_in_batch(self, most: Usage) -> None:
        """Writes down an answer of a batch that was paid and can't be read."""
        self._in_batches += TokenUsage.of(most)
        self._write()

    def _write(self) -> None:
        self._store.set_meta(NAME, self._state().model_dump_json())

    def _state(self) -> UnmeteredUsage:
        under_way = _sum(self._under_way) if self._watched is None else self._watched.most()
        under_way = under_way.times(self.excess)
        return UnmeteredUsage(lost=self._lost, under_way=under_way, in_batches=self._in_batches, excess=self.excess)


@dataclass
class _Watched:
    """How many requests of a run without a limit are under way, and the most that one can take."""

    in_doubt: Mapping[str, int]
    taken: int = 0
    """Requests that were taken and are not answered."""
    noted: int = 0
    """Requests that were under way at most when it was written down last."""
    ahead: int = 16
    """Requests that may be taken until it is written down again."""
    _longest: dict[str | None, int] = field(default_factory=dict)
    """Reasoning effort → characters of the longest request with it."""
    _most: TokenUsage = field(default_factory=TokenUsage)

    def take(self, request: Request, most_usage: MostUsage) -> None:
        """Takes note of a request that is going to be sent."""
        self.taken += 1
        effort, length = request.prompt.reasoning_effort, sum(len(message.content) for message in request.messages)
        if length > self._longest.get(effort, -1):
            self._longest[effort] = length
            most = TokenUsage.of(most_usage(request))
            self._most = TokenUsage(
                requests=1,
                input_tokens=max(self._most.input_tokens, most.input_tokens),
                output_tokens=max(self._most.output_tokens, most.output_tokens),
            )

    def arrived(self, count: int) -> None:
        """Takes note of answers that are stored now."""
        self.taken, self.ahead = max(0, self.taken - count), max(16, 2 * count)

    def most(self) -> TokenUsage:
        """The most that the requests under way can take, with those that may be taken until the next check."""
        self.noted = self.taken + self.ahead
        count = max(self.noted, sum(self.in_doubt.values()))
        return TokenUsage(
            requests=count, input_tokens=count * self._most.input_tokens, output_tokens=count * self._most.output_tokens
        )


def unmetered_of(response: Response, excess: float) -> Usage | None:
    """The most that a response took unmetered, with what services take beyond their bounds.

    The bound of an answer without usage was taken from its text already; that of lost attempts was not.
    """
    found = response.unmetered_usage
    if found is None or (response.text is not None and response.usage.output_tokens is None):
        return found
    return TokenUsage.of(found).times(excess).usage


def _sum(under_way: Mapping[str, list[Usage]]) -> TokenUsage:
    mosts = [most for sent in under_way.values() for most in sent]
    return TokenUsage(
        requests=len(under_way),
        input_tokens=sum(most.input_tokens or 0 for most in mosts),
        output_tokens=sum(most.output_tokens or 0 for most in mosts),
    )


_TOGETHER: Final = 16
"""Requests at most that are written down at once before they are sent: each time the disk is waited for."""
MostUsage = Callable[[Request], Usage | None]


class CostLimitError(RunError):
    """The run stopped because it would have become dearer than it may."""


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
        max_usage: MostUsage,
        in_flight: InFlightLog,
        *,
        alone: Price | None = None,
        concurrency: int = 1,
    ) -> None:
        """Makes the cost guard of one session.

        Args:
            limit: in US dollars, over all sessions.
            price: of what it hands out.
            spent: the most that the run can have cost before, in US dollars.
            max_usage: the most tokens that a request can take.
            in_flight: where they are written down before they are sent.
            alone: the price of what is sent by itself, where `price` is that of batches.
            concurrency: requests at a time. Four times in each such number of requests the disk is waited for, so that
                what a killed process had written down and not sent yet is a small part of what it had sent.
        """
        self._limit = limit
        self._price = price
        self.alone = alone or price
        """The price of what is sent by itself."""
        self._most_usage = max_usage
        self._together = min(_TOGETHER, max(1, concurrency // 4))
        self.in_flight = in_flight
        """What the session sends and stores."""
        self._set_aside: dict[str, float] = {}
        self._aside = 0.0
        self._held_back: deque[Request] = deque()
        self.spent = spent
        """US dollars that the run can have cost at most."""
        self.notify: Callable[[str], None] = lambda _: None
        """Hears once that the limit slows the run down."""
        self._is_told = False

    @property
    def _excess(self) -> float:
        return self.in_flight.excess

    def admit(self, requests: Iterator[Request]) -> Iterator[Request]:
        """The requests, as long as there is budget for one more; those that there is none for are held back.

        They are written down as sent before they are admitted.
        """
        while together := deque(islice(self.reserve(requests), self._together)):
            self.in_flight.record_sent([(request.request_key, self._most_tokens(request)) for request in together])
            while together and not self._is_passed():
                yield together.popleft()
            if together:
                self._take_back(together)
                return

    def reserve(self, requests: Iterator[Request]) -> Iterator[Request]:
        """As `affordable`, for requests that are written down elsewhere."""
        while True:
            request = self._held_back.popleft() if self._held_back else next(requests, None)
            if request is None:
                return
            if not self._take(request):
                self._held_back.appendleft(request)
                return
            yield request

    def again(self, request: Request) -> bool:
        """Whether there is budget to send a request once more whose last sending may have been paid; sets it aside."""
        if not self._take(request):
            return False
        self.in_flight.record_sent([(request.request_key, self._most_tokens(request))])
        return True

    def _is_passed(self) -> bool:
        """Whether what was set aside has turned out not to be enough."""
        return self.spent + self._aside * self._excess > self._limit

    def _take(self, request: Request) -> bool:
        most = known_cost(self._most_tokens(request), self._price)
        if self.spent + (self._aside + most) * self._excess > self._limit:
            return False
        self._set_aside[request.request_key] = self._set_aside.get(request.request_key, 0.0) + most
        self._aside += most
        return True

    def _take_back(self, requests: Sequence[Request]) -> None:
        """Takes back requests that were written down and not admitted."""
        for request in requests:
            self._free(request.request_key)
        self.in_flight.withdraw([request.request_key for request in requests])
        self._held_back.extendleft(reversed(requests))

    def _free(self, request_key: str) -> float:
        """Frees what was set aside for a request, and says how much it was."""
        most = self._set_aside.pop(request_key, 0.0)
        self._aside = self._aside - most if self._set_aside else 0.0
        return most

    def _most_tokens(self, request: Request) -> Usage:
        found = self._most_usage(request)
        if found is None:
            raise CostLimitError("--max-cost: nothing in what is sent limits the length of an answer")
        return found

    def most(self, request: Request) -> float:
        """The most that a request can cost, in US dollars."""
        return known_cost(self._most_tokens(request), self._price) * self._excess

    def settle(self, responses: Sequence[Response], price: Price | None = None) -> None:
        """Books what requests took, once their responses are stored; what nobody counted, as the most that it was.

        `price`: where it is not the cost guard's own.
        """
        for response in responses:
            most = self._free(response.request_key)
            known = known_cost(response.usage, price or self._price)
            if most:
                unmetered = known_cost(response.unmetered_usage, price or self._price)
                self.in_flight.note_excess((known + unmetered) / most)
            self.spent += known + known_cost(unmetered_of(response, self._excess), price or self._price)

    def check(self) -> bool:
        """After all requests that were admitted are settled: whether there are more that can be paid.

        Raises:
            CostLimitError: where there are more and none of them can.
        """
        if not self._held_back:
            return False
        most = self.most(self._held_back[0])
        if self.spent + most > self._limit:
            unmetered = self.in_flight.n_unmetered
            part = f" (part of it the most for {unmetered:,} requests that nobody counted)" if unmetered else ""
            how = f"before --max-cost {self._limit:g} would be passed"
            if self.spent > self._limit:
                how = f"which is more than --max-cost {self._limit:g}"
            if self._excess > 1:
                how += f": the service took up to {self._excess:.3g} times what its requests allow"
            raise CostLimitError(
                f"stopped at ${self.spent:.4f} at most{part}, {how}; received responses are kept, continue with the"
                " same command and a higher --max-cost"
            )
        if not self._is_told:
            self._is_told = True
            count = max(1, int((self._limit - self.spent) / most))
            self.notify(
                f"--max-cost {self._limit:g}: what is left pays for {count:,} requests at a time (up to ${most:.2g}"
                " each), so the run is slower; a lower --max-tokens makes it faster"
            )
        return True


def held_by_batches(store: RunStore, max_usage: MostUsage, price: Price) -> float:
    """The most that open batches can still cost, in US dollars; those that were made without a limit too.

    `price`: of the model, for batches whose most was not written down.
    """
    ledger, held = BatchTable(store), 0.0
    for batch in ledger.open_batches():
        held += batch.record.most_cost
        if not batch.record.most_cost:
            mosts = (max_usage(store.request(key)) for key in ledger.requests(batch))
            held += sum(known_cost(most, price) for most in mosts)
    return held


class BilledModel(NamedTuple):
    """The model: its kind, the model that was requested, and the server, None for the service's own."""

    kind: str
    model: str
    base_url: str | None


class UsageLine(FrozenModel):
    """What the answers of one model and one way of sending took and cost."""

    model: str | None
    """The name under which the model or server answered; None where it gave none."""
    batch: bool
    """Whether they came in batches."""
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
    """The price that was used."""


class CostReport(FrozenModel):
    """What a run has cost so far."""

    lines: tuple[UsageLine, ...]
    """One for each model and way of asking."""
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
    store: RunStore, kind: str, model: str, own: tuple[Price, ...], base_url: str | None = None
) -> CostReport:
    """What the stored responses of a run took and cost.

    Args:
        store: the run.
        kind: the kind of provider.
        model: the model that was requested: its price holds where the name in the answer has none.
        own: the prices of the user's file.
        base_url: the server; None for the service's own.
    """
    return _cost_report(usage_totals(store), load_unmetered(store), BilledModel(kind, model, base_url), own)


def judge_cost_report(
    store: RunStore, judge: str, own: tuple[Price, ...], *, kind: str, model: str, base_url: str | None = None
) -> CostReport:
    """What the stored replies of a judge took and cost; the other arguments are those of `cost_report`."""
    found = load_unmetered(store, name_for(judge))
    return _cost_report(usage_totals(store, judge), found, BilledModel(kind, model, base_url), own)


def _cost_report(
    totals: Iterable[UsageTotals], found: UnmeteredUsage, asked: BilledModel, own: tuple[Price, ...]
) -> CostReport:
    of_asked = price_of(asked.kind, asked.model, own, base_url=asked.base_url)
    lines = []
    for total in totals:
        price = price_of(asked.kind, total.model, own, base_url=asked.base_url) if total.model else None
        price = price or of_asked
        price = None if price is None else price.at(total.longest_input)
        usage = Usage(
            input_tokens=total.input_tokens,
            output_tokens=total.output_tokens,
            cached_input_tokens=total.cached_input_tokens,
        )
        counts = total._asdict()
        del counts["longest_input"]
        lines.append(UsageLine(**counts, cost=_cost(usage, price, batch=total.batch, free=total.cached), price=price))
    alone = _cost(found.requested.usage, of_asked, batch=False, free=False)
    together = _cost(found.in_batches.usage, of_asked, batch=True, free=False)
    return CostReport(
        lines=tuple(lines),
        unmetered=found.requested.requests + found.in_batches.requests,
        unmetered_cost=None if alone is None or together is None else alone + together,
    )


def _cost(usage: Usage, price: Price | None, *, batch: bool, free: bool) -> float | None:
    """What tokens cost: nothing where they were not bought, or where there are none."""
    if free or not (usage.input_tokens or usage.output_tokens):
        return 0.0
    return None if price is None else cost_of(usage, price, batch)


def spent(store: RunStore, kind: str, model: str, own: tuple[Price, ...], base_url: str | None = None) -> float:
    """The most that a run can have cost so far, in US dollars, as far as prices are known."""
    return cost_report(store, kind, model, own, base_url).most
