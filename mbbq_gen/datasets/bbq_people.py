"""Who the two people of a BBQ template may be: words that the template lists, vocabulary words, or proper names.

The rules; the first one that fits a template holds. "Drawn" is decided by the seed, the same on every machine.

1. Intersectional templates: for every stereotyped race (five at most) or for five names of a stereotyped race and the
   stated gender, five times: (a) the same race and the other gender or status, (b) the same gender or status and
   another race, (c) both different. Other races, names, occupations and words for the status are drawn.
2. The template lists words itself (`Names`): every word of NAME1 with every word of NAME2. Only these are not swapped:
   a second version of the template does that.
3. Proper names. Race_ethnicity: five names of stereotyped ethnicities, each with five of the same gender and other
   ethnicities, all with a family name of their ethnicity. Gender_identity: five women's names, each with five men's.
   Elsewhere: six names, each with the other five.
4. Gender_identity: every word of the subcategory with every other one. They are in both orders as they come.
5. Occupations: five, each with all of the opposite level.
6. Otherwise every stereotyped word of the category's vocabulary, five at most, each with five others (all, if there are
   fewer). Words with `No` in `Pilot_include` are left out.

Except under 2 and 4 every pair comes in both orders. Where a group is told by the slot and not by the name
("{{NAME1}}, who is …"), it stays with the slot when the names are swapped. The published rows let it go with the name:
in half of the rows of Gender_identity 35 and 36 and SES 8 their group tags contradict the text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, StringConstraints

from mbbq_gen.datasets.bbq import one_form
from mbbq_gen.datasets.bbq_template_rows import GENDERS, LEVELS, TemplateRow
from mbbq_gen.datasets.slots import parallel_forms, parse_lists
from mbbq_gen.records import NonBlank
from mbbq_gen.seeding import stable_number

_DRAWN: Final = 5
"""How many are drawn where there are more."""
_RACES: Final = "Race_ethnicity"
_GENDER: Final = "Gender_identity"
_NATIONALITY: Final = "Nationality"
_OCCUPATION: Final = "Occupation"

Text = Annotated[str, StringConstraints(strip_whitespace=True)]
Filled = Annotated[NonBlank, StringConstraints(strip_whitespace=True)]
T = TypeVar("T")


class VocabularyRow(BaseModel):
    """A row of `vocabulary.csv`."""

    model_config = ConfigDict(frozen=True)

    Category: Filled
    Pilot_include: Text = ""
    """`No` leaves the row out."""
    SubCat: Text = ""
    Name: Filled
    Info: Text = ""
    """Level of an occupation, region of a nationality."""


class ProperNameRow(BaseModel):
    """A row of `vocabulary_proper_names.csv`."""

    model_config = ConfigDict(frozen=True)

    Name: Filled
    First_last: Literal["first", "last", "first_only"]
    """A first or a family name of an ethnicity, or a first name that goes with no ethnicity."""
    gender: Literal["M", "F", ""] = ""
    ethnicity: Text = ""


@dataclass(frozen=True)
class Vocabulary:
    """The words that templates draw on where they list none."""

    words: tuple[VocabularyRow, ...] = ()
    names: tuple[ProperNameRow, ...] = ()

    def of(self, category: str, subcategory: str = "") -> list[VocabularyRow]:
        """The words of a category that are in use, and of its subcategory where one is named."""
        return [
            row
            for row in self.words
            if row.Category == category and subcategory in ("", row.SubCat) and row.Pilot_include.casefold() != "no"
        ]

    def first_names(self, ethnic: bool) -> list[ProperNameRow]:
        """First names that go with an ethnicity, or those that go with none."""
        return [row for row in self.names if row.First_last == ("first" if ethnic else "first_only")]

    def family_names(self, ethnicity: str) -> list[str]:
        """The family names of an ethnicity."""
        return [row.Name for row in self.names if row.First_last == "last" and row.ethnicity == ethnicity]


@dataclass(frozen=True)
class Person:
    """One of the two people of a filled template."""

    term: str
    """What stands in NAME1 or NAME2."""
    group: str
    """The group, as the data set labels it."""
    second: str = ""
    """What stands in GEN1 or OCC1, in an intersectional template."""

    def fills(self, number: int) -> dict[str, str]:
        """What stands in each slot of person 1 or 2."""
        more = {f"GEN{number}": self.second, f"OCC{number}": self.second} if self.second else {}
        return {f"NAME{number}": self.term} | more

    @property
    def words(self) -> str:
        """The words that tell this person from the other one."""
        return f"{self.term} {self.second}".strip()


@dataclass(frozen=True)
class Pair:
    """NAME1 and NAME2."""

    first: Person
    second: Person
    kind: str = ""
    """Which of the three comparisons it is, in an intersectional template."""
    target: int | None = None
    """0 or 1; None where none or both are stereotyped."""
    lot: str = ""
    """What the words of the template are drawn by: the same for a pair in both orders."""


@dataclass(frozen=True)
class Draws:
    """Choices of a template by lot: all depend on the seed and on what they are about, and on nothing else."""

    seed: int
    about: tuple[str, ...]
    """Category, template and row."""

    def some(self, items: Sequence[T], count: int, *about: object) -> list[T]:
        """That many of the items, in their order; all, if there are no more.

        Which ones are drawn depends on the places, not on the texts, of the items.
        """
        if len(items) <= count:
            return list(items)
        order = sorted(range(len(items)), key=lambda place: stable_number(self.seed, *self.about, *about, place))
        return [items[place] for place in sorted(order[:count])]

    def one(self, items: Sequence[T], *about: object) -> T:
        """One of the items.

        Raises:
            ValueError: where there are none; names what for.
        """
        if not items:
            raise ValueError(f"no {about[0]} to draw from; add words to the vocabulary")
        return items[stable_number(self.seed, *self.about, *about) % len(items)]


def pairs_of_people(template: TemplateRow, category: str, vocabulary: Vocabulary, draws: Draws) -> list[Pair]:
    """NAME1 and NAME2 of every filled template.

    Raises:
        ValueError: where a list is missing or broken, or the vocabulary has no fitting word.
    """
    if template.is_intersectional:
        return _in_both_orders(_intersectional(template, vocabulary, draws))
    if template.Names:
        return [_with_target(pair, template) for pair in _listed(template)]
    if template.Proper_nouns_only:
        return [_with_target(pair, template) for pair in _named(template, category, vocabulary, draws)]
    words = vocabulary.of(category, template.Subcategory)
    if category == _GENDER:
        pairs = [Pair(_by_word(one), _by_word(other)) for one in words for other in words if one != other]
        return [_with_target(replace(pair, lot=str(number)), template) for number, pair in enumerate(pairs)]
    if template.Subcategory == _OCCUPATION:
        return [_with_target(pair, template) for pair in _in_both_orders(_occupations(words, draws))]
    return _in_both_orders(_groups(template, words, draws, by_region=category == _NATIONALITY))


def _in_both_orders(pairs: Iterable[Pair]) -> list[Pair]:
    """Every pair, followed by itself with the people swapped."""
    return [each for number, pair in enumerate(pairs) for each in _orders(replace(pair, lot=str(number)))]


def _orders(pair: Pair) -> tuple[Pair, Pair]:
    target = None if pair.target is None else 1 - pair.target
    return pair, replace(pair, first=pair.second, second=pair.first, target=target)


def _with_target(pair: Pair, template: TemplateRow) -> Pair:
    """The pair with its one stereotyped person as target."""
    wanted = {one_form(group) for group in template.stereotyped_groups}
    found = [place for place, person in enumerate((pair.first, pair.second)) if one_form(person.group) in wanted]
    return replace(pair, target=found[0] if len(found) == 1 else None)


# --- listed in the template ------------------------------------------------------------------------------------------


def _listed(template: TemplateRow) -> list[Pair]:
    lists = parse_lists(template.Names)
    first, second = parallel_forms(lists, "NAME1", ("",)), parallel_forms(lists, "NAME2", ("",))
    for slot, words in (("NAME1", first), ("NAME2", second)):
        if not words:
            raise ValueError(f"{slot} is not listed; write {slot}: [one, two]")
    people = [
        (Person(one[""], template.NAME1_info or one[""]), Person(other[""], template.NAME2_info or other[""]))
        for one in first
        for other in second
    ]
    return [Pair(one, other, lot=str(number)) for number, (one, other) in enumerate(people)]


# --- proper names ----------------------------------------------------------------------------------------------------


def _named(template: TemplateRow, category: str, vocabulary: Vocabulary, draws: Draws) -> list[Pair]:
    """Pairs of proper names, in both orders, with the groups that the template's slots tell."""
    if category == _RACES:
        return _in_both_orders(_ethnic_names(template, vocabulary, draws))
    names = vocabulary.first_names(ethnic=False)
    pairs: list[Pair] = []
    if category == _GENDER:
        women = [name for name in names if name.gender == "F"]
        men = [name for name in names if name.gender == "M"]
        for woman in draws.some(women, _DRAWN, "women's names"):
            pairs += [Pair(_by_first_name(woman), _by_first_name(man)) for man in draws.some(men, _DRAWN, woman.Name)]
    else:
        six = draws.some(names, _DRAWN + 1, "names")
        pairs = [Pair(_by_first_name(one), _by_first_name(other)) for one in six for other in six if one != other]
    return [_with_slot_groups(pair, template, with_gender=category == _GENDER) for pair in _in_both_orders(pairs)]


