"""EsBBQ's template workbooks → instances, by the rules that its authors published; any folder of that form will do.

Paper:    Ruiz-Fernández, Mina, Falcão, Vasquez-Reina, Sallés, Gonzalez-Agirre, Perez-de-Viñaspre (2025): EsBBQ and
          CaBBQ: The Spanish and Catalan Bias Benchmarks for Question Answering. https://arxiv.org/abs/2507.11216
Data:     https://github.com/langtech-bsc/EsBBQ-CaBBQ: `templates/<Category>.xlsx`, `vocabulary.xlsx` and
          `vocabulary_proper_names.xlsx`. From them come the 27,320 Spanish and 27,344 Catalan published rows.
Licence:  Apache-2.0

The rules
1. A template is written in four arrangements: as it is (`original`); with the two people swapped in the ambiguous
   context (`ambig`); in the disambiguating one and in both answers (`disambig`); in all of them (`all`).
2. In each arrangement every pair of people (`esbbq_people`) meets every combination of the words of
   `lexical_diversity`; the forms of a word (WORD1, WORD1-def) go together.
3. Sentences get their capitals, articles their contractions (`slots.sentence_writer`).
4. Each filling gives four questions: both questions, with the ambiguous context alone and with both contexts. The
   answer to the negative question is `answer_negative`, to the other one `answer_non_negative`.
5. Of questions with the same text in the same template (number, all versions) only the first is kept. That is why there
   are twice as many disambiguated as ambiguous ones.

The stereotyped person is the one whose group is among `stereotyped_groups`, and an answer is whose slot it holds. The
authors look for the person's words in the answer instead, and where one person's words contain the other's they take
the wrong one (PhysicalAppearance 10 and, in Catalan, 32). The place of the two options follows theirs, so that rows are
the published ones; groups and alignment are right here, and differ from the published ones in 4 Spanish and 12 Catalan
rows.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from mbbq_gen.benchmarks.bbq_record import SplitInfo, unknown_texts
from mbbq_gen.benchmarks.readers.esbbq import BENCHMARKS, PLACEHOLDER, UNKNOWN_INDEX, EsbbqRow, instance_of
from mbbq_gen.benchmarks.registry import find_benchmark
from mbbq_gen.benchmarks.rows import RowLocation, checked
from mbbq_gen.benchmarks.templates.esbbq_people import Person, ProperNameRow, Vocabulary, VocabularyRow, pairs_of_people
from mbbq_gen.benchmarks.templates.esbbq_rows import MARKER, TemplateRow
from mbbq_gen.benchmarks.templates.files import at_least_one, category_slug, template_version
from mbbq_gen.benchmarks.templates.slots import (
    fill_slots,
    named_person,
    parallel_forms,
    parse_lists,
    read_workbook,
    sentence_writer,
    swap_names,
    workbook_languages,
)
from mbbq_gen.core.errors import UnknownNameError, UsageError
from mbbq_gen.core.records import Instance

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
    template: TemplateRow, place: RowLocation, vocabulary: Vocabulary, write: Callable[[str], str]
) -> Iterator[Filling]:
    """A template filled with every pair of people and every combination of words, in every arrangement.

    Raises:
        DataError: where the template is wrong.
    """
    pairs = _pairs(template, place, vocabulary)
    words = _words(template, place)
    found = []
    for column in ("answer_negative", "answer_non_negative"):
        try:
            found.append(named_person(getattr(template, column)))
        except ValueError as error:
            raise place.error(str(error), column) from error
    if found[0] == found[1]:
        raise place.error(f"names NAME{found[0] + 1}, as answer_negative does; name the other", "answer_non_negative")
    holders = found[0], found[1]
    for arrangement in _ARRANGEMENTS:
        swap_ambiguous = arrangement in ("ambig", "all")
        swap_rest = arrangement in ("disambig", "all")

        def arranged(text: str, swap: bool) -> str:
            return swap_names(text) if swap else text

        texts = Texts(
            ambiguous=arranged(template.ambiguous_context, swap_ambiguous),
            disambiguating=arranged(template.disambiguating_context, swap_rest),
            answer_negative=arranged(template.answer_negative, swap_rest),
            answer_non_negative=arranged(template.answer_non_negative, swap_rest),
        )
        flipped = arrangement in ("disambig", "all")
        for pair in pairs:
            people = (pair[1 - holders[0]], pair[1 - holders[1]]) if flipped else (pair[holders[0]], pair[holders[1]])
            for each in words:
                values = pair[0].fills("NAME1") | pair[1].fills("NAME2") | each
                yield _fill(template, place, texts, values, write, arrangement=arrangement, people=people)


def _fill(
    template: TemplateRow,
    place: RowLocation,
    texts: Texts,
    values: Mapping[str, str],
    write: Callable[[str], str],
    *,
    arrangement: Arrangement,
    people: tuple[Person, Person],
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
    stereotyped = people[0] if is_stereotyped(people[0], template) else people[1]
    found = re.search(rf"\b{re.escape(stereotyped.term)}\b", answers[0], re.IGNORECASE)
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
        first=0 if found else 1,
    )


def _pairs(template: TemplateRow, place: RowLocation, vocabulary: Vocabulary) -> list[tuple[Person, Person]]:
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


def _words(template: TemplateRow, place: RowLocation) -> list[dict[str, str]]:
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


VOCABULARY_FILE: Final = "vocabulary.xlsx"
NAMES_FILE: Final = "vocabulary_proper_names.xlsx"

# --- folders ---------------------------------------------------------------------------------------------------------


def template_files(folder: Path) -> list[Path]:
    """The template workbooks of a folder, sorted; those of the vocabulary and of open spreadsheets are not among them.

    Raises:
        UsageError: where there are none.
    """
    files = [
        path
        for path in sorted(folder.glob("*.xlsx"))
        if path.name not in (VOCABULARY_FILE, NAMES_FILE) and not path.name.startswith("~$")
    ]
    if not files:
        raise UsageError(f"{folder}: no template workbook (.xlsx) in it; name the folder that holds them")
    return files


def esbbq_languages(folder: Path) -> list[str]:
    """The languages that the folder's templates are written in, sorted; raises as `load_esbbq_templates` does."""
    return workbook_languages(template_files(folder)[0], MARKER)


