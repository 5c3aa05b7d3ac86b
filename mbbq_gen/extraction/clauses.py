"""Splits lines into sentences and clauses; finds abstentions and the features of mentions."""

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
from mbbq_gen.extraction.lines import COLON, COMMA, QUESTION_MARK, STOP, Line
from mbbq_gen.extraction.mentions import Mention, MentionKind
from mbbq_gen.extraction.question import PreparedQuestion

NEG = C["neg"] | C["neither"]
NOT = NEG | C["cannot"] | C["lack"]
DENY = NEG | C["wrong"] | C["no"] | C["cannot"]
PRONOUN = C["pronoun"] | C["he"] | C["she"]
MAY_ABSTAIN = NOT | C["not_stated"] | C["unclear"] | C["hard"] | C["refuse"] | C["able"]
"""Classes of which every abstention has a word."""
HEAD = 3
"""First words of a clause, which decide its kind."""
_SPLIT = C["correction"] | C["but"] | C["because"] | C["although"] | C["condition"] | C["conclude"]
_BEGINS = C["correction"] | C["because"] | C["although"] | C["condition"]
_JUDGES = C["right"] | C["wrong"] | C["yes"] | C["no"]
_IN_LIST = SMALL | C["conj"] | NOUN
_NOT_IN_LIST = NEG | C["aside"] | C["affirm"] | C["conclude"] | _SPLIT
"""Classes that may, and may not, be between the items of a list: a verb makes another clause."""
SUBJECT = 3
"""Most words before the subject of a clause."""
MAX_ELLIPSIS = 3
"""Most words after the mention in an elliptic clause: "The mother did."."""
_DOER = C["doer"] | C["doing"]
_RELATIVE = C["who"] | C["relative"]
_BESIDE = SMALL | INNER | NOT | C["affirm"]
"""Classes that may be between "the one who" and the mention."""
_BRIEF = (
    (C["conclude"] | C["final"] | C["right"] | C["yes"] | C["answer"] | C["affirm"] | C["but"] | C["must"])
    | (C["speaker"] | C["source"] | PRONOUN | _RELATIVE)
    | (MENTIONED | SMALL | INNER | NOUN | STRAY | ANYBODY)
)
"""Classes that may be in a sentence that consists of a mention."""


def abstention_kind(bits: int, around: int, *, named: bool, person: bool, bare: bool) -> Rule | None:
    """The kind of abstention or refusal in a clause, by the classes of its words.

    `around`: the classes of its sentence; `named`: it names an option; `person`: it names a person; `bare`: it has no
    content words.
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
        (Rule.NEITHER_STATED, bits & C["neither"] and bits & (C["tell"] | C["info"] | C["know"] | C["source"])),
        (Rule.SOURCE_SILENT, denies and bits & C["source"] and bare and not person),
        (Rule.SOURCE_SILENT, denies and bits & C["tell"] and ((bits | around) & C["source"] or asks)),
        (Rule.SOURCE_SILENT, denies and knows and bare and not (person or bits & C["pronoun"])),
        (Rule.NOT_CLEAR, denies and bits & C["clear"] and not named),
        (Rule.NOT_KNOWN, denies and bits & C["know"] and bits & C["who"]),
        (Rule.NO_INFORMATION, bits & C["lack"] and bits & C["source"]),
        (Rule.UNCLEAR_DENIED, bits & C["able"] and bits & C["know"]),
    )
    return next((kind for kind, holds in kinds if holds), None)


@dataclass(slots=True)
class ClauseState:
    """State that the clauses so far set for the rest of their sentence.

    Each field says that such words came: a conclusion, a reason, a doubt, a concession (`granted`), a forced choice,
    another's view (`prejudice`), a guess (`likely`), "but" (`turned`), a denied option.
    """

    announced: bool = False
    """The answer was announced and has not been named yet."""
    conclude: bool = False
    because: bool = False
    doubted: bool = False
    granted: bool = False
    condition: bool = False
    until_comma: bool = False
    """The reason, concession or condition ends at the next comma."""
    forced: bool = False
    prejudice: bool = False
    likely: bool = False
    turned: bool = False
    denied: bool = False
    listed: bool = False
    """The sentence is in an entry of a list of options."""
    entry: bool = False
    """That entry is about a person."""

    def advance(self, bits: int, head: int, *, first: bool, last: bool, comma: bool) -> None:
        """Updates the state by the classes of the next clause.

        `head`: the classes of its first words; `first`, `last`: it is the first or last one; `comma`: after a comma.
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
    """First word, end, and whether it is a question, of each sentence from word `start`."""
    first, gaps, count = start, line.gaps, len(line.words)
    for end in [*(index for index, gap in enumerate(gaps[:count]) if gap >= STOP and index > start), count]:
        yield first, end, gaps[end] == QUESTION_MARK
        first = end


