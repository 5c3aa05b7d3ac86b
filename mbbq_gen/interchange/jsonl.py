"""Observations from JSON Lines of instances with an option or a response, scored without a run.

A line is an instance record, with its keys at the top or under `instance`, and either `option` (position among the
options as shown, from 0, or null) and/or `outcome`, or `response` (null: there is none), which is extracted. `Answer`
has the other fields. `option` (even null) and `outcome` override `response`, so the output of `mbbq-gen extract` can be
scored as it is, with the options as shown under `options`. Other keys are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError

from mbbq_gen.core.errors import DataError, describe_fault
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import PARSED, Confidence, Extraction, Instance, Method, Outcome
from mbbq_gen.core.tables import UnreadableError, json_object
from mbbq_gen.scoring.observations import GoldLabels, Observation, contradiction, observe


class Answer(BaseModel):
    """The fields of a line besides the instance."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    option: StrictInt | None = None
    outcome: Outcome | None = None
    response: str | None = None
    option_order: tuple[StrictInt, ...] = (0, 1, 2)
    """`option_order[position]` is the index of the instance's option at that position."""
    labels: tuple[str, ...] = Field(default=("A", "B", "C"), min_length=3, max_length=3)
    confidence: Confidence | None = None
    model: str | None = None
    variant: str | None = None
    label_style: str | None = None
    method: Method = "generate"
    reasoning_effort: str | None = None
    unknown_index: StrictInt | None = None
    """Only checked; it follows from instance and option order."""
    aliases: dict[str, tuple[str, ...]] | None = None
    prompt: str | None = None
    finish_reason: Literal["stop", "length", "content_filter", "other"] | None = None


def observe_lines(
    lines: Iterable[str], source_name: str, *, gold: GoldLabels = "published", resources: PackPaths | None = None
) -> Iterator[Observation]:
    """One observation per line that is not blank; raises DataError with source, row and field."""
    for number, line in enumerate(lines, start=1):
        if line.strip("\ufeff \t\r\n"):
            try:
                yield _observe_line(line, gold, resources)
            except DataError as error:
                raise DataError(f"{source_name}:{number}: {error}") from error


def _observe_line(line: str, gold: GoldLabels, resources: PackPaths | None) -> Observation:
    try:
        fields = json_object(line)
    except UnreadableError as error:
        raise DataError(str(error)) from error
    instance = _instance(fields)
    if not fields.keys() & {"option", "outcome", "response"}:
        raise DataError("option: missing; a line needs 'option', 'outcome' or 'response'")
    given = {key: value for key, value in fields.items() if value is not None or key in ("option", "response")}
    try:
        answer = Answer.model_validate(given)
    except ValidationError as error:
        raise DataError(describe_fault(error, given)) from error
    _check(instance, answer, fields)
    if answer.outcome is None and "option" not in fields:
        extraction = _extract(instance, answer, resources)
    else:
        outcome: Outcome = answer.outcome or ("unparsed" if answer.option is None else "option")
        confidence = answer.confidence or "high"
        extraction = Extraction(outcome=outcome, option=answer.option, confidence=confidence, rule="given")
    problem = contradiction(instance, answer.option_order, extraction)
    if problem:
        raise DataError(problem)
    return observe(
        instance,
        answer.option_order,
        extraction,
        model=answer.model,
        variant=answer.variant,
        label_style=answer.label_style,
        gold=gold,
        method=answer.method,
        reasoning=answer.reasoning_effort,
    )


def _instance(fields: dict[str, Any]) -> Instance:
    """The instance, under `instance` or at the top of the line."""
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


def _check(instance: Instance, answer: Answer, fields: dict[str, Any]) -> None:
    """Raises DataError if fields contradict each other."""
    size = len(instance.options)
    if sorted(answer.option_order) != list(range(size)):
        raise DataError(f"option_order: {list(answer.option_order)} does not hold each of 0 to {size - 1} once")
    if answer.option is not None and answer.outcome not in {None, *PARSED}:
        raise DataError(f"option: {answer.option}, but the outcome {answer.outcome!r} chooses none; give null")
    shown = [instance.options[index].text for index in answer.option_order]
    given = fields.get("options") if fields.get("instance") is not None else None
    if given is not None and given != shown:
        raise DataError(f"options: {given} are not the instance's in this order, {shown}; is 'option_order' missing?")
    unknown = answer.option_order.index(instance.unknown_index)
    if answer.unknown_index not in (None, unknown):
        raise DataError(f"unknown_index: {answer.unknown_index}, but the unknown option is shown at {unknown}")


def _extract(instance: Instance, answer: Answer, resources: PackPaths | None) -> Extraction:
    """The extraction of the response; outcome `error` if there is none."""
    if answer.response is None:
        return Extraction(outcome="content_filter" if answer.finish_reason == "content_filter" else "error")
    from mbbq_gen.extraction import extract

    return extract(
        answer.response,
        [instance.options[index].text for index in answer.option_order],
        answer.labels,
        instance.language,
        answer.option_order.index(instance.unknown_index),
        answer.aliases,
        answer.prompt,
        finish_reason=answer.finish_reason,
        resources=resources,
    )
