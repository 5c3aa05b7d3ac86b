"""Chooses first names for two people, and writes them in the forms that a text needs."""

from __future__ import annotations

import itertools
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import NamedTuple

from mbbq_gen.core.errors import PackError
from mbbq_gen.core.files import stable_number
from mbbq_gen.languages.control_pack import ControlSet, NameGender, NameGrammar, NameRule
from mbbq_gen.languages.packs import fill

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
