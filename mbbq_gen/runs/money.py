"""What a run has cost so far: the tokens of its stored responses, times the price of who gave them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from mbbq_gen.providers.prices import Price, cost_of, price_of
from mbbq_gen.records import Record, Usage
from mbbq_gen.runs.store import RunStore
from mbbq_gen.runs.uncounted import Uncounted, load_uncounted, name_for

_TOTALS: Final = """
SELECT json_extract(record, '$.model') AS model, json_extract(record, '$.batch') IS NOT NULL AS batched,
  coalesce(json_extract(record, '$.from_cache'), 0) AS cached, count(*),
  total(json_extract(record, '$.usage.input_tokens')), total(json_extract(record, '$.usage.output_tokens')),
  total(json_extract(record, '$.usage.reasoning_tokens')), total(json_extract(record, '$.usage.cached_input_tokens')),
  count(*) FILTER (WHERE is_error = 0 AND (json_extract(record, '$.usage.input_tokens') IS NULL
    OR json_extract(record, '$.usage.output_tokens') IS NULL)),
  max(json_extract(record, '$.usage.input_tokens'))
FROM {answers} GROUP BY model, batched, cached ORDER BY model, batched, cached
"""


class Asked(NamedTuple):
    """Who was asked: its kind, the model that was asked for, and the server, None for the service's own."""

    kind: str
    model: str
    base_url: str | None


class Spending(Record):
    """What the answers of one model, asked in one way, took and cost."""

    model: str | None
    """The name under which the model or server answered; None where it gave none."""
    batch: bool
    """Whether they came in batches."""
    from_cache: bool
    """Whether they were copied from an earlier run, and so cost nothing here."""
    responses: int
    """Answers, and failures that were recorded."""
    input_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cached_input_tokens: int
    without_usage: int
    """Answers whose tokens nobody counted; the cost leaves them out."""
    cost: float | None
    """In US dollars; None where no price is known."""
    price: Price | None
    """The price that was used."""


class Bill(Record):
    """What a run has cost so far."""

    lines: tuple[Spending, ...]
    """One for each model and way of asking."""
    uncounted: int = 0
    """Requests of which nobody said what they took: answers without usage, tries that broke off or were killed."""
    uncounted_cost: float | None = 0.0
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
        return self.known + (self.uncounted_cost or 0.0)

    @property
    def input_tokens(self) -> int:
        """Of all answers that were paid for."""
        return sum(line.input_tokens for line in self.lines if not line.from_cache)

    @property
    def output_tokens(self) -> int:
        """Of all answers that were paid for."""
        return sum(line.output_tokens for line in self.lines if not line.from_cache)

    @property
    def without_usage(self) -> int:
        """Answers whose tokens nobody counted."""
        return sum(line.without_usage for line in self.lines if not line.from_cache)


def bill_of(store: RunStore, kind: str, model: str, own: tuple[Price, ...], base_url: str | None = None) -> Bill:
    """What the stored responses of a run took and cost.

    Args:
        store: the run.
        kind: the kind of provider that was asked.
        model: the model that was asked for: its price holds where the name in the answer has none.
        own: the prices of the user's file.
        base_url: the server that was asked; None for the service's own.
    """
    rows = store.query(_TOTALS.format(answers="responses"))
    return _bill(rows, load_uncounted(store), Asked(kind, model, base_url), own)


def judge_bill(
    store: RunStore, judge: str, own: tuple[Price, ...], *, kind: str, model: str, base_url: str | None = None
) -> Bill:
    """What the stored replies of a judge took and cost; the other arguments are those of `bill_of`."""
    rows = store.query(_TOTALS.format(answers="judge_replies WHERE judge = ?"), (judge,))
    return _bill(rows, load_uncounted(store, name_for(judge)), Asked(kind, model, base_url), own)


def _bill(rows: Iterable[Any], found: Uncounted, asked: Asked, own: tuple[Price, ...]) -> Bill:
    of_asked = price_of(asked.kind, asked.model, own, base_url=asked.base_url)
    lines = []
    for served, batched, cached, responses, read, written, reasoning, reused, uncounted, longest in rows:
        price = price_of(asked.kind, served, own, base_url=asked.base_url) if served else None
        price = price or of_asked
        price = None if price is None else price.at(longest)
        usage = Usage(input_tokens=int(read), output_tokens=int(written), cached_input_tokens=int(reused))
        lines.append(
            Spending(
                model=served,
                batch=bool(batched),
                from_cache=bool(cached),
                responses=responses,
                input_tokens=int(read),
                output_tokens=int(written),
                reasoning_tokens=int(reasoning),
                cached_input_tokens=int(reused),
                without_usage=uncounted,
                cost=_cost(usage, price, batch=bool(batched), free=bool(cached)),
                price=price,
            )
        )
    alone = _cost(found.asked.usage, of_asked, batch=False, free=False)
    together = _cost(found.in_batches.usage, of_asked, batch=True, free=False)
    return Bill(
        lines=tuple(lines),
        uncounted=found.asked.requests + found.in_batches.requests,
        uncounted_cost=None if alone is None or together is None else alone + together,
    )


def _cost(usage: Usage, price: Price | None, *, batch: bool, free: bool) -> float | None:
    """What tokens cost: nothing where they were not bought, or where there are none."""
    if free or not (usage.input_tokens or usage.output_tokens):
        return 0.0
    return None if price is None else cost_of(usage, price, batch)


def spent(store: RunStore, kind: str, model: str, own: tuple[Price, ...], base_url: str | None = None) -> float:
    """The most that a run can have cost so far, in US dollars, as far as prices are known."""
    return bill_of(store, kind, model, own, base_url).most
