"""Reads the chosen option out of what a model wrote: text → extraction.

`extract` reads one response; `load_extractor` gives the compiled reader of a language for many of them; its `explain`
tells the whole story of one. How an answer is read in a language is data: `extractors/xx.toml`, schema in `.pack`.
"""

from __future__ import annotations

from mbbq_gen.extraction.engine import ENGINE_VERSION, Extractor, extract, extractor_version, load_extractor
from mbbq_gen.extraction.trace import Explanation

__all__ = ["ENGINE_VERSION", "Explanation", "Extractor", "extract", "extractor_version", "load_extractor"]
