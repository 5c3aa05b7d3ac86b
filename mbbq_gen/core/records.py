"""The frozen records that one step passes to the next.

    Instance ─► Prompt ─► Request ─► Response ─► Extraction ─► Observation

All are frozen Pydantic models that refuse unknown keys and are stored as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
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
    "option",  # names an option by label or text
    "abstention",  # says that the question cannot be answered
    "refusal",  # declines to answer
    "multiple",  # chooses more than one option
    "unparsed",  # no answer was found
    "truncated",  # cut off before an answer
    "content_filter",  # blocked by the service
    "empty",  # empty or blank
    "error",  # there is no response
]
Confidence = Literal["high", "medium", "low"]
Method = Literal[
    "generate",  # the model writes an answer
    "loglikelihood",  # of each option's text after the question
    "label-loglikelihood",  # of each option's label after the question that lists them
    "first-token-logprobs",  # of the labels as first token of the answer
]

NonBlank = Annotated[str, StringConstraints(min_length=1, pattern=r"\S")]
IdText = Annotated[str, Field(coerce_numbers_to_str=True, min_length=1, pattern=r"\S")]
"""An id; a number is taken as text."""


class FrozenModel(BaseModel):
    """Base class of frozen records; unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    parts: ClassVar[Mapping[str, type]] = {}
    """Field → tuple, or the class of its records: types that `decode` can't take from JSON."""


RecordT = TypeVar("RecordT", bound=FrozenModel)
_set_attribute: Final = object.__setattr__


@cache
def _field_names(kind: type[FrozenModel]) -> set[str]:
    return set(kind.model_fields)


def construct_valid(kind: type[RecordT], fields: dict[str, Any]) -> RecordT:
    """A record made without validation, in an eighth of the time of `model_construct`.

    `fields`: all fields of the class, valid and in its order.
    """
    record = kind.__new__(kind)
    _set_attribute(record, "__dict__", fields)
    _set_attribute(record, "__pydantic_fields_set__", _field_names(kind))
    _set_attribute(record, "__pydantic_extra__", None)
    _set_attribute(record, "__pydantic_private__", None)
    return record


def decode(kind: type[RecordT], line: str | bytes) -> RecordT:
    """A record from the JSON that `model_dump_json` wrote; validated only if an older version wrote it."""
    fields: dict[str, Any] = msgspec.json.decode(line)
    if fields.keys() != _field_names(kind):  # written by an older version
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
    """One of the three answers of a question."""

    role: Role | None
    """Role of the option; None for a person if the data has no single target."""
    text: NonBlank
    group: str | None = None
    """The data set's own label of the group."""


