"""Responders that know the answer: `oracle:NAME`. What they score is known beforehand, so they prove the instrument.

What arithmetic expects of each, over instances with a single target (DESIGN.md §9; "amb", "dis": ambiguous and
disambiguated; b: the share of the disambiguated instances whose right answer is the biased role, 1/2 where balanced):

    perfect, verbose_perfect    accuracy 1 and 1; bias_amb 0; diff_bias_dis 0; MBBQ eq. 2: 2b − 1, so 0 where balanced
    stereotyped                 accuracy_amb 0, accuracy_dis b; bias_amb +1; diff_bias_dis +1; MBBQ eq. 2: b
    anti_stereotyped            accuracy_amb 0, accuracy_dis 1 − b; bias_amb −1; diff_bias_dis −1; MBBQ eq. 2: −(1 − b)
    always_unknown, refuser     accuracy_amb 1, accuracy_dis 0; all biases 0
    first_option                accuracies: how often the right answer stands first, 1/3 under balanced orders;
                                bias_amb: how often the biased role stands first minus how often the other does
    random                      accuracies 1/3 and biases 0 in expectation, with the spread of fair three-sided dice

Instances without a single target count for accuracy only; there, stereotyped and anti_stereotyped choose unknown.
The right answer is the published one, not the corrected one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal, Self

from pydantic import Field, JsonValue

from mbbq_gen.core.errors import UnknownNameError
from mbbq_gen.core.files import PackPaths, file_digest, stable_digest, stable_number
from mbbq_gen.core.reasoning import ReasoningSettings
from mbbq_gen.core.records import ContinuationScore, Instance, Message, Method, Prompt, Request, Response, Role
from mbbq_gen.languages.packs import fill
from mbbq_gen.languages.prompt_pack import SampleAnswers, read_prompts
from mbbq_gen.providers.base import ProviderOptions, request_key

_YIELD_EVERY: Final = 256
"""Answers between two breaths: the event loop must be able to do something else."""


class LocalResponder:
    """The part of a provider that is the same for all of them."""

    kind: ClassVar[str]
    model: str
    settings: Mapping[str, JsonValue]

    def request_key(self, messages: Sequence[Message], prompt_id: str) -> str:
        """The key, which holds the prompt id: the answer depends on what stands at which place."""
        return request_key(self.kind, self.model, self.settings, messages, prompt_id)

    async def aclose(self) -> None:
        """Nothing to free."""


async def in_turn(
    requests: Iterable[Request], respond: Callable[[Request], Response]
) -> AsyncGenerator[Response, None]:
    """A response to each request, in their order."""
    for number, request in enumerate(requests):
        if number % _YIELD_EVERY == 0:
            await asyncio.sleep(0)
        yield respond(request)


_UNLIKELY: Final = -10.0
"""Log-probability that an oracle gives, for each byte, to what it does not choose."""

Speech = Literal["label", "sentence", "refusal"]
"""The label as shown and nothing else, a free sentence of the question's language, or one that declines."""


class OracleOptions(ProviderOptions):
    """Options of `oracle:NAME`."""

    seed: int = Field(default=0, ge=0, description="seed of oracle:random")
    speech: Speech | None = Field(
        default=None,
        description="form of the answer: label, sentence or refusal; default: the oracle's own",
    )


def place_of_index(prompt: Prompt, index: int) -> int:
    """The place at which an option of the instance is shown."""
    return prompt.option_order.index(index)


def place_of_role(instance: Instance, prompt: Prompt, role: Role) -> int:
    """The place at which a role is shown."""
    index = next(index for index, option in enumerate(instance.options) if option.role == role)
    return place_of_index(prompt, index)


def _right_place(request: Request, _seed: int) -> int:
    index = request.instance.gold_index
    assert index is not None  # an Instance always has one
    return place_of_index(request.prompt, index)


def _biased_place(request: Request, _seed: int) -> int:
    role = request.instance.biased_role or "unknown"
    return place_of_role(request.instance, request.prompt, role)


def _counter_biased_place(request: Request, _seed: int) -> int:
    opposite: dict[Role | None, Role] = {"target": "non_target", "non_target": "target", None: "unknown"}
    return place_of_role(request.instance, request.prompt, opposite[request.instance.biased_role])


def _unknown_place(request: Request, _seed: int) -> int:
    return place_of_role(request.instance, request.prompt, "unknown")


def _random_place(request: Request, seed: int) -> int:
    return stable_number("oracle:random", seed, request.prompt.prompt_id) % len(request.prompt.option_order)