def _with_slot_groups(pair: Pair, template: TemplateRow, *, with_gender: bool) -> Pair:
    """The pair with the groups that the template gives to NAME1 and NAME2, whoever they are; `trans_F` with gender."""
    if not template.NAME1_info or not template.NAME2_info:
        return pair
    first, second = (
        replace(person, group=f"{info}_{person.group}" if with_gender else info)
        for person, info in ((pair.first, template.NAME1_info), (pair.second, template.NAME2_info))
    )
    return replace(pair, first=first, second=second)


def _by_first_name(name: ProperNameRow) -> Person:
    return Person(name.Name, name.gender)


def _ethnic_names(template: TemplateRow, vocabulary: Vocabulary, draws: Draws) -> Iterator[Pair]:
    names = vocabulary.first_names(ethnic=True)
    targets = [name for name in names if name.ethnicity in template.stereotyped_groups]
    others = [name for name in names if name.ethnicity not in template.stereotyped_groups]
    for name in draws.some(targets, _DRAWN, "targets"):
        target = _by_full_name(name, vocabulary, draws)
        same_gender = [other for other in others if other.gender == name.gender]
        for other in draws.some(same_gender, _DRAWN, "others", name.Name):
            yield Pair(target, _by_full_name(other, vocabulary, draws, name.Name), target=0)


