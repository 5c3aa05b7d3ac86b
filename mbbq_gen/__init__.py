"""mbbq-gen: measures the social bias of chat models by what they write.

For notebooks and scripts: `from mbbq_gen import Run, load_benchmark, extract, score` (docs/python.md). They are
imported when they are first requested, so that `import mbbq_gen` stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = ["Run", "__version__", "extract", "load_benchmark", "score"]

if TYPE_CHECKING:
    from mbbq_gen.api import Run, extract, load_benchmark, score
else:  # a type checker must not take every name for one of ours

    def __getattr__(name):
        if name in __all__:
            from mbbq_gen import api

            return getattr(api, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
