"""Finds labels: "B", "option B", "(b)".

A label letter counts by how it stands: `strong` in brackets, with a word such as "option", or heading a line; `bare`
as a capital of its own; `weak` where the language could mean it as a word, until something in its sentence asks for a
label.
"""

from __future__ import annotations

from collections.abc import Sequence

from mbbq_gen.extraction.letters import EMPHASIS, LabelWords, ends_line, is_glued, is_initial, is_quoted
from mbbq_gen.extraction.mentions import Mention, with_articles
from mbbq_gen.extraction.normalise import LOOK_ALIKES, loose_key
from mbbq_gen.extraction.optionset import UNSPACED, OptionSet, look_alike
from mbbq_gen.extraction.tokens import COMMA, LINE, SENTENCE, Token

_OPENERS = "([{（【「『《〈<\"“”„«‘'*_`|$~"
_CLOSERS = ")]}）】」』》〉>\"“”«»’'*_`|$~"
_CLOSING = frozenset(")]）")
_JOINTS = frozenset({"'", "’", "‘", "`", "-", "‑", "", "-’"})
"""What may part a label from its ending."""
_LIST_SIGNS = frozenset(".):：）、]|,-–—=．。")
TWIN_KEYS = frozenset(loose_key(chr(sign)) for sign in LOOK_ALIKES)
"""Keys of the letters of other scripts that look like a Latin one."""
MAX_SERIES = 64
"""Rows of labels as shown that are kept at most."""


