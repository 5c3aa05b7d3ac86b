"""Providers without a model: `oracle:NAME`, `scripted:FILE` and `synthetic:NAME`.

Oracles read the right answer, the published one, from the instance, so their exact scores are known and test the
metrics (`tests/support/scoring.py`). Of instances without a single target, which count for accuracy only, `stereotyped`
and `anti_stereotyped` choose unknown.

Scripts are JSON Lines, for trying the tool, for tests, and for answers from other sources. Each line has an answer and
its conditions:

    {"response": "B"}                                                      the default: no condition
    {"response": "I'd rather not say.", "instance_id": "17", "variant": "polite"}
    {"response": "Answer: C because", "contains": "grandmother", "finish_reason": "length"}
    {"error": "the service is down", "prompt_id": "3f0c…"}           a failure, not a text

Of the lines whose conditions all hold, the most specific is used (`_CONDITIONS`). If several are equally specific, the
prompt id selects one of them, evenly and the same one in each run.

Synthetic answers show how results look. No model wrote them, and they contain no findings. The prompt id selects the
choice by the shares in `synthetic.toml`, so that it is the same in each run.

Oracles and personas take their sentences from the prompt packs (`answers` in `prompts/xx.toml`).
"""

from __future__ import annotations

import asyncio
import tomllib
from abc import abstractmethod
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import Field, JsonValue, ValidationError, model_validator

from mbbq_gen.core.errors import DataError, UnknownNameError, UsageError, describe_fault
from mbbq_gen.core.files import PackPaths, file_digest, stable_digest, stable_number
from mbbq_gen.core.records import (
    ContinuationScore,
    FrozenModel,
    IdText,
    Instance,
    Message,
    Prompt,
    Request,
    Response,
    other_person,
)
from mbbq_gen.core.tables import UnreadableError, json_object, lines_of, row_error
from mbbq_gen.languages.packs import fill
from mbbq_gen.languages.prompt_pack import SampleAnswers, read_prompts
from mbbq_gen.providers.base import Capabilities, ExecutionContext, Provider, ProviderOptions, request_key

_YIELD_EVERY: Final = 256
"""Answers between two returns to the event loop."""

_UNREADABLE: Final = "Hm."
"""An answer that no extractor reads, in any language."""


class LocalResponder(Provider):
    """A provider that computes each answer by `respond`; answers may depend on the prompt id."""

    def __init__(self, model: str, options: Any = None, resources: PackPaths | None = None) -> None:
        """`options`: an `options_class`."""
        self.model, self._resources = model, resources or PackPaths()
        self._options: Any = options or self.options_class()
        self._answers: dict[str, SampleAnswers] = {}

    @classmethod
    def open(cls, model: str, options: Any, resources: PackPaths) -> Self:
        """The responder of that name."""
        return cls(model, options, resources)

    def request_key(self, messages: Sequence[Message], prompt_id: str) -> str:
        """As `Provider`, with the prompt id: the answer depends on the order of the options."""
        return request_key(self.kind, self.model, self.settings, messages, prompt_id)

    async def generate(self, requests: Iterable[Request], context: ExecutionContext) -> AsyncGenerator[Response, None]:
        """Yields a response to each request, in order."""
        for number, request in enumerate(requests):
            if number % _YIELD_EVERY == 0:
                await asyncio.sleep(0)
            yield self.respond(request)

    @abstractmethod
    def respond(self, request: Request) -> Response:
        """The response to a request."""

    def sentence(self, request: Request, place: int, *, refuses: bool = False) -> str:
        """A sentence in the question's language that chooses the option at a place, or declines to answer."""
        instance, prompt = request.instance, request.prompt
        if instance.language not in self._answers:
            self._answers[instance.language] = read_prompts(self._resources, instance.language).answers
        answers, option = self._answers[instance.language], instance.options[prompt.option_order[place]]
        sentences = answers.refusal if refuses else answers.unknown if option.role == "unknown" else answers.person
        sentence = sentences[stable_number("oracle:sentence", prompt.prompt_id) % len(sentences)]
        return fill(sentence, {"option": option.text, "label": prompt.option_labels[place]})

    def sentences_digest(self) -> str:
        """The digest of the prompt packs, for the settings of responders that use their sentences."""
        paths = [(name, self._resources.find("prompts", name)) for name in self._resources.names("prompts")]
        return stable_digest(*(f"{name}={file_digest(path)}" for name, path in paths if path))


