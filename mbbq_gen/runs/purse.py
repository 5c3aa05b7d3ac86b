"""`--max-cost`: hands out only those requests that the money is enough for, whatever they turn out to take.

Before a request is sent, the most that it can cost is set aside and written down: every byte of what is sent a token
(no tokeniser makes more), and an answer of full length. When its answer is there, what it really took is spent and the
rest is free again. What nobody counted (an answer without usage, a try that broke off, whatever was under way when the
process was killed) stays spent as the most that it can have been. So the limit is never passed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

from mbbq_gen.errors import RunError
from mbbq_gen.providers.base import Provider
from mbbq_gen.providers.prices import Price, cost_of
from mbbq_gen.records import Request, Response, Usage
from mbbq_gen.runs.batch_ledger import BatchLedger
from mbbq_gen.runs.store import RunStore
from mbbq_gen.runs.uncounted import Sendings

_TOGETHER: Final = 16
"""Requests at most that are written down at once before they are sent: each time the disk is waited for."""
MostUsage = Callable[[Request], Usage | None]


class CostLimitError(RunError):
    """The run stopped because it would have become dearer than it may."""


def most_usage_of(provider: Provider) -> MostUsage:
    """What tells the most tokens that a request of this provider can take; None where nothing bounds the answer."""
    own: MostUsage | None = getattr(provider, "most_usage", None)
    return (lambda _: None) if own is None else own


def known_cost(usage: Usage | None, price: Price) -> float:
    """What the tokens that were counted cost, in US dollars; those that were not are left out."""
    if usage is None:
        return 0.0
    counts = {"input_tokens": usage.input_tokens or 0, "output_tokens": usage.output_tokens or 0}
    cost = cost_of(usage.model_copy(update=counts), price)
    assert cost is not None  # both counts are given
    return cost


class Purse:
    """The money of a run."""

    def __init__(
        self,
        limit: float,
        price: Price,
        spent: float,
        most_usage: MostUsage,
        sendings: Sendings,
        *,
        alone: Price | None = None,
        concurrency: int = 1,
    ) -> None:
        """Makes the purse of one session.

        Args:
            limit: in US dollars, over all sessions.
            price: of what it hands out.
            spent: the most that the run can have cost before, in US dollars.
            most_usage: the most tokens that a request can take.
            sendings: where they are written down before they are sent.
            alone: the price of what is asked by itself, where `price` is that of batches.
            concurrency: requests at a time. Four times in each such number of requests the disk is waited for, so that
                what a killed process had written down and not sent yet is a small part of what it had sent.
        """
        self._limit = limit
        self._price = price
        self.alone = alone or price
        """The price of what is asked by itself."""
        self._most_usage = most_usage
        self._together = min(_TOGETHER, max(1, concurrency // 4))
        self.sendings = sendings
        """What the session sends and stores."""
        self._set_aside: dict[str, float] = {}
        self._aside = 0.0
        self._held_back: deque[Request] = deque()
        self._excess = 1.0
        """How many times as much as it could a request has taken: services that don't keep to the longest answer."""
        self.spent = spent
        """US dollars that the run can have cost at most."""

    def affordable(self, requests: Iterator[Request]) -> Iterator[Request]:
        """The requests, as long as there is money for one more; those that there is none for are held back.

        They are written down as sent before they are handed out.
        """
        while together := deque(islice(self.set_aside(requests), self._together)):
            self.sendings.let_out([(request.request_key, self._most_tokens(request)) for request in together])
            while together and not self._is_passed():
                yield together.popleft()
            if together:
                self._take_back(together)
                return

    def set_aside(self, requests: Iterator[Request]) -> Iterator[Request]:
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
        """Whether there is money to send a request once more whose last sending may have been paid; sets it aside."""
        if not self._take(request):
            return False
        self.sendings.let_out([(request.request_key, self._most_tokens(request))])
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
        """Holds back requests that were written down and not handed out."""
        for request in requests:
            self._free(request.request_key)
        self.sendings.take_back([request.request_key for request in requests])
        self._held_back.extendleft(reversed(requests))

    def _free(self, request_key: str) -> float:
        """Frees what was set aside for a request, and says how much it was."""
        most = self._set_aside.pop(request_key, 0.0)
        self._aside = self._aside - most if self._set_aside else 0.0
        return most

    def _most_tokens(self, request: Request) -> Usage:
        found = self._most_usage(request)
        if found is None:
            raise CostLimitError("--max-cost: nothing in what is sent says how long an answer may become")
        return found

    def most(self, request: Request) -> float:
        """The most that a request can cost, in US dollars."""
        return known_cost(self._most_tokens(request), self._price) * self._excess

    def settle(self, responses: Sequence[Response], price: Price | None = None) -> None:
        """Books what requests took, once their responses are stored; what nobody counted, as the most that it was.

        `price`: where it is not the purse's own.
        """
        for response in responses:
            most = self._free(response.request_key)
            known = known_cost(response.usage, price or self._price)
            if most:
                self._excess = max(self._excess, known / most)
            self.spent += known + known_cost(response.uncounted, price or self._price)

    def check(self) -> bool:
        """After all requests that were handed out are settled: whether there are more that can be paid.

        Raises:
            CostLimitError: where there are more and none of them can.
        """
        if not self._held_back:
            return False
        if self.spent + self.most(self._held_back[0]) > self._limit:
            uncounted = self.sendings.uncounted
            part = f" (part of it the most for {uncounted:,} requests that nobody counted)" if uncounted else ""
            raise CostLimitError(
                f"stopped at ${self.spent:.4f}{part}, before --max-cost {self._limit:g} would be passed; what arrived"
                " is kept, go on with the same command and a higher --max-cost"
            )
        return True


def held_by_batches(store: RunStore, most_usage: MostUsage, price: Price) -> float:
    """The most that open batches can still cost, in US dollars; those that were made without a limit too.

    `price`: of the model, for batches whose most was not written down.
    """
    ledger, held = BatchLedger(store), 0.0
    for batch in ledger.open_batches():
        held += batch.record.most_cost
        if not batch.record.most_cost:
            mosts = (most_usage(store.request(key)) for key in ledger.requests(batch))
            held += sum(known_cost(most, price) for most in mosts)
    return held
