"""Response in, extraction out: the stages in order, and the detours where a response is in another language."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import PARSED, Confidence, Extraction, Outcome
from mbbq_gen.extraction import SECOND_LANGUAGE, current_version, has_pack, has_second
from mbbq_gen.extraction.claims import ParsedResponse, Strength
from mbbq_gen.extraction.decision import OUTCOME_OF, Decision, decide, person_by_overlap
from mbbq_gen.extraction.explain import Explanation, explain_analysis
from mbbq_gen.extraction.lexicon import BORROWED, CLASSES, KNOWN, SMALL, Lexicon, words_of
from mbbq_gen.extraction.lines import STOP, Line, mark_phrases, read_lines
from mbbq_gen.extraction.mentions import Mention, MentionKind, find_mentions, mark_misspelt
from mbbq_gen.extraction.option_matcher import circled_places
from mbbq_gen.extraction.propositions import read_propositions
from mbbq_gen.extraction.question import (
    Question,
    QuestionKey,
    build_question,
    english_texts,
    read_people,
    shared_forms,
)
from mbbq_gen.extraction.slots import CONTESTED, TABLE, AnswerSlot, SlotFinder, SlotKind, slot_of
from mbbq_gen.extraction.structured import CheckMarks, field_name, structured_values
from mbbq_gen.extraction.text import CROSS, TICK, NormalText, normalise
from mbbq_gen.extraction.zones import ZonedText, Zoner, strip_markup
from mbbq_gen.languages.extraction_pack import Grammar, read_grammar, read_shared_pack
from mbbq_gen.languages.packs import PackInfo

MIN_LOOP = 8
"""Words of a text that may be one word again and again."""
MIN_WORDS, ROW, MAX_FRESH = 18, 3, 0.4
"""Words of a text that may be a loop; words of a row that is repeated; share of rows that differ in a loop."""
GENERIC = "generic"
"""Prefix of the rules of a language without a pack."""
_SILENT = frozenset({"no_candidate", "conflict"})
"""Rules of responses in which nothing was found."""
MIN_CUT = 5
"""Words of a last line that may be a sentence without its end."""
LAST_PARAGRAPHS = 4
"""Paragraphs at the end of a reasoning trace that are read alone, the last one first."""
_PARAGRAPH = re.compile(r"\S[^\n]*(?:\n(?!\s*\n)[^\n]*)*")
ENOUGH = 30
"""Words that show which language a response is in."""
MIN_FOREIGN = 3
"""Words of English beyond those of the question's language that make a response English."""


@dataclass(slots=True)
class Analysis:
    """What the stages found in one response."""

    normal: NormalText
    zoned: ZonedText
    parsed: ParsedResponse | None
    decision: Decision
    offset: int = 0
    """Where the text that was parsed begins in the normalised text, in which slots stand."""
    slots: tuple[AnswerSlot, ...] = ()
    """The answer slots that were found."""
    slot: AnswerSlot | None = None
    """The one that decided; None where prose did, or nothing."""

    @property
    def extraction(self) -> Extraction:
        """The result for callers."""
        decision, parsed = self.decision, self.parsed
        spans: tuple[tuple[int, int], ...] = ()
        against: list[str] = []
        if self.slot is not None:
            spans = (self.normal.raw_span(self.slot.start, self.slot.end),)
            against = [slot.kind.value for slot in self.slots if slot.option != decision.option]
            against += ["label"] if self.slot.conflict is not None else []
        elif parsed is not None:
            if decision.proposition is not None:
                said = decision.proposition
                start, end = parsed.lines[said.line].span(said.first, said.last)
                spans = (self.normal.raw_span(start + self.offset, end + self.offset),)
            against = [
                said.rule.label
                for said in parsed.propositions
                if said.positive
                and said.force >= Strength.HEDGED
                and said.kind != "correction"
                and (
                    said.option != decision.option
                    or (said.option is None and OUTCOME_OF.get(said.kind) != decision.outcome)
                )
            ]
            conflicts = any(mention.conflict is not None for line in parsed.mentions for mention in line)
            against += ["label"] if conflicts else []
        return Extraction(
            outcome=decision.outcome,
            option=decision.option,
            confidence=decision.confidence,
            rule=decision.rule,
            spans=spans,
            conflicts=tuple(dict.fromkeys(against)),
        )


