"""The list of error texts, for reading, is up to date."""

from __future__ import annotations

from tests.error_texts import LIST, error_texts


def test_the_list_is_up_to_date() -> None:
    """After a change run `python -m tests.error_texts`, and read the difference."""
    assert LIST.read_text(encoding="utf-8").splitlines() == error_texts()
