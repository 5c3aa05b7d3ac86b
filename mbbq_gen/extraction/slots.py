"""Finds answer slots: positions where a response states its answer by structure.

A slot has a label, an option's text, or both. All other text is prose; `engine.py` reads it only if no slot decides.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from functools import lru_cache, partial, reduce
from itertools import islice
from operator import or_
from typing import NamedTuple

from mbbq_gen.core.records import Confidence
from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lexicon import NOUN, SMALL, Lexicon, words_of
from mbbq_gen.extraction.option_matcher import CLOSE, OptionMatcher, SlotContent, end_of, fold, option_matcher
from mbbq_gen.extraction.structured import greatest_share, only_bold, ticked_option
from mbbq_gen.extraction.text import ASCII_WORD, UNSPACED, WORD
from mbbq_gen.languages.extraction_pack import Grammar

MAX_LINK = 7
"""Most words between an answer marker and the answer: "the answer *to the question is* B"."""
MAX_GUARD = 4
"""Words before a marker, or after a label, that are checked for a negation."""
MAX_BEHIND = 7
"""Words after a label that are checked for a denial or doubt."""
CACHE_SIZE = 60_000
"""Words whose classes are cached."""
MAX_SHORT = 160
"""Longest response, in characters, whose opening another option after it contests."""
MAX_SENTENCE = 400
"""Most characters of the sentence after a label."""
CONTESTED = -1
"""The option of a slot whose sentence names another option too, so that prose decides."""
_END_OF_SENTENCE = re.compile(r"[.!?。！？।؟\n]")
_NEG = C["neg"] | C["neither"] | C["cannot"] | C["wrong"] | C["no"]
_ABSTAINS = _NEG | C["not_stated"] | C["unclear"] | C["lack"] | C["enough"] | C["hard"]
_GUARD = _NEG | C["condition"] | C["forced"] | C["possible"] | C["who"] | C["assume"]
_LINK = (
    SMALL | NOUN | C["answer"] | C["right"] | C["final"] | C["would"] | C["must"] | C["conclude"] | C["likely"]
) | (C["only"] | C["options"] | C["source"] | C["affirm"])
_Words = list[tuple[re.Match[str], int]]
"""Words of a text with their classes."""
_LISTED = re.compile(
    r"(?:^|[\n.!?;,|]|\*\*)[ \t]*[(\[*_-]{0,3}[ \t]?(?:[^\W\d]{2,12} )?(\w{1,5})[ \t]?[)\].:：*]", re.MULTILINE
)
"""A label with a sign at the start of a line or sentence."""
_WORD_STARTS = re.compile(r"(?<!\w)(?=\w)")
_JOIN = re.compile(r"[*_)\"'\]]*(?:\s{0,2}(?:[,/&+]|、)\s{0,2}|\s?[^\x00-\u024f\W\d]{1,2}\s?(?=[A-J](?![A-Za-z])))")
"""A sign that joins two options, or "and" written together with a label (A와 B, AとB, A和B)."""
_BLANK = re.compile(r"[*_)\"'\].;]*[ \t]{1,3}")
_NEXT_LINE = re.compile(r"[.,;\s*_]*\n[\s*_-]*")
_STOPS = re.compile(r"[.!?;,。！？；，।؟]")


class SlotKind(StrEnum):
    """Kinds of slots with rank and confidence; the value is the rule's name."""

    rank: int
    """The slot with the lowest rank wins; among equals, the last one in the text."""
    confidence: Confidence

    def __new__(cls, rule: str, rank: int = 0, confidence: Confidence = "high") -> SlotKind:
        """A kind; the defaults are for lookups by rule, as `SlotKind("json")`."""
        kind = str.__new__(cls, rule)
        kind._value_, kind.rank, kind.confidence = rule, rank, confidence
        return kind

    BOX = "boxed", 0, "high"
    FIELD = "json", 1, "high"
    TAG = "tag", 2, "high"
    ALONE = "whole_response", 3, "high"
    TICK = "checked_box", 4, "high"
    SHARE = "highest_share", 4, "medium"
    MARKER = "announced", 5, "high"
    CLOSING = "last_line", 5, "high"
    OPENING = "opening", 6, "high"
    BOLD = "only_bold", 7, "medium"


