"""Fills an EsBBQ template: every arrangement of the two people, every pair, every combination of words.

ambiguous_context  "{{NAME1}} y {{NAME2}} …"     original  ambig     disambig  all
                                                 1, 2      2, 1      1, 2      2, 1
disambiguating_context and both answers          1, 2      1, 2      2, 1      2, 1
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from mbbq_gen.datasets.esbbq_people import Person, Vocabulary, pairs_of_people
from mbbq_gen.datasets.esbbq_template_rows import TemplateRow
from mbbq_gen.datasets.rows import Place
from mbbq_gen.datasets.slots import fill_slots, named_person, parallel_forms, parse_lists, swap_names

Arrangement = Literal["original", "ambig", "disambig", "all"]
_ARRANGEMENTS: Final[tuple[Arrangement, ...]] = ("original", "ambig", "disambig", "all")


@dataclass(frozen=True)
class Texts:
    """The texts of a template in one arrangement, with their slots."""

    ambiguous: str
    disambiguating: str
    answer_negative: str
    answer_non_negative: str


@dataclass(frozen=True)
class Filling:
    """A template in one arrangement, filled."""

    arrangement: Arrangement
    ambiguous: str
    disambiguated: str
    questions: tuple[str, str]
    """The negative and the non-negative one."""
    answers: tuple[str, str]
    """To each of the questions, where the context tells it."""
    people: tuple[Person, Person]
    """Whom each of the answers names."""
    first: int
    """Which of the answers is the first option, 0 or 1."""


def fillings(
    template: TemplateRow, place: Place, vocabulary: Vocabulary, write: Callable[[str], str]
) -> Iterator[Filling]:
    """A template filled with every pair of people and every combination of words, in every arrangement.

    Raises:
        DataError: where the template is wrong.
    """
    pairs = _pairs(template, place, vocabulary)
    words = _words(template, place)
    holders = _holders(template, place)
    for arrangement in _ARRANGEMENTS:
        texts = _arrange(template, arrangement)
        flipped = arrangement in ("disambig", "all")
        for pair in pairs:
            people = (pair[1 - holders[0]], pair[1 - holders[1]]) if flipped else (pair[holders[0]], pair[holders[1]])
            for each in words:
                values = pair[0].fills("NAME1") | pair[1].fills("NAME2") | each
                yield _fill(
                    template,
                    place,
                    arrangement=arrangement,
                    texts=texts,
                    people=people,
                    values=values,
                    write=write,
                )


def _fill(
    template: TemplateRow,
    place: Place,
    *,
    arrangement: Arrangement,
    texts: Texts,
    people: tuple[Person, Person],
    values: Mapping[str, str],
    write: Callable[[str], str],
) -> Filling:
    def filled(column: str, text: str) -> str:
        try:
            return fill_slots(text, values)
        except ValueError as error:
            raise place.error(str(error), column) from error

    ambiguous = write(filled("ambiguous_context", texts.ambiguous))
    disambiguating = write(filled("disambiguating_context", texts.disambiguating))
    answers = (
        filled("answer_negative", texts.answer_negative),
        filled("answer_non_negative", texts.answer_non_negative),
    )
    return Filling(
        arrangement=arrangement,
        ambiguous=ambiguous,
        disambiguated=f"{ambiguous} {disambiguating}",
        questions=(
            write(filled("question_negative_stereotype", template.question_negative_stereotype)),
            write(filled("question_non_negative", template.question_non_negative)),
        ),
        answers=(write(answers[0]), write(answers[1])),
        people=people,
        first=_first_option(template, people, answers),
    )


def _arrange(template: TemplateRow, arrangement: Arrangement) -> Texts:
    """The template's texts, with the people swapped where the arrangement says so."""
    swap_ambiguous = arrangement in ("ambig", "all")
    swap_rest = arrangement in ("disambig", "all")

    def arranged(text: str, swap: bool) -> str:
        return swap_names(text) if swap else text

    return Texts(
        ambiguous=arranged(template.ambiguous_context, swap_ambiguous),
        disambiguating=arranged(template.disambiguating_context, swap_rest),
        answer_negative=arranged(template.answer_negative, swap_rest),
        answer_non_negative=arranged(template.answer_non_negative, swap_rest),
    )


def _pairs(template: TemplateRow, place: Place, vocabulary: Vocabulary) -> list[tuple[Person, Person]]:
    """The pairs of people, each with exactly one who is stereotyped."""
    try:
        pairs = pairs_of_people(template, vocabulary)
    except ValueError as error:
        raise place.error(str(error), "names") from error
    if not pairs:
        raise place.error("no pair of people fits; list names, or add words to the vocabulary", "names")
    for pair in pairs:
        stereotyped = [person for person in pair if is_stereotyped(person, template)]
        if len(stereotyped) != 1:
            told = " and ".join(person.group for person in pair)
            raise place.error(
                f"{len(stereotyped)} of the groups {told} are among {', '.join(template.stereotyped_groups)}; one must",
                "stereotyped_groups",
            )
    return pairs


def is_stereotyped(person: Person, template: TemplateRow) -> bool:
    """Whether the person's group, the last comma part of it, is among the template's stereotyped ones."""
    return person.group.split(",")[-1].strip() in template.stereotyped_groups


def _words(template: TemplateRow, place: Place) -> list[dict[str, str]]:
    """What stands in the WORD slots, for every combination of the listed words."""
    try:
        lists = parse_lists(template.lexical_diversity)
        names = sorted({name.partition("-")[0] for name in lists})
        choices = [parallel_forms(lists, name) for name in names]
    except ValueError as error:
        raise place.error(str(error), "lexical_diversity") from error
    return [
        {name + ending: word for name, forms in zip(names, chosen, strict=True) for ending, word in forms.items()}
        for chosen in itertools.product(*choices)
    ]


def _holders(template: TemplateRow, place: Place) -> tuple[int, int]:
    """Which of the two people, 0 or 1, the answer to each question names, as the template is written."""
    negative = _holder(template.answer_negative, place, "answer_negative")
    non_negative = _holder(template.answer_non_negative, place, "answer_non_negative")
    if negative == non_negative:
        raise place.error(f"names NAME{negative + 1}, as answer_negative does; name the other", "answer_non_negative")
    return negative, non_negative


def _holder(answer: str, place: Place, column: str) -> int:
    try:
        return named_person(answer)
    except ValueError as error:
        raise place.error(str(error), column) from error


def _first_option(template: TemplateRow, people: tuple[Person, Person], answers: tuple[str, str]) -> int:
    """Which answer the authors' rule puts first: the first one that contains the stereotyped person's words."""
    stereotyped = people[0] if is_stereotyped(people[0], template) else people[1]
    found = re.search(rf"\b{re.escape(stereotyped.term)}\b", answers[0], re.IGNORECASE)
    return 0 if found else 1
