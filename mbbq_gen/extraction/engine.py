"""Response in, extraction out: the stages in order, and the compiled packs that they share.

raw text ─► normalise ─► zones ─► structures ─► mentions ─► hits of all patterns ─► evidence ─► decision
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache

from mbbq_gen.errors import UsageError
from mbbq_gen.extraction.analysis import Analysis, by_detour, names_in_reason, names_nothing, to_extraction
from mbbq_gen.extraction.automaton import Automaton
from mbbq_gen.extraction.brief import read_brief
from mbbq_gen.extraction.cutoff import check_truncated
from mbbq_gen.extraction.evidence import continuation_start, read_evidence
from mbbq_gen.extraction.foreign import guess_language
from mbbq_gen.extraction.joining import join
from mbbq_gen.extraction.lexicon import build_lexicon, own_hits, speaks_more
from mbbq_gen.extraction.marks import MarkReader
from mbbq_gen.extraction.mentions import Item, Mention, MentionItem, to_items
from mbbq_gen.extraction.noise import is_degenerate, is_loop, is_mixed
from mbbq_gen.extraction.normalise import NormalText, normalise
from mbbq_gen.extraction.optionset import OptionSet, build_options, join_abbreviations, part_glued
from mbbq_gen.extraction.pack import ExtractorPack, SharedPack, read_extractor_pack, read_shared_pack
from mbbq_gen.extraction.patterns import Hit
from mbbq_gen.extraction.people import english_texts, read_people
from mbbq_gen.extraction.reading import COMMITTED, LEANING, Reading
from mbbq_gen.extraction.resolve import Decision, resolve
from mbbq_gen.extraction.sides import Side
from mbbq_gen.extraction.similar import read_similar
from mbbq_gen.extraction.stemmer import Stemmer
from mbbq_gen.extraction.structured import StructureReader
from mbbq_gen.extraction.tokens import Token, tokenise
from mbbq_gen.extraction.trace import Explanation
from mbbq_gen.extraction.zones import ZonedText, Zoner, strip_markup
from mbbq_gen.records import Extraction
from mbbq_gen.resources import Resources, file_digest

ENGINE_VERSION = "4"
"""Raised by every change of the engine that may change an extraction."""
SECOND_LANGUAGE = "en"
"""Answers in this language are read whatever the question's language is."""

MAX_OPTION_SETS = 64
"""Option sets of a language that are kept: successive answers are mostly to the same few questions."""
MAX_FOREIGN = 4
"""Sentences in a third language beyond which only a committed answer counts."""
ANNOUNCED = frozenset({"cue_before", "cue_after", "answer_header", "final_marker", "line_label", "whole_answer"})
"""Rules of answers that count though the text runs in a loop."""


