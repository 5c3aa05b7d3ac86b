"""How lines are set: headers, entries of a list, a list of the options, percentages."""

from __future__ import annotations

from itertools import pairwise

from mbbq_gen.extraction.clauses import NEG
from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lexicon import INNER, KNOWN, MENTIONED, NOUN, SMALL
from mbbq_gen.extraction.lines import COLON, COMMA, SEMICOLON, STOP, Line
from mbbq_gen.extraction.mentions import Mention, MentionKind
from mbbq_gen.extraction.normalise import WORD

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
    if not found or found[0].option < 0:
        return ""
    first = found[0]
    rest = [mask for mask in line.masks if mask != MENTIONED]
    if (
        len(rest) <= 3
        and len({mention.option for mention in found}) == 1
        and all([mask & (SMALL | INNER | NOUN | C["answer"] | C["also"]) and not mask & DENY for mask in rest])
    ):
        return "whole"
    if first.start == 0 and not first.weak and not first.joined and len(line.masks) > 2:
        ruled_out = line.gaps[first.end] == COLON and line.masks[first.end] & (C["wrong"] | C["no"])
        if first.how is MentionKind.LABEL and line.gaps[first.end] in {COLON, SEMICOLON, STOP} and not ruled_out:
            return "lead"
        if first.how is MentionKind.BOTH and line.signs[1].strip()[:1] in {".", ")", ":", "]", "-", "–", "—"}:
            return "lead"
    lead = line.masks[: first.start]
    heads = len(lead) <= 2 and all([mask & (SMALL | NOUN) or line.texts[p].isdigit() for p, mask in enumerate(lead)])
    end = _end_of_name(line, found)
    if heads and end < len(line.gaps) - 1 and line.gaps[end] in {COLON, SEMICOLON, STOP}:
        return "entry"
    return ""


def _end_of_name(line: Line, found: list[Mention]) -> int:
    """Where the first mention ends, with what else of the same option follows it: "the woman with a hat on"."""
    end = found[0].end
    for mention in found[1:]:
        small = all([mask & SMALL for mask in line.masks[end : mention.start]])
        if mention.option != found[0].option or not small or max(line.gaps[end : mention.start + 1]) >= COMMA:
            break
        end = mention.end
    return end


def is_cut_entry(line: Line, found: list[Mention], options: tuple[str, ...]) -> bool:
    """Whether a line is a label with a sign and no more than the beginning of an option's text: "B: Cannot be d"."""
    if not found or found[0].how is not MentionKind.LABEL or found[0].start or line.signs[-1].strip(" :.)"):
        return False
    sign = line.signs[1].strip()[:1]
    if sign not in {":", ".", ")", "："}:
        return False
    text = " ".join(line.texts[1:]).casefold()
    return any(" ".join(WORD.findall(option)).casefold().startswith(text) for option in options)


def listed_lines(lines: list[Line], mentions: list[list[Mention]], kinds: list[str]) -> set[int]:
    """Lines of lists that give one option after another: no single one of them is chosen by its line."""
    listed: set[int] = set()
    for kind, reach in (("whole", 1), ("entry", MAX_ENTRY)):
        run: list[int] = []
        for number, found in enumerate(kinds):
            if found not in {kind, "lead"} or header(lines[number], mentions[number])[0]:
                continue
            named = {_shown(mentions[place][0]) for place in run}
            again = kind == "whole" and len(named) > 1 and _shown(mentions[number][0]) in named
            if (
                kind == "whole"
                and run
                and {mentions[place][0].how for place in (number, run[-1])} == {MentionKind.LABEL, MentionKind.TEXT}
            ):
                listed.update(run if len(named) > 1 else ())
                run = []
            if run and (number - run[-1] > reach or again):
                listed.update(run if len(named) > 1 else ())
                run = []
            run.append(number)
        if len({_shown(mentions[place][0]) for place in run}) > 1:
            listed.update(run)
    return listed


