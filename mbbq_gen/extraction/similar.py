"""Reads a short response that is, as a whole, a misspelt option: "no ay imformacion" for "No hay información"."""

from __future__ import annotations

from collections.abc import Sequence

from mbbq_gen.extraction.optionset import OptionSet, edits
from mbbq_gen.extraction.reading import COMMITTED, Evidence
from mbbq_gen.extraction.resolve import Decision
from mbbq_gen.extraction.tokens import SENTENCE, Token

MAX_LETTERS = 60
"""Letters of a response that may be a misspelt option as a whole."""
MAX_EDITS = 6
CLEARER = 2
"""Edits by which any other option must be further away."""


def read_similar(tokens: Sequence[Token], options: OptionSet) -> Decision | None:
    """The one option whose whole text a response of one sentence nearly is."""
    if not tokens or any(token.break_before >= SENTENCE for token in tokens[1:]):
        return None
    keys = [token.key for token in tokens]
    while len(keys) > 1 and keys[0] in options.articles:
        del keys[0]
    spoken = " ".join(keys)
    if len(spoken) > MAX_LETTERS or any(key.isdigit() for key in keys):
        return None
    limit = _allowed(len(spoken))
    found = []
    for option in options.texts:
        if option.per_character:
            return None
        distance = edits(spoken, " ".join(option.tokens), limit + CLEARER)
        found.append((distance, option.index))
    (best, index), (second, _) = sorted(found)[:2]
    if best > limit or second - best < CLEARER:
        return None
    end = tokens[-1].end
    piece = Evidence(COMMITTED, 0, (index,), "mention", "misspelt", None, True, tokens[0].start, end)
    return Decision("option", index, "low", "misspelt", piece)


def _allowed(letters: int) -> int:
    """Edits that a text of so many letters may be away."""
    if letters < 4:
        return 0
    return min(1 + letters // 7, MAX_EDITS)
