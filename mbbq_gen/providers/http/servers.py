"""Recognises the user's own servers (vLLM, llama.cpp, …), and sets neutral sampling at each of them.

The table is `servers.toml`. Chat models are published with sampling defaults (a repetition penalty, top-p), and servers
apply them unless a request overrides them. A repetition penalty also counts the tokens of the prompt, so it lowers the
probability of naming an option from the prompt, and biases the measurement.
"""

from __future__ import annotations

import asyncio
import json
import tomllib
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
"""Maximum characters of a fact in the manifest, as JSON."""
_SECONDS: Final = 10.0
"""Timeout for recognising a server."""

Get = Callable[[str], Awaitable[Any]]
"""Fetches a path below a server's root: JSON or text; None if there is no such path."""


class Probe(FrozenModel):
    """A path below a server's root, and the field or text that a matching reply contains."""

    path: str
    has: str | None = None
    text: str | None = None


class ServerEntry(FrozenModel):
    """A server program; `servers.toml` explains the fields."""

    name: str
    port: int = 0
    fields: dict[str, JsonValue]
    scores_prompts: bool = False
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
    """A hosted service; `services.toml` explains the fields."""

    base_url: str
    reasoning: ReasoningParameters
    sellers: tuple[str, ...]


@cache
def known_services() -> dict[str, HostedService]:
    """The entries of `services.toml` by name."""
    return {name: HostedService.model_validate(entry) for name, entry in _table("services.toml").items()}


def server_root(base_url: str) -> str:
    """A base URL without the API version: `http://host:8000/v1` → `http://host:8000`."""
    return base_url.rstrip("/").removesuffix("/v1")


async def recognise_server(get: Get, model: str) -> tuple[ServerEntry, dict[str, JsonValue]]:
    """The entry of the server program (`unknown` if none matches), and the facts that it reports."""
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
            facts = {name: value_at(found, key) for name, key in entry.facts.items()}
            facts |= {name: value_at(named[0], key) for name, key in entry.models.items()}
            return entry, storable_facts(facts)
    return _UNKNOWN, {}


def storable_facts(reported: Mapping[str, Any]) -> dict[str, JsonValue]:
    """The non-empty facts: a chat template as its digest, a path as its last part, long values omitted."""
    facts: dict[str, JsonValue] = {}
    for name, value in reported.items():
        if name == "chat_template" and isinstance(value, str):
            facts["chat_template_digest"] = stable_digest(value)
        elif name == "model_file" and isinstance(value, str):
            is_path = value.startswith(("/", "~", ".")) or "\\" in value
            facts[name] = value.replace("\\", "/").rstrip("/").rpartition("/")[2] if is_path else value[:_LONGEST_FACT]
        elif value not in (None, "", {}, []) and len(json.dumps(value)) <= _LONGEST_FACT:
            facts[name] = value
    return facts


class OwnServer:
    """The user's own server at a base URL: recognised before the first request."""

    def __init__(self, model: str, sampling: str, given: Mapping[str, JsonValue]) -> None:
        """`sampling`: neutral or server. `given`: the user's sampling options."""
        self._model, self._sampling, self._given = model, sampling, given
        self._lock = asyncio.Lock()
        self.is_probed = False
        """Whether recognition is finished, with or without a match."""
        self.entry = _UNKNOWN
        self._facts: dict[str, JsonValue] = {}

    @property
    def is_known(self) -> bool:
        """Whether the server is in the table."""
        return self.entry is not _UNKNOWN

    async def recognise(self, get: Get) -> None:
        """Recognises the server once; if it can't be reached, the next call tries again."""
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
        """Fields of a request's body that set the sampling, by the server's names."""
        entry = self.entry
        fields = {} if self._sampling == "server" else dict(entry.fields)
        for name, value in self._given.items():
            if name == "repetition_penalty":
                fields[entry.repetition] = float(str(value)) + entry.repetition_offset
            else:
                is_off = name == "top_k" and value == 0  # some servers use -1
                fields[name] = entry.fields.get(name, value) if is_off else value
        return fields

    @property
    def optional(self) -> frozenset[str]:
        """Fields that may be dropped if the server refuses them: all that the user did not set."""
        given = {self.entry.repetition if name == "repetition_penalty" else name for name in self._given}
        return frozenset(self.fields) - given

    def runtime_info(self, left_out: Collection[str], extra: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """For the manifest: the server, the sampling fields that are sent, and the resulting sampling by our names.

        `left_out`: fields that the server refused. `extra`: further fields of the body.
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
