"""Where two people are mentioned in a text: each mention whole, with its determiner and all that describes the person.

A mention grows from the words that tell a person apart:

    I saw [a really fat guy] waiting, and [the one who was thin] beside him.
             ^telling   ^head              ^head ^link   ^telling

What tells a person apart and is no mention ("maneuvering his wheelchair") is left over, and the question is refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from mbbq_gen.languages import NameGender
from mbbq_gen.substitution.beside import refuse_beside, refuse_openers
from mbbq_gen.substitution.forms import Forms
from mbbq_gen.substitution.mention import Mention, NotReplaceableError, is_aside, shown
from mbbq_gen.substitution.people import Person
from mbbq_gen.substitution.reach import Reach
from mbbq_gen.substitution.telling import DETERMINER_REACH
from mbbq_gen.substitution.words import Language, Word


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
            raise NotReplaceableError("mention_left_over", shown(words, one.first, other.last))
    told = [_beside_told(mention, before, words) for before, mention in zip([None, *found], found, strict=False)]
    told = [_behind_naming(mention, before, words) for before, mention in zip([None, *told], told, strict=False)]
    refuse_beside(told, words, language)
    refuse_openers(told, words, language)
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


def _beside_told(mention: Mention, before: Mention | None, words: Sequence[Word]) -> Mention:
    """Leaves a stand-in where the one before it stays too: "one of whom is *gay* and the other who's *straight*"."""
    if before is None or not before.told or mention.inner is None:
        return mention
    if any(mark in word.gap for word in words[before.last + 1 : mention.first + 1] for mark in ".?!"):
        return mention
    return replace(mention, first=mention.inner, told=True, gender=None)


def _behind_naming(mention: Mention, before: Mention | None, words: Sequence[Word]) -> Mention:
    """A name behind a comma that stands for the verb of naming before: Catalan "una es deia Anna i l'altra, Mireia"."""
    named = before is not None and before.told and bool(before.kept)
    elided = mention.told and not mention.kept and words[mention.first].gap == ","
    return replace(mention, bare=named and elided)


class _Finder(Reach, Forms):
    """Finds the mentions in one text."""

    def mentions(self) -> Iterator[Mention]:
        """The mentions of both, the first person's first."""
        for number, person in enumerate(self.people):
            end = -1
            for first, last in self._cores(person, self.people[1 - number]):
                if first > end:
                    mention = self._grown(number, person, first, last)
                    end = mention.last
                    yield mention

    def _grown(self, number: int, person: Person, first: int, last: int) -> Mention:
        """The whole mention around telling words."""
        if person.is_name and self._is_home(first):
            raise NotReplaceableError("attribute_told", shown(self.words, first - 1, last))
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
            raise NotReplaceableError("attribute_told", shown(self.words, max(low - 2, 0), right))
        self._refuse_several(person, low, right)
        start, kept, gender = self._with_determiner(person, low)
        if self._is_cut(person, start, kept):
            raise NotReplaceableError("mention_left_over", shown(self.words, max(start - 2, 0), right))
        start = self._led_in(start, right)
        is_told = self._is_predicate(start, right) or self._is_clause(person, start, right)
        if is_told or self._is_had_behind(person, first, right):
            raise NotReplaceableError("attribute_told", shown(self.words, max(start - 1, 0), right))
        if (told_behind := self._told_behind_verb(number, start, right)) is not None:
            return told_behind
        if (with_stand_in := self._with_stand_in(start)) < start:
            start, inner = with_stand_in, start
        gender = self._gender_there(person, start, right) or gender
        gender = (person.gender if self.rules.genitives else gender) or self._gender_of_noun(person)
        kept = self._of_genitive(person, start) or kept
        return Mention(number, start, self._opened(right), kept, self._case(person, low, right), gender, inner=inner)

    def _is_home(self, first: int) -> bool:
        """Whether a name is rather that of a place: "one *from* Goa"."""
        return first > 0 and not self.words[first].gap and self.words[first - 1].low in self.rules.home_words

    def _led_in(self, start: int, right: int) -> int:
        """The first word of a mention with modifiers and what leads it in before its determiner.

        Raises:
            NotReplaceableError: where somebody is told to have the person.
        """
        while self.rules.head_last and start and self.words[start].gap == "" and self._is_modifier(start - 1):
            start -= 1
        before = self.words[start - 1] if start and self.words[start].gap == "" else None
        if before is not None and before.low in self.rules.relations:
            raise NotReplaceableError("relation_told", shown(self.words, start - 1, right))
        if before is not None and before.low in self.rules.lead_ins:
            return start - (not self.rules.unspaced or start == 1 or bool(before.gap))
        return start

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
        raise NotReplaceableError("mention_left_over", shown(self.words, low - 1, low))

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
        if self._is_complement(person, low):
            return False  # "vivía en un *pueblo*", of "hombre de pueblo"
        declined = self._may_stand_bare(low) and self._is_declined(person, right)
        return declined or self._is_determined(low) or self._after_stand_in(low)

    def _is_complement(self, person: Person, low: int) -> bool:
        """Whether a word stands behind a preposition in the description, and here without it."""
        if not self.rules.head_first or self.words[low].low not in person.words[1:]:
            return False
        before = person.words[person.words.index(self.words[low].low) - 1]
        return before in self.rules.small_words and before not in (*self.rules.copulas, *self.rules.clause_relatives)

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
