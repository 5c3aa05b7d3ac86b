"""Who the two people of an EsBBQ template may be: words that the template lists, vocabulary words, or proper names.

The rules, as the authors' instances follow them; the first one that fits a template holds:

1. The template lists words itself (`names`): every word of NAME1 with every word of NAME2, in the listed forms.
2. The template wants proper names (`proper_nouns_only`). "Plain" names are those whose ethnicity the vocabulary calls
   not stereotyped. Gender: every plain woman's name with every plain man's name. RaceEthnicity: names of stereotyped
   ethnicities and the stated gender, each with every plain name of that gender. Elsewhere: two different plain names of
   the stated gender.
3. Occupations: every one with every one of the opposite level.
4. Otherwise every stereotyped group with every group that it is set against: those of `non_stereotyped_groups`, else
   the vocabulary's not stereotyped words of the category (and subcategory).

Vocabulary words are written in the feminine where the stated gender is f or fake-f. Where a language has names with
their article (Catalan), they are written with it. A vocabulary row with anything in `include_name` is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from mbbq_gen.benchmarks.rows import python_literal
from mbbq_gen.benchmarks.templates.slots import check_slots, parallel_forms, parse_lists
from mbbq_gen.core.records import NonBlank

MARKER: Final = "ambiguous_context"
"""A column that every template workbook has in each of its languages."""


def _checked_slots(text: str) -> str:
    check_slots(text)
    return text


def _empty_list(value: Any) -> Any:
    """An empty cell is an empty list."""
    return [] if value == "" else python_literal(value)


def _flag(value: Any) -> Any:
    """1 and true say yes, 0, false and nothing say no."""
    return {"": False, "0": False, "false": False, "1": True, "true": True}.get(str(value).lower(), value)


Story = Annotated[NonBlank, AfterValidator(_checked_slots)]
Groups = Annotated[list[NonBlank], BeforeValidator(python_literal)]


class TemplateRow(BaseModel):
    """A template; the fields are named as the columns, without the language's ending."""

    model_config = ConfigDict(frozen=True)

    label: Literal["t", "m", "n"]
    """Whether BBQ's template was transferred or modified, or is new."""
    esbbq_template_id: NonBlank
    version: str = ""
    esbbq_category: NonBlank
    subcategory: str = ""
    ambiguous_context: Story
    disambiguating_context: Story
    names: str = ""
    """Words for NAME1 and NAME2, if the template lists its own."""
    lexical_diversity: str = ""
    """Words for WORD1, WORD2 and so on."""
    proper_nouns_only: Annotated[bool, BeforeValidator(_flag)] = False
    question_negative_stereotype: Story
    question_non_negative: Story
    answer_negative: Story
    answer_non_negative: Story
    relevant_social_values: str = ""
    stereotyped_groups: Annotated[Groups, Field(min_length=1)]
    non_stereotyped_groups: Annotated[list[NonBlank], BeforeValidator(_empty_list)] = []
    NAME1_info: str = ""
    NAME2_info: str = ""
    stated_gender_info: Literal["", "m", "f", "fake-f"] = ""
    """`fake-f`: feminine in grammar only (a person, a family)."""
    esbbq_source: Annotated[list[str], BeforeValidator(_empty_list)] = []

    @property
    def gender(self) -> str:
        """The gender that words agree with."""
        return self.stated_gender_info.removeprefix("fake-")


_PLAIN: Final = "not-stereotyped"
_ETHNICITIES: Final = "RaceEthnicity"
_GENDER: Final = "Gender"
_OCCUPATION: Final = "Occupation"


class VocabularyRow(BaseModel):
    """A row of `vocabulary.xlsx`, in one language."""

    model_config = ConfigDict(frozen=True)

    category: NonBlank
    subcategory: str = ""
    name: NonBlank
    name_def: str = ""
    """With the definite article, where the language's templates need it."""
    f: str = ""
    """Feminine form; empty where there is no other."""
    f_def: str = ""
    information: str = ""
    """`not-stereotyped`; the level of an occupation; or nothing."""
    include_name: str = ""
    """Anything here leaves the row out."""


class ProperNameRow(BaseModel):
    """A row of `vocabulary_proper_names.xlsx`, in one language."""

    model_config = ConfigDict(frozen=True)

    proper_name: NonBlank
    proper_name_def: str = ""
    """With the article that the language puts before names."""
    gender: Literal["m", "f"]
    ethnicity: NonBlank


@dataclass(frozen=True)
class Vocabulary:
    """The words that templates draw on where they list none, in one language."""

    words: tuple[VocabularyRow, ...] = ()
    names: tuple[ProperNameRow, ...] = ()

    def of(self, category: str, subcategory: str = "") -> list[VocabularyRow]:
        """The words of a category that are in use, and of its subcategory where one is named."""
        return [
            row
            for row in self.words
            if row.category == category and subcategory in ("", row.subcategory) and not row.include_name
        ]

    def plain(self, category: str, subcategory: str = "") -> list[str]:
        """The words of a category that no stereotype is about."""
        return [row.name for row in self.of(category, subcategory) if row.information == _PLAIN]


