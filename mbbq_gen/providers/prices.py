"""What a model costs: the user's price file first, then the prices that come with genai-prices.

genai-prices (https://github.com/pydantic/genai-prices) is read offline, as it is installed. Its prices are used at the
servers of `_SELLERS` only, and only for models that it names: it also matches models by parts of their names, which
would give a price to models that nobody knows. A name without a version stands for its versions too (`gpt-4o-mini` for
`gpt-4o-mini-2024-07-18`). A model without a price has none; nothing is guessed.

A cost may be too high, never too low:

* Long prompts: the price of a request depends on its input tokens. Sums of several requests have the price of the
  longest; where its length is unknown, the highest price holds.
* Cached input has its own price only where the service counted it. Services that charge more for input which they write
  to their cache on their own, have that price for all input.
* Prices that change with the hour have the highest of the day.
* A price of 0 is not used: it also stands for an unknown one.
* OpenRouter has a price for models that only their makers sell; other models cost what the chosen host takes. Bedrock
  has prices for the two regions of its price list, Vertex for its global address.
* Batches cost what genai-prices says; where it says nothing, the discount of the service.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from pydantic import Field, ValidationError

from mbbq_gen.core.errors import DataError, PackError, UsageError, describe_fault
from mbbq_gen.core.records import FrozenModel, NonBlank, Usage
from mbbq_gen.languages.packs import read_toml
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
"""Kinds of provider that genai-prices knows → the server where no base URL is given."""
_SELLERS: Final[Mapping[str, tuple[str, ...]]] = {
    **{urlsplit(service.base_url).netloc: service.sellers for service in known_services().values()},
    "api.anthropic.com": ("anthropic",),
    "generativelanguage.googleapis.com": ("google",),
    "aiplatform.googleapis.com": ("google",),
    "bedrock-runtime.us-east-1.amazonaws.com": ("aws",),
    "bedrock-runtime.us-west-2.amazonaws.com": ("aws",),
    "*.openai.azure.com": ("azure", "openai"),
    "*.cognitiveservices.azure.com": ("azure", "openai"),
    "*.services.ai.azure.com": ("azure", "openai"),
}
"""Server → ids of the providers in genai-prices whose prices hold there, the first before the others."""
_BATCH_DISCOUNTS: Final = {
    "anthropic": 0.5,  # https://platform.claude.com/docs/en/about-claude/pricing
    "azure": 0.5,  # https://azure.microsoft.com/pricing/details/cognitive-services/openai-service/
    "google": 0.5,  # https://ai.google.dev/gemini-api/docs/pricing
    "groq": 0.5,  # https://groq.com/pricing
    "mistral": 0.5,  # https://mistral.ai/pricing/api
    "openai": 0.5,  # https://openai.com/api/pricing/
}
"""Provider in genai-prices → what batches cost, as a part of the price; services that are missing have no batches."""
_SOLD_BY_MAKERS: Final = re.compile(r"(openai/(?!gpt-oss)|anthropic/|google/gemini-|x-ai/)[^:]+")
"""Models at OpenRouter that cost the same at each of its hosts; `:free` and its like are other offers."""
_VERSION: Final = re.compile(r"(-\d{4}-\d{2}-\d{2}|[-@]\d{8}|-\d{3}|-latest|-v\d+(:\d+)?)+$")
"""How services mark one version of a model: -2024-07-18, -20240307, @20240307, -001, -latest, -v1:0."""
_REGION: Final = re.compile(r"^(regional|global|us|eu|apac|au|jp|in)\.")
"""How Bedrock marks where a model runs."""


class Price(FrozenModel):
    """What a million tokens of a model cost, in US dollars."""

    kind: NonBlank
    hosts: tuple[str, ...] = ()
    """The servers for which it holds, `*` allowed; none: any."""
    models: tuple[NonBlank, ...] = Field(min_length=1)
    input: float = Field(ge=0)
    output: float = Field(ge=0)
    """Of all that the model writes, reasoning included."""
    cached_input: float | None = Field(default=None, ge=0)
    """Of input that the service had in its cache; None: as other input."""
    batch_input: float | None = Field(default=None, ge=0)
    """Through the batch API; None: unknown, or there is none."""
    batch_output: float | None = Field(default=None, ge=0)
    note: str | None = None
    source: str | None = None
    date: date | None
    """The last day for which it was known to hold; None where `source` tells the version."""
    up_to: int | None = None
    """The most input tokens of a request for which it holds; None: any number."""
    beyond: Price | None = None

    @property
    def has_batch(self) -> bool:
        """Whether the batch price is known."""
        return self.batch_input is not None and self.batch_output is not None

    @property
    def version(self) -> str:
        """The day for which it was known to hold, or the package with its version."""
        return self.date.isoformat() if self.date else str(self.source)

    def at(self, longest: int | None) -> Price:
        """The price of requests with so many input tokens at most; None where that is unknown: the highest."""
        if self.beyond is not None and (longest is None or self.up_to is None or longest > self.up_to):
            return self.beyond.at(longest)
        return self.model_copy(update={"up_to": None, "beyond": None})


class _PriceFile(FrozenModel):
    price: tuple[Price, ...]


def read_prices(path: str | Path | None) -> tuple[Price, ...]:
    """The prices of the user's file; none without a file.

    Raises:
        UsageError: where it can't be read.
        DataError: where it is wrong: file, entry, value.
    """
    if not path:
        return ()
    try:
        content = read_toml(Path(path))
    except UsageError as error:
        raise UsageError(f"--prices {error}") from error
    except PackError as error:
        raise DataError(str(error)) from error
    try:
        return _PriceFile.model_validate(content).price
    except ValidationError as error:
        raise DataError(f"{path}: {describe_fault(error, content)}") from error


def price_of(kind: str, model: str, own: Iterable[Price] = (), *, base_url: str | None = None) -> Price | None:
    """The price of a model on a server, or None where it is unknown.

    Args:
        kind: the kind of provider, as in `kind:model`.
        model: the model's name, as it is requested or as the server answers to it.
        own: the user's prices, which come first.
        base_url: the server; None for the service's own.
    """
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
            if found is not None and _plain(name) in map(_plain, (found.id, *_words_of(found.match))):
                return _price_from(found, kind, sellers[0])
    return None


def _plain(name: str) -> str:
    """A name without region and version, to compare it."""
    return _VERSION.sub("", _REGION.sub("", name.lower()))


def _words_of(rule: Any) -> Iterator[str]:
    """The names in a rule of genai-prices, which says how a model's name is, begins, ends, or what it contains."""
    for value in vars(rule).values():
        if isinstance(value, str):
            yield value
        else:
            for inner in value:
                yield from _words_of(inner)


