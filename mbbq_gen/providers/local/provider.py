"""Local models through transformers: a hub id or a folder.

Messages are rendered by the model's chat template (`chat_format`) and answered in batches (`decoding`). Special tokens
are removed from texts. Decoding is greedy by default; of the model's generation configuration only the stop tokens are
used, not its sampling or penalties.

In float32 the text does not depend on the batch, so batch size, threads and device are stored as runtime information.
With shorter number types it does, so they are settings, and a text is reproducible only with the same batches on the
same kind of machine.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from functools import cached_property
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Self, get_args

from pydantic import JsonValue

from mbbq_gen.core.files import PackPaths, cache_directory
from mbbq_gen.core.reasoning import ReasoningSettings
from mbbq_gen.core.records import Message, Method, Request, Response
from mbbq_gen.providers.base import NEUTRAL_SAMPLING, Capabilities, ExecutionContext, Provider, request_key, versions_of
from mbbq_gen.providers.http.servers import storable_facts
from mbbq_gen.providers.local.chat_format import chat_template, template_reasoning
from mbbq_gen.providers.local.files import SMOLLM2, ModelSource, check_local_name, find_source, smollm2_source
from mbbq_gen.providers.local.options import DevicePlan, TransformersOptions, find_device

if TYPE_CHECKING:
    from mbbq_gen.providers.local.model import LocalModel

_WINDOW = 4096
"""Number of requests that are sorted and answered together: many share prefixes, and memory is bounded."""


class TransformersProvider(Provider):
    """A local model in transformers; it is loaded at the first request."""

    kind = "transformers"
    options_class = TransformersOptions

    def __init__(self, model: str, options: Any = None) -> None:
        self.model = model
        self._options: TransformersOptions = options or TransformersOptions()
        self._executor: ThreadPoolExecutor | None = None
        self._loaded: LocalModel | None = None
        self._loaded_info: dict[str, JsonValue] = {}

    @classmethod
    def open(cls, model: str, options: Any, resources: PackPaths) -> Self:
        """The provider for a hub id, a folder or SmolLM2; nothing is loaded yet."""
        if model != SMOLLM2:
            check_local_name(model)
        return cls(model, options)

    @cached_property
    def source(self) -> ModelSource:
        """The model's files."""
        if self.model == SMOLLM2:
            return smollm2_source(cache_directory())
        return find_source(self.model, self._options.revision)

    @cached_property
    def _device(self) -> DevicePlan:
        return find_device(self._options, lambda: self.source.stored_dtype())  # noqa: PLW0108  # found when needed

    @property
    def _batch_dependent(self) -> bool:
        """Whether rounding is so coarse that a text may depend on its batch."""
        return self._device.dtype != "float32"

    @property
    def capabilities(self) -> Capabilities:
        """All methods and reasoning."""
        return Capabilities(
            methods=frozenset(get_args(Method)), reasoning=True, local=True, batch_dependent=self._batch_dependent
        )

    @cached_property
    def settings(self) -> dict[str, JsonValue]:
        """Everything that affects the text: model files, prompt format, sampling, and perhaps the batch."""
        options = self._options
        settings: dict[str, JsonValue] = {
            **self.source.identity,
            "dtype": self._device.dtype,
            "max_tokens": options.max_tokens,
            "temperature": options.temperature,
            "prompt_format": options.prompt_format,
        }
        if options.template_args:
            settings["template_args"] = options.template_args
        given, is_own = options.given_sampling, options.sampling == "server"
        if is_own:
            settings["sampling"] = "server"
        if options.temperature > 0:
            settings |= {"top_p": options.top_p or 1.0, "seed": options.seed}
        else:  # these have no effect on greedy decoding
            given = {name: value for name, value in given.items() if name not in ("top_p", "top_k", "min_p")}
        settings |= {name: value for name, value in given.items() if is_own or value != NEUTRAL_SAMPLING[name]}
        return {**settings, **self._batch()} if self._batch_dependent else settings

    def runtime_info(self) -> dict[str, JsonValue]:
        """Device, batch and versions; once the model is loaded, also its facts."""
        versions = versions_of(("torch", "transformers", "tokenizers"))
        if (model := self._loaded) is not None:
            known = {"version": versions[self.kind], "model_file": model.name, "dtype": self._device.dtype}
            known |= {"context_length": model.context, "sampling_defaults": dict(model.decoding.configured)}
            known["chat_template"] = getattr(model.formatter.tokenizer, "chat_template", None)
            self._loaded_info = {**model.runtime_info(), "server": {"name": self.kind, **storable_facts(known)}}
        facts = {**self._batch(), "batch_dependent": self._batch_dependent, "versions": versions}
        return {**facts, **self._loaded_info}

    def _batch(self) -> dict[str, JsonValue]:
        """Device and batch sizes; part of the settings if the text depends on the batch."""
        device = self._device
        return {
            "device": device.name,
            "batch_size": device.batch_size,
            "read_tokens": device.read_tokens,
            "threads": device.threads,
        }

    def request_key(self, messages: Sequence[Message], prompt_id: str) -> str:
        """The key, with the model's own name instead of its path."""
        return request_key(self.kind, self.source.name, self.settings, messages)

    def reasoning_settings(self, level: str) -> ReasoningSettings:
        """The chat template's variables for a reasoning effort; raises UsageError if it has none."""
        trusted = self._options.trust_remote_code
        tokenizer = self.source.load("tokenizer", "AutoTokenizer", trust_remote_code=trusted)
        return template_reasoning(self.name, chat_template(tokenizer), level)

    async def generate(self, requests: Iterable[Request], context: ExecutionContext) -> AsyncGenerator[Response, None]:
        """As `Provider`, in windows of requests; closing the generator stops after the current step."""
        for is_text, group in groupby(requests, lambda request: request.prompt.method == "generate"):
            while window := list(islice(group, _WINDOW)):
                async with aclosing(self._respond(window, context, is_text=is_text)) as responses:
                    async for response in responses:
                        yield response

    async def _respond(
        self, window: Sequence[Request], context: ExecutionContext, *, is_text: bool
    ) -> AsyncGenerator[Response, None]:
        """Yields the responses as the model's thread computes them, one window at a time."""
        loop, is_closed = asyncio.get_running_loop(), threading.Event()
        arrived: asyncio.Queue[Response | BaseException | None] = asyncio.Queue()

        def serve() -> None:
            failure: BaseException | None = None
            try:
                if self._loaded is None:
                    self._loaded = self.load()
                    decoding = self._loaded.decoding
                    stated = decoding.configured.items()
                    ignored = [f"{name} {value}" for name, value in stated if getattr(decoding, name, None) != value]
                    if ignored:
                        line = f"{self.name}: not used of its generation_config.json: {', '.join(ignored)}"
                        loop.call_soon_threadsafe(context.notify, line)
                respond = self._loaded.answer if is_text else self._loaded.scorer.score
                for response in respond(window, is_closed.is_set):
                    loop.call_soon_threadsafe(arrived.put_nowait, response)
            except BaseException as error:  # raised again by the consumer below
                failure = error
            loop.call_soon_threadsafe(arrived.put_nowait, failure)

        if self._executor is None:  # one thread, since torch stores its thread count per thread
            self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="mbbq-model")
        work = self._executor.submit(serve)
        try:
            while isinstance(response := await arrived.get(), Response):
                yield response
            if response is not None:
                raise response
        finally:
            is_closed.set()
            if not work.cancel():
                await asyncio.wrap_future(work)

    async def aclose(self) -> None:
        """Releases the model and its thread."""
        if self._loaded is not None:
            self.runtime_info()
            self._loaded = None
        if self._executor is not None:
            self._executor.shutdown(wait=True)
            self._executor = None

    def load(self) -> LocalModel:
        """The model in memory; raises ProviderError if it can't be loaded."""
        from mbbq_gen.providers.local.model import load_model

        return load_model(self.source, self._device, self._options)
