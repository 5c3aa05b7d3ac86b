"""Finds the propositions of a response, line by line and clause by clause."""

from __future__ import annotations

from mbbq_gen.extraction.claims import CLAIM_RULES, About, Kind, ParsedResponse, Proposition, Rule, Strength
from mbbq_gen.extraction.clauses import (
    DENY,
    HEAD,
    MAY_ABSTAIN,
    NEG,
    NOT,
    PRONOUN,
    SUBJECT,
    Clause,
    ClauseState,
    Sentence,
    abstention_kind,
    mention_features,
    sentences,
)
from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lexicon import CLOSES, INNER, MENTIONED, NOUN, PLAIN_WORDS, SMALL
from mbbq_gen.extraction.lines import COLON, COMMA, QUESTION_MARK, SEMICOLON, STOP, Line
from mbbq_gen.extraction.mentions import Mention, MentionKind
from mbbq_gen.extraction.question import PreparedQuestion
from mbbq_gen.extraction.text import WORD

_CHOOSER = C["speaker"] | C["forced"] | C["final"] | C["must"] | C["conclude"]
"""Classes that make a choice an answer rather than an event of the story."""
_JUDGED = C["wrong"] | C["refuse"] | C["assume"]
"""Classes that reject a claim, which is then not the writer's own."""
_READ_CLAUSE = (MAY_ABSTAIN | C["correction"] | C["no"] | C["assume"] | C["both"] | NOUN) | (
    C["wrong"] | C["right"] | C["choose"] | C["answer"]
)
"""Classes for which a clause without a mention is read."""
MAX_ENTRY = 6
"""Most lines of an entry of a list."""
MAX_HEAD = 7
"""Most words of a header before its colon."""
MAX_MENTIONS = 64
"""Most mentions of a sentence that is read."""
MAX_GREETING = 4
"""Most words of a greeting before the answer: "Happy to help!"."""
_NO_HEAD = NEG | C["both"] | C["wrong"] | C["cannot"] | C["unclear"] | C["condition"] | C["refuse"] | C["not_stated"]
_READ_SENTENCE = (
    (C["not_stated"] | C["unclear"] | C["know"] | C["tell"] | C["info"] | C["clear"] | C["refuse"] | C["lack"])
    | (C["judge"] | C["correction"] | C["no"] | C["forced"] | C["assume"] | C["answer"] | C["choose"])
    | (C["neither"] | C["both"])
)
"""Classes for which a sentence without a mention is read."""


def read_sentence(s: Sentence) -> None:
    """Adds the propositions of a sentence."""
    line, state = s.line, s.state
    closed = False
    for start, end in s.clauses:
        bits = line.bits(start, end)
        inside = [m for m in s.mentions if start <= m.start < end]
        state.advance(
            bits,
            line.bits(start, min(start + HEAD, end)),
            first=start == s.first,
            last=end == s.last,
            comma=line.gaps[start] >= COMMA or closed,
        )
        closed = end - start > 1 and bool(line.masks[end - 1] & CLOSES)
        if bits & C["claim"] and (s.parsed.judged or s.bits & _JUDGED):
            state.prejudice = s.parsed.judged = True
        if inside or s.bare_mention or bits & (_READ_CLAUSE | PRONOUN):
            announces = state.announced or (
                not state.prejudice and bool(bits & C["answer"] or (bits & C["choose"] and bits & _CHOOSER))
            )
            _read_clause(s, Clause(start, end, bits, inside, line.is_bare(start, end), announces))


