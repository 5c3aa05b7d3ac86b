"""Models on this machine through vLLM, in this process: `vllm:NAME`, for those who have it and a GPU for it.

Prompts, system message, stop tokens and what comes back are as with `transformers:`; only who computes is another. The
text depends on what else is in a batch, which vLLM makes up as it goes, so it is the same again only nearly always.
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

from pydantic import JsonValue

from mbbq_gen.core.errors import ProviderError, UsageError
from mbbq_gen.core.files import PackPaths, cache_directory
from mbbq_gen.core.records import Request, Response
from mbbq_gen.providers.base import ExecutionContext, check_installed
from mbbq_gen.providers.local.decoding import NOT_NUMBERS, Completion, DecodingPrompt, DecodingSettings
from mbbq_gen.providers.local.engine_log import Engine, EngineLog, LoggedEngine
from mbbq_gen.providers.local.files import ModelSource, check_named, quiet
from mbbq_gen.providers.local.options import VLLMOptions
from mbbq_gen.providers.local.provider import TransformersProvider

if TYPE_CHECKING:
    from mbbq_gen.providers.local.model import LocalModel


Tokens = Sequence[int]


class VLLMDecoder:
    """Completes prompts with vLLM, which batches them itself: so many are handed over at a time."""

    name = "vllm"
    """As the manifest shows it."""

    def __init__(self, engine: Engine, settings: DecodingSettings) -> None:
        self._engine = engine
        self._settings = settings
        self.batch_size = settings.batch_size

    def decode(self, prompts: Sequence[DecodingPrompt], is_cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """A completion of each prompt, those that begin alike together; stops between two batches once cancelled."""
        waiting = iter(sorted(prompts, key=lambda prompt: prompt.tokens))
        while not is_cancelled() and (group := list(islice(waiting, self.batch_size))):
            started = time.perf_counter()
            outputs = self._engine.generate(
                [{"prompt_token_ids": list(prompt.tokens)} for prompt in group],
                [self._parameters(prompt) for prompt in group],
                use_tqdm=False,
            )
            elapsed = time.perf_counter() - started
            for prompt, output in zip(group, outputs, strict=True):
                yield self._complete(prompt, output.outputs[0], elapsed)

    def _parameters(self, prompt: DecodingPrompt) -> Any:
        from vllm import SamplingParams

        settings, drawn = self._settings, self._settings.temperature > 0
        return SamplingParams(
            temperature=settings.temperature,
            top_p=settings.top_p if drawn else 1.0,
            top_k=settings.top_k if drawn else 0,
            min_p=settings.min_p if drawn else 0.0,
            repetition_penalty=settings.repetition_penalty,
            presence_penalty=settings.presence_penalty,
            frequency_penalty=settings.frequency_penalty,
            seed=prompt.seed % 2**31 if drawn else None,
            max_tokens=prompt.limit,
            stop_token_ids=sorted(self._settings.stop_tokens),
        )

    def _complete(self, prompt: DecodingPrompt, output: Any, elapsed: float) -> Completion:
        tokens = tuple(output.token_ids)
        written = len(tokens)
        if output.finish_reason not in ("stop", "length"):
            return Completion(prompt.number, (), None, 0, elapsed, f"vLLM ended the answer: {output.finish_reason}")
        if tokens and tokens[-1] in self._settings.stop_tokens:
            tokens = tokens[:-1]
        return Completion(prompt.number, tokens, output.finish_reason, written, elapsed)


def iterate_scores(
    model: Engine, prompts: list[list[int]], answers: list[list[list[int]]], *, max_tokens: int = 512
) -> Iterator[tuple[int, list[float]]]:
    """The number of each prompt and its answers' sums of log-probabilities, as `scoring.iterate_scores` gives them.

    vLLM computes the prompts anew for this: it reads nothing from its cache of prefixes where the probabilities of a
    prompt's tokens are requested.

    Args:
        model: a `vllm.LLM`.
        prompts: token ids, at least one each.
        answers: token ids of each prompt's answers, at least one each.
        max_tokens: answers that are handed over at a time; vLLM makes up its own batches.

    Raises:
        ValueError: where a prompt or an answer has no tokens, or the lists are of different lengths.
        ProviderError: where the engine tells no probability of a token, or one that is no number.
    """
    from vllm import SamplingParams

    lines = [
        (number, prompt, answer)
        for number, (prompt, given) in enumerate(zip(prompts, answers, strict=True))
        for answer in given
    ]
    if any(not prompt or not answer for _, prompt, answer in lines):
        raise ValueError("a prompt or an answer has no tokens")
    # one token has to be written; the token that stands in the prompt is always among those returned
    parameters = SamplingParams(temperature=0.0, max_tokens=1, prompt_logprobs=1, detokenize=False)
    found: list[list[float]] = [[] for _ in prompts]
    for start in range(0, len(lines), max(1, max_tokens)):
        group = lines[start : start + max(1, max_tokens)]
        sequences = [{"prompt_token_ids": [*prompt, *answer]} for _, prompt, answer in group]
        outputs = model.generate(sequences, parameters, use_tqdm=False)
        for (number, prompt, answer), output in zip(group, outputs, strict=True):
            entries = output.prompt_logprobs[len(prompt) :]
            try:
                total = sum(float(line[token].logprob) for line, token in zip(entries, answer, strict=True))
            except (KeyError, TypeError, ValueError) as error:
                raise ProviderError("vLLM does not tell how likely each token of a prompt is") from error
            if math.isnan(total):
                raise ProviderError(NOT_NUMBERS)
            found[number].append(total)
    yield from enumerate(found)


LOG_NAME = "vllm.log"
"""Name of the file that gets vLLM's output."""
INSTALL = "pip install 'mbbq-gen[vllm]'"


