"""Which words of a text tell a person apart, and what the words beside them are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mbbq_gen.languages import NameGender
from mbbq_gen.substitution.mention import NotReplaceableError, is_aside, shown
from mbbq_gen.substitution.people import Person
from mbbq_gen.substitution.words import Language, Word

SAME_PERSON_WORDS = 3
"""Most words between two telling words of one mention."""
DETERMINER_REACH = 3
"""How many words before a person its determiner may be: "their old college friend"."""


class TellingWords:
    """The words of one text, as they tell of two people."""

    def __init__(self, words: Sequence[Word], people: tuple[Person, Person], language: Language) -> None:
        self.words, self.people, self.language, self.rules = words, people, language, language.rules

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
                raise NotReplaceableError("mention_left_over", shown(self.words, core[0], core[-1]))

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

    def _is_determined(self, low: int) -> bool:
        """Whether a determiner stands right before."""
        return low > 0 and self.words[low].follows and self.words[low - 1].low in self.language.determiners

    def _determined(self, place: int, gender: NameGender | None) -> tuple[str, NameGender | None]:
        """What is left of a determiner, and the grammatical gender that it tells."""
        word = self.words[place].low
        if word in self.rules.male_determiners:
            gender = "m"
        elif word in self.rules.female_determiners:
            gender = "f"
        return self.rules.contractions.get(word, ""), gender

    def _is_modifier(self, place: int) -> bool:
        """Whether a word is a modifier that tells neither person apart."""
        low = self.words[place].low
        return low in self.rules.modifiers and not any(low in person.telling for person in self.people)

    def _after_stand_in(self, place: int) -> bool:
        return place > 0 and self.words[place].gap == "" and self.words[place - 1].low in self.rules.stand_ins

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

    def _is_own(self, person: Person, word: str) -> bool:
        """Whether a word is one of the description's, perhaps with another ending where what stands before a noun has
        one: Marathi "गरीब *कुटुंबातल्या* मुलाने"."""
        inflected = self.rules.noun_last or bool(self.rules.declensions)
        alike = inflected and any(self.language.same(word, own) for own in person.words)
        return word in person.words or alike

    def _describes(self, person: Person, word: str) -> bool:
        """Whether a word behind is one of the description's own."""
        small = word in self.language.link_words or word in self.rules.small_words or word in self.rules.closing_verbs
        return self._is_own(person, word) and not small and word not in self.language.determiners

    def _spells(self, place: int, wanted: tuple[str, ...]) -> bool:
        """Whether these words stand there, one after the other."""
        if not wanted or place >= len(self.words) or self.words[place].low != wanted[0]:
            return not wanted
        there = self.words[place : place + len(wanted)]
        return tuple(word.low for word in there) == wanted and all(word.follows for word in there[1:])

    def _is_aside(self, start: int, right: int) -> bool:
        """Whether commas set off a clause about a person: "my neighbor*, who has a cough,* sings"."""
        closes = right + 1 < len(self.words) and self.words[right + 1].gap == ","
        return closes and is_aside(self.words[start], self.language)

    def _closes(self, place: int) -> bool:
        return self.words[place].low in self.rules.closing_verbs

    def _begins_clause(self, place: int) -> bool:
        return self.words[place].low in self.rules.clause_words

    def _opens(self, last: int) -> bool:
        return f"{self.words[last].low} {self.words[last + 1].low}" in self.rules.openers

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
