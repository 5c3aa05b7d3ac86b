"""Scores for answers from anywhere: JSON Lines of questions with what was chosen, or with the response itself.

A line is an instance record (`mbbq_gen.records.Instance`), its keys at the top or under `instance`, and with it either

    "option"     place among the options as shown, from 0, or null where none was read
    "outcome"    what the answer was; left out: `option` where an option is given, else `no_answer`

or

    "response"   what the model wrote, or null where no response was had: it is read by the extractor

and, if it likes: `order` (`order[place]` is the index of the instance's option shown at that place; left out: as in the
record), `labels` (as shown; left out: A, B, C), `model`, `method` (left out: `generate`), `thinking`, `variant`,
`label_style`, `confidence`, `aliases`, `prompt`, `finish_reason`. Where both are there, `option` (even null) and
`outcome` win over `response`. So what `mbbq-gen extract` writes can be scored as it is, its list of shown options under
`options` and the instance record under `instance`. Other keys are left alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError

from mbbq_gen.errors import DataError
from mbbq_gen.languages import describe_fault
from mbbq_gen.records import DETECTED, Confidence, Extraction, Instance, Method, Outcome
from mbbq_gen.resources import Resources
from mbbq_gen.scoring.observations import Labels, Observation, contradiction, observe

_DEFAULT_LABELS = ("A", "B", "C")


class Answer(BaseModel):
    """What a line says beside the instance."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    option: StrictInt | None = None
    outcome: Outcome | None = None
    response: str | None = None
    order: tuple[StrictInt, ...] = (0, 1, 2)
    labels: tuple[str, ...] = Field(default=_DEFAULT_LABELS, min_length=3, max_length=3)
    confidence: Confidence | None = None
    model: str | None = None
    variant: str | None = None
    label_style: str | None = None
    method: Method = "generate"
    thinking: str | None = None
    unknown_index: StrictInt | None = None
    """Only checked: the instance and the order tell it."""
    aliases: dict[str, tuple[str, ...]] | None = None
    prompt: str | None = None
    finish_reason: Literal["stop", "length", "content_filter", "other"] | None = None


def observe_lines(
    lines: Iterable[str], source_name: str, *, labels: Labels = "published", resources: Resources | None = None
) -> Iterator[Observation]:
    """One observation a line, in order; blank lines are passed over.

    Raises:
        DataError: for a line that is not as the module's head says: source, row, field, what is wrong.
    """
    for number, line in enumerate(lines, start=1):
        text = line.removeprefix("\ufeff") if number == 1 else line
        if text.strip():
            try:
                yield _observe_line(text, labels, resources)
            except DataError as error:
                raise DataError(f"{source_name}:{number}: {error}") from error


def _observe_line(line: str, labels: Labels, resources: Resources | None) -> Observation:
    fields = _fields(line)
    instance, answer = _instance(fields), _answer(fields)
    _check(instance, answer, fields)
    extraction = _given(answer, fields) or _read(instance, answer, resources)
    problem = contradiction(instance, answer.order, extraction)
    if problem:
        raise DataError(problem)
    return observe(
        instance,
        answer.order,
        extraction,
        model=answer.model,
        variant=answer.variant,
        label_style=answer.label_style,
        labels=labels,
        method=answer.method,
        thinking=answer.thinking,
    )


def _fields(line: str) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except json.JSONDecodeError as error:
        raise DataError(f"column {error.colno}: not JSON: {error.msg}; was the line cut off?") from error
    if not isinstance(fields, dict):
        raise DataError("a line must hold a JSON object with an instance and an answer")
    return fields


def _instance(fields: dict[str, Any]) -> Instance:
    """The question, from `instance` or from the line's own keys."""
    nested = fields.get("instance")
    if nested is not None and not isinstance(nested, dict):
        raise DataError("instance: must be an object, an instance record")
    given = {key: fields[key] for key in Instance.model_fields if key in fields} if nested is None else nested
    options = given.get("options")
    if nested is None and isinstance(options, list) and any(isinstance(option, str) for option in options):
        raise DataError(
            "options: texts do not tell the roles; give objects with role and text, or the instance record "
            "under 'instance'"
        )
    try:
        return Instance.model_validate(given)
    except ValidationError as error:
        raise DataError(f"{'instance.' if nested else ''}{describe_fault(error, given)}") from error


def _answer(fields: dict[str, Any]) -> Answer:
    if not fields.keys() & {"option", "outcome", "response"}:
        raise DataError("option: missing; a line needs 'option', 'outcome' or 'response'")
    given = {key: value for key, value in fields.items() if value is not None or key in ("option", "response")}
    try:
        return Answer.model_validate(given)
    except ValidationError as error:
        raise DataError(describe_fault(error, given)) from error


def _check(instance: Instance, answer: Answer, fields: dict[str, Any]) -> None:
    """Looks whether what the line says twice agrees."""
    size = len(instance.options)
    if sorted(answer.order) != list(range(size)):
        raise DataError(f"order: {list(answer.order)} does not hold each of 0 to {size - 1} once")
    if answer.option is not None and answer.outcome not in {None, *DETECTED}:
        raise DataError(f"option: {answer.option}, but the outcome {answer.outcome!r} chooses none; give null")
    shown = [instance.options[index].text for index in answer.order]
    given = fields.get("options") if fields.get("instance") is not None else None
    if given is not None and given != shown:
        raise DataError(f"options: {given} are not the instance's in this order, {shown}; is 'order' missing?")
    unknown = answer.order.index(instance.unknown_index)
    if answer.unknown_index not in (None, unknown):
        raise DataError(f"unknown_index: {answer.unknown_index}, but the unknown option is shown at {unknown}")


def _given(answer: Answer, fields: dict[str, Any]) -> Extraction | None:
    """What the line says was chosen, or None where only the response tells."""
    if answer.outcome is None and "option" not in fields:
        return None
    outcome: Outcome = answer.outcome or ("no_answer" if answer.option is None else "option")
    return Extraction(outcome=outcome, option=answer.option, confidence=answer.confidence or "high", rule="given")


def _read(instance: Instance, answer: Answer, resources: Resources | None) -> Extraction:
    """What the extractor reads in the response; `error` where there is none."""
    if answer.response is None:
        return Extraction(outcome="filtered" if answer.finish_reason == "content_filter" else "error")
    from mbbq_gen.extraction import extract

    return extract(
        answer.response,
        [instance.options[index].text for index in answer.order],
        answer.labels,
        instance.language,
        answer.order.index(instance.unknown_index),
        answer.aliases,
        answer.prompt,
        finish_reason=answer.finish_reason,
        resources=resources,
    )
