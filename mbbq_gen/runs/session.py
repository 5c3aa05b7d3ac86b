"""One session in which a model is asked: the money, the cache, what is said when it ends, what is kept of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from mbbq_gen.errors import UsageError
from mbbq_gen.providers.base import Provider
from mbbq_gen.providers.prices import Price, price_of, read_prices
from mbbq_gen.records import Response
from mbbq_gen.runs.asking import AskingSettings
from mbbq_gen.runs.cache import SharedCache
from mbbq_gen.runs.folder import RunFolder
from mbbq_gen.runs.money import bill_of, spent
from mbbq_gen.runs.purse import Purse, held_by_batches, most_usage_of
from mbbq_gen.runs.reading_along import ReadingAlong
from mbbq_gen.runs.runner import Asked, ErrorLimit, answer_pending
from mbbq_gen.runs.store import RunStore
from mbbq_gen.runs.uncounted import Sendings
from mbbq_gen.runs.watching import Watcher


@dataclass(frozen=True)
class Session:
    """A run while it is asked: locked, its store open for writing."""

    folder: RunFolder
    store: RunStore
    provider: Provider
    rules: AskingSettings
    watcher: Watcher

    def keep_facts(self) -> None:
        """Writes into the manifest what was found out about the model, and what the run has cost."""
        store, provider, manifest = self.store, self.provider, self.folder.manifest()
        base_url: str | None = getattr(provider, "base_url", None)
        prices = read_prices(self.rules.price_file)
        bill = None if base_url is None else bill_of(store, provider.kind, provider.model, prices, base_url)
        changes = {"provider_facts": {**manifest.provider_facts, **provider.facts()}, "bill": bill}
        changed = manifest.model_copy(update=changes)
        if changed != manifest:
            self.folder.write_manifest(changed)


def check_access(provider: Provider) -> None:
    """Makes sure that what asking needs is there (a key, say), for providers that can tell before they ask.

    Raises:
        UsageError: where it is not.
    """
    check = getattr(provider, "check_access", None)
    if check is not None:
        check()


async def ask(session: Session, readings: ReadingAlong, *, close: bool = True) -> None:
    """Asks what has no answer yet, reads what comes meanwhile, and says how far it is.

    `close`: whether the provider is closed afterwards.
    """
    store, provider, rules = session.store, session.provider, session.rules
    pending = store.progress().pending
    if pending:
        read_prices(rules.price_file)  # a price file that is wrong is said before anything is asked
    try:
        await ask_pending(
            store,
            provider,
            rules,
            session.watcher,
            purse_of=lambda limit: open_purse(store, provider, rules, limit),
            hear=readings.hear,
            close=close,
        )
    finally:
        if pending:
            session.keep_facts()


async def ask_pending(
    asked: Asked,
    provider: Provider,
    rules: AskingSettings,
    watcher: Watcher,
    *,
    purse_of: Callable[[float], Purse],
    hear: Callable[[list[Response]], None] = lambda _: None,
    close: bool = True,
) -> None:
    """Asks what has no answer yet, and says how far it is.

    Args:
        asked: the plan of a run, or of a judge.
        provider: who is asked.
        rules: of asking.
        watcher: who is told.
        purse_of: the money that there is under a limit, in US dollars.
        hear: takes the answers once they are stored.
        close: whether the provider is closed afterwards.
    """
    progress = asked.progress()
    if not progress.pending:
        watcher.say("everything is answered already")
        return
    if progress.answered:
        watcher.say(f"{progress.answered:,} answered already, {progress.pending:,} to go")
    if hasattr(provider, "on_notice"):
        provider.on_notice = watcher.say
    purse = None if rules.max_cost is None else purse_of(rules.max_cost)
    copied = 0
    with ExitStack() as stack:
        cache = stack.enter_context(SharedCache(Path(rules.cache))) if rules.cache is not None else None
        advance = stack.enter_context(watcher.stage("asking", progress.pending))

        def stored(responses: list[Response]) -> None:
            nonlocal copied
            copied += sum(response.from_cache for response in responses)
            hear(responses)
            advance(len(responses))

        errors = ErrorLimit(rules.max_errors)
        await answer_pending(asked, provider, stored, purse=purse, cache=cache, errors=errors, close=close)
    if copied:
        watcher.say(f"{copied:,} answers came from the cache {rules.cache} and cost nothing")


def open_purse(
    store: RunStore, provider: Provider, rules: AskingSettings, limit: float, *, for_batches: bool = False
) -> Purse:
    """The money of a run, less what it has cost already, and less the most that open batches can cost.

    Raises:
        UsageError: where nobody knows what the model costs, or how long an answer may become.
    """
    base_url: str | None = getattr(provider, "base_url", None)
    before = spent(store, provider.kind, provider.model, read_prices(rules.price_file), base_url)
    before += held_by_batches(store, most_usage_of(provider), _price(provider, rules))
    return purse_with(store, provider, rules, limit, before, for_batches=for_batches)


def purse_with(
    asked: Asked, provider: Provider, rules: AskingSettings, limit: float, before: float, *, for_batches: bool = False
) -> Purse:
    """The money that there is under a limit, less the most that was spent before; raises as `open_purse`."""
    price, name = _price(provider, rules), f"{provider.kind}:{provider.model}"
    most_usage, request = most_usage_of(provider), next(asked.pending(), None)
    if request is not None and most_usage(request) is None:
        raise UsageError(
            f"--max-cost: nothing in what is sent to {name} says how long an answer may become; leave --max-cost out"
        )
    paid = batch_price(price, name) if for_batches else price
    concurrency = getattr(getattr(provider, "options", None), "concurrency", 1)
    return Purse(limit, paid, before, most_usage, Sendings(asked), alone=price, concurrency=concurrency)


def _price(provider: Provider, rules: AskingSettings) -> Price:
    """What the model costs.

    Raises:
        UsageError: where nobody knows.
    """
    base_url: str | None = getattr(provider, "base_url", None)
    price = price_of(provider.kind, provider.model, read_prices(rules.price_file), base_url=base_url)
    if price is None:
        raise UsageError(
            f"--max-cost: no price known for {provider.kind}:{provider.model}{f' at {base_url}' if base_url else ''};"
            " give it with --price-file (docs/apis.md shows one)"
        )
    return price


def batch_price(price: Price, name: str) -> Price:
    """The price of a model in batches, as if it were its only one.

    Raises:
        UsageError: where it is not known.
    """
    if price.batch_input is None or price.batch_output is None:
        raise UsageError(f"--max-cost: no batch price known for {name}; give it with --price-file (batch_input, …)")
    beyond = None if price.beyond is None else batch_price(price.beyond, name)
    changes = {"input": price.batch_input, "output": price.batch_output, "cached_input": None, "beyond": beyond}
    return price.model_copy(update=changes)
