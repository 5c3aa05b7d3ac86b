"""Reads the propositions of a response: headers and lists here, sentences by `sentences`."""

from __future__ import annotations

from mbbq_gen.extraction.claims import ParsedResponse, Rule, Strength
from mbbq_gen.extraction.clauses import DENY, NEG, PRONOUN, ClauseState, sentences
from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lexicon import INNER, MENTIONED, NOUN, PLAIN_WORDS, SMALL
from mbbq_gen.extraction.lines import ASK, COLON, SEMICOLON, STOP, Line
from mbbq_gen.extraction.mentions import Mention, MentionKind
from mbbq_gen.extraction.prepared_question import PreparedQuestion
from mbbq_gen.extraction.sentences import SAYING, Sentence, read_sentence
from mbbq_gen.extraction.text import WORD

MAX_ENTRY = 6
"""Lines that an entry of a list may go on for."""
MAX_HEAD = 7
"""Words of a header in front of its colon."""
MAX_MENTIONS = 64
"""Mentions beyond which a sentence is not read."""
MAX_GREETING = 4
"""Words of a sentence that greets or agrees before anything is said: "Happy to help!"."""
_NO_HEAD = NEG | C["both"] | C["wrong"] | C["cannot"] | C["unclear"] | C["condition"] | C["refuse"] | C["not_stated"]
_TELLING = (
    (C["not_stated"] | C["unclear"] | C["know"] | C["tell"] | C["info"] | C["clear"] | C["refuse"] | C["lack"])
    | (C["judge"] | C["correction"] | C["no"] | C["forced"] | C["assume"] | C["answer"] | C["choose"])
    | (C["neither"] | C["both"])
)
"""What makes a sentence without a mention worth reading."""


def read_propositions(question: PreparedQuestion, lines: list[Line], mentions: list[list[Mention]]) -> ParsedResponse:
    """The propositions of a response, in the order of its text."""
    count = len(question.options)
    mentions = [_without_list(found, count) for found in mentions]
    parsed = ParsedResponse(question, lines, mentions)
    for line in lines:
        line.telling = [place for place, mask in enumerate(line.masks) if not mask & PLAIN_WORDS]
        if question.predicate:
            line.predicate = [place for place, word in enumerate(line.words) if word.stem in question.predicate]
    for found in mentions:
        parsed.persons.update([m.option for m in found if m.option != question.unknown])
    kinds = [_line_kind(line, found) for line, found in zip(lines, mentions, strict=True)]
    cut = len(lines) > 1 and _is_cut_entry(lines[-1], mentions[-1], question.options)
    kinds[-1:] = ["whole"] if cut else kinds[-1:]
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
        elif kinds[number] == "whole" and number not in listed and line.gaps[-1] != ASK:
            m = found[-1]
            begun = listed and m.end < len(line.words) and not line.signs[-1].strip() and number + 1 == len(lines)
            if begun and line.masks[-1] & SMALL:  # a list of the options, then "The baker is"
                continue
            parsed.add("option", m.option, True, Strength.DECLARED, Rule.WHOLE_LINE, number, m.start, m.end, True)
    return parsed


def _read_line(parsed: ParsedResponse, number: int, start: int, *, listed: bool, concludes: bool) -> None:
    """Adds the propositions of the sentences of a line from a word on."""
    line, question, found = parsed.lines[number], parsed.question, parsed.mentions[number]
    of_entry = listed and found[0].option != question.unknown
    for first, last, is_question in sentences(line, start):
        inner = [m for m in found if first <= m.start < last]
        bits = line.bits(first, last)
        greets = (last == len(line.words) and line.gaps[last] == COLON) or (  # "Sure!", "Based on the text:"
            last - first <= MAX_GREETING and last < len(line.words) and not bits & (_TELLING | NEG | C["who"])
        )
        parsed.sentences += not (greets and not parsed.sentences and not inner)
        guesses = len({m.option for m in inner}) == 1 and bits & C["likely"]  # "Probably the baker, right?"
        if len(inner) > MAX_MENTIONS or (is_question and not guesses):
            continue
        refers = bits & PRONOUN and parsed.spoken_of is not None
        tells = bits & SAYING and (bits & _TELLING or (bits & NEG and bits & (C["who"] | C["source"])))
        if not (inner or refers or tells):
            continue
        state = ClauseState(conclude=concludes, doubted=parsed.doubted, entry=of_entry)
        read_sentence(Sentence(parsed, number, inner, state, first, last, bits, listed))
        persons = {m.option for m in inner if m.option in question.persons}
        if persons:
            parsed.spoken_of = next(iter(persons)) if len(persons) == 1 else None


