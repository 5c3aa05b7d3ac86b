from __future__ import annotations

import base64
import hashlib
import html
import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mbbq_gen.core.text import visible_text
from mbbq_gen.report.explanation import EVIDENCE, pieces
from mbbq_gen.report.page import inert_json, page_policy
from mbbq_gen.report.tables import escaped
from tests.support.report import HOSTILE

TEXTS = st.text(st.characters(), max_size=40)


@given(TEXTS)
def test_escaped_text_comes_back_as_it_is_seen(text: str) -> None:
    found = escaped(text)
    assert not set(found) & set("<>\"'")
    assert html.unescape(found) == visible_text(text)


def joined(value: object) -> object:
    """`value` with two halves of a surrogate pair that stand together as the one character that they are in a page."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    if isinstance(value, dict):
        return {joined(key): joined(item) for key, item in value.items()}
    return [joined(item) for item in value] if isinstance(value, list) else value


@example(["\ud83d\ude00", {"\ud83d": "\ude00\ud83d"}])
@given(st.recursive(TEXTS | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner)))
def test_inert_json_is_the_same_value_and_ends_no_script(value: object) -> None:
    found = inert_json(value)
    assert json.loads(found) == joined(value)
    assert not re.search("[<>&\u2028\u2029\ud800-\udfff]", found)
    found.encode()


@pytest.mark.parametrize("text", [*HOSTILE.values(), "half a pair \ud83d here", "<!--<script>"])
def test_hostile_text_is_inert(text: str) -> None:
    assert "<" not in inert_json([text])
    assert "<" not in escaped(text)
    assert "\u202e" not in escaped(text)
    escaped(text).encode()


def test_no_number_that_is_no_json_passes() -> None:
    with pytest.raises(ValueError, match="JSON"):
        inert_json(float("nan"))


def test_the_policy_allows_the_own_style_and_script_only() -> None:
    policy = dict(part.split(" ", 1) for part in page_policy("a { }", "1;").split("; "))
    digest = base64.b64encode(hashlib.sha256(b"1;").digest()).decode()
    assert policy["script-src"] == f"'sha256-{digest}'"
    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert "unsafe" not in str(policy)
    assert "form-action 'self'" in page_policy("", "", is_served=True)


@given(st.text(max_size=60), st.lists(st.tuples(st.integers(0, 70), st.integers(0, 20)), max_size=4))
def test_pieces_add_up_to_the_text(text: str, starts: list[tuple[int, int]]) -> None:
    spans = [(start, start + size) for start, size in starts]
    found = pieces(text, spans, 100)
    assert "".join(piece for piece, _ in found) == visible_text(text)
    marked = sum(len(range(*span)) > 0 and span[0] < len(text) for span in spans)
    assert any(kind == EVIDENCE for _, kind in found) == bool(marked)
