"""The story of one extraction as text for a terminal: the response with its marks, what won, why the others lost.

    response (63 characters)
      It wasn't ⟦1 the tailor⟧, it was ⟦2✔ the baker⟧.

    read as   B: The baker   (option, confidence high, rule contrast)
    because   chosen over the other

    ✔ 2  the baker    B: The baker    contrast, strength 4: chosen over the other
         extractors/en.toml:141  relations.contrast  not {x} (but|it was) {y}
    ✗ 1  the tailor   A: The tailor   negated: ruled out by the sentence
         extractors/en.toml:120  relations.negated  not {x}

Marks are signs where colours can't be shown, and colours where they can. Whatever the response holds, it is shown and
never obeyed (`plain_text.visible`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from mbbq_gen.core.records import ContinuationScore
from mbbq_gen.core.text import shortened, visible_text
from mbbq_gen.extraction.simple import LENGTHS, PRIOR, worth
from mbbq_gen.report.score_tables import OUTCOME_TITLES, STANCE_TITLES
from mbbq_gen.report.tables import text_table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from mbbq_gen.extraction.explain import Candidate, Explanation, Source
    from mbbq_gen.extraction.reasoning import ReasoningExtraction


SHOWN_CANDIDATES = 20
"""Candidates that are listed; JSON has them all."""
LONG_STRETCH, KEPT_ENDS = 600, 200
"""Of a stretch without marks that is longer than the first, only so many characters at each end are shown."""

_WON, _LOST, _EVIDENCE, _ASIDE = "bold green", "yellow", "underline", "dim"


@dataclass(frozen=True)
class _Piece:
    """A stretch of the response in which nothing begins or ends."""

    start: int
    end: int
    candidate: int | None
    """Number of the candidate that it belongs to."""
    zone: str | None
    is_evidence: bool


def print_explanation(explanation: Explanation, console: Console) -> None:
    """Prints the whole story."""
    from rich.text import Text

    coloured = console.is_terminal and not console.no_color
    console.print(f"\nresponse ({len(explanation.response):,} characters)", style="bold")
    lines = response_text(explanation, coloured=coloured).split("\n", allow_blank=True)
    console.print(Text("\n").join(Text("  ").append_text(line) for line in lines))
    console.print()
    found = explanation.extraction
    read_as = chosen_text(found.option, explanation.labels, explanation.options)
    facts = f"{OUTCOME_TITLES[found.outcome]}, confidence {found.confidence}, rule {found.rule}"
    console.print(f"read as   {read_as}   ({facts})", style="bold")
    console.print(f"because   {_because(explanation)}")
    if found.conflicts:
        console.print(f"against   {', '.join(found.conflicts)}")
    console.print()
    numbered = list(enumerate(explanation.candidates, start=1))
    numbered.sort(key=lambda entry: (not is_winner(entry[1], explanation), -entry[1].tier, entry[0]))
    for number, candidate in numbered[:SHOWN_CANDIDATES]:
        won = is_winner(candidate, explanation)
        state = candidate.standing if candidate.standing != "live" else candidate.rule or "named"
        tier = f", strength {candidate.tier}" if candidate.tier else ""
        match = f" ({candidate.match})" if candidate.match not in {"exact", ""} else ""
        console.print(
            f"{'✔' if won else '✗'} {number:<3} {shortened(candidate.text, 60)}{match}  →  "
            f"{_meaning(candidate, explanation)}",
            style=_WON if won else _LOST,
        )
        is_left_over = candidate.status == "won" and not won
        why = "ruled out; it leaves the one that was read" if is_left_over else candidate.reason
        console.print(f"      {state}{tier}: {why}")
        if candidate.source is not None:
            console.print(f"      {_source_text(candidate.source)}", style=_ASIDE)
    if len(numbered) > SHOWN_CANDIDATES:
        console.print(f"and {len(numbered) - SHOWN_CANDIDATES:,} more candidates that lost; --json has them all")
    if not numbered:
        console.print("no candidates")
    if explanation.phrases:
        sources = dict.fromkeys(_source_text(mark.source) for mark in explanation.phrases)
        console.print(f"\npack lines found: {len(sources)}", style="bold")
        for text in list(sources)[:SHOWN_CANDIDATES]:
            console.print(f"  {text}")
    console.print(f"\nextractor {explanation.version}, language {explanation.language}", style=_ASIDE)


def _because(explanation: Explanation) -> str:
    """Why the response was read so, in a few words."""
    from mbbq_gen.extraction.claims import WHY

    found = explanation.extraction
    if found.option is None:
        return explanation.decision
    won = [candidate.reason for candidate in explanation.candidates if is_winner(candidate, explanation)]
    reasons = [WHY[part] for part in found.rule.split(":") if part in WHY]
    return next(iter([*won, *reasons]), explanation.decision)


def chosen_text(option: int | None, labels: Sequence[str], options: Sequence[str]) -> str:
    """An option as it was shown: `B: The baker`; `no option` where there is none."""
    return "no option" if option is None else f"{labels[option]}: {shortened(options[option], 80)}"


def is_winner(candidate: Candidate, explanation: Explanation) -> bool:
    """Whether the candidate is what was read: what is only left over where others were ruled out has none."""
    chosen = explanation.extraction.option
    return candidate.status == "won" and (not candidate.options or chosen is None or candidate.options == (chosen,))


def print_reasoning_trace(
    reasoning: str, extraction: ReasoningExtraction, labels: Sequence[str], options: Sequence[str], console: Console
) -> None:
    """Prints what a reasoning trace chooses and why, and each sentence that says how it comes to it."""
    cut = ", cut off" if extraction.is_cut else ""
    console.print(
        f"\nthought ({extraction.characters:,} characters, in {extraction.language or '?'}{cut})", style="bold"
    )
    settled = chosen_text(extraction.option, labels, options)
    facts = f"{OUTCOME_TITLES[extraction.outcome]}, confidence {extraction.confidence}, rule {extraction.rule}"
    console.print(f"chooses   {settled}   ({facts})")
    for start, end in extraction.spans:
        console.print(f"because   {shortened(reasoning[start:end], 200)}")
    for mark in extraction.marks:
        console.print(f"speaks of {STANCE_TITLES[mark.stance]}: {shortened(reasoning[slice(*mark.span)], 200)}")


# --- the response with its marks -------------------------------------------------------------------------------------


def response_text(explanation: Explanation, *, coloured: bool) -> Text:
    """The response with zones and candidates marked: by colours and small numbers, or by signs."""
    from rich.text import Text

    text = Text()
    zone: str | None = None
    for piece in _pieces(explanation):
        if piece.zone != zone:
            text.append(("⟫" if zone else "") + (f"⟪{piece.zone}: " if piece.zone else ""), style=_ASIDE)
            zone = piece.zone
        words = explanation.response[piece.start : piece.end]
        if len(words) > LONG_STRETCH:
            left_out = len(words) - 2 * KEPT_ENDS
            words = f"{words[:KEPT_ENDS]} ⟨… {left_out:,} characters …⟩ {words[-KEPT_ENDS:]}"
        words = visible_text(words)
        if piece.candidate is None:
            text.append(words, style=_ASIDE if zone else _EVIDENCE if piece.is_evidence else None)
        else:
            won = is_winner(explanation.candidates[piece.candidate], explanation)
            number = f"{piece.candidate + 1}{'✔' if won else ''}"
            style = _WON if won else _LOST
            if coloured:
                text.append(words, style=f"{style} reverse")
                text.append(f" {number} ", style=style)
            else:
                text.append(f"⟦{number} {words}⟧")
    text.append("⟫" if zone else "", style=_ASIDE)
    return text


def _pieces(explanation: Explanation) -> Iterator[_Piece]:
    """The response in stretches; of candidates that overlap, the winner, else the first and longest, is marked."""
    marked, size = _marked(explanation), len(explanation.response)
    zones = sorted((zone.span, zone.kind) for zone in explanation.zones)
    evidence = explanation.extraction.spans
    ends = {0, size, *(end for span in (*marked, *(span for span, _ in zones), *evidence) for end in span)}
    spans = iter([*marked, (size + 1, size + 1)])
    current = next(spans)
    behind = 0
    for start, end in pairwise(sorted(ends)):
        while start >= current[1] and current[0] <= size:
            current = next(spans)
        while behind < len(zones) and zones[behind][0][1] <= start:
            behind += 1
        zone = next((kind for span, kind in zones[behind : behind + 1] if span[0] <= start), None)
        if start == current[0]:
            yield _Piece(current[0], current[1], marked[current], zone, is_evidence=True)
        elif not current[0] <= start < current[1]:
            is_evidence = any(first <= start < last for first, last in evidence)
            yield _Piece(start, end, None, zone, is_evidence)


def _marked(explanation: Explanation) -> dict[tuple[int, int], int]:
    """Span → number of the candidate that is marked there, in the order of the text; none overlap."""
    winner = next((found for found in explanation.candidates if is_winner(found, explanation)), None)
    chosen: dict[tuple[int, int], int] = {}
    reach = 0
    by_place = sorted(enumerate(explanation.candidates), key=lambda entry: (entry[1].span[0], -entry[1].span[1]))
    for number, candidate in by_place:
        start, end = candidate.span
        in_the_way = winner is not None and candidate is not winner and start < winner.span[1] and winner.span[0] < end
        if reach <= start < end and not in_the_way:
            chosen[start, end] = number
            reach = end
    return chosen


# --- the candidates --------------------------------------------------------------------------------------------------


def _meaning(candidate: Candidate, explanation: Explanation) -> str:
    """What the candidate stands for."""
    if candidate.options:
        return " + ".join(chosen_text(index, explanation.labels, explanation.options) for index in candidate.options)
    meanings = {"unknown": "can't be told", "refusal": "declines", "neither": "none of the persons"}
    return meanings.get(candidate.kind, "not on offer")


def _source_text(source: Source) -> str:
    line = f":{source.line}" if source.line else ""
    return f"{source.file}{line}  {source.key}  {shortened(source.phrase, 100)}"


def print_likelihoods(
    scores: Sequence[ContinuationScore],
    order: Sequence[int],
    labels: Sequence[str],
    chosen: int | None,
    console: Console,
) -> None:
    """Prints every answer, those of the option shown first before the others.

    `order` has the index of the option at each place, `labels` its label; `chosen` is the place of the one read.
    """
    known = [way for way in LENGTHS if way != "token" or all(score.tokens is not None for score in scores)]
    ways = [*known, *([PRIOR] if any(score.unconditional_logprob is not None for score in scores) else [])]
    rows = []
    for score in sorted(scores, key=lambda score: order.index(score.option)):
        place = order.index(score.option)
        text = repr(score.text) if score.text != score.text.strip() else score.text
        tokens = None if score.tokens is None else f"{score.tokens:,}"
        values = [
            None if one is None else f"{one:+.3f}" for one in (score.logprob, *(worth(score, way) for way in ways))
        ]
        mark = "✔" if place == chosen else ""
        rows.append((mark, shortened(text, 60), labels[place], values[0], tokens, *values[1:]))
    right = ("log p", "tokens", *ways)
    console.print(text_table(("", "answer", "option", *right), rows, right=right).terminal())
