"""Servers of one's own: which program answers at a base URL, what it tells of itself, and how its sampling is pinned.

The table is `servers.toml`. Chat models are published with sampling defaults (a repetition penalty, top-p), and
servers apply them unless a request says otherwise. A repetition penalty counts the tokens of the prompt, so it lowers
the probability of naming an option that was offered: what it changes is what is measured.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from pydantic import Field, JsonValue

from mbbq_gen.core.files import stable_digest
from mbbq_gen.core.records import FrozenModel

NEUTRAL: Final[Mapping[str, JsonValue]] = {"top_p": 1.0, "frequency_penalty": 0.0}
"""Fields for a server that is not recognised. No presence_penalty: TGI reads 0 as a repetition penalty of 2."""
_LONGEST_FACT: Final = 2_000
"""Characters of a fact, as JSON, that a manifest keeps."""


class Probe(FrozenModel):
    """A path below a server's root, and what the reply there contains if the entry fits."""

    path: str
    has: str | None = None
    text: str | None = None

    def fits(self, reply: Any) -> bool:
        """Whether a reply, as JSON or text, is the one that the entry's server gives."""
        if self.has is not None:
            return isinstance(reply, dict) and self.has in reply
        return self.text is not None and self.text in (reply if isinstance(reply, str) else json.dumps(reply))


class ServerEntry(FrozenModel):
    """What is known of a program that serves models; `servers.toml` explains the fields."""

    name: str
    port: int = 0
    context: str
    fields: dict[str, JsonValue]
    unpinned: str | None = None
    probe: tuple[Probe, ...]
    facts: dict[str, str] = Field(default_factory=dict)
    models_path: str | None = None
    models: dict[str, str] = Field(default_factory=dict)


class ServerInfo(FrozenModel):
    """The server that answers at a base URL."""

    name: str
    """As in `servers.toml`."""
    facts: dict[str, JsonValue]
    """What it tells of itself: version, model_file, quantization, dtype, context_length, parallel, sampling_defaults,
    chat_template_digest; whatever of these it tells."""

    @property
    def entry(self) -> ServerEntry:
        """What the table says of it."""
        return next(entry for entry in known_servers() if entry.name == self.name)

    @property
    def context_length(self) -> int | None:
        """Tokens of prompt and answer together; None if it does not tell."""
        value = self.facts.get("context_length")
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


@cache
def known_servers() -> tuple[ServerEntry, ...]:
    """The entries of `servers.toml`, in order."""
    text = files("mbbq_gen.providers.http").joinpath("servers.toml").read_text(encoding="utf-8")
    return tuple(ServerEntry.model_validate(entry) for entry in tomllib.loads(text)["server"])


def server_root(base_url: str) -> str:
    """The address of a server without the version of its API: `http://host:8000` of `http://host:8000/v1`."""
    return base_url.rstrip("/").removesuffix("/v1")


async def recognise_server(get: Callable[[str], Awaitable[Any]], model: str) -> ServerInfo | None:
    """Finds out which program serves a model.

    Args:
        get: fetches a path below the server's root: its JSON, or its text if it is none; None if there is no such
            path (any status but 2xx). Raises what it likes if the server can't be reached.
        model: the model that is asked, to find its entry in lists of models.

    Returns:
        The server, or None if no entry of the table fits.
    """
    replies: dict[str, Any] = {}

    async def reply(path: str) -> Any:
        if path not in replies:
            replies[path] = await get(path)
        return replies[path]

    for entry in known_servers():
        for probe in entry.probe:
            found = await reply(probe.path)
            if found is not None and probe.fits(found):
                listed = _model_entry(await reply(entry.models_path), model) if entry.models_path else {}
                told = {name: _at(found, key) for name, key in entry.facts.items()}
                told |= {name: _at(listed, key) for name, key in entry.models.items()}
                return ServerInfo(name=entry.name, facts=_storable(told))
    return None


def _model_entry(listed: Any, model: str) -> Any:
    """The entry of a model in a list of models; the only one if none has its name."""
    entries = listed.get("data") if isinstance(listed, dict) else None
    found = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    named = [entry for entry in found if entry.get("id") == model]
    return named[0] if named else found[0] if len(found) == 1 else {}


def _at(value: Any, key: str) -> Any:
    """The value at a key with dots, or None."""
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _storable(told: Mapping[str, Any]) -> dict[str, JsonValue]:
    """The facts that are there; a chat template by its digest, paths by their last part, nothing of any length."""
    facts: dict[str, JsonValue] = {}
    for name, value in told.items():
        if name == "chat_template" and isinstance(value, str):
            facts["chat_template_digest"] = stable_digest(value)
        elif name == "model_file" and isinstance(value, str):
            is_path = value.startswith(("/", "~", ".")) or "\\" in value
            facts[name] = value.replace("\\", "/").rstrip("/").rpartition("/")[2] if is_path else value[:_LONGEST_FACT]
        elif value not in (None, "", {}, []) and len(json.dumps(value)) <= _LONGEST_FACT:
            facts[name] = value
    return facts
