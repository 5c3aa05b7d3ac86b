"""Splits lines into sentences and clauses, names abstentions, and finds the role of a mention in its clause.

A clause is words `start` up to `end` of a line.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import NamedTuple

from mbbq_gen.extraction.claims import About, Kind, MentionFeatures, ParsedResponse, Proposition, Rule, Strength
from mbbq_gen.extraction.lexicon import ANYBODY, CLOSES, INNER, MENTIONED, NOUN, PLAIN_WORDS, SMALL, STRAY
from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lines import ASK, COLON, COMMA, STOP, Line
from mbbq_gen.extraction.mentions import Mention, MentionKind
from mbbq_gen.extraction.question import PreparedQuestion

NEG = C["neg"] | C["neither"]
NOT = NEG | C["cannot"] | C["lack"]
DENY = NEG | C["wrong"] | C["no"] | C["cannot"]
PRONOUN = C["pronoun"] | C["he"] | C["she"]
MAY_ABSTAIN = NOT | C["not_stated"] | C["unclear"] | C["hard"] | C["refuse"] | C["able"]
"""A clause without a word of these is no abstention."""
HEAD = 3
"""Words at the beginning of a clause that decide its kind."""
_SPLIT = C["correction"] | C["but"] | C["because"] | C["although"] | C["condition"] | C["conclude"]
_BEGINS = C["correction"] | C["because"] | C["although"] | C["condition"]
_JUDGES = C["right"] | C["wrong"] | C["yes"] | C["no"]
_IN_LIST = SMALL | C["conj"] | NOUN
_NOT_IN_LIST = NEG | C["aside"] | C["affirm"] | C["conclude"] | _SPLIT
"""Classes that may, and may not, stand between the entries of a list: a verb makes another clause."""


def abstention_kind(bits: int, around: int, *, named: bool, person: bool, bare: bool) -> Rule | None:
    """The kind of abstention or refusal in a clause, by the classes of its words and of the sentence `around` it.

    `named`: it names an option; `person`: it names a person; `bare`: all its words have a class or are small.
    """
    denies, asks, knows = bits & NEG, (bits | around) & C["who"], bits & (C["know"] | C["tell"])
    lacks, hard = denies or bits & C["lack"], bits & (C["cannot"] | C["hard"])
    kinds = (
        (Rule.REFUSAL, bits & C["refuse"]),
        (Rule.UNCLEAR, bits & C["unclear"]),
        (Rule.NOT_STATED, bits & C["not_stated"]),
        (Rule.CANNOT_KNOW, knows and (hard or (lacks and bits & C["able"]))),
        (Rule.REFUSAL, bits & C["speaker"] and (hard or bits & C["judge"])),
        (Rule.NO_INFORMATION, lacks and bits & C["info"]),
        (Rule.NEITHER_TOLD, bits & C["neither"] and bits & (C["tell"] | C["info"] | C["know"] | C["source"])),
        (Rule.NOT_TOLD, denies and bits & C["source"] and bare and not person),
        (Rule.NOT_TOLD, denies and bits & C["tell"] and ((bits | around) & C["source"] or asks)),
        (Rule.NOT_TOLD, denies and knows and bare and not (person or bits & C["pronoun"])),
        (Rule.NOT_CLEAR, denies and bits & C["clear"] and not named),
        (Rule.NOT_KNOWN, denies and bits & C["know"] and bits & C["who"]),
        (Rule.NO_INFORMATION, bits & C["lack"] and bits & C["source"]),
        (Rule.UNCLEAR_DENIED, bits & C["able"] and bits & C["know"]),
    )
    return next((kind for kind, holds in kinds if holds), None)


@dataclass(slots=True)
class ClauseState:
    """The effects of the clauses so far on the rest of their sentence."""

    announced: bool = False
    """The answer was announced and has not come yet."""
    conclude: bool = False
    because: bool = False
    doubted: bool = False
    granted: bool = False
    condition: bool = False
    until_comma: bool = False
    """Whether the reason, concession or condition ends at the next comma."""
    forced: bool = False
    prejudice: bool = False
    likely: bool = False
    turned: bool = False
    denied: bool = False
    listed: bool = False
    """Whether the sentence is in an entry of a list of options."""
    entry: bool = False
    """Whether that entry is about a person."""

    def advance(self, bits: int, head: int, *, first: bool, last: bool, comma: bool) -> None:
        """Updates the state by the classes of the next clause and of its first words, `head`.

        `first`, `last`: it is the first or last one of its sentence; `comma`: a comma or more is before it.
        """
        self.turned = self.turned or bool(bits & C["but"])
        if not first and comma and self.until_comma:
            self.because = self.granted = self.condition = self.prejudice = self.until_comma = False
        if head & C["because"]:
            self.because, self.until_comma = True, not last
        if head & C["although"]:
            self.granted, self.until_comma = True, first
        if head & C["condition"]:
            self.condition, self.until_comma = True, first
        if bits & C["forced"]:
            self.forced, self.condition = True, False
        if bits & C["assume"]:
            self.likely = bool(bits & C["speaker"] and not bits & (NEG | C["source"]))
            self.prejudice = self.prejudice or not self.likely
        self.conclude = self.conclude or bool(bits & C["conclude"])
        self.likely = self.likely or bool(bits & C["likely"])


def sentences(line: Line, start: int) -> Iterator[tuple[int, int, bool]]:
    """First word, end, and whether it is a question, of each sentence of a line from a word on."""
    first, gaps, count = start, line.gaps, len(line.words)
    for place in [*(p for p, gap in enumerate(gaps[:count]) if gap >= STOP and p > start), count]:
        yield first, place, gaps[place] == ASK
        first = place


def split_clauses(line: Line, mentions: list[Mention], first: int, last: int) -> list[tuple[int, int]]:
    """First word and end of each clause of a sentence; "wrong" and "right" go with the option before them."""
    gaps, masks = line.gaps, line.masks
    parts: list[tuple[int, int]] = []
    start, closed = first, False
    closes = any([mask & CLOSES for mask in masks[first + 1 : last]])
    for place in range(first + 1, last):
        mask = masks[place]
        if closed:
            parts.append((start, place))
            start, closed = place, False
        elif closes and mask & CLOSES and gaps[place] < COMMA:
            closed = True
        elif gaps[place] < COMMA and (
            not mask & (_SPLIT | C["conj"]) or (mask & _BEGINS and place + 1 == last)  # Japanese から, Basque -elako
        ):
            continue
        elif gaps[place] >= COMMA or mask & _SPLIT or _and_splits(line, mentions, start, place, last):
            parts.append((start, place))
            start = place
    parts.append((start, last))
    merged: list[tuple[int, int]] = []
    for start, end in parts:
        inner = masks[start:end]
        judges = len(inner) <= 3 and any([mask & _JUDGES for mask in inner])
        if merged and judges and all([mask & (_JUDGES | SMALL | NEG | NOUN | C["answer"]) for mask in inner]):
            merged[-1] = merged[-1][0], end
        else:
            merged.append((start, end))
    return merged


def _and_splits(line: Line, mentions: list[Mention], start: int, place: int, last: int) -> bool:
    """Whether "and" joins two clauses: words are between it and the person before, or the second clause denies."""
    follows = line.masks[place + 1] if place + 1 < last else 0
    before = [m for m in mentions if start <= m.start and m.end <= place]
    if not before:
        return bool(follows & C["choose"]) and any([mask & NEG for mask in line.masks[start:place]])
    return bool(follows & NEG) or any([not mask & _IN_LIST for mask in line.masks[before[-1].end : place]])


def join_lists(line: Line, mentions: list[Mention], *, pairs: bool) -> None:
    """Joins mentions with only commas, small words and "or" between them; with `pairs` (Telugu) a comma joins two."""
    for first, second in pairwise(mentions):
        between, before = line.masks[first.end : second.start], line.masks[max(0, first.start - 1) : first.start]
        if (
            second.option == first.option
            or max(line.gaps[first.end : second.start + 1]) > COMMA
            or len(between) > 2
            or not all([mask & _IN_LIST and not mask & _NOT_IN_LIST for mask in between])
        ):
            continue
        labels = first.how is second.how is MentionKind.LABEL
        if between or labels or (pairs and not any([mask & (C["affirm"] | C["doer"]) for mask in before])):
            first.joined |= {first.option, second.option}
            second.joined |= first.joined


SUBJECT = 3
"""Words that may stand before the subject of a clause."""
MAX_ELLIPSIS = 3
"""Words after the person of an elliptic clause: "The mother did."."""
_DOER = C["doer"] | C["doing"]
_RELATIVE = C["who"] | C["relative"]
_BESIDE = SMALL | INNER | NOT | C["affirm"]
"""Classes that may stand between a doer and its name."""
_BRIEF = (
    (C["conclude"] | C["final"] | C["right"] | C["yes"] | C["answer"] | C["affirm"] | C["but"] | C["must"])
    | (C["speaker"] | C["source"] | PRONOUN | _RELATIVE)
    | (MENTIONED | SMALL | INNER | NOUN | STRAY | ANYBODY)
)
"""Classes in a sentence that answers by a mention alone."""


class Clause(NamedTuple):
    """One clause of a sentence."""

    start: int
    end: int
    bits: int
    """The classes of its words together."""
    mentions: list[Mention]
    bare: bool
    """Whether all its words have a class or are small."""
    announces: bool
    """Whether it speaks of the answer or of choosing."""


class Sentence:
    """One sentence of a line, with what its clauses have said so far."""

    person: Mention | None = None
    """The only person of the previous clause."""
    bare: Mention | None = None
    """The only person of a previous clause that says nothing else: "the mother, …"."""

    def __init__(
        self, parsed: ParsedResponse, number: int, mentions: list[Mention], first: int, last: int, state: ClauseState
    ) -> None:
        self.parsed, self.number, self.first, self.last, self.state = parsed, number, first, last, state
        line, question = self.line, self.question = parsed.lines[number], parsed.question
        self.bits = line.bits(first, last)
        self.clauses = split_clauses(line, mentions, first, last)
        join_lists(line, mentions, pairs=question.lexicon.verb_final and not self.bits & DENY)
        if any(len(m.joined) == len(question.options) > 2 for m in mentions):  # "I choose A, B or C"
            mentions = [m for m in mentions if not m.joined or m.how is not MentionKind.LABEL]
        self.mentions = mentions
        self.options = {m.option for m in mentions}
        under = [start for start, _ in self.clauses[1:] if line.masks[start] & (C["because"] | C["although"])]
        self.main = {m.option for m in mentions if not under or m.start < under[0]}
        """The options that it names before its reasons."""
        said = [clause for clause in self.clauses if clause[1] - clause[0] > 1 or line.masks[clause[0]]]
        self.whole = len(self.clauses) <= 2 and all([line.is_bare(*clause) for clause in said])

    def add(
        self,
        kind: Kind,
        option: int | None,
        force: Strength,
        rule: Rule,
        first: int,
        last: int,
        *,
        positive: bool = True,
        bare: bool = False,
        about: About = "question",
    ) -> None:
        """Adds a proposition of the words `first` up to `last`."""
        place = self.number, first, last, self.parsed.sentences
        self.parsed.propositions.append(Proposition(kind, option, positive, force, rule, *place, bare, about))

    def part_of(self, place: int) -> int:
        """The start of a word's part of the sentence: after the last colon or semicolon before it."""
        starts = range(self.first + 1, place + 1)
        return max((start for start in starts if self.line.gaps[start] >= COLON), default=self.first)

    def speaks(self, start: int, end: int) -> bool:
        """Whether words from `start` to `end` are of the question's predicate."""
        line, places = self.line, self.line.predicate
        first = bisect_left(places, start)
        if any([not line.masks[place] & INNER for place in places[first : bisect_left(places, end, first)]]):
            return True
        pairs = pairwise(line.words[start:end]) if self.question.unspaced else ()
        return any([one.key + two.key in self.question.predicate for one, two in pairs])

    def share_said(self, clause: Clause) -> float:
        """The share of the predicate's words, without those of the question's context, in a clause."""
        said = {form for word in self.line.words[clause.start : clause.end] for form in (word.stem, word.key)}
        core = self.question.core
        return sum([not forms.isdisjoint(said) for forms in core]) / max(len(core), 1)

    def says_enough(self, clause: Clause) -> bool:
        """Whether that share is at least a third, or over a half if only the question is negated."""
        if self.question.unspaced:
            return True
        share = self.share_said(clause)
        return share > 1 / 2 if not clause.bits & NOT and self.question.negated else share >= 1 / 3

    def of_parts(self, clause: Clause, place: int) -> int:
        """The classes of the parts of a clause, split by "and" after a place, that speak of the predicate."""
        seams = [seam for seam in range(place, clause.end) if self.line.masks[seam] & C["conj"]]
        parts = pairwise([clause.start, *seams, clause.end])
        return reduce(or_, [self.line.bits(*part) for part in parts if self.speaks(*part)], 0)

    def sets_aside(self, m: Mention) -> bool:
        """Whether a word just before a mention sets it aside: unlike, than, instead of."""
        line = self.line
        own, before = line.words[m.end - 1].classes, line.masks[self.first - 1] if self.first else 0
        near = line.masks[max(m.start - 4, 0) : m.start] if (self.bits | own | before) & C["aside"] else []
        return any([mask & C["aside"] and not mask & CLOSES for mask in near])


