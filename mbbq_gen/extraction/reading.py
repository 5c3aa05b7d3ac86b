"""What is found in an answer: mentions with their standing, and the evidence that they and other wordings make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from mbbq_gen.extraction.mentions import Item, Mention, MentionItem
from mbbq_gen.extraction.optionset import OptionSet
from mbbq_gen.extraction.patterns import Hit
from mbbq_gen.extraction.tokens import COMMA, COMMA_SIGNS, LINE, SENTENCE

Tier = int
SEVERAL, SINGLE, LEANING, COMMITTED, FINAL, STRUCTURED = 1, 2, 3, 4, 5, 6
"""One mention among several or a mere possibility; the only one of its clause; an unknown statement, a guess, a
contrast; an announced or whole-line answer; a last word; a value in a structure."""

UnknownKind = Literal["unknown", "refusal"]
Kind = Literal["mention", "unknown", "refusal", "several", "outside", "neither"]

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
MAX_ROW = 3
"""Words of a row such as "also" or "as well"."""
FAR_CUE = 25
"""Words that may stand between them with one."""

_QUESTION_SIGNS = frozenset("?？؟")
_INTRODUCING = frozenset(":：=→⇒–—")


@dataclass(slots=True)
class Evidence:
    """Something that speaks for an answer."""

    tier: Tier
    place: int
    """Item where it stands."""
    options: tuple[int, ...]
    """The options that it speaks for; none for one that is not on offer."""
    kind: Kind
    rule: str
    hit: Hit | None = None
    guessed: bool = False
    """Whether it is a guess, a choice under protest, or rests on a misspelt text."""
    start: int = 0
    """First character, in the text that was read."""
    end: int = 0
    """After the last character."""


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
    filling: frozenset[str]
    """The small words that may stand between entries of a list: no verbs such as "is"."""
    dangling: frozenset[str]
    """Articles and coordinators: no sentence ends with one of them."""
    needs_noun: tuple[str, ...]
    """Endings of words that can't end a sentence."""
    rejoinders: frozenset[str]
    """Words behind the comma of a contrast that lead to what is meant instead: "but", "rather"."""
    known: frozenset[str]
    """Every word that the packs speak of."""
    also: frozenset[tuple[str, ...]]
    """Rows of words that say the same of another option."""
    merely: frozenset[tuple[str, ...]]
    """Rows of words that play down what one person did."""
    negations: frozenset[str]
    """Words such as "not"."""
    denying: frozenset[str]
    """The words that denials are made of."""


@dataclass(slots=True)
class Reading:
    """All that was found in an answer."""

    items: Sequence[Item]
    hits: list[Hit]
    options: OptionSet
    words: Words
    tail: str
    """What follows the last word."""
    last_key: str = ""
    """The key of the last word."""
    named: list[tuple[int, MentionItem]] = field(init=False)
    """The mentions among the items, each with its place."""
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

    def __post_init__(self) -> None:
        self.named = [(place, item) for place, item in enumerate(self.items) if isinstance(item, MentionItem)]

    def hits_of(self, family: str) -> list[Hit]:
        """The hits of one list."""
        return self.by_family.get(family, [])


def denials(reading: Reading, family: str) -> list[Hit]:
    """The hits of a list that rules mentions out; not those inside a wording for both: Bengali "either X or Y" has a
    "not" in it; not those in a tag: "the baker, no?"."""
    found = reading.hits_of(family)
    if not found:
        return found
    both = [hit for hit in reading.hits_of("relations.both") if len(hit.slots) > 1]
    found = [hit for hit in found if not any(o.start <= hit.start and hit.end <= o.end for o in both)]
    tags = [tag for tag in reading.hits_of("markers.tag") if _ends_in_question(reading, tag.end)]
    return [hit for hit in found if not any(tag.start < hit.end and hit.start < tag.end for tag in tags)]


def is_question(reading: Reading, sentence: int) -> bool:
    """Whether a sentence ends in a question mark and in no mere tag: "It was the baker, right?"."""
    end = reading.ends[sentence]
    return _ends_in_question(reading, end) and not any(hit.end == end for hit in reading.hits_of("markers.tag"))


def _ends_in_question(reading: Reading, end: int) -> bool:
    """Whether a question mark stands before an item."""
    gap = reading.items[end].gap if end < len(reading.items) else reading.tail
    if "?" not in gap and "？" not in gap and "؟" not in gap:
        return False
    return not _QUESTION_SIGNS.isdisjoint(gap.split("\n")[0][:4])


def is_header(reading: Reading, hit: Hit, *, inline: bool = False) -> bool:
    """Whether a header word begins a line and has a colon or, a number behind it aside, the line to itself; with
    `inline` one with a colon may stand anywhere."""
    begins = not hit.start or reading.items[hit.start].break_before >= LINE
    if not begins and not inline:
        return False
    end = hit.end
    if end < len(reading.items) and reading.items[end].key.isdigit() and reading.items[end].break_before < COMMA:
        end += 1
    gap = reading.items[end].gap if end < len(reading.items) else reading.tail
    return ":" in gap or "：" in gap or ("\n" in gap and begins)