def _price_from(model: ModelInfo, kind: str, seller: str) -> Price | None:
    """The price of a model of genai-prices, as the module says; None where it is not by tokens, or 0."""
    from genai_prices import __version__
    from genai_prices.types import TimeOfDateConstraint

    now = datetime.now(UTC)
    usual, batch = model.get_prices(now), model.get_prices(now, {"processing": "batch"})
    changing = model.prices if isinstance(model.prices, list) else []
    hourly = [each.prices for each in changing if isinstance(each.constraint, TimeOfDateConstraint)]
    offers, discount = [usual, *hourly], _BATCH_DISCOUNTS.get(seller)
    read = ("input_mtok",) if "claude" in model.id else ("input_mtok", "cache_write_mtok")
    keys = (*read, "output_mtok", "cache_read_mtok")
    values = [getattr(offer, key) for offer in (*offers, batch) for key in keys]
    tiers = sorted({tier.start for value in values for tier in getattr(value, "tiers", ())})
    notes = [f"requests of up to {tiers[0]:,} input tokens, longer ones cost more"] if tiers else []
    notes += ["the dearest hours of the day"] if hourly else []
    if _dearest([usual], read, 1) != _dearest([usual], ("input_mtok",), 1):
        notes.append("input as if the service wrote it to its cache")
    notes += ["global standard deployments, others cost more"] if seller == "azure" else []
    price = None
    for start, end in reversed(list(zip([0, *tiers], [*tiers, None], strict=True))):
        tokens = start + 1
        paid, written = _dearest(offers, read, tokens), _dearest(offers, ("output_mtok",), tokens)
        if paid is None or written is None or paid == written == 0 or usual.requests_kcount:
            return None
        if batch != usual and discount is not None:
            batched = _dearest([batch], read, tokens), _dearest([batch], ("output_mtok",), tokens)
        else:
            batched = (None, None) if discount is None else (paid * discount, written * discount)
        price = Price(
            kind=kind,
            models=(model.id,),
            input=paid,
            output=written,
            cached_input=_dearest(offers, ("cache_read_mtok",), tokens),
            batch_input=batched[0],
            batch_output=batched[1],
            note="; ".join(notes) or None,
            source=f"genai-prices {__version__}",
            date=None,
            up_to=end,
            beyond=price,
        )
    return price


def _dearest(offers: Iterable[ModelPrice], keys: Iterable[str], tokens: int) -> float | None:
    """The highest of these prices for a request with so many input tokens; None where there is none."""
    found = []
    for value in (getattr(offer, key) for offer in offers for key in keys):
        if value is not None:
            reached = [tier.price for tier in getattr(value, "tiers", ()) if tokens > tier.start]
            found.append(float(reached[-1] if reached else getattr(value, "base", value)))
    return max(found, default=None)


