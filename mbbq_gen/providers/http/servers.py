"""Servers of one's own: which program answers at a base URL, what it tells of itself, and how its sampling is pinned.

The table is `servers.toml`. Chat models are published with sampling defaults (a repetition penalty, top-p), and
servers apply them unless a request says otherwise. A repetition penalty counts the tokens of the prompt, so it lowers
the probability of naming an option that was offered: what it changes is what is measured.
"""

from __future__ import annotations

import asyncio
import json
import tomllib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal

from pydantic import Field, JsonValue

from mbbq_gen.core.files import stable_digest
from mbbq_gen.core.records import FrozenModel
from mbbq_gen.providers.base import NEUTRAL_SAMPLING
from mbbq_gen.providers.http.errors import TransientError
from mbbq_gen.providers.http.replies import table_of, tables_of, value_at

_LONGEST_FACT: Final = 2_000
"""Characters of a fact, as JSON, that a manifest keeps."""
_SECONDS: Final = 10.0
"""Time for recognising a server."""
_ALIKE, _SPREAD = 4, 1.3
"""Prompts with the same, largest number of tokens, and how far their lengths must differ, to show that they are cut."""
_LONGER, _FEWER = 1.5, 0.6
"""A prompt that is so much longer than the shortest, with so small a share of the expected tokens, was cut."""
_LEAST = 256
"""Tokens below which no server cuts prompts: some proxies and test servers count the same few tokens for each."""

Get = Callable[[str], Awaitable[Any]]
"""Fetches a path below a server's root: its JSON, else its text; None if there is no such path."""


class Probe(FrozenModel):
    """A path below a server's root, and what the reply there contains if the entry fits: a field, or a text."""

    path: str
    has: str | None = None
    text: str | None = None


class ServerEntry(FrozenModel):
    """A program that serves models; `servers.toml` explains the fields."""

    name: str
    port: int = 0
    context: str
    fields: dict[str, JsonValue]
    likelihood: Literal["prompt_logprobs", "generate", "echo", "none"] = "none"
    repetition: str = "repetition_penalty"
    repetition_offset: float = 0.0
    defaults: dict[str, JsonValue] = Field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    unpinned: str | None = None
    probe: tuple[Probe, ...]
    facts: dict[str, str] = Field(default_factory=dict)
    models_path: str | None = None
    models: dict[str, str] = Field(default_factory=dict)


_UNKNOWN: Final = ServerEntry(
    name="unknown",
    context="set a longer context there",
    fields={"top_p": 1.0, "frequency_penalty": 0.0},  # no presence_penalty: TGI reads 0 as a repetition penalty of 2
    probe=(),
)


def _table(name: str) -> dict[str, Any]:
    return tomllib.loads(files("mbbq_gen.providers.http").joinpath(name).read_text(encoding="utf-8"))


@cache
def known_servers() -> tuple[ServerEntry, ...]:
    """The entries of `servers.toml`, in order."""
    return tuple(ServerEntry.model_validate(entry) for entry in _table("servers.toml")["server"])


ReasoningParameters = Literal["effort", "groq", "openrouter", "together", "switch", "template"]
"""The parameter that sets the reasoning effort."""


class HostedService(FrozenModel):
    """A service that is known by name; `services.toml` explains the fields."""

    base_url: str
    reasoning: ReasoningParameters
    sellers: tuple[str, ...]


@cache
def known_services() -> dict[str, HostedService]:
    """The entries of `services.toml` by name."""
    return {name: HostedService.model_validate(entry) for name, entry in _table("services.toml").items()}


def server_root(base_url: str) -> str:
    """The address of a server without the version of its API: `http://host:8000` of `http://host:8000/v1`."""
    return base_url.rstrip("/").removesuffix("/v1")


async def recognise_server(get: Get, model: str) -> tuple[ServerEntry, dict[str, JsonValue]]:
    """The program that serves a model (unknown if no entry of the table fits), and what it reports of itself."""
    replies: dict[str, Any] = {}
    for entry, probe in [(known, probe) for known in known_servers() for probe in known.probe]:
        if probe.path not in replies:
            replies[probe.path] = await get(probe.path)
        found = replies[probe.path]
        if probe.has is not None:
            fits = isinstance(found, dict) and probe.has in found
        else:
            fits = found is not None and str(probe.text) in (found if isinstance(found, str) else json.dumps(found))
        if fits:
            models = replies.get(entry.models_path) or await get(entry.models_path) if entry.models_path else None
            listed = tables_of(table_of(models).get("data"))
            named = [each for each in listed if each.get("id") == model] or (listed if len(listed) == 1 else [{}])
            stated = {name: value_at(found, key) for name, key in entry.facts.items()}
            stated |= {name: value_at(named[0], key) for name, key in entry.models.items()}
            return entry, storable_facts(stated)
    return _UNKNOWN, {}


def storable_facts(stated: Mapping[str, Any]) -> dict[str, JsonValue]:
    """The facts that are there; a chat template by its digest, paths by their last part, nothing of any length."""
    facts: dict[str, JsonValue] = {}
    for name, value in stated.items():
        if name == "chat_template" and isinstance(value, str):
            facts["chat_template_digest"] = stable_digest(value)
        elif name == "model_file" and isinstance(value, str):
            is_path = value.startswith(("/", "~", ".")) or "\\" in value
            facts[name] = value.replace("\\", "/").rstrip("/").rpartition("/")[2] if is_path else value[:_LONGEST_FACT]
        elif value not in (None, "", {}, []) and len(json.dumps(value)) <= _LONGEST_FACT:
            facts[name] = value
    return facts