class RuleExtractor:
    """The compiled extractor of a language, for any question.

    Safe to share between threads that only extract; other processes make their own with `load_extractor`.
    """

    def __init__(
        self,
        grammar: Grammar,
        second: Grammar | None,
        version: str,
        resources: PackPaths,
        english: Lexicon | None = None,
    ) -> None:
        self.language = grammar.meta.language
        self.grammars = (grammar,) if second is None else (grammar, second)
        self.version = version
        self.resources = resources
        self.lexicon = Lexicon(grammar, second)
        self._english = Lexicon(second) if second is not None and english is None else english
        shared = read_shared_pack(resources)
        keys = [grammar.structured, *([second.structured] if second else []), shared.structured]
        self._answer_fields = frozenset(field_name(key) for part in keys for key in part.answer_keys)
        self._zoner = Zoner(shared, tuple(key for part in keys[:-1] for key in part.reasoning_keys))
        self._ticks = CheckMarks(shared)
        lexicons = [self.lexicon] if self._english is None else [self.lexicon, self._english]
        self._slots = SlotFinder(lexicons, self.grammars)
        endings = (rf"|{re.escape(ending)}(?=[。.\n]|$)" for ending in words_of(grammar.script.asks))
        self._question_end = re.compile("[?？؟]" + "".join(endings))
        self._question = lru_cache(maxsize=1024)(build_question)

    def extract(self, response: str, question: Question, *, finish_reason: str | None = None) -> Extraction:
        """As the function `extract`, for a question that is built already."""
        return self.analyse(response, question, finish_reason=finish_reason).extraction

    def explain(self, response: str, question: Question, *, finish_reason: str | None = None) -> Explanation:
        """The extraction with its slots and propositions, their words in the packs, and why each won or lost."""
        analysis = self.analyse(response, question, finish_reason=finish_reason)
        return explain_analysis(self, analysis, response, question)

    def with_grammar(self, grammar: Grammar) -> RuleExtractor:
        """The same extractor with another grammar for its language, for checks of a pack."""
        second = self.grammars[1] if len(self.grammars) > 1 else None
        return RuleExtractor(grammar, second, self.version, self.resources, self._english)

    def analyse(self, response: str, question: Question, *, finish_reason: str | None = None) -> Analysis:
        """All stages on one response: slots first, prose where no slot decides."""
        normal = normalise(response)
        if not response.strip():
            return Analysis(normal, ZonedText("", (), False), None, Decision("empty", None, "high", "empty", None))
        prompt = question.prompt
        echoes = prompt is not None and any(probe in normal.text for probe in _probes(prompt))
        zoned = self._zoner.read(normal.text, prompt if echoes else None, tuple(question.options))
        analysis = self._by_slots(response, normal, zoned, question)
        if analysis.slot is None:
            slots = analysis.slots
            analysis = self._by_prose(normal, zoned, question, finish_reason)
            analysis.slots = slots
        if self.grammars[0].meta.source == GENERIC and (analysis.slot or analysis.decision.proposition):
            analysis.decision = _by_detour(analysis.decision, GENERIC)
        return analysis

    def _key(self, question: Question) -> QuestionKey:
        """The question with its own sentence."""
        sentence = _last_question(question.prompt, self._question_end)
        shared = shared_forms(question.prompt or "", sentence, self.lexicon) if sentence else frozenset()
        return question.key()._replace(sentence=sentence, shared=shared)

    def _by_slots(self, response: str, normal: NormalText, zoned: ZonedText, question: Question) -> Analysis:
        """The decision of the strongest slot, unless it is taken back or its sentence denies it."""
        body = self._ticks.mark(strip_markup(zoned.body))
        matcher = self._slots.matcher(tuple(question.options), tuple(question.labels))
        circled = circled_places(response, normal) if matcher.circled else frozenset()
        slots: list[AnswerSlot] = []
        for value in structured_values(zoned.body, self._answer_fields)[:1]:
            inner = self._ticks.mark(strip_markup(zoned.body[value.start : value.end]))
            content = matcher.at(inner, 0, native=True)
            if content is not None and not inner[content.end :].strip(" .。)]}*_\"'$\n"):
                slots = [slot_of(SlotKind(value.kind), content, value.start)]
        slots = slots or self._slots.find(body, circled, matcher)
        undecided = Decision("unparsed", None, "low", "no_candidate", None)
        doubt = self._slots.doubt_of_opening(body, matcher)
        if doubt is not None:
            said = decide(self._read(body[slice(*doubt)], question.key()))
            again = self._read(body[slice(*doubt)], self._key(question))
            answers = again.question.negated and any(line.predicate for line in again.lines)
            if said.outcome == "abstention" and not answers:  # "The tailor was unable to come" answers who was
                slot = AnswerSlot(SlotKind.OPENING, question.unknown_index, *doubt)
                found = Decision("abstention", question.unknown_index, "medium", f"{slot.kind.value}:{said.rule}", None)
                return Analysis(normal, zoned, None, found, slots=(*slots, slot), slot=slot)
        analysis = Analysis(normal, zoned, None, undecided, slots=tuple(slots))
        best = min(slots, key=lambda slot: (TABLE[slot.kind].rank, -slot.start), default=None)
        if best is None or best.option == CONTESTED or self._slots.is_corrected(body, best):
            return analysis
        if doubt is not None and best.kind is SlotKind.OPENING:
            return analysis
        option, rule, confidence = best.option, best.kind.value, TABLE[best.kind].confidence
        outcome: Outcome = "multiple" if option is None else "option"
        if best.kind in {SlotKind.MARKER, SlotKind.OPENING} and option is not None and best.start not in circled:
            sentence = self._slots.denies_behind(body, best, matcher)
            if sentence is not None and option != question.unknown_index:
                said = decide(self._read(body[slice(*sentence)], question.key()))
                if said.outcome not in {"abstention", "refusal"}:
                    return analysis
                option, rule, confidence = question.unknown_index, f"{rule}:{said.rule}", "medium"
                outcome = "abstention"
        if best.conflict is not None or any(slot.option != option for slot in slots):
            confidence = "medium"
        analysis.slot, analysis.decision = best, Decision(outcome, option, confidence, rule, None)
        return analysis

    def _by_prose(
        self, normal: NormalText, zoned: ZonedText, question: Question, finish_reason: str | None
    ) -> Analysis:
        """The decision of all propositions; of those by the options' other names where they say nothing."""
        key = self._key(question)
        analysis = self._read_all(normal, zoned, key)
        for prefix, texts in self._other_names(analysis.parsed, question) if _is_silent(analysis) else ():
            again = self._read_all(normal, zoned, key._replace(options=texts))
            said, parsed = again.decision.proposition, again.parsed
            if again.decision.outcome == "unparsed":
                continue
            if said is not None and parsed is not None:  # labels and doubts were read without the other names
                named = [m for m in parsed.mentions[said.line] if said.first <= m.start < said.last]
                named = named if said.kind in {"option", "several"} else []
                if prefix == "alias" and all(m.how is MentionKind.LABEL for m in named):
                    continue
            again.decision = _by_detour(again.decision, prefix)
            analysis = again
            break
        if _rests_on_too_little(analysis):
            analysis.decision = Decision("unparsed", None, "low", "conflict", None)
        if _is_silent(analysis) and analysis.parsed is not None:
            person = person_by_overlap(analysis.parsed)
            if person is not None:
                analysis.decision = Decision("option", person, "low", "predicate_overlap", None)
        if _breaks_off(analysis):
            analysis.decision = Decision("truncated", None, "low", "truncated", None)
        elif _is_silent(analysis) and (finish_reason == "length" or zoned.open_reasoning):
            analysis.decision = Decision("truncated", None, "medium", "truncated", None)
        return analysis

    def read_end(self, text: str, question: Question) -> tuple[Analysis, int]:
        """The analysis of the last paragraph that decides, of the last few ones, else of the whole text; and where it
        begins."""
        for paragraph in reversed(list(_PARAGRAPH.finditer(text))[-LAST_PARAGRAPHS:]):
            found = self.analyse(paragraph.group(), question)
            if found.decision.outcome in PARSED:
                return found, paragraph.start()
        return self.analyse(text, question), 0

    def _read_all(self, normal: NormalText, zoned: ZonedText, key: QuestionKey) -> Analysis:
        """The decision of structured values, else of the whole text."""
        body = zoned.body
        for value in structured_values(body, self._answer_fields):
            inner = self._ticks.mark(strip_markup(body[value.start : value.end]))
            parsed = self._read(inner, key)
            decision = decide(parsed)
            if decision.outcome != "unparsed":
                decision = decision._replace(rule=f"{value.kind}:{decision.rule}", confidence="high")
                return Analysis(normal, zoned, parsed, decision, value.start)
        parsed = self._read(self._ticks.mark(strip_markup(body)), key)
        decision = decide(parsed)
        firm = decision.proposition is not None and decision.proposition.force >= Strength.ANNOUNCED
        if is_degenerate(parsed.lines, firm):
            decision = Decision("unparsed", None, "medium", "degenerate", None)
        return Analysis(normal, zoned, parsed, decision)

    def _other_names(self, parsed: ParsedResponse | None, question: Question) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The options' texts in other languages, then English words of an English response for such people; each with
        the prefix of a rule that rests on them."""
        yield from (("alias", tuple(texts)) for _, texts in sorted(question.aliases.items()))
        people = read_people(self.resources, self.language)
        if people and self._english is not None and parsed is not None and parsed.is_english:
            words = [self._english[text] for line in parsed.lines for text in line.texts]
            texts = english_texts(question.options, question.unknown_index, words, people, self._english.stemmer)
            if texts is not None:
                yield "foreign", texts

    def _read(self, text: str, key: QuestionKey) -> ParsedResponse:
        """The propositions of a text, in the question's language or in English."""
        lexicon = self.lexicon
        lines = read_lines(text, lexicon)
        if self._english is not None and _is_english(lines, self._english):
            lexicon = self._english
            lines = read_lines(text, lexicon)
        question = self._question(key, lexicon)
        mentions: list[list[Mention]] = []
        for line in lines:
            mark_phrases(line, lexicon.rows)
            mentions.append(find_mentions(line, question))
        if not any(mentions) and mark_misspelt(lines, question):
            mentions = [find_mentions(line, question) for line in lines]
        parsed = read_propositions(question, lines, mentions)
        parsed.is_english = lexicon is self._english
        return parsed


