"""`--max-cost`: hands out only those requests that the money is enough for, whatever they turn out to take.

Before a request is sent, the most that it can cost is set aside: every byte of it a token (no tokeniser makes more),
and an answer of full length. When its answer is there, what it really took is spent and the rest is free again. So the
limit is never passed, and only the last few requests under way stand between the spending and the limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mbbq_gen.errors import RunError
from mbbq_gen.providers.prices import Price, cost_of
from mbbq_gen.records import Request, Response, Usage

_TURN_TOKENS: Final = 16
"""Tokens that a chat template may put round a message."""


class CostLimitError(RunError):
    """The run stopped because it would have become dearer than it may."""


class Purse:
    """The money of a run."""

    def __init__(self, limit: float, price: Price, spent: float, longest_answer: int) -> None:
        """`spent` is what the run has cost before, in US dollars; `longest_answer` is in tokens."""
        self._limit = limit
        self._price = price
        self._longest = longest_answer
        self._set_aside: dict[str, float] = {}
        self._aside = 0.0
        self._held_back: Request | None = None
        self.spent = spent
        """US dollars that the run has cost."""

    def affordable(self, requests: Iterator[Request]) -> Iterator[Request]:
        """The requests, as long as there is money for one more; the first that there is none for is held back."""
        while True:
            request = self._held_back or next(requests, None)
            self._held_back = None
            if request is None:
                return
            most = self.most(request)
            if self.spent + self._aside + most > self._limit:
                self._held_back = request
                return
            self._set_aside[request.request_key] = most
            self._aside += most
            yield request

    def most(self, request: Request) -> float:
        """The most that a request can cost."""
        read = sum(len(message.content.encode()) + _TURN_TOKENS for message in request.messages) + _TURN_TOKENS
        cost = cost_of(Usage(input_tokens=read, output_tokens=self._longest), self._price)
        assert cost is not None  # both counts are given
        return cost

    def settle(self, response: Response) -> None:
        """Books what a request took; where nobody says, the most that it can have taken."""
        most = self._set_aside.pop(response.request_key, 0.0)
        self._aside = self._aside - most if self._set_aside else 0.0
        cost = cost_of(response.usage, self._price)
        self.spent += most if cost is None else cost

    def check(self) -> bool:
        """After all requests that were handed out are settled: whether there are more that can be paid.

        Raises:
            CostLimitError: where there are more and none of them can.
        """
        if self._held_back is None:
            return False
        if self.spent + self.most(self._held_back) > self._limit:
            raise CostLimitError(
                f"stopped at ${self.spent:.4f}, before --max-cost {self._limit:g} would be passed; what arrived is"
                " kept, go on with the same command and a higher --max-cost"
            )
        return True
