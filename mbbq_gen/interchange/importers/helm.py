"""Reads a run folder of HELM.

    RUN/scenario_state.json       requests and responses
    RUN/run_spec.json             the model and its settings

`output_mapping` maps labels to options. Options that were scored one by one (`multiple_choice_separate_…`) have no
response. Source: crfm-helm 0.5.16, `adaptation/request_state.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from mbbq_gen.core.errors import DataError, UsageError
from mbbq_gen.core.records import Message, Response
from mbbq_gen.interchange.importers import base as log
from mbbq_gen.interchange.importers.base import ImportedAnswer, Row, SkippedRow, Source

_WHAT: Final = "a run folder of HELM"
_FINISH: Final[Mapping[str, log.FinishReason]] = {
    "stop": "stop",
    "endoftext": "stop",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}
_FACTS: Final = ("method", "temperature", "max_tokens", "max_train_instances", "instructions")


def open_helm(path: Path) -> Source:
    """The requests of a run folder; UsageError or DataError if it is none."""
    folder = path.parent if path.is_file() else path
    spec_path, state_path = folder / "run_spec.json", folder / "scenario_state.json"
    spec = log.read_object(spec_path, _WHAT) if spec_path.is_file() else {}
    if not state_path.is_file():
        raise UsageError(f"{folder}: no {state_path.name} in it; give {_WHAT}")
    whole = log.read_object(state_path, _WHAT)
    states, adapter = whole.get("request_states"), spec.get("adapter_spec") or whole.get("adapter_spec")
    if not isinstance(states, list):
        raise DataError(f"{state_path}: a list is needed; is this {_WHAT}?")
    adapter = adapter if isinstance(adapter, Mapping) else {}
    task = log.name(log.find(spec, "scenario_spec.class_name")) or log.name(spec.get("name"), folder.name)
    task = task.rpartition(".")[2]
    records = ((f"[{number}]", state) for number, state in enumerate(states))
    return Source(
        tool="helm",
        path=folder,
        rows=log.read_rows(state_path.name, records, lambda state, _: [_answer(state, task)]),
        model=log.name(adapter.get("model")) or None,
        files=(state_path,),
        facts={name: log.name(adapter[name]) for name in _FACTS if adapter.get(name) is not None}
        | ({"run": log.name(spec["name"])} if spec.get("name") else {}),
    )


def _answer(state: Mapping[str, Any], task: str) -> Row:
    """The answer of one request state."""
    if state.get("reference_index") is not None:
        return SkippedRow("loglikelihood_only", "each option was scored by itself")
    response = _response(log.take(state, "result", dict))
    if response is None:
        return SkippedRow("unparsed", "no result")
    labels = {log.name(label): option for label, option in log.take(state, "output_mapping", dict).items()}
    options = log.texts({"output_mapping": list(labels.values())}, "output_mapping")
    listed = [log.take(reference, "output.text", str) for reference in log.take(state, "instance.references", list)]
    prompt, trial = log.text(state, "request.prompt"), state.get("train_trial_index")
    identity = log.name(log.find(state, "instance.id"), "?")
    perturbation = log.name(log.find(state, "instance.perturbation.name"))
    return ImportedAnswer(
        id=identity,
        task=task,
        repeat=trial + 1 if isinstance(trial, int) else 1,
        response=response,
        messages=log.messages(state, "request.messages") or ((Message(role="user", content=prompt),) if prompt else ()),
        text=log.text(state, "instance.input.text"),
        options=options or tuple(listed),
        labels=tuple(labels),
        hints=log.hints(identity, log.find(state, "instance.extra_data")),
        variant=f"{task}_{perturbation}" if perturbation else task,
    )


def _response(result: Mapping[str, Any]) -> Response | None:
    """The response or the error; None if neither is recorded."""
    if result and not result.get("success", True):
        return log.response(error=log.failure(result.get("error")))
    if not log.take(result, "completions", list):
        return None
    completion = log.take(result, "completions.0", dict)
    reason = completion.get("finish_reason")
    reason = reason.get("reason") if isinstance(reason, Mapping) else reason
    return log.response(
        text=log.take(completion, "text", str),
        finish_reason=log.finish(reason, _FINISH),
        provider_finish_reason=log.name(reason) or None,
        reasoning=log.text(completion, "thinking.text"),
        latency_s=log.seconds(result.get("request_time")),
    )