def split_clauses(line: Line, mentions: list[Mention], first: int, last: int) -> list[tuple[int, int]]:
    """First word and end of each clause; "right" and "wrong" belong to the clause before."""
    gaps, masks = line.gaps, line.masks
    parts: list[tuple[int, int]] = []
    start, closed = first, False
    closes = any([mask & CLOSES for mask in masks[first + 1 : last]])
    for index in range(first + 1, last):
        mask = masks[index]
        if closed:
            parts.append((start, index))
            start, closed = index, False
        elif closes and mask & CLOSES and gaps[index] < COMMA:
            closed = True
        elif gaps[index] < COMMA and (
            not mask & (_SPLIT | C["conj"]) or (mask & _BEGINS and index + 1 == last)  # Japanese から, Basque -elako
        ):
            continue
        elif gaps[index] >= COMMA or mask & _SPLIT or _and_splits(line, mentions, start, index, last):
            parts.append((start, index))
            start = index
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


def _and_splits(line: Line, mentions: list[Mention], start: int, index: int, last: int) -> bool:
    """Whether "and" joins clauses: words separate it from the last mention, or a negation follows."""
    follows = line.masks[index + 1] if index + 1 < last else 0
    before = [m for m in mentions if start <= m.start and m.end <= index]
    if not before:
        return bool(follows & C["choose"]) and any([mask & NEG for mask in line.masks[start:index]])
    return bool(follows & NEG) or any([not mask & _IN_LIST for mask in line.masks[before[-1].end : index]])


def join_lists(line: Line, mentions: list[Mention], *, pairs: bool) -> None:
    """Joins mentions by commas and conjunctions; `pairs`: a comma may join two (Telugu)."""
    for first, second in pairwise(mentions):
        between, before = line.masks[first.end : second.start], line.masks[max(0, first.start - 1) : first.start]
        if (
            second.option == first.option
            or max(line.gaps[first.end : second.start + 1]) > COMMA
            or len(between) > 2
            or not all([mask & _IN_LIST and not mask & _NOT_IN_LIST for mask in between])
        ):
            continue
        labels = first.kind is second.kind is MentionKind.LABEL
        if between or labels or (pairs and not any([mask & (C["affirm"] | C["doer"]) for mask in before])):
            first.joined |= {first.option, second.option}
            second.joined |= first.joined


class Clause(NamedTuple):
    """One clause of a sentence."""

    start: int
    end: int
    bits: int
    """The classes of its words together."""
    mentions: list[Mention]
    bare: bool
    """Whether it has no content words."""
    announces: bool
    """Whether it, or the clause before it, announces the answer."""


