"""Responders that know the answer: `oracle:NAME`. Their scores are known beforehand, so they test the instrument.

The exact scores are in DESIGN.md §9 and `tests/support/scoring.py`. Instances without a single target count for
accuracy only; there, `stereotyped` and `anti_stereotyped` choose unknown. The right answer is the published one.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Literal, Self

from pydantic import Field, JsonValue

from mbbq_gen.core.errors import UnknownNameError
from mbbq_gen.core.files import PackPaths, file_digest, stable_digest, stable_number
from mbbq_gen.core.records import ContinuationScore, Instance, Message, Prompt, Request, Response, Role
from mbbq_gen.languages.packs import fill
from mbbq_gen.languages.prompt_pack import SampleAnswers, read_prompts
from mbbq_gen.providers.base import Capabilities, ExecutionContext, Provider, ProviderOptions, request_key

_YIELD_EVERY: Final = 256
"""Answers after which the event loop may do something else."""


class LocalResponder(Provider):
    """A provider that answers each request at once, by `respond`; its answers may depend on the prompt id."""

    def __init__(self, model: str, options: Any = None, resources: PackPaths | None = None) -> None:
        """`options`: an `options_class`."""
        self.model, self._resources = model, resources or PackPaths()
        self._options: Any = options or self.options_class()

    @classmethod
    def open(cls, model: str, options: Any, resources: PackPaths) -> Self:
        """The responder of that name."""
        return cls(model, options, resources)

    def request_key(self, messages: Sequence[Message], prompt_id: str) -> str:
        """As `Provider`, with the prompt id: the answer depends on the order of the options."""
        return request_key(self.kind, self.model, self.settings, messages, prompt_id)

    async def generate(self, requests: Iterable[Request], context: ExecutionContext) -> AsyncGenerator[Response, None]:
        """A response to each request, in their order."""
        for number, request in enumerate(requests):
            if number % _YIELD_EVERY == 0:
                await asyncio.sleep(0)
            yield self.respond(request)

    @abstractmethod
    def respond(self, request: Request) -> Response:
        """The response to a request."""


_UNLIKELY: Final = -10.0
"""Log-probability that an oracle gives, for each byte, to what it does not choose."""

Speech = Literal["label", "sentence", "refusal", "indirect", "undecided"]
"""The label alone, a free sentence of the question's language, one that declines, or nothing that can be read until a
follow-up asks: then the label, or that none was intended."""
INDIRECT: Final = "Hm."


class OracleOptions(ProviderOptions):
    """Options of `oracle:NAME`."""

    seed: int = Field(default=0, ge=0, description="seed of oracle:random")
    speech: Speech | None = Field(
        default=None,
        description="form of the answer: label, sentence, refusal, indirect or undecided; default: the oracle's own",
    )


def place_of(instance: Instance, prompt: Prompt, choice: str) -> int:
    """The place at which the option is shown that `right`, `biased`, `counter_biased` or `unknown` means.

    Without a single target, the biased and the counter-biased option are the unknown one.
    """
    if choice == "right":
        assert instance.gold_index is not None  # an Instance always has one
        return prompt.option_order.index(instance.gold_index)
    opposite: dict[Role | None, Role] = {"target": "non_target", "non_target": "target"}
    named = {"biased": instance.biased_role, "counter_biased": opposite.get(instance.biased_role)}
    role = named.get(choice) or "unknown"
    index = next(index for index, option in enumerate(instance.options) if option.role == role)
    return prompt.option_order.index(index)


Choice = Literal["right", "biased", "counter_biased", "unknown", "random", "first"]


@dataclass(frozen=True)
class OracleRule:
    """What an oracle chooses and how it says it."""

    summary: str
    choice: Choice
    speech: Speech = "label"


ORACLES: Mapping[str, OracleRule] = {
    "perfect": OracleRule("always right, by label", "right"),
    "stereotyped": OracleRule("always the biased role, by label", "biased"),
    "anti_stereotyped": OracleRule("always the other person, by label", "counter_biased"),
    "always_unknown": OracleRule("always the unknown option, by label", "unknown"),
    "random": OracleRule("a random option, by label, the same at each run", "random"),
    "first_option": OracleRule("always the option shown first, by label", "first"),
    "verbose_perfect": OracleRule("always right, in free sentences of the question's language", "right", "sentence"),
    "indirect": OracleRule("always right, but says so only when it is followed up", "right", "indirect"),
    "undecided": OracleRule("nothing that can be read; no option when it is followed up", "unknown", "undecided"),
    "pressed": OracleRule("nothing that can be read; the biased role when it is followed up", "biased", "indirect"),
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
        """Raises UnknownNameError where no oracle has that name."""
        if model not in ORACLES:
            raise UnknownNameError("oracle", model, ORACLES)
        super().__init__(model, options, resources)
        rule = ORACLES[model]
        self._oracle, self._seed = replace(rule, speech=self._options.speech or rule.speech), self._options.seed
        self._answers: dict[str, SampleAnswers] = {}

    @cached_property
    def settings(self) -> dict[str, JsonValue]:
        """The seed where it matters, and the digest of the packs where sentences come from them."""
        settings: dict[str, JsonValue] = {}
        if self._oracle.speech != ORACLES[self.model].speech:
            settings["speech"] = self._oracle.speech
        if self._oracle.choice == "random":
            settings["seed"] = self._seed
        if self._oracle.speech != "label":
            paths = [(name, self._resources.find("prompts", name)) for name in self._resources.names("prompts")]
            settings["prompts_sha256"] = stable_digest(*(f"{name}={file_digest(path)}" for name, path in paths if path))
        return settings

    def respond(self, request: Request) -> Response:
        """What the oracle says, or how likely it finds the answers of the request."""
        is_text = request.prompt.method == "generate"
        said: dict[str, Any] = {"text": self.answer(request)} if is_text else {"scores": self.score(request)}
        return Response(request_key=request.request_key, finish_reason="stop", model=self.model, **said)

    def score(self, request: Request) -> tuple[ContinuationScore, ...]:
        """The likelihoods of the answers: the first text of the chosen option is certain, all others unlikely."""
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
        choice, prompt, instance = self._oracle.choice, request.prompt, request.instance
        if choice == "first":
            return 0
        if choice == "random":
            return stable_number("oracle:random", self._seed, prompt.prompt_id) % len(prompt.option_order)
        return place_of(instance, prompt, choice)

    def answer(self, request: Request) -> str:
        """What the oracle says to a request."""
        prompt, instance, speech = request.prompt, request.instance, self._oracle.speech
        place = self.place(request)
        if speech in ("indirect", "undecided") and not request.is_follow_up:
            return INDIRECT
        if speech == "undecided":
            said = read_prompts(self._resources, prompt.instruction_language or prompt.language).follow_up
            return INDIRECT if said is None else said.none
        if speech in ("label", "indirect") or request.is_follow_up:
            return prompt.option_labels[place]
        if instance.language not in self._answers:
            self._answers[instance.language] = read_prompts(self._resources, instance.language).answers
        answers, option = self._answers[instance.language], instance.options[prompt.option_order[place]]
        is_person = speech != "refusal" and option.role != "unknown"
        sentences = answers.refusal if speech == "refusal" else answers.person if is_person else answers.unknown
        sentence = sentences[stable_number("oracle:sentence", prompt.prompt_id) % len(sentences)]
        filling = {"option": option.text, "label": prompt.option_labels[place]}
        return fill(sentence, filling) if is_person else sentence