# --- oracles ----------------------------------------------------------------------------------------------------------

_UNLIKELY: Final = -10.0
"""Log-probability per byte of an answer that the oracle does not choose."""

Speech = Literal["label", "sentence", "refusal", "indirect"]
"""The label; a sentence in the question's language; a refusal; or an unreadable text, and the label in reply to a
follow-up (`indirect`)."""


class OracleOptions(ProviderOptions):
    """Options of `oracle:NAME`."""

    seed: int = Field(default=0, ge=0, description="seed of oracle:random")
    speech: Speech | None = Field(
        default=None, description="form of the answer: label, sentence, refusal or indirect; default: the oracle's own"
    )


def place_of(instance: Instance, prompt: Prompt, choice: str) -> int:
    """The place at which the chosen option is shown.

    `choice`: right, biased, counter_biased or unknown. Without a single target, biased and counter-biased mean unknown.
    """
    if choice == "right":
        assert instance.gold_index is not None  # an Instance always has one
        return prompt.option_order.index(instance.gold_index)
    named = {"biased": instance.biased_role, "counter_biased": other_person(instance.biased_role)}
    roles = [option.role for option in instance.options]
    return prompt.option_order.index(roles.index(named.get(choice) or "unknown"))


@dataclass(frozen=True)
class OracleRule:
    """An oracle's choice and the form of its answers."""

    summary: str
    choice: Literal["right", "biased", "counter_biased", "unknown", "random", "first"]
    speech: Speech = "label"


ORACLES: Mapping[str, OracleRule] = {
    "perfect": OracleRule("always right, by label", "right"),
    "stereotyped": OracleRule("always the biased role, by label", "biased"),
    "anti_stereotyped": OracleRule("always the other person, by label", "counter_biased"),
    "always_unknown": OracleRule("always the unknown option, by label", "unknown"),
    "random": OracleRule("a random option, by label, the same at each run", "random"),
    "first_option": OracleRule("always the option shown first, by label", "first"),
    "verbose_perfect": OracleRule("always right, in free sentences of the question's language", "right", "sentence"),
    "refuser": OracleRule("always declines, in sentences of the question's language", "unknown", "refusal"),
}


class OracleProvider(LocalResponder):
    """Answers as one of ORACLES does; the wordy ones take their sentences from the prompt packs."""

    kind = "oracle"
    options_class = OracleOptions
    capabilities = Capabilities(
        methods=frozenset({"generate", "loglikelihood", "label-loglikelihood", "first-token-logprobs"}), reasoning=True
    )

    def __init__(self, model: str, options: OracleOptions | None = None, resources: PackPaths | None = None) -> None:
        """Raises UnknownNameError if no oracle has that name."""
        if model not in ORACLES:
            raise UnknownNameError("oracle", model, ORACLES)
        super().__init__(model, options, resources)
        self._choice, self._speech = ORACLES[model].choice, self._options.speech or ORACLES[model].speech

    @cached_property
    def settings(self) -> dict[str, JsonValue]:
        """The seed and the digest of the prompt packs, if the answers depend on them."""
        settings: dict[str, JsonValue] = {}
        if self._speech != ORACLES[self.model].speech:
            settings["speech"] = self._speech
        if self._choice == "random":
            settings["seed"] = self._options.seed
        if self._speech != "label":
            settings["prompts_sha256"] = self.sentences_digest()
        return settings

    def respond(self, request: Request) -> Response:
        """The oracle's text, or its scores of the request's continuations."""
        is_text = request.prompt.method == "generate"
        fields: dict[str, Any] = {"text": self.answer(request)} if is_text else {"scores": self.score(request)}
        return Response(request_key=request.request_key, finish_reason="stop", model=self.model, **fields)

    def score(self, request: Request) -> tuple[ContinuationScore, ...]:
        """The scores of the continuations: the chosen option's first text is certain, all others are unlikely."""
        prompt = request.prompt
        options = [answer.option for answer in prompt.continuations]
        certain = options.index(prompt.option_order[self.place(request)])
        return tuple(
            ContinuationScore.of(
                answer,
                logprob=0.0 if number == certain else _UNLIKELY * (1 + number) * len(answer.text.encode()),
                tokens=1,
                unconditional_logprob=_UNLIKELY if prompt.unconditional_prompt else None,
            )
            for number, answer in enumerate(prompt.continuations)
        )

    def place(self, request: Request) -> int:
        """The place of the option that the oracle chooses."""
        prompt = request.prompt
        if self._choice == "first":
            return 0
        if self._choice == "random":
            return stable_number("oracle:random", self._options.seed, prompt.prompt_id) % len(prompt.option_order)
        return place_of(request.instance, prompt, self._choice)

    def answer(self, request: Request) -> str:
        """The text of the oracle's answer."""
        place, speech = self.place(request), self._speech
        if speech == "indirect" and not request.is_follow_up:
            return _UNREADABLE
        if speech in ("label", "indirect") or request.is_follow_up:
            return request.prompt.option_labels[place]
        return self.sentence(request, place, refuses=speech == "refusal")


