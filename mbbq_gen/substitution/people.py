"""What two options say of the people they name, and what tells the one from the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from mbbq_gen.languages import NameGender
from mbbq_gen.substitution.words import Language, phrase, words_of

Attachment = Literal["noun", "adjective", "behind"]
"""How what tells a person apart stands in the description: as its noun ("the grandfather"), beside a noun that many
people could have ("the fat man"), or behind it ("the man with the wheelchair")."""
NAME_WORDS = 2
MANY_WORDS = 3
"""From so many telling words on, all of them must be there: one of them alone may speak of a thing."""


@dataclass(frozen=True)
class Person:
    """One of the two people of a question."""

    words: tuple[str, ...]
    """The description without its determiner, lower case."""
    noun: str
    """The word of the description that says what the person is: man, of "the fat man"."""
    telling: tuple[str, ...]
    """Those of the words that tell this person from the other, in order."""
    key: str
    """The telling word without which there is no mention."""
    attachment: Attachment
    is_name: bool = False
    """Whether the option is a first name already."""
    gender: NameGender | None = None
    """The grammatical gender that the option's article tells."""
    small: frozenset[str] = frozenset()
    """Small words, if these alone tell the two apart: Telugu ఉన్న and లేని, with and without. They may stand elsewhere."""
    apart_from: frozenset[str] = frozenset()
    """Small words that tell of the other person, if nothing but their lack tells this one: Arabic غير, not."""
    is_common: bool = False
    """Whether the option's article or classifier tells that it is no name."""
    is_several: bool = False
    """Whether the option's article tells that it is of several people."""

    @property
    def needs_all(self) -> bool:
        """Whether every telling word must be there."""
        many = len(self.telling) >= MANY_WORDS or bool(self.small or self.apart_from)
        return many or self.attachment == "behind"

    @property
    def left_over(self) -> tuple[str, ...]:
        """The telling words that may stand nowhere but in a mention."""
        return tuple(word for word in self.telling if word not in self.small)


def describe(options: tuple[str, str], language: Language) -> tuple[Person, Person] | None:
    """The two people; None where their descriptions do not tell them apart."""
    first, second = (_description(option, language) for option in options)
    one, other = _person(first, second, language), _person(second, first, language)
    if one is None or other is None:
        return None
    named = [_is_name(option, language) for option in options]
    if all(named) and all(_may_be_several(option, language) for option in options):
        named = [False, False]
    genders = [_gender(option, language) for option in options]
    common = [_is_common(option, language) for option in options]
    several = [
        bool({*phrase(option, language.control_set)[:1]} & {*language.rules.plural_determiners}) for option in options
    ]
    return (
        replace(one, is_name=named[0], gender=genders[0], is_common=common[0], is_several=several[0]),
        replace(other, is_name=named[1], gender=genders[1], is_common=common[1], is_several=several[1]),
    )


def describe_apart(options: tuple[str, str], language: Language) -> tuple[Person, Person]:
    """Two people whose places in the text are known, so that words need not tell them apart: every word of their
    descriptions tells of them, endings aside."""
    found = []
    for option in options:
        words = _description(option, language)
        content = [word for word in words if word not in language.rules.small_words and not language.is_head(word)]
        found.append(Person(words, words[-1], tuple(content) or words, words[-1], "adjective"))
    return found[0], found[1]


def _gender(option: str, language: Language) -> NameGender | None:
    """The grammatical gender that an option's article tells."""
    first, names = phrase(option, language.control_set)[:1], language.control_set.names
    if option in names.male or option in names.female:
        return "m" if option in names.male else "f"
    if first and first[0] in language.rules.male_determiners:
        return "m"
    return "f" if first and first[0] in language.rules.female_determiners else None


def _is_name(option: str, language: Language) -> bool:
    """Whether an option is a first name, perhaps with a surname: one or two words with capitals."""
    rules = language.rules
    if not rules.needs_determiner:
        return False  # a person has no determiner either
    words = words_of(option, language.control_set)
    while rules.name_form and len(words) > 1 and words[0].low in language.determiners:
        words = words[1:]
    if not words or words[0].low in language.determiners:
        return False
    return len(words) <= NAME_WORDS and all(word.text[0].isupper() for word in words)


def _is_common(option: str, language: Language) -> bool:
    """Whether an article or a classifier is joined to a word of an option: Arabic ال, Bengali টি."""
    words = words_of(option, language.control_set)
    classified = (
        any(words[-1].low.endswith(ending) for ending in language.rules.cases.get("def", ())) if words else False
    )
    return classified or any(len(word.text) > len(word.low) for word in words)


def _may_be_several(option: str, language: Language) -> bool:
    """Whether what looks like a name may be several people: "Muslims", which ends as they do and is no name we know."""
    names, rules = language.control_set.names, language.rules
    ends = option.lower().endswith((*rules.plural_signs, *rules.plural_endings))
    return ends and " " not in option and option not in (*names.female, *names.male)


