"""The part of `mbbq-gen run` in which a model is asked: the bar, the money, the cache, what is said when it ends."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from mbbq_gen.cli.options import say
from mbbq_gen.cli.progress import Bar
from mbbq_gen.errors import UsageError

if TYPE_CHECKING:
    from mbbq_gen.providers.base import Provider
    from mbbq_gen.providers.prices import Price, PriceTable
    from mbbq_gen.records import Response
    from mbbq_gen.runs.asking import AskingSettings
    from mbbq_gen.runs.folder import RunFolder
    from mbbq_gen.runs.purse import Purse
    from mbbq_gen.runs.store import RunStore


def check_access(provider: Provider) -> None:
    """Makes sure that what asking needs is there (a key, say), for providers that can tell before they ask.

    Raises:
        UsageError: where it is not.
    """
    check = getattr(provider, "check_access", None)
    if check is not None:
        check()


def ask(folder: RunFolder, store: RunStore, provider: Provider, rules: AskingSettings) -> None:
    """Asks what has no answer yet, and says how far it is."""
    progress = store.progress()
    if not progress.pending:
        say("everything is answered already")
        return
    if progress.answered:
        say(f"{progress.answered:,} answered already, {progress.pending:,} to go")
    prices = own_prices(rules.price_file)
    if hasattr(provider, "on_notice"):
        provider.on_notice = say
    try:
        _ask(store, provider, rules, progress.pending)
    except KeyboardInterrupt:
        say(f"\nstopped; what arrived is kept. Go on with: mbbq-gen run {folder.path}")
        raise
    finally:
        keep_facts(folder, store, provider, prices)


def own_prices(price_file: str | Path | None) -> PriceTable:
    """The prices of a run: those of the user's file first.

    Raises:
        UsageError, DataError: where the user's file can't be read, or is wrong.
    """
    from mbbq_gen.providers.prices import read_prices

    return read_prices(Path(price_file) if price_file else None)


def keep_facts(folder: RunFolder, store: RunStore, provider: Provider, prices: PriceTable) -> None:
    """Writes into the manifest what was found out about the model, and what the run has cost."""
    from mbbq_gen.runs.money import bill_of

    manifest = folder.manifest()
    base_url: str | None = getattr(provider, "base_url", None)
    bill = None if base_url is None else bill_of(store, provider.kind, provider.model, prices, base_url)
    changes = {"provider_facts": {**manifest.provider_facts, **provider.facts()}, "bill": bill}
    changed = manifest.model_copy(update=changes)
    if changed != manifest:
        folder.write_manifest(changed)


def _ask(store: RunStore, provider: Provider, rules: AskingSettings, pending: int) -> None:
    from mbbq_gen.runs.cache import SharedCache
    from mbbq_gen.runs.runner import ErrorLimit, answer_pending

    purse = None if rules.max_cost is None else open_purse(store, provider, rules, rules.max_cost)
    copied = 0
    with ExitStack() as stack:
        cache = stack.enter_context(SharedCache(Path(rules.cache))) if rules.cache is not None else None
        bar = stack.enter_context(Bar("asking", pending, "answers"))

        def stored(responses: list[Response]) -> None:
            nonlocal copied
            copied += sum(response.from_cache for response in responses)
            bar.advance(len(responses))

        answer_pending(store, provider, stored, purse=purse, cache=cache, errors=ErrorLimit(rules.max_errors))
    if copied:
        say(f"{copied:,} answers came from the cache {rules.cache} and cost nothing")


def open_purse(
    store: RunStore, provider: Provider, rules: AskingSettings, limit: float, *, for_batches: bool = False
) -> Purse:
    """The money of a run, less what it has cost already, and less the most that open batches can cost.

    Raises:
        UsageError: where nobody knows what the model costs, or how long an answer may become.
    """
    from mbbq_gen.providers.prices import price_of
    from mbbq_gen.runs.money import spent
    from mbbq_gen.runs.purse import Purse, held_by_batches, most_usage_of
    from mbbq_gen.runs.uncounted import Sendings

    table = own_prices(rules.price_file)
    base_url: str | None = getattr(provider, "base_url", None)
    price = price_of(provider.kind, provider.model, table, base_url=base_url)
    name = f"{provider.kind}:{provider.model}"
    if price is None:
        raise UsageError(
            f"--max-cost: no price known for {name}{f' at {base_url}' if base_url else ''}; give it with --price-file"
            " (docs/apis.md shows one)"
        )
    most_usage, request = most_usage_of(provider), next(store.pending(), None)
    if request is not None and most_usage(request) is None:
        raise UsageError(
            f"--max-cost: nothing in what is sent to {name} says how long an answer may become; leave --max-cost out"
        )
    before = spent(store, provider.kind, provider.model, table, base_url)
    before += held_by_batches(store, most_usage, price)
    asked = batch_price(price, name) if for_batches else price
    concurrency = getattr(getattr(provider, "options", None), "concurrency", 1)
    return Purse(limit, asked, before, most_usage, Sendings(store), alone=price, concurrency=concurrency)


def batch_price(price: Price, name: str) -> Price:
    """The price of a model in batches, as if it were its only one.

    Raises:
        UsageError: where it is not known.
    """
    if price.batch_input is None or price.batch_output is None:
        raise UsageError(f"--max-cost: no batch price known for {name}; give it with --price-file (batch_input, …)")
    changes = {"input": price.batch_input, "output": price.batch_output, "cached_input": None}
    return price.model_copy(update=changes)
