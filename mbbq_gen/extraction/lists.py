"""Tells mere lists of the options, in lines or inside a line, from answers."""

from __future__ import annotations

from collections.abc import Sequence

from mbbq_gen.extraction.mentions import Item, MentionItem
from mbbq_gen.extraction.optionset import OptionSet
from mbbq_gen.extraction.tokens import COMMA, LINE, SENTENCE

_LEADING = frozenset(":：–—→⇒")
"""Signs behind the head of an entry."""
MAX_BETWEEN = 4
"""Items between two entries of a list inside a line, the second one included."""


def find_lists(
    items: Sequence[Item], named: Sequence[tuple[int, MentionItem]], options: OptionSet, small: frozenset[str]
) -> set[int]:
    """Items that are part of a mere list of the options, by place in the row.

    A list is a run of labelled texts in display order from the first option on that leaves out at most one, a run of
    lines that are all the texts in order, or one mention that joins all options. Inside a line only small words part
    the entries.
    """
    need = options.count if options.count < 3 else options.count - 1
    listed = {place for place, item in named if len(item.mention.options) >= options.count}
    places = [place for place, item in named if item.is_mention]
    if len(places) < need:
        return listed | _labelled_lines(items, _lines(items)) if len(places) > 1 else listed
    for entry, length in ((_is_labelled, need), (_is_text, options.count), (_is_entry, options.count)):
        fitting = {place for place in places if entry(items, place)}
        if len(fitting) < length:
            continue
        between = small.union(options.labels)
        run: list[int] = []
        for place in places:
            item = items[place]
            fits = place in fitting
            if fits and run and _goes_on(items, run[-1], place, between):
                run.append(place)
            elif fits or (isinstance(item, MentionItem) and item.mention.kind != "text") or entry is not _is_labelled:
                listed |= _finished(items, run, length)
                run = [place] if fits else []
        listed |= _finished(items, run, length)
    listed |= {place - 1 for place in listed if _is_own_label(items, place - 1, place)}
    lines = _lines(items)
    return listed | _discussed(items, named, need) | _bare_lines(items, lines) | _rows(items, lines, options.count)


def _labelled_lines(items: Sequence[Item], lines: Sequence[tuple[int, int]]) -> set[int]:
    """The heads of lines that are all there is and begin with the labels from the first one on, each with words of its
    own behind it, be there only two of them."""
    heads = [items[start] for start, end in lines if end - start > 1]
    if not 1 < len(heads) == len(lines):
        return set()
    for number, head in enumerate(heads):
        if not isinstance(head, MentionItem) or head.mention.label != number or head.mention.strength != "strong":
            return set()
    return {start for start, _ in lines}


def _is_own_label(items: Sequence[Item], place: int, text: int) -> bool:
    """Whether an item is the label of the text right behind it, though it may be a word."""
    item = items[place] if place >= 0 else None
    return (
        isinstance(item, MentionItem)
        and item.mention.kind == "label"
        and _option_at(items, place) == _option_at(items, text)
    )


def _rows(items: Sequence[Item], lines: Sequence[tuple[int, int]], count: int) -> set[int]:
    """The items of table rows that name all options."""
    listed: set[int] = set()
    for start, end in lines:
        if end - start < count or "|" not in items[start + 1].gap:
            continue
        options = {
            index for item in items[start:end] if isinstance(item, MentionItem) for index in item.mention.options
        }
        if len(options) >= count:
            listed.update(range(start, end))
    return listed


def _bare_lines(items: Sequence[Item], lines: Sequence[tuple[int, int]]) -> set[int]:
    """Lines that hold an option and nothing else, one below the other: a list, even if some of its lines are missing,
    stand in another order, or are cut off. A line that comes again begins another list or is an answer."""
    listed: set[int] = set()
    if len(lines) < 2:
        return listed
    run: dict[str, tuple[int, int]] = {}
    for start, end in [*lines, (len(items), len(items))]:
        entry = _entry_of(items, start, end)
        if entry is None or entry in run or (run and entry.startswith("text") and "label" in next(reversed(run))):
            listed |= _in_lines(run)
            run = {}
        if entry is not None:
            run[entry] = start, end
    return listed | _in_lines(run)


