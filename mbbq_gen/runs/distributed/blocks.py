"""Packs pending requests into blocks: templates together, the longest first, blocks that get smaller to the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from mbbq_gen.core.files import stable_digest
from mbbq_gen.core.records import Request

MOST_REQUESTS: Final = 256
"""Requests of one block at most: what is lost with a worker."""
_BLOCKS_AHEAD: Final = 2
"""A block is its worker's share of what is left, divided by this: so all end at about the same time."""
_FEWEST: Final = 16
"""Requests for which a block is worth a file, and worth that a model reads their common prefix."""


@dataclass(frozen=True)
class Block:
    """Requests that one worker answers, and writes as one shard."""

    name: str
    """Hexadecimal; differs between sessions, so that a shard tells whether this block was finished."""
    requests: tuple[Request, ...]


def block_of(requests: Iterable[Request], session: str) -> Block:
    """A block with its name."""
    kept = tuple(requests)
    return Block(stable_digest("\n".join([session, *(request.request_key for request in kept)]))[:16], kept)


def pack(requests: Sequence[Request], workers: int, session: str) -> list[Block]:
    """The blocks of a window of requests, in the order in which they should be asked.

    What is asked of one template stays together, and within it what is asked of one question, so that a model reads
    what they begin with once; the templates with the most to read come first. Blocks are large first: the more a model
    has before it, the more of it is alike.
    """
    templates: dict[str, dict[str, list[Request]]] = {}
    for request in requests:
        instance = request.instance
        questions = templates.setdefault(f"{instance.benchmark}/{instance.language}/{instance.template_id}", {})
        questions.setdefault(instance.key, []).append(request)
    groups = [[request for question in found.values() for request in question] for found in templates.values()]
    groups.sort(key=lambda group: (-max(map(_length, group)), group[0].request_key))
    left = sum(map(_length, requests))
    blocks: list[Block] = []
    current: list[Request] = []
    length = 0
    for request in (request for group in groups for request in group):
        is_enough = len(current) >= _FEWEST and length * workers * _BLOCKS_AHEAD >= left
        if is_enough or len(current) == MOST_REQUESTS:
            blocks.append(block_of(current, session))
            current, left, length = [], left - length, 0
        current.append(request)
        length += _length(request)
    return [*blocks, block_of(current, session)] if current else blocks


def _length(request: Request) -> int:
    """Characters that are read: they stand for tokens, which only the model's own tokeniser could count."""
    return sum(len(message.content) for message in request.messages)
