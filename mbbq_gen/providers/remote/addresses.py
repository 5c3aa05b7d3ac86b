"""What may be wrong with a base URL, from what stands in it."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

_VERSION: Final = re.compile(r"/v\d+(?:beta\d*|alpha\d*)?$")
_TOO_FAR: Final = re.compile(r"/(?:chat/completions|completions|responses|messages|models)$")


def base_url_advice(base_url: str, with_version: bool | None) -> str | None:
    """What to try instead of a base URL at which nothing answers; None where nothing speaks against it.

    `with_version`: whether such URLs end with a version (/v1), or must not; None: nobody knows.
    """
    if with_version is None:
        return None
    plain = _TOO_FAR.sub("", base_url)
    if plain != base_url:
        return f"base URLs end before that: try --base-url {plain if with_version else _VERSION.sub('', plain)}"
    if with_version and not _VERSION.search(urlsplit(base_url).path):
        return f"base URLs of such servers mostly end in /v1: try --base-url {base_url}/v1"
    if not with_version and _VERSION.search(base_url):
        return f"the version is added here: try --base-url {_VERSION.sub('', base_url)}"
    return None


def moved_base_url(target: str, base_url: str, path: str) -> str | None:
    """The base URL that a redirection of a request to `path` means; None where it leads elsewhere."""
    if not target.startswith(("http://", "https://")) or not target.endswith(path):
        return None
    moved = target.removesuffix(path) if path else target
    return moved if moved != base_url else None