def cost_of(usage: Usage, price: Price, batch: bool = False) -> float | None:
    """What an answer cost, in US dollars; None where its tokens, or the batch price, are not known.

    In a batch, cached input is counted as other input, which is never too little. For the tokens of several answers,
    give the price of the longest (`price.at`).
    """
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    price = price.at(usage.input_tokens)
    if batch:
        if price.batch_input is None or price.batch_output is None:
            return None
        return (usage.input_tokens * price.batch_input + usage.output_tokens * price.batch_output) / MILLION
    cached = min(usage.cached_input_tokens or 0, usage.input_tokens)
    dear = price.input if price.cached_input is None else price.cached_input
    fresh = usage.input_tokens - cached
    return (fresh * price.input + cached * dear + usage.output_tokens * price.output) / MILLION


MESSAGE_TOKENS: Final = 4
"""What a turn of a conversation takes beside its text: its role and its end."""
_CHARACTERS_A_TOKEN: Final = {
    "LATIN": 4.1,  # without marks: a letter with a mark is most often a token of its own
    "CYRILLIC": 3.1,
    "GREEK": 3.0,
    "ARABIC": 2.5,
    "HEBREW": 2.5,
    "DEVANAGARI": 2.5,
    "BENGALI": 2.2,
    "TAMIL": 2.6,
    "TELUGU": 2.2,
    "ORIYA": 0.85,
    "HANGUL": 1.35,
    "CJK": 1.4,
    "HIRAGANA": 1.6,
    "KATAKANA": 1.6,
}
_OTHER_SCRIPT: Final = 1.5
_MARKED_LETTER: Final = 1.0
_OPENAI_FILES: Final = "https://openaipublic.blob.core.windows.net/encodings"
"""Where tiktoken has its files from; the address names them in its cache."""
_OPENAI_NEW: Final = ("gpt-4o", "gpt-4.1", "gpt-5", "o1", "o3", "o4", "chatgpt-4o")
"""How models with o200k_base begin: newer than some installed versions of tiktoken know."""


@dataclass(frozen=True)
class TokenCounter:
    """Counts the tokens of a text."""

    name: str
    """What counts, as a report should say it."""
    exact: bool
    count: Callable[[str], int | float]


ESTIMATE_NAME: Final = "estimated from the characters, by script"


def token_counter(kind: str, model: str, tokenizer: Path | None = None) -> TokenCounter:
    """What counts the tokens of a model best on this machine.

    Args:
        kind: the kind of provider.
        model: the model's name, or the folder of a local one.
        tokenizer: a `tokenizer.json`, or a folder that holds one; None to look for the model's own.

    Raises:
        UsageError: where `tokenizer` can't be read.
    """
    if tokenizer is not None:
        return _from_file(tokenizer)
    local = Path(model).expanduser() / "tokenizer.json"
    if kind == "transformers" and local.is_file() and find_spec("tokenizers"):
        return _from_file(local)
    if kind == "openai" and find_spec("tiktoken"):
        import tiktoken

        try:
            name = tiktoken.encoding_name_for_model(model)
        except KeyError:
            name = "o200k_base" if model.startswith(_OPENAI_NEW) else None
        named = os.environ.get("TIKTOKEN_CACHE_DIR") or os.environ.get("DATA_GYM_CACHE_DIR")
        cache = Path(named) if named else Path(tempfile.gettempdir()) / "data-gym-cache"
        file = hashlib.sha1(f"{_OPENAI_FILES}/{name}.tiktoken".encode()).hexdigest()
        if name is not None and (cache / file).is_file():  # else it would be loaded from the net
            text_tokens = tiktoken.get_encoding(name).encode_ordinary
            return TokenCounter(f"counted with tiktoken, {name}", True, lambda text: len(text_tokens(text)))
    return TokenCounter(ESTIMATE_NAME, False, estimate_tokens)


def _from_file(path: Path) -> TokenCounter:
    """The tokenizer of a file or folder."""
    file = path / "tokenizer.json" if path.is_dir() else path
    if not find_spec("tokenizers"):
        raise UsageError(f"--tokenizer {path}: needs the package tokenizers: pip install tokenizers")
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # whatever the file is: the library raises the bare class
        raise UsageError(f"--tokenizer {path}: no readable tokenizer.json ({error})") from error
    return TokenCounter(f"counted with {file}", True, lambda text: len(tokenizer.encode(text).ids))


def estimate_tokens(text: str) -> float:
    """About how many tokens a text is."""
    return sum(map(_share, text))


@lru_cache(maxsize=8192)
def _share(character: str) -> float:
    """The part of a token that a character is."""
    if character.isascii():
        return 1 / _CHARACTERS_A_TOKEN["LATIN"]
    script = unicodedata.name(character, "").split(" ", 1)[0]
    if script == "LATIN":
        return 1 / _MARKED_LETTER
    return 1 / _CHARACTERS_A_TOKEN.get(script, _OTHER_SCRIPT)
