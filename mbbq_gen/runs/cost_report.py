"""What a run or a judge has cost, from its stored responses."""

from __future__ import annotations

from mbbq_gen.core.records import FrozenModel, Usage
from mbbq_gen.providers.prices import Price, cost_of, price_of
from mbbq_gen.runs.budget import load_unmetered
from mbbq_gen.storage.queries import usage_totals
from mbbq_gen.storage.store import RunStore


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
