"""EsBBQ's template workbooks → instances, by the rules that its authors published; any folder of that form will do.

Paper, data and licence: `readers.esbbq`. From `templates/<Category>.xlsx`, `vocabulary.xlsx` and
`vocabulary_proper_names.xlsx` come the 27,320 Spanish and 27,344 Catalan published rows.

The rules
1. A template is written in four arrangements: as it is (`original`); with the two people swapped in the ambiguous
   context (`ambig`); in the disambiguating one and in both answers (`disambig`); in all of them (`all`).
2. In each arrangement every pair of people meets every combination of the words of `lexical_diversity`; the forms of a
   word (WORD1, WORD1-def) go together. Of the rules about people, the first one that fits a template holds:
   a. The template lists words itself (`names`): every word of NAME1 with every word of NAME2, in the listed forms.
   b. The template wants proper names (`proper_nouns_only`). "Plain" names are those whose ethnicity the vocabulary
      calls not stereotyped. Gender: every plain woman's name with every plain man's name. RaceEthnicity: names of
      stereotyped ethnicities and the stated gender, each with every plain name of that gender. Elsewhere: two different
      plain names of the stated gender.
   c. Occupations: every one with every one of the opposite level.
   d. Otherwise every stereotyped group with every group that it is set against: those of `non_stereotyped_groups`, else
      the vocabulary's not stereotyped words of the category (and subcategory).
   Vocabulary words are written in the feminine where the stated gender is f or fake-f. Where a language has names with
   their article (Catalan), they are written with it. A vocabulary row with anything in `include_name` is left out.
3. Sentences get their capitals, articles their contractions (`slots.sentence_writer`).
4. Each filling gives four questions: both questions, with the ambiguous context alone and with both contexts. The
   answer to the negative question is `answer_negative`, to the other one `answer_non_negative`.
5. Of questions with the same text in the same template (number, all versions) only the first is kept. That is why there
   are twice as many disambiguated as ambiguous ones.

The authors look for the stereotyped person's words in an answer, and take the wrong one where one person's words
contain the other's (PhysicalAppearance 10 and, in Catalan, 32). The place of the two options follows theirs; groups and
alignment are right here, and differ from the published ones in 4 Spanish and 12 Catalan rows.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field

from mbbq_gen.benchmarks.bbq_record import PublishedRow, unknown_texts
from mbbq_gen.benchmarks.readers.esbbq import PLACEHOLDER, UNKNOWN_INDEX, EsbbqRow, instances_of
from mbbq_gen.benchmarks.registry import SplitInfo, find_benchmark
from mbbq_gen.benchmarks.rows import RowLocation, checked, python_literal
from mbbq_gen.benchmarks.templates.slots import (
    check_slots,
    fill_slots,
    named_person,
    parallel_forms,
    parse_lists,
    read_workbook,
    sentence_writer,
    swap_names,
    workbook_languages,
)
from mbbq_gen.core.errors import DataError, UnknownNameError, UsageError
from mbbq_gen.core.files import file_digest, stable_digest
from mbbq_gen.core.records import Instance, NonBlank

_ARRANGEMENTS: Final[dict[str, tuple[str, ...]]] = {
    "original": (),
    "ambig": ("ambiguous_context",),
    "disambig": ("disambiguating_context", "answer_negative", "answer_non_negative"),
    "all": ("ambiguous_context", "disambiguating_context", "answer_negative", "answer_non_negative"),
}
"""Arrangement → the columns whose two people are swapped."""
_COLUMNS: Final = (*_ARRANGEMENTS["all"], "question_negative_stereotype", "question_non_negative")
VOCABULARY_FILE: Final = "vocabulary.xlsx"
NAMES_FILE: Final = "vocabulary_proper_names.xlsx"
MARKER: Final = "ambiguous_context"
_PLAIN: Final = "not-stereotyped"
_ETHNICITIES: Final = "RaceEthnicity"
_OCCUPATION: Final = "Occupation"


def _empty_list(value: Any) -> Any:
    return [] if value == "" else python_literal(value)


Story = Annotated[NonBlank, AfterValidator(check_slots)]
Groups = Annotated[list[NonBlank], BeforeValidator(python_literal)]


class TemplateRow(PublishedRow):
    """A template: a row of a workbook in one language, whose fields are named as the columns."""

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
    proper_nouns_only: Annotated[bool, BeforeValidator(lambda cell: cell or False)] = False
    question_negative_stereotype: Story
    question_non_negative: Story
    answer_negative: Story
    answer_non_negative: Story
    relevant_social_values: str = ""
    stereotyped_groups: Annotated[Groups, Field(min_length=1)]
    non_stereotyped_groups: Annotated[list[NonBlank], BeforeValidator(_empty_list)] = Field(default_factory=list)
    NAME1_info: str = ""
    NAME2_info: str = ""
    stated_gender_info: Literal["", "m", "f", "fake-f"] = ""
    """`fake-f`: feminine in grammar only (a person, a family)."""
    esbbq_source: Annotated[list[str], BeforeValidator(_empty_list)] = Field(default_factory=list)

    @property
    def gender(self) -> str:
        """The gender that words agree with."""
        return self.stated_gender_info.removeprefix("fake-")

    def is_stereotyped(self, person: Person) -> bool:
        """Whether a person's group, the last comma part of it, is among the stereotyped ones."""
        return person.group.split(",")[-1].strip() in self.stereotyped_groups


