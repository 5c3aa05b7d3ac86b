"""Marked texts, and the explanation of one extraction in a terminal: the response, each candidate with its reason."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from mbbq_gen.core.records import ContinuationScore, Extraction
from mbbq_gen.core.text import shortened, visible_text
from mbbq_gen.extraction.likelihood import LENGTHS, PRIOR, normalised_score
from mbbq_gen.report.tables import OUTCOME_TITLES, STANCE_TITLES, Table

if TYPE_CHECKING:
    from rich.console import Console

    from mbbq_gen.extraction.explain import Candidate, Explanation
    from mbbq_gen.extraction.reasoning import ReasoningExtraction

SHOWN_CANDIDATES, SHOWN_CHARACTERS, AROUND = 20, 8000, 20
"""Candidates that are listed, characters of a response, and characters before and behind a candidate."""

_WON, _LOST, _ASIDE = "bold green", "yellow", "dim"
Piece = tuple[str, str]
"""A part of a text and its kind: PLAIN, EVIDENCE or LEFT_OUT, which are elements of HTML."""
PLAIN, EVIDENCE, LEFT_OUT = "", "mark", "i"
_MEANINGS = {"unknown": "can't be told", "refusal": "declines", "neither": "none of the persons"}
"""Kind of a candidate without an option → its meaning."""


def pieces(text: str, spans: Sequence[tuple[int, int]], limit: int) -> list[Piece]:
    """The text in pieces: evidence is marked, invisible characters are made visible.

    Of more than `limit` characters, a third is from the beginning, the others from the end; evidence is always shown.
    """
    size, around = len(text), limit // 16
    evidence = [(start, min(end, size)) for start, end in spans if start < min(end, size)]
    shown = [(0, size)]
    if size > limit:
        shown = [(0, limit // 3), (size - limit * 2 // 3, size)]
        shown += [(edge - around, edge + around) for span in evidence for edge in span]

    def kind_of(part: tuple[int, int]) -> str:
        if not any(start <= part[0] < end for start, end in shown):
            return LEFT_OUT
        return EVIDENCE if any(start <= part[0] < end for start, end in evidence) else PLAIN

    found: list[Piece] = []
    edges = {min(max(edge, 0), size) for span in (*shown, *evidence) for edge in span}
    for kind, group in groupby(pairwise(sorted(edges)), kind_of):
        parts = list(group)
        start, end = parts[0][0], parts[-1][1]
        left_out = f"⟨… {end - start:,} characters …⟩"
        found.append((left_out if kind == LEFT_OUT else visible_text(text[start:end]), kind))
    return found


def print_explanation(explanation: Explanation, console: Console) -> None:
    """Prints the response, its extraction with the reason, and the candidates, the winner first."""
    from rich.text import Text

    console.print(f"\nresponse ({len(explanation.response):,} characters)", style="bold")
    response, found = Text(), explanation.extraction
    for piece, kind in pieces(explanation.response, found.spans, SHOWN_CHARACTERS):
        response.append(f"⟦{piece}⟧" if kind == EVIDENCE else piece, style=_WON if kind == EVIDENCE else None)
    lines = response.split("\n", allow_blank=True)
    console.print(Text("\n").join(Text("  ").append_text(line) for line in lines))
    for zone in explanation.zones:
        text = explanation.response[slice(*zone.span)]
        console.print(f"no answer ({zone.kind}): {shortened(text, 100)}", style=_ASIDE)
    read_as = chosen_text(found.option, explanation.labels, explanation.options)
    console.print(f"\nread as   {read_as}   ({_facts(found)})", style="bold")
    console.print(f"because   {explanation.decision}")
    if found.conflicts:
        console.print(f"against   {', '.join(found.conflicts)}")
    console.print()
    candidates = sorted(explanation.candidates, key=lambda one: (not is_winner(one, explanation), -one.tier))
    for candidate in candidates[:SHOWN_CANDIDATES]:
        _print_candidate(candidate, explanation, console)
    if len(candidates) > SHOWN_CANDIDATES:
        console.print(f"and {len(candidates) - SHOWN_CANDIDATES:,} more candidates that lost; --json has them all")
    if not candidates:
        console.print("no candidates")
    console.print(f"\nextractor {explanation.version}, language {explanation.language}", style=_ASIDE)


def _print_candidate(candidate: Candidate, explanation: Explanation, console: Console) -> None:
    """Prints a candidate with its meaning, why it won or lost, and the pack entry behind it."""
    won = is_winner(candidate, explanation)
    named = [chosen_text(option, explanation.labels, explanation.options) for option in candidate.options]
    meaning = " + ".join(named) or _MEANINGS.get(candidate.kind, "not on offer")
    start, end = candidate.span
    before, after = explanation.response[max(0, start - AROUND) : start], explanation.response[end : end + AROUND]
    place = " ".join(visible_text(f"{before}⟦{shortened(candidate.text, 60)}⟧{after}").split())
    console.print(f"{'✔' if won else '✗'} {place}  →  {meaning}", style=_WON if won else _LOST)
    state = candidate.standing if candidate.standing != "live" else candidate.rule or "named"
    tier = f", strength {candidate.tier}" if candidate.tier else ""
    is_left_over = candidate.status == "won" and not won
    why = "ruled out; it leaves the one that was read" if is_left_over else candidate.reason
    console.print(f"  {state}{tier}: {why}")
    if (source := candidate.source) is not None:
        console.print(f"  {source.file}  {source.key}  {source.phrase}", style=_ASIDE)


def is_winner(candidate: Candidate, explanation: Explanation) -> bool:
    """Whether the candidate is the extraction; False if the option only remained after others were ruled out."""
    chosen = explanation.extraction.option
    return candidate.status == "won" and (not candidate.options or chosen is None or candidate.options == (chosen,))


def chosen_text(option: int | None, labels: Sequence[str], options: Sequence[str]) -> str:
    """An option with its label: `B: The baker`; `no option` for None."""
    return "no option" if option is None else f"{labels[option]}: {shortened(options[option], 80)}"


def _facts(found: Extraction | ReasoningExtraction) -> str:
    return f"{OUTCOME_TITLES[found.outcome]}, confidence {found.confidence}, rule {found.rule}"


def print_reasoning_trace(
    reasoning: str, extraction: ReasoningExtraction, labels: Sequence[str], options: Sequence[str], console: Console
) -> None:
    """Prints the choice of a reasoning trace, its evidence, and sentences with a stance."""
    cut = ", cut off" if extraction.is_cut else ""
    console.print(
        f"\nthought ({extraction.characters:,} characters, in {extraction.language or '?'}{cut})", style="bold"
    )
    console.print(f"chooses   {chosen_text(extraction.option, labels, options)}   ({_facts(extraction)})")
    for start, end in extraction.spans:
        console.print(f"because   {shortened(reasoning[start:end], 200)}")
    for mark in extraction.marks:
        console.print(f"speaks of {STANCE_TITLES[mark.stance]}: {shortened(reasoning[slice(*mark.span)], 200)}")


def print_likelihoods(
    scores: Sequence[ContinuationScore],
    order: Sequence[int],
    labels: Sequence[str],
    chosen: int | None,
    console: Console,
) -> None:
    """Prints the log-likelihoods of all answers, in the order of the prompt's options.

    `order` has the index of the option at each place, `labels` its label; `chosen` is the place of the chosen option.
    """
    methods = [name for name in LENGTHS if name != "token" or all(score.tokens is not None for score in scores)]
    methods += [PRIOR] if any(score.unconditional_logprob is not None for score in scores) else []
    table = Table("", "answer", "option", "log p", "tokens", *methods)
    for score in sorted(scores, key=lambda score: order.index(score.option)):
        place = order.index(score.option)
        text = repr(score.text) if score.text != score.text.strip() else score.text
        numbers = (score.logprob, *(normalised_score(score, name) for name in methods))
        logprob, *values = (None if one is None else f"{one:+.3f}" for one in numbers)
        mark = "✔" if place == chosen else ""
        table.add_row(mark, shortened(text, 60), labels[place], logprob, score.tokens, *values)
    console.print(table.terminal())
