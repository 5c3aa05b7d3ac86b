"""How the commands that ask tell how far they are: words and bars on stderr."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from mbbq_gen.cli.options import say

if TYPE_CHECKING:
    from mbbq_gen.runs.bars import Bars


def terminal() -> Bars:
    """The watcher of a run whose user sits at a terminal."""
    from mbbq_gen.runs.bars import Bars

    return Bars(say)


def load_report() -> None:
    """Imports what the report needs: slow, so it is done while the model is waited for."""
    for name in ("polars", "scipy.special", "mbbq_gen.cli.report", "mbbq_gen.report.tables"):
        import_module(name)