def is_degenerate(lines: list[Line], firm: bool) -> bool:
    """Whether one word, or the same rows of words, make most of a text; where it answers firmly, only the former."""
    keys = [word.key for line in lines for word in line.words]
    if len(keys) < MIN_LOOP or len(set(keys)) > MAX_FRESH * len(keys) + 1:
        return False
    again = sum(key == before for before, key in itertools.pairwise(keys))
    if again > 0.5 * len(keys) or max(Counter(keys).values()) > 0.6 * len(keys):
        return True
    if firm or len(keys) < MIN_WORDS:
        return False
    rows = set(zip(*(keys[start:] for start in range(ROW)), strict=False))
    return len(rows) < MAX_FRESH * (len(keys) - ROW + 1)


def _is_english(lines: list[Line], english: Lexicon) -> bool:
    """Whether clearly more words of a response are known to English than to the question's language."""
    home = foreign = total = 0
    for line in lines:
        total += len(line.words)
        home += sum([1 for word in line.words if word.classes & (KNOWN | SMALL) and not word.classes & BORROWED])
        if total >= ENOUGH:
            break
    if 3 * home > total:
        return False
    home = 0
    for line in lines:
        for text, word in zip(line.texts, line.words, strict=True):
            if len(text) > 1 and text.isascii():
                home += bool(word.classes & (KNOWN | SMALL) and not word.classes & BORROWED)
                foreign += bool(english[text].classes & (KNOWN | SMALL))
    return foreign >= home + MIN_FOREIGN and foreign > 1.5 * home


