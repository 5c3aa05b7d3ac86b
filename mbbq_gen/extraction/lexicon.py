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
from mbbq_gen.extraction.labels import LabelWords
from mbbq_gen.extraction.mentions import Item
from mbbq_gen.extraction.normalise import loose_key
from mbbq_gen.extraction.pack import ExtractorPack
from mbbq_gen.extraction.patterns import Hit, anchors, parse, word_rows
from mbbq_gen.extraction.reading import Words
from mbbq_gen.extraction.tokens import COMMA, Token, tokenise

_REJOINDER = regex.compile(r"\{x\}.* , (?:\(([^()]*)\)\??|([^\s(){},]+))(?: (?:\([^()]*\)\??|[^\s(){},]+))* \{y\}")
"""The words between the comma and the second mention of a contrast; the first of them are of interest."""
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
    home = packs[0]
    own = vocabulary(home)
    known = own.union(*(vocabulary(pack) for pack in packs))
    lists = _Lists(packs, own)
    articles = lists.keys(lambda pack: pack.text.articles)
    stop = lists.keys(lambda pack: pack.text.stop)
    rows = {tuple(token.key for token in tokenise(words)) for pack in packs for words in pack.relations.appositions}
    copulas = lists.keys(lambda pack: pack.cues.copulas)
    answer_words = lists.keys(lambda pack: [word for word in pack.headers.answer if len(tokenise(word)) == 1])
    words_after = word_keys(home.labels.option_words_after)
    coordinators = lists.keys(lambda pack: [w for w in pack.relations.coordinators if len(tokenise(w)) == 1])
    option_words = lists.keys(lambda pack: pack.labels.option_words)
    places = lists.keys(lambda pack: [place for places in pack.ordinals.places.values() for place in places])
    return Lexicon(
        language=home.meta.language,
        labels=_label_words(home, option_words, lists),
        join=JoinWords(
            coordinators=coordinators,
            rows=frozenset(
                row
                for pack in packs
                for words in pack.relations.coordinators
                if len(row := tuple(token.key for token in tokenise(words))) > 1
            ),
            accented=frozenset(word.casefold() for pack in packs for word in pack.relations.coordinators),
            appositions=frozenset(rows),
            announcing=copulas | option_words | words_after | answer_words,
            negators=_first_words(home) - copulas - option_words - words_after - answer_words,
            turning=lists.keys(_turning),
            joint=tuple(sorted(word_keys(home.relations.joint))),
            joined=coordinators & word_keys(home.script.clitics),
            small=articles | stop,
        ),
        words=Words(
            small=articles | stop | option_words | places,
            copulas=copulas,
            filling=(articles | stop | option_words | places | coordinators)
            - {word for word in copulas if word.isascii()},
            dangling=articles | coordinators,
            needs_noun=tuple(sorted(word_keys(word.lstrip("-") for word in home.text.needs_noun))),
            rejoinders=lists.keys(_rejoinders) - articles - stop - copulas - option_words,
            known=known,
        ),
        articles=articles,
        stop=stop,
        ordinal_words=_telling_words(packs, articles | stop | copulas | option_words),
        pair=lists.keys(lambda pack: pack.ordinals.pair),
        known=known,
        own=own,
        negations=_negations(home) - articles - stop - copulas - option_words,
        clitics=Clitics((word for pack in packs for word in pack.script.clitics), known),
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


class _Lists:
    """Reads one list of every pack; the weaker packs' words stand back where the stronger one speaks of them."""

    def __init__(self, packs: Sequence[ExtractorPack], own: frozenset[str]) -> None:
        self._packs = packs
        self._own = own

    def keys(self, words: Callable[[ExtractorPack], Iterable[str]]) -> frozenset[str]:
        """The keys of a list of all packs."""
        added = word_keys(word for pack in self._packs[1:] for word in words(pack))
        return word_keys(words(self._packs[0])) | (added - self._own)


def _label_words(home: ExtractorPack, option_words: frozenset[str], lists: _Lists) -> LabelWords:
    labels = home.labels
    return LabelWords(
        option_words=option_words,
        option_words_after=word_keys(labels.option_words_after),
        names={loose_key(word): loose_key(letter) for letter, words in labels.names.items() for word in words},
        stray=word_keys(labels.stray),
        articles=word_keys(home.text.articles),
        suffixes=word_keys(word.lstrip("-") for word in labels.suffixes),
        not_after=word_keys(labels.not_after),
        not_before=word_keys(labels.not_before),
        answer_words=lists.keys(lambda pack: [word for word in pack.headers.answer if len(tokenise(word)) == 1]),
    )


def speaks_more(tokens: Sequence[Token], one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether more words of a text are known to one vocabulary alone than to the other alone."""
    keys = {token.key for token in tokens if len(token.key) > 1 or not token.key.isascii()}
    return len(keys & one) > len(keys & other)


def own_hits(hits: list[Hit], items: Sequence[Item], lexicon: Lexicon) -> list[Hit]:
    """The hits without those of a weaker pack that the stronger pack's language explains.

    A weaker pack's hit needs a word that the stronger pack does not speak of, must not lie inside a hit of the
    stronger pack, and, if it is a single word, must not stand between words of the stronger language.
    """
    weaker = [hit for hit in hits if hit.rule.language != lexicon.language]
    if not weaker:
        return hits
    covered = [0] * (len(items) + 1)
    for hit in hits:
        if hit.rule.language == lexicon.language:
            covered[hit.start] = max(covered[hit.start], hit.end)
    reach = 0
    for place, end in enumerate(covered):
        reach = covered[place] = max(reach, end)
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