def _description(option: str, language: Language) -> tuple[str, ...]:
    """The words of an option without the determiners before them."""
    words = phrase(option, language.control_set)
    if len(words) > 2 and words[0] in language.rules.small_words and words[1] in language.determiners:
        words = words[1:]  # "A la mujer", where the question asks to whom
    while len(words) > 1 and words[0] in language.determiners:
        words = words[1:]
    if language.rules.option_forms:
        return (*words[:-1], language.without_case(words[-1]))
    return (*words[:-1], *_without_suffix(words[-1], language.rules.noun_suffixes))


def _without_suffix(word: str, suffixes: Sequence[str]) -> tuple[str, ...]:
    """A word parted from the noun that closes it, if much is left."""
    for suffix in suffixes:
        if word.endswith(suffix) and len(word) > len(suffix) + 1:
            return word[: -len(suffix)], suffix
    return (word,)


def _person(own: tuple[str, ...], other: tuple[str, ...], language: Language) -> Person | None:
    """The person of a description, beside the other one's."""
    rules = language.rules
    small = language.link_words | language.determiners | {*rules.small_words, *rules.closing_verbs, *rules.copulas}
    content = [word for word in own if word not in small and (len(word) > 1 or word.isdigit() or rules.unspaced)]
    apart = [word for word in content if not any(language.same(word, theirs) for theirs in other)]
    apart = apart or [word for word in content if word not in other]
    split = len(own) if rules.unspaced or rules.noun_last else _link_place(own, language)
    before = own[:split]
    noun = _noun(own if rules.noun_anywhere else before, language)
    telling = [word for word in apart if not _is_weak(word, language)]
    apart_small, lacking = set[str](), set[str]()
    if not telling and (rules.noun_last or rules.verbs_agree):
        telling, apart_small = _told_by_small_words(own, other, content, language)
        if not telling and not [word for word in apart if not language.is_head(word)]:
            telling, lacking = _told_by_lack(own, other, content, language)
    telling = telling or [word for word in apart if not language.is_head(word)] or apart
    if (apart_small or lacking) and rules.head_first:
        telling = [word for word in telling if word != noun]
    if not telling:
        return None
    attachment: Attachment = "behind"
    if any(word in before for word in telling):
        attachment = "noun" if (noun in apart and not language.is_head(noun)) or noun in telling else "adjective"
        telling = [word for word in telling if word in before]
    key = telling[0 if language.rules.head_first else -1]
    return Person(
        own,
        noun,
        tuple(telling),
        key,
        attachment,
        small=frozenset(apart_small),
        apart_from=frozenset(lacking),
    )


def _is_weak(word: str, language: Language) -> bool:
    """Whether a word tells of a person only beside others: "other", "old"."""
    return language.is_head(word) or word in language.rules.modifiers


def _told_by_small_words(
    own: tuple[str, ...], other: tuple[str, ...], content: Sequence[str], language: Language
) -> tuple[list[str], set[str]]:
    """All that tells of a person whom only small words tell from the other, and these: वैकल्य and असलेला, of "वैकल्य असलेला
    मुलगा"; nothing where there is no such word."""
    small = {word for word in own if word not in content or word in language.rules.modifiers} - {*language.determiners}
    apart = small - set(other)
    apart = {word for word in apart if word not in language.rules.small_words} or apart  # बिना, of "बिना टैटू का"
    strong = [word for word in content if not _is_weak(word, language)]
    if not apart or not strong:
        return [], set()
    return [word for word in own if word in apart or word in strong], apart


def _told_by_lack(
    own: tuple[str, ...], other: tuple[str, ...], content: Sequence[str], language: Language
) -> tuple[list[str], set[str]]:
    """All that tells of a person whose description lacks a small word that the other one has, and these words; nothing
    where there is none."""
    strong = [word for word in content if not _is_weak(word, language)]
    more = [word for word in other if word not in own]
    small = {*language.rules.small_words, *language.link_words, *language.rules.modifiers}
    apart = {word for word in more if word in small}
    rest = [word for word in more if word not in small and not any(language.same(word, mine) for mine in own)]
    return (strong, apart) if strong and apart and not rest else ([], set())


def _noun(words: tuple[str, ...], language: Language) -> str:
    """The noun of a description."""
    if language.rules.noun_anywhere and words[-2:-1] and words[-2] not in language.link_words:
        return next((word for word in reversed(words) if language.is_head(word)), words[-1])
    if language.rules.adjective_endings:
        return next((word for word in words if not word.endswith(language.rules.adjective_endings)), words[-1])
    if language.rules.head_first and language.rules.verbs_agree:
        return next((word for word in words if language.is_head(word)), words[0])  # "un gros *voisin*"
    return words[0 if language.rules.head_first else -1]


def _link_place(words: tuple[str, ...], language: Language) -> int:
    """Where the first link stands; the number of words where there is none."""
    for place in range(1, len(words)):
        if any(words[place : place + len(link)] == link for link in language.links):
            return place
    return len(words)
