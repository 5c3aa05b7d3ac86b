"""Which answers a judge reads, and what it is asked about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, get_args

from mbbq_gen.records import Message, Record, Request
from mbbq_gen.runs.audit import Design, can_be_judged, draw_sample
from mbbq_gen.runs.judging.ledger import Ask, ChosenBy, Judge, answers_by_number
from mbbq_gen.runs.judging.prompt import sheet_of
from mbbq_gen.runs.lookup import Reading, readings
from mbbq_gen.runs.reading import UNDETECTED
from mbbq_gen.runs.store import RunStore

Doubt = Literal["unread", "low", "conflict"]
"""No option was read; read with low confidence; something in the answer spoke for another reading."""
DOUBTS: tuple[Doubt, ...] = get_args(Doubt)


class Choice(Record):
    """Which answers of a run a judge is to read; without `only` and `sample`, all of them."""

    only: tuple[Doubt, ...] = ()
    """Those that the rules read in one of these ways."""
    sample: int | None = None
    """So many, drawn by chance within each language."""
    seed: int = 0
    """Of the sample."""

    @property
    def chosen_by(self) -> ChosenBy:
        """What the choice is called beside each answer."""
        return "only" if self.only else "all" if self.sample is None else "sample"


def is_settled(reading: Reading) -> bool:
    """Whether an answer has no text to read, or the service itself says what it is: failed, filtered, refused."""
    return not can_be_judged(reading) or reading.rule.startswith("response.")


def chosen_readings(store: RunStore, versions: Mapping[str, str], choice: Choice) -> list[Reading]:
    """The rules' readings of the answers that a choice means, by language in plan order, or as they were drawn.

    Answers that the judge has nothing to read in (`is_settled`) are left out.

    Args:
        store: The run's.
        versions: Language → the version whose readings they are; only these languages.
        choice: What to choose by.
    """
    found = (reading for reading in readings(store, versions) if not is_settled(reading))
    if choice.sample is not None:
        return list(draw_sample(found, Design(sample=choice.sample, by=("language",), seed=choice.seed)).drawn)
    if not choice.only:
        return list(found)
    conflicting = _conflicting(store, versions.values()) if "conflict" in choice.only else set()
    return [
        reading
        for reading in found
        if ("unread" in choice.only and reading.outcome in UNDETECTED)
        or ("low" in choice.only and reading.confidence == "low")
        or reading.presentation_id in conflicting
    ]


def settled_readings(store: RunStore, versions: Mapping[str, str]) -> Iterator[Reading]:
    """The rules' readings of the answers that nobody has to be asked about (`is_settled`)."""
    return (reading for reading in readings(store, versions) if is_settled(reading))


def _conflicting(store: RunStore, versions: Iterable[str]) -> set[str]:
    """The presentations in whose answers these versions found evidence for something else."""
    wanted = sorted(set(versions))
    rows = store.query(
        "SELECT presentation_id FROM extractions WHERE json_array_length(record, '$.conflicts') > 0 AND extractor IN"
        f" ({', '.join('?' * len(wanted))})",
        wanted,
    )
    return {presentation_id for (presentation_id,) in rows}


def asks_of(
    store: RunStore,
    judge: Judge,
    chosen: Iterable[Reading],
    request_key: Callable[[Sequence[Message], str], str],
    step: Callable[[], None] = lambda: None,
) -> Iterator[Ask]:
    """What a judge is asked about answers, in plan order; `request_key` is the provider's."""
    ids = {reading.presentation_id for reading in chosen}
    for number, answered in answers_by_number(store, ids):
        sheet = sheet_of(answered, judge.prompt, judge.seed)
        presentation = answered.presentation
        key = request_key(sheet.messages, presentation.presentation_id)
        request = Request(
            request_key=key, messages=sheet.messages, presentation=presentation, instance=answered.instance
        )
        step()
        yield Ask(number, presentation, answered.instance, sheet.order, request)
