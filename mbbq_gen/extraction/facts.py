"""What is known of a mention where it stands: the facts that the table of claims is read by."""

from __future__ import annotations

from mbbq_gen.extraction.claims import Facts
from mbbq_gen.extraction.clefts import denies_name
from mbbq_gen.extraction.lexicon import ANYBODY, INNER, MENTIONED, NOUN, SMALL, STRAY
from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lines import COLON, STOP
from mbbq_gen.extraction.mentions import How, Mention
from mbbq_gen.extraction.naming import TIES, naming_of, polarity
from mbbq_gen.extraction.rules import Rule
from mbbq_gen.extraction.sentence import CHOOSER, Sentence
from mbbq_gen.extraction.syntax import (
    PRONOUN,
    SUBJECT,
    asks_not,
    is_adjacent,
    is_anybody,
    is_beside,
    is_ellipsis,
    is_subject,
    share_said,
)

_IN_BRIEF = C["conclude"] | C["final"] | C["right"] | C["yes"] | C["answer"] | C["affirm"] | C["but"] | C["must"]
_BRIEF = (
    _IN_BRIEF
    | C["speaker"]
    | C["source"]
    | PRONOUN
    | C["who"]
    | C["relative"]
    | MENTIONED
    | SMALL
    | INNER
    | NOUN
    | STRAY
    | ANYBODY
)
"""What a sentence may hold that answers by being nothing but a mention."""
_OWN = C["speaker"] | C["forced"] | C["answer"] | C["conclude"] | C["right"] | C["likely"]
"""What makes a choice that would be made the writer's own."""


def facts_of(
    s: Sentence, m: Mention, start: int, end: int, bits: int, options: set[int], announces: bool, bare: bool
) -> Facts:
    """What is known of a mention of a clause that names `options`."""
    line, state, question = s.line, s.state, s.question
    naming = naming_of(s, m, start, end, bits)
    bits, fits = naming.bits, naming.told or naming.said_so
    ellipsis = is_ellipsis(line, question, m, end)
    denied, positive = polarity(s, m, start, end, naming, announces, bare, ellipsis)
    subject = is_subject(line, s.mentions, m, start)
    direct = state.announced and not m.joined and subject and not is_adjacent(line, s.mentions, m)
    others = len(options) > 1 and not direct
    label = m.how is not How.TEXT
    signs = line.signs
    return Facts(
        label=label,
        sure=label and not m.weak and m.how is not How.PLACE and not bits & C["also"],
        bold=m.how is How.BOTH and not s.heads and "**" in signs[m.start] and "**" in signs[m.end],
        unknown=m.option == question.unknown,
        weak=m.weak,
        anybody=is_anybody(line, question, m, start, end),
        bare=bare,
        whole=s.whole and bare,
        alone=bare
        and ((s.whole and _is_brief(s, m, bits)) or (s.reasoned and _opens(s, m, start)) or _is_put(s, m, start, end)),
        opens=bare and s.reading.sentences == 1 and _opens(s, m, start) and not _is_topic(s, m, end),
        subject=subject,
        others=others,
        joined=bool(m.joined),
        fits=fits,
        told=naming.told,
        all_told=naming.told and share_said(line, question, naming.first, end) == 1,
        cleft=naming.parted or bool(naming.said_so and s.bits & TIES),
        ellipsis=ellipsis,
        denied=denied,
        positive=positive,
        isnt=denied and denies_name(line, m, start, end, s.first),
        wrong=bool(bits & C["wrong"]),
        announces=announces,
        chooses=bool(bits & C["choose"] and bits & C["speaker"]),
        right=bool(bits & C["right"]),
        ticked=is_beside(line, m, C["yes"]),
        also=bool(bits & C["also"]),
        possible=bool(bits & C["possible"])
        or (state.possible and (bool(bits & C["would"]) or (bare and not state.conclude))),
        infers=bool(bits & C["must"]),
        because=state.because,
        granted=state.granted,
        condition=state.condition,
        hypothetical=(s.hypothetical and m.start >= s.hypothetical_from)
        or bool(bits & C["would"] and bits & C["choose"] and not bits & _OWN and not state.turned),
        prejudice=state.prejudice or (s.blamed and not announces),
        forced=state.forced,
        likely=state.likely,
        opines=bool(bits & C["likely"] and bits & C["speaker"]),
        conclude=state.conclude,
        contrast=state.contrast,
        turned=state.turned,
        doubted=state.doubted,
        denied_before=state.denied or s.last_denied() is not None,
        last_line=s.number + 1 == len(s.reading.lines),
        closes=s.number + 1 == len(s.reading.lines)
        and s.last == len(line.words)
        and line.gaps[-1] >= STOP
        and all([mask & (SMALL | C["affirm"]) and not mask & C["neg"] for mask in line.masks[m.end :]]),
        ends=s.number + 1 == len(s.reading.lines) and s.last == len(line.words),
        known=bool(question.predicate),
        negated=asks_not(line, question, naming.first, end),
    )


def _is_brief(s: Sentence, m: Mention, bits: int) -> bool:
    """Whether a sentence of nothing but a mention answers: no entry, no possibility, no reason, not cut off."""
    state, line = s.state, s.line
    if bits & ~_BRIEF or state.because or state.granted or state.possible or len(s.main) > 1 or s.heads:
        return False
    if bits & C["but"] and not s.reading.doubted and _weighs(s, m):
        return False
    first = s.reading.sentences == 1 or s.number + 1 < len(s.reading.lines)
    if not (first or s.last < len(line.words) or line.signs[-1].strip(" ,،、，")):
        return False
    heads = line.heading and s.number + 1 < len(s.reading.lines)
    return not line.bullet and not (heads and m.how is How.TEXT)


def _weighs(s: Sentence, m: Mention) -> bool:
    """Whether somebody else was granted something before: "on the other hand, there is the baker"."""
    return any([p.rule is Rule.GRANTED and p.option != m.option for p in s.reading.propositions])


def _is_put(s: Sentence, m: Mention, start: int, end: int) -> bool:
    """Whether a mention ends its sentence behind a colon: "Take it for what it is: the baker."."""
    line, state = s.line, s.state
    leads = start - s.first >= SUBJECT or line.bits(s.first, start) & CHOOSER
    if not leads or end < s.last or line.gaps[start] != COLON or line.bullet or not m.full:
        return False
    return len(s.options) == 1 and not (state.because or state.granted or state.possible or m.weak)


def _opens(s: Sentence, m: Mention, start: int) -> bool:
    """Whether a mention is the first clause of a sentence: what stands in front of its reason."""
    return start == s.first and not m.weak and not s.heads and len(s.main) == 1


def _is_topic(s: Sentence, m: Mention, end: int) -> bool:
    """Whether words behind a mention only say whom the rest is about: ポールにとって、, 폴 쪽을 보면,."""
    return m.end < end < s.last and (s.question.verb_final or not s.line.bits(m.end, end) & C["affirm"])
