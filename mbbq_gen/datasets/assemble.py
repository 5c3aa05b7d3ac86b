"""Makes an instance of what a reader found in a row: roles from places, stripped options, quirks by code.

A reader tells where the unknown option and the target stand and what is right; everything that follows from it, and
the mending that is the same for every benchmark, is done here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Final

from mbbq_gen.datasets.rows import Place
from mbbq_gen.records import Condition, Instance, Option, Polarity, Role, Split
from mbbq_gen.records import other_person as other_person_of
from mbbq_gen.seeding import stable_number

QUIRKS: Final[dict[str, str]] = {
    "option_edge_space": "an option begins or ends with a blank: removed",
    "control_character": "control characters stand in the text: removed",
    "group_mended": "an option's group contradicts its own words: the role follows the words",
    "groups_crossed": "each of the two people has the other one's group: roles as published, repaired on request",
    "group_untold": "the text never says which person belongs to which group: kept, as published",
    "unknown_placeholder": "the unknown option is a placeholder: a wording of the language is put in its place",
    "stray_brace": "a brace of the template stands in the text: kept, as published",
    "unfilled_slot": "a slot of the template was not filled: kept, as published",
    "two_questions": "two forms of the question on two lines: kept, as published",
    "contradicting_labels": "the two questions about a context have the same answer, one is wrong: kept, as published",
    "published_alignment_wrong": "the data's own alignment contradicts label, polarity and groups: derived instead",
    "unknown_reworded": "the run words the unknown option anew, on request: the published text is in the metadata",
    "equal_options": "two options have the same text: kept, not bias-scorable",
}
"""Codes that `Instance.quirks` may hold, and what was done about each."""

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SLOT: Final = re.compile(r"[{\[]{1,2}\w+[}\]]{1,2}")
"""What is left of a slot `{{NAME1}}`, also where one of its braces is missing or another bracket."""


@dataclass(frozen=True)
class Source:
    """What all instances of a file share."""

    benchmark: str
    version: str
    """Release or commit of the benchmark."""
    language: str
    split: Split
    category: str
    """Slug."""


@dataclass(frozen=True)
class Found:
    """What a reader found in a row, by place in the published order."""

    texts: Sequence[str]
    """The three options."""
    groups: Sequence[str | None]
    """The data set's own label of each option's group."""
    unknown: int
    target: int | None
    """None where the row has no single target; `reason` says why."""
    label: int
    """The right option."""
    condition: Condition
    polarity: Polarity
    context: str
    question: str
    reason: str | None = None
    swap_people: bool = False
    """Whether the published label names the wrong one of the two people."""
    groups_crossed: bool = False
    """Whether the published groups of the two people are the wrong way round."""
    quirks: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)


def assemble(
    found: Found,
    source: Source,
    place: Place,
    *,
    instance_id: str,
    template_id: str,
    subcategory: str | None = None,
    parallel_id: str | None = None,
) -> Instance:
    """The instance.

    Raises:
        DataError: where the label contradicts the condition.
    """
    if (found.label == found.unknown) != (found.condition == "ambiguous"):
        raise place.error(
            f"{found.label} contradicts the condition {found.condition!r} (the unknown option is {found.unknown})",
            "label",
        )
    target, reason, quirks = _scorable_target(found)
    options = tuple(
        Option(role=_role(index, found.unknown, target), text=_clean(text).strip(), group=group)
        for index, (text, group) in enumerate(zip(found.texts, found.groups, strict=True))
    )
    answer = options[found.label].role
    crossed = found.groups_crossed and target is not None
    return Instance(
        benchmark=source.benchmark,
        version=source.version,
        split=source.split,
        language=source.language,
        instance_id=instance_id,
        parallel_id=parallel_id,
        template_id=template_id,
        category=source.category,
        subcategory=subcategory,
        condition=found.condition,
        polarity=found.polarity,
        context=_clean(found.context),
        question=_clean(found.question),
        options=options,
        answer=answer,
        answer_index=found.label,
        corrected_answer=other_person_of(answer) if found.swap_people else None,
        groups_crossed=crossed,
        bias_scorable=target is not None,
        not_scorable_reason=reason,
        quirks=tuple(dict.fromkeys([*_text_quirks(found), *quirks, *found.quirks, *["groups_crossed"] * crossed])),
        metadata=found.metadata,
    )


def _scorable_target(found: Found) -> tuple[int | None, str | None, list[str]]:
    """The target, unless its text is also the other person's: then an answer can't be told from the other."""
    people = [found.texts[index].strip().casefold() for index in range(len(found.texts)) if index != found.unknown]
    if len(set(people)) < len(people):
        return None, "no single target: both people have the same option text", ["equal_options"]
    return found.target, found.reason if found.target is None else None, []


def _role(index: int, unknown: int, target: int | None) -> Role | None:
    """The role of an option; None for both people where there is no single target."""
    if index == unknown:
        return "unknown"
    if target is None:
        return None
    return "target" if index == target else "non_target"


def _clean(text: str) -> str:
    """The text without control characters; line ends and tabs stay."""
    return text if text.isprintable() else _CONTROL.sub("", text)


def _text_quirks(found: Found) -> list[str]:
    """Codes of what is odd in the texts of a row."""
    texts = (found.context, found.question, *found.texts)
    checks = {
        "option_edge_space": any(text != text.strip() for text in found.texts),
        "control_character": any(not text.isprintable() and _CONTROL.search(text) for text in texts),
        "two_questions": "\n" in found.question.strip(),
    }
    braces = [text for text in texts if "{" in text or "}" in text]
    if braces:
        checks["unfilled_slot"] = any(_SLOT.search(text) for text in braces)
        checks["stray_brace"] = any(any(brace in _SLOT.sub("", text) for brace in "{}") for text in braces)
    return [code for code, holds in checks.items() if holds]


# --- what readers ask of groups --------------------------------------------------------------------------------------


def other_person(index: int, unknown: int) -> int:
    """Place of the other one of the two people."""
    return 3 - index - unknown


def sole_match(groups: Sequence[str], stereotyped: Iterable[str], unknown: int) -> int | None:
    """The one option, the unknown one aside, whose group is among the stereotyped; None where none or both are."""
    wanted = set(stereotyped)
    found = [index for index, group in enumerate(groups) if index != unknown and group in wanted]
    return found[0] if len(found) == 1 else None


def no_target(groups: Sequence[str | None], stereotyped: Iterable[str], unknown: int) -> str:
    """Why no single option is the target, for `not_scorable_reason`."""
    people = " and ".join(str(group) for index, group in enumerate(groups) if index != unknown)
    return f"no single target: the options are {people}, stereotyped is {', '.join(stereotyped) or 'not told'}"


def named_or_none(text: str) -> str | None:
    """The text, or None where the data says that there is none: nothing, or the word `None`."""
    return None if text.strip() in ("", "None") else text.strip()


# --- wordings of the unknown option ----------------------------------------------------------------------------------


@cache
def unknown_wordings(language: str) -> tuple[str, ...]:
    """Ways to write the unknown option in a language, of our own; empty where we have none."""
    text = files("mbbq_gen.datasets").joinpath("unknown_wordings.toml").read_text(encoding="utf-8")
    wordings: dict[str, list[str]] = tomllib.loads(text)["wordings"]
    return tuple(wordings.get(language, ()))


def draw_unknown_wording(language: str, *about: object) -> str:
    """A wording of the unknown option, the same for the same things that it is about."""
    wordings = unknown_wordings(language)
    return wordings[stable_number("unknown wording", language, *about) % len(wordings)]
