"""Models on this machine through vLLM, in this process: `vllm:NAME`, for those who have it and a GPU for it.

Prompts, system message, stop tokens and what comes back are as with `transformers:`; only who computes is another. The
text depends on what else is in a batch, which vLLM makes up as it goes, so it is the same again only nearly always.

vLLM logs through Python's logging, and its processes write to the standard streams that they inherit. Both go to a
file: the standard streams lead to it while the engine starts, and so do vLLM's loggers afterwards.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final, Self

from pydantic import JsonValue
from transformers import GenerationConfig

from mbbq_gen.core.errors import ProviderError
from mbbq_gen.core.files import PackPaths, cache_directory
from mbbq_gen.core.records import Request, Response
from mbbq_gen.providers.base import ExecutionContext, check_installed
from mbbq_gen.providers.local.chat_format import ChatFormatter, ReasoningMarkers
from mbbq_gen.providers.local.decoding import (
    NOT_NUMBERS,
    Completion,
    DecodingPrompt,
    DecodingSettings,
    fail,
    finish,
)
from mbbq_gen.providers.local.files import check_named, first_line, quiet
from mbbq_gen.providers.local.model import LocalModel, decoding_settings
from mbbq_gen.providers.local.options import VLLMOptions
from mbbq_gen.providers.local.provider import TransformersProvider
from mbbq_gen.providers.local.scoring import LoglikelihoodScorer

_OWN_SETTINGS: Final = ("VLLM_LOGGING_CONFIG_PATH", "VLLM_CONFIGURE_LOGGING")
"""Variables by which users configure vLLM's logging themselves; then it stays as it is."""


class EngineLog:
    """The file that gets vLLM's output."""

    def __init__(self, name: str, path: Path) -> None:
        """`name`: of the model, for messages; the folder of `path` is made where it is missing."""
        self._name, self.path = name, path.absolute()
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)

    def failure(self, what: str, error: Exception) -> ProviderError:
        """An error of vLLM in one line, with the file's name."""
        return ProviderError(f"{self._name}: vLLM {what}: {first_line(error)}; its log: {self.path}")

    @contextmanager
    def taking_streams(self) -> Iterator[None]:
        """Leads the standard streams of this process, and of those that it starts meanwhile, to the file."""
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        saved = [(number, os.dup(number)) for number in (1, 2)]
        try:
            with self.path.open("ab", buffering=0) as file:
                for number, _ in saved:
                    os.dup2(file.fileno(), number)
            yield
        finally:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            for number, copy in saved:
                os.dup2(copy, number)
                os.close(copy)

    def take_loggers(self) -> None:
        """Leads what vLLM logs in this process to the file, unless the user configures its logging."""
        if not any(name in os.environ for name in _OWN_SETTINGS):
            logger = logging.getLogger("vllm")
            handler = logging.FileHandler(self.path, encoding="utf-8", delay=True)
            handler.setFormatter(logging.Formatter("%(levelname)s %(asctime)s %(name)s: %(message)s"))
            logger.handlers, logger.propagate = [handler], False


class LoggedEngine:
    """A `vllm.LLM` whose errors are of one line, and that is shut down quietly."""

    def __init__(self, engine: Any, log: EngineLog) -> None:
        self._engine, self._log = engine, log

    def generate(self, prompts: Iterable[Sequence[int]], parameters: Any) -> Any:
        """The outputs of prompts, given as tokens; raises ProviderError where the engine fails."""
        try:
            listed = [{"prompt_token_ids": list(tokens)} for tokens in prompts]
            return self._engine.generate(listed, parameters, use_tqdm=False)
        except Exception as error:  # its processes may die in many ways
            raise self._log.failure("failed", error) from error

    def close(self) -> None:
        """Ends the engine's processes; whatever goes wrong is in the log."""
        core = getattr(getattr(self._engine, "llm_engine", None), "engine_core", None)
        if core is not None:
            with self._log.taking_streams(), suppress(Exception):
                core.shutdown()
        for handler in logging.getLogger("vllm").handlers:
            handler.close()


