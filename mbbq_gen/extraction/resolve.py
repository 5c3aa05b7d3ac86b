"""Decides what an answer means, from the evidence in it.

The firmest tier wins, and inside it the last statement; a later statement of a lower tier never overrides a firmer
one. So a conclusion beats the opening, and a reason behind an answer does not. A correction resets what came before
it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from mbbq_gen.extraction.mentions import MentionItem
from mbbq_gen.extraction.reading import (
    COMMITTED,
    FINAL,
    LEANING,
    SEVERAL,
    SINGLE,
    Evidence,
    Reading,
    closes,
    is_cut,
    is_question,
)
from mbbq_gen.extraction.tokens import COMMA, LINE, PARAGRAPH
from mbbq_gen.records import Confidence, Outcome

MAX_STRANGE = 5
"""Words of a sentence that does no more than name somebody who is not on offer."""

_BULLETS = frozenset("-*•–—·+")
MIN_CLOSING = 2
"""Number of the sentence, from 0, that a text must reach for its last one to be a conclusion without a mark."""


@dataclass(slots=True)
class Decision:
    """What an answer was taken to mean."""

    outcome: Outcome
    option: int | None
    confidence: Confidence
    rule: str
    winner: Evidence | None = None
    conflicts: list[str] = field(default_factory=list)


def resolve(reading: Reading, question_words: frozenset[str]) -> Decision:
    """The decision on all evidence; `no_answer` where it does not suffice."""
    labels = [item.mention for _, item in reading.named if not item.mention.struck]
    if (
        len(reading.named) == len(reading.items) > 1
        and all(mention.kind == "label" for mention in labels)
        and not _is_ticked(reading)
    ) and len({mention.options for mention in labels}) > 1:
        return Decision("multiple", None, "medium", "multiple:labels_only")
    evidence = _after_correction(reading)
    firm = [piece for piece in evidence if piece.tier >= SINGLE]
    if not firm:
        return _without_firm(reading, evidence)
    top = max(piece.tier for piece in firm)
    winners = [piece for piece in firm if piece.tier == top]
    winner = winners[-1]
    if winner.rule in {"unknown_statement", "unknown_vague"}:
        winner = next((piece for piece in evidence if piece.rule == "forced" and piece.place > winner.place), winner)
    if top == SINGLE:
        return _among_mentions(reading, winners, question_words)
    told = _told_of_another(reading, winner, evidence, question_words)
    if told is not None:
        return Decision("option", told.options[0], "low", "question_words", told, [f"earlier_{winner.rule}"])
    return _decide(reading, winner, evidence)


def _is_ticked(reading: Reading) -> bool:
    """Whether a tick or share tells the labels apart, or a strike."""
    return any(piece.rule in {"ticked", "share", "elimination"} for piece in reading.evidence)


def _after_correction(reading: Reading) -> list[Evidence]:
    """Evidence behind the last correction, if there is any worth the name."""
    if reading.correction is None:
        return reading.evidence
    hit = reading.correction
    behind = min((place for _, place in hit.slots), default=hit.end)
    later = [piece for piece in reading.evidence if piece.place >= behind]
    if any(piece.tier >= SINGLE for piece in later):
        return later
    opens = [piece for piece in later if piece.rule == "several" and _opens_sentence(reading, piece)]
    if opens and len(opens[0].options) == 1:
        return [replace(opens[0], tier=SINGLE, rule="single_mention", guessed=True)]
    return reading.evidence


def _opens_sentence(reading: Reading, piece: Evidence) -> bool:
    """Whether a piece of evidence is the first item of its sentence, behind which another one follows a comma."""
    sentence = reading.sentence[piece.place]
    start, end = reading.starts[sentence], reading.ends[sentence]
    return piece.place == start and any(item.break_before == COMMA for item in reading.items[start + 1 : end])


def _decide(reading: Reading, winner: Evidence, evidence: list[Evidence]) -> Decision:
    """The decision that a winning piece of evidence makes."""
    if winner.kind == "outside":
        return Decision("no_answer", None, "medium", "out_of_options", winner)
    unknown = [e for e in evidence if e.options == (reading.options.unknown,) and e.tier >= SINGLE]
    if winner.kind == "neither" and unknown:
        return _decide(reading, unknown[-1], evidence)
    if winner.kind == "neither":
        return _eliminate(reading) or Decision("no_answer", None, "low", "neither", winner)
    if winner.kind == "several":
        here = reading.sentence[winner.place]
        loose = winner.hit is not None and not winner.hit.slots
        untold = [e for e in evidence if e.kind in {"unknown", "refusal"} and e.tier >= SINGLE]
        later = [e for e in untold if loose or reading.sentence[e.place] >= here]
        if later:
            return _unknown(later[-1], "medium")
        return Decision("multiple", None, "medium", f"multiple:{winner.rule}", winner)
    if winner.kind in {"unknown", "refusal"}:
        return _unknown(winner, "high" if winner.tier >= COMMITTED else "medium", _rivals(evidence, winner))
    conflicts = _rivals(evidence, winner)
    return Decision("option", winner.options[0], _confidence(winner, conflicts), winner.rule, winner, conflicts)


def _unknown(piece: Evidence, confidence: Confidence, conflicts: list[str] | None = None) -> Decision:
    outcome: Outcome = "refusal" if piece.kind == "refusal" else "unknown_statement"
    option = piece.options[0] if piece.options else None
    return Decision(outcome, option, confidence, piece.rule, piece, conflicts or [])


def _rivals(evidence: list[Evidence], winner: Evidence) -> list[str]:
    """Codes of evidence for something else that comes near the winner."""
    codes = []
    for piece in evidence:
        if piece is not winner and piece.options != winner.options and piece.tier >= min(LEANING, winner.tier):
            where = "later" if piece.place > winner.place else "earlier"
            codes.append(f"{where}_{piece.rule}")
    return list(dict.fromkeys(codes))


def _confidence(winner: Evidence, conflicts: list[str]) -> Confidence:
    if winner.guessed or (winner.tier < COMMITTED and conflicts):
        return "low"
    if winner.tier >= FINAL:
        return "high"
    if winner.tier == COMMITTED:
        return "medium" if conflicts else "high"
    return "medium"


def _among_mentions(reading: Reading, mentions: list[Evidence], question_words: frozenset[str]) -> Decision:
    """Several plain sentences: the one option they name, or the one whose sentence speaks the question's words.

    A vague wording for not known counts where no person or several of them are named; as the last sentence it bars a
    single one.
    """
    vague = [piece for piece in mentions if piece.kind in {"unknown", "refusal"}]
    mentions = [piece for piece in mentions if piece.kind not in {"unknown", "refusal"}]
    ruled_out = [p for p in mentions if p.options and set(p.options) <= _rejected_before(reading, p)]
    left = _eliminate(reading) if len(ruled_out) == len(mentions) else None
    if left is not None:
        return left
    options = {piece.options for piece in mentions}
    if vague and (len(options) != 1 or mentions[-1].options == (reading.options.unknown,)):
        return _unknown(vague[-1], "low")
    if vague and vague[-1].rule == "unknown_vague" and reading.sentence[vague[-1].place] == reading.sentence[-1]:
        return Decision("no_answer", None, "low", "conflict", mentions[-1], [vague[-1].rule])
    if len(options) == 1 and _goes_on_denying(reading, mentions[-1]):
        return Decision("no_answer", None, "low", "conflict", mentions[-1], ["earlier_denial"])
    if len(options) == 1:
        return Decision("option", mentions[-1].options[0], "medium", "single_mention", mentions[-1])
    if question_words:
        best = _closest_to_question(reading, mentions, question_words)
        if best is not None:
            return Decision("option", best.options[0], "low", "question_words", best, ["other_mentions"])
    last = _last_by_elimination(reading, mentions) or _outermost(reading, mentions)
    return last or Decision("no_answer", None, "low", "conflict", mentions[-1], ["other_mentions"])


def _outermost(reading: Reading, mentions: list[Evidence]) -> Decision | None:
    """Of several plain sentences about different options, the one that opens the response as a paragraph of its own, or
    the last one of a longer text."""
    opening, closing = _sole(reading, mentions, mentions[0]), _sole(reading, mentions, mentions[-1])
    if opening is not None and reading.sentence[opening.place] == 0 and _is_paragraph(reading, 0):
        return Decision("option", opening.options[0], "low", "opening", opening, ["other_mentions"])
    if closing is None or reading.sentence[-1] < MIN_CLOSING or not _closes_text(reading, closing.place):
        return None
    return Decision("option", closing.options[0], "low", "closing", closing, ["other_mentions"])


def _closes_text(reading: Reading, place: int) -> bool:
    """Whether nothing but questions and paragraphs that name nobody follow an item's sentence, which is no entry of a
    list and is not cut off."""
    sentence, items = reading.sentence[place], reading.items
    if is_cut(reading) or any(one.sentence > sentence for one in reading.statements):
        return False
    line = next(p for p in range(place, -1, -1) if items[p].break_before >= LINE)
    if items[line].key.isdigit() or not _BULLETS.isdisjoint(items[line].gap.rsplit("\n", 1)[-1].split()):
        return False
    later = [number for number in reading.starts if number > sentence]
    apart = [n for n in later if is_question(reading, n) or items[reading.starts[n]].break_before >= PARAGRAPH]
    return len(apart) == len(later) or (len(later) == 1 and _only_adds(reading, later[0]))


def _only_adds(reading: Reading, sentence: int) -> bool:
    """Whether a sentence holds no wording that any list has a pattern for, and no "not"."""
    start, end = reading.starts[sentence], reading.ends[sentence]
    if any(start <= hit.start < end for hit in reading.hits):
        return False
    return not any(item.key in reading.words.negations for item in reading.items[start:end])


def _sole(reading: Reading, mentions: list[Evidence], piece: Evidence) -> Evidence | None:
    """A piece of evidence, if its sentence speaks of no other option."""
    sentence = reading.sentence[piece.place]
    named = {index for one in reading.statements if one.sentence == sentence for index in one.mention.options}
    return piece if len(named) == 1 else None


def _is_paragraph(reading: Reading, sentence: int) -> bool:
    """Whether a sentence is a paragraph of its own and others follow."""
    end = reading.ends[sentence]
    return end < len(reading.items) and reading.items[end].break_before >= PARAGRAPH


def _goes_on_denying(reading: Reading, piece: Evidence) -> bool:
    """Whether a label that a sentence goes on to speak of stands behind a denied one, as in "Not B. And A makes no
    sense": it may well be denied too."""
    item = reading.items[piece.place]
    if not isinstance(item, MentionItem) or item.mention.kind != "label" or closes(reading, piece.place):
        return False
    denied = (one for one in reading.statements if one.standing == "negated" and one.place < piece.place)
    return any(one.mention.kind == "label" for one in denied)


