"""Finds every mention of an option in the words of an answer: by label, by text, by place.

A label letter counts by how it stands: `strong` in brackets, with a word such as "option", or heading a line; `bare`
as a capital of its own; `weak` where the language could mean it as a word, until something in its sentence asks for a
label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import regex

from mbbq_gen.extraction.normalise import loose_key
from mbbq_gen.extraction.optionset import UNSPACED, Match, OptionSet, OptionText, fuzzy_option, look_alike
from mbbq_gen.extraction.pack import ExtractorPack
from mbbq_gen.extraction.patterns import Automaton, Hit
from mbbq_gen.extraction.tokens import COMMA, LINE, SENTENCE, Token

Kind = Literal["label", "text", "label_text", "ordinal", "outside"]
Strength = Literal["strong", "bare", "weak"]

MAX_TO_NOUN = 5
"""Words in front of a place in which a noun for the options makes it one of them."""
MIN_NEAR = 4
"""Letters of a word that may be misspelt or have an ending beyond all lists."""
MAX_MENTIONS = 64
"""Of more mentions only the first and last half of this number are read."""


@dataclass(slots=True)
class Mention:
    """A stretch of the text that means an option."""

    options: tuple[int, ...]
    """Which ones; several where they are joined by "and" or "or"; none where the label is not on offer."""
    kind: Kind
    start: int
    """First token."""
    end: int
    """After the last token."""
    strength: Strength
    match: Match
    label: int | None = None
    """The option that the label means, where there is a label."""
    shown_case: bool = True
    """Whether the label is written as shown, or in capitals."""
    heads_line: bool = False
    """Whether it begins a line, as the items of a list do."""
    enumerates: bool = False
    """Whether it may be no more than the number of a list item."""
    barred: bool = False
    """Whether it is surely no label: `vitamin C`, the initial of a name."""
    struck: bool = False
    """Whether it is struck through."""
    complete: bool = True
    """Whether the whole option text stands there."""


@dataclass(slots=True)
class MentionItem:
    """A mention in the row of items that patterns are matched against."""

    key: str
    text: str
    break_before: int
    gap: str
    mention: Mention
    is_word: bool
    start: int
    end: int

    @property
    def is_mention(self) -> bool:
        """Whether a slot may take it: not a letter that may well be a word."""
        return self.mention.strength != "weak" or self.mention.shown_case


@dataclass(slots=True)
class WordItem:
    """A word in that row."""

    is_mention: ClassVar[bool] = False
    is_word: ClassVar[bool] = True

    key: str
    text: str
    break_before: int
    gap: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class LabelWords:
    """The label words of all packs in use, as keys."""

    option_words: frozenset[str]
    option_words_after: frozenset[str]
    names: dict[str, str]
    stray: frozenset[str]
    articles: frozenset[str]
    suffixes: frozenset[str]
    not_after: frozenset[str]
    not_before: frozenset[str]
    answer_words: frozenset[str]
    """Option words that announce an answer themselves: they make a label but stay outside the mention."""


_OPENERS = "([{（【「『《〈<\"“”„«‘'*_`|$~"
_CLOSERS = ")]}）】」』》〉>\"“”«»’'*_`|$~"
_QUOTES = frozenset("'’‘`\"")
_QUOTED = frozenset({"''", "‘’", "’’", "``", "`'"})
_JOINTS = frozenset({"'", "’", "‘", "`", "-", "‑", "", "-’"})
"""What may part a label from its ending."""
_LIST_SIGNS = frozenset(".):：）、]|,-–—=．。")
_GLUE = frozenset("&+#@%/\\^")
_EMPHASIS = "*_`~ "
_HANGUL = regex.compile(r"\p{Hangul}")
_ENUMERATION_GAP = regex.compile(r"^\s*[.)\]:：．）、,-]")


class MentionFinder:
    """Finds mentions with the label words, small words and ordinals of a language."""

    def __init__(
        self, packs: tuple[ExtractorPack, ...], words: LabelWords, ordinals: Automaton, known: frozenset[str]
    ) -> None:
        self._rules = packs[0].text
        self._words = words
        self._ordinals = ordinals
        self._known = known
        self._letters = frozenset(word for word in words.articles if len(word) == 1)
        self._coordinators = frozenset(loose_key(word) for pack in packs for word in pack.relations.coordinators)

    # --- labels -------------------------------------------------------------------------------------------------------

    def labels(
        self,
        tokens: Sequence[Token],
        tail: str,
        options: OptionSet,
        texts: Sequence[Mention] = (),
        ordinals: Sequence[Mention] = (),
    ) -> list[Mention]:
        """Every label in the text, on offer or not; a capital right before an option's text is no initial of a name."""
        mentions = []
        starts = {_with_articles(tokens, mention.start, options) for mention in texts}
        known, names = options.labels, self._words.names
        words = _own_articles(tokens, texts, options) | self._letter_words(tokens, [*texts, *ordinals], options)
        for place, token in enumerate(tokens):
            if place in words:
                continue
            if (
                len(token.text) > 1
                and token.key not in known
                and token.key not in names
                and token.text not in options.outside
            ):
                continue
            mention = self._label_at(tokens, place, token, tail, options, before_text=place + 1 in starts)
            if mention is not None:
                mentions.append(mention)
        return mentions

    def _letter_words(self, tokens: Sequence[Token], mentions: Sequence[Mention], options: OptionSet) -> set[int]:
        """Places of one-letter articles right before what they belong to: no labels.

        A capital inside a sentence is a label, save where all letters are capitals.
        """
        letters = self._letters
        if not letters:
            return set()
        found = {place for place, token in enumerate(tokens[:-1]) if token.key in letters and len(token.text) == 1}
        if not found:
            return found
        starts = {mention.start for mention in mentions}
        found = {place for place in found if self._leads_to(tokens, place + 1, starts, options)}
        cased = any(token.text[:1].islower() for token in tokens)
        return {
            place
            for place in found
            if not cased or tokens[place].text.islower() or tokens[place].break_before >= SENTENCE
        }

    def _leads_to(self, tokens: Sequence[Token], place: int, starts: set[int], options: OptionSet) -> bool:
        """Whether a mention, an option word or a label begins at a place, behind nothing but a blank."""
        token = tokens[place]
        if not token.gap or token.gap.strip(" "):
            return False
        if place in starts or token.key in self._words.option_words:
            return True
        return token.text in options.shown and not token.text.islower()

    def _label_at(
        self, tokens: Sequence[Token], place: int, token: Token, tail: str, options: OptionSet, *, before_text: bool
    ) -> Mention | None:
        found = self._option_of(token, options)
        if found is None:
            return None
        index, shown_case, is_word = found
        gap_after = tokens[place + 1].gap if place + 1 < len(tokens) else tail
        end = self._end_behind_suffix(tokens, place, gap_after)
        if end is None or _is_glued(tokens, place, gap_after, end=end, options=options, words=self._words):
            return None
        if end > place + 1:
            gap_after = tokens[end].gap if end < len(tokens) else tail
        mention = Mention(
            options=() if index is None else (index,),
            kind="outside" if index is None else "label",
            start=place,
            end=end,
            strength="weak",
            match="exact",
            label=index,
            shown_case=shown_case,
        )
        self._weigh(mention, tokens, gap_after, options, is_word=is_word, before_text=before_text)
        if mention.barred:
            return None
        if index is None and mention.strength != "strong":
            return None if not shown_case or is_word else mention
        return mention

    def _option_of(self, token: Token, options: OptionSet) -> tuple[int | None, bool, bool] | None:
        """Option (None: not on offer), whether written as shown, and whether the language may mean it as a word."""
        key, text = token.key, token.text
        index = options.labels.get(key)
        foreign = index is not None and len(text) == 1 and not text.isascii() and not text.isdecimal()
        if index is not None and foreign and text.casefold() != options.core[index]:
            return None
        if index is not None:
            shown = options.label_words[index]
            exact = text in options.shown or text.isdecimal() or (text.isupper() and len(text) == 1)
            exact = exact or options.long_labels
            word = (options.digits or key in self._words.stray or not text.isascii()) and not options.long_labels
            return index, exact, word or (text not in options.shown and shown == key and not text.isupper())
        if text in options.outside:
            return None, True, options.digits or key in self._words.stray or text == "I"
        if options.latin and len(text) == 1:
            twin = look_alike(text)
            if twin != text and twin.casefold() in options.labels:
                return options.labels[twin.casefold()], twin.isupper(), True
        name = self._words.names.get(key)
        if name is not None and name in options.labels:
            return options.labels[name], False, True
        return None

    def _end_behind_suffix(self, tokens: Sequence[Token], place: int, gap_after: str) -> int | None:
        """Where the label ends, endings and words such as "şıkkı" included; None where it is part of a word.

        An ending in a script without word boundaries stays outside: it may be a particle that patterns ask for.
        """
        end = place + 1
        quoted = _is_quoted(tokens[place].gap, gap_after)
        if end < len(tokens) and gap_after in _JOINTS and not quoted:
            following = tokens[end].key
            if following in self._words.option_words_after or following in self._words.option_words:
                end += 1
            elif following in self._words.suffixes:
                end += not UNSPACED.match(following)
            elif gap_after or following.isascii():
                return None
        if end < len(tokens) and tokens[end].key in self._words.option_words_after and tokens[end].break_before < COMMA:
            end += 1
        return end

    def _weigh(
        self,
        mention: Mention,
        tokens: Sequence[Token],
        gap_after: str,
        options: OptionSet,
        *,
        is_word: bool,
        before_text: bool,
    ) -> None:
        """Sets how strong a label stands, and takes in the option word before it."""
        place = mention.start
        token = tokens[place]
        before = tokens[place - 1] if place else None
        gap = token.gap
        opened = gap[-1:] in _OPENERS and bool(gap) if gap else False
        closed = gap_after[:1] in _CLOSERS if gap_after else False
        mention.heads_line = token.break_before >= LINE
        mention.struck = gap.endswith("~~") and gap_after.startswith("~~")
        is_last = mention.end >= len(tokens)
        ends_line = "\n" in gap_after or (is_last and not gap_after.strip(_EMPHASIS + ".!?)]}:,;\"'"))
        with_noun = before is not None and before.key in self._words.option_words and token.break_before <= COMMA
        with_noun = with_noun and ":" not in gap and not self._is_preposition(mention, tokens, is_word=is_word)
        absorbs = with_noun and before is not None and before.key not in self._words.answer_words
        following = tokens[mention.end] if mention.end < len(tokens) else None
        if following is not None and following.key in self._words.not_before and following.break_before < COMMA:
            mention.barred = True
            return
        after_noun = mention.end > place + 1 or (
            gap_after == "" and following is not None and following.key in self._words.suffixes
        )
        apart = opened or token.break_before >= SENTENCE
        if before is not None and before.key in self._words.not_after and not apart:
            mention.barred = True
            return
        if with_noun or after_noun:
            mention.strength = "strong"
            mention.start = place - 1 if absorbs else place
            mention.heads_line = mention.heads_line or (absorbs and tokens[place - 1].break_before >= LINE)
        elif (opened and closed) or gap_after.lstrip(_EMPHASIS)[:1] in {")", "]", "）"}:
            mention.strength = "strong"
            mention.enumerates = options.digits and mention.heads_line
        elif mention.heads_line and ends_line:
            mention.strength = "strong"
        elif mention.heads_line and gap_after.lstrip(_EMPHASIS)[:1] in (
            _LIST_SIGNS - {","} if is_word else _LIST_SIGNS
        ):
            mention.strength = "strong" if mention.shown_case or ":" in gap_after else "weak"
            mention.enumerates = options.digits
        elif not before_text and _is_initial(tokens, place, gap_after, self._known):
            mention.barred = True
        elif not is_word:
            mention.strength = "strong" if options.long_labels else "bare"

    def _is_preposition(self, mention: Mention, tokens: Sequence[Token], *, is_word: bool) -> bool:
        """Whether a small letter that may be a word leads to an article: Spanish "la respuesta a la pregunta"."""
        if not is_word or mention.shown_case or mention.end >= len(tokens):
            return False
        following = tokens[mention.end]
        return following.gap == " " and following.key in self._words.articles

    # --- texts --------------------------------------------------------------------------------------------------------

    def texts(self, tokens: Sequence[Token], options: OptionSet, forms: list[tuple[str, str, str]]) -> list[Mention]:
        """Every mention of an option by its text; longer ones hide shorter ones inside them."""
        hits: dict[int, list[tuple[int, str, Match]]] = {}
        lookup = options.lookup
        for place, token in enumerate(tokens):
            exact, stem, root = forms[place]
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
            if len(token.key) < MIN_NEAR:
                continue
            near = options.near.get(token.key[0]) or options.near.get(f"_{token.key[1:3]}")
            if near and token.key not in options.stop:
                fuzzy = fuzzy_option(token.key, near, self._rules, options.endings)
                if fuzzy is not None:
                    hits.setdefault(fuzzy[0], []).append((place, fuzzy[1], fuzzy[2]))
        found = [
            mention
            for index, places in hits.items()
            for mention in _clusters(tokens, options, index, places, self._coordinators)
        ]
        return _longest(found, tokens, options)

    # --- places -------------------------------------------------------------------------------------------------------

    def ordinals(self, tokens: Sequence[Token], options: OptionSet, earlier: Sequence[Mention]) -> list[Mention]:
        """Options named by their place: "the second option", "the latter"; a number that is a label means the label."""
        items = [WordItem(t.key, t.text, t.break_before, t.gap, place, place + 1) for place, t in enumerate(tokens)]
        best: dict[int, Mention] = {}
        for hit in self._ordinals.find(items):
            _, place, *bare = hit.rule.family.split(".")
            index = _place_option(place, options, [m for m in earlier if m.end <= hit.start])
            if options.digits:
                numbers = [t.key for t in tokens[hit.start : hit.end] if t.key in options.labels]
                index = options.labels[numbers[0]] if numbers else index
            if index is None:
                continue
            if hit.end < len(tokens) and (":" in tokens[hit.end].gap or _opens_a_sentence(tokens, hit)):
                continue
            strength: Strength = "weak" if bare and not self._is_place_of_option(tokens, hit) else "strong"
            mention = Mention((index,), "ordinal", hit.start, hit.end, strength, "exact")
            if hit.start not in best or best[hit.start].end < hit.end:
                best[hit.start] = mention
        return list(best.values())

    def _is_place_of_option(self, tokens: Sequence[Token], hit: Hit) -> bool:
        """Whether a place without a noun is an option's: "the second of them", "of the three options the first"."""
        if hit.rule.family.split(".")[1] in {"former", "latter"} and hit.end - hit.start > 1:
            return not UNSPACED.match(tokens[hit.start].text)
        place = hit.start
        while place and tokens[place].break_before < SENTENCE and hit.start - place < MAX_TO_NOUN:
            if ":" in tokens[place].gap:
                return False
            place -= 1
            if tokens[place].key in self._words.option_words:
                return True
        return False


