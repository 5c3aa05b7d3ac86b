"""Models on this machine, through transformers: a hub id, a folder or a GGUF file.

What is asked goes through the model's chat template (`chat_prompts`), is answered in batches (`decoding`), and comes
back without special tokens, else untouched. Greedy by default; whatever sampling or penalties the model's own
generation configuration asks for is not used, only its stop tokens are.

In float32 the text does not depend on the batch, so batch size, threads and device are facts of the run. In the shorter
types it does, so there they are settings, and the text is the same again only where the same questions are asked
together on the same kind of machine.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import JsonValue

from mbbq_gen.providers.base import ProviderOptions, request_key
from mbbq_gen.providers.chat_prompts import template_thinking
from mbbq_gen.providers.joint_work import JointWork, More, Stop, Work
from mbbq_gen.providers.local_options import Device, LocalOptions, TransformersOptions, find_device
from mbbq_gen.providers.local_source import ModelSource, check_installed, check_named, find_source
from mbbq_gen.reasoning import Thinking, room_for
from mbbq_gen.records import Message, Method, Request, Response
from mbbq_gen.resources import Resources

if TYPE_CHECKING:
    from mbbq_gen.providers.local_model import LocalModel

INSTALL = "pip install 'mbbq-gen[local]'"

_WINDOW = 4096
"""Requests that are sorted and answered together: enough for prompts to find their like, and bounded in memory."""


class TransformersProvider:
    """Asks a model on this machine; loads it when the first question comes."""

    kind: ClassVar[str] = "transformers"
    packages: ClassVar[tuple[str, ...]] = ("torch", "transformers", "tokenizers")
    """Whose versions the manifest names."""
    options_class: ClassVar[type[ProviderOptions]] = TransformersOptions
    methods: ClassVar[frozenset[Method]] = frozenset({"likelihood", "labels"})
    runs_here: ClassVar[bool] = True
    """Asking it costs time on this machine, which `plan --probe` tells."""

    def __init__(
        self, model: str, options: LocalOptions | None = None, source: Callable[[], ModelSource] | None = None
    ) -> None:
        """`source` tells where the model is, when that is first needed; by default its name tells."""
        self.model = model
        self._options = options or TransformersOptions()
        self._find_source = source or (lambda: find_source(model, self._options.revision))
        self._thread = JointWork()
        self._loaded: LocalModel | None = None
        self._found_out: dict[str, JsonValue] = {}

    @classmethod
    def open(cls, model: str, options: ProviderOptions, resources: Resources) -> Self:
        """The provider for a hub id, a folder or a GGUF file; nothing is loaded yet."""
        assert isinstance(options, TransformersOptions)
        needs_gguf = ("gguf", "accelerate") if model.endswith(".gguf") else ()
        check_installed(f"transformers:{model}", ("torch", "transformers", *needs_gguf), INSTALL)
        check_named(model, ["smollm2"])
        return cls(model, options)

    @cached_property
    def source(self) -> ModelSource:
        """Where the model is."""
        return self._find_source()

    @cached_property
    def _device(self) -> Device:
        assert isinstance(self._options, TransformersOptions)
        return find_device(self._options)

    @property
    def dtype(self) -> str:
        """The number type."""
        return self._device.dtype

    @property
    def text_depends_on_batch(self) -> bool:
        """Whether the neighbours in a batch may change a text."""
        return self._device.text_depends_on_batch

    @cached_property
    def settings(self) -> dict[str, JsonValue]:
        """What shapes the text: the model's files, how it is asked and sampled; the batch too where dtype is short."""
        options = self._options
        settings: dict[str, JsonValue] = {
            **self.source.identity,
            "dtype": self.dtype,
            "max_new_tokens": options.max_new_tokens,
            "temperature": options.temperature,
            "system": options.system,
            "prompt_format": options.prompt_format,
        }
        if options.template_args:
            settings["template_args"] = options.template_args
        if options.temperature > 0:
            settings |= {"top_p": options.top_p, "seed": options.seed}
        if self.text_depends_on_batch:
            settings |= self.batch()
        return settings

    def facts(self) -> dict[str, JsonValue]:
        """Device, batch, versions; once the model is loaded, also how it turned out to be asked."""
        return {
            **self.batch(),
            "text_depends_on_batch": self.text_depends_on_batch,
            "versions": {name: _version(name) for name in self.packages},
            **self._used(),
        }

    def _used(self) -> dict[str, JsonValue]:
        """How the model turned out to be asked; stays known after it was freed."""
        if self._loaded is not None:
            self._found_out = self._loaded.facts()
        return self._found_out

    def batch(self) -> dict[str, JsonValue]:
        """What questions are answered together, and where; it shapes the text where that depends on the batch."""
        assert isinstance(self._options, TransformersOptions)
        device = self._device
        return {
            "device": device.name,
            "batch_size": device.batch_size,
            "read_tokens": device.read_tokens,
            "threads": device.threads,
            "decoding": self._options.decoding,
        }

    def request_key(self, messages: Sequence[Message], presentation_id: str) -> str:
        """The key; the same messages are the same request, whatever presentation they come from."""
        return request_key(self.kind, self.source.name, self.settings, messages)

    def thinking(self, level: str) -> Thinking:
        """The variables of the model's chat template that tell the level.

        Raises:
            UsageError: where the template has none for it; of a GGUF file that is seen when it is loaded.
        """
        name = f"{self.kind}:{self.model}"
        if self.source.gguf_file is not None:
            return Thinking(room=room_for(level))
        self.source.prepare()
        return template_thinking(name, self.source.chat_template(), level)

    async def generate(self, requests: Iterable[Request]) -> AsyncGenerator[Response, None]:
        """The responses as they finish. Closing the generator stops the work after the current step.

        Raises:
            ProviderError: where the model can't be loaded or asked as the options say.
        """
        joins = not self.text_depends_on_batch
        async with aclosing(self._respond(requests, lambda model: model.answer, joins=joins)) as responses:
            async for response in responses:
                yield response

    async def score_options(self, requests: Iterable[Request]) -> AsyncGenerator[Response, None]:
        """How likely the model finds the answers of each request, as they are computed.

        Raises:
            ProviderError: where the model can't be loaded or asked as the options say.
        """
        async with aclosing(self._respond(requests, lambda model: model.score, joins=False)) as responses:
            async for response in responses:
                yield response

    async def _respond(
        self, requests: Iterable[Request], work_of: Callable[[LocalModel], Work], *, joins: bool
    ) -> AsyncGenerator[Response, None]:
        """What the model makes of the requests, a window of them after another, on its thread."""

        def work(window: Sequence[Request], is_closed: Stop, more: More) -> Iterator[Response]:
            return work_of(self._model_in_memory())(window, is_closed, more)

        remaining = iter(requests)
        while window := list(islice(remaining, _WINDOW)):
            async with aclosing(self._thread.respond(window, work, joins=joins)) as responses:
                async for response in responses:
                    yield response

    async def aclose(self) -> None:
        """Frees the model and its thread."""
        self._used()
        self._loaded = None
        self._thread.close()

    def _model_in_memory(self) -> LocalModel:
        """The model; loaded when it is first asked for."""
        if self._loaded is None:
            self._loaded = self.load()
        return self._loaded

    def load(self) -> LocalModel:
        """The model in memory; raises ProviderError where it can't be loaded."""
        from mbbq_gen.providers.local_model import load_model

        assert isinstance(self._options, TransformersOptions)
        return load_model(self.source, self._device, self._options)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