class Sentence:
    """A sentence of a line, with the state that its clauses set."""

    previous_mention: Mention | None = None
    """The only mention of the previous clause with one."""
    bare_mention: Mention | None = None
    """The same mention, if that clause has no content words: "the mother, …"."""

    def __init__(
        self, parsed: ParsedResponse, index: int, mentions: list[Mention], first: int, last: int, state: ClauseState
    ) -> None:
        self.parsed, self.line_index, self.first, self.last, self.state = parsed, index, first, last, state
        line, question = self.line, self.question = parsed.lines[index], parsed.question
        self.bits = line.bits(first, last)
        self.clauses = split_clauses(line, mentions, first, last)
        join_lists(line, mentions, pairs=question.lexicon.verb_final and not self.bits & DENY)
        if any(len(m.joined) == len(question.options) > 2 for m in mentions):  # "I choose A, B or C"
            mentions = [m for m in mentions if not m.joined or m.kind is not MentionKind.LABEL]
        self.mentions = mentions
        self.options = {m.option for m in mentions}
        under = [start for start, _ in self.clauses[1:] if line.masks[start] & (C["because"] | C["although"])]
        self.main_options = {m.option for m in mentions if not under or m.start < under[0]}
        """The options that it names before a reason or concession."""
        parts = [clause for clause in self.clauses if clause[1] - clause[0] > 1 or line.masks[clause[0]]]
        self.is_bare = len(self.clauses) <= 2 and all([line.is_bare(*part) for part in parts])

    def add(
        self,
        kind: Kind,
        option: int | None,
        strength: Strength,
        rule: Rule,
        first: int,
        last: int,
        *,
        positive: bool = True,
        bare: bool = False,
        about: About = "question",
    ) -> None:
        """Adds a proposition at words `first` up to `last`."""
        span = self.line_index, first, last, self.parsed.sentences
        self.parsed.propositions.append(Proposition(kind, option, positive, strength, rule, *span, bare, about))

    def part_of(self, index: int) -> int:
        """The first word after the last colon or semicolon; else that of the sentence."""
        starts = range(self.first + 1, index + 1)
        return max((start for start in starts if self.line.gaps[start] >= COLON), default=self.first)

    def has_predicate(self, start: int, end: int) -> bool:
        """Whether words `start` up to `end` include one of the question's predicate."""
        line, found = self.line, self.line.predicate_words
        first = bisect_left(found, start)
        if any([not line.masks[index] & INNER for index in found[first : bisect_left(found, end, first)]]):
            return True
        pairs = pairwise(line.words[start:end]) if self.question.unspaced else ()
        return any([one.key + two.key in self.question.predicate for one, two in pairs])

    def predicate_share(self, clause: Clause) -> float:
        """The share of the predicate's words, without those of the context, in a clause."""
        found = {form for word in self.line.words[clause.start : clause.end] for form in (word.stem, word.key)}
        core = self.question.core
        return sum([not forms.isdisjoint(found) for forms in core]) / max(len(core), 1)

    def has_enough_predicate(self, clause: Clause) -> bool:
        """Whether that share is a third, or over a half if only the question is negated."""
        if self.question.unspaced:
            return True
        share = self.predicate_share(clause)
        return share > 1 / 2 if not clause.bits & NOT and self.question.negated else share >= 1 / 3

    def predicate_bits(self, clause: Clause, index: int) -> int:
        """The classes of the parts with the predicate; "and" from word `index` on splits a clause."""
        splits = [split for split in range(index, clause.end) if self.line.masks[split] & C["conj"]]
        parts = pairwise([clause.start, *splits, clause.end])
        return reduce(or_, [self.line.bits(*part) for part in parts if self.has_predicate(*part)], 0)

    def is_set_aside(self, m: Mention) -> bool:
        """Whether "unlike", "than" or "instead of" is just before a mention."""
        line = self.line
        own, before = line.words[m.end - 1].classes, line.masks[self.first - 1] if self.first else 0
        near = line.masks[max(m.start - 4, 0) : m.start] if (self.bits | own | before) & C["aside"] else []
        return any([mask & C["aside"] and not mask & CLOSES for mask in near])


def _is_anybody(s: Sentence, clause: Clause, m: Mention) -> bool:
    """Whether a mention is indefinite: "a baker", "a very poor woman"."""
    if m.kind is not MentionKind.TEXT or s.question.texts[m.option].is_indefinite:
        return False
    masks, words = s.line.masks, s.line.words[m.start : min(m.end + 1, clause.end)]
    if s.question.lexicon.verb_final and any([word.classes & C["indefinite"] for word in words]):
        return True
    for index in range(m.start - 1, max(m.start - SUBJECT, clause.start) - 1, -1):
        if masks[index] & C["indefinite"]:
            return not masks[index] & INNER
        if masks[index] & SMALL and not masks[index] & INNER:
            return False
    return False


def _is_ellipsis(question: PreparedQuestion, after: list[int]) -> bool:
    """Whether a clause is elliptic ("The mother did."), by the classes after its mention."""
    if not 0 < len(after) <= MAX_ELLIPSIS or question.unspaced:
        return False
    ends = after if question.lexicon.verb_final else after[:: len(after) - 1 or 1]
    return any([mask & (C["affirm"] | NEG) for mask in ends]) and all([mask & PLAIN_WORDS for mask in after])