# --- scripts ----------------------------------------------------------------------------------------------------------

_CONDITIONS = ("prompt_id", "instance_key", "instance_id", "contains", "variant", "reasoning_effort", "language")
"""Each is more specific than all that follow it together."""


class ScriptLine(FrozenModel):
    """One line of a script: an answer and its conditions."""

    response: str | None = None
    """The exact text of the answer; may be empty."""
    error: str | None = None
    """The text of a failure, instead of a response."""
    reasoning: str | None = None
    finish_reason: Literal["stop", "length", "content_filter", "other"] = "stop"
    prompt_id: str | None = None
    instance_key: str | None = None
    instance_id: IdText | None = None
    language: str | None = None
    variant: str | None = None
    """Id of the prompt variant."""
    reasoning_effort: str | None = None
    contains: str | None = None
    """A text that one of the messages contains exactly."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.response is None) == (self.error is None):
            raise ValueError("give either 'response' or 'error'")
        return self


def read_script(path: Path) -> list[ScriptLine]:
    """The lines of a script; raises DataError if the file is unreadable, empty or has an invalid line."""
    lines = []
    try:
        for number, line in lines_of(path):
            try:
                lines.append(ScriptLine.model_validate(json_object(line)))
            except UnreadableError as error:
                raise row_error(path, number, str(error)) from error
            except ValidationError as error:
                raise row_error(path, number, describe_fault(error, {})) from error
    except UsageError as error:
        raise DataError(f"{error}; name a JSON Lines file: scripted:FILE") from error
    if not lines:
        raise DataError(f'{path}: no lines; write at least one, such as {{"response": "A"}}')
    return lines


class ScriptedProvider(LocalResponder):
    """Answers from a script; a request without a matching line gets an error."""

    kind = "scripted"
    capabilities = Capabilities(reasoning=True)

    def __init__(self, model: str | Path, options: Any = None, resources: PackPaths | None = None) -> None:
        """Raises DataError if the file named by `model` is invalid."""
        self._path = Path(model).expanduser()
        super().__init__(self._path.name, options, resources)
        found: dict[tuple[str, ...], dict[tuple[str, ...], list[ScriptLine]]] = {}
        for line in read_script(self._path):
            names = tuple(name for name in _CONDITIONS if getattr(line, name) is not None)
            values = tuple(getattr(line, name) for name in names if name != "contains")
            found.setdefault(names, defaultdict(list))[values].append(line)
        self._lines = found
        """Names of conditions → their values → lines: scripts may be as long as a benchmark."""
        self._specific = sorted(found, key=lambda names: [name in names for name in _CONDITIONS], reverse=True)
        """The names of conditions, the most specific first."""
        self._digest = file_digest(self._path)

    def runtime_info(self) -> dict[str, JsonValue]:
        """The path of the file."""
        return {"script": str(self._path)}

    @property
    def settings(self) -> dict[str, JsonValue]:
        """The file's digest."""
        return {"script_sha256": self._digest}

    def line_for(self, request: Request) -> ScriptLine:
        """The line that answers a request; an error if no line matches."""
        actual = vars(request.prompt) | {"instance_id": request.instance.instance_id}
        texts = [message.content for message in request.messages]
        for names in self._specific:
            lines = self._lines[names].get(tuple(actual[name] for name in names if name != "contains"), [])
            fitting = [line for line in lines if line.contains is None or any(line.contains in text for text in texts)]
            if fitting:
                return fitting[stable_number("scripted", request.prompt.prompt_id) % len(fitting)]
        return ScriptLine(error=f"no line of {self._path} fits")

    def respond(self, request: Request) -> Response:
        """The answer of the matching line."""
        line = self.line_for(request)
        fields = {"error"} if line.error else {"reasoning", "finish_reason"}
        answer = {"text": line.response, **line.model_dump(include=fields)}
        return Response(request_key=request.request_key, model=self.model, **answer)


