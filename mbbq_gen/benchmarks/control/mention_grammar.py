"""Which words of a text tell a person apart, and what the words beside them are."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Sequence

from mbbq_gen.benchmarks.control.mention import Mention, SubstitutionRefusedError, is_aside, shown
from mbbq_gen.benchmarks.control.people import People, PersonDescription
from mbbq_gen.benchmarks.control.words import Language, Word
from mbbq_gen.languages.control_pack import NameGender

SAME_PERSON_WORDS = 3
"""Most words between two telling words of one mention."""
DETERMINER_REACH = 3
"""How many words before a person its determiner may be: "their old college friend"."""


class DistinguishingWords:
    """The words of one text, as they tell of two people."""

    def __init__(self, words: Sequence[Word], people: People, language: Language) -> None:
        self.words, self.people, self.language, self.rules = words, people, language, language.rules

    def _cores(self, person: PersonDescription, other: PersonDescription) -> Iterator[tuple[int, int]]:
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
                continue  # "two friends", where the text calls one of them a friend
            wanted = person.telling if person.needs_all else (person.key,)
            if all(any(self.language.same(low, telling) for low in there) for telling in wanted):
                yield core[0], core[-1]
            elif not all(self._may_be_left(person, low) for low in there):
                raise SubstitutionRefusedError("unreplaced_mention", shown(self.words, core[0], core[-1]))

    def _is_of_other(self, person: PersonDescription, core: list[int]) -> bool:
        """Whether the small words that tell of the other person stand beside telling words."""
        other = self.people[1] if person is self.people[0] else self.people[0]
        reach = len(other.words) - len(person.words)
        near = self.words[max(core[0] - reach, 0) : core[-1] + 1 + reach]
        return any(self.language.same(word.low, small) for word in near for small in person.apart_from)

    def _without_loose_ends(self, person: PersonDescription, core: list[int]) -> list[int]:
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

    def _tells(self, person: PersonDescription, word: str) -> bool:
        """Whether a word is one that tells the person; a first name is that word alone."""
        if person.is_name:
            return word in person.telling
        return any(self.language.same(word, telling) for telling in person.telling)

    def _is_closed(self, person: PersonDescription, place: int) -> bool:
        """Whether a word's ending closes the mention, as a particle does where words are joined."""
        return (
            self.rules.joined
            and self.language.case_of(self.words[place].low, self.language.bases(person.words)) is not None
        )

    def _ends_person(self, person: PersonDescription, place: int) -> bool:
        """Whether a person ends at a word: by its case, or because it is the noun, behind which another begins."""
        low = self.words[place].low
        if self.rules.noun_last and self.language.same(low, person.noun):
            return True
        if self.rules.noun_last and any(self.language.same(low, own) for own in person.words[:-1]):
            return False  # "मजुराच्या मुलाने", whose case is that of the noun behind
        with_article = bool(self.rules.article_endings) and low.endswith(self.rules.article_endings)
        return (with_article and low == person.words[-1]) or self._is_closed(person, place)

    def _tells_other(self, person: PersonDescription, word: str) -> bool:
        """Whether a word tells of the other person alone."""
        other = self.people[1] if person is self.people[0] else self.people[0]
        return self._tells(other, word) and not self._tells(person, word)

    def _may_be_left(self, person: PersonDescription, word: str) -> bool:
        """Whether a word that tells a person only beside others may stand outside the person's mentions: a small word,
        or a word that describes the other person too."""
        other = self.people[1] if person is self.people[0] else self.people[0]
        known = {*person.small, *other.words} if person.small else set()
        return self._is_weak(word) or any(self.language.same(word, one) for one in known)

    def _is_weak(self, word: str) -> bool:
        """Whether a word tells of a person only beside others: "other", "old"."""
        return self.language.is_head(word) or word in self.rules.modifiers

    def _together(self, person: PersonDescription, one: int, other: int) -> bool:
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

    def _is_head(self, person: PersonDescription, word: str) -> bool:
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

    def _is_own(self, person: PersonDescription, word: str) -> bool:
        """Whether a word is one of the description's, perhaps with another ending where what stands before a noun has
        one: Marathi "गरीब *कुटुंबातल्या* मुलाने"."""
        inflected = self.rules.noun_last or bool(self.rules.declensions)
        alike = inflected and any(self.language.same(word, own) for own in person.words)
        return word in person.words or alike

    def _describes(self, person: PersonDescription, word: str) -> bool:
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


CLAUSE_REACH = 5
"""How many words before a mention the one may be that tells its case: "у студентки и *соседки*"."""