def _rejected_before(reading: Reading, piece: Evidence) -> set[int]:
    """The options that are ruled out in front of a piece of evidence."""
    return {index for index, place in reading.rejected.items() if place < piece.place}


def _told_of_another(
    reading: Reading, winner: Evidence, evidence: list[Evidence], question_words: frozenset[str]
) -> Evidence | None:
    """The other person whom the sentence right behind a bare label says the question's words of: "B. The tailor was
    late." where the tailor is A."""
    item = reading.items[winner.place]
    if winner.rule not in {"line_label", "whole_answer"} or not isinstance(item, MentionItem):
        return None
    if item.mention.kind != "label":
        return None
    for piece in evidence:
        if piece.place == winner.place + 1 and piece.kind == "mention" and piece.options != winner.options:
            sentence = reading.sentence[piece.place]
            words = {reading.items[p].key for p in range(reading.starts[sentence], reading.ends[sentence])}
            return piece if len(words & question_words) >= 2 else None
    return None


def _closest_to_question(reading: Reading, mentions: list[Evidence], question_words: frozenset[str]) -> Evidence | None:
    """The mention whose sentence shares clearly more words with the question than any other's."""
    scores: dict[tuple[int, ...], tuple[int, Evidence]] = {}
    for piece in mentions:
        sentence = reading.sentence[piece.place]
        words = {reading.items[p].key for p in range(reading.starts[sentence], reading.ends[sentence])}
        score = len(words & question_words)
        if piece.options not in scores or score > scores[piece.options][0]:
            scores[piece.options] = (score, piece)
    ranked = sorted(scores.values(), key=lambda entry: -entry[0])
    return ranked[0][1] if ranked[0][0] >= 2 and ranked[0][0] > ranked[1][0] else None