class AnswerSlot(NamedTuple):
    """A part of the text that states an answer."""

    kind: SlotKind
    option: int | None
    """The option; None for several together."""
    start: int
    end: int
    conflict: int | None = None
    """The option of the label, if the text beside it names another one."""


class SlotFinder:
    """Finds answer slots with the words of a language and of English."""

    def __init__(self, lexicons: Sequence[Lexicon], grammars: Sequence[Grammar]) -> None:
        self._classes = lru_cache(maxsize=CACHE_SIZE)(
            lambda word: reduce(or_, [known[word].classes for known in lexicons])
        )

        def entries(name: str, of: Sequence[Grammar] = grammars) -> list[str]:
            return [entry for grammar in of for entry in words_of(grammar.words[name])]

        nouns = {word for grammar in grammars for word in words_of(grammar.labels["nouns"]) if not {*"_*"} & {*word}}
        ordered = "|".join(re.escape(noun) for noun in sorted(nouns, key=len, reverse=True))
        noun = re.compile(rf"(?:{ordered or '(?!)'})[\s:*#]+", re.IGNORECASE)
        self.matcher = partial(option_matcher, noun=noun, lexicon=lexicons[0])
        """The matcher of a question's options and labels."""
        self._correction, self._conj = _any_entry(entries("correction")), _any_entry(entries("conj"))
        self._header = re.compile(
            rf"\n[\s*#_>-]*(?:\w+ ){{0,2}}(?:{_alternatives(entries('options'))})\s*\d*\s*[*_]*\s*[:：]", re.IGNORECASE
        )
        unspaced = [grammar for grammar in grammars if UNSPACED.match(next(words_of(grammar.words["answer"]), " "))]
        markers = [*entries("answer", unspaced), *entries("choose", unspaced)]
        self._unspaced = re.compile(_alternatives(markers)) if markers else None

    def find(self, body: str, circled: frozenset[int], matcher: OptionMatcher) -> list[AnswerSlot]:
        """All slots of a text, in order, except those in boxes, JSON fields and tags."""
        first = matcher.at(body, 0, circled)
        marked = list(self._markers(body, matcher))
        if len(marked) >= matcher.count:  # a line "option A is …, option B is …" explains the labels
            lines = [(body.count("\n", 0, slot.start), slot) for slot in marked]
            shown = {line: {slot.option for row, slot in lines if row == line} for line, _ in lines}
            marked = [slot for line, slot in lines if len(shown[line]) < matcher.count]
        ends = [first.end] if first is not None else [slot.end for slot in marked[:1]]
        cut = self._continuation(body, ends[0], matcher) if ends else len(body)
        body, marked = body[:cut], [slot for slot in marked if slot.end <= cut]
        opening = self._opening(body, circled, matcher)
        if opening is not None and opening.kind is SlotKind.ALONE:
            return [opening]
        found = [*marked, *([opening] if opening else [])]
        closing = self._closing(body, matcher)
        if closing is not None and not any(slot.start <= closing.start < slot.end for slot in marked):
            found.append(closing)
        bold = None if found else only_bold(body, matcher)
        for kind, content in ((SlotKind.BOLD, bold), (SlotKind.TICK, ticked_option(body, matcher))):
            if content is not None:
                found.append(slot_of(kind, content))
        share = greatest_share(body, matcher)
        if share is not None:
            found.append(AnswerSlot(SlotKind.SHARE, *share))
        return sorted(found, key=lambda slot: slot.start)

    def is_corrected(self, body: str, slot: AnswerSlot) -> bool:
        """Whether a word of correction follows a slot."""
        return len(body) > slot.end + 3 and self._correction.search(body, slot.end) is not None

    def doubt_after_opening(self, body: str, matcher: OptionMatcher) -> tuple[int, int] | None:
        """The rest of an opening sentence with a doubt: "The cook (B) is not known"."""
        content = matcher.at(body, 0)
        if content is None or content.text is None:
            return None
        stop = _END_OF_SENTENCE.search(body, content.end)
        end = stop.start() if stop else len(body)
        classes = [bits for _, bits in self._words(body, content.end, end, MAX_GUARD + 1)]
        bits = reduce(or_, classes, 0)
        doubts = bits & _NEG and bits & (C["know"] | C["enough"] | C["unclear"] | C["not_stated"])
        plain = SMALL | _ABSTAINS | C["know"] | C["able"] | C["affirm"] | C["hard"]
        return (content.end, end) if doubts and all(mask & plain for mask in classes) else None

    def denial_after(self, body: str, slot: AnswerSlot, matcher: OptionMatcher) -> tuple[int, int] | None:
        """The rest of a sentence that denies the label before it: "(A) is not correct"."""
        here = end_of(CLOSE, body, slot.end)
        if slot.kind is SlotKind.MARKER and body[here : here + 1] == ".":
            return None
        stop = _END_OF_SENTENCE.search(body, here + 1 if body[here : here + 1] in {".", ":"} else here)
        end = stop.start() if stop else min(len(body), here + MAX_SENTENCE)
        if body[here : here + 1] == "\n" or fold(body[slot.start : slot.end]).strip(" *_()") not in matcher.labels:
            return None
        for _, bits in self._words(body, here, end, MAX_BEHIND):
            if bits & C["because"]:
                return None
            if bits & _ABSTAINS:
                return here, end
        return None

    def _words(self, text: str, start: int = 0, end: int = sys.maxsize, count: int | None = None) -> _Words:
        """The first words of a part of a text, with their classes."""
        words = islice((ASCII_WORD if text.isascii() else WORD).finditer(text, start, end), count)
        return [(word, self._classes(word.group())) for word in words]

    def _continuation(self, body: str, start: int, matcher: OptionMatcher) -> int:
        """The start of a further question after the answer, else the end of the text."""
        header = self._header.search(body, start)
        cut = header.start() if header else len(body)
        for mark in re.finditer(r"[?？؟]", body[start:cut]):
            end = start + mark.end()
            items = [m for m in _LISTED.finditer(body, end, end + 300) if matcher.text_at(body, m.end() + 1) is None]
            shown = {matcher.labels.get(item[1].casefold()) for item in items} - {None}
            if len(shown) > 1:
                return max(body.rfind(sign, start, end - 1) for sign in ".!\n¿") + 1 or end
        return cut

    def _opening(self, body: str, circled: frozenset[int], matcher: OptionMatcher) -> AnswerSlot | None:
        """The slot of a whole response, or of an option with a sign at its start."""
        content = matcher.at(body, 0, circled, native=True)
        if content is None:
            return None
        here = end_of(CLOSE, body, content.end)
        rest = body[here:].strip(" \t\n.。!)]}*_\"'”’»`:|")
        before = body[: content.start].strip(" \t\n*_\"'“”„«»‘’`>[({（【「《$\\#•|~-")
        if not rest and "?" not in body[here:]:
            denied = before.split() and self._classes(before.split()[-1]) & _NEG
            return None if denied else slot_of(SlotKind.ALONE, content)
        behind = body[here : here + 1]
        line_end = body.find("\n", here)
        line = body[here : line_end if line_end >= 0 else len(body)]
        by_text = content.text is not None and content.label is None
        if by_text:
            has_sign = behind in {"。", "!", "\n", "।"} or (behind == "." and not body[here + 1 : here + 2].isalnum())
        else:
            has_sign = (
                content.enclosed
                or behind in {".", ":", "：", ",", "\n", "、", "-", "–", "—", ")", "(", "。", "，"}
                or line.lstrip()[:1] in {"-", "–", "—", "(", "（"}
            ) and "?" not in line[:200].split(".")[0]
        if not has_sign or self._is_list(body, content, matcher):
            return None
        if not by_text and self._joined_contents(body, content, matcher):
            return None
        if content.text is None and not line.strip(" \t.:)*_"):
            content = _next_line(body, line_end, content, matcher)
        return self._unless_contested(body, content, matcher)

    def _unless_contested(self, body: str, content: SlotContent, matcher: OptionMatcher) -> AnswerSlot:
        """The slot of an opening; contested if a short response names another option after it."""
        loose = content.label is None or (content.text is None and not content.enclosed)
        if loose and len(body) <= MAX_SHORT and not content.circled and "\n" not in body.strip():
            for word in _WORD_STARTS.finditer(body, content.end):
                other = matcher.text_at(body, word.start()) or matcher.label_at(body, word.start(), any_case=False)
                if other is not None and other[0] != content.option:
                    return AnswerSlot(SlotKind.OPENING, CONTESTED, content.start, content.end)
        return slot_of(SlotKind.OPENING, content)

    def _is_list(self, body: str, content: SlotContent, matcher: OptionMatcher) -> bool:
        """Whether a content is the first item of a list of options, which chooses none."""
        if content.label is None:
            starts = [end + 1 for end in range(content.end, len(body)) if body[end] == "\n"]
            others = [matcher.at(body, start) for start in starts]
            return any(o is not None and o.text is not None and o.option != content.option for o in others)
        listed = [match.group(1).casefold() for match in _LISTED.finditer(body, content.end)]
        shown = {content.label, *(matcher.labels[label] for label in listed if label in matcher.labels)}
        return len(shown) == matcher.count or (len(shown) > 1 and body[content.end :].lstrip(" .:)*")[:1].isdigit())

    def _joined_contents(self, body: str, content: SlotContent, matcher: OptionMatcher) -> list[SlotContent]:
        """The contents of other options that follow a content and are joined to it."""
        found = [content]
        while True:
            other = self._next_joined(body, found[-1], matcher)
            if other is None or other.option in {one.option for one in found}:
                return found[1:]
            found.append(other)

    def _next_joined(self, body: str, last: SlotContent, matcher: OptionMatcher) -> SlotContent | None:
        """The content joined to `last` by a sign, a space, "and", or a line break."""
        if join := _JOIN.match(body, last.end):
            return matcher.at(body, join.end())
        if last.text is not None and last.label is not None and (blank := _BLANK.match(body, last.end)):
            other = matcher.at(body, blank.end())
            if other is not None and other.label is not None and other.text is not None:
                return other
        if word := self._conj.match(body, end_of(CLOSE, body, last.end)):
            return matcher.at(body, word.end())
        if last.label is not None and (line := _NEXT_LINE.match(body, last.end)):
            other = matcher.at(body, line.end())
            if other is not None and other.label is not None and (other.text is None) == (last.text is None):
                return other
        return None

    def _markers(self, body: str, matcher: OptionMatcher) -> Iterator[AnswerSlot]:
        """The slots after answer markers: words that announce an answer."""
        words = self._words(body)
        marking = C["answer"] | C["choose"] | NOUN
        ends = [(number, word.end()) for number, (word, bits) in enumerate(words) if bits & marking]
        if self._unspaced is not None:
            by_end = {word.end(): number for number, (word, _) in enumerate(words)}
            ends += [(by_end.get(m.end(), 0), m.end()) for m in self._unspaced.finditer(body)]
        end_of_last = 0
        for number, end in sorted(set(ends)):
            if end < end_of_last or not self._announces(words, number):
                continue
            content = self._content_after(body, words[number + 1 : number + MAX_LINK + 3], end, matcher)
            if content is None or not self._is_asserted(body, words, number, content):
                continue
            end_of_last = content.end
            joined = self._joined_contents(body, content, matcher)
            if len(joined) + 1 >= matcher.count > 2:
                end_of_last = joined[-1].end
            elif joined:
                if body[end_of(CLOSE, body, joined[-1].end) :][:1] in {"", *".。।!\n,;:，；"}:
                    yield AnswerSlot(SlotKind.MARKER, None, content.start, joined[-1].end)
            else:
                yield slot_of(SlotKind.MARKER, content)

    def _announces(self, words: _Words, number: int) -> bool:
        """Whether a word is an answer marker: "answer", "correct option", "I choose"."""
        bits, before = words[number][1], [mask for _, mask in words[max(number - 3, 0) : number]]
        if bits & C["answer"] or self._unspaced is not None:
            return True
        if bits & C["choose"]:
            return bool(bits & C["speaker"]) or any(mask & C["speaker"] for mask in before)
        return any(mask & (C["right"] | C["final"]) for mask in before[-1:])

    def _content_after(self, body: str, words: _Words, start: int, matcher: OptionMatcher) -> SlotContent | None:
        """The content after a marker, if only linking words are between them."""
        here, linked = start, False
        for step, (word, bits) in enumerate([*words, (None, 0)]):
            gap = body[here : word.start() if word else here + 12]
            colon = any(sign in gap for sign in ":：→⇒=")
            if (not colon and "\n" in gap and ("**" not in gap)) or gap.count("\n") > 3:
                return None
            if _STOPS.search(gap.split(":")[0].split("：")[0]):
                return None
            linked = linked or colon
            content = matcher.at(body, here, native=colon, any_case=colon)
            if content is not None and (linked or self._is_called_answer(body, content)):
                return content
            if word is None or bits & (_NEG | C["both"]) or not bits & _LINK:
                return None
            linked = linked or bool(bits & (SMALL | C["would"] | C["must"] | C["likely"]) and step < MAX_LINK)
            here = word.end()
        return None

    def _is_called_answer(self, body: str, content: SlotContent) -> bool:
        """Whether a letter after a marker is the answer ("Erantzuna B da", not "answer A is wrong")."""
        words = self._words(body, content.end, content.end + 40, 3)
        near = [bits for word, bits in words if not _END_OF_SENTENCE.search(body, content.end, word.start())]
        return not near or (bool(near[0] & SMALL) and not any(bits & _NEG for bits in near))

    def _is_asserted(self, body: str, words: _Words, number: int, content: SlotContent) -> bool:
        """Whether the answer after a marker is neither denied nor hypothetical, and no question."""
        chooses = words[number][1] & C["choose"] or self._unspaced is not None
        for index in range(number - 1, max(number - MAX_GUARD, 0) - 1, -1):
            between = body[words[index][0].end() : words[index + 1][0].start()]
            if _END_OF_SENTENCE.search(between) or (chooses and "," in between):
                break
            if words[index][1] & _GUARD:
                return False
        stop = _END_OF_SENTENCE.search(body, content.end)
        if stop is not None and stop.group() in {"?", "？", "؟"}:
            return False
        by_text = content.text is not None and content.label is None
        return not (by_text and body[end_of(CLOSE, body, content.end) :][:1].isalpha())

    def _closing(self, body: str, matcher: OptionMatcher) -> AnswerSlot | None:
        """The last line, if it is one option and the lines before are not others."""
        text = body.rstrip()
        start = text.rfind("\n") + 1
        if not start:
            return None
        content = matcher.at(text, start, native=True)
        if content is None or text[content.end :].strip(" .。!)]}*_\"'”’»`$|"):
            return None
        before = text[:start].rstrip()
        previous = matcher.at(before, before.rfind("\n") + 1)
        if previous is not None and previous.option != content.option and not before[previous.end :].strip(" .)*_"):
            return None
        for other_line in before.split("\n")[-4:]:
            other = matcher.at(other_line, 0)
            listed = other is not None and other.label is not None and (other.enclosed or other.text is not None)
            if listed and other is not None and other.option != content.option:
                return None
        line = text[start:].lstrip()
        bullet = line[:1] in {"-", "•", "*"} and not line.startswith("**") and before[-1:] not in {":", "：", "*"}
        if bullet or (content.label is None and before[-1:].isalnum()):
            return None
        return slot_of(SlotKind.CLOSING, content)