def _opens_a_sentence(tokens: Sequence[Token], hit: Hit) -> bool:
    """Whether a number behind a header is the article of a sentence: nl "Antwoord: Een ziekte maakt …"."""
    headed = any(":" in token.gap for token in tokens[hit.start + 1 : hit.end])
    return headed and tokens[hit.end].break_before < COMMA


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
    named = list(dict.fromkeys(index for mention in earlier for index in mention.options))[-2:]
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


def _is_quoted(before: str, after: str) -> bool:
    """Whether the same kind of quote stands right before and right behind a letter."""
    return before[-1:] + after[:1] in _QUOTED


def _is_glued(
    tokens: Sequence[Token], place: int, gap_after: str, *, end: int, options: OptionSet, words: LabelWords
) -> bool:
    """Whether a letter is part of something longer: `AI`, `C&A`, `N/A`, `I'd`, `D.C.`; `l'A` is the label A."""
    token = tokens[place]
    if place:
        gap = token.gap
        if gap in {"-", "‑"} and tokens[place - 1].key in words.option_words:
            return False
        if gap in _QUOTES and _is_quoted(gap, gap_after):
            return False
        if gap in {"'", "’", "‘"} and tokens[place - 1].key in words.articles and token.text in options.shown:
            return bool(gap_after) and gap_after[0] in "+#%&@°"
        if gap in {"'", "’", "‘", "-", "‑"} or (gap == "" and tokens[place - 1].text[-1:].isascii()):
            return True
        if gap == "" and _HANGUL.match(token.text) and _HANGUL.match(tokens[place - 1].text):
            return True
        if gap and not _GLUE.isdisjoint(gap) and not gap.strip(_EMPHASIS + "#/ \n").startswith("(") and "\n" not in gap:
            return not ("/" in gap and tokens[place - 1].key in options.labels) and "#" not in gap
        if gap == "." and len(tokens[place - 1].text) == 1:
            return True
    if gap_after and end < len(tokens):
        if gap_after.strip() and not _GLUE.isdisjoint(gap_after) and "\n" not in gap_after:
            return not ("/" in gap_after and tokens[end].key in options.labels)
        if gap_after == "." and len(tokens[end].text) == 1:
            return True
    return bool(gap_after) and gap_after[0] in "+#%&@°"


