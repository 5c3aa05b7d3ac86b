"""The row format of BBQ and the benchmarks derived from it, and the conversion of a row to an `Instance`.

BBQ, MBBQ, BasqBBQ, PakBBQ and JBBQ share it. Each has its own rule for the target; the rest is here.

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
    PublishedOptions,
    build_instance,
    clean,
    find_alignment,
    no_target_reason,
    only_stereotyped,
    text_or_none,
)
from mbbq_gen.benchmarks.registry import SplitInfo
from mbbq_gen.benchmarks.rows import LazyInstance, RowLocation, in_groups, json_row, note_file, with_ids
from mbbq_gen.core.option_display import SamplingUnit
from mbbq_gen.core.records import Instance
from mbbq_gen.core.tables import lines_of

UNKNOWN_GROUP = "unknown"
WRONG_LABELS: Final = frozenset({("physical_appearance", "6", "b"), ("physical_appearance", "10", "b")})
"""Category, template and version of disambiguated rows whose labels name the wrong person, since BBQ's template file
swaps the answers."""
HAVE_WRONG_LABELS: Final = ("bbq", "mbbq", "basqbbq", "pakbbq")
"""The benchmarks with these labels; BharatBBQ and EsBBQ have corrected them."""
_GROUP_STATEMENTS: Final = (
    (", who is trans", re.compile(r"(\w+), who is trans\b"), "trans"),
    (", trans dena", re.compile(r"(\w+), trans dena\b"), "trans"),
    (" is from a ", re.compile(r"(\w+) is from a (?:poor|low income|working-class) family\b"), "lowSES"),
)
"""A substring (a fast test), the pattern of a sentence that states the group of a person called by first name, and the
beginning of that group's tag."""
_POLARITIES: Final = ("neg", "neg", "nonneg", "nonneg")
_CONDITIONS: Final = ("ambig", "disambig", "ambig", "disambig")
"""Polarities and conditions of the four rows of a block."""
_Text = Annotated[str, msgspec.Meta(pattern=r"\S")]
_Info = Annotated[list[str], msgspec.Meta(min_length=2)]
_STEP: Final = re.compile(r"\w+")
_MISSING: Final = re.compile("Object missing required field `(.+)`")


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A published object; values are not converted to other types."""


class AnswerInfo(_Record, frozen=True):
    """For each option its noun phrase, then its groups."""

    ans0: _Info
    ans1: _Info
    ans2: _Info


class AdditionalMetadata(_Record, frozen=True):
    """The stereotype of a row."""

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
        """The noun phrase of each option."""
        info = self.answer_info
        return info.ans0[0], info.ans1[0], info.ans2[0]

    @property
    def groups(self) -> tuple[str, str, str]:
        """The group of each option."""
        info = self.answer_info
        return info.ans0[-1], info.ans1[-1], info.ans2[-1]

    def unknown_index(self, location: RowLocation) -> int:
        """Index of the one option whose group is `unknown`; raises DataError for none or several."""
        groups = self.groups
        if (found := groups.count(UNKNOWN_GROUP)) != 1:
            raise location.error(f"{found} options have the group 'unknown'; exactly one is needed", "answer_info")
        return groups.index(UNKNOWN_GROUP)


Block = list[tuple[RowLocation, BbqRow]]

_decoder: Final = msgspec.json.Decoder(BbqRow)


def read_rows(path: Path) -> Iterator[tuple[RowLocation, BbqRow]]:
    """Yields the rows of a file with their locations; raises DataError at the first invalid row."""
    for number, line in lines_of(note_file(path)):
        location = RowLocation(path, number)
        try:
            row = _decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            row = row_of(json_row(line, location), location)
        yield location, row


def row_of(fields: dict[str, Any], location: RowLocation) -> BbqRow:
    """Converts a JSON object to a row. Unknown keys are kept; a group that is null or NaN becomes empty.

    Raises:
        DataError: if a field is missing or has an invalid value.
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
        raise location.error(message + shown, field) from error


def _with_other_keys(fields: dict[str, Any], kind: type[_Record]) -> dict[str, Any]:
    """The fields of a record, with all unknown keys in the field `other_keys` (named `""`)."""
    known = {name: value for name, value in fields.items() if name in kind.__struct_encode_fields__}
    return {**known, "": {name: value for name, value in fields.items() if name not in known}}


