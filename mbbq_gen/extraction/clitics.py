"""Looks behind particles that a language writes together with the next word: Arabic و, ب, ال."""

from __future__ import annotations

from collections.abc import Iterable

from mbbq_gen.extraction.normalise import MAX_WORDS, loose_key

MIN_REST = 3
"""Letters that a word keeps behind its particles at least."""


class Clitics:
    """Parts words from the particles in front of them; keeps what it has seen."""

    def __init__(self, particles: Iterable[str], known: frozenset[str] = frozenset()) -> None:
        keys = {loose_key(particle) for particle in particles}
        self._particles = tuple(sorted(keys, key=lambda key: (-len(key), key)))
        self._known = known
        self._forms: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._particles)

    def bare(self, key: str) -> str:
        """The word without any particle in front of it."""
        rests = self._rests(key)
        return rests[-1] if rests else key

    def known(self, key: str) -> str:
        """The longest rest of a word that the packs speak of; the word itself where they know it, or none of them."""
        form = self._forms.get(key)
        if form is None:
            if len(self._forms) >= MAX_WORDS:
                self._forms.clear()
            rests = [] if key in self._known else self._rests(key)
            form = self._forms[key] = next((rest for rest in rests if rest in self._known), key)
        return form

    def _rests(self, key: str) -> list[str]:
        """What is left behind one particle, two, and so on."""
        rests: list[str] = []
        while True:
            for particle in self._particles:
                if key.startswith(particle) and len(key) - len(particle) >= MIN_REST:
                    key = key[len(particle) :]
                    rests.append(key)
                    break
            else:
                return rests
