"""Builds the instance of a published row: roles of the options, alignment, data issues."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Annotated, Any, Final, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from mbbq_gen.benchmarks.registry import SplitInfo
from mbbq_gen.benchmarks.rows import RowLocation, python_literal
from mbbq_gen.core.files import stable_number
from mbbq_gen.core.records import (
    Alignment,
    Condition,
    Instance,
    NonBlank,
    Option,
    Polarity,
    Role,
    construct_valid,
    other_person,
)

CONDITIONS: Final[dict[str, Condition]] = {
    **dict.fromkeys(("ambig", "amb", "ambiguous", "ambiguous_context"), "ambiguous"),
    **dict.fromkeys(("disambig", "disamb", "dis", "disambiguous", "disambiguous_context"), "disambiguated"),
}
"""Published name of a condition → ours."""
POLARITIES: Final[dict[str, Polarity]] = {
    **dict.fromkeys(("neg", "bsd", "negative"), "negative"),
    **dict.fromkeys(("nonneg", "non_neg", "non-neg", "cnt", "non_negative"), "non_negative"),
}
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SLOT: Final = re.compile(r"[{\[]{1,2}\w+[}\]]{1,2}")
"""An unfilled slot `{{NAME1}}`, also with a missing brace or a square bracket."""
Label = Annotated[int, Field(ge=0, le=2)]
Choices = Annotated[list[NonBlank], Field(min_length=3, max_length=3), BeforeValidator(python_literal)]
"""The three options, as a list or as the text of a Python list."""


class PublishedOptions(NamedTuple):
    """The three options of a row in published order, and the indexes of some of them."""

    texts: Sequence[str]
    unknown: int
    target: int | None
    """None without a single target."""
    label: int
    """Index of the right option."""
    groups: Sequence[str | None] = (None, None, None)


def build_instance(
    info: SplitInfo,
    location: RowLocation,
    options: PublishedOptions,
    *,
    instance_id: str,
    template_id: str,
    condition: str,
    polarity: str,
    context: str,
    question: str,
    reason: str | None = None,
    swap_people: bool = False,
    groups_swapped: bool = False,
    data_issues: Sequence[str] = (),
    metadata: dict[str, Any] | None = None,
    subcategory: str | None = None,
    parallel_id: str | None = None,
) -> Instance:
    """The instance of a row; raises as `find_alignment`.

    Args:
        condition, polarity: published names, keys of CONDITIONS and POLARITIES.
        reason: why there is no single target.
        swap_people: whether the published label names the wrong person.
        groups_swapped: whether the published groups of the two people are swapped.
    """
    target, alignment = find_alignment(location, options, CONDITIONS[condition], POLARITIES[polarity])
    codes = _text_data_issues(context, question, options.texts)
    if _have_same_text(tuple(options.texts), options.unknown):
        reason = "no single target: both people have the same option text"
        codes.append("duplicate_options")
    with_roles = [
        _option(option_role(index, options.unknown, target), text, options.groups[index])
        for index, text in enumerate(options.texts)
    ]
    gold_role = with_roles[options.label].role
    if groups_swapped := groups_swapped and target is not None:
        data_issues = (*data_issues, "groups_swapped")
    return Instance.of_row(
        {
            "benchmark": info.benchmark,
            "version": info.version,
            "split": info.split,
            "language": info.language,
            "instance_id": instance_id,
            "parallel_id": parallel_id,
            "template_id": template_id,
            "category": info.category,
            "subcategory": subcategory,
            "condition": CONDITIONS[condition],
            "polarity": POLARITIES[polarity],
            "context": clean(context),
            "question": clean(question),
            "options": tuple(with_roles),
            "gold_role": gold_role,
            "gold_index": options.label,
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
    location: RowLocation, options: PublishedOptions, condition: Condition, polarity: Polarity
) -> tuple[int | None, Alignment | None]:
    """The target and the alignment of a disambiguated row; DataError if the label contradicts the condition.

    There is no target if both people have the same text, because an answer could mean either.
    """
    texts, unknown, target, label, _ = options
    if (label == unknown) != (condition == "ambiguous"):
        raise location.error(
            f"{label} contradicts the condition {condition!r} (the unknown option is {unknown})", "label"
        )
    if target is None or _have_same_text(tuple(texts), unknown):
        return None, None
    if condition == "ambiguous":
        return target, None
    return target, "biased" if (label == target) == (polarity == "negative") else "counter_biased"


@lru_cache(maxsize=64)
def _have_same_text(texts: tuple[str, ...], unknown: int) -> bool:
    first, second = (text.strip().casefold() for index, text in enumerate(texts) if index != unknown)
    return first == second


@lru_cache(maxsize=4096)
def _option(role: Role | None, text: str, group: str | None) -> Option:
    """An option with cleaned text; cached, since few options occur in many rows."""
    return construct_valid(Option, {"role": role, "text": clean(text).strip(), "group": group})


def option_role(index: int, unknown: int, target: int | None) -> Role | None:
    """The role of an option; None for both people without a single target."""
    if index == unknown:
        return "unknown"
    if target is None:
        return None
    return "target" if index == target else "non_target"


def clean(text: str) -> str:
    """The text without control characters; line ends and tabs are kept."""
    return text if text.isprintable() else _CONTROL.sub("", text)


def _text_data_issues(context: str, question: str, options: Sequence[str]) -> list[str]:
    texts = (context, question, *options)
    whole, has_whitespace = "".join(texts), any(text != text.strip() for text in options)
    if whole.isprintable() and "{" not in whole and "}" not in whole:
        return ["option_whitespace"] * has_whitespace
    without_slots = [_SLOT.sub("", text) for text in texts if "{" in text or "}" in text]
    checks = {
        "option_whitespace": has_whitespace,
        "control_character": _CONTROL.search(whole),
        "two_questions": "\n" in question.strip(),
        "unfilled_placeholder": bool(without_slots) and any(_SLOT.search(text) for text in texts),
        "stray_brace": any("{" in text or "}" in text for text in without_slots),
    }
    return [code for code, holds in checks.items() if holds]


def only_stereotyped(groups: Sequence[str], stereotyped: Iterable[str], unknown: int) -> int | None:
    """Index of the only person whose group is among the stereotyped ones; None for none or both."""
    wanted = set(stereotyped)
    found = [index for index, group in enumerate(groups) if index != unknown and group in wanted]
    return found[0] if len(found) == 1 else None


def no_target_reason(groups: Sequence[str | None], stereotyped: Iterable[str], unknown: int) -> str:
    """The value of `Instance.no_target_reason`: the groups of the people and the stereotyped ones."""
    people = " and ".join(str(group) for index, group in enumerate(groups) if index != unknown)
    return f"no single target: the options are {people}, stereotyped is {', '.join(stereotyped) or 'not given'}"


def text_or_none(text: str) -> str | None:
    """The text without outer spaces; None for an empty text or the word `None`."""
    return None if text.strip() in ("", "None") else text.strip()


@cache
def _unknown_texts() -> dict[str, list[str]]:
    text = files("mbbq_gen.benchmarks").joinpath("unknown_texts.toml").read_text(encoding="utf-8")
    texts: dict[str, list[str]] = tomllib.loads(text)["texts"]
    return texts


def draw_unknown_text(language: str, *about: object) -> str:
    """One of our texts of the unknown option, chosen by a digest of the arguments."""
    texts = _unknown_texts()[language]
    return texts[stable_number("unknown wording", language, *about) % len(texts)]


class PublishedRow(BaseModel):
    """A published row."""

    model_config = ConfigDict(frozen=True)
