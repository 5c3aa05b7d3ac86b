"""What services take to say how much a model thinks: each service's words for the levels of `mbbq_gen.core.reasoning`.

    OpenAI, Azure, Groq, xAI, Mistral    reasoning_effort
    OpenRouter                           reasoning: {effort | max_tokens | enabled}
    Together                             reasoning: {enabled}, reasoning_effort
    DeepSeek                             thinking: {type}, reasoning_effort
    vLLM, SGLang, llama.cpp              chat_template_kwargs: {enable_thinking, thinking}, reasoning_effort
    Anthropic                            thinking: {type, budget_tokens}, output_config: {effort}
    Gemini                               thinkingConfig: {thinkingBudget | thinkingLevel}

What a model is known to refuse is refused here, before anything is sent; of models that are not known, the service's
own refusal ends the run. Sources: the services' references, as of the dates in docs/reasoning.md.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from pydantic import Field, JsonValue, field_validator

from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.reasoning import ReasoningSettings, reasoning_token_allowance, refusal, tokens_of
from mbbq_gen.core.tables import UnreadableError, json_value
from mbbq_gen.providers.base import JsonTable, ProviderOptions
from mbbq_gen.providers.http.credentials import ENV_VARIABLE, is_lookalike
from mbbq_gen.providers.http.replies import MOST_BYTES
from mbbq_gen.providers.http.servers import ReasoningParameters

_SAMPLING: Final = ("temperature", "top_p")
_SWITCH_EFFORTS: Final = ("low", "high")
"""DeepSeek takes minimal for low, and medium for high: as levels of a run they would be the same one twice."""
_CLAUDE_BUDGET: Final = re.compile(r"claude-(?:3-7|(?:opus|sonnet|haiku)-4(?:-[0-5](?!\d)|-\d{8}|@|$)|haiku-4)")
"""Models that take a budget, and no effort."""
_CLAUDE_BOTH: Final = re.compile(r"claude-(?:opus|sonnet)-4-6")
_CLAUDE_BETWEEN: Final = re.compile(r"claude-sonnet-5-5")
"""Where thinking between tools, of which we have none, is the least."""
_LEAST_BUDGET: Final = 1024
_GEMINI_BUDGET: Final = re.compile(r"gemini-2\.5")
_GEMINI_BUDGETS: Final = {"pro": (128, 32_768), "flash-lite": (512, 24_576), "": (1, 24_576)}
"""What is in a model's name → the fewest and the most tokens that 2.5 thinks with."""


