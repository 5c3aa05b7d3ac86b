"""How much a model is to think before it answers: the levels that a run may ask for, and the room each is given.

    none      not at all                      minimal low medium high    an effort, in the service's own words
    default   as the model decides            4096                       at most so many tokens

What a level comes to at a service (`ReasoningSettings`) is for its provider to say, or to refuse.
Design: docs/decisions/0018-reasoning.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pydantic import Field, JsonValue

from mbbq_gen.core.errors import ConfigError, UsageError
from mbbq_gen.core.records import FrozenModel

_TOKENS: Final = {
    "none": (0, 0),
    "default": (8192, 800),
    "minimal": (1024, 100),
    "low": (4096, 300),
    "medium": (8192, 800),
    "high": (16384, 2000),
}
"""Level → tokens for thinking, beside those for the answer (a budget where a service takes nothing but budgets), and
the tokens that thinking about one question is assumed to take."""
LEVELS: Final = tuple(_TOKENS)
"""The levels that have a name; every other one is a number of tokens."""
_MOST: Final = 1_000_000


class ReasoningSettings(FrozenModel):
    """What a level comes to at a model: a line of the manifest."""

    sent: dict[str, JsonValue] = Field(default_factory=dict)
    """Fields of the request, or variables of the chat template, by name."""
    left_out: tuple[str, ...] = ()
    """Settings that are not sent beside it, because thinking takes none."""
    room: int = Field(default=0, ge=0)
    """Tokens that are added to the longest answer."""


def parse_reasoning(names: Sequence[str]) -> tuple[str, ...]:
    """The levels that were typed, each once, in their order; ConfigError for a wrong one."""
    levels = []
    for name in names:
        level = name.strip().lower()
        if level.isascii() and level.isdigit():
            if not 1 <= int(level) <= _MOST:
                raise ConfigError("reasoning_effort", name, f"give 1 to {_MOST:,} tokens, or `none`")
            level = str(int(level))
        elif level not in LEVELS:
            raise ConfigError("reasoning_effort", name, f"give {', '.join(LEVELS)} or a number of tokens", LEVELS)
        levels.append(level)
    return tuple(dict.fromkeys(levels))


def tokens_of(level: str) -> int | None:
    """The tokens that a level names; None where it is a word."""
    return int(level) if level.isdigit() else None


def reasoning_token_allowance(level: str) -> int:
    """Tokens for thinking beside those for the answer."""
    tokens = tokens_of(level)
    return _TOKENS[level][0] if tokens is None else tokens


def expected_tokens(level: str | None) -> int:
    """Tokens that thinking about one question takes, assumed; nobody knows before a run."""
    if level is None:
        return 0
    tokens = tokens_of(level)
    return _TOKENS[level][1] if tokens is None else min(tokens, _TOKENS["high"][1])


def in_order(levels: Sequence[str]) -> list[str]:
    """Levels from the least thinking to the most."""

    def rank(level: str) -> tuple[int, int]:
        return reasoning_token_allowance(level), LEVELS.index(level) if level in LEVELS else -1

    return sorted(dict.fromkeys(levels), key=rank)


def refusal(model: str, level: str, why: str) -> UsageError:
    """One line that says why a model does not support a level, and what to do."""
    return UsageError(f"--reasoning-effort {level}: {model} {why}")
