"""Reads the logs of inspect-ai, without inspect-ai.

    LOG.eval      a zip file: header.json (of an unfinished log _journal/start.json), samples/ID_epoch_N.json
    LOG.json      the same in one: {"eval": {…}, "samples": […]}

A sample holds the conversation (`messages`), the final output, and under `events` every exchange with a model. The
solver `multiple_choice` can shuffle the options and then writes conversation and answer *anew*, in the unshuffled order
and without the model's own words. So the exchange that the final output came from (its message has the same id) is what
is read: there stand the options as they were shown and the words as they came. Long texts may be kept apart, under
`attachments`, and messages under `events_data`. Read in inspect_ai 0.3.285: `log/_log.py`, `log/_condense.py`,
`log/_recorders/eval.py`, `solver/_multiple_choice.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mbbq_gen.core.errors import DataError
from mbbq_gen.core.records import ImportSource
from mbbq_gen.core.tables import UnreadableError, json_object
from mbbq_gen.interchange.importers import base as fields
from mbbq_gen.interchange.importers.base import (
    Archive,
    ImportedAnswer,
    ImportedResponse,
    SkippedRow,
    Source,
    read_json,
    require_file,
)

INSTANCE_KEY: Final = "mbbq_gen_instance"
"""Metadata field in which our own tasks for inspect-ai keep the key of the instance."""
_ATTACHMENT: Final = "attachment://"
FINISH: Final[Mapping[str, fields.FinishReason]] = {
    "stop": "stop",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "content_filter",
}
_HEADERS: Final = ("header.json", "_journal/start.json")


def open_inspect(path: Path) -> Source:
    """The samples of a log.

    Raises:
        UsageError: where there is no such file.
        DataError: where it is no log of inspect-ai, or damaged.
    """
    require_file(path, "a log of inspect-ai, LOG.eval or LOG.json")
    with path.open("rb") as stream:
        is_zip = stream.read(4) == b"PK\x03\x04"
    header, rows = _open_archive(path) if is_zip else _open_json(path)
    evaluation = header.get("eval")
    if not isinstance(evaluation, Mapping):
        raise DataError(f"{path}: no `eval` in its header; is this a log of inspect-ai?")
    status = header.get("status")
    unfinished = (f"{path}: its status is {status}: the log may be a part",) if status not in (None, "success") else ()
    return Source(
        tool="inspect",
        path=path,
        rows=_answers(rows, path, fields.name(evaluation.get("task"), "imported").rpartition("/")[2]),
        model=fields.name(evaluation.get("model")) or None,
        files=(path,),
        facts=_facts(evaluation),
        notes=unfinished,
    )


Samples = Iterator[tuple[str, Mapping[str, Any] | SkippedRow]]


def _open_archive(path: Path) -> tuple[Mapping[str, Any], Samples]:
    """Header and samples of an .eval file."""
    with Archive(path) as archive:
        name = next((name for name in _HEADERS if name in archive.names), None)
        if name is None:
            raise DataError(f"{path}: no {' or '.join(_HEADERS)} in it; is this a log of inspect-ai?")
        try:
            header = json_object(archive.read(name))
        except UnreadableError as error:
            raise DataError(f"{path}: {name}: {error}") from error
    return header, _archived_samples(path)


def _archived_samples(path: Path) -> Samples:
    with Archive(path) as archive:
        for name in archive.names:
            if not name.startswith("samples/") or not name.endswith(".json"):
                continue
            place = f"{path.name}:{name}"
            try:
                yield place, json_object(archive.read(name))
            except UnreadableError as error:
                yield place, SkippedRow("parse_error", place, str(error))


def _open_json(path: Path) -> tuple[Mapping[str, Any], Samples]:
    """Header and samples of a .json file."""
    whole = read_json(path)
    if not isinstance(whole, dict):
        raise DataError(f"{path}: a JSON object is needed; is this a log of inspect-ai?")
    samples = whole.pop("samples", None)
    samples = [] if samples is None else samples
    if not isinstance(samples, list):
        raise DataError(f"{path}: samples: a list is needed, found {type(samples).__name__}")
    return whole, _listed_samples(samples, path)


def _listed_samples(samples: Sequence[Any], path: Path) -> Samples:
    for number, sample in enumerate(samples):
        place = f"{path.name}:samples[{number}]"
        if isinstance(sample, Mapping):
            yield place, sample
        else:
            yield place, SkippedRow("parse_error", place, "a sample is an object")


def _facts(evaluation: Mapping[str, Any]) -> dict[str, str]:
    packages = evaluation.get("packages")
    versions = packages if isinstance(packages, Mapping) else {}
    found = {name: evaluation.get(name) for name in ("task", "task_version", "created", "run_id", "eval_id")}
    found["inspect_ai"] = versions.get("inspect_ai")
    found["generate_config"] = evaluation.get("model_generate_config") or None
    return {name: fields.name(value) for name, value in found.items() if value is not None}


def _answers(samples: Samples, path: Path, task: str) -> Iterator[ImportedAnswer | SkippedRow]:
    for place, sample in samples:
        if isinstance(sample, SkippedRow):
            yield sample
            continue
        try:
            yield _answer(_Attached(sample), path, task, place)
        except UnreadableError as error:
            yield SkippedRow("parse_error", place, str(error))


class _Attached:
    """A sample whose attachments are put back where they belong."""

    def __init__(self, sample: Mapping[str, Any]) -> None:
        self._sample = sample
        self._attachments = fields.table(sample.get("attachments"), "attachments")
        pool = fields.table(sample.get("events_data"), "events_data").get("messages")
        self._pool = fields.array(pool, "events_data.messages")

    def get(self, name: str) -> Any:
        """The value of a field of the sample."""
        return self.whole(self._sample.get(name))

    def raw(self, name: str) -> Any:
        """The same, as it stands."""
        return self._sample.get(name)

    def whole(self, value: Any, depth: int = 12) -> Any:
        """A value with its attachments; what is nested more deeply stays as it is."""
        if isinstance(value, str) and value.startswith(_ATTACHMENT):
            return self._attachments.get(value.removeprefix(_ATTACHMENT), value)
        if depth and isinstance(value, Mapping):
            return {name: self.whole(inner, depth - 1) for name, inner in value.items()}
        if depth and isinstance(value, list):
            return [self.whole(inner, depth - 1) for inner in value]
        return value

    def input_of(self, event: Mapping[str, Any]) -> list[Any]:
        """The messages that an exchange sent: in the event, or by their places in the pool."""
        found = list(fields.array(event.get("input"), "input"))
        for span in fields.array(event.get("input_refs"), "input_refs"):
            if isinstance(span, list) and len(span) == 2 and all(isinstance(end, int) and end >= 0 for end in span):
                found.extend(self._pool[span[0] : span[1]])
        return [self.whole(message) for message in found]


def _answer(sample: _Attached, path: Path, task: str, place: str) -> ImportedAnswer | SkippedRow:
    """The answer of one sample."""
    output = fields.table(sample.get("output"), "output")
    sent = fields.messages(sample.get("messages"), "messages")
    exchange = _exchange(sample, output)
    if exchange is not None:
        sent = fields.messages(sample.input_of(exchange), "input") or sent
        output = fields.table(sample.whole(exchange.get("output")), "events.output")
    elif sent and sent[-1].role == "assistant":
        sent = sent[:-1]
    words = _words(output, sample)
    if words is None:
        limit = sample.raw("limit")
        reached = f"stopped by its {limit.get('type')} limit" if isinstance(limit, Mapping) else "output is empty"
        return SkippedRow("unparsed", place, reached)
    metadata = fields.table(sample.get("metadata"), "metadata")
    context, question = (_own_text(metadata, name) for name in ("context", "question"))
    given = sample.get("input")
    epoch = sample.raw("epoch")
    return ImportedAnswer(
        origin=ImportSource(
            tool="inspect",
            file=path.name,
            id=fields.name(sample.raw("id"), "?"),
            task=task,
            repeat=epoch if isinstance(epoch, int) else 1,
        ),
        place=place,
        words=words,
        messages=sent,
        context=context if question else None,
        question=question if context else None,
        text=given if isinstance(given, str) else fields.joined(turn.content for turn in sent),
        options=fields.texts(sample.get("choices"), "choices"),
        hints=fields.hints(sample.raw("id"), metadata),
        instance=_own_text(metadata, INSTANCE_KEY),
        variant=_own_text(metadata, "variant") or task,
    )


def _own_text(metadata: Mapping[str, Any], name: str) -> str | None:
    value = metadata.get(name)
    return fields.text(value, f"metadata.{name}") if isinstance(value, str) and value.strip() else None


def _exchange(sample: _Attached, output: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The exchange with the model that the final output came from; None where the log does not hold it."""
    wanted = _message_id(output)
    if wanted is None:
        return None
    for event in reversed(fields.array(sample.raw("events"), "events")):
        if isinstance(event, Mapping) and event.get("event") == "model":
            given = event.get("output")
            if isinstance(given, Mapping) and _message_id(given) == wanted:
                return event
    return None


