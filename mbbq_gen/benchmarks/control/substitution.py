"""Splits a text into pieces with slots for names, and writes names into the slots.

`Refusals` refuses texts in which a name can't replace a person, or in which other words describe the person too. Its
methods raise SubstitutionRefusedError with a reason of `maker.REASONS` and the words that cause it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from mbbq_gen.benchmarks.control.agreement import GenderedText
from mbbq_gen.benchmarks.control.mention_grammar import Mention, SubstitutionRefusedError, covered, is_aside, shown
from mbbq_gen.benchmarks.control.mentions import find_mentions
from mbbq_gen.benchmarks.control.names import write_name
from mbbq_gen.benchmarks.control.people import People, PersonDescription
from mbbq_gen.benchmarks.control.spans import SlotMentions, Spans, split_nouns
from mbbq_gen.benchmarks.control.words import MIN_STEM, Language, TextWords, Word
from mbbq_gen.languages.control_pack import ControlSet, NameGender

PHRASE_REACH = 2
"""Maximum distance of a determiner before its noun, in words: "*একজন* ধনী ঠিকাদাৰ"."""
APPOSITION_REACH = 5
"""Maximum number of words between commas after a name: "Édouard, *séropositif depuis dix ans*, …"."""
PART_LENGTH = 2
"""Usual length of a word in Chinese or Japanese, in letters."""
_KANA = re.compile("[ぁ-ゟ]")
_APOSTROPHES = "'’"
LIKE_LETTERS = 2
"""First letters that a masculine and a feminine form share: buen, buena; mal, mala."""
_LINES: tuple[NameGender, NameGender] = ("m", "f")
"""Gender of the people in each line of a two-line question, and in the order of two alternatives."""


class Refusals(TextWords):
    """Refuses texts in which a name can't replace a person, by the words next to and outside the mentions."""

    def __init__(self, words: Sequence[Word], mentions: Sequence[Mention], language: Language) -> None:
        super().__init__(words, language)
        self.mentions, self.inside = mentions, covered(mentions)
        self.outside = [word for index, word in enumerate(words) if index not in self.inside]

    def _refuse(self, reason: str, *words: Word, between: str = " ") -> NoReturn:
        raise SubstitutionRefusedError(reason, between.join(word.text for word in words))

    def refuse_beside(self) -> None:
        """Refuses words next to a mention that can't be next to a name."""
        rules, words = self.rules, self.words
        ends = {one.last for one in self.mentions if one.case is None}
        for mention in self.mentions:
            # Two names would be adjacent, or an article would precede one.
            low = self.before(mention.first)
            article = rules.needs_determiner and low in self.language.determiners and low not in rules.stand_ins
            article = article and words[mention.first].low not in rules.definites
            # A case ending or a kept preposition separates them: "dallo psicologo *col* meccanico".
            is_separated = (rules.joined and mention.case is not None) or mention.kept
            if article or (low and mention.first - 1 in ends and not is_separated):
                raise SubstitutionRefusedError("adjacent_names", shown(words, mention.first - 1, mention.last))
        for mention in self.mentions:
            pair = words[max(mention.first - 2, 0) : mention.first]
            is_near = len(pair) == 2 and not pair[1].gap and not words[mention.first].gap
            if is_near and pair[0].low in rules.clause_relatives and pair[1].low in rules.having:
                self._refuse("group_stated_elsewhere", *pair)
        for mention in self.mentions:
            low, pair = self.before(mention.first), words[mention.first - 1 : mention.first + 1]
            if low.endswith(rules.never_behind) and not mention.by_verb:
                self._refuse("unreplaced_mention", *pair, between="")
            if mention.by_verb and rules.agreement is not None and low in rules.agreement.places:
                self._refuse("group_stated_elsewhere", *pair)
            if self.after(mention.last):
                self._refuse_after(mention)
        pairs = ((before, mention) for index, mention in enumerate(self.mentions) for before in self.mentions[:index])
        for before, mention in pairs:
            # A determiner introduces a new person with the same words: "the parent drove *their* old parent".
            marks = {mark for word in words[before.last + 1 : mention.first + 1] for mark in word.gap}
            is_new = words[mention.first].low in rules.introducing and before.person == mention.person
            if is_new and not marks & {*".?!"}:
                self._refuse("people_related", *words[mention.first : mention.last + 1])

    def _refuse_after(self, mention: Mention) -> None:
        """Refuses a word after a mention that belongs to the person or is a name."""
        rules, language, last = self.rules, self.language, mention.last
        low, pair = self.after(last), self.words[last : last + 2]
        if low in rules.collectives and not (rules.head_first or rules.joined or rules.unspaced):
            self._refuse("group_stated_elsewhere", *self.words[mention.first : last + 2])  # "een arm gezin"
        if mention.by_verb and low in rules.nominalizers:
            self._refuse("group_stated_elsewhere", *pair, between="")
        if low.startswith(rules.name_signs):
            self._refuse("adjacent_names", *pair, between="")
        if low in rules.copulas_before_nouns and last + 2 < len(self.words):
            noun = self.words[last + 2].low
            declined = language.is_head(noun) and language.case_of(noun, language.bases(())) is not None
            if declined or noun in rules.articles_behind:  # "Miren zen ikaslea"
                raise SubstitutionRefusedError("group_stated_elsewhere", f"{pair[1].text} {noun}")
        heads = tuple(head for head in rules.heads if len(head) > 1)
        grown = rules.joined and not rules.nouns_placed and not rules.article_prefix
        if grown and mention.case is None and low.startswith(heads):
            self._refuse("unreplaced_mention", *pair)
        is_noun = rules.unspaced and low in (*rules.heads, *rules.collectives)
        if is_noun or (rules.only_before and not low.startswith(rules.only_before)):
            self._refuse("unreplaced_mention", *pair, between="")

    def refuse_openers(self) -> None:
        """Refuses an opener outside mentions, which describes a person further: "is *dressed in* rags"."""
        for index, (one, other) in enumerate(itertools.pairwise(self.words) if self.mentions else ()):
            if index not in self.inside and f"{one.low} {other.low}" in self.rules.openers:
                raise SubstitutionRefusedError("group_stated_elsewhere", f"{one.low} {other.low}")

    def refuse_left_over(self, people: People) -> None:
        """Refuses a word outside the mentions that states the group of one of the people."""
        rules, language = self.rules, self.language
        for word in self.outside if self.mentions else ():
            if word.low in rules.group_words:
                self._refuse("group_stated_elsewhere", word)
        for person, other in (people, people[::-1]):
            distinctive = [word for word in person.distinctive if word not in person.small]
            found = first_match(self.outside, distinctive, language)
            if found is None and rules.noun_last and self.mentions:  # "కాలేజీ అమ్మాయి" and then "ఆ అమ్మాయి"
                is_shared = any(language.same(person.noun, own) for own in other.words)
                nouns = (word for word in self.outside if not is_shared and language.same(word.low, person.noun))
                found = next(nouns, None)
            if found is not None:
                self._refuse("unreplaced_mention", found)
        if rules.fenced and self.mentions:
            parts = {
                part for person in people for word in person.distinctive if "-" in word for part in word.split("-")
            }
            nouns_of = [person.noun for person in people] if rules.head_first else []
            for index, word in enumerate(self.words):
                before = self.words[index - 1].low if index else ""
                determined = before in language.determiners and not word.gap.strip("'’")
                alone = determined and not word.low.endswith(rules.plural_signs)
                known = [*parts, *(nouns_of if alone else ())]
                if index not in self.inside and language.same_as_any(word.low, known):
                    self._refuse("unreplaced_mention", word)
        if rules.unspaced:
            # The first and the last letters of the distinguishing words may be parts of other words.
            both = ["".join(person.words) for person in people]
            distinctive = [word for person in people for word in person.distinctive]
            starts_and_ends = (part for word in distinctive for part in (word[:PART_LENGTH], word[-PART_LENGTH:]))
            left = "\n".join(word.low for word in self.outside)
            for one in (part for part in starts_and_ends if len(part) == PART_LENGTH and not _KANA.search(part)):
                if one in left and not all(one in own for own in both):
                    raise SubstitutionRefusedError("unreplaced_mention", one)

    def refuse_heads(self, people: People) -> None:
        """Refuses a general noun outside the mentions if it alone distinguishes one of the people."""
        endings = self.rules.plural_endings
        for distinctive in (
            person.distinctive for person in people if all(map(self.language.is_head, person.distinctive))
        ):
            several = tuple(noun + ending for noun in distinctive for ending in endings)
            for word in self.outside:
                if word.low.startswith(several) or self.language.same_as_any(word.low, distinctive):
                    self._refuse("unreplaced_mention", word)

    def refuse_described_beside(self, people: People) -> None:
        """Refuses words next to a mention that describe the person further."""
        if not self.rules.fenced:
            return
        for mention in self.mentions:
            if self.after(mention.last) and mention.last + 1 not in self.inside and not mention.by_verb:
                self._refuse_complement(mention)
            self._refuse_cut_phrase(mention)
        for number, person in enumerate(people):
            own = [mention for mention in self.mentions if mention.person == number]
            if own and self._is_like_a_name(own, person):
                self._refuse_apposition(own[0])

    def _refuse_complement(self, mention: Mention) -> None:
        """Refuses a following word that belongs to the person: "директор *завода*", "un réfugié *syrien*"."""
        rules, (last, word) = self.rules, self.words[mention.last : mention.last + 2]
        is_complement = word.low in rules.never_before or word.low.endswith(rules.never_before_endings)
        if rules.only_before_endings and word.low not in self.language.functions:
            is_complement |= not word.low.endswith(rules.only_before_endings)
        if rules.article_prefix and mention.first == mention.last and not _has_article(last):
            is_complement |= _has_article(word)  # "حارس *العمارة*"
        if is_complement:
            self._refuse("group_stated_elsewhere", last, word)

    def _refuse_cut_phrase(self, mention: Mention) -> None:
        """Refuses a word between a determiner and the person that is not part of the option."""
        functions, determiners, first = self.language.functions, self.language.determiners, mention.first
        before = self.before(first)
        is_open = before and before not in functions and self.words[first].low not in determiners
        if not self.rules.noun_last or not is_open or mention.by_verb:
            return
        for index in range(first - 1, max(first - 1 - PHRASE_REACH, -1), -1):
            if index in self.inside:
                return
            if self.words[index].low in determiners:
                self._refuse("group_stated_elsewhere", self.words[index], self.words[first], between=" … ")
            if self.words[index].gap:
                return

    def _is_like_a_name(self, own: Sequence[Mention], person: PersonDescription) -> bool:
        """Whether a person is called by a name: by a capital within a sentence or, in a script without capitals, by
        words that never have a determiner and are not nouns for people."""
        if person.is_name:
            return True
        first_letter = self.words[0].text[0]
        if first_letter.lower() != first_letter.upper():
            words = [self.words[index] for index in covered(own) if index]
            within = (word.text for word in words if not word.gap.endswith((*'.?!«"…',)))
            return any(text[0].isupper() and not text.isupper() for text in within)
        if person.is_common or any(self.language.is_head(word) for word in person.words):
            return False
        return all(self.words[mention.first].low not in self.language.determiners for mention in own)

    def _refuse_apposition(self, mention: Mention) -> None:
        """Refuses a noun before a name, or a clause between commas after it, that may describe the person."""
        rules, language, before = self.rules, self.language, self.before(mention.first)
        is_other = before and mention.first - 1 not in self.inside and before not in language.functions
        if is_other and not before.endswith(rules.object_behind):
            self._refuse("group_stated_elsewhere", *self.words[mention.first - 1 : mention.first + 1])
        after = self.words[mention.last + 1 : mention.last + 2 + APPOSITION_REACH]
        if not after or mention.last + 1 in self.inside:
            return
        relative = after[0].low in language.link_words or after[0].low in rules.clause_relatives
        closes = relative or any(word.gap.startswith((",", "(", "—", "–")) for word in after[1:])
        if after[0].gap.startswith("(") or (closes and after[0].gap.startswith((",", "—", "–"))):
            self._refuse("group_stated_elsewhere", self.words[mention.last], after[0], between=", ")


