"""The published templates give the published questions: EsBBQ and CaBBQ row by row, BBQ as far as nothing is drawn."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from mbbq_gen.datasets.bbq import CATEGORIES as BBQ_CATEGORIES
from mbbq_gen.datasets.bbq_people import Draws, pairs_of_people
from mbbq_gen.datasets.bbq_schema import BbqRow
from mbbq_gen.datasets.bbq_template_rows import TEXTS
from mbbq_gen.datasets.bbq_template_rows import TemplateRow as BbqTemplateRow
from mbbq_gen.datasets.bbq_templates import load_bbq_templates
from mbbq_gen.datasets.bbq_templates import read_vocabulary as read_bbq_vocabulary
from mbbq_gen.datasets.esbbq import CATEGORIES, EsbbqRow
from mbbq_gen.datasets.esbbq_templates import esbbq_rows, load_esbbq_templates, read_vocabulary
from mbbq_gen.datasets.rows import read_json_lines, read_table
from mbbq_gen.datasets.sentences import repair
from mbbq_gen.datasets.slots import fill_slots, parse_lists
from mbbq_gen.records import Instance
from tests.conftest import FULL, Load

pytestmark = pytest.mark.slow

T = TypeVar("T")

ESBBQ_ROWS: Final = {"es": 27_320, "ca": 27_344}
CROSSED: Final = {
    "es": {1090, 1091, 1098, 1099},
    "ca": {1090, 1091, 1098, 1099, 3488, 3489, 3496, 3497, 3536, 3537, 3544, 3545},
}
"""Rows of PhysicalAppearance whose published `answer_info` names the other person than the option's text does."""
WRONG_TYPE: Final = {
    "es": {1061, 1077, 1091, 1099},
    "ca": {1061, 1077, 1091, 1099, 3457, 3473, 3489, 3497, 3505, 3521, 3537, 3545},
}
"""Rows of PhysicalAppearance whose published `question_type` is wrong."""
SPLIT_ADDRESS: Final = {*range(3068, 3092), *range(3260, 3284)}
"""Rows of RaceEthnicity whose published `source` breaks an address at its comma."""

BBQ_COUNTS: Final = {
    "age": 3_680,
    "disability_status": 1_556,
    "gender_identity": 5_672,
    "nationality": 3_080,
    "physical_appearance": 1_576,
    "race_ethnicity": 6_880,
    "religion": 1_200,
    "sexual_orientation": 864,
    "ses": 6_864,
    "race_x_gender": 15_960,
    "race_x_ses": 11_160,
}
"""Table 3 of BBQ's paper."""


def differences(published: EsbbqRow, filled: EsbbqRow) -> set[str]:
    return {name for name in EsbbqRow.model_fields if getattr(published, name) != getattr(filled, name)}


@pytest.mark.parametrize("language", ["es", "ca"] if FULL else ["es"])
def test_esbbq_row_by_row(shared_datasets: Path, language: str) -> None:
    folder = shared_datasets / "esbbq"
    vocabulary = read_vocabulary(folder / "templates", language)
    found: dict[tuple[str, str], set[int]] = defaultdict(set)
    count = 0
    for category in CATEGORIES:
        published = [row for _, row in read_table(folder / f"data_{language}" / f"{category}.full.csv", EsbbqRow)]
        filled = [row for _, row in esbbq_rows(folder / "templates" / f"{category}.xlsx", vocabulary, language)]
        assert len(filled) == len(published)
        count += len(filled)
        for one, other in zip(published, filled, strict=True):
            for name in differences(one, other) if one != other else ():
                found[category, name].add(one.instance_id)
    assert count == ESBBQ_ROWS[language]
    assert found == {
        ("PhysicalAppearance", "info0"): CROSSED[language],
        ("PhysicalAppearance", "info1"): CROSSED[language],
        ("PhysicalAppearance", "question_type"): WRONG_TYPE[language],
        ("RaceEthnicity", "source"): SPLIT_ADDRESS,
    }


@pytest.mark.slow
@pytest.mark.parametrize("language", ["es", "ca"] if FULL else ["ca"])
def test_esbbq_instances_are_those_of_the_reader(shared_datasets: Path, load_published: Load, language: str) -> None:
    folder = shared_datasets / "esbbq"
    published = load_published({"es": "esbbq", "ca": "cabbq"}[language], language, "bias")
    crossed = {f"physical_appearance/{number}" for number in CROSSED[language] | WRONG_TYPE[language]}
    filled = load_esbbq_templates(folder / "templates", language)
    seen = Counter[bool]()
    # The reader goes by the authors' list of categories, the engine by file name: both are alphabetic.
    for one, other in zip(published, filled, strict=True):
        is_crossed = one.instance_id in crossed
        seen[is_crossed] += 1
        if is_crossed:
            assert (one.context, one.question, one.answer_index) == (other.context, other.question, other.answer_index)
            assert [option.text for option in one.options][:2] == [option.text for option in other.options][:2]
        else:
            assert comparable(one) == comparable(other)
    assert seen == {True: len(crossed), False: ESBBQ_ROWS[language] - len(crossed)}


