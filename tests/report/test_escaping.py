from __future__ import annotations

import base64
import hashlib
import html

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbbq_gen.core.text import visible_text
from mbbq_gen.report.explanation import EVIDENCE, pieces
from mbbq_gen.report.page import page_policy
from mbbq_gen.report.tables import escaped
from tests.support.report import HOSTILE

TEXTS = st.text(st.characters(), max_size=40)


@given(TEXTS)
def test_escaped_text_comes_back_as_it_is_seen(text: str) -> None:
    found = escaped(text)
    assert not set(found) & set("<>\"'")
    assert html.unescape(found) == visible_text(text)


@pytest.mark.parametrize("text", [*HOSTILE.values(), "half a pair \ud83d here", "<!--<script>"])
def test_hostile_text_is_inert(text: str) -> None:
    assert "<" not in escaped(text)
    assert "\u202e" not in escaped(text)
    escaped(text).encode()


def test_the_policy_allows_the_own_style_and_script_only() -> None:
    policy = dict(part.split(" ", 1) for part in page_policy("a { }", "1;").split("; "))
    digest = base64.b64encode(hashlib.sha256(b"1;").digest()).decode()
    assert policy["script-src"] == f"'sha256-{digest}'"
    assert policy["default-src"] == policy["base-uri"] == "'none'"
    assert policy["form-action"] == "'self'"
    assert "unsafe" not in str(policy)


@given(st.text(max_size=60), st.lists(st.tuples(st.integers(0, 70), st.integers(0, 20)), max_size=4))
def test_pieces_add_up_to_the_text(text: str, starts: list[tuple[int, int]]) -> None:
    spans = [(start, start + size) for start, size in starts]
    found = pieces(text, spans, 100)
    assert "".join(piece for piece, _ in found) == visible_text(text)
    marked = sum(len(range(*span)) > 0 and span[0] < len(text) for span in spans)
    assert any(kind == EVIDENCE for _, kind in found) == bool(marked)