class Extractor:
    """The compiled packs of a language; cheap to use again and again, for any options.

    Safe to share between threads that only extract; other processes make their own with `load_extractor`.
    """

    def __init__(
        self, language: str, packs: tuple[ExtractorPack, ...], shared: SharedPack, version: str, resources: Resources
    ) -> None:
        self.language = language
        self.version = version
        self.packs = packs
        self._resources = resources
        home = packs[0]
        self._automaton = Automaton(
            [rule for pack in packs for rule in pack.rules(pack is home)], turkish=home.script.casefold == "turkish"
        )
        ordinals = Automaton([rule for pack in packs for rule in pack.ordinal_rules])
        small = build_lexicon(packs).join.small
        self._sides = tuple(Side.of(packs[place:] + packs[:place], small, ordinals) for place in range(len(packs)))
        self._stemmer = Stemmer(packs)
        structured = [pack.structured for pack in packs] + [shared.structured]
        self._structures = StructureReader(structured)
        self._zoner = Zoner(shared, tuple(key for pack in packs for key in pack.structured.reasoning_keys))
        self._marks = MarkReader(shared, packs)
        self._without: frozenset[str] = frozenset()
        self._options = lru_cache(maxsize=MAX_OPTION_SETS)(self._prepare)

    def extract(  # noqa: PLR0917 - the contract's order
        self,
        response: str,
        options: Sequence[str],
        labels: Sequence[str],
        unknown_index: int | None,
        aliases: Mapping[str, Sequence[str]] | None = None,
        prompt: str | None = None,
        *,
        finish_reason: str | None = None,
    ) -> Extraction:
        """What a response was taken to mean; see `extract`."""
        analysis = self.analyse(response, options, labels, unknown_index, aliases, prompt, finish_reason=finish_reason)
        return to_extraction(analysis)

    def extract_without(  # noqa: PLR0917 - the contract's order
        self,
        without: frozenset[str],
        response: str,
        options: Sequence[str],
        labels: Sequence[str],
        unknown_index: int | None,
        aliases: Mapping[str, Sequence[str]] | None = None,
    ) -> Extraction:
        """As `extract`, as if some lists (`cues.before`) or lines of the language's own pack were not there."""
        self._without = without
        try:
            return self.extract(response, options, labels, unknown_index, aliases)
        finally:
            self._without = frozenset()

    def explain(  # noqa: PLR0917 - the contract's order
        self,
        response: str,
        options: Sequence[str],
        labels: Sequence[str],
        unknown_index: int | None,
        aliases: Mapping[str, Sequence[str]] | None = None,
        prompt: str | None = None,
        *,
        finish_reason: str | None = None,
        resources: Resources | None = None,
    ) -> Explanation:
        """The extraction with everything that led to it: candidates, phrases, zones, and why each candidate won or
        lost."""
        from mbbq_gen.extraction.explain import explain_analysis

        analysis = self.analyse(response, options, labels, unknown_index, aliases, prompt, finish_reason=finish_reason)
        return explain_analysis(self, analysis, response, tuple(options), tuple(labels), resources or Resources())

    def analyse(  # noqa: PLR0917 - the contract's order
        self,
        response: str,
        options: Sequence[str],
        labels: Sequence[str],
        unknown_index: int | None,
        aliases: Mapping[str, Sequence[str]] | None = None,
        prompt: str | None = None,
        *,
        finish_reason: str | None = None,
    ) -> Analysis:
        """All stages on one response, with what each of them found."""
        texts, shown = tuple(options), tuple(labels)
        _check_question(texts, shown, unknown_index)
        normal = normalise(response)
        zoned = self._zoner.read(normal.text, prompt, texts)
        if not response.strip():
            return Analysis(normal, zoned, Decision("empty", None, "high", "empty"), [], None)
        prepared = self._options(texts, shown, unknown_index)
        analysis = self._read_all(normal, zoned, prepared, prompt)
        if names_nothing(analysis) or names_in_reason(analysis):
            analysis.decision = self._read_short(analysis, prepared) or analysis.decision
        if aliases and names_nothing(analysis):
            analysis = self._read_aliases(analysis, aliases, texts, shown, unknown_index, prompt)
        if len(self._sides) > 1 and names_nothing(analysis):
            analysis = self._read_english(analysis, texts, shown, unknown_index, prompt)
        if analysis.decision.outcome == "no_answer" and analysis.decision.rule in {"no_candidate", "conflict"}:
            analysis = self._read_other_language(analysis, texts, shown, unknown_index)
        check_truncated(analysis, self._sides[0].lexicon.words.small, finish_reason)
        return analysis

    # --- stages -------------------------------------------------------------------------------------------------------

    def _prepare(self, options: tuple[str, ...], labels: tuple[str, ...], unknown: int | None) -> OptionSet:
        home = self._sides[0].lexicon
        return build_options(options, labels, unknown, self._stemmer, home.articles, home.stop, home.negations)

    def _read_all(self, normal: NormalText, zoned: ZonedText, options: OptionSet, prompt: str | None) -> Analysis:
        """Structures first, then the free text."""
        for value in self._structures.values(zoned.body, options):
            inner = strip_markup(zoned.body[value.start : value.end])
            reading, tokens = self._read(inner, options)
            decision = resolve(reading, frozenset())
            if decision.outcome not in {"no_answer"} or decision.rule == "out_of_options":
                decision.rule = f"{value.kind}:{decision.rule}"
                return Analysis(normal, zoned, decision, tokens, reading, value)
        body = zoned.body
        for start, end in self._structures.reasons(body):
            body = body[:start] + " " * (end - start) + body[end:]
        reading, tokens = self._read(strip_markup(body), options)
        if is_degenerate(tokens):
            return Analysis(normal, zoned, Decision("no_answer", None, "medium", "degenerate"), tokens, reading)
        decision = resolve(reading, self._question_words(prompt, options))
        if (decision.winner is None or decision.winner.rule not in ANNOUNCED) and (is_loop(tokens) or is_mixed(tokens)):
            decision = Decision("no_answer", None, "medium", "degenerate")
        return Analysis(normal, zoned, decision, tokens, reading)

    def _read(self, body: str, options: OptionSet) -> tuple[Reading, list[Token]]:
        """Mentions, hits and evidence of a text."""
        tokens = tokenise(body)
        side = self._side(tokens)
        option_words = side.lexicon.labels.option_words
        tokens = part_glued(tokens, options, option_words)
        join_abbreviations(tokens, options, self._stemmer, option_words)
        tail = body[tokens[-1].end :] if tokens else body
        texts = side.texts.find(tokens, options, self._stemmer)
        places = side.places.find(tokens, options, texts)
        labels = side.labels.find(tokens, tail, options, texts, places)
        mentions = join(tokens, labels, texts, places, options, side.lexicon.join)
        items = to_items(tokens, mentions)
        hits = self._automaton.find(items)
        named = _without_wording(mentions, items, hits, side.lexicon.known)
        if len(named) < len(mentions):
            items = to_items(tokens, named)
            hits = self._automaton.find(items)
        if len(self.packs) > 1:
            hits = own_hits(hits, items, side.lexicon)
        if self._without:
            home = self.packs[0].meta.language
            hits = [h for h in hits if h.rule.language != home or not {h.rule.family, h.rule.phrase} & self._without]
        reading = Reading(items, hits, options, side.lexicon.words, tail, tokens[-1].key if tokens else "")
        read_evidence(reading)
        cut = continuation_start(reading)
        if cut is not None:
            items, hits = items[:cut], [hit for hit in hits if hit.end <= cut]
            reading = Reading(items, hits, options, side.lexicon.words, "\n")
            read_evidence(reading)
        self._marks.read(reading, body)
        return reading, tokens

    def _read_short(self, analysis: Analysis, options: OptionSet) -> Decision | None:
        """A misspelt option, or some of its words, where that is all there is."""
        tokens, reading = analysis.tokens, analysis.reading
        similar = read_similar(tokens, options)
        if similar is not None or reading is None or not tokens or "?" in reading.tail:
            return similar
        lexicon = self._side(tokens).lexicon
        first = tokens[: min(reading.reasons, default=len(tokens))]
        return read_brief(first, options, self._stemmer, lexicon.known, lexicon.negations)

    def _side(self, tokens: list[Token]) -> Side:
        """The word lists that fit a text; looks behind particles written together with the next word."""
        home = self._sides[0]
        clitics = home.lexicon.clitics
        if clitics:
            for token in tokens:
                token.key = clitics.known(token.key)
        if len(self._sides) > 1:
            second = self._sides[1]
            if speaks_more(tokens, second.alone, home.alone):
                return second
        return home

    def _read_aliases(  # noqa: PLR0917 - the contract's order
        self,
        first: Analysis,
        aliases: Mapping[str, Sequence[str]],
        options: tuple[str, ...],
        labels: tuple[str, ...],
        unknown: int | None,
        prompt: str | None,
    ) -> Analysis:
        """The options' texts in other languages, tried where the question's own language finds nothing."""
        for language, texts in sorted(aliases.items()):
            if len(texts) != len(options):
                raise UsageError(f"aliases.{language}: {len(texts)} texts for {len(options)} options")
            analysis = self._read_all(first.normal, first.zoned, self._options(tuple(texts), labels, unknown), prompt)
            if analysis.decision.outcome != "no_answer":
                analysis.alias = language
                return by_detour(analysis, "alias")
        return first

    def _read_english(
        self,
        first: Analysis,
        options: tuple[str, ...],
        labels: tuple[str, ...],
        unknown: int | None,
        prompt: str | None,
    ) -> Analysis:
        """An answer in English that calls the options what English calls such people."""
        home, second = (side.alone for side in self._sides[:2])
        people = read_people(self._resources, self.language)
        if not people or not speaks_more(first.tokens, second, home):
            return first
        texts = english_texts(options, unknown, first.tokens, people, self._stemmer)
        if texts is None:
            return first
        analysis = self._read_all(first.normal, first.zoned, self._options(texts, labels, unknown), prompt)
        return first if analysis.decision.outcome == "no_answer" else by_detour(analysis, "foreign")

    def _read_other_language(
        self, first: Analysis, options: tuple[str, ...], labels: tuple[str, ...], unknown: int | None
    ) -> Analysis:
        """A firm answer in a third language, where the words are clearly of that language."""
        own = {pack.meta.language for pack in self.packs}
        guess = guess_language(first.tokens, own, self._resources)
        if guess is None:
            return first
        other = load_extractor(guess, self._resources)
        analysis = other._read_all(first.normal, first.zoned, other._options(options, labels, unknown), None)
        winner = analysis.decision.winner
        short = analysis.reading is not None and analysis.reading.sentence[-1:] < [MAX_FOREIGN]
        if analysis.decision.option is None or winner is None or winner.tier < (LEANING if short else COMMITTED):
            return first
        return by_detour(analysis, f"language_{guess}")

    def _question_words(self, prompt: str | None, options: OptionSet) -> frozenset[str]:
        """The telling words of the last question in the prompt."""
        return _question_words(prompt, self._sides[0].lexicon.words.small) if prompt else frozenset()


