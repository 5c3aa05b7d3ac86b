"""Says how firmly the writer commits to each mention that is in the running."""

from __future__ import annotations

from mbbq_gen.extraction.lists import MAX_BETWEEN, heads_table
from mbbq_gen.extraction.patterns import Hit
from mbbq_gen.extraction.reading import (
    COMMITTED,
    FAR_CUE,
    FINAL,
    NEAR_CUE,
    Evidence,
    Kind,
    Reading,
    Statement,
    Tier,
    closes,
    denials,
    introduces,
    is_capital,
    is_cut,
    is_header,
    raise_tier,
)
from mbbq_gen.extraction.tokens import COMMA, LINE, SENTENCE

WORDING_KINDS: dict[str, Kind] = {"unknown.refusal": "refusal", "relations.neither": "neither"}
"""What an announced wording says; all others say that it can't be told."""


def announce(reading: Reading) -> None:
    """Gives tiers to what a cue announces or confirms."""
    by_place = {statement.place: statement for statement in reading.statements}
    for family, tier, rule in (
        ("cues.final", FINAL, "final_marker"),
        ("cues.before", COMMITTED, "cue_before"),
        ("headers.answer", COMMITTED, "answer_header"),
    ):
        for hit in reading.hits_of(family):
            if family == "headers.answer" and not is_header(reading, hit):
                continue
            if hit.slots:
                for _, place in hit.slots:
                    if _is_apart(reading, by_place[place], hit) or _holds(hit, by_place[place]):
                        by_place[place].standing = "live"
                    raise_tier(by_place[place], tier, rule, hit)
                continue
            following = by_place.get(hit.end)
            if following is not None and _holds(hit, following):
                following.standing = "live"
            if not heads_table(reading.items, hit.start):
                _announce_next(reading, by_place, hit, tier, rule)
    confirm(reading, by_place)


def confirm(reading: Reading, by_place: dict[int, Statement]) -> None:
    """Gives tiers to what words behind it confirm, or what is chosen over another."""
    for hit in reading.hits_of("cues.after"):
        for _, place in hit.slots:
            if _goes_on_elsewhere(reading, by_place, hit, by_place[place]):
                by_place[place].standing = "aside"
            if _is_cut_off(reading, hit):
                continue
            if by_place[place].standing == "live" or _is_listed_alone(reading, by_place[place]):
                by_place[place].standing = "live"
                raise_tier(by_place[place], COMMITTED, "cue_after", hit)
    for hit in denials(reading, "relations.contrast"):
        for name, place in hit.slots:
            chosen = by_place[place]
            inside = chosen.standing == "reason" and chosen.why is not None and hit.start < chosen.why.start < hit.end
            if name == "y" and (chosen.standing == "live" or inside):
                chosen.standing = "live"
                raise_tier(chosen, COMMITTED, "contrast", hit)


def _goes_on_elsewhere(reading: Reading, by_place: dict[int, Statement], cue: Hit, statement: Statement) -> bool:
    """Whether a colon behind a confirmation leads to other options: "the tailor is right: A, B or C"."""
    following = by_place.get(cue.end)
    if following is None or ":" not in reading.items[cue.end].gap:
        return False
    return following.mention.options != statement.mention.options


def _is_cut_off(reading: Reading, cue: Hit) -> bool:
    """Whether a confirmation that ends its sentence, "the tailor was", is where the text breaks off."""
    return cue.rule.phrase.endswith("$") and cue.end == len(reading.items) and is_cut(reading)


def _is_listed_alone(reading: Reading, statement: Statement) -> bool:
    """Whether a mention is an entry of a list and the only one in its sentence."""
    return statement.standing == "listed" and not any(
        other.standing == "listed" and other.sentence == statement.sentence and other is not statement
        for other in reading.statements
    )


def _holds(cue: Hit, statement: Statement) -> bool:
    """Whether an announcement holds more than the words that only speak of its mention: "I am picking {x}"."""
    why = statement.why if statement.standing == "aside" else None
    return why is not None and cue.start < why.start < cue.end


def _is_apart(reading: Reading, statement: Statement, cue: Hit) -> bool:
    """Whether an announcement begins behind a comma that ends the statement that it can't be told, or somebody else's
    view."""
    if statement.standing not in {"in_unknown", "reported"} or statement.why is None or cue.start < statement.why.end:
        return False
    return any(item.break_before >= COMMA for item in reading.items[statement.why.end : cue.start + 1])