def load_esbbq_templates(folder: Path, language: str) -> Iterator[Instance]:
    """The instances of a template folder in one language, category by category, always the same.

    A category is a workbook. Instances are the ones that `load_esbbq` reads, but for the version, which
    is made of the files' contents, and `metadata["source_row"]`, which names workbook and row of the template.

    Args:
        folder: holds a workbook a category, and `vocabulary.xlsx` and `vocabulary_proper_names.xlsx` where needed.
        language: a code that columns end in, `es` or `ca`; for others there is no text of the unknown option yet.

    Raises:
        UsageError: at once, where there is no workbook, or openpyxl is missing.
        UnknownNameError: where the templates are not written in that language.
        DataError: while reading, at the first row that is wrong; file, row and column.
    """
    paths = template_files(folder)
    known = workbook_languages(paths[0], MARKER)
    if language not in known:
        raise UnknownNameError("language", language, known, f"({folder})")
    if not unknown_texts(language):
        raise UsageError(f"no texts of the unknown option in {language!r}; add them to unknown_texts.toml")
    return _instances(folder, paths, language)


def _instances(folder: Path, paths: Sequence[Path], language: str) -> Iterator[Instance]:
    vocabulary = read_vocabulary(folder, language)
    version = template_version([*paths, folder / VOCABULARY_FILE, folder / NAMES_FILE])
    for path in paths:
        category = find_benchmark("esbbq").categories.get(path.stem, category_slug(path.stem))
        source = SplitInfo(BENCHMARKS.get(language, f"esbbq_{language}"), version, language, "bias", category)
        seen: Counter[str] = Counter()
        for place, row in esbbq_rows(path, vocabulary, language):
            yield instance_of(row, place, source, seen[row.template])
            seen[row.template] += 1


def read_vocabulary(folder: Path, language: str) -> Vocabulary:
    """The vocabulary of a folder in one language; what has no file is empty.

    Raises:
        DataError: at the first row that is wrong.
    """
    words, names = folder / VOCABULARY_FILE, folder / NAMES_FILE
    word_rows = read_workbook(words, VocabularyRow, language, "name") if words.is_file() else iter(())
    name_rows = read_workbook(names, ProperNameRow, language, "proper_name") if names.is_file() else iter(())
    return Vocabulary(tuple(row for _, row in word_rows), tuple(row for _, row in name_rows))


# --- rows ------------------------------------------------------------------------------------------------------------


def esbbq_rows(path: Path, vocabulary: Vocabulary, language: str) -> Iterator[tuple[RowLocation, EsbbqRow]]:
    """The rows of a template workbook as they are published, each with the place of its template.

    Raises:
        DataError: at the first template that is wrong; file, row and column.
    """
    write = sentence_writer(language)
    seen: set[tuple[str, str, str]] = set()
    for place, template in at_least_one(read_workbook(path, TemplateRow, language, MARKER), path):
        for filling in fillings(template, place, vocabulary, write):
            for polarity, disambiguated in itertools.product((0, 1), (False, True)):
                context = filling.disambiguated if disambiguated else filling.ambiguous
                text = (template.esbbq_template_id, context, filling.questions[polarity])
                if text not in seen:
                    row = _row(
                        template, place, filling, polarity=polarity, is_disambiguated=disambiguated, number=len(seen)
                    )
                    yield place, row
                    seen.add(text)


def _row(
    template: TemplateRow, place: RowLocation, filling: Filling, number: int, *, polarity: int, is_disambiguated: bool
) -> EsbbqRow:
    """One row as it is published; polarity is 0 for the negative question and 1 for the other one."""
    first, second = filling.first, 1 - filling.first
    answering = filling.people[polarity]
    pro_stereotype = is_stereotyped(answering, template) == (polarity == 0)
    alignment = ("pro-stereo" if pro_stereotype else "anti-stereo") if is_disambiguated else "n/a"
    fields: dict[str, object] = {
        "instance_id": number,
        "template_id": template.esbbq_template_id,
        "version": template.version,
        "template_label": template.label,
        "flipped": filling.arrangement,
        "question_polarity": ("neg", "nonneg")[polarity],
        "context_condition": "disambig" if is_disambiguated else "ambig",
        "category": template.esbbq_category,
        "subcategory": template.subcategory,
        "relevant_social_value": template.relevant_social_values,
        "stereotyped_groups": template.stereotyped_groups,
        "answer_info.ans0": [filling.people[first].term, filling.people[first].group],
        "answer_info.ans1": [filling.people[second].term, filling.people[second].group],
        "answer_info.ans2": [PLACEHOLDER, PLACEHOLDER],
        "stated_gender_info": template.stated_gender_info,
        "proper_nouns_only": template.proper_nouns_only,
        "context": filling.disambiguated if is_disambiguated else filling.ambiguous,
        "question": filling.questions[polarity],
        "ans0": filling.answers[first],
        "ans1": filling.answers[second],
        "ans2": PLACEHOLDER,
        "question_type": alignment,
        "label": (0 if polarity == first else 1) if is_disambiguated else UNKNOWN_INDEX,
        "source": template.esbbq_source,
    }
    return checked(fields, EsbbqRow, place)
