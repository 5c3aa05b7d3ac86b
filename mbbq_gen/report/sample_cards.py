"""What a page shows of one answer: the question as shown, the response with its evidence, and why it was read so.

The pieces are cut to a bearable length here, and invisible characters made visible, so that the page's script has
nothing to do but to put text into elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Extraction, Message, Response
from mbbq_gen.core.text import shortened, visible_text
from mbbq_gen.extraction import Question
from mbbq_gen.extraction.explain import DECISIONS
from mbbq_gen.extraction.reasoning import ReasoningExtraction, reasoning_version
from mbbq_gen.extraction.rules import WHY
from mbbq_gen.report.sheets import merged
from mbbq_gen.runs.extraction import question_of
from mbbq_gen.runs.reasoning import ReasoningText, reasoning_text, stored_reasoning
from mbbq_gen.storage.queries import find_completed, stored_extractions
from mbbq_gen.storage.samples import SampleRow
from mbbq_gen.storage.store import CompletedPrompt, RunStore

Piece = tuple[str, int]
"""A stretch of a text, and what it is: PLAIN, EVIDENCE or LEFT_OUT."""
PLAIN, EVIDENCE, LEFT_OUT = 0, 1, 2


@dataclass(frozen=True)
class ExcerptLengths:
    """How much of a long text is shown, in characters."""

    head: int
    tail: int
    around: int
    """On each side of evidence."""


IN_PAGE = ExcerptLengths(head=1500, tail=700, around=150)
"""In a report, which holds a few thousand items."""
IN_VIEWER = ExcerptLengths(head=20_000, tail=20_000, around=2000)


def pieces(text: str, spans: Sequence[tuple[int, int]], lengths: ExcerptLengths) -> list[Piece]:
    """The text with its evidence marked, and with what is too long left out; every character is visible."""
    marked = [(max(0, start), min(end, len(text))) for start, end in merged(spans) if start < len(text)]
    kept = _kept(len(text), marked, lengths)
    found: list[Piece] = []
    here = 0
    for start, end in kept:
        if start > here:
            found.append((f"⟨… {start - here:,} characters …⟩", LEFT_OUT))
        found += _marked(text, start, end, marked)
        here = end
    return found


def _kept(size: int, marked: Sequence[tuple[int, int]], lengths: ExcerptLengths) -> list[tuple[int, int]]:
    """What of a text is shown: head, tail, and the surroundings of where evidence begins and ends."""
    if size <= lengths.head + lengths.tail:
        return [(0, size)] if size else []
    edges = [edge for span in marked for edge in span]
    near = [(max(0, edge - lengths.around), min(size, edge + lengths.around)) for edge in edges]
    return merged([(0, lengths.head), (size - lengths.tail, size), *near])


def _marked(text: str, start: int, end: int, marked: Sequence[tuple[int, int]]) -> Iterator[Piece]:
    """One stretch, cut where evidence begins and ends."""
    here = start
    inside = [(max(first, start), min(last, end)) for first, last in marked]
    for first, last in inside:
        if first >= last:
            continue
        if first > here:
            yield visible_text(text[here:first]), PLAIN
        yield visible_text(text[first:last]), EVIDENCE
        here = last
    if here < end:
        yield visible_text(text[here:end]), PLAIN


def why_read(extraction: Extraction) -> str:
    """Why a response was read as it was, in a few words: what its rule means."""
    if extraction.rule in DECISIONS:
        return DECISIONS[extraction.rule]
    if extraction.outcome == "multiple":
        return "More than one option is chosen."
    parts = extraction.rule.replace("+", ":").split(":")
    return next((WHY[part] for part in parts if part in WHY), extraction.rule)


def why_missing(response: Response) -> str | None:
    """What the service says in place of a text; None where there is a text."""
    if response.error is not None:
        return shortened(response.error, 300)
    if response.finish_reason == "content_filter":
        return "the answer was blocked by the service"
    return None


def _response(
    response: Response, extraction: Extraction, reasoning: ReasoningText | None, lengths: ExcerptLengths
) -> list[Piece]:
    """The response with its evidence; a thought that stands in it is shown by itself."""
    text, start = response.text or response.refusal or "", 0
    if reasoning is not None and reasoning.end is not None:
        start = len(text) - len(text[reasoning.end :].lstrip())
    spans = [(max(0, first - start), last - start) for first, last in extraction.spans if last > start]
    return pieces(text[start:], spans, lengths)


def _reasoning(
    reasoning: ReasoningText | None, bias: ReasoningExtraction | None, lengths: ExcerptLengths
) -> dict[str, Any] | None:
    """What was thought first, and what it was taken to mean."""
    if reasoning is None:
        return None
    stances = sorted(bias.stances) if bias is not None else []
    return {
        "text": pieces(reasoning.text, bias.spans if bias is not None else (), lengths),
        "characters": len(reasoning.text),
        "option": bias.option if bias is not None else None,
        "parsed": bias is not None,
        "stances": stances,
    }


def _message(message: Message, lengths: ExcerptLengths) -> dict[str, Any]:
    return {"role": message.role, "content": _text(message.content, lengths)}


def _text(text: str, lengths: ExcerptLengths) -> list[Piece]:
    return pieces(text, (), lengths)


def _options(
    answered: CompletedPrompt, question: Question, extraction: Extraction, lengths: ExcerptLengths
) -> list[dict[str, Any]]:
    """The options as shown."""
    instance, order = answered.instance, answered.prompt.option_order
    chosen = extraction.option
    if chosen is None and extraction.outcome in {"abstention", "refusal"}:
        chosen = question.unknown_index
    return [
        {
            "label": visible_text(label),
            "text": _text(text, lengths),
            "role": instance.options[order[place]].role or "person",
            "right": order[place] == instance.gold_index,
            "chosen": place == chosen,
        }
        for place, (label, text) in enumerate(zip(question.labels, question.options, strict=True))
    ]


def item_views(
    store: RunStore, items: Sequence[SampleRow], lengths: ExcerptLengths, *, with_prompt: bool = False
) -> Iterator[dict[str, Any]]:
    """The views of items, each looked up in the run."""
    version = reasoning_version(PackPaths())
    for item in items:
        answered = find_completed(store, item.prompt_id, with_parallels=False)
        extraction = stored_extractions(store, item.prompt_id).get(item.extractor)
        if answered is not None and extraction is not None:
            bias = None if version is None else stored_reasoning(store, item.prompt_id, version)
            response, question = answered.response, question_of(answered)
            reasoning = reasoning_text(response, PackPaths())
            view: dict[str, Any] = {
                **{name: visible_text(value) for name, value in item._asdict().items() if isinstance(value, str)},
                "polarity": answered.instance.polarity,
                "label_style": answered.prompt.label_style,
                "context": _text(answered.instance.context, lengths),
                "question": _text(answered.instance.question, lengths),
                "options": _options(answered, question, extraction, lengths),
                "response": _response(response, extraction, reasoning, lengths),
                "reasoning": _reasoning(reasoning, bias, lengths),
                "missing": why_missing(response),
                "rule": visible_text(extraction.rule),
                "why": why_read(extraction),
                "conflicts": [visible_text(conflict) for conflict in extraction.conflicts],
                "no_context": answered.prompt.no_context,
            }
            if with_prompt:
                view["messages"] = [_message(message, lengths) for message in answered.prompt.messages]
            yield view