class Instance(FrozenModel):
    """One question of a benchmark: a context, a question and three options with their roles.

    `options` are in the published order; the prompt has its own order. The `role` of a person is None only if the data
    has no single target (then `has_single_target` is False).
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
    """Equal for the same question across languages and splits; None if there is no such question."""
    template_id: IdText
    """Equal for all instances of a template, across languages and splits; the cluster of statistics."""
    category: NonBlank
    """Slug of the bias category: age, disability_status, gender_identity…"""
    subcategory: str | None = None
    condition: Condition
    """Whether the context contains the answer."""
    polarity: Polarity
    """`negative` asks who fits the stereotype, `non_negative` who does not."""
    context: NonBlank
    question: NonBlank
    options: tuple[Option, ...] = Field(min_length=3, max_length=3)
    gold_role: Role | None = None
    """Role of the correct option; None if that person has no role."""
    gold_index: int | None = Field(default=None, ge=0, le=2)
    """Index in `options` of the correct option; may be left out if `gold_role` is given."""
    alignment: Alignment | None = None
    """Whether the correct answer fits the stereotype; None for an ambiguous instance."""
    corrected_gold_role: Role | None = None
    """Role of the correct option if the published label is known to be wrong, else None."""
    groups_swapped: bool = False
    """True if the data set is known to have swapped the groups of the two people; `corrected` labels account for it."""
    has_single_target: bool = True
    """False if the data has no single target; the instance counts for accuracy, never for bias."""
    no_target_reason: str | None = None
    data_issues: tuple[str, ...] = ()
    """Codes of problems in the row, corrected or kept (see `benchmarks/data_issues.toml`)."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """Other fields of the data set: stereotyped groups, source, gender, proper names, …"""

    @classmethod
    def of_row(cls, fields: dict[str, Any]) -> Self:
        """The instance of a row whose types are checked already; raises ValidationError."""
        instance = construct_valid(cls, fields)
        texts = (instance.context, instance.question, *(option.text for option in instance.options))
        if instance._problem() is None and all(map(str.strip, texts)) and instance.instance_id and instance.category:
            return instance
        return cls(**fields)

    @model_validator(mode="before")
    @classmethod
    def _fill_derived(cls, data: Any) -> Any:
        """Derives `gold_role` and `gold_index` from each other, and `alignment`."""
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
        """The first contradiction between fields, or None."""
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
        """The role that fits the stereotype: `target` if negative, else `non_target`; None if not scorable."""
        if not self.has_single_target:
            return None
        return "target" if self.polarity == "negative" else "non_target"

    @property
    def unknown_index(self) -> int:
        """Index of the unknown option in `options`."""
        return [option.role for option in self.options].index("unknown")

    def alignment_of(self, answer: Role | None) -> Alignment | None:
        """The alignment if `answer` is correct; None for ambiguous or unscorable instances."""
        if self.condition == "ambiguous" or not self.has_single_target:
            return None
        return "biased" if answer == self.biased_role else "counter_biased"

    @property
    def key(self) -> str:
        """Benchmark, split, language and id as one text, unique over all benchmarks."""
        return f"{self.benchmark}/{self.split}/{self.language}/{self.instance_id}"


def other_person(role: Role | None) -> Role | None:
    """The role of the other person; None for a person without a role."""
    others: dict[Role | None, Role] = {"target": "non_target", "non_target": "target"}
    return others.get(role)


class Message(FrozenModel):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class Continuation(FrozenModel):
    """A text whose loglikelihood is requested."""

    option: int = Field(ge=0, le=2)
    """Index in `Instance.options` of its option; several texts may belong to one."""
    text: NonBlank


class Prompt(FrozenModel):
    """The messages for one instance, prompt variant, option order, label style and method."""

    parts = {
        **dict.fromkeys(("option_order", "option_labels", "num_fewshot"), tuple),
        **{"messages": Message, "continuations": Continuation, "unconditional_prompt": Message},
    }

    prompt_id: NonBlank
    """Digest of all other fields, equal on every machine."""
    instance_key: NonBlank
    """`Instance.key` of its instance."""
    language: NonBlank
    variant: NonBlank
    label_style: NonBlank
    """`A`, `a`, `(A)`, `1`, `native`, or `none` (then the labels are the texts of the options)."""
    option_order: tuple[int, ...]
    """`option_order[position]` is the index in `Instance.options` of the option at that position."""
    option_labels: tuple[str, ...]
    messages: tuple[Message, ...]
    instruction_language: str | None = None
    """Language of the instructions; None: that of the question."""
    no_context: bool = False
    """Whether the context was left out (BBQ App. F)."""
    num_fewshot: tuple[str, ...] = ()
    """`Instance.key` of each solved example before the question."""
    unknown_text: str | None = None
    """Text of the unknown option, if it differs from the instance's."""
    method: Method = "generate"
    """The method: generated text or loglikelihoods."""
    continuations: tuple[Continuation, ...] = ()
    """The texts whose loglikelihoods are requested; empty for `generate`."""
    reasoning_effort: str | None = None
    """Reasoning effort (`mbbq_gen.core.reasoning`); None: not sent."""
    unconditional_prompt: tuple[Message, ...] = ()
    """The messages for unconditional loglikelihoods; empty if they are not requested."""


class Request(FrozenModel):
    """One request to a model, with its prompt and instance for scripted models and oracles."""

    request_key: NonBlank
    """Digest of provider kind, model, generation settings and messages; the key of cache and resuming."""
    messages: tuple[Message, ...]
    prompt: Prompt
    """The first prompt with these messages."""
    instance_record: str
    """The instance of that prompt as JSON; never sent to a model."""
    max_tokens: int | None = None
    """Maximum tokens of the answer; None: as set in the provider."""

    @cached_property
    def instance(self) -> Instance:
        """The instance, decoded on demand: only scripted models and oracles use it."""
        return decode(Instance, self.instance_record)

    @property
    def is_follow_up(self) -> bool:
        """True if it continues the conversation of the prompt."""
        first = self.prompt.messages
        return len(self.messages) > len(first) and self.messages[: len(first)] == first


