"""Extracts the answer of a response: all stages, and fallbacks for other languages."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import PARSED, Confidence, Extraction
from mbbq_gen.extraction import SECOND_LANGUAGE, current_version, has_pack, has_second
from mbbq_gen.extraction.claims import ParsedResponse, Strength
from mbbq_gen.extraction.decision import OUTCOME_OF, Decision, decide, person_by_overlap
from mbbq_gen.extraction.explain import Explanation, explain_analysis
from mbbq_gen.extraction.lexicon import BORROWED, CLASSES, KNOWN, SMALL, Lexicon, Token, words_of
from mbbq_gen.extraction.lines import STOP, Line, mark_phrases, read_lines
from mbbq_gen.extraction.mentions import Mention, MentionKind, find_mentions, mark_misspelt
from mbbq_gen.extraction.option_matcher import OptionMatcher, circled_places
from mbbq_gen.extraction.propositions import read_propositions
from mbbq_gen.extraction.question import Question, QuestionKey, build_question, english_texts, read_people, shared_forms
from mbbq_gen.extraction.slots import CONTESTED, AnswerSlot, SlotFinder, SlotKind, slot_of
from mbbq_gen.extraction.structured import CheckMarks, field_name, structured_values
from mbbq_gen.extraction.text import CROSS, TICK, NormalText, normalise
from mbbq_gen.extraction.zones import MIN_ECHO, ZonedText, Zoner, strip_markup
from mbbq_gen.languages.extraction_pack import Grammar, read_grammar, read_shared_pack
from mbbq_gen.languages.packs import PackInfo

MIN_LOOP = 8
"""Fewest words of a degenerate text that repeats one word."""
MIN_WORDS, NGRAM, MAX_FRESH = 18, 3, 0.4
"""Fewest words of a degenerate text that repeats phrases; words of a phrase; largest share of distinct phrases."""
GENERIC = "generic"
"""Prefix of rules in a language without a pack."""
MIN_CUT = 5
"""Fewest words of a last line that may be an unfinished sentence."""
LAST_PARAGRAPHS = 4
"""Paragraphs at the end of a reasoning trace that are read one by one, the last one first."""
_PARAGRAPH = re.compile(r"\S[^\n]*(?:\n(?!\s*\n)[^\n]*)*")
LANGUAGE_SAMPLE = 30
"""Words from which the language of a response is guessed."""
MIN_FOREIGN = 3
"""An English response has at least so many more words of English than of the question's language."""


@dataclass(slots=True)
class Analysis:
    """The results of all stages for one response."""

    normal: NormalText
    zoned: ZonedText
    parsed: ParsedResponse | None
    decision: Decision
    offset: int = 0
    """Start of the parsed text in the normalised text."""
    slots: tuple[AnswerSlot, ...] = ()
    slot: AnswerSlot | None = None
    """The slot that decided; None if prose or nothing decided."""

    @property
    def extraction(self) -> Extraction:
        """The extraction as a record."""
        decision, parsed = self.decision, self.parsed
        span: tuple[int, int] | None = None
        against: list[str] = []
        if self.slot is not None:
            span = self.slot.start, self.slot.end
            against = [slot.kind.value for slot in self.slots if slot.option != decision.option]
            against += ["label"] if self.slot.conflict is not None else []
        elif parsed is not None:
            if decision.proposition is not None:
                winner = decision.proposition
                start, end = parsed.lines[winner.line].span(winner.first, winner.last)
                span = start + self.offset, end + self.offset
            for p in parsed.propositions:
                agrees = p.option == decision.option and (
                    p.option is not None or OUTCOME_OF.get(p.kind) == decision.outcome
                )
                if p.positive and p.strength >= Strength.HEDGED and p.kind != "correction" and not agrees:
                    against.append(p.rule.label)
            conflicts = any(mention.conflict is not None for line in parsed.mentions for mention in line)
            against += ["label"] if conflicts else []
        return Extraction(
            outcome=decision.outcome,
            option=decision.option,
            confidence=decision.confidence,
            rule=decision.rule,
            spans=() if span is None else (self.normal.raw_span(*span),),
            conflicts=tuple(dict.fromkeys(against)),
        )


