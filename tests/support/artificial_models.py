"""Models that answer by rule, and the published sets whose scores for them others have computed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from mbbq_gen.core.records import Instance, Role

EXPECTED_SETS = (
    *(("mbbq", language) for language in ("en", "es", "nl", "tr")),
    ("bbq", "en"),
    ("esbbq", "es"),
    ("cabbq", "ca"),
    ("kobbq", "ko"),
)
"""Benchmark and language of what EXPECTED_SYNTHETIC_SCORES.json holds."""


def expected_key(benchmark: str, language: str) -> str:
    """Under which key the files of expected numbers have a set."""
    return {"mbbq": f"mbbq/main/{language}", "kobbq": "kobbq_test"}.get(benchmark, benchmark)


def hash_of(instance: Instance) -> int:
    row = instance.metadata["source_row"]
    key = row["example_id"] if instance.benchmark == "kobbq" else f"{row['category']}:{row['example_id']}"
    return int(hashlib.sha256(str(key).encode()).hexdigest(), 16)


def place_of(instance: Instance, role: Role | None) -> int:
    """Where the role stands; the unknown option where there is none."""
    roles = [option.role for option in instance.options]
    return instance.unknown_index if role is None or role not in roles else roles.index(role)


MODELS: dict[str, Callable[[Instance], int | None]] = {
    "gold": lambda i: i.gold_index,
    "unknown": lambda i: i.unknown_index,
    "index0": lambda i: 0,
    "stereotyped": lambda i: place_of(i, i.biased_role),
    "target_group": lambda i: place_of(i, "target"),
    "hash": lambda i: hash_of(i) % 3,
    "hash_with_undetected": lambda i: None if hash_of(i) % 10 == 0 else hash_of(i) // 10 % 3,
}
