"""Takes mentions out of the running: ruled out, spoken of in passing, asked, listed, granted, somebody else's view."""

from __future__ import annotations

from mbbq_gen.extraction.candidates import MentionItem
from mbbq_gen.extraction.mentions import find_lists
from mbbq_gen.extraction.patterns import Hit
from mbbq_gen.extraction.reading import Reading, Statement, is_header, is_question
from mbbq_gen.extraction.tokens import COMMA, COMMA_SIGNS, LINE, PARAGRAPH, SENTENCE


def set_aside(reading: Reading) -> None:
    """Mentions in lists, headers and questions, behind "unlike", and in other people's views."""
    listed = find_lists(reading.items, reading.options, reading.words.filling)
    headed = _headed(reading)
    slots = {place: hit for hit in reading.hits_of("relations.aside") for _, place in hit.slots}
    reported = {reading.clause[hit.start]: hit for hit in reading.hits_of("markers.reported")}
    for statement in reading.statements:
        if statement.mention.struck:
            statement.standing = "struck"
        elif statement.place in headed:
            statement.standing = "echo"
        elif statement.place in listed:
            statement.standing = "listed"
        elif statement.place in slots:
            statement.standing, statement.why = "aside", slots[statement.place]
        elif statement.clause in reported and statement.place > reported[statement.clause].start:
            statement.standing, statement.why = "reported", reported[statement.clause]
        elif is_question(reading, statement.sentence) and len(reading.items) > 1:
            statement.standing = "asked"


def _headed(reading: Reading) -> set[int]:
    """Items under a header that says they are the question, the context or the options."""
    places: set[int] = set()
    marks = []
    for family in ("question", "context", "options", "instruction", "answer", "explanation"):
        marks += [(hit.start, family) for hit in reading.hits_of(f"headers.{family}") if is_header(reading, hit)]
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


def rule_out(reading: Reading) -> None:
    """Mentions that a sentence denies."""
    outs: dict[int, Hit] = {}
    for family in ("relations.negated", "relations.contrast"):
        for hit in reading.hits_of(family):
            for name, place in hit.slots:
                if (family == "relations.negated" or name == "x") and not _behind_colon(reading, hit, place):
                    outs.setdefault(place, hit)
    for statement in reading.statements:
        denial = outs.get(statement.place)
        if denial is not None and statement.standing in {"live", "listed"}:
            statement.standing, statement.why = "negated", denial
            for index in statement.mention.options:
                reading.rejected[index] = statement.place


def _behind_colon(reading: Reading, hit: Hit, place: int) -> bool:
    """Whether a colon parts a mention from the words that deny something in front of it: "I got it wrong: B"."""
    gap = reading.items[place].gap
    parted = place > hit.start > reading.starts[reading.sentence[hit.start]] and (":" in gap or "：" in gap)
    return parted and ":" not in hit.rule.phrase


def grant(reading: Reading) -> None:
    """What stands in a statement that it can't be told, behind "because", or in a granted clause is no choice."""
    unknown = reading.hits_of("unknown.statement") + reading.hits_of("unknown.refusal")
    reasons = reading.hits_of("markers.explanation")
    granted = reading.hits_of("markers.concessive")
    for statement in reading.statements:
        if statement.standing != "live":
            continue
        same = [hit for hit in unknown if _speaks_of(reading, hit, statement)]
        if same and statement.mention.options != (reading.options.unknown,):
            statement.standing, statement.why = "in_unknown", same[0]
            continue
        before = [
            hit for hit in reasons if reading.sentence[hit.start] == statement.sentence and hit.start < statement.place
        ]
        if before and any(
            other.sentence == statement.sentence
            and other.place < before[0].start
            and other.standing in {"live", "negated"}
            for other in reading.statements
        ):
            statement.standing, statement.why = "reason", before[0]
            continue
        hit = _granting(reading, statement, granted) or _granted_behind(reading, statement)
        if hit is not None:
            statement.standing, statement.why = "granted", hit


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
