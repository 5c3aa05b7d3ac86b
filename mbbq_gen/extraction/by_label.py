"""Options by their labels: as shown, in another case or script, spelled, or a letter that may be a word."""

from __future__ import annotations

import re

from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lexicon import INNER, NOUN, NOUN_AFTER, STRAY
from mbbq_gen.extraction.lines import COLON, COMMA, MARK, NONE, Line
from mbbq_gen.extraction.mentions import How, Mention
from mbbq_gen.extraction.normalise import LOOK_ALIKES
from mbbq_gen.extraction.options import QuestionWords
from mbbq_gen.extraction.words import CROSS, TICK

_PAIRS = dict(zip("([{<*\"'«“`「【《", ")]}>*\"'»”`」】》", strict=True))
"""Signs that set a word apart: the one in front of it → the one behind."""
_VERBS = C["affirm"] | C["right"] | C["wrong"] | C["neg"] | C["conj"]
_LOOK_ALIKE = re.compile(f"[{''.join(map(chr, LOOK_ALIKES))}]")
_ELISIONS = frozenset("'’")
"""Signs that tie a letter to the word behind it: French c'est."""


def find_labels(line: Line, question: QuestionWords, taken: list[bool]) -> list[Mention]:
    """Labels: as shown, or in another case where they are set apart."""
    shown, texts = question.shown, _as_labels(line, question)
    found = _spelled_labels(line, shown.spelled, taken) if shown.spelled else []
    if shown.texts.isdisjoint(texts):
        return found
    for place in [place for place, text in enumerate(texts) if text in shown.texts]:
        if not (taken[place] or _is_part(line, place, question)):
            found += _label_at(line, question, place, texts[place])
    return found


def _label_at(line: Line, question: QuestionWords, place: int, text: str) -> list[Mention]:
    """The label at a place, if what stands there is meant as one."""
    shown = question.shown
    option = shown.option_of.get(text)
    exact = option is not None or shown.long
    option = shown.folded.get(text.casefold()) if option is None else option
    set_apart, named = _set_apart(line, place), is_named(line, place)
    if option is None:
        if not set_apart and line.words[place].mask & STRAY:
            return []
        if not (set_apart or named) or text.upper() not in shown.outside or (shown.digits and not named):
            return []
        option, weak = -1, not named and not line.signs[place + 1].startswith(")")
    elif shown.long:
        weak = False
    elif set_apart or named:
        if not set_apart and _is_small_word(line, question, place, option):
            return []
        weak = bool(shown.digits and not named and not _bracketed(line, place))
    elif exact and not shown.digits:
        return _plain_label(line, question, place, option)
    elif len(line.texts) == 1 or exact:
        weak = True
    else:
        return []
    return [Mention(option, place, place + 1, How.LABEL, full=True, weak=weak)]


def _as_labels(line: Line, question: QuestionWords) -> list[str]:
    """The words of a line as labels would be written: digits of any script, letters that look like Latin ones."""
    texts, known = line.texts, question.shown.texts
    if question.shown.digits:
        return [str(int(text)) if text.isdecimal() else text for text in texts]
    if line.is_ascii or not _LOOK_ALIKE.search(line.raw):
        return texts
    return [_looks_like(line, place, known) if len(text) == 1 else text for place, text in enumerate(texts)]


def _looks_like(line: Line, place: int, known: frozenset[str]) -> str:
    """A letter, or the Latin one that it looks like where no word of its own language can stand."""
    text = line.texts[place]
    like = text.translate(LOOK_ALIKES)
    if text in known or like == text or like not in known:
        return text
    ends = place + 1 == len(line.texts) or line.gaps[place + 1] >= COMMA
    return like if _set_apart(line, place) or is_named(line, place) or (ends and text.isupper()) else text


def _plain_label(line: Line, question: QuestionWords, place: int, option: int) -> list[Mention]:
    """A letter without anything that makes a label of it, unless it is a word of the language there."""
    text = line.texts[place].translate(LOOK_ALIKES)
    stray, runs_on = question.shown.stray >> option & 1, _goes_on(line, place)
    if stray and runs_on and not (text.isupper() and (_before_verb(line, place) or _in_midst(line, place))):
        return []
    weak = bool(stray and runs_on and not _before_verb(line, place)) or not text.isupper()
    return [Mention(option, place, place + 1, How.LABEL, full=True, weak=weak)]


def _goes_on(line: Line, place: int) -> bool:
    """Whether nothing but a blank stands between a word and the next one."""
    behind = place + 1 < len(line.texts) and line.gaps[place + 1] < MARK and line.signs[place + 1].isspace()
    return behind and line.texts[place + 1] not in {TICK, CROSS}


def _is_small_word(line: Line, question: QuestionWords, place: int, option: int) -> bool:
    """Whether a small letter behind a word for an option goes on as the word it is: "la respuesta a tu pregunta"."""
    stray = question.shown.stray >> option & 1
    return bool(stray and line.texts[place].islower() and _goes_on(line, place) and not _before_verb(line, place))


def _in_midst(line: Line, place: int) -> bool:
    """Whether a capital stands where only a name or a label has one: inside a sentence that is not all in capitals."""
    before = line.texts[place - 1] if place else ""
    return bool(before) and line.gaps[place] < MARK and not (before.isupper() and len(before) > 1)


def is_named(line: Line, place: int) -> bool:
    """Whether a word for an option stands in front of a label, or right behind it."""
    if place and line.gaps[place] in {NONE, MARK, COLON}:
        head = place - 1
        while head and line.masks[head] & (INNER | NOUN) == INNER:
            head -= 1
        if line.masks[head] & NOUN:
            return True
    behind = place + 1 < len(line.masks) and line.masks[place + 1] & NOUN_AFTER and line.gaps[place + 1] < COMMA
    return bool(behind)


def _spelled_labels(line: Line, spelled: dict[str, int], taken: list[bool]) -> list[Mention]:
    """Labels by their names, where a label is expected: "option be"."""
    return [
        Mention(spelled[word.key], place, place + 1, How.LABEL, full=True)
        for place, word in enumerate(line.words)
        if word.key in spelled and not taken[place] and (is_named(line, place) or _set_apart(line, place))
    ]


def _is_part(line: Line, place: int, question: QuestionWords) -> bool:
    """Whether a letter is the initial of a name, or the elided word in front of an apostrophe."""
    if question.elision and line.signs[place + 1] in _ELISIONS:
        return True
    return line.signs[place].strip() == "." and line.gaps[place] == NONE


def _set_apart(line: Line, place: int) -> bool:
    """Whether signs on both sides set a word apart: (B), **B**, "B", or `B)` and `B:` at the beginning."""
    before, after = line.signs[place], line.signs[place + 1]
    if place == 0 and (after[:1] in {")", ".", ":", "]", "：", "．"} or len(line.texts) == 1):
        return True
    if after[:1] == ")" and "(" not in "".join(line.signs[: place + 1]):
        return True
    return bool(before) and _PAIRS.get(before[-1]) == after[:1]


def _before_verb(line: Line, place: int) -> bool:
    """Whether what follows a letter can't follow an article: "A is wrong"."""
    return place + 1 < len(line.masks) and line.gaps[place + 1] < COMMA and bool(line.masks[place + 1] & _VERBS)


def _bracketed(line: Line, place: int) -> bool:
    return line.signs[place][-1:] in {"(", "["} and line.signs[place + 1][:1] in {")", "]"}