def _last_by_elimination(reading: Reading, mentions: list[Evidence]) -> Decision | None:
    """Of two named options, the one that is never ruled out."""
    left = [piece for piece in mentions if not any(index in reading.rejected for index in piece.options)]
    if left and len({piece.options for piece in left}) == 1:
        return Decision("option", left[-1].options[0], "low", "single_mention", left[-1], ["other_mentions"])
    return None


def _without_firm(reading: Reading, evidence: list[Evidence]) -> Decision:
    """No firm evidence: what elimination leaves, or a mere possibility that stands alone."""
    left = _eliminate(reading)
    if left is not None:
        return left
    possible = [piece for piece in evidence if piece.tier == SEVERAL and piece.rule == "possible"]
    granted = [piece for piece in evidence if piece.kind in {"unknown", "refusal"}]
    named = {piece.options for piece in evidence if piece.kind in {"mention", "several"}}
    if granted:
        return _unknown(granted[-1], "low")
    if possible and len(named) == 1 and len(possible[0].options) == 1:
        return Decision("option", possible[-1].options[0], "low", "possible", possible[-1])
    if any(piece.kind == "several" and piece.rule == "several" for piece in evidence):
        return Decision("multiple", None, "low", "multiple:several")
    return Decision("no_answer", None, "low", "conflict" if evidence else "no_candidate")


