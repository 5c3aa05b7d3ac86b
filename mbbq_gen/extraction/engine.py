"""Response in, extraction out: the stages in order, and the detours where a response is in another language."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Extraction, Outcome
from mbbq_gen.extraction import SECOND_LANGUAGE, current_version, has_pack, has_second
from mbbq_gen.extraction.context_cues import read_scene
from mbbq_gen.extraction.decision import OUTCOME_OF, Decision, decide
from mbbq_gen.extraction.explain import Explanation
from mbbq_gen.extraction.layout import header
from mbbq_gen.extraction.lexicon import BORROWED, CLASSES, KNOWN, SMALL, Lexicon, words_of
from mbbq_gen.extraction.lines import STOP, Line, read_lines
from mbbq_gen.extraction.mention_finder import find_mentions
from mbbq_gen.extraction.mention_kinds import mark_misspelt
from mbbq_gen.extraction.mentions import Mention, MentionKind
from mbbq_gen.extraction.normalise import CROSS, TICK, NormalText, normalise
from mbbq_gen.extraction.option_matcher import OptionMatcher, circled_places
from mbbq_gen.extraction.overlap import person_by_overlap, person_of_conclusion
from mbbq_gen.extraction.person_words import english_texts, read_people
from mbbq_gen.extraction.phrases import mark_phrases
from mbbq_gen.extraction.prepared_question import PreparedQuestion, build_question
from mbbq_gen.extraction.propositions import read_propositions
from mbbq_gen.extraction.question import Question, QuestionKey
from mbbq_gen.extraction.rules import ParsedResponse, Rule, Strength
from mbbq_gen.extraction.sentences import quiet
from mbbq_gen.extraction.slots import CONTESTED, TABLE, AnswerSlot, SlotFinder, SlotKind, strongest
from mbbq_gen.extraction.structured import CheckMarks, StructureFinder
from mbbq_gen.extraction.zones import ZonedText, Zoner, strip_markup
from mbbq_gen.languages.extraction_pack import Grammar, read_grammar, read_shared_pack
from mbbq_gen.languages.packs import PackInfo

MIN_LOOP = 8
"""Words of a text that may be one word again and again."""
MIN_WORDS, ROW, MAX_FRESH = 18, 3, 0.4
"""Words of a text that may be a loop; words of a row that comes again and again; share of rows that differ in one."""


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


GENERIC = "generic"
"""What the readings of a language without a pack are called."""
_ANY = KNOWN | SMALL
_NEG = CLASSES["neg"] | CLASSES["neither"] | CLASSES["cannot"] | CLASSES["lack"]
_SILENT = frozenset({"no_candidate", "conflict"})
"""Rules of responses in which nothing was found."""
MIN_CUT = 5
"""Words of a last line that may be a sentence without its end."""
MIN_BEHIND = 8
"""Words behind what decides with which a sentence that breaks off was going to say more."""
ENOUGH = 30
"""Words that show which language a response is in."""
MIN_FOREIGN = 3
"""Words of English beyond those of the question's language that make an answer English."""


@dataclass(slots=True)
class Analysis:
    """What the stages found in one response."""

    normal: NormalText
    zoned: ZonedText
    parsed: ParsedResponse | None
    decision: Decision
    offset: int = 0
    """Where the text that was read begins in the mended text."""
    slots: tuple[AnswerSlot, ...] = ()
    """The answer slots that were found."""
    slot: AnswerSlot | None = None
    """The one that decided; None where prose did, or nothing."""

    @property
    def extraction(self) -> Extraction:
        """What callers see of it."""
        decision = self.decision
        spans: tuple[tuple[int, int], ...] = ()
        if self.slot is not None:
            spans = (self.normal.raw_span(self.slot.start, self.slot.end),)
        elif self.parsed is not None and decision.proposition is not None:
            said = decision.proposition
            start, end = self.parsed.lines[said.line].span(said.first, said.last)
            spans = (self.normal.raw_span(start + self.offset, end + self.offset),)
        return Extraction(
            outcome=decision.outcome,
            option=decision.option,
            confidence=decision.confidence,
            rule=decision.rule,
            spans=spans,
            conflicts=self._conflicts(),
        )

    def _conflicts(self) -> tuple[str, ...]:
        """Rules of what is said for another option, at least as a guess; `label` where a label says another option than
        the text beside it."""
        reading, decision = self.parsed, self.decision
        if self.slot is not None:
            others = [slot.kind.value for slot in self.slots if slot.option != decision.option]
            return tuple(dict.fromkeys([*others, *(["label"] if self.slot.conflict is not None else [])]))
        if reading is None:
            return ()
        against = [
            said.rule.label
            for said in reading.propositions
            if said.positive
            and said.force >= Strength.HEDGED
            and said.kind != "correction"
            and (
                said.option != decision.option
                or (said.option is None and OUTCOME_OF.get(said.kind) != decision.outcome)
            )
        ]
        if any(mention.conflict is not None for line in reading.mentions for mention in line):
            against.append("label")
        return tuple(dict.fromkeys(against))