def in_blocks(
    rows: Iterable[tuple[RowLocation, BbqRow]], category: str, *, contradictions: bool = False
) -> Iterator[Block]:
    """Yields blocks of four rows, each one filled template; raises DataError for an unexpected row.

    Args:
        category: the published category of every row.
        contradictions: whether both questions of a block may have the same answer in disambiguated contexts.
    """
    values = {"question_polarity": _POLARITIES, "context_condition": _CONDITIONS}
    same = {"question_index": "another template", "answer_info": "other people"}
    for block in in_groups(with_ids(rows, "example_id", increasing=True), values, same):
        for location, row in block:
            if row.category != category:
                raise location.error(f"{row.category!r} in the file of {category}", "category")
        location, row = block[-1]
        if not contradictions and has_contradiction(block):
            message = f"{row.label} is also the label of the negative question in row {location.row - 2}"
            raise location.error(f"{message}; one of the two is wrong", "label")
        yield block


def has_contradiction(block: Block) -> bool:
    """Whether both questions of a block have the same answer in the disambiguated context."""
    return block[1][1].label == block[3][1].label


def has_swapped_groups(row: BbqRow) -> bool:
    """Whether the context states of one person, by name, the group that the row's tags give the other.

    This occurs in every second block of Gender_identity 35 and 36 in BBQ and PakBBQ, where the names are swapped but
    not the tags; in BasqBBQ's template 36, and in template 8 of SES in BIG-bench's edition. A Basque option has an
    ending after the name.
    """
    for substring, pattern, group in _GROUP_STATEMENTS:
        match = pattern.search(row.context) if substring in row.context else None
        people = [index for index in range(3) if match and row.texts[index].strip().startswith(match.group(1))]
        if len(people) == 1:
            return not row.groups[people[0]].startswith(group)
    return False


def instance_of(
    row: BbqRow,
    location: RowLocation,
    info: SplitInfo,
    *,
    target: int | None,
    stereotyped: Iterable[str] | None = None,
    parallel_id: str | None = None,
    data_issues: tuple[str, ...] = (),
    metadata: dict[str, Any] | None = None,
) -> LazyInstance:
    """The instance of a row. Its id is category and `example_id`, its template is category and `question_index`.

    Args:
        target: index of the target by the benchmark's own rule; None without a single target.
        stereotyped: the groups among which it was searched; None: those that the row lists.

    Raises:
        DataError: if the label contradicts the condition.
    """
    unknown = row.unknown_index(location)
    options = PublishedOptions(row.texts, unknown, target, row.label)
    condition, polarity = CONDITIONS[row.context_condition], POLARITIES[row.question_polarity]
    target, alignment = find_alignment(location, options, condition, polarity)
    instance_id, template_id = f"{info.category}/{row.example_id}", f"{info.category}/{row.question_index}"
    unit = SamplingUnit(
        f"{info.benchmark}/{info.split}/{info.language}/{instance_id}",
        info.benchmark,
        info.split,
        info.language,
        info.category,
        template_id,
        condition,
        polarity,
        alignment,
        parallel_id or instance_id,
    )

    def build() -> Instance:
        extra, groups, reason = row.additional_metadata, row.groups, None
        if target is None:
            listed = extra.stereotyped_groups if stereotyped is None else stereotyped
            reason = no_target_reason(groups, listed, unknown)
        may_be_wrong = info.benchmark in HAVE_WRONG_LABELS and row.context_condition == "disambig"
        return build_instance(
            info,
            location,
            options._replace(target=target, groups=groups),
            instance_id=instance_id,
            template_id=template_id,
            subcategory=text_or_none(extra.subcategory),
            parallel_id=parallel_id,
            reason=reason,
            condition=row.context_condition,
            polarity=row.question_polarity,
            context=row.context,
            question=row.question,
            swap_people=may_be_wrong and (info.category, row.question_index, extra.version) in WRONG_LABELS,
            groups_swapped=has_swapped_groups(row),
            data_issues=(*data_issues, *["group_not_in_text"] * _lacks_group(row)),
            metadata=_metadata(row, location) | (metadata or {}),
        )

    return LazyInstance(unit, clean(options.texts[unknown]).strip(), build)


def _lacks_group(row: BbqRow) -> bool:
    """Whether the tags call one person trans, but no text of the row does: BasqBBQ's Gender_identity 35."""
    tagged = {group.startswith("nonTrans") for group in row.groups if "trans" in group.casefold()}
    return len(tagged) == 2 and "trans" not in " ".join((row.context, row.question, *row.texts)).casefold()


def _metadata(row: BbqRow, location: RowLocation) -> dict[str, Any]:
    extra = row.additional_metadata
    return {
        "source_row": location.source_row(row.category, row.example_id),
        "stereotyped_groups": extra.stereotyped_groups,
        "version": text_or_none(extra.version),
        "source": text_or_none(extra.source),
        "terms": list(row.terms),
        **row.other_keys,
        **extra.other_keys,
    }


def listed_target(row: BbqRow, location: RowLocation) -> int | None:
    """The target of a row, by the stereotyped groups that the row itself lists."""
    return only_stereotyped(row.groups, row.additional_metadata.stereotyped_groups, row.unknown_index(location))
