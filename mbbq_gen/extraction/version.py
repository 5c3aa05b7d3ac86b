"""Which reader a language has, told from the files of its packs alone: nothing is compiled, nor are packs checked."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from mbbq_gen.resources import Resources, file_digest

ENGINE_VERSION = "5.6"
"""Raised by every change of the engine that may change an extraction."""
SECOND_LANGUAGE = "en"
"""Answers in this language are read whatever the question's language is."""


def has_pack(language: str, resources: Resources | None = None) -> bool:
    """Whether a language has a pack; one without is read by what needs no words."""
    return (resources or Resources()).find("extractors", language) is not None


def has_second(language: str, resources: Resources) -> bool:
    """Whether a language's answers are read in the second language too."""
    return language != SECOND_LANGUAGE and has_pack(SECOND_LANGUAGE, resources)


def current_version(language: str, resources: Resources) -> str:
    """The version of a language's extractor."""
    names = [language, SECOND_LANGUAGE] if has_second(language, resources) else [language]
    return extractor_version([*names, "_shared", f"people/{language}"], resources)


def extractor_version(names: Sequence[str], resources: Resources) -> str:
    """Engine version and a digest of the packs: what an extraction is stored under."""
    digests = [file_digest(path) for name in names if (path := resources.find("extractors", name)) is not None]
    return f"{ENGINE_VERSION}+{hashlib.sha256(' '.join(digests).encode()).hexdigest()[:12]}"