def _next_line(body: str, line_end: int, content: SlotContent, matcher: OptionMatcher) -> SlotContent:
    """A label that is a whole line, together with an option's text after it."""
    rest = body[line_end:] if line_end >= 0 else ""
    start = len(body) - len(rest.lstrip()) if rest.strip() else -1
    other = matcher.at(body, start) if start >= 0 else None
    if other is None or other.label is not None or body[other.end :].split("\n", maxsplit=1)[0].strip(" .*_"):
        return content
    return SlotContent(other.option, content.start, other.end, content.label, other.text, content.enclosed)


def slot_of(kind: SlotKind, content: SlotContent, offset: int = 0) -> AnswerSlot:
    """The slot of a content in a text that begins at `offset`."""
    conflict = content.label if content.text is not None and content.label not in {None, content.text} else None
    return AnswerSlot(kind, content.option, content.start + offset, content.end + offset, conflict)


def _alternatives(entries: Iterable[str]) -> str:
    """A pattern for the entries, except those with `<`, `…` or a leading `*`."""
    parts = []
    for entry in sorted({*entries}, key=len, reverse=True):
        plain = entry.lstrip("=")
        if plain.startswith("*") or "<" in plain or "…" in plain:
            continue
        words = [re.escape(word.rstrip("*")) + (r"\w*" if word.endswith("*") else "") for word in plain.split("_")]
        parts.append(r"[\s'’-]{1,4}".join(words) if plain.isascii() or " " not in plain else plain)
    return "|".join(parts) or r"(?!)"


def _any_entry(entries: Iterable[str]) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{_alternatives(entries)})(?!\w)", re.IGNORECASE)
