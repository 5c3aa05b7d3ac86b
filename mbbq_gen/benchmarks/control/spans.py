"""Mentions at positions given by the data: the slots of a published template.

A question may have `metadata["person_spans"]`:

    {"context": [[7, 13, 0], [13, 20, 1]]}        start, end (exclusive) in characters, and the index of the option

Such a position covers the distinguishing words. The mention is that position alone ("손자와"), or extends to the noun
that it describes ("조울증을 *앓고 있는 사람이*"), whose ending shows the case of the name. If end or case are unclear,
the mention is refused. This is the grammar of languages with the noun last and endings joined to it (Korean).
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import NamedTuple

from pydantic import StrictInt, TypeAdapter, ValidationError

from mbbq_gen.benchmarks.control.mention_grammar import Mention, SubstitutionRefusedError, shown
from mbbq_gen.benchmarks.control.people import People
from mbbq_gen.benchmarks.control.words import Language, Word
from mbbq_gen.core.errors import DataError
from mbbq_gen.core.records import Instance

KEY = "person_spans"
NOUN_REACH = 5
"""Maximum number of words between a slot and the noun that it describes."""
_SPANS = TypeAdapter(dict[str, list[tuple[StrictInt, StrictInt, StrictInt]]])
Spans = tuple[tuple[int, int, int], ...]
"""Start, end and person of each position."""


def person_spans(instance: Instance, options: tuple[str, str]) -> Spans | None:
    """The positions of the people of two options in the context; None if the data does not give both.

    Raises DataError for invalid positions.
    """
    if (given := instance.metadata.get(KEY)) is None:
        return None
    try:
        spans = sorted(_SPANS.validate_python(given)["context"])
        found = tuple((start, end, options.index(instance.options[option].text)) for start, end, option in spans)
        ends = [0, *(end for _, end, _ in spans)]
        are_apart = all(end <= span[0] < span[1] for end, span in zip(ends, spans, strict=False))
        if not are_apart or ends[-1] > len(instance.context) or any(option < 0 for *_, option in spans):
            raise ValueError
    except (ValidationError, KeyError, IndexError, ValueError):
        message = "'context' must list places [from, to, option] in the context, apart, each of one of the two people"
        raise DataError(f"{instance.key}: metadata.{KEY}: {message}; mend it or leave it out") from None
    return found if {person for *_, person in found} == {0, 1} else None


def split_nouns(words: Sequence[Word], spans: Spans, language: Language) -> list[Word]:
    """The words, with general nouns split from the slots that they are joined to: "18세|운전자는"."""
    ends, heads = {end for _, end, _ in spans}, tuple(head for head in language.rules.heads if len(head) > 1)
    found: list[Word] = []
    for word in words:
        end = next((end for end in ends if word.start < end < word.end), word.end)
        at = end - word.start
        if word.low[at:].startswith(heads):
            found.append(word._replace(text=word.text[:at], low=word.low[:at], end=end))
            found.append(Word(word.text[at:], word.low[at:], end, word.end, ""))
        else:
            found.append(word)
    return found


class _Slot(NamedTuple):
    person: int
    first: int
    last: int


class SlotMentions:
    """Extends slots to whole mentions."""

    def __init__(self, words: Sequence[Word], spans: Spans, people: People, language: Language) -> None:
        self.words, self.people, self.language, self.rules = words, people, language, language.rules
        self.slots: list[_Slot] = []
        for start, end, person in spans:
            inside = [number for number, word in enumerate(words) if word.start < end and word.end > start]
            if not inside or words[inside[0]].start < start:
                raise SubstitutionRefusedError("unreplaced_mention", " ".join(words[number].text for number in inside))
            self.slots.append(_Slot(person, inside[0], inside[-1]))
        own = [word for person in people for word in person.words]
        shared = self._nouns_after(0) & self._nouns_after(1)  # a noun after both people's slots refers to both
        shared = {noun for noun in shared if not shared & language.stems(noun) - {noun}}
        self.nouns = {person.words[-1] for person in people} | {*self.rules.heads} | shared
        stems = {stem for slot in self.slots for stem in language.stems(words[slot.last].low)}
        stems = {stem for stem in stems if any(word.startswith(stem) for word in own)}
        self.bases = (*own, *self.nouns, *sorted(stems), *(stem for word in own for stem in language.stems(word)))

    def find(self) -> list[Mention]:
        """The mentions, in order; raises SubstitutionRefusedError if the end or case of one is unknown."""
        found: list[Mention] = []
        for slot in self.slots:
            mention = self._mention(slot, found[-1] if found else None)
            if found and found[-1].last >= mention.first:
                raise SubstitutionRefusedError("unreplaced_mention", self.words[mention.first].text)
            found.append(mention)
        return found

    def _nouns_after(self, person: int) -> set[str]:
        """The next nouns after the slots of a person, with and without endings."""
        passed, found = {*self.rules.small_words, *self.rules.modifiers}, set[str]()
        for slot in (slot for slot in self.slots if slot.person == person):
            after = itertools.takewhile(lambda word: not word.gap, self.words[slot.last + 1 :])
            noun = next((word.low for word in after if not self._is_plain(word.low, passed)), None)
            found |= self.language.stems(noun) if noun is not None else set()
        return found - {*self.rules.numbers, *self.rules.behind_two}

    def _mention(self, slot: _Slot, before: Mention | None) -> Mention:
        """The mention of a slot's person; `before` is the previous mention."""
        joined = before is not None and before.last == slot.first - 1 and before.case == "and_def"
        last, case = self._end(slot, joined)
        low, first = self.words[last].low, slot.first
        several = tuple(noun + ending for noun in self.nouns for ending in self.rules.plural_endings)
        is_plural = self.language.is_plural(low, self.bases) or (low not in self.nouns and low.startswith(several))
        if is_plural or self._stem(low) in self.rules.collectives:
            raise SubstitutionRefusedError("plural_group", self.words[last].text)
        while first and self.words[first].gap == "":  # over modifiers, determiners, and words of both options
            low = self.words[first - 1].low
            said_by_both = all(low in person.words for person in self.people)
            if not (said_by_both or low in self.rules.modifiers or low in self.language.determiners):
                break
            first -= 1
        return Mention(slot.person, first, last, case=case)

    def _end(self, slot: _Slot, joined: bool) -> tuple[int, str | None]:
        """The last word of a mention, and the form of a name for its case.

        `joined`: whether the other person is mentioned right before, with "and".
        """
        rules, language = self.rules, self.language
        known = {word for person in self.people for word in person.words} | self.nouns
        known |= {*rules.small_words, *rules.modifiers}
        for last in range(slot.last, min(slot.last + NOUN_REACH, len(self.words))):
            word, stem, is_slot = self.words[last], self._stem(self.words[last].low), last == slot.last
            if not is_slot and (word.gap or not (stem in self.nouns or self._is_plain(word.low, known))):
                break
            # A noun for a person: the option's own or any person's as the slot's end, or after the slot.
            is_noun = stem in ({self.people[slot.person].words[-1], *rules.heads} if is_slot else self.nouns)
            case = language.case_of(word.low, self.bases)
            if case is not None and (is_noun or (is_slot and case in rules.closing_cases)):
                return last, case
            for after in self.words[last + 1 : last + 2] if case is None and joined else ():
                is_number = after.low in (*rules.behind_two, *rules.numbers)
                if not after.gap and (is_number or language.case_of(after.low, rules.numbers)):
                    return last, None  # the noun refers to both: "민준과 | 78세인 | 두 사람은"
            if case is None and is_noun and (closed := self._closed(last)) is not None:
                return closed
        raise SubstitutionRefusedError("group_stated_elsewhere", shown(self.words, slot.last, last + 1))

    def _closed(self, noun: int) -> tuple[int, str | None] | None:
        """The end and case of a mention whose noun has no ending; None if another noun follows."""
        after = self.words[noun + 1 : noun + 3]
        if not after or after[0].gap or after[0].low.startswith(self.rules.behind_bare):
            return noun, None
        if len(after) > 1 and after[0].low in self.language.determiners:  # "남자 한 명과"
            article = self.rules.articles_behind.get(after[1].low)
            return None if article is None else (noun + 2, article)
        alone = next((form for ending, form in self.language.cases if ending == after[0].low), None)
        return None if alone is None else (noun + 1, alone)  # "총장 입니다"

    def _stem(self, low: str) -> str:
        """A word without its case ending, if the rest is a noun."""
        known = self.nouns | {*self.rules.collectives}
        stems = [low] + [low[: -len(ending)] for ending, _ in self.language.cases if low.endswith(ending)]
        return next((stem for stem in stems if stem in known), low)

    def _is_plain(self, low: str, known: Collection[str]) -> bool:
        """Whether a word is one of these, or one of them with an ending that links it to the next noun."""
        return any(stem in known for stem in (low, *(low.removesuffix(link) for link in self.rules.noun_links)))
