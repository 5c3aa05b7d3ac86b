"""Rows of words: what several words say together, as the language's pack has them."""

from __future__ import annotations

from mbbq_gen.extraction.clauses import NOT
from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lexicon import GAP, INNER, NOUN, SMALL, PhraseNode
from mbbq_gen.extraction.lines import COMMA, Line

_HEARD = NOT | C["source"]
"""What a word in the gap of a row still says: "comes in this text *not* up"."""
_KEPT = SMALL | C["speaker"] | C["claim"]
"""What the words of a row keep."""
_KEPT_IN_FINAL = C["answer"] | NOUN
"""What they keep in a row for what is final: "the last answer"."""


def mark_phrases(line: Line, rows: PhraseNode) -> None:
    """Gives rows of words the classes of their row; their own words count no more, but for a negation between them."""
    masks, words = line.masks, line.words
    last, end = len(words) - 1, 0
    for place in line.starts:
        follows = words[place].follows
        if place < end or (follows is not None and (place == last or words[place + 1].key not in follows)):
            continue  # inside a row, or the next word can't follow: most words that begin rows begin none here
        end, bits, between = _longest_row(line, rows, place)
        if end:
            rest = SMALL if bits == SMALL else INNER
            for inner in range(place, end):
                kept = masks[inner] & _HEARD if inner in between and not bits & C["only"] else 0
                kept |= masks[inner] & _KEPT_IN_FINAL if bits & C["final"] else 0
                masks[inner] = masks[inner] & _KEPT | rest | kept
            masks[place] |= bits


def _longest_row(line: Line, rows: PhraseNode, start: int) -> tuple[int, int, tuple[int, ...]]:
    """Where the longest row from a place ends, its classes, and the words in its gaps; (0, 0) where none does."""
    words, masks, gaps = line.words, line.masks, line.gaps
    count = len(words)
    best, bits = 0, 0
    gapped: tuple[int, ...] = ()
    open_nodes: list[tuple[PhraseNode, int, int, tuple[int, ...]]] = [
        (child, start + 1, 0, ()) for child in words[start].begins
    ]
    open_nodes += [(child, start + 1, 0, ()) for bit, child in rows.classes.items() if masks[start] & bit]
    while open_nodes:
        node, place, skipped, between = open_nodes.pop()
        if node.mask and place > best:
            best, bits, gapped = place, node.mask, between
        if place >= count or gaps[place] >= COMMA:
            continue
        if node.gap is not None:
            open_nodes.append((node.gap, place, 0, between))
        if node.prefixes or node.suffixes:
            open_nodes += [(child, place + 1, 0, between) for child in node.after(words[place].key)]
        elif (child := node.keys.get(words[place].key)) is not None:
            open_nodes.append((child, place + 1, 0, between))
        if node.classes:
            open_nodes += [(c, place + 1, 0, between) for bit, c in node.classes.items() if masks[place] & bit]
        if node.is_gap and skipped < GAP:
            open_nodes.append((node, place + 1, skipped + 1, (*between, place)))
    return best, bits, gapped