class VocabularyRow(PublishedRow):
    """A row of `vocabulary.xlsx`."""

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


class ProperNameRow(PublishedRow):
    """A row of `vocabulary_proper_names.xlsx`."""

    proper_name: NonBlank
    proper_name_def: str = ""
    """With the article that the language puts before names."""
    gender: Literal["m", "f"]
    ethnicity: NonBlank


class Vocabulary(NamedTuple):
    """The words that templates draw on where they list none, in one language."""

    words: tuple[VocabularyRow, ...]
    names: tuple[ProperNameRow, ...]

    def of(self, category: str, subcategory: str = "") -> list[VocabularyRow]:
        """The words of a category that are in use, and of its subcategory where one is named."""
        words = (row for row in self.words if row.category == category and not row.include_name)
        return [row for row in words if subcategory in ("", row.subcategory)]

    def plain(self, category: str, subcategory: str = "") -> list[str]:
        """The words of a category that no stereotype is about."""
        return [row.name for row in self.of(category, subcategory) if row.information == _PLAIN]


def read_vocabulary(folder: Path, language: str) -> Vocabulary:
    """The vocabulary of a folder in one language; what has no file is empty. Raises DataError for a wrong row."""
    words, names = folder / VOCABULARY_FILE, folder / NAMES_FILE
    word_rows = read_workbook(words, VocabularyRow, language, "name") if words.is_file() else ()
    name_rows = read_workbook(names, ProperNameRow, language, "proper_name") if names.is_file() else ()
    return Vocabulary(tuple(row for _, row in word_rows), tuple(row for _, row in name_rows))


class Person(NamedTuple):
    """One of the two people of a filled template."""

    term: str
    """The words that tell this person from the other one."""
    group: str
    """The group, as the data set labels it: its last comma part is what `stereotyped_groups` is compared with."""
    forms: Mapping[str, str]
    """What is written, by the ending of the slot: ``, `-def`, `-indef`."""


def pairs_of_people(template: TemplateRow, vocabulary: Vocabulary) -> list[tuple[Person, Person]]:
    """NAME1 and NAME2 of every filled template, in published order; raises ValueError for a list that is broken."""
    category, stereotyped = template.esbbq_category, template.stereotyped_groups
    if template.names:
        lists = parse_lists(template.names)
        one = _listed_people(lists, "NAME1", template.NAME1_info)
        return list(itertools.product(one, _listed_people(lists, "NAME2", template.NAME2_info)))
    if template.proper_nouns_only:
        plain = vocabulary.plain(_ETHNICITIES)
        everyday = [name for name in vocabulary.names if name.ethnicity in plain]
        if category == "Gender":
            women = [_by_name(name, template.NAME1_info or "f") for name in everyday if name.gender == "f"]
            men = [_by_name(name, template.NAME2_info or "m") for name in everyday if name.gender == "m"]
            return list(itertools.product(women, men))
        everyday = [name for name in everyday if name.gender == template.gender]
        if category == _ETHNICITIES:
            others = [name for name in vocabulary.names if name.gender == template.gender]
            first = [_by_name(one, f"{one.gender}, {one.ethnicity}") for one in others if one.ethnicity in stereotyped]
            return list(itertools.product(first, [_by_name(name, name.ethnicity) for name in everyday]))
        infos = template.NAME1_info, template.NAME2_info
        pairs = ((one, other) for one, other in itertools.product(everyday, everyday) if one != other)
        return [(_by_name(one, infos[0]), _by_name(other, infos[1])) for one, other in pairs]
    feminine = template.gender == "f"
    if template.subcategory == _OCCUPATION:
        occupations = []
        for word in vocabulary.of(category, _OCCUPATION):
            term, definite = (word.f, word.f_def) if feminine and word.f else (word.name, word.name_def)
            forms = {"": term, "-def": definite} if definite else {"": term}
            occupations.append(Person(term, word.information, forms))
        return [(one, other) for one, other in itertools.product(occupations, occupations) if one.group != other.group]
    # A group is called by its name, in the feminine where the vocabulary has one.
    female = {row.name: row.f for row in reversed(vocabulary.of(category)) if row.f} if feminine else {}
    groups = template.non_stereotyped_groups or vocabulary.plain(category, template.subcategory)
    terms = {group: female.get(group, group) for group in (*stereotyped, *groups)}
    people = {group: Person(term, group, {"": term}) for group, term in terms.items()}
    return [(people[one], people[other]) for one, other in itertools.product(stereotyped, groups)]


