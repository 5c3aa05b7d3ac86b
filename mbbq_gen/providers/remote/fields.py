"""Fields of an answer that may be anything: what is not of the kind that it should be is not there."""

from __future__ import annotations

from typing import Any


def table_of(value: Any) -> dict[str, Any]:
    """A JSON object; empty where it is none."""
    return value if isinstance(value, dict) else {}


def tables_of(value: Any) -> list[dict[str, Any]]:
    """The JSON objects of a list."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def words_of(value: Any) -> str | None:
    """A text, or a number as one; None where it is something else."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return str(value)
