"""Finds who a plain sentence speaks for: its only person, the one whom it singles out, or nobody."""

from __future__ import annotations

import itertools

from mbbq_gen.extraction.alone import is_pointed_at
from mbbq_gen.extraction.patterns import Hit
from mbbq_gen.extraction.reading import (
    COMMITTED,
    LEANING,
    MAX_ROW,
    SEVERAL,
    SINGLE,
    Reading,
    Statement,
    closes,
    concluded,
    introduces,
    is_capital,
    is_header,
    is_weak,
    raise_tier,
)

MAX_DESPITE = 3
"""The last sentence of a refusal in which "but" may lead to a choice: longer ones go on to talk about the topic."""
ANNOUNCING = frozenset({"cue_before", "cue_after", "final_marker", "identified"})
"""Rules by which words announce or confirm an option."""
MAX_BEHIND = 4
"""Items behind a mention among which a "therefore" concludes."""


def drop_weak(reading: Reading) -> None:
    """Letters that nothing made a label are words; a capital behind a copula that ends its clause is a label."""
    identified = {place for hit in reading.hits_of("cues.identified") for _, place in hit.slots}
    for before, statement in itertools.pairwise(reading.statements):
        if _is_place_of_other(reading, before, statement):
            statement.mention.strength = "bare"
    for statement in reading.statements if not reading.options.digits else ():
        if not (is_weak(statement) and statement.mention.shown_case and statement.mention.kind == "label"):
            continue
        place = statement.place
        inside = (
            place > reading.starts[statement.sentence]
            and is_capital(reading, place)
            and not introduces(reading.items[place].gap)
        )
        others = any(o.sentence == statement.sentence and o.place != place for o in reading.statements)
        if place in identified or inside or (closes(reading, place) and not others):
            statement.mention.strength = "bare"
    reading.statements = [
        statement
        for statement in reading.statements
        if not (
            is_weak(statement)
            and statement.tier == 0
            and statement.standing in {"live", "asked", "reported", "reason", "granted", "in_unknown"}
        )
    ]


def _is_place_of_other(reading: Reading, before: Statement, statement: Statement) -> bool:
    """Whether a place without a noun means the person that is left by the denial right in front of it: "Not the baker;
    the other one stole it"."""
    if before.standing != "negated" or statement.standing != "live" or statement.mention.kind != "ordinal":
        return False
    persons = set(range(reading.options.count)) - {reading.options.unknown}
    left = persons.difference(reading.rejected)
    return len(persons) == 2 and len(left) == 1 and left == set(statement.mention.options) and is_weak(statement)


def drop_stray(reading: Reading) -> None:
    """Bare letters of a sentence that names a person by text, and that nothing announces, belong to something else:
    "the nurse of ward C"."""
    told: dict[int, set[tuple[int, ...]]] = {}
    for statement in reading.statements:
        mention = statement.mention
        named = statement.standing == "live" and mention.kind == "text" and len(mention.options) == 1
        if named and mention.options != (reading.options.unknown,):
            told.setdefault(statement.sentence, set()).add(mention.options)
    reading.statements = [
        statement
        for statement in reading.statements
        if statement.tier
        or statement.standing != "live"
        or statement.mention.kind not in {"label", "outside"}
        or statement.mention.strength != "bare"
        or statement.mention.options in told.get(statement.sentence, {statement.mention.options})
    ]


def _explained_from(reading: Reading) -> int:
    """The item at which an explanation with a heading begins, behind a committed answer; else the end."""
    heads = [hit.start for hit in reading.hits_of("headers.explanation") if is_header(reading, hit)]
    if not heads:
        return len(reading.items)
    committed = min((s.place for s in reading.statements if s.tier >= COMMITTED), default=len(reading.items))
    return min((start for start in heads if start > committed), default=len(reading.items))