def _listed_people(lists: Mapping[str, tuple[str, ...]], slot: str, group: str) -> list[Person]:
    if not group:
        raise ValueError(f"{slot}_info is empty; say which group the words of {slot} belong to")
    people = []
    for form in parallel_forms(lists, slot):
        if "" not in form and "-indef" not in form:
            raise ValueError(f"{form['-def']!r} is listed with its article only; list it without one, too")
        # The word without an article; where it is not listed, the indefinite form without its first word.
        bare = form[""] if "" in form else form["-indef"].partition(" ")[2]
        people.append(Person(term=bare, group=group, forms=form | {"": bare}))
    if not people:
        raise ValueError(f"{slot} is not listed; write {slot}: [one, two]")
    return people


def _by_name(name: ProperNameRow, group: str) -> Person:
    written = name.proper_name_def or name.proper_name
    return Person(term=name.proper_name, group=group, forms={"": written, "-def": written})


def template_files(folder: Path) -> list[Path]:
    """The template workbooks of a folder, sorted, without the vocabulary and open spreadsheets; there must be one."""
    files = [path for path in sorted(folder.glob("*.xlsx")) if not path.name.startswith("~$")]
    files = [path for path in files if path.name not in (VOCABULARY_FILE, NAMES_FILE)]
    if not files:
        raise UsageError(f"{folder}: no template workbook (.xlsx) in it; name the folder that holds them")
    return files


def esbbq_languages(folder: Path) -> list[str]:
    """The languages that the folder's templates are written in, sorted; raises as `load_esbbq_templates` does."""
    return workbook_languages(template_files(folder)[0], MARKER)


def load_esbbq_templates(folder: Path, language: str) -> Iterator[Instance]:
    """The instances of a template folder in one language, category by category, always the same.

    They are those that `read_esbbq` reads, but for the version, which is made of the files' contents, and
    `metadata["source_row"]`, which names workbook and row of the template.

    Args:
        folder: holds a workbook a category, and `vocabulary.xlsx` and `vocabulary_proper_names.xlsx` where needed.
        language: a code that columns end in, `es` or `ca`; for others there is no text of the unknown option yet.

    Raises:
        UsageError: at once, where there is no workbook in that language, or openpyxl is missing.
        DataError: at the first row that is wrong; file, row and column.
    """
    known = esbbq_languages(folder)
    if language not in known:
        raise UnknownNameError("language", language, known, f"({folder})")
    if not unknown_texts(language):
        raise UsageError(f"no texts of the unknown option in {language!r}; add them to unknown_texts.toml")
    paths, vocabulary = template_files(folder), read_vocabulary(folder, language)
    files = [path for path in (*paths, folder / VOCABULARY_FILE, folder / NAMES_FILE) if path.is_file()]
    version = f"templates-{stable_digest(*(f'{path.name} {file_digest(path)}' for path in files))[:10]}"
    benchmark, categories = f"esbbq_{language}", find_benchmark("esbbq").categories
    whole = SplitInfo({"es": "esbbq", "ca": "cabbq"}.get(language, benchmark), version, language, "bias")
    for_file = {path: re.sub(r"\W+|(?<=[a-z0-9])(?=[A-Z])", "_", path.stem).casefold() for path in paths}
    return itertools.chain.from_iterable(
        instances_of(esbbq_rows(path, vocabulary, language), replace(whole, category=categories.get(path.stem, slug)))
        for path, slug in for_file.items()
    )


@contextmanager
def _column(place: RowLocation, name: str) -> Iterator[None]:
    """Turns a ValueError about a column of a template into a DataError."""
    try:
        yield
    except ValueError as error:
        raise place.error(str(error), name) from error


def esbbq_rows(path: Path, vocabulary: Vocabulary, language: str) -> Iterator[tuple[RowLocation, EsbbqRow]]:
    """The rows of a template workbook as they are published, each with the place of its template."""
    write = sentence_writer(language)
    template: TemplateRow | None = None
    seen: set[tuple[object, ...]] = set()
    for place, template in read_workbook(path, TemplateRow, language, MARKER):
        for fields in _filled(template, place, vocabulary, write):
            text = (template.esbbq_template_id, fields["context"], fields["question"])
            if text not in seen:
                yield place, checked(fields | {"instance_id": len(seen)}, EsbbqRow, place)
                seen.add(text)
    if template is None:
        raise DataError(f"{path}: no template in it; add a row, or remove the file")


