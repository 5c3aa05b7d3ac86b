"""Opens the log of any program that is known, by the program's name."""

from __future__ import annotations

from pathlib import Path

from mbbq_gen.errors import UsageError
from mbbq_gen.imports.answers import Source, Tool


def open_source(tool: Tool, path: Path, map_path: Path | None = None) -> Source:
    """The log, ready to be read.

    Args:
        tool: the program that wrote it.
        path: its file or folder.
        map_path: for `csv`, the TOML file that says what the columns are.

    Raises:
        UsageError: where there is no such log.
        DataError, PackError: where it can't be read.
    """
    if map_path is not None and tool != "csv":
        raise UsageError(f"--map says what the columns of --from csv are; --from {tool} knows them")
    if not path.exists():
        raise UsageError(f"{path}: no such file or folder")
    if tool == "csv":
        from mbbq_gen.imports.table import open_table

        return open_table(path, map_path)
    if tool == "lm-eval":
        from mbbq_gen.imports.lm_eval import open_lm_eval as opener
    elif tool == "inspect":
        from mbbq_gen.imports.inspect_log import open_inspect as opener
    elif tool == "lighteval":
        from mbbq_gen.imports.lighteval import open_lighteval as opener
    elif tool == "euroeval":
        from mbbq_gen.imports.euroeval import open_euroeval as opener
    else:
        from mbbq_gen.imports.helm import open_helm as opener
    return opener(path)
