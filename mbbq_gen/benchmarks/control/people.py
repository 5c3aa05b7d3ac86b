"""Describes the two people of a question by the words that distinguish them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from mbbq_gen.benchmarks.control.words import Language
from mbbq_gen.languages.control_pack import NameGender

Attachment = Literal["noun", "adjective", "after"]
"""Position of the distinguishing words in a description: its noun ("the grandfather"), beside a general noun ("the fat
man"), or after it ("the man with the wheelchair")."""
NAME_WORDS = 2


@dataclass(frozen=True)
class PersonDescription:
    """One of the two people of a question."""

    words: tuple[str, ...]
    """The description without its determiner, lower case."""
    noun: str
    """The noun of the description: man, of "the fat man"."""
    distinctive: tuple[str, ...]
    """The words that distinguish this person from the other, in order."""
    key: str
    """The distinguishing word that every mention has."""
    attachment: Attachment
    is_name: bool = False
    gender: NameGender | None = None
    """The grammatical gender that the option's article shows."""
    small: frozenset[str] = frozenset()
    """Function words, if these alone distinguish the two: Telugu ఉన్న and లేని, with and without."""
    apart_from: frozenset[str] = frozenset()
    """Function words of the other person, if only their absence distinguishes this one: Arabic غير, not."""
    is_common: bool = False
    """Whether the option's article or classifier shows that it is not a name."""
    is_several: bool = False


People = tuple[PersonDescription, PersonDescription]
"""The two people of a question: target and other person."""


def describe_people(options: tuple[str, str], language: Language) -> People | None:
    """The descriptions of the two people; None if they do not distinguish them."""
    rules, names = language.rules, language.control_set.names
    first, second = (_description(option, language) for option in options)
    one, other = _person(first, second, language), _person(second, first, language)
    if one is None or other is None:
        return None
    found, known = list[PersonDescription](), (*names.female, *names.male)
    # "Muslims" looks like a name, but has a plural ending and is not a known name.
    ends = (*rules.plural_signs, *rules.plural_endings)
    may_be_several = all(one.lower().endswith(ends) and " " not in one and one not in known for one in options)
    are_names = [_is_name(option, language) for option in options]
    for option, person, is_name in zip(options, (one, other), are_names, strict=True):
        words, article = language.words(option), next(iter(language.phrase(option)), "")
        gender: NameGender | None = "f" if article in rules.female_determiners else None
        gender = "m" if article in rules.male_determiners else gender
        if option in known:
            gender = "m" if option in names.male else "f"
        # An article or a classifier may be joined to a word: Arabic ال, Bengali টি.
        classified = bool(words) and words[-1].low.endswith(rules.cases.get("def", ()))
        found.append(
            replace(
                person,
                is_name=is_name and not (all(are_names) and may_be_several),
                gender=gender,
                is_common=classified or any(len(word.text) > len(word.low) for word in words),
                is_several=article in rules.plural_determiners,
            )
        )
    return found[0], found[1]


def describe_apart(options: tuple[str, str], language: Language) -> People:
    """Descriptions of two people at known positions: all content words are distinguishing words."""
    found = []
    for option in options:
        words = _description(option, language)
        content = [word for word in words if word not in language.rules.small_words and not language.is_head(word)]
        found.append(PersonDescription(words, words[-1], tuple(content) or words, words[-1], "adjective"))
    return found[0], found[1]


def _is_name(option: str, language: Language) -> bool:
    """Whether an option is a first name, perhaps with a surname: one or two words with capitals."""
    if not language.rules.needs_determiner:
        return False  # a person has no determiner either
    words = language.words(option)
    while language.rules.name_form and len(words) > 1 and words[0].low in language.determiners:
        words = words[1:]
    is_short = 0 < len(words) <= NAME_WORDS and words[0].low not in language.determiners
    return is_short and all(word.text[0].isupper() for word in words)


def _description(option: str, language: Language) -> tuple[str, ...]:
    """The words of an option without determiners; a noun at the end of the last word is separated."""
    rules, words = language.rules, language.phrase(option)
    if len(words) > 2 and words[0] in rules.small_words and words[1] in language.determiners:
        words = words[1:]  # "A la mujer", where the question asks to whom
    while len(words) > 1 and words[0] in language.determiners:
        words = words[1:]
    last = words[-1]
    if rules.option_forms:  # without the ending of its case: the shortest stem with which it is in that case
        form, stem = language.case_and_stem(option)
        is_bare = not last.endswith((*rules.article_endings, *rules.plural_signs))
        return (*words[:-1], stem if form is not None and is_bare and rules.article_endings else last)
    suffixes = (suffix for suffix in rules.noun_suffixes if last.endswith(suffix) and len(last) > len(suffix) + 1)
    suffix = next(suffixes, "")
    return (*words[:-1], last.removesuffix(suffix), suffix) if suffix else words


def _person(own: tuple[str, ...], other: tuple[str, ...], language: Language) -> PersonDescription | None:
    rules = language.rules
    small = language.link_words | language.determiners | {*rules.small_words, *rules.closing_verbs, *rules.copulas}
    content = [word for word in own if word not in small and (len(word) > 1 or word.isdigit() or rules.unspaced)]
    apart = [word for word in content if not language.same_as_any(word, other)]
    apart = apart or [word for word in content if word not in other]
    split = len(own)  # where the first link stands
    if not (rules.unspaced or rules.noun_last):
        places = range(1, len(own))
        linked = (at for at in places if any(own[at : at + len(link)] == link for link in language.links))
        split = next(linked, split)
    before = own[:split]
    noun = _noun(own if rules.noun_anywhere else before, language)
    distinctive = [word for word in apart if not language.is_weak(word)]
    apart_small, lacking = set[str](), set[str]()
    strong = [word for word in content if not language.is_weak(word)]
    if not distinctive and (rules.noun_last or rules.verbs_agree):
        # Small words alone may distinguish the two: असलेला, of "वैकल्य असलेला मुलगा"; but बिना, of "बिना टैटू का".
        apart_small = {word for word in own if word not in content or word in rules.modifiers} - language.determiners
        apart_small -= set(other)
        apart_small = {word for word in apart_small if word not in rules.small_words} or apart_small
        apart_small = apart_small if strong else set()
        distinctive = [word for word in own if word in apart_small or word in strong] if apart_small else []
        if not distinctive and all(language.is_head(word) for word in apart):
            # Or only the other description has a small word.
            added = [word for word in other if word not in own]
            lacking = {*added} & ({*rules.small_words, *rules.modifiers} | language.link_words)
            is_lack = all(word in lacking or language.same_as_any(word, own) for word in added)
            lacking = lacking if strong and is_lack else set()
            distinctive = strong if lacking else []
    distinctive = distinctive or [word for word in apart if not language.is_head(word)] or apart
    if (apart_small or lacking) and rules.head_first:
        distinctive = [word for word in distinctive if word != noun]
    if not distinctive:
        return None
    attachment: Attachment = "after"
    if any(word in before for word in distinctive):
        attachment = "noun" if (noun in apart and not language.is_head(noun)) or noun in distinctive else "adjective"
        distinctive = [word for word in distinctive if word in before]
    key = distinctive[0 if rules.head_first else -1]
    return PersonDescription(
        own, noun, tuple(distinctive), key, attachment, small=frozenset(apart_small), apart_from=frozenset(lacking)
    )


def _noun(words: tuple[str, ...], language: Language) -> str:
    rules = language.rules
    if rules.noun_anywhere and words[-2:-1] and words[-2] not in language.link_words:
        return next((word for word in reversed(words) if language.is_head(word)), words[-1])
    if rules.adjective_endings:
        return next((word for word in words if not word.endswith(rules.adjective_endings)), words[-1])
    if rules.head_first and rules.verbs_agree:
        return next((word for word in words if language.is_head(word)), words[0])  # "un gros *voisin*"
    return words[0 if rules.head_first else -1]
