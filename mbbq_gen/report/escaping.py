"""What every page of ours does about hostile text: model output and data are shown, and never obeyed.

Three fences, each enough by itself: text is escaped and its control and direction characters are made visible
(`escaped`); data travels as JSON in a script element that no browser runs and that no text can end (`inert_json`); and
the page's policy (`page_policy`) allows the page's own styles and scripts only, by their digests, and nothing from
anywhere else. The policy forbids style attributes too: drawings say their colours in attributes of their own.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

from mbbq_gen.core.text import visible_text


def escaped(text: str) -> str:
    """The text for HTML, in an element or a quoted attribute; what would not be seen is made visible."""
    return html.escape(visible_text(text), quote=True)


def digest_source(text: str) -> str:
    """A source of a content security policy: just this style or script, as it stands between its tags."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def page_policy(styles: Iterable[str], scripts: Iterable[str], *, connects: bool = False) -> str:
    """The content security policy of a page: its own styles and scripts, by digest, and nothing else.

    Images are those that its own script makes, to write a chart as PNG: nothing of the page or of a server is one.

    `connects`: whether its scripts may ask the server that the page came from.
    """
    allowed = {
        "default-src": "'none'",
        "style-src": " ".join(map(digest_source, styles)) or "'none'",
        "script-src": " ".join(map(digest_source, scripts)) or "'none'",
        "connect-src": "'self'" if connects else "'none'",
        "img-src": "blob:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {sources}" for name, sources in allowed.items())


_ENDS_SCRIPT = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026", 0x2028: "\\u2028", 0x2029: "\\u2029"}
"""Characters that could end a script element, begin a comment in it, or end a line of a script."""


def inert_json(value: Any) -> str:
    """The value as JSON for a script element of type application/json: no text in it can end the element.

    Half surrogate pairs, which have no UTF-8, are written as escapes.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found.group()):04x}", text.translate(_ENDS_SCRIPT))


def packed_json(value: Any) -> str:
    """The value as JSON, gzipped, in base 64: nothing in it can end an element, and it is a fifth of the size."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode("ascii"), mtime=0)).decode("ascii")


def page_part(name: str) -> str:
    """A style, script or template that ships beside the module."""
    return files("mbbq_gen.report").joinpath("assets", name).read_text(encoding="utf-8")


LINK = "#browse?"
"""What a link within a page begins with that leads to items."""
