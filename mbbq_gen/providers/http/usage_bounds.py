"""The most tokens that a request can take, from the body that goes over the wire, whatever put its fields there.

What a body only points at (an earlier conversation, a stored file, the service's own tools) is not in it, and not
bounded.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from pydantic import JsonValue

from mbbq_gen.core.records import Usage
from mbbq_gen.providers.http.errors import LENGTH_NAMES

LENGTHS: Final = frozenset(
    {*LENGTH_NAMES, "max_gen_len", "max_length", "max_tokens_to_sample", "maxTokens", "num_predict"}
)
"""What services call the longest answer, at any depth of a body."""
_CHOICES: Final = frozenset({"n", "best_of", "candidateCount", "candidate_count", "num_return_sequences"})
"""What they call the number of answers to one request: each of them is paid."""
_TURN_TOKENS: Final = 16
"""Tokens that a chat template may put round a message, and before the answer."""


def max_usage(body: Mapping[str, JsonValue], lengths: Collection[str] = LENGTHS) -> Usage | None:
    """The most that a body can make a service read and write; None where nothing in it bounds the answer.

    Every byte counts as a token (no tokeniser makes more). Where several fields bound the answer, the largest is the
    one that may hold.
    """
    longest = [value for value in _numbers(body, lengths) if value > 0]
    if not longest:
        return None
    answers = max([1, *_numbers(body, _CHOICES)])
    read = len(json.dumps(body, ensure_ascii=False).encode()) + _TURN_TOKENS * (_turns(body) + 1)
    return Usage(input_tokens=read, output_tokens=max(longest) * answers)


def beside(usage: Usage, most: Usage, *, has_text: bool) -> Usage | None:
    """What an answer may have taken beside what its service counted; None where it counted all.

    No request is read for nothing, and no text written: a count of 0 there is none.
    """
    read = 0 if usage.input_tokens else most.input_tokens
    wrote = usage.output_tokens is not None and (usage.output_tokens or not has_text)
    written = 0 if wrote else most.output_tokens
    return Usage(input_tokens=read, output_tokens=written) if read or written else None


def times(usage: Usage, count: int) -> Usage:
    """So many times as many tokens."""
    return Usage(input_tokens=(usage.input_tokens or 0) * count, output_tokens=(usage.output_tokens or 0) * count)


def together(*parts: Usage | None) -> Usage | None:
    """The tokens of all parts; None where there are none."""
    found = [part for part in parts if part is not None]
    if not found:
        return None
    return Usage(
        input_tokens=sum(part.input_tokens or 0 for part in found),
        output_tokens=sum(part.output_tokens or 0 for part in found),
    )


def _numbers(value: JsonValue | Mapping[str, JsonValue], names: Collection[str]) -> Iterator[int]:
    """The whole numbers under these names, at any depth."""
    if isinstance(value, Mapping):
        for name, entry in value.items():
            if name in names:
                number = _number(entry)
                if number is not None:
                    yield number
            yield from _numbers(entry, names)
    elif isinstance(value, list):
        for entry in value:
            yield from _numbers(entry, names)


def _number(value: JsonValue) -> int | None:
    """A number as a service may take it, `"64"` too; rounded up."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return int(-(-number // 1)) if number < 1e12 else None


def _turns(body: Mapping[str, JsonValue]) -> int:
    """The messages of a conversation."""
    return sum(len(entry) for entry in body.values() if isinstance(entry, list))
