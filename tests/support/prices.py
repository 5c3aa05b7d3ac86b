"""Files of prices."""

from __future__ import annotations

import json
from pathlib import Path


def write_prices(folder: Path, name: str = "openai:fake", price: float = 1_000_000.0, **others: float | str) -> Path:
    """Writes a file of prices: `price` for input and output, in dollars per million tokens.

    Args:
        name: Kind and model, or several models with commas between them.
        others: Prices of something else, or other prices of input or output; a note.
    """
    kind, _, models = name.partition(":")
    fields = {"kind": kind, "models": models.split(","), "input": price, "output": price, **others}
    lines = [f"{field} = {json.dumps(value)}" for field, value in fields.items()]
    path = folder / "prices.toml"
    path.write_text("\n".join(["[[price]]", *lines, "date = 2026-01-01", ""]), encoding="utf-8")
    return path
