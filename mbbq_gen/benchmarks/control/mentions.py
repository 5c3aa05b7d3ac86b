"""Finds the mentions of two people in a text, each with its determiner and all words that describe the person.

A mention is extended from the words that distinguish the person:

    I saw [a really fat guy] waiting, and [the one who was thin] beside him.
             ^distinctive   ^head              ^head ^link   ^distinctive

If a distinguishing word remains outside the mentions ("maneuvering his wheelchair"), the question is refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from mbbq_gen.benchmarks.control.mention_grammar import (
    DETERMINER_REACH,
    Mention,
    PersonText,
    SubstitutionRefusedError,
    covered,
    is_aside,
    shown,
)
from mbbq_gen.benchmarks.control.people import People
from mbbq_gen.benchmarks.control.words import Language, Word
from mbbq_gen.languages.control_pack import NameGender


def find_mentions(words: Sequence[Word], people: People, language: Language) -> list[Mention]:
    """The mentions of two people, in order; refuses mentions that overlap and mentions of several people."""
    finders = [MentionFinder(words, people, number, language) for number in range(len(people))]
    found = [mention for finder in finders for mention in finder.find()]
    found = sorted([*found, *_repeated_nouns(found, words, language)], key=lambda mention: mention.first)
    for one, other in itertools.pairwise(found):
        if one.last >= other.first:
            raise SubstitutionRefusedError("unreplaced_mention", shown(words, one.first, other.last))
    for index, (before, mention) in enumerate(itertools.pairwise(list(found)), 1):
        # A stand-in stays if the previous one stays too: "one of whom is *gay* and the other who's *straight*".
        marks = "".join(word.gap for word in words[before.last + 1 : mention.first + 1])
        if before.by_verb and mention.inner is not None and not {*marks} & {*".?!"}:
            found[index] = replace(mention, first=mention.inner, by_verb=True, gender=None)
    for index, (before, mention) in enumerate(itertools.pairwise(list(found)), 1):
        # A comma replaces the previous verb of naming: Catalan "una es deia Anna i l'altra, Mireia".
        elided = mention.by_verb and not mention.kept and words[mention.first].gap == ","
        found[index] = replace(mention, elided=before.by_verb and bool(before.kept) and elided)
    return found


def _repeated_nouns(mentions: Sequence[Mention], words: Sequence[Word], language: Language) -> Iterator[Mention]:
    """Yields repeated mentions without their clause between commas: "my neighbor", of "my neighbor, who coughs, …".

    Refuses the noun elsewhere with other words.
    """
    inside = covered(mentions)
    for mention in mentions:
        there = words[mention.first : mention.last + 1]
        comma = next((at for at, word in enumerate(there) if at and is_aside(word, language)), None)
        if comma is None:
            continue
        phrase = tuple(word.low for word in there[:comma])
        for index, word in enumerate(words):
            if index in inside or not language.same(word.low, phrase[-1]):
                continue
            first = index - len(phrase) + 1
            if first < 0 or tuple(one.low for one in words[first : index + 1]) != phrase:
                raise SubstitutionRefusedError("group_stated_elsewhere", word.text)
            yield Mention(mention.person, first, index)


class MentionFinder(PersonText):
    """Finds the mentions of one person: distinguishing words with their phrase to the left and to the right."""

    def find(self) -> Iterator[Mention]:
        """The mentions, in order."""
        end = -1
        for first, last in self.cores():
            if first > end:
                mention = self._mention(first, last)
                end = mention.last
                yield mention

    def _refuse(self, reason: str, first: int, last: int) -> SubstitutionRefusedError:
        return SubstitutionRefusedError(reason, shown(self.words, max(first, 0), last))

    def _mention(self, first: int, last: int) -> Mention:
        """The mention with these distinguishing words: a name, a description of a stand-in, or a noun phrase."""
        person, rules, number = self.person, self.rules, self.number
        if person.is_name and self.before(first) in rules.home_words:
            raise self._refuse("group_stated_elsewhere", first - 1, last)
        if person.is_name and not self.is_determined(first):
            return Mention(number, first, last, case=self.case(first, last), gender=person.gender)
        if (before_verb := self._before_verb(first, last)) is not None:
            return before_verb
        right, has_noun_behind = self._right(last)
        left, inner, has_noun_before = self._left(first, right)
        if {word.low for word in self.words[left:first]} & {*rules.relatives}:
            right += self.after(right) in rules.closing_verbs  # "een die dun *was*"
        if (described := self._opened_around(left, right) or self._of_stand_in(left, right)) is not None:
            return described
        has_noun = any(self.language.same(word.low, person.noun) for word in self.words[left : right + 1])
        is_noun = person.attachment == "noun" and (has_noun or not rules.joined)
        if not (has_noun_behind or has_noun_before or is_noun or self._is_bare_adjective(left, right)):
            raise self._refuse("group_stated_elsewhere", left - 2, right)
        return self._noun_phrase(first, left, right, inner)

    def _of_stand_in(self, left: int, right: int) -> Mention | None:
        """The description of a stand-in, which stays: "one was *fat*", "one speaker *had a beard*"; else None."""
        person, rules, number = self.person, self.rules, self.number
        if self.is_predicate_of_stand_in(left, right):
            self.refuse_several(left, right)
            left -= self.is_determined(left)
            case = self.case(left, right)
            gender = self.gender_there(left, right) or self.gender_of_stand_in(left)
            return Mention(number, left, self.opened(right), case=case, gender=gender, by_verb=True)
        opening = left - self.is_determined(left)
        is_feature = person.attachment == "after" or (rules.head_first and person.attachment == "adjective")
        if not is_feature or not self.is_feature_of_stand_in(opening):
            return None
        kept, gender = rules.having[self.words[opening - 1].low], self.gender_of_stand_in(opening)
        return Mention(number, opening - 1, right, kept, self.case(left, right), gender, by_verb=True)

    def _noun_phrase(self, core: int, left: int, right: int, inner: int | None) -> Mention:
        """The mention of a noun with its determiner; `core`: its first distinguishing word; `inner`: as in Mention."""
        person, rules = self.person, self.rules
        self.refuse_several(left, right)
        start, kept, gender = self._with_determiner(left)
        kept = self._genitive(start) or kept
        if self._is_cut(start, kept):
            raise self._refuse("unreplaced_mention", start - 2, right)
        start = self._led_in(start, right)
        if self._is_predicate(start, right, core):
            raise self._refuse("group_stated_elsewhere", start - 1, right)
        there = [word.low for word in self.words[start : right + 1]]
        after_verb = rules.having_last and self.before(start) in rules.copulas and start + 3 <= right
        if after_verb and there[1] in rules.stand_ins and self.is_head(there[2]):  # "was de ene vrouw *gekleed in …*"
            return Mention(self.number, start + 3, self.opened(right), by_verb=True)
        has_determiner = rules.needs_determiner and there[0] in self.language.determiners
        if has_determiner and self.before(start) in rules.stand_ins:  # "*one* a poet", "*the other* a poet"
            inner = start
            start -= 1 + self.is_determined(start - 1)
        gender = self.gender_there(start, right) or gender
        gender = (person.gender if rules.genitives else gender) or self.gender_of_noun()
        return Mention(self.number, start, self.opened(right), kept, self.case(left, right), gender, inner=inner)

    def _genitive(self, start: int) -> str:
        """The preposition that a genitive after a noun replaces: "von", for German "die Wahl *der* Frau"."""
        low = self.words[start].low
        after_noun = self.before(start) and not self.words[start - 1].gap and self.words[start - 1].text[0].isupper()
        of_man = self.person.gender != "f" and low in self.rules.male_determiners
        return self.rules.genitives.get(low, "") if after_noun and not of_man else ""

    def _is_predicate(self, start: int, right: int, core: int) -> bool:
        """Whether it is a predicate and no mention: "a man *who* X *was*", "de ene spreker *blauwe ogen* had"."""
        rules, own = self.rules, self.person.words
        verb = self.words[right + 1].low if right + 1 < len(self.words) else ""
        is_clause = self.before(start) in rules.relatives and not self.words[start - 1].gap and verb in rules.copulas
        is_feature = self.person.attachment == "after" and self.after(right) in rules.having_last
        if is_clause or (is_feature and self.is_head(self.before(core))):
            return True
        # The verb of a description without its relative pronoun: "one *wore* a hat".
        relative = next((word for word in rules.clause_relatives if word in own[:-1]), None)
        there = [word.low for word in self.words[start : right + 1]]
        return relative is not None and own[own.index(relative) + 1] in there and relative not in there

    def _left(self, left: int, right: int) -> tuple[int, int | None, bool]:
        """The first word except a determiner, the first word after a stand-in, and whether a noun was found."""
        inner, has_head = None, False
        while (step := self._left_step(left, right)) is not None:
            inner = left if step[1] and self.words[step[0]].low in self.rules.stand_ins else inner
            left, has_head = step[0], has_head or step[1]
        return left, inner, has_head

    def _left_step(self, index: int, right: int) -> tuple[int, bool] | None:
        """The index of the previous word if it belongs to the mention, and whether it is the noun."""
        if index == 0 or not self.words[index].follows:
            return None
        rules, language, person = self.rules, self.language, self.person
        before = self.words[index - 1].low
        for link in () if rules.head_last else language.links:
            start = index - len(link)
            if start >= 1 and self.spells(start, link) and (self.words[start].follows or self.is_aside(start, right)):
                head = self._head_before_link(start)
                if head is not None:
                    return head, True
        is_verb = (before in rules.copulas or before in rules.having) and not self.words[index - 1].gap
        if self.words[index].gap or (is_verb and self.is_verb_of_stand_in(index - 1)):
            return None  # "la otra *estaba* gorda"
        own = (rules.noun_last or rules.joined) and before in person.words
        if rules.head_last and language.is_head(before) and not own:
            return None
        if before in rules.stand_ins and self.is_determined(index - 1):
            return index - 1, True
        is_small = before in rules.small_words
        if is_small and rules.head_first and rules.verbs_agree and self.is_head(self.words[index].low):
            return None  # "كان *على* لاعبة تنس على كرسي"
        may_be_head = (
            (rules.head_first and (not rules.declensions or language.same(before, person.noun)))
            or before in rules.stand_ins
            or before in person.words
            or (rules.noun_anywhere and not self.is_closed(index - 1))
        )
        if may_be_head and self.is_head(before) and not (rules.noun_anywhere and is_small):
            return index - 1, True
        if before in rules.modifiers or (rules.declensions and language.same_as_any(before, rules.modifiers)):
            return index - 1, False
        if not self.is_own(before):
            return None
        # A determiner within the description, as in "que ha anat a *la* escola", but not "a *la* germana".
        two, three = (tuple(word.low for word in self.words[max(index - 2, 0) : end]) for end in (index, index + 1))
        own_two = itertools.pairwise(person.words)
        own_three = zip(person.words, person.words[1:], person.words[2:], strict=False)
        spelled = index > 1 and any(two == one[:2] and language.same(three[2], one[2]) for one in own_three)
        inside = index > 1 and two[0] in rules.small_words and spelled
        # A small word, if both words are in the description: "from *a*", of "guy from a small town".
        pair = (self.words[index - 1].low, self.words[index].low)
        fits = not is_small or not rules.nouns_placed or pair in own_two
        return (index - 1, False) if fits and (before not in language.determiners or inside) else None

    def _head_before_link(self, start: int) -> int | None:
        """The index of the noun before a link: "the *one* who is", "un *profesor* de universidad que era"."""
        rules, beyond = self.rules, self.words[start - 1].low
        if beyond in rules.stand_ins or self.is_head(beyond):
            return start - 1
        if not rules.head_first:
            return None
        if self.words[start].low in rules.clause_relatives and beyond in self.language.determiners:
            return start
        far = start - 3
        joined = far >= 0 and all(word.follows for word in self.words[far + 1 : start])
        if joined and self.words[far + 1].low in rules.small_words and self.is_head(self.words[far].low):
            return far
        return None

    def _with_determiner(self, left: int) -> tuple[int, str, NameGender | None]:
        """The first word of a mention with its determiner, and the result of `determined` for it."""
        rules, word, nearest = self.rules, self.words[left], max(left - DETERMINER_REACH, 0)
        if self.is_determined(left):
            owned = self.words[left - 1].low in rules.possessives and self.is_determined(left - 1)
            first = left - 2 if owned else left - 1
            return first, *self.determined(first)
        for far in range(left, nearest if rules.reaching else left, -1):
            if self.words[far].gap or self.words[far - 1].low in rules.reaching:
                return (left if self.words[far].gap else far - 1), "", None
        bare = left == 0 or word.gap or self.words[left - 1].low in rules.before_bare
        needs = rules.needs_determiner and not self.person.is_name and word.low not in rules.undetermined
        if bare or not needs or word.low in rules.stand_ins:
            return left, "", None
        for far in range(left - 1, nearest, -1):
            if self.words[far].gap:
                break
            if self.words[far - 1].low in self.language.determiners:
                return far - 1, *self.determined(far - 1)
        raise self._refuse("unreplaced_mention", left - 1, left)

    def _led_in(self, start: int, right: int) -> int:
        """The first word of a mention with modifiers and lead-in; refuses a person after a word of relation."""
        while self.rules.head_last and self.before(start) and self.is_modifier(start - 1):
            start -= 1
        before = self.before(start)
        if before in self.rules.relations:
            raise self._refuse("people_related", start - 1, right)
        if before in self.rules.lead_ins:
            start -= not self.rules.unspaced or start == 1 or bool(self.words[start - 1].gap)
        return start

    def _is_cut(self, start: int, kept: str) -> bool:
        """Whether the person's noun precedes the mention: "a *girl from* [the poor area]"."""
        before = self.words[max(start - 2, 0) : start]
        if not before or any(word.gap for word in (*before[1:], self.words[start])):
            return False
        if not kept:
            joins = before[-1].low in self.rules.small_words and before[-1].low in self.person.words
            before = before[:-1] if joins else []
        noun = before[-1].low if before else ""
        is_own = noun in self.person.words and noun not in self.person.distinctive
        return is_own and noun not in self.language.determiners

    def _is_bare_adjective(self, left: int, right: int) -> bool:
        """Whether an adjective without a noun means a person: Spanish "el gordo", Basque "bizardunak"."""
        rules, person, word = self.rules, self.person, self.words[left]
        if not rules.bare_adjectives or person.attachment != "adjective":
            return False
        after = self.after(right)
        if rules.head_first and rules.verbs_agree and after:
            lists = (rules.clause_words, rules.small_words, rules.before_bare, rules.gender_verbs)
            if not any(after in words for words in lists):
                return False  # it may be a noun: "mon *riche* cousin"
        if rules.head_first and word.low in person.words[1:]:
            preposition = person.words[person.words.index(word.low) - 1]
            other = preposition in rules.copulas or preposition in rules.clause_relatives
            if preposition in rules.small_words and not other:
                return False  # "vivía en un *pueblo*", of "hombre de pueblo"
        opens = left == 0 or bool(word.gap) or self.words[left - 1].low in rules.before_bare
        article = self.words[right].low in rules.articles_behind
        declined = opens and (article or (rules.noun_anywhere and self.is_closed(right)))
        return declined or self.is_determined(left) or self.before(left) in rules.stand_ins

    def _right(self, index: int) -> tuple[int, bool]:
        """The index of the last word of the mention, and whether a noun follows the distinguishing words."""
        rules, person, headed, first = self.rules, self.person, False, index
        may_be_small = rules.head_first or rules.noun_anywhere or rules.noun_last
        openers = {opener.split()[0] for opener in rules.openers}
        while after := self.after(index):
            of_other = self.distinguishes(self.other, after) and not self.distinguishes(person, after)
            if of_other or self.ends_person(index):
                break
            others = rules.article_prefix and after not in person.words  # "لدى أب *طفل*"
            if self.is_head(after) and not (may_be_small and after in rules.small_words) and not others:
                index, headed = index + 1, True
                continue
            pair = (self.words[index].low, after)  # "గ్రామం *నుంచి* వచ్చిన ఒక విద్యార్థిని"
            spelled = rules.noun_last and pair in itertools.pairwise(person.words)
            if after in rules.modifiers_behind or self.describes(after) or spelled or after in openers:
                index += 1
                continue
            rest = self._rest_of_description(index)
            if rest > index:
                inflected = rules.joined or rules.nouns_placed
                headed |= inflected and self.is_head(self.words[rest].low)
                index = rest
                break
            step = self._link_right(index)
            if step is None:
                break
            index, has = step
            headed |= has
        return self._closed_right(first, index, headed)

    def _closed_right(self, first: int, index: int, headed: bool) -> tuple[int, bool]:
        """Extends the result of `_right` by an article, nominalizer or tail."""
        rules, language, person = self.rules, self.language, self.person
        if rules.articles_behind and (
            self.words[index].low.endswith(rules.article_endings) or not self.is_closed(index)
        ):
            end = index  # over modifiers to the article: "gizon *bat*", "gizon *zahar bat*"
            while (low := self.after(end)) in rules.modifiers or low in language.determiners:
                if low in rules.articles_behind:
                    break
                end += 1
            if low in rules.articles_behind:
                index = end + 1
                # The article may belong to another noun, before the person's: "langile baten *semea*", a worker's son.
                has_noun = any(language.same(word.low, person.noun) for word in self.words[first:index])
                if not has_noun and self.after(index) and language.same(self.after(index), person.noun):
                    index, headed = index + 1, True
        if rules.unspaced:
            headed |= any(word.low == person.noun for word in self.words[first : index + 1])
            # A nominalizer after an adjective, at the end of its clause.
            is_person = self.after(index) in rules.nominalizers and person.attachment == "adjective"
            if not headed and is_person and self.ends(index + 1):
                return index + 1, True
        for tail in language.tails:
            if self.spells(index + 1, tail) and not self.words[index + 1].gap:
                index += len(tail)
        return index, headed

    def _rest_of_description(self, index: int) -> int:
        """The end of the description, if the rest of it follows in the text: "the man *of few words*"."""
        own, low = self.person.words, self.words[index].low
        if low not in own or any(word in own for word in self.rules.closing_verbs):
            return index
        rest = own[own.index(low) + 1 :]
        there = self.words[index + 1 : index + 1 + len(rest)]
        lows = tuple(word.low for word in there)
        alike = lows == rest
        if (self.rules.joined or self.rules.noun_last) and len(lows) == len(rest) > 1:
            alike |= lows[:-1] == rest[:-1] and self.language.same(lows[-1], rest[-1])  # the noun in another case
        return index + len(rest) if alike and all(word.follows for word in there) else index

    def _link_right(self, index: int) -> tuple[int, bool] | None:
        """The end of a following link and its word, and whether that is a noun; None without a link."""
        rules, language, person = self.rules, self.language, self.person
        at_noun = person.attachment == "noun" or language.same(self.words[index].low, person.noun)
        if rules.nouns_placed and at_noun:
            return None  # a possession of the person: "残疾人的朋友"
        for link in language.links:
            end = index + len(link) + 1
            is_other_article = link[0] in rules.articles_behind and link[0] not in person.words
            if is_other_article or not self.spells(index + 1, link) or end >= len(self.words):
                continue
            low, is_head = self.words[end].low, self.is_head(self.words[end].low)
            described = language.same_as_any(low, person.distinctive) or (rules.noun_last and self.describes(low))
            if self.words[end].follows and (is_head or described):
                return end, is_head
        return None

    def _before_verb(self, first: int, last: int) -> Mention | None:
        """A person described by an adjective before the verb: Dutch "de ene *lang* was"."""
        rules, person = self.rules, self.person
        while self.before(first) and self.is_modifier(first - 1) and self.before(first) not in rules.stand_ins:
            first -= 1
        own = {*person.words} - {*rules.closing_verbs}
        while last + 1 < len(self.words) and self.words[last + 1].low in own:
            last += 1
        verb, ends = last + 1, self.ends(last)
        first -= self.is_determined(first) and self.is_aside(first - 2, verb)
        if not ends and self.before(first) and self.is_aside(first - 1, verb):
            written = rules.having_last.get(self.words[verb].low)
            return Mention(self.number, first, verb, after=written, by_verb=True) if written else None
        if self.is_determined(first) and self.stand_in_before(first - 1) is not None:
            first -= person.attachment == "after"  # "had *een* beugel"
        owner = self.stand_in_before(first)
        if owner is None or not self.is_determined(owner) or self.words[owner].gap:
            return None
        if ends:
            is_feature = rules.having_last and person.attachment == "after" and owner == first - 1
            return Mention(self.number, first, last, by_verb=True) if is_feature else None
        low = self.words[verb].low
        if low in rules.having_last:
            return Mention(self.number, first, verb, after=rules.having_last[low], by_verb=True)
        if low not in rules.copulas or low not in rules.closing_verbs:
            return None
        if " ".join(word.low for word in self.words[verb + 1 : verb + 3]) in rules.openers:
            # "slordig was *gekleed in een pak*"
            return Mention(self.number, first, self.opened(verb + 1), after=low, by_verb=True)
        ends = self.ends(verb) or self.words[verb + 1].low in rules.clause_words
        is_predicate = ends and self.before(first) in rules.stand_ins
        return Mention(self.number, first, last, by_verb=True) if is_predicate else None

    def _opened_around(self, left: int, right: int) -> Mention | None:
        """A person described by an opener around the verb: "de andere *gekleed* was *in een oud pak*"."""
        for rest in (left, left - 1 - self.is_determined(left)):
            first = rest - 2
            if first < 1 or any(word.gap for word in self.words[first : rest + 1]):
                continue
            opener, verb, low_rest = (word.low for word in self.words[first : rest + 1])
            is_opener = f"{opener} {low_rest}" in self.rules.openers and verb in self.rules.copulas
            if is_opener and self.stand_in_before(first) is not None:
                return Mention(self.number, first, right, after=verb, by_verb=True)
        return None
