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

from mbbq_gen.benchmarks.control.mention import (
    Mention,
    SubstitutionRefusedError,
    is_aside,
    refuse_beside,
    refuse_openers,
    shown,
)
from mbbq_gen.benchmarks.control.mention_grammar import DETERMINER_REACH, AnaphorRules, MentionInflection
from mbbq_gen.benchmarks.control.people import People, PersonDescription
from mbbq_gen.benchmarks.control.words import Language, Word
from mbbq_gen.languages.control_pack import NameGender


class MentionBoundaries(AnaphorRules):
    """Steps to the left over heads, links and modifiers, and to the right over all that goes with the person."""

    def _left(self, person: PersonDescription, low: int, right: int) -> tuple[int, int | None, bool]:
        """The first word of the mention before its determiner, what stands behind a stand-in in it, and whether a head
        was found."""
        inner, has_head = None, False
        while (step := self._left_step(person, low, right)) is not None:
            if step[1] and self.words[step[0]].low in self.rules.stand_ins:
                inner = low
            low, has_head = step[0], has_head or step[1]
        return low, inner, has_head

    def _left_step(self, person: PersonDescription, place: int, right: int) -> tuple[int, bool] | None:
        """Where the word or link before stands that belongs to the mention, and whether it is a head."""
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

    def _head_before_link(self, person: PersonDescription, start: int) -> int | None:
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

    def _spells_own(self, person: PersonDescription, place: int) -> bool:
        """Whether the two words before are those of the description: "from a", of "guy from a small town"."""
        pair = (self.words[place - 2].low, self.words[place - 1].low)
        return pair in itertools.pairwise(person.words)

    def _spells_on(self, person: PersonDescription, place: int) -> bool:
        """Whether they are, and this word is the one behind them: not "a la germana", of "que ha anat a la escola"."""
        if place < 2:
            return False
        own = zip(person.words, person.words[1:], person.words[2:], strict=False)
        one, two, this = (word.low for word in self.words[place - 2 : place + 1])
        return any((one, two) == (first, second) and self.language.same(this, third) for first, second, third in own)

    def _closes_clause(self, low: int, first: int, right: int) -> bool:
        """Whether the verb of a clause about the person stands right behind: "een die dun *was*"."""
        begun = any(word.low in self.rules.relatives for word in self.words[low:first])
        behind = self.words[right + 1] if right + 1 < len(self.words) else None
        return begun and behind is not None and behind.gap == "" and behind.low in self.rules.closing_verbs

    def _right(self, person: PersonDescription, place: int) -> tuple[int, bool]:
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

    def _closed_right(self, person: PersonDescription, first: int, place: int, headed: bool) -> tuple[int, bool]:
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

    def _is_nominalized(self, person: PersonDescription, place: int) -> bool:
        """Whether a word behind makes a person of an adjective, at the end of its clause."""
        behind, beyond = self.words[place + 1 : place + 2], self.words[place + 2 : place + 3]
        ends = not beyond or bool(beyond[0].gap)
        makes = bool(behind) and behind[0].gap == "" and behind[0].low in self.rules.nominalizers
        return makes and ends and person.attachment == "adjective"

    def _is_noun_behind(self, person: PersonDescription, first: int, place: int) -> bool:
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

    def _rest_of_description(self, person: PersonDescription, place: int) -> int:
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

    def _link_right(self, person: PersonDescription, place: int) -> tuple[int, bool] | None:
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


def find_mentions(words: Sequence[Word], people: People, language: Language) -> list[Mention]:
    """The mentions of two people, in order.

    Raises:
        SubstitutionRefusedError: where a word that tells one of them apart stands outside a mention, or a mention is of
            several people.
    """
    finder = _Finder(words, people, language)
    found = list(finder.mentions())
    found = sorted([*found, *_said_again(found, words, language)], key=lambda mention: mention.first)
    for one, other in itertools.pairwise(found):
        if one.last >= other.first:
            raise SubstitutionRefusedError("unreplaced_mention", shown(words, one.first, other.last))
    described = [_beside_told(mention, before, words) for before, mention in zip([None, *found], found, strict=False)]
    described = [
        _behind_naming(mention, before, words) for before, mention in zip([None, *described], described, strict=False)
    ]
    refuse_beside(described, words, language)
    refuse_openers(described, words, language)
    return described


