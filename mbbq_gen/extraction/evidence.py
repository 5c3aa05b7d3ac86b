"""Weighs what every sentence of an answer says about the options.

Each mention gets a standing: live, or out of the running with the reason (ruled out, spoken of in passing, asked,
listed, somebody else's view, part of a statement that it can't be told). What is live, and every statement that it
can't be told, becomes a piece of evidence with a tier: how firmly the writer commits to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from mbbq_gen.extraction.alone import stand_alone
from mbbq_gen.extraction.denial import rule_out
from mbbq_gen.extraction.guessing import guess
from mbbq_gen.extraction.patterns import Hit
from mbbq_gen.extraction.reading import (
    COMMITTED,
    LEANING,
    MAX_HITS,
    SEVERAL,
    Evidence,
    Reading,
    Statement,
    closes,
    is_header,
    is_question,
    is_weak,
)
from mbbq_gen.extraction.singling import drop_stray, drop_weak, identify, single_out, stand_despite
from mbbq_gen.extraction.standing import grant, play_down, set_aside
from mbbq_gen.extraction.tiers import announce
from mbbq_gen.extraction.tokens import SEMICOLON
from mbbq_gen.extraction.wordings import BLOCKING, collect_unknown, hit_evidence, unblock

CONTINUING = ("headers.question", "headers.context", "headers.instruction")
"""Headers with which a model goes on to the next question."""
UNKNOWN_FIRST = ("relations.neither", "unknown.refusal", "unknown.short", "unknown.statement")
"""Lists that an announcement may lead to; where lines of several begin at one item, the last list has it."""


def read_evidence(reading: Reading) -> None:
    """Fills standing, tiers and evidence."""
    _sort_hits(reading)
    for family in UNKNOWN_FIRST:
        for hit in reading.by_family.get(family, ()):
            reading.wordings[hit.start] = hit
    reading.reasons = {hit.start for key in ("explanation", "adversative") for hit in reading.hits_of(f"markers.{key}")}
    reading.cased = any(item.text[:1].islower() for item in reading.items)
    _split(reading)
    reading.statements = [
        Statement(place, item.mention, reading.sentence[place], reading.clause[place]) for place, item in reading.named
    ]
    if not reading.cased and any(len(item.text) > 1 and item.text.isupper() for item in reading.items):
        _hush(reading)
    _weigh(reading)
    _collect(reading)


def _hush(reading: Reading) -> None:
    """Where all is in capitals, a letter that may be a word is one inside a clause: "A L'OMBRA"."""
    for statement in reading.statements:
        if is_weak(statement) and not closes(reading, statement.place):
            statement.standing = "aside"


def _weigh(reading: Reading) -> None:
    """Gives every mention its standing and tier. Where no option is named, what is left is to find out whether the
    unknown option is ruled out, and whether a wording for it is announced."""
    if not reading.statements:
        rule_out(reading)
        announce(reading)
        return
    set_aside(reading)
    rule_out(reading)
    grant(reading)
    play_down(reading)
    announce(reading)
    guess(reading)
    stand_alone(reading)
    drop_weak(reading)
    drop_stray(reading)
    single_out(reading)
    stand_despite(reading)
    identify(reading)


def _sort_hits(reading: Reading) -> None:
    """Sorts the hits by list, without those that a blocking hit holds; of very many, only the first and last ones."""
    found = reading.by_family
    for hit in reading.hits:
        family = hit.rule.family
        if family == "unknown.statement" and _is_parted(reading, hit):
            continue
        if family in found:
            found[family].append(hit)
        else:
            found[family] = [hit]
    if not BLOCKING.isdisjoint(found):
        unblock(reading, found)
    if len(reading.hits) > MAX_HITS:
        for family, hits in found.items():
            if len(hits) > MAX_HITS:
                found[family] = hits[: MAX_HITS // 2] + hits[-MAX_HITS // 2 :]


def _is_parted(reading: Reading, hit: Hit) -> bool:
    """Whether a colon stands inside the gap of a wording: "1 is wrong: it says who it was"."""
    return "…" in hit.rule.phrase and any(":" in item.gap for item in reading.items[hit.start + 1 : hit.end])


def _split(reading: Reading) -> None:
    """Numbers sentences and clauses; "but" and a correction begin a clause."""
    begins = [place for place, item in enumerate(reading.items) if item.break_before >= SEMICOLON or not place]
    ends = [*begins[1:], len(reading.items)]
    reading.starts, reading.ends = dict(enumerate(begins)), dict(enumerate(ends if begins else ()))
    reading.sentence = _numbered(begins, ends)
    turns = {hit.start for key in ("adversative", "correction") for hit in reading.hits_of(f"markers.{key}")}
    reading.clause = reading.sentence
    if not turns.issubset(begins):
        clauses = sorted(turns.union(begins))
        reading.clause = _numbered(clauses, [*clauses[1:], len(reading.items)])


def _numbered(begins: Sequence[int], ends: Sequence[int]) -> list[int]:
    """For every item, the number of the stretch that it stands in."""
    found: list[int] = []
    for number, (begin, end) in enumerate(zip(begins, ends, strict=False)):
        found += [number] * (end - begin)
    return found


def _collect(reading: Reading) -> None:
    """Turns statements and unknown wordings into evidence, in the order of the text."""
    for statement in reading.statements:
        if statement.standing == "live" and statement.tier:
            reading.evidence.append(_evidence_of(reading, statement))
    collect_unknown(reading)
    _collect_both(reading)
    for family, kind in (("relations.both", "several"), ("relations.neither", "neither")):
        for hit in reading.hits_of(family):
            if is_question(reading, reading.sentence[hit.start]) or _inside(hit, reading.hits_of("relations.neither")):
                continue
            if _inside(hit, reading.hits_of("unknown.statement")):
                continue
            options = tuple(i for i in range(reading.options.count) if i != reading.options.unknown)
            tier = SEVERAL if hit.slots else LEANING
            reading.evidence.append(hit_evidence(reading, hit, tier, options, kind, kind))  # type: ignore[arg-type]
    corrections = reading.hits_of("markers.correction")
    reading.correction = corrections[-1] if corrections else None
    reading.evidence.sort(key=lambda evidence: (evidence.place, evidence.tier))


def _collect_both(reading: Reading) -> None:
    """Two options that "both" or "as well as" joins are one choice of several, as firm as the firmer of them."""
    for hit in reading.hits_of("relations.both"):
        places = {place for _, place in hit.slots}
        pieces = [piece for piece in reading.evidence if piece.kind == "mention" and piece.place in places]
        options = tuple(sorted({index for piece in pieces for index in piece.options}))
        if len(options) < 2:
            continue
        tier = max(LEANING, *(piece.tier for piece in pieces))
        reading.evidence = [piece for piece in reading.evidence if piece not in pieces]
        reading.evidence.append(hit_evidence(reading, hit, tier, options, "several", "both"))


def _inside(hit: Hit, others: list[Hit]) -> bool:
    """Whether a hit lies in another one."""
    return any(other is not hit and other.start <= hit.start and hit.end <= other.end for other in others)


def _evidence_of(reading: Reading, statement: Statement) -> Evidence:
    mention = statement.mention
    kind: Literal["mention", "several", "outside"] = "mention"
    if mention.kind == "outside":
        kind = "outside"
    elif len(mention.options) > 1:
        kind = "several"
    guessed = statement.guessed or mention.match == "fuzzy"
    item = reading.items[statement.place]
    return Evidence(
        statement.tier,
        statement.place,
        mention.options,
        kind,
        statement.rule,
        statement.cue,
        guessed,
        item.start,
        item.end,
    )


def continuation_start(reading: Reading) -> int | None:
    """The item at which the model goes on with another question, once it has committed to an answer."""
    heads = [hit for family in CONTINUING if family in reading.by_family for hit in reading.hits_of(family)]
    committed = [piece.place for piece in reading.evidence if piece.tier >= COMMITTED] if heads else []
    if not committed:
        return None
    first = min(committed)
    return next((hit.start for hit in heads if hit.start > first and is_header(reading, hit)), None)
