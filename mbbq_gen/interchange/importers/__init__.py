"""Opens the log of any program that is known, by the program's name."""

from __future__ import annotations

from pathlib import Path

from mbbq_gen.core.errors import UsageError
from mbbq_gen.interchange.importers.base import Source, Tool


def open_log(tool: Tool, path: Path, field_map: Path | None = None) -> Source:
    """The log, ready to be read.

    Args:
        tool: the program that wrote it.
        path: its file or folder.
        field_map: for `csv`, the TOML file that maps the columns.

    Raises:
        UsageError: there is no such log.
        DataError, PackError: it can't be read.
    """
    if field_map is not None and tool != "csv":
        raise UsageError(f"--columns is for --from csv; --from {tool} needs none")
    if not path.exists():
        raise UsageError(f"{path}: no such file or folder")
    if tool == "csv":
        from mbbq_gen.interchange.importers.table import open_table

        return open_table(path, field_map)
    if tool == "lm-eval":
        from mbbq_gen.interchange.importers.lm_eval import open_lm_eval as opener
    elif tool == "inspect":
        from mbbq_gen.interchange.importers.inspect_log import open_inspect as opener
    elif tool == "lighteval":
        from mbbq_gen.interchange.importers.lighteval import open_lighteval as opener
    elif tool == "euroeval":
        from mbbq_gen.interchange.importers.euroeval import open_euroeval as opener
    else:
        from mbbq_gen.interchange.importers.helm import open_helm as opener
    return opener(path)
