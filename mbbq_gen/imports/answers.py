"""What every importer gives: an answer with all that its file says of the question, or why there is none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from mbbq_gen.records import AnswerScore, Message, NonBlank, Origin, Record, Response

Tool = Literal["lm-eval", "inspect", "helm", "lighteval", "euroeval", "csv"]
TOOLS: tuple[Tool, ...] = get_args(Tool)

Reason = Literal[
    "unreadable",
    "no_words",
    "no_answer",
    "repeated",
    "no_question",
    "other_options",
    "equal_options",
    "several",
]
REASONS: Mapping[Reason, str] = {
    "unreadable": "the row can't be read",
    "no_words": "scored by likelihood: the model wrote nothing, and the row does not tell of which answers",
    "no_answer": "neither an answer nor an error is recorded",
    "repeated": "the same answer again",
    "no_question": "no question of the benchmark has this context and question",
    "other_options": "the question is known, but not with these options",
    "equal_options": "two of the options read alike: which of them stood where can't be told",
    "several": "several questions of the benchmark have these texts",
}
"""Why a row is not imported → in words."""


class Words(Record):
    """What the model wrote, or why it wrote nothing: `Response` before it has a request."""

    text: str | None = None
    finish_reason: Literal["stop", "length", "content_filter", "other"] | None = None
    service_finish_reason: str | None = None
    error: str | None = None
    model: str | None = None
    refusal: str | None = None
    reasoning: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    latency_s: float | None = None


class Likelihood(Record):
    """How likely the model found one of the answers that a task compares."""

    text: NonBlank
    """The answer, without blanks at its edges."""
    logprob: float
    """Sum of the natural logarithms of its tokens' probabilities."""
    unconditional: float | None = None
    """The same without the question; None where it was not asked for."""


@dataclass(frozen=True, kw_only=True)
class ForeignAnswer:
    """One answer of another program's log."""

    origin: Origin
    place: str
    """Where it stands, for messages: `file:row`."""
    words: Words
    likelihoods: tuple[Likelihood, ...] = ()
    """What was compared, where the model wrote nothing."""
    messages: tuple[Message, ...] = ()
    """What was sent; none where the file does not say."""
    context: str | None = None
    """The context where the file has it in a field of its own."""
    question: str | None = None
    """The question likewise."""
    text: str | None = None
    """Context and question in one text, where the file has them so and beside what was sent."""
    options: tuple[str, ...] = ()
    """The options in a list of their own, in the order in which the file has them."""
    labels: tuple[str, ...] = ()
    """The labels of `options`, where the file has them."""
    hints: frozenset[str] = frozenset()
    """Ids and the like, as text: they tell questions of equal texts apart."""
    instance: str | None = None
    """Key or id of our instance, where the file has it."""
    variant: str = "imported"
    """What the wording is called here."""

    @property
    def origin_key(self) -> str:
        """What two rows share that are the same answer."""
        return f"{self.origin.file}\n{self.origin.id}\n{self.origin.repeat}\n{self.variant}"


@dataclass(frozen=True)
class NotImported:
    """A row that gives no answer of the run."""

    reason: Reason
    place: str
    detail: str = ""


@dataclass(frozen=True)
class Source:
    """A log that is ready to be read."""

    tool: Tool
    path: Path
    rows: Iterator[ForeignAnswer | NotImported]
    """One by one, in file order."""
    model: str | None = None
    """The model's name, if the log says it; else that of the first row that does."""
    files: tuple[Path, ...] = ()
    """What is read."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """What the log says of how the model was asked."""
    notes: tuple[str, ...] = ()
    """What the user should know before the rows are read."""


def response_of(
    words: Words, origin: Origin, request_key: str, scores: tuple[AnswerScore, ...] | None = None
) -> Response:
    """The words, or the likelihoods, as the answer to a request."""
    from mbbq_gen.records import Usage

    return Response(
        request_key=request_key,
        usage=Usage(input_tokens=words.input_tokens, output_tokens=words.output_tokens),
        origin=origin,
        scores=scores,
        **words.model_dump(exclude={"input_tokens", "output_tokens"}),
    )