class RuleExtractor:
    """The compiled grammar of a language; cheap to use again and again, for any options.

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
        self._resources = resources
        self.lexicon = Lexicon(grammar, second)
        self._english = Lexicon(second) if second is not None and english is None else english
        shared = read_shared_pack(resources)
        keys = [grammar.structured, *([second.structured] if second else []), shared.structured]
        reasons = tuple(key for part in keys for key in part.reasoning_keys)
        self._structures = StructureFinder((key for part in keys for key in part.answer_keys), reasons)
        self._zoner = Zoner(shared, tuple(key for part in keys[:-1] for key in part.reasoning_keys))
        self._ticks = CheckMarks(shared)
        lexicons = [self.lexicon] if self._english is None else [self.lexicon, self._english]
        self._slots = SlotFinder(lexicons, self.grammars)
        endings = (rf"|{re.escape(ending)}(?=[。.\n]|$)" for ending in words_of(grammar.script.asks))
        self._question_end = re.compile("[?？؟]" + "".join(endings))
        self._question = lru_cache(maxsize=1024)(_read_question)
        self._scene = lru_cache(maxsize=1024)(read_scene)

    def extract(self, response: str, question: Question, *, finish_reason: str | None = None) -> Extraction:
        """What a response was taken to mean."""
        return self.analyse(response, question, finish_reason=finish_reason).extraction

    def explain(
        self, response: str, question: Question, *, finish_reason: str | None = None, resources: PackPaths | None = None
    ) -> Explanation:
        """The extraction with everything that led to it: what is said of each option, the words it rests on, and why
        each candidate won or lost."""
        from mbbq_gen.extraction.explain import explain_analysis

        analysis = self.analyse(response, question, finish_reason=finish_reason)
        return explain_analysis(self, analysis, response, question, resources or self._resources)

    def with_grammar(self, grammar: Grammar) -> RuleExtractor:
        """The same with another grammar for the language: what a check of the pack tries."""
        second = self.grammars[1] if len(self.grammars) > 1 else None
        return RuleExtractor(grammar, second, self.version, self._resources, self._english)

    def analyse(self, response: str, question: Question, *, finish_reason: str | None = None) -> Analysis:
        """All stages on one response, with what each of them found: slots first, prose where no slot decides."""
        if not response.strip():
            nothing = Decision("empty", None, "high", "empty", None)
            return Analysis(normalise(response), ZonedText("", (), False), None, nothing)
        normal = normalise(response)
        prompt = question.prompt
        zoned = self._zoner.read(
            normal.text, prompt if _may_echo(prompt, normal.text) else None, tuple(question.options)
        )
        analysis = self._by_slots(response, normal, zoned, question)
        if analysis.slot is None:
            slots = analysis.slots
            analysis = self._by_prose(normal, zoned, question, finish_reason)
            analysis.slots = slots
        elif self.grammars[0].meta.source == GENERIC:
            analysis.decision = _by_detour(analysis.decision, GENERIC)
        return analysis

    def _by_slots(self, response: str, normal: NormalText, zoned: ZonedText, question: Question) -> Analysis:
        """The decision of the strongest slot, unless it is taken back."""
        body = self._ticks.mark(strip_markup(zoned.body))
        matcher = self._slots.matcher(tuple(question.options), tuple(question.labels))
        circled = circled_places(response, normal) if matcher.circled else frozenset()
        slots = self._structured_slots(zoned.body, matcher, tuple(question.options))
        if not slots:
            slots = self._slots.find(body, circled, matcher)
        undecided = Decision("unparsed", None, "low", "no_candidate", None)
        doubt = self._slots.doubt_of_opening(body, matcher)
        if doubt is not None:
            said = decide(self._read(body[slice(*doubt)], question.asked(None, None)))
            if said.outcome == "abstention":
                slot = AnswerSlot(SlotKind.OPENING, question.unknown_index, *doubt)
                found = Decision("abstention", question.unknown_index, "medium", f"{slot.kind.value}:{said.rule}", None)
                return Analysis(normal, zoned, None, found, slots=(*slots, slot), slot=slot)
        analysis = Analysis(normal, zoned, None, undecided, slots=tuple(slots))
        best = strongest(slots)
        if best is None or best.option == CONTESTED or self._slots.is_corrected(body, best):
            return analysis
        option, rule, standing = best.option, best.kind.value, TABLE[best.kind]
        if best.kind in {SlotKind.MARKER, SlotKind.OPENING} and option is not None and best.start not in circled:
            sentence = self._slots.denies_behind(body, best, matcher)
            if sentence is not None and option != question.unknown_index:
                said = decide(self._read(body[slice(*sentence)], question.asked(None, None)))
                if said.outcome not in {"abstention", "refusal"}:
                    return analysis
                option, rule = question.unknown_index, f"{rule}:{said.rule}"
                standing = standing._replace(confidence="medium")
        confidence = standing.confidence
        if best.conflict is not None or any(slot.option != option for slot in slots):
            confidence = "medium"
        outcome: Outcome = "multiple" if option is None else "abstention" if rule != best.kind.value else "option"
        analysis.slot = best
        analysis.decision = Decision(outcome, option, confidence, rule, None)
        return analysis

    def _structured_slots(self, body: str, matcher: OptionMatcher, options: tuple[str, ...]) -> list[AnswerSlot]:
        """The slot of the strongest box, field or tag, where its value is nothing but an option."""
        value = next(iter(self._structures.values(body, options)), None)
        if value is None:
            return []
        inner = self._ticks.mark(strip_markup(body[value.start : value.end]))
        content = matcher.at(inner, 0, native=True)
        if content is None or inner[content.end :].strip(" .。)]}*_\"'$\n"):
            return []
        start, end = value.start + content.start, value.start + content.end
        conflict = content.label if content.label not in {None, content.option} else None
        return [AnswerSlot(SlotKind(value.kind), content.option, start, end, conflict)]

    def _by_prose(
        self, normal: NormalText, zoned: ZonedText, question: Question, finish_reason: str | None
    ) -> Analysis:
        """The decision of clauses and what they say of the options."""
        prompt = question.prompt
        sentence = _asked(prompt, self._question_end)
        people = tuple(text for index, text in enumerate(question.options) if index != question.unknown_index)
        scene = self._scene(prompt, sentence, people, self.lexicon) if prompt and sentence else None
        asked = question.asked(sentence, scene)
        analysis = self._read_all(normal, zoned, asked)
        for _, texts in sorted(question.aliases.items()):
            if analysis.decision.outcome != "unparsed":
                break
            again = _with_conclusion(self._read_all(normal, zoned, asked._replace(options=tuple(texts))))
            if again.decision.outcome != "unparsed" and (again.decision.proposition is None or _names_text(again)):
                again.decision = _by_detour(again.decision, "alias")
                analysis = again
        if analysis.decision.outcome == "unparsed" and analysis.decision.rule in _SILENT:
            analysis = self._by_people(analysis, asked)
        if _rests_on_too_little(analysis):
            analysis.decision = Decision("unparsed", None, "low", "conflict", None)
        if (
            analysis.decision.outcome == "unparsed"
            and analysis.decision.rule in _SILENT
            and analysis.parsed is not None
        ):
            inferred = person_by_overlap(analysis.parsed)
            if inferred is not None:
                analysis.decision = Decision("option", inferred[0], "low", "predicate_overlap", None)
        if self.grammars[0].meta.source == GENERIC and analysis.decision.proposition is not None:
            analysis.decision = _by_detour(analysis.decision, GENERIC)
        if _is_unfinished(analysis) or _ends_in_echo(analysis):
            analysis.decision = Decision("truncated", None, "low", "truncated", None)
        silent = analysis.decision.outcome == "unparsed" and analysis.decision.rule in _SILENT
        if silent and (finish_reason == "length" or zoned.open_reasoning or _breaks_off(analysis)):
            analysis.decision = Decision("truncated", None, "medium", "truncated", None)
        return analysis

    # --- stages -------------------------------------------------------------------------------------------------------

    def _read_all(self, normal: NormalText, zoned: ZonedText, asked: QuestionKey) -> Analysis:
        """Structures first, then the free text."""
        body = zoned.body
        for value in self._structures.values(body, asked.options):
            inner = self._ticks.mark(strip_markup(body[value.start : value.end]))
            reading = self._read(inner, asked, structured=True)
            decision = decide(reading)
            if decision.outcome != "unparsed" or decision.rule == "out_of_options":
                decision = decision._replace(rule=f"{value.kind}:{decision.rule}", confidence="high")
                return Analysis(normal, zoned, reading, decision, value.start)
        for start, end in self._structures.reasons(body):
            body = body[:start] + " " * (end - start) + body[end:]
        reading = self._read(self._ticks.mark(strip_markup(body)), asked)
        decision = decide(reading)
        firm = decision.proposition is not None and decision.proposition.force >= Strength.ANNOUNCED
        if is_degenerate(reading.lines, firm):
            decision = Decision("unparsed", None, "medium", "degenerate", None)
        return Analysis(normal, zoned, reading, decision)

    def _by_people(self, first: Analysis, asked: QuestionKey) -> Analysis:
        """An answer in English that calls the options what English calls such people."""
        people = read_people(self._resources, self.language)
        if not people or self._english is None or first.parsed is None or not first.parsed.is_english:
            return first
        words = (self._english[text] for line in first.parsed.lines for text in line.texts)
        texts = english_texts(asked.options, asked.unknown, words, people, self._english.stemmer)
        if texts is None:
            return first
        again = _with_conclusion(self._read_all(first.normal, first.zoned, asked._replace(options=texts)))
        again.decision = _by_detour(again.decision, "foreign")
        return first if again.decision.outcome == "unparsed" else again

    def _read(self, text: str, asked: QuestionKey, *, structured: bool = False) -> ParsedResponse:
        """The propositions of a text, in the question's language or in English."""
        lexicon = self.lexicon
        lines = read_lines(text, lexicon)
        if self._english is not None and _is_english(lines, self._english):
            lexicon = self._english
            lines = read_lines(text, lexicon)
        question = self._question(asked, lexicon)
        return self._propositions(text, question, lexicon, lines, structured=structured)

    def _propositions(
        self,
        text: str,
        question: PreparedQuestion,
        lexicon: Lexicon,
        lines: list[Line] | None = None,
        *,
        structured: bool = False,
    ) -> ParsedResponse:
        """The propositions of a text; `lines` are its own, if they have been read."""
        lines = lines or read_lines(text, lexicon)
        mentions: list[list[Mention]] = []
        for line in lines:
            mark_phrases(line, lexicon.rows)
            quiet(line, question.story)
            mentions.append(find_mentions(line, question))
        if not any(mentions) and mark_misspelt(lines, question):
            mentions = [find_mentions(line, question) for line in lines]
        reading = read_propositions(question, lines, mentions, announced=structured)
        reading.is_english = lexicon is self._english
        return reading