def _by_full_name(name: ProperNameRow, vocabulary: Vocabulary, draws: Draws, *about: object) -> Person:
    """A person with a drawn family name of the same ethnicity, whose group is `F-Black`."""
    family = draws.one(vocabulary.family_names(name.ethnicity), f"family name ({name.ethnicity})", name.Name, *about)
    return Person(f"{name.Name} {family}", f"{name.gender}-{name.ethnicity}")


# --- the vocabulary --------------------------------------------------------------------------------------------------


def _by_word(word: VocabularyRow, by_info: bool = False) -> Person:
    return Person(word.Name, word.Info if by_info else word.Name)


def _occupations(words: Sequence[VocabularyRow], draws: Draws) -> Iterator[Pair]:
    for word in draws.some(words, _DRAWN, "occupations"):
        for other in words:
            if other.Info != word.Info:
                yield Pair(_by_word(word, by_info=True), _by_word(other, by_info=True))


def _groups(template: TemplateRow, words: Sequence[VocabularyRow], draws: Draws, *, by_region: bool) -> Iterator[Pair]:
    targets = [word for word in words if word.Name in template.stereotyped_groups]
    others = [word for word in words if word.Name not in template.stereotyped_groups]
    for target in draws.some(targets, _DRAWN, "targets"):
        for other in draws.some(others, _DRAWN, "others", target.Name):
            yield Pair(_by_word(target, by_region), _by_word(other, by_region), target=0)


# --- two groups at once ----------------------------------------------------------------------------------------------


def _intersectional(template: TemplateRow, vocabulary: Vocabulary, draws: Draws) -> Iterator[Pair]:
    """Three comparisons for each draw of each target; the target is NAME1."""
    second = _SecondGroup(template, vocabulary, draws)
    if not template.Proper_nouns_only:
        yield from _compared_words(template, vocabulary, draws, second)
    elif second.is_gender:
        yield from _compared_genders(template, vocabulary, draws)
    else:
        yield from _compared_names(template, vocabulary, draws, second)


class _SecondGroup:
    """Gender or status: which one is stereotyped, and the words for it."""

    def __init__(self, template: TemplateRow, vocabulary: Vocabulary, draws: Draws) -> None:
        kinds = next((kinds for kinds in (GENDERS, LEVELS) if template.Known_stereotyped_var2 in kinds), None)
        if kinds is None:
            raise ValueError(
                f"Known_stereotyped_var2: {template.Known_stereotyped_var2!r} is none of M, F, lowSES and highSES"
            )
        self.is_gender = kinds == GENDERS
        self.stereotyped = template.Known_stereotyped_var2
        self.other = kinds[1 - kinds.index(self.stereotyped)]
        self._words = _second_words(template, vocabulary)
        self._draws = draws

    def word(self, kind: str, *about: object) -> str:
        """A drawn word for one of the kinds."""
        return self._draws.one(self._words.get(kind, []), f"word for {kind}", *about)


