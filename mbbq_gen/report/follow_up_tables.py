"""What follow-ups change, as sentences and tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mbbq_gen.report.tables import DASH, Block, Note, estimate_text, number, percent, text_table

if TYPE_CHECKING:
    from mbbq_gen.analysis.follow_up import FollowUpReport


def follow_up_blocks(found: FollowUpReport) -> Iterator[Block]:
    """Parse rates, scores with and without follow-ups, choices, and agreement, with what the model was found to do."""
    groups = [group for group in found.groups if group.followed_up]
    yield from found.findings
    if groups:
        rows: list[tuple[str, ...]] = [
            (
                *(group.language, group.split, f"{group.answers:,}", _share(group.read, group.answers)),
                *(f"{count:,}" for count in (group.followed_up, group.replied, group.none)),
                _share(group.read_with_follow_up, group.answers),
            )
            for group in groups
        ]
        titles: tuple[str, ...] = (
            "language",
            "split",
            "answers",
            "parsed",
            "followed up",
            "replied",
            "chose none",
            "parsed with follow-ups",
        )
        yield text_table(titles, rows, right=titles[2:], title="Parse rates without and with follow-ups")
        scored: list[tuple[str, ...]] = [
            (
                *((group.language, group.split) if place == 0 else ("", "")),
                *(name, number(one.first.value, signed=name[0] != "a")),
                *(number(one.with_follow_up.value, signed=name[0] != "a"), estimate_text(one.difference)),
            )
            for group in groups
            for place, (name, one) in enumerate(group.metrics.items())
            if one.first.value is not None or one.with_follow_up.value is not None
        ]
        names = ("language", "split", "metric", "first answers", "with follow-ups", "difference")
        yield text_table(names, scored, right=names[3:5], title="Scores without and with follow-ups")
        chosen: list[tuple[str, ...]] = [
            (group.language, group.split, shares.source, f"{shares.n:,}",
             *(percent(share) for share in (shares.biased, shares.counter_biased, shares.unknown)))
            for group in groups
            for shares in group.choices
            if shares.n
        ]  # fmt: skip
        titles = ("language", "split", "answers", "number", "biased", "counter-biased", "unknown")
        yield text_table(titles, chosen, right=("number",), title="What was chosen")
        yield Note(
            "first: first answers that were parsed. follow-up: replies to follow-ups that take the place of first "
            "answers. Intervals of shares treat answers as independent; those of differences are clustered by template."
        )
    if found.checks:
        agreement: list[tuple[str, ...]] = [
            (one.language or "all", one.confidence or "all", f"{one.followed_up:,}", f"{one.agrees.n:,}",
             percent(one.agrees) if one.agrees.n else DASH)
            for one in found.checks
        ]  # fmt: skip
        columns = ("language", "confidence", "sample", "replied", "confirm the extraction")
        yield text_table(columns, agreement, right=("sample", "replied"), title="Check of parsed answers")


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}%" if whole else DASH