class RuleExtractor:
    """The compiled extractor of a language, for any question.

    Threads that only extract may share it; other processes make their own with `load_extractor`.
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
        keys = [*(part.structured for part in self.grammars), shared.structured]
        self._answer_fields = frozenset(field_name(key) for part in keys for key in part.answer_keys)
        self._zoner = Zoner(shared, tuple(key for part in keys[:-1] for key in part.reasoning_keys))
        self._ticks = CheckMarks(shared)
        lexicons = [self.lexicon] if self._english is None else [self.lexicon, self._english]
        self._slots = SlotFinder(lexicons, self.grammars)
        endings = (rf"|{re.escape(ending)}(?=[。.\n]|$)" for ending in words_of(grammar.script.asks))
        self._question_end = re.compile("[?？؟]" + "".join(endings))
        self._question = lru_cache(maxsize=1024)(build_question)

    def extract(self, response: str, question: Question, *, finish_reason: str | None = None) -> Extraction:
        """The extraction of a response, as by the function `extract`."""
        return self.analyse(response, question, finish_reason=finish_reason).extraction

    def explain(self, response: str, question: Question, *, finish_reason: str | None = None) -> Explanation:
        """The extraction with all candidates, their pack entries, and why each won or lost."""
        analysis = self.analyse(response, question, finish_reason=finish_reason)
        return explain_analysis(self, analysis, response, question)

    def with_grammar(self, grammar: Grammar) -> RuleExtractor:
        """This extractor with another grammar for its language, for checks of a pack."""
        second = self.grammars[1] if len(self.grammars) > 1 else None
        return RuleExtractor(grammar, second, self.version, self.resources, self._english)

    def analyse(self, response: str, question: Question, *, finish_reason: str | None = None) -> Analysis:
        """All stages for one response: slots first, prose if no slot decides."""
        normal = normalise(response)
        if not response.strip():
            return Analysis(normal, ZonedText("", (), False), None, Decision("empty", None, "high", "empty"))
        prompt = question.prompt if len(normal.text) >= MIN_ECHO else None
        echoes = prompt is not None and any(probe in normal.text for probe in _echo_probes(prompt))
        zoned = self._zoner.read(normal.text, prompt if echoes else None, tuple(question.options))
        analysis = self._by_slots(response, normal, zoned, question)
        if analysis.slot is None:
            slots = analysis.slots
            analysis = self._by_prose(normal, zoned, question, finish_reason)
            analysis.slots = slots
        if self.grammars[0].meta.source == GENERIC and (analysis.slot or analysis.decision.proposition):
            analysis.decision = _with_prefix(analysis.decision, GENERIC)
        return analysis

    def _by_slots(self, response: str, normal: NormalText, zoned: ZonedText, question: Question) -> Analysis:
        """The analysis by a doubt after an opening, or by the strongest slot; without a slot if neither decides."""
        body, finder = self._plain(zoned.body), self._slots
        matcher = finder.matcher(tuple(question.options), tuple(question.labels))
        circled = circled_places(response, normal) if matcher.has_circled_labels else frozenset()
        slots = tuple(self._structured_slots(zoned.body, matcher) or finder.find(body, circled, matcher))
        analysis = Analysis(normal, zoned, None, Decision("unparsed"), slots=slots)
        doubt = finder.doubt_after_opening(body, matcher)
        if doubt is not None and (decision := self._by_doubt(body[slice(*doubt)], question)):
            analysis.slot = AnswerSlot(SlotKind.OPENING, question.unknown_index, *doubt)
            analysis.slots, analysis.decision = (*slots, analysis.slot), decision
            return analysis
        best = min(slots, key=lambda slot: (slot.kind.rank, -slot.start), default=None)
        if best is None or best.option == CONTESTED or finder.is_corrected(body, best):
            return analysis
        if doubt is not None and best.kind is SlotKind.OPENING:
            return analysis
        may_be_denied = best.kind in {SlotKind.MARKER, SlotKind.OPENING} and best.start not in circled
        denial = finder.denial_after(body, best, matcher) if may_be_denied else None
        if decision := self._of_slot(best, denial and body[slice(*denial)], question):
            if best.conflict is not None or any(slot.option != decision.option for slot in slots):
                decision = decision._replace(confidence="medium")
            analysis.slot, analysis.decision = best, decision
        return analysis

    def _by_doubt(self, text: str, question: Question) -> Decision | None:
        """The abstention by the rest of an opening sentence: "The cook (B) *is not known*"; None if it is none."""
        decision = decide(self._parse(text, question.key()))
        if decision.outcome != "abstention":
            return None
        parsed = self._parse(text, self._key(question))
        if parsed.question.negated and any(line.predicate_words for line in parsed.lines):
            return None  # "The tailor was unable to come" answers who was
        return Decision("abstention", question.unknown_index, "medium", f"{SlotKind.OPENING.value}:{decision.rule}")

    def _of_slot(self, slot: AnswerSlot, denial: str | None, question: Question) -> Decision | None:
        """The decision of a slot, or the abstention that denies it; None if another text denies it."""
        rule, unknown = slot.kind.value, question.unknown_index
        if slot.option is None:
            return Decision("multiple", None, slot.kind.confidence, rule)
        if denial is None or slot.option == unknown:
            return Decision("option", slot.option, slot.kind.confidence, rule)
        decision = decide(self._parse(denial, question.key()))
        is_abstention = decision.outcome in {"abstention", "refusal"}
        return Decision("abstention", unknown, "medium", f"{rule}:{decision.rule}") if is_abstention else None

    def _structured_slots(self, body: str, matcher: OptionMatcher) -> list[AnswerSlot]:
        """The slot of the strongest box, JSON field or tag, if that is one option."""
        for value in structured_values(body, self._answer_fields)[:1]:
            inner = self._plain(body[value.start : value.end])
            content = matcher.at(inner, 0, native=True)
            if content is not None and not inner[content.end :].strip(" .。)]}*_\"'$\n"):
                return [slot_of(SlotKind(value.kind), content, value.start)]
        return []

    def _plain(self, text: str) -> str:
        """The text, as long as before, with markup blanked and words for ticks and crosses."""
        return self._ticks.mark(strip_markup(text))

    def _key(self, question: Question) -> QuestionKey:
        """The key of a question, with the sentence that asks it."""
        sentence = _last_question(question.prompt, self._question_end)
        shared = shared_forms(question.prompt or "", sentence, self.lexicon) if sentence else frozenset()
        return question.key()._replace(sentence=sentence, shared=shared)

    def _by_prose(
        self, normal: NormalText, zoned: ZonedText, question: Question, finish_reason: str | None
    ) -> Analysis:
        """The analysis by propositions; with other names of the options if that finds nothing."""
        key = self._key(question)
        analysis = self._analyse_propositions(normal, zoned, key)
        for prefix, texts in self._other_names(analysis.parsed, question) if _found_nothing(analysis) else ():
            again = self._analyse_propositions(normal, zoned, key._replace(options=texts))
            winner, parsed = again.decision.proposition, again.parsed
            if again.decision.outcome == "unparsed":
                continue
            if prefix == "alias" and winner is not None and parsed is not None:  # labels and doubts need no alias
                named = [m for m in parsed.mentions[winner.line] if winner.first <= m.start < winner.last]
                if winner.kind not in {"option", "several"} or all(m.kind is MentionKind.LABEL for m in named):
                    continue
            again.decision = _with_prefix(again.decision, prefix)
            analysis = again
            break
        if _has_weak_evidence(analysis):
            analysis.decision = Decision("unparsed", rule="conflict")
        if _found_nothing(analysis) and analysis.parsed is not None:
            person = person_by_overlap(analysis.parsed)
            if person is not None:
                analysis.decision = Decision("option", person, rule="predicate_overlap")
        if _is_cut_off(analysis):
            analysis.decision = Decision("truncated", rule="truncated")
        elif _found_nothing(analysis) and (finish_reason == "length" or zoned.open_reasoning):
            analysis.decision = Decision("truncated", None, "medium", "truncated")
        return analysis

    def read_end(self, text: str, question: Question) -> tuple[Analysis, int]:
        """The analysis of the last paragraph with an answer, else of all, and its start."""
        for paragraph in reversed(list(_PARAGRAPH.finditer(text))[-LAST_PARAGRAPHS:]):
            found = self.analyse(paragraph.group(), question)
            if found.decision.outcome in PARSED:
                return found, paragraph.start()
        return self.analyse(text, question), 0

    def _analyse_propositions(self, normal: NormalText, zoned: ZonedText, key: QuestionKey) -> Analysis:
        """The analysis by the propositions in structured values, else in the whole text."""
        body = zoned.body
        for value in structured_values(body, self._answer_fields):
            parsed = self._parse(self._plain(body[value.start : value.end]), key)
            decision = decide(parsed)
            if decision.outcome != "unparsed":
                decision = decision._replace(rule=f"{value.kind}:{decision.rule}", confidence="high")
                return Analysis(normal, zoned, parsed, decision, value.start)
        parsed = self._parse(self._plain(body), key)
        decision = decide(parsed)
        firm = decision.proposition is not None and decision.proposition.strength >= Strength.ANNOUNCED
        if is_degenerate(parsed.lines, firm):
            decision = Decision("unparsed", None, "medium", "degenerate")
        return Analysis(normal, zoned, parsed, decision)

    def _other_names(self, parsed: ParsedResponse | None, question: Question) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Other texts of the options, each with the prefix of its rules."""
        yield from (("alias", tuple(texts)) for _, texts in sorted(question.aliases.items()))
        people, english = read_people(self.resources, self.language), self._english
        if people and english is not None and parsed is not None and parsed.is_english:
            words = [english[text] for line in parsed.lines for text in line.texts]
            texts = english_texts(question.options, question.unknown_index, words, people, english.stemmer)
            if texts is not None:
                yield "foreign", texts

    def _parse(self, text: str, key: QuestionKey) -> ParsedResponse:
        """A text with its mentions and propositions, read in the question's language or in English."""
        lexicon = self.lexicon
        lines = read_lines(text, lexicon)
        if self._english is not None and _is_english(lines, self._english):
            lexicon = self._english
            lines = read_lines(text, lexicon)
        question = self._question(key, lexicon)
        mentions: list[list[Mention]] = []
        for line in lines:
            mark_phrases(line, lexicon.phrases)
            mentions.append(find_mentions(line, question))
        if not any(mentions) and mark_misspelt(lines, question):
            mentions = [find_mentions(line, question) for line in lines]
        parsed = read_propositions(question, lines, mentions)
        parsed.is_english = lexicon is self._english
        return parsed


