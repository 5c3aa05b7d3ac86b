"""Weighs what every sentence of an answer says about the options.

Each mention gets a standing: live, or out of the running with the reason (ruled out, spoken of in passing, asked,
listed, somebody else's view, part of a statement that it can't be told). What is live, and every statement that it
can't be told, becomes a piece of evidence with a tier: how firmly the writer commits to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from mbbq_gen.extraction.candidates import Mention, MentionItem
from mbbq_gen.extraction.mentions import Item, find_lists
from mbbq_gen.extraction.optionset import OptionSet
from mbbq_gen.extraction.patterns import Hit
from mbbq_gen.extraction.tokens import COMMA, LINE, PARAGRAPH, SEMICOLON, SENTENCE

Tier = int
SEVERAL, SINGLE, LEANING, COMMITTED, FINAL, STRUCTURED = 1, 2, 3, 4, 5, 6
"""One mention among several or a mere possibility; the only one of its clause; an unknown statement, a guess, a
contrast; an announced or whole-line answer; a last word; a value in a structure."""

Standing = Literal[
    "live", "negated", "aside", "asked", "listed", "reported", "granted", "reason", "echo", "in_unknown", "struck"
]

OUT_OF_THE_RUNNING: frozenset[Standing] = frozenset(
    {"negated", "aside", "asked", "listed", "reported", "echo", "struck"}
)
"""Standings whose mention no unknown wording may rest on."""
NEAR_CUE = 3
"""Words that may stand between an announcement and the answer without a colon or copula."""
MAX_HITS = 64
"""Of more hits of one list only the first and last half of this number are read: time stays linear."""
MAX_REST = 4
"""Words that may follow a short unknown wording in its sentence: "not stated in the text"."""
FAR_CUE = 25
"""Words that may stand between them with one."""


@dataclass(slots=True)
class Evidence:
    """Something that speaks for an answer."""

    tier: Tier
    place: int
    """Item where it stands."""
    options: tuple[int, ...]
    """The options that it speaks for; none for one that is not on offer."""
    kind: Literal["mention", "unknown", "refusal", "several", "outside", "neither"]
    rule: str
    hit: Hit | None = None
    guessed: bool = False
    """Whether it is a guess, a choice under protest, or rests on a misspelt text."""
    start: int = 0
    """First token."""
    end: int = 0
    """After the last token."""


@dataclass(slots=True)
class Statement:
    """A mention with its standing."""

    place: int
    mention: Mention
    sentence: int
    clause: int
    standing: Standing = "live"
    why: Hit | None = None
    tier: Tier = 0
    rule: str = ""
    cue: Hit | None = None
    guessed: bool = False
    possible: bool = False


@dataclass(slots=True)
class Words:
    """Word sets of the packs in use, as keys."""

    small: frozenset[str]
    """Words that say nothing: articles, other stop words, option words."""
    copulas: frozenset[str]


@dataclass(slots=True)
class Reading:
    """All that was found in an answer."""

    items: Sequence[Item]
    hits: list[Hit]
    options: OptionSet
    words: Words
    tail: str
    """What follows the last word."""
    statements: list[Statement] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    rejected: dict[int, int] = field(default_factory=dict)
    """Option → item where it was ruled out."""
    sentence: list[int] = field(default_factory=list)
    clause: list[int] = field(default_factory=list)
    by_family: dict[str, list[Hit]] = field(default_factory=dict)
    correction: Hit | None = None
    hanging_cue: bool = False
    """Whether an announcement is the last thing there is."""
    ends: dict[int, int] = field(default_factory=dict)
    """Sentence → item after its last one."""
    starts: dict[int, int] = field(default_factory=dict)
    wordings: dict[int, Hit] = field(default_factory=dict)
    """Item → the unknown wording that starts there."""
    cased: bool = True
    """Whether there are small letters at all: else a capital A may well be an article."""
    reasons: set[int] = field(default_factory=set)
    """Items where a reason or a "but" begins."""

    def hits_of(self, family: str) -> list[Hit]:
        """The hits of one list."""
        return self.by_family.get(family, [])


def read_evidence(reading: Reading) -> None:
    """Fills standing, tiers and evidence."""
    for hit in _unblocked(reading):
        reading.by_family.setdefault(hit.rule.family, []).append(hit)
    for family, hits in reading.by_family.items():
        if len(hits) > MAX_HITS:
            reading.by_family[family] = hits[: MAX_HITS // 2] + hits[-MAX_HITS // 2 :]
    for family in ("unknown.refusal", "unknown.short", "unknown.statement"):
        reading.wordings.update({hit.start: hit for hit in reading.hits_of(family)})
    reading.reasons = {hit.start for key in ("explanation", "adversative") for hit in reading.hits_of(f"markers.{key}")}
    reading.cased = any(item.text[:1].islower() for item in reading.items)
    _split(reading)
    reading.statements = [
        Statement(place, item.mention, reading.sentence[place], reading.clause[place])
        for place, item in enumerate(reading.items)
        if isinstance(item, MentionItem)
    ]
    _set_aside(reading)
    _rule_out(reading)
    _grant(reading)
    _announce(reading)
    _guess(reading)
    _stand_alone(reading)
    _drop_weak(reading)
    _single_out(reading)
    _identify(reading)
    _collect(reading)


def _unblocked(reading: Reading) -> list[Hit]:
    """Hits that lie in no blocking hit."""
    blocks = [hit for hit in reading.hits if hit.rule.family == "unknown.blocked"]
    if not blocks:
        return reading.hits
    return [
        hit
        for hit in reading.hits
        if not (
            hit.rule.family.startswith("unknown.")
            and any(block.start <= hit.start and hit.end <= block.end for block in blocks[:MAX_HITS])
        )
    ]


def _split(reading: Reading) -> None:
    """Numbers sentences and clauses; "but" begins a clause."""
    turns = {hit.start for hit in reading.hits_of("markers.adversative")}
    sentence = clause = -1
    for place, item in enumerate(reading.items):
        if item.break_before >= SEMICOLON or sentence < 0:
            sentence += 1
            clause += 1
            reading.starts[sentence] = place
        elif place in turns:
            clause += 1
        reading.sentence.append(sentence)
        reading.clause.append(clause)
        reading.ends[sentence] = place + 1


# --- standing ---------------------------------------------------------------------------------------------------------


def _set_aside(reading: Reading) -> None:
    """Mentions in lists, headers and questions, behind "unlike", and in other people's views."""
    listed = find_lists(reading.items, reading.options, reading.words.small)
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
        elif _is_question(reading, statement.sentence) and len(reading.items) > 1:
            statement.standing = "asked"


