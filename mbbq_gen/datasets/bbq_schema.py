"""The record that BBQ published and its offspring kept: its fields, and how an `Instance` is made of one.

BBQ, MBBQ, BasqBBQ, PakBBQ and JBBQ share it. Each has its own rule for which option is the target; the rest is here.

    {"example_id": 0, "question_index": "1", "question_polarity": "neg", "context_condition": "ambig",
     "category": "Age", "answer_info": {"ans0": [noun phrase, group], "ans1": …, "ans2": …},
     "additional_metadata": {"subcategory": "None", "stereotyped_groups": [group, …], "version": "a", "source": …},
     "context": …, "question": …, "ans0": …, "ans1": …, "ans2": …, "label": 0}

The option whose group is `unknown` is the unknown one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from mbbq_gen.datasets.rows import Place
from mbbq_gen.records import Condition, Instance, NonBlank, Option, Polarity, Role, Split

CONDITIONS: dict[str, Condition] = {"ambig": "ambiguous", "disambig": "disambiguated"}
POLARITIES: dict[str, Polarity] = {"neg": "negative", "nonneg": "non_negative"}
UNKNOWN_GROUP = "unknown"


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


@dataclass(frozen=True)
class Reading:
    """What a benchmark's own rules make of a row."""

    benchmark: str
    version: str
    """Release or commit of the benchmark."""
    language: str
    split: Split
    category: str
    """Slug."""
    target: int | None
    """Index of the target option, None where the row has no single one."""
    reason: str | None = None
    """Why there is no single target."""
    parallel_id: str | None = None
    swap_people: bool = False
    """Whether the published label names the wrong one of the two people."""
    quirks: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)


def check_label(row: BbqRow, unknown: int, place: Place) -> None:
    """Refuses a label that contradicts the condition: an ambiguous row's answer is the unknown option, no other row's is."""
    if (row.label == unknown) != (row.context_condition == "ambig"):
        raise place.error(
            f"{row.label} contradicts context_condition {row.context_condition!r} (the unknown option is {unknown})",
            "label",
        )


def instance_of(row: BbqRow, place: Place, reading: Reading) -> Instance:
    """The instance that a row is, by the readings of the benchmark's own rules; options are stripped at the edges."""
    unknown = row.unknown_index(place)
    check_label(row, unknown, place)
    options = tuple(
        Option(role=_role(index, unknown, reading.target), text=text.strip(), group=group)
        for index, (text, group) in enumerate(zip(row.texts, row.groups, strict=True))
    )
    stripped = any(text != text.strip() for text in row.texts)
    answer = options[row.label].role
    return Instance(
        benchmark=reading.benchmark,
        version=reading.version,
        split=reading.split,
        language=reading.language,
        instance_id=f"{reading.category}/{row.example_id}",
        parallel_id=reading.parallel_id,
        template_id=f"{reading.category}/{row.question_index}",
        category=reading.category,
        subcategory=named_or_none(row.additional_metadata.subcategory),
        condition=CONDITIONS[row.context_condition],
        polarity=POLARITIES[row.question_polarity],
        context=row.context,
        question=row.question,
        options=options,
        answer=answer,
        answer_index=row.label,
        corrected_answer=_other_person(answer) if reading.swap_people else None,
        bias_scorable=reading.target is not None,
        not_scorable_reason=reading.reason,
        quirks=(("option_edge_space",) if stripped else ()) + text_quirks(row) + reading.quirks,
        metadata=_metadata(row, place) | reading.metadata,
    )


def _role(index: int, unknown: int, target: int | None) -> Role | None:
    """The role of an option; None for both people where there is no single target."""
    if index == unknown:
        return "unknown"
    if target is None:
        return None
    return "target" if index == target else "non_target"


def _other_person(role: Role | None) -> Role | None:
    """The role of the other one of the two people; None for whoever has no role."""
    others: dict[Role | None, Role] = {"target": "non_target", "non_target": "target"}
    return others.get(role)


def named_or_none(text: str) -> str | None:
    """The text, or None where the data says that there is none: nothing, or the word `None`."""
    return None if text.strip() in ("", "None") else text.strip()


def text_quirks(row: BbqRow) -> tuple[str, ...]:
    """Codes of the oddities of context and question that are kept, since the published results were had with them."""
    texts = (row.context, row.question, *row.texts)
    found = ["stray_brace"] if any("{" in text or "}" in text for text in texts) else []
    if "\n" in row.question.strip():
        found.append("two_questions")
    return tuple(found)


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


def sole_match(groups: Sequence[str], stereotyped: Iterable[str], unknown: int) -> int | None:
    """The one option, the unknown one aside, whose group is among the stereotyped; None where none or both are."""
    wanted = set(stereotyped)
    found = [index for index, group in enumerate(groups) if index != unknown and group in wanted]
    return found[0] if len(found) == 1 else None
