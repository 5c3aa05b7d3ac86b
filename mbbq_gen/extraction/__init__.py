"""Extracts the chosen option from the text of a response.

    raw text ─► normalise ─► zones ─► lines of words ─► mentions ─► clauses ─► propositions ─► decision

`extract` reads one response; `load_extractor` returns the compiled extractor of a language; its method `explain`
shows how an extraction was made. Word classes and the inflection of option texts are data: `extractors/xx.toml`, with
the schema in `languages/extraction_pack.py`. Two tables for all languages have the rules for clauses (`claims.py`) and
responses (`decision.py`). docs/extraction.md names the module for each kind of mistake.

`extract`, `load_extractor` and the classes are imported on first use: runs handle stored extractions without them.
"""

from __future__ import annotations

import hashlib
from importlib import import_module
from typing import TYPE_CHECKING

from mbbq_gen.core.files import PackPaths, file_digest

ENGINE_VERSION = "7.1"
"""Increased by every change of the engine that may change an extraction."""
ENGINE = "rules"
"""Name of the rule extractor."""
BASELINES = ("strict-match", "first-label", "mbbq-like", "answer-line")
"""Names of the baseline extractors (`simple`)."""
SIMPLE_VERSION = "1"
"""Increased by every change of a baseline extractor that may change an extraction."""
SECOND_LANGUAGE = "en"
"""Answers to questions in any language may be in this one."""


def extractor_names() -> list[str]:
    """The names of all extractors, the rule extractor first."""
    return [ENGINE, *BASELINES]


def has_pack(language: str, resources: PackPaths | None = None) -> bool:
    """Whether a language has a pack."""
    return (resources or PackPaths()).find("extractors", language) is not None


def has_second(language: str, resources: PackPaths) -> bool:
    """Whether answers to questions in a language may be in the second language."""
    return language != SECOND_LANGUAGE and has_pack(SECOND_LANGUAGE, resources)


def current_version(language: str, resources: PackPaths) -> str:
    """The version of a language's extractor: engine version and a digest of its packs."""
    names = [language, *([SECOND_LANGUAGE] if has_second(language, resources) else []), "_shared", f"people/{language}"]
    digests = [file_digest(path) for name in names if (path := resources.find("extractors", name)) is not None]
    return f"{ENGINE_VERSION}+{hashlib.sha256(' '.join(digests).encode()).hexdigest()[:12]}"


if TYPE_CHECKING:
    from mbbq_gen.extraction.engine import RuleExtractor, extract, load_extractor
    from mbbq_gen.extraction.explain import Explanation
    from mbbq_gen.extraction.question import Question
else:  # hidden from type checkers, which would accept any name
    _ELSEWHERE = {"Question": "question", "Explanation": "explain"}

    def __getattr__(name):
        if name in __all__:
            module = import_module(f"{__name__}.{_ELSEWHERE.get(name, 'engine')}")
            return globals().setdefault(name, getattr(module, name))
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "ENGINE_VERSION",
    "Explanation",
    "Question",
    "RuleExtractor",
    "current_version",
    "extract",
    "has_pack",
    "load_extractor",
]