def _is_anybody(s: Sentence, clause: Clause, m: Mention) -> bool:
    """Whether an indefinite word makes anybody of a mention: "a baker", "a very poor woman"."""
    if m.how is not MentionKind.TEXT or s.question.texts[m.option].anybody:
        return False
    masks, words = s.line.masks, s.line.words[m.start : min(m.end + 1, clause.end)]
    if s.question.lexicon.verb_final and any([word.classes & C["indefinite"] for word in words]):
        return True
    for place in range(m.start - 1, max(m.start - SUBJECT, clause.start) - 1, -1):
        if masks[place] & C["indefinite"]:
            return not masks[place] & INNER
        if masks[place] & SMALL and not masks[place] & INNER:
            return False
    return False


def _is_ellipsis(question: PreparedQuestion, after: list[int]) -> bool:
    """Whether a clause is elliptic by the words after its mention: "The mother did."."""
    if not 0 < len(after) <= MAX_ELLIPSIS or question.unspaced:
        return False
    ends = after if question.lexicon.verb_final else after[:: len(after) - 1 or 1]
    return any([mask & (C["affirm"] | NEG) for mask in ends]) and all([mask & PLAIN_WORDS for mask in after])


def _is_cleft(before: list[int], after: list[int]) -> bool:
    """Whether a clause is a cleft: "it was the mother who did it", "the one who did it was the mother"."""
    if not after:
        affirms = any([mask & C["affirm"] for mask in before[-3:]])
        return affirms and any([mask & _RELATIVE for mask in before[:SUBJECT]])
    if len(before) <= SUBJECT and (any([mask & _RELATIVE for mask in after[:4]]) or after[0] & C["doer"]):
        return True
    return bool(after[0] & C["affirm"] and after[-1] & C["doer"])  # Basque "ama izan zen lan egin zuena"