class OwnServer:
    """The server at a base URL of the user's own: recognised at the first request, and sent neutral sampling."""

    def __init__(self, model: str, sampling: str, given: Mapping[str, JsonValue]) -> None:
        """`sampling`: neutral or server. `given`: what the user sets, by the names in `NEUTRAL_SAMPLING`."""
        self._model, self._sampling, self._given = model, sampling, given
        self._lock = asyncio.Lock()
        self.is_probed = False
        """Whether recognition is finished, with or without a match in the table."""
        self.entry = _UNKNOWN
        self._facts: dict[str, JsonValue] = {}

    @property
    def is_known(self) -> bool:
        """Whether it is one of the table."""
        return self.entry is not _UNKNOWN

    async def recognise(self, get: Get) -> None:
        """Finds out which server it is, once; one that can't be reached (TransientError) is tried again next time."""
        async with self._lock:
            if self.is_probed:
                return
            try:
                async with asyncio.timeout(_SECONDS):
                    self.entry, self._facts = await recognise_server(get, self._model)
            except TransientError:
                return
            except TimeoutError:
                pass
            self.is_probed = True

    @property
    def fields(self) -> dict[str, JsonValue]:
        """Fields of a request's body that set its sampling, by the server's own names."""
        entry = self.entry
        fields = {} if self._sampling == "server" else dict(entry.fields)
        for name, value in self._given.items():
            if name == "repetition_penalty":
                fields[entry.repetition] = float(str(value)) + entry.repetition_offset
            else:
                is_off = name == "top_k" and value == 0
                fields[name] = entry.fields.get(name, value) if is_off else value
        return fields

    @property
    def optional(self) -> frozenset[str]:
        """Fields that may be left out if the server refuses them: all that the user did not set."""
        given = {self.entry.repetition if name == "repetition_penalty" else name for name in self._given}
        return frozenset(self.fields) - given

    def runtime_info(self, left_out: Collection[str], extra: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """For the manifest: the server, the sampling that is sent, and what is known to apply, by our names.

        `left_out`: fields that the server refused; `extra`: further fields of the body.
        """
        entry, facts = self.entry, self._facts
        sent = {name: value for name, value in self.fields.items() if name not in left_out}
        names = {*entry.fields, entry.repetition, *NEUTRAL_SAMPLING}
        sent |= {name: value for name, value in extra.items() if name in names}
        defaults = entry.defaults | table_of(facts.get("sampling_defaults"))
        applied: dict[str, JsonValue] = {}
        for name in NEUTRAL_SAMPLING:
            field = entry.repetition if name == "repetition_penalty" else name
            if field not in sent or name in entry.ignored:
                applied[name] = defaults.get(field, defaults.get(name))
            elif name == "repetition_penalty":
                applied[name] = float(str(sent[field])) - entry.repetition_offset
            else:
                applied[name] = 0 if name == "top_k" and sent[field] == -1 else sent[field]
        return {"server": {"name": entry.name, **facts}, "sampling_sent": sent, "sampling": applied}


class PromptCutDetector:
    """Finds out that a server cuts prompts without an error, from the tokens that it counts.

    Three signs: prompts of different lengths have the same, largest number of tokens; a long prompt has far fewer than
    the shortest prompts in its language let expect; or different prompts have the same number of tokens together with
    answers that end before their limit: the context is full.
    """

    def __init__(self) -> None:
        self._largest, self._sizes = 0, set[int]()  # most tokens of a prompt, bytes of the prompts with so many
        self._shortest: dict[str, tuple[int, float]] = {}  # language → bytes of its shortest prompt, its tokens a byte
        self._too_few = 0  # long prompts with far too few tokens
        self._totals = defaultdict[int, set[int]](set)
        """Tokens of prompt and answer together → those of the prompts, of answers that end before their limit."""

    def add(self, language: str, size: int, tokens: int | None, written: int | None = None) -> int | None:
        """The tokens at which prompts are cut, or None while nothing shows that they are.

        `size`: bytes of the prompt in UTF-8. `tokens`: of the prompt, as the server counts them; None if it does not.
        `written`: tokens of an answer that ended before its limit; None of any other.
        """
        if not tokens or size < 1:
            return None
        if written and tokens + written >= _LEAST:
            self._totals[tokens + written].add(tokens)
            if len(self._totals[tokens + written]) >= _ALIKE:
                return tokens + written
        bytes_there, rate = self._shortest.get(language, (size, tokens / size))
        if size <= bytes_there:
            self._shortest[language] = (size, tokens / size)
        elif size > _LONGER * bytes_there and _LEAST <= tokens < _FEWER * rate * size:
            self._too_few += 1
            if self._too_few >= _ALIKE:
                return tokens
        if tokens > self._largest:
            self._largest, self._sizes = tokens, set()
        if tokens < max(self._largest, _LEAST):
            return None
        self._sizes.add(size)
        is_cut = len(self._sizes) >= _ALIKE and max(self._sizes) > _SPREAD * min(self._sizes)
        return tokens if is_cut else None
