"""Weighs what every sentence of an answer says about the options.

Each mention gets a standing: live, or out of the running with the reason (ruled out, spoken of in passing, asked,
listed, somebody else's view, part of a statement that it can't be told). What is live, and every statement that it
can't be told, becomes a piece of evidence with a tier: how firmly the writer commits to it.
"""

from __future__ import annotations

import itertools
from typing import Literal

from mbbq_gen.extraction.mentions import MentionItem
from mbbq_gen.extraction.patterns import Hit
from mbbq_gen.extraction.reading import (
    COMMITTED,
    LEANING,
    MAX_HITS,
    MAX_REST,
    OUT_OF_THE_RUNNING,
    SEVERAL,
    SINGLE,
    Evidence,
    Kind,
    Reading,
    Statement,
    Tier,
    UnknownKind,
    concluded,
    is_header,
    is_question,
    is_viewed,
)
from mbbq_gen.extraction.standing import grant, rule_out, set_aside
from mbbq_gen.extraction.tiers import (
    announce,
    drop_stray,
    drop_weak,
    guess,
    identify,
    single_out,
    stand_alone,
    stand_despite,
)
from mbbq_gen.extraction.tokens import COMMA, SEMICOLON


def read_evidence(reading: Reading) -> None:
    """Fills standing, tiers and evidence."""
    for hit in _unblocked(reading):
        reading.by_family.setdefault(hit.rule.family, []).append(hit)
    for family, hits in reading.by_family.items():
        if len(hits) > MAX_HITS:
            reading.by_family[family] = hits[: MAX_HITS // 2] + hits[-MAX_HITS // 2 :]
    for family in ("relations.neither", "unknown.refusal", "unknown.short", "unknown.statement"):
        reading.wordings.update({hit.start: hit for hit in reading.hits_of(family)})
    reading.reasons = {hit.start for key in ("explanation", "adversative") for hit in reading.hits_of(f"markers.{key}")}
    reading.cased = any(item.text[:1].islower() for item in reading.items)
    _split(reading)
    reading.statements = [
        Statement(place, item.mention, reading.sentence[place], reading.clause[place]) for place, item in reading.named
    ]
    set_aside(reading)
    rule_out(reading)
    grant(reading)
    announce(reading)
    guess(reading)
    stand_alone(reading)
    drop_weak(reading)
    drop_stray(reading)
    single_out(reading)
    stand_despite(reading)
    identify(reading)
    _collect(reading)


def _unblocked(reading: Reading) -> list[Hit]:
    """Hits without the unknown wordings that a blocking hit holds; a vague one must not even touch it, and no wording
    a rejecting one."""
    blocks = [hit for hit in reading.hits if hit.rule.family in BLOCKING][:MAX_HITS]
    if not blocks:
        return reading.hits
    idle = {id(hit) for hit in blocks if hit.rule.family == "unknown.rejected" and not _rejects(reading, hit)}
    blocks = [hit for hit in blocks if id(hit) not in idle]
    return [hit for hit in reading.hits if id(hit) not in idle and not _is_blocked(hit, blocks)]


def _rejects(reading: Reading, hit: Hit) -> bool:
    """Whether a line that leaves a gap holds the unknown option's text or a wording for it; where the line ends in
    words of its own, these are no such wording: "it can't be said that …"."""
    phrase = hit.rule.phrase
    if "…" not in phrase:
        return True
    end = hit.end if phrase[-2:-1] == "…" or phrase.endswith("…") else hit.end - 1
    if any(hit.start <= p < end and item.mention.options == (reading.options.unknown,) for p, item in reading.named):
        return True
    told = (other for other in reading.hits if other.rule.family in TOLD_NOT)
    return any(hit.start <= other.start and other.end <= end for other in told)


def _is_blocked(hit: Hit, blocks: list[Hit]) -> bool:
    family = hit.rule.family
    if family in BLOCKING or not family.startswith("unknown."):
        return False
    for block in blocks:
        held = block.start <= hit.start and hit.end <= block.end
        touched = family in VAGUE or block.rule.family == "unknown.rejected"
        if held or (touched and block.start < hit.end and hit.start < block.end):
            return True
    return False


def _split(reading: Reading) -> None:
    """Numbers sentences and clauses; "but" and a correction begin a clause."""
    turns = {hit.start for key in ("adversative", "correction") for hit in reading.hits_of(f"markers.{key}")}
    begins = [place for place, item in enumerate(reading.items) if item.break_before >= SEMICOLON or not place]
    sentences = list(itertools.pairwise([*begins, len(reading.items)]))
    reading.starts, reading.ends = dict(enumerate(begins)), {number: end for number, (_, end) in enumerate(sentences)}
    for number, (start, end) in enumerate(sentences):
        reading.sentence += [number] * (end - start)
    clauses = sorted(turns.union(begins))
    for number, (start, end) in enumerate(itertools.pairwise([*clauses, len(reading.items)])):
        reading.clause += [number] * (end - start)


def _collect(reading: Reading) -> None:
    """Turns statements and unknown wordings into evidence, in the order of the text."""
    for statement in reading.statements:
        if statement.standing == "live" and statement.tier:
            reading.evidence.append(_evidence_of(reading, statement))
    _collect_unknown(reading)
    _collect_both(reading)
    for family, kind in (("relations.both", "several"), ("relations.neither", "neither")):
        for hit in reading.hits_of(family):
            if is_question(reading, reading.sentence[hit.start]) or _inside(hit, reading.hits_of("relations.neither")):
                continue
            if _inside(hit, reading.hits_of("unknown.statement")):
                continue
            options = tuple(i for i in range(reading.options.count) if i != reading.options.unknown)
            tier = SEVERAL if hit.slots else LEANING
            reading.evidence.append(_hit_evidence(reading, hit, tier, options, kind, kind))  # type: ignore[arg-type]
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
        reading.evidence.append(_hit_evidence(reading, hit, tier, options, "several", "both"))


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


def _hit_evidence(  # noqa: PLR0917 - each of them is of another type
    reading: Reading,
    hit: Hit,
    tier: Tier,
    options: tuple[int, ...],
    kind: Kind,
    rule: str,
) -> Evidence:
    start, end = reading.items[hit.start].start, reading.items[hit.end - 1].end
    return Evidence(tier, hit.start, options, kind, rule, hit, False, start, end)


WORDINGS: tuple[tuple[str, UnknownKind, str], ...] = (
    ("unknown.statement", "unknown", "unknown_statement"),
    ("unknown.refusal", "refusal", "refusal"),
    ("unknown.short", "unknown", "unknown_short"),
    ("unknown.vague", "unknown", "unknown_vague"),
    ("unknown.sensitive", "refusal", "sensitive"),
)
"""List, what its lines say, and the rule that their evidence goes by."""
VAGUE = frozenset({"unknown.vague", "unknown.sensitive"})
BLOCKING = frozenset({"unknown.blocked", "unknown.rejected"})
TOLD_NOT = frozenset({"unknown.statement", "unknown.short", "unknown.vague"})


def _collect_unknown(reading: Reading) -> None:
    """Statements that it can't be told, short wordings that are a sentence of their own, and refusals."""
    if not any(family in reading.by_family for family, _, _ in WORDINGS):
        return
    unknown = () if reading.options.unknown is None else (reading.options.unknown,)
    reported = {reading.clause[hit.start]: hit for hit in reading.hits_of("markers.reported")}
    conclusions = concluded(reading)
    out = {statement.place for statement in reading.statements if statement.standing in OUT_OF_THE_RUNNING}
    consumed = {piece.place for piece in reading.evidence if piece.kind in {"unknown", "refusal"}}
    for family, kind, rule in WORDINGS:
        for hit in reading.hits_of(family):
            clause = reading.clause[hit.start]
            viewed = clause in reported and is_viewed(reading, reported[clause], hit.start)
            asked = is_question(reading, reading.sentence[hit.start]) and not _is_rhetorical(reading, hit)
            if viewed or asked:
                continue
            if out.intersection(range(hit.start, hit.end)).difference(place for _, place in hit.slots):
                continue
            if hit.start in consumed or (family == "unknown.short" and not _whole_wording(reading, hit)):
                continue
            if family in VAGUE and (_names_one(reading, hit) or _is_parted(reading, hit)):
                continue
            tier = SINGLE if family in VAGUE else LEANING
            if clause in conclusions and kind == "unknown":
                tier = COMMITTED if tier == LEANING else LEANING
            if _is_doubt(reading, hit):
                continue
            if _is_granted(reading, hit):
                tier = SEVERAL
            reading.evidence.append(_hit_evidence(reading, hit, tier, unknown, kind, rule))


def _is_rhetorical(reading: Reading, hit: Hit) -> bool:
    """Whether a wording is all there is of the last question: "Who knows?"."""
    sentence = reading.sentence[hit.start]
    whole = hit.start == reading.starts[sentence] and hit.end == reading.ends[sentence]
    return whole and sentence == reading.sentence[-1]


def _is_doubt(reading: Reading, hit: Hit) -> bool:
    """Whether a wording only doubts a choice in front of it: "the baker, but I'm not sure"."""
    doubts = [doubt for doubt in reading.hits_of("hedges.unsure") if doubt.start < hit.end and hit.start < doubt.end]
    return bool(doubts) and any(
        other.standing == "live" and other.place < hit.start and reading.sentence[hit.start] - other.sentence <= 1
        for other in reading.statements
    )


def _names_one(reading: Reading, hit: Hit) -> bool:
    """Whether the sentence of a vague wording names a single person."""
    sentence = reading.sentence[hit.start]
    here = [o for o in reading.statements if o.sentence == sentence and o.standing not in {"aside", "reported"}]
    named = {index for other in here for index in other.mention.options} - {reading.options.unknown}
    return len(named) == 1


def _is_parted(reading: Reading, hit: Hit) -> bool:
    """Whether a comma or the like stands inside a hit."""
    return any(item.break_before >= COMMA for item in reading.items[hit.start + 1 : hit.end])


def _whole_wording(reading: Reading, hit: Hit) -> bool:
    """Whether a short wording is its whole sentence, small words aside."""
    start, end = reading.starts[reading.sentence[hit.start]], reading.ends[reading.sentence[hit.start]]
    outside = [*range(start, hit.start), *range(hit.end, end)]
    if any(isinstance(reading.items[place], MentionItem) for place in outside):
        return False
    if hit.start == start and hit.end < end and end - hit.end <= MAX_REST:
        return reading.items[hit.end].key in reading.words.small
    return all(reading.items[place].key in reading.words.small for place in outside)


def _is_granted(reading: Reading, hit: Hit) -> bool:
    """Whether an unknown statement is only granted: "although it is not said, …" with a choice in the main clause."""
    granting, granting_after = reading.hits_of("markers.concessive"), reading.hits_of("markers.concessive_after")
    if not granting and not granting_after:
        return False
    sentence = reading.sentence[hit.start]
    start = reading.starts[sentence]
    behind = [mark for mark in granting_after if hit.start <= mark.start <= hit.end + 1]
    before = [mark for mark in granting if start < mark.start <= hit.start]
    if before and any(
        s.sentence == sentence and s.standing == "live" and any(s.place < mark.start for mark in before)
        for s in reading.statements
    ):
        return True
    if not behind and not any(start <= mark.start <= start + 1 and mark.start <= hit.start for mark in granting):
        return False
    return any(s.sentence == sentence and s.place >= hit.end and s.standing == "live" for s in reading.statements)


def continuation_start(reading: Reading) -> int | None:
    """The item at which the model goes on with another question, once it has committed to an answer."""
    committed = min((piece.place for piece in reading.evidence if piece.tier >= COMMITTED), default=None)
    if committed is None:
        return None
    for family in ("headers.question", "headers.context", "headers.instruction"):
        for hit in reading.hits_of(family):
            if hit.start > committed and is_header(reading, hit):
                return hit.start
    return None