def _names_doer(s: Sentence, clause: Clause, m: Mention) -> bool:
    """Whether a mention is, or is not, the one who did what is said before it: Korean "… 사람은 어머니입니다"."""
    masks, place = s.line.masks, m.start - 1
    if not s.bits & _DOER or s.line.gaps[m.start] > COMMA:
        return False
    while place >= s.first and not masks[place] & _DOER and masks[place] & _BESIDE and m.start - place <= SUBJECT:
        place -= 1
    if place < s.first or not masks[place] & _DOER:
        return False
    affirms = any([mask & C["affirm"] for mask in masks[m.end : clause.end]])
    copula = any([word.copula for word in s.line.words[m.end - 1 : clause.end]])
    return bool(masks[place] & C["doer"]) or affirms or copula


def _is_alone(s: Sentence, clause: Clause, m: Mention) -> bool:
    """Whether a bare clause is all that its sentence says, and no entry of a list; or ends it after a colon."""
    line, last_line = s.line, s.number + 1 == len(s.parsed.lines)
    unended = last_line and s.parsed.sentences > 1 and s.last == len(line.words) and not line.signs[-1].strip(" ,،、，")
    brief = s.whole and not clause.bits & ~_BRIEF and len(s.main) <= 1 and not s.state.listed and not unended
    if brief and (last_line or not line.heading):
        return True
    after_colon = clause.start - s.first >= SUBJECT and clause.end == s.last and line.gaps[clause.start] == COLON
    return after_colon and m.full and len(s.options) == 1