def _read_question(asked: QuestionKey, lexicon: Lexicon) -> PreparedQuestion:
    """The question prepared; where words are characters, only rows of them show that it asks who did not."""
    question = build_question(asked, lexicon)
    if asked.sentence and question.unspaced and not question.negated:
        for line in read_lines(asked.sentence, lexicon):
            mark_phrases(line, lexicon.rows)
            question.negated = question.negated or any([mask & _NEG for mask in line.masks])
    return question


def _is_english(lines: list[Line], english: Lexicon) -> bool:
    """Whether clearly more words of a response are known to English than to the question's language."""
    home = foreign = total = 0
    for line in lines:
        total += len(line.words)
        home += sum([1 for word in line.words if word.classes & _ANY and not word.classes & BORROWED])
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


def _rests_on_too_little(analysis: Analysis) -> bool:
    """Whether an English answer to a question in another language decides by the only person whose name was understood,
    or by an abstention in a talk of people none of whom was understood."""
    reading, said = analysis.parsed, analysis.decision.proposition
    if reading is None or said is None or not reading.is_english or len(reading.persons) > 1:
        return False
    if said.kind == "option" and said.option != reading.question.unknown:
        return said.force < Strength.FITTING or said.rule is Rule.CONTRAST
    later = any(line.bits(0, len(line.masks)) & CLASSES["conclude"] for line in reading.lines[said.line :])
    return said.kind == "unknown" and later and said.sentence < reading.sentences


