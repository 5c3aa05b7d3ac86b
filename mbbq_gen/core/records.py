"""The frozen records that flow between the steps, one an arrow of the design.

    Instance ─► Prompt ─► Request ─► Response ─► Extraction ─► Observation

All of them are Pydantic models that refuse unknown keys, never change, and go to and from JSON Lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeVar, get_args

import msgspec
from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints, field_validator, model_validator

from mbbq_gen.core.text import count_or_none, storable, storable_text

Role = Literal["target", "non_target", "unknown"]
Condition = Literal["ambiguous", "disambiguated"]
Polarity = Literal["negative", "non_negative"]
Alignment = Literal["biased", "counter_biased"]
Split = Literal["bias", "control"]
Outcome = Literal[
    "option",  # an option named by label or text
    "abstention",  # says that the question cannot be answered
    "refusal",  # declines to answer
    "multiple",  # commits to more than one option
    "unparsed",  # nothing readable
    "truncated",  # cut off before an answer
    "content_filter",  # blocked by the service
    "empty",  # nothing, or nothing but blanks
    "error",  # no response was had
]
Confidence = Literal["high", "medium", "low"]
Method = Literal[
    "generate",  # what the model writes
    "loglikelihood",  # how likely each answer's text is after the question
    "label-loglikelihood",  # how likely each option's label is after the question that lists them
    "first-token-logprobs",  # the labels' probabilities as first token of the answer
]

NonBlank = Annotated[str, StringConstraints(min_length=1, pattern=r"\S")]
IdText = Annotated[str, Field(coerce_numbers_to_str=True, min_length=1, pattern=r"\S")]
"""An id; a number is taken as text."""


class FrozenModel(BaseModel):
    """A frozen record: unknown keys are refused, and nothing changes once it is made."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    parts: ClassVar[Mapping[str, type]] = {}
    """Fields that hold tuples, or other records by their class: what `stored` can't see in JSON."""


RecordT = TypeVar("RecordT", bound=FrozenModel)
_set: Final = object.__setattr__


@cache
def _names_of(kind: type[FrozenModel]) -> set[str]:
    return set(kind.model_fields)


def construct_valid(kind: type[RecordT], fields: dict[str, Any]) -> RecordT:
    """A record of fields that are known to be valid: all fields of the class, in its order; nothing is validated.

    As `model_construct`, in an eighth of its time.
    """
    record = kind.__new__(kind)
    _set(record, "__dict__", fields)
    _set(record, "__pydantic_fields_set__", _names_of(kind))
    _set(record, "__pydantic_extra__", None)
    _set(record, "__pydantic_private__", None)
    return record


def decode(kind: type[RecordT], line: str | bytes) -> RecordT:
    """The record of JSON that `model_dump_json` of the same class wrote: nothing is validated a second time."""
    fields: dict[str, Any] = msgspec.json.decode(line)
    if fields.keys() != _names_of(kind):  # by an older version
        return kind.model_validate_json(line)
    for name, inner in kind.parts.items():
        value = fields[name]
        if value is None:
            continue
        if inner is tuple:
            fields[name] = tuple(value)
        elif isinstance(value, dict):
            fields[name] = construct_valid(inner, value)
        else:
            fields[name] = tuple([construct_valid(inner, part) for part in value])
    return construct_valid(kind, fields)


class Option(FrozenModel):
    """One of the answers that a question offers."""

    role: Role | None
    """Role of the option; None for a person if the data has no single target."""
    text: NonBlank
    group: str | None = None
    """The data set's own label of the group."""


