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
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mbbq_gen.benchmarks.bbq_record import SplitInfo, unknown_texts
from mbbq_gen.benchmarks.readers.esbbq import BENCHMARKS, PLACEHOLDER, UNKNOWN_INDEX, EsbbqRow, instance_of
from mbbq_gen.benchmarks.registry import find_benchmark
from mbbq_gen.benchmarks.rows import RowLocation, checked
from mbbq_gen.benchmarks.templates.esbbq_people import (
    MARKER,
    Person,
    ProperNameRow,
    TemplateRow,
    Vocabulary,
    VocabularyRow,
    pairs_of_people,
)
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

_ARRANGEMENTS: Final[dict[str, tuple[str, ...]]] = {
    "original": (),
    "ambig": ("ambiguous_context",),
    "disambig": ("disambiguating_context", "answer_negative", "answer_non_negative"),
    "all": ("ambiguous_context", "disambiguating_context", "answer_negative", "answer_non_negative"),
}
"""Arrangement → the columns whose two people are swapped."""
_COLUMNS: Final = (
    "ambiguous_context", "disambiguating_context", "answer_negative", "answer_non_negative",
    "question_negative_stereotype", "question_non_negative",
)  # fmt: skip
VOCABULARY_FILE: Final = "vocabulary.xlsx"
NAMES_FILE: Final = "vocabulary_proper_names.xlsx"


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


@contextmanager
def _column(place: RowLocation, name: str) -> Iterator[None]:
    """Turns a ValueError about a column of a template into a DataError."""
    try:
        yield
    except ValueError as error:
        raise place.error(str(error), name) from error


def esbbq_rows(path: Path, vocabulary: Vocabulary, language: str) -> Iterator[tuple[RowLocation, EsbbqRow]]:
    """The rows of a template workbook as they are published, each with the place of its template.

    Raises:
        DataError: at the first template that is wrong; file, row and column.
    """
    write = sentence_writer(language)
    seen: set[tuple[object, ...]] = set()
    for place, template in at_least_one(read_workbook(path, TemplateRow, language, MARKER), path):
        for fields in _filled(template, place, vocabulary, write):
            text = (template.esbbq_template_id, fields["context"], fields["question"])
            if text not in seen:
                yield place, checked(fields | {"instance_id": len(seen)}, EsbbqRow, place)
                seen.add(text)


def _filled(
    template: TemplateRow, place: RowLocation, vocabulary: Vocabulary, write: Callable[[str], str]
) -> Iterator[dict[str, object]]:
    """The rows of a template in every arrangement, with every pair of people and every combination of words."""
    pairs = _pairs(template, place, vocabulary)
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
            values = pair[0].fills("NAME1") | pair[1].fills("NAME2") | each
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
    stereotyped = people[0] if is_stereotyped(people[0], template) else people[1]
    # The authors put the answer first that contains the stereotyped person's words.
    is_first = re.search(rf"\b{re.escape(stereotyped.term)}\b", filled["answer_negative"], re.IGNORECASE)
    first, second = (0, 1) if is_first else (1, 0)
    answers = write(filled["answer_negative"]), write(filled["answer_non_negative"])
    ambiguous, disambiguating = write(filled["ambiguous_context"]), write(filled["disambiguating_context"])
    questions = write(filled["question_negative_stereotype"]), write(filled["question_non_negative"])
    for polarity, is_disambiguated in itertools.product((0, 1), (False, True)):
        pro_stereotype = is_stereotyped(people[polarity], template) == (polarity == 0)
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


def _pairs(template: TemplateRow, place: RowLocation, vocabulary: Vocabulary) -> list[tuple[Person, Person]]:
    """The pairs of people, each with exactly one who is stereotyped."""
    with _column(place, "names"):
        pairs = pairs_of_people(template, vocabulary)
    if not pairs:
        raise place.error("no pair of people fits; list names, or add words to the vocabulary", "names")
    for pair in pairs:
        stereotyped = [person for person in pair if is_stereotyped(person, template)]
        if len(stereotyped) != 1:
            groups = " and ".join(person.group for person in pair)
            raise place.error(
                f"{len(stereotyped)} of the groups {groups} are among {', '.join(template.stereotyped_groups)};"
                " one must",
                "stereotyped_groups",
            )
    return pairs


def is_stereotyped(person: Person, template: TemplateRow) -> bool:
    """Whether the person's group, the last comma part of it, is among the template's stereotyped ones."""
    return person.group.split(",")[-1].strip() in template.stereotyped_groups