def is_degenerate(lines: list[Line], firm: bool) -> bool:
    """Whether a text repeats one word or, without a firm answer, the same phrases."""
    keys = [word.key for line in lines for word in line.words]
    if len(keys) < MIN_LOOP or len(set(keys)) > MAX_FRESH * len(keys) + 1:
        return False
    again = sum(key == before for before, key in itertools.pairwise(keys))
    if again > 0.5 * len(keys) or max(Counter(keys).values()) > 0.6 * len(keys):
        return True
    if firm or len(keys) < MIN_WORDS:
        return False
    rows = set(zip(*(keys[start:] for start in range(NGRAM)), strict=False))
    return len(rows) < MAX_FRESH * (len(keys) - NGRAM + 1)


def _is_english(lines: list[Line], english: Lexicon) -> bool:
    """Whether a response has clearly more words of English than of the question's language."""

    def is_native(word: Token) -> bool:
        return bool(word.classes & (KNOWN | SMALL) and not word.classes & BORROWED)

    home = total = 0
    for line in lines:
        total += len(line.words)
        home += sum([is_native(word) for word in line.words])
        if total >= LANGUAGE_SAMPLE:
            break
    if 3 * home > total:
        return False
    pairs = [(text, word) for line in lines for text, word in zip(line.texts, line.words, strict=True)]
    plain = [(text, word) for text, word in pairs if len(text) > 1 and text.isascii()]
    home = sum(is_native(word) for _, word in plain)
    foreign = sum(bool(english[text].classes & (KNOWN | SMALL)) for text, _ in plain)
    return foreign >= home + MIN_FOREIGN and foreign > 1.5 * home


