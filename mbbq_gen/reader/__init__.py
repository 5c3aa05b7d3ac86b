"""The reader of answers, engine 5: a pure pipeline from text to extraction.

normalise ─► lines ─► words and mentions ─► clauses ─► propositions ─► decision

What is particular to a language is data, `extractors/xx.toml`: classes of words and how option texts are inflected.
What a clause means follows from the classes of its words; one table over the propositions decides.
"""

from __future__ import annotations
