"""In which form of a name a mention stands, of which gender it is, and whether it is of several people."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable

from mbbq_gen.languages import NameGender
from mbbq_gen.substitution.mention import NotReplaceableError
from mbbq_gen.substitution.people import Person
from mbbq_gen.substitution.telling import TellingWords

CLAUSE_REACH = 5
"""How many words before a mention the one may be that tells its case: "у студентки и *соседки*"."""


class Forms(TellingWords):
    """Case, gender and number of mentions."""

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
        while start and self.words[start].gap == "" and first - start < CLAUSE_REACH:
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

    def _gender_of_noun(self, person: Person) -> NameGender | None:
        """The grammatical gender of a person's noun, where its ending tells."""
        agreement = self.rules.agreement
        if agreement is None or person.noun in agreement.any_gender:
            return None
        if person.noun.endswith(agreement.male):
            return "m"
        return "f" if person.noun.endswith(agreement.female) else None

    def _of_genitive(self, person: Person, start: int) -> str:
        """What stands for the case of a woman's determiner behind a noun: "von", for German "die Wahl *der* Frau"."""
        if person.gender != "f" or not start or self.words[start].gap or self.words[start - 1].gap:
            return ""
        return self.rules.genitives.get(self.words[start].low, "") if self.words[start - 1].text[0].isupper() else ""

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
        return plural_head or noun in self.rules.plurals or (sign and person.attachment == "noun")