def _found_nothing(analysis: Analysis) -> bool:
    """Whether there is neither an option nor an abstention."""
    return analysis.decision.outcome == "unparsed" and analysis.decision.rule in {"no_candidate", "conflict"}


def _has_weak_evidence(analysis: Analysis) -> bool:
    """Whether an English answer in another language rests on one late name or early doubt."""
    parsed, winner = analysis.parsed, analysis.decision.proposition
    if parsed is None or winner is None or not parsed.is_english or len(parsed.persons) > 1:
        return False
    if winner.kind == "option" and winner.option != parsed.question.unknown:
        return winner.strength < Strength.FITTING and winner.sentence > 1
    later = any(line.bits(0, len(line.masks)) & CLASSES["conclude"] for line in parsed.lines[winner.line :])
    return winner.kind == "unknown" and later and winner.sentence < parsed.sentences


def _with_prefix(decision: Decision, prefix: str) -> Decision:
    """The decision with a prefix for its rule and less confidence."""
    confidence: Confidence = "medium" if decision.confidence == "high" else "low"
    return decision._replace(rule=f"{prefix}:{decision.rule}", confidence=confidence)


def _is_cut_off(analysis: Analysis) -> bool:
    """Whether a text ends within the deciding sentence, or within a list with it."""
    winner, parsed, zones = analysis.decision.proposition, analysis.parsed, analysis.zoned.zones
    if winner is None or parsed is None:
        return False
    text = analysis.normal.text.rstrip()
    if winner.strength < Strength.HEDGED and zones and zones[-1].kind == "echo" and zones[-1].end >= len(text):
        return text[-1:].isalnum()
    lines, last, mentions = parsed.lines, parsed.lines[-1], parsed.mentions[-1]
    ends_in_label = bool(mentions) and mentions[-1].kind is not MentionKind.TEXT and mentions[-1].end == len(last.words)
    is_cut = not (
        (ends_in_label and mentions[-1].kind is MentionKind.LABEL and last.gaps[mentions[-1].start] >= STOP)
        or last.signs[-1].strip(" ,،、，")
        or last.heading
        or last.table
        or len(last.words) < MIN_CUT
        or last.texts[-1] in {TICK, CROSS}
    ) and any(max(line.gaps[1:]) >= STOP for line in lines)
    if winner.strength > Strength.HEDGED:
        in_list = 0 < winner.line < len(lines) - 1 and lines[winner.line].bullet and last.bullet
        return is_cut and winner.strength < Strength.DECLARED and in_list
    if is_cut or parsed.sentences < 2:
        return is_cut
    ends_on_it = winner.line == len(lines) - 1 and winner.last == len(last.words) and not last.signs[-1].strip()
    return ends_on_it and not (winner.bare and ends_in_label)


