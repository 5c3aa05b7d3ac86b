"""Parameters of request bodies: what services call them, which a model refuses, and the most tokens that they allow."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import JsonValue

from mbbq_gen.core.records import Response, Usage
from mbbq_gen.providers.http.errors import ApiError

LENGTH_NAMES: Final = ("max_completion_tokens", "max_tokens", "max_output_tokens", "max_new_tokens", "maxOutputTokens")
"""What services call the longest answer; one stands for another."""
HARMLESS: Final = frozenset({"store", "user", "metadata", "service_tier", "stream", "safety_identifier"})
"""What can be left out without a word of the text being another."""
LENGTHS: Final = frozenset(
    {*LENGTH_NAMES, "max_gen_len", "max_length", "max_tokens_to_sample", "maxTokens", "num_predict"}
)
"""What services call the longest answer, at any depth of a body."""
_CHOICES: Final = frozenset({"n", "best_of", "candidateCount", "candidate_count", "num_return_sequences"})
"""What they call the number of answers to one request: each of them is paid."""
_VALUE: Final = re.compile(r"range|too large|at most|less than|greater than|exceed|must be (?:an? )?\w*integer", re.I)
"""How a refusal of a value reads, where the name itself is known."""
_NEVER: Final = frozenset({"model", "messages", "input", "contents", "prompt"})
"""What can't be left out."""
_TURN_TOKENS: Final = 16
"""Tokens that a chat template may put round a message, and before the answer."""
_BYTES_A_TOKEN: Final = 5
"""More bytes than that to a token are rare: a longer text was not kept to the longest answer."""


@dataclass
class ParameterAdapter:
    """What was found out about a model's parameters."""

    dropped: dict[str, str] = field(default_factory=dict)
    """Parameters that are no longer sent, with the service's words."""
    renamed: dict[str, str] = field(default_factory=dict)
    """Parameters that are sent under another name."""
    dispensable: frozenset[str] = frozenset()
    """Parameters beside the harmless ones that may be left out."""
    renames_length: bool = True
    """Whether servers of this kind differ in what they call the longest answer."""
    _refused_lengths: set[str] = field(default_factory=set)

    def apply(self, body: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """The body as the model takes it."""
        if not self.dropped and not self.renamed:
            return body
        named = {self.renamed.get(name, name): value for name, value in body.items()}
        return {name: value for name, value in named.items() if name not in self.dropped}

    def learn(self, error: ApiError, body: Mapping[str, JsonValue]) -> str | None:
        """Drops or renames the parameter that was refused; says so in words, or None where it can't."""
        name, message = refused_name(error, body), error.message
        if name is None:
            return None
        is_value = _VALUE.search(message) is not None and "instead" not in message.lower()
        if name in LENGTH_NAMES and self.renames_length and not is_value:
            self._refused_lengths.add(name)
            named = [known for known in LENGTH_NAMES if re.search(rf"(?<!\w){known}(?!\w)", message)]
            guess = {"max_completion_tokens": "max_tokens", "max_tokens": "max_completion_tokens"}.get(name)
            other = next((known for known in [*named, guess] if known not in self._refused_lengths), None)
            if other is not None:
                for old in [old for old, new in self.renamed.items() if new == name] or [name]:
                    self.renamed[old] = other
                return f"does not take {name}: sending {other} instead"
        if name not in HARMLESS | self.dispensable:
            return None
        self.dropped[name] = message
        if name in self.dispensable:
            return f"does not take {name}: asking without it"
        return f"does not take {name} = {body[name]!r}: leaving it out, which changes no text"

    def runtime_info(self) -> dict[str, JsonValue]:
        """For the manifest; empty where nothing was learned."""
        facts: dict[str, JsonValue] = {"left_out": dict(self.dropped), "renamed": dict(self.renamed)}
        return {name: learned for name, learned in facts.items() if learned}


def refused_name(error: ApiError, body: Mapping[str, JsonValue]) -> str | None:
    """The parameter of `body` that an error is about."""
    names = [name for name in body if name not in _NEVER]
    if error.parameter is not None:
        stem = re.split(r"[.\[]", error.parameter.removeprefix("body."))[0]
        if stem in names:
            return stem
    for pattern in (r"['\"`]{}['\"`]", r"(?<![\w.]){}(?!\w)"):  # in quotes, else as a word
        if found := [name for name in names if re.search(pattern.format(re.escape(name)), error.message)]:
            return min(found, key=error.message.index)
    return None


def max_usage(body: Mapping[str, JsonValue], lengths: Collection[str] = LENGTHS) -> Usage | None:
    """The most that a body can make a service read and write; None where nothing in it bounds the answer.

    Every byte counts as a token (no tokeniser makes more). Where several fields bound the answer, at any depth, the
    largest is the one that may hold. What a body only points at (a stored file, the service's tools) is not bounded.
    """
    longest, answers = 0, 1
    found: list[tuple[str, Any]] = list(body.items())
    while found:
        name, value = found.pop()
        if isinstance(value, dict):
            found += value.items()
        elif isinstance(value, list):
            found += [("", entry) for entry in value if name != "messages"]  # nothing in texts bounds an answer
        elif (name in lengths or name in _CHOICES) and value is not None and not isinstance(value, bool):
            with suppress(ValueError):  # as a service may take it: "64" too
                number = float(value)
                if name in lengths and 0 < number < 1e12:
                    longest = max(longest, math.ceil(number))
                elif 0 < number < 1e12:
                    answers = max(answers, math.ceil(number))
    if not longest:
        return None
    turns = sum([len(entry) for entry in body.values() if isinstance(entry, list)])
    read = len(json.dumps(body, ensure_ascii=False).encode()) + _TURN_TOKENS * (turns + 1)
    return Usage(input_tokens=read, output_tokens=longest * answers)


def unmetered_usage(response: Response, most: Usage) -> Usage | None:
    """The most that an answer can have taken beside what its service counted; None where it counted all.

    `most`: what its request allowed. A count of 0 is none, except of an empty text.
    """
    usage, written = response.usage, most.output_tokens or 0
    size = len(f"{response.text or ''}{response.reasoning or ''}".encode())
    written = size if size > _BYTES_A_TOKEN * written else written  # longer than the request allows
    if usage.output_tokens is not None and (usage.output_tokens or not response.text):
        written = 0
    read = 0 if usage.input_tokens else most.input_tokens
    return Usage(input_tokens=read, output_tokens=written) if read or written else None


def with_lost(known: Usage | None, most: Usage, lost: int) -> Usage:
    """The tokens of a response beyond its usage, with the most that so many lost attempts can have taken."""
    known = known or Usage()
    return Usage(
        input_tokens=(known.input_tokens or 0) + (most.input_tokens or 0) * lost,
        output_tokens=(known.output_tokens or 0) + (most.output_tokens or 0) * lost,
    )
