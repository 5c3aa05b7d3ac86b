"""Mentions of options, and the row of words and mentions that the patterns are matched against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mbbq_gen.extraction.optionset import Match, OptionSet
from mbbq_gen.extraction.tokens import COMMA, Token

Kind = Literal["label", "text", "label_text", "ordinal", "outside"]
Strength = Literal["strong", "bare", "weak"]


@dataclass(slots=True)
class Mention:
    """A stretch of the text that means an option."""

    options: tuple[int, ...]
    """Which ones; several where they are joined by "and" or "or"; none where the label is not on offer."""
    kind: Kind
    start: int
    """First token."""
    end: int
    """After the last token."""
    strength: Strength
    match: Match
    label: int | None = None
    """The option that the label means, where there is a label."""
    shown_case: bool = True
    """Whether the label is written as shown, or in capitals."""
    heads_line: bool = False
    """Whether it begins a line, as the items of a list do."""
    enumerates: bool = False
    """Whether it may be no more than the number of a list item."""
    barred: bool = False
    """Whether it is surely no label: `vitamin C`, the initial of a name."""
    struck: bool = False
    """Whether it is struck through."""
    complete: bool = True
    """Whether the whole option text stands there."""


@dataclass(slots=True)
class MentionItem:
    """A mention in the row of items that patterns are matched against."""

    key: str
    text: str
    break_before: int
    gap: str
    mention: Mention
    is_word: bool
    start: int
    """First character, in the mended text, as that of a token."""
    end: int
    """After the last character."""

    @property
    def is_mention(self) -> bool:
        """Whether a slot may take it: not a letter that may well be a word."""
        return self.mention.strength != "weak" or self.mention.shown_case

    @property
    def is_group(self) -> bool:
        """Whether it means several options."""
        return len(self.mention.options) > 1


Item = Token | MentionItem
"""A word, or a mention that stands for all its words."""


def with_articles(tokens: Sequence[Token], start: int, options: OptionSet) -> int:
    """The start of a mention with the articles in front of it."""
    while start and tokens[start].break_before < COMMA and tokens[start - 1].key in options.articles:
        start -= 1
    return start


def to_items(tokens: Sequence[Token], mentions: Sequence[Mention]) -> list[Item]:
    """Words and mentions in one row; a mention stands for all its words."""
    items: list[Item] = []
    place = 0
    for mention in mentions:
        items += tokens[place : mention.start]
        first = tokens[mention.start]
        single = mention.end - mention.start == 1
        items.append(
            MentionItem(
                key=first.key if single else "",
                text=first.text if single else "",
                break_before=first.break_before,
                gap=first.gap,
                mention=mention,
                is_word=single,
                start=first.start,
                end=tokens[mention.end - 1].end,
            )
        )
        place = mention.end
    items += tokens[place:]
    return items