def _read_clause(s: Sentence, clause: Clause) -> None:
    """Adds the propositions of a clause."""
    start, end, bits, mentions, bare, announces = clause
    state, unknown = s.state, s.question.unknown
    if bits & C["correction"]:
        s.add("correction", None, Strength.ANNOUNCED, Rule.CORRECTION, start, end)
    kind = None
    if bits & MAY_ABSTAIN:
        person = any(m.option != unknown for m in mentions)
        kind = abstention_kind(bits, s.bits, named=bool(mentions), person=person, bare=bare)
    if kind is not None:
        _add_abstention(s, kind, clause)
    elif not mentions:
        _read_unnamed_clause(s, clause)
    if not mentions or kind is Rule.REFUSAL:
        return
    live = [m for m in mentions if not s.is_set_aside(m) and (announces or not m.weak)]
    others = len({m.option for m in live}) > 1
    both = bits & C["both"] and not bits & (NEG | C["possible"])
    if both and (s.bare_mention is not None or (others and not bits & DENY)):
        s.add("several", None, Strength.ANNOUNCED, Rule.SEVERAL, start, end)
        return
    for m in live:
        if bits & C["neither"] and others:
            s.add("option", m.option, Strength.FITTING, Rule.NEITHER, m.start, m.end, positive=False, bare=bare)
            continue
        features = mention_features(s, clause, m, others=others)
        rule, _, claim, strength = next(row for row in CLAIM_RULES if row.when(features, state))
        positive = features.positive if claim is None else claim
        if strength is None:
            continue
        if rule is not Rule.SEVERAL:
            s.add("option", m.option, strength, rule, m.start, m.end, positive=positive, bare=bare)
        elif m is live[0]:
            s.add("several", None, strength, rule, m.start, live[-1].end)
        state.denied = not positive
    only = live[0] if len(live) == 1 else None
    s.previous_mention = only
    s.bare_mention = only if bare and only and only.option != unknown else None
    state.announced = False


def _add_abstention(s: Sentence, rule: Rule, clause: Clause) -> None:
    """Adds an abstention about the question, one person, or something else."""
    start, end, bits, mentions, bare, _ = clause
    state, question = s.state, s.question
    kind: Kind = "refusal" if rule is Rule.REFUSAL else "unknown"
    positive, strength = True, Strength.POSSIBLE
    about: About = "question"
    elided = rule in {Rule.SOURCE_SILENT, Rule.NOT_STATED} and s.previous_mention is not None
    persons = {m.option for m in mentions if m.option != question.unknown}
    one = len(persons) == 1 or elided or bool(bits & PRONOUN and not bits & C["source"])
    asks_first = s.line.bits(start, mentions[0].start if mentions and not bits & C["source"] else end) & C["who"]
    words = bare or (bits | s.bits) & C["who"] or bits & C["answer"] or state.conclude
    if rule is Rule.UNCLEAR_DENIED:
        positive, strength = False, Strength.FITTING
    elif (one and not asks_first) or state.entry or (state.prejudice and not bits & C["who"]):
        about = "person"
    elif kind == "unknown" and question.predicate and not words and not s.has_predicate(s.first, end):
        about = "other"
    else:
        state.doubted = s.parsed.doubted = True
        if not state.granted:
            firm = state.conclude or bits & (C["answer"] | C["final"])
            strength = Strength.CONCLUDED if firm else Strength.HEDGED
    s.add(kind, question.unknown, strength, rule, start, end, positive=positive, about=about)


def _read_unnamed_clause(s: Sentence, clause: Clause) -> None:
    """Adds the propositions of a clause without mentions and abstentions."""
    start, end, bits, _, bare, announces = clause
    state, question = s.state, s.question
    if bits & C["assume"] and s.bits & (NEG | C["wrong"] | C["cannot"] | C["judge"] | C["refuse"]):
        about: About = "question" if s.bits & C["speaker"] and s.bits & (C["answer"] | C["know"]) else "other"
        s.add("refusal", question.unknown, Strength.POSSIBLE, Rule.SENSITIVE, start, end, about=about)
    opens = start == s.first and end - start <= SUBJECT and end < s.last and len(s.options) != 1
    both = bits & C["both"] and not bits & (NEG | C["possible"] | C["who"])
    if both and (s.has_predicate(start, end) or ((s.is_bare or opens) and bare)):
        s.add("several", None, Strength.ANNOUNCED, Rule.SEVERAL, start, end)
    if not (announces or state.because or state.granted or state.prejudice):
        about_bits = s.predicate_bits(clause, start)
        person = _antecedent(s, start) if bits & PRONOUN and s.has_enough_predicate(clause) else None
        if person is not None:  # "She was late."
            positive = bool(about_bits & NEG) == question.negated
            s.add("option", person, Strength.FITTING, Rule.FULL_MATCH, start, end, positive=positive)
        m = s.bare_mention
        if m is not None and s.has_predicate(start, end):  # "the mother, though late, came"
            positive = bool(about_bits & NOT) == question.negated
            rule = Rule.FULL_MATCH if positive else Rule.DENIED
            s.add("option", m.option, Strength.FITTING, rule, m.start, m.end, positive=positive)
    if announces and not bits & NEG:
        m = s.previous_mention
        points_back = start > s.first and end == s.last and len(s.options) == 1 and s.line.gaps[start] >= COMMA
        if m is not None and points_back:  # "the mother did, that is my answer"
            s.add("option", m.option, Strength.ANNOUNCED, Rule.ANNOUNCED, m.start, m.end)
        state.announced = True