def _second_words(template: TemplateRow, vocabulary: Vocabulary) -> dict[str, list[str]]:
    """The words for each kind of the second group: those that the template lists, else occupations by level."""
    if not template.Names:
        words = vocabulary.of("SES", _OCCUPATION)
        return {level: [word.Name for word in words if word.Info == level] for level in LEVELS}
    listed = _json_list(template.Names)
    if len(listed) != len(template.Var2_info):
        raise ValueError(f"Var2_info names {len(template.Var2_info)} kinds for the {len(listed)} entries of Names")
    return {
        kind: [words] if isinstance(words, str) else words
        for kind, words in zip(template.Var2_info, listed, strict=True)
    }


def _json_list(text: str) -> list[Any]:
    try:
        listed = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f'broken list: {text!r}; write ["one", "two"]') from error
    if not isinstance(listed, list):
        raise ValueError(f'broken list: {text!r}; write ["one", "two"]')
    return listed


def _compared_words(
    template: TemplateRow, vocabulary: Vocabulary, draws: Draws, second: _SecondGroup
) -> Iterator[Pair]:
    races = vocabulary.of(_RACES)
    targets = [word.Name for word in races if word.Name in template.stereotyped_groups]
    others = [word.Name for word in races if word.Name not in template.stereotyped_groups]
    for race in draws.some(targets, _DRAWN, "targets"):
        for turn, other_race in enumerate(draws.some(others, _DRAWN, "others", race)):
            word = second.word(second.stereotyped, race, turn)
            other_word = second.word(second.other, race, turn)
            target = Person(race, f"{second.stereotyped}-{race}", word)
            for kind, person in (
                ("a", Person(race, f"{second.other}-{race}", other_word)),
                ("b", Person(other_race, f"{second.stereotyped}-{other_race}", word)),
                ("c", Person(other_race, f"{second.other}-{other_race}", other_word)),
            ):
                yield Pair(target, person, kind=kind, target=0)


def _compared_genders(template: TemplateRow, vocabulary: Vocabulary, draws: Draws) -> Iterator[Pair]:
    names = vocabulary.first_names(ethnic=True)
    gender, races = template.Known_stereotyped_var2, template.stereotyped_groups
    targets = [name for name in names if name.ethnicity in races and name.gender == gender]
    for name in draws.some(targets, _DRAWN, "targets"):
        target = _by_full_name(name, vocabulary, draws)
        comparisons = {
            "a": [other for other in names if other.ethnicity == name.ethnicity and other.gender != gender],
            "b": [other for other in names if other.ethnicity not in races and other.gender == gender],
            "c": [other for other in names if other.ethnicity not in races and other.gender != gender],
        }
        for kind, others in comparisons.items():
            for other in draws.some(others, _DRAWN, kind, name.Name):
                yield Pair(target, _by_full_name(other, vocabulary, draws, name.Name, kind), kind=kind, target=0)


def _compared_names(
    template: TemplateRow, vocabulary: Vocabulary, draws: Draws, second: _SecondGroup
) -> Iterator[Pair]:
    names = vocabulary.first_names(ethnic=True)
    if template.Stated_gender_info:
        names = [name for name in names if name.gender == template.Stated_gender_info]
    races = template.stereotyped_groups
    targets = [name for name in names if name.ethnicity in races]
    for name in draws.some(targets, _DRAWN, "targets"):
        same_gender = [other for other in names if other.gender == name.gender and other != name]
        same_race = [other for other in same_gender if other.ethnicity == name.ethnicity]
        other_race = [other for other in same_gender if other.ethnicity not in races]
        drawn = zip(
            draws.some(same_race, _DRAWN, "same race", name.Name),
            draws.some(other_race, _DRAWN, "other race", name.Name),
            strict=False,
        )
        for turn, (relative, stranger) in enumerate(drawn):
            word, other_word = (second.word(kind, name.Name, turn) for kind in (second.stereotyped, second.other))
            target, same, different = (
                _by_full_name(each, vocabulary, draws, turn if each != name else "")
                for each in (name, relative, stranger)
            )
            target = _with_second(target, second.stereotyped, word)
            yield Pair(target, _with_second(same, second.other, other_word), kind="a", target=0)
            yield Pair(target, _with_second(different, second.stereotyped, word), kind="b", target=0)
            yield Pair(target, _with_second(different, second.other, other_word), kind="c", target=0)


def _with_second(person: Person, kind: str, word: str) -> Person:
    return replace(person, group=f"{kind}-{person.group}", second=word)
