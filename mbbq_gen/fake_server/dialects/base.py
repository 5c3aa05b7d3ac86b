"""What every dialect does."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Protocol

from pydantic import JsonValue

from mbbq_gen.fake_server.asked import Asked, Failure, Said
from mbbq_gen.fake_server.http import HttpRequest
from mbbq_gen.fake_server.limits import Levels

Body = dict[str, JsonValue]


class Dialect(Protocol):
    """One API's shape."""

    request_id_header: str
    """The header that carries the request's id."""

    def key_of(self, request: HttpRequest) -> str | None:
        """The key that a request carries."""

    def parse(self, body: Mapping[str, JsonValue], path_model: str | None) -> Asked:
        """The question in a body; `path_model` is the model's name where it stands in the path.

        Raises:
            FailureError: where the body is wrong.
        """

    def answer(self, asked: Asked, said: Said) -> Body:
        """The body of an answer."""

    def failure(self, failure: Failure, request_id: str) -> tuple[int, Body]:
        """The status and body of a failure."""

    def limit_headers(self, levels: Levels) -> dict[str, str]:
        """The headers that tell how much of the rate limits is left."""


def in_future(seconds: float) -> str:
    """A moment from now, as RFC 3339 in UTC."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="seconds").replace("+00:00", "Z")