class LabelFinder:
    """Finds labels with the label words of a language."""

    def __init__(self, words: LabelWords, known: frozenset[str]) -> None:
        self._words = words
        self._known = known
        self._letters = frozenset(word for word in words.articles if len(word) == 1)
        self._keys: dict[tuple[str, ...], frozenset[str]] = {}

    def find(
        self,
        tokens: Sequence[Token],
        tail: str,
        options: OptionSet,
        texts: Sequence[Mention] = (),
        ordinals: Sequence[Mention] = (),
    ) -> list[Mention]:
        """Every label in the text, on offer or not; a capital right before an option's text is no initial of a name."""
        mentions: list[Mention] = []
        starts = {with_articles(tokens, mention.start, options) for mention in texts}
        keys = self._label_keys(options)
        places = [place for place, token in enumerate(tokens) if token.key in keys]
        if not places:
            return mentions
        words = _own_articles(tokens, texts, options)
        words |= self._letter_words(tokens, places, [*texts, *ordinals], options)
        for place in places:
            if place in words:
                continue
            mention = self._label_at(tokens, place, tail, options, before_text=place + 1 in starts)
            if mention is not None:
                mentions.append(mention)
        return mentions

    def _label_keys(self, options: OptionSet) -> frozenset[str]:
        """The keys of words that may be a label of the options' series, on offer or not; kept by the labels."""
        shown = tuple(options.shown)
        keys = self._keys.get(shown)
        if keys is None:
            if len(self._keys) >= MAX_SERIES:
                self._keys.clear()
            keys = frozenset({*options.labels, *self._words.names, *map(loose_key, options.outside)})
            keys = self._keys[shown] = keys | TWIN_KEYS if options.latin else keys
        return keys

    def _letter_words(
        self, tokens: Sequence[Token], places: Sequence[int], mentions: Sequence[Mention], options: OptionSet
    ) -> set[int]:
        """The places of one-letter articles right before what they belong to: no labels.

        A capital inside a sentence is a label, save where all letters are capitals.
        """
        letters = self._letters
        last = len(tokens) - 1
        found = {place for place in places if place < last and tokens[place].key in letters}
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
        self, tokens: Sequence[Token], place: int, tail: str, options: OptionSet, *, before_text: bool
    ) -> Mention | None:
        token = tokens[place]
        found = self._option_of(token, options)
        if found is None:
            return None
        index, shown_case, is_word = found
        gap_after = tokens[place + 1].gap if place + 1 < len(tokens) else tail
        end = self._end_behind_suffix(tokens, place, gap_after)
        if end is None or is_glued(tokens, place, gap_after, end=end, options=options, words=self._words):
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
        if self._is_named(tokens, place, options):
            mention.shown_case, mention.strength = True, "bare"
        if place == 0 and index is not None and token.text.isascii() and token.key not in self._words.stray:
            mention.shown_case = True
        on_offer = index is not None or mention.strength == "strong"
        return mention if on_offer or (shown_case and not is_word) else None

    def _is_named(self, tokens: Sequence[Token], place: int, options: OptionSet) -> bool:
        """Whether the name of a letter stands between an article and the end of a clause: Spanish "es la be"."""
        if place < 2 or tokens[place].key in options.labels or tokens[place].key not in self._words.names:
            return False
        ends = place + 1 == len(tokens) or tokens[place + 1].break_before >= COMMA
        return ends and tokens[place].break_before < COMMA and tokens[place - 1].key in self._words.articles

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
        quoted = is_quoted(tokens[place].gap, gap_after)
        if end < len(tokens) and gap_after == "." and tokens[place].key.isdigit():
            return end + (tokens[end].key in self._words.suffixes)
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
        mention.heads_line = token.break_before >= LINE
        mention.struck = token.gap.endswith("~~") and gap_after.startswith("~~")
        if self._belongs_to_a_word(mention, tokens):
            mention.barred = True
        elif self._has_noun_before(mention, tokens, is_word=is_word):
            mention.strength = "strong"
            before = tokens[place - 1]
            if before.key not in self._words.answer_words:
                mention.start = place - 1
                mention.heads_line = mention.heads_line or before.break_before >= LINE
        elif self._has_noun_behind(mention, tokens, gap_after):
            mention.strength = "strong"
        else:
            self._weigh_signs(mention, tokens, gap_after, options, is_word=is_word, before_text=before_text)

    def _weigh_signs(
        self,
        mention: Mention,
        tokens: Sequence[Token],
        gap_after: str,
        options: OptionSet,
        *,
        is_word: bool,
        before_text: bool,
    ) -> None:
        """Sets how strong a label without an option word stands, by the signs around it."""
        gap, sign = tokens[mention.start].gap, gap_after.lstrip(EMPHASIS)[:1]
        closed = gap != "" and gap[-1] in _OPENERS and gap_after != "" and gap_after[0] in _CLOSERS
        if closed or sign in _CLOSING:
            mention.strength = "strong"
            mention.enumerates = options.digits and mention.heads_line
        elif mention.heads_line and ends_line(mention, tokens, gap_after):
            mention.strength = "strong"
        elif mention.heads_line and sign in _LIST_SIGNS and not (is_word and sign == ","):
            mention.strength = "strong" if mention.shown_case or ":" in gap_after else "weak"
            mention.enumerates = options.digits
        elif not before_text and is_initial(tokens, mention.start, gap_after, self._known):
            mention.barred = True
        elif not is_word:
            mention.strength = "strong" if options.long_labels else "bare"

    def _belongs_to_a_word(self, mention: Mention, tokens: Sequence[Token]) -> bool:
        """Whether the word in front of a letter or behind it makes something else of it: "vitamin C", "C major"."""
        following = tokens[mention.end] if mention.end < len(tokens) else None
        if following is not None and following.key in self._words.not_before and following.break_before < COMMA:
            return True
        token = tokens[mention.start]
        if not mention.start or token.break_before >= SENTENCE or (token.gap and token.gap[-1] in _OPENERS):
            return False
        return tokens[mention.start - 1].key in self._words.not_after

    def _has_noun_before(self, mention: Mention, tokens: Sequence[Token], *, is_word: bool) -> bool:
        """Whether a word such as "option" stands right before a letter."""
        token = tokens[mention.start]
        if not mention.start or token.break_before > COMMA or ":" in token.gap:
            return False
        named = tokens[mention.start - 1].key in self._words.option_words
        return named and not self._is_preposition(mention, tokens, is_word=is_word)

    def _has_noun_behind(self, mention: Mention, tokens: Sequence[Token], gap_after: str) -> bool:
        """Whether an ending or a word such as "option" belongs to a letter."""
        if mention.end > mention.start + 1:
            return True
        return gap_after == "" and mention.end < len(tokens) and tokens[mention.end].key in self._words.suffixes

    def _is_preposition(self, mention: Mention, tokens: Sequence[Token], *, is_word: bool) -> bool:
        """Whether a small letter that may be a word leads to an article: Spanish "la respuesta a la pregunta"."""
        if not is_word or mention.shown_case or mention.end >= len(tokens):
            return False
        following = tokens[mention.end]
        return following.gap == " " and following.key in self._words.articles


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
