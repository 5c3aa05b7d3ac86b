"""The word lists of the packs in use, made ready for looking up.

Two packs are read at once: that of the question's language and English, for answers that switch. Each word belongs to
one of them: a word that the stronger pack speaks of is never read by the weaker one, and the stronger pack's lists
alone say which letters are words. The stronger pack is the question's own, unless most words are English.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import regex

from mbbq_gen.extraction.clitics import Clitics
from mbbq_gen.extraction.joining import JoinWords
from mbbq_gen.extraction.letters import LabelWords
from mbbq_gen.extraction.mentions import Item
from mbbq_gen.extraction.normalise import loose_key
from mbbq_gen.extraction.pack import ExtractorPack
from mbbq_gen.extraction.patterns import Hit, anchors, parse, word_rows
from mbbq_gen.extraction.reading import Words
from mbbq_gen.extraction.tokens import COMMA, Token, tokenise

_REJOINDER = regex.compile(r"\{x\}.* , (?:\(([^()]*)\)\??|([^\s(){},]+))(?: (?:\([^()]*\)\??|[^\s(){},]+))* \{y\}")
"""The words between the comma and the second mention of a contrast; the first of them are of interest."""
_LETTERS = frozenset(map(chr, range(128)))
"""A letter or digit that stands alone tells nothing of the language."""
MAX_ROWS = 50
"""Word rows of one contrast that are looked at."""


def word_keys(words: Iterable[str]) -> frozenset[str]:
    """The loose keys of words; of one that is written in parts, every part."""
    return frozenset(token.key for word in words for token in tokenise(word))


def vocabulary(pack: ExtractorPack) -> frozenset[str]:
    """The words that a pack speaks of."""
    phrases = (rule.phrase for rule in pack.rules(home=True))
    return word_keys((*phrases, *pack.text.articles, *pack.text.stop, *pack.labels.option_words))


@dataclass(frozen=True)
class Lexicon:
    """The word lists of a stronger pack and what the weaker ones add to it."""

    language: str
    """The stronger pack's language."""
    labels: LabelWords
    join: JoinWords
    words: Words
    articles: frozenset[str]
    stop: frozenset[str]
    ordinal_words: frozenset[str]
    """Words without which no ordinal is in a text."""
    pair: frozenset[str]
    """Words for two."""
    known: frozenset[str]
    """Every word that the packs speak of."""
    own: frozenset[str]
    """Every word that the stronger pack speaks of."""
    clitics: Clitics
    negations: frozenset[str]
    """The stronger pack's words such as "not"."""


def build_lexicon(packs: Sequence[ExtractorPack]) -> Lexicon:
    """The lists of some packs, the first of which is the stronger one."""
    home, lists = packs[0], _Lists(packs)
    spoken = lists.articles | lists.stop | lists.copulas | lists.option_words
    return Lexicon(
        language=home.meta.language,
        labels=_label_words(home, lists),
        join=_join_words(packs, lists),
        words=_reading_words(home, lists),
        articles=lists.articles,
        stop=lists.stop,
        ordinal_words=_telling_words(packs, spoken),
        pair=lists.keys(lambda pack: pack.ordinals.pair),
        known=lists.known,
        own=lists.own,
        negations=_negations(home) - spoken,
        clitics=Clitics((word for pack in packs for word in pack.script.clitics), lists.known),
    )


class _Lists:
    """Reads one list of every pack; the weaker packs' words stand back where the stronger one speaks of them."""

    def __init__(self, packs: Sequence[ExtractorPack]) -> None:
        self._packs = packs
        self.own = vocabulary(packs[0])
        self.known = self.own.union(*(vocabulary(pack) for pack in packs))
        self.articles = self.keys(lambda pack: pack.text.articles)
        self.stop = self.keys(lambda pack: pack.text.stop)
        self.copulas = self.keys(lambda pack: pack.cues.copulas)
        self.option_words = self.keys(lambda pack: pack.labels.option_words)
        self.answer_words = self.keys(lambda pack: _single(pack.headers.answer))
        self.coordinators = self.keys(lambda pack: _single(pack.relations.coordinators))

    def keys(self, words: Callable[[ExtractorPack], Iterable[str]]) -> frozenset[str]:
        """The keys of a list of all packs."""
        added = word_keys(word for pack in self._packs[1:] for word in words(pack))
        return word_keys(words(self._packs[0])) | (added - self.own)

    def rows(self, words: Callable[[ExtractorPack], Iterable[str]]) -> frozenset[tuple[str, ...]]:
        """The same for a list whose entries may be several words."""
        added = (row for pack in self._packs[1:] for row in _rows_of(words(pack)) if self.own.isdisjoint(row))
        return frozenset((*_rows_of(words(self._packs[0])), *added))


def _single(phrases: Iterable[str]) -> list[str]:
    """The phrases that are one word."""
    return [phrase for phrase in phrases if len(tokenise(phrase)) == 1]


def _join_words(packs: Sequence[ExtractorPack], lists: _Lists) -> JoinWords:
    home = packs[0]
    words_after = word_keys(home.labels.option_words_after)
    announcing = lists.copulas | lists.option_words | words_after | lists.answer_words
    coordinators = [words for pack in packs for words in pack.relations.coordinators]
    return JoinWords(
        coordinators=lists.coordinators,
        rows=frozenset(row for row in _rows_of(coordinators) if len(row) > 1),
        accented=frozenset(word.casefold() for word in coordinators),
        appositions=frozenset(_rows_of(words for pack in packs for words in pack.relations.appositions)),
        announcing=announcing,
        negators=_first_words(home) - announcing,
        turning=lists.keys(_turning),
        joint=tuple(sorted(word_keys(home.relations.joint))),
        joined=lists.coordinators & word_keys(home.script.clitics),
        small=lists.articles | lists.stop,
    )


