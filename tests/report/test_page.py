from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter

import pytest

from mbbq_gen.core.text import visible_text
from tests.support.report import HOSTILE, SCRIPT, Made, Page, hostile_report, oracle_report

pytest.importorskip("jinja2")
pytest.importorskip("vl_convert")


def digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return oracle_report(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def page(made: Made) -> Page:
    return Page(made.page.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Page]:
    text = hostile_report(tmp_path_factory.getbasetemp()).page.read_text(encoding="utf-8")
    return text, Page(text)


HEAD = {"html", "head", "meta", "title", "style", "body", "script"}
PARTS = {"a", "b", "bdi", "i", "mark", "pre", "header", "nav", "main", "section", "noscript", "figure", "figcaption"}
PARTS |= {"details", "summary", "div", "span", "h1", "h2", "h3", "p", "ul", "ol", "li", "dl", "dt", "dd", "code"}
PARTS |= {"form", "label", "select", "option", "input", "button"}
PARTS |= {"table", "caption", "thead", "tbody", "tr", "th", "td"}
DRAWING = {"svg", "g", "path", "rect", "circle", "line", "polygon", "polyline", "text", "tspan", "defs", "use", "title"}
DRAWING |= {"clippath", "desc", "ellipse", "lineargradient", "stop"}


def check_inert(page: Page) -> None:
    """Only elements that our templates have; no handler, no style attribute, no link outward; only our own script."""
    assert {tag for tag, _ in page.elements} <= HEAD | PARTS | DRAWING
    names = Counter(name for _, attributes in page.elements for name in attributes)
    assert not [name for name in names if name.startswith("on") or name in {"style", "src", "srcset", "action"}]
    for tag, attributes in page.elements:
        assert (attributes.get("href") or "#").startswith("#"), (tag, attributes)
    (packed, _), (tables, _), (own, script) = page.scripts
    assert packed == {"type": "application/gzip", "id": "packed"}
    assert tables == {"type": "application/json", "id": "tables"}
    assert own == {}
    (style,) = page.styles
    policy = dict(part.split(" ", 1) for part in page.policy.split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == digest(script)
    assert policy["img-src"] == "blob:"
    assert policy["style-src"] == digest(style)


def test_the_page_is_inert(page: Page) -> None:
    check_inert(page)


def test_a_hostile_run_gives_an_inert_page(hostile: tuple[str, Page]) -> None:
    text, page = hostile
    check_inert(page)
    assert "<script>window" not in text
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x08\x1b]", text)
    assert len(text) < 3_000_000


def test_hostile_answers_are_there_to_be_read(hostile: tuple[str, Page]) -> None:
    _, page = hostile
    cards = [Page(item["html"]) for item in page.data["items"]]
    responses = {"".join(card.text).partition("Response")[2].partition("Extraction")[0].strip() for card in cards}
    for name in ("script", "attribute", "formula", "override", "style"):
        assert visible_text(HOSTILE[name]) in responses, name
    for card in cards:
        assert {tag for tag, _ in card.elements} <= PARTS
        assert not [name for _, attributes in card.elements for name in attributes if name.startswith("on")]
    cut = next(text for text in responses if text.startswith("A xxx"))
    assert len(cut) < 4000
    assert "characters …⟩" in cut
    missing = [text for card in cards for text in card.text if text.startswith("No response: ")]
    assert any(SCRIPT in text for text in missing)
    assert {item["template"] for item in page.data["items"]} >= {f"script {HOSTILE['end of script']}"}
