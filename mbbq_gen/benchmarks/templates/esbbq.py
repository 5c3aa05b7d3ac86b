"""EsBBQ's template workbooks → instances, by its authors' published rules; also for other folders of that format.

Paper, data and licence: `readers.esbbq`. From `templates/<Category>.xlsx`, `vocabulary.xlsx` and
`vocabulary_proper_names.xlsx` come the 27,320 Spanish and 27,344 Catalan published rows.

The rules
1. A template is written in four arrangements: as it is (`original`); with the two people swapped in the ambiguous
   context (`ambig`); in the disambiguating one and in both answers (`disambig`); in all of them (`all`).
2. In each arrangement every pair of people meets every combination of the words of `lexical_diversity`; the forms of a
   word (WORD1, WORD1-def) go together. Of the rules about people, the first one that fits a template holds:
   a. The template lists words itself (`names`): every word of NAME1 with every word of NAME2, in the listed forms.
   b. The template has proper names (`proper_nouns_only`). "Plain" names are those whose ethnicity is `not-stereotyped`
      in the vocabulary. Gender: every plain female name with every plain male name. RaceEthnicity: names of stereotyped
      ethnicities and the stated gender, each with every plain name of that gender. Other categories: two different
      plain names of the stated gender.
   c. Occupations: every one with every one of the opposite level.
   d. Otherwise every stereotyped group with every group of `non_stereotyped_groups` or, if that is empty, with the
      vocabulary's `not-stereotyped` words of the category (and subcategory).
   Vocabulary words are feminine if the stated gender is f or fake-f. In a language with articles before names
   (Catalan), names have them. A vocabulary row with any text in `include_name` is ignored.
3. Sentences are capitalised and articles contracted (`sentence_writer`).
4. Each filling gives four questions: both questions, with the ambiguous context alone and with both contexts. The
   answer to the negative question is `answer_negative`, to the other one `answer_non_negative`.
5. Of questions with the same text in the same template (number, all versions) only the first is kept. So there are
   twice as many disambiguated as ambiguous ones.

The authors search for the stereotyped person's words in an answer, which finds the wrong answer if one person's words
contain the other's (PhysicalAppearance 10 and, in Catalan, 32). The order of the two options follows theirs; groups and
alignment are corrected, and differ from the published ones in 4 Spanish and 12 Catalan rows.

Columns of several languages end in the language's code: `names_es`, `names_ca`. One language is read, without the
suffix; the others are ignored. Cells are stripped of outer spaces; integers are written without a fraction.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

from mbbq_gen.benchmarks.instance_builder import PublishedRow, unknown_texts
from mbbq_gen.benchmarks.readers.esbbq import PLACEHOLDER, UNKNOWN_INDEX, EsbbqRow, instances_of
from mbbq_gen.benchmarks.registry import SplitInfo, find_benchmark
from mbbq_gen.benchmarks.rows import RowLocation, checked, python_literal
from mbbq_gen.core.errors import DataError, UnknownNameError, UsageError
from mbbq_gen.core.files import file_digest, stable_digest
from mbbq_gen.core.records import Instance, NonBlank
from mbbq_gen.core.tables import cell_text, open_workbook

RowT = TypeVar("RowT", bound=BaseModel)

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
"""A column that templates have in every language."""
_PLAIN: Final = "not-stereotyped"
_ETHNICITIES: Final = "RaceEthnicity"
_OCCUPATION: Final = "Occupation"
_LANGUAGE_COLUMN: Final = re.compile(r"(.+)_([a-z]{2})")
_SLOT: Final = re.compile(r"\{\{([^{}]*)\}\}")
_BROKEN_SLOT: Final = re.compile(r"\{[{\[(]?\s*(?:NAME|WORD|GEN|OCC)\d|(?:NAME|WORD|GEN|OCC)\d(?:-\w+)?\s*[)\]}]?\}")
_ENTRY: Final = re.compile(
    r"\s*(?:\{\{)?((?:(?:NAME|GEN|OCC)[12]|WORD[1-9])(?:-(?:def|indef))?)(?:\}\})?\s*:\s*\[([^\[\];]*)\]\s*(?:;|\Z)"
)
_SENTENCE_START: Final = re.compile(r"""((?:^|[.!?]\s+)[¿¡"“«]*)(\w)""")


def check_slots(text: str) -> str:
    """Returns the text; raises ValueError for a slot that lacks a brace."""
    if broken := _BROKEN_SLOT.search(_SLOT.sub("", text)):
        raise ValueError(f"a placeholder lacks a brace at {broken[0]!r}; write it as {{{{NAME1}}}}")
    return text


def _check_answer(text: str) -> str:
    if (count := len({name[4] for name in _SLOT.findall(text) if name.startswith("NAME")})) != 1:
        raise ValueError(f"names {count} of the two people; write NAME1 or NAME2")
    return text


def parse_lists(cell: str) -> dict[str, tuple[str, ...]]:
    """Parses a cell `NAME1: [one, two]; NAME2: [three]` to words by slot; raises ValueError for a syntax error."""
    lists: dict[str, tuple[str, ...]] = {}
    at = 0
    while at < len(cell.rstrip()):
        entry = _ENTRY.match(cell, at)
        words = tuple(word.strip() for word in entry[2].split(",")) if entry else ()
        if entry is None or not all(words) or entry[1] in lists:
            raise ValueError(f"broken list at {cell[at : at + 40].strip()!r}; write NAME1: [one, two]; NAME2: [three]")
        lists[entry[1]] = words
        at = entry.end()
    return lists


def _parallel_forms(lists: Mapping[str, tuple[str, ...]], slot: str) -> list[dict[str, str]]:
    """The words of a slot, each with its listed forms: `{"": "aunt", "-def": "the aunt"}`."""
    listed = {form: lists[slot + form] for form in ("", "-def", "-indef") if slot + form in lists}
    if len(set(map(len, listed.values()))) > 1:
        raise ValueError(f"the lists of {slot} have different lengths; list the same words in every form")
    return [dict(zip(listed, words, strict=True)) for words in zip(*listed.values(), strict=True)]


def _word_choices(cell: str) -> list[list[dict[str, str]]]:
    """For each word slot of a cell, sorted by name: its alternatives, each as slot → text."""
    lists = parse_lists(cell)
    slots = sorted({name.partition("-")[0] for name in lists})
    return [
        [{slot + form: word for form, word in forms.items()} for forms in _parallel_forms(lists, slot)]
        for slot in slots
    ]


def _empty_list(value: Any) -> Any:
    return [] if value == "" else python_literal(value)


Story = Annotated[NonBlank, AfterValidator(check_slots)]
Answer = Annotated[Story, AfterValidator(_check_answer)]
Groups = Annotated[list[NonBlank], BeforeValidator(python_literal)]
WordChoices = Annotated[list[list[dict[str, str]]], BeforeValidator(_word_choices)]


class TemplateRow(PublishedRow):
    """A template: a row of a workbook in one language. Fields are named like the columns."""

    label: Literal["t", "m", "n"]
    """BBQ's template transferred (t) or modified (m), or a new one (n)."""
    esbbq_template_id: NonBlank
    version: str = ""
    esbbq_category: NonBlank
    subcategory: str = ""
    ambiguous_context: Story
    disambiguating_context: Story
    names: Annotated[dict[str, tuple[str, ...]], BeforeValidator(parse_lists)] = Field(default_factory=dict)
    """Words for NAME1 and NAME2, if the template lists any."""
    lexical_diversity: WordChoices = Field(default_factory=list)
    """For each word slot its alternatives, as slot → text."""
    proper_nouns_only: Annotated[bool, BeforeValidator(lambda cell: cell or False)] = False
    question_negative_stereotype: Story
    question_non_negative: Story
    answer_negative: Answer
    answer_non_negative: Answer
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
        """The grammatical gender of the people."""
        return self.stated_gender_info.removeprefix("fake-")

    def is_stereotyped(self, person: Person) -> bool:
        """Whether the last part of a person's group, split at commas, is among the stereotyped groups."""
        return person.group.split(",")[-1].strip() in self.stereotyped_groups


class VocabularyRow(PublishedRow):
    """A row of `vocabulary.xlsx`."""

    category: NonBlank
    subcategory: str = ""
    name: NonBlank
    name_def: str = ""
    """With the definite article, if the language's templates need it."""
    f: str = ""
    """Feminine form; empty if it does not differ."""
    f_def: str = ""
    information: str = ""
    """`not-stereotyped`; the level of an occupation; or nothing."""
    include_name: str = ""
    """Rows with any text here are ignored."""


class ProperNameRow(PublishedRow):
    """A row of `vocabulary_proper_names.xlsx`."""

    proper_name: NonBlank
    proper_name_def: str = ""
    """With its article, in a language with articles before names."""
    gender: Literal["m", "f"]
    ethnicity: NonBlank


class Vocabulary(NamedTuple):
    """The words of a language, for templates without word lists."""

    words: tuple[VocabularyRow, ...]
    names: tuple[ProperNameRow, ...]

    def of(self, category: str, subcategory: str = "") -> list[VocabularyRow]:
        """The words of a category, or of a subcategory if given, without ignored rows."""
        words = (row for row in self.words if row.category == category and not row.include_name)
        return [row for row in words if subcategory in ("", row.subcategory)]

    def plain(self, category: str, subcategory: str = "") -> list[str]:
        """The `not-stereotyped` words of a category, or of a subcategory if given."""
        return [row.name for row in self.of(category, subcategory) if row.information == _PLAIN]


class Person(NamedTuple):
    """One of the two people of a filled template."""

    term: str
    """The words that distinguish this person from the other one."""
    group: str
    """Published group; its last part, split at commas, is compared with `stereotyped_groups`."""
    forms: Mapping[str, str]
    """Suffix of the slot (`""`, `-def`, `-indef`) → text."""


def read_workbook(path: Path, schema: type[RowT], language: str, marker: str) -> Iterator[tuple[RowLocation, RowT]]:
    """Yields the validated rows of the first sheet in one language, without blank ones.

    Args:
        schema: its fields are named like the columns, without the suffix of a language.
        marker: a column that every language has; its suffixes are the languages of the workbook.

    Raises:
        UnknownNameError: if the workbook does not have that language.
        DataError: if the file is not a workbook or lacks a column, or at the first invalid row.
    """
    header, *rows = _cells(path) or [[]]
    place, languages = RowLocation(path, 1), _languages(header, marker)
    if not languages:
        raise place.error(f"no column {marker}_xx with a language's code; columns: {', '.join(header)}")
    if language not in languages:
        raise UnknownNameError("language", language, languages, f"({path})")
    columns = list[str]()
    for name in header:  # a column of another language gets an empty name
        match = None if name in schema.model_fields else _LANGUAGE_COLUMN.fullmatch(name)
        is_of_language = match is not None and match[2] in languages
        columns.append(name if match is None or not is_of_language else match[1] if match[2] == language else "")
    for name, field in schema.model_fields.items():
        if columns.count(name) > 1 or (field.is_required() and name not in columns):
            raise place.error(f"is missing or listed twice; give one column {name} or {name}_{language}", name)
    for number, cells in enumerate(rows, start=2):
        if any(cells):
            fields = {name: cell for name, cell in zip(columns, cells, strict=False) if name}
            yield (place := RowLocation(path, number)), checked(fields, schema, place)


def _languages(header: list[str], column: str) -> list[str]:
    matches = (match for name in header if (match := _LANGUAGE_COLUMN.fullmatch(name)))
    return sorted(match[2] for match in matches if match[1] == column)


def _cells(path: Path, last: int | None = None) -> list[list[str]]:
    with closing(open_workbook(path)) as book:
        rows = book.worksheets[0].iter_rows(max_row=last, values_only=True)
        return [[cell_text(cell).strip() for cell in cells] for cells in rows]


def read_vocabulary(folder: Path, language: str) -> Vocabulary:
    """The vocabulary of a folder in one language; empty without the files. Raises DataError for an invalid row."""
    words, names = folder / VOCABULARY_FILE, folder / NAMES_FILE
    word_rows = read_workbook(words, VocabularyRow, language, "name") if words.is_file() else ()
    name_rows = read_workbook(names, ProperNameRow, language, "proper_name") if names.is_file() else ()
    return Vocabulary(tuple(row for _, row in word_rows), tuple(row for _, row in name_rows))


def pairs_of_people(template: TemplateRow, vocabulary: Vocabulary) -> list[tuple[Person, Person]]:
    """NAME1 and NAME2 of every filled template, in published order; raises ValueError for an invalid list."""
    category, stereotyped = template.esbbq_category, template.stereotyped_groups
    infos = template.NAME1_info, template.NAME2_info
    if template.names:
        one, other = (_listed_people(template.names, f"NAME{at}", info) for at, info in enumerate(infos, 1))
        return list(itertools.product(one, other))
    if template.proper_nouns_only:
        ethnicities = vocabulary.plain(_ETHNICITIES)
        plain = [name for name in vocabulary.names if name.ethnicity in ethnicities]
        if category == "Gender":
            women = [_named_person(name, infos[0] or "f") for name in plain if name.gender == "f"]
            men = [_named_person(name, infos[1] or "m") for name in plain if name.gender == "m"]
            return list(itertools.product(women, men))
        plain = [name for name in plain if name.gender == template.gender]
        if category == _ETHNICITIES:
            same_gender = (name for name in vocabulary.names if name.gender == template.gender)
            targets = (name for name in same_gender if name.ethnicity in stereotyped)
            first = [_named_person(name, f"{name.gender}, {name.ethnicity}") for name in targets]
            return list(itertools.product(first, [_named_person(name, name.ethnicity) for name in plain]))
        pairs = itertools.permutations(plain, 2)
        return [(_named_person(one, infos[0]), _named_person(other, infos[1])) for one, other in pairs]
    feminine = template.gender == "f"
    if template.subcategory == _OCCUPATION:
        occupations = []
        for word in vocabulary.of(category, _OCCUPATION):
            term, definite = (word.f, word.f_def) if feminine and word.f else (word.name, word.name_def)
            forms = {"": term, "-def": definite} if definite else {"": term}
            occupations.append(Person(term, word.information, forms))
        return [(one, other) for one, other in itertools.product(occupations, occupations) if one.group != other.group]
    # The term of a group is its name, in the feminine if the vocabulary has that form.
    feminine_forms = {row.name: row.f for row in reversed(vocabulary.of(category)) if row.f} if feminine else {}
    groups = template.non_stereotyped_groups or vocabulary.plain(category, template.subcategory)
    terms = {group: feminine_forms.get(group, group) for group in (*stereotyped, *groups)}
    people = {group: Person(term, group, {"": term}) for group, term in terms.items()}
    return [(people[one], people[other]) for one, other in itertools.product(stereotyped, groups)]


def _listed_people(lists: Mapping[str, tuple[str, ...]], slot: str, group: str) -> list[Person]:
    if not group:
        raise ValueError(f"{slot}_info is empty; say which group the words of {slot} belong to")
    people = []
    for forms in _parallel_forms(lists, slot):
        if "" not in forms and "-indef" not in forms:
            raise ValueError(f"{forms['-def']!r} is listed with its article only; list it without one, too")
        # The word without an article; if that is not listed, the indefinite form without its first word.
        bare = forms[""] if "" in forms else forms["-indef"].partition(" ")[2]
        people.append(Person(term=bare, group=group, forms=forms | {"": bare}))
    if not people:
        raise ValueError(f"{slot} is not listed; write {slot}: [one, two]")
    return people


def _named_person(name: ProperNameRow, group: str) -> Person:
    written = name.proper_name_def or name.proper_name
    return Person(term=name.proper_name, group=group, forms={"": written, "-def": written})


def template_files(folder: Path) -> list[Path]:
    """The sorted template workbooks of a folder, without vocabulary and lock files; raises UsageError if none."""
    files = [path for path in sorted(folder.glob("*.xlsx")) if not path.name.startswith("~$")]
    files = [path for path in files if path.name not in (VOCABULARY_FILE, NAMES_FILE)]
    if not files:
        raise UsageError(f"{folder}: no template workbook (.xlsx) in it; name the folder that holds them")
    return files


def esbbq_languages(folder: Path) -> list[str]:
    """The sorted languages of a folder's templates; raises as `load_esbbq_templates` does."""
    return _languages(next(iter(_cells(template_files(folder)[0], last=1)), []), MARKER)


def load_esbbq_templates(folder: Path, language: str) -> Iterator[Instance]:
    """Yields the instances of a template folder in one language, category by category.

    They equal those of `read_esbbq` except for the version, a digest of the files, and `metadata["source_row"]`, the
    workbook and row of the template.

    Args:
        folder: has a workbook for each category, and `vocabulary.xlsx` and `vocabulary_proper_names.xlsx` if needed.
        language: a suffix of the columns, `es` or `ca`; others have no text of the unknown option yet.

    Raises:
        UsageError: on the call, if there is no workbook in that language, or openpyxl is missing.
        DataError: at the first invalid row; names file, row and column.
    """
    known = esbbq_languages(folder)
    if language not in known:
        raise UnknownNameError("language", language, known, f"({folder})")
    if not unknown_texts(language):
        raise UsageError(f"no texts of the unknown option in {language!r}; add them to unknown_texts.toml")
    paths, vocabulary = template_files(folder), read_vocabulary(folder, language)
    digested = [path for path in (*paths, folder / VOCABULARY_FILE, folder / NAMES_FILE) if path.is_file()]
    version = f"templates-{stable_digest(*(f'{path.name} {file_digest(path)}' for path in digested))[:10]}"
    categories, names = find_benchmark("esbbq").categories, {"es": "esbbq", "ca": "cabbq"}
    whole = SplitInfo(names.get(language, f"esbbq_{language}"), version, language, "bias")
    for_file = {path: re.sub(r"\W+|(?<=[a-z0-9])(?=[A-Z])", "_", path.stem).casefold() for path in paths}
    return itertools.chain.from_iterable(
        instances_of(esbbq_rows(path, vocabulary, language), replace(whole, category=categories.get(path.stem, slug)))
        for path, slug in for_file.items()
    )


def esbbq_rows(path: Path, vocabulary: Vocabulary, language: str) -> Iterator[tuple[RowLocation, EsbbqRow]]:
    """Yields the rows of a template workbook in published form, each with the location of its template."""
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
    """Yields the rows of a template in every arrangement, with every pair of people and every choice of words."""
    try:
        pairs = pairs_of_people(template, vocabulary)
    except ValueError as error:
        raise place.error(str(error), "names") from error
    if not pairs:
        raise place.error("no pair of people fits; list names, or add words to the vocabulary", "names")
    for pair in pairs:
        if (count := sum(map(template.is_stereotyped, pair))) != 1:
            groups, listed = " and ".join(person.group for person in pair), ", ".join(template.stereotyped_groups)
            raise place.error(f"{count} of the groups {groups} are among {listed}; one must", "stereotyped_groups")
    # The person in each answer: 0 for NAME1, 1 for NAME2.
    named = [int("{{NAME2" in answer) for answer in (template.answer_negative, template.answer_non_negative)]
    if named[0] == named[1]:
        raise place.error(f"names NAME{named[0] + 1}, as answer_negative does; name the other", "answer_non_negative")
    for arrangement, swapped in _ARRANGEMENTS.items():
        texts = {column: getattr(template, column) for column in _COLUMNS}
        for column in swapped:
            texts[column] = re.sub(r"(?<=\{\{NAME)[12]", lambda match: "2" if match[0] == "1" else "1", texts[column])
        is_flipped = "answer_negative" in swapped
        for pair, words in itertools.product(pairs, itertools.product(*template.lexical_diversity)):
            values = {f"NAME{number}{form}": text for number in (1, 2) for form, text in pair[number - 1].forms.items()}
            for word in words:
                values |= word
            filled = {column: _fill_slots(text, values, place, column) for column, text in texts.items()}
            people = [pair[1 - index if is_flipped else index] for index in named]
            yield from _rows(template, arrangement, people, filled, write)


def _fill_slots(text: str, values: Mapping[str, str], place: RowLocation, column: str) -> str:
    for name in _SLOT.findall(text):
        if name not in values:
            raise place.error(f"nothing to put in {{{{{name}}}}}; list words for it or correct the placeholder", column)
    return _SLOT.sub(lambda match: values[match[1]], text)


@cache
def sentence_writer(language: str) -> Callable[[str], str]:
    """A function that capitalises the sentences of a filled text and contracts its articles."""
    tables = tomllib.loads(files("mbbq_gen.benchmarks").joinpath("grammar.toml").read_text(encoding="utf-8"))
    repairs = [(re.compile(table["match"]), table["write"]) for table in tables.get(language, {}).get("repair", ())]

    def write(text: str) -> str:
        text = _SENTENCE_START.sub(lambda match: match[1] + match[2].upper(), text)
        for pattern, replacement in repairs:
            text = pattern.sub(replacement, text)
        return text

    return write


def _rows(
    template: TemplateRow,
    arrangement: str,
    people: Sequence[Person],
    filled: Mapping[str, str],
    write: Callable[[str], str],
) -> Iterator[dict[str, object]]:
    """Yields the four rows of a filled template; `people` are the people in its two answers."""
    stereotyped = people[0] if template.is_stereotyped(people[0]) else people[1]
    # In the authors' order the first answer contains the stereotyped person's words.
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