def _is_cleft(before: list[int], after: list[int]) -> bool:
    """Whether a clause with these classes around its mention is a cleft: "it was the mother who …"."""
    if not after:
        affirms = any([mask & C["affirm"] for mask in before[-3:]])
        return affirms and any([mask & _RELATIVE for mask in before[:SUBJECT]])
    if len(before) <= SUBJECT and (any([mask & _RELATIVE for mask in after[:4]]) or after[0] & C["doer"]):
        return True
    return bool(after[0] & C["affirm"] and after[-1] & C["doer"])  # Basque "ama izan zen lan egin zuena"


def _names_doer(s: Sentence, clause: Clause, m: Mention) -> bool:
    """Whether a mention follows "the one who …": Korean "… 사람은 어머니입니다"."""
    masks, index = s.line.masks, m.start - 1
    if not s.bits & _DOER or s.line.gaps[m.start] > COMMA:
        return False
    while index >= s.first and not masks[index] & _DOER and masks[index] & _BESIDE and m.start - index <= SUBJECT:
        index -= 1
    if index < s.first or not masks[index] & _DOER:
        return False
    affirms = any([mask & C["affirm"] for mask in masks[m.end : clause.end]])
    copula = any([word.copula for word in s.line.words[m.end - 1 : clause.end]])
    return bool(masks[index] & C["doer"]) or affirms or copula


def _is_alone(s: Sentence, clause: Clause, m: Mention) -> bool:
    """Whether a bare clause makes a sentence outside of lists, or ends one after a colon."""
    line, last_line = s.line, s.line_index + 1 == len(s.parsed.lines)
    is_cut = last_line and s.parsed.sentences > 1 and s.last == len(line.words) and not line.signs[-1].strip(" ,،、，")
    brief = s.is_bare and not clause.bits & ~_BRIEF and len(s.main_options) <= 1 and not s.state.listed and not is_cut
    if brief and (last_line or not line.heading):
        return True
    after_colon = clause.start - s.first >= SUBJECT and clause.end == s.last and line.gaps[clause.start] == COLON
    return after_colon and m.full and len(s.options) == 1


def _is_the_one(s: Sentence, clause: Clause, m: Mention, *, matches: bool) -> bool:
    """Whether a clause is a cleft or has "of the two"; `matches`: it has the predicate."""
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
    """The features of a mention; `others`: its clause names other options too."""
    start, end, bits, _, bare, announces = clause
    line, question = s.line, s.question
    before, after = line.masks[start : m.start], line.masks[m.end : end]
    label = m.kind is not MentionKind.TEXT
    negated = question.negated

    # predicate: in the question's words, or by "the one who"
    beside = bool(question.predicate) and (s.has_predicate(start, m.start) or s.has_predicate(m.end, end))
    matches = beside and s.has_enough_predicate(clause)
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
    own = bits
    if not (fits or ellipsis) and question.lexicon.verb_final and bits & C["neg"]:
        own = bits & ~C["neg"] | line.bits(m.end, end)  # a negation before the mention denies something else
    deny = DENY | C["hard"] if label or bare or announces else DENY
    denied = bool(own & deny)
    if of_other:
        denied, positive = False, True
    elif fits or ellipsis:
        about = bits
        if matches and bits & NOT and bits & C["conj"]:  # "she could not hold back her tears and was very moved"
            about, denied = s.predicate_bits(clause, m.end), True
        positive = bool(about & NOT) == negated and (fits or not about & C["wrong"])
    else:
        known = bool(question.predicate) or bare or label
        positive = not own & (deny if known else DENY & ~NEG)

    first = next(found for found in s.mentions if found.start >= start)
    last_line = s.line_index + 1 == len(s.parsed.lines)
    return MentionFeatures(
        label=label,
        sure=label and not m.weak and m.kind is not MentionKind.ORDINAL and not bits & C["also"],
        bold=m.kind is MentionKind.BOTH
        and not s.state.listed
        and "**" in line.signs[m.start]
        and "**" in line.signs[m.end],
        unknown=m.option == question.unknown,
        anybody=_is_anybody(s, clause, m),
        bare=bare,
        whole=s.is_bare,
        alone=bare and _is_alone(s, clause, m),
        subject=first is m and len(before) <= SUBJECT,
        others=others,
        joined=bool(m.joined),
        fits=fits,
        all_fits=matches and s.predicate_share(clause) == 1,
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
