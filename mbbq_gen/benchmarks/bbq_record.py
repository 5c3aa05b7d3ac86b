"""The row format of BBQ and the benchmarks derived from it, and how an `Instance` is made of a row.

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
from typing import Annotated, Any, Final, Literal, get_args, get_type_hints

import msgspec

from mbbq_gen.benchmarks.instance_builder import (
    CONDITIONS,
    POLARITIES,
    build_instance,
    clean,
    find_alignment,
    named_or_none,
    no_target,
    only_stereotyped,
)
from mbbq_gen.benchmarks.registry import SplitInfo
from mbbq_gen.benchmarks.rows import LazyInstance, RowLocation, in_groups, json_row, note_file, with_ids
from mbbq_gen.core.option_display import SamplingUnit
from mbbq_gen.core.records import Instance
from mbbq_gen.core.tables import lines_of

UNKNOWN_GROUP = "unknown"
WRONG_LABELS: Final = frozenset({("physical_appearance", "6", "b"), ("physical_appearance", "10", "b")})
"""Category, template and version whose labels name the wrong one of the two people, as BBQ's template file swaps the
answers. None of an ambiguous row."""
HAVE_WRONG_LABELS: Final = ("bbq", "mbbq", "basqbbq", "pakbbq")
"""The benchmarks with these labels; BharatBBQ and EsBBQ have corrected them."""
_TELLS_GROUP: Final = (
    (", who is trans", re.compile(r"(\w+), who is trans\b"), "trans"),
    (", trans dena", re.compile(r"(\w+), trans dena\b"), "trans"),
    (" is from a ", re.compile(r"(\w+) is from a (?:poor|low income|working-class) family\b"), "lowSES"),
)
"""How a context about two first names says who belongs to a group (what it must hold, which is soon found, and whole),
and how the tag of that group begins."""
_POLARITIES: Final = ("neg", "neg", "nonneg", "nonneg")
_CONDITIONS: Final = ("ambig", "disambig", "ambig", "disambig")
"""Those of the four rows of a block."""


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A published object, with the types that the authors use: no value is converted."""


_Text = Annotated[str, msgspec.Meta(pattern=r"\S")]
_Info = Annotated[list[str], msgspec.Meta(min_length=2)]


class AnswerInfo(_Record, frozen=True):
    """For each option the noun phrase that was used, then its groups."""

    ans0: _Info
    ans1: _Info
    ans2: _Info


class AdditionalMetadata(_Record, frozen=True):
    """What the stereotype is about."""

    stereotyped_groups: list[str]
    subcategory: str = ""
    version: str = ""
    source: str = ""
    other_keys: dict[str, Any] = msgspec.field(default_factory=dict, name="")
    """Keys that are not part of BBQ's format."""


class BbqRow(_Record, frozen=True):
    """One published row."""

    example_id: int
    question_index: _Text
    question_polarity: Literal["neg", "nonneg"]
    context_condition: Literal["ambig", "disambig"]
    category: _Text
    answer_info: AnswerInfo
    additional_metadata: AdditionalMetadata
    context: _Text
    question: _Text
    ans0: _Text
    ans1: _Text
    ans2: _Text
    label: Annotated[int, msgspec.Meta(ge=0, le=2)]
    other_keys: dict[str, Any] = msgspec.field(default_factory=dict, name="")
    """Keys that are not part of BBQ's format."""

    @property
    def texts(self) -> tuple[str, str, str]:
        """The three options."""
        return self.ans0, self.ans1, self.ans2

    @property
    def terms(self) -> tuple[str, str, str]:
        """The noun phrase after each option."""
        info = self.answer_info
        return info.ans0[0], info.ans1[0], info.ans2[0]

    @property
    def groups(self) -> tuple[str, str, str]:
        """The group of each option."""
        info = self.answer_info
        return info.ans0[-1], info.ans1[-1], info.ans2[-1]

    def unknown_index(self, place: RowLocation) -> int:
        """Place of the one option whose group is `unknown`; raises DataError where none or several are."""
        found = [index for index, group in enumerate(self.groups) if group == UNKNOWN_GROUP]
        if len(found) != 1:
            raise place.error(f"{len(found)} options have the group 'unknown'; exactly one is needed", "answer_info")
        return found[0]


