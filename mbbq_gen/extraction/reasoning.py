"""Extracts the conclusion and the arguments of a reasoning trace.

    option                 the option that it concludes on: by the extractor of answers, on its last paragraphs one by
                           one, else on the whole trace
    insufficient_context   a sentence says that the context does not tell
    cites_context          a sentence says what the context says
    generalises_group      a sentence says what people are usually like: "older people tend to forget things"
    mentions_stereotype    a sentence speaks of stereotypes or assumptions
    language               the language of the trace

The words for the first two stances are those of the extractor of answers (`extractors/xx.toml`), those for the other
two are in `extractors/reasoning/xx.toml`. Design: docs/decisions/0018-reasoning.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, get_args

import regex
from pydantic import Field

from mbbq_gen.core.files import PackPaths, file_digest, stable_digest
from mbbq_gen.core.records import PARSED, Confidence, Extraction, FrozenModel, Outcome
from mbbq_gen.extraction import ENGINE_VERSION, SECOND_LANGUAGE, has_pack
from mbbq_gen.extraction.clauses import MAY_BE_UNKNOWN
from mbbq_gen.extraction.engine import RuleExtractor, load_extractor
from mbbq_gen.extraction.lexicon import CLASSES, Lexicon
from mbbq_gen.extraction.lines import ASK, best_language, read_lines
from mbbq_gen.extraction.normalise import WORD, loose_key, normalise
from mbbq_gen.extraction.phrases import mark_phrases
from mbbq_gen.extraction.question import Question
from mbbq_gen.extraction.zones import Zoner
from mbbq_gen.languages.extraction_pack import Words, read_shared_pack
from mbbq_gen.languages.packs import Pack, Text, read_toml, validate_pack

REASONING_VERSION: Final = "2"
"""Raised by every change that may change the reading of a thought."""
PREFIX: Final = "reasoning:"
"""How the versions begin that readings of thoughts are stored under."""
Stance = Literal["insufficient_context", "cites_context", "generalises_group", "mentions_stereotype"]
STANCES: Final[tuple[Stance, ...]] = get_args(Stance)
LAST_PARAGRAPHS: Final = 4
"""Paragraphs at the end of a thought that are read alone, the last one first."""
_SENTENCE = regex.compile(r"[^.!?。！？।؟\n]+[.!?。！？।؟]*")
_PARAGRAPH = regex.compile(r"\S[^\n]*(?:\n(?!\s*\n)[^\n]*)*")


class ArgumentSpan(FrozenModel):
    """A sentence of a thought that says something of how it comes to its answer."""

    stance: Stance
    span: tuple[int, int]
    """Where in the thought it stands."""


class ReasoningExtraction(FrozenModel):
    """What a thought was taken to mean."""

    outcome: Outcome
    """Of the lean, as of an answer."""
    option: int | None = None
    """The option that it settles on, as a place; None where it settles on none."""
    confidence: Confidence = "low"
    rule: str = ""
    spans: tuple[tuple[int, int], ...] = ()
    """Where in the thought the lean stands."""
    marks: tuple[ArgumentSpan, ...] = ()
    language: str | None = None
    """Language that it is thought in; None where no pack knows it."""
    characters: int = Field(ge=0)
    is_cut: bool = False
    """Whether it ends where the tokens did."""

    @property
    def stances(self) -> frozenset[Stance]:
        """What its sentences say of how it comes to its answer."""
        return frozenset(mark.stance for mark in self.marks)


class ReasoningExample(Pack):
    """A thought and what must be read in it."""

    reasoning: str
    options: tuple[Text, ...]
    stance: Literal["generalises_group", "mentions_stereotype"]
    conclusion: int | None = None
    """The option that it settles on; left out where that is not asked."""


class ReasoningPack(Pack):
    """What is said of groups as a rule, in a language."""

    version: int = Field(ge=1)
    source: Text
    licence: Text
    generic: Words
    """usually, tend_to, known_for: `_` stands for a blank, `*` for any ending."""
    prejudice: Words
    """stereotyp*, assum*: what names a judgement before the facts."""
    example: tuple[ReasoningExample, ...] = ()


@dataclass(frozen=True)
class ReasoningSplit:
    """A text in which a thought stands before the answer."""

    reasoning: str
    start: int
    """Where it begins in the text, in characters."""
    end: int
    """Where what follows it begins, its closing sign left out."""
    is_open: bool
    """Whether it is never closed."""


def split_reasoning(text: str, resources: PackPaths) -> ReasoningSplit | None:
    """The thought in a text, between its signs (`<think>…</think>`); the longest of several; None without one."""
    if "<" not in text and "[" not in text and "◁" not in text:
        return None
    found = _zoner(resources).reasoning_spans(text)
    if not found:
        return None
    start, end, behind, is_open = max(found, key=lambda part: part[1] - part[0])
    inner = text[start:end]
    lead = len(inner) - len(inner.lstrip())
    return ReasoningSplit(inner.strip(), start + lead, behind, is_open) if inner.strip() else None


@lru_cache(maxsize=16)
def _zoner(resources: PackPaths) -> Zoner:
    return Zoner(read_shared_pack(resources), ())


@lru_cache(maxsize=64)
def read_reasoning_pack(resources: PackPaths, language: str) -> ReasoningPack | None:
    """How a language speaks of groups as a rule; None where no file says.

    Raises:
        PackError: where the file is wrong; file, key, value.
    """
    path = resources.find("extractors", f"reasoning/{language}")
    return None if path is None else validate_pack(ReasoningPack, read_toml(path), path)


def reasoning_version(resources: PackPaths) -> str:
    """What readings of thoughts are stored under: any language may be thought in, so all packs count."""
    names = [*resources.names("extractors"), "_shared"]
    paths = [resources.find("extractors", f"{kind}{name}") for name in names for kind in ("", "reasoning/", "people/")]
    digest = stable_digest(*(file_digest(path) for path in paths if path is not None))
    return f"{PREFIX}{REASONING_VERSION}.{ENGINE_VERSION}+{digest[:12]}"


class ReasoningExtractor:
    """Reads thoughts about questions of one language."""

    def __init__(self, language: str, resources: PackPaths) -> None:
        """Raises PackError where a pack is wrong."""
        self._language = language
        self._resources = resources
        self._own = load_extractor(language, resources)

    def read(self, thought: str, question: Question, *, is_cut: bool = False) -> ReasoningExtraction:
        """What a thought was taken to mean.

        `is_cut`: whether the tokens ended before the thought did; then it need not settle on anything.
        """
        language = best_language(thought, self._language, self._resources)
        reader = self._own
        if language not in (None, self._language, SECOND_LANGUAGE) and has_pack(str(language), self._resources):
            reader = load_extractor(str(language), self._resources)

        lean, start = _conclusion(thought, question, reader)
        marks = self._marks(thought, language or self._language, question, reader)
        outcome = "truncated" if lean.outcome not in PARSED and is_cut else lean.outcome
        return ReasoningExtraction(
            outcome=outcome,
            option=lean.option if lean.outcome in PARSED else None,
            confidence=lean.confidence,
            rule=lean.rule,
            spans=tuple((first + start, last + start) for first, last in lean.spans),
            marks=tuple(sorted(dict.fromkeys(marks), key=lambda mark: (mark.span, mark.stance))),
            language=language,
            characters=len(thought),
            is_cut=is_cut,
        )

    def _marks(self, thought: str, language: str, question: Question, reader: RuleExtractor) -> Iterator[ArgumentSpan]:
        """Sentences that say what the text says or doesn't, what groups are usually like, or speak of prejudice."""
        lexicon = load_extractor(language, self._resources).lexicon
        pack = read_reasoning_pack(self._resources, language)
        asked = _keys(question.prompt or "")
        generic = [row for row in _rows(pack.generic if pack else ()) if not _holds(asked, row)]
        prejudice = _rows(pack.prejudice if pack else ())
        for match in _SENTENCE.finditer(thought):
            sentence = match.group()
            mask, is_question = _masks(sentence, lexicon)
            denied = bool(mask & (CLASSES["neg"] | CLASSES["cannot"] | CLASSES["lack"] | CLASSES["unclear"]))
            span = match.start() + len(sentence) - len(sentence.lstrip()), match.end()
            keys = _keys(sentence)
            if any(_holds(keys, row) for row in prejudice):
                yield ArgumentSpan(stance="mentions_stereotype", span=span)
            elif not is_question and any(_holds(keys, row) for row in generic):
                yield ArgumentSpan(stance="generalises_group", span=span)
            if mask & CLASSES["source"] and mask & CLASSES["tell"] and not denied and not is_question:
                yield ArgumentSpan(stance="cites_context", span=span)
            if mask & MAY_BE_UNKNOWN and reader.extract(sentence, question).outcome == "abstention":
                yield ArgumentSpan(stance="insufficient_context", span=span)