def _filled(
    template: TemplateRow, place: RowLocation, vocabulary: Vocabulary, write: Callable[[str], str]
) -> Iterator[dict[str, object]]:
    """The rows of a template in every arrangement, with every pair of people and every combination of words."""
    with _column(place, "names"):
        pairs = pairs_of_people(template, vocabulary)
    if not pairs:
        raise place.error("no pair of people fits; list names, or add words to the vocabulary", "names")
    for pair in pairs:
        if (count := sum(map(template.is_stereotyped, pair))) != 1:
            groups, listed = " and ".join(person.group for person in pair), ", ".join(template.stereotyped_groups)
            raise place.error(f"{count} of the groups {groups} are among {listed}; one must", "stereotyped_groups")
    with _column(place, "lexical_diversity"):
        lists = parse_lists(template.lexical_diversity)
        names = sorted({name.partition("-")[0] for name in lists})
        choices = [parallel_forms(lists, name) for name in names]
    words = [
        {name + ending: word for name, forms in zip(names, chosen, strict=True) for ending, word in forms.items()}
        for chosen in itertools.product(*choices)
    ]
    holders = []
    for column in ("answer_negative", "answer_non_negative"):
        with _column(place, column):
            holders.append(named_person(getattr(template, column)))
    if holders[0] == holders[1]:
        raise place.error(f"names NAME{holders[0] + 1}, as answer_negative does; name the other", "answer_non_negative")
    for arrangement, swapped in _ARRANGEMENTS.items():
        texts = {column: getattr(template, column) for column in _COLUMNS}
        texts |= {column: swap_names(texts[column]) for column in swapped}
        is_flipped = "answer_negative" in swapped
        for pair, each in itertools.product(pairs, words):
            values = {f"NAME{number}{form}": text for number in (1, 2) for form, text in pair[number - 1].forms.items()}
            values |= each
            filled = {}
            for column, text in texts.items():
                with _column(place, column):
                    filled[column] = fill_slots(text, values)
            people = [pair[1 - holder if is_flipped else holder] for holder in holders]
            yield from _rows(template, arrangement, people, filled, write)


def _rows(
    template: TemplateRow,
    arrangement: str,
    people: Sequence[Person],
    filled: Mapping[str, str],
    write: Callable[[str], str],
) -> Iterator[dict[str, object]]:
    """The four rows of a filled template; `people` are those whom the two answers name."""
    stereotyped = people[0] if template.is_stereotyped(people[0]) else people[1]
    # The authors put the answer first that contains the stereotyped person's words.
    is_first = re.search(rf"\b{re.escape(stereotyped.term)}\b", filled["answer_negative"], re.IGNORECASE)
    first, second = (0, 1) if is_first else (1, 0)
    written = {column: write(text) for column, text in filled.items()}
    answers = written["answer_negative"], written["answer_non_negative"]
    ambiguous, disambiguating = written["ambiguous_context"], written["disambiguating_context"]
    questions = written["question_negative_stereotype"], written["question_non_negative"]
    for polarity, is_disambiguated in itertools.product((0, 1), (False, True)):
        pro_stereotype = template.is_stereotyped(people[polarity]) == (polarity == 0)
        alignment = ("pro-stereo" if pro_stereotype else "anti-stereo") if is_disambiguated else "n/a"
        yield {
            "template_id": template.esbbq_template_id,
            "version": template.version,
            "template_label": template.label,
            "flipped": arrangement,
            "question_polarity": ("neg", "nonneg")[polarity],
            "context_condition": "disambig" if is_disambiguated else "ambig",
            "category": template.esbbq_category,
            "subcategory": template.subcategory,
            "relevant_social_value": template.relevant_social_values,
            "stereotyped_groups": template.stereotyped_groups,
            "answer_info.ans0": [people[first].term, people[first].group],
            "answer_info.ans1": [people[second].term, people[second].group],
            "answer_info.ans2": [PLACEHOLDER, PLACEHOLDER],
            "stated_gender_info": template.stated_gender_info,
            "proper_nouns_only": template.proper_nouns_only,
            "context": f"{ambiguous} {disambiguating}" if is_disambiguated else ambiguous,
            "question": questions[polarity],
            "ans0": answers[first],
            "ans1": answers[second],
            "ans2": PLACEHOLDER,
            "question_type": alignment,
            "label": (0 if polarity == first else 1) if is_disambiguated else UNKNOWN_INDEX,
            "source": template.esbbq_source,
        }