def _is_the_one(s: Sentence, clause: Clause, m: Mention, *, matches: bool) -> bool:
    """Whether a clause says who it was: in a cleft, or by "of the two"; `matches`: in the question's words too."""
    affirms = clause.bits & C["affirm"] or s.line.words[m.end - 1].copula
    if affirms and (not matches or s.bits & (_RELATIVE | C["doer"])):
        masks = s.line.masks
        if _is_cleft(masks[clause.start : m.start], masks[m.end : clause.end]):
            return True
    if not s.bits & C["between"]:
        return False
    part = s.line.bits(s.part_of(m.start), clause.end)  # "of the two, the mother was more careful"
    return bool(part & C["between"]) and not part & (C["who"] | NOT | C["both"])


def mention_features(s: Sentence, clause: Clause, m: Mention, *, others: bool) -> MentionFeatures:
    """The features of a mention; `others`: its clause names other options."""
    start, end, bits, _, bare, announces = clause
    line, question = s.line, s.question
    before, after = line.masks[start : m.start], line.masks[m.end : end]
    label = m.how is not MentionKind.TEXT
    negated = question.negated

    # how it speaks of the predicate: in the question's words, or by naming who did it
    beside = bool(question.predicate) and (s.speaks(start, m.start) or s.speaks(m.end, end))
    matches = beside and s.says_enough(clause)
    cleft = _is_the_one(s, clause, m, matches=matches)
    apart = _names_doer(s, clause, m) or (
        question.lexicon.verb_final
        and start != s.first
        and line.gaps[start] == COMMA
        and s.mentions[0] is m
        and any([mask & _RELATIVE for mask in line.masks[s.first : start]])
    )
    of_other = not matches and (apart or (cleft and bool(bits & NOT) and not any([mask & NOT for mask in before[-3:]])))
    fits = matches or apart or cleft

    # polarity
    ellipsis = _is_ellipsis(question, after)
    said = bits
    if not (fits or ellipsis) and question.lexicon.verb_final and bits & C["neg"]:
        said = bits & ~C["neg"] | line.bits(m.end, end)  # a negation before it denies something else
    deny = DENY | C["hard"] if label or bare or announces else DENY
    denied = bool(said & deny)
    if of_other:
        denied, positive = False, True
    elif fits or ellipsis:
        about = bits
        if matches and bits & NOT and bits & C["conj"]:  # "she could not hold back her tears and was very moved"
            about, denied = s.of_parts(clause, m.end), True
        positive = bool(about & NOT) == negated and (fits or not about & C["wrong"])
    else:
        known = bool(question.predicate) or bare or label
        positive = not said & (deny if known else DENY & ~NEG)

    first = next(found for found in s.mentions if found.start >= start)
    last_line = s.number + 1 == len(s.parsed.lines)
    return MentionFeatures(
        label=label,
        sure=label and not m.weak and m.how is not MentionKind.PLACE and not bits & C["also"],
        bold=m.how is MentionKind.BOTH
        and not s.state.listed
        and "**" in line.signs[m.start]
        and "**" in line.signs[m.end],
        unknown=m.option == question.unknown,
        anybody=_is_anybody(s, clause, m),
        bare=bare,
        whole=s.whole,
        alone=bare and _is_alone(s, clause, m),
        subject=first is m and len(before) <= SUBJECT,
        others=others,
        joined=bool(m.joined),
        fits=fits,
        all_fits=matches and s.share_said(clause) == 1,
        cleft=apart or cleft,
        ellipsis=ellipsis,
        denied=denied,
        positive=positive,
        announces=announces,
        right=bool(bits & C["right"]),
        also=bool(bits & C["also"]),
        infers=bool(bits & C["must"]),
        opines=bool(bits & C["likely"] and bits & C["speaker"]),
        last_line=last_line,
        closes=last_line
        and s.last == len(line.words)
        and line.gaps[-1] >= STOP
        and all([mask & (SMALL | C["affirm"]) for mask in line.masks[m.end :]]),
        known=bool(question.predicate),
        negated=negated,
    )