@lru_cache(maxsize=256)
def _echo_probes(prompt: str) -> tuple[str, ...]:
    """The middle of each longer sentence of a prompt; every echo contains one."""
    lines = normalise(prompt).text.splitlines()
    pieces = [piece.strip() for line in lines for piece in line.replace("?", ".").split(". ")]
    long = [(piece, len(piece) // 2) for piece in pieces if len(piece) >= MIN_ECHO]
    return tuple(piece[middle - 10 : middle + 10] for piece, middle in long)


@lru_cache(maxsize=256)
def _last_question(prompt: str | None, question_end: re.Pattern[str]) -> str | None:
    """The last question of a prompt."""
    text = normalise(prompt or "").text
    end = max((match.end() for match in question_end.finditer(text)), default=0)
    start = max(text.rfind(sign, 0, end - 1) for sign in ".!?。\n:！？¿") if end else 0
    return text[start + 1 : end] if end else None


def load_extractor(language: str, resources: PackPaths | None = None) -> RuleExtractor:
    """The extractor of a language, compiled once per process; raises PackError for a wrong pack.

    For a language without a pack it uses labels, option texts, structures, marks and English words. Its rules begin
    with `generic:`, and its confidence is at most `medium`.
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
    """The extraction of a response: outcome, option, confidence, rule, and the span of its evidence.

    Args:
        response: raw text of the model.
        options: as in `Question`, like `labels`, `unknown_index`, `aliases` and `prompt`.
        language: language of the question.
        finish_reason: why the text ends; `length` makes a missing answer `truncated`.
        resources: where packs are found.
    """
    question = Question(options, labels, unknown_index, prompt, aliases or {})
    return load_extractor(language, resources).extract(response, question, finish_reason=finish_reason)
