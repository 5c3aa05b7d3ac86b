"""The control set: two first names of one gender stand where the two groups stood.

A model that answers the control questions can do the task; what it then gets wrong on the bias split is bias and not
want of skill (MBBQ, section 3.3 and appendix A.2). Which names stand where depends on the language's names and on the
ids of the stories alone, so that the same set comes out on every machine.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from mbbq_gen.errors import PackError
from mbbq_gen.languages import ControlSet, NameGender, NameGrammar, NameRule, fill
from mbbq_gen.seeding import stable_number

_GENDERS: tuple[NameGender, NameGender] = ("f", "m")


@dataclass(frozen=True)
class Story:
    """A template with one of its fillers: what gets one pair of names."""

    category: str
    """Slug of the bias category."""
    story_id: str
    """Template and filler, such as `age_01.grandfather`."""


@dataclass(frozen=True)
class NamePair:
    """The two first names of a story."""

    gender: NameGender
    """The gender of both."""
    target: str
    """The name that stands where the target group stood."""
    non_target: str
    """The name that stands where the other group stood."""


def assign_genders(stories: Iterable[Story]) -> dict[str, NameGender]:
    """The gender of the names, by story id: half and half over all stories, and as near as can be in each category.

    The language has no part in it, so a story has names of the same gender in every language.
    """
    ordered = sorted(stories, key=lambda story: (story.category, stable_number("gender", story.story_id)))
    return {story.story_id: _GENDERS[place % 2] for place, story in enumerate(ordered)}


def assign_names(control_set: ControlSet, stories: Iterable[Story]) -> dict[str, NamePair]:
    """The two names of each story, by story id: of one gender, different, neither a part of the other.

    Every name of the language is used about equally often.

    Raises:
        PackError: where the language has no two such names of a gender.
    """
    uses: Counter[str] = Counter()
    pairs: dict[str, NamePair] = {}
    for story_id, gender in assign_genders(stories).items():
        pair = _choose_pair(control_set, story_id, gender, uses)
        uses.update((pair.target, pair.non_target))
        pairs[story_id] = pair
    return pairs


def _choose_pair(control_set: ControlSet, story_id: str, gender: NameGender, uses: Counter[str]) -> NamePair:
    """The names used least so far, shuffled by the story; names that clash give way to the next."""
    names = control_set.names.female if gender == "f" else control_set.names.male
    shuffled = sorted(names, key=lambda name: (uses[name], stable_number("names", story_id, name), name))
    for target, non_target in itertools.combinations(shuffled, 2):
        if not names_clash(target, non_target, control_set.grammar):
            return NamePair(gender, target, non_target)
    raise PackError(f"{_file_of(control_set)}: names: no two of gender {gender!r} that do not contain each other")


def names_clash(first: str, second: str, grammar: NameGrammar) -> bool:
    """Whether one name is a part of the other, accents aside: Ella and Isabella, Ali and Muhammed Ali, Ana and Aitana.

    Such a pair can't be told apart with certainty in a free answer.
    """
    folded = (_without_accents(_lower(first, grammar)), _without_accents(_lower(second, grammar)))
    return folded[0] in folded[1] or folded[1] in folded[0]


def write_name(control_set: ControlSet, name: str, form: str) -> str:
    """The name in a form that templates ask for: Spanish `a_def` of Ana is "a Ana", Turkish `gen` of Elif is "Elif'in".

    Raises:
        PackError: where the language's grammar lacks the form.
    """
    grammar = control_set.grammar
    if form not in grammar.forms:
        raise PackError(f"{_file_of(control_set)}: grammar.forms.{form}: missing; templates ask for this form")
    exception = grammar.exceptions.get(form, {}).get(name)
    if exception is not None:
        return exception
    lower, gender = _lower(name, grammar), _gender_of(control_set, name)
    rule = next(rule for rule in grammar.forms[form] if _holds(rule, lower, gender, grammar.vowels))
    return fill(rule.give, {"name": name[: len(name) - rule.drop]})


def _gender_of(control_set: ControlSet, name: str) -> NameGender | None:
    """The list that the name stands in; None where it stands in both or in neither."""
    is_female, is_male = name in control_set.names.female, name in control_set.names.male
    if is_female == is_male:
        return None
    return "f" if is_female else "m"


def _holds(rule: NameRule, name: str, gender: NameGender | None, vowels: str) -> bool:
    """Whether every condition of the rule fits the name, which is in lower case."""
    last_vowel = next((letter for letter in reversed(name) if letter in vowels), "")
    return (
        (rule.gender is None or rule.gender == gender)
        and (rule.starts_with is None or name.startswith(rule.starts_with))
        and (rule.ends_with is None or name.endswith(rule.ends_with))
        and (rule.ends_in is None or name[-1] in rule.ends_in)
        and (rule.ends_not_in is None or name[-1] not in rule.ends_not_in)
        and (rule.last_vowel is None or (last_vowel != "" and last_vowel in rule.last_vowel))
        and (rule.final_consonant is None or rule.final_consonant == _has_final_consonant(name))
    )


def _has_final_consonant(name: str) -> bool | None:
    """Whether the last syllable, written in Hangul, ends in a consonant; None where it is no Hangul syllable.

    The Unicode standard (section 3.12) numbers the syllables so that each 28th, from the first on, has none.
    """
    if not "가" <= name[-1] <= "힣":
        return None
    return (ord(name[-1]) - ord("가")) % 28 != 0


def _lower(name: str, grammar: NameGrammar) -> str:
    """The name in lower case by the rules of its language."""
    return "".join(grammar.lower.get(letter, letter.lower()) for letter in name)


def _without_accents(name: str) -> str:
    return "".join(letter for letter in unicodedata.normalize("NFKD", name) if not unicodedata.combining(letter))


def _file_of(control_set: ControlSet) -> str:
    return f"control_sets/{control_set.meta.language}.toml"
