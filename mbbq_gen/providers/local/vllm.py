"""Local models through vLLM, in this process: `vllm:NAME`; needs vLLM and a suitable GPU.

Prompts, system message, stop tokens and responses are the same as with `transformers:`. The text depends on the other
requests in a batch, which vLLM composes dynamically, so that results are almost but not fully reproducible.

vLLM logs through Python's logging, and its processes write to the standard streams that they inherit. Both go to a
file: the standard streams are redirected while the engine starts, vLLM's loggers afterwards.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import JsonValue
from transformers import GenerationConfig

from mbbq_gen.core.errors import ProviderError
from mbbq_gen.core.files import cache_directory
from mbbq_gen.core.records import Request, Response
from mbbq_gen.providers.base import ExecutionContext
from mbbq_gen.providers.local.decoding import Completion, DecodingPrompt, DecodingSettings, finish
from mbbq_gen.providers.local.files import first_line
from mbbq_gen.providers.local.model import LocalModel, LoglikelihoodScorer, decoding_settings, format_of
from mbbq_gen.providers.local.options import NOT_NUMBERS, VLLMOptions
from mbbq_gen.providers.local.provider import TransformersProvider


class Engine:
    """A `vllm.LLM`, which batches prompts itself and writes its output to a log file."""

    name = "vllm"

    def __init__(self, model: str, log: Path, batch_size: int) -> None:
        """`model`: its name in messages. Creates the folder of the log if it is missing."""
        self._model, self.log, self.batch_size = model, log.absolute(), batch_size
        self.llm: Any = None
        self.settings: DecodingSettings
        """Set when the tokenizer is loaded."""
        with suppress(OSError):
            self.log.parent.mkdir(parents=True, exist_ok=True)

    def start(self, location: str, arguments: Mapping[str, Any]) -> None:
        """Loads the model; raises ProviderError if vLLM fails."""
        with self._one_line("can't load it"), self._streams_to_log():
            from vllm import LLM

            self.llm = LLM(model=location, **arguments)
        logger = logging.getLogger("vllm")
        handler = logging.FileHandler(self.log, encoding="utf-8", delay=True)
        handler.setFormatter(logging.Formatter("%(levelname)s %(asctime)s %(name)s: %(message)s"))
        logger.handlers, logger.propagate = [handler], False

    def decode(self, prompts: Sequence[DecodingPrompt], is_cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """Yields a completion of each prompt, ordered by shared prefixes; stops between batches if cancelled."""
        from vllm import SamplingParams

        settings, is_sampled = self.settings, self.settings.temperature > 0
        waiting = iter(sorted(prompts, key=lambda prompt: prompt.tokens))
        while not is_cancelled() and (group := list(islice(waiting, self.batch_size))):
            started = time.perf_counter()
            parameters = [
                SamplingParams(
                    temperature=settings.temperature,
                    top_p=settings.top_p if is_sampled else 1.0,
                    top_k=settings.top_k if is_sampled else 0,
                    min_p=settings.min_p if is_sampled else 0.0,
                    repetition_penalty=settings.repetition_penalty,
                    presence_penalty=settings.presence_penalty,
                    frequency_penalty=settings.frequency_penalty,
                    seed=prompt.seed % 2**31 if is_sampled else None,
                    max_tokens=prompt.limit,
                    stop_token_ids=sorted(settings.stop_tokens),
                )
                for prompt in group
            ]
            outputs = self._generate([prompt.tokens for prompt in group], parameters)
            elapsed = time.perf_counter() - started
            for prompt, output in zip(group, outputs, strict=True):
                found = output.outputs[0]
                if found.finish_reason not in ("stop", "length"):
                    raise ProviderError(f"vLLM ended the answer: {found.finish_reason}")
                yield finish(prompt, found.token_ids, settings.stop_tokens, elapsed)

    def iterate_scores(
        self, prompts: list[list[int]], answers: list[list[list[int]]]
    ) -> Iterator[tuple[int, list[float]]]:
        """As `prefix_cache.iterate_scores`: yields the number of each prompt and the sums of its answers.

        vLLM does not use its prefix cache if log-probabilities of a prompt are requested.

        Raises:
            ProviderError: the engine returns no log-probability for a token, or NaN.
        """
        from vllm import SamplingParams

        sequences = iter([(n, prompts[n], answer) for n, given in enumerate(answers) for answer in given])
        # at least one token must be generated; the prompt's own token is always among those returned
        parameters = SamplingParams(temperature=0.0, max_tokens=1, prompt_logprobs=1, detokenize=False)
        found: list[list[float]] = [[] for _ in prompts]
        while group := list(islice(sequences, self.batch_size)):
            outputs = self._generate([[*prompt, *answer] for _, prompt, answer in group], parameters)
            for (number, prompt, answer), output in zip(group, outputs, strict=True):
                entries = output.prompt_logprobs[len(prompt) :]
                try:
                    total = sum(float(entry[token].logprob) for entry, token in zip(entries, answer, strict=True))
                except (KeyError, TypeError, ValueError) as error:
                    raise ProviderError("vLLM does not tell how likely each token of a prompt is") from error
                if math.isnan(total):
                    raise ProviderError(NOT_NUMBERS)
                found[number].append(total)
        yield from enumerate(found)

    def _generate(self, prompts: Iterable[Sequence[int]], parameters: Any) -> Any:
        """The outputs for prompts of tokens; raises ProviderError if the engine fails."""
        with self._one_line("failed"):
            listed = [{"prompt_token_ids": list(tokens)} for tokens in prompts]
            return self.llm.generate(listed, parameters, use_tqdm=False)

    def close(self) -> None:
        """Ends the engine's processes; errors are in the log."""
        core = getattr(getattr(self.llm, "llm_engine", None), "engine_core", None)
        if core is not None:
            with self._streams_to_log(), suppress(Exception):
                core.shutdown()
        for handler in logging.getLogger("vllm").handlers:
            handler.close()

    @contextmanager
    def _one_line(self, failure: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # vLLM starts processes and compiles kernels, so any error is possible
            raise ProviderError(f"{self._model}: vLLM {failure}: {first_line(error)}; its log: {self.log}") from error

    @contextmanager
    def _streams_to_log(self) -> Iterator[None]:
        """Redirects the standard streams of this process and its child processes to the log file."""
        sys.stdout.flush()
        sys.stderr.flush()
        saved = [(number, os.dup(number)) for number in (1, 2)]
        try:
            with self.log.open("ab", buffering=0) as file:
                for number, _ in saved:
                    os.dup2(file.fileno(), number)
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, copy in saved:
                os.dup2(copy, number)
                os.close(copy)


LOG_NAME = "vllm.log"
_ENGINE_OPTIONS = {"seed", "trust_remote_code", "tensor_parallel_size", "gpu_memory_utilization", "max_model_len"}


class VLLMProvider(TransformersProvider):
    """A local model in vLLM; it is loaded at the first request."""

    kind = "vllm"
    options_class = VLLMOptions
    aliases = ()
    packages = ("vllm", "torch", "transformers", "tokenizers")
    _engine: Engine | None = None

    @property
    def dtype(self) -> str:
        """The requested number type, else that of the weights, since vLLM converts float32 to bfloat16."""
        dtype: str = self._options.dtype
        return dtype if dtype != "auto" else self.source.stored_dtype() or "auto"

    @property
    def batch_dependent(self) -> bool:
        """Always true, since vLLM composes batches dynamically."""
        return True

    def batch(self) -> dict[str, JsonValue]:
        """Options of vLLM; part of the settings."""
        options = self._options
        found = options.model_dump(include={"tensor_parallel_size", "max_model_len", "batch_size", "engine"})
        return {name: value for name, value in found.items() if value not in (None, {})}

    async def generate(self, requests: Iterable[Request], context: ExecutionContext) -> AsyncGenerator[Response, None]:
        """As `transformers:`; vLLM's output is written to `vllm.log` in the run folder."""
        if self._engine is None:
            log = (context.folder or cache_directory()) / LOG_NAME
            self._engine = Engine(f"vllm:{self.source.name}", log, self._options.batch_size)
            context.notify(f"{self.name}: vLLM loads the model; its log: {self._engine.log}")
        async with aclosing(super().generate(requests, context)) as responses:
            async for response in responses:
                yield response

    def load(self) -> LocalModel:
        """The model in vLLM's memory; raises ProviderError if it can't be loaded."""
        source, options, engine = self.source, self._options, self._engine
        assert engine is not None
        given = options.model_dump(include=_ENGINE_OPTIONS)
        given |= {"dtype": self.dtype, "enable_prefix_caching": True, "revision": source.revision}
        arguments = {key: value for key, value in given.items() if value is not None}
        engine.start(source.location, arguments | options.engine)
        try:
            configured = GenerationConfig.from_pretrained(source.location, revision=source.revision)
        except (OSError, ValueError):  # the model has no generation configuration
            configured = GenerationConfig()
        formatter = format_of(engine.llm.get_tokenizer(), f"vllm:{source.name}", options)
        engine.settings = decoding_settings(options, configured, formatter, batch_size=options.batch_size)
        configuration = getattr(getattr(engine.llm, "llm_engine", None), "model_config", None)
        context = getattr(configuration, "max_model_len", options.max_model_len)
        return LocalModel(
            source.name,
            formatter,
            options,
            engine.settings,
            static=engine,
            scorer=LoglikelihoodScorer(source.name, formatter, engine.iterate_scores, "engine", context),
            context=context,
            dtype=str(getattr(configuration, "dtype", self.dtype)).removeprefix("torch."),
        )

    async def aclose(self) -> None:
        """Ends vLLM's processes and the model's thread."""
        await super().aclose()
        if self._engine is not None:
            self._engine.close()
            self._engine = None