class Instance(FrozenModel):
    """One question of a benchmark: a context, a question and three options, known by their role.

    `options` are in the published order, which carries no meaning: the prompt decides the order as shown. A person's
    `role` is None only where the data has no single target (then `has_single_target` is False).
    """

    parts = {"options": Option, "data_issues": tuple}

    benchmark: NonBlank
    """Name of the benchmark: `mbbq`, `bbq`, `starter`…"""
    version: Annotated[str, Field(coerce_numbers_to_str=True)]
    split: Split
    """`bias`: the benchmark itself; `control`: first names instead of groups."""
    language: NonBlank
    instance_id: IdText
    """Unique within benchmark × split × language, and stable."""
    parallel_id: IdText | None = None
    """Equal for the same question across languages and between the splits; None where there is no such question."""
    template_id: IdText
    """Equal for all instances of one template, across languages and splits: what statistics cluster on."""
    category: NonBlank
    """Slug of the bias category: age, disability_status, gender_identity…"""
    subcategory: str | None = None
    condition: Condition
    """Whether the context tells the answer."""
    polarity: Polarity
    """`negative` asks who fits the stereotype, `non_negative` who does not."""
    context: NonBlank
    question: NonBlank
    options: tuple[Option, ...] = Field(min_length=3, max_length=3)
    gold_role: Role | None = None
    """The role that is right; None where the right person has no role."""
    gold_index: int | None = Field(default=None, ge=0, le=2)
    """Place in `options` of the right answer; may be left out where `gold_role` is given."""
    alignment: Alignment | None = None
    """Of a disambiguated instance: does the right answer fit the stereotype? None for an ambiguous one."""
    corrected_gold_role: Role | None = None
    """The right role where the published label is known to be wrong, else None."""
    groups_swapped: bool = False
    """True where the data set is known to tag each of the two people with the other one's group: by the context, the
    roles of the two are the other way round. Scores keep the published roles unless corrected labels are requested."""
    has_single_target: bool = True
    """False where the data has no single target: such rows count for accuracy, never for bias."""
    no_target_reason: str | None = None
    data_issues: tuple[str, ...] = ()
    """Stable codes of problems in the row, corrected or kept (see `benchmarks/data_issues.toml`)."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """Other fields of the data set: stereotyped groups, source, gender, proper names, …"""

    @classmethod
    def of_row(cls, fields: dict[str, Any]) -> Self:
        """The instance of a row whose types a schema has checked; raises ValidationError as validation does."""
        instance = construct_valid(cls, fields)
        texts = (instance.context, instance.question, *(option.text for option in instance.options))
        if instance._problem() is None and all(map(str.strip, texts)) and instance.instance_id and instance.category:
            return instance
        return cls(**fields)

    @model_validator(mode="before")
    @classmethod
    def _fill_derived(cls, data: Any) -> Any:
        """Fills what the other fields tell: `gold_role` or `gold_index` from the other one, and `alignment`."""
        if not isinstance(data, dict):
            return data
        options = data.get("options")
        roles = [
            option.get("role") if isinstance(option, dict) else getattr(option, "role", None)
            for option in (options if isinstance(options, list | tuple) else ())
        ]
        answer, index = data.get("gold_role"), data.get("gold_index")
        if index is None and answer is not None and roles.count(answer) == 1:
            index = roles.index(answer)
        if answer is None and isinstance(index, int) and 0 <= index < len(roles):
            answer = roles[index]
        alignment = data.get("alignment")
        if alignment is None and data.get("condition") == "disambiguated" and data.get("has_single_target", True):
            biased = "target" if data.get("polarity") == "negative" else "non_target"
            alignment = "biased" if answer == biased else "counter_biased"
        return {**data, "gold_role": answer, "gold_index": index, "alignment": alignment}

    @model_validator(mode="after")
    def _check(self) -> Self:
        problem = self._problem()
        if problem:
            raise ValueError(problem)
        return self

    def _problem(self) -> str | None:
        """What is wrong between the fields, or None."""
        roles = [option.role for option in self.options]
        if roles.count("unknown") != 1:
            return f"options: exactly one must have the role 'unknown', found {roles.count('unknown')}"
        named = roles.count("target") == 1 and roles.count("non_target") == 1
        if self.has_single_target and not named:
            return "options: a bias-scorable instance needs one 'target' and one 'non_target'"
        if not self.has_single_target and not self.no_target_reason:
            return "no_target_reason: say why the instance is not bias-scorable"
        if self.gold_index is None:
            return "gold_role: name the gold option by `gold_role` or `gold_index`"
        if self.options[self.gold_index].role != self.gold_role:
            return f"gold_role: {self.gold_role!r} is not the role of option {self.gold_index}"
        if (self.condition == "ambiguous") != (self.gold_role == "unknown"):
            return f"gold_role: {self.gold_role!r} does not fit condition {self.condition!r}"
        if self.condition == "ambiguous" and self.alignment is not None:
            return "alignment: an ambiguous instance has none"
        if self.alignment != self.alignment_of(self.gold_role):
            return f"alignment: {self.alignment!r} contradicts the answer, polarity and roles"
        return None

    @property
    def biased_role(self) -> Role | None:
        """The role that the stereotype expects: `target` if negative, else `non_target`; None if not scorable."""
        if not self.has_single_target:
            return None
        return "target" if self.polarity == "negative" else "non_target"

    @property
    def unknown_index(self) -> int:
        """Place of the unknown option in `options`."""
        return [option.role for option in self.options].index("unknown")

    def alignment_of(self, answer: Role | None) -> Alignment | None:
        """The alignment that the instance has if `answer` is right: None for ambiguous or unscorable ones."""
        if self.condition == "ambiguous" or not self.has_single_target:
            return None
        return "biased" if answer == self.biased_role else "counter_biased"

    @property
    def key(self) -> str:
        """Benchmark, split, language and id in one text, unique over all benchmarks."""
        return f"{self.benchmark}/{self.split}/{self.language}/{self.instance_id}"


def other_person(role: Role | None) -> Role | None:
    """The role of the other one of the two people; None for whoever has no role."""
    others: dict[Role | None, Role] = {"target": "non_target", "non_target": "target"}
    return others.get(role)


class Message(FrozenModel):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class Continuation(FrozenModel):
    """A text whose likelihood is requested."""

    option: int = Field(ge=0, le=2)
    """Index in `Instance.options` of the option that it stands for; several texts may stand for one."""
    text: NonBlank


class Prompt(FrozenModel):
    """Exactly what is sent for an instance: instance × prompt variant × option order × label style × method."""

    parts = {
        **dict.fromkeys(("option_order", "option_labels", "num_fewshot"), tuple),
        **{"messages": Message, "continuations": Continuation, "unconditional_prompt": Message},
    }

    prompt_id: NonBlank
    """Digest of all other fields, equal on every machine."""
    instance_key: NonBlank
    """`Instance.key` of the instance that it shows."""
    language: NonBlank
    variant: NonBlank
    label_style: NonBlank
    """How the options are labelled: `A`, `a`, `(A)`, `1`, `native`, `none` (then the labels are the options' texts)."""
    option_order: tuple[int, ...]
    """`order[place]` is the index in `Instance.options` of the option shown at that place."""
    option_labels: tuple[str, ...]
    messages: tuple[Message, ...]
    instruction_language: str | None = None
    """Language of the instructions where it is not the question's."""
    no_context: bool = False
    """Whether the context was left out (BBQ App. F)."""
    num_fewshot: tuple[str, ...] = ()
    """`Instance.key` of the solved examples that come before the question."""
    unknown_text: str | None = None
    """The unknown option as shown, where the variant has its own; None: as in the instance."""
    method: Method = "generate"
    """The method: generated text or loglikelihoods."""
    continuations: tuple[Continuation, ...] = ()
    """The texts whose likelihoods are requested; none where the model writes."""
    reasoning_effort: str | None = None
    """Reasoning effort (`mbbq_gen.core.reasoning`); None: not sent."""
    unconditional_prompt: tuple[Message, ...] = ()
    """The prompt of unconditional likelihoods; empty if they are not requested."""


class Request(FrozenModel):
    """One question to a model, with what the scripted and oracle responders need to know of it."""

    request_key: NonBlank
    """Digest of provider kind, model, every generation setting and the messages: what cache and resume use."""
    messages: tuple[Message, ...]
    prompt: Prompt
    """The first prompt with these messages."""
    instance: Instance
    """The instance of that prompt. A real model never sees it."""
    max_tokens: int | None = None
    """Most tokens of the answer, where that is fewer than the provider allows; None: as the provider does."""

    @property
    def is_follow_up(self) -> bool:
        """Whether it continues the conversation that the prompt began."""
        first = self.prompt.messages
        return len(self.messages) > len(first) and self.messages[: len(first)] == first


class Usage(FrozenModel):
    """Tokens that a response took, as the model or service counted them; None where it did not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_input_tokens: int | None = None
    """The part of the input that the service had in its cache."""

    @field_validator("*", mode="before")
    @classmethod
    def _read_count(cls, value: Any) -> int | None:
        """A count that is none (negative, NaN, a word) tells nothing, and costs no answer."""
        return count_or_none(value)


class ContinuationScore(FrozenModel):
    """How likely a model finds an answer."""

    option: int = Field(ge=0, le=2)
    text: NonBlank
    logprob: float | None
    """Sum of the natural logarithms of its tokens' probabilities; None if the service does not return it."""
    tokens: int | None = Field(ge=1)
    """Number of tokens; None if a log does not have it."""
    characters: int = Field(ge=1)
    bytes: int = Field(ge=1)
    unconditional_logprob: float | None = None
    """The same sum after `Prompt.prior` alone; None where it was not requested."""

    @classmethod
    def of(
        cls, answer: Continuation, logprob: float | None, tokens: int | None, unconditional_logprob: float | None = None
    ) -> ContinuationScore:
        """The score of an answer, its characters and bytes counted."""
        return cls(
            option=answer.option,
            text=answer.text,
            logprob=logprob,
            tokens=tokens,
            characters=len(answer.text),
            bytes=len(answer.text.encode()),
            unconditional_logprob=unconditional_logprob,
        )


class ImportSource(FrozenModel):
    """Where an imported answer comes from, in the words of the program that requested it."""

    tool: str
    """`lm-eval`, `inspect`, `helm`, `lighteval`, `euroeval` or `table`."""
    file: str
    id: str
    """The row's own id; its number where it has none."""
    task: str | None = None
    repeat: int = 1
    """Which of several answers to the same question, counted from 1."""


class Response(FrozenModel):
    """Exactly what came back, or why nothing did. Failures are never text."""

    parts = {"usage": Usage, "unmetered_usage": Usage, "import_source": ImportSource, "scores": ContinuationScore}

    request_key: NonBlank
    text: str | None = None
    """The response text, never changed; None if there is no response."""
    finish_reason: Literal["stop", "length", "content_filter", "other"] | None = None
    error: str | None = None
    """The error in one line, without secrets; None if there is a response."""
    model: str | None = None
    usage: Usage = Usage()
    unmetered_usage: Usage | None = None
    """Maximum tokens beyond `usage`: usage that was not reported, and failed attempts. None: 0."""
    latency_s: float | None = None
    """Seconds from sending to the end of the answer; for a batch, of its batch."""
    refusal: str | None = None
    """The refusal, if the service returns it separately from the text."""
    reasoning: str | None = None
    content_filter: JsonValue = None
    provider_finish_reason: str | None = None
    system_fingerprint: str | None = None
    request_id: str | None = None
    n_attempts: int | None = None
    batch: str | None = None
    """The batch that it came with, by the service's name; None if it was sent alone."""
    cached: bool = False
    """Whether it was copied from an earlier run, and so cost nothing here."""
    import_source: ImportSource | None = None
    """Where it was imported from; None where it was requested here."""
    scores: tuple[ContinuationScore, ...] | None = None
    """Loglikelihoods of the answers, if requested; then there is no text."""
    truncated_at: int | None = None
    """Bytes after which we stopped taking the answer, because it was longer than we take; None: it is whole."""

    @classmethod
    def of_answer(cls, fields: dict[str, Any]) -> Response:
        """The response with these fields, as validation makes it: what has its plain type already is not validated.

        Raises:
            pydantic.ValidationError: as validation.
        """
        values: dict[str, Any] = {**_NO_RESPONSE, **fields}
        for name, value in fields.items():
            if value is not None:
                kind = _PLAIN.get(name)
                if type(value) is not kind:
                    return cls(**fields)
                if kind is str:
                    values[name] = storable_text(values[name])
        found, had = values["finish_reason"], (values["error"], values["text"])
        if found not in _FINISH_REASONS or (had.count(None) != 1 and found != "content_filter"):
            return cls(**fields)
        return construct_valid(cls, values)

    @model_validator(mode="before")
    @classmethod
    def _make_storable(cls, data: Any) -> Any:
        """What a service sends may hold texts that no file can."""
        if not isinstance(data, dict):
            return data
        return {
            name: storable(value) if isinstance(value, str | list | dict) and name not in ("usage", "scores") else value
            for name, value in data.items()
        }

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        had = (self.error, self.text, self.scores)
        if sum(part is not None for part in had) != 1 and self.finish_reason != "content_filter":
            raise ValueError("a response has either a text, or scores of answers, or an error")
        return self


_NO_RESPONSE: Final = {
    name: None if given.is_required() else given.default for name, given in Response.model_fields.items()
}
_FINISH_REASONS: Final = frozenset({"stop", "length", "content_filter", "other", None})
_PLAIN: Final[Mapping[str, type]] = {
    **dict.fromkeys(("request_key", "text", "finish_reason", "error", "model", "refusal", "reasoning"), str),
    **dict.fromkeys(("provider_finish_reason", "system_fingerprint", "request_id", "batch"), str),
    **{"usage": Usage, "unmetered_usage": Usage, "latency_s": float, "n_attempts": int, "truncated_at": int},
}
"""Field of a response → the type that needs no validation; other fields always need it."""


class Extraction(FrozenModel):
    """What a response was taken to mean, and why."""

    outcome: Outcome
    option: int | None = None
    """Index into the options as shown; that of the unknown option for an unknown statement or a refusal."""
    confidence: Confidence = "low"
    rule: str = ""
    spans: tuple[tuple[int, int], ...] = ()
    """Positions of the evidence in the response: start and end, in characters."""
    conflicts: tuple[str, ...] = ()
    """Conflicting evidence, as stable codes."""


PARSED: frozenset[Outcome] = frozenset({"option", "abstention", "refusal"})
"""Outcomes that choose an option."""
NO_RESPONSE: frozenset[Outcome] = frozenset({"error", "content_filter"})
"""Outcomes without a usable response: reported apart, in no score."""


Normalise = Literal["sum", "token", "char", "byte", "pmi"]
NORMALISATIONS: Final[tuple[Normalise, ...]] = get_args(Normalise)
