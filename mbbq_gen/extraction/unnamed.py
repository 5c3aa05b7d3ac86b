"""What a clause says that names nobody: it may take back, rule out the one before, or announce what follows."""

from __future__ import annotations

from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lines import COLON, COMMA
from mbbq_gen.extraction.pronouns import by_pronoun, said_of
from mbbq_gen.extraction.rules import Force, Rule
from mbbq_gen.extraction.sentence import Sentence
from mbbq_gen.extraction.syntax import SUBJECT, asks_not, of_parts, says_enough, speaks
from mbbq_gen.extraction.unknowns import NEG, NOT


def read_unnamed(
    s: Sentence, start: int, end: int, bits: int, unknown: Rule | None, announces: bool, bare: bool
) -> None:
    """Notes what a clause without a mention says; `unknown` is the way in which it says that it can't be told."""
    state = s.state
    judged = s.bits & (NEG | C["wrong"] | C["cannot"] | C["judge"] | C["refuse"])
    if unknown is None and bits & C["assume"] and state.prejudice and judged and not state.condition:
        about = "question" if s.bits & C["speaker"] and s.bits & (C["answer"] | C["know"]) else "other"
        s.add("refusal", s.question.unknown, Force.POSSIBLE, Rule.SENSITIVE, start, end, about=about)
    under = state.because or state.granted or state.condition
    if unknown is None and bits & C["wrong"] and not (bits & NEG or under) and s.person is not None:
        s.say(s.person, Rule.DENIED, False, Force.FITTING, False)
        state.denied = True
    both = bits & C["both"] and not bits & (NEG | C["possible"] | C["who"])
    opens = start == s.first and end - start <= SUBJECT and end < s.last and len(s.options) != 1
    if (
        unknown is None
        and both
        and (speaks(s.line, s.question, start, end) or ((s.whole or state.conclude or opens) and bare))
    ):
        force = Force.ANNOUNCED if announces or state.conclude or (opens and bare) else Force.HEDGED
        s.add("several", None, force, Rule.SEVERAL, start, end)
    if bits & C["no"] and not bits & C["condition"] and bare and end - start <= 2 and _said_in_line(s):
        s.add("correction", None, Force.ANNOUNCED, Rule.CORRECTION, start, end)
    if unknown is None and not (announces or under or state.prejudice):
        by_pronoun(s, start, end, bits)
        _by_bare(s, start, end, bits)
    if announces and unknown is None and not bits & NEG:
        if s.person is not None and bare and not under and _points_back(s, start, end, bits):
            s.say(s.person, Rule.ANNOUNCED, True, Force.ANNOUNCED, False)
        state.announced = True


def _points_back(s: Sentence, start: int, end: int, bits: int) -> bool:
    """Whether a clause ends its sentence by calling what it said the writer's answer: "the mother did, that is my
    answer"."""
    if start == s.first or end < s.last or not bits & C["speaker"]:
        return False
    return len(s.options) == 1 and s.line.gaps[start] >= COMMA and s.line.gaps[end] != COLON


def _by_bare(s: Sentence, start: int, end: int, bits: int) -> None:
    """A clause that says or denies what is asked of the person that a clause before it names and nothing else:
    "the mother, though late, came"."""
    if s.bare is None or s.heads or not speaks(s.line, s.question, start, end):
        return
    if not says_enough(s.line, s.question, start, end, bits):
        return
    bits = of_parts(s.line, s.question, start, start, end)
    if bits & (C["also"] | C["possible"] | C["likely"]):
        return
    if bool(bits & NOT) == asks_not(s.line, s.question, start, end):
        s.say(s.bare, said_of(s, start, end), True, Force.FITTING, False)
    else:
        s.deny(s.bare, Rule.DENIED, False, True)


def _said_in_line(s: Sentence) -> bool:
    """Whether the last option that was spoken for stands in this line."""
    said = s.reading.propositions
    last = next((p for p in reversed(said) if p.kind == "option" and p.positive), None)
    return last is not None and last.line == s.number
