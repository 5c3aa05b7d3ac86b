"""Reads the logs of inspect-ai, without inspect-ai.

    LOG.eval      a zip file: header.json (of an unfinished log _journal/start.json), samples/ID_epoch_N.json
    LOG.json      the same in one: {"eval": {…}, "samples": […]}

A sample has the conversation (`messages`), the final output, and in `events` all exchanges with a model. The solver
`multiple_choice` can shuffle the options; it then *rewrites* conversation and answer in the unshuffled order, without
the original response. So the importer reads the exchange of the final output (its message has the same id), with the
options and the response in their original form. Long texts may be stored in `attachments`, messages in `events_data`.
Source: inspect_ai 0.3.285, `log/_log.py`, `log/_condense.py`, `log/_recorders/eval.py`, `solver/_multiple_choice.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from mbbq_gen.core.errors import DataError
from mbbq_gen.core.records import Response
from mbbq_gen.core.tables import UnreadableError, json_object
from mbbq_gen.interchange.importers import base as log
from mbbq_gen.interchange.importers.base import ImportedAnswer, Row, SkippedRow, Source

INSTANCE_KEY: Final = "mbbq_gen_instance"
"""Metadata field with the key of the instance, in our own tasks for inspect-ai."""
_ATTACHMENT: Final = "attachment://"
FINISH: Final[Mapping[str, log.FinishReason]] = {
    "stop": "stop",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "content_filter",
}
_HEADERS: Final = ("header.json", "_journal/start.json")
_WHAT: Final = "a log of inspect-ai"


def open_inspect(path: Path) -> Source:
    """The samples of a log; UsageError or DataError if it is no log or damaged."""
    log.require_file(path, f"{_WHAT}, LOG.eval or LOG.json")
    with path.open("rb") as stream:
        is_zip = stream.read(4) == b"PK\x03\x04"
    if is_zip:
        header, samples = _header_of(path), _archived_samples(path)
    else:
        header = log.read_object(path, _WHAT)
        listed = [] if header.get("samples") is None else header["samples"]
        if not isinstance(listed, list):
            raise DataError(f"{path}: samples: a list is needed, found {type(listed).__name__}")
        samples = ((f"samples[{number}]", sample) for number, sample in enumerate(listed))
    if not isinstance(header.get("eval"), Mapping):
        raise DataError(f"{path}: no `eval` in its header; is this {_WHAT}?")
    task = log.name(log.find(header, "eval.task"), "imported").rpartition("/")[2]
    status = header.get("status")
    names = ("task", "task_version", "created", "run_id", "eval_id")
    facts = {name: log.find(header, f"eval.{name}") for name in names}
    facts["inspect_ai"] = log.find(header, "eval.packages.inspect_ai")
    facts["generate_config"] = log.find(header, "eval.model_generate_config") or None
    return Source(
        tool="inspect",
        path=path,
        rows=log.read_rows(path.name, samples, lambda sample, _: [_answer(sample, task)]),
        model=log.name(log.find(header, "eval.model")) or None,
        files=(path,),
        facts={name: log.name(value) for name, value in facts.items() if value is not None},
        notes=() if status in (None, "success") else (f"{path}: its status is {status}: the log may be a part",),
    )


def _header_of(path: Path) -> dict[str, Any]:
    with log.open_archive(path) as archive:
        name = next((name for name in _HEADERS if name in archive.namelist()), None)
        if name is None:
            raise DataError(f"{path}: no {' or '.join(_HEADERS)} in it; is this {_WHAT}?")
        try:
            return json_object(log.read_member(archive, name))
        except UnreadableError as error:
            raise DataError(f"{path}: {name}: {error}") from error


def _archived_samples(path: Path) -> Iterator[tuple[str, bytes | UnreadableError]]:
    with log.open_archive(path) as archive:
        for name in archive.namelist():
            if name.startswith("samples/") and name.endswith(".json"):
                try:
                    yield name, log.read_member(archive, name)
                except UnreadableError as error:
                    yield name, error


def _answer(stored: Mapping[str, Any], task: str) -> Row:
    """The answer of one sample."""
    attachments = log.take(stored, "attachments", dict)
    names = ("output", "messages", "metadata", "input", "choices")
    sample = {name: _restored(stored.get(name), attachments) for name in names}
    output, sent = log.take(sample, "output", dict), log.messages(sample, "messages")
    exchange = _exchange(stored, log.find(output, "choices.0.message.id"))
    if exchange is not None:
        pool = log.take(stored, "events_data.messages", list)
        turns = log.take(exchange, "input", list)
        for span in log.take(exchange, "input_refs", list):
            if isinstance(span, list) and len(span) == 2 and all(isinstance(end, int) and end >= 0 for end in span):
                turns = turns + pool[span[0] : span[1]]
        sent = log.messages({"input": _restored(turns, attachments)}, "input") or sent
        output = log.take({"output": _restored(exchange.get("output"), attachments)}, "output", dict)
    elif sent and sent[-1].role == "assistant":
        sent = sent[:-1]
    response = _response(output, stored.get("error"))
    if response is None:
        limit = log.find(stored, "limit.type")
        return SkippedRow("unparsed", f"stopped by its {limit} limit" if limit else "output is empty")
    metadata, epoch, whole = log.take(sample, "metadata", dict), stored.get("epoch"), sample["input"]
    own = {
        name: metadata[name]
        for name in ("context", "question", "variant", INSTANCE_KEY)
        if isinstance(metadata.get(name), str) and metadata[name].strip()
    }
    has_question = {"context", "question"} <= own.keys()
    return ImportedAnswer(
        id=log.name(stored.get("id"), "?"),
        task=task,
        repeat=epoch if isinstance(epoch, int) else 1,
        response=response,
        messages=sent,
        context=own["context"] if has_question else None,
        question=own["question"] if has_question else None,
        text=whole if isinstance(whole, str) else "\n".join(turn.content for turn in sent if turn.content),
        options=log.texts(sample, "choices"),
        hints=log.hints(stored.get("id"), metadata),
        instance=own.get(INSTANCE_KEY),
        variant=own.get("variant") or task,
    )


def _restored(value: Any, attachments: Mapping[str, Any], depth: int = 12) -> Any:
    """A value with its attachments inserted, down to `depth` levels."""
    if isinstance(value, str) and value.startswith(_ATTACHMENT):
        return attachments.get(value.removeprefix(_ATTACHMENT), value)
    if depth and isinstance(value, Mapping):
        return {name: _restored(inner, attachments, depth - 1) for name, inner in value.items()}
    if depth and isinstance(value, list):
        return [_restored(inner, attachments, depth - 1) for inner in value]
    return value


def _exchange(stored: Mapping[str, Any], message_id: Any) -> Mapping[str, Any] | None:
    """The exchange with the model that produced a message; None if the log does not have it."""
    exchanges = (event for event in reversed(log.take(stored, "events", list)) if log.find(event, "event") == "model")
    if not isinstance(message_id, str):
        return None
    return next((event for event in exchanges if log.find(event, "output.choices.0.message.id") == message_id), None)


def _response(output: Mapping[str, Any], error: Any) -> Response | None:
    """The response or the error; None if neither is recorded."""
    failed, model = error or output.get("error"), log.name(output.get("model")) or None
    if not log.take(output, "choices", list):
        if not failed:
            return None
        reported = failed.get("message") if isinstance(failed, Mapping) else failed
        return log.response(error=log.failure(reported), model=model)
    text, reasoning = log.content(output, "choices.0.message.content")
    stop = log.find(output, "choices.0.stop_reason")
    return log.response(
        text=text,
        reasoning=reasoning,
        finish_reason=log.finish(stop, FINISH),
        provider_finish_reason=log.name(stop) or None,
        model=model,
        usage={name: log.find(output, f"usage.{name}") for name in ("input_tokens", "output_tokens")},
        latency_s=log.seconds(output.get("time")),
    )
