"""Finds options by their texts, whole or in part, inflected or misspelt."""

from __future__ import annotations

from collections.abc import Sequence

from mbbq_gen.extraction.heads import MIN_RUN, begins_word, longest_run
from mbbq_gen.extraction.lexicon import word_keys
from mbbq_gen.extraction.mentions import Mention, with_articles
from mbbq_gen.extraction.normalise import ends_accented
from mbbq_gen.extraction.optionset import MIN_PART, Match, OptionSet, OptionText, compound_of, fuzzy_option
from mbbq_gen.extraction.pack import TextRules
from mbbq_gen.extraction.stemmer import Stemmer
from mbbq_gen.extraction.tokens import COMMA, LINE, SENTENCE, Token

MOST = 0.6
"""Share of an option's characters that means it in whatever order."""
MIN_WHOLE = 3
"""Telling words of a text that is long enough to be a description."""
MAX_IDLE = 1024
"""Words of responses that are kept at most as those that no option is named by."""
MIN_NEAR = 4
"""Letters of a word that may be misspelt or have an ending beyond all lists."""


class TextFinder:
    """Finds options by their texts with the inflection of a language."""

    def __init__(self, rules: TextRules, within: frozenset[str], known: frozenset[str]) -> None:
        self._rules = rules
        self._known = known
        """Words of the language: none of them is another word misspelt, as Spanish "medio" for "médico"."""
        self._within = within
        """Small words that may stand inside a mention."""
        self._not_before = word_keys(rules.not_before)
        self._needs_noun = tuple(sorted(word_keys(word.lstrip("-") for word in rules.needs_noun)))

    def find(self, tokens: Sequence[Token], options: OptionSet, stemmer: Stemmer) -> list[Mention]:
        """Every mention of an option by its text; longer ones hide shorter ones inside them."""
        hits: dict[int, list[tuple[int, str, Match]]] = {}
        lookup, near_start, near_inside = options.lookup, options.near_start, options.near_inside
        accents, last_parts = options.accents, options.last_parts
        idle = options.idle.setdefault(id(self), set())
        for place, token in enumerate(tokens):
            exact = token.key
            if exact in idle:
                continue
            _, stem, root = stemmer.forms(exact)
            if exact in accents and ends_accented(token.text) is (not accents[exact]):
                continue
            if exact in lookup or stem in lookup or root in lookup:
                seen: set[tuple[int, str]] = set()
                for form in (exact, stem, root):
                    if form is root and seen:
                        break
                    for index, word, match in lookup.get(form, ()):
                        if (index, word) not in seen:
                            seen.add((index, word))
                            hits.setdefault(index, []).append((place, word, match))
                continue
            near = near_start.get(exact[0]) or near_inside.get(exact[1:3])
            if near and len(exact) >= MIN_NEAR and exact not in options.stop:
                fuzzy = fuzzy_option(exact, near, self._rules, options.endings)
                if fuzzy is not None and (fuzzy[2] != "fuzzy" or exact not in self._known):
                    hits.setdefault(fuzzy[0], []).append((place, fuzzy[1], fuzzy[2]))
                    continue
            parts = last_parts.get(exact[-MIN_PART:]) if last_parts else None
            part = compound_of(exact, parts) if parts and exact not in options.stop else None
            if part is not None:
                hits.setdefault(part[0], []).append((place, part[1], part[2]))
                continue
            if len(idle) >= MAX_IDLE:
                idle.clear()
            idle.add(exact)
        found = [
            mention
            for index, places in hits.items()
            for mention in _clusters(tokens, options, index, places, self._within)
            if mention.complete or not self._is_of_another(tokens, mention, places, options.texts[index])
        ]
        return _longest(_without_hints(found, tokens, options, self._within), tokens, options)

    def _is_of_another(
        self, tokens: Sequence[Token], part: Mention, places: list[tuple[int, str, Match]], option: OptionText
    ) -> bool:
        """Whether words that describe an option describe something else here: "in front of the café" (카페 앞), no
        mention of its owner; such a word stands behind them, or an ending asks for another noun."""
        if part.end >= len(tokens) or tokens[part.end].break_before >= COMMA:
            return False
        if any(place == part.end - 1 and word == option.content[-1] for place, word, _ in places):
            return False
        following = tokens[part.end].key
        if following in self._not_before:
            return True
        if following in option.tokens or following in self._within:
            return False
        last = tokens[part.end - 1].key
        return last not in option.tokens and last.endswith(self._needs_noun)


def _without_hints(
    found: list[Mention], tokens: Sequence[Token], options: OptionSet, within: frozenset[str]
) -> list[Mention]:
    """The mentions without words of one option that another one's whole text goes on from: "the gene that is not
    present" names what is not present."""
    whole = [one for one in found if one.complete and len(options.texts[one.options[0]].content) >= MIN_WHOLE]
    if not whole:
        return found
    return [
        one for one in found if one.complete or not any(_goes_on_from(tokens, one, other, within) for other in whole)
    ]