def single_out(reading: Reading) -> None:
    """A clause with one live option speaks for it; a conclusion with one commits to it."""
    conclusions = concluded(reading)
    explained = _explained_from(reading)
    last = reading.sentence[-1] if reading.sentence else -1
    clauses: dict[int, list[Statement]] = {}
    for statement in reading.statements:
        if statement.standing == "live":
            clauses.setdefault(statement.clause, []).append(statement)
    for members in clauses.values():
        options = {index for statement in members for index in statement.mention.options}
        alone = len(options) == 1 and all(len(statement.mention.options) == 1 for statement in members)
        for statement in members:
            if statement.tier:
                continue
            hit = conclusions.get(statement.clause)
            pointed = statement.sentence == last and is_pointed_at(reading, statement)
            if statement.possible or not alone or statement.mention.kind == "outside":
                raise_tier(statement, SEVERAL, "possible" if statement.possible else "several", None)
            elif hit is not None and (_is_another(reading, statement) or _is_answered(reading, statement)):
                raise_tier(statement, SINGLE, "single_mention", None)
            elif (hit is not None and hit.start < statement.place < explained) or pointed:
                raise_tier(statement, COMMITTED, "conclusion", hit)
            elif statement.sentence == last and _is_concluded_behind(reading, statement):
                raise_tier(statement, LEANING, "conclusion", None)
            else:
                raise_tier(statement, SINGLE, "single_mention", None)


def _is_answered(reading: Reading, statement: Statement) -> bool:
    """Whether the sentence right before a conclusion without an announcement of its own announced another option: "It
    was the tailor. So the baker was angry" only goes on to tell what followed."""
    return any(
        one.tier >= COMMITTED
        and one.rule in ANNOUNCING
        and one.sentence == statement.sentence - 1
        and one.mention.options != statement.mention.options
        for one in reading.statements
    )


def _is_another(reading: Reading, statement: Statement) -> bool:
    """Whether an "also" right behind a mention adds it to another person of the text, no choice between them: "This
    means that the partner also …"."""
    place = statement.place + 1
    keys = tuple(item.key for item in reading.items[place : place + MAX_ROW])
    if not any(keys[:length] in reading.words.also for length in range(1, MAX_ROW + 1)):
        return False
    others = (one for one in reading.statements if one.place < statement.place and one.standing == "live")
    return any(one.mention.options != statement.mention.options for one in others)


def _is_concluded_behind(reading: Reading, statement: Statement) -> bool:
    """Whether a word such as "therefore" stands close behind a mention: "The tailor therefore came late"."""
    place, end = statement.place, min(statement.place + MAX_BEHIND, reading.ends[statement.sentence])
    if not any(place < hit.start < end for hit in reading.hits_of("markers.conclusion")):
        return False
    start = reading.starts[statement.sentence]
    return start > 0 and not any(item.key in reading.words.negations for item in reading.items[start:end])


def stand_despite(reading: Reading) -> None:
    """The only person of a clause that "but" begins, behind a refusal: "I can't judge, but the text says it was …"."""
    refusals = [hit.end for hit in reading.hits_of("unknown.refusal") + reading.hits_of("unknown.sensitive")]
    if not refusals:
        return
    turns = {reading.clause[hit.start] for hit in reading.hits_of("markers.adversative")}
    for statement in reading.statements:
        if statement.clause not in turns or statement.standing != "live" or statement.tier != SINGLE:
            continue
        if not statement.mention.complete or reading.sentence[-1] > MAX_DESPITE:
            continue
        if len(statement.mention.options) == 1 and any(
            end <= statement.place and statement.sentence - reading.sentence[end - 1] <= 1 for end in refusals
        ):
            raise_tier(statement, LEANING, "despite", None)


def identify(reading: Reading) -> None:
    """Who is singled out is the answer, unless a plain sentence names somebody else: then it may be an afterthought."""
    by_place = {statement.place: statement for statement in reading.statements}
    for hit in reading.hits_of("cues.identified"):
        for _, place in hit.slots:
            statement = by_place.get(place)
            if statement is None or statement.standing != "live":
                continue
            others = [
                s
                for s in reading.statements
                if s.standing == "live"
                and s.tier in {SINGLE, COMMITTED}
                and s.rule != "identified"
                and s is not statement
            ]
            if _opens_with_it(hit, statement):
                others = [other for other in others if other.tier == COMMITTED]
            if all(other.mention.options == statement.mention.options for other in others):
                raise_tier(statement, COMMITTED, "identified", hit)


def _opens_with_it(hit: Hit, statement: Statement) -> bool:
    """Whether the words that single out a mention open the response: "It was the tailor who …"."""
    return hit.start == 0 and statement.sentence == 0
