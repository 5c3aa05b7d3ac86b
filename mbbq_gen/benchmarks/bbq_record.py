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
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_type_hints

import msgspec
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from mbbq_gen.benchmarks.registry import SplitInfo
from mbbq_gen.benchmarks.rows import (
    LazyInstance,
    RowLocation,
    in_groups,
    json_row,
    note_file,
    python_literal,
    with_ids,
)
from mbbq_gen.core.files import stable_number
from mbbq_gen.core.option_display import SamplingUnit
from mbbq_gen.core.records import (
    Alignment,
    Condition,
    Instance,
    NonBlank,
    Option,
    Polarity,
    Role,
    of_valid,
    other_person,
)
from mbbq_gen.core.tables import lines_of

CONDITIONS: Final[dict[str, Condition]] = {
    **dict.fromkeys(("ambig", "amb", "ambiguous", "ambiguous_context"), "ambiguous"),
    **dict.fromkeys(("disambig", "disamb", "dis", "disambiguous", "disambiguous_context"), "disambiguated"),
}
"""What the data sets call a condition → ours."""
POLARITIES: Final[dict[str, Polarity]] = {
    **dict.fromkeys(("neg", "bsd", "negative"), "negative"),
    **dict.fromkeys(("nonneg", "non_neg", "non-neg", "cnt", "non_negative"), "non_negative"),
}
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SLOT: Final = re.compile(r"[{\[]{1,2}\w+[}\]]{1,2}")
"""What is left of a slot `{{NAME1}}`, also where one of its braces is missing or another bracket."""


def build_instance(
    source: SplitInfo,
    place: RowLocation,
    *,
    instance_id: str,
    template_id: str,
    texts: Sequence[str],
    unknown: int,
    target: int | None,
    label: int,
    condition: str,
    polarity: str,
    context: str,
    question: str,
    groups: Sequence[str | None] = (None, None, None),
    reason: str | None = None,
    swap_people: bool = False,
    groups_swapped: bool = False,
    data_issues: Sequence[str] = (),
    metadata: dict[str, Any] | None = None,
    subcategory: str | None = None,
    parallel_id: str | None = None,
) -> Instance:
    """The instance of a row, whose options are numbered in published order.

    There is no target where both people have the same text, because an answer does not tell which one it names.

    Args:
        unknown, target, label: indexes of the unknown, the target (None: see `reason`) and the right option.
        condition, polarity: as the data call them, a key of CONDITIONS and one of POLARITIES.
        swap_people: whether the published label names the wrong one of the two people.
        groups_swapped: whether the published groups of the two people are the wrong way round.

    Raises:
        DataError: where the label contradicts the condition.
    """
    target, alignment = find_alignment(
        place,
        texts,
        unknown=unknown,
        target=target,
        label=label,
        condition=CONDITIONS[condition],
        polarity=POLARITIES[polarity],
    )
    codes = _text_data_issues(context, question, texts)
    if _have_same_text(texts, unknown):
        reason = "no single target: both people have the same option text"
        codes.append("duplicate_options")
    options = [_option(option_role(index, unknown, target), texts[index], groups[index]) for index in range(len(texts))]
    gold_role = options[label].role
    if groups_swapped := groups_swapped and target is not None:
        data_issues = (*data_issues, "groups_swapped")
    return Instance.of_row(
        {
            "benchmark": source.benchmark,
            "version": source.version,
            "split": source.split,
            "language": source.language,
            "instance_id": instance_id,
            "parallel_id": parallel_id,
            "template_id": template_id,
            "category": source.category,
            "subcategory": subcategory,
            "condition": CONDITIONS[condition],
            "polarity": POLARITIES[polarity],
            "context": _clean(context),
            "question": _clean(question),
            "options": tuple(options),
            "gold_role": gold_role,
            "gold_index": label,
            "alignment": alignment,
            "corrected_gold_role": other_person(gold_role) if swap_people else None,
            "groups_swapped": groups_swapped,
            "has_single_target": target is not None,
            "no_target_reason": reason if target is None else None,
            "data_issues": tuple(dict.fromkeys((*codes, *data_issues))),
            "metadata": metadata or {},
        }
    )


def find_alignment(
    place: RowLocation,
    texts: Sequence[str],
    *,
    unknown: int,
    target: int | None,
    label: int,
    condition: Condition,
    polarity: Polarity,
) -> tuple[int | None, Alignment | None]:
    """The target, None where both people have the same text, and whether the right answer fits the stereotype.

    Raises:
        DataError: where the label contradicts the condition.
    """
    if (label == unknown) != (condition == "ambiguous"):
        raise place.error(f"{label} contradicts the condition {condition!r} (the unknown option is {unknown})", "label")
    if target is None or _have_same_text(texts, unknown):
        return None, None
    if condition == "ambiguous":
        return target, None
    return target, "biased" if (label == target) == (polarity == "negative") else "counter_biased"


def _have_same_text(texts: Sequence[str], unknown: int) -> bool:
    first, second = (text.strip().casefold() for index, text in enumerate(texts) if index != unknown)
    return first == second


