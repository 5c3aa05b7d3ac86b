"""What every page of ours does about hostile text: model output and data are shown, and never obeyed.

Three fences, each enough by itself: text is escaped and its control and direction characters are made visible
(`escaped`); data travels as JSON in a script element that no browser runs and that no text can end (`inert_json`); and
the page's policy (`page_policy`) allows the page's own styles and scripts only, by their digests, and nothing from
anywhere else. The policy forbids style attributes too: drawings go through `inert_svg`.
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
from urllib.parse import parse_qsl
from xml.etree import ElementTree

from mbbq_gen.report.plain_text import visible


def escaped(text: str) -> str:
    """The text for HTML, in an element or a quoted attribute; what would not be seen is made visible."""
    return html.escape(visible(text), quote=True)


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


def page_part(name: str, package: str = "mbbq_gen.report.html") -> str:
    """A style, script or template that ships beside the module."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


# --- drawings --------------------------------------------------------------------------------------------------------


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ELEMENTS = _names(
    "svg g path rect circle ellipse line polyline polygon text tspan defs use clipPath linearGradient stop pattern "
    "title desc marker a"
)
_STYLES = _names(
    "fill fill-opacity fill-rule stroke stroke-width stroke-opacity stroke-linecap stroke-linejoin stroke-dasharray "
    "stroke-dashoffset stroke-miterlimit opacity font-size font-family font-style font-weight font-stretch "
    "font-variant text-anchor dominant-baseline clip-path stop-color stop-opacity visibility"
)
"""CSS properties that are attributes of a drawing too."""
_ATTRIBUTES = _STYLES | _names(
    "id class d x y x1 y1 x2 y2 cx cy r rx ry dx dy width height viewBox points transform offset gradientUnits "
    "gradientTransform patternUnits clipPathUnits clip-rule preserveAspectRatio markerWidth markerHeight refX refY "
    "orient markerUnits xml:space role aria-label aria-labelledby aria-hidden focusable tabindex"
)
_PLACES = _names("d x y x1 y1 x2 y2 cx cy r width height points transform")
"""Attributes that say where something is: a hundredth of a point is near enough, and half the size."""
_DROPPED = frozenset({"metadata", "style", "script", "foreignObject"})
_FONT = re.compile(
    r"^(?:(?P<style>italic|oblique)\s+)?(?:(?P<weight>bold|[1-9]00)\s+)?(?P<size>[\d.]+px)\s+(?P<family>.+)$"
)


def inert_svg(drawing: str, prefix: str, *, links: bool = False) -> str:
    """A drawing for the middle of a page: no style attributes, no scripts, no links outward, ids begun with `prefix`.

    Style attributes become the attributes of the same names, for the policy of our pages forbids the former. Elements
    and attributes that a still drawing does not need are dropped. `links`: elements whose ids are links to items of the
    page become such links.

    Raises:
        xml.etree.ElementTree.ParseError: where it is no XML; drawings are our own, so that is a fault of ours.
    """
    root = ElementTree.fromstring(drawing)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2] if isinstance(element.tag, str) else "desc"
    _link_cells(root, links=links)
    _clean(root, prefix)
    root.set("stroke-linejoin", "round")  # what matplotlib says in a style element
    root.set("stroke-linecap", "butt")
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=False)


LINK = "#browse?"
"""What an id begins with whose element leads to items of the page; one that ends in & is its background."""


def _link_cells(root: ElementTree.Element, *, links: bool) -> None:
    """Makes links of the elements whose ids are links, or takes these ids away."""
    for element in [element for element in root.iter() if element.get("id", "").startswith(LINK)]:
        link = element.attrib.pop("id")
        if not links:
            continue
        element.tag = "a"
        element.attrib |= {"class": "to-items", "href": link.removesuffix("&")}
        if link.endswith("&"):
            element.attrib |= {"tabindex": "-1", "aria-hidden": "true"}
        else:
            said = ", ".join(value for _, value in parse_qsl(link.removeprefix(LINK)))
            element.set("aria-label", f"Answers of {visible(said)}")


def _clean(element: ElementTree.Element, prefix: str) -> None:
    for child in list(element):
        leads_out = child.tag == "a" and not child.get("href", "").startswith(LINK)
        if leads_out or child.tag in _DROPPED or child.tag not in _ELEMENTS:
            element.remove(child)
        else:
            _clean(child, prefix)
    found = dict(element.attrib)
    element.attrib.clear()
    for name, value in found.items():
        plain = name.rpartition("}")[2]
        if plain == "style":
            element.attrib.update(_style_attributes(value, prefix))
        elif plain == "href" and value.startswith(LINK) and element.tag == "a":
            element.set("href", value)
        elif plain == "href" and value.startswith("#"):
            element.set("href", f"#{prefix}{value[1:]}")
        elif plain in {"id", "aria-labelledby"}:
            element.set(plain, prefix + value)
        elif plain in _ATTRIBUTES:
            element.set(plain, _rounded(value) if plain in _PLACES else _own_urls(value, prefix))


def _rounded(value: str) -> str:
    return re.sub(r"(\.\d{2})\d+", r"\1", value)


def _style_attributes(style: str, prefix: str) -> dict[str, str]:
    """The declarations of a style attribute as attributes; those that are none are left out."""
    found: dict[str, str] = {}
    for declaration in style.split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        font = _FONT.match(value) if name == "font" else None
        if font:
            found |= {f"font-{part}": text for part, text in font.groupdict().items() if text}
        elif name in _STYLES and value:
            found[name] = _own_urls(value, prefix)
    return found


def _own_urls(value: str, prefix: str) -> str:
    """References within the drawing, with the prefix; any other is taken out."""
    return re.sub(r"url\(\s*[\"']?(#?)([^)\"']*)[\"']?\s*\)", lambda m: f"url(#{prefix}{m[2]})" if m[1] else "", value)