def _with_conclusion(analysis: Analysis) -> Analysis:
    """The analysis of an English answer with the person of its last conclusion, where nothing else decides."""
    reading = analysis.parsed
    if reading is not None and reading.is_english and analysis.decision.rule in _SILENT:
        person = person_of_conclusion(reading)
        if person is not None:
            analysis.decision = Decision("option", person, "low", Rule.CONCLUDED.label, None)
    return analysis


def _by_detour(decision: Decision, prefix: str) -> Decision:
    return decision._replace(
        rule=f"{prefix}:{decision.rule}", confidence="medium" if decision.confidence == "high" else "low"
    )


def _breaks_off(analysis: Analysis) -> bool:
    """Whether a text ends in the middle of a sentence: on a small word, or on an announcement without its answer."""
    reading = analysis.parsed
    if reading is None or not reading.lines:
        return False
    line = reading.lines[-1]
    ending = line.signs[-1].strip(" *_`\"'”’»")
    if ending and ending != ":":
        return False
    return bool(line.masks[-1] & (SMALL | CLASSES["conj"])) and sum(len(inner.words) for inner in reading.lines) > 3


def _names_text(analysis: Analysis) -> bool:
    """Whether what decided is an option by its text: labels and doubts were read before."""
    said, reading = analysis.decision.proposition, analysis.parsed
    if said is None or reading is None or said.kind not in {"option", "several"}:
        return False
    return any(
        said.first <= m.start < said.last and m.how is not MentionKind.LABEL for m in reading.mentions[said.line]
    )