def _is_silent(analysis: Analysis) -> bool:
    """Whether nothing was found."""
    return analysis.decision.outcome == "unparsed" and analysis.decision.rule in _SILENT


def _rests_on_too_little(analysis: Analysis) -> bool:
    """Whether an English answer to a question in another language decides by the only person whose name was understood,
    or by an abstention in a talk of people none of whom was understood."""
    reading, said = analysis.parsed, analysis.decision.proposition
    if reading is None or said is None or not reading.is_english or len(reading.persons) > 1:
        return False
    if said.kind == "option" and said.option != reading.question.unknown:
        return said.force < Strength.FITTING and said.sentence > 1
    later = any(line.bits(0, len(line.masks)) & CLASSES["conclude"] for line in reading.lines[said.line :])
    return said.kind == "unknown" and later and said.sentence < reading.sentences


def _by_detour(decision: Decision, prefix: str) -> Decision:
    confidence: Confidence = "medium" if decision.confidence == "high" else "low"
    return decision._replace(rule=f"{prefix}:{decision.rule}", confidence=confidence)


def _breaks_off(analysis: Analysis) -> bool:
    """Whether a text breaks off in the sentence that decides, or in a list of which that sentence is an entry."""
    said, parsed, zones = analysis.decision.proposition, analysis.parsed, analysis.zoned.zones
    if said is None or parsed is None:
        return False
    text = analysis.normal.text.rstrip()
    if said.force < Strength.HEDGED and zones and zones[-1].kind == "echo" and zones[-1].end >= len(text):
        return text[-1:].isalnum()
    lines, last, mentions = parsed.lines, parsed.lines[-1], parsed.mentions[-1]
    ends_in_label = bool(mentions) and mentions[-1].how is not MentionKind.TEXT and mentions[-1].end == len(last.words)
    is_cut = not (
        (ends_in_label and mentions[-1].how is MentionKind.LABEL and last.gaps[mentions[-1].start] >= STOP)
        or last.signs[-1].strip(" ,،、，")
        or last.heading
        or last.table
        or len(last.words) < MIN_CUT
        or last.texts[-1] in {TICK, CROSS}
    ) and any(max(line.gaps[1:]) >= STOP for line in lines)
    if said.force > Strength.HEDGED:
        in_list = 0 < said.line < len(lines) - 1 and lines[said.line].bullet and last.bullet
        return is_cut and said.force < Strength.DECLARED and in_list
    if is_cut or parsed.sentences < 2:
        return is_cut
    ends_on_it = said.line == len(lines) - 1 and said.last == len(last.words) and not last.signs[-1].strip()
    return ends_on_it and not (said.bare and ends_in_label)


