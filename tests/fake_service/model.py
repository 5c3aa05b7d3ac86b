"""The fake model: which text a question gets, within its token budget, and what the content filter makes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Request
from mbbq_gen.providers.responders import OracleOptions, OracleProvider
from tests.support.planned_questions import PlannedQuestions, Turn, digest_of


def estimate_tokens(text: str) -> int:
    """A token for every four bytes of UTF-8, rounded up."""
    return -(-len(text.encode()) // 4)


class Received:
    """One question to the model."""

    def __init__(self, model: str, turns: Sequence[Turn], max_tokens: int | None, body: Mapping[str, Any]) -> None:
        self.model, self.turns, self.max_tokens, self.body = model, turns, max_tokens, body
        self.digest = digest_of(turns)
        self.input_tokens = sum(estimate_tokens(text) + 4 for _, text in turns)


@dataclass(frozen=True)
class Said:
    """What the model says."""

    text: str
    finish: str  # stop, length, content_filter, refusal
    outcome: str | None
    input_tokens: int
    output_tokens: int  # with the reasoning tokens
    reasoning_tokens: int
    model: str
    trace: str
    trace_form: str
    first_tokens: dict[str, float]  # log-probabilities of what may have stood first, likeliest first


class FailureError(Exception):
    """Why there is no answer."""

    def __init__(self, kind: str, message: str, parameter: str | None = None, **more: Any) -> None:
        super().__init__(message)
        self.kind, self.parameter = kind, parameter
        self.status: int | None = more.get("status")
        self.retry_after_s: float | None = more.get("retry_after_s")


class Model:
    """Answers as the settings say; made anew when they change."""

    def __init__(self, answers: Mapping[str, Any], questions: PlannedQuestions | None) -> None:
        self._answers, self._questions, where = answers, questions, PackPaths()
        self._oracle = OracleProvider(answers["oracle"], OracleOptions(speech=answers["speech"]), where)
        spoken = OracleOptions(speech="sentence")
        self._thinker = OracleProvider(answers["thoughts"], spoken, where) if answers["thoughts"] else None

    def say(self, received: Received, outcome: str | None) -> Said:
        """The answer to a question; raises FailureError where an unknown one is to be rejected."""
        answers, form = self._answers, self._answers["thought_form"]
        request = self._questions.find(received.digest) if self._questions else None
        if request is None and answers["unrecognised"] == "reject":
            raise FailureError("invalid", "the fake service does not know this question", "messages")
        other = received.turns[-1][1] if answers["unrecognised"] == "echo" else answers["fixed"]
        text = other if request is None else self._oracle.answer(request)
        trace, finish = "", "stop"
        if self._thinker is not None and _may_think(received.body):
            trace = self._thinker.answer(request) if request else "Let me read the question again."
        reasoning, budget = answers["reasoning_tokens"] + estimate_tokens(trace), received.max_tokens
        if outcome == "filtered_answer":
            text, finish = "", "content_filter"
        elif outcome == "refused":
            text, finish = "I can't help with that.", "refusal"
        elif outcome == "empty":
            text, finish, reasoning = "", "length", budget or max(reasoning, 64)
        elif outcome == "truncated":
            text, finish = text[: len(text) // 2], "length"
        room = None if budget is None or finish in ("content_filter", "refusal") else max(0, budget - reasoning)
        if room is not None and estimate_tokens(text) > room:
            text, finish = text.encode()[: room * 4].decode(errors="ignore"), "length"
            reasoning = min(reasoning, budget or 0)
            trace = trace.encode()[: reasoning * 4].decode(errors="ignore")
        written = estimate_tokens(text) if answers["output_tokens"] is None else answers["output_tokens"]
        if trace and form == "tags":
            text = f"<think>\n{trace}" + (f"\n</think>\n\n{text}" if text else "")
        text, trace = text + "." * answers["padding"], "" if form in ("tags", "hidden") else trace
        name, first = answers["reported_model"] or received.model, self._first(request, text)
        counts = received.input_tokens, reasoning + written, reasoning
        return Said(text, finish, outcome, *counts, name, trace, form, first)

    def _first(self, request: Request | None, text: str) -> dict[str, float]:
        """The first word that is said, then the labels, the chosen one before the others."""
        if self._answers["logprobs"] == "nothing" or not text.split():
            return {}
        found = {text.split(maxsplit=1)[0]: -0.5}  # its log-probability; alternatives have less
        if request is not None and self._answers["logprobs"] == "labels":
            labels = request.prompt.option_labels
            for number, label in enumerate([labels[self._oracle.place(request)], *labels]):
                found.setdefault(label, -0.5 * (number + 2))
        return found


_SWITCHES = ('effort": "none"', '"enable_thinking": false', '"enabled": false', '"type": "disabled"', 'Budget": 0')


def _may_think(body: Mapping[str, Any]) -> bool:
    """Whether a body lets the model think; every service has its own field to turn it off."""
    return not any(switch in json.dumps(body) for switch in _SWITCHES)