def _has_article(word: Word) -> bool:
    return len(word.text) > len(word.low) and word.text.endswith(word.low)


def first_match(words: Sequence[Word], distinctive: Sequence[str], language: Language) -> Word | None:
    """The first word that is one of the distinguishing words, ignoring endings."""
    rules, starts = language.rules, list[str]()
    strong = [word for word in distinctive if not language.is_weak(word)]
    strong = strong or (list(distinctive) if rules.nouns_placed else [])
    if rules.joined:
        # Beginnings of longer forms of a distinguishing word: the word, and in languages with the noun last also its
        # stems: Marathi शिंप, of शिंपी in शिंप्यासमोर.
        least = 2 if rules.article_prefix else 1
        starts = [word for word in strong if len(word) > least]
        stems = (stem for word in strong for stem in language.stems(word) - {word}) if rules.noun_last else ()
        starts += [stem for stem in stems if len(stem) > MIN_STEM]
    begins = tuple(starts)
    found = (word for word in words if language.same_as_any(word.low, strong) or word.low.startswith(begins))
    return next(found, None)


@dataclass(frozen=True)
class NameSlot:
    """A slot for a name."""

    person: int
    form: str
    """A key of `grammar.forms`; `""` for the name itself."""
    original: str
    """The replaced text."""
    before: str = ""
    """Text before the name, with its space."""
    after: str = ""
    """Text after the name, with its space."""
    next_form: str = ""
    """The form that contains the written name and the next word; `""` without one."""


