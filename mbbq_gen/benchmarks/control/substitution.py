"""Splits a text into pieces with slots for names, and writes names into the slots."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mbbq_gen.benchmarks.control.agreement import AgreementEdit, changes, compatible_genders, covered, preferred_gender
from mbbq_gen.benchmarks.control.mention import Mention, SubstitutionRefusedError, is_aside
from mbbq_gen.benchmarks.control.mentions import find_mentions
from mbbq_gen.benchmarks.control.people import People, PersonDescription, write_name
from mbbq_gen.benchmarks.control.spans import Places, part, slot_mentions
from mbbq_gen.benchmarks.control.words import LEAST_STEM, Language, Word
from mbbq_gen.languages.control_pack import ControlSet, NameGender

PHRASE_REACH = 2
"""How many words before a noun its determiner may be: "*একজন* ধনী ঠিকাদাৰ"."""
APPOSITION_REACH = 5
"""Most words between the commas behind a name: "Édouard, *séropositif depuis dix ans*, …"."""


def refuse_told_beside(words: Sequence[Word], mentions: Sequence[Mention], people: People, language: Language) -> None:
    """Raises SubstitutionRefusedError where words right beside a mention say more of a person than the mention."""
    if not language.rules.fenced:
        return
    inside = {place for mention in mentions for place in range(mention.first, mention.last + 1)}
    for mention in mentions:
        _refuse_complement(words, mention, inside, language)
        _refuse_cut_phrase(words, mention, inside, language)
    for number, person in enumerate(people):
        own = [mention for mention in mentions if mention.person == number]
        if own and _is_like_a_name(words, own, person, language):
            _refuse_apposition(words, own[0], inside, language)


def _refuse_complement(words: Sequence[Word], mention: Mention, inside: set[int], language: Language) -> None:
    """Raises where the word behind goes with the person: "директор *завода*", "un réfugié *syrien*"."""
    rules, place = language.rules, mention.last + 1
    if place >= len(words) or place in inside or words[place].gap or mention.by_verb:
        return
    behind, last = words[place].low, words[mention.last]
    is_complement = behind in rules.never_before or behind.endswith(rules.never_before_endings or "\0")
    if rules.only_before_endings:
        is_complement |= behind not in _functions(language) and not behind.endswith(rules.only_before_endings)
    if rules.article_prefix and mention.first == mention.last and not _has_article(last):
        is_complement |= _has_article(words[place])  # "حارس *العمارة*"
    if is_complement:
        raise SubstitutionRefusedError("group_stated_elsewhere", f"{last.text} {words[place].text}")


def _has_article(word: Word) -> bool:
    """Whether an article was joined to a word."""
    return len(word.text) > len(word.low) and word.text.endswith(word.low)


def _refuse_cut_phrase(words: Sequence[Word], mention: Mention, inside: set[int], language: Language) -> None:
    """Raises where a word that is no part of the option stands between a determiner and the person."""
    if not language.rules.noun_last or not mention.first or words[mention.first].gap or mention.by_verb:
        return
    if words[mention.first].low in language.determiners or words[mention.first - 1].low in _functions(language):
        return
    for place in range(mention.first - 1, max(mention.first - 1 - PHRASE_REACH, -1), -1):
        if place in inside:
            return
        if words[place].low in language.determiners:
            raise SubstitutionRefusedError(
                "group_stated_elsewhere", f"{words[place].text} … {words[mention.first].text}"
            )
        if words[place].gap:
            return


def _is_like_a_name(
    words: Sequence[Word], own: Sequence[Mention], person: PersonDescription, language: Language
) -> bool:
    """Whether a person is called by a name: in letters that have capitals, one within a sentence; in others, a word
    that never has a determiner and is none for people."""
    if person.is_name:
        return True
    if words[0].text[0].lower() != words[0].text[0].upper():
        there = [place for mention in own for place in range(mention.first, mention.last + 1)]
        return any(_is_proper(words, place) for place in there)
    if person.is_common or any(language.is_head(word) for word in person.words):
        return False
    return all(words[mention.first].low not in language.determiners for mention in own)


def _is_proper(words: Sequence[Word], place: int) -> bool:
    """Whether a word has a capital within a sentence."""
    word = words[place]
    opens = place == 0 or word.gap.endswith((".", "?", "!", "«", '"', "…"))
    return not opens and word.text[0].isupper() and not word.text.isupper()


def _refuse_apposition(words: Sequence[Word], mention: Mention, inside: set[int], language: Language) -> None:
    """Raises where a noun before a name, or a clause between commas behind it, may tell of the person."""
    before = words[mention.first - 1] if mention.first and not words[mention.first].gap else None
    if before is not None and mention.first - 1 not in inside:
        verb = before.low.endswith(language.rules.object_behind or "\0")
        if before.low not in _functions(language) and not verb:
            raise SubstitutionRefusedError("group_stated_elsewhere", f"{before.text} {words[mention.first].text}")
    behind = words[mention.last + 1 : mention.last + 2 + APPOSITION_REACH]
    if not behind or mention.last + 1 in inside:
        return
    relative = behind[0].low in {*language.link_words, *language.rules.clause_relatives}
    closes = relative or any(word.gap.startswith((",", "(", "—", "–")) for word in behind[1:])
    if behind[0].gap.startswith("(") or (behind[0].gap[:1] in (",", "—", "–") and closes):
        raise SubstitutionRefusedError("group_stated_elsewhere", f"{words[mention.last].text}, {behind[0].text}")


def _functions(language: Language) -> frozenset[str]:
    """Words beside a person that tell nothing of it."""
    rules = language.rules
    lists = (rules.small_words, rules.clause_words, rules.before_bare, rules.determiners, rules.beside)
    return frozenset(word for words in lists for word in words)


_KANA = re.compile("[ぁ-ゟ]")
"""Letters of Japanese endings."""
_APOSTROPHES = "'’"
PART_LENGTH = 2
"""Letters of a word in Chinese or Japanese."""
LIKE_LETTERS = 2
"""Letters that a man's form and a woman's have in common: buen, buena; mal, mala."""


@dataclass(frozen=True)
class NameSlot:
    """Where a name goes."""

    person: int
    form: str
    """Of `grammar.forms`; `""` for the name as it is."""
    was: str
    """The words that the name replaces."""
    before: str = ""
    """What stands before the name and stays, with its blank."""
    behind: str = ""
    """What is written behind it, with its blank."""
    goes_on: str = ""
    """The form that the name so written then takes, with a word behind it; `""` without one."""


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
    """What the names may be."""
    preferred: NameGender | None

    @property
    def people(self) -> frozenset[int]:
        """Who is mentioned."""
        return frozenset(piece.person for piece in self.pieces if isinstance(piece, NameSlot))

    @property
    def replaced(self) -> tuple[NameSlot, ...]:
        """The mentions, in order."""
        return tuple(piece for piece in self.pieces if isinstance(piece, NameSlot))


def plan_substitution(text: str, people: People, language: Language) -> SubstitutionPlan:
    """The plan of a text about two people.

    Raises:
        SubstitutionRefusedError: where not every mention can be replaced.
    """
    lines = text.split("\n")
    if language.rules.two_lines and len(lines) == len(_LINES):
        plans = [plan_substitution(line, people, language) for line in lines]
        if all(plan.pieces == (line,) for plan, line in zip(plans, lines, strict=True)):
            return SubstitutionPlan(
                (GenderSlot(text, tuple(zip(_LINES, lines, strict=True))),), frozenset(_LINES), None
            )
    either = _either_form(text, language)
    if either is not None:
        return either
    words = language.words(text, {word for person in people for word in person.words})
    return _planned(text, words, find_mentions(words, people, language), people, language)


def plan_from_spans(text: str, places: Places, people: People, language: Language) -> SubstitutionPlan:
    """The plan of a text that says itself where the two people stand.

    Raises:
        SubstitutionRefusedError: where not every mention can be replaced.
    """
    words = part(language.words(text), places, language)
    mentions = slot_mentions(words, places, people, language)
    inside = covered(mentions)
    outside = [word for place, word in enumerate(words) if place not in inside]
    for person in people:
        if all(language.is_head(word) for word in person.telling):
            several = tuple(noun + ending for noun in person.telling for ending in language.rules.plural_endings)
            for word in outside:
                if word.low.startswith(several) or any(language.same(word.low, noun) for noun in person.telling):
                    raise SubstitutionRefusedError("unreplaced_mention", word.text)
    return _planned(text, words, mentions, (_by_stems(people[0], language), _by_stems(people[1], language)), language)


def _by_stems(person: PersonDescription, language: Language) -> PersonDescription:
    """The person, described also by words without the endings that they have in the option: "조울증이", "조울증"."""
    stems = [stem for word in person.telling for stem in sorted(language.stems(word)) if len(stem) > 1]
    return replace(person, telling=tuple(dict.fromkeys((*person.telling, *stems))))


def _planned(
    text: str, words: Sequence[Word], mentions: Sequence[Mention], people: People, language: Language
) -> SubstitutionPlan:
    """The plan of a text with these mentions."""
    inside = covered(mentions)
    outside = [word for place, word in enumerate(words) if place not in inside]
    group_word = next((word.text for word in outside if word.low in language.rules.group_words), None)
    if mentions and group_word is not None:
        raise SubstitutionRefusedError("group_stated_elsewhere", group_word)
    for person in people:
        found = first_of(outside, person.left_over, language)
        if found is not None:
            raise SubstitutionRefusedError("unreplaced_mention", found)
        other = people[1] if person is people[0] else people[0]
        if language.rules.noun_last and mentions and not any(language.same(person.noun, own) for own in other.words):
            left = next((word.text for word in outside if language.same(word.low, person.noun)), None)
            if left is not None:  # "కాలేజీ అమ్మాయి" and then "ఆ అమ్మాయి"
                raise SubstitutionRefusedError("unreplaced_mention", left)
    if language.rules.fenced and mentions:
        parts = {part for person in people for word in person.telling if "-" in word for part in word.split("-")}
        for place, word in enumerate(words):
            if place in inside:
                continue
            determined = place > 0 and words[place - 1].low in language.determiners and not word.gap.strip("'’")
            alone = (
                language.rules.head_first and determined and not word.low.endswith(language.rules.plural_signs or "\0")
            )
            if (alone and any(language.same(word.low, person.noun) for person in people)) or any(
                language.same(word.low, part) for part in parts
            ):
                raise SubstitutionRefusedError("unreplaced_mention", word.text)
    if language.rules.unspaced:
        left = "\n".join(word.low for word in outside)
        found = next((part for part in _parts_apart(people) if part in left), None)
        if found is not None:
            raise SubstitutionRefusedError("unreplaced_mention", found)
    refuse_told_beside(words, mentions, people, language)
    genders = compatible_genders(words, mentions, language)
    if mentions and not genders:
        raise SubstitutionRefusedError("ambiguous_gender", "words of both genders")
    pieces = tuple(_pieces(text, words, mentions, changes(words, mentions, language), language))
    return SubstitutionPlan(pieces, genders, preferred_gender(words, mentions, language))


def _parts_apart(people: People) -> list[str]:
    """Where there are no blanks: the first and the last letters of what tells each person apart, of which a word may
    be made that tells it too."""
    both = ["".join(person.words) for person in people]
    parts = [part for person in people for word in person.telling for part in (word[:PART_LENGTH], word[-PART_LENGTH:])]
    telling = (part for part in parts if len(part) == PART_LENGTH and not _KANA.search(part))
    return [part for part in telling if not all(part in own for own in both)]


def _either_form(text: str, language: Language) -> SubstitutionPlan | None:
    """The plan of a question that asks of a man and of a woman ("un lector o una lectora"): one of them is used."""
    agreement = language.rules.agreement
    words = language.words(text) if agreement is not None and text.endswith("?") else []
    for place, word in enumerate(words):
        first = 2 * place + 1 - len(words)
        if agreement is None or word.low not in agreement.or_words or first < 0:
            continue
        one, other = words[first:place], words[place + 1 :]
        if not one or any(each.gap for each in (*one[1:], word, *other)):
            continue
        articles = (one[0].low, other[0].low)
        alike = all(a.low[:LIKE_LETTERS] == b.low[:LIKE_LETTERS] for a, b in zip(one[1:], other[1:], strict=True))
        if alike and articles in agreement.articles.items():
            start, end = one[0].start, other[-1].end
            forms: tuple[tuple[NameGender, str], ...] = (
                ("m", text[start : one[-1].end]),
                ("f", text[other[0].start : end]),
            )
            piece = GenderSlot(text[start:end], forms)
            return SubstitutionPlan((text[:start], piece, text[end:]), frozenset(_LINES), None)
    return None


def apply_plan(plan: SubstitutionPlan, names: tuple[str, str], gender: NameGender, control_set: ControlSet) -> str:
    """The text with the names of the two people, both of one gender."""
    return "".join(_written(plan.pieces, names, gender, control_set))


def _written(
    pieces: Sequence[Piece], names: tuple[str, str], gender: NameGender, control_set: ControlSet
) -> Iterator[str]:
    for piece in pieces:
        if isinstance(piece, NameSlot):
            name = names[piece.person]
            name = write_name(control_set, name, piece.form) if piece.form else name
            name = write_name(control_set, name, piece.goes_on) if piece.goes_on else name
            yield piece.before + (name if piece.before else _as_written(name, piece.was)) + piece.behind
        elif isinstance(piece, GenderSlot):
            yield dict(piece.by_gender).get(gender, piece.was)
        else:
            yield piece


def _pieces(
    text: str, words: Sequence[Word], mentions: Sequence[Mention], changed: Sequence[AgreementEdit], language: Language
) -> Iterator[Piece]:
    """The pieces of a text, in order."""
    spots: dict[int, tuple[int, Piece]] = {}
    for mention in mentions:
        start, end, name = _name_place(text, words, mention, language)
        spots[start] = (end, name)
    by_place: dict[int, dict[NameGender, str]] = {}
    for change in changed:
        by_place.setdefault(change.place, {})[change.gender] = change.text
    for place, genders in by_place.items():
        word = words[place]
        spots[word.start] = (word.end, GenderSlot(word.text, tuple(genders.items())))
    at = 0
    for start in sorted(spots):
        end, piece = spots[start]
        if start < at:
            continue
        if start > at:
            yield text[at:start]
        yield piece
        at = end
    if at < len(text):
        yield text[at:]


def _name_place(text: str, words: Sequence[Word], mention: Mention, language: Language) -> tuple[int, int, NameSlot]:
    """From and to where a name replaces the text, and how it is written."""
    rules, start, end = language.rules, words[mention.first].start, words[mention.last].end
    form = mention.case or ""
    if not form and mention.last + 1 < len(words):
        form, end = _apostrophe_case(text, words[mention.last + 1], end, language)
    end += _closing_comma(words, mention, language)
    kept, behind = mention.kept, f" {mention.behind}" if mention.behind else ""
    was = text[start:end]
    if kept in rules.before_names:
        return start, end, NameSlot(mention.person, rules.before_names[kept], was, behind=behind)
    if not kept and mention.first and words[mention.first].follows and (not form or rules.declensions):
        word = words[mention.first - 1]
        if word.low in rules.before_names:
            was = text[word.start : end]
            return word.start, end, NameSlot(mention.person, rules.before_names[word.low], was, behind=behind)
    before = _as_written(kept, was) + " " if kept else ""
    named = mention.by_verb and (bool(kept) or mention.bare)  # "es diu Anna", but "és l'Anna"
    form = form or ("" if named else rules.name_form or "")
    following = next((word for word in words[mention.last + 1 :] if word.start >= end), None)
    goes_on = rules.behind_names.get(following.low, "") if following is not None and not following.gap else ""
    if following is not None and goes_on:
        end = following.end
    return start, end, NameSlot(mention.person, form, was, before, behind, goes_on)


def _closing_comma(words: Sequence[Word], mention: Mention, language: Language) -> int:
    """1 where a comma closes the clause that the name replaces: Dutch "degene die lang is*,* zong", else 0."""
    rules, there = language.rules, words[mention.first : mention.last + 1]
    if any(is_aside(word, language) for word in there[1:]):
        return 1
    is_clause = there[-1].low in rules.closing_verbs and any(word.low in rules.relatives for word in there)
    if not is_clause or mention.by_verb or mention.last + 1 == len(words):
        return 0
    following, opens = words[mention.last + 1], mention.first == 0 or words[mention.first].gap.endswith((".", "?", "!"))
    opens = opens or words[mention.first - 1].low in set(rules.clause_words) - set(rules.before_bare)
    goes_on = following.low not in rules.clause_words and following.low not in language.determiners
    return int(opens and goes_on and following.gap == ",")


def _apostrophe_case(text: str, following: Word, end: int, language: Language) -> tuple[str, int]:
    """The form that an ending behind an apostrophe asks for, and where it ends: Turkish "torun'in".

    Raises:
        SubstitutionRefusedError: for an ending that the grammar does not know.
    """
    if following.gap in _APOSTROPHES and following.gap and text[following.start - 1] in _APOSTROPHES:
        for form, endings in language.rules.cases.items():
            if following.low in endings:
                return form, following.end
        if language.rules.cases:
            raise SubstitutionRefusedError("unknown_inflection", following.text)
    return "", end


def _as_written(kept: str, was: str) -> str:
    return kept[0].upper() + kept[1:] if was[0].isupper() else kept


def holds_any(text: str, telling: Sequence[str], language: Language) -> str | None:
    """The first word of a text that is one of these, endings aside; None where there is none."""
    return first_of(language.words(text, telling), telling, language)


def first_of(words: Sequence[Word], telling: Sequence[str], language: Language) -> str | None:
    """The first of the words that is one of these, endings aside; None where there is none."""
    strong = [word for word in telling if not language.is_head(word) and word not in language.rules.modifiers]
    strong = strong or (list(telling) if language.rules.nouns_placed else [])
    for word in words:
        if any(language.same(word.low, other) for other in strong):
            return word.text
        if language.rules.joined and any(
            word.low.startswith(start) for other in strong for start in _starts(other, language)
        ):
            return word.text
    return None


def _starts(word: str, language: Language) -> list[str]:
    """How other words begin in which a telling word may be: with it, or where what stands before an ending may differ
    from it, with what is left of it without one: Marathi शिंप, of शिंपी in शिंप्यासमोर."""
    stems, least = language.stems(word) if language.rules.noun_last else (), 2 if language.rules.article_prefix else 1
    return [start for start in (word, *stems) if len(start) > (least if start == word else LEAST_STEM)]
