"""Extracts the conclusion and the arguments of a reasoning trace.

    option                 the option of its conclusion: by the extractor of answers, on the last paragraphs one by
                           one, else on the whole trace
    insufficient_context   a sentence says that the context is insufficient
    cites_context          a sentence cites the context
    generalises_group      a sentence generalises about a group: "older people tend to forget things"
    mentions_stereotype    a sentence mentions stereotypes or assumptions
    language               the language of the trace

The words for the first two stances are in the packs of the extractor of answers (`extractors/xx.toml`), those for the
other two in `extractors/reasoning/xx.toml`. Design: docs/decisions/0018-reasoning.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal, get_args

import regex
from pydantic import Field

from mbbq_gen.core.files import PackPaths, file_digest, stable_digest
from mbbq_gen.core.records import PARSED, Confidence, FrozenModel, Outcome
from mbbq_gen.extraction import ENGINE_VERSION, SECOND_LANGUAGE
from mbbq_gen.extraction.clauses import MAY_ABSTAIN
from mbbq_gen.extraction.engine import RuleExtractor, load_extractor
from mbbq_gen.extraction.lexicon import CLASSES, Lexicon, words_of
from mbbq_gen.extraction.lines import QUESTION_MARK, mark_phrases, read_lines
from mbbq_gen.extraction.question import Question
from mbbq_gen.extraction.text import WORD, loose_key, normalise
from mbbq_gen.extraction.zones import Zoner
from mbbq_gen.languages.extraction_pack import Grammar, Words, read_shared_pack
from mbbq_gen.languages.packs import Pack, Text, read_pack, read_toml, validate_pack

REASONING_VERSION: Final = "2"
"""Increased by every change that may change the extraction of a trace."""
PREFIX: Final = "reasoning:"
"""Prefix of the versions under which extractions of reasoning are stored."""
Stance = Literal["insufficient_context", "cites_context", "generalises_group", "mentions_stereotype"]
STANCES: Final[tuple[Stance, ...]] = get_args(Stance)
_SENTENCE = regex.compile(r"[^.!?。！？।؟\n]+[.!?。！？।؟]*")
_load_zoner = lru_cache(maxsize=16)(Zoner)
MOST_WORDS = 300
"""First words from which the language of a text is guessed."""
MIN_KNOWN = 0.2
"""Smallest share of them in the pack of the guessed language."""
MIN_SIGNS = 4
"""A text with more letters of a script than this is in that script's language."""
_SCRIPTS = {
    "ja": r"[\p{Hiragana}\p{Katakana}]",
    "zh": r"\p{Han}",
    "ko": r"\p{Hangul}",
    "ar": r"\p{Arabic}",
    "ru": r"\p{Cyrillic}",
    "or": r"\p{Oriya}",
    "ta": r"\p{Tamil}",
    "te": r"\p{Telugu}",
}
"""Language → pattern for a letter of its script, for scripts of one language with a pack; kana before Han."""
_LETTERS = regex.compile(r"\p{L}[\p{L}\p{M}]*")
MIN_FOREIGN = 2
"""Smallest number of them in that pack."""


class ArgumentSpan(FrozenModel):
    """A sentence with an argument."""

    stance: Stance
    span: tuple[int, int]


class ReasoningExtraction(FrozenModel):
    """The extraction of a reasoning trace."""

    outcome: Outcome
    option: int | None = None
    """The option of the conclusion, as shown."""
    confidence: Confidence = "low"
    rule: str = ""
    spans: tuple[tuple[int, int], ...] = ()
    """Span of the conclusion in the trace."""
    marks: tuple[ArgumentSpan, ...] = ()
    language: str | None = None
    """Language of the trace; None if no pack has enough of its words."""
    characters: int = Field(ge=0)
    is_cut: bool = False

    @property
    def stances(self) -> frozenset[Stance]:
        """The kinds of arguments in the trace."""
        return frozenset(mark.stance for mark in self.marks)


class ReasoningExample(Pack):
    """A reasoning trace with its expected stance and conclusion."""

    reasoning: str
    options: tuple[Text, ...]
    stance: Literal["generalises_group", "mentions_stereotype"]
    conclusion: int | None = None
    """The option of the conclusion; left out if it is not checked."""


class ReasoningPack(Pack):
    """The words of a language for generalisations and prejudice."""

    version: int = Field(ge=1)
    source: Text
    licence: Text
    generic: Words
    """usually, tend_to, known_for: `_` stands for a space, `*` for any ending."""
    prejudice: Words
    """Words for prejudice: stereotyp*, assum*."""
    example: tuple[ReasoningExample, ...] = ()


@dataclass(frozen=True)
class ReasoningText:
    """The reasoning before an answer."""

    text: str
    start: int | None
    """Its start in the response's text; None if the service sent it separately."""
    end: int | None
    """End of its closing sign; None as for `start`."""
    is_cut: bool
    """Whether the response ended within it."""


def split_reasoning(text: str, resources: PackPaths) -> ReasoningText | None:
    """The longest reasoning block of a response (`<think>…</think>`); None without one."""
    if "<" not in text and "[" not in text and "◁" not in text:
        return None
    zoner = _load_zoner(read_shared_pack(resources), ())
    blocks = [ReasoningText(text[start:end], start, behind, cut) for start, end, behind, cut in zoner.blocks(text)]
    found = max(blocks, key=lambda block: len(block.text), default=None)
    if found is None or not found.text.strip():
        return None
    lead = len(found.text) - len(found.text.lstrip())
    return replace(found, text=found.text.strip(), start=(found.start or 0) + lead)


