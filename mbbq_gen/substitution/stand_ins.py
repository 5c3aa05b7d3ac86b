"""People told of a stand-in, which stays where the name comes later: "*one* was fat, *the other* had a hat"."""

from __future__ import annotations

from mbbq_gen.languages import NameGender
from mbbq_gen.substitution.mention import Mention
from mbbq_gen.substitution.people import Person
from mbbq_gen.substitution.telling import TellingWords

STAND_IN_REACH = 5
"""How many words before its verb a stand-in may be: "one person you ask is rich"."""


class StandIns(TellingWords):
    """What verbs and commas tell of stand-ins."""

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

    def _stand_in_before(self, number: int, place: int) -> int | None:
        """Where the stand-in is right before a word, or before a noun for a person that is: "de *ene* spreker"."""
        if place and self.words[place].gap == "" and self._is_head(self.people[number], self.words[place - 1].low):
            place -= not self._after_stand_in(place)
        return place - 1 if self._after_stand_in(place) else None

    def _with_stand_in(self, start: int) -> int:
        """Where a mention starts with a stand-in right before its determiner: "*one* a poet", "*the other* a poet"."""
        has_determiner = self.words[start].low in self.language.determiners
        if not (self.rules.needs_determiner and has_determiner and self._after_stand_in(start)):
            return start
        start -= 1
        return start - 1 if self._is_determined(start) else start

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

    def _is_verb_told(self, place: int) -> bool:
        """Whether a word is the verb by which a stand-in before it is told: "la otra *estaba* gorda"."""
        verb = self.words[place]
        is_verb = verb.low in self.rules.copulas or verb.low in self.rules.told
        return is_verb and verb.gap == "" and self._is_verb_of_stand_in(place)

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

    def _is_clause(self, person: Person, start: int, right: int) -> bool:
        """Whether the verb of a description stands without its relative: "one *wore* a hat"."""
        relative = next((word for word in self.rules.clause_relatives if word in person.words[:-1]), None)
        if relative is None:
            return False
        verb = person.words[person.words.index(relative) + 1]
        there = [word.low for word in self.words[start : right + 1]]
        return verb in there and relative not in there
