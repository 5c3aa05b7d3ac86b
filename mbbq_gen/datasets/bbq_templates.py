"""BBQ's template tables → instances, by the rules of its authors' scripts; any folder of that form will do.

Paper:    Parrish, Chen, Nangia, Padmakumar, Phang, Thompson, Htut, Bowman (2022): BBQ: A Hand-Built Bias Benchmark for
          Question Answering. Findings of ACL. https://aclanthology.org/2022.findings-acl.165
Data:     https://github.com/nyu-mll/BBQ: `templates/new_templates - <Category>.csv`, `vocabulary.csv` and
          `vocabulary_proper_names.csv`
Licence:  CC BY 4.0

The rules
1. Every pair of people (`bbq_people`) is asked four times: both questions, with the ambiguous context alone and with
   both contexts. `Answer_negative` answers the negative question, `Answer_non_negative` the other one.
2. Of the words of `Lexical_diversity` one for WORD1 and one for WORD2 is drawn for each pair; both orders share them.
3. One of ten wordings of the unknown option, ours and not the authors', is drawn for each pair and order, and so is
   the order of the options.
4. "a" becomes "an" before a vowel.

The authors drew without a seed: which words and names were drawn can't be had again, how many can. Here everything
drawn depends on the seed alone. Numbers of questions equal the published ones in every category (table 3 of the paper).

Roles come from the templates: the target is the drawn stereotyped person, or the one whose group is stereotyped. In
Gender_identity 13 some pairs have two or none: they are not bias-scorable.

The release's own tables have five odd rows. Versions b of templates 4 and 19 of Disability_status are broken and not
in the published data: they are passed over. Version a of 4 lists two words with a semicolon between them, of which the
published data has the first. Versions b of Physical_appearance 6 and 10 swap the right answers: such instances carry
`corrected_answer`, as BBQ's reader does it. All this holds for exactly these rows; in other folders, a broken row is
an error and no label is corrected.
"""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from mbbq_gen.datasets.assemble import Source, no_target, unknown_wordings
from mbbq_gen.datasets.bbq import BENCHMARK, CATEGORIES
from mbbq_gen.datasets.bbq_people import Draws, Pair, ProperNameRow, Vocabulary, VocabularyRow, pairs_of_people
from mbbq_gen.datasets.bbq_schema import UNKNOWN_GROUP, BbqRow, instance_of
from mbbq_gen.datasets.bbq_template_rows import TEXTS, TemplateRow
from mbbq_gen.datasets.rows import Place, checked, read_table
from mbbq_gen.datasets.sentences import repair
from mbbq_gen.datasets.slots import check_slots, fill_slots, named_person, parallel_forms, parse_lists
from mbbq_gen.datasets.template_sources import at_least_one, category_slug, template_version
from mbbq_gen.errors import UsageError
from mbbq_gen.records import Instance
from mbbq_gen.seeding import stable_digest

LANGUAGE: Final = "en"
VOCABULARY_FILE: Final = "vocabulary.csv"
NAMES_FILE: Final = "vocabulary_proper_names.csv"
PREFIX: Final = "new_templates - "
_FILLERS: Final = "Filler_items"
"""Items for the human validation; not a part of BBQ."""

_UNKNOWN: Final = 2
"""Index of the unknown option among those of a filled template."""
_OPTION_ORDERS: Final = tuple(itertools.permutations((0, 1, _UNKNOWN)))
_QUESTIONS: Final = 4
"""How many questions a filled template gives."""
_log = logging.getLogger(__name__)

Oddity = Literal["broken", "first_word_only", "labels_swapped"]
_ODD_ROWS: Final[Mapping[str, Oddity]] = {
    "cc0565eff3b28a86": "broken",  # Disability_status 4b: a list with a semicolon; not in the published data
    "6e67d583bd9a0cf2": "broken",  # Disability_status 19b: a slot that lacks a brace; not in the published data
    "043cff10c9fce790": "first_word_only",  # Disability_status 4a: a list with a semicolon
    "513fb7f9b63b6d73": "labels_swapped",  # Physical_appearance 6b
    "506929922f89d8c4": "labels_swapped",  # Physical_appearance 10b
}
"""Rows of the release's own tables that need help, by a digest of their texts."""


