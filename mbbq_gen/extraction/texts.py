"""Finds options by their texts, whole or in part, inflected or misspelt."""

from __future__ import annotations

from collections.abc import Sequence

from mbbq_gen.extraction.mentions import Mention, with_articles
from mbbq_gen.extraction.normalise import ends_accented
from mbbq_gen.extraction.optionset import Match, OptionSet, OptionText, fuzzy_option
from mbbq_gen.extraction.pack import TextRules
from mbbq_gen.extraction.tokens import COMMA, LINE, SENTENCE, Token

MIN_NEAR = 4
"""Letters of a word that may be misspelt or have an ending beyond all lists."""


class TextFinder:
    """Finds options by their texts with the inflection of a language."""

    def __init__(self, rules: TextRules, within: frozenset[str]) -> None:
        self._rules = rules
        self._within = within
        """Small words that may stand inside a mention."""

    def find(self, tokens: Sequence[Token], options: OptionSet, forms: list[tuple[str, str, str]]) -> list[Mention]:
        """Every mention of an option by its text; longer ones hide shorter ones inside them."""
        hits: dict[int, list[tuple[int, str, Match]]] = {}
        lookup, near_start, near_inside = options.lookup, options.near_start, options.near_inside
        accents = options.accents
        for place, (exact, stem, root) in enumerate(forms):
            if exact in accents and ends_accented(tokens[place].text) is (not accents[exact]):
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
                if fuzzy is not None:
                    hits.setdefault(fuzzy[0], []).append((place, fuzzy[1], fuzzy[2]))
        found = [
            mention
            for index, places in hits.items()
            for mention in _clusters(tokens, options, index, places, self._within)
        ]
        return _longest(found, tokens, options)


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
        here = words.index(word)
        beside = [(place + step, words[here + step]) for step in (-1, 1) if 0 <= here + step < len(words)]
        if word not in denying or any(one in found and one[1] in option.content for one in beside):
            kept.append(entry)
    return kept


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
    worst: Match = "exact"
    if any(match == "fuzzy" for _, _, match in group):
        worst = "fuzzy"
    elif any(match == "inflected" for _, _, match in group):
        worst = "inflected"
    start, end = _widen(tokens, start, end, option.tokens, group)
    if coverage == 1:
        return Mention((index,), "text", start, end, "strong", worst)
    if _is_head(option, telling, options.distinctive[index]):
        return Mention(
            (index,), "text", start, end, "strong", "partial" if worst != "fuzzy" else "fuzzy", complete=False
        )
    known = telling & (options.distinctive[index] | options.denying.get(index, frozenset()))
    need = 0.5 if len(option.content) > 3 and not (option.per_character and len(known) > 1) else 0.33
    if not known or coverage < need or (option.per_character and end - start < 2):
        return None
    if all(len(word) < 2 for word in known) and not option.per_character:
        return None
    return Mention((index,), "text", start, end, "strong", "partial" if worst != "fuzzy" else "fuzzy", complete=False)


def _is_head(option: OptionText, telling: set[str], distinctive: frozenset[str]) -> bool:
    """Whether half of the words of an option's head are named, and one of them is no other option's."""
    named = telling & option.head
    return 2 * len(named) >= len(option.head) > 0 and any(len(word) > 1 for word in named & distinctive)


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
