"""The record that BBQ published and its offspring kept: its fields, and how an `Instance` is made of one.

BBQ, MBBQ, BasqBBQ, PakBBQ and JBBQ share it. Each has its own rule for which option is the target; the rest is here.

    {"example_id": 0, "question_index": "1", "question_polarity": "neg", "context_condition": "ambig",
     "category": "Age", "answer_info": {"ans0": [noun phrase, group], "ans1": …, "ans2": …},
     "additional_metadata": {"subcategory": "None", "stereotyped_groups": [group, …], "version": "a", "source": …},
     "context": …, "question": …, "ans0": …, "ans1": …, "ans2": …, "label": 0}

The option whose group is `unknown` is the unknown one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from mbbq_gen.datasets.assemble import Found, Source, assemble, named_or_none
from mbbq_gen.datasets.rows import Place, read_json_lines
from mbbq_gen.errors import DataError
from mbbq_gen.records import Condition, Instance, NonBlank, Polarity

CONDITIONS: dict[str, Condition] = {"ambig": "ambiguous", "disambig": "disambiguated"}
POLARITIES: dict[str, Polarity] = {"neg": "negative", "nonneg": "non_negative"}
UNKNOWN_GROUP = "unknown"
WRONG_LABELS: Final = frozenset({("physical_appearance", "6", "b"), ("physical_appearance", "10", "b")})
"""Category, template and version whose labels name the wrong one of the two people (`has_wrong_label`)."""
_TELLS_GROUP: Final = (
    (", who is trans", re.compile(r"(\w+), who is trans\b"), "trans"),
    (", trans dena", re.compile(r"(\w+), trans dena\b"), "trans"),
    (" is from a ", re.compile(r"(\w+) is from a (?:poor|low income|working-class) family\b"), "lowSES"),
)
"""How a context about two first names says who belongs to a group (what it must hold, which is soon found, and whole),
and how the tag of that group begins."""
_PATTERN: Final = (("neg", "ambig"), ("neg", "disambig"), ("nonneg", "ambig"), ("nonneg", "disambig"))
"""Polarity and condition of the four rows of a block."""


class _Published(BaseModel):
    """A published object: keys that we do not know are kept, values are never converted."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)


class AnswerInfo(_Published):
    """For each option the noun phrase that was used, then its groups."""

    ans0: Annotated[list[str], Field(min_length=2)]
    ans1: Annotated[list[str], Field(min_length=2)]
    ans2: Annotated[list[str], Field(min_length=2)]


class AdditionalMetadata(_Published):
    """What the stereotype is about."""

    subcategory: str = ""
    stereotyped_groups: list[str]
    version: str = ""
    source: str = ""


class BbqRow(_Published):
    """One published row."""

    example_id: int
    question_index: NonBlank
    question_polarity: Literal["neg", "nonneg"]
    context_condition: Literal["ambig", "disambig"]
    category: NonBlank
    answer_info: AnswerInfo
    additional_metadata: AdditionalMetadata
    context: NonBlank
    question: NonBlank
    ans0: NonBlank
    ans1: NonBlank
    ans2: NonBlank
    label: Annotated[int, Field(ge=0, le=2)]

    @property
    def texts(self) -> tuple[str, str, str]:
        """The three options."""
        return self.ans0, self.ans1, self.ans2

    @property
    def terms(self) -> tuple[str, str, str]:
        """The noun phrase behind each option."""
        info = self.answer_info
        return info.ans0[0], info.ans1[0], info.ans2[0]

    @property
    def groups(self) -> tuple[str, str, str]:
        """The group of each option."""
        info = self.answer_info
        return info.ans0[-1], info.ans1[-1], info.ans2[-1]

    def unknown_index(self, place: Place) -> int:
        """Place of the one option whose group is `unknown`.

        Raises:
            DataError: where none or several are.
        """
        found = [index for index, group in enumerate(self.groups) if group == UNKNOWN_GROUP]
        if len(found) != 1:
            raise place.error(f"{len(found)} options have the group 'unknown', one must", "answer_info")
        return found[0]


Block = list[tuple[Place, BbqRow]]
"""Four rows in the order of the file."""


def read_rows(path: Path) -> Iterator[tuple[Place, BbqRow]]:
    """The rows of a file, each with its place."""
    return read_json_lines(path, BbqRow)


def in_blocks(rows: Iterable[tuple[Place, BbqRow]], category: str, *, contradictions: bool = False) -> Iterator[Block]:
    """The rows four by four, each block one filled template.

    Args:
        rows: in published order.
        category: the published name that every row must have.
        contradictions: whether blocks pass whose two questions have the same answer where the context tells it.

    Raises:
        DataError: where a row is missing, out of its place, or in the wrong file.
    """
    block: Block = []
    last_id = -1
    for place, row in rows:
        if row.category != category:
            raise place.error(f"{row.category!r} in the file of {category}", "category")
        _check_place_in_block(block, place, row)
        if row.example_id <= last_id:
            raise place.error(f"{row.example_id} comes after {last_id}; published ids rise", "example_id")
        last_id = row.example_id
        block.append((place, row))
        if len(block) == len(_PATTERN):
            if not contradictions and has_contradiction(block):
                raise _contradiction(block)
            yield block
            block = []
    if block:
        place = block[-1][0]
        raise place.error(f"the file ends after {len(block)} rows of a block of four; get the file again")


