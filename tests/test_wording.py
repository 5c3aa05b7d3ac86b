"""The wording of README, docs and help, and the check of it."""

from __future__ import annotations

import pytest

from tests.wording import findings, length_findings, plain, size_findings, term_findings, word_findings


def test_nothing_is_found() -> None:
    assert findings() == []


@pytest.mark.parametrize(
    ("text", "found"), [("a lean is shown", 1), ("a clean result", 0), ("the `wording` axis", 0), ("it may pass", 1)]
)
def test_words_to_avoid_are_found(text: str, found: int) -> None:
    assert len(list(word_findings("page", plain(text)))) == found


def test_long_sentences_are_found() -> None:
    assert list(length_findings("page", "word " * 30 + ". " + "word " * 30)) == []
    assert len(list(length_findings("page", "word " * 31))) == 1


def test_long_pages_are_found() -> None:
    assert list(size_findings({"README.md": 800, "docs/guides/x.md": 900})) == []
    assert len(list(size_findings({"README.md": 801, "docs/guides/x.md": 901, "docs/x.md": 40_000}))) == 4


def test_terms_without_an_entry_are_found() -> None:
    assert len(list(term_findings("page", "Holm", "| bootstrap | … |"))) == 1
    assert list(term_findings("page", "Holm", "| Bonferroni, Holm | … |")) == []
