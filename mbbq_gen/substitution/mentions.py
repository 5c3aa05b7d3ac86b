"""Where two people are mentioned in a text: each mention whole, with its determiner and all that describes the person.

A mention grows from the words that tell a person apart:

    I saw [a really fat guy] waiting, and [the one who was thin] beside him.
             ^telling   ^head              ^head ^link   ^telling

What tells a person apart and is no mention ("maneuvering his wheelchair") is left over, and the question is refused.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from mbbq_gen.languages import NameGender
from mbbq_gen.substitution.people import Person
from mbbq_gen.substitution.words import Language, Word

SAME_PERSON_WORDS = 3
"""Most words between two telling words of one mention."""
DETERMINER_REACH = 3
"""How many words before a person its determiner may be: "their old college friend"."""
STAND_IN_REACH = 5
"""How many words before its verb a stand-in may be: "one person you ask is rich"."""


@dataclass(frozen=True)
class Mention:
    """A person mentioned."""

    person: int
    """0 or 1: which of the two."""
    first: int
    """Place of its first word."""
    last: int
    """Place of its last word."""
    kept: str = ""
    """What is left of a determiner that held another word: Spanish `a` of `al`."""
    case: str | None = None
    """The form of a name that the mention's ending asks for."""
    gender: NameGender | None = None
    """Its grammatical gender, where the determiner tells."""
    told: bool = False
    """Whether a verb tells who a stand-in before it is, which stays: "one was *fat*"."""
    behind: str = ""
    """What is written behind the name in place of a verb that the mention holds: Dutch "heet"."""
    inner: int | None = None
    """Place of its first word behind a stand-in that it holds: 3 in "the other who's fat"."""


class NotReplaceableError(Exception):
    """A text in which not every mention can be replaced."""

    def __init__(self, reason: str, what: str) -> None:
        super().__init__(f"{reason}: {what}")
        self.reason = reason
        self.what = what


def find_mentions(words: Sequence[Word], people: tuple[Person, Person], language: Language) -> list[Mention]:
    """The mentions of two people, in order.

    Raises:
        NotReplaceableError: where a word that tells one of them apart stands outside a mention, or a mention is of
            several people.
    """
    finder = _Finder(words, people, language)
    found = list(finder.mentions())
    found = sorted([*found, *_said_again(found, words, language)], key=lambda mention: mention.first)
    for one, other in itertools.pairwise(found):
        if one.last >= other.first:
            raise NotReplaceableError("mention_left_over", _shown(words, one.first, other.last))
    told = [_beside_told(mention, before, words) for before, mention in zip([None, *found], found, strict=False)]
    refuse_beside(told, words, language)
    _refuse_openers(told, words, language)
    return told


def _said_again(mentions: Sequence[Mention], words: Sequence[Word], language: Language) -> Iterator[Mention]:
    """Mentions of a person by the noun alone that a clause between commas is about: "my neighbor", of "my neighbor, who
    has a cough, …".

    Raises:
        NotReplaceableError: where that noun stands elsewhere otherwise.
    """
    inside = {place for mention in mentions for place in range(mention.first, mention.last + 1)}
    for mention in mentions:
        there = words[mention.first : mention.last + 1]
        comma = next((at for at, word in enumerate(there) if at and is_aside(word, language)), None)
        if comma is None:
            continue
        said = tuple(word.low for word in there[:comma])
        for place, word in enumerate(words):
            if place in inside or not language.same(word.low, said[-1]):
                continue
            first = place - len(said) + 1
            if first < 0 or tuple(one.low for one in words[first : place + 1]) != said:
                raise NotReplaceableError("attribute_told", word.text)
            yield Mention(mention.person, first, place)


def is_aside(word: Word, language: Language) -> bool:
    """Whether a word opens a clause that commas set off."""
    return word.gap == "," and word.low in language.rules.asides


def refuse_beside(mentions: Sequence[Mention], words: Sequence[Word], language: Language) -> None:
    """Raises where a name can't stand beside what stands beside a mention."""
    _refuse_collisions(mentions, words, language)
    _refuse_had(mentions, words, language)
    _refuse_neighbours(mentions, words, language)


def _refuse_openers(mentions: Sequence[Mention], words: Sequence[Word], language: Language) -> None:
    """Raises where more is told of a person behind words that are no part of a mention: "is *dressed in* rags"."""
    inside = {place for mention in mentions for place in range(mention.first, mention.last + 1)}
    for one in range(len(words) - 1) if mentions else ():
        pair = f"{words[one].low} {words[one + 1].low}"
        if one not in inside and pair in language.rules.openers:
            raise NotReplaceableError("attribute_told", pair)


def _refuse_neighbours(mentions: Sequence[Mention], words: Sequence[Word], language: Language) -> None:
    """Raises where what stands right beside a person goes with it, or is a name (languages without blanks)."""
    rules = language.rules
    for mention in mentions:
        before = words[mention.first - 1] if mention.first and not words[mention.first].gap else None
        if before is not None and before.low.endswith(rules.never_behind) and not mention.told:
            raise NotReplaceableError("mention_left_over", before.text + words[mention.first].text)
        places = rules.agreement.places if rules.agreement else ()
        if before is not None and mention.told and before.low in places:
            raise NotReplaceableError("attribute_told", f"{before.text} {words[mention.first].text}")
        behind = words[mention.last + 1] if mention.last + 1 < len(words) else None
        if behind is None or behind.gap:
            continue
        if mention.told and behind.low in rules.nominalizers:
            raise NotReplaceableError("attribute_told", words[mention.last].text + behind.text)
        if behind.low.startswith(rules.name_signs):
            raise NotReplaceableError("names_collide", words[mention.last].text + behind.text)
        if behind.low in rules.copulas_before_nouns and mention.last + 2 < len(words):
            noun = words[mention.last + 2].low
            declined = language.is_head(noun) and language.case_of(noun, language.bases(())) is not None
            if declined or noun in rules.articles_behind:
                raise NotReplaceableError("attribute_told", f"{behind.text} {noun}")  # "Miren zen ikaslea"
        heads = tuple(head for head in rules.heads if len(head) > 1)
        grown = rules.joined and not rules.nouns_placed and not rules.article_prefix
        if grown and mention.case is None and behind.low.startswith(heads):
            raise NotReplaceableError("mention_left_over", f"{words[mention.last].text} {behind.text}")
        if rules.unspaced and behind.low in {*rules.heads, *rules.collectives}:
            raise NotReplaceableError("mention_left_over", words[mention.last].text + behind.text)
        if rules.only_before and not behind.low.startswith(rules.only_before):
            raise NotReplaceableError("mention_left_over", words[mention.last].text + behind.text)