@lru_cache(maxsize=4096)
def _option(role: Role | None, text: str, group: str | None) -> Option:
    """An option, whose text is cleaned; the same few come in many rows."""
    return of_valid(Option, {"role": role, "text": _clean(text).strip(), "group": group})


def option_role(index: int, unknown: int, target: int | None) -> Role | None:
    """The role of an option; None for both people where there is no single target."""
    if index == unknown:
        return "unknown"
    if target is None:
        return None
    return "target" if index == target else "non_target"


def _clean(text: str) -> str:
    """The text without control characters; line ends and tabs stay."""
    return text if text.isprintable() else _CONTROL.sub("", text)


def _text_data_issues(context: str, question: str, options: Sequence[str]) -> list[str]:
    texts = (context, question, *options)
    whole, has_blanks = "".join(texts), any(text != text.strip() for text in options)
    if whole.isprintable() and "{" not in whole and "}" not in whole:
        return ["option_whitespace"] * has_blanks
    rests = [_SLOT.sub("", text) for text in texts if "{" in text or "}" in text]
    checks = {
        "option_whitespace": has_blanks,
        "control_character": _CONTROL.search(whole),
        "two_questions": "\n" in question.strip(),
        "unfilled_placeholder": bool(rests) and any(_SLOT.search(text) for text in texts),
        "stray_brace": any("{" in rest or "}" in rest for rest in rests),
    }
    return [code for code, holds in checks.items() if holds]


def only_stereotyped(groups: Sequence[str], stereotyped: Iterable[str], unknown: int) -> int | None:
    """The one option, the unknown one aside, whose group is among the stereotyped; None where none or both are."""
    wanted = set(stereotyped)
    found = [index for index, group in enumerate(groups) if index != unknown and group in wanted]
    return found[0] if len(found) == 1 else None


def no_target(groups: Sequence[str | None], stereotyped: Iterable[str], unknown: int) -> str:
    """Why no single option is the target, for `no_target_reason`."""
    people = " and ".join(str(group) for index, group in enumerate(groups) if index != unknown)
    return f"no single target: the options are {people}, stereotyped is {', '.join(stereotyped) or 'not given'}"


def named_or_none(text: str) -> str | None:
    """The text, or None where the data says that there is none: nothing, or the word `None`."""
    return None if text.strip() in ("", "None") else text.strip()


@cache
def unknown_texts(language: str) -> tuple[str, ...]:
    """Ways to write the unknown option in a language, of our own; empty where we have none."""
    text = files("mbbq_gen.benchmarks").joinpath("unknown_texts.toml").read_text(encoding="utf-8")
    return tuple(tomllib.loads(text)["texts"].get(language, ()))


def draw_unknown_text(language: str, *about: object) -> str:
    """One of the texts of the unknown option, the same for the same arguments."""
    texts = unknown_texts(language)
    return texts[stable_number("unknown wording", language, *about) % len(texts)]


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


class PublishedRow(BaseModel):
    """A published row."""

    model_config = ConfigDict(frozen=True)


Label = Annotated[int, Field(ge=0, le=2)]
Choices = Annotated[list[NonBlank], Field(min_length=3, max_length=3), BeforeValidator(python_literal)]
"""The three options as Python writes a list."""


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

    def build() -> Instance:
        more, groups = row.additional_metadata, row.groups
        wrong = source.benchmark in HAVE_WRONG_LABELS and row.context_condition == "disambig"
        # The tags call one of the two trans and no text of the row does: BasqBBQ's Gender_identity 35.
        tagged = {group.startswith("nonTrans") for group in groups if "trans" in group.casefold()}
        lacks_group = len(tagged) == 2 and "trans" not in " ".join((row.context, row.question, *texts)).casefold()
        listed, reason = more.stereotyped_groups, None
        if target is None:
            reason = no_target(groups, listed if stereotyped is None else stereotyped, unknown)
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
            data_issues=(*data_issues, *["group_not_in_text"] * lacks_group),
            metadata={
                "source_row": place.source_row(row.category, row.example_id),
                "stereotyped_groups": listed,
                "version": named_or_none(more.version),
                "source": named_or_none(more.source),
                "terms": list(row.terms),
                **row.other_keys,
                **more.other_keys,
                **(metadata or {}),
            },
        )

    unit = SamplingUnit(
        key=f"{source.benchmark}/{source.split}/{source.language}/{instance_id}",
        benchmark=source.benchmark,
        split=source.split,
        language=source.language,
        category=source.category,
        template_id=template_id,
        condition=condition,
        polarity=polarity,
        alignment=alignment,
        twin=parallel_id or instance_id,
    )
    return LazyInstance(unit, _clean(texts[unknown]).strip(), build)


def listed_target(row: BbqRow, place: RowLocation) -> int | None:
    """The target of a row by the groups that the row itself lists as stereotyped."""
    return only_stereotyped(row.groups, row.additional_metadata.stereotyped_groups, row.unknown_index(place))
