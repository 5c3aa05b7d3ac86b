"""The words of a text about one of the two people: distinguishing words, nouns, case, gender, stand-ins.

A stand-in is a word for a person who is distinguished later: "*one* was fat and *the other*, thin". Methods here and in
`mentions` raise SubstitutionRefusedError for ambiguous texts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mbbq_gen.benchmarks.control.people import People, PersonDescription
from mbbq_gen.benchmarks.control.words import Language, TextWords, Word
from mbbq_gen.languages.control_pack import NameGender

MANY_WORDS = 3
"""With this many distinguishing words all are required, since one alone may refer to a thing."""
SAME_PERSON_WORDS = 3
"""Maximum number of words between two distinguishing words of one mention."""
DETERMINER_REACH = 3
"""Maximum distance of a determiner before the person, in words: "their old college friend"."""
CLAUSE_REACH = 5
"""Maximum distance of the preposition before a mention, in words: "у студентки и *соседки*"."""
STAND_IN_REACH = 5
"""Maximum distance of a stand-in before its verb, in words: "one person you ask is rich"."""


@dataclass(frozen=True)
class Mention:
    """A mention of a person: consecutive words of a text."""

    person: int
    first: int
    """Index of its first word; `last` is that of its last word."""
    last: int
    kept: str = ""
    """The word that remains of a contracted determiner: Spanish `a` of `al`."""
    case: str | None = None
    """The form of a name for the mention's ending."""
    gender: NameGender | None = None
    """Its grammatical gender; None: unknown."""
    by_verb: bool = False
    """Whether a verb links it to a stand-in, which stays: "one was *fat*"."""
    after: str = ""
    """Text after the name in place of a verb of the mention: Dutch "heet"."""
    elided: bool = False
    """Whether the verb before the previous name applies to it too: "one *was called* Ann and the other, Eve"."""
    inner: int | None = None
    """Index of its first word after a stand-in inside it: 3 in "the other who's fat"."""


class SubstitutionRefusedError(Exception):
    """A text in which not every mention can be replaced."""

    def __init__(self, reason: str, what: str) -> None:
        super().__init__(f"{reason}: {what}")
        self.reason = reason
        self.what = what


def covered(mentions: Sequence[Mention]) -> frozenset[int]:
    """The indexes of the words in mentions."""
    return frozenset(index for mention in mentions for index in range(mention.first, mention.last + 1))


def shown(words: Sequence[Word], first: int, last: int) -> str:
    """The words from one index to another."""
    return " ".join(word.text for word in words[first : last + 1])


def is_aside(word: Word, language: Language) -> bool:
    """Whether a word opens a clause that commas set off."""
    return word.gap == "," and word.low in language.rules.asides


