"""Judging readings one by one in a terminal, with one key each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from mbbq_gen.report.explanation import chosen_text
from mbbq_gen.report.plain_text import visible
from mbbq_gen.report.reading_page import merged
from mbbq_gen.report.reading_sheet import HEAD_KEPT, TAIL_KEPT, Entry, cut
from mbbq_gen.report.tables import OUTCOME_TITLES
from mbbq_gen.runs.audit import Verdict, verdict_on

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_KEYS = "y right   n wrong   1-{count} the right option   0 no answer there   e explain   b back   s skip   q quit"
_WRONG_KEYS = "which is right?   1-{count} that option   0 no answer there   Enter not said"
INTERRUPTS = frozenset("\x03\x04")
"""Ctrl-C and Ctrl-D, where the terminal hands them on as keys."""


class Session:
    """Shows readings and keeps a verdict on each; what was judged before is passed over."""

    def __init__(
        self,
        console: Console,
        key: Callable[[], str],
        keep: Callable[[Verdict], None],
        clock: Callable[[], str],
        explain: Callable[[Entry], None],
    ) -> None:
        self._console = console
        self._key = key
        self._keep = keep
        self._clock = clock
        self._explain = explain

    def judge(self, entries: Sequence[Entry], verdicts: Mapping[str, Verdict]) -> int:
        """Asks for every reading that has no verdict which tells of it; says how many were judged."""
        open_places = [place for place, entry in enumerate(entries) if not _is_judged(entry, verdicts)]
        judged: set[int] = set()
        here = 0
        while here < len(open_places):
            self._show(entries[open_places[here]], open_places[here] + 1, len(entries))
            step, verdict = self._ask(entries[open_places[here]])
            if verdict is not None:
                self._keep(verdict)
                judged.add(here)
            if step == 0:
                break
            here = max(0, here + step)
        return len(judged)

    def _ask(self, entry: Entry) -> tuple[int, Verdict | None]:
        """How far to go on, 0 to end, and the verdict, if one was given."""
        count = len(entry.question.options)
        while True:
            self._console.print(_KEYS.format(count=count), style="dim")
            key = self._pressed()
            if key == "y":
                return 1, self._verdict(entry, entry.reading.option)
            if key == "n":
                return 1, self._ask_right(entry)
            if key in _places(count):
                return 1, self._verdict(entry, _option(key))
            if key == "e":
                self._explain(entry)
            elif key in {"b", "s", "q"}:
                return {"b": -1, "s": 1, "q": 0}[key], None

    def _ask_right(self, entry: Entry) -> Verdict:
        """The verdict of a reading that was called wrong."""
        count = len(entry.question.options)
        while True:
            self._console.print(_WRONG_KEYS.format(count=count), style="dim")
            key = self._pressed()
            if key in _places(count):
                return self._verdict(entry, _option(key))
            if key in {"\r", "\n"}:
                return verdict_on(entry.reading, self._clock(), right=None, right_known=False)

    def _pressed(self) -> str:
        key = self._key()
        if key in INTERRUPTS or key == "":
            raise KeyboardInterrupt
        return key.lower()

    def _verdict(self, entry: Entry, right: int | None) -> Verdict:
        verdict = verdict_on(entry.reading, self._clock(), right=right)
        told = chosen_text(right, entry.question.labels, entry.question.options)
        self._console.print(f"{'right' if verdict.agrees else 'wrong'}: {told}", style="bold")
        return verdict

    def _show(self, entry: Entry, number: int, total: int) -> None:
        """Prints one reading; nothing that it holds can act on the terminal."""
        console, question, reading = self._console, entry.question, entry.reading
        console.rule(f"{number} of {total}   {reading.language}   {reading.variant}   {reading.presentation_id}")
        console.print(visible(entry.answered.instance.context))
        console.print(visible(entry.answered.instance.question))
        for place in range(len(question.options)):
            console.print(f"  {place + 1}  {chosen_text(place, question.labels, question.options)}")
        console.print()
        console.print(marked_response(entry, coloured=console.is_terminal and not console.no_color))
        number_read = "" if reading.option is None else f"{reading.option + 1}  "
        chosen = chosen_text(reading.option, question.labels, question.options)
        console.print(f"\nread as   {number_read}{chosen}", style="bold")
        console.print(f"          {OUTCOME_TITLES[reading.outcome]}, {reading.rule}, confidence {reading.confidence}")


def _is_judged(entry: Entry, verdicts: Mapping[str, Verdict]) -> bool:
    verdict = verdicts.get(entry.reading.presentation_id)
    return verdict is not None and verdict.judges(entry.reading) is not None


def _places(count: int) -> set[str]:
    """Keys that name an option, or none; a tenth option is named on a sheet only."""
    return {str(place) for place in range(min(count, 9) + 1)}


def _option(key: str) -> int | None:
    return None if key == "0" else int(key) - 1


def marked_response(entry: Entry, *, coloured: bool) -> Text:
    """The response with the evidence set off, by colour or by signs."""
    from rich.text import Text

    text, response, here = Text(), entry.response, 0
    if len(response) > HEAD_KEPT + TAIL_KEPT:
        return Text(visible(cut(response)))
    for start, end in merged(entry.extraction.spans):
        text.append(visible(response[here:start]))
        words = visible(response[start:end])
        text.append(words if coloured else f"⟦{words}⟧", style="bold reverse" if coloured else None)
        here = end
    return text.append(visible(response[here:]))
