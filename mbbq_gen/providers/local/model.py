"""A model in memory: messages → prompt tokens → answer tokens → text. Everything runs on one thread."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import torch
import transformers
from torch import nn

from mbbq_gen.core.errors import ProviderError
from mbbq_gen.core.files import stable_number
from mbbq_gen.core.reasoning import reasoning_token_allowance
from mbbq_gen.core.records import ContinuationScore, Message, Request, Response, Usage
from mbbq_gen.providers.base import NEUTRAL_SAMPLING
from mbbq_gen.providers.local.chat_format import ChatFormatter, PromptError, ReasoningMarkers, ScoringPrompt
from mbbq_gen.providers.local.decoding import (
    Completion,
    ContinuousBatcher,
    DecodingPrompt,
    DecodingSettings,
    StaticBatcher,
    decode_all,
    supports_tree_attention,
)
from mbbq_gen.providers.local.files import ModelSource, load_files, quiet
from mbbq_gen.providers.local.options import DevicePlan, TransformersOptions
from mbbq_gen.providers.local.prefix_cache import Model, iterate_scores, tree_window

if TYPE_CHECKING:
    from torch import Tensor

_ROWS = 64
"""Number of rows for which oneDNN optimises the layout of weights; others are equally fast."""
_WIDE = ("AVX2", "AVX512")
"""CPU capabilities for which oneDNN is faster than MKL."""


class PackedLinear(nn.Module):
    """A linear layer with its weight in oneDNN's own layout."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.bias = layer.bias
        self._packed = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach().contiguous(), _ROWS)

    @property
    def weight(self) -> Tensor:
        """The weight, out × in, unpacked at each call, for model code that reads it."""
        weight: Tensor = self._packed.to_dense()
        return weight

    def forward(self, rows: Tensor) -> Tensor:
        """The layer's output: … × in → … × out."""
        product: Tensor = torch.ops.mkldnn._linear_pointwise(rows, self._packed, self.bias, "none", [], "")
        return product


def pack_linear_layers(model: nn.Module) -> int:
    """Replaces a model's float32 linear layers on the CPU by packed ones; returns their number."""
    if not (torch.backends.mkldnn.enabled and torch.backends.cpu.get_cpu_capability() in _WIDE):
        return 0
    places = [
        (parent, name, layer)
        for parent in model.modules()
        for name, layer in parent.named_children()
        if type(layer) is nn.Linear and layer.weight.device.type == "cpu" and layer.weight.dtype == torch.float32
    ]
    count = len(places)
    while places:  # pop each, so that its memory is freed before the next is packed
        parent, name, layer = places.pop()
        try:
            setattr(parent, name, PackedLinear(layer))
        except (RuntimeError, AttributeError, TypeError):  # private operators, which another torch may lack
            return 0
    return count


Sums = dict[tuple[int, ...], float]
"""An answer's tokens → the sum of their log-probabilities."""
_Unconditional = tuple[tuple[Message, ...], str]
"""The unconditional prompt and the answer's text."""