class MentionInflection(DistinguishingWords):
    """Case, gender and number of mentions."""

    def _case(self, person: PersonDescription, first: int, last: int) -> str | None:
        """The form of a name that the last word of a mention asks for.

        Raises:
            SubstitutionRefusedError: for an ending that asks for a form that the grammar does not know, or a tie
                behind the mention.
        """
        behind = self.words[last + 1 : last + 3]
        if len(behind) > 1 and not behind[0].gap.strip("'’") and behind[0].gap:
            behind = behind[1:]  # an ending behind an apostrophe
        if behind and behind[0].low in self.rules.relations_behind:
            raise SubstitutionRefusedError("people_related", f"{self.words[last].text} {behind[0].text}")
        article = self.rules.articles_behind.get(self.words[last].low)
        if article is not None:
            return article
        bases = self.language.bases(person.words)
        if self.rules.declensions:
            return self._declined_case(person, first, last)
        found = self.language.case_of(self.words[last].low, bases)
        low = self.words[last].low
        if self.rules.cases and found is None and (low not in bases or self._lacks_article(person, last)):
            raise SubstitutionRefusedError("unknown_inflection", self.words[last].text)
        return found

    def _declined_case(self, person: PersonDescription, first: int, last: int) -> str | None:
        """The form of a name that the noun of a mention asks for, by its declension and the word before the mention.

        Raises:
            SubstitutionRefusedError: for forms of several people, and where the case can't be determined.
        """
        place = self._place_of_noun(person, first, last)
        low = self.words[place].low
        lemma = next((word for word in (person.noun, *self.rules.heads) if self.language.same(low, word)), low)
        cases = self.language.forms(lemma).get(low, ())
        start = first
        while start and self.words[start].gap == "" and first - start < CLAUSE_REACH:
            start -= 1
        before = [word.low for word in self.words[start:first]]
        if low == lemma:
            if cases and before[-1:] and before[-1].endswith(self.rules.object_behind):
                raise SubstitutionRefusedError("unknown_inflection", self.words[place].text)
            return None
        if not cases:
            raise SubstitutionRefusedError("plural_group", self.words[place].text)
        cases_by_word = self.rules.case_by_preposition
        joined = bool(before) and before[-1] in self.rules.clause_words
        near = before if joined else before[-1:]  # "у студентки и *соседки*"
        wanted = [case for case in cases if {*cases_by_word.get(case, ())} & {*near}]
        free = [case for case in cases if case not in self.rules.only_behind]
        found = wanted or free
        opens = not wanted and (joined or not before) and found[0] in self.rules.never_opening
        if len(found) != 1 or opens:
            raise SubstitutionRefusedError("unknown_inflection", self.words[place].text)
        return found[0]

    def _place_of_noun(self, person: PersonDescription, first: int, last: int) -> int:
        """Where the noun of a mention stands; its last word where none is known."""
        for known in (lambda low: self.language.same(low, person.noun), self.language.is_head):
            found = next((place for place in range(first, last + 1) if known(self.words[place].low)), None)
            if found is not None:
                return found
        return last

    def _lacks_article(self, person: PersonDescription, last: int) -> bool:
        """Whether a person's last word has no article, where one must be: Basque "eta *40 urteko* bi lagun"."""
        if len(person.words) == 1 and self.words[last].text[0].isupper():
            return False  # a first name, which has none
        if not self.rules.article_endings or self.words[last].low.endswith(self.rules.article_endings):
            return False
        return last + 1 == len(self.words) or self.words[last + 1].low not in self.rules.before_bare

    def _gender_there(self, person: PersonDescription, first: int, last: int) -> NameGender | None:
        """The gender that the verbs of a mention have by its words; None: either.

        Raises:
            SubstitutionRefusedError: for a noun that may be of either while the verbs tell one.
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
            raise SubstitutionRefusedError("ambiguous_gender", there[-1].text)
        common = person.is_common or len(person.words) > 1 or self.language.is_head(person.noun)
        determined = any(word.low in self.language.determiners for word in self.words[max(first - 1, 0) : last + 1])
        return self.rules.unmarked if common or determined else None

    def _gender_of_noun(self, person: PersonDescription) -> NameGender | None:
        """The grammatical gender of a person's noun, where its ending tells."""
        agreement = self.rules.agreement
        if agreement is None or person.noun in agreement.any_gender:
            return None
        if person.noun.endswith(agreement.male):
            return "m"
        return "f" if person.noun.endswith(agreement.female) else None

    def _of_genitive(self, person: PersonDescription, start: int) -> str:
        """What stands for the case of a determiner behind a noun: "von", for German "die Wahl *der* Frau"."""
        low = self.words[start].low
        if person.gender != "f" and low in self.rules.male_determiners:
            return ""
        if not start or self.words[start].gap or self.words[start - 1].gap:
            return ""
        return self.rules.genitives.get(low, "") if self.words[start - 1].text[0].isupper() else ""

    def _refuse_several(self, person: PersonDescription, first: int, last: int) -> None:
        """Raises where a mention is of several people."""
        if self._is_of_several(person):
            raise SubstitutionRefusedError("plural_group", " ".join(person.words))
        counted = self.rules.noun_last and first > 0 and not self.words[first].gap
        if counted and self.words[first - 1].low in self.rules.numbers:
            raise SubstitutionRefusedError("plural_group", self.words[first - 1].text)  # "दो माली"
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
                raise SubstitutionRefusedError("plural_group", word.text)

    def _is_of_several(self, person: PersonDescription) -> bool:
        """Whether an option itself is about several people."""
        noun = person.noun
        if person.is_name:
            return False
        if person.is_several:
            return True
        plural_head = any(noun == head + ending for head in self.rules.heads for ending in self.rules.plural_endings)
        sign = noun.endswith(self.rules.plural_signs) and not noun.endswith(self.rules.no_plural_signs)
        return plural_head or noun in self.rules.plurals or (sign and person.attachment == "noun")