def _announce_next(reading: Reading, by_place: dict[int, Statement], hit: Hit, tier: Tier, rule: str) -> None:
    """The first live mention, or unknown wording, that an announcement leads to."""
    items = reading.items
    words = 0
    place = hit.end
    led: int | None = None
    passed = False
    confirms = any(other.start < hit.end <= other.end for other in reading.hits_of("cues.after"))
    while place < len(items):
        item = items[place]
        colon = introduces(item.gap) or item.break_before >= LINE
        if item.break_before >= SENTENCE and place > hit.end and not (colon and led is None and words <= FAR_CUE):
            return
        if item.break_before >= SENTENCE and place == hit.end and not colon and "." in item.gap:
            return
        led = words if colon else led
        near = (
            (led is not None and words - led <= 1) or words <= NEAR_CUE or items[place - 1].key in reading.words.copulas
        )
        wording = _wording_at(reading, by_place, place) if near and words <= FAR_CUE else None
        statement = by_place.get(place)
        if place in reading.reasons and (passed or confirms or led is None):
            return
        passed = passed or statement is not None
        if statement is not None and (near and words <= FAR_CUE) and _label_fits(reading, statement, place, hit.end):
            if _may_be_announced(reading, statement, hit) and (
                wording is None or statement.mention.options == (reading.options.unknown,)
            ):
                if statement.standing == "listed" and (not colon or _begins_list(reading, by_place, place)):
                    return
                statement.standing = "live"
                raise_tier(statement, tier, rule, hit)
                return
            if wording is None and statement.standing not in {"negated", "aside"}:
                return
        if wording is not None:
            start, end = items[wording.start].start, items[wording.end - 1].end
            kind = WORDING_KINDS.get(wording.rule.family, "unknown")
            index = reading.options.unknown
            unknown = () if index is None or kind == "neither" else (index,)
            name = f"{rule}+{'neither' if kind == 'neither' else 'unknown'}"
            reading.evidence.append(Evidence(tier, wording.start, unknown, kind, name, wording, False, start, end))
            return
        if statement is None:
            words += 1
        if words > FAR_CUE:
            return
        place += 1
    if words == 0:
        reading.hanging_cue = True


def _wording_at(reading: Reading, by_place: dict[int, Statement], place: int) -> Hit | None:
    """The unknown wording at an item, unless its sentence goes on to name one person: "Answer: the secret was kept by
    the nurse", "not said, but it was the nurse"."""
    wording = reading.wordings.get(place)
    if wording is None:
        return None
    behind = (by_place.get(here) for here in range(wording.end, reading.ends[reading.sentence[place]]))
    named = {one.mention.options for one in behind if one is not None and one.standing == "live"}
    return None if len(named) == 1 and named != {(reading.options.unknown,)} else wording


def _begins_list(reading: Reading, by_place: dict[int, Statement], place: int) -> bool:
    """Whether the list that a mention stands in goes on behind it, or the mention is all of it."""
    here = by_place[place].mention.options
    behind = (by_place.get(other) for other in range(place + 1, min(place + 1 + MAX_BETWEEN, len(reading.items))))
    following = next((other for other in behind if other is not None and other.mention.options != here), None)
    goes_on = following is not None and following.standing == "listed"
    return goes_on or len(here) >= reading.options.count


def _may_be_announced(reading: Reading, statement: Statement, cue: Hit) -> bool:
    """Whether an announcement may lead to a mention: not where a statement that it can't be told follows in its
    sentence and speaks of it or of another person too ("Answer: it could be X or Y, so nobody knows")."""
    if statement.standing == "reported" and not _is_apart(reading, statement, cue):
        return False
    if statement.standing not in {"live", "listed", "reason", "in_unknown", "reported"}:
        return False
    here, end = statement.place, reading.ends[statement.sentence]
    behind = [hit.start for hit in reading.hits_of("unknown.statement") if here < hit.start < end]
    wording = min(behind, default=here)
    persons = (
        other
        for other in reading.statements
        if other.standing in {"live", "in_unknown"} and other.mention.options != (reading.options.unknown,)
    )
    if any(here < o.place < wording and o.mention.options != statement.mention.options for o in persons):
        return False
    firm = statement.mention.match != "fuzzy" and closes(reading, here)
    return statement.standing != "in_unknown" or firm or _is_apart(reading, statement, cue)


def _label_fits(reading: Reading, statement: Statement, place: int, cue_end: int) -> bool:
    """Whether an announced letter that may be a word is a label: right behind the cue, and nothing of its own behind
    it."""
    mention = statement.mention
    if mention.kind == "ordinal" and mention.strength == "weak":
        return closes(reading, place) and place - cue_end <= 2
    if mention.strength != "weak":
        return True
    between = reading.items[cue_end:place]
    if not introduces(reading.items[place].gap) and not all(item.key in reading.words.small for item in between):
        return False
    if reading.options.digits and mention.shown_case:
        return True
    begins = reading.items[place].break_before >= COMMA
    return closes(reading, place) or (mention.shown_case and is_capital(reading, place) and not begins)
