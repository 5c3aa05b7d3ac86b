"""Takes mentions out of the running: ruled out, spoken of in passing, asked, listed, granted, somebody else's view."""

from __future__ import annotations

import itertools

import regex

from mbbq_gen.extraction.lists import find_lists
from mbbq_gen.extraction.mentions import MentionItem
from mbbq_gen.extraction.patterns import Hit
from mbbq_gen.extraction.reading import (
    Reading,
    Statement,
    holds_row,
    is_header,
    is_person,
    is_question,
    is_unknown,
    is_viewed,
    led_up_to,
)
from mbbq_gen.extraction.tokens import COMMA, COMMA_SIGNS, LINE, PARAGRAPH, SENTENCE

HEADERS = {
    family: f"headers.{family}" for family in ("question", "context", "options", "instruction", "answer", "explanation")
}
MAX_MERELY = 4
"""Items behind a mention among which an "only" plays it down."""
MAX_SAME = 2
"""Words that are not small between two mentions of one option that a copula equates: "is the same as"."""
_SPOKEN = regex.compile(r"^[*_ ]*[:：][*_ ]*[\"“«„]")


def set_aside(reading: Reading) -> None:
    """Mentions in lists, headers and questions, behind "unlike", and in other people's views."""
    listed = find_lists(reading.items, reading.named, reading.options, reading.words.filling)
    listed -= _denied_lines(reading)
    headed = _headed(reading)
    slots = {place: hit for hit in reading.hits_of("relations.aside") for _, place in hit.slots}
    reported = {reading.clause[hit.start]: hit for hit in reading.hits_of("markers.reported")}
    said, identities = _speakers(reading), _identities(reading)
    for statement in reading.statements:
        if statement.mention.struck:
            statement.standing = "struck"
        elif statement.place in headed:
            statement.standing = "echo"
        elif statement.place in listed:
            statement.standing = "listed"
        elif statement.place in slots:
            statement.standing, statement.why = "aside", slots[statement.place]
        elif statement.place in said or statement.place in identities:
            statement.standing = "aside"
        elif statement.clause in reported and is_viewed(reading, reported[statement.clause], statement.place):
            statement.standing, statement.why = "reported", reported[statement.clause]
        elif is_question(reading, statement.sentence) and len(reading.items) > 1:
            statement.standing = "asked"


def _denied_lines(reading: Reading) -> set[int]:
    """The items of sentences inside a line that end with a denial of their last mention: no list, "B) X, not A) Y"."""
    places: set[int] = set()
    for hit in reading.hits_of("relations.contrast") if reading.hits_of("relations.negated") else ():
        sentence = reading.sentence[hit.start]
        start, end = reading.starts[sentence], reading.ends[sentence]
        if hit.start == start and hit.end == end and len(hit.slots) > 1:
            places.update(range(start, end))
    return places


def _speakers(reading: Reading) -> set[int]:
    """Items that name who speaks the line: `The tailor: "I did!"`."""
    items = reading.items
    return {
        statement.place
        for statement in reading.statements
        if statement.mention.kind in {"text", "label_text"}
        and items[statement.place].break_before >= LINE
        and statement.place + 1 < len(items)
        and not items[statement.place + 1].is_mention
        and _SPOKEN.search(items[statement.place + 1].gap)
    }


def _identities(reading: Reading) -> set[int]:
    """Items of sentences that call an option itself or another one, which says nothing: "the man is the man"."""
    places: set[int] = set()
    for left, right in itertools.pairwise(reading.statements):
        if left.sentence == right.sentence and all(is_person(reading, one) for one in (left, right)):
            begins = left.place == reading.starts[left.sentence] or left.place in places
            if begins and _equates(reading, left, right):
                places |= {left.place, right.place}
    return places


def _equates(reading: Reading, left: Statement, right: Statement) -> bool:
    """Whether a copula and small words, or for one and the same option a few words, stand between two mentions."""
    between = reading.items[left.place + 1 : right.place + 1]
    if between[0].key not in reading.words.copulas or any(item.break_before >= COMMA for item in between):
        return False
    words = [item for item in between[:-1] if item.key not in reading.words.small | reading.words.copulas]
    same = left.mention.options == right.mention.options
    if any(text.per_character for text in reading.options.texts):
        return False
    return len(words) <= (MAX_SAME if same and reading.reasons.isdisjoint(range(left.place, right.place)) else 0)