STAND_IN_REACH = 5
"""How many words before its verb a stand-in may be: "one person you ask is rich"."""


class AnaphorRules(DistinguishingWords):
    """What verbs and commas tell of stand-ins."""

    def _told_last(self, number: int, first: int, last: int) -> Mention | None:
        """A person described by adjective and verb right behind a stand-in, as in Dutch: "de ene *lang* was"."""
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
            written = self.rules.told_last.get(self.words[verb].low)
            return Mention(number, first, verb, behind=written, by_verb=True) if written else None
        if self._is_determined(first) and self._stand_in_before(number, first - 1) is not None:
            first -= self.people[number].attachment == "behind"  # "had *een* beugel"
        owner = self._stand_in_before(number, first)
        if owner is None or not self._is_determined(owner) or self.words[owner].gap:
            return None
        if not ends:
            return self._told_by_verb(number, first, last)
        is_had = self.rules.told_last and self.people[number].attachment == "behind" and owner == first - 1
        return Mention(number, first, last, by_verb=True) if is_had else None

    def _opened_around(self, number: int, low: int, right: int) -> Mention | None:
        """A person described by an opener around the verb: "de andere *gekleed* was *in een oud pak*"."""
        for rest in (low, low - 1 - self._is_determined(low)):
            first = rest - 2
            if first < 1 or any(word.gap for word in self.words[first : rest + 1]):
                continue
            opener, verb = self.words[first].low, self.words[rest - 1].low
            is_opener = f"{opener} {self.words[rest].low}" in self.rules.openers and verb in self.rules.copulas
            if is_opener and self._stand_in_before(number, first) is not None:
                return Mention(number, first, right, behind=verb, by_verb=True)
        return None

    def _told_by_verb(self, number: int, first: int, last: int) -> Mention | None:
        """The same, by the verb right behind."""
        verb, low = last + 1, self.words[last + 1].low
        if low in self.rules.told_last:
            return Mention(number, first, verb, behind=self.rules.told_last[low], by_verb=True)
        if low not in self.rules.copulas or low not in self.rules.closing_verbs:
            return None
        if verb + 2 < len(self.words) and self._opens(verb + 1):  # "slordig was *gekleed in een pak*"
            return Mention(number, first, self._opened(verb + 1), behind=low, by_verb=True)
        ends = (
            verb + 1 == len(self.words)
            or bool(self.words[verb + 1].gap)
            or self.words[verb + 1].low in self.rules.clause_words
        )
        return Mention(number, first, last, by_verb=True) if ends and self._after_stand_in(first) else None

    def _told_behind_verb(self, number: int, start: int, right: int) -> Mention | None:
        """A person described behind the verb of a stand-in, which stays: "was de ene vrouw *gekleed in een jurk*"."""
        if not start or self.words[start].gap or self.words[start - 1].low not in self.rules.copulas:
            return None
        place = start + 1
        if not self.rules.told_last or place + 2 > right or self.words[place].low not in self.rules.stand_ins:
            return None
        if not self._is_head(self.people[number], self.words[place + 1].low):
            return None
        return Mention(number, place + 2, self._opened(right), by_verb=True)

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
        """Whether a comma stands for the verb that describes a stand-in: "one was fat and the other, *thin*"."""
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
        """Whether a word is the verb that describes a stand-in before it: "la otra *estaba* gorda"."""
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

    def _is_had_by_stand_in(self, person: PersonDescription, place: int) -> bool:
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

    def _is_had_behind(self, person: PersonDescription, first: int, right: int) -> bool:
        """Whether what tells of a person stands behind its noun as what it has: "de ene spreker *blauwe ogen* had"."""
        if person.attachment != "behind" or not first or right + 1 >= len(self.words) or self.words[right + 1].gap:
            return False
        is_verb = self.words[right + 1].low in self.rules.told_last
        return is_verb and self.words[first].gap == "" and self._is_head(person, self.words[first - 1].low)

    def _is_clause(self, person: PersonDescription, start: int, right: int) -> bool:
        """Whether the verb of a description stands without its relative: "one *wore* a hat"."""
        relative = next((word for word in self.rules.clause_relatives if word in person.words[:-1]), None)
        if relative is None:
            return False
        verb = person.words[person.words.index(relative) + 1]
        there = [word.low for word in self.words[start : right + 1]]
        return verb in there and relative not in there