def _shown(mention: Mention) -> int:
    """The option whose label is shown, whatever text stands behind it."""
    return mention.option if mention.conflict is None else mention.conflict


def is_inline_list(line: Line, found: list[Mention]) -> bool:
    """Whether a line is nothing but several options with their labels: "A. The tailor B. The baker"."""
    if len(found) < 2 or len({m.option for m in found}) < 2 or any(m.how is MentionKind.PLACE for m in found):
        return False
    labelled = [m for m in found if m.how is not MentionKind.TEXT]
    texts = [m for m in found if m.how is not MentionKind.LABEL]
    shown = [m.option for m in labelled]
    if len(texts) < 2 or len(set(shown)) < len(shown) or shown[: len(texts)] != [m.option for m in texts]:
        return False
    return all([mask & (MENTIONED | SMALL | INNER | C["options"] | NOUN | C["conj"]) for mask in line.masks])


def without_list(line: Line, found: list[Mention], options: int) -> list[Mention]:
    """The mentions without those that list all options in the order shown: "Choose: A. Peter, B. Amira, C. Nobody"."""
    for first in range(len(found) - options + 1):
        run = found[first : first + options]
        if [m.option for m in run] != list(range(options)) or sum(m.how is MentionKind.BOTH for m in run) < options - 1:
            continue
        between = [mask for one, two in pairwise(run) for mask in line.masks[one.end : two.start]]
        last = run[-1].end
        ends = last == len(line.masks) or line.gaps[last] >= COMMA or line.masks[last] & C["answer"]
        plain = all([mask & (SMALL | INNER | NOUN | C["conj"]) and not mask & NEG for mask in between])
        if options > 2 and ends and plain:
            return found[:first] + found[first + options :]
    return found


def header(line: Line, found: list[Mention]) -> tuple[str, int]:
    """What kind of header a line begins with: `answer`, `conclusion`, `explain`, `options` or nothing; and its end."""
    end = _header_end(line)
    if not end or any(mention.start < end for mention in found):
        return "", 0
    masks = line.masks[:end]
    bits = strange = 0
    for mask, text in zip(masks, line.texts, strict=False):
        bits |= mask
        strange += not (mask & PLAIN_WORDS or text.isdecimal())
    if strange > 1 or (strange and end < 3 and not (line.heading and bits & C["answer"])) or bits & _NO_HEAD:
        return "", 0
    if bits & C["explain"]:
        return "explain", end
    if _heads_options(masks, line.texts, bits):
        return "options", end
    if bits & C["conclude"] or (bits & C["final"] and not bits & (C["answer"] | C["choose"] | NOUN)):
        return "conclusion", end
    if bits & (C["answer"] | C["choose"] | C["right"] | NOUN) and (not strange or line.heading):
        return "answer", end
    return "", 0


def _heads_options(masks: list[int], texts: list[str], bits: int) -> bool:
    """Whether a header heads the options or repeats the question; "based on the context, the answer is" does not."""
    if not bits & C["options"] or bits & (C["right"] | C["final"]):
        return False
    if bits & C["answer"] and not any([mask & C["options"] and not mask & C["source"] for mask in masks]):
        return False
    plain = C["options"] | SMALL | INNER | NOUN | C["answer"]
    return all([mask & plain or text.isdecimal() for mask, text in zip(masks, texts, strict=False)])


def _header_end(line: Line) -> int:
    """Where a header may end: at a colon or the end of bold type, or with the line where it is set as a heading."""
    gaps, count = line.gaps, len(line.masks)
    if COLON not in gaps[1 : MAX_HEAD + 1] and not line.heading and "**" not in line.raw:
        return 0
    bold = "**" in line.signs[0]
    for place in range(1, min(count, MAX_HEAD) + 1):
        if gaps[place] == COLON or (bold and place < count and "**" in line.signs[place]):
            return place
    return count if line.heading and count <= MAX_HEAD and gaps[count] < STOP else 0
