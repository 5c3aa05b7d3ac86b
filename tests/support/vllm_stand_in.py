"""A stand-in for vLLM: the calls that we make of it, with the signatures that its documentation and source show.

It computes with the library of transformers, one prompt after another. It proves that our side fits the signatures, not
that the real vLLM does what they say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import torch

from tests.support.cases import known


@dataclass
class SamplingParams:
    """The fields of `vllm.SamplingParams` that we may set, with its defaults; it refuses the others."""

    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    max_tokens: int | None = 16
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    detokenize: bool = True
    skip_special_tokens: bool = True

    def __post_init__(self) -> None:
        assert self.temperature >= 0
        assert 0 < self.top_p <= 1
        assert known(self.max_tokens) >= 1


@dataclass
class Logprob:
    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


@dataclass
class CompletionOutput:
    index: int
    text: str
    token_ids: Sequence[int]
    cumulative_logprob: float | None = None
    logprobs: Any = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None


@dataclass
class RequestOutput:
    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    prompt_logprobs: list[dict[int, Logprob] | None] | None
    outputs: list[CompletionOutput] = field(default_factory=list)
    finished: bool = True


class LLM:
    """`vllm.LLM`, as far as we use it."""

    started: list[dict[str, Any]] = []  # noqa: RUF012  # what each was started with, for tests
    calls: list[int] = []  # noqa: RUF012  # how many prompts came in each call

    def __init__(self, model: str, *, tokenizer: str | None = None, **engine: Any) -> None:
        import transformers

        known = {"dtype", "seed", "trust_remote_code", "tensor_parallel_size", "enable_prefix_caching", "revision"}
        known |= {"gpu_memory_utilization", "max_model_len", "enforce_eager"}
        if unknown := engine.keys() - known:
            raise TypeError(f"EngineArgs.__init__() got an unexpected keyword argument {min(unknown)!r}\nand so on")
        self.started.append(engine)
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(tokenizer or model)
        self._network = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
        self._ends = set(transformers.GenerationConfig.from_pretrained(model).eos_token_id)
        longest = engine.get("max_model_len") or self._network.config.max_position_embeddings

        class _Configuration:
            max_model_len = longest

        class _Engine:
            model_config = _Configuration()

        self.llm_engine = _Engine()

    def get_tokenizer(self) -> Any:
        return self._tokenizer

    def generate(
        self,
        prompts: dict[str, Any] | Sequence[dict[str, Any]],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: bool = True,
        lora_request: Any = None,
    ) -> list[RequestOutput]:
        """Outputs in the order of the prompts."""
        assert not use_tqdm
        assert lora_request is None
        listed = [prompts] if isinstance(prompts, dict) else list(prompts)
        given = sampling_params or SamplingParams()
        each = [given] * len(listed) if isinstance(given, SamplingParams) else list(given)
        self.calls.append(len(listed))
        return [
            self._answer(number, prompt["prompt_token_ids"], parameters)
            for number, (prompt, parameters) in enumerate(zip(listed, each, strict=True))
        ]

    @torch.inference_mode()
    def _answer(self, number: int, tokens: list[int], parameters: SamplingParams) -> RequestOutput:
        limit = self.llm_engine.model_config.max_model_len
        if len(tokens) >= limit:
            raise ValueError(f"The decoder prompt (length {len(tokens)}) is longer than the maximum model length")
        scored = None if parameters.prompt_logprobs is None else self._logprobs_of(tokens, parameters.prompt_logprobs)
        ends, written = self._ends | set(parameters.stop_token_ids or ()), list[int]()
        generator = torch.Generator().manual_seed(parameters.seed or 0)
        assert parameters.max_tokens is not None
        reason = "length"
        while len(written) < parameters.max_tokens:
            logits = self._network(torch.tensor([[*tokens, *written]])).logits[0, -1]
            written.append(self._draw(logits, parameters, generator))
            if written[-1] in ends:
                reason = "stop"
                break
        text = self._tokenizer.decode(written, skip_special_tokens=True) if parameters.detokenize else ""
        return RequestOutput(
            str(number), None, tokens, scored, [CompletionOutput(0, text, tuple(written), finish_reason=reason)]
        )

    def _draw(self, logits: torch.Tensor, parameters: SamplingParams, generator: torch.Generator) -> int:
        if parameters.temperature == 0:
            return int(logits.argmax())
        probabilities = (logits / parameters.temperature).softmax(dim=-1)
        return int(torch.multinomial(probabilities, 1, generator=generator))

    def _logprobs_of(self, tokens: list[int], most: int) -> list[dict[int, Logprob] | None]:
        """The likeliest tokens of each place and the one that is there; None for the first place."""
        likely = self._network(torch.tensor([tokens])).logits[0].log_softmax(dim=-1)
        lines: list[dict[int, Logprob] | None] = [None]
        for place, token in enumerate(tokens[1:]):
            best = likely[place].topk(most).indices.tolist() if most else []
            lines.append({named: Logprob(float(likely[place, named])) for named in {*best, token}})
        return lines


def stand_in() -> ModuleType:
    """A module to put into `sys.modules` as `vllm`."""
    module = ModuleType("vllm")
    module.__spec__ = ModuleSpec("vllm", None)
    module.LLM, module.SamplingParams = LLM, SamplingParams  # type: ignore[attr-defined]
    LLM.started.clear()
    LLM.calls.clear()
    return module
