"""Counts what was asked and what came of it, by the digest of the messages: tests ask it who was asked twice."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from mbbq_gen.records import Record


class Stats(Record):
    """What the server has seen since its start or the last reset."""

    requests: int
    """Questions that came in, each attempt counted, batches' questions not."""
    answered: int
    """Questions whose answer was sent whole."""
    paid: int
    """Questions that the model answered, whether or not the answer reached anybody; batches' questions too."""
    distinct: int
    """Different questions."""
    distinct_paid: int
    """Different questions that the model answered at least once."""
    paid_again: int
    """Answers beyond the first to the same question."""
    most_asked: int
    """How often the question that was asked most often was asked."""
    too_early: int
    """Attempts that came before the Retry-After of the same question was over."""
    in_flight: int
    """Questions being answered now."""
    peak_in_flight: int
    """Most questions being answered at the same time."""
    abandoned: int
    """Questions whose client went away before the answer was sent."""
    by_status: dict[str, int]
    """HTTP status → questions answered so."""
    by_fault: dict[str, int]
    """Fault → how often it happened; `pace` is a rate limit that was really passed."""
    by_verdict: dict[str, int]
    """Verdict (filtered, refused…) → how often."""
    by_route: dict[str, int]
    """Method and path → requests of every kind."""
    unrecognised: int
    """Questions that the oracle did not know."""
    input_tokens: int
    output_tokens: int
    seconds: float
    """From the first question's arrival to the last answer's end."""
    batches: int
    """Batches created."""


class Count(Record):
    """How often one question was asked and answered."""

    digest: str
    asked: int
    paid: int


class Ledger:
    """The counts; `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.reset()

    def reset(self) -> None:
        """Forgets everything but what is in flight."""
        self._asked: Counter[str] = Counter()
        self._paid: Counter[str] = Counter()
        self._attempts: Counter[str] = Counter()
        self._not_before: dict[str, float] = {}
        self._first: float | None = None
        self._last: float | None = None
        self._in_flight = getattr(self, "_in_flight", 0)
        self._peak = self._in_flight
        self._requests = self._answered = self._too_early = self._abandoned = 0
        self.by_status: Counter[str] = Counter()
        self.by_fault: Counter[str] = Counter()
        self.by_verdict: Counter[str] = Counter()
        self.by_route: Counter[str] = Counter()
        self.unrecognised = self.input_tokens = self.output_tokens = self.batches = 0

    @property
    def in_flight(self) -> int:
        """Questions being answered now."""
        return self._in_flight

    @property
    def paid(self) -> int:
        """Questions that the model answered."""
        return self._paid.total()

    def arrive(self, digest: str) -> None:
        """A question comes in."""
        now = self._clock()
        self._first = now if self._first is None else self._first
        self._requests += 1
        self._in_flight += 1
        self._peak = max(self._peak, self._in_flight)
        self._asked[digest] += 1
        if now < self._not_before.pop(digest, now):
            self._too_early += 1

    def attempt(self, digest: str) -> int:
        """Counts an attempt that may meet a fault; says how many there were before."""
        before = self._attempts[digest]
        self._attempts[digest] = before + 1
        return before

    def ask_to_wait(self, digest: str, seconds: float) -> None:
        """A client was told when to come back."""
        self._not_before[digest] = self._clock() + seconds

    def pay(self, digest: str) -> None:
        """The model answers a question."""
        self._paid[digest] += 1

    def leave(self, status: int, *, reached: bool, is_answer: bool) -> None:
        """A question is over; `is_answer`: a whole, readable answer was meant to be sent."""
        self._last = self._clock()
        self._in_flight -= 1
        if reached:
            self.by_status[str(status)] += 1
            self._answered += is_answer
        elif is_answer:
            self._abandoned += 1

    def stats(self) -> Stats:
        """All counts."""
        return Stats(
            requests=self._requests,
            answered=self._answered,
            paid=self.paid,
            distinct=len(self._asked),
            distinct_paid=len(self._paid),
            paid_again=self.paid - len(self._paid),
            most_asked=max(self._asked.values(), default=0),
            too_early=self._too_early,
            in_flight=self._in_flight,
            peak_in_flight=self._peak,
            abandoned=self._abandoned,
            by_status=dict(self.by_status),
            by_fault=dict(self.by_fault),
            by_verdict=dict(self.by_verdict),
            by_route=dict(self.by_route),
            unrecognised=self.unrecognised,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            seconds=0.0 if self._first is None or self._last is None else self._last - self._first,
            batches=self.batches,
        )

    def count(self, digest: str) -> Count:
        """How often one question was asked and answered."""
        return Count(digest=digest, asked=self._asked[digest], paid=self._paid[digest])

    def counts(self) -> list[Count]:
        """The same for every question."""
        return [self.count(digest) for digest in {**self._asked, **self._paid}]
