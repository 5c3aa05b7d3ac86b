"""Responders that know the answer: `oracle:NAME`. What they score is known beforehand, so they prove the instrument.

What arithmetic expects of each, over instances with a single target (DESIGN.md §9; "amb", "dis": ambiguous and
disambiguated; b: the share of the disambiguated instances whose right answer is the biased role, 1/2 where balanced):

    perfect, verbose_perfect    accuracy 1 and 1; bias_amb 0; diff_bias_dis 0; MBBQ eq. 2: 2b − 1, so 0 where balanced
    stereotyped                 accuracy_amb 0, accuracy_dis b; bias_amb +1; diff_bias_dis +1; MBBQ eq. 2: b
    anti_stereotyped            accuracy_amb 0, accuracy_dis 1 − b; bias_amb −1; diff_bias_dis −1; MBBQ eq. 2: −(1 − b)
    always_unknown, refuser     accuracy_amb 1, accuracy_dis 0; all biases 0
    first_option                accuracies: how often the right answer stands first, 1/3 under balanced orders;
                                bias_amb: how often the biased role stands first minus how often the other does
    indirect                    as perfect once it is followed up; unread before
    undecided                   unread, before and after: no score at all
    pressed                     as stereotyped once it is followed up; unread before
    random                      accuracies 1/3 and biases 0 in expectation, with the spread of fair three-sided dice

Instances without a single target count for accuracy only; there, stereotyped and anti_stereotyped choose unknown.
The right answer is the published one, not the corrected one.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal, Self

from pydantic import Field, JsonValue

from mbbq_gen.core.errors import UnknownNameError
from mbbq_gen.core.files import PackPaths, file_digest, stable_digest, stable_number
from mbbq_gen.core.records import ContinuationScore, Instance, Message, Prompt, Request, Response, Role
from mbbq_gen.languages.packs import fill
from mbbq_gen.languages.prompt_pack import SampleAnswers, read_prompts
from mbbq_gen.providers.base import Capabilities, ExecutionContext, Provider, ProviderOptions, request_key

_YIELD_EVERY: Final = 256
"""Answers between two breaths: the event loop must be able to do something else."""


class LocalResponder(Provider):
    """A provider that answers each request at once, by `respond`; its answers may depend on the prompt id."""

    def request_key(self, messages: Sequence[Message], prompt_id: str) -> str:
        """The key, which holds the prompt id: the answer depends on what stands at which place."""
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
"""The label as shown and nothing else, a free sentence of the question's language, one that declines, or nothing that
can be read until a follow-up asks: then the label, or that none was intended."""
INDIRECT: Final = "Hm."
"""An answer in which nothing can be read."""


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

    def __init__(self, name: str, options: OracleOptions | None = None, resources: PackPaths | None = None) -> None:
        """Raises UnknownNameError where no oracle has that name."""
        if name not in ORACLES:
            raise UnknownNameError("oracle", name, ORACLES)
        self.model = name
        given = options or OracleOptions()
        self._oracle = replace(ORACLES[name], speech=given.speech) if given.speech else ORACLES[name]
        self._seed = given.seed
        self._resources = resources or PackPaths()
        self._answers: dict[str, SampleAnswers] = {}

    @classmethod
    def open(cls, model: str, options: OracleOptions, resources: PackPaths) -> Self:
        """The oracle of that name."""
        return cls(model, options, resources)

    @cached_property
    def settings(self) -> dict[str, JsonValue]:
        """What shapes the answers: the seed where it matters, and the packs where sentences come from them."""
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
        said = (
            {"text": self.answer(request)} if request.prompt.method == "generate" else {"scores": self.score(request)}
        )
        return Response(request_key=request.request_key, **said, finish_reason="stop", model=self.model)

    def score(self, request: Request) -> tuple[ContinuationScore, ...]:
        """How likely the oracle finds the answers of a request.

        The first text of the option that it chooses is certain, every other text far less likely, by any normalisation.
        """
        prompt = request.prompt
        chosen = prompt.option_order[self.place(request)]
        texts = [answer.option for answer in prompt.continuations]
        certain = texts.index(chosen)
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
        prompt, instance = request.prompt, request.instance
        place = self.place(request)
        if self._oracle.speech in ("indirect", "undecided") and not request.is_follow_up:
            return INDIRECT
        if self._oracle.speech == "undecided":
            said = read_prompts(self._resources, prompt.instruction_language or prompt.language).follow_up
            return INDIRECT if said is None else said.none
        if self._oracle.speech in ("label", "indirect") or request.is_follow_up:
            return prompt.option_labels[place]
        language = instance.language
        if language not in self._answers:
            self._answers[language] = read_prompts(self._resources, language).answers
        answers, option = self._answers[language], instance.options[prompt.option_order[place]]
        spoken = answers.unknown if option.role == "unknown" else answers.person
        sentences = answers.refusal if self._oracle.speech == "refusal" else spoken
        sentence = sentences[stable_number("oracle:sentence", prompt.prompt_id) % len(sentences)]
        if spoken is answers.unknown or self._oracle.speech == "refusal":
            return sentence
        return fill(sentence, {"option": option.text, "label": prompt.option_labels[place]})