def _goes_on_from(tokens: Sequence[Token], part: Mention, whole: Mention, within: frozenset[str]) -> bool:
    """Whether another option's whole text begins right behind a part, a small word aside."""
    if part.options == whole.options or not 0 <= whole.start - part.end <= 1:
        return False
    between = tokens[part.end : whole.start]
    return all(token.key in within and token.break_before < COMMA for token in between) and (
        tokens[whole.start].break_before < COMMA
    )


def _clusters(
    tokens: Sequence[Token],
    options: OptionSet,
    index: int,
    places: list[tuple[int, str, Match]],
    within: frozenset[str],
) -> list[Mention]:
    """The option's words that stand together, the words `within` aside, where they are enough to mean the option."""
    option = options.texts[index]
    mentions: list[Mention] = []
    group: list[tuple[int, str, Match]] = []
    for entry in [*places, None]:
        if entry is not None and group:
            last = group[-1][0]
            if entry[0] == last:
                group.append(entry)
                continue
            between = range(last + 1, entry[0])
            joined = entry[0] - last <= 4 and all(tokens[i].key in within for i in between)
            held = joined and all(_holds(tokens[i]) for i in range(last + 1, entry[0] + 1))
            if held and not _repeats(group, entry, option):
                group.append(entry)
                continue
        if group and index in options.denying:
            group = _without_lone_denials(group, option, options.denying[index])
        if group:
            mention = _mention_of(tokens, options, index, group)
            if mention is not None:
                mentions.append(mention)
        group = [entry] if entry is not None else []
    return mentions


def _holds(token: Token) -> bool:
    """Whether the gap before a token leaves it in the same phrase: brackets do, a comma does not."""
    return token.break_before < COMMA or set(token.gap) <= set(" ()[]")


def _repeats(group: list[tuple[int, str, Match]], entry: tuple[int, str, Match], option: OptionText) -> bool:
    """Whether a telling word comes more often than in the option's text: a new mention begins."""
    if entry[1] not in option.content:
        return False
    return sum(word == entry[1] for _, word, _ in group) >= option.repeated.get(entry[1], 1)


def _share_of_repeats(group: list[tuple[int, str, Match]], option: OptionText) -> float:
    """How much of the characters that the option's text repeats stands in a cluster."""
    needed = sum(option.repeated.values())
    return sum(min(count, sum(word == w for _, w, _ in group)) for word, count in option.repeated.items()) / needed


def _without_lone_denials(
    group: list[tuple[int, str, Match]], option: OptionText, denying: frozenset[str]
) -> list[tuple[int, str, Match]]:
    """A cluster without words such as "not" that don't stand beside the telling word they have in the option's text."""
    words = option.tokens
    found = {(place, word) for place, word, _ in group}
    kept = []
    for entry in group:
        place, word, _ = entry
        beside = [_telling_beside(words, option.content, words.index(word), place, step) for step in (-1, 1)]
        if word not in denying or not found.isdisjoint(beside):
            kept.append(entry)
    return kept


def _telling_beside(
    words: tuple[str, ...], telling: tuple[str, ...], here: int, place: int, step: int
) -> tuple[int, str]:
    """The next telling word of an option's text in a direction, with the place where it stands if nothing else is
    between."""
    here, place = here + step, place + step
    while 0 <= here < len(words) and words[here] not in telling:
        here, place = here + step, place + step
    return (place, words[here]) if 0 <= here < len(words) else (-1, "")


def _mention_of(
    tokens: Sequence[Token], options: OptionSet, index: int, group: list[tuple[int, str, Match]]
) -> Mention | None:
    """The mention that a cluster of an option's words makes, or None where it could mean something else."""
    option = options.texts[index]
    telling = {word for _, word, _ in group if word in option.content}
    while group and group[0][1] not in option.content:
        group = group[1:]
    while group and group[-1][1] not in option.content and not option.needs_sequence:
        group = group[:-1]
    if not group:
        return None
    coverage = len(telling) / len(option.content)
    if option.per_character and option.repeated:
        coverage *= _share_of_repeats(group, option)
    start, end = group[0][0], group[-1][0] + 1
    if option.needs_sequence:
        span = _sequence_at(tokens, start, option.tokens, options, group)
        if span is None:
            return None
        return Mention((index,), "text", *span, "strong", "exact")
    inner = start, end
    start, end = _widen(tokens, start, end, option.tokens, group)
    worst = max((match for _, _, match in group), key=("exact", "inflected", "fuzzy").index)
    if coverage == 1:
        return Mention((index,), "text", start, end, "strong", worst)
    if _is_head(option, telling, options.distinctive[index]) or _is_head_run(tokens, start, end, option):
        part = True
    elif option.per_character:
        part = _is_part_in_a_row(tokens, group, coverage, options, option)
    else:
        part = _is_part(telling, coverage, options, option)
        part = part and not (coverage < MOST and (start, end) == inner and _describes(telling, options, option))
    if not part:
        return None
    return Mention((index,), "text", start, end, "strong", "fuzzy" if worst == "fuzzy" else "partial", complete=False)


