"""Finds what answers an address: exact paths first, then patterns such as `/v1/batches/{id}`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from mbbq_gen.fake_server.http import HttpRequest, Reply

RouteHandler = Callable[[HttpRequest, dict[str, str]], Reply]
"""Gets the request and the named parts of its path."""

_PREFIXES = ("/openai", "/anthropic")
"""What some base URLs have before the paths that we know."""


@dataclass(frozen=True, slots=True)
class Route:
    """An address and what answers it."""

    method: str
    pattern: str
    """A path; `{name}` stands for a part without a slash. Its leading `/v1` may be left out by the client."""
    handler: RouteHandler

    @property
    def name(self) -> str:
        """How the statistics call it."""
        return f"{self.method} {self.pattern}"


class Router:
    """All routes."""

    def __init__(self, routes: list[Route]) -> None:
        self._routes = [(route, re.compile(_expression(route.pattern))) for route in routes]
        self.find = lru_cache(maxsize=512)(self._find)

    def _find(self, method: str, path: str) -> tuple[Route, dict[str, str]] | None:
        """The route of a request and the named parts of its path; None where there is none."""
        for prefix in _PREFIXES:
            path = path.removeprefix(prefix)
        for route, expression in self._routes:
            if route.method == method and (match := expression.fullmatch(path.rstrip("/") or "/")):
                return route, match.groupdict()
        return None


def _expression(pattern: str) -> str:
    optional = r"(?:/v1)?" if pattern.startswith("/v1/") else ""
    rest = pattern.removeprefix("/v1") if optional else pattern
    return optional + re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+?)", re.escape(rest))
