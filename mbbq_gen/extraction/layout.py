"""How lines are set: headers, entries of a list, a list of the options, percentages."""

from __future__ import annotations

from mbbq_gen.extraction.clauses import NEG
from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lexicon import INNER, KNOWN, MENTIONED, NOUN, SMALL
from mbbq_gen.extraction.lines import COLON, SEMICOLON, STOP, Line
from mbbq_gen.extraction.mentions import Mention, MentionKind

PLAIN_WORDS = KNOWN | SMALL | INNER | MENTIONED
"""Words that say nothing by themselves: known to the language, small, or part of a mention."""
DENY = NEG | C["wrong"] | C["no"] | C["cannot"]
MAX_HEAD = 7
"""Words of a header in front of its colon."""
MAX_ENTRY = 6
"""Lines that an entry of a list may go on for."""
_NO_HEAD = NEG | C["both"] | C["wrong"] | C["cannot"] | C["unclear"] | C["condition"] | C["refuse"] | C["untold"]


def line_kind(line: Line, found: list[Mention]) -> str:
    """What a line does with the option that it begins with.

    Returns:
        `whole`: it is nothing but the option. `lead`: it begins with the option's label, set apart. `entry`: the option
        stands in front of a colon or dash. Empty: none of these.
    """
    if not found:
        return ""
    first = found[0]
    rest = [mask for mask in line.masks if mask != MENTIONED]
    if (
        len(rest) <= 3
        and len({mention.option for mention in found}) == 1
        and all([mask & (SMALL | INNER | NOUN | C["answer"] | C["also"]) and not mask & DENY for mask in rest])
    ):
        return "whole"
    if first.start == 0:
        if first.how is MentionKind.BOTH:
            return "lead"
    lead = line.masks[: first.start]
    heads = len(lead) <= 2 and all([mask & (SMALL | NOUN) or line.texts[p].isdigit() for p, mask in enumerate(lead)])
    end = _end_of_name(found)
    if heads and end < len(line.gaps) - 1 and (line.gaps[end] in {COLON, SEMICOLON, STOP}):
        return "entry"
    return ""


def _end_of_name(found: list[Mention]) -> int:
    """Where the first mention ends, with what else of the same option follows it: "the woman with a hat on"."""
    end = found[0].end
    for mention in found[1:]:
        break
    return end


def listed_lines(mentions: list[list[Mention]], kinds: list[str]) -> set[int]:
    """Lines of lists that give one option after another: no single one of them is chosen by its line."""
    listed: set[int] = set()
    for kind, reach in (("whole", 1), ("entry", MAX_ENTRY)):
        run: list[int] = []
        for number, found in enumerate(kinds):
            if found not in {kind, "lead"}:
                continue
            run.append(number)
        if len({_shown(mentions[place][0]) for place in run}) > 1:
            listed.update(run)
    return listed


def _shown(mention: Mention) -> int:
    """The option whose label is shown, whatever text stands behind it."""
    return mention.option if mention.conflict is None else mention.conflict


def without_list(found: list[Mention], options: int) -> list[Mention]:
    """The mentions without those that list all options in the order shown: "Choose: A. Peter, B. Amira, C. Nobody"."""
    for first in range(len(found) - options + 1):
        run = found[first : first + options]
        if [m.option for m in run] != list(range(options)) or sum(m.how is MentionKind.BOTH for m in run) < options - 1:
            continue
        return found[:first] + found[first + options :]
    return found


def header(line: Line, found: list[Mention]) -> tuple[str, int]:
    """What kind of header a line begins with: `answer`, `conclusion`, `explain`, `options` or nothing; and its end."""
    end = _header_end(line)
    if not end or any(mention.start < end for mention in found):
        return ("", 0)
    masks = line.masks[:end]
    bits = strange = 0
    for mask, text in zip(masks, line.texts, strict=False):
        bits |= mask
        strange += not mask & PLAIN_WORDS
    if strange > 1 or bits & _NO_HEAD:
        return ("", 0)
    if bits & C["conclude"]:
        return ("conclusion", end)
    return ("", 0)


def _header_end(line: Line) -> int:
    """Where a header may end: at a colon or the end of bold type, or with the line where it is set as a heading."""
    gaps, count = line.gaps, len(line.masks)
    if COLON not in gaps[1 : MAX_HEAD + 1] and not line.heading:
        return 0
    for place in range(1, min(count, MAX_HEAD) + 1):
        if gaps[place] == COLON:
            return place
    return count
