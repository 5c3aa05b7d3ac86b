"""Asks servers of one's own what they are, and one question: for `doctor --base-url URL` and `init`."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

from pydantic import JsonValue

from mbbq_gen.benchmarks.registry import load_benchmark
from mbbq_gen.core.errors import MbbqGenError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import FrozenModel, Request
from mbbq_gen.languages.prompt_pack import read_prompts
from mbbq_gen.prompts.render import PromptSettings, render_prompt
from mbbq_gen.providers.api.openai import OpenAIProvider
from mbbq_gen.providers.base import ExecutionContext
from mbbq_gen.providers.http.servers import known_servers
from mbbq_gen.providers.registry import open_provider


class ServerReport(FrozenModel):
    """A server, a model of it, and its answer to one question."""

    base_url: str
    """As `run` takes it."""
    server: str
    facts: dict[str, JsonValue]
    sampling_sent: dict[str, JsonValue]
    unpinned: str | None
    models: tuple[str, ...]
    model: str | None
    """The model; None if there are several and none was named."""
    answer: str | None = None
    error: str | None = None
    seconds: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None

    @property
    def model_option(self) -> str:
        """The model as kind:model; Ollama has a kind of its own, because its OpenAI-compatible API cuts prompts."""
        name = self.model or (self.models[0] if self.models else "NAME")
        return f"{'ollama' if self.server == 'ollama' else 'openai'}:{name}"

    @property
    def command(self) -> str:
        """The `run` command to type."""
        address = "" if self.server == "ollama" else f" --base-url {self.base_url}"
        return f"mbbq-gen run my-run --model {self.model_option}{address} --benchmark starter"


def check_server(base_url: str, model: str | None, model_args: Mapping[str, Any], resources: PackPaths) -> ServerReport:
    """What a server is, and its answer to one question.

    `base_url`: of its OpenAI-compatible API, with or without `/v1`; `model`: None for the only one that it lists;
    `model_args`: further options of `openai:`. UsageError for a wrong option, ProviderError if it can't be reached.
    """
    given = {"max_tokens": 64, "patience": 0.0, **model_args, "base_url": base_url}
    return asyncio.run(_check(model, given, resources, with_question=True))


def find_servers(resources: PackPaths, ports: Collection[int] | None = None) -> list[ServerReport]:
    """The servers on ports of this machine (None: the usual ones) that list models; no question is sent."""

    async def look(port: int) -> ServerReport | None:
        given = {"patience": 0.0, "timeout": 5.0, "attempts": 1, "base_url": f"http://127.0.0.1:{port}"}
        with suppress(MbbqGenError):
            return await _check(None, given, resources, with_question=False)
        return None

    async def look_at_all() -> list[ServerReport | None]:
        usual = sorted({entry.port for entry in known_servers()} - {0})
        return await asyncio.gather(*map(look, usual if ports is None else ports))

    return [report for report in asyncio.run(look_at_all()) if report is not None and report.models]


async def _check(
    model: str | None, given: Mapping[str, Any], resources: PackPaths, *, with_question: bool
) -> ServerReport:
    provider = open_provider(f"openai:{model or 'any'}", given, resources)
    assert isinstance(provider, OpenAIProvider)
    answer: dict[str, Any] = {}
    try:
        names = await provider.list_models()
        chosen = model or (names[0] if len(names) == 1 else None)
        if chosen is not None and with_question:
            provider.model = chosen
            answer = await _ask(provider, resources)
        facts: Any = provider.runtime_info()
    finally:
        await provider.aclose()
    server = dict(facts.get("server", {"name": "unknown"}))
    return ServerReport(
        base_url=provider.api_url,
        server=server.pop("name"),
        facts=server,
        sampling_sent=facts.get("sampling_sent", {}),
        unpinned=provider.unpinned,
        models=tuple(names),
        model=chosen,
        **answer,
    )


async def _ask(provider: OpenAIProvider, resources: PackPaths) -> dict[str, Any]:
    """The answer to the first question of `starter`, with its time and tokens, or the error."""
    instance = next(load_benchmark("starter", languages=["en"], splits=["bias"], resources=resources))
    variant = next(found for found in read_prompts(resources, "en").variant if found.id == "letters")
    prompt = render_prompt(instance, PromptSettings(variant), (0, 1, 2))
    key = provider.request_key(prompt.messages, prompt.prompt_id)
    request = Request(request_key=key, messages=prompt.messages, prompt=prompt, instance=instance)
    try:
        response = await provider.learn(request, ExecutionContext())
    except MbbqGenError as error:
        return {"error": str(error)}
    counts = {name: getattr(response.usage, name) for name in ("input_tokens", "output_tokens")}
    return {"answer": response.text, "error": response.error, "seconds": response.latency_s, **counts}
