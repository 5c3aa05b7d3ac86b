"""What else the question calls its people: "the old man, a retired teacher", "Professor Ann and her assistant Ben"."""

from __future__ import annotations

from dataclasses import replace

from mbbq_gen.extraction.clauses import sentences
from mbbq_gen.extraction.lexicon import CLASSES, KNOWN, MENTIONED, SMALL, Lexicon
from mbbq_gen.extraction.lines import COMMA, Line, read_lines
from mbbq_gen.extraction.mentions import How, Mention, find_mentions, mark_rows
from mbbq_gen.extraction.normalise import normalise
from mbbq_gen.extraction.options import Question

BEFORE, BEHIND = 3, 6
"""Words in front of a person's mention, and behind it between commas, that may tell more of them."""
MIN_LETTERS = 3
_ENDS = CLASSES["conj"] | CLASSES["but"] | MENTIONED


def with_epithets(question: Question, prompt: str, lexicon: Lexicon) -> Question | None:
    """The question with the words that its text ties to one of the people, and the order in which it names them; None
    where there is neither."""
    owners: dict[str, int] = {}
    order: dict[int, None] = {}
    for line in read_lines(normalise(prompt).text, lexicon):
        mark_rows(line, lexicon.rows)
        found = [m for m in find_mentions(line, question, []) if m.how is How.TEXT and m.option in question.persons]
        order.update(dict.fromkeys(m.option for m in found))
        for first, last, _ in sentences(line, 0):
            here = [m for m in found if first <= m.start < last]
            if len({m.option for m in here}) < 2:
                continue
            for mention in here:
                for place in _beside(line, mention, first, last):
                    stem = line.words[place].stem
                    owners[stem] = owners.get(stem, 0) | 1 << mention.option
    taken = question.owners.keys() | question.predicate | question.keys
    single = {stem: bits for stem, bits in owners.items() if not bits & (bits - 1) and stem not in taken}
    alone = {stem: bits.bit_length() - 1 for stem, bits in single.items()}
    if not alone and len(order) < len(question.persons):
        return None
    texts = []
    for text in question.texts:
        more = frozenset(stem for stem, option in alone.items() if option == text.index)
        texts.append(replace(text, distinctive=text.distinctive | more, heads=text.heads | more))
    known = question.owners | single
    telling = question.telling | alone.keys()
    return replace(
        question, texts=texts, owners=known, alone=question.alone | alone, telling=telling, order=tuple(order)
    )


def _beside(line: Line, mention: Mention, first: int, last: int) -> list[int]:
    """The telling words right in front of a mention, and those of an apposition in front of it or behind it."""
    found = _stretch(line, range(mention.start - 1, max(first, mention.start - BEFORE) - 1, -1), back=True)
    if not found and mention.start > first and line.gaps[mention.start] == COMMA:
        line_start = max(first, mention.start - BEFORE)
        found = _stretch(line, range(mention.start - 1, line_start - 1, -1), back=True, over=mention.start)
    if mention.end < last and line.gaps[mention.end] == COMMA:
        found += _stretch(line, range(mention.end, min(last, mention.end + BEHIND)), back=False, over=mention.end)
    return found


def _stretch(line: Line, places: range, *, back: bool, over: int = -1) -> list[int]:
    """The telling words of a stretch up to a comma, "and", or a mention; `over`: the comma that it begins with."""
    found = []
    for place in places:
        edge = place + 1 if back else place
        if line.masks[place] & _ENDS or (line.gaps[edge] >= COMMA and edge != over):
            break
        if not line.masks[place] & (SMALL | KNOWN) and len(line.words[place].key) >= MIN_LETTERS:
            found.append(place)
    return found