def _is_question(reading: Reading, sentence: int) -> bool:
    """Whether a sentence ends in a question mark."""
    end = reading.ends[sentence]
    gap = reading.items[end].gap if end < len(reading.items) else reading.tail
    return bool({"?", "？", "؟"} & set(gap.split("\n")[0][:4]))


def _headed(reading: Reading) -> set[int]:
    """Items under a header that says they are the question, the context or the options."""
    places: set[int] = set()
    marks = []
    for family in ("question", "context", "options", "instruction", "answer", "explanation"):
        marks += [(hit.start, family) for hit in reading.hits_of(f"headers.{family}") if _is_header(reading, hit)]
    marks.sort()
    for number, (start, family) in enumerate(marks):
        if family in {"answer", "explanation"}:
            continue
        until = marks[number + 1][0] if number + 1 < len(marks) else None
        places.update(range(start, until if until is not None else _header_end(reading, start, family)))
    return places


def _is_header(reading: Reading, hit: Hit) -> bool:
    """Whether a header word stands at the beginning of a line and has a colon or the line to itself."""
    if reading.items[hit.start].break_before < LINE and hit.start:
        return False
    gap = reading.items[hit.end].gap if hit.end < len(reading.items) else reading.tail
    return ":" in gap or "：" in gap or "\n" in gap


def _header_end(reading: Reading, start: int, family: str) -> int:
    """Where the part under the last header ends: its paragraph; behind it the answer may stand."""
    for place in range(start + 1, len(reading.items)):
        if reading.items[place].break_before >= PARAGRAPH:
            return place
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


def _rule_out(reading: Reading) -> None:
    """Mentions that a sentence denies."""
    outs: dict[int, Hit] = {}
    for family in ("relations.negated", "relations.contrast"):
        for hit in reading.hits_of(family):
            for name, place in hit.slots:
                if family == "relations.negated" or name == "x":
                    outs.setdefault(place, hit)
    for statement in reading.statements:
        denial = outs.get(statement.place)
        if denial is not None and statement.standing in {"live", "listed"}:
            statement.standing, statement.why = "negated", denial
            for index in statement.mention.options:
                reading.rejected[index] = statement.place


def _grant(reading: Reading) -> None:
    """What stands in a statement that it can't be told, behind "because", or in a granted clause is no choice."""
    unknown = reading.hits_of("unknown.statement") + reading.hits_of("unknown.refusal")
    reasons = reading.hits_of("markers.explanation")
    granted = reading.hits_of("markers.concessive")
    for statement in reading.statements:
        if statement.standing != "live":
            continue
        same = [hit for hit in unknown if reading.clause[hit.start] == statement.clause]
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