def _said_again(mentions: Sequence[Mention], words: Sequence[Word], language: Language) -> Iterator[Mention]:
    """Mentions of a person by the noun alone that a clause between commas is about: "my neighbor", of "my neighbor, who
    has a cough, …".

    Raises:
        SubstitutionRefusedError: where that noun stands elsewhere otherwise.
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
                raise SubstitutionRefusedError("group_stated_elsewhere", word.text)
            yield Mention(mention.person, first, place)


def _beside_told(mention: Mention, before: Mention | None, words: Sequence[Word]) -> Mention:
    """Leaves a stand-in where the one before it stays too: "one of whom is *gay* and the other who's *straight*"."""
    if before is None or not before.by_verb or mention.inner is None:
        return mention
    if any(mark in word.gap for word in words[before.last + 1 : mention.first + 1] for mark in ".?!"):
        return mention
    return replace(mention, first=mention.inner, by_verb=True, gender=None)


def _behind_naming(mention: Mention, before: Mention | None, words: Sequence[Word]) -> Mention:
    """A name behind a comma that stands for the verb of naming before: Catalan "una es deia Anna i l'altra, Mireia"."""
    named = before is not None and before.by_verb and bool(before.kept)
    elided = mention.by_verb and not mention.kept and words[mention.first].gap == ","
    return replace(mention, bare=named and elided)


class _Finder(MentionBoundaries, MentionInflection):
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

    def _grown(self, number: int, person: PersonDescription, first: int, last: int) -> Mention:
        """The whole mention around telling words."""
        if (
            person.is_name
            and first > 0
            and not self.words[first].gap
            and self.words[first - 1].low in self.rules.home_words
        ):
            raise SubstitutionRefusedError("group_stated_elsewhere", shown(self.words, first - 1, last))
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
            return Mention(number, low, self._opened(right), case=case, gender=gender, by_verb=True)
        opening = low - self._is_determined(low)
        is_had = person.attachment == "behind" or (self.rules.head_first and person.attachment == "adjective")
        if is_had and self._is_had_by_stand_in(person, opening):
            kept = self.rules.told[self.words[opening - 1].low]
            gender = self._gender_of_stand_in(opening)
            return Mention(number, opening - 1, right, kept, self._case(person, low, right), gender, by_verb=True)
        if not headed and not self._is_bare_adjective(person, low, right):
            raise SubstitutionRefusedError("group_stated_elsewhere", shown(self.words, max(low - 2, 0), right))
        self._refuse_several(person, low, right)
        start, kept, gender = self._with_determiner(person, low)
        kept = self._of_genitive(person, start) or kept
        if self._is_cut(person, start, kept):
            raise SubstitutionRefusedError("unreplaced_mention", shown(self.words, max(start - 2, 0), right))
        start = self._led_in(start, right)
        is_told = self._is_predicate(start, right) or self._is_clause(person, start, right)
        if is_told or self._is_had_behind(person, first, right):
            raise SubstitutionRefusedError("group_stated_elsewhere", shown(self.words, max(start - 1, 0), right))
        if (told_behind := self._told_behind_verb(number, start, right)) is not None:
            return told_behind
        if (with_stand_in := self._with_stand_in(start)) < start:
            start, inner = with_stand_in, start
        gender = self._gender_there(person, start, right) or gender
        gender = (person.gender if self.rules.genitives else gender) or self._gender_of_noun(person)
        return Mention(number, start, self._opened(right), kept, self._case(person, low, right), gender, inner=inner)

    def _led_in(self, start: int, right: int) -> int:
        """The first word of a mention with modifiers and what leads it in before its determiner.

        Raises:
            SubstitutionRefusedError: where the text says that somebody has the person.
        """
        while self.rules.head_last and start and self.words[start].gap == "" and self._is_modifier(start - 1):
            start -= 1
        before = self.words[start - 1] if start and self.words[start].gap == "" else None
        if before is not None and before.low in self.rules.relations:
            raise SubstitutionRefusedError("people_related", shown(self.words, start - 1, right))
        if before is not None and before.low in self.rules.lead_ins:
            return start - (not self.rules.unspaced or start == 1 or bool(before.gap))
        return start

    def _with_determiner(self, person: PersonDescription, low: int) -> tuple[int, str, NameGender | None]:
        """The first word of a mention with its determiner, what is left of that, and the gender that it tells.

        Raises:
            SubstitutionRefusedError: where there is none, and none is near, in a language in which a person needs one.
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
        raise SubstitutionRefusedError("unreplaced_mention", shown(self.words, low - 1, low))

    def _is_cut(self, person: PersonDescription, start: int, kept: str) -> bool:
        """Whether the person's own noun stands before, over a preposition: "a *girl from* [the poor area]"."""
        before = self.words[max(start - 2, 0) : start]
        if not before or any(word.gap for word in (*before[1:], self.words[start])):
            return False
        if not kept:
            joins = before[-1].low in self.rules.small_words and before[-1].low in person.words
            before = before[:-1] if joins else []
        noun = before[-1].low if before else ""
        return noun in person.words and noun not in person.telling and noun not in self.language.determiners

    def _has_own_noun(self, person: PersonDescription, first: int, last: int) -> bool:
        """Whether the noun that tells the person apart is in the mention."""
        there = any(self.language.same(word.low, person.noun) for word in self.words[first : last + 1])
        return person.attachment == "noun" and (there or not self.rules.joined)

    def _is_bare_adjective(self, person: PersonDescription, low: int, right: int) -> bool:
        """Whether an adjective stands for a person without a noun: Spanish "el gordo", Basque "bizardunak"."""
        if not self.rules.bare_adjectives or person.attachment != "adjective":
            return False
        if self.rules.head_first and self.rules.verbs_agree and self._may_precede_noun(right):
            return False  # "mon *riche* cousin"
        if self._is_complement(person, low):
            return False  # "vivía en un *pueblo*", of "hombre de pueblo"
        declined = (low == 0 or bool(self.words[low].gap) or self.words[low - 1].low in self.rules.before_bare) and (
            self.words[right].low in self.rules.articles_behind
            or (self.rules.noun_anywhere and self._is_closed(person, right))
        )
        return declined or self._is_determined(low) or self._after_stand_in(low)

    def _is_complement(self, person: PersonDescription, low: int) -> bool:
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