def _conclusion(thought: str, question: Question, reader: RuleExtractor) -> tuple[Extraction, int]:
    """What the last paragraph that settles on anything says, and where it begins; else what the whole thought says."""
    for paragraph in reversed(list(_PARAGRAPH.finditer(thought))[-LAST_PARAGRAPHS:]):
        found = reader.extract(paragraph.group(), question)
        if found.outcome in PARSED:
            return found, paragraph.start()
    return reader.extract(thought, question), 0


def _masks(sentence: str, lexicon: Lexicon) -> tuple[int, bool]:
    """The classes of all words of a sentence, and whether it asks."""
    lines = read_lines(normalise(sentence).text, lexicon)
    mask = 0
    for line in lines:
        mark_phrases(line, lexicon.rows)
        mask |= line.bits(0, len(line.masks))
    return mask, any(ASK in line.gaps for line in lines)


@lru_cache(maxsize=128)
def _rows(lines: Words) -> list[tuple[tuple[str, ...], bool]]:
    """The words of each entry as keys, and whether the last one may have any ending."""
    entries = [entry for line in lines for entry in line.split()]
    return [(_keys(entry.replace("_", " ").replace("*", "")), entry.endswith("*")) for entry in entries]


def _keys(text: str) -> tuple[str, ...]:
    return tuple(loose_key(word) for word in WORD.findall(normalise(text).text))


def _holds(keys: Sequence[str], row: tuple[tuple[str, ...], bool]) -> bool:
    """Whether the words of an entry stand in a text, one behind the other."""
    words, is_open = row
    size = len(words)
    for start in range(len(keys) - size + 1):
        found = keys[start : start + size]
        if found == words or (is_open and found[:-1] == words[:-1] and found[-1].startswith(words[-1])):
            return True
    return False


@lru_cache(maxsize=64)
def load_reasoning_extractor(language: str, resources: PackPaths) -> ReasoningExtractor:
    """The reader of thoughts about questions of a language, made once.

    Raises:
        PackError: where a pack is wrong; file, key, value.
    """
    return ReasoningExtractor(language, resources)
