"""Parameters that a model refuses: learned from its own error, once, and renamed or left out from then on.

Only what can't change the text is adapted: another name for the longest answer, and fields that are about bookkeeping.
Whatever shapes the text is part of the request key, so a run never goes on without it, unless whoever asks says that
it can do without (`Learned.dispensable`): a judge's prompt asks for JSON in words too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from mbbq_gen.providers.remote.faults import ServiceError

LENGTH_NAMES: Final = ("max_completion_tokens", "max_tokens", "max_output_tokens", "max_new_tokens", "maxOutputTokens")
"""What services call the longest answer; one stands for another."""
HARMLESS: Final = frozenset({"store", "user", "metadata", "service_tier", "stream", "safety_identifier"})
"""What can be left out without a word of the text being another."""
_NEVER: Final = frozenset({"model", "messages", "input", "contents", "prompt"})
"""What can't be left out."""


@dataclass
class Learned:
    """What was found out about a model's parameters."""

    dropped: dict[str, str] = field(default_factory=dict)
    """Parameters that are no longer sent, with the service's words."""
    renamed: dict[str, str] = field(default_factory=dict)
    """Parameters that are sent under another name."""
    dispensable: frozenset[str] = frozenset()
    """Parameters beside the harmless ones that whoever asks can do without."""
    renames_length: bool = True
    """Whether servers of this kind differ in what they call the longest answer."""
    _refused_lengths: set[str] = field(default_factory=set)
    """Names of the longest answer that were refused."""

    def apply(self, body: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """The body as the model takes it."""
        if not self.dropped and not self.renamed:
            return body
        named = {self.renamed.get(name, name): value for name, value in body.items()}
        return {name: value for name, value in named.items() if name not in self.dropped}

    def learn(self, error: ServiceError, body: Mapping[str, JsonValue]) -> str | None:
        """Takes a lesson from a refusal of `body`; says it in words, or None where there is none to take."""
        name = refused_name(error, body)
        if name is None:
            return None
        other = self._other_length(name, error.message)
        if other is not None:
            for old in [old for old, new in self.renamed.items() if new == name] or [name]:
                self.renamed[old] = other
            return f"does not take {name}: sending {other} instead"
        if name not in HARMLESS | self.dispensable:
            return None
        self.dropped[name] = error.message
        if name in self.dispensable:
            return f"does not take {name}: asking without it"
        return f"does not take {name} = {body[name]!r}: leaving it out, which changes no text"

    def _other_length(self, name: str, message: str) -> str | None:
        """Another name for the longest answer that was not refused yet: one asked for, or the one that may be meant."""
        if name not in LENGTH_NAMES or not self.renames_length:
            return None
        self._refused_lengths.add(name)
        named = [other for other in LENGTH_NAMES if re.search(rf"(?<!\w){other}(?!\w)", message)]
        guess = {"max_completion_tokens": "max_tokens", "max_tokens": "max_completion_tokens"}.get(name)
        return next((other for other in [*named, guess] if other not in self._refused_lengths), None)

    def facts(self) -> dict[str, JsonValue]:
        """For the manifest; empty where nothing was learned."""
        facts: dict[str, JsonValue] = {}
        if self.dropped:
            facts["left_out"] = dict(self.dropped)
        if self.renamed:
            facts["renamed"] = dict(self.renamed)
        return facts


def refused_name(error: ServiceError, body: Mapping[str, JsonValue]) -> str | None:
    """The parameter of `body` that an error is about."""
    names = [name for name in body if name not in _NEVER]
    if error.parameter is not None:
        stem = re.split(r"[.\[]", error.parameter.removeprefix("body."))[0]
        if stem in names:
            return stem
    quoted = [name for name in names if re.search(rf"['\"`]{re.escape(name)}['\"`]", error.message)]
    plain = [name for name in names if re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", error.message)]
    found = quoted or plain
    return min(found, key=error.message.index) if found else None