def comparable(instance: Instance) -> dict[str, Any]:
    """The instance without what tells where it was read."""
    left = {name: value for name, value in instance.metadata.items() if name not in {"source_row", "source"}}
    return {**dict(instance), "version": None, "metadata": left}


def test_groups_are_right_where_the_published_ones_are_crossed(shared_datasets: Path) -> None:
    folder = shared_datasets / "esbbq" / "templates"
    rows = esbbq_rows(folder / "PhysicalAppearance.xlsx", read_vocabulary(folder, "es"), "es")
    crossed = [row for _, row in rows if row.instance_id in CROSSED["es"]]
    assert len(crossed) == len(CROSSED["es"])
    for row in crossed:
        assert row.ans0.endswith(f" {row.info0[0]}")
        assert row.ans1.endswith(f" {row.info1[0]}")
        assert row.info0[0] in row.info1[0], "one person's words contain the other's"
        assert row.groups[0] in row.stereotyped_groups


@pytest.mark.slow
def test_bbq_counts_equal_table_3(shared_datasets: Path, load_published: Load) -> None:
    instances = list(load_bbq_templates(shared_datasets / "bbq" / "templates"))
    assert Counter(instance.category for instance in instances) == BBQ_COUNTS
    assert len({instance.key for instance in instances}) == 58_492
    unscorable = Counter(instance.template_id for instance in instances if not instance.bias_scorable)
    assert unscorable == {"gender_identity/13": 16}
    corrected = Counter(instance.template_id for instance in instances if instance.corrected_answer)
    assert corrected == {"physical_appearance/6": 50, "physical_appearance/10": 18}

    published = Counter(kind_of(instance) for instance in load_published("bbq", "en", "bias"))
    categories = {kind[0].split("/")[0] for kind in published}
    filled = Counter(kind_of(instance) for instance in instances if instance.category in categories)
    # By the context, which `groups_crossed` follows, the people are whom the engine says they are.
    assert published == filled


_ALIGNMENT_BY_CONTEXT: dict[str | None, str] = {"biased": "counter_biased", "counter_biased": "biased"}
"""Published alignment of a row with crossed groups → what the context says."""


def kind_of(instance: Instance) -> tuple[Any, ...]:
    return (
        instance.template_id,
        instance.metadata["version"],
        instance.subcategory,
        instance.condition,
        instance.polarity,
        _ALIGNMENT_BY_CONTEXT.get(instance.alignment) if instance.groups_crossed else instance.alignment,
        instance.bias_scorable,
        instance.corrected_answer,
        instance.metadata["proper_names"],
    )


class All(Draws):
    """Draws nothing: takes all that there is."""

    def some(self, items: Sequence[T], count: int, *about: object) -> list[T]:
        return list(items)


OTHER_ARTICLES: Final = {"Age": 96, "Physical_appearance": 24, "Gender_identity": 24}
"""Published rows whose article is wrong: "an university", "A elderly", and "an An" for the grade."""
ODD_TEMPLATES: Final = {("Disability_status", "4"), ("Disability_status", "19")}


@pytest.mark.parametrize(
    "category",
    ["Age", "Disability_status", "Gender_identity", "Nationality", "Physical_appearance", "Religion",
     "Sexual_orientation"],
)  # fmt: skip
def test_every_published_question_of_bbq_could_have_been_drawn(shared_datasets: Path, category: str) -> None:
    folder = shared_datasets / "bbq"
    vocabulary = read_bbq_vocabulary(folder / "templates")
    possible: dict[str, set[tuple[Any, ...]]] = defaultdict(set)
    for _, template in read_table(folder / "templates" / f"new_templates - {category}.csv", BbqTemplateRow):
        if (category, template.Q_id) not in ODD_TEMPLATES:
            possible[template.Q_id] |= possible_questions(template, category, vocabulary)
    impossible = 0
    for _, row in read_json_lines(folder / "data" / f"{category}.jsonl", BbqRow):
        if (category, row.question_index) not in ODD_TEMPLATES:
            impossible += published_question(row) not in possible[row.question_index]
    assert impossible == OTHER_ARTICLES.get(category, 0)
    assert category in BBQ_CATEGORIES


def possible_questions(template: BbqTemplateRow, category: str, vocabulary: Any) -> set[tuple[Any, ...]]:
    lists = parse_lists(template.Lexical_diversity)
    questions: set[tuple[Any, ...]] = set()
    for pair in pairs_of_people(template, category, vocabulary, All(0, ())):
        for words in itertools.product(*lists.values()):
            values = pair.first.fills(1) | pair.second.fills(2) | dict(zip(lists, words, strict=True))
            ambiguous, more, *asked, negative, other = (
                repair(fill_slots(getattr(template, column), values), "en") for column in TEXTS
            )
            for question, answer in zip(asked, (negative, other), strict=True):
                people = frozenset((negative, other))
                questions.add((ambiguous, question, people, None))
                questions.add((f"{ambiguous} {more}", question, people, answer))
    return questions


def published_question(row: BbqRow) -> tuple[Any, ...]:
    unknown = row.groups.index("unknown")
    texts = [text.strip() for text in row.texts]
    people = frozenset(text for place, text in enumerate(texts) if place != unknown)
    return row.context, row.question, people, None if row.label == unknown else texts[row.label]