def _without_wording(
    mentions: list[Mention], items: list[Item], hits: list[Hit], known: frozenset[str]
) -> list[Mention]:
    """The mentions without words that a statement that it can't be told consists of: Basque "nahikoa" (enough) in it is
    no form of the name Nahia."""
    statements = [hit for hit in hits if hit.rule.family == "unknown.statement"]
    words = {
        id(item.mention)
        for hit in statements
        for item in items[hit.start : hit.end]
        if isinstance(item, MentionItem) and item.is_word and item.key in known
    }
    return [
        mention
        for mention in mentions
        if id(mention) not in words or mention.kind != "text" or (mention.complete and mention.match == "exact")
    ]


def _check_question(options: tuple[str, ...], labels: tuple[str, ...], unknown: int | None) -> None:
    if not 2 <= len(options) <= 10:
        raise UsageError(f"options: {len(options)} of them; 2 to 10 can be read")
    if len(labels) != len(options):
        raise UsageError(f"labels: {len(labels)} of them for {len(options)} options; give one label an option")
    if unknown is not None and not 0 <= unknown < len(options):
        raise UsageError(f"unknown_index: {unknown} is no index into {len(options)} options")


@lru_cache(maxsize=64)
def _question_words(prompt: str, small: frozenset[str]) -> frozenset[str]:
    text = normalise(prompt).text
    end = max(text.rfind(sign) for sign in "?？؟")
    if end < 0:
        return frozenset()
    start = max(text.rfind(sign, 0, end) for sign in ".!?。\n:。！？")
    return frozenset(token.key for token in tokenise(text[start + 1 : end])) - small


