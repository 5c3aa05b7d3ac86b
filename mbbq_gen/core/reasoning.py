"""How much a model is to think before it answers: the levels that a run may ask for, and the room each is given.

    none      not at all                      minimal low medium high    an effort, in the service's own words
    default   as the model decides            4096                       at most so many tokens

What a level comes to at a service (`ReasoningSettings`) is for its provider to say, or to refuse.
Design: docs/decisions/0018-reasoning.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import Field, JsonValue

from mbbq_gen.core.errors import ConfigError, UsageError
from mbbq_gen.core.records import FrozenModel

LEVELS: Final = ("none", "default", "minimal", "low", "medium", "high")
"""The levels that have a name; every other one is a number of tokens."""
REASONING_TOKENS: Final[Mapping[str, int]] = {
    "none": 0,
    "default": 8192,
    "minimal": 1024,
    "low": 4096,
    "medium": 8192,
    "high": 16384,
}
"""Level → tokens for thinking, beside those for the answer; a budget where a service takes nothing but budgets."""
_EXPECTED: Final[Mapping[str, int]] = {
    "none": 0,
    "default": 800,
    "minimal": 100,
    "low": 300,
    "medium": 800,
    "high": 2000,
}
"""Level → tokens that thinking about one question takes, assumed."""
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
    """The levels that were typed, each once, in their order.

    Raises:
        ConfigError: for a level that is none, or a number of tokens that can't be one.
    """
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
    return REASONING_TOKENS[level] if tokens is None else tokens


def expected_tokens(level: str | None) -> int:
    """Tokens that thinking about one question takes, assumed; nobody knows before a run."""
    if level is None:
        return 0
    tokens = tokens_of(level)
    return _EXPECTED[level] if tokens is None else min(tokens, _EXPECTED["high"])


def in_order(levels: Sequence[str]) -> list[str]:
    """Levels from the least thinking to the most."""

    def rank(level: str) -> tuple[int, int]:
        return reasoning_token_allowance(level), LEVELS.index(level) if level in LEVELS else -1

    return sorted(dict.fromkeys(levels), key=rank)


def refusal(model: str, level: str, why: str) -> UsageError:
    """One line that says why a model does not support a level, and what to do."""
    return UsageError(f"--reasoning-effort {level}: {model} {why}")
