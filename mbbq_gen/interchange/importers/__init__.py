"""Opens logs of other programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mbbq_gen.core.errors import UsageError
from mbbq_gen.interchange.importers.base import Source, Tool
from mbbq_gen.interchange.importers.helm import open_helm
from mbbq_gen.interchange.importers.inspect_log import open_inspect
from mbbq_gen.interchange.importers.lighteval import open_lighteval
from mbbq_gen.interchange.importers.lm_eval import open_lm_eval
from mbbq_gen.interchange.importers.table import open_table

_OPENERS: dict[Tool, Callable[[Path], Source]] = {
    **{"lm-eval": open_lm_eval, "inspect": open_inspect, "helm": open_helm, "lighteval": open_lighteval}
}


def open_log(tool: Tool, path: Path, field_map: Path | None = None) -> Source:
    """Opens a log; `field_map`: TOML file that maps the columns of `csv`. Raises MbbqGenError."""
    if field_map is not None and tool != "csv":
        raise UsageError(f"--columns is for --from csv; --from {tool} needs none")
    if not path.exists():
        raise UsageError(f"{path}: no such file or folder")
    return open_table(path, field_map) if tool == "csv" else _OPENERS[tool](path)