def _refuse_had(mentions: Sequence[Mention], words: Sequence[Word], language: Language) -> None:
    """Raises where a name would be what somebody has: "la mujer *que llevaba* Emma"."""
    rules = language.rules
    for mention in mentions:
        before = words[max(mention.first - 2, 0) : mention.first]
        if len(before) < 2 or before[1].gap or words[mention.first].gap:
            continue
        if before[0].low in rules.clause_relatives and before[1].low in rules.told:
            raise NotReplaceableError("attribute_told", f"{before[0].text} {before[1].text}")


def _refuse_collisions(mentions: Sequence[Mention], words: Sequence[Word], language: Language) -> None:
    """Raises where two names would stand side by side, or an article before one."""
    ends = {mention.last for mention in mentions if mention.case is None}
    for mention in mentions:
        before = mention.first - 1
        if before < 0 or words[mention.first].gap:
            continue
        low = words[before].low
        article = (
            language.rules.needs_determiner
            and low in language.determiners
            and low not in language.rules.stand_ins
            and words[mention.first].low not in language.rules.definites
        )
        declined = language.rules.joined and mention.case is not None
        parted = declined or bool(mention.kept)  # "dallo psicologo *col* meccanico"
        if (before in ends and not parted) or article:
            raise NotReplaceableError("names_collide", _shown(words, before, mention.last))


def _beside_told(mention: Mention, before: Mention | None, words: Sequence[Word]) -> Mention:
    """Leaves a stand-in where the one before it stays too: "one of whom is *gay* and the other who's *straight*"."""
    if before is None or not before.told or mention.inner is None:
        return mention
    if any(mark in word.gap for word in words[before.last + 1 : mention.first + 1] for mark in ".?!"):
        return mention
    return replace(mention, first=mention.inner, told=True, gender=None)


def _shown(words: Sequence[Word], first: int, last: int) -> str:
    return " ".join(word.text for word in words[first : last + 1])