@dataclass
class LoglikelihoodScorer:
    """Scores continuations with one loaded model."""

    name: str
    formatter: ChatFormatter
    model: Model
    reads_trees: bool
    """Whether several answers are read in one forward pass."""
    read_tokens: int
    """Tokens read in one forward pass."""
    context: int | None
    """Maximum tokens of prompt and answer together; None: unknown."""
    _unconditional: dict[_Unconditional, float] = field(default_factory=dict)
    """Sums of answers after their unconditional prompt; each is computed once."""
    _is_used: bool = False

    def runtime_info(self) -> dict[str, Any]:
        """The strategy, for the manifest; empty if nothing was scored."""
        return {"scoring_used": "packed" if self.reads_trees else "plain"} if self._is_used else {}

    def score(self, requests: Sequence[Request], is_cancelled: Callable[[], bool]) -> Iterator[Response]:
        """Yields the responses, ordered by shared prefixes; stops soon if cancelled; raises ProviderError."""
        self._is_used = True
        questions: list[tuple[Request, ScoringPrompt]] = []
        unconditional: dict[_Unconditional, ScoringPrompt] = {}
        for request in requests:
            if is_cancelled():
                return
            try:
                questions.append((request, self._tokenize(request, unconditional)))
            except PromptError as error:
                yield Response(request_key=request.request_key, error=str(error), model=self.name)
        keys = list(unconditional)
        for number, sums in self._sums(list(unconditional.values()), is_cancelled):
            (self._unconditional[keys[number]],) = sums.values()
        for number, sums in self._sums([question for _, question in questions], is_cancelled):
            yield self._respond(*questions[number], sums)

    def _tokenize(self, request: Request, unconditional: dict[_Unconditional, ScoringPrompt]) -> ScoringPrompt:
        """The tokens of a question; those of its answers alone are added to `unconditional` if they are new."""
        prompt, prior = request.prompt, request.prompt.unconditional_prompt
        verbatim = prompt.method != "loglikelihood"
        question = self.formatter.scoring_prompt(prompt.messages, prompt.continuations, verbatim=verbatim)
        longest = len(question.prompt) + max(map(len, question.answers))
        if self.context is not None and longest > self.context:
            raise PromptError(
                f"question and answer have {longest} tokens, and the model takes {self.context} in all;"
                " use fewer --num-fewshot or a shorter variant"
            )
        for answer in prompt.continuations if prior else ():
            key = prior, answer.text
            if key not in self._unconditional and key not in unconditional:
                unconditional[key] = self.formatter.scoring_prompt(prior, [answer], verbatim=verbatim)
        return question

    def _sums(self, questions: Sequence[ScoringPrompt], is_cancelled: Callable[[], bool]) -> Iterator[tuple[int, Sums]]:
        """Yields the number of each question and its sums as they are computed, until cancelled."""
        prompts = [question.prompt for question in questions]
        distinct = [list(dict.fromkeys(question.answers)) for question in questions]
        found = iterate_scores(self.model, prompts, distinct, reads_trees=self.reads_trees, max_tokens=self.read_tokens)
        while not is_cancelled() and (scored := next(found, None)) is not None:
            number, sums = scored
            yield number, dict(zip(distinct[number], sums, strict=True))

    def _respond(self, request: Request, question: ScoringPrompt, sums: Sums) -> Response:
        prompt = request.prompt
        is_first = prompt.method == "first-token-logprobs"
        scores = tuple(
            ContinuationScore.of(
                answer,
                None if is_first and (question.merged or len(tokens) > 1) else sums[tokens],
                1 if is_first else len(tokens),
                self._unconditional[prompt.unconditional_prompt, answer.text] if prompt.unconditional_prompt else None,
            )
            for answer, tokens in zip(prompt.continuations, question.answers, strict=True)
        )
        if is_first and all(score.logprob is None for score in scores):
            no_label = "no label is a single token in this model's tokenizer; use --method label-loglikelihood"
            return Response(request_key=request.request_key, error=no_label, model=self.name)
        return Response(
            request_key=request.request_key,
            scores=scores,
            finish_reason="stop",
            model=self.name,
            usage=Usage(input_tokens=len(question.prompt) + sum(map(len, question.answers)), output_tokens=0),
        )


@dataclass
class LocalModel:
    """A loaded model with its prompt format, decoders and scorer."""

    name: str
    formatter: ChatFormatter
    options: TransformersOptions
    decoding: DecodingSettings
    static: StaticBatcher
    """Decodes what `continuous` can't."""
    scorer: LoglikelihoodScorer
    context: int | None
    """Maximum tokens of prompt and answer together; None: unknown."""
    continuous: ContinuousBatcher | None = None
    """None if its texts would differ."""
    window: float = math.inf
    """Maximum tokens of prompt and answer for `continuous`."""
    packed_layers: int = 0
    """Number of linear layers in oneDNN's layout."""

    def __post_init__(self) -> None:
        self._markers = ReasoningMarkers(self.formatter.tokenizer)

    def answer(self, requests: Sequence[Request], is_cancelled: Callable[[], bool]) -> Iterator[Response]:
        """Yields the responses as they finish; stops soon if cancelled; raises ProviderError."""
        prompts: dict[int, DecodingPrompt] = {}
        for number, request in enumerate(requests):
            if is_cancelled():
                return
            try:
                prompts[number] = self._prompt(number, request)
            except PromptError as error:
                yield Response(request_key=request.request_key, error=str(error), model=self.name)
        short, long = list[DecodingPrompt](), list[DecodingPrompt]()
        for prompt in prompts.values():
            # `continuous` has no sliding window, so prompt and answer must fit into the model's
            fits = self.continuous is not None and len(prompt.tokens) + prompt.limit <= self.window
            (short if fits else long).append(prompt)
        completions = decode_all(self.static, long, is_cancelled)
        if self.continuous is not None:
            completions = chain(decode_all(self.continuous, short, is_cancelled), completions)
        for completion in completions:
            yield self._respond(requests[completion.number], prompts[completion.number].tokens, completion)

    def runtime_info(self) -> dict[str, Any]:
        """Decoding, batch, stop tokens and sampling, for the manifest."""
        decoder = self.continuous or self.static
        return {
            "prompt_format_used": "chat" if self.formatter.uses_template else "plain",
            "decoding_used": decoder.name,
            "batch_size_used": decoder.batch_size,
            "stop_tokens": sorted(self.decoding.stop_tokens),
            **({"packed_layers": self.packed_layers} if self.packed_layers else {}),
            "sampling": {name: getattr(self.decoding, name) for name in ("temperature", *NEUTRAL_SAMPLING)},
            **self.scorer.runtime_info(),
        }

    def _prompt(self, number: int, request: Request) -> DecodingPrompt:
        if request.is_follow_up and not self.formatter.uses_template:
            raise ProviderError(f"{self.name}: --follow-up is not possible without a chat template")
        level, formatter, room = request.prompt.reasoning_effort, self.formatter, 0
        if level is not None:
            formatter = formatter.with_reasoning(f"transformers:{self.name}", level)
            room = reasoning_token_allowance(level)
        tokens = formatter.tokens(request.messages)
        most: int = self.options.max_tokens
        limit = (most if request.max_tokens is None else min(most, request.max_tokens)) + room
        if self.context is not None:
            limit = min(limit, self.context - len(tokens))
        if limit < 1:
            raise PromptError(f"the prompt has {len(tokens)} tokens, and the model takes {self.context} in all")
        return DecodingPrompt(number, tokens, limit, stable_number(self.options.seed, request.request_key) % 2**63)

    def _respond(self, request: Request, prompt: Sequence[int], completion: Completion) -> Response:
        text, reasoning = self._markers.split(prompt, completion.tokens)
        reasoning_tokens = None
        if request.prompt.reasoning_effort is not None:
            reasoning_tokens = len(self.formatter.tokenizer(reasoning or "", add_special_tokens=False)["input_ids"])
        return Response(
            request_key=request.request_key,
            text=text,
            reasoning=reasoning,
            finish_reason=completion.finish_reason,
            model=self.name,
            usage=Usage(input_tokens=len(prompt), output_tokens=completion.written, reasoning_tokens=reasoning_tokens),
            latency_s=round(completion.latency_s, 3),
        )