@dataclass(frozen=True)
class GenderSlot:
    """A word that agrees with the gender of the names."""

    original: str
    by_gender: tuple[tuple[NameGender, str], ...]


Piece = str | NameSlot | GenderSlot


@dataclass(frozen=True)
class SubstitutionPlan:
    """A text ready for names."""

    pieces: tuple[Piece, ...]
    genders: frozenset[NameGender]
    preferred: NameGender | None

    @property
    def people(self) -> frozenset[int]:
        """The people who are mentioned."""
        return frozenset(slot.person for slot in self.replaced)

    @property
    def replaced(self) -> tuple[NameSlot, ...]:
        """The mentions, in order."""
        return tuple(piece for piece in self.pieces if isinstance(piece, NameSlot))


def plan_substitution(text: str, people: People, language: Language) -> SubstitutionPlan:
    """The plan of a text about two people; raises SubstitutionRefusedError if a mention can't be replaced."""
    lines = text.split("\n")
    if language.rules.two_lines and len(lines) == len(_LINES):
        plans = [plan_substitution(line, people, language) for line in lines]
        if all(plan.pieces == (line,) for plan, line in zip(plans, lines, strict=True)):
            slot = GenderSlot(text, tuple(zip(_LINES, lines, strict=True)))
            return SubstitutionPlan((slot,), frozenset(_LINES), None)
    either = _either_form(text, language)
    if either is not None:
        return either
    words = language.words(text, {word for person in people for word in person.words})
    mentions = find_mentions(words, people, language)
    refusals = Refusals(words, mentions, language)
    refusals.refuse_beside()
    refusals.refuse_openers()
    return _planned(text, refusals, people)