class PersonText(TextWords):
    """The words of a text, classified for one of the two people."""

    def __init__(self, words: Sequence[Word], people: People, number: int, language: Language) -> None:
        super().__init__(words, language)
        self.number, self.people, self.person, self.other = number, people, people[number], people[1 - number]

    def spells(self, index: int, wanted: tuple[str, ...]) -> bool:
        """Whether a sequence of words begins at an index."""
        there = self.words[index : index + len(wanted)]
        return tuple(word.low for word in there) == wanted and all(word.follows for word in there[1:])

    def is_determined(self, index: int) -> bool:
        """Whether a determiner precedes a word."""
        return index > 0 and self.words[index].follows and self.words[index - 1].low in self.language.determiners

    def determined(self, index: int) -> tuple[str, NameGender | None]:
        """The word that remains of a contracted determiner, and the grammatical gender that it shows."""
        low, rules = self.words[index].low, self.rules
        gender: NameGender | None = "f" if low in rules.female_determiners else None
        return rules.contractions.get(low, ""), "m" if low in rules.male_determiners else gender

    def cores(self) -> Iterator[tuple[int, int]]:
        """Yields the first and last index of each group of distinguishing words; refuses incomplete groups."""
        person, other, language = self.person, self.other, self.language
        known = {*person.words} | language.determiners
        owned = [
            index
            for index, word in enumerate(self.words)
            if self.distinguishes(person, word.low)
            and (word.low not in other.distinctive or word.low in person.distinctive)
        ]
        while owned:
            core = [owned.pop(0)]
            while owned and not self.is_closed(core[-1]):
                # Distinguishing words belong to one mention if all words between them are in the description.
                after = self.words[core[-1] + 1 : owned[0] + 1]
                is_near = len(after) <= SAME_PERSON_WORDS + 1 and all(word.follows for word in after)
                if not is_near or not all(word.low in known for word in after[:-1]):
                    break
                core.append(owned.pop(0))
            # Drops small words at an end where the description has none: "un chapeau *avec* ma sœur".
            small = [language.same_as_any(self.words[index].low, person.small) for index in core]
            while len(core) > 1 and small[-1] and person.distinctive[-1] not in person.small:
                core, small = core[:-1], small[:-1]
            while len(core) > 1 and small[0] and person.distinctive[0] not in person.small:
                core, small = core[1:], small[1:]
            reach = len(other.words) - len(person.words)
            near = self.words[max(core[0] - reach, 0) : core[-1] + 1 + reach] if person.apart_from else ()
            if any(language.same_as_any(word.low, person.apart_from) for word in near):
                continue  # "غير *مصاب*", of the other
            there = [self.words[index].low for index in core]
            is_several = self._is_counted(core[0]) or all(language.is_plural(low, person.words) for low in there)
            if is_several and all(language.is_weak(low) for low in there):
                continue  # "two friends", if "friend" is one of them
            many = len(person.distinctive) >= MANY_WORDS or bool(person.small or person.apart_from)
            wanted = person.distinctive if many or person.attachment == "after" else (person.key,)
            free = {*person.small, *other.words} if person.small else set()
            if all(any(language.same(low, distinctive) for low in there) for distinctive in wanted):
                yield core[0], core[-1]
            elif not all(language.is_weak(low) or language.same_as_any(low, free) for low in there):
                raise SubstitutionRefusedError("unreplaced_mention", shown(self.words, core[0], core[-1]))

    def _is_counted(self, index: int) -> bool:
        """Whether a number above one precedes in the same phrase: Turkish "iki uzun süreli arkadaş"."""
        for far in range(index, max(index - DETERMINER_REACH, 0), -1):
            before = self.before(far)
            if before in self.rules.numbers:
                return True
            if not before or (self.rules.noun_anywhere and not self.language.is_weak(before)):
                return False
        return False

    def distinguishes(self, person: PersonDescription, word: str) -> bool:
        """Whether a word distinguishes a person, ignoring endings except for first names."""
        return word in person.distinctive if person.is_name else self.language.same_as_any(word, person.distinctive)

    def is_closed(self, index: int) -> bool:
        """Whether a word has a case ending, which closes the mention."""
        bases = self.language.bases(self.person.words)
        return self.rules.joined and self.language.case_of(self.words[index].low, bases) is not None

    def ends_person(self, index: int) -> bool:
        """Whether a description ends at a word: by its case, or because it is the noun."""
        low, person, rules = self.words[index].low, self.person, self.rules
        if rules.noun_last and self.language.same(low, person.noun):
            return True
        if rules.noun_last and self.language.same_as_any(low, person.words[:-1]):
            return False  # "मजुराच्या मुलाने", whose case is that of the noun after
        with_article = bool(rules.article_endings) and low.endswith(rules.article_endings)
        return (with_article and low == person.words[-1]) or self.is_closed(index)

    def is_modifier(self, index: int) -> bool:
        """Whether a word is a modifier that distinguishes neither person."""
        low = self.words[index].low
        return low in self.rules.modifiers and not any(low in person.distinctive for person in self.people)

    def is_head(self, word: str) -> bool:
        """Whether a word may be the noun of the mention."""
        rules, language, person = self.rules, self.language, self.person
        if word in rules.plurals or language.same(word, person.noun) or language.is_head(word):
            return True
        small = (rules.modifiers, rules.small_words, rules.closing_verbs, language.link_words, person.distinctive)
        if rules.noun_anywhere or rules.noun_last or any(word in words for words in small):
            return False
        return any(language.same(word, own) for own in person.words if own not in language.determiners)

    def is_own(self, word: str) -> bool:
        """Whether a word is in the description, perhaps with an ending: Marathi "गरीब *कुटुंबातल्या* मुलाने"."""
        inflected = self.rules.noun_last or bool(self.rules.declensions)
        return word in self.person.words or (inflected and self.language.same_as_any(word, self.person.words))

    def describes(self, word: str) -> bool:
        """Whether a following word is a content word of the description."""
        rules, language = self.rules, self.language
        lists = (rules.small_words, rules.closing_verbs, language.link_words, language.determiners)
        return self.is_own(word) and not any(word in words for words in lists)

    def is_aside(self, start: int, right: int) -> bool:
        """Whether commas set off a clause about the person: "my neighbor*, who has a cough,* sings"."""
        closes = right + 1 < len(self.words) and self.words[right + 1].gap == ","
        return closes and is_aside(self.words[start], self.language)

    def opened(self, last: int) -> int:
        """The index of the last word, with the phrase that an opener begins: "dressed *in an old coat*"."""
        after, index = self.after(last), last
        if f"{self.words[last].low} {after}" in self.rules.openers:
            while (low := self.after(index)) and low not in self.rules.clause_words:
                index += 1
        return index

    def case(self, first: int, last: int) -> str | None:
        """The form of a name for the case of a mention; refuses unknown forms, and a relation stated after it."""
        rules, language, word = self.rules, self.language, self.words[last]
        after = self.words[last + 1 : last + 3]
        if len(after) > 1 and not after[0].gap.strip("'’") and after[0].gap:
            after = after[1:]  # an ending after an apostrophe
        if after and after[0].low in rules.relations_behind:
            raise SubstitutionRefusedError("people_related", f"{word.text} {after[0].text}")
        if word.low in rules.articles_behind:
            return rules.articles_behind[word.low]
        if rules.declensions:
            return self._declined_case(first, last)
        bases = language.bases(self.person.words)
        found = language.case_of(word.low, bases)
        # If people need an article, a last word without one has no case: Basque "eta *40 urteko* bi lagun".
        is_name = len(self.person.words) == 1 and word.text[0].isupper()
        lacks_article = bool(rules.article_endings) and not word.low.endswith(rules.article_endings) and not is_name
        if lacks_article and last + 1 < len(self.words):
            lacks_article = self.words[last + 1].low not in rules.before_bare
        if rules.cases and found is None and (word.low not in bases or lacks_article):
            raise SubstitutionRefusedError("unknown_inflection", word.text)
        return found

    def _declined_case(self, first: int, last: int) -> str | None:
        """The form of a name for the case of a noun, by its declension and the preposition."""
        rules, language, there = self.rules, self.language, self.words[first : last + 1]
        nouns = [word for word in there if language.same(word.low, self.person.noun)]
        word = next(iter((*nouns, *(word for word in there if language.is_head(word.low)))), there[-1])
        lemma = next((one for one in (self.person.noun, *rules.heads) if language.same(word.low, one)), word.low)
        cases = language.forms(lemma).get(word.low, ())
        start = first
        while start and self.words[start].gap == "" and first - start < CLAUSE_REACH:
            start -= 1
        before = [one.low for one in self.words[start:first]]
        if word.low == lemma:
            if cases and before and before[-1].endswith(rules.object_behind):
                raise SubstitutionRefusedError("unknown_inflection", word.text)
            return None
        if not cases:
            raise SubstitutionRefusedError("plural_group", word.text)
        joined = bool(before) and before[-1] in rules.clause_words
        near = {*before} if joined else {*before[-1:]}  # "у студентки и *соседки*"
        wanted = [case for case in cases if near & {*rules.case_by_preposition.get(case, ())}]
        found = wanted or [case for case in cases if case not in rules.only_behind]
        opens = not wanted and (joined or not before) and found[0] in rules.never_opening
        if len(found) != 1 or opens:
            raise SubstitutionRefusedError("unknown_inflection", word.text)
        return found[0]

    def gender_there(self, first: int, last: int) -> NameGender | None:
        """The gender of the verbs that agree with a mention, None for either; refuses ambiguous nouns."""
        rules, language, person = self.rules, self.language, self.person
        if not rules.verbs_agree:
            return None
        there = self.words[first : last + 1]
        nouns: tuple[tuple[NameGender, tuple[str, ...]], ...] = (("f", rules.female_nouns), ("m", rules.male_nouns))
        for word in reversed(there):
            as_written = (gender for gender, known in nouns if word.low in known)
            inflected = (gender for gender, known in nouns if language.same_as_any(word.low, known))
            if (gender := next(itertools.chain(as_written, inflected), None)) is not None:
                return gender
        if person.noun in rules.genderless:
            return None
        if person.noun.endswith(rules.female_noun_endings):
            return "f"
        if person.noun.endswith(rules.male_noun_endings):
            return "m"
        if there[-1].low.endswith(rules.female_endings):
            raise SubstitutionRefusedError("ambiguous_gender", there[-1].text)
        is_common = person.is_common or len(person.words) > 1 or language.is_head(person.noun)
        near = self.words[max(first - 1, 0) : last + 1]
        return rules.unmarked if is_common or any(word.low in language.determiners for word in near) else None

    def gender_of_noun(self) -> NameGender | None:
        """The grammatical gender of the person's noun by its ending; None: unknown."""
        agreement, noun = self.rules.agreement, self.person.noun
        if agreement is None or noun in agreement.any_gender:
            return None
        return "m" if noun.endswith(agreement.male) else "f" if noun.endswith(agreement.female) else None

    def refuse_several(self, first: int, last: int) -> None:
        """Refuses a mention of several people."""
        rules, language, person = self.rules, self.language, self.person
        noun = person.noun
        plural_heads = {head + ending for head in rules.heads for ending in rules.plural_endings}
        sign = noun.endswith(rules.plural_signs) and not noun.endswith(rules.no_plural_signs)
        is_plural = noun in plural_heads or noun in rules.plurals or (sign and person.attachment == "noun")
        if not person.is_name and (person.is_several or is_plural):
            raise SubstitutionRefusedError("plural_group", " ".join(person.words))
        if rules.noun_last and self.before(first) in rules.numbers:
            raise SubstitutionRefusedError("plural_group", self.words[first - 1].text)  # "दो माली"
        bases = language.bases(person.words)
        there = self.words[first : last + 1]
        for index, word in enumerate(there):
            stems = language.stems(word.low) if rules.cases else {word.low}
            collective = bool(stems & {*rules.collectives})  # a group that is one thing: a couple, a family
            if rules.nouns_placed and any(language.is_head(after.low) for after in there[index + 1 :]):
                collective = False
            inside = {before.low for before in there[:index]} & {*rules.small_words}
            if rules.verbs_agree and word.low != noun and (inside or word.low in person.words):
                collective = False  # "um menino de família pobre"
            several = collective or language.is_plural(word.low, bases)
            if several and word.low not in language.determiners:
                raise SubstitutionRefusedError("plural_group", word.text)

    def stand_in_before(self, index: int) -> int | None:
        """The index of the stand-in right before a word, or before a noun for a person: "de *ene* spreker"."""
        if self.before(index) not in self.rules.stand_ins and self.is_head(self.before(index)):
            index -= 1
        return index - 1 if self.before(index) in self.rules.stand_ins else None

    def stand_in_of(self, verb: int) -> int | None:
        """The index of the stand-in before a verb in the same clause."""
        for far in range(verb - 1, max(verb - 1 - STAND_IN_REACH, -1), -1):
            if not self.words[far + 1].follows or self.words[far].low in self.rules.clause_relatives:
                return None
            if self.words[far].low in self.rules.stand_ins:
                return far
        return None

    def is_verb_of_stand_in(self, verb: int) -> bool:
        """Whether a stand-in is the subject of a verb: "one of them *was*", not "the family of one *was*"."""
        index = self.stand_in_of(verb)
        if index is None:
            return False
        index -= self.is_determined(index)
        owners = {*self.rules.small_words} - {*self.rules.clause_relatives}
        return not index or not self.words[index].follows or self.words[index - 1].low not in owners

    def is_predicate_of_stand_in(self, first: int, last: int) -> bool:
        """Whether a verb, or a comma in its place, links it to a stand-in: "one *was*", "and the other*,* thin"."""
        while first > 1 and self.before(first) in self.language.determiners:
            first -= 1
        if first > 1 and self.before(first) in self.rules.copulas and self.is_verb_of_stand_in(first - 1):
            return True
        before = self.words[first - 1].low if first and self.words[first].gap == "," else ""
        return self.ends(last) and before in self.rules.stand_ins

    def is_feature_of_stand_in(self, index: int) -> bool:
        """Whether a stand-in and a verb of having precede: "one speaker had", "one of them had"."""
        if index < 2 or self.before(index) not in self.rules.having:
            return False
        owner = self.before(index - 1)
        if not owner or owner in self.rules.clause_relatives:
            return False
        return self.is_head(owner) or self.is_verb_of_stand_in(index - 1)

    def gender_of_stand_in(self, first: int) -> NameGender | None:
        """The grammatical gender of the stand-in before a description."""
        index = first - 1 if self.words[first].gap else self.stand_in_of(first - 1)
        return None if index is None else self.determined(index)[1]
