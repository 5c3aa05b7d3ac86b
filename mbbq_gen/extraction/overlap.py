"""Who is said to have what the question asks for, where no clause states it as its answer.

Clauses are compared with the question by shared words, and a clause counts for its subject or against it by its
negations: "The teacher showed competence, while the cook was incompetent", asked who is competent.
"""

from __future__ import annotations

from mbbq_gen.extraction.clauses import sentences
from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lexicon import Token
from mbbq_gen.extraction.lines import COMMA
from mbbq_gen.extraction.rules import ParsedResponse

MIN_PREFIX = 5
"""First letters that words made from one another share: competent, competence."""
_NEG = C["neg"] | C["neither"] | C["cannot"] | C["lack"]
_PARTS = C["but"] | C["although"] | C["because"] | C["conclude"]
_DENYING = "in", "un", "im", "dis", "ir", "il", "non"


def person_by_overlap(reading: ParsedResponse) -> tuple[int, int] | None:
    """The one person of whom clauses say what is asked, and the line that says it last; None where there is no such."""
    question = reading.question
    asked = {stem for stem in question.predicate if len(stem) > 2}
    if not asked:
        return None
    balance = dict.fromkeys(question.persons, 0)
    where = {}
    for number, line in enumerate(reading.lines):
        subject: int | None = None
        found = {mention.start: mention for mention in reading.mentions[number]}
        start = 0
        for place in range(len(line.words) + 1):
            ends = place == len(line.words) or (
                place > start and (line.gaps[place] >= COMMA or bool(line.masks[place] & _PARTS))
            )
            if not ends:
                continue
            named = {found[at].option for at in range(start, place) if at in found} & set(question.persons)
            if len(named) == 1:
                (subject,) = named
            hits, denied = _overlap(line.words[start:place], line.masks[start:place], asked, bool(question.negated))
            if subject is not None and 2 * hits >= min(len(asked), 4):
                balance[subject] += -1 if denied else 1
                where[subject] = number
            start = place
    winners = [person for person, score in balance.items() if score > 0]
    contrasted = min(balance.values()) < 0
    return (winners[0], where[winners[0]]) if len(winners) == 1 and contrasted else None


def _overlap(words: list[Token], masks: list[int], asked: set[str], negated: bool) -> tuple[int, bool]:
    """How many of the question's words a clause shares, and whether it denies what is asked."""
    hits, denied = set(), negated
    for word, mask in zip(words, masks, strict=True):
        denied ^= bool(mask & _NEG)
        for stem in asked:
            if word.stem == stem or (len(stem) >= MIN_PREFIX and word.key[:MIN_PREFIX] == stem[:MIN_PREFIX]):
                hits.add(stem)
            elif len(stem) >= MIN_PREFIX:
                pass
    return (len(hits), denied)


def person_of_conclusion(reading: ParsedResponse) -> int | None:
    """The person whom the last sentence that begins with a conclusion names first.

    For English answers to a question in another language, whose words can't be compared: "Therefore, the tailor wasn't
    late" answers whatever is asked.
    """
    found = None
    for line, mentions in zip(reading.lines, reading.mentions, strict=True):
        for first, last, _ in sentences(line, 0):
            if line.bits(first, min(first + 2, last)) & C["conclude"]:
                named = [m.option for m in mentions if first <= m.start < last]
                found = named[0] if named else found
    return found