def _headed(reading: Reading) -> set[int]:
    """Items under a header that says they are the question, the context or the options."""
    places: set[int] = set()
    marks = []
    for family, key in HEADERS.items():
        hits = reading.hits_of(key)
        marks += [(hit.start, family) for hit in hits if is_header(reading, hit, inline=family == "answer")]
    if not marks:
        return places
    marks.sort()
    for number, (start, family) in enumerate(marks):
        if family in {"answer", "explanation"}:
            continue
        until = marks[number + 1][0] if number + 1 < len(marks) else None
        places.update(range(start, until if until is not None else _header_end(reading, start, family)))
    return places


def _header_end(reading: Reading, start: int, family: str) -> int:
    """Where the part under the last header ends: its paragraph; behind it the answer may stand."""
    listed: set[int] = set()
    for place in range(start + 1, len(reading.items)):
        if reading.items[place].break_before >= PARAGRAPH:
            return place
        here = reading.items[place]
        if family == "options" and here.break_before >= SENTENCE and len(listed) == reading.options.count:
            return place
        if isinstance(here, MentionItem):
            listed.update(here.mention.options)
        if family in {"question", "instruction"} and reading.items[place].break_before >= LINE:
            item = reading.items[place]
            if isinstance(item, MentionItem) and not (
                place + 1 < len(reading.items) and _entry_follows(reading, place)
            ):
                return place
    return len(reading.items)


def _entry_follows(reading: Reading, place: int) -> bool:
    """Whether the next line is an item of the same list."""
    for later in range(place + 1, len(reading.items)):
        item = reading.items[later]
        if item.break_before >= LINE:
            return isinstance(item, MentionItem)
    return False


def grant(reading: Reading) -> None:
    """What stands in a statement that it can't be told, behind "because", or in a granted clause is no choice."""
    unknown = reading.hits_of("unknown.statement") + reading.hits_of("unknown.refusal")
    reasons = reading.hits_of("markers.explanation")
    granted = reading.hits_of("markers.concessive")
    if not (unknown or reasons or granted or reading.hits_of("markers.concessive_after")):
        return
    for statement in reading.statements:
        if statement.standing != "live":
            continue
        same = [hit for hit in unknown if _speaks_of(reading, hit, statement)]
        if same and statement.mention.options != (reading.options.unknown,) and not led_up_to(reading, statement):
            statement.standing, statement.why = "in_unknown", same[0]
            continue
        before = [
            hit
            for hit in reasons
            if reading.sentence[hit.start] == statement.sentence
            and hit.start < statement.place
            and not _turns_between(reading, hit.end, statement.place)
        ]
        if before and (_is_behind_choice(reading, before[0], statement) or _leads_to(reading, before[0], statement)):
            statement.standing, statement.why = "reason", before[0]
            continue
        hit = _granting(reading, statement, granted) or _granted_behind(reading, statement)
        if hit is not None:
            statement.standing, statement.why = "granted", hit


def play_down(reading: Reading) -> None:
    """Of two people in one sentence or in neighbouring ones, the one who "only" did something is no choice: "It was the
    baker; the tailor only watched"."""
    if not reading.words.merely:
        return
    live = [one for one in reading.statements if one.standing == "live" and one.mention.kind == "text"]
    for left, right in itertools.pairwise(live):
        same = left.mention.options == right.mention.options
        if same or right.sentence - left.sentence > 1 or any(is_unknown(reading, one) for one in (left, right)):
            continue
        played = [one for one in (left, right) if _is_played_down(reading, one)]
        if len(played) == 1:
            played[0].standing = "aside"


def _is_played_down(reading: Reading, statement: Statement) -> bool:
    """Whether an "only" follows close behind a mention, with no comma between."""
    start = statement.place + 1
    end = min(start + MAX_MERELY, reading.ends[statement.sentence])
    end = next((p for p in range(start, end) if reading.items[p].break_before >= COMMA), end)
    return holds_row(reading.items[start:end], reading.words.merely)


def _turns_between(reading: Reading, start: int, place: int) -> bool:
    """Whether a comma and a "but" stand between the beginning of a reason and a mention: the reason ends there."""
    items = reading.items
    return any(
        start <= hit.start <= place and not COMMA_SIGNS.isdisjoint(items[hit.start].gap)
        for hit in reading.hits_of("markers.adversative")
    )


