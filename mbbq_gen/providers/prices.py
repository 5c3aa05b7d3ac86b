"""Prices of models, costs of answers and estimated tokens: the user's price file first, then genai-prices.

genai-prices (https://github.com/pydantic/genai-prices) is read offline. Its prices are used only at the servers in
`_SELLERS`, and only for models that it names in full (it also matches parts of names). A name without a version covers
its versions (`gpt-4o-mini` covers `gpt-4o-mini-2024-07-18`). A cost may be too high, never too low:

* Where longer requests cost more, the price of `_LONGEST` input tokens, which is more than any question has.
* Cached input has a price of its own only if the service counted it. If a service charges more for input that it writes
  to its cache, that price is used for all input.
* Prices that change with the hour: the highest of the day. A price of 0 is not used, since it also means unknown.
* OpenRouter: only models that are sold by their makers alone. Bedrock: two regions. Vertex AI: the global address.
* Batches: the service's discount.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from pydantic import Field

from mbbq_gen.core.errors import DataError, PackError, UsageError
from mbbq_gen.core.records import FrozenModel, NonBlank, Usage
from mbbq_gen.languages.packs import Pack, read_toml, validate_pack
from mbbq_gen.providers.http.servers import known_services

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice

MILLION: Final = 1_000_000
OFFICIAL_HOSTS: Final = {
    "openai": "api.openai.com",
    "anthropic": "api.anthropic.com",
    "gemini": "generativelanguage.googleapis.com",
    "bedrock": None,
}
"""Kinds of providers with prices in genai-prices → host of the default base URL."""
_TABLES: Final = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_SELLERS: Final[Mapping[str, Sequence[str]]] = {
    **{urlsplit(service.base_url).netloc: service.sellers for service in known_services().values()},
    **_TABLES["sellers"],
}
_SOLD_BY_MAKERS: Final = re.compile(r"(openai/(?!gpt-oss)|anthropic/|google/gemini-|x-ai/)[^:]+")
"""OpenRouter models with one price at all hosts; variants such as `:free` are excluded."""
_VERSION: Final = re.compile(r"(-\d{4}-\d{2}-\d{2}|[-@]\d{8}|-\d{3}|-latest|-v\d+(:\d+)?)+$")
"""Version suffixes of model names: -2024-07-18, -20240307, @20240307, -001, -latest, -v1:0."""
_LONGEST: Final = 100_000
"""Maximum input tokens of a request for which prices of genai-prices are valid."""
_REGION: Final = re.compile(r"^(regional|global|us|eu|apac|au|jp|in)\.")
"""Region prefixes of model names on Bedrock."""


class Price(FrozenModel):
    """The price of a million tokens of a model, in US dollars."""

    kind: NonBlank
    hosts: tuple[str, ...] = ()
    """The servers for which the price is valid, `*` allowed; empty: any."""
    models: tuple[NonBlank, ...] = Field(min_length=1)
    input: float = Field(ge=0)
    output: float = Field(ge=0)
    """Price of output tokens, reasoning included."""
    cached_input: float | None = Field(default=None, ge=0)
    """Price of input tokens from the service's cache; None: as other input."""
    batch_input: float | None = Field(default=None, ge=0)
    """Price through the batch API; None: unknown, or there is none."""
    batch_output: float | None = Field(default=None, ge=0)
    note: str | None = None
    source: str | None = None
    date: date | None
    """The last day on which the price was known to be valid; None: see `source`."""

    @property
    def version(self) -> str:
        """The last day on which the price was known to be valid, or the package with its version."""
        return self.date.isoformat() if self.date else str(self.source)


class _PriceFile(Pack):
    price: tuple[Price, ...]


def read_prices(path: str | Path | None) -> tuple[Price, ...]:
    """The prices in the user's file, if any; raises UsageError if unreadable, DataError if invalid."""
    if not path:
        return ()
    try:
        return validate_pack(_PriceFile, read_toml(Path(path)), Path(path)).price
    except UsageError as error:
        raise UsageError(f"--prices {error}") from error
    except PackError as error:
        raise DataError(str(error)) from error