class VLLMProvider(TransformersProvider):
    """Asks a model through vLLM; loads it when the first question comes."""

    kind = "vllm"
    options_class = VLLMOptions
    packages = ("vllm", "torch", "transformers", "tokenizers")
    _log: EngineLog
    _engine: LoggedEngine | None = None

    @classmethod
    def open(cls, model: str, options: Any, resources: PackPaths) -> Self:
        """The provider for a hub id or a folder; nothing is loaded yet."""
        check_installed(f"vllm:{model}", ("vllm",), INSTALL)
        if model.endswith(".gguf"):
            raise UsageError(f"vllm:{model}: name a folder or a hub id; GGUF files are for transformers:{model}")
        check_named(model, [], cls.kind)
        return cls(model, options)

    @property
    def dtype(self) -> str:
        """The number type as it was requested, else that of the weights; vLLM's own choice makes float32 bfloat16."""
        dtype: str = self._options.dtype
        return dtype if dtype != "auto" else self.source.stored_dtype() or "auto"

    @property
    def batch_dependent(self) -> bool:
        """Always: vLLM makes up its batches as answers come and go."""
        return True

    def batch(self) -> dict[str, JsonValue]:
        """The settings of vLLM."""
        options = self._options
        found = options.model_dump(include={"tensor_parallel_size", "max_model_len", "batch_size", "engine"})
        return {name: value for name, value in found.items() if value not in (None, {})}

    async def generate(self, requests: Iterable[Request], context: ExecutionContext) -> AsyncGenerator[Response, None]:
        """As `transformers:`; vLLM's output goes to the file `vllm.log` in the folder of the run."""
        if self._loaded is None:
            self._log = EngineLog(f"vllm:{self.source.name}", (context.folder or cache_directory()) / LOG_NAME)
            context.notify(f"{self.name}: vLLM loads the model; its log: {self._log.path}")
        async with aclosing(super().generate(requests, context)) as responses:
            async for response in responses:
                yield response

    def load(self) -> LocalModel:
        """The model in vLLM's memory; raises ProviderError where it can't be loaded."""
        loaded = load_engine(self.source, self._options, self._log)
        self._engine = loaded.scorer.model
        return loaded

    async def aclose(self) -> None:
        """Ends vLLM's processes and frees the thread."""
        await super().aclose()
        if self._engine is not None:
            self._engine.close()
            self._engine = None


def load_engine(source: ModelSource, options: VLLMOptions, log: EngineLog) -> LocalModel:
    """The model of a source, ready to answer; `log` gets vLLM's output.

    Raises:
        ProviderError: where vLLM can't load it.
    """
    from transformers import GenerationConfig

    from mbbq_gen.providers.local.chat_format import ChatFormatter, ReasoningMarkers
    from mbbq_gen.providers.local.decoding import DecodingSettings
    from mbbq_gen.providers.local.model import LocalModel, chosen_sampling, configured_sampling, stop_tokens_of
    from mbbq_gen.providers.local.scoring import LoglikelihoodScorer

    name = f"vllm:{source.name}"
    source.prepare()
    given = {
        "dtype": options.dtype if options.dtype != "auto" else source.stored_dtype() or "auto",
        "seed": options.seed,
        "trust_remote_code": options.trust_remote_code,
        "tensor_parallel_size": options.tensor_parallel_size,
        "enable_prefix_caching": True,
        "revision": source.revision,
        "gpu_memory_utilization": options.gpu_memory_utilization,
        "max_model_len": options.max_model_len,
    }
    arguments = {key: value for key, value in given.items() if value is not None}
    try:
        with log.taking_all(), quiet():
            from vllm import LLM

            loaded = LLM(model=source.location, **{**arguments, **options.engine})
    except Exception as error:  # it starts processes and compiles kernels: anything may happen
        raise log.failure("can't load it", error) from error
    engine, tokenizer = LoggedEngine(loaded, log), loaded.get_tokenizer()
    formatter = ChatFormatter(tokenizer, name, options.prompt_format, options.system, options.template_args)
    try:
        configured = GenerationConfig.from_pretrained(source.location, **source.arguments())
    except (OSError, ValueError):  # it has no generation configuration
        configured = GenerationConfig()
    decoding = DecodingSettings(
        stop_tokens=stop_tokens_of(configured.eos_token_id, tokenizer, formatter),
        pad_token=0,
        batch_size=options.batch_size,
        read_tokens=0,
        **chosen_sampling(options, configured_sampling(configured)),
    )
    configuration = getattr(getattr(loaded, "llm_engine", None), "model_config", None)
    context = getattr(configuration, "max_model_len", options.max_model_len)
    return LocalModel(
        name=source.name,
        tokenizer=tokenizer,
        formatter=formatter,
        markers=ReasoningMarkers(tokenizer),
        options=options,
        decoding=decoding,
        static=VLLMDecoder(engine, decoding),
        continuous=None,
        context=context,
        window=None,
        scorer=LoglikelihoodScorer(
            engine, tokenizer, formatter, source.name, context, options.batch_size, iterate_scores
        ),
        sampling_defaults=configured_sampling(configured),
        dtype=str(getattr(configuration, "dtype", given["dtype"])).removeprefix("torch."),
    )
