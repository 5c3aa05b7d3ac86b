"""Finds options named by their place: "the second option", "the latter", "the other one"."""

from __future__ import annotations

from collections.abc import Sequence

from mbbq_gen.extraction.automaton import Automaton
from mbbq_gen.extraction.mentions import Mention
from mbbq_gen.extraction.optionset import UNSPACED, OptionSet
from mbbq_gen.extraction.patterns import Hit
from mbbq_gen.extraction.tokens import COMMA, LINE, SENTENCE, Token

MAX_TO_NOUN = 5
"""Words in front of a place in which a noun for the options makes it one of them."""
CLAUSE = 3
"""Words from which on a place can't be anything but an option's: "what stands below"."""
MAX_TO_PAIR = 3
"""Words behind a place, or from the beginning of its sentence, to a word such as "two"."""


class PlaceFinder:
    """Finds options by their place with the place words of some packs."""

    def __init__(
        self,
        ordinals: Automaton,
        words: frozenset[str],
        option_words: frozenset[str],
        pair: frozenset[str],
        known: frozenset[str],
    ) -> None:
        self._ordinals = ordinals
        self._known = known
        """Every word that the packs speak of: any other one behind a place is what the place belongs to."""
        self._place_words = words
        """Words without which no place is in a text."""
        self._option_words = option_words
        self._pair = pair
        """Words such as "two": the second of the two."""

    def find(self, tokens: Sequence[Token], options: OptionSet, earlier: Sequence[Mention]) -> list[Mention]:
        """Options named by their place: "the second option", "the latter"; a number that is a label means the label."""
        if self._place_words.isdisjoint([token.key for token in tokens]):
            return []
        best: dict[int, Mention] = {}
        for hit in self._ordinals.find(tokens):
            mention = self._mention_of(tokens, hit, options, earlier)
            if mention is not None and (hit.start not in best or best[hit.start].end < mention.end):
                best[hit.start] = mention
        return list(best.values())

    def _mention_of(
        self, tokens: Sequence[Token], hit: Hit, options: OptionSet, earlier: Sequence[Mention]
    ) -> Mention | None:
        """The option that a place means, if any, and how surely it is one."""
        _, place, *bare = hit.rule.family.split(".")
        end = hit.end
        if _numbers_an_entry(tokens, hit):
            return None
        named = [mention for mention in earlier if mention.end <= hit.start]
        paired = bool(bare) and self._is_of_two(tokens, hit)
        paired = paired or (end - hit.start >= CLAUSE and tokens[end - 1].key in self._pair)
        paired = paired and place != "middle"
        index = _place_of_two(place, options) if paired else _place_option(place, options, named)
        if options.digits:
            numbers = [t.key for t in tokens[hit.start : hit.end] if t.key in options.labels]
            index = options.labels[numbers[0]] if numbers else index
        if index is None:
            return None
        shared = bool(bare) and end < len(tokens) and tokens[end].break_before < COMMA
        if shared and tokens[end].key in options.shared:
            end, paired = end + 1, True
        clause = end - hit.start >= CLAUSE and not UNSPACED.match(tokens[hit.start].text)
        numbers_a_line = hit.end < len(tokens) and (":" in tokens[hit.end].gap or _opens_a_sentence(tokens, hit))
        if numbers_a_line and not (paired or clause):
            return None
        firm = not bare or paired or clause or self._is_place_of_option(tokens, hit)
        return Mention((index,), "ordinal", hit.start, end, "strong" if firm else "weak", "exact")

    def _is_of_two(self, tokens: Sequence[Token], hit: Hit) -> bool:
        """Whether "of the two" stands right behind a place or begins its sentence."""
        if not self._pair:
            return False
        for token in tokens[hit.end : hit.end + MAX_TO_PAIR]:
            if token.break_before >= COMMA:
                break
            if token.key in self._pair:
                return True
        start = hit.start
        while start and tokens[start].break_before < SENTENCE:
            start -= 1
        return any(token.key in self._pair for token in tokens[start : min(start + MAX_TO_PAIR, hit.start)])

    def _is_place_of_option(self, tokens: Sequence[Token], hit: Hit) -> bool:
        """Whether a place without a noun is an option's: "the second of them", "of the three options the first"."""
        if hit.rule.family.split(".")[1] in {"former", "latter"} and hit.end - hit.start > 1:
            return not UNSPACED.match(tokens[hit.start].text)
        if hit.end < len(tokens) and tokens[hit.end].break_before < COMMA and tokens[hit.end].key not in self._known:
            return False
        place = hit.start
        while place and tokens[place].break_before < SENTENCE and hit.start - place < MAX_TO_NOUN:
            if ":" in tokens[place].gap:
                return False
            place -= 1
            if tokens[place].key in self._option_words:
                return True
        return False


def _numbers_an_entry(tokens: Sequence[Token], hit: Hit) -> bool:
    """Whether a place is no more than the number at the head of a line that goes on: "1. The tailor …"."""
    first = tokens[hit.start]
    if hit.end - hit.start > 1 or not first.key.isdigit() or first.break_before < LINE or hit.end >= len(tokens):
        return False
    after = tokens[hit.end]
    return after.break_before < LINE and after.gap.lstrip("*_ ")[:1] in {".", ")"}


def _opens_a_sentence(tokens: Sequence[Token], hit: Hit) -> bool:
    """Whether a number behind a header is the article of a sentence: nl "Antwoord: Een ziekte maakt …"."""
    headed = any(":" in token.gap for token in tokens[hit.start + 1 : hit.end])
    return headed and tokens[hit.end].break_before < COMMA


def _place_of_two(place: str, options: OptionSet) -> int | None:
    """The person at a place where two are spoken of: the unknown option is none of them."""
    persons = [index for index in range(options.count) if index != options.unknown]
    order = {"p1": 0, "former": 0, "p2": 1, "latter": 1, "last": 1}
    return persons[order[place]] if len(persons) == 2 and place in order else None


def _place_option(place: str, options: OptionSet, earlier: list[Mention]) -> int | None:
    """The option at a place; "former" and "latter" mean the last two that were named, else the two persons."""
    if place.startswith("p") and place[1:].isdigit():
        index = int(place[1:]) - 1
        return index if index < options.count else None
    if place == "last":
        return options.count - 1
    if place == "middle":
        return options.count // 2 if options.count % 2 else None
    if place == "other":
        return _other_person(options, earlier)
    named = list(dict.fromkeys(index for mention in earlier for index in mention.options))
    told = [index for index in named if index != options.unknown]
    named = told if len(told) == 2 else named[-2:]
    pair = named if len(named) == 2 else [index for index in range(options.count) if index != options.unknown]
    if len(pair) != 2:
        return None
    return pair[0] if place == "former" else pair[1]


def _other_person(options: OptionSet, earlier: list[Mention]) -> int | None:
    """The one of two persons that was not named last."""
    persons = [index for index in range(options.count) if index != options.unknown]
    named = [index for mention in earlier for index in mention.options if index != options.unknown]
    if len(persons) != 2 or not named:
        return None
    return persons[1 - persons.index(named[-1])]
