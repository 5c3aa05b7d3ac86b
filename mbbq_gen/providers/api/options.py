"""Options of models behind an API, and the parameters by which each service sets the reasoning effort."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Final

from pydantic import Field, JsonValue, field_validator

from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.reasoning import ReasoningSettings, effort_error, reasoning_token_allowance
from mbbq_gen.core.tables import UnreadableError, json_value
from mbbq_gen.providers.base import JsonTable, ProviderOptions
from mbbq_gen.providers.http.credentials import holds_key


@lru_cache(maxsize=256)
def reasoning_parameters(api: str, name: str, model: str, level: str) -> ReasoningSettings:
    """The parameters of a reasoning effort, by `reasoning.toml`; raises UsageError if the model refuses it."""
    room = reasoning_token_allowance(level)
    for row in tomllib.loads(Path(__file__).with_name("reasoning.toml").read_text(encoding="utf-8"))["row"]:
        least, most = row.get("outside", (1, 0))  # by default, no number is in the range
        matches = re.fullmatch(row["api"], api) and re.fullmatch(row.get("levels", ".*"), level)
        if matches and re.search(row.get("model", ""), model) and not least <= room <= most:
            break
    if "why" in row:
        raise effort_error(name, level, row["why"])
    sent = json.dumps(row["sent"]).replace('"{tokens}"', str(room)).replace("{level}", level)
    return ReasoningSettings(sent=json.loads(sent), left_out=tuple(row.get("left_out", ())), room=room)


_SECRET_NAME: Final = re.compile(
    r'"([^"]*(?:api.?key|authorization|passw|secret|credential)[^"]*'
    r'|(?:access|auth|bearer|hf|id|refresh|session|user)?_?token)": ',
    re.IGNORECASE,
)
_HEADER_NAME: Final = re.compile(
    r"(?!(?:host|content-length|transfer-encoding|connection)$)[!#$%&'*+.^_`|~0-9a-z-]+", re.IGNORECASE
)
_SECRET_HEADER: Final = re.compile(r"auth|key|token|secret|cookie|password|credential", re.IGNORECASE)


class RemoteOptions(ProviderOptions):
    """The options that all models behind an API share."""

    max_tokens: int = Field(default=1024, ge=1, description="maximum tokens of an answer, reasoning included")
    temperature: float | None = Field(
        default=0.0, ge=0.0, le=2.0, description="temperature; 0: the likeliest token; none: the service's default"
    )
    top_p: float | None = Field(
        default=None, gt=0.0, le=1.0, description="nucleus sampling: share of the likeliest tokens"
    )
    extra: JsonTable = Field(default_factory=dict, description='more fields of the request body, such as {"top_k": 1}')
    base_url: str | None = Field(default=None, description="address of another server of this kind")
    api_key_env: str | None = Field(
        default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="environment variable that holds the key"
    )
    max_connections: int = Field(default=64, ge=1, le=4096, description="maximum concurrent requests")
    rpm: int | None = Field(default=None, ge=1, description="maximum requests per minute")
    tpm: int | None = Field(default=None, ge=1, description="maximum tokens per minute, input and output")
    attempts: int = Field(default=6, ge=1, le=50, description="attempts before a request counts as failed")
    timeout: float = Field(default=300.0, gt=0, description="seconds to wait for one response")
    patience: float = Field(
        default=600.0, ge=0, description="seconds to wait for a service that does not answer, or asks to wait"
    )
    headers: JsonTable = Field(
        default_factory=dict,
        description='more headers, such as {"X-Title": "bias"}; write keys as $NAME, an environment variable',
    )

    may_change: ClassVar[frozenset[str]] = frozenset(
        {"api_key_env", "max_connections", "rpm", "tpm", "attempts", "timeout", "patience"}
    )

    @field_validator("temperature", "top_p", mode="before")
    @classmethod
    def _read_none(cls, value: Any) -> Any:
        return None if value == "none" else value  # None on the command line

    # The following options are stored in the manifest, so they must not hold a secret.

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        for name, text in value.items():
            if not _HEADER_NAME.fullmatch(name):
                raise ValueError(f"{name!r} can't be set")
            if not isinstance(text, str) or not (text.isascii() and text.isprintable()):
                raise ValueError(f"{name}: give one line of plain text")
            if holds_key(text) or (_SECRET_HEADER.search(name) and "$" not in text):
                raise ValueError(f"{name}: keys are not written down here; put it into the environment and write $NAME")
        return value

    @field_validator("extra")
    @classmethod
    def _check_extra(cls, value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        text = json.dumps(value)
        secret = _SECRET_NAME.search(text)
        if secret is not None or holds_key(text):
            name = "a key" if secret is None else repr(secret[1])
            raise ValueError(f"holds {name}: leave keys out; they come from the environment")
        return value

    @field_validator("base_url")
    @classmethod
    def _check_address(cls, value: str | None) -> str | None:
        return None if value is None else _plain_address(value)


def _plain_address(address: str) -> str:
    if not address.startswith(("http://", "https://")) or not address.split("/")[2]:
        raise ValueError("write it as http://… or https://…")
    if "@" in address or "?" in address or holds_key(address):
        raise ValueError("leave out passwords and queries; keys come from the environment")
    return address.rstrip("/")


def checked_address(address: str | None, where: str) -> str | None:
    """A URL without trailing slash, or None; raises UsageError if it is invalid or holds secrets."""
    try:
        return _plain_address(address) if address else None
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from error


def structured_fields(kind: str, schema: Mapping[str, JsonValue], *, api: object = None) -> dict[str, JsonValue]:
    """The fields of a request body that request JSON of a schema; empty if the kind has none.

    `api`: the provider's option of that name; OpenAI's responses API has another field.
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
    """The options of a provider with the fields that request JSON of a schema; the user's `extra` has priority."""
    fields, own = structured_fields(kind, schema, api=options.get("api")), options.get("extra", {})
    with suppress(UnreadableError):
        own = json_value(own) if isinstance(own, str) else own
    if not fields or not isinstance(own, dict):  # `open_provider` refuses other types
        return dict(options)
    return {**options, "extra": {**fields, **own}}