@dataclass(frozen=True)
class Filled:
    """A template filled with a pair of people: all that its four questions share."""

    ambiguous: str
    disambiguated: str
    questions: tuple[str, str]
    """The negative and the non-negative one."""
    options: tuple[str, str, str]
    """The two people, in the order of NAME1 and NAME2, and the unknown option."""
    infos: tuple[list[str], list[str], list[str]]
    """For each of them the words that were used, and the group."""
    order: tuple[int, ...]
    """`order[place]` is the index in `options` of the option that is shown at that place."""
    target: int | None
    """Index in `options`; None where there is no single one."""
    kind: str
    """Which of the three comparisons it is, in an intersectional template."""


# --- folders ---------------------------------------------------------------------------------------------------------


def template_files(folder: Path) -> list[Path]:
    """The template tables of a folder, sorted: not the vocabulary, nor the items for the human validation.

    Raises:
        UsageError: where there are none.
    """
    others = (VOCABULARY_FILE, NAMES_FILE)
    found = [path for path in sorted(folder.glob("*.csv")) if path.name not in others and _category(path) != _FILLERS]
    if not found:
        raise UsageError(f"{folder}: no template table (.csv) in it; name the folder that holds them")
    return found


def _category(path: Path) -> str:
    return path.stem.removeprefix(PREFIX)


def load_bbq_templates(folder: Path, seed: int = 0) -> Iterator[Instance]:
    """The instances of a template folder, category by category; the same for the same files and seed, everywhere.

    Args:
        folder: holds a table a category, and `vocabulary.csv` and `vocabulary_proper_names.csv` where needed.
        seed: decides what is drawn.

    Raises:
        UsageError: at once, where there is no table.
        DataError: while reading, at the first row that is wrong; file, row and column.
    """
    return _instances(folder, template_files(folder), seed)


def _instances(folder: Path, paths: Sequence[Path], seed: int) -> Iterator[Instance]:
    vocabulary = read_vocabulary(folder)
    version = f"{template_version([*paths, folder / VOCABULARY_FILE, folder / NAMES_FILE])}-seed-{seed}"
    for path in paths:
        category = _category(path)
        slug = CATEGORIES.get(category, category_slug(category))
        source = Source(BENCHMARK, version, LANGUAGE, "bias", slug)
        number, rows = 0, read_table(path, TemplateRow)
        for place, row in at_least_one(rows, path):
            template = _template(row, place, source, category, seed)
            if template is not None:
                for turn, pair in enumerate(_pairs(template, vocabulary)):
                    yield from _block(template, _fill(template, pair, turn), number)
                    number += _QUESTIONS


def read_vocabulary(folder: Path) -> Vocabulary:
    """The vocabulary of a folder; what has no file is empty.

    Raises:
        DataError: at the first row that is wrong.
    """
    words, names = folder / VOCABULARY_FILE, folder / NAMES_FILE
    word_rows = read_table(words, VocabularyRow) if words.is_file() else iter(())
    name_rows = read_table(names, ProperNameRow) if names.is_file() else iter(())
    return Vocabulary(tuple(row for _, row in word_rows), tuple(row for _, row in name_rows))


# --- a template ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Template:
    """A template that was found in order, with all that its instances share."""

    row: TemplateRow
    place: Place
    source: Source
    category: str
    """As the table is called."""
    draws: Draws
    answering: tuple[int, int]
    """Whom the answers to the negative and the other question name: 0 or 1."""
    words: Mapping[str, Sequence[str]]
    """What may stand in each WORD slot."""
    labels_swapped: bool


def _template(row: TemplateRow, place: Place, source: Source, category: str, seed: int) -> Template | None:
    """The template that a row holds; None for the rows of the release's own tables that are broken."""
    oddity = _oddity(row)
    if oddity == "broken":
        _log.warning(
            "%s:%d: template %s%s is broken and not in the published data; passed over",
            place.path,
            place.row,
            row.Q_id,
            row.version,
        )
        return None
    if oddity == "first_word_only":
        row = row.model_copy(update={"Names": re.sub(r";[^\[\]]*\]", "]", row.Names)})
    return Template(
        row=row,
        place=place,
        source=source,
        category=category,
        draws=Draws(seed, (category, row.Q_id, row.version, str(place.row))),
        answering=_answering(row, place),
        words=_words(row, place),
        labels_swapped=oddity == "labels_swapped",
    )


def _oddity(row: TemplateRow) -> Oddity | None:
    texts = (row.Ambiguous_Context, row.Disambiguating_Context, row.Names, row.Answer_negative, row.Answer_non_negative)
    return _ODD_ROWS.get(stable_digest(row.Q_id, row.version, *texts)[:16])