@lru_cache(maxsize=64)
def read_reasoning_pack(resources: PackPaths, language: str) -> ReasoningPack | None:
    """The reasoning pack of a language; None without one; raises PackError if wrong."""
    path = resources.find("extractors", f"reasoning/{language}")
    return None if path is None else validate_pack(ReasoningPack, read_toml(path), path)


def reasoning_version(resources: PackPaths) -> str:
    """The version of extractions of reasoning, with a digest of the packs of all languages."""
    names = [*resources.names("extractors"), "_shared"]
    paths = [resources.find("extractors", f"{kind}{name}") for name in names for kind in ("", "reasoning/", "people/")]
    digest = stable_digest(*(file_digest(path) for path in paths if path is not None))
    return f"{PREFIX}{REASONING_VERSION}.{ENGINE_VERSION}+{digest[:12]}"


def read_trace(
    trace: str, question: Question, question_language: str, resources: PackPaths, *, is_cut: bool = False
) -> ReasoningExtraction:
    """The conclusion and the arguments of a reasoning trace.

    Args:
        trace: the text of the trace.
        question: the question that it answers.
        question_language: the question's language.
        resources: where packs are found; raises PackError if one is wrong.
        is_cut: whether the trace was cut off at the token limit.
    """
    language = best_language(trace, question_language, resources)
    extractor = load_extractor(question_language, resources)
    if language is not None and language not in {question_language, SECOND_LANGUAGE}:
        extractor = load_extractor(language, resources)
    analysis, start = extractor.read_end(trace, question)
    found = analysis.extraction
    lexicon = load_extractor(language or question_language, resources).lexicon
    marks = _marks(trace, question, extractor, lexicon, read_reasoning_pack(resources, language or question_language))
    return ReasoningExtraction(
        outcome="truncated" if found.outcome not in PARSED and is_cut else found.outcome,
        option=found.option if found.outcome in PARSED else None,
        confidence=found.confidence,
        rule=found.rule,
        spans=tuple((first + start, last + start) for first, last in found.spans),
        marks=tuple(sorted(dict.fromkeys(marks), key=lambda mark: (mark.span, mark.stance))),
        language=language,
        characters=len(trace),
        is_cut=is_cut,
    )


def _marks(
    trace: str, question: Question, extractor: RuleExtractor, lexicon: Lexicon, pack: ReasoningPack | None
) -> Iterator[ArgumentSpan]:
    """The arguments of all sentences; a sentence may have several."""
    prompt = _joined_keys(question.prompt or "")
    generic = [phrase for phrase in _phrases(pack.generic if pack else ()) if phrase not in prompt]
    prejudice = _phrases(pack.prejudice if pack else ())
    for match in _SENTENCE.finditer(trace):
        sentence = match.group()
        mask, is_question = 0, False
        for line in read_lines(normalise(sentence).text, lexicon):
            mark_phrases(line, lexicon.phrases)
            mask |= line.bits(0, len(line.masks))
            is_question = is_question or QUESTION_MARK in line.gaps
        denied = bool(mask & (CLASSES["neg"] | CLASSES["cannot"] | CLASSES["lack"] | CLASSES["unclear"]))
        span = match.start() + len(sentence) - len(sentence.lstrip()), match.end()
        keys = _joined_keys(sentence)
        if any(phrase in keys for phrase in prejudice):
            yield ArgumentSpan(stance="mentions_stereotype", span=span)
        elif not is_question and any(phrase in keys for phrase in generic):
            yield ArgumentSpan(stance="generalises_group", span=span)
        if mask & CLASSES["source"] and mask & CLASSES["tell"] and not denied and not is_question:
            yield ArgumentSpan(stance="cites_context", span=span)
        if mask & MAY_ABSTAIN and extractor.extract(sentence, question).outcome == "abstention":
            yield ArgumentSpan(stance="insufficient_context", span=span)


@lru_cache(maxsize=128)
def _phrases(lines: Words) -> list[str]:
    """The entries of a list as keys between spaces; `*` drops the last space."""
    plain = [(_joined_keys(entry.replace("_", " ").replace("*", "")), entry) for entry in words_of(lines)]
    return [keys[:-1] if entry.endswith("*") else keys for keys, entry in plain]


def _joined_keys(text: str) -> str:
    """The keys of a text's words, with a space before and after each."""
    return f" {' '.join(loose_key(word) for word in WORD.findall(normalise(text).text))} "


def best_language(text: str, expected: str, resources: PackPaths) -> str | None:
    """The language of a text, by its script or the pack with most words.

    None if no pack has enough of them; `expected` wins a tie.
    """
    script = next((code for code, sign in _SCRIPTS.items() if len(regex.findall(sign, text[:2000])) > MIN_SIGNS), None)
    lexicons = _lexicons(resources)
    if script is not None:
        return script if script in lexicons else None
    found = _LETTERS.findall(text)[:MOST_WORDS]
    count, words = len(found), [word for word in found if len(word) > 1]
    known = {language: sum(map(lexicon.is_known, words)) for language, lexicon in lexicons.items()}
    best = max(known, key=lambda language: (known[language], language == expected), default=None)
    return best if best is not None and known[best] >= max(MIN_FOREIGN, MIN_KNOWN * count) else None


@lru_cache(maxsize=8)
def _lexicons(resources: PackPaths) -> dict[str, Lexicon]:
    """Language → its lexicon, for all languages with a pack."""
    languages = resources.names("extractors")
    return {code: Lexicon(read_pack(resources, "extractors", code, Grammar)) for code in languages}