def _is_head(option: OptionText, telling: set[str], distinctive: frozenset[str]) -> bool:
    """Whether half of the words of an option's head are named, and one of them is no other option's."""
    named = telling & option.head
    return 2 * len(named) >= len(option.head) > 0 and any(len(word) > 1 for word in named & distinctive)


def _is_head_run(tokens: Sequence[Token], start: int, end: int, option: OptionText) -> bool:
    """Whether a stretch is the end of an option's text in a script without word boundaries."""
    if not option.runs or not begins_word(tokens[start]):
        return False
    return "".join(token.key for token in tokens[start:end]) in option.runs


def _is_part(telling: set[str], coverage: float, options: OptionSet, option: OptionText) -> bool:
    """Whether enough of an option's words are named, among them some that no other option has."""
    index = option.index
    known = telling & (options.distinctive[index] | options.denying.get(index, frozenset()))
    return any(len(word) > 1 for word in known) and coverage >= (0.5 if len(option.content) > 3 else 0.33)


def _describes(telling: set[str], options: OptionSet, option: OptionText) -> bool:
    """Whether only words that describe the option are named, where its name or noun would tell it from the others."""
    return telling.isdisjoint(option.head) and not option.head.isdisjoint(options.distinctive[option.index])


def _is_part_in_a_row(
    tokens: Sequence[Token],
    group: list[tuple[int, str, Match]],
    coverage: float,
    options: OptionSet,
    option: OptionText,
) -> bool:
    """Whether enough characters of an option are named: most of them, or some that stand in a row in its text too."""
    known = {word for _, word, _ in group} & options.distinctive[option.index]
    need = 0.5 if len(option.content) > 3 and len(known) <= 1 else 0.33
    if not known or coverage < need or group[-1][0] - group[0][0] + 1 < MIN_RUN:
        return False
    row = longest_run([(place, word) for place, word, _ in group], option.tokens)
    return coverage >= MOST or (row >= MIN_RUN and begins_word(tokens[group[0][0]]))


def _widen(
    tokens: Sequence[Token], start: int, end: int, words: tuple[str, ...], group: list[tuple[int, str, Match]]
) -> tuple[int, int]:
    """The span with the option's small words around it: `the person who` before the telling words."""
    here = words.index(group[0][1])
    while here and start and tokens[start].break_before < COMMA and tokens[start - 1].key == words[here - 1]:
        start, here = start - 1, here - 1
    here = len(words) - 1 - words[::-1].index(group[-1][1])
    while here + 1 < len(words) and end < len(tokens) and tokens[end].break_before < COMMA:
        if tokens[end].key != words[here + 1]:
            break
        end, here = end + 1, here + 1
    return start, end


def _sequence_at(
    tokens: Sequence[Token],
    start: int,
    words: tuple[str, ...],
    options: OptionSet,
    group: list[tuple[int, str, Match]],
) -> tuple[int, int] | None:
    """Where the words of the unknown option stand one after another around a place, articles aside."""
    matched = {place: word for place, word, _ in group}
    for first in range(max(0, start - len(words)), start + 1):
        place = first
        for word in words:
            while (
                place < len(tokens)
                and tokens[place].key != word
                and tokens[place].key in options.articles
                and place > first
            ):
                place += 1
            if place >= len(tokens) or (tokens[place].key != word and matched.get(place) != word):
                break
            if place > first and tokens[place].break_before >= SENTENCE:
                break
            place += 1
        else:
            return first, place
    return None


def _longest(found: list[Mention], tokens: Sequence[Token], options: OptionSet) -> list[Mention]:
    """Mentions without overlaps: whole texts before parts, longer before shorter; a tie between options drops both."""
    ranks = {"exact": 0, "inflected": 1, "partial": 2, "fuzzy": 3}
    ordered = sorted(found, key=lambda m: (-(m.end - m.start), not m.complete, ranks[m.match], m.start))
    taken: list[Mention] = []
    dropped: list[Mention] = []
    for mention in ordered:
        rivals = [other for other in taken if other.start < mention.end and mention.start < other.end]
        if not rivals:
            taken.append(mention)
        elif any(
            other.options != mention.options
            and (other.start, other.end, other.complete, other.match)
            == (mention.start, mention.end, mention.complete, mention.match)
            for other in rivals
        ):
            dropped.extend(rivals)
    taken = [mention for mention in taken if mention not in dropped]
    for mention in taken:
        first = with_articles(tokens, mention.start, options)
        mention.heads_line = tokens[first].break_before >= LINE
        after = tokens[mention.end].gap if mention.end < len(tokens) else "~~"
        mention.struck = "~~" in tokens[first].gap[-2:] and after.startswith("~~")
    return sorted(taken, key=lambda mention: mention.start)