# --- synthetic answers ------------------------------------------------------------------------------------------------

_SEED = "made-up"
"""Seed of all draws; changing it changes the documented results."""

SyntheticChoice = Literal["right", "unknown", "biased", "counter_biased", "guess", "adrift", "cut_off"]
"""An answer's choice: a role, a random label (`guess`), or an unreadable text, whole or cut off."""
Shares = dict[Literal["ambiguous", "biased", "counter_biased"], dict[SyntheticChoice, int]]


class Persona(FrozenModel):
    """A persona of `synthetic.toml`: shares of choices by situation, in percent."""

    summary: str
    bias: Shares
    control: Shares | None = None


_TABLE = tomllib.loads(Path(__file__).with_name("synthetic.toml").read_text(encoding="utf-8"))
PERSONALITIES: Mapping[str, Persona] = {name: Persona(**entry) for name, entry in _TABLE.items()}


class SyntheticProvider(LocalResponder):
    """Answers by the shares of one of PERSONALITIES."""

    kind = "synthetic"

    def __init__(self, model: str, options: Any = None, resources: PackPaths | None = None) -> None:
        """Raises UnknownNameError if no persona has that name."""
        if model not in PERSONALITIES:
            raise UnknownNameError("synthetic persona", model, PERSONALITIES)
        super().__init__(model, options, resources)

    def runtime_info(self) -> dict[str, JsonValue]:
        """Marks the answers as synthetic."""
        return {"synthetic": True}

    @cached_property
    def settings(self) -> dict[str, JsonValue]:
        """The digest of the sentences in all languages."""
        return {"prompts_sha256": self.sentences_digest()}

    def choice(self, request: Request) -> SyntheticChoice:
        """The persona's choice for a question."""
        instance = request.instance
        persona = PERSONALITIES[self.model]
        situations = persona.bias if instance.split == "bias" else persona.control or persona.bias
        # instances without a single target use the shares of stereotyped texts
        shares = situations["ambiguous" if instance.condition == "ambiguous" else instance.alignment or "biased"]
        drawn = stable_number(_SEED, self.model, request.prompt.prompt_id) % 100
        ends = accumulate(shares.values())
        return next(choice for choice, end in zip(shares, ends, strict=True) if drawn < end)

    def place(self, request: Request) -> int | None:
        """The place of the chosen option; None if the answer chooses none."""
        choice, instance, prompt = self.choice(request), request.instance, request.prompt
        if choice in {"adrift", "cut_off"}:
            return None
        if choice == "guess":
            return stable_number(f"{_SEED}:guess", prompt.prompt_id) % len(prompt.option_order)
        return place_of(instance, prompt, choice)

    def respond(self, request: Request) -> Response:
        """A sentence, a label (`guess`), an unreadable text (`adrift`), or one that ends early (`cut_off`)."""
        choice, place, finish = self.choice(request), self.place(request), "stop"
        if choice == "cut_off":
            text, finish = " ".join([request.instance.question] * 4), "length"
        elif place is None:
            text = _UNREADABLE
        else:
            text = request.prompt.option_labels[place] if choice == "guess" else self.sentence(request, place)
        return Response(request_key=request.request_key, text=text, finish_reason=finish, model=self.model)
