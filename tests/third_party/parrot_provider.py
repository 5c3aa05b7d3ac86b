"""A provider as a third party writes it: the one of docs/guides/add-a-provider.md."""

from collections.abc import AsyncGenerator, Iterable
from typing import Self

from pydantic import Field, JsonValue

from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import ContinuationScore, Request, Response
from mbbq_gen.providers.base import Capabilities, ExecutionContext, Provider, ProviderOptions


class ParrotOptions(ProviderOptions):
    times: int = Field(default=1, ge=1, description="how often it says it")


class ParrotProvider(Provider):
    kind = "parrot"
    options_class = ParrotOptions
    capabilities = Capabilities(methods=frozenset({"generate", "label-loglikelihood"}))

    def __init__(self, model: str, times: int) -> None:
        self.model, self.times = model, times

    @classmethod
    def open(cls, model: str, options: ParrotOptions, resources: PackPaths) -> Self:
        return cls(model, options.times)

    @property
    def settings(self) -> dict[str, JsonValue]:  # whatever shapes the text: part of every request key
        return {"times": self.times}

    async def generate(self, requests: Iterable[Request], context: ExecutionContext) -> AsyncGenerator[Response, None]:
        for request in requests:
            prompt = request.prompt
            text = " ".join([self.model] * self.times) if prompt.method == "generate" else None
            scores = tuple(  # how likely each continuation is: the label that it always says, and no other
                ContinuationScore.of(answer, 0.0 if answer.text == self.model else -10.0, 1)
                for answer in prompt.continuations
            )
            key = request.request_key
            yield Response(request_key=key, text=text, scores=scores or None, finish_reason="stop", model=self.model)
