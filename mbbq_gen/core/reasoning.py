"""Reasoning effort: its levels, and the tokens added for each.

    none      no reasoning                    minimal low medium high    an effort, as the service defines it
    default   on, the model chooses           4096                       at most so many tokens

Each provider converts a level to parameters (`ReasoningSettings`) or raises an error.
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
"""Level → reasoning tokens allowed besides those for the answer (the budget at services that take budgets only), and
reasoning tokens assumed for one question."""
LEVELS: Final = tuple(_TOKENS)
"""The named levels; all others are numbers of tokens."""
_MOST_TOKENS: Final = 1_000_000


class ReasoningSettings(FrozenModel):
    """The parameters of a level for a model, as in the manifest."""

    sent: dict[str, JsonValue] = Field(default_factory=dict)
    """Fields of the request, or variables of the chat template, by name."""
    left_out: tuple[str, ...] = ()
    """Settings that are not sent, because the model does not take them with reasoning."""
    room: int = Field(default=0, ge=0)
    """Tokens added to the maximum of the answer."""


def parse_reasoning(names: Sequence[str]) -> tuple[str, ...]:
    """The levels given, without duplicates; ConfigError for a wrong one."""
    levels = []
    for name in names:
        level = name.strip().lower()
        if level.isascii() and level.isdigit():
            if not 1 <= int(level) <= _MOST_TOKENS:
                raise ConfigError("reasoning_effort", name, f"give 1 to {_MOST_TOKENS:,} tokens, or `none`")
            level = str(int(level))
        elif level not in LEVELS:
            raise ConfigError("reasoning_effort", name, f"give {', '.join(LEVELS)} or a number of tokens", LEVELS)
        levels.append(level)
    return tuple(dict.fromkeys(levels))


def tokens_of(level: str) -> int | None:
    """The number of tokens of a level; None for a named level."""
    return int(level) if level.isdigit() else None


def reasoning_token_allowance(level: str) -> int:
    """Reasoning tokens allowed besides those for the answer."""
    tokens = tokens_of(level)
    return _TOKENS[level][0] if tokens is None else tokens


def expected_tokens(level: str | None) -> int:
    """Reasoning tokens assumed for one question."""
    if level is None:
        return 0
    tokens = tokens_of(level)
    return _TOKENS[level][1] if tokens is None else min(tokens, _TOKENS["high"][1])


def sort_levels(levels: Sequence[str]) -> list[str]:
    """Levels from the least to the most reasoning, without duplicates."""

    def rank(level: str) -> tuple[int, int]:
        return reasoning_token_allowance(level), LEVELS.index(level) if level in LEVELS else -1

    return sorted(dict.fromkeys(levels), key=rank)


def effort_error(model: str, level: str, why: str) -> UsageError:
    """The error for a level that a model does not support."""
    return UsageError(f"--reasoning-effort {level}: {model} {why}")
