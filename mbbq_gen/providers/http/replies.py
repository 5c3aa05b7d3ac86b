"""Files that are sent, replies, and the fields of their JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from mbbq_gen.core.text import storable
from mbbq_gen.providers.http.credentials import hide_lookalikes
from mbbq_gen.providers.http.errors import ApiError, TransientError, is_page, service_error

_SHOWN: Final = 80
_LONGEST_TEXT: Final = 2000


class FormFile(NamedTuple):
    """A file to be sent as a form, read from disk while it is sent."""

    path: Path
    filename: str
    fields: Mapping[str, str]
    """The form's other fields."""


class HttpResponse(NamedTuple):
    """A reply of a service."""

    status: int
    headers: Mapping[str, str]
    """Names are looked up in lower case."""
    body: bytes

    def json(self) -> Any:
        """The body as JSON; raises TransientError if it is none."""
        try:
            return read_json(self.body)
        except ValueError as error:
            start = hide_lookalikes(self.body[:_LONGEST_TEXT].decode("utf-8", "replace"))[:_SHOWN]
            raise TransientError("broken", f"the response is not JSON: {start!r}") from error

    @property
    def is_page(self) -> bool:
        """Whether the body is a web page, such as a proxy's."""
        return self.body[:_SHOWN].lstrip()[:1] == b"<" and is_page(self.body[:_LONGEST_TEXT].decode("utf-8", "replace"))

    @property
    def error(self) -> ApiError:
        """The failure that the reply reports."""
        return service_error(self.status, error_payload(self), self.headers)


def read_json(body: bytes) -> Any:
    """The JSON of a body, or ValueError; invalid UTF-8 and lone surrogates become U+FFFD."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):  # not strict JSON, but accepted by `json`
        pass
    try:
        value = json.loads(body.decode(json.detect_encoding(body), "replace"))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return storable(value)


def error_payload(reply: HttpResponse) -> Any:
    """The JSON of an error reply, or its text."""
    try:
        return reply.json()
    except TransientError:
        return reply.body[:_LONGEST_TEXT].decode("utf-8", "replace")


# Fields of an answer; those of the wrong type are treated as missing.


def value_at(value: Any, place: str, missing: Any = None) -> Any:
    """The value at a path such as `outputs.0.text`; `missing` if there is no such path."""
    for step in place.split("."):
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return missing
    return value


def table_of(value: Any) -> dict[str, Any]:
    """The value if it is a JSON object, else an empty dict."""
    return value if isinstance(value, dict) else {}


def tables_of(value: Any) -> list[dict[str, Any]]:
    """The JSON objects in a list; empty if the value is no list."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def text_of(value: Any) -> str:
    """The text of an answer, or a number as text; "" for None; TypeError for other types."""
    if value is None:
        return ""
    text = text_or_none(value)
    if text is None:
        raise TypeError(f"text of type {type(value).__name__}")
    return text


def text_or_none(value: Any) -> str | None:
    """A text, or a number as text; None for other types."""
    if value is None or type(value) is str:
        return value
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