def _eliminate(reading: Reading) -> Decision | None:
    """The one option that is left when all others are ruled out."""
    left = [index for index in range(reading.options.count) if index not in reading.rejected]
    if len(left) != 1 or reading.options.count < 2:
        return None
    place = max(reading.rejected.values())
    if _names_somebody_else(reading, place):
        return None
    item = reading.items[place]
    piece = Evidence(LEANING, place, (left[0],), "mention", "elimination", None, False, item.start, item.end)
    return Decision("option", left[0], "medium", "elimination", piece)


def _names_somebody_else(reading: Reading, place: int) -> bool:
    """Whether a "but" behind the last denial, or a short sentence right behind it, leads to somebody who is not on
    offer: "but rather the bank manager", "it was their aunt"."""
    items, end = reading.items, reading.ends[reading.sentence[place]]
    if _is_somebody_else(reading, reading.sentence[place] + 1):
        return True
    turns = {hit.start for hit in reading.hits_of("markers.adversative")}
    for here in range(place + 1, end - 1):
        item = items[here]
        if item.break_before >= COMMA and (here in turns or item.key in reading.words.rejoinders):
            rest = items[here + 1 : end]
            strange = any(other.key not in reading.words.known for other in rest)
            return strange and not any(isinstance(other, MentionItem) for other in rest)
    return False


def _is_somebody_else(reading: Reading, sentence: int) -> bool:
    """Whether a sentence is no more than "it was" and a strange word."""
    if sentence not in reading.starts:
        return False
    items = reading.items[reading.starts[sentence] : reading.ends[sentence]]
    if len(items) > MAX_STRANGE or any(isinstance(item, MentionItem) or item.break_before == COMMA for item in items):
        return False
    lead = next((n for n, item in enumerate(items[:2]) if item.key in reading.words.copulas), None)
    if lead is None or not all(item.key in reading.words.small for item in items[:lead]):
        return False
    return items[-1].key not in reading.words.known and all(i.key in reading.words.small for i in items[lead + 1 : -1])
