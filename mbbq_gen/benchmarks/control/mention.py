"""The record of a mention, and the error for texts that are refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mbbq_gen.benchmarks.control.words import Language, Word
from mbbq_gen.languages.control_pack import NameGender


@dataclass(frozen=True)
class Mention:
    """A person mentioned."""

    person: int
    """0 or 1: which of the two."""
    first: int
    """Place of its first word."""
    last: int
    """Place of its last word."""
    kept: str = ""
    """What is left of a determiner that held another word: Spanish `a` of `al`."""
    case: str | None = None
    """The form of a name that the mention's ending asks for."""
    gender: NameGender | None = None
    """Its grammatical gender, where the determiner tells."""
    by_verb: bool = False
    """Whether a verb says who a stand-in before it is, which stays: "one was *fat*"."""
    behind: str = ""
    """What is written behind the name in place of a verb that the mention holds: Dutch "heet"."""
    bare: bool = False
    """Whether a verb of naming stands for its own before the comma: "one *was called* Ann and the other, Eve"."""
    inner: int | None = None
    """Place of its first word behind a stand-in that it holds: 3 in "the other who's fat"."""


class SubstitutionRefusedError(Exception):
    """A text in which not every mention can be replaced."""

    def __init__(self, reason: str, what: str) -> None:
        super().__init__(f"{reason}: {what}")
        self.reason = reason
        self.what = what


def is_aside(word: Word, language: Language) -> bool:
    """Whether a word opens a clause that commas set off."""
    return word.gap == "," and word.low in language.rules.asides


def shown(words: Sequence[Word], first: int, last: int) -> str:
    """The words from one place to another."""
    return " ".join(word.text for word in words[first : last + 1])


def refuse_beside(mentions: Sequence[Mention], words: Sequence[Word], language: Language) -> None:
    """Raises where a name can't stand beside what stands beside a mention."""
    _refuse_collisions(mentions, words, language)
    rules = language.rules
    for mention in mentions:
        before = words[max(mention.first - 2, 0) : mention.first]
        if len(before) < 2 or before[1].gap or words[mention.first].gap:
            continue
        if before[0].low in rules.clause_relatives and before[1].low in rules.told:
            raise SubstitutionRefusedError("group_stated_elsewhere", f"{before[0].text} {before[1].text}")
    _refuse_neighbours(mentions, words, language)
    _refuse_introduced(mentions, words, language)


def refuse_openers(mentions: Sequence[Mention], words: Sequence[Word], language: Language) -> None:
    """Raises where words say more of a person behind words that are no part of a mention: "is *dressed in* rags"."""
    inside = {place for mention in mentions for place in range(mention.first, mention.last + 1)}
    for one in range(len(words) - 1) if mentions else ():
        pair = f"{words[one].low} {words[one + 1].low}"
        if one not in inside and pair in language.rules.openers:
            raise SubstitutionRefusedError("group_stated_elsewhere", pair)


def _refuse_neighbours(mentions: Sequence[Mention], words: Sequence[Word], language: Language) -> None:
    """Raises where what stands right beside a person goes with it, or is a name (languages without blanks)."""
    rules = language.rules
    for mention in mentions:
        before = words[mention.first - 1] if mention.first and not words[mention.first].gap else None
        if before is not None and before.low.endswith(rules.never_behind) and not mention.by_verb:
            raise SubstitutionRefusedError("unreplaced_mention", before.text + words[mention.first].text)
        places = rules.agreement.places if rules.agreement else ()
        if before is not None and mention.by_verb and before.low in places:
            raise SubstitutionRefusedError("group_stated_elsewhere", f"{before.text} {words[mention.first].text}")
        behind = words[mention.last + 1] if mention.last + 1 < len(words) else None
        if behind is None or behind.gap:
            continue
        if behind.low in rules.collectives and not (rules.head_first or rules.joined or rules.unspaced):
            beside = shown(words, mention.first, mention.last + 1)  # "een arm gezin"
            raise SubstitutionRefusedError("group_stated_elsewhere", beside)
        if mention.by_verb and behind.low in rules.nominalizers:
            raise SubstitutionRefusedError("group_stated_elsewhere", words[mention.last].text + behind.text)
        if behind.low.startswith(rules.name_signs):
            raise SubstitutionRefusedError("adjacent_names", words[mention.last].text + behind.text)
        if behind.low in rules.copulas_before_nouns and mention.last + 2 < len(words):
            noun = words[mention.last + 2].low
            declined = language.is_head(noun) and language.case_of(noun, language.bases(())) is not None
            if declined or noun in rules.articles_behind:
                raise SubstitutionRefusedError("group_stated_elsewhere", f"{behind.text} {noun}")  # "Miren zen ikaslea"
        heads = tuple(head for head in rules.heads if len(head) > 1)
        grown = rules.joined and not rules.nouns_placed and not rules.article_prefix
        if grown and mention.case is None and behind.low.startswith(heads):
            raise SubstitutionRefusedError("unreplaced_mention", f"{words[mention.last].text} {behind.text}")
        if rules.unspaced and behind.low in {*rules.heads, *rules.collectives}:
            raise SubstitutionRefusedError("unreplaced_mention", words[mention.last].text + behind.text)
        if rules.only_before and not behind.low.startswith(rules.only_before):
            raise SubstitutionRefusedError("unreplaced_mention", words[mention.last].text + behind.text)


def _refuse_introduced(mentions: Sequence[Mention], words: Sequence[Word], language: Language) -> None:
    """Raises where a sentence introduces a person that it has named: "the parent drove *their* old parent", of two."""
    for place, mention in enumerate(mentions):
        if words[mention.first].low not in language.rules.introducing:
            continue
        for before in mentions[:place]:
            between = words[before.last + 1 : mention.first + 1]
            if before.person == mention.person and not any(mark in word.gap for word in between for mark in ".?!"):
                raise SubstitutionRefusedError("people_related", shown(words, mention.first, mention.last))


def _refuse_collisions(mentions: Sequence[Mention], words: Sequence[Word], language: Language) -> None:
    """Raises where two names would stand side by side, or an article before one."""
    ends = {mention.last for mention in mentions if mention.case is None}
    for mention in mentions:
        before = mention.first - 1
        if before < 0 or words[mention.first].gap:
            continue
        low = words[before].low
        article = (
            language.rules.needs_determiner
            and low in language.determiners
            and low not in language.rules.stand_ins
            and words[mention.first].low not in language.rules.definites
        )
        declined = language.rules.joined and mention.case is not None
        parted = declined or bool(mention.kept)  # "dallo psicologo *col* meccanico"
        if (before in ends and not parted) or article:
            raise SubstitutionRefusedError("adjacent_names", shown(words, before, mention.last))
