"""Splits a text into pieces with slots for names, and writes names into the slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mbbq_gen.benchmarks.control.agreement import GenderedText
from mbbq_gen.benchmarks.control.mention_grammar import Mention, SubstitutionRefusedError, is_aside
from mbbq_gen.benchmarks.control.mentions import find_mentions
from mbbq_gen.benchmarks.control.people import People, write_name
from mbbq_gen.benchmarks.control.refusals import Refusals
from mbbq_gen.benchmarks.control.spans import Places, SlotMentions, part
from mbbq_gen.benchmarks.control.words import Language, Word
from mbbq_gen.languages.control_pack import ControlSet, NameGender

_APOSTROPHES = "'’"
LIKE_LETTERS = 2
"""Letters that a man's form and a woman's have in common: buen, buena; mal, mala."""


@dataclass(frozen=True)
class NameSlot:
    """Where a name goes."""

    person: int
    form: str
    """Of `grammar.forms`; `""` for the name as it is."""
    was: str
    before: str = ""
    """What stands before the name and stays, with its blank."""
    behind: str = ""
    """What is written after it, with its blank."""
    goes_on: str = ""
    """The form that the name so written then takes, with a word after it; `""` without one."""


@dataclass(frozen=True)
class GenderSlot:
    """A word that follows the gender of the names."""

    was: str
    by_gender: tuple[tuple[NameGender, str], ...]


Piece = str | NameSlot | GenderSlot
_LINES: tuple[NameGender, NameGender] = ("m", "f")
"""Whom the two lines of a question ask about, where it has two."""


@dataclass(frozen=True)
class SubstitutionPlan:
    """A text ready for names."""

    pieces: tuple[Piece, ...]
    genders: frozenset[NameGender]
    preferred: NameGender | None

    @property
    def people(self) -> frozenset[int]:
        """Who is mentioned."""
        return frozenset(slot.person for slot in self.replaced)

    @property
    def replaced(self) -> tuple[NameSlot, ...]:
        """The mentions, in order."""
        return tuple(piece for piece in self.pieces if isinstance(piece, NameSlot))


def plan_substitution(text: str, people: People, language: Language) -> SubstitutionPlan:
    """The plan of a text about two people; raises SubstitutionRefusedError where not every mention can be replaced."""
    lines = text.split("\n")
    if language.rules.two_lines and len(lines) == len(_LINES):
        plans = [plan_substitution(line, people, language) for line in lines]
        if all(plan.pieces == (line,) for plan, line in zip(plans, lines, strict=True)):
            slot = GenderSlot(text, tuple(zip(_LINES, lines, strict=True)))
            return SubstitutionPlan((slot,), frozenset(_LINES), None)
    either = _either_form(text, language)
    if either is not None:
        return either
    words = language.words(text, {word for person in people for word in person.words})
    mentions = find_mentions(words, people, language)
    refusals = Refusals(words, mentions, language)
    refusals.refuse_beside()
    refusals.refuse_openers()
    return _planned(text, refusals, people)


def plan_from_spans(text: str, places: Places, people: People, language: Language) -> SubstitutionPlan:
    """The plan of a text that says itself where the two people stand; raises as `plan_substitution` does."""
    words = part(language.words(text), places, language)
    refusals = Refusals(words, SlotMentions(words, places, people, language).find(), language)
    refusals.refuse_beside()
    refusals.refuse_heads(people)
    inflected = []  # described also by words without the endings that they have in the option: "조울증이", "조울증"
    for person in people:
        stems = [stem for word in person.telling for stem in sorted(language.stems(word)) if len(stem) > 1]
        inflected.append(replace(person, telling=tuple(dict.fromkeys((*person.telling, *stems)))))
    return _planned(text, refusals, (inflected[0], inflected[1]))


def _planned(text: str, refusals: Refusals, people: People) -> SubstitutionPlan:
    words, mentions, language = refusals.words, refusals.mentions, refusals.language
    refusals.refuse_left_over(people)
    refusals.refuse_described_beside(people)
    gendered = GenderedText(words, mentions, language)
    genders = gendered.compatible_genders()
    if mentions and not genders:
        raise SubstitutionRefusedError("ambiguous_gender", "words of both genders")
    spots: dict[int, tuple[int, Piece]] = {}
    """Where a piece starts → where it ends, and what it is."""
    for mention in mentions:
        start, end, name = _name_place(text, words, mention, language)
        spots[start] = (end, name)
    for place, by_gender in gendered.changes().items():
        word = words[place]
        spots[word.start] = (word.end, GenderSlot(word.text, tuple(by_gender.items())))
    pieces, at = list[Piece](), 0
    for start, (end, piece) in sorted(spots.items(), key=lambda spot: spot[0]):
        if start >= at:
            pieces += [text[at:start], piece] if start > at else [piece]
            at = end
    pieces += [text[at:]] if at < len(text) else []
    return SubstitutionPlan(tuple(pieces), genders, gendered.preferred_gender())


def _either_form(text: str, language: Language) -> SubstitutionPlan | None:
    """The plan of a question that asks of a man and of a woman ("un lector o una lectora"): one of them is used."""
    agreement = language.rules.agreement
    if agreement is None or not text.endswith("?"):
        return None
    words = language.words(text)
    for place, word in enumerate(words):
        first = 2 * place + 1 - len(words)
        if word.low not in agreement.or_words or first < 0:
            continue
        one, other = words[first:place], words[place + 1 :]
        if not one or any(each.gap for each in (*one[1:], word, *other)):
            continue
        articles = (one[0].low, other[0].low)
        alike = all(a.low[:LIKE_LETTERS] == b.low[:LIKE_LETTERS] for a, b in zip(one[1:], other[1:], strict=True))
        if alike and articles in agreement.articles.items():
            start, end = one[0].start, other[-1].end
            man, woman = text[start : one[-1].end], text[other[0].start : end]
            slot = GenderSlot(text[start:end], tuple(zip(_LINES, (man, woman), strict=True)))
            return SubstitutionPlan((text[:start], slot, text[end:]), frozenset(_LINES), None)
    return None


def apply_plan(plan: SubstitutionPlan, names: tuple[str, str], gender: NameGender, control_set: ControlSet) -> str:
    """The text with the names of the two people, both of one gender."""
    written = []
    for piece in plan.pieces:
        if isinstance(piece, NameSlot):
            name = names[piece.person]
            for form in filter(None, (piece.form, piece.goes_on)):
                name = write_name(control_set, name, form)
            written += [piece.before, name if piece.before else _as_written(name, piece.was), piece.behind]
        elif isinstance(piece, GenderSlot):
            written.append(dict(piece.by_gender).get(gender, piece.was))
        else:
            written.append(piece)
    return "".join(written)


def _name_place(text: str, words: Sequence[Word], mention: Mention, language: Language) -> tuple[int, int, NameSlot]:
    """From and to where a name replaces the text, and how it is written."""
    rules, start, end = language.rules, words[mention.first].start, words[mention.last].end
    form = mention.case or ""
    for ending in words[mention.last + 1 : mention.last + 2] if not form else ():
        # An ending after an apostrophe asks for a form: Turkish "torun'in".
        if ending.gap and ending.gap in _APOSTROPHES and text[ending.start - 1] in _APOSTROPHES and rules.cases:
            forms = [form for form, endings in rules.cases.items() if ending.low in endings]
            if not forms:
                raise SubstitutionRefusedError("unknown_inflection", ending.text)
            form, end = forms[0], ending.end
    end += _closes_with_comma(words, mention, language)
    kept, behind = mention.kept, f" {mention.behind}" if mention.behind else ""
    before = words[mention.first - 1] if mention.first and words[mention.first].follows else None
    joined = kept
    if not kept and before is not None and (not form or rules.declensions) and before.low in rules.before_names:
        start, joined = before.start, before.low
    if joined in rules.before_names:
        return start, end, NameSlot(mention.person, rules.before_names[joined], text[start:end], behind=behind)
    named = mention.by_verb and (bool(kept) or mention.bare)  # "es diu Anna", but "és l'Anna"
    form = form or ("" if named else rules.name_form or "")
    following = next((word for word in words[mention.last + 1 :] if word.start >= end), None)
    was, goes_on = text[start:end], ""
    if following is not None and not following.gap and (goes_on := rules.behind_names.get(following.low, "")):
        end = following.end
    kept = f"{_as_written(kept, was)} " if kept else ""
    return start, end, NameSlot(mention.person, form, was, kept, behind, goes_on)


def _closes_with_comma(words: Sequence[Word], mention: Mention, language: Language) -> bool:
    """Whether a comma closes the clause that the name replaces: Dutch "degene die lang is*,* zong"."""
    rules, there = language.rules, words[mention.first : mention.last + 1]
    if any(is_aside(word, language) for word in there[1:]):
        return True
    is_clause = there[-1].low in rules.closing_verbs and any(word.low in rules.relatives for word in there)
    if not is_clause or mention.by_verb or mention.last + 1 == len(words):
        return False
    following, opens = words[mention.last + 1], mention.first == 0 or words[mention.first].gap.endswith((".", "?", "!"))
    opens = opens or words[mention.first - 1].low in set(rules.clause_words) - set(rules.before_bare)
    goes_on = following.low not in rules.clause_words and following.low not in language.determiners
    return opens and goes_on and following.gap == ","


def _as_written(kept: str, was: str) -> str:
    return kept[0].upper() + kept[1:] if was[0].isupper() else kept
