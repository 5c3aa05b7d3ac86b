"""What a model costs: a dated table of prices, the user's own before ours, and the cost of what was used.

A price holds for a kind of provider, for some servers and some models. A name without a date stands for its dated
versions too (`gpt-4o-mini` for `gpt-4o-mini-2024-07-18`). Services that pass on makers' prices (OpenRouter, Azure)
have those by the model's name. What is in no table has no price, and nothing guesses one.
"""

from __future__ import annotations

import datetime
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pydantic import Field, ValidationError

from mbbq_gen.errors import DataError, UsageError
from mbbq_gen.languages import describe_fault
from mbbq_gen.records import NonBlank, Record, Usage

MILLION: Final = 1_000_000
OFFICIAL_HOSTS: Final = {
    "openai": "api.openai.com",
    "anthropic": "api.anthropic.com",
    "gemini": "generativelanguage.googleapis.com",
}
"""Where a kind of provider asks if no base URL is given."""
_VERSION = re.compile(r"(-\d{4}-\d{2}-\d{2}|-\d{8}|-\d{3}|-latest)$")
"""How services mark one version of a model: -2024-07-18, -20240307, -001, -latest."""


class Price(Record):
    """What a million tokens of a model cost, in US dollars."""

    kind: NonBlank
    """Kind of provider, as in `kind:model`."""
    hosts: tuple[str, ...] = ()
    """The servers for which it holds, `*` allowed; none: any."""
    models: tuple[NonBlank, ...] = Field(min_length=1)
    """Names of the models."""
    input: float = Field(ge=0)
    output: float = Field(ge=0)
    """Of all that the model writes, reasoning included."""
    cached_input: float | None = Field(default=None, ge=0)
    """Of input that the service had in its cache; None: as other input."""
    batch_input: float | None = Field(default=None, ge=0)
    """Through the batch API; None: unknown, or there is none."""
    batch_output: float | None = Field(default=None, ge=0)
    note: str | None = None
    """Under which condition it holds."""
    source: str | None = None
    """Where it was read."""
    date: datetime.date
    """The last day for which it was known to hold."""

    @property
    def has_batch(self) -> bool:
        """Whether the batch price is known."""
        return self.batch_input is not None and self.batch_output is not None


@dataclass(frozen=True)
class PriceTable:
    """Prices in the order in which they are looked up: the user's own first."""

    prices: tuple[Price, ...]


class _PriceFile(Record):
    """A price file as it stands."""

    price: tuple[Price, ...]


def read_prices(own: Path | None = None) -> PriceTable:
    """The table that ships, after the user's own if there is one.

    Raises:
        UsageError: where the user's file can't be read.
        DataError: where it is wrong: file, entry, value.
    """
    return PriceTable((*(_read(own) if own is not None else ()), *_shipped()))


def _read(path: Path) -> tuple[Price, ...]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--price-file {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 ({error.reason}); save the file as UTF-8") from error
    return _parse(text, str(path))


@cache
def _shipped() -> tuple[Price, ...]:
    resource = files("mbbq_gen.providers").joinpath("prices.toml")
    return _parse(resource.read_text(encoding="utf-8"), "prices.toml")


def _parse(text: str, name: str) -> tuple[Price, ...]:
    try:
        content = tomllib.loads(text)
        return _PriceFile.model_validate(content).price
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{name}: not TOML: {error}") from error
    except ValidationError as error:
        raise DataError(f"{name}: {describe_fault(error, content)}") from error


def price_of(kind: str, model: str, table: PriceTable | None = None, *, base_url: str | None = None) -> Price | None:
    """The price of a model on a server, or None where no table tells it.

    Args:
        kind: the kind of provider, as in `kind:model`.
        model: the model's name, as it is asked for or as the server answers to it.
        table: where to look; None for the table that ships.
        base_url: the server that is asked; None for the service's own.
    """
    host = OFFICIAL_HOSTS.get(kind) if base_url is None else urlsplit(base_url).hostname
    found = (table or read_prices()).prices
    return _listed(kind, model, host, found) or _resold(model, host, found)


def _listed(kind: str, model: str, host: str | None, prices: Iterable[Price]) -> Price | None:
    """The first price that holds for a kind, a host and a model's name."""
    known = tuple(prices)
    for name in _names(model):
        for price in known:
            if price.kind == kind and name in price.models and _holds_at(price, host):
                return price
    return None


@dataclass(frozen=True)
class _Reseller:
    """A service that sells others' models at their makers' prices."""

    name: str
    hosts: tuple[str, ...]
    makers: Mapping[str, str]
    """What stands before a model's name → the kind of provider of its maker; `` where nothing does."""
    has_batches: bool


_RESELLERS: Final = (
    _Reseller(
        "Azure (global standard)",
        ("*.openai.azure.com", "*.cognitiveservices.azure.com", "*.services.ai.azure.com"),
        {"": "openai"},
        has_batches=True,
    ),
    _Reseller(
        "OpenRouter",
        ("openrouter.ai",),
        {"openai": "openai", "anthropic": "anthropic", "google": "gemini"},
        has_batches=False,
    ),
)


def _resold(model: str, host: str | None, prices: tuple[Price, ...]) -> Price | None:
    """The maker's price of a model, at a host that passes it on."""
    for reseller in _RESELLERS:
        if host is None or not any(fnmatchcase(host, pattern) for pattern in reseller.hosts):
            continue
        maker, _, name = model.rpartition("/")
        kind = reseller.makers.get(maker)
        if kind is None or ":" in name:  # `:free` and its like are other offers
            return None
        for spelled in (name, name.replace(".", "-")):
            price = _listed(kind, spelled, OFFICIAL_HOSTS[kind], prices)
            if price is not None:
                return _passed_on(price, reseller)
    return None


def _passed_on(price: Price, reseller: _Reseller) -> Price:
    said = f"the maker's price, as {reseller.name} passes it on"
    changes: dict[str, object] = {"note": f"{price.note}; {said}" if price.note else said}
    if not reseller.has_batches:
        changes |= {"batch_input": None, "batch_output": None}
    return price.model_copy(update=changes)


def _names(model: str) -> Iterator[str]:
    """The name, then the name without its version."""
    yield model
    plain = _VERSION.sub("", model)
    if plain != model:
        yield plain


def _holds_at(price: Price, host: str | None) -> bool:
    return not price.hosts or (host is not None and any(fnmatchcase(host, pattern) for pattern in price.hosts))


def cost_of(usage: Usage, price: Price, batch: bool = False) -> float | None:
    """What an answer cost, in US dollars; None where its tokens, or the batch price, are not known.

    In a batch, cached input is counted as other input, which is never too little.
    """
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    if batch:
        if price.batch_input is None or price.batch_output is None:
            return None
        return (usage.input_tokens * price.batch_input + usage.output_tokens * price.batch_output) / MILLION
    cached = min(usage.cached_input_tokens or 0, usage.input_tokens)
    dear = price.input if price.cached_input is None else price.cached_input
    fresh = usage.input_tokens - cached
    return (fresh * price.input + cached * dear + usage.output_tokens * price.output) / MILLION