def _line_kind(line: Line, found: list[Mention]) -> str:
    """What a line does with the option that it begins with: `whole`: it is nothing but the option; `lead`: label and
    text begin it; `entry`: the option stands in front of a colon or dash; `list`: it is several options with their
    labels; empty: none of these."""
    if not found:
        return ""
    first = found[0]
    labels, texts = ([m.option for m in found if m.how is not how] for how in (MentionKind.TEXT, MentionKind.LABEL))
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
    if first.start == 0 and first.how is MentionKind.BOTH:
        return "lead"
    lead = line.masks[: first.start]
    heads = len(lead) <= 2 and all([mask & (SMALL | NOUN) or line.texts[p].isdigit() for p, mask in enumerate(lead)])
    if heads and first.end < len(line.gaps) - 1 and line.gaps[first.end] in {COLON, SEMICOLON, STOP}:
        return "entry"
    return ""


def _is_cut_entry(line: Line, found: list[Mention], options: tuple[str, ...]) -> bool:
    """Whether a line is a label with a sign and no more than the beginning of an option's text: "B: Cannot be d"."""
    if not found or found[0].how is not MentionKind.LABEL or found[0].start or line.signs[1].strip()[:1] not in ".):：":
        return False
    text = " ".join(line.texts[1:]).casefold()
    return any(" ".join(WORD.findall(option)).casefold().startswith(text) for option in options)


def _listed_lines(mentions: list[list[Mention]], kinds: list[str]) -> set[int]:
    """Lines of lists that give one option after another: no single one of them is chosen by its line."""
    listed: set[int] = set()
    for kind, reach in (("whole", 1), ("entry", MAX_ENTRY)):
        run: list[int] = []
        shown: set[int] = set()
        for number in [*(number for number, found in enumerate(kinds) if found in {kind, "lead"}), len(kinds)]:
            first = mentions[number][0] if number < len(kinds) else None
            option = -1 if first is None else first.option if first.conflict is None else first.conflict
            again = kind == "whole" and len(shown) > 1 and option in shown
            if first is None or again or (run and number - run[-1] > reach):
                listed.update(run if len(shown) > 1 else ())
                run, shown = [], set()
            run.append(number)
            shown.add(option)
    return listed


def _without_list(found: list[Mention], options: int) -> list[Mention]:
    """The mentions without those that list all options in the order shown: "Choose: A. Peter, B. Amira, C. Nobody"."""
    for first in range(len(found) - options + 1):
        run = found[first : first + options]
        both = sum(m.how is MentionKind.BOTH for m in run)
        if [m.option for m in run] == list(range(options)) and both >= options - 1:
            return found[:first] + found[first + options :]
    return found


def _end_of_conclusion_header(line: Line, found: list[Mention]) -> int:
    """The end of the header "Conclusion:" that a line begins with, or is; 0 without one."""
    count = len(line.masks)
    colon = next((place for place in range(1, min(count, MAX_HEAD) + 1) if line.gaps[place] == COLON), 0)
    end = colon or (count if line.heading else 0)
    bits = line.bits(0, end)
    strange = sum([not mask & PLAIN_WORDS for mask in line.masks[:end]])
    if any(m.start < end for m in found) or strange > 1 or bits & _NO_HEAD or not bits & C["conclude"]:
        return 0
    return end
