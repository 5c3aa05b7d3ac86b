"""How far a mention reaches before and behind the words that tell the person apart."""

from __future__ import annotations

import itertools

from mbbq_gen.substitution.people import Person
from mbbq_gen.substitution.stand_ins import StandIns


class Reach(StandIns):
    """Steps to the left over heads, links and modifiers, and to the right over all that goes with the person."""

    def _left(self, person: Person, low: int, right: int) -> tuple[int, int | None, bool]:
        """The first word of the mention before its determiner, what stands behind a stand-in in it, and whether a head
        was found."""
        inner, has_head = None, False
        while (step := self._left_step(person, low, right)) is not None:
            if step[1] and self.words[step[0]].low in self.rules.stand_ins:
                inner = low
            low, has_head = step[0], has_head or step[1]
        return low, inner, has_head

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

    def _closes_clause(self, low: int, first: int, right: int) -> bool:
        """Whether the verb of a clause about the person stands right behind: "een die dun *was*"."""
        begun = any(word.low in self.rules.relatives for word in self.words[low:first])
        behind = self.words[right + 1] if right + 1 < len(self.words) else None
        return begun and behind is not None and behind.gap == "" and behind.low in self.rules.closing_verbs

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

    def _is_nominalized(self, person: Person, place: int) -> bool:
        """Whether a word behind makes a person of an adjective, at the end of its clause."""
        behind, beyond = self.words[place + 1 : place + 2], self.words[place + 2 : place + 3]
        ends = not beyond or bool(beyond[0].gap)
        makes = bool(behind) and behind[0].gap == "" and behind[0].low in self.rules.nominalizers
        return makes and ends and person.attachment == "adjective"

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
