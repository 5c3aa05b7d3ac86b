"""How the judges of a run stand: what is done, what failed, what it cost."""

from __future__ import annotations

from mbbq_gen.providers.prices import Price
from mbbq_gen.providers.registry import parse_name
from mbbq_gen.records import Record
from mbbq_gen.runs.judging.ledger import Judge, JudgeLedger, judges_of
from mbbq_gen.runs.judging.replies import UNREAD
from mbbq_gen.runs.money import judge_bill
from mbbq_gen.runs.store import RunStore


class JudgeLine(Record):
    """A judge, as lists show it."""

    name: str
    model: str
    requests: int
    answered: int
    failed: int
    unread: int
    """Answers that it did not read: its reply was faulty."""
    cost: float | None
    """So far, in US dollars; None where no price is known."""


def judge_lines(store: RunStore, own: tuple[Price, ...]) -> list[JudgeLine]:
    """The judges of a run."""
    lines = []
    for judge in judges_of(store).values():
        progress = JudgeLedger(store, judge).progress()
        lines.append(
            JudgeLine(
                name=judge.name,
                model=judge.model,
                requests=progress.requests,
                answered=progress.answered,
                failed=progress.failed,
                unread=_unread(store, judge),
                cost=judge_cost(store, judge, own),
            )
        )
    return lines


def judge_cost(store: RunStore, judge: Judge, own: tuple[Price, ...]) -> float | None:
    """What a judge has cost so far, in US dollars; None where no price is known."""
    if not store.has_table("judge_replies"):
        return None
    kind, model = parse_name(judge.model)
    address = judge.facts.get("base_url")
    server = address if isinstance(address, str) else None
    return judge_bill(store, judge.name, own, kind=kind, model=model, base_url=server).total


def _unread(store: RunStore, judge: Judge) -> int:
    (count,) = store.query(
        "SELECT count(*) FROM extractions WHERE extractor = ? AND json_extract(record, '$.rule') LIKE ?",
        (judge.extractor, f"{UNREAD}%"),
    ).fetchone()
    return int(count)
