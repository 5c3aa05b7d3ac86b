"""How the commands that ask tell how far they are: words and bars on stderr."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mbbq_gen.cli.options import say

if TYPE_CHECKING:
    from mbbq_gen.runs.bars import Bars


def terminal() -> Bars:
    """The watcher of a run whose user sits at a terminal."""
    from mbbq_gen.runs.bars import Bars

    return Bars(say)
