"""Reads the chosen option out of what a model wrote: text → extraction.

    raw text ─► normalise ─► zones ─► lines of words ─► mentions ─► clauses ─► propositions ─► decision

`extract` reads one response; `load_extractor` gives the compiled reader of a language for many of them; its `explain`
tells the whole story of one. What is particular to a language is data, `extractors/xx.toml`, schema in `.pack`: classes
of words, and how option texts are inflected. What a clause says follows from the classes of its words (`.claims`,
`.unknowns`), what a response means from its clauses (`.decision`): tables, the same in every language.
"""

from __future__ import annotations

from mbbq_gen.extraction.engine import (
    ENGINE_VERSION,
    Extractor,
    extract,
    extractor_version,
    has_pack,
    load_extractor,
)
from mbbq_gen.extraction.question import Question
from mbbq_gen.extraction.trace import Explanation

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