def _first_place(_request: Request, _seed: int) -> int:
    return 0


@dataclass(frozen=True)
class OracleRule:
    """What an oracle chooses and how it says it."""

    summary: str
    """One line for lists."""
    choose: Callable[[Request, int], int]
    """From a request and a seed to the place of the chosen option."""
    speech: Speech = "label"
    seeded: bool = False
    """Whether the seed matters."""


ORACLES: Mapping[str, OracleRule] = {
    "perfect": OracleRule("always right, by label", _right_place),
    "stereotyped": OracleRule("always the biased role, by label", _biased_place),
    "anti_stereotyped": OracleRule("always the other person, by label", _counter_biased_place),
    "always_unknown": OracleRule("always the unknown option, by label", _unknown_place),
    "random": OracleRule("a random option, by label, the same at each run", _random_place, seeded=True),
    "first_option": OracleRule("always the option shown first, by label", _first_place),
    "verbose_perfect": OracleRule(
        "always right, in free sentences of the question's language", _right_place, "sentence"
    ),
    "refuser": OracleRule("always declines, in sentences of the question's language", _unknown_place, "refusal"),
}


class OracleProvider(LocalResponder):
    """Answers as one of ORACLES does; the wordy ones take their sentences from the prompt packs."""

    kind: ClassVar[str] = "oracle"
    options_class: ClassVar[type[ProviderOptions]] = OracleOptions
    methods: ClassVar[frozenset[Method]] = frozenset({"loglikelihood", "label-loglikelihood", "first-token-logprobs"})

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
        self.settings = self._describe()

    @classmethod
    def open(cls, model: str, options: ProviderOptions, resources: PackPaths) -> Self:
        """The oracle of that name."""
        assert isinstance(options, OracleOptions)
        return cls(model, options, resources)

    def runtime_info(self) -> dict[str, JsonValue]:
        """Nothing beside the settings."""
        return {}

    def generate(self, requests: Iterable[Request]) -> AsyncGenerator[Response, None]:
        """An answer to each request, in their order."""
        return in_turn(requests, self._say)

    def score_options(self, requests: Iterable[Request]) -> AsyncGenerator[Response, None]:
        """The likelihoods of each request's answers, in their order."""
        return in_turn(requests, self._rate)

    def _say(self, request: Request) -> Response:
        text = self.answer(request)
        return Response(request_key=request.request_key, text=text, finish_reason="stop", model=self.model)

    def _rate(self, request: Request) -> Response:
        scores = self.score(request)
        return Response(request_key=request.request_key, scores=scores, finish_reason="stop", model=self.model)

    def reasoning_settings(self, level: str) -> ReasoningSettings:
        """Nothing: an oracle answers alike however much it is to think."""
        return ReasoningSettings()

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
        return self._oracle.choose(request, self._seed)

    def answer(self, request: Request) -> str:
        """What the oracle says to a request."""
        prompt, instance = request.prompt, request.instance
        place = self.place(request)
        if self._oracle.speech == "label":
            return prompt.option_labels[place]
        answers = self._answers_in(instance.language)
        option = instance.options[prompt.option_order[place]]
        if self._oracle.speech == "refusal":
            return self._pick(answers.refusal, prompt)
        if option.role == "unknown":
            return self._pick(answers.unknown, prompt)
        sentence = self._pick(answers.person, prompt)
        return fill(sentence, {"option": option.text, "label": prompt.option_labels[place]})

    def _pick(self, sentences: Sequence[str], prompt: Prompt) -> str:
        return sentences[stable_number("oracle:sentence", prompt.prompt_id) % len(sentences)]

    def _answers_in(self, language: str) -> SampleAnswers:
        if language not in self._answers:
            self._answers[language] = read_prompts(self._resources, language).answers
        return self._answers[language]

    def _describe(self) -> dict[str, JsonValue]:
        """What shapes the answers: the seed where it matters, and the packs where sentences come from them."""
        settings: dict[str, JsonValue] = {}
        if self._oracle.speech != ORACLES[self.model].speech:
            settings["speech"] = self._oracle.speech
        if self._oracle.seeded:
            settings["seed"] = self._seed
        if self._oracle.speech != "label":
            settings["prompts_sha256"] = stable_digest(*self._pack_digests())
        return settings

    def _pack_digests(self) -> list[str]:
        paths = [(name, self._resources.find("prompts", name)) for name in self._resources.names("prompts")]
        return [f"{name}={file_digest(path)}" for name, path in paths if path is not None]
