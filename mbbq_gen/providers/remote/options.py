"""What a user may choose about a model behind an API."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final, Literal

from pydantic import Field, JsonValue, field_validator

from mbbq_gen.errors import UsageError
from mbbq_gen.providers.base import JsonTable, ProviderOptions
from mbbq_gen.providers.remote.headers import header_fault
from mbbq_gen.providers.remote.transport import MOST_BYTES

_SECRET_NAME: Final = re.compile(
    r"api.?key|authorization|password|secret|^(?:access|auth|bearer)?_?token$", re.IGNORECASE
)
_OFF = "none"
"""What a command line says for a parameter that is not to be sent."""


class RemoteOptions(ProviderOptions):
    """The options that all models behind an API share."""

    max_new_tokens: int = Field(
        default=1024, ge=1, description="most tokens of an answer, reasoning included; longer ones are cut off"
    )
    temperature: float | None = Field(
        default=0.0, ge=0.0, le=2.0, description="0: the likeliest token; none: the service's default"
    )
    top_p: float | None = Field(default=None, gt=0.0, le=1.0, description="share of the likeliest tokens")
    system: Literal["default", "none"] = Field(
        default="default", description="both: no system message but the run's own"
    )
    extra: JsonTable = Field(default_factory=dict, description='more fields of the request body, such as {"top_k": 1}')
    base_url: str | None = Field(default=None, description="another server of the same kind")
    api_key_env: str | None = Field(
        default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="environment variable that holds the key"
    )
    api_key_file: str | None = Field(default=None, description="file that holds the key; nobody else may read it")
    concurrency: int = Field(default=64, ge=1, le=4096, description="most requests at a time")
    rpm: int | None = Field(default=None, ge=1, description="most requests a minute")
    tpm: int | None = Field(default=None, ge=1, description="most tokens a minute, in and out")
    attempts: int = Field(default=6, ge=1, le=50, description="tries of one request before it counts as failed")
    timeout: float = Field(default=300.0, gt=0, description="seconds that an answer may take")
    max_answer_bytes: int = Field(
        default=MOST_BYTES, ge=1000, description="bytes of a reply that are taken; a longer answer is cut and marked"
    )
    headers: JsonTable = Field(
        default_factory=dict,
        description='more headers, such as {"X-Title": "bias"}; write keys as $NAME, a variable of the environment',
    )

    may_change: ClassVar[frozenset[str]] = frozenset(
        {"api_key_env", "api_key_file", "concurrency", "rpm", "tpm", "attempts", "timeout"}
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
        fault = header_fault(value)
        if fault is not None:
            raise ValueError(fault)
        return value

    @field_validator("extra")
    @classmethod
    def _check_extra(cls, value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """What is sent is written into the manifest: it must not carry a secret."""
        for name in _names_in(value):
            if _SECRET_NAME.search(name):
                raise ValueError(f"holds {name!r}: leave keys out; they come from the environment or a key file")
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
    entries = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, dict):
        yield from value
    for entry in entries:
        yield from _names_in(entry)


def _address_fault(address: str) -> str | None:
    """What is wrong with an address, or None."""
    if not address.startswith(("http://", "https://")) or not address.split("/")[2]:
        return "write it as http://… or https://…"
    if "@" in address.split("/")[2] or "?" in address:
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