def load_extractor(language: str, resources: Resources | None = None) -> Extractor:
    """The extractor of a language, compiled once a process and set of packs.

    Raises:
        UnknownNameError: where the language has no extractor pack.
        PackError: where a pack is wrong; file, key, value.
    """
    return _load(language, resources or Resources())


@lru_cache(maxsize=64)
def _load(language: str, resources: Resources) -> Extractor:
    packs = [read_extractor_pack(resources, language)]
    names = [language]
    if language != SECOND_LANGUAGE and resources.find("extractors", SECOND_LANGUAGE) is not None:
        packs.append(read_extractor_pack(resources, SECOND_LANGUAGE))
        names.append(SECOND_LANGUAGE)
    shared = read_shared_pack(resources)
    version = extractor_version([*names, "_shared", f"people/{language}"], resources)
    return Extractor(language, tuple(packs), shared, version, resources)


def extractor_version(names: Sequence[str], resources: Resources) -> str:
    """Engine version and a digest of the packs: what an extraction is stored under."""
    digests = [file_digest(path) for name in names if (path := resources.find("extractors", name)) is not None]
    return f"{ENGINE_VERSION}+{hashlib.sha256(' '.join(digests).encode()).hexdigest()[:12]}"


def extract(  # noqa: PLR0917 - the contract's order
    response: str,
    options: Sequence[str],
    labels: Sequence[str],
    language: str,
    unknown_index: int | None,
    aliases: Mapping[str, Sequence[str]] | None = None,
    prompt: str | None = None,
    *,
    finish_reason: str | None = None,
    resources: Resources | None = None,
) -> Extraction:
    """What a response was taken to mean.

    Args:
        response: The model's words, raw.
        options: The options' texts as shown, 2 to 10.
        labels: Their labels as shown, in the same order.
        language: The question's language.
        unknown_index: Place of the unknown option, or None where there is none.
        aliases: Language → the options' texts in it, tried where nothing else is found.
        prompt: What was sent, so that an echo of it is not taken for an answer.
        finish_reason: Why the text ends; `length` makes a missing answer `truncated`.
        resources: Where packs are looked for.

    Returns:
        Outcome, option and confidence, the rule that decided and where in the response its evidence stands.
        Pure: the same input gives the same output. Time grows with the length only.
    """
    extractor = load_extractor(language, resources)
    return extractor.extract(response, options, labels, unknown_index, aliases, prompt, finish_reason=finish_reason)