@dataclass(frozen=True)
class Person:
    """One of the two people of a filled template."""

    term: str
    """The words that tell this person from the other one."""
    group: str
    """The group, as the data set labels it: its last comma part is what `stereotyped_groups` is compared with."""
    forms: Mapping[str, str]
    """What is written, by the ending of the slot: ``, `-def`, `-indef`."""

    def fills(self, slot: str) -> dict[str, str]:
        """What stands in each slot of that name."""
        return {slot + ending: text for ending, text in self.forms.items()}


def pairs_of_people(template: TemplateRow, vocabulary: Vocabulary) -> list[tuple[Person, Person]]:
    """NAME1 and NAME2 of every filled template, in published order.

    Raises:
        ValueError: where a list is missing or broken, or the vocabulary has no fitting word; names the field.
    """
    if template.names:
        lists = parse_lists(template.names)
        first = _listed_people(lists, "NAME1", template.NAME1_info)
        second = _listed_people(lists, "NAME2", template.NAME2_info)
        return _every(first, second)
    if template.proper_nouns_only:
        plain = vocabulary.plain(_ETHNICITIES)
        everyday = [name for name in vocabulary.names if name.ethnicity in plain]
        if template.esbbq_category == _GENDER:
            women = [_by_name(name, template.NAME1_info or "f") for name in everyday if name.gender == "f"]
            men = [_by_name(name, template.NAME2_info or "m") for name in everyday if name.gender == "m"]
            return _every(women, men)
        everyday = [name for name in everyday if name.gender == template.gender]
        if template.esbbq_category == _ETHNICITIES:
            stereotyped = [
                _by_name(name, f"{name.gender}, {name.ethnicity}")
                for name in vocabulary.names
                if name.ethnicity in template.stereotyped_groups and name.gender == template.gender
            ]
            return _every(stereotyped, [_by_name(name, name.ethnicity) for name in everyday])
        return [
            (_by_name(first, template.NAME1_info), _by_name(second, template.NAME2_info))
            for first in everyday
            for second in everyday
            if first != second
        ]
    if template.subcategory == _OCCUPATION:
        words = vocabulary.of(template.esbbq_category, _OCCUPATION)
        return [
            (_by_occupation(first, template), _by_occupation(second, template))
            for first in words
            for second in words
            if first.information != second.information
        ]
    others = template.non_stereotyped_groups or vocabulary.plain(template.esbbq_category, template.subcategory)
    first = [_by_group(group, template, vocabulary) for group in template.stereotyped_groups]
    return _every(first, [_by_group(group, template, vocabulary) for group in others])


def _listed_people(lists: Mapping[str, tuple[str, ...]], slot: str, group: str) -> list[Person]:
    if not group:
        raise ValueError(f"{slot}_info is empty; say which group the words of {slot} belong to")
    forms = parallel_forms(lists, slot)
    if not forms:
        raise ValueError(f"{slot} is not listed; write {slot}: [one, two]")
    return [Person(term=_bare(form), group=group, forms=form | {"": _bare(form)}) for form in forms]


def _bare(forms: Mapping[str, str]) -> str:
    """The word without an article; where it is not listed, the indefinite form without its first word."""
    if "" in forms:
        return forms[""]
    if "-indef" not in forms:
        raise ValueError(f"{forms['-def']!r} is listed with its article only; list it without one, too")
    return forms["-indef"].partition(" ")[2]


def _by_name(name: ProperNameRow, group: str) -> Person:
    written = name.proper_name_def or name.proper_name
    return Person(term=name.proper_name, group=group, forms={"": written, "-def": written})


def _by_occupation(word: VocabularyRow, template: TemplateRow) -> Person:
    feminine = template.gender == "f" and word.f
    term = word.f if feminine else word.name
    with_article = word.f_def if feminine else word.name_def
    forms = {"": term} | ({"-def": with_article} if with_article else {})
    return Person(term=term, group=word.information, forms=forms)


def _by_group(group: str, template: TemplateRow, vocabulary: Vocabulary) -> Person:
    """The person of a group, called by the group's name, in the feminine where the vocabulary has one."""
    term = group
    if template.gender == "f":
        term = next((row.f for row in vocabulary.of(template.esbbq_category) if row.name == group and row.f), group)
    return Person(term=term, group=group, forms={"": term})


def _every(first: Iterable[Person], second: Sequence[Person]) -> list[tuple[Person, Person]]:
    return [(one, other) for one in first for other in second]