Block = list[tuple[RowLocation, BbqRow]]


_decoder: Final = msgspec.json.Decoder(BbqRow)
_STEP: Final = re.compile(r"\w+")
_MISSING: Final = re.compile("Object missing required field `(.+)`")


def read_rows(path: Path) -> Iterator[tuple[RowLocation, BbqRow]]:
    """The rows of a file, each with its place; raises DataError at the first one that is wrong."""
    for number, line in lines_of(note_file(path)):
        place = RowLocation(path, number)
        try:
            row = _decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            row = row_of(json_row(line, place), place)
        yield place, row


def row_of(fields: dict[str, Any], place: RowLocation) -> BbqRow:
    """The row of a JSON object. Keys that are not part of the format are kept; a group that is NaN becomes empty.

    Raises:
        DataError: where a field is missing or has a wrong value.
    """
    checked = _with_other_keys(fields, BbqRow)
    if isinstance(more := fields.get("additional_metadata"), dict):
        checked["additional_metadata"] = _with_other_keys(more, AdditionalMetadata)
    if isinstance(info := fields.get("answer_info"), dict):
        entries = {name: info[name] for name in AnswerInfo.__struct_fields__ if name in info}
        checked["answer_info"] = {
            name: ["" if item is None else item for item in entry] if isinstance(entry, list) else entry
            for name, entry in entries.items()
        }
    try:
        return msgspec.convert(checked, BbqRow)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `$.")
        value: Any = checked
        for step in _STEP.findall(where):
            value = value[int(step) if isinstance(value, list) else step]
        field = where.rstrip("`")
        if missing := _MISSING.fullmatch(message):
            message, field = "is missing", f"{field}.{missing[1]}".lstrip(".")
        elif allowed := get_args(get_type_hints(BbqRow).get(field)):
            message = (
                f"{message}; allowed: {', '.join(map(str, allowed))}" if message.startswith("Invalid") else message
            )
        shown = f" (value: {value!r})" if where and isinstance(value, str | int | float) else ""
        raise place.error(message + shown, field) from error


def _with_other_keys(fields: dict[str, Any], kind: type[_Record]) -> dict[str, Any]:
    """The fields of a record; the others are under the key of `other_keys`."""
    known = {name: value for name, value in fields.items() if name in kind.__struct_encode_fields__}
    return {**known, "": {name: value for name, value in fields.items() if name not in known}}


def in_blocks(
    rows: Iterable[tuple[RowLocation, BbqRow]], category: str, *, contradictions: bool = False
) -> Iterator[Block]:
    """The rows four by four, each block one filled template; raises DataError for a row that is out of place.

    Args:
        category: the published name that every row must have.
        contradictions: whether both questions of a block may have the same answer in disambiguated contexts.
    """
    values = {"question_polarity": _POLARITIES, "context_condition": _CONDITIONS}
    same = {"question_index": "another template", "answer_info": "other people"}
    for block in in_groups(with_ids(rows, "example_id", increasing=True), values, same):
        for place, row in block:
            if row.category != category:
                raise place.error(f"{row.category!r} in the file of {category}", "category")
        place, row = block[-1]
        if not contradictions and has_contradiction(block):
            message = f"{row.label} is also the label of the negative question in row {place.row - 2}"
            raise place.error(f"{message}; one of the two is wrong", "label")
        yield block


def has_contradiction(block: Block) -> bool:
    """Whether the negative and the non-negative question of a block have the same answer where the context tells it."""
    return block[1][1].label == block[3][1].label