def _in_lines(run: dict[str, tuple[int, int]]) -> set[int]:
    """The items of two or more lines."""
    return {place for start, end in run.values() for place in range(start, end)} if len(run) > 1 else set()


def _lines(items: Sequence[Item]) -> list[tuple[int, int]]:
    """First and last item of every line."""
    starts = [place for place, item in enumerate(items) if item.break_before >= LINE or not place]
    return list(zip(starts, [*starts[1:], len(items)], strict=True))


def _entry_of(items: Sequence[Item], start: int, end: int) -> str | None:
    """What a line that names an option and nothing else is an entry for, a label or a text; the last line may be cut
    off behind its label."""
    first = items[start] if start < end else None
    if not isinstance(first, MentionItem) or len(first.mention.options) != 1 or not first.is_mention:
        return None
    mention, rest = first.mention, items[start + 1 : end]
    if mention.struck:
        return None
    cut = end == len(items) and len(rest) <= MAX_BETWEEN and mention.label is not None
    if (mention.kind == "label" and not rest) or (rest and not cut):
        return None
    return f"text {mention.options[0]}" if mention.label is None else f"label {mention.label}"


def _is_labelled(items: Sequence[Item], place: int) -> bool:
    """Whether a mention looks like one line of the labelled list of options."""
    item = items[place]
    if not isinstance(item, MentionItem) or len(item.mention.options) != 1:
        return False
    mention = item.mention
    if mention.kind == "label_text":
        return mention.label == mention.options[0]
    alone = place + 1 == len(items) or items[place + 1].break_before >= LINE
    return mention.heads_line and mention.kind == "label" and mention.strength == "strong" and not alone


def _discussed(items: Sequence[Item], named: Sequence[tuple[int, MentionItem]], need: int) -> set[int]:
    """Sentences that begin with a label, or lines that begin with a text, and a colon or dash or arrow and go on in
    words, for all options but one at most."""
    found: dict[int, int] = {}
    for place, item in named:
        if item.break_before < SENTENCE or len(item.mention.options) != 1 or place + 1 == len(items):
            continue
        after = items[place + 1]
        described = item.mention.kind == "label_text" or not _LEADING.isdisjoint(after.gap) or " - " in after.gap
        begins = item.mention.label is not None or item.break_before >= LINE
        if described and begins and after.break_before < SENTENCE and not isinstance(after, MentionItem):
            found.setdefault(item.mention.options[0], place)
    return set(found.values()) if len(found) >= max(2, need) else set()


def _is_text(items: Sequence[Item], place: int) -> bool:
    """Whether a mention is one option's text."""
    item = items[place]
    return isinstance(item, MentionItem) and len(item.mention.options) == 1 and item.mention.kind == "text"


def _is_entry(items: Sequence[Item], place: int) -> bool:
    """Whether a mention is one option's text, with its own label or without one."""
    return _is_text(items, place) or _is_labelled(items, place)


def _goes_on(items: Sequence[Item], last: int, place: int, small: frozenset[str]) -> bool:
    """Whether an entry is the next one of a run: on a new line, or behind small words and a comma or the like."""
    if _option_at(items, place) <= _option_at(items, last):
        return False
    between = items[last + 1 : place + 1]
    if items[place].break_before >= LINE:
        return True
    labelled = _is_labelled(items, place)
    parted = labelled or any(item.break_before >= COMMA or "/" in item.gap for item in between)
    return parted and len(between) <= MAX_BETWEEN and all(item.key in small for item in between[:-1])


def _option_at(items: Sequence[Item], place: int) -> int:
    item = items[place]
    return item.mention.options[0] if isinstance(item, MentionItem) else -1


def _finished(items: Sequence[Item], run: list[int], need: int) -> set[int]:
    """A run that is long enough and begins with the first option."""
    return set(run) if len(run) >= need and _option_at(items, run[0]) == 0 else set()


def heads_table(items: Sequence[Item], place: int) -> bool:
    """Whether an item stands in the head of a table whose rows name two options or more."""
    below = next((other for other in range(place + 1, len(items)) if items[other].break_before >= LINE), len(items))
    if below == len(items) or "|" not in items[below].gap or "--" not in items[below].gap:
        return False
    rows = [item for item in items[below:] if isinstance(item, MentionItem) and "|" in item.gap and "\n" in item.gap]
    return len({item.mention.options for item in rows}) > 1
