"""The page of all commands is what the commands say."""

from __future__ import annotations

from pathlib import Path

from mbbq_gen.cli.reference import reference


def test_the_page_of_commands_is_up_to_date(repository: Path) -> None:
    page = (repository / "docs" / "commands.md").read_text(encoding="utf-8")
    assert page == reference(), "make it anew: python -m mbbq_gen.cli.reference > docs/commands.md"