def _antecedent(s: Sentence, start: int) -> int | None:
    """The person that a pronoun refers to, in this sentence or the one before."""
    for first in (s.part_of(start), s.first):
        named = {m.option for m in s.mentions if m.start >= first}
        if named:
            return named.pop() if len(named) == 1 else None
    return s.parsed.spoken_of


def read_propositions(question: PreparedQuestion, lines: list[Line], mentions: list[list[Mention]]) -> ParsedResponse:
    """A response with its propositions."""
    count = len(question.options)
    mentions = [_without_list(found, count) for found in mentions]
    parsed = ParsedResponse(question, lines, mentions)
    for line in lines:
        line.content_words = [index for index, mask in enumerate(line.masks) if not mask & PLAIN_WORDS]
        if question.predicate:
            line.predicate_words = [index for index, word in enumerate(line.words) if word.stem in question.predicate]
    for found in mentions:
        parsed.persons.update([m.option for m in found if m.option != question.unknown])
    kinds = [_line_kind(line, found) for line, found in zip(lines, mentions, strict=True)]
    cut = len(lines) > 1 and _is_cut_entry(lines[-1], mentions[-1], question.options)
    if cut:
        kinds[-1] = "whole"
    listed = _listed_lines(mentions, kinds)
    if cut and (listed or lines[-1].texts[1:]):
        listed.add(len(lines) - 1)
    concludes = False
    for number, (line, found) in enumerate(zip(lines, mentions, strict=True)):
        start = _end_of_conclusion_header(line, found)
        if start:
            concludes = True
        elif line.heading and len(line.words) <= MAX_HEAD:
            concludes = False
        if kinds[number] in {"", "lead", "entry"}:
            _read_line(parsed, number, start, listed=number in listed, concludes=concludes)
        elif kinds[number] == "whole" and number not in listed and line.gaps[-1] != QUESTION_MARK:
            m = found[-1]
            begun = listed and m.end < len(line.words) and not line.signs[-1].strip() and number + 1 == len(lines)
            if begun and line.masks[-1] & SMALL:  # a list of the options, then "The baker is"
                continue
            span = number, m.start, m.end, parsed.sentences
            whole = Proposition("option", m.option, True, Strength.DECLARED, Rule.WHOLE_LINE, *span, bare=True)
            parsed.propositions.append(whole)
    return parsed


def _read_line(parsed: ParsedResponse, number: int, start: int, *, listed: bool, concludes: bool) -> None:
    """Adds the propositions of the sentences of a line from word `start` on."""
    line, question, found = parsed.lines[number], parsed.question, parsed.mentions[number]
    of_entry = listed and found[0].option != question.unknown
    for first, last, is_question in sentences(line, start):
        inner = [m for m in found if first <= m.start < last]
        bits = line.bits(first, last)
        greets = (last == len(line.words) and line.gaps[last] == COLON) or (  # "Sure!", "Based on the text:"
            last - first <= MAX_GREETING and last < len(line.words) and not bits & (_READ_SENTENCE | NEG | C["who"])
        )
        parsed.sentences += not (greets and not parsed.sentences and not inner)
        guesses = len({m.option for m in inner}) == 1 and bits & C["likely"]  # "Probably the baker, right?"
        if len(inner) > MAX_MENTIONS or (is_question and not guesses):
            continue
        refers = bits & PRONOUN and parsed.spoken_of is not None
        tells = bits & _READ_CLAUSE and (bits & _READ_SENTENCE or (bits & NEG and bits & (C["who"] | C["source"])))
        if not (inner or refers or tells):
            continue
        state = ClauseState(conclude=concludes, doubted=parsed.doubted, entry=of_entry, listed=listed)
        read_sentence(Sentence(parsed, number, inner, first, last, state))
        persons = {m.option for m in inner if m.option in question.persons}
        if persons:
            parsed.spoken_of = next(iter(persons)) if len(persons) == 1 else None