class VLLMDecoder:
    """Completes prompts with vLLM, which batches them itself: so many are handed over at a time."""

    name = "vllm"

    def __init__(self, engine: Any, settings: DecodingSettings) -> None:
        self._engine = engine
        self._settings = settings
        self.batch_size = settings.batch_size

    def decode(self, prompts: Sequence[DecodingPrompt], is_cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """A completion of each prompt, those that begin alike together; stops between two batches once cancelled."""
        from vllm import SamplingParams

        settings, drawn = self._settings, self._settings.temperature > 0
        waiting = iter(sorted(prompts, key=lambda prompt: prompt.tokens))
        while not is_cancelled() and (group := list(islice(waiting, self.batch_size))):
            started = time.perf_counter()
            parameters = [
                SamplingParams(
                    temperature=settings.temperature,
                    top_p=settings.top_p if drawn else 1.0,
                    top_k=settings.top_k if drawn else 0,
                    min_p=settings.min_p if drawn else 0.0,
                    repetition_penalty=settings.repetition_penalty,
                    presence_penalty=settings.presence_penalty,
                    frequency_penalty=settings.frequency_penalty,
                    seed=prompt.seed % 2**31 if drawn else None,
                    max_tokens=prompt.limit,
                    stop_token_ids=sorted(settings.stop_tokens),
                )
                for prompt in group
            ]
            outputs = self._engine.generate([prompt.tokens for prompt in group], parameters)
            elapsed = time.perf_counter() - started
            for prompt, output in zip(group, outputs, strict=True):
                found = output.outputs[0]
                if found.finish_reason not in ("stop", "length"):
                    yield fail(prompt, f"vLLM ended the answer: {found.finish_reason}")
                else:
                    yield finish(prompt, found.token_ids, settings.stop_tokens, elapsed)


def iterate_scores(
    engine: LoggedEngine, prompts: list[list[int]], answers: list[list[list[int]]], *, max_tokens: int = 512
) -> Iterator[tuple[int, list[float]]]:
    """The number of each prompt and its answers' sums of log-probabilities, as `scoring.iterate_scores` gives them.

    vLLM computes the prompts anew for this: it reads nothing from its cache of prefixes where the probabilities of a
    prompt's tokens are requested. `max_tokens` answers are handed over at a time; vLLM makes up its own batches.

    Raises:
        ProviderError: where the engine tells no probability of a token, or one that is no number.
    """
    from vllm import SamplingParams

    lines = iter([(n, prompts[n], answer) for n, given in enumerate(answers) for answer in given])
    # one token has to be written; the token that stands in the prompt is always among those returned
    parameters = SamplingParams(temperature=0.0, max_tokens=1, prompt_logprobs=1, detokenize=False)
    found: list[list[float]] = [[] for _ in prompts]
    while group := list(islice(lines, max_tokens)):
        outputs = engine.generate([[*prompt, *answer] for _, prompt, answer in group], parameters)
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
        """The model in vLLM's memory; raises ProviderError where vLLM can't load it."""
        source, options = self.source, self._options
        given = {
            "dtype": self.dtype,
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
            with self._log.taking_streams(), quiet():
                from vllm import LLM

                loaded = LLM(model=source.location, **{**arguments, **options.engine})
                self._log.take_loggers()
        except Exception as error:  # it starts processes and compiles kernels: anything may happen
            raise self._log.failure("can't load it", error) from error
        self._engine, tokenizer = LoggedEngine(loaded, self._log), loaded.get_tokenizer()
        formatter = ChatFormatter(
            tokenizer, f"vllm:{source.name}", options.prompt_format, options.system, options.template_args
        )
        try:
            configured = GenerationConfig.from_pretrained(source.location, revision=source.revision)
        except (OSError, ValueError):  # it has no generation configuration
            configured = GenerationConfig()
        decoding, defaults = decoding_settings(
            options, configured, tokenizer, formatter, batch_size=options.batch_size, read_tokens=0
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
            static=VLLMDecoder(self._engine, decoding),
            continuous=None,
            context=context,
            window=None,
            scorer=LoglikelihoodScorer(
                self._engine, tokenizer, formatter, source.name, context, options.batch_size, iterate_scores
            ),
            sampling_defaults=defaults,
            dtype=str(getattr(configuration, "dtype", given["dtype"])).removeprefix("torch."),
        )

    async def aclose(self) -> None:
        """Ends vLLM's processes and frees the thread."""
        await super().aclose()
        if self._engine is not None:
            self._engine.close()
            self._engine = None