@cache
def _refused_levels() -> list[dict[str, Any]]:
    """The rows of `reasoning.toml`."""
    text = Path(__file__).with_name("reasoning.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)["refused"]  # type: ignore[no-any-return]


def _thinks(api: str, name: str, model: str, level: str) -> bool:
    """Whether a model thinks at all; raises UsageError for a level that it is known to refuse."""
    for row in _refused_levels():
        if row["api"] != api or not re.search(row.get("model", ""), model):
            continue
        if re.fullmatch(row["levels"], level):
            raise refusal(name, level, row["why"])
        if not row.get("thinks", True):
            return False
    return True


def openai_reasoning(name: str, model: str, level: str, *, at_responses: bool) -> ReasoningSettings:
    """What a level comes to at OpenAI or Azure; temperature is left out where a model thinks at all.

    Raises:
        UsageError: where a model of OpenAI's is known not to take it.
    """
    if not _thinks("openai", name, model, level):
        return ReasoningSettings()
    sent: dict[str, JsonValue] = {"reasoning_effort": level}
    if at_responses:
        sent = {"reasoning": {"effort": level} if level == "none" else {"effort": level, "summary": "auto"}}
    return ReasoningSettings(sent=sent, left_out=_SAMPLING, room=reasoning_token_allowance(level))


def server_reasoning(name: str, model: str, level: str, by: ReasoningParameters) -> ReasoningSettings:
    """What a level comes to at another server that speaks OpenAI's language.

    Raises:
        UsageError: where it has no words for the level.
    """
    tokens, is_named = tokens_of(level), level in ("none", "default")
    sent: dict[str, JsonValue] = {"reasoning_effort": level}
    if by == "openrouter":
        effort: dict[str, JsonValue] = {"enabled": level == "default"} if is_named else {"effort": level}
        sent = {"reasoning": effort if tokens is None else {"max_tokens": tokens}}
    elif by == "switch":
        if not is_named and level not in _SWITCH_EFFORTS:
            others = "another effort would be taken for one of these"
            raise refusal(name, level, f"takes none, default, low or high; {others}")
        if level == "none" and "reasoner" in model:
            raise refusal(name, level, "always thinks; name the model that need not, or --reasoning-effort default")
        switch: dict[str, JsonValue] = {"thinking": {"type": "disabled" if level == "none" else "enabled"}}
        sent = switch if is_named else switch | sent
    elif by == "template":
        if tokens is not None:
            instead = "name none, default, low, medium or high, or --model-arg reasoning_by=…"
            raise refusal(name, level, f"takes no number of tokens; {instead}")
        switches: dict[str, JsonValue] = {"enable_thinking": level != "none", "thinking": level != "none"}
        sent = {"chat_template_kwargs": switches if is_named else switches | sent, **({} if is_named else sent)}
    elif by == "together" and is_named:  # a switch for models with a switch for reasoning
        sent = {"reasoning": {"enabled": level == "default"}}
    elif by == "groq" and level == "default":  # models that have no efforts think unless it is switched off
        sent = {}
    elif tokens is not None or level == "default":
        raise refusal(name, level, "takes an effort: none, low, medium or high, as the model has them")
    left_out = _SAMPLING if by == "switch" else ()
    return ReasoningSettings(sent=sent, left_out=left_out, room=reasoning_token_allowance(level))


def claude_reasoning(name: str, model: str, level: str) -> ReasoningSettings:
    """What a level comes to at a Claude model: a budget for the older ones, an effort for the newer.

    Raises:
        UsageError: where the model is known not to take it.
    """
    tokens, room = tokens_of(level), reasoning_token_allowance(level)
    if not _thinks("anthropic", name, model, level):
        return ReasoningSettings()
    if level == "none":
        least = "between_tools" if _CLAUDE_BETWEEN.search(model) else "disabled"
        return ReasoningSettings(sent={"thinking": {"type": least}}, left_out=_SAMPLING)
    if tokens is not None and tokens < _LEAST_BUDGET:
        raise refusal(name, level, f"thinks with {_LEAST_BUDGET:,} tokens or more")
    sent: dict[str, JsonValue] = {"thinking": {"type": "adaptive", "display": "summarized"}}
    if _CLAUDE_BUDGET.search(model) or (tokens is not None and _CLAUDE_BOTH.search(model)):
        sent = {"thinking": {"type": "enabled", "budget_tokens": room}}
    elif tokens is not None:
        raise refusal(name, level, "takes an effort, no number of tokens: default, low, medium or high")
    elif level != "default":
        sent["output_config"] = {"effort": level}
    return ReasoningSettings(sent=sent, left_out=_SAMPLING, room=room)


def gemini_reasoning(name: str, model: str, level: str) -> ReasoningSettings:
    """The setting of a level for a Gemini model: a budget for 2.5, a level for 3 and later; with thought summaries.

    Raises:
        UsageError: where the model is known not to take it.
    """
    if not _thinks("gemini", name, model, level):
        return ReasoningSettings()
    config: dict[str, JsonValue] = {"thinkingLevel": level}
    if _GEMINI_BUDGET.search(model):
        tokens = tokens_of(level)
        least, most = next(bounds for family, bounds in _GEMINI_BUDGETS.items() if family in model)
        if tokens is not None and not least <= tokens <= most:
            raise refusal(name, level, f"thinks with {least:,} to {most:,} tokens")
        config = {"thinkingBudget": -1 if level == "default" else reasoning_token_allowance(level)}
    if level != "none":
        config["includeThoughts"] = True
    return ReasoningSettings(sent={"thinkingConfig": config}, room=reasoning_token_allowance(level))


_SECRET_NAME: Final = re.compile(
    r"api.?key|authorization|passw|secret|credential|^(?:access|auth|bearer|hf|id|refresh|session|user)?_?token$",
    re.IGNORECASE,
)
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SECRET_HEADER: Final = re.compile(r"auth|key|token|secret|cookie|password|credential", re.IGNORECASE)
_OWN_HEADERS: Final = frozenset({"host", "content-length", "transfer-encoding", "connection"})
_OFF = "none"
"""What a command line says for a parameter that is not to be sent."""


class RemoteOptions(ProviderOptions):
    """The options that all models behind an API share."""

    max_tokens: int = Field(default=1024, ge=1, description="maximum tokens of an answer, reasoning included")
    temperature: float | None = Field(
        default=0.0, ge=0.0, le=2.0, description="temperature; 0: the likeliest token; none: the service's default"
    )
    top_p: float | None = Field(
        default=None, gt=0.0, le=1.0, description="nucleus sampling: share of the likeliest tokens"
    )
    system: Literal["default", "none"] = Field(
        default="default", description="both: only the run's own system message is sent"
    )
    extra: JsonTable = Field(default_factory=dict, description='more fields of the request body, such as {"top_k": 1}')
    base_url: str | None = Field(default=None, description="address of another server of this kind")
    api_key_env: str | None = Field(
        default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="environment variable that holds the key"
    )
    api_key_file: str | None = Field(default=None, description="file with the key; only its owner may have access")
    max_connections: int = Field(default=64, ge=1, le=4096, description="maximum concurrent requests")
    rpm: int | None = Field(default=None, ge=1, description="maximum requests per minute")
    tpm: int | None = Field(default=None, ge=1, description="maximum tokens per minute, input and output")
    attempts: int = Field(default=6, ge=1, le=50, description="attempts before a request counts as failed")
    timeout: float = Field(default=300.0, gt=0, description="seconds to wait for one response")
    patience: float = Field(
        default=600.0, ge=0, description="seconds to wait for a service that does not answer, or asks to wait"
    )
    max_answer_bytes: int = Field(
        default=MOST_BYTES, ge=1000, description="maximum bytes of a response; a longer one is cut and marked"
    )
    headers: JsonTable = Field(
        default_factory=dict,
        description='more headers, such as {"X-Title": "bias"}; write keys as $NAME, an environment variable',
    )

    may_change: ClassVar[frozenset[str]] = frozenset(
        {"api_key_env", "api_key_file", "max_connections", "rpm", "tpm", "attempts", "timeout", "patience"}
    )

    @field_validator("temperature", "top_p", mode="before")
    @classmethod
    def _read_none(cls, value: Any) -> Any:
        """A command line can't say None."""
        return None if value == _OFF else value

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, value: dict[str, Any]) -> dict[str, Any]:
        """Headers are written into the manifest as they are given: they must not carry a secret."""
        for name, text in value.items():
            if not _HEADER_NAME.fullmatch(name) or name.lower() in _OWN_HEADERS:
                raise ValueError(f"{name!r} can't be set")
            if not isinstance(text, str) or re.search(r"[\r\n\x00]", text) or not text.isascii():
                raise ValueError(f"{name}: give one line of plain text")
            reason = "looks like a key" if is_lookalike(text) else None
            if _SECRET_HEADER.search(name) and not ENV_VARIABLE.search(text):
                reason = "keys are not written down here"
            if reason is not None:
                raise ValueError(f"{name}: {reason}; put it into the environment and write $NAME")
        return value

    @field_validator("extra")
    @classmethod
    def _check_extra(cls, value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """What is sent is written into the manifest: it must not carry a secret."""
        for name in _names_in(value):
            if _SECRET_NAME.search(name):
                raise ValueError(f"holds {name!r}: leave keys out; they come from the environment or a key file")
        if is_lookalike(json.dumps(value)):
            raise ValueError("holds a key: leave it out; keys come from the environment or a key file")
        return value

    @field_validator("base_url")
    @classmethod
    def _check_address(cls, value: str | None) -> str | None:
        """An address is written into the manifest: it must not carry a secret."""
        fault = None if value is None else _address_fault(value)
        if fault is not None:
            raise ValueError(fault)
        return None if value is None else value.rstrip("/")


def _names_in(value: JsonValue) -> Iterator[str]:
    """All names in a JSON value, at any depth."""
    if isinstance(value, dict):
        yield from value
    for entry in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _names_in(entry)


def _address_fault(address: str) -> str | None:
    """What is wrong with an address, or None."""
    if not address.startswith(("http://", "https://")) or not address.split("/")[2]:
        return "write it as http://… or https://…"
    if "@" in address or "?" in address or is_lookalike(address):
        return "leave out passwords and queries; keys come from the environment or a key file"
    return None


def checked_address(address: str | None, where: str) -> str | None:
    """An address from the environment or a file, without a slash at its end.

    Raises:
        UsageError: where it is no address, or carries a secret.
    """
    if not address:
        return None
    fault = _address_fault(address)
    if fault is not None:
        raise UsageError(f"{where}: {fault}")
    return address.rstrip("/")


def structured_fields(kind: str, schema: Mapping[str, JsonValue], *, api: object = None) -> dict[str, JsonValue]:
    """The fields of a request body that ask for JSON of a schema; none where nothing is known for the kind.

    `api`: the provider's option of that name; OpenAI's responses API has a place of its own for it.
    """
    plain = dict(schema)
    if kind == "openai":
        form: dict[str, JsonValue] = {"name": "reading", "strict": True, "schema": plain}
        if api == "responses":
            return {"text": {"format": {"type": "json_schema", **form}}}
        return {"response_format": {"type": "json_schema", "json_schema": form}}
    if kind == "anthropic":
        return {"output_config": {"format": {"type": "json_schema", "schema": plain}}}
    if kind == "gemini":
        return {"responseMimeType": "application/json", "responseJsonSchema": plain}
    return {}


def with_structure(
    kind: str, options: Mapping[str, JsonValue], schema: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """The options of a provider that asks for JSON of a schema; what the user's own `extra` says stays.

    Raises:
        UsageError: where the user's `extra` is no JSON object.
    """
    fields = structured_fields(kind, schema, api=options.get("api"))
    if not fields:
        return dict(options)
    own = options.get("extra", {})
    if isinstance(own, str):
        try:
            own = json_value(own)
        except UnreadableError as error:
            raise UsageError(f"--model-arg extra: {error}") from error
    if not isinstance(own, dict):
        raise UsageError("--model-arg extra: write it as a JSON object")
    return {**options, "extra": {**fields, **own}}
