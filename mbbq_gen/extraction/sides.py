"""The word lists and finders of one reading: two packs at once, one of them the stronger."""

from __future__ import annotations

from dataclasses import dataclass

from mbbq_gen.extraction.automaton import Automaton
from mbbq_gen.extraction.labels import LabelFinder
from mbbq_gen.extraction.lexicon import Lexicon, build_lexicon, vocabulary
from mbbq_gen.extraction.normalise import loose_key
from mbbq_gen.extraction.pack import ExtractorPack
from mbbq_gen.extraction.places import PlaceFinder
from mbbq_gen.extraction.texts import TextFinder


@dataclass(frozen=True)
class Side:
    """The word lists with one of the packs as the stronger one, and the finders that use them."""

    lexicon: Lexicon
    labels: LabelFinder
    texts: TextFinder
    places: PlaceFinder
    alone: frozenset[str]
    """Words that the stronger pack speaks of and no other one does."""

    @classmethod
    def of(cls, packs: tuple[ExtractorPack, ...], small: frozenset[str], ordinals: Automaton) -> Side:
        """The side of the first of the packs; `small` are the small words of the question's language."""
        lexicon = build_lexicon(packs)
        alone = lexicon.own.difference(*(vocabulary(pack) for pack in packs[1:]))
        coordinators = {loose_key(word) for pack in packs for word in pack.relations.coordinators}
        return cls(
            lexicon,
            LabelFinder(lexicon.labels, lexicon.known),
            TextFinder(packs[0].text, small - coordinators, lexicon.own),
            PlaceFinder(ordinals, lexicon.ordinal_words, lexicon.labels.option_words, lexicon.pair, lexicon.known),
            alone,
        )
