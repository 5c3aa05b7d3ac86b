"""The explanation of one extraction in a terminal: the marked response, and each candidate with its reason.

Control characters of the response are made visible (`core.text.visible_text`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from mbbq_gen.core.records import ContinuationScore, Extraction
from mbbq_gen.core.text import shortened, visible_text
from mbbq_gen.extraction.simple import LENGTHS, PRIOR, normalised_score
from mbbq_gen.report.tables import OUTCOME_TITLES, STANCE_TITLES, Table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from mbbq_gen.extraction.explain import Candidate, Explanation
    from mbbq_gen.extraction.reasoning import ReasoningExtraction


SHOWN_CANDIDATES = 20
"""The most candidates that are listed; JSON has them all."""
LONG_STRETCH, KEPT_ENDS = 600, 200
"""Length of text without marks that is shortened, and the characters kept at each of its ends."""

_WON, _LOST, _ASIDE = "bold green", "yellow", "dim"
_MEANINGS = {"unknown": "can't be told", "refusal": "declines", "neither": "none of the persons"}
"""Kind of a candidate without an option → its meaning."""


def print_explanation(explanation: Explanation, console: Console) -> None:
    """Prints the response, its extraction with the reason, and the candidates, the winner first."""
    from rich.text import Text

    console.print(f"\nresponse ({len(explanation.response):,} characters)", style="bold")
    lines = response_text(explanation).split("\n", allow_blank=True)
    console.print(Text("\n").join(Text("  ").append_text(line) for line in lines))
    found = explanation.extraction
    read_as = chosen_text(found.option, explanation.labels, explanation.options)
    console.print(f"\nread as   {read_as}   ({_facts(found)})", style="bold")
    console.print(f"because   {explanation.decision}")
    if found.conflicts:
        console.print(f"against   {', '.join(found.conflicts)}")
    console.print()
    numbered = list(enumerate(explanation.candidates, start=1))
    numbered.sort(key=lambda entry: (not is_winner(entry[1], explanation), -entry[1].tier, entry[0]))
    for number, candidate in numbered[:SHOWN_CANDIDATES]:
        _print_candidate(number, candidate, explanation, console)
    if len(numbered) > SHOWN_CANDIDATES:
        console.print(f"and {len(numbered) - SHOWN_CANDIDATES:,} more candidates that lost; --json has them all")
    if not numbered:
        console.print("no candidates")
    console.print(f"\nextractor {explanation.version}, language {explanation.language}", style=_ASIDE)


def _print_candidate(number: int, candidate: Candidate, explanation: Explanation, console: Console) -> None:
    """Prints a candidate with its meaning, why it won or lost, and the pack entry behind it."""
    won = is_winner(candidate, explanation)
    named = [chosen_text(option, explanation.labels, explanation.options) for option in candidate.options]
    meaning = " + ".join(named) or _MEANINGS.get(candidate.kind, "not on offer")
    text = f"{'✔' if won else '✗'} {number:<3} {shortened(candidate.text, 60)}  →  {meaning}"
    console.print(text, style=_WON if won else _LOST)
    state = candidate.standing if candidate.standing != "live" else candidate.rule or "named"
    tier = f", strength {candidate.tier}" if candidate.tier else ""
    is_left_over = candidate.status == "won" and not won
    why = "ruled out; it leaves the one that was read" if is_left_over else candidate.reason
    console.print(f"      {state}{tier}: {why}")
    if (source := candidate.source) is not None:
        console.print(f"      {source.file}  {source.key}  {source.phrase}", style=_ASIDE)


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


def response_text(explanation: Explanation) -> Text:
    """The response with zones in ⟪⟫, and candidates in ⟦⟧ with their numbers."""
    from rich.text import Text

    response, marked = explanation.response, _marked(explanation)
    zones = [zone for zone in explanation.zones if zone.span[0] < zone.span[1]]
    edges = {0, len(response), *(edge for zone in zones for edge in zone.span)}
    edges = {edge for edge in edges if not any(start < edge < end for start, end in marked)}  # candidates stay whole
    edges |= {edge for span in marked for edge in span}
    text, inside = Text(), ""
    for start, end in pairwise(sorted(edges)):
        zone = next((zone.kind for zone in zones if zone.span[0] <= start < zone.span[1]), "")
        if zone != inside:
            text.append(("⟫" if inside else "") + (f"⟪{zone}: " if zone else ""), style=_ASIDE)
            inside = zone
        words, number = visible_text(response[start:end]), marked.get((start, end))
        if number is not None:
            won = is_winner(explanation.candidates[number], explanation)
            text.append(f"⟦{number + 1}{'✔' if won else ''} {words}⟧", style=_WON if won else _LOST)
        elif len(words) > LONG_STRETCH:
            left_out = f" ⟨… {len(words) - 2 * KEPT_ENDS:,} characters …⟩ "
            text.append(words[:KEPT_ENDS] + left_out + words[-KEPT_ENDS:], style=_ASIDE if zone else None)
        else:
            text.append(words, style=_ASIDE if zone else None)
    text.append("⟫" if inside else "", style=_ASIDE)
    return text


def _marked(explanation: Explanation) -> dict[tuple[int, int], int]:
    """Span → index of its candidate; of overlapping candidates only the winner or else the first is included."""
    chosen: dict[tuple[int, int], int] = {}
    numbered = enumerate(explanation.candidates)
    order = sorted((not is_winner(one, explanation), one.span[0], -one.span[1], number) for number, one in numbered)
    for *_, number in order:
        start, end = explanation.candidates[number].span
        if start < end and not any(start < last and first < end for first, last in chosen):
            chosen[start, end] = number
    return chosen


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