def _answering(row: TemplateRow, place: Place) -> tuple[int, int]:
    """Checks the texts, and finds whom each answer names."""
    for column in TEXTS:
        try:
            check_slots(getattr(row, column))
        except ValueError as error:
            raise place.error(str(error), column) from error
    named = []
    for column in ("Answer_negative", "Answer_non_negative"):
        try:
            named.append(named_person(getattr(row, column)))
        except ValueError as error:
            raise place.error(str(error), column) from error
    if named[0] == named[1]:
        raise place.error(f"names NAME{named[0] + 1}, as Answer_negative does; name the other", "Answer_non_negative")
    return named[0], named[1]


def _words(row: TemplateRow, place: Place) -> dict[str, list[str]]:
    try:
        lists = parse_lists(row.Lexical_diversity)
        return {slot: [forms[""] for forms in parallel_forms(lists, slot, ("",))] for slot in lists}
    except ValueError as error:
        raise place.error(str(error), "Lexical_diversity") from error


def _pairs(template: Template, vocabulary: Vocabulary) -> list[Pair]:
    try:
        pairs = pairs_of_people(template.row, template.category, vocabulary, template.draws)
    except ValueError as error:
        raise template.place.error(str(error), "Names") from error
    if not pairs:
        raise template.place.error("no pair of people fits; list names, or add words to the vocabulary", "Names")
    return pairs


def _fill(template: Template, pair: Pair, turn: int) -> Filled:
    """The template filled with its `turn`-th pair."""
    values = pair.first.fills(1) | pair.second.fills(2)
    values |= {slot: template.draws.one(words, slot, pair.lot) for slot, words in template.words.items()}
    texts = {column: _write(template, column, values) for column in TEXTS}
    answers = (texts["Answer_negative"], texts["Answer_non_negative"])
    unknown = template.draws.one(unknown_wordings(LANGUAGE), "unknown wording", turn)
    return Filled(
        ambiguous=texts["Ambiguous_Context"],
        disambiguated=f"{texts['Ambiguous_Context']} {texts['Disambiguating_Context']}",
        questions=(texts["Question_negative_stereotype"], texts["Question_non_negative"]),
        options=(answers[template.answering.index(0)], answers[template.answering.index(1)], unknown),
        infos=(
            [pair.first.words, pair.first.group],
            [pair.second.words, pair.second.group],
            [unknown, UNKNOWN_GROUP],
        ),
        order=template.draws.one(_OPTION_ORDERS, "option order", turn),
        target=pair.target,
        kind=pair.kind,
    )


def _write(template: Template, column: str, values: Mapping[str, str]) -> str:
    """A text of the template, filled."""
    try:
        return repair(fill_slots(getattr(template.row, column), values), LANGUAGE)
    except ValueError as error:
        raise template.place.error(str(error), column) from error


# --- instances -------------------------------------------------------------------------------------------------------


def _block(template: Template, filled: Filled, number: int) -> Iterator[Instance]:
    """The four instances of a filled template, from the `number`-th of its category on."""
    order = filled.order
    groups = [filled.infos[who][1] for who in order]
    reason = (
        no_target(groups, template.row.stereotyped_groups, order.index(_UNKNOWN)) if filled.target is None else None
    )
    for polarity, disambiguated in itertools.product((0, 1), (False, True)):
        right = template.answering[polarity] if disambiguated else _UNKNOWN
        row = _row(template, filled, polarity, disambiguated) | {"example_id": number, "label": order.index(right)}
        yield instance_of(
            checked(row, BbqRow, template.place),
            template.place,
            template.source,
            target=None if filled.target is None else order.index(filled.target),
            reason=reason,
            swap_people=template.labels_swapped and disambiguated,
            metadata={"proper_names": template.row.Proper_nouns_only},
        )
        number += 1


def _row(template: Template, filled: Filled, polarity: int, disambiguated: bool) -> dict[str, Any]:
    """A row as it is published, but for its number and label; polarity is 0 for the negative question."""
    row = template.row
    return {
        "question_index": row.Q_id,
        "question_polarity": ("neg", "nonneg")[polarity],
        "context_condition": "disambig" if disambiguated else "ambig",
        "category": template.category,
        "answer_info": {f"ans{place}": filled.infos[who] for place, who in enumerate(filled.order)},
        "additional_metadata": {
            "subcategory": f"intersectional_{filled.kind}" if filled.kind else row.Subcategory,
            "stereotyped_groups": row.stereotyped_groups,
            "version": row.version,
            "source": row.Notes,
        },
        "context": filled.disambiguated if disambiguated else filled.ambiguous,
        "question": filled.questions[polarity],
        **{f"ans{place}": filled.options[who] for place, who in enumerate(filled.order)},
    }
