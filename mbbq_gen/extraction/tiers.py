"""Says how firmly the writer commits to each mention that is in the running."""

from __future__ import annotations

from mbbq_gen.extraction.lists import MAX_BETWEEN, heads_table
from mbbq_gen.extraction.mentions import MentionItem
from mbbq_gen.extraction.patterns import Hit
from mbbq_gen.extraction.reading import (
    COMMITTED,
    FAR_CUE,
    FINAL,
    LEANING,
    NEAR_CUE,
    SEVERAL,
    SINGLE,
    Evidence,
    Kind,
    Reading,
    Statement,
    Tier,
    breaks_off,
    closes,
    concluded,
    denials,
    introduces,
    is_capital,
    is_cut,
    is_header,
    is_weak,
)
from mbbq_gen.extraction.tokens import COMMA, COMMA_SIGNS, LINE, SENTENCE

MAX_DESPITE = 3
"""The last sentence of a refusal in which "but" may lead to a choice: longer ones go on to talk about the topic."""
_ARROWS = frozenset("➡👉☞→⇒➜➔⟹⇨➤∴")
WORDING_KINDS: dict[str, Kind] = {"unknown.refusal": "refusal", "relations.neither": "neither"}
"""What an announced wording says; all others say that it can't be told."""


def _raise(statement: Statement, tier: Tier, rule: str, hit: Hit | None) -> None:
    if tier > statement.tier:
        statement.tier, statement.rule, statement.cue = tier, rule, hit


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
                    _raise(by_place[place], tier, rule, hit)
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
                _raise(by_place[place], COMMITTED, "cue_after", hit)
    for hit in denials(reading, "relations.contrast"):
        for name, place in hit.slots:
            chosen = by_place[place]
            inside = chosen.standing == "reason" and chosen.why is not None and hit.start < chosen.why.start < hit.end
            if name == "y" and (chosen.standing == "live" or inside):
                chosen.standing = "live"
                _raise(chosen, COMMITTED, "contrast", hit)


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
        wording = reading.wordings.get(place) if near and words <= FAR_CUE else None
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
                _raise(statement, tier, rule, hit)
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


def guess(reading: Reading) -> None:
    """Hedges and forced choices."""
    by_place = {statement.place: statement for statement in reading.statements}
    for family, possible in (("hedges.possible", True), ("hedges.likely", False)):
        for hit in reading.hits_of(family):
            for statement in _hedged(reading, by_place, hit):
                statement.guessed, statement.possible = True, possible
                if not possible:
                    statement.standing = "live"
                    _raise(statement, LEANING, "hedged", hit)
    for hit in reading.hits_of("markers.forced_choice"):
        chosen = _forced(reading, hit)
        if chosen is not None:
            chosen.guessed = True
            chosen.mention.strength = "strong"
            _raise(chosen, LEANING, "forced", hit)
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


def stand_alone(reading: Reading) -> None:
    """Mentions that are a whole sentence or head a line."""
    last = reading.sentence[-1] if reading.sentence else -1
    for statement in reading.statements:
        number = statement.mention.enumerates and statement.mention.kind == "label" and len(reading.items) > 1
        if statement.standing != "live" or number:
            continue
        outer = statement.sentence in {0, last} or reading.items[reading.starts[statement.sentence]].gap.strip(
            " \n*_"
        ).startswith(":")
        if _is_whole(reading, statement) and not (statement.sentence == last and is_cut(reading, statement)):
            if _is_pointed_at(reading, statement):
                _raise(statement, FINAL, "conclusion", None)
            _raise(statement, COMMITTED if outer else LEANING, "whole_answer", None)
        elif (
            statement.mention.heads_line
            and statement.mention.strength == "strong"
            and statement.mention.kind in {"label", "label_text"}
            and statement.place == reading.starts[statement.sentence]
        ):
            _raise(statement, COMMITTED if outer else LEANING, "line_label", None)
        elif _ends_with_it(reading, statement):
            _raise(statement, COMMITTED if statement.sentence == last else LEANING, "whole_answer", None)
        elif _is_whole_clause(reading, statement):
            _raise(statement, LEANING, "whole_clause", None)
        elif _leads(reading, statement):
            _raise(statement, COMMITTED, "leading_answer", None)
        elif _says_unknown(reading, statement):
            _raise(statement, LEANING, "unknown_option", None)


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


def _ends_with_it(reading: Reading, statement: Statement) -> bool:
    """Whether a sentence leads up to the mention with a colon and ends with it: "long story short: B"."""
    item = reading.items[statement.place]
    leads = statement.place > 0 and (":" in item.gap or "：" in item.gap)
    if reading.tail[:1] in COMMA_SIGNS and statement.place + 1 == len(reading.items):
        return False
    return leads and statement.place + 1 == reading.ends[statement.sentence] and not is_weak(statement)


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


def drop_weak(reading: Reading) -> None:
    """Letters that nothing made a label are words; a capital behind a copula that ends its clause is a label."""
    identified = {place for hit in reading.hits_of("cues.identified") for _, place in hit.slots}
    for statement in reading.statements:
        place = statement.place
        inside = (
            place > reading.starts[statement.sentence]
            and is_capital(reading, place)
            and not introduces(reading.items[place].gap)
        )
        if not (is_weak(statement) and statement.mention.shown_case and statement.mention.kind == "label"):
            continue
        if reading.options.digits:
            continue
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
    committed = min((s.place for s in reading.statements if s.tier >= COMMITTED), default=len(reading.items))
    heads = [hit.start for hit in reading.hits_of("headers.explanation") if is_header(reading, hit)]
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
            pointed = statement.sentence == last and _is_pointed_at(reading, statement)
            if statement.possible or not alone or statement.mention.kind == "outside":
                _raise(statement, SEVERAL, "possible" if statement.possible else "several", None)
            elif (hit is not None and hit.start < statement.place < explained) or pointed:
                _raise(statement, COMMITTED, "conclusion", hit)
            else:
                _raise(statement, SINGLE, "single_mention", None)


def _is_pointed_at(reading: Reading, statement: Statement) -> bool:
    """Whether an arrow or a pointing hand opens the line of a mention's sentence, and of no other one."""
    opens = [
        item.gap
        for item in reading.items
        if item.break_before >= LINE and (not _ARROWS.isdisjoint(item.gap) or "=>" in item.gap)
    ]
    return len(opens) == 1 and opens[0] is reading.items[reading.starts[statement.sentence]].gap


def stand_despite(reading: Reading) -> None:
    """The only person of a clause that "but" begins, behind a refusal: "I can't judge, but the text says it was …"."""
    refusals = [hit.end for key in ("refusal", "sensitive") for hit in reading.hits_of(f"unknown.{key}")]
    turns = {reading.clause[hit.start] for hit in reading.hits_of("markers.adversative")}
    for statement in reading.statements:
        if statement.clause not in turns or statement.standing != "live" or statement.tier != SINGLE:
            continue
        if not statement.mention.complete or reading.sentence[-1] > MAX_DESPITE:
            continue
        if len(statement.mention.options) == 1 and any(
            end <= statement.place and statement.sentence - reading.sentence[end - 1] <= 1 for end in refusals
        ):
            _raise(statement, LEANING, "despite", None)


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
            if all(other.mention.options == statement.mention.options for other in others):
                _raise(statement, COMMITTED, "identified", hit)
