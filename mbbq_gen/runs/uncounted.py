"""Tokens that a run may have taken and that nobody counted, in its store: the part of its cost that is not known.

    lost        answers that came without a count of tokens, and tries that broke off: the most that they can have taken
    under_way   what a purse has let out and nothing has come of yet, written down before it is sent; what is left there
                when a process ends was perhaps paid, so the next one counts it as lost
    in_batches  as lost, of answers that came in batches

They change in the transaction that stores the answers, so no moment of `kill -9` can make them too small.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol, Self

from mbbq_gen.records import Record, Response, Usage

NAME: Final = "uncounted"
"""The name of the value that a run keeps."""


class Kept(Protocol):
    """What holds responses, and values beside them: the store of a run, or what a judge keeps there."""

    def meta(self, name: str, /) -> str | None:
        """A value, or None."""

    def set_meta(self, name: str, value: str, /) -> None:
        """Keeps a value; durable when this returns."""

    def add_responses(self, responses: Sequence[tuple[Response, str]], meta: Mapping[str, str] = ..., /) -> None:
        """Stores what came back, each with its time, and values that change with it; durable when this returns."""


def name_for(judge: str) -> str:
    """The name of the value that a run keeps for one of its judges."""
    return f"{NAME}:{judge}"


class Tokens(Record):
    """So many tokens of so many requests."""

    requests: int = 0
    """An answer whose tokens nobody counted is one, and so are all tries of a request that broke off."""
    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            requests=self.requests + other.requests,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
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


class Uncounted(Record):
    """All of them."""

    lost: Tokens = Tokens()
    under_way: Tokens = Tokens()
    in_batches: Tokens = Tokens()

    @property
    def asked(self) -> Tokens:
        """Of what was asked one by one."""
        return self.lost + self.under_way


def load_uncounted(store: Kept, name: str = NAME) -> Uncounted:
    """What a run, or the judge of that name, may have taken uncounted so far; another process may be asking."""
    text = store.meta(name)
    return Uncounted() if text is None else Uncounted.model_validate_json(text)


class Sendings:
    """What one session of asking sends and stores. Made under the run's lock, before anything is sent."""

    def __init__(self, store: Kept) -> None:
        """What an earlier session left under way counts as lost from now on."""
        self._store = store
        before = load_uncounted(store)
        self._lost, self._in_batches = before.asked, before.in_batches
        self._under_way: dict[str, list[Usage]] = {}
        if before.under_way.requests:
            self._write()

    @property
    def uncounted(self) -> int:
        """Requests of which nobody said what they took."""
        return self._lost.requests + self._in_batches.requests

    def let_out(self, sendings: Iterable[tuple[str, Usage]]) -> None:
        """Writes down what is about to be sent: request key and the most tokens; durable when this returns."""
        for key, most in sendings:
            self._under_way.setdefault(key, []).append(most)
        self._write()

    def take_back(self, request_keys: Iterable[str]) -> None:
        """Strikes out what was let out and not sent."""
        for key in request_keys:
            self._under_way.pop(key, None)
        self._write()

    def end(self, in_doubt: Mapping[str, int]) -> None:
        """At the end of a session, strikes out what was let out and never sent, or sent for nothing.

        Args:
            in_doubt: request key → how often it was sent and may have been paid.
        """
        kept = {key: mosts[: in_doubt.get(key, 0)] for key, mosts in self._under_way.items()}
        if kept != self._under_way:
            self._under_way = {key: mosts for key, mosts in kept.items() if mosts}
            self._write()

    def store_responses(self, responses: list[tuple[Response, str]]) -> None:
        """Stores responses, each with its time, and what they took uncounted; durable when this returns."""
        lost, in_batches = self._lost, self._in_batches
        for response, _ in responses:
            if response.uncounted is None or response.from_cache:
                continue
            if response.batch is None:
                lost += Tokens.of(response.uncounted)
            else:
                in_batches += Tokens.of(response.uncounted)
        arrived = {response.request_key for response, _ in responses}
        left = {key: mosts for key, mosts in self._under_way.items() if key not in arrived}
        after = Uncounted(lost=lost, under_way=_sum(left), in_batches=in_batches)
        changed = len(left) < len(self._under_way) or lost != self._lost or in_batches != self._in_batches
        self._store.add_responses(responses, {NAME: after.model_dump_json()} if changed else {})
        self._lost, self._in_batches, self._under_way = lost, in_batches, left

    def lose_in_batch(self, most: Usage) -> None:
        """Writes down an answer of a batch that was paid and can't be read."""
        self._in_batches += Tokens.of(most)
        self._write()

    def _write(self) -> None:
        state = Uncounted(lost=self._lost, under_way=_sum(self._under_way), in_batches=self._in_batches)
        self._store.set_meta(NAME, state.model_dump_json())


def _sum(under_way: Mapping[str, list[Usage]]) -> Tokens:
    mosts = [most for sent in under_way.values() for most in sent]
    return Tokens(
        requests=len(under_way),
        input_tokens=sum(most.input_tokens or 0 for most in mosts),
        output_tokens=sum(most.output_tokens or 0 for most in mosts),
    )