def _is_initial(tokens: Sequence[Token], place: int, gap_after: str, known: frozenset[str]) -> bool:
    """Whether a capital is the initial of a name: `Robert C. Miller`, `Mr. B. Smith`.

    A name is a capitalised word that no pattern of the language knows.
    """
    if place == 0 or place + 1 >= len(tokens) or tokens[place].break_before >= LINE:
        return False
    before, following = tokens[place - 1], tokens[place + 1]
    named_after = following.text[:1].isupper() and following.key not in known and gap_after in {". ", " ", "."}
    titled = len(before.text) <= 3 and tokens[place].gap == ". "
    named_before = tokens[place].break_before < COMMA and len(before.text) > 1
    return named_after and before.text[:1].isupper() and (titled or named_before) and before.key not in known


def _clusters(
    tokens: Sequence[Token],
    options: OptionSet,
    index: int,
    places: list[tuple[int, str, Match]],
    coordinators: frozenset[str],
) -> list[Mention]:
    """The option's words that stand together, where they are enough to mean the option."""
    option = options.texts[index]
    skip = (options.articles | options.stop) - coordinators
    mentions: list[Mention] = []
    group: list[tuple[int, str, Match]] = []
    for entry in [*places, None]:
        if entry is not None and group:
            last = group[-1][0]
            if entry[0] == last:
                group.append(entry)
                continue
            between = range(last + 1, entry[0])
            joined = entry[0] - last <= 4 and all(tokens[i].key in skip for i in between)
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
    known = telling & (options.distinctive[index] | options.denying.get(index, frozenset()))
    need = 0.5 if len(option.content) > 3 and not (option.per_character and len(known) > 1) else 0.33
    if not known or coverage < need or (option.per_character and end - start < 2):
        return None
    if all(len(word) < 2 for word in known) and not option.per_character:
        return None
    return Mention((index,), "text", start, end, "strong", "partial" if worst != "fuzzy" else "fuzzy", complete=False)


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
        first = _with_articles(tokens, mention.start, options)
        mention.heads_line = tokens[first].break_before >= LINE
        after = tokens[mention.end].gap if mention.end < len(tokens) else "~~"
        mention.struck = "~~" in tokens[first].gap[-2:] and after.startswith("~~")
    return sorted(taken, key=lambda mention: mention.start)


def _own_articles(tokens: Sequence[Token], texts: Sequence[Mention], options: OptionSet) -> set[int]:
    """Places of articles that an option's own text begins with, right before that text: no labels."""
    articles = {option.index: option.article for option in options.texts}
    return {
        mention.start - 1
        for mention in texts
        if mention.start
        and len(mention.options) == 1
        and tokens[mention.start].break_before < COMMA
        and not tokens[mention.start].gap.strip()
        and tokens[mention.start - 1].key == articles.get(mention.options[0])
    }


def _with_articles(tokens: Sequence[Token], start: int, options: OptionSet) -> int:
    """The start of a mention with the articles in front of it."""
    while start and tokens[start].break_before < COMMA and tokens[start - 1].key in options.articles:
        start -= 1
    return start