def _is_cut(reading: ParsedResponse) -> bool:
    """Whether the last line is a sentence without its end, where others have theirs; a label alone needs none."""
    lines, last = reading.lines, reading.lines[-1]
    closing = reading.mentions[-1][-1] if reading.mentions[-1] else None
    if (
        closing
        and closing.how is MentionKind.LABEL
        and closing.end == len(last.words)
        and last.gaps[closing.start] >= STOP
    ):
        return False
    head, _ = header(last, reading.mentions[-1])
    if head == "answer" and not last.masks[-1] & SMALL:
        return False  # "Final answer: the one who overslept"
    if (
        last.signs[-1].strip(" ,،、，")
        or last.heading
        or last.table
        or len(last.words) < MIN_CUT
        or last.texts[-1] in {TICK, CROSS}
    ):
        return False
    ended = [line.gaps[-1] >= STOP for line in lines[:-1] if line.bullet]
    if last.bullet and max(last.gaps[2:]) < STOP and not (ended and all(ended)):
        return False
    return any(max(line.gaps[1:]) >= STOP for line in lines)


def _is_within_list(lines: list[Line], number: int) -> bool:
    """Whether a line is an entry of a list that goes on to the last line."""
    return 0 < number < len(lines) - 1 and lines[number].bullet and lines[-1].bullet


def _ends_in_echo(analysis: Analysis) -> bool:
    """Whether a plain sentence decided, and the text breaks off while it repeats the question's text."""
    said, zones = analysis.decision.proposition, analysis.zoned.zones
    text = analysis.normal.text.rstrip()
    echoed = bool(zones) and zones[-1].kind == "echo" and zones[-1].end >= len(text)
    return said is not None and said.force < Strength.HEDGED and echoed and text[-1:].isalnum()


