"""A server that answers first turns by nothing that can be read, and follow-ups by a label; it counts both."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from mbbq_gen.providers.prices import MESSAGE_TOKENS, estimate_tokens
from tests.support.api import Heard, spoken

VAGUE = "Hm."


@dataclass
class Dialogue:
    """What the server has heard."""

    base_url: str = ""
    first: Counter[str] = field(default_factory=Counter)
    """First turns by their text."""
    second: Counter[str] = field(default_factory=Counter)
    """The same of follow-ups."""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    """Bodies of the follow-ups."""
    input_tokens: int = 0
    output_tokens: int = 0


@contextmanager
def dialogue(
    reply: str | Callable[[str], str] = "A", first: Callable[[str], str] = lambda _: VAGUE, fault: int | None = None
) -> Iterator[Dialogue]:
    """The server, with a chat completions API.

    Args:
        reply: to a follow-up, or made of the first question.
        first: the answer to a first turn.
        fault: the status of all follow-ups; None: they are answered.
    """
    found = Dialogue()

    def answer(heard: Heard) -> tuple[int, dict[str, str], bytes]:
        body = json.loads(heard.body)
        turns = body["messages"]
        question = turns[0]["content"]
        is_second = len(turns) > 1
        (found.second if is_second else found.first)[question] += 1
        if is_second:
            found.bodies.append(body)
            if fault is not None:
                return fault, {}, b'{"error": {"message": "no second turn"}}'
        text = (reply if isinstance(reply, str) else reply(question)) if is_second else first(question)
        read = sum(estimate_tokens(turn["content"]) for turn in turns) + MESSAGE_TOKENS * (len(turns) + 1)
        usage = {"prompt_tokens": round(read), "completion_tokens": max(1, round(estimate_tokens(text)))}
        found.input_tokens += usage["prompt_tokens"]
        found.output_tokens += usage["completion_tokens"]
        choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return 200, {}, json.dumps({"choices": [choice], "model": "fake", "usage": usage}).encode()

    with spoken(answer) as server:
        found.base_url = f"{server.root}/v1"
        yield found