def load_model(source: ModelSource, device: DevicePlan, options: TransformersOptions) -> LocalModel:
    """Loads the model of a source on its device; raises ProviderError if that is not possible."""
    torch.set_num_threads(device.threads)
    with quiet():
        tokenizer, model = load_files(source, device, trust_remote_code=options.trust_remote_code)
        packed_layers = pack_linear_layers(model)
        prompt_options = options.prompt_format, options.template_args
        formatter = ChatFormatter(tokenizer, f"transformers:{source.name}", *prompt_options)
        decoding = _decoding_settings(options, model.generation_config, formatter, device)
        model.generation_config = transformers.GenerationConfig()  # so that `generate` uses none of its other settings
        reads_trees = supports_tree_attention(model)
    is_plain = all(getattr(decoding, name) == value for name, value in NEUTRAL_SAMPLING.items() if name != "top_p")
    config = model.config.get_text_config()
    context = getattr(config, "max_position_embeddings", None)
    return LocalModel(
        source.name,
        formatter,
        options,
        decoding,
        static=StaticBatcher(model, decoding),
        scorer=LoglikelihoodScorer(source.name, formatter, model, reads_trees, device.read_tokens, context),
        context=context,
        continuous=ContinuousBatcher(model, decoding) if is_plain and reads_trees else None,
        window=tree_window(config),
        packed_layers=packed_layers,
    )


_SAMPLING: Final = (
    "do_sample", "temperature", "top_p", "top_k", "min_p", "typical_p", "repetition_penalty", "no_repeat_ngram_size",
)  # fmt: skip


def _decoding_settings(
    options: TransformersOptions, configured: Any, formatter: ChatFormatter, device: DevicePlan
) -> DecodingSettings:
    """The settings of decoding, from the options and a generation configuration.

    Sampling parameters that are not set are neutral, or as configured. Stop tokens are those of the generation
    configuration, the tokenizer's end of text, and the chat template's end of turn.
    """
    tokenizer, changed, named = formatter.tokenizer, configured.to_diff_dict(), configured.eos_token_id
    defaults = {name: changed[name] for name in _SAMPLING if changed.get(name) is not None}
    own = {name: defaults[name] for name in NEUTRAL_SAMPLING if options.sampling == "server" and name in defaults}
    ends = (*(named if isinstance(named, list) else [named]), tokenizer.eos_token_id, formatter.end_of_turn())
    stop_tokens = frozenset(token for token in ends if token is not None)
    pad_token = tokenizer.pad_token_id
    return DecodingSettings(
        stop_tokens=stop_tokens,
        pad_token=pad_token if pad_token is not None else min(stop_tokens, default=0),
        batch_size=device.batch_size,
        read_tokens=device.read_tokens,
        configured=defaults,
        **{"temperature": options.temperature, **NEUTRAL_SAMPLING, **own, **options.given_sampling},
    )