def plan_from_spans(text: str, spans: Spans, people: People, language: Language) -> SubstitutionPlan:
    """The plan of a text with given positions of the two people; raises as `plan_substitution` does."""
    words = split_nouns(language.words(text), spans, language)
    refusals = Refusals(words, SlotMentions(words, spans, people, language).find(), language)
    refusals.refuse_beside()
    refusals.refuse_heads(people)
    inflected = []  # with the stems of the distinguishing words added: "조울증이", "조울증"
    for person in people:
        stems = [stem for word in person.distinctive for stem in sorted(language.stems(word)) if len(stem) > 1]
        inflected.append(replace(person, distinctive=tuple(dict.fromkeys((*person.distinctive, *stems)))))
    return _planned(text, refusals, (inflected[0], inflected[1]))


def _planned(text: str, refusals: Refusals, people: People) -> SubstitutionPlan:
    words, mentions, language = refusals.words, refusals.mentions, refusals.language
    refusals.refuse_left_over(people)
    refusals.refuse_described_beside(people)
    gendered = GenderedText(words, mentions, language)
    genders = gendered.compatible_genders()
    if mentions and not genders:
        raise SubstitutionRefusedError("ambiguous_gender", "words of both genders")
    slots: dict[int, tuple[int, Piece]] = {}
    """Start of a piece → its end, and the piece."""
    for mention in mentions:
        start, end, name = _name_slot(text, words, mention, language)
        slots[start] = (end, name)
    for index, by_gender in gendered.changes().items():
        word = words[index]
        slots[word.start] = (word.end, GenderSlot(word.text, tuple(by_gender.items())))
    pieces, at = list[Piece](), 0
    for start, (end, piece) in sorted(slots.items(), key=lambda slot: slot[0]):
        if start >= at:
            pieces += [text[at:start], piece] if start > at else [piece]
            at = end
    pieces += [text[at:]] if at < len(text) else []
    return SubstitutionPlan(tuple(pieces), genders, gendered.preferred_gender())


