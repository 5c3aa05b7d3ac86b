"""Reads the chosen option out of what a model wrote: text → extraction.

    raw text ─► normalise ─► zones ─► lines of words ─► mentions ─► clauses ─► propositions ─► decision

`extract` reads one response; `load_extractor` gives the compiled reader of a language for many of them; its `explain`
tells the whole story of one. What is particular to a language is data, `extractors/xx.toml`, schema in `.pack`: classes
of words, and how option texts are inflected. What a clause says follows from the classes of its words (`.claims`,
`.unknowns`), what a response means from its clauses (`.decision`): tables, the same in every language.
docs/extraction.md tells which file mends what.

What is named here is imported when it is first asked for: runs know readings without a reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mbbq_gen.extraction.engine import Extractor, extract, load_extractor
    from mbbq_gen.extraction.question import Question
    from mbbq_gen.extraction.trace import Explanation
    from mbbq_gen.extraction.version import ENGINE_VERSION, extractor_version, has_pack
else:  # a type checker must not take every name for one of ours
    _ELSEWHERE = {"Question": "question", "Explanation": "trace"}
    _ELSEWHERE |= dict.fromkeys(("ENGINE_VERSION", "extractor_version", "has_pack"), "version")

    def __getattr__(name):
        if name in __all__:
            from importlib import import_module

            return getattr(import_module(f"{__name__}.{_ELSEWHERE.get(name, 'engine')}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "ENGINE_VERSION",
    "Explanation",
    "Extractor",
    "Question",
    "extract",
    "extractor_version",
    "has_pack",
    "load_extractor",
]
