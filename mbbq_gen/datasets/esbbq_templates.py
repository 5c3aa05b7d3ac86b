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
3. Sentences get their capitals, articles their contractions (`sentences`).
4. Each filling is asked four times: both questions, with the ambiguous context alone and with both contexts. The answer
   to the negative question is `answer_negative`, to the other one `answer_non_negative`.
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
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from mbbq_gen.datasets.assemble import Source, unknown_wordings
from mbbq_gen.datasets.esbbq import CATEGORIES, PLACEHOLDER, UNKNOWN_INDEX, EsbbqRow, instance_of
from mbbq_gen.datasets.esbbq_fillings import Filling, fillings, is_stereotyped
from mbbq_gen.datasets.esbbq_people import ProperNameRow, Vocabulary, VocabularyRow
from mbbq_gen.datasets.esbbq_template_rows import MARKER, TemplateRow
from mbbq_gen.datasets.rows import Place, checked
from mbbq_gen.datasets.sentences import sentence_writer
from mbbq_gen.datasets.template_sources import at_least_one, category_slug, template_version
from mbbq_gen.datasets.workbooks import read_workbook, workbook_languages
from mbbq_gen.errors import UnknownNameError, UsageError
from mbbq_gen.records import Instance

VOCABULARY_FILE: Final = "vocabulary.xlsx"
NAMES_FILE: Final = "vocabulary_proper_names.xlsx"

_BENCHMARKS: Final = {"es": "esbbq", "ca": "cabbq"}


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

    A category is a workbook. Instances are the ones that `load_esbbq` and `load_cabbq` read, but for the version, which
    is made of the files' contents, and `metadata["source_row"]`, which names workbook and row of the template.

    Args:
        folder: holds a workbook a category, and `vocabulary.xlsx` and `vocabulary_proper_names.xlsx` where needed.
        language: a code that columns end in, `es` or `ca`; for others there is no wording of the unknown option yet.

    Raises:
        UsageError: at once, where there is no workbook, or openpyxl is missing.
        UnknownNameError: where the templates are not written in that language.
        DataError: while reading, at the first row that is wrong; file, row and column.
    """
    paths = template_files(folder)
    known = workbook_languages(paths[0], MARKER)
    if language not in known:
        raise UnknownNameError("language", language, known, f"({folder})")
    if not unknown_wordings(language):
        raise UsageError(f"no wordings of the unknown option in {language!r}; add them to unknown_wordings.toml")
    return _instances(folder, paths, language)


def _instances(folder: Path, paths: Sequence[Path], language: str) -> Iterator[Instance]:
    vocabulary = read_vocabulary(folder, language)
    version = template_version([*paths, folder / VOCABULARY_FILE, folder / NAMES_FILE])
    for path in paths:
        category = CATEGORIES.get(path.stem, category_slug(path.stem))
        source = Source(_BENCHMARKS.get(language, f"esbbq_{language}"), version, language, "bias", category)
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


def esbbq_rows(path: Path, vocabulary: Vocabulary, language: str) -> Iterator[tuple[Place, EsbbqRow]]:
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
                    yield (
                        place,
                        _row(
                            template,
                            place,
                            filling,
                            polarity=polarity,
                            disambiguated=disambiguated,
                            number=len(seen),
                        ),
                    )
                    seen.add(text)


def _row(
    template: TemplateRow, place: Place, filling: Filling, *, polarity: int, disambiguated: bool, number: int
) -> EsbbqRow:
    """One row as it is published; polarity is 0 for the negative question and 1 for the other one."""
    first, second = filling.first, 1 - filling.first
    answering = filling.people[polarity]
    pro_stereotype = is_stereotyped(answering, template) == (polarity == 0)
    alignment = ("pro-stereo" if pro_stereotype else "anti-stereo") if disambiguated else "n/a"
    fields: dict[str, object] = {
        "instance_id": number,
        "template_id": template.esbbq_template_id,
        "version": template.version,
        "template_label": template.label,
        "flipped": filling.arrangement,
        "question_polarity": ("neg", "nonneg")[polarity],
        "context_condition": "disambig" if disambiguated else "ambig",
        "category": template.esbbq_category,
        "subcategory": template.subcategory,
        "relevant_social_value": template.relevant_social_values,
        "stereotyped_groups": template.stereotyped_groups,
        "answer_info.ans0": [filling.people[first].term, filling.people[first].group],
        "answer_info.ans1": [filling.people[second].term, filling.people[second].group],
        "answer_info.ans2": [PLACEHOLDER, PLACEHOLDER],
        "stated_gender_info": template.stated_gender_info,
        "proper_nouns_only": template.proper_nouns_only,
        "context": filling.disambiguated if disambiguated else filling.ambiguous,
        "question": filling.questions[polarity],
        "ans0": filling.answers[first],
        "ans1": filling.answers[second],
        "ans2": PLACEHOLDER,
        "question_type": alignment,
        "label": (0 if polarity == first else 1) if disambiguated else UNKNOWN_INDEX,
        "source": template.esbbq_source,
    }
    return checked(fields, EsbbqRow, place)