def _first_choice(output: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = fields.array(output.get("choices"), "output.choices")
    return fields.table(choices[0], "output.choices[0]") if choices else {}


def _message_id(output: Mapping[str, Any]) -> str | None:
    message = _first_choice(output).get("message")
    found = message.get("id") if isinstance(message, Mapping) else None
    return found if isinstance(found, str) else None


def _words(output: Mapping[str, Any], sample: _Attached) -> ImportedResponse | None:
    """What the model wrote, or the error that kept it from writing; None where neither is recorded."""
    choice = _first_choice(output)
    failed = sample.raw("error") or output.get("error")
    model = fields.name(output.get("model")) or None
    if not choice and not failed:
        return None
    if not choice:
        reported = failed.get("message") if isinstance(failed, Mapping) else failed
        line = fields.first_line(reported) if isinstance(reported, str) else ""
        return ImportedResponse(error=line or "failed for a reason that is not recorded", model=model)
    message = fields.table(choice.get("message"), "output.choices[0].message")
    said = fields.content(message.get("content"), "output.choices[0].message.content")
    stop = choice.get("stop_reason")
    usage = output.get("usage")
    counts = usage if isinstance(usage, Mapping) else {}
    return ImportedResponse(
        text=said.said,
        reasoning=said.reasoning,
        finish_reason=fields.finish(stop, FINISH),
        provider_finish_reason=fields.name(stop) or None,
        model=model,
        input_tokens=fields.number(counts.get("input_tokens")),
        output_tokens=fields.number(counts.get("output_tokens")),
        latency_s=fields.seconds(output.get("time")),
    )