def _rows_of(phrases: Iterable[str]) -> list[tuple[str, ...]]:
    """The keys of the words of phrases."""
    return [tuple(token.key for token in tokenise(phrase)) for phrase in phrases]


def _reading_words(home: ExtractorPack, lists: _Lists) -> Words:
    places = lists.keys(lambda pack: [place for places in pack.ordinals.places.values() for place in places])
    small = lists.articles | lists.stop | lists.option_words | places
    spoken = lists.articles | lists.stop | lists.copulas | lists.option_words
    return Words(
        small=small,
        copulas=lists.copulas,
        filling=(small | lists.coordinators) - {word for word in lists.copulas if word.isascii()},
        dangling=lists.articles | lists.coordinators,
        needs_noun=tuple(sorted(word_keys(word.lstrip("-") for word in home.text.needs_noun))),
        rejoinders=lists.keys(_rejoinders) - spoken,
        known=lists.known,
        also=lists.rows(lambda pack: pack.relations.also),
        merely=lists.rows(lambda pack: pack.relations.merely),
        negations=_negations(home) - spoken,
        denying=lists.keys(lambda pack: pack.relations.negated) | lists.articles | lists.stop | lists.coordinators,
    )


def _label_words(home: ExtractorPack, lists: _Lists) -> LabelWords:
    labels = home.labels
    return LabelWords(
        option_words=lists.option_words,
        option_words_after=word_keys(labels.option_words_after),
        names={loose_key(word): loose_key(letter) for letter, words in labels.names.items() for word in words},
        stray=word_keys(labels.stray),
        articles=word_keys(home.text.articles),
        suffixes=word_keys(word.lstrip("-") for word in labels.suffixes),
        not_after=word_keys(labels.not_after),
        not_before=word_keys(labels.not_before),
        answer_words=lists.answer_words,
    )


def _telling_words(packs: Sequence[ExtractorPack], small: frozenset[str]) -> frozenset[str]:
    """Words one of which stands in every place: of "at the top of the list", "list"; so most texts need no look."""
    found: set[str] = set()
    for pack in packs:
        for phrases in (*pack.ordinals.places.values(), *pack.ordinals.cardinals.values()):
            for phrase in phrases:
                found |= anchors(parse(phrase), small) or word_keys([phrase])
    return frozenset(found)


def _negations(pack: ExtractorPack) -> frozenset[str]:
    """The words that denials, contrasts and statements that it can't be told have in common: "not", "no"."""
    return word_keys(pack.relations.negated) & word_keys(pack.relations.contrast) & word_keys(pack.unknown.statement)


def _rejoinders(pack: ExtractorPack) -> list[str]:
    """The first words behind the comma of a contrast."""
    found = (match for phrase in pack.relations.contrast for match in _REJOINDER.finditer(phrase))
    ways = (match.group(1) or match.group(2) for match in found)
    return [way.split()[0].strip("=*") for words in ways for way in words.split("|") if way.strip()]


def _turning(pack: ExtractorPack) -> list[str]:
    """The words behind which a contrast goes on, with a comma or without: every "but" of one word."""
    return [*_rejoinders(pack), *(line for line in pack.markers.adversative if line.isalpha())]


def _first_words(pack: ExtractorPack) -> frozenset[str]:
    """The words that contrasts begin with."""
    phrases = (phrase for phrase in pack.relations.contrast if not phrase.startswith(("{", "(…")))
    return frozenset(row[0] for phrase in phrases for row in word_rows(phrase, MAX_ROWS) if row)


def speaks_more(tokens: Sequence[Token], one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether more words of a text are known to one vocabulary alone than to the other alone."""
    keys = {token.key for token in tokens}
    keys -= keys & _LETTERS
    return len(keys & one) > len(keys & other)


def own_hits(hits: list[Hit], items: Sequence[Item], lexicon: Lexicon) -> list[Hit]:
    """The hits without those of a weaker pack that the stronger pack's language explains.

    A weaker pack's hit needs a word that the stronger pack does not speak of, must not lie inside a hit of the
    stronger pack, and, if it is a single word, must not stand between words of the stronger language.
    """
    weaker = [hit for hit in hits if hit.rule.language != lexicon.language]
    if not weaker:
        return hits
    covered: dict[int, int] = {}
    reach = 0
    for hit in hits:  # in the order of their starts
        if hit.end > reach and hit.rule.language == lexicon.language:
            reach = hit.end
        covered[hit.start] = reach
    dropped = {id(hit) for hit in weaker if hit.end <= covered[hit.start] or _is_explained(hit, items, lexicon)}
    return [hit for hit in hits if id(hit) not in dropped]


def _is_explained(hit: Hit, items: Sequence[Item], lexicon: Lexicon) -> bool:
    """Whether the stronger pack's language explains the words of a hit."""
    words = [item for item in items[hit.start : hit.end] if item.is_word and not item.is_mention]
    if words and all(item.key in lexicon.own for item in words):
        return True
    if len(words) != 1 or hit.end - hit.start != 1:
        return False
    beside = [items[hit.start - 1]] if hit.start and items[hit.start].break_before < COMMA else []
    if hit.end < len(items) and items[hit.end].break_before < COMMA:
        beside.append(items[hit.end])
    return bool(beside) and all(item.key in lexicon.own and not item.is_mention for item in beside)