@lru_cache(maxsize=256)
def _probes(prompt: str) -> tuple[str, ...]:
    """A stretch from the middle of every longer line or sentence of a prompt: a response that echoes it holds one."""
    found = []
    for line in normalise(prompt).text.splitlines():
        for piece in line.replace("?", ".").split(". "):
            plain = piece.strip()
            if len(plain) >= 25:
                middle = len(plain) // 2
                found.append(plain[middle - 10 : middle + 10])
    return tuple(found)


@lru_cache(maxsize=256)
def _last_question(prompt: str | None, question_end: re.Pattern[str]) -> str | None:
    """The last question of a prompt."""
    text = normalise(prompt or "").text
    end = max((match.end() for match in question_end.finditer(text)), default=0)
    start = max(text.rfind(sign, 0, end - 1) for sign in ".!?。\n:！？¿") if end else 0
    return text[start + 1 : end] if end else None


def load_extractor(language: str, resources: PackPaths | None = None) -> RuleExtractor:
    """The extractor of a language, compiled once a process and set of packs.

    A language without a pack is read without its words: labels, option texts, structures, marks, and words of English.
    Its rules begin with `generic:`, and its confidence is at most `medium`.

    Raises:
        PackError: where a pack is wrong; file, key, value.
    """
    return _load(language, resources or PackPaths())


@lru_cache(maxsize=64)
def _load(language: str, resources: PackPaths) -> RuleExtractor:
    if has_pack(language, resources):
        grammar = read_grammar(language, resources)
    else:
        meta = PackInfo(
            language=language, name=language, native_name=language, version=1, source=GENERIC, licence="none"
        )
        grammar = Grammar(meta=meta)
    second = read_grammar(SECOND_LANGUAGE, resources) if has_second(language, resources) else None
    return RuleExtractor(grammar, second, current_version(language, resources), resources)


def extract(
    response: str,
    options: Sequence[str],
    labels: Sequence[str],
    language: str,
    unknown_index: int | None,
    aliases: Mapping[str, Sequence[str]] | None = None,
    prompt: str | None = None,
    *,
    finish_reason: str | None = None,
    resources: PackPaths | None = None,
) -> Extraction:
    """The extraction of a response: outcome, option, confidence, rule, and where its evidence stands.

    Pure: the same input gives the same output; time grows with the length only.

    Args:
        response: The model's words, raw.
        options: As in `Question`.
        labels: As in `Question`.
        unknown_index: As in `Question`.
        aliases: As in `Question`.
        prompt: As in `Question`.
        language: The question's language.
        finish_reason: Why the text ends; `length` makes a missing answer `truncated`.
        resources: Where packs are looked for.
    """
    question = Question(options, labels, unknown_index, prompt, aliases or {})
    return load_extractor(language, resources).extract(response, question, finish_reason=finish_reason)
