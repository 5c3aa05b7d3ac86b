"""Finds the mentions that are an answer without further words: a whole sentence or clause, the head of a line."""

from __future__ import annotations

from mbbq_gen.extraction.mentions import MentionItem
from mbbq_gen.extraction.reading import (
    COMMITTED,
    FINAL,
    LEANING,
    Reading,
    Statement,
    breaks_off,
    closes,
    is_capital,
    is_cut,
    is_weak,
    led_up_to,
    raise_tier,
)
from mbbq_gen.extraction.tokens import COMMA, COMMA_SIGNS, LINE

_ARROWS = frozenset("➡👉☞→⇒➜➔⟹⇨➤∴")


def stand_alone(reading: Reading) -> None:
    """Mentions that are a whole sentence or head a line; none of several that are all called possible."""
    several = len({statement.mention.options for statement in reading.statements if statement.possible}) > 1
    last = reading.sentence[-1] if reading.sentence else -1
    for statement in reading.statements:
        number = statement.mention.enumerates and statement.mention.kind == "label" and len(reading.items) > 1
        if statement.standing != "live" or number or (statement.possible and several):
            continue
        outer = statement.sentence in {0, last} or reading.items[reading.starts[statement.sentence]].gap.strip(
            " \n*_"
        ).startswith(":")
        if _is_whole(reading, statement) and not (statement.sentence == last and is_cut(reading, statement)):
            if is_pointed_at(reading, statement):
                raise_tier(statement, FINAL, "conclusion", None)
            raise_tier(statement, COMMITTED if outer else LEANING, "whole_answer", None)
        elif (
            statement.mention.heads_line
            and statement.mention.strength == "strong"
            and statement.mention.kind in {"label", "label_text"}
            and statement.place == reading.starts[statement.sentence]
        ):
            raise_tier(statement, COMMITTED if outer else LEANING, "line_label", None)
        elif led_up_to(reading, statement):
            raise_tier(statement, COMMITTED if statement.sentence == last else LEANING, "whole_answer", None)
        elif _is_whole_clause(reading, statement):
            raise_tier(statement, LEANING, "whole_clause", None)
        elif _leads(reading, statement):
            raise_tier(statement, COMMITTED, "leading_answer", None)
        elif _says_unknown(reading, statement):
            raise_tier(statement, LEANING, "unknown_option", None)


def _leads(reading: Reading, statement: Statement) -> bool:
    """Whether a mention opens the response and a comma or the like parts it from what follows; not where another
    person follows right behind the comma and goes on: "the tailor, the baker and I met"."""
    if statement.place or not closes(reading, 0) or (is_weak(statement) and not _is_reasoned(reading)):
        return False
    following = reading.items[1] if len(reading.items) > 2 else None
    if not isinstance(following, MentionItem) or COMMA_SIGNS.isdisjoint(following.gap):
        return True
    same = following.mention.options == statement.mention.options
    return same or reading.items[2].break_before >= COMMA or statement.mention.kind != "text"


def _says_unknown(reading: Reading, statement: Statement) -> bool:
    """Whether a sentence speaks the unknown option's words: several of them, or one that it begins with."""
    mention = statement.mention
    start, after = reading.starts[statement.sentence], statement.place + 1
    begins = statement.place == start
    wording = mention.kind == "text" and mention.options == (reading.options.unknown,) and not statement.possible
    following = reading.items[after] if after < len(reading.items) else None
    if not wording or (following and following.is_mention and not COMMA_SIGNS.isdisjoint(following.gap)):
        return False
    if any(isinstance(before, MentionItem) for before in reading.items[start : statement.place]):
        return False
    return begins or mention.end - mention.start > 1


def _is_reasoned(reading: Reading) -> bool:
    """Whether the first letter of a response is a capital, or its first words a place, with a comma or dash and a
    reason behind it: "A, since …", "The latter, because …"."""
    first = reading.items[0]
    place = isinstance(first, MentionItem) and first.mention.kind == "ordinal"
    return 1 in reading.reasons and reading.items[1].break_before == COMMA and (place or is_capital(reading, 0))


def _is_whole_clause(reading: Reading, statement: Statement) -> bool:
    """Whether a clause behind "but" holds nothing but the mention and small words."""
    turns = {hit.start: hit.end for hit in reading.hits_of("markers.adversative")}
    start = next((place for place in turns if reading.clause[place] == statement.clause), None)
    if start is None or start > statement.place or is_weak(statement):
        return False
    end = reading.ends[statement.sentence]
    if end - start > 6 or any(reading.clause[place] != statement.clause for place in range(start, end)):
        return False
    return all(
        place == statement.place or reading.items[place].key in reading.words.small
        for place in range(turns[start], end)
    )


def _is_whole(reading: Reading, statement: Statement) -> bool:
    """Whether a sentence holds nothing but the mention and small words."""
    start, end = reading.starts[statement.sentence], reading.ends[statement.sentence]
    if end - start > 6 or (end == len(reading.items) and breaks_off(reading)):
        return False
    if is_weak(statement) and end - start > 1:
        firm = statement.mention.shown_case and statement.place > start and statement.place == end - 1
        if not firm or reading.items[statement.place].break_before >= COMMA:
            return False
    return all(
        place == statement.place or (not isinstance(item, MentionItem) and item.key in reading.words.small)
        for place, item in enumerate(reading.items[start:end], start)
    )


def is_pointed_at(reading: Reading, statement: Statement) -> bool:
    """Whether an arrow or a pointing hand opens the line of a mention's sentence, and of no other one."""
    opens = [
        item.gap
        for item in reading.items
        if item.break_before >= LINE and (not _ARROWS.isdisjoint(item.gap) or "=>" in item.gap)
    ]
    return len(opens) == 1 and opens[0] is reading.items[reading.starts[statement.sentence]].gap
