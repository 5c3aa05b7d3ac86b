"""Reads hedges and forced choices: a guess is a choice, a firm answer the better one."""

from __future__ import annotations

from mbbq_gen.extraction.patterns import Hit
from mbbq_gen.extraction.reading import (
    COMMITTED,
    LEANING,
    Reading,
    Statement,
    closes,
    is_weak,
    raise_tier,
)
from mbbq_gen.extraction.tokens import COMMA_SIGNS


def guess(reading: Reading) -> None:
    """Hedges and forced choices."""
    by_place = {statement.place: statement for statement in reading.statements}
    for family, possible in (("hedges.possible", True), ("hedges.likely", False)):
        for hit in reading.hits_of(family):
            for statement in _hedged(reading, by_place, hit):
                statement.guessed, statement.possible = True, possible
                if not possible:
                    statement.standing = "live"
                    raise_tier(statement, LEANING, "hedged", hit)
    for hit in reading.hits_of("markers.forced_choice"):
        chosen = _forced(reading, hit)
        if chosen is not None:
            chosen.guessed = True
            chosen.mention.strength = "strong"
            raise_tier(chosen, LEANING, "forced", hit)
            if chosen.tier == COMMITTED:
                chosen.tier, chosen.rule = LEANING, "forced"


def _hedged(reading: Reading, by_place: dict[int, Statement], hit: Hit) -> list[Statement]:
    """The mentions that a hedge speaks of: those in its slots, else the first live one behind it in the clause."""
    found = [by_place[place] for _, place in hit.slots]
    if not hit.slots:
        behind = [s for s in reading.statements if s.clause == reading.clause[hit.start] and s.place > hit.start]
        found = [s for s in behind if s.standing == "live"][:1] or _asked_likely(reading, behind, hit)
    for statement in found:
        if hit.slots and statement.mention.shown_case and is_weak(statement):
            statement.mention.strength = "bare"
    revived = {"live", "in_unknown", "listed"} | ({"asked"} if hit.rule.home else set())
    return [s for s in found if s.standing in revived and not is_weak(s)]


def _asked_likely(reading: Reading, behind: list[Statement], hit: Hit) -> list[Statement]:
    """The only mention of a guess that is written as a question: "Probably the baker?"."""
    asked = [statement for statement in behind if statement.standing == "asked"]
    start = reading.starts[reading.sentence[hit.start]]
    begins = hit.start == start or (hit.start == start + 1 and not COMMA_SIGNS.isdisjoint(reading.items[hit.start].gap))
    if not begins or len(asked) != 1 or asked[0].place - hit.end > 1:
        return []
    if hit.rule.family == "hedges.possible" and reading.ends[asked[0].sentence] != asked[0].place + 1:
        return []
    asked[0].standing = "live"
    if asked[0].mention.shown_case and is_weak(asked[0]):
        asked[0].mention.strength = "bare"
    return asked


def _forced(reading: Reading, hit: Hit) -> Statement | None:
    """The mention that a forced choice leads to: the first live one in its sentence, else in the next."""
    sentence = reading.sentence[hit.start]
    behind = [s for s in reading.statements if s.place > hit.start and s.sentence - sentence in {0, 1}]
    here = [s for s in behind if s.sentence == sentence]
    for statement in here or behind:
        if statement.standing == "live" and (not is_weak(statement) or closes(reading, statement.place)):
            return statement
    return None
