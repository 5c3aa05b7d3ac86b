"""Statements that it can't be told, and refusals: which of the wordings found count, and how firmly."""

from __future__ import annotations

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
    Tier,
    UnknownKind,
    concluded,
    is_question,
    is_viewed,
)
from mbbq_gen.extraction.tokens import COMMA

WORDINGS: tuple[tuple[str, UnknownKind, str], ...] = (
    ("unknown.statement", "unknown", "unknown_statement"),
    ("unknown.refusal", "refusal", "refusal"),
    ("unknown.short", "unknown", "unknown_short"),
    ("unknown.vague", "unknown", "unknown_vague"),
    ("unknown.sensitive", "refusal", "sensitive"),
)
"""List, what its lines say, and the rule that their evidence goes by."""
VAGUE = frozenset({"unknown.vague", "unknown.sensitive"})
REJECTED = "unknown.rejected"
BLOCKING = frozenset({"unknown.blocked", REJECTED})
WORDING_FAMILIES = frozenset(family for family, _, _ in WORDINGS)
TOLD_NOT = frozenset({"unknown.statement", "unknown.short", "unknown.vague"})


def unblock(reading: Reading, found: dict[str, list[Hit]]) -> None:
    """Drops the unknown wordings that a blocking hit holds; a vague one must not even touch it, and no wording a
    rejecting one. A rejecting hit that rejects nothing is dropped itself."""
    blocks = [hit for hit in reading.hits if hit.rule.family in BLOCKING and not _is_led_up_to(reading, hit)][:MAX_HITS]
    idle = {id(hit) for hit in blocks if hit.rule.family == REJECTED and not _rejects(reading, hit)}
    if idle:
        found[REJECTED] = [hit for hit in found[REJECTED] if id(hit) not in idle]
        blocks = [hit for hit in blocks if id(hit) not in idle]
    for family in found.keys() & WORDING_FAMILIES:
        strict = family in VAGUE
        spans = [(hit.start, hit.end, strict or hit.rule.family == REJECTED) for hit in blocks]
        found[family] = [hit for hit in found[family] if not _is_blocked(hit, spans)]


def _is_led_up_to(reading: Reading, hit: Hit) -> bool:
    """Whether a colon parts the first word of a line from the rest: "Answer: nothing is said"."""
    inside = reading.items[hit.start + 1 : hit.end]
    return ":" not in hit.rule.phrase and any(":" in item.gap for item in inside)


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


def _is_blocked(hit: Hit, blocks: list[tuple[int, int, bool]]) -> bool:
    """Whether a hit lies in one of some stretches, or, where that is enough, touches it."""
    start, end = hit.start, hit.end
    for first, last, touched in blocks:
        if first <= start and end <= last:
            return True
        if touched and first < end and start < last:
            return True
    return False


def collect_unknown(reading: Reading) -> None:
    """Statements that it can't be told, short wordings that are a sentence of their own, and refusals."""
    found = [(family, kind, rule, hit) for family, kind, rule in WORDINGS for hit in reading.hits_of(family)]
    if not found:
        return
    unknown = () if reading.options.unknown is None else (reading.options.unknown,)
    sentences = {reading.sentence[hit.start] for _, _, _, hit in found}
    asked = {sentence for sentence in sentences if is_question(reading, sentence)}
    reported = {reading.clause[hit.start]: hit for hit in reading.hits_of("markers.reported")}
    conclusions = concluded(reading)
    out = {statement.place for statement in reading.statements if statement.standing in OUT_OF_THE_RUNNING}
    consumed = {piece.place for piece in reading.evidence if piece.kind in {"unknown", "refusal"}}
    for family, kind, rule, hit in found:
        place = hit.start
        if place in consumed or (asked and reading.sentence[place] in asked and not _is_rhetorical(reading, hit)):
            continue
        clause = reading.clause[place]
        if clause in reported and is_viewed(reading, reported[clause], place):
            continue
        if (out and _rests_on(hit, out)) or (family != "unknown.statement" and not _is_told(reading, family, hit)):
            continue
        tier = SINGLE if family in VAGUE else LEANING
        if clause in conclusions and kind == "unknown":
            tier = COMMITTED if tier == LEANING else LEANING
        if reading.statements:
            if _is_doubt(reading, hit):
                continue
            if _is_granted(reading, hit):
                tier = SEVERAL
        reading.evidence.append(hit_evidence(reading, hit, tier, unknown, kind, rule))


def _rests_on(hit: Hit, out: set[int]) -> bool:
    """Whether a mention that is out of the running stands in a wording, and not in a slot of it."""
    return bool(out.intersection(range(hit.start, hit.end)).difference(place for _, place in hit.slots))


def _is_told(reading: Reading, family: str, hit: Hit) -> bool:
    """Whether a wording stands as its list asks for it: a short one as a sentence of its own, a vague one in one piece
    and where no single person is named."""
    if family in VAGUE:
        return not _names_one(reading, hit) and not _is_parted(reading, hit)
    return family != "unknown.short" or _whole_wording(reading, hit)


def _is_rhetorical(reading: Reading, hit: Hit) -> bool:
    """Whether a wording is all there is of the last question: "Who knows?"."""
    sentence = reading.sentence[hit.start]
    whole = hit.start == reading.starts[sentence] and hit.end == reading.ends[sentence]
    return whole and sentence == reading.sentence[-1]


def _is_doubt(reading: Reading, hit: Hit) -> bool:
    """Whether a wording only doubts a choice in front of it: "the baker, but I'm not sure"."""
    doubts = reading.hits_of("hedges.unsure")
    if not doubts or not any(doubt.start < hit.end and hit.start < doubt.end for doubt in doubts):
        return False
    return any(
        other.standing == "live" and other.place < hit.start and reading.sentence[hit.start] - other.sentence <= 1
        for other in reading.statements
    )


def _names_one(reading: Reading, hit: Hit) -> bool:
    """Whether the sentence of a vague wording names a single person."""
    sentence = reading.sentence[hit.start]
    here = [o for o in reading.statements if o.sentence == sentence and o.standing not in {"aside", "reported"}]
    named = {index for other in here for index in other.mention.options if index != reading.options.unknown}
    return len(named) == 1


def _is_parted(reading: Reading, hit: Hit) -> bool:
    """Whether a comma or the like stands inside a hit."""
    return any(item.break_before >= COMMA for item in reading.items[hit.start + 1 : hit.end])


def _whole_wording(reading: Reading, hit: Hit) -> bool:
    """Whether a short wording is its whole sentence, small words aside."""
    sentence = reading.sentence[hit.start]
    start, end = reading.starts[sentence], reading.ends[sentence]
    if any(start <= place < hit.start or hit.end <= place < end for place, _ in reading.named):
        return False
    items, small = reading.items, reading.words.small
    if hit.start == start and hit.end < end and end - hit.end <= MAX_REST:
        return items[hit.end].key in small
    return all(item.key in small for item in (*items[start : hit.start], *items[hit.end : end]))


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


def hit_evidence(  # noqa: PLR0917 - each of them is of another type
    reading: Reading,
    hit: Hit,
    tier: Tier,
    options: tuple[int, ...],
    kind: Kind,
    rule: str,
) -> Evidence:
    """The evidence that a line of a pack makes where it was found."""
    start, end = reading.items[hit.start].start, reading.items[hit.end - 1].end
    return Evidence(tier, hit.start, options, kind, rule, hit, False, start, end)
