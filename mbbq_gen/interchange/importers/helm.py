"""Reads a run folder of HELM.

    RUN/scenario_state.json       everything: requests and responses
    RUN/instances.json, display_requests.json, display_predictions.json      the shorter form for its web pages, which
                                  is what HELM publishes; read where the first one is missing
    RUN/run_spec.json             the model and its settings

`output_mapping` says which letter stood before which option. Options that were scored one by one
(`multiple_choice_separate_…`) have no words of the model. Read in crfm-helm 0.5.16: `adaptation/request_state.py`,
`presentation/run_display.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from mbbq_gen.core.errors import DataError, UsageError
from mbbq_gen.core.records import ImportSource, Message
from mbbq_gen.core.tables import UnreadableError
from mbbq_gen.interchange.importers import base as fields
from mbbq_gen.interchange.importers.base import (
    ImportedAnswer,
    ImportedResponse,
    SkippedRow,
    Source,
    read_json,
)

_STATE: Final = "scenario_state.json"
_PREDICTIONS: Final = "display_predictions.json"
_REQUESTS: Final = "display_requests.json"
_INSTANCES: Final = "instances.json"

_FINISH: Final[Mapping[str, fields.FinishReason]] = {
    "stop": "stop",
    "endoftext": "stop",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}


def open_helm(path: Path) -> Source:
    """The requests of a run folder.

    Raises:
        UsageError: where it is no run folder of HELM.
        DataError: where a file in it is no JSON, or not of HELM's shape.
    """
    folder = path.parent if path.is_file() else path
    spec = _object(folder / "run_spec.json") if (folder / "run_spec.json").is_file() else {}
    adapter = _part(spec, "adapter_spec")
    named = fields.name(_part(spec, "scenario_spec").get("class_name")) or fields.name(spec.get("name"), folder.name)
    task = named.rpartition(".")[2]
    if (folder / _STATE).is_file():
        files = [folder / _STATE]
        state = _object(folder / _STATE)
        adapter = adapter or _part(state, "adapter_spec")
        rows = _from_state(_list(state.get("request_states"), folder / _STATE), task)
    elif all((folder / name).is_file() for name in (_PREDICTIONS, _REQUESTS, _INSTANCES)):
        files = [folder / name for name in (_PREDICTIONS, _REQUESTS, _INSTANCES)]
        predictions, requests, instances = (_list(read_json(file), file) for file in files)
        rows = _from_display(predictions, requests, instances, task)
    else:
        raise UsageError(
            f"{folder}: neither {_STATE} nor {_PREDICTIONS}, {_REQUESTS} and {_INSTANCES}; give a run folder of HELM"
        )
    names = ("method", "temperature", "max_tokens", "max_train_instances", "instructions")
    return Source(
        tool="helm",
        path=folder,
        rows=rows,
        model=fields.name(adapter.get("model")) or None,
        files=tuple(files),
        facts={name: fields.name(adapter[name]) for name in names if adapter.get(name) is not None}
        | ({"run": fields.name(spec["name"])} if spec.get("name") else {}),
    )


def _object(path: Path) -> Mapping[str, Any]:
    value = read_json(path)
    if not isinstance(value, Mapping):
        raise DataError(f"{path}: a JSON object is needed; is this a run folder of HELM?")
    return value


def _part(whole: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = whole.get(name)
    return part if isinstance(part, Mapping) else {}


def _list(value: Any, path: Path) -> list[Any]:
    if not isinstance(value, list):
        raise DataError(f"{path}: a list is needed; is this a run folder of HELM?")
    return value


# --- scenario_state.json ---------------------------------------------------------------------------------------------


def _from_state(states: list[Any], task: str) -> Iterator[ImportedAnswer | SkippedRow]:
    for number, entry in enumerate(states):
        place = f"{_STATE}:request_states[{number}]"
        try:
            state = fields.table(entry, "request state")
            if state.get("reference_index") is not None:
                yield SkippedRow("loglikelihood_only", place, "each option was scored by itself")
                continue
            words = _words(fields.table(state.get("result"), "result"))
            if words is None:
                yield SkippedRow("unparsed", place, "no result")
                continue
            instance = fields.table(state.get("instance"), "instance")
            mapping = fields.table(state.get("output_mapping"), "output_mapping")
            labels = {fields.name(label): fields.text(text, "output_mapping") or "" for label, text in mapping.items()}
            yield _answer(instance, state, words, labels=labels, task=task, place=place)
        except UnreadableError as error:
            yield SkippedRow("parse_error", place, str(error))


def _words(result: Mapping[str, Any]) -> ImportedResponse | None:
    """What came back; None where nothing is recorded."""
    if not result:
        return None
    if not result.get("success", True):
        said = fields.text(result.get("error"), "result.error") or ""
        return ImportedResponse(error=fields.first_line(said) or "failed for a reason that is not recorded")
    completions = fields.array(result.get("completions"), "result.completions")
    if not completions:
        return None
    completion = fields.table(completions[0], "result.completions[0]")
    finish = completion.get("finish_reason")
    reason = finish.get("reason") if isinstance(finish, Mapping) else finish
    reasoning = fields.table(completion.get("thinking"), "thinking").get("text")
    return ImportedResponse(
        text=fields.text(completion.get("text"), "result.completions[0].text") or "",
        finish_reason=fields.finish(reason, _FINISH),
        provider_finish_reason=fields.name(reason) or None,
        reasoning=fields.text(reasoning, "thinking.text"),
        latency_s=fields.seconds(result.get("request_time")),
    )


def _answer(
    instance: Mapping[str, Any],
    state: Mapping[str, Any],
    words: ImportedResponse,
    *,
    labels: Mapping[str, str],
    task: str,
    place: str,
) -> ImportedAnswer:
    """The answer to a request (with its trial) about an instance of HELM."""
    request, trial = fields.table(state.get("request"), "request"), state.get("train_trial_index")
    references = fields.array(instance.get("references"), "instance.references")
    outputs = [fields.table(fields.table(entry, "reference").get("output"), "output") for entry in references]
    listed = tuple(fields.text(output.get("text"), "output.text") or "" for output in outputs)
    perturbation = fields.name(fields.table(instance.get("perturbation"), "instance.perturbation").get("name"))
    prompt = fields.text(request.get("prompt"), "request.prompt")
    sent = fields.messages(request.get("messages"), "request.messages")
    identity, repeat = fields.name(instance.get("id"), "?"), trial + 1 if isinstance(trial, int) else 1
    return ImportedAnswer(
        origin=ImportSource(tool="helm", file=place.partition(":")[0], id=identity, task=task, repeat=repeat),
        place=place,
        words=words,
        messages=sent or ((Message(role="user", content=prompt),) if prompt else ()),
        text=fields.text(fields.table(instance.get("input"), "instance.input").get("text"), "instance.input.text"),
        options=tuple(labels.values()) or listed,
        labels=tuple(labels),
        hints=fields.hints(identity, instance.get("extra_data")),
        variant=f"{task}_{perturbation}" if perturbation else task,
    )


# --- the shorter form ------------------------------------------------------------------------------------------------


def _key(entry: Mapping[str, Any], name: str) -> tuple[str, str]:
    """What tells instances apart: their id, and how they were changed."""
    return str(entry.get(name)), str(entry.get("perturbation"))


def _from_display(
    predictions: list[Any], requests: list[Any], instances: list[Any], task: str
) -> Iterator[ImportedAnswer | SkippedRow]:
    """Predictions with their requests and instances, which stand in lists of their own."""
    known = {_key(entry, "id"): entry for entry in instances if isinstance(entry, Mapping)}
    sent = {
        (*_key(entry, "instance_id"), str(entry.get("train_trial_index"))): entry
        for entry in requests
        if isinstance(entry, Mapping)
    }
    for number, entry in enumerate(predictions):
        place = f"{_PREDICTIONS}:[{number}]"
        try:
            prediction = fields.table(entry, "prediction")
            if prediction.get("reference_index") is not None:
                yield SkippedRow("loglikelihood_only", place, "each option was scored by itself")
                continue
            key, trial = _key(prediction, "instance_id"), prediction.get("train_trial_index")
            said = fields.text(prediction.get("predicted_text"), "predicted_text")
            if said is None:
                yield SkippedRow("unparsed", place, "predicted_text is missing")
                continue
            words = ImportedResponse(text=said, reasoning=fields.text(prediction.get("thinking_text"), "thinking_text"))
            state = {"request": sent.get((*key, str(trial)), {}).get("request"), "train_trial_index": trial}
            yield _answer(known.get(key, {"id": key[0]}), state, words, labels={}, task=task, place=place)
        except UnreadableError as error:
            yield SkippedRow("parse_error", place, str(error))
