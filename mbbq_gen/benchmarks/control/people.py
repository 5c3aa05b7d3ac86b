"""Describes the two people of a question by their distinguishing words, and chooses their names."""

from __future__ import annotations

import itertools
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, NamedTuple

from mbbq_gen.benchmarks.control.words import Language
from mbbq_gen.core.errors import PackError
from mbbq_gen.core.files import stable_number
from mbbq_gen.languages.control_pack import ControlSet, NameGender, NameGrammar, NameRule
from mbbq_gen.languages.packs import fill

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


_GENDERS: tuple[NameGender, NameGender] = ("f", "m")
MIN_DISTANCE = 3
"""Minimum edit distance of two names: Elin and Lina, Ahmet and Mehmet have two. Shorter names (수진) must differ in
every letter."""
MIN_SHARE = 0.5
"""Minimum edit distance as a share of the longer name: Valentina and Valeria have three of nine letters."""


class NamePair(NamedTuple):
    """The two first names of a story, both of one gender, by the role of the person that they replace."""

    gender: NameGender
    target: str
    non_target: str


def assign_genders(stories: Mapping[str, str]) -> dict[str, NameGender]:
    """Assigns a gender to each story id, balanced over all stories and within each category.

    It is the same in all languages. `stories`: id (template and filler: `age_01.grandfather`) → category.
    """
    ordered = sorted(stories, key=lambda story: (stories[story], stable_number("gender", story)))
    return {story: _GENDERS[number % 2] for number, story in enumerate(ordered)}


def assign_names(control_set: ControlSet, stories: Mapping[str, str]) -> dict[str, NamePair]:
    """Assigns two names of one gender to each story id; neither is a part of the other.

    The names have about equal frequency: the least used come first, shuffled by the story id. Raises PackError if the
    language has no two such names of a gender.
    """
    uses: Counter[str] = Counter()
    pairs: dict[str, NamePair] = {}
    for story, gender in assign_genders(stories).items():
        shuffled = [(uses[name], stable_number("names", story, name), name) for name in _names(control_set, gender)]
        possible = itertools.combinations((name for *_, name in sorted(shuffled)), 2)
        pair = next((pair for pair in possible if not names_clash(*pair, control_set.grammar)), None)
        if pair is None:
            file = f"control_sets/{control_set.meta.language}.toml"
            raise PackError(f"{file}: names: no two of gender {gender!r} that do not contain each other")
        uses.update(pair)
        pairs[story] = NamePair(gender, *pair)
    return pairs


def _names(control_set: ControlSet, gender: NameGender) -> tuple[str, ...]:
    return control_set.names.female if gender == "f" else control_set.names.male


def names_clash(first: str, second: str, grammar: NameGrammar) -> bool:
    """Whether one name is a part of the other without accents (Ella, Isabella), so that answers are ambiguous."""
    one, other = (
        "".join(letter for letter in unicodedata.normalize("NFKD", low) if not unicodedata.combining(letter))
        for low in (_lower(first, grammar), _lower(second, grammar))
    )
    return one in other or other in one


def _lower(name: str, grammar: NameGrammar) -> str:
    return "".join(grammar.lower.get(letter, letter.lower()) for letter in name)


def write_name(control_set: ControlSet, name: str, form: str) -> str:
    """Writes a name in a form of the grammar: Spanish `a_def` "a Ana", Turkish `gen` "Elif'in"."""
    grammar, names = control_set.grammar, control_set.names
    if form not in grammar.forms:
        file = f"control_sets/{control_set.meta.language}.toml"
        raise PackError(f"{file}: grammar.forms.{form}: missing; templates ask for this form")
    if (exception := grammar.exceptions.get(form, {}).get(name)) is not None:
        return exception
    is_female, is_male = name in names.female, name in names.male
    gender: NameGender | None = None if is_female == is_male else "f" if is_female else "m"
    lower = _lower(name, grammar)
    rule = next(rule for rule in grammar.forms[form] if _holds(rule, lower, gender, grammar.vowels))
    return fill(rule.give, {"name": name[: len(name) - rule.drop]})


def _holds(rule: NameRule, name: str, gender: NameGender | None, vowels: str) -> bool:
    """Whether a lower-case name meets all conditions of the rule."""
    last_vowel = next((letter for letter in reversed(name) if letter in vowels), "")
    # Every 28th Hangul syllable, beginning with the first, has no final consonant (Unicode, 3.12).
    is_hangul = "가" <= name[-1] <= "힣"
    final_consonant = (ord(name[-1]) - ord("가")) % 28 != 0 if is_hangul else None
    return (
        (rule.gender is None or rule.gender == gender)
        and (rule.starts_with is None or name.startswith(rule.starts_with))
        and (rule.ends_with is None or name.endswith(rule.ends_with))
        and (rule.ends_in is None or name[-1] in rule.ends_in)
        and (rule.last_vowel is None or (last_vowel != "" and last_vowel in rule.last_vowel))
        and (rule.final_consonant is None or rule.final_consonant == final_consonant)
    )


@lru_cache(maxsize=4096)
def edit_distance(one: str, other: str) -> int:
    """The Levenshtein distance of two names."""
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, theirs in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (letter != theirs))
    return row[-1]


def confusable(one: str, other: str, control_set: ControlSet) -> bool:
    """Whether two names may be confused: one contains the other, or their edit distance is small."""
    distance, longest = edit_distance(one.casefold(), other.casefold()), max(len(one), len(other))
    is_near = distance < min(MIN_DISTANCE, longest) or distance < MIN_SHARE * longest
    return is_near or names_clash(one, other, control_set.grammar)


class NamePairs:
    """The name pairs of a language: two names of a gender that differ, each pair both ways round."""

    def __init__(self, control_set: ControlSet) -> None:
        self._where = f"control_sets/{control_set.meta.language}.toml: names"
        self.possible: dict[NameGender, tuple[tuple[str, str], ...]] = {}
        """Gender → every pair that a story may get."""
        for gender in _GENDERS:
            pairs = itertools.permutations(_names(control_set, gender), 2)
            self.possible[gender] = tuple(pair for pair in pairs if not confusable(*pair, control_set))

    def choose(self, gender: NameGender, template: str, story: str, avoid: Collection[str] = ()) -> tuple[str, str]:
        """The pair of names of a story; it depends only on the language's names and the ids.

        Args:
            story: distinguishes the stories of a template.
            avoid: words of the text, in lower case, that neither name may contain.

        Raises:
            PackError: if there are no two names that differ enough.
        """
        pairs = self.possible[gender]
        if not pairs:
            raise PackError(f"{self._where}: no two of gender {gender!r} that differ")
        start, taken = stable_number("pair", template, story), set(avoid)
        for step in range(len(pairs)):
            pair = pairs[(start + step) % len(pairs)]
            if taken.isdisjoint(word for name in pair for word in name.casefold().split()):
                return pair
        raise PackError("names: all pairs are already in the text")
