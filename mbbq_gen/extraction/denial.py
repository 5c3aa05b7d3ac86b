"""Rules out options: denied by the words of a list, by an "also" behind a denial, or by what another one did."""

from __future__ import annotations

import itertools

from mbbq_gen.extraction.patterns import Hit
from mbbq_gen.extraction.reading import (
    Reading,
    Statement,
    denials,
    holds_row,
    is_person,
    is_question,
)
from mbbq_gen.extraction.tokens import COMMA, LINE

MAX_ALSO = 8
"""Items behind a mention in which the clause ends that denies it too."""
MAX_DENIED = 6
"""Items behind a mention among which a "not" and what it denies stand."""


def rule_out(reading: Reading) -> None:
    """Mentions that a sentence denies."""
    outs: dict[int, Hit] = {}
    for family in ("relations.negated", "relations.contrast"):
        for hit in denials(reading, family):
            for name, place in hit.slots:
                denied = family == "relations.negated" or name == "x"
                if denied and not _behind_colon(reading, hit, place) and not _heads_another(reading, hit, place):
                    outs.setdefault(place, hit)
    _rule_out_unknown(reading, outs)
    for statement in reading.statements:
        denial = outs.get(statement.place)
        if denial is not None and statement.standing in {"live", "listed"}:
            _deny(reading, statement, denial)
    if outs and reading.words.also:
        _rule_out_also(reading)
    _rule_out_by_verb(reading)


def _deny(reading: Reading, statement: Statement, why: Hit | None) -> None:
    """Takes a mention out of the running, and its options with it."""
    statement.standing, statement.why = "negated", why
    for index in statement.mention.options:
        reading.rejected[index] = statement.place


def _rule_out_also(reading: Reading) -> None:
    """A short clause with an "also" right behind a denial denies its option too: "B is out, and so is C"."""
    for before, statement in itertools.pairwise(reading.statements):
        if before.standing != "negated" or statement.standing not in {"live", "listed"}:
            continue
        if statement.sentence - before.sentence > 1 or not set(statement.mention.options).isdisjoint(reading.rejected):
            continue
        if _is_also(reading, before.place, statement.place):
            _deny(reading, statement, before.why)


def _rule_out_by_verb(reading: Reading) -> None:
    """Who did not do what the other one did is ruled out: "The boss didn't send it; his brother sent it"."""
    negations = reading.words.negations
    if not negations or len(reading.statements) < 2 or all(item.key not in negations for item in reading.items):
        return
    for left, right in itertools.pairwise(reading.statements):
        if left.standing != "live" or right.standing != "live" or right.sentence - left.sentence > 1:
            continue
        if (
            not is_person(reading, left)
            or not is_person(reading, right)
            or left.mention.options == right.mention.options
        ):
            continue
        denied, done = _denied_words(reading, left.place, right.place), _words_near(reading, right.place)
        if not denied.isdisjoint(done) and negations.isdisjoint(done):
            _deny(reading, left, None)


def _denied_words(reading: Reading, place: int, until: int) -> set[str]:
    """The word that a "not" close behind a mention denies, if it is no small one."""
    items, end = reading.items, min(until, reading.ends[reading.sentence[place]], place + MAX_DENIED)
    for here in range(place + 1, end):
        if items[here].break_before >= COMMA:
            return set()
        if items[here].key in reading.words.negations:
            following = (items[p].key for p in range(here + 1, end) if items[p].break_before < COMMA)
            return {key for key in itertools.islice(following, 2) if len(key) > 2 and key not in reading.words.small}
    return set()


def _words_near(reading: Reading, place: int) -> set[str]:
    """The words of a mention's own part of a sentence, from the comma before it to the one behind it."""
    sentence, items = reading.sentence[place], reading.items
    start = next(p for p in range(place, -1, -1) if items[p].break_before >= COMMA or p == reading.starts[sentence])
    end = next((p for p in range(place + 1, reading.ends[sentence]) if items[p].break_before >= COMMA), None)
    return {item.key for item in items[start : end if end is not None else reading.ends[sentence]]}


def _is_also(reading: Reading, before: int, place: int) -> bool:
    """Whether a mention's clause holds an "also" and nothing that denials have no word for."""
    items, also = reading.items, reading.words.also
    joined = {word for word in reading.words.dangling if (word,) not in also}
    begins = (p for p in range(place, before, -1) if items[p].break_before >= COMMA or items[p].key in joined)
    start = next(begins, place)
    limit = min(reading.ends[reading.sentence[place]], place + MAX_ALSO)
    end = next((p for p in range(place + 1, limit) if items[p].break_before >= COMMA or p in reading.reasons), limit)
    others = [items[p] for p in range(start, end) if p != place]
    if end == place + MAX_ALSO or not holds_row(others, also):
        return False
    words = reading.words.denying.union(*also)
    return all(item.key in words and not item.is_mention for item in others)


def _rule_out_unknown(reading: Reading, outs: dict[int, Hit]) -> None:
    """The unknown option is ruled out by a rejection, and its text in it."""
    unknown = reading.options.unknown
    for hit in reading.hits_of("unknown.rejected"):
        if unknown is None or is_question(reading, reading.sentence[hit.start]):
            continue
        reading.rejected.setdefault(unknown, hit.start)
        for place, item in reading.named:
            if hit.start <= place < hit.end and item.mention.options == (unknown,):
                outs.setdefault(place, hit)


def _heads_another(reading: Reading, hit: Hit, place: int) -> bool:
    """Whether the words of a denial are a header that speaks of other lines: "The tailor", below it "Incorrect: …"."""
    items = reading.items
    if place + 1 < hit.end < len(items) and items[place + 1].break_before >= LINE and ":" in items[hit.end].gap:
        return True
    if not hit.rule.phrase.startswith("^"):
        return False
    return items[hit.start].break_before < LINE or ":" not in items[hit.slots[0][1]].gap


def _behind_colon(reading: Reading, hit: Hit, place: int) -> bool:
    """Whether a colon parts a mention from the words that deny something in front of it: "I got it wrong: B"."""
    gap = reading.items[place].gap
    parted = place > hit.start > reading.starts[reading.sentence[hit.start]] and (":" in gap or "：" in gap)
    return parted and ":" not in hit.rule.phrase