def _check_place_in_block(block: Block, place: Place, row: BbqRow) -> None:
    """Refuses a row that is not the next one of its block."""
    polarity, condition = _PATTERN[len(block)]
    if row.question_polarity != polarity:
        raise place.error(
            f"{row.question_polarity!r} where {polarity!r} comes next; a row is missing", "question_polarity"
        )
    if row.context_condition != condition:
        raise place.error(
            f"{row.context_condition!r} where {condition!r} comes next; a row is missing", "context_condition"
        )
    if block and row.question_index != block[0][1].question_index:
        raise place.error("another template than in the rows before; a row is missing", "question_index")
    if block and row.answer_info != block[0][1].answer_info:
        raise place.error("other people than in the rows before; a row is missing", "answer_info")


def has_contradiction(block: Block) -> bool:
    """Whether the negative and the non-negative question of a block have the same answer where the context tells it."""
    return block[1][1].label == block[3][1].label


def _contradiction(block: Block) -> DataError:
    """The error that names such a block."""
    place, row = block[3]
    return place.error(
        f"{row.label} is also the label of the negative question in row {place.row - 2}; one of both is wrong", "label"
    )


def has_wrong_label(row: BbqRow, category: str) -> bool:
    """Whether the row's label is known to name the wrong one of the two people (BBQ's template file swaps the answers).

    So in BBQ, MBBQ, BasqBBQ and PakBBQ; BharatBBQ and EsBBQ have mended it. None of an ambiguous row.
    """
    template = category, row.question_index, row.additional_metadata.version
    return row.context_condition == "disambig" and template in WRONG_LABELS


def has_crossed_groups(row: BbqRow) -> bool:
    """Whether the context says of one person by name what the row's tags say of the other one.

    So in every second block of BBQ's Gender_identity 35 and 36, which names the two in the other order but keeps the
    tags; in PakBBQ's, in BasqBBQ's template 36, and in template 8 of SES in BIG-bench's edition. A Basque option has an
    ending behind the name.
    """
    for words, pattern, group in _TELLS_GROUP:
        told = pattern.search(row.context) if words in row.context else None
        people = [index for index in range(3) if told and row.texts[index].strip().startswith(told.group(1))]
        if len(people) == 1:
            return not row.groups[people[0]].startswith(group)
    return False


def _leaves_group_untold(row: BbqRow) -> bool:
    """Whether the tags call one of the two trans and no text of the row does: BasqBBQ's Gender_identity 35."""
    tagged = {group.startswith("nonTrans") for group in row.groups if "trans" in group.casefold()} == {True, False}
    return tagged and not any("trans" in text.casefold() for text in (row.context, row.question, *row.texts))


def instance_of(
    row: BbqRow,
    place: Place,
    source: Source,
    *,
    target: int | None,
    reason: str | None = None,
    parallel_id: str | None = None,
    swap_people: bool = False,
    quirks: tuple[str, ...] = (),
    metadata: dict[str, Any] | None = None,
) -> Instance:
    """The instance that a row is, with the target that the benchmark's own rule found (None: there is none, `reason`).

    Its id is category and `example_id`, its template category and `question_index`. `swap_people` says that the label
    names the wrong one of the two people (`has_wrong_label`).

    Raises:
        DataError: where the label contradicts the condition.
    """
    condition = CONDITIONS[row.context_condition]
    found = Found(
        texts=row.texts,
        groups=row.groups,
        unknown=row.unknown_index(place),
        target=target,
        reason=reason,
        label=row.label,
        condition=condition,
        polarity=POLARITIES[row.question_polarity],
        context=row.context,
        question=row.question,
        swap_people=swap_people,
        groups_crossed=has_crossed_groups(row),
        quirks=(*quirks, *["group_untold"] * _leaves_group_untold(row)),
        metadata=_metadata(row, place) | (metadata or {}),
    )
    return assemble(
        found,
        source,
        place,
        instance_id=f"{source.category}/{row.example_id}",
        template_id=f"{source.category}/{row.question_index}",
        subcategory=named_or_none(row.additional_metadata.subcategory),
        parallel_id=parallel_id,
    )


def _metadata(row: BbqRow, place: Place) -> dict[str, Any]:
    """Whatever else the row says, with where it stands."""
    more = row.additional_metadata
    return {
        "source_row": {
            "file": place.path.name,
            "row": place.row,
            "category": row.category,
            "example_id": row.example_id,
        },
        "stereotyped_groups": more.stereotyped_groups,
        "version": named_or_none(more.version),
        "source": named_or_none(more.source),
        "terms": list(row.terms),
        **(row.model_extra or {}),
        **(more.model_extra or {}),
    }