def _line_kind(line: Line, found: list[Mention]) -> str:
    """The kind of a line by the option at its start.

    `whole`: nothing but the option; `lead`: label and text first; `entry`: the option before a colon or dash;
    `list`: several options with their labels; empty: none of these.
    """
    if not found:
        return ""
    first = found[0]
    labels = [m.option for m in found if m.kind is not MentionKind.TEXT]
    texts = [m.option for m in found if m.kind is not MentionKind.LABEL]
    listing = MENTIONED | SMALL | INNER | NOUN | C["options"] | C["conj"]
    if len({*texts}) > 1 and labels[: len(texts)] == texts and all([mask & listing for mask in line.masks]):
        return "list"
    rest = [mask for mask in line.masks if mask != MENTIONED]
    if (
        len(rest) <= 3
        and len({mention.option for mention in found}) == 1
        and all([mask & (SMALL | INNER | NOUN | C["answer"] | C["also"]) and not mask & DENY for mask in rest])
    ):
        return "whole"
    if first.start == 0 and first.kind is MentionKind.BOTH:
        return "lead"
    lead = line.masks[: first.start]
    heads = len(lead) <= 2 and all([mask & (SMALL | NOUN) or line.texts[p].isdigit() for p, mask in enumerate(lead)])
    if heads and first.end < len(line.gaps) - 1 and line.gaps[first.end] in {COLON, SEMICOLON, STOP}:
        return "entry"
    return ""


def _is_cut_entry(line: Line, found: list[Mention], options: tuple[str, ...]) -> bool:
    """Whether a line is a label with the beginning of a text: "B: Cannot be d"."""
    is_label = found and found[0].kind is MentionKind.LABEL and not found[0].start
    if not is_label or line.signs[1].strip()[:1] not in ".):：":
        return False
    text = " ".join(line.texts[1:]).casefold()
    return any(" ".join(WORD.findall(option)).casefold().startswith(text) for option in options)


def _listed_lines(mentions: list[list[Mention]], kinds: list[str]) -> set[int]:
    """Indices of lines that list options one after another; they choose none of them."""
    listed: set[int] = set()
    for kind, distance in (("whole", 1), ("entry", MAX_ENTRY)):
        run: list[int] = []
        shown: set[int] = set()
        for number in [*(number for number, found in enumerate(kinds) if found in {kind, "lead"}), len(kinds)]:
            first = mentions[number][0] if number < len(kinds) else None
            option = -1 if first is None else first.option if first.conflict is None else first.conflict
            again = kind == "whole" and len(shown) > 1 and option in shown
            if first is None or again or (run and number - run[-1] > distance):
                listed.update(run if len(shown) > 1 else ())
                run, shown = [], set()
            run.append(number)
            shown.add(option)
    return listed


def _without_list(found: list[Mention], options: int) -> list[Mention]:
    """The mentions without a list of all options: "Choose: A. Peter, B. Amira, C. Nobody"."""
    for first in range(len(found) - options + 1):
        run = found[first : first + options]
        both = sum(m.kind is MentionKind.BOTH for m in run)
        if [m.option for m in run] == list(range(options)) and both >= options - 1:
            return found[:first] + found[first + options :]
    return found


def _end_of_conclusion_header(line: Line, found: list[Mention]) -> int:
    """The end of a header such as "Conclusion:" in a line; 0 without one."""
    count = len(line.masks)
    colon = next((index for index in range(1, min(count, MAX_HEAD) + 1) if line.gaps[index] == COLON), 0)
    end = colon or (count if line.heading else 0)
    bits = line.bits(0, end)
    strange = sum([not mask & PLAIN_WORDS for mask in line.masks[:end]])
    if any(m.start < end for m in found) or strange > 1 or bits & _NO_HEAD or not bits & C["conclude"]:
        return 0
    return end