def _either_form(text: str, language: Language) -> SubstitutionPlan | None:
    """The plan of a question with a masculine and a feminine form ("un lector o una lectora"); one form is used."""
    agreement = language.rules.agreement
    if agreement is None or not text.endswith("?"):
        return None
    words = language.words(text)
    for index, word in enumerate(words):
        first = 2 * index + 1 - len(words)
        if word.low not in agreement.or_words or first < 0:
            continue
        one, other = words[first:index], words[index + 1 :]
        if not one or any(each.gap for each in (*one[1:], word, *other)):
            continue
        articles = (one[0].low, other[0].low)
        alike = all(a.low[:LIKE_LETTERS] == b.low[:LIKE_LETTERS] for a, b in zip(one[1:], other[1:], strict=True))
        if alike and articles in agreement.articles.items():
            start, end = one[0].start, other[-1].end
            man, woman = text[start : one[-1].end], text[other[0].start : end]
            slot = GenderSlot(text[start:end], tuple(zip(_LINES, (man, woman), strict=True)))
            return SubstitutionPlan((text[:start], slot, text[end:]), frozenset(_LINES), None)
    return None


def apply_plan(plan: SubstitutionPlan, names: tuple[str, str], gender: NameGender, control_set: ControlSet) -> str:
    """The text with the names of the two people, both of one gender."""
    written = []
    for piece in plan.pieces:
        if isinstance(piece, NameSlot):
            name = names[piece.person]
            for form in filter(None, (piece.form, piece.next_form)):
                name = write_name(control_set, name, form)
            written += [piece.before, name if piece.before else _as_written(name, piece.original), piece.after]
        elif isinstance(piece, GenderSlot):
            written.append(dict(piece.by_gender).get(gender, piece.original))
        else:
            written.append(piece)
    return "".join(written)


def _name_slot(text: str, words: Sequence[Word], mention: Mention, language: Language) -> tuple[int, int, NameSlot]:
    """Start and end of the text that a name replaces, and its slot."""
    rules, start, end = language.rules, words[mention.first].start, words[mention.last].end
    form = mention.case or ""
    for ending in words[mention.last + 1 : mention.last + 2] if not form else ():
        # An ending after an apostrophe determines the form: Turkish "torun'in".
        if ending.gap and ending.gap in _APOSTROPHES and text[ending.start - 1] in _APOSTROPHES and rules.cases:
            forms = [form for form, endings in rules.cases.items() if ending.low in endings]
            if not forms:
                raise SubstitutionRefusedError("unknown_inflection", ending.text)
            form, end = forms[0], ending.end
    end += _closes_with_comma(words, mention, language)
    kept, after = mention.kept, f" {mention.after}" if mention.after else ""
    before = words[mention.first - 1] if mention.first and words[mention.first].follows else None
    joined = kept
    if not kept and before is not None and (not form or rules.declensions) and before.low in rules.before_names:
        start, joined = before.start, before.low
    if joined in rules.before_names:
        return start, end, NameSlot(mention.person, rules.before_names[joined], text[start:end], after=after)
    named = mention.by_verb and (bool(kept) or mention.elided)  # "es diu Anna", but "és l'Anna"
    form = form or ("" if named else rules.name_form or "")
    following = next((word for word in words[mention.last + 1 :] if word.start >= end), None)
    original, next_form = text[start:end], ""
    if following is not None and not following.gap and (next_form := rules.behind_names.get(following.low, "")):
        end = following.end
    kept = f"{_as_written(kept, original)} " if kept else ""
    return start, end, NameSlot(mention.person, form, original, kept, after, next_form)


def _closes_with_comma(words: Sequence[Word], mention: Mention, language: Language) -> bool:
    """Whether a comma closes the clause that the name replaces: Dutch "degene die lang is*,* zong"."""
    rules, there = language.rules, words[mention.first : mention.last + 1]
    if any(is_aside(word, language) for word in there[1:]):
        return True
    is_clause = there[-1].low in rules.closing_verbs and any(word.low in rules.relatives for word in there)
    if not is_clause or mention.by_verb or mention.last + 1 == len(words):
        return False
    following, opens = words[mention.last + 1], mention.first == 0 or words[mention.first].gap.endswith((".", "?", "!"))
    opens = opens or words[mention.first - 1].low in set(rules.clause_words) - set(rules.before_bare)
    continues = following.low not in rules.clause_words and following.low not in language.determiners
    return opens and continues and following.gap == ","


def _as_written(kept: str, original: str) -> str:
    return kept[0].upper() + kept[1:] if original[0].isupper() else kept