def _granting(reading: Reading, statement: Statement, granted: list[Hit]) -> Hit | None:
    """The "although" that grants a mention: the main clause, with a mention or unknown statement of its own, is
    elsewhere."""
    for hit in granted:
        if reading.sentence[hit.start] != statement.sentence or statement.place < hit.start:
            continue
        if hit.start > reading.starts[statement.sentence] + 1:
            if any(other.sentence == statement.sentence and other.place < hit.start for other in reading.statements):
                return hit
            continue
        end = reading.ends[statement.sentence]
        comma = next(
            (
                p
                for p in range(statement.place + 1, end)
                if reading.items[p].break_before >= COMMA and "," in reading.items[p].gap
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


# --- tiers ------------------------------------------------------------------------------------------------------------


def _raise(statement: Statement, tier: Tier, rule: str, hit: Hit | None) -> None:
    if tier > statement.tier:
        statement.tier, statement.rule, statement.cue = tier, rule, hit


def _announce(reading: Reading) -> None:
    """Gives tiers to what a cue announces or confirms."""
    by_place = {statement.place: statement for statement in reading.statements}
    for family, tier, rule in (
        ("cues.final", FINAL, "final_marker"),
        ("cues.before", COMMITTED, "cue_before"),
        ("headers.answer", COMMITTED, "answer_header"),
    ):
        for hit in reading.hits_of(family):
            if family == "headers.answer" and not _is_header(reading, hit):
                continue
            if hit.slots:
                for _, place in hit.slots:
                    _raise(by_place[place], tier, rule, hit)
                continue
            _announce_next(reading, by_place, hit, tier, rule)
    for hit in reading.hits_of("cues.after"):
        for _, place in hit.slots:
            if by_place[place].standing in {"live", "listed"}:
                by_place[place].standing = "live"
                _raise(by_place[place], COMMITTED, "cue_after", hit)
    for hit in reading.hits_of("relations.contrast"):
        for name, place in hit.slots:
            if name == "y" and by_place[place].standing == "live":
                _raise(by_place[place], COMMITTED, "contrast", hit)


def _announce_next(reading: Reading, by_place: dict[int, Statement], hit: Hit, tier: Tier, rule: str) -> None:
    """The first live mention, or unknown wording, that an announcement leads to."""
    items = reading.items
    words = 0
    place = hit.end
    led: int | None = None
    while place < len(items):
        item = items[place]
        colon = _introduces(item.gap) or item.break_before >= LINE
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
        if statement is not None and (near and words <= FAR_CUE) and _label_fits(reading, statement, place, hit.end):
            if statement.standing in {"live", "listed", "reason", "in_unknown"} and (
                wording is None or statement.mention.options == (reading.options.unknown,)
            ):
                if statement.standing == "listed" and not colon:
                    return
                statement.standing = "live"
                _raise(statement, tier, rule, hit)
                return
            if wording is None and statement.standing not in {"negated", "aside"}:
                return
        if wording is not None:
            start, end = items[wording.start].start, items[wording.end - 1].end
            unknown = () if reading.options.unknown is None else (reading.options.unknown,)
            kind: Literal["unknown", "refusal"] = "refusal" if wording.rule.family == "unknown.refusal" else "unknown"
            reading.evidence.append(
                Evidence(tier, wording.start, unknown, kind, f"{rule}+unknown", wording, False, start, end)
            )
            return
        if statement is None:
            words += 1
        if words > FAR_CUE:
            return
        place += 1
    if words == 0:
        reading.hanging_cue = True


def _introduces(gap: str) -> bool:
    return any(sign in gap for sign in (":", "：", "=", "→", "⇒", "–", "—")) or " - " in gap


def _label_fits(reading: Reading, statement: Statement, place: int, cue_end: int) -> bool:
    """Whether an announced letter that may be a word is a label: right behind the cue, and nothing of its own behind
    it."""
    mention = statement.mention
    if mention.kind == "ordinal" and mention.strength == "weak":
        return _closes(reading, place) and place - cue_end <= 2
    if mention.strength != "weak":
        return True
    between = reading.items[cue_end:place]
    if not _introduces(reading.items[place].gap) and not all(item.key in reading.words.small for item in between):
        return False
    if reading.options.digits and mention.shown_case:
        return True
    begins = reading.items[place].break_before >= COMMA
    return _closes(reading, place) or (mention.shown_case and _is_capital(reading, place) and not begins)


def _is_capital(reading: Reading, place: int) -> bool:
    """Whether a letter stands out as a capital. In a text with small letters a small "a" is a word before a label."""
    return reading.cased and reading.items[place].text[:1].isupper()


def _closes(reading: Reading, place: int) -> bool:
    """Whether a mention is followed by the end of its clause."""
    after = place + 1
    if after >= len(reading.items):
        return True
    item = reading.items[after]
    if item.break_before >= COMMA or isinstance(item, MentionItem):
        return True
    return after in reading.reasons


def _guess(reading: Reading) -> None:
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
        found = [s for s in behind if s.standing == "live"][:1]
    for statement in found:
        if hit.slots and statement.mention.shown_case and _is_weak(statement):
            statement.mention.strength = "bare"
    return [s for s in found if s.standing in {"live", "in_unknown", "listed"} and not _is_weak(s)]


def _forced(reading: Reading, hit: Hit) -> Statement | None:
    """The mention that a forced choice leads to: the first live one in its sentence, else in the next."""
    sentence = reading.sentence[hit.start]
    behind = [s for s in reading.statements if s.place > hit.start and s.sentence - sentence in {0, 1}]
    here = [s for s in behind if s.sentence == sentence]
    for statement in here or behind:
        if statement.standing == "live" and (not _is_weak(statement) or _closes(reading, statement.place)):
            return statement
    return None


def _is_weak(statement: Statement) -> bool:
    return statement.mention.strength == "weak"


def _stand_alone(reading: Reading) -> None:
    """Mentions that are a whole sentence or head a line."""
    last = reading.sentence[-1] if reading.sentence else -1
    for statement in reading.statements:
        number = statement.mention.enumerates and statement.mention.kind == "label" and len(reading.items) > 1
        if statement.standing != "live" or number:
            continue
        outer = statement.sentence in {0, last} or reading.items[reading.starts[statement.sentence]].gap.strip(
            " \n*_"
        ).startswith(":")
        if _is_whole(reading, statement):
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
        elif statement.place == 0 and _closes(reading, 0) and not _is_weak(statement):
            _raise(statement, COMMITTED, "leading_answer", None)


def _ends_with_it(reading: Reading, statement: Statement) -> bool:
    """Whether a sentence leads up to the mention with a colon and ends with it: "long story short: B"."""
    item = reading.items[statement.place]
    leads = statement.place > 0 and (":" in item.gap or "：" in item.gap)
    return leads and statement.place + 1 == reading.ends[statement.sentence] and not _is_weak(statement)


def _is_whole_clause(reading: Reading, statement: Statement) -> bool:
    """Whether a clause behind "but" holds nothing but the mention and small words."""
    turns = {hit.start: hit.end for hit in reading.hits_of("markers.adversative")}
    start = next((place for place in turns if reading.clause[place] == statement.clause), None)
    if start is None or start > statement.place or _is_weak(statement):
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
    if end - start > 6:
        return False
    if _is_weak(statement) and end - start > 1:
        firm = statement.mention.shown_case and statement.place > start and statement.place == end - 1
        if not firm or reading.items[statement.place].break_before >= COMMA:
            return False
    return all(
        place == statement.place or (not isinstance(item, MentionItem) and item.key in reading.words.small)
        for place, item in enumerate(reading.items[start:end], start)
    )


def _drop_weak(reading: Reading) -> None:
    """Letters that nothing made a label are words; a capital behind a copula that ends its clause is a label."""
    identified = {place for hit in reading.hits_of("cues.identified") for _, place in hit.slots}
    for statement in reading.statements:
        place = statement.place
        inside = (
            place > reading.starts[statement.sentence]
            and _is_capital(reading, place)
            and not _introduces(reading.items[place].gap)
        )
        if not (_is_weak(statement) and statement.mention.shown_case and statement.mention.kind == "label"):
            continue
        if reading.options.digits:
            continue
        others = any(o.sentence == statement.sentence and o.place != place for o in reading.statements)
        if place in identified or inside or (_closes(reading, place) and not others):
            statement.mention.strength = "bare"
    reading.statements = [
        statement
        for statement in reading.statements
        if not (
            _is_weak(statement)
            and statement.tier == 0
            and statement.standing in {"live", "asked", "reported", "reason", "granted", "in_unknown"}
        )
    ]


def _concluded(reading: Reading) -> dict[int, Hit]:
    """Sentences that begin as a conclusion."""
    return {
        reading.sentence[hit.start]: hit
        for hit in reversed(reading.hits_of("markers.conclusion"))
        if hit.start - reading.starts[reading.sentence[hit.start]] <= 2
    }


def _single_out(reading: Reading) -> None:
    """A clause with one live option speaks for it; a conclusion with one commits to it."""
    concluded = _concluded(reading)
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
            hit = concluded.get(statement.sentence)
            if statement.possible or not alone or statement.mention.kind == "outside":
                _raise(statement, SEVERAL, "possible" if statement.possible else "several", None)
            elif hit is not None and hit.start < statement.place:
                _raise(statement, COMMITTED, "conclusion", hit)
            else:
                _raise(statement, SINGLE, "single_mention", None)


def _identify(reading: Reading) -> None:
    """Who is singled out is the answer, unless a plain sentence names somebody else: then it may be an afterthought."""
    by_place = {statement.place: statement for statement in reading.statements}
    for hit in reading.hits_of("cues.identified"):
        for _, place in hit.slots:
            statement = by_place.get(place)
            if statement is None or statement.standing != "live":
                continue
            others = [s for s in reading.statements if s.standing == "live" and s.tier == SINGLE and s is not statement]
            if all(other.mention.options == statement.mention.options for other in others):
                _raise(statement, COMMITTED, "identified", hit)


# --- evidence ---------------------------------------------------------------------------------------------------------


def _collect(reading: Reading) -> None:
    """Turns statements and unknown wordings into evidence, in the order of the text."""
    for statement in reading.statements:
        if statement.standing == "live" and statement.tier:
            reading.evidence.append(_evidence_of(reading, statement))
    _collect_unknown(reading)
    for family, kind in (("relations.both", "several"), ("relations.neither", "neither")):
        for hit in reading.hits_of(family):
            if _is_question(reading, reading.sentence[hit.start]) or _inside(hit, reading.hits_of("relations.neither")):
                continue
            options = tuple(i for i in range(reading.options.count) if i != reading.options.unknown)
            tier = SEVERAL if hit.slots else LEANING
            reading.evidence.append(_hit_evidence(reading, hit, tier, options, kind, kind))  # type: ignore[arg-type]
    corrections = reading.hits_of("markers.correction")
    reading.correction = corrections[-1] if corrections else None
    reading.evidence.sort(key=lambda evidence: (evidence.place, evidence.tier))


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
    kind: Literal["unknown", "refusal", "several", "neither"],
    rule: str,
) -> Evidence:
    start, end = reading.items[hit.start].start, reading.items[hit.end - 1].end
    return Evidence(tier, hit.start, options, kind, rule, hit, False, start, end)


def _collect_unknown(reading: Reading) -> None:
    """Statements that it can't be told, short wordings that are a sentence of their own, and refusals."""
    unknown = () if reading.options.unknown is None else (reading.options.unknown,)
    reported = {reading.clause[hit.start]: hit.start for hit in reading.hits_of("markers.reported")}
    concluded = _concluded(reading)
    out = {statement.place for statement in reading.statements if statement.standing in OUT_OF_THE_RUNNING}
    consumed = {piece.place for piece in reading.evidence if piece.kind in {"unknown", "refusal"}}
    for family, kind, rule in (
        ("unknown.statement", "unknown", "unknown_statement"),
        ("unknown.refusal", "refusal", "refusal"),
        ("unknown.short", "unknown", "unknown_short"),
    ):
        for hit in reading.hits_of(family):
            sentence = reading.sentence[hit.start]
            if reported.get(reading.clause[hit.start], hit.start + 1) < hit.start or _is_question(reading, sentence):
                continue
            if any(place in out for place in range(hit.start, hit.end)):
                continue
            if hit.start in consumed or (family == "unknown.short" and not _whole_wording(reading, hit)):
                continue
            tier = COMMITTED if sentence in concluded and kind == "unknown" else LEANING
            if _is_granted(reading, hit):
                tier = SEVERAL
            reading.evidence.append(_hit_evidence(reading, hit, tier, unknown, kind, rule))  # type: ignore[arg-type]


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
    sentence = reading.sentence[hit.start]
    start = reading.starts[sentence]
    behind = [mark for mark in reading.hits_of("markers.concessive_after") if hit.start <= mark.start <= hit.end + 1]
    if not behind and not any(
        start <= mark.start <= start + 1 and mark.start <= hit.start for mark in reading.hits_of("markers.concessive")
    ):
        return False
    return any(s.sentence == sentence and s.place >= hit.end and s.standing == "live" for s in reading.statements)


def continuation_start(reading: Reading) -> int | None:
    """The item at which the model goes on with another question, once it has committed to an answer."""
    committed = min((piece.place for piece in reading.evidence if piece.tier >= COMMITTED), default=None)
    if committed is None:
        return None
    for family in ("headers.question", "headers.context", "headers.instruction"):
        for hit in reading.hits_of(family):
            if hit.start > committed and _is_header(reading, hit):
                return hit.start
    return None
