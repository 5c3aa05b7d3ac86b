"""Annotating one extraction after the other in a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from mbbq_gen.annotation.review import Annotation, annotate_response
from mbbq_gen.report.explanation import chosen_text
from mbbq_gen.report.score_tables import OUTCOME_TITLES
from mbbq_gen.report.sheets import HEAD_KEPT, TAIL_KEPT, SheetEntry, cut, merged

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


_KEYS = "y correct   n wrong   1-{count} the correct option   0 no answer   e explain   b back   s skip   q quit"
_WRONG_KEYS = "which is correct?   1-{count} that option   0 no answer   Enter not known"
INTERRUPTS = frozenset("\x03\x04")
"""Ctrl-C and Ctrl-D, if the terminal passes them on as keys."""


class Session:
    """Shows extractions and stores an annotation of each; annotated ones are skipped."""

    def __init__(
        self,
        console: Console,
        key: Callable[[], str],
        keep: Callable[[Annotation], None],
        clock: Callable[[], str],
        explain: Callable[[SheetEntry], None],
    ) -> None:
        self._console = console
        self._key = key
        self._keep = keep
        self._clock = clock
        self._explain = explain

    def judge(self, entries: Sequence[SheetEntry], annotations: Mapping[str, Annotation]) -> int:
        """Asks for each extraction without a valid annotation; returns the number annotated."""
        open_places = [place for place, entry in enumerate(entries) if not _is_judged(entry, annotations)]
        judged: set[int] = set()
        here = 0
        while here < len(open_places):
            self._show(entries[open_places[here]], open_places[here] + 1, len(entries))
            step, annotation = self._ask(entries[open_places[here]])
            if annotation is not None:
                self._keep(annotation)
                judged.add(here)
            if step == 0:
                break
            here = max(0, here + step)
        return len(judged)

    def _ask(self, entry: SheetEntry) -> tuple[int, Annotation | None]:
        """The step to the next entry (0: stop), and the annotation, if any."""
        count = len(entry.question.options)
        while True:
            self._console.print(_KEYS.format(count=count), style="dim")
            key = self._pressed()
            if key == "y":
                return 1, self._annotation(entry, entry.stored.option)
            if key == "n":
                return 1, self._ask_right(entry)
            if key in {str(place) for place in range(min(count, 9) + 1)}:
                return 1, self._annotation(entry, None if key == "0" else int(key) - 1)
            if key == "e":
                self._explain(entry)
            elif key in {"b", "s", "q"}:
                return {"b": -1, "s": 1, "q": 0}[key], None

    def _ask_right(self, entry: SheetEntry) -> Annotation:
        """The annotation of an extraction called wrong."""
        count = len(entry.question.options)
        while True:
            self._console.print(_WRONG_KEYS.format(count=count), style="dim")
            key = self._pressed()
            if key in {str(place) for place in range(min(count, 9) + 1)}:
                return self._annotation(entry, None if key == "0" else int(key) - 1)
            if key in {"\r", "\n"}:
                return annotate_response(entry.stored, self._clock(), right=None, right_known=False)

    def _pressed(self) -> str:
        key = self._key()
        if key in INTERRUPTS or key == "":
            raise KeyboardInterrupt
        return key.lower()

    def _annotation(self, entry: SheetEntry, right: int | None) -> Annotation:
        annotation = annotate_response(entry.stored, self._clock(), right=right)
        told = chosen_text(right, entry.question.labels, entry.question.options)
        self._console.print(f"{'right' if annotation.agrees else 'wrong'}: {told}", style="bold")
        return annotation

    def _show(self, entry: SheetEntry, number: int, total: int) -> None:
        """Prints one extraction, with control characters escaped."""
        console, question, extraction = self._console, entry.question, entry.stored
        console.rule(f"{number} of {total}   {extraction.language}   {extraction.variant}   {extraction.prompt_id}")
        console.print(entry.answered.instance.context)
        console.print(entry.answered.instance.question)
        for place in range(len(question.options)):
            console.print(f"  {place + 1}  {chosen_text(place, question.labels, question.options)}")
        console.print()
        console.print(marked_response(entry, coloured=console.is_terminal and not console.no_color))
        number_read = "" if extraction.option is None else f"{extraction.option + 1}  "
        chosen = chosen_text(extraction.option, question.labels, question.options)
        console.print(f"\nextracted {number_read}{chosen}", style="bold")
        console.print(
            f"          {OUTCOME_TITLES[extraction.outcome]}, {extraction.rule}, confidence {extraction.confidence}"
        )


def _is_judged(entry: SheetEntry, annotations: Mapping[str, Annotation]) -> bool:
    annotation = annotations.get(entry.stored.prompt_id)
    return annotation is not None and annotation.judges(entry.stored) is not None


def marked_response(entry: SheetEntry, *, coloured: bool) -> Text:
    """The response with the evidence marked by colour or brackets."""
    from rich.text import Text

    text, response, here = Text(), entry.response, 0
    if len(response) > HEAD_KEPT + TAIL_KEPT:
        return Text(cut(response))
    for start, end in merged(entry.extraction.spans):
        text.append(response[here:start])
        words = response[start:end]
        text.append(words if coloured else f"⟦{words}⟧", style="bold reverse" if coloured else None)
        here = end
    return text.append(response[here:])