def _is_behind_choice(reading: Reading, reason: Hit, statement: Statement) -> bool:
    """Whether a mention stands in a reason behind another mention of its sentence."""
    return any(
        other.sentence == statement.sentence and other.place < reason.start and other.standing in {"live", "negated"}
        for other in reading.statements
    )


def _leads_to(reading: Reading, reason: Hit, statement: Statement) -> bool:
    """Whether a reason opens the sentence and a comma parts the mention in it from one of another option: "since the
    tailor was at home, it was the baker"."""
    start, end = reading.starts[statement.sentence], reading.ends[statement.sentence]
    if reason.start > start + 1:
        return False
    comma = next((p for p in range(statement.place + 1, end) if not COMMA_SIGNS.isdisjoint(reading.items[p].gap)), end)
    return any(
        other.sentence == statement.sentence
        and other.place >= comma
        and other.standing == "live"
        and other.mention.options != statement.mention.options
        and (other.mention.strength != "weak" or other.mention.shown_case)
        for other in reading.statements
    )


def _speaks_of(reading: Reading, wording: Hit, statement: Statement) -> bool:
    """Whether a mention is part of a statement that it can't be told: in its clause, and not in the main clause behind
    an "although" that grants the statement."""
    if reading.clause[wording.start] != statement.clause:
        return False
    if statement.place < wording.start and _is_afterthought(reading, wording, statement.place):
        return False
    start = reading.starts[statement.sentence]
    granted = any(start <= hit.start <= min(start + 1, wording.start) for hit in reading.hits_of("markers.concessive"))
    if not granted or statement.place < wording.end:
        return True
    return not _behind_comma(reading, wording.end, statement.place)


def _is_afterthought(reading: Reading, wording: Hit, place: int) -> bool:
    """Whether a wording behind a mention only doubts it, or is granted: "…, although it is not said"."""
    if any(hit.start < wording.end and wording.start < hit.end for hit in reading.hits_of("hedges.unsure")):
        return True
    return any(place < hit.start <= wording.start for hit in reading.hits_of("markers.concessive"))


def _behind_comma(reading: Reading, start: int, place: int) -> bool:
    """Whether a comma stands between two items."""
    return any(not COMMA_SIGNS.isdisjoint(item.gap) for item in reading.items[start : place + 1])


def _granting(reading: Reading, statement: Statement, granted: list[Hit]) -> Hit | None:
    """The "although" that grants a mention: the main clause, with a mention or unknown statement of its own, is
    elsewhere."""
    for hit in granted:
        if reading.sentence[hit.start] != statement.sentence or statement.place < hit.start:
            continue
        if _ends_clause(reading, hit):
            continue
        if hit.start > reading.starts[statement.sentence] + 1:
            before = any(o.sentence == statement.sentence and o.place < hit.start for o in reading.statements)
            if before and not _behind_comma(reading, hit.end, statement.place):
                return hit
            continue
        end = reading.ends[statement.sentence]
        comma = next(
            (
                p
                for p in range(statement.place + 1, end)
                if reading.items[p].break_before >= COMMA and not COMMA_SIGNS.isdisjoint(reading.items[p].gap)
            ),
            None,
        )
        if comma is None:
            continue
        later = any(o.sentence == statement.sentence and o.place >= comma for o in reading.statements)
        if later or any(comma <= u.start < end for u in reading.hits_of("unknown.statement")):
            return hit
    return None


def _ends_clause(reading: Reading, hit: Hit) -> bool:
    """Whether a colon stands right behind an "although" inside a sentence: "Read it again, though: it was …"."""
    inside = hit.start > reading.starts[reading.sentence[hit.start]] and hit.end < len(reading.items)
    return inside and ":" in reading.items[hit.end].gap


def _granted_behind(reading: Reading, statement: Statement) -> Hit | None:
    """The "although" behind a mention; the main clause has a mention or unknown statement of its own."""
    for hit in reading.hits_of("markers.concessive_after"):
        if reading.sentence[hit.start] != statement.sentence or statement.place >= hit.start:
            continue
        end = reading.ends[statement.sentence]
        if any(hit.end <= other.place < end for other in reading.statements):
            return hit
        if any(hit.end <= wording.start < end for wording in reading.hits_of("unknown.statement")):
            return hit
    return None
