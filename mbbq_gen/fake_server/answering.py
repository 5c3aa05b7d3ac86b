"""What the model says to a question: as the oracle would, within its token budget, unless a filter objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mbbq_gen.fake_server.asked import Asked, Failure, FailureError, Finish, Said, estimate_tokens, thinks
from mbbq_gen.fake_server.questions import Questions
from mbbq_gen.fake_server.scenario import Answers
from mbbq_gen.providers.oracles import OracleOptions, OracleProvider
from mbbq_gen.records import Request
from mbbq_gen.resources import Resources
from mbbq_gen.seeding import stable_number

_REFUSAL = "I can't help with that."
_ODD = (
    "\ud83d",
    "\udc00\ud800",
    " \ud83d\ude00\ude00",
    "\x00",
    "\ufffe\uffff\U0010ffff",
    "\u202e\u0085\u2028",
    "\r\n\x1b[31m\x7f",
    "\ufeff\u0300",
)
"""What services do send and files do not like."""
_SAID = -0.5
"""Log-probability of the token that is said; each that might have been is that much less likely than the one before."""
_THOUGHT = "<think>\nLet me read the question again.\n</think>\n\n"


class Answerer:
    """Says what the model says. Made anew when the settings change."""

    def __init__(self, answers: Answers, questions: Sequence[Questions], resources: Resources) -> None:
        """Raises UnknownNameError where there is no such oracle."""
        self._answers = answers
        self._questions = questions
        options = OracleOptions(seed=answers.seed, speech=answers.speech)
        self._oracle = OracleProvider(answers.oracle, options, resources)
        spoken = OracleOptions(seed=answers.seed, speech="sentence")
        self._thinker = OracleProvider(answers.thoughts, spoken, resources) if answers.thoughts else None

    def say(self, asked: Asked, verdict: str | None) -> tuple[Said, bool]:
        """What the model says, and whether the question was recognised.

        Raises:
            FailureError: where an unknown question is to be rejected.
        """
        request = self._find(asked)
        text = self._oracle.answer(request) if request is not None else self._other_text(asked)
        thought = self._thought(asked, request)
        said = self._within_budget(asked, _THOUGHT + text if self._answers.think else text, verdict, thought)
        return replace(said, first_tokens=self._first_tokens(request, said.text)), request is not None

    def _thought(self, asked: Asked, request: Request | None) -> str:
        """What the model thinks first; empty where it does not, or may not."""
        if self._thinker is None or not thinks(asked.body):
            return ""
        return self._thinker.answer(request) if request is not None else "Let me read the question again."

    def _find(self, asked: Asked) -> Request | None:
        """The question that is asked, where somebody knows it."""
        found = (questions.find(asked.turns, asked.digest) for questions in self._questions)
        return next((request for request in found if request is not None), None)

    def _first_tokens(self, request: Request | None, text: str) -> tuple[tuple[str, float], ...] | None:
        """What may have stood first: the first word that is said, then the labels, the chosen one before the others."""
        if self._answers.logprobs == "nothing" or not text.split():
            return None
        found = {text.split(maxsplit=1)[0]: _SAID}
        if request is not None and self._answers.logprobs == "labels":
            labels, chosen = request.presentation.labels, self._oracle.place(request)
            for number, label in enumerate([labels[chosen], *labels]):
                found.setdefault(label, _SAID * (number + 2))
        return tuple(found.items())

    def _other_text(self, asked: Asked) -> str:
        if self._answers.unrecognised == "echo":
            return asked.turns[-1].text
        if self._answers.unrecognised == "reject":
            raise FailureError(Failure("invalid", "the fake server does not know this question", "messages"))
        return self._answers.fixed

    def _within_budget(self, asked: Asked, text: str, verdict: str | None, thought: str = "") -> Said:
        """Thought and text as far as the token budget goes, or what the verdict makes of them."""
        finish: Finish = "stop"
        reasoning = self._answers.reasoning_tokens + estimate_tokens(thought)
        budget = asked.max_tokens
        if verdict == "filtered_answer":
            text, finish = "", "content_filter"
        elif verdict == "refused":
            text, finish = _REFUSAL, "refusal"
        elif verdict == "empty":
            text, finish, reasoning = "", "length", budget or max(reasoning, 64)
        elif verdict == "truncated":
            text, finish = text[: len(text) // 2], "length"
        room = None if budget is None or finish in ("content_filter", "refusal") else max(0, budget - reasoning)
        if room is not None and estimate_tokens(text) > room:
            text, finish = text.encode()[: room * 4].decode(errors="ignore"), "length"
            reasoning = min(reasoning, budget or 0)
            thought = thought.encode()[: reasoning * 4].decode(errors="ignore")
        written = estimate_tokens(text) if self._answers.output_tokens is None else self._answers.output_tokens
        if thought and self._answers.thought_form == "tags":
            text = f"<think>\n{thought}" + (f"\n</think>\n\n{text}" if text else "")
        if verdict == "odd":
            text += _ODD[stable_number("odd", asked.digest) % len(_ODD)]
        return Said(
            text=text + "." * self._answers.padding,
            finish=finish,
            input_tokens=asked.input_tokens,
            output_tokens=reasoning + written,
            reasoning_tokens=reasoning,
            thought="" if self._answers.thought_form in ("tags", "hidden") else thought,
            thought_form=self._answers.thought_form,
            model=self._answers.reported_model or asked.model,
        )