def _is_unfinished(analysis: Analysis) -> bool:
    """Whether no more than a plain sentence decided, and the text breaks off in it or behind it."""
    said, reading = analysis.decision.proposition, analysis.parsed
    if said is None or reading is None:
        return False
    lines, is_cut = reading.lines, _is_cut(reading)
    if reading.sentences < 2 and not is_cut:
        return False
    if said.force > Strength.HEDGED:
        return is_cut and said.force < Strength.DECLARED and _is_within_list(lines, said.line)
    if _breaks_off(analysis):
        return True
    in_last = said.sentence == reading.sentences
    if in_last and is_cut and (analysis.decision.row == "single") and (said.last < len(lines[said.line].words)):
        return True
    goes_on = not said.bare and len(lines[-1].words) - said.last >= MIN_BEHIND
    weak = said.force < Strength.FITTING and said.line + 1 < len(lines)
    if is_cut and (not in_last or goes_on or weak):
        return True
    last = lines[-1]
    ends_on_it = said.line == len(lines) - 1 and said.last == len(last.words) and not last.signs[-1].strip()
    mentions = reading.mentions[-1]
    return ends_on_it and not (said.bare and mentions and (mentions[-1].how is not MentionKind.TEXT))


def _may_echo(prompt: str | None, text: str) -> bool:
    """Whether a response may repeat its prompt: it holds the middle of one of the prompt's lines."""
    return prompt is not None and any(probe in text for probe in _probes(prompt))


@lru_cache(maxsize=256)
def _probes(prompt: str) -> tuple[str, ...]:
    """A stretch from the middle of every longer line or sentence of a prompt."""
    found = []
    for line in normalise(prompt).text.splitlines():
        for piece in line.replace("?", ".").split(". "):
            plain = piece.strip()
            if len(plain) >= 25:
                middle = len(plain) // 2
                found.append(plain[middle - 10 : middle + 10])
    return tuple(found)


@lru_cache(maxsize=256)
def _asked(prompt: str | None, question_end: re.Pattern[str]) -> str | None:
    """The last question of a prompt."""
    if not prompt:
        return None
    text = normalise(prompt).text
    end = max((match.end() for match in question_end.finditer(text)), default=0)
    if not end:
        return None
    start = max(text.rfind(sign, 0, end - 1) for sign in ".!?。\n:！？¿")
    return text[start + 1 : end]


def load_extractor(language: str, resources: PackPaths | None = None) -> RuleExtractor:
    """The extractor of a language, compiled once a process and set of packs.

    A language without a pack is read by what needs no words of it: labels, option texts, structures and marks, and
    words of English; its rules begin with `generic:`, and no reading is surer than `medium`.

    Raises:
        PackError: where a pack is wrong; file, key, value.
    """
    return _load(language, resources or PackPaths())


@lru_cache(maxsize=64)
def _load(language: str, resources: PackPaths) -> RuleExtractor:
    grammar = read_grammar(language, resources) if has_pack(language, resources) else _generic(language)
    second = read_grammar(SECOND_LANGUAGE, resources) if has_second(language, resources) else None
    return RuleExtractor(grammar, second, current_version(language, resources), resources)


def _generic(language: str) -> Grammar:
    """A grammar without a word, for a language that has no pack."""
    meta = PackInfo(language=language, name=language, native_name=language, version=1, source=GENERIC, licence="none")
    return Grammar(meta=meta)


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
    """What a response was taken to mean.

    Args:
        response: The model's words, raw.
        options: The options' texts as shown, 2 to 10.
        labels: Their labels as shown, in the same order.
        language: The question's language.
        unknown_index: Place of the unknown option, or None where there is none.
        aliases: Language → the options' texts in it, tried where nothing else is found.
        prompt: What was sent: its last question tells what a plain sentence must speak of, and an echo of it is not
            taken for an answer.
        finish_reason: Why the text ends; `length` makes a missing answer `truncated`.
        resources: Where packs are looked for.

    Returns:
        Outcome, option and confidence, the rule that decided and where in the response its evidence stands.
        Pure: the same input gives the same output. Time grows with the length only.
    """
    question = Question(options, labels, unknown_index, prompt, aliases or {})
    return load_extractor(language, resources).extract(response, question, finish_reason=finish_reason)