class _Finder:
    """Finds the mentions in one text."""

    def __init__(self, words: Sequence[Word], people: tuple[Person, Person], language: Language) -> None:
        self.words, self.people, self.language, self.rules = words, people, language, language.rules

    def mentions(self) -> Iterator[Mention]:
        """The mentions of both, the first person's first."""
        for number, person in enumerate(self.people):
            end = -1
            for first, last in self._cores(person, self.people[1 - number]):
                if first > end:
                    mention = self._grown(number, person, first, last)
                    end = mention.last
                    yield mention

    def _cores(self, person: Person, other: Person) -> Iterator[tuple[int, int]]:
        """From and to where telling words of a person stand together."""
        owned = [
            place
            for place, word in enumerate(self.words)
            if self._tells(person, word.low) and (word.low not in other.telling or word.low in person.telling)
        ]
        while owned:
            core = [owned.pop(0)]
            while owned and self._together(person, core[-1], owned[0]) and not self._is_closed(person, core[-1]):
                core.append(owned.pop(0))
            core = self._without_loose_ends(person, core)
            if person.apart_from and self._is_of_other(person, core):
                continue  # "غير *مصاب*", of the other
            there = [self.words[place].low for place in core]
            if all(self._is_weak(low) for low in there) and (
                self._is_counted(core[0]) or all(self.language.is_plural(low, person.words) for low in there)
            ):
                continue  # "two friends", where one of them is told to be a friend
            wanted = person.telling if person.needs_all else (person.key,)
            if all(any(self.language.same(low, telling) for low in there) for telling in wanted):
                yield core[0], core[-1]
            elif not all(self._may_be_left(person, low) for low in there):
                raise NotReplaceableError("mention_left_over", _shown(self.words, core[0], core[-1]))

    def _is_of_other(self, person: Person, core: list[int]) -> bool:
        """Whether the small words that tell of the other person stand beside telling words."""
        other = self.people[1] if person is self.people[0] else self.people[0]
        reach = len(other.words) - len(person.words)
        near = self.words[max(core[0] - reach, 0) : core[-1] + 1 + reach]
        return any(self.language.same(word.low, small) for word in near for small in person.apart_from)

    def _without_loose_ends(self, person: Person, core: list[int]) -> list[int]:
        """Telling words without small ones at an end where the description has none: "un chapeau *avec* ma sœur"."""
        small = [any(self.language.same(self.words[place].low, word) for word in person.small) for place in core]
        while len(core) > 1 and small[-1] and person.telling[-1] not in person.small:
            core, small = core[:-1], small[:-1]
        while len(core) > 1 and small[0] and person.telling[0] not in person.small:
            core, small = core[1:], small[1:]
        return core

    def _is_counted(self, place: int) -> bool:
        """Whether a number for several stands shortly before, in its phrase: Turkish "iki uzun süreli arkadaş"."""
        for far in range(place, max(place - DETERMINER_REACH, 0), -1):
            if self.words[far].gap:
                return False
            if self.words[far - 1].low in self.rules.numbers:
                return True
            if self.rules.noun_anywhere and not self._is_weak(self.words[far - 1].low):
                return False
        return False

    def _tells(self, person: Person, word: str) -> bool:
        """Whether a word is one that tells the person; a first name is that word alone."""
        if person.is_name:
            return word in person.telling
        return any(self.language.same(word, telling) for telling in person.telling)

    def _is_closed(self, person: Person, place: int) -> bool:
        """Whether a word's ending closes the mention, as a particle does where words are joined."""
        return (
            self.rules.joined
            and self.language.case_of(self.words[place].low, self.language.bases(person.words)) is not None
        )

    def _is_nominalized(self, person: Person, place: int) -> bool:
        """Whether a word behind makes a person of an adjective, at the end of its clause."""
        behind, beyond = self.words[place + 1 : place + 2], self.words[place + 2 : place + 3]
        ends = not beyond or bool(beyond[0].gap)
        makes = bool(behind) and behind[0].gap == "" and behind[0].low in self.rules.nominalizers
        return makes and ends and person.attachment == "adjective"

    def _is_cut(self, person: Person, start: int, kept: str) -> bool:
        """Whether the person's own noun stands before, over a preposition: "a *girl from* [the poor area]"."""
        before = self.words[max(start - 2, 0) : start]
        if not before or any(word.gap for word in (*before[1:], self.words[start])):
            return False
        if not kept:
            joins = before[-1].low in self.rules.small_words and before[-1].low in person.words
            before = before[:-1] if joins else []
        noun = before[-1].low if before else ""
        return noun in person.words and noun not in person.telling and noun not in self.language.determiners

    def _has_own_noun(self, person: Person, first: int, last: int) -> bool:
        """Whether the noun that tells the person apart is in the mention."""
        there = any(self.language.same(word.low, person.noun) for word in self.words[first : last + 1])
        return person.attachment == "noun" and (there or not self.rules.joined)

    def _is_bare_adjective(self, person: Person, low: int, right: int) -> bool:
        """Whether an adjective stands for a person without a noun: Spanish "el gordo", Basque "bizardunak"."""
        if not self.rules.bare_adjectives or person.attachment != "adjective":
            return False
        if self.rules.head_first and self.rules.verbs_agree and self._may_precede_noun(right):
            return False  # "mon *riche* cousin"
        declined = self._may_stand_bare(low) and self._is_declined(person, right)
        return declined or self._is_determined(low) or self._after_stand_in(low)

    def _may_precede_noun(self, place: int) -> bool:
        """Whether the word behind may be a noun: none of those that can't."""
        behind = self.words[place + 1 : place + 2]
        known = {*self.rules.clause_words, *self.rules.small_words, *self.rules.before_bare, *self.rules.gender_verbs}
        return bool(behind) and behind[0].gap == "" and behind[0].low not in known

    def _is_declined(self, person: Person, place: int) -> bool:
        """Whether a word has an article of its own, or is one, so that it is a person: Basque "bizardunak"."""
        return self.words[place].low in self.rules.articles_behind or (
            self.rules.noun_anywhere and self._is_closed(person, place)
        )

    def _may_stand_bare(self, low: int) -> bool:
        """Whether no noun of another thing can stand before: at the start of a clause."""
        return low == 0 or bool(self.words[low].gap) or self.words[low - 1].low in self.rules.before_bare

    def _ends_person(self, person: Person, place: int) -> bool:
        """Whether a person ends at a word: by its case, or because it is the noun, behind which another begins."""
        low = self.words[place].low
        if self.rules.noun_last and self.language.same(low, person.noun):
            return True
        if self.rules.noun_last and any(self.language.same(low, own) for own in person.words[:-1]):
            return False  # "मजुराच्या मुलाने", whose case is that of the noun behind
        with_article = bool(self.rules.article_endings) and low.endswith(self.rules.article_endings)
        return (with_article and low == person.words[-1]) or self._is_closed(person, place)

    def _tells_other(self, person: Person, word: str) -> bool:
        """Whether a word tells of the other person alone."""
        other = self.people[1] if person is self.people[0] else self.people[0]
        return self._tells(other, word) and not self._tells(person, word)

    def _may_be_left(self, person: Person, word: str) -> bool:
        """Whether a word that tells a person only beside others may stand outside the person's mentions: a small word,
        and what is told of the other person too."""
        other = self.people[1] if person is self.people[0] else self.people[0]
        known = {*person.small, *other.words} if person.small else set()
        return self._is_weak(word) or any(self.language.same(word, one) for one in known)

    def _is_weak(self, word: str) -> bool:
        """Whether a word tells of a person only beside others: "other", "old"."""
        return self.language.is_head(word) or word in self.rules.modifiers

    def _together(self, person: Person, one: int, other: int) -> bool:
        """Whether two telling words are parts of one mention: only words of the description stand between."""
        between = self.words[one + 1 : other]
        return (
            other - one <= SAME_PERSON_WORDS + 1
            and all(word.follows for word in self.words[one + 1 : other + 1])
            and all(word.low in person.words or word.low in self.language.determiners for word in between)
        )

    def _grown(self, number: int, person: Person, first: int, last: int) -> Mention:
        """The whole mention around telling words."""
        if person.is_name and not self._is_determined(first):
            return Mention(number, first, last, case=self._case(person, first, last), gender=person.gender)
        told_last = self._told_last(number, first, last)
        if told_last is not None:
            return told_last
        right, headed = self._right(person, last)
        low, inner, found = self._left(person, first, right)
        if self._closes_clause(low, first, right):
            right += 1
        headed = headed or found or self._has_own_noun(person, low, right)
        if (opened := self._opened_around(number, low, right)) is not None:
            return opened
        if self._is_copula_of_stand_in(low) or self._is_elided(low, right):
            self._refuse_several(person, low, right)
            low -= self._is_determined(low)
            case = self._case(person, low, right)
            gender = self._gender_there(person, low, right) or self._gender_of_stand_in(low)
            return Mention(number, low, self._opened(right), case=case, gender=gender, told=True)
        told = low - self._is_determined(low)
        is_had = person.attachment == "behind" or (self.rules.head_first and person.attachment == "adjective")
        if is_had and self._is_had_by_stand_in(person, told):
            kept = self.rules.told[self.words[told - 1].low]
            gender = self._gender_of_stand_in(told)
            return Mention(number, told - 1, right, kept, self._case(person, low, right), gender, told=True)
        if not headed and not self._is_bare_adjective(person, low, right):
            raise NotReplaceableError("attribute_told", _shown(self.words, max(low - 2, 0), right))
        self._refuse_several(person, low, right)
        start, kept, gender = self._with_determiner(person, low)
        if self._is_cut(person, start, kept):
            raise NotReplaceableError("mention_left_over", _shown(self.words, max(start - 2, 0), right))
        start = self._led_in(start, right)
        is_told = self._is_predicate(start, right) or self._is_clause(person, start, right)
        if is_told or self._is_had_behind(person, first, right):
            raise NotReplaceableError("attribute_told", _shown(self.words, max(start - 1, 0), right))
        if (told_behind := self._told_behind_verb(number, start, right)) is not None:
            return told_behind
        if (with_stand_in := self._with_stand_in(start)) < start:
            start, inner = with_stand_in, start
        gender = self._gender_there(person, start, right) or gender
        gender = (person.gender if self.rules.genitives else gender) or self._gender_of_noun(person)
        kept = self._of_genitive(person, start) or kept
        return Mention(number, start, self._opened(right), kept, self._case(person, low, right), gender, inner=inner)

    def _led_in(self, start: int, right: int) -> int:
        """The first word of a mention with modifiers and what leads it in before its determiner.

        Raises:
            NotReplaceableError: where somebody is told to have the person.
        """
        while self.rules.head_last and start and self.words[start].gap == "" and self._is_modifier(start - 1):
            start -= 1
        before = self.words[start - 1] if start and self.words[start].gap == "" else None
        if before is not None and before.low in self.rules.relations:
            raise NotReplaceableError("relation_told", _shown(self.words, start - 1, right))
        if before is not None and before.low in self.rules.lead_ins:
            return start - (not self.rules.unspaced or start == 1 or bool(before.gap))
        return start

    def _told_last(self, number: int, first: int, last: int) -> Mention | None:
        """A person told by adjective and verb right behind a stand-in, as in a Dutch clause: "de ene *lang* was"."""
        while (
            first and self.words[first].gap == "" and self._is_modifier(first - 1) and not self._after_stand_in(first)
        ):
            first -= 1
        words = self.people[number].words
        while last + 1 < len(self.words) and self.words[last + 1].low in words and not self._closes(last + 1):
            last += 1
        verb = last + 1
        ends = verb == len(self.words) or bool(self.words[verb].gap)
        first -= self._is_determined(first) and self._is_aside(first - 2, verb)
        if not ends and first and self._is_aside(first - 1, verb) and self.words[first].gap == "":
            told = self.rules.told_last.get(self.words[verb].low)
            return Mention(number, first, verb, behind=told, told=True) if told else None
        if self._is_determined(first) and self._stand_in_before(number, first - 1) is not None:
            first -= self.people[number].attachment == "behind"  # "had *een* beugel"
        owner = self._stand_in_before(number, first)
        if owner is None or not self._is_determined(owner) or self.words[owner].gap:
            return None
        if not ends:
            return self._told_by_verb(number, first, last)
        is_had = self.rules.told_last and self.people[number].attachment == "behind" and owner == first - 1
        return Mention(number, first, last, told=True) if is_had else None

    def _opened_around(self, number: int, low: int, right: int) -> Mention | None:
        """A person told by an opener around the verb: "de andere *gekleed* was *in een oud pak*"."""
        for rest in (low, low - 1 - self._is_determined(low)):
            first = rest - 2
            if first < 1 or any(word.gap for word in self.words[first : rest + 1]):
                continue
            opener, verb = self.words[first].low, self.words[rest - 1].low
            is_opener = f"{opener} {self.words[rest].low}" in self.rules.openers and verb in self.rules.copulas
            if is_opener and self._stand_in_before(number, first) is not None:
                return Mention(number, first, right, behind=verb, told=True)
        return None

    def _told_by_verb(self, number: int, first: int, last: int) -> Mention | None:
        """The same, by the verb right behind."""
        verb, low = last + 1, self.words[last + 1].low
        if low in self.rules.told_last:
            return Mention(number, first, verb, behind=self.rules.told_last[low], told=True)
        if low not in self.rules.copulas or low not in self.rules.closing_verbs:
            return None
        if verb + 2 < len(self.words) and self._opens(verb + 1):  # "slordig was *gekleed in een pak*"
            return Mention(number, first, self._opened(verb + 1), behind=low, told=True)
        ends = verb + 1 == len(self.words) or bool(self.words[verb + 1].gap) or self._begins_clause(verb + 1)
        return Mention(number, first, last, told=True) if ends and self._after_stand_in(first) else None

    def _stand_in_before(self, number: int, place: int) -> int | None:
        """Where the stand-in is right before a word, or before a noun for a person that is: "de *ene* spreker"."""
        if place and self.words[place].gap == "" and self._is_head(self.people[number], self.words[place - 1].low):
            place -= not self._after_stand_in(place)
        return place - 1 if self._after_stand_in(place) else None

    def _closes(self, place: int) -> bool:
        return self.words[place].low in self.rules.closing_verbs

    def _begins_clause(self, place: int) -> bool:
        return self.words[place].low in self.rules.clause_words

    def _is_predicate(self, start: int, right: int) -> bool:
        """Whether a clause says what somebody is, whose noun stands elsewhere: "they asked a man *who* X *was*"."""
        if not start or right + 1 >= len(self.words) or self.words[start].gap or self.words[start - 1].gap:
            return False
        behind, verb = self.words[start - 1], self.words[right + 1]
        return behind.low in self.rules.relatives and verb.low in self.rules.copulas

    def _is_had_behind(self, person: Person, first: int, right: int) -> bool:
        """Whether what tells of a person stands behind its noun as what it has: "de ene spreker *blauwe ogen* had"."""
        if person.attachment != "behind" or not first or right + 1 >= len(self.words) or self.words[right + 1].gap:
            return False
        is_verb = self.words[right + 1].low in self.rules.told_last
        return is_verb and self.words[first].gap == "" and self._is_head(person, self.words[first - 1].low)

    def _told_behind_verb(self, number: int, start: int, right: int) -> Mention | None:
        """A person told of a stand-in behind the verb, which stays: "was de ene vrouw *gekleed in een jurk*"."""
        if not start or self.words[start].gap or self.words[start - 1].low not in self.rules.copulas:
            return None
        place = start + 1
        if not self.rules.told_last or place + 2 > right or self.words[place].low not in self.rules.stand_ins:
            return None
        if not self._is_head(self.people[number], self.words[place + 1].low):
            return None
        return Mention(number, place + 2, self._opened(right), told=True)

    def _is_clause(self, person: Person, start: int, right: int) -> bool:
        """Whether the verb of a description stands without its relative: "one *wore* a hat"."""
        relative = next((word for word in self.rules.clause_relatives if word in person.words[:-1]), None)
        if relative is None:
            return False
        verb = person.words[person.words.index(relative) + 1]
        there = [word.low for word in self.words[start : right + 1]]
        return verb in there and relative not in there

    def _with_stand_in(self, start: int) -> int:
        """Where a mention starts with a stand-in right before its determiner: "*one* a poet", "*the other* a poet"."""
        has_determiner = self.words[start].low in self.language.determiners
        if not (self.rules.needs_determiner and has_determiner and self._after_stand_in(start)):
            return start
        start -= 1
        return start - 1 if self._is_determined(start) else start

    def _is_modifier(self, place: int) -> bool:
        """Whether a word is a modifier that tells neither person apart."""
        low = self.words[place].low
        return low in self.rules.modifiers and not any(low in person.telling for person in self.people)

    def _of_genitive(self, person: Person, start: int) -> str:
        """What stands for the case of a woman's determiner behind a noun: "von", for German "die Wahl *der* Frau"."""
        if person.gender != "f" or not start or self.words[start].gap or self.words[start - 1].gap:
            return ""
        return self.rules.genitives.get(self.words[start].low, "") if self.words[start - 1].text[0].isupper() else ""

    def _gender_of_noun(self, person: Person) -> NameGender | None:
        """The grammatical gender of a person's noun, where its ending tells."""
        agreement = self.rules.agreement
        if agreement is None or person.noun in agreement.any_gender:
            return None
        if person.noun.endswith(agreement.male):
            return "m"
        return "f" if person.noun.endswith(agreement.female) else None

    def _gender_there(self, person: Person, first: int, last: int) -> NameGender | None:
        """The gender that the verbs of a mention have by its words; None: either.

        Raises:
            NotReplaceableError: for a noun that may be of either while the verbs tell one.
        """
        if not self.rules.verbs_agree:
            return None
        there = self.words[first : last + 1]
        nouns: tuple[tuple[NameGender, tuple[str, ...]], ...]
        nouns = (("f", self.rules.female_nouns), ("m", self.rules.male_nouns))
        ways: tuple[Callable[[str, str], bool], ...] = (operator.eq, self.language.same)
        for word, alike in itertools.product(reversed(there), ways):
            for gender, known in nouns:
                if any(alike(word.low, noun) for noun in known):
                    return gender
        if person.noun in self.rules.genderless:
            return None
        if person.noun.endswith(self.rules.female_noun_endings or "\0"):
            return "f"
        if person.noun.endswith(self.rules.male_noun_endings or "\0"):
            return "m"
        if self.rules.female_endings and there[-1].low.endswith(self.rules.female_endings):
            raise NotReplaceableError("gender_unsettled", there[-1].text)
        common = person.is_common or len(person.words) > 1 or self.language.is_head(person.noun)
        determined = any(word.low in self.language.determiners for word in self.words[max(first - 1, 0) : last + 1])
        return self.rules.unmarked if common or determined else None

    def _left(self, person: Person, low: int, right: int) -> tuple[int, int | None, bool]:
        """The first word of the mention before its determiner, what stands behind a stand-in in it, and whether a head
        was found."""
        inner, has_head = None, False
        while (step := self._left_step(person, low, right)) is not None:
            if step[1] and self.words[step[0]].low in self.rules.stand_ins:
                inner = low
            low, has_head = step[0], has_head or step[1]
        return low, inner, has_head

    def _closes_clause(self, low: int, first: int, right: int) -> bool:
        """Whether the verb of a clause about the person stands right behind: "een die dun *was*"."""
        begun = any(word.low in self.rules.relatives for word in self.words[low:first])
        behind = self.words[right + 1] if right + 1 < len(self.words) else None
        return begun and behind is not None and behind.gap == "" and behind.low in self.rules.closing_verbs

    def _is_determined(self, low: int) -> bool:
        """Whether a determiner stands right before."""
        return low > 0 and self.words[low].follows and self.words[low - 1].low in self.language.determiners

    def _with_determiner(self, person: Person, low: int) -> tuple[int, str, NameGender | None]:
        """The first word of a mention with its determiner, what is left of that, and the gender that it tells.

        Raises:
            NotReplaceableError: where there is none, and none is near, in a language in which a person needs one.
        """
        if self._is_determined(low):
            owned = self.words[low - 1].low in self.rules.possessives and self._is_determined(low - 1)
            first = low - 2 if owned else low - 1
            return first, *self._determined(first, None)
        for far in range(low, max(low - DETERMINER_REACH, 0) if self.rules.reaching else low, -1):
            if self.words[far].gap or self.words[far - 1].low in self.rules.reaching:
                return (low if self.words[far].gap else far - 1), "", None
        if person.is_name or self.words[low].low in self.rules.undetermined:
            return low, "", None
        bare = low == 0 or self.words[low].gap or self.words[low - 1].low in self.rules.before_bare
        if bare or not self.rules.needs_determiner or self.words[low].low in self.rules.stand_ins:
            return low, "", None
        for far in range(low - 1, max(low - DETERMINER_REACH, 0), -1):
            if self.words[far].gap:
                break
            if self.words[far - 1].low in self.language.determiners:
                return far - 1, *self._determined(far - 1, None)
        raise NotReplaceableError("mention_left_over", _shown(self.words, low - 1, low))

    def _opened(self, last: int) -> int:
        """The last word of a mention with what an opener adds to it: "dressed *in an old coat*"."""
        place = last + 1
        if place < len(self.words) and self.words[place].gap == "" and self._opens(last):
            while (
                place < len(self.words)
                and self.words[place].gap == ""
                and self.words[place].low not in self.rules.clause_words
            ):
                place += 1
            return place - 1
        return last

    def _opens(self, last: int) -> bool:
        return f"{self.words[last].low} {self.words[last + 1].low}" in self.rules.openers

    def _determined(self, place: int, gender: NameGender | None) -> tuple[str, NameGender | None]:
        """What is left of a determiner, and the grammatical gender that it tells."""
        word = self.words[place].low
        if word in self.rules.male_determiners:
            gender = "m"
        elif word in self.rules.female_determiners:
            gender = "f"
        return self.rules.contractions.get(word, ""), gender

    def _left_step(self, person: Person, place: int, right: int) -> tuple[int, bool] | None:
        """Where the word or link before stands that belongs to the mention, and whether it is a head.

        Args:
            person: who is mentioned.
            place: of the first word so far.
            right: of the last.
        """
        if place == 0 or not self.words[place].follows:
            return None
        before = self.words[place - 1].low
        for link in () if self.rules.head_last else self.language.links:
            start = place - len(link)
            if start >= 1 and self._spells(start, link) and (self.words[start].follows or self._is_aside(start, right)):
                head = self._head_before_link(person, start)
                if head is not None:
                    return head, True
        if self.words[place].gap or self._is_verb_told(place - 1):
            return None
        own = (self.rules.noun_last or self.rules.joined) and before in person.words
        if self.rules.head_last and self.language.is_head(before) and not own:
            return None
        if before in self.rules.stand_ins and self._is_determined(place - 1):
            return place - 1, True
        at_noun = self.rules.head_first and self.rules.verbs_agree and self._is_head(person, self.words[place].low)
        if at_noun and before in self.rules.small_words:
            return None  # "كان *على* لاعبة تنس على كرسي"
        if (
            self._is_head(person, before)
            and (
                (self.rules.head_first and (not self.rules.declensions or self.language.same(before, person.noun)))
                or before in self.rules.stand_ins
                or before in person.words
                or (self.rules.noun_anywhere and not self._is_closed(person, place - 1))
            )
            and not (self.rules.noun_anywhere and before in self.rules.small_words)
        ):
            return place - 1, True
        spelled, follows = self._spells_on(person, place), self._spells_own(person, place + 1)
        inside = (
            before in self.language.determiners and place > 1 and self.words[place - 2].low in self.rules.small_words
        )
        declined = self.rules.declensions and any(self.language.same(before, one) for one in self.rules.modifiers)
        if (
            declined
            or before in self.rules.modifiers
            or (
                self._is_own(person, before)
                and (before not in self.language.determiners or (inside and spelled))
                and (before not in self.rules.small_words or not self.rules.nouns_placed or follows)
            )
        ):
            return place - 1, False
        return None

    def _is_aside(self, start: int, right: int) -> bool:
        """Whether commas set off a clause about a person: "my neighbor*, who has a cough,* sings"."""
        closes = right + 1 < len(self.words) and self.words[right + 1].gap == ","
        return closes and is_aside(self.words[start], self.language)

    def _head_before_link(self, person: Person, start: int) -> int | None:
        """Where the head stands that a link hangs on: "the *one* who is", "un *profesor* de universidad que era", and
        the relative itself where only an article stands before it: "el *que* tiene"."""
        beyond = self.words[start - 1]
        if beyond.low in self.rules.stand_ins or self._is_head(person, beyond.low):
            return start - 1
        if not self.rules.head_first:
            return None
        if self.words[start].low in self.rules.clause_relatives and beyond.low in self.language.determiners:
            return start
        far = start - 3
        joined = far >= 0 and all(word.follows for word in self.words[far + 1 : start])
        if joined and self.words[far + 1].low in self.rules.small_words and self._is_head(person, self.words[far].low):
            return far
        return None

    def _is_verb_told(self, place: int) -> bool:
        """Whether a word is the verb by which a stand-in before it is told: "la otra *estaba* gorda"."""
        verb = self.words[place]
        is_verb = verb.low in self.rules.copulas or verb.low in self.rules.told
        return is_verb and verb.gap == "" and self._is_verb_of_stand_in(place)

    def _spells_own(self, person: Person, place: int) -> bool:
        """Whether the two words before are those of the description: "from a", of "guy from a small town"."""
        pair = (self.words[place - 2].low, self.words[place - 1].low)
        return pair in itertools.pairwise(person.words)

    def _spells_on(self, person: Person, place: int) -> bool:
        """Whether they are, and this word is the one behind them: not "a la germana", of "que ha anat a la escola"."""
        if place < 2:
            return False
        own = zip(person.words, person.words[1:], person.words[2:], strict=False)
        one, two, this = (word.low for word in self.words[place - 2 : place + 1])
        return any((one, two) == (first, second) and self.language.same(this, third) for first, second, third in own)

    def _right(self, person: Person, place: int) -> tuple[int, bool]:
        """Where the last word behind stands that belongs to the mention, and whether a head came with it."""
        headed, first = False, place
        while place + 1 < len(self.words) and self.words[place + 1].gap == "":
            after = self.words[place + 1].low
            if self._tells_other(person, after) or self._ends_person(person, place):
                break
            may_be_small = self.rules.head_first or self.rules.noun_anywhere or self.rules.noun_last
            others = self.rules.article_prefix and after not in person.words  # "لدى أب *طفل*"
            if self._is_head(person, after) and not (may_be_small and after in self.rules.small_words) and not others:
                place, headed = place + 1, True
                continue
            if after in self.rules.modifiers_behind or self._describes(person, after):
                place += 1
                continue
            pair = (self.words[place].low, after)
            if self.rules.noun_last and pair in itertools.pairwise(person.words):
                place += 1  # "గ్రామం *నుంచి* వచ్చిన ఒక విద్యార్థిని"
                continue
            if any(after == opener.split()[0] for opener in self.rules.openers):
                place += 1
                continue
            rest = self._rest_of_description(person, place)
            if rest > place:
                inflected = self.rules.joined or self.rules.nouns_placed
                headed |= inflected and self._is_head(person, self.words[rest].low)
                place = rest
                break
            step = self._link_right(person, place)
            if step is None:
                break
            place, has = step
            headed |= has
        return self._closed_right(person, first, place, headed)

    def _closed_right(self, person: Person, first: int, place: int, headed: bool) -> tuple[int, bool]:
        """The same, with the article, nominalizer or tail that closes the mention."""
        defined = bool(self.rules.article_endings) and self.words[place].low.endswith(self.rules.article_endings)
        if self.rules.articles_behind and (defined or not self._is_closed(person, place)):
            place, before = self._article_behind(place), place
            if place > before and self._is_noun_behind(person, first, place):
                place, headed = place + 1, True
        if self.rules.unspaced:
            headed |= any(word.low == person.noun for word in self.words[first : place + 1])
            if not headed and self._is_nominalized(person, place):
                return place + 1, True
        for tail in self.language.tails:
            if self._spells(place + 1, tail) and self.words[place + 1].gap == "":
                place += len(tail)
        return place, headed

    def _is_noun_behind(self, person: Person, first: int, place: int) -> bool:
        """Whether the noun comes behind an article that is another's: "langile baten *semea*", a worker's son."""
        behind = self.words[place + 1 : place + 2]
        has_noun = any(self.language.same(word.low, person.noun) for word in self.words[first:place])
        return bool(behind) and behind[0].gap == "" and not has_noun and self.language.same(behind[0].low, person.noun)

    def _article_behind(self, place: int) -> int:
        """Where the article behind stands, over modifiers: "gizon *bat*", "gizon *zahar bat*"; `place` without one."""
        end = place + 1
        while end < len(self.words) and self.words[end].gap == "":
            if self.words[end].low in self.rules.articles_behind:
                return end
            if self.words[end].low not in self.rules.modifiers and self.words[end].low not in self.language.determiners:
                break
            end += 1
        return place

    def _rest_of_description(self, person: Person, place: int) -> int:
        """Where the description ends, if all that follows in it stands behind too: "the man *of few words*"."""
        if self.words[place].low not in person.words or any(word in person.words for word in self.rules.closing_verbs):
            return place
        rest = person.words[person.words.index(self.words[place].low) + 1 :]
        there = self.words[place + 1 : place + 1 + len(rest)]
        alike = tuple(word.low for word in there) == rest
        if (
            not alike and (self.rules.joined or self.rules.noun_last) and len(there) == len(rest) > 1
        ):  # the noun may be in another case
            alike = tuple(word.low for word in there[:-1]) == rest[:-1] and self.language.same(there[-1].low, rest[-1])
        alike = alike and all(word.follows for word in there)
        return place + len(rest) if alike else place

    def _describes(self, person: Person, word: str) -> bool:
        """Whether a word behind is one of the description's own."""
        small = word in self.language.link_words or word in self.rules.small_words or word in self.rules.closing_verbs
        return self._is_own(person, word) and not small and word not in self.language.determiners

    def _is_own(self, person: Person, word: str) -> bool:
        """Whether a word is one of the description's, perhaps with another ending where what stands before a noun has
        one: Marathi "गरीब *कुटुंबातल्या* मुलाने"."""
        inflected = self.rules.noun_last or bool(self.rules.declensions)
        alike = inflected and any(self.language.same(word, own) for own in person.words)
        return word in person.words or alike

    def _link_right(self, person: Person, place: int) -> tuple[int, bool] | None:
        """The end of a link behind, with what it leads to: another word of the description, or a head."""
        for link in self.language.links:
            end = place + len(link)
            if link[0] in self.rules.articles_behind and link[0] not in person.words:
                continue
            at_noun = person.attachment == "noun" or self.language.same(self.words[place].low, person.noun)
            if self.rules.nouns_placed and at_noun:
                continue  # what a person has: "残疾人的朋友"
            if not self._spells(place + 1, link) or end + 1 > len(self.words):
                continue
            following = self.words[end + 1] if end + 1 < len(self.words) else None
            if (
                following is not None
                and following.follows
                and (
                    self._is_head(person, following.low)
                    or any(self.language.same(following.low, telling) for telling in person.telling)
                    or (self.rules.noun_last and self._describes(person, following.low))
                )
            ):
                return end + 1, self._is_head(person, following.low)
        return None

    def _spells(self, place: int, wanted: tuple[str, ...]) -> bool:
        """Whether these words stand there, one after the other."""
        if not wanted or place >= len(self.words) or self.words[place].low != wanted[0]:
            return not wanted
        there = self.words[place : place + len(wanted)]
        return tuple(word.low for word in there) == wanted and all(word.follows for word in there[1:])

    def _is_head(self, person: Person, word: str) -> bool:
        """Whether a word is a noun that the mention may have."""
        if word in self.rules.plurals or self.language.same(word, person.noun):
            return True
        shared = word not in person.telling and any(
            self.language.same(word, own) for own in person.words if own not in self.language.determiners
        )
        small = (
            word in self.language.link_words
            or word in self.rules.modifiers
            or word in self.rules.small_words
            or word in self.rules.closing_verbs
        )
        return self.language.is_head(word) or (
            shared and not small and not (self.rules.noun_anywhere or self.rules.noun_last)
        )

    def _is_copula_of_stand_in(self, place: int) -> bool:
        """Whether the words before are such as "one was", "one of whom is", "the other candidate was a"."""
        while place > 1 and self.words[place].gap == "" and self.words[place - 1].low in self.language.determiners:
            place -= 1
        if place < 2 or self.words[place].gap or self.words[place - 1].low not in self.rules.copulas:
            return False
        return self._is_verb_of_stand_in(place - 1)

    def _is_elided(self, first: int, last: int) -> bool:
        """Whether a comma stands for the verb by which a stand-in is told: "one was fat and the other, *thin*"."""
        while first > 1 and self.words[first].gap == "" and self.words[first - 1].low in self.language.determiners:
            first -= 1
        ends = last + 1 == len(self.words) or bool(self.words[last + 1].gap)
        return ends and first > 0 and self.words[first].gap == "," and self.words[first - 1].low in self.rules.stand_ins

    def _is_verb_of_stand_in(self, verb: int) -> bool:
        """Whether a stand-in is what a verb is about: "one of them *was*", not "the family of one *was*"."""
        place = self._stand_in_of(verb)
        if place is None:
            return False
        place -= self._is_determined(place)
        owners = {*self.rules.small_words} - {*self.rules.clause_relatives}
        return not place or not self.words[place].follows or self.words[place - 1].low not in owners

    def _stand_in_of(self, verb: int) -> int | None:
        """Where the stand-in before a verb is; None where there is none, or a clause begins between."""
        for far in range(verb - 1, max(verb - 1 - STAND_IN_REACH, -1), -1):
            if not self.words[far + 1].follows or self.words[far].low in self.rules.clause_relatives:
                return None
            if self.words[far].low in self.rules.stand_ins:
                return far
        return None

    def _gender_of_stand_in(self, first: int) -> NameGender | None:
        """The grammatical gender of the stand-in before the first word of what tells who it is."""
        place = first - 1 if self.words[first].gap else self._stand_in_of(first - 1)
        if place is None:
            return None
        return self._determined(place, None)[1]

    def _is_had_by_stand_in(self, person: Person, place: int) -> bool:
        """Whether the words before are such as "one speaker had", "one of them had"."""
        if place < 2 or self.words[place].gap or self.words[place - 1].low not in self.rules.told:
            return False
        owner = self.words[place - 2].low
        if self.words[place - 1].gap or owner in self.rules.clause_relatives:
            return False
        return self._is_head(person, owner) or self._is_verb_of_stand_in(place - 1)

    def _after_stand_in(self, place: int) -> bool:
        return place > 0 and self.words[place].gap == "" and self.words[place - 1].low in self.rules.stand_ins

    def _refuse_several(self, person: Person, first: int, last: int) -> None:
        """Raises where a mention is of several people."""
        if self._is_of_several(person):
            raise NotReplaceableError("plural_group", " ".join(person.words))
        bases = self.language.bases(person.words)
        nouns_last = self.rules.nouns_placed
        for place, word in enumerate(self.words[first : last + 1], first):
            collective = self.language.is_collective(word.low) and not (
                nouns_last and any(self.language.is_head(behind.low) for behind in self.words[place + 1 : last + 1])
            )
            inside = {before.low for before in self.words[first:place]} & {*self.rules.small_words}
            if self.rules.verbs_agree and word.low != person.noun and (inside or word.low in person.words):
                collective = False  # "um menino de família pobre"
            several = collective or self.language.is_plural(word.low, bases)
            if several and word.low not in self.language.determiners:
                raise NotReplaceableError("plural_group", word.text)

    def _is_of_several(self, person: Person) -> bool:
        """Whether an option itself is about several people."""
        noun = person.noun
        if person.is_name:
            return False
        plural_head = any(noun == head + ending for head in self.rules.heads for ending in self.rules.plural_endings)
        sign = noun.endswith(self.rules.plural_signs) and not noun.endswith(self.rules.no_plural_signs)
        return plural_head or (sign and person.attachment == "noun")

    def _case(self, person: Person, first: int, last: int) -> str | None:
        """The form of a name that the last word of a mention asks for.

        Raises:
            NotReplaceableError: for an ending that asks for a form that the grammar does not know, or a tie told
                behind the mention.
        """
        behind = self.words[last + 1 : last + 3]
        if len(behind) > 1 and not behind[0].gap.strip("'’") and behind[0].gap:
            behind = behind[1:]  # an ending behind an apostrophe
        if behind and behind[0].low in self.rules.relations_behind:
            raise NotReplaceableError("relation_told", f"{self.words[last].text} {behind[0].text}")
        article = self.rules.articles_behind.get(self.words[last].low)
        if article is not None:
            return article
        bases = self.language.bases(person.words)
        if self.rules.declensions:
            return self._declined_case(person, first, last)
        found = self.language.case_of(self.words[last].low, bases)
        low = self.words[last].low
        if self.rules.cases and found is None and (low not in bases or self._lacks_article(person, last)):
            raise NotReplaceableError("ending_unsettled", self.words[last].text)
        return found

    def _declined_case(self, person: Person, first: int, last: int) -> str | None:
        """The form of a name that the noun of a mention asks for, by its declension and the word before the mention.

        Raises:
            NotReplaceableError: for forms of several people, and where the case can't be told.
        """
        place = self._place_of_noun(person, first, last)
        low = self.words[place].low
        lemma = next((word for word in (person.noun, *self.rules.heads) if self.language.same(low, word)), low)
        cases = self.language.forms(lemma).get(low, ())
        before = self._words_before(first)
        if low == lemma:
            if cases and before[-1:] and before[-1].endswith(self.rules.object_behind):
                raise NotReplaceableError("ending_unsettled", self.words[place].text)
            return None
        if not cases:
            raise NotReplaceableError("plural_group", self.words[place].text)
        told = self.rules.case_by_preposition
        joined = bool(before) and before[-1] in self.rules.clause_words
        near = before if joined else before[-1:]  # "у студентки и *соседки*"
        asked = [case for case in cases if {*told.get(case, ())} & {*near}]
        free = [case for case in cases if case not in self.rules.only_behind]
        found = asked or free
        opens = not asked and (joined or not before) and found[0] in self.rules.never_opening
        if len(found) != 1 or opens:
            raise NotReplaceableError("ending_unsettled", self.words[place].text)
        return found[0]

    def _words_before(self, first: int) -> list[str]:
        """The last words before a mention in its clause, in lower case."""
        start = first
        while start and self.words[start].gap == "" and first - start < STAND_IN_REACH:
            start -= 1
        return [word.low for word in self.words[start:first]]

    def _place_of_noun(self, person: Person, first: int, last: int) -> int:
        """Where the noun of a mention stands; its last word where none is known."""
        for known in (lambda low: self.language.same(low, person.noun), self.language.is_head):
            found = next((place for place in range(first, last + 1) if known(self.words[place].low)), None)
            if found is not None:
                return found
        return last

    def _lacks_article(self, person: Person, last: int) -> bool:
        """Whether a person's last word has no article, where one must be: Basque "eta *40 urteko* bi lagun"."""
        if len(person.words) == 1 and self.words[last].text[0].isupper():
            return False  # a first name, which has none
        if not self.rules.article_endings or self.words[last].low.endswith(self.rules.article_endings):
            return False
        return last + 1 == len(self.words) or self.words[last + 1].low not in self.rules.before_bare