def is_cut(reading: Reading, statement: Statement | None = None) -> bool:
    """Whether the last sentence goes on the line of the one before it and has no stop: it may have been cut off.

    With a statement: whether that holds and the statement is no label.
    """
    if statement is not None and statement.mention.kind != "text":
        return False
    last = reading.sentence[-1]
    opens = reading.items[reading.starts[last]].break_before
    return last > 0 and opens == SENTENCE and not reading.tail.strip(" \n*_`\"'”’»")


def breaks_off(reading: Reading) -> bool:
    """Whether the last word is one that no sentence ends with, and no stop behind it."""
    last = reading.items[-1]
    return not reading.tail.strip() and not last.is_mention and last.key in reading.words.dangling


def lacks_noun(reading: Reading) -> bool:
    """Whether the text ends without a stop on a mention whose last word needs a noun behind it: Turkish "terzinin"."""
    if not reading.words.needs_noun or reading.tail.strip(" \n*_"):
        return False
    shown = any(reading.last_key == text.tokens[-1] for text in reading.options.texts if text.tokens)
    return not shown and reading.last_key.endswith(reading.words.needs_noun)


def is_viewed(reading: Reading, view: Hit, place: int) -> bool:
    """Whether an item stands in somebody else's view: behind its words, and not in the main clause behind a
    comma where an "although" grants the view."""
    if place <= view.start:
        return False
    sentence = reading.sentence[view.start]
    start, end = reading.starts[sentence], reading.ends[sentence]
    if reading.sentence[place] != sentence or not any(
        start <= hit.start <= min(start + 1, view.start) for hit in reading.hits_of("markers.concessive")
    ):
        return True
    items = reading.items
    named = next((p for p in range(view.end, end) if items[p].is_mention), view.end - 1)
    comma = next((p for p in range(named + 1, end) if not COMMA_SIGNS.isdisjoint(items[p].gap)), end)
    return place < comma


def introduces(gap: str) -> bool:
    """Whether a gap holds a sign that leads up to what follows."""
    return gap != " " and (not _INTRODUCING.isdisjoint(gap) or " - " in gap)


def led_up_to(reading: Reading, statement: Statement) -> bool:
    """Whether a sentence leads up to a mention with a colon or "=" and ends with it: "long story short: B"."""
    gap = reading.items[statement.place].gap
    leads = statement.place > 0 and any(sign in gap for sign in (":", "：", "="))
    if reading.tail[:1] in COMMA_SIGNS and statement.place + 1 == len(reading.items):
        return False
    if is_weak(statement) and not (statement.mention.kind == "label" and is_capital(reading, statement.place)):
        return False
    return leads and statement.place + 1 == reading.ends[statement.sentence]


def closes(reading: Reading, place: int) -> bool:
    """Whether a mention is followed by the end of its clause, a copula aside."""
    after = behind = place + 1
    items = reading.items
    while after < len(items) and items[after].key in reading.words.copulas and items[after].break_before < COMMA:
        after += 1
    if after >= len(items):
        return True
    item = items[after]
    if item.break_before >= COMMA or after in reading.reasons:
        return True
    here = items[place]
    is_label = isinstance(here, MentionItem) and here.mention.kind != "text" and here.mention.strength != "weak"
    return is_label and item.is_mention and after == behind


def is_capital(reading: Reading, place: int) -> bool:
    """Whether a letter stands out as a capital. In a text with small letters a small "a" is a word before a label."""
    return reading.cased and reading.items[place].text[:1].isupper()


def is_weak(statement: Statement) -> bool:
    """Whether a mention is a letter that may well be a word."""
    return statement.mention.strength == "weak"


def concluded(reading: Reading) -> dict[int, Hit]:
    """Clauses that begin as a conclusion; a clause is the whole sentence unless a "but" parts it."""
    return {
        reading.clause[hit.start]: hit
        for hit in reversed(reading.hits_of("markers.conclusion"))
        if hit.start - reading.clause.index(reading.clause[hit.start]) <= 2
    }


def holds_row(items: Sequence[Item], rows: frozenset[tuple[str, ...]]) -> bool:
    """Whether one of some rows of words stands among items, side by side."""
    keys = [item.key for item in items]
    longest = range(1, MAX_ROW + 1)
    return not rows.isdisjoint({tuple(keys[n : n + length]) for n in range(len(keys)) for length in longest})


def raise_tier(statement: Statement, tier: Tier, rule: str, hit: Hit | None) -> None:
    """Commits to a statement more firmly, if it is."""
    if tier > statement.tier:
        statement.tier, statement.rule, statement.cue = tier, rule, hit


def is_person(reading: Reading, statement: Statement) -> bool:
    """Whether a mention is the whole text of one option that is no unknown option."""
    mention = statement.mention
    whole = mention.kind in {"text", "label_text"} and mention.complete and len(mention.options) == 1
    return whole and mention.options != (reading.options.unknown,)


def is_unknown(reading: Reading, statement: Statement) -> bool:
    """Whether a mention is the unknown option."""
    return statement.mention.options == (reading.options.unknown,)