def has_swapped_groups(row: BbqRow) -> bool:
    """Whether the context says of one person by name what the row's tags say of the other one.

    So in every second block of BBQ's Gender_identity 35 and 36, which names the two in the other order but keeps the
    tags; in PakBBQ's, in BasqBBQ's template 36, and in template 8 of SES in BIG-bench's edition. A Basque option has an
    ending after the name.
    """
    for words, pattern, group in _TELLS_GROUP:
        match = pattern.search(row.context) if words in row.context else None
        people = [index for index in range(3) if match and row.texts[index].strip().startswith(match.group(1))]
        if len(people) == 1:
            return not row.groups[people[0]].startswith(group)
    return False


def instance_of(
    row: BbqRow,
    place: RowLocation,
    source: SplitInfo,
    *,
    target: int | None,
    stereotyped: Iterable[str] | None = None,
    parallel_id: str | None = None,
    data_issues: tuple[str, ...] = (),
    metadata: dict[str, Any] | None = None,
) -> LazyInstance:
    """The instance of a row: its id is category and `example_id`, its template category and `question_index`.

    Args:
        target: index of the target by the benchmark's own rule; None where there is none.
        stereotyped: the groups among which it was looked for; None: those that the row lists.

    Raises:
        DataError: where the label contradicts the condition.
    """
    unknown, texts = row.unknown_index(place), row.texts
    condition, polarity = CONDITIONS[row.context_condition], POLARITIES[row.question_polarity]
    target, alignment = find_alignment(
        place, texts, unknown=unknown, target=target, label=row.label, condition=condition, polarity=polarity
    )
    instance_id, template_id = f"{source.category}/{row.example_id}", f"{source.category}/{row.question_index}"
    unit = SamplingUnit(
        f"{source.benchmark}/{source.split}/{source.language}/{instance_id}",
        source.benchmark,
        source.split,
        source.language,
        source.category,
        template_id,
        condition,
        polarity,
        alignment,
        parallel_id or instance_id,
    )

    def build() -> Instance:
        more, groups, reason = row.additional_metadata, row.groups, None
        if target is None:
            listed = more.stereotyped_groups if stereotyped is None else stereotyped
            reason = no_target(groups, listed, unknown)
        wrong = source.benchmark in HAVE_WRONG_LABELS and row.context_condition == "disambig"
        return build_instance(
            source,
            place,
            instance_id=instance_id,
            template_id=template_id,
            subcategory=named_or_none(more.subcategory),
            parallel_id=parallel_id,
            texts=texts,
            groups=groups,
            unknown=unknown,
            target=target,
            reason=reason,
            label=row.label,
            condition=row.context_condition,
            polarity=row.question_polarity,
            context=row.context,
            question=row.question,
            swap_people=wrong and (source.category, row.question_index, more.version) in WRONG_LABELS,
            groups_swapped=has_swapped_groups(row),
            data_issues=(*data_issues, *["group_not_in_text"] * _lacks_group(row)),
            metadata=_metadata(row, place) | (metadata or {}),
        )

    return LazyInstance(unit, clean(texts[unknown]).strip(), build)


def _lacks_group(row: BbqRow) -> bool:
    """Whether the tags call one of the two trans and no text of the row does: BasqBBQ's Gender_identity 35."""
    tagged = {group.startswith("nonTrans") for group in row.groups if "trans" in group.casefold()}
    return len(tagged) == 2 and "trans" not in " ".join((row.context, row.question, *row.texts)).casefold()


def _metadata(row: BbqRow, place: RowLocation) -> dict[str, Any]:
    more = row.additional_metadata
    return {
        "source_row": place.source_row(row.category, row.example_id),
        "stereotyped_groups": more.stereotyped_groups,
        "version": named_or_none(more.version),
        "source": named_or_none(more.source),
        "terms": list(row.terms),
        **row.other_keys,
        **more.other_keys,
    }


def listed_target(row: BbqRow, place: RowLocation) -> int | None:
    """The target of a row by the groups that the row itself lists as stereotyped."""
    return only_stereotyped(row.groups, row.additional_metadata.stereotyped_groups, row.unknown_index(place))