def price_of(kind: str, model: str, own: Iterable[Price] = (), *, base_url: str | None = None) -> Price | None:
    """The price of a model at `base_url` (None: the default), or None if unknown; `own` prices come first."""
    host = OFFICIAL_HOSTS.get(kind) if base_url is None else urlsplit(base_url).hostname
    own, names = tuple(own), list(dict.fromkeys((model, _VERSION.sub("", model))))
    for name in names:
        for price in own:
            holds = not price.hosts or any(host is not None and fnmatchcase(host, pattern) for pattern in price.hosts)
            if price.kind == kind and name in price.models and holds:
                return price
    if host is None or kind not in OFFICIAL_HOSTS:
        return None
    sellers = next((ids for pattern, ids in _SELLERS.items() if fnmatchcase(host, pattern)), ())
    if not sellers or ("openrouter" in sellers and not _SOLD_BY_MAKERS.fullmatch(model)):
        return None
    from genai_prices.data_snapshot import get_snapshot

    providers = {provider.id: provider for provider in get_snapshot().providers}
    for name in names:
        for seller in sellers:
            found = providers[seller].find_model(name) if seller in providers else None
            if found is not None and _bare_name(name) in map(_bare_name, (found.id, *_names_in(found.match))):
                return _price_from(found, kind, sellers[0])
    return None


def _bare_name(name: str) -> str:
    """A model name without region and version."""
    return _VERSION.sub("", _REGION.sub("", name.lower()))


def _names_in(rule: Any) -> Iterator[str]:
    """The names in a matching rule of genai-prices (equals, starts with, ends with, contains)."""
    for value in vars(rule).values():
        if isinstance(value, str):
            yield value
        else:
            for inner in value:
                yield from _names_in(inner)


def _price_from(model: ModelInfo, kind: str, seller: str) -> Price | None:
    """The price of a model in genai-prices, by the rules above; None if not per token, or 0."""
    from genai_prices import __version__
    from genai_prices.types import TimeOfDateConstraint

    now = datetime.now(UTC)
    usual = model.get_prices(now)
    changing = model.prices if isinstance(model.prices, list) else []
    offers = [usual, *(each.prices for each in changing if isinstance(each.constraint, TimeOfDateConstraint))]
    discount = _TABLES["batch_discounts"].get(seller)
    read = ["input_mtok"] if "claude" in model.id else ["input_mtok", "cache_write_mtok"]
    incoming, outgoing = _highest(offers, read), _highest(offers, ["output_mtok"])
    if incoming is None or outgoing is None or incoming == outgoing == 0 or usual.requests_kcount:
        return None
    return Price(
        kind=kind,
        models=(model.id,),
        input=incoming,
        output=outgoing,
        cached_input=_highest(offers, ["cache_read_mtok"]),
        batch_input=None if discount is None else incoming * discount,
        batch_output=None if discount is None else outgoing * discount,
        source=f"genai-prices {__version__}",
        date=None,
    )


def _highest(offers: Iterable[ModelPrice], keys: Iterable[str]) -> float | None:
    """The highest of these prices for a request with `_LONGEST` input tokens; None if there is none."""
    found = []
    for value in (getattr(offer, key) for offer in offers for key in keys):
        if value is not None:
            reached = [tier.price for tier in getattr(value, "tiers", ()) if tier.start < _LONGEST]
            found.append(float(reached[-1] if reached else getattr(value, "base", value)))
    return max(found, default=None)


def cost_of(usage: Usage, price: Price, batch: bool = False) -> float | None:
    """The cost of an answer in US dollars; None if its tokens or the batch price are unknown.

    In a batch, cached input costs as much as other input.
    """
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    if batch:
        if price.batch_input is None or price.batch_output is None:
            return None
        return (usage.input_tokens * price.batch_input + usage.output_tokens * price.batch_output) / MILLION
    cached = min(usage.cached_input_tokens or 0, usage.input_tokens)
    cached_price = price.input if price.cached_input is None else price.cached_input
    uncached = usage.input_tokens - cached
    return (uncached * price.input + cached * cached_price + usage.output_tokens * price.output) / MILLION


MESSAGE_TOKENS: Final = 4
"""Tokens of a message in addition to its text: its role and its end."""


def estimate_tokens(text: str) -> float:
    """The approximate number of tokens of a text."""
    return sum(map(_tokens_per_character, text))


@lru_cache(maxsize=8192)
def _tokens_per_character(character: str) -> float:
    """The approximate number of tokens of a character."""
    sizes: Mapping[str, float] = _TABLES["characters_a_token"]
    if character.isascii():
        return 1 / sizes["LATIN"]
    script = unicodedata.name(character, "").split(" ", 1)[0]
    return 1.0 if script == "LATIN" else 1 / sizes.get(script, sizes[""])