class Usage(FrozenModel):
    """Numbers of tokens, as counted by the model or service; None if not reported."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_input_tokens: int | None = None
    """Input tokens that the service read from its cache."""

    @field_validator("*", mode="before")
    @classmethod
    def _read_count(cls, value: Any) -> int | None:
        """A wrong count (negative, NaN, a word) is treated as missing."""
        return count_or_none(value)


class ContinuationScore(FrozenModel):
    """The loglikelihood of a continuation."""

    option: int = Field(ge=0, le=2)
    text: NonBlank
    logprob: float | None
    """Sum of the natural log-probabilities of its tokens; None if the service does not return it."""
    tokens: int | None = Field(ge=1)
    """Number of tokens; None if a log does not have it."""
    characters: int = Field(ge=1)
    bytes: int = Field(ge=1)
    unconditional_logprob: float | None = None
    """The same sum after `Prompt.unconditional_prompt`; None if not requested."""

    @classmethod
    def of(
        cls, answer: Continuation, logprob: float | None, tokens: int | None, unconditional_logprob: float | None = None
    ) -> ContinuationScore:
        """The score of a continuation, with its numbers of characters and bytes."""
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
    """The origin of an imported response, by the names of the other program."""

    tool: str
    """`lm-eval`, `inspect`, `helm`, `lighteval` or `table`."""
    file: str
    id: str
    """Id of the row, or its number if it has none."""
    task: str | None = None
    repeat: int = 1
    """Number of the response among several to the same question, from 1."""


class Response(FrozenModel):
    """The response to a request, or the error."""

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
    """Seconds from sending to the end of the response; for a batch, of the whole batch."""
    refusal: str | None = None
    """The refusal, if the service returns it separately from the text."""
    reasoning: str | None = None
    content_filter: JsonValue = None
    provider_finish_reason: str | None = None
    system_fingerprint: str | None = None
    request_id: str | None = None
    n_attempts: int | None = None
    batch: str | None = None
    """The service's id of its batch; None if it was sent alone."""
    cached: bool = False
    """Whether it was copied from an earlier run."""
    import_source: ImportSource | None = None
    """Origin of an imported response; None if it was requested here."""
    scores: tuple[ContinuationScore, ...] | None = None
    """Loglikelihoods, if requested; then there is no text."""

    @classmethod
    def of_answer(cls, fields: dict[str, Any]) -> Response:
        """The response with these fields, validated only if a type differs. Raises ValidationError."""
        values: dict[str, Any] = {**_NO_RESPONSE, **fields}
        for name, value in fields.items():
            if value is not None:
                kind = _PLAIN.get(name)
                if type(value) is not kind:
                    return cls(**fields)
                if kind is str:
                    values[name] = storable_text(values[name])
        reason, content = values["finish_reason"], (values["error"], values["text"])
        if reason not in _FINISH_REASONS or (content.count(None) != 1 and reason != "content_filter"):
            return cls(**fields)
        return construct_valid(cls, values)

    @model_validator(mode="before")
    @classmethod
    def _make_storable(cls, data: Any) -> Any:
        """Replaces text and numbers that can't be stored."""
        if not isinstance(data, dict):
            return data
        return {
            name: storable(value) if isinstance(value, str | list | dict) and name not in ("usage", "scores") else value
            for name, value in data.items()
        }

    @model_validator(mode="after")
    def _check(self) -> Self:
        content = (self.error, self.text, self.scores)
        if sum(part is not None for part in content) != 1 and self.finish_reason != "content_filter":
            raise ValueError("a response has either a text, or scores of answers, or an error")
        return self


_NO_RESPONSE: Final = {name: field.default for name, field in Response.model_fields.items()}
"""Field → its default; the request key has none, and is always given."""
_FINISH_REASONS: Final = frozenset({"stop", "length", "content_filter", "other", None})
_PLAIN: Final[Mapping[str, type]] = {
    **dict.fromkeys(("request_key", "text", "finish_reason", "error", "model", "refusal", "reasoning"), str),
    **dict.fromkeys(("provider_finish_reason", "system_fingerprint", "request_id", "batch"), str),
    **{"usage": Usage, "unmetered_usage": Usage, "latency_s": float, "n_attempts": int},
}
"""Field of a response → the type that needs no validation; other fields are always validated."""


class Extraction(FrozenModel):
    """The option chosen in a response, with the evidence."""

    outcome: Outcome
    option: int | None = None
    """Index into the options as shown; that of the unknown option for abstentions and refusals."""
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
