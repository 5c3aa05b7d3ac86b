"""The tables of batches, judge requests and rounds of a run."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple

from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.option_display import Kind
from mbbq_gen.core.records import Confidence, FrozenModel, Outcome
from mbbq_gen.storage.store import RunStore

ChosenBy = Literal["all", "sample", "only"]
"""Why a response is judged: all are, it was sampled, or it matched `--only`."""
BatchState = Literal["planned", "sent", "collected", "refused", "lost"]
_NAME_META: Final = "batch_name"
_MODE_META: Final = "batches"
SIZE_META: Final = "batch_requests"
BatchMode = Literal["off", "on", "stopped"]
"""How requests are sent: one by one, in batches, or in existing batches only."""


class Batch(FrozenModel):
    """A batch of a run."""

    number: int
    name: str
    state: BatchState
    service_id: str | None
    service_state: str | None = None
    """The service's name of its state, at the last check."""
    requests: int
    done: int | None = None
    """Answered requests, at the last check; None where the service does not report it."""
    failed: int | None = None
    answered: int | None = None
    """Stored responses from it; None until it is collected."""
    missing: int | None = None
    """Requests with neither a response nor a permanent failure."""
    cancelled: bool = False
    planned_at: str
    closed_at: str | None = None
    reason: str | None = None
    foreign_ids: tuple[str, ...] = ()
    """Ids of batches of others at the service that were mistaken for it."""
    waits: bool = False
    """Whether it was refused only because too many requests were queued at the service."""
    too_large: bool = False
    """Whether it was refused for its size; later batches have at most half of it."""

    @property
    def is_open(self) -> bool:
        """Whether responses may still come from it."""
        return self.state in ("planned", "sent")


_COLUMNS: Final = ("number", "name", "state", "service_id")


class BatchTable:
    """Reads and writes the batches of a run. Written under the run's lock only."""

    def __init__(self, store: RunStore) -> None:
        self._store = store

    def batches(self) -> list[Batch]:
        """All batches, in the order in which they were planned."""
        rows = self._store.query(f"SELECT {', '.join(_COLUMNS)}, record FROM batches ORDER BY number")
        return [Batch(**dict(zip(_COLUMNS, columns, strict=True)), **json.loads(record)) for *columns, record in rows]

    def open_batches(self) -> list[Batch]:
        """The batches from which responses may still come."""
        return [batch for batch in self.batches() if batch.is_open]

    def most_requests(self) -> int | None:
        """Half of the smallest batch that the service refused for its size; None if it refused none."""
        refused = [batch.requests for batch in self.batches() if batch.too_large]
        return max(1, min(refused) // 2) if refused else None

    def next_name(self) -> tuple[int, str]:
        """Number and name of the next batch; the name is unique among all runs."""
        prefix = self._store.meta(_NAME_META)
        if prefix is None:
            prefix = f"mbbq-gen-{secrets.token_hex(8)}"
            self._store.set_meta(_NAME_META, prefix)
        number = self._store.value("SELECT coalesce(max(number), 0) + 1 FROM batches")
        return number, f"{prefix}-{number:05d}"

    def plan(self, number: int, name: str, keys: Sequence[str]) -> Batch:
        """Stores a batch and the keys of its requests; durable when this returns."""
        batch = Batch(
            number=number,
            name=name,
            state="planned",
            service_id=None,
            requests=len(keys),
            planned_at=datetime.now(UTC).isoformat(),
        )
        self._store.change(
            ("INSERT INTO batches VALUES (?, ?, ?, ?, ?)", [_row(batch)]),
            ("INSERT INTO batch_requests VALUES (?, ?)", [(key, number) for key in keys]),
        )
        return batch

    def update(self, batch: Batch, **changes: object) -> Batch:
        """Stores changed fields of a batch, and the time at which it closed; durable when this returns."""
        now = batch.model_copy(update=changes)
        if now.closed_at is None and not now.is_open:
            now = now.model_copy(update={"closed_at": datetime.now(UTC).isoformat(timespec="milliseconds")})
        if now != batch:
            self._store.change(("INSERT OR REPLACE INTO batches VALUES (?, ?, ?, ?, ?)", [_row(now)]))
        return now

    def requests(self, batch: Batch) -> set[str]:
        """The keys of a batch's requests."""
        rows = self._store.query("SELECT request_key FROM batch_requests WHERE batch = ?", (batch.number,))
        return {key for (key,) in rows}

    def open_requests(self) -> set[str]:
        """The keys of all requests in open batches."""
        return set[str]().union(*map(self.requests, self.open_batches()))

    def tries(self) -> dict[str, int]:
        """Request without a response → number of closed batches that did not answer it."""
        counted = {
            batch.number
            for batch in self.batches()
            if batch.state in ("collected", "refused") and not (batch.cancelled or batch.waits or batch.too_large)
        }
        rows = self._store.query(
            "SELECT q.request_key, q.batch FROM batch_requests q"
            " LEFT JOIN responses r ON r.request_key = q.request_key WHERE r.request_key IS NULL"
        )
        return Counter(key for key, batch in rows if batch in counted)


def _row(batch: Batch) -> tuple[int, str, str, str | None, str]:
    return batch.number, batch.name, batch.state, batch.service_id, batch.model_dump_json(exclude=set(_COLUMNS))


def choose_mode(store: RunStore, batch: bool | None, most_requests: int | None) -> None:
    """Stores how requests are sent, and the size of a batch; None: unchanged. UsageError if batches are open."""
    if batch is False and BatchTable(store).open_batches():
        raise UsageError(
            f"--no-batch: {store.path.parent} has batches on their way; first: mbbq-gen batch collect"
            f" {store.path.parent}, or mbbq-gen batch cancel {store.path.parent}"
        )
    if batch is not None:
        set_mode(store, "on" if batch else "off")
    if most_requests is not None:
        store.set_meta(SIZE_META, str(most_requests))


def mode_of(store: RunStore) -> BatchMode:
    """How the requests of a run are sent."""
    found = store.meta(_MODE_META)
    return found if found in ("on", "stopped") else "off"  # type: ignore[return-value]


def set_mode(store: RunStore, mode: BatchMode) -> None:
    """Stores how the requests of a run are sent."""
    store.set_meta(_MODE_META, mode)


# --- judges -----------------------------------------------------------------------------------------------------------


class ExtractionSummary(NamedTuple):
    """The fields of an extraction that are compared between the rules and a judge."""

    outcome: Outcome
    option: int | None
    confidence: Confidence
    rule: str


class JudgedAnswer(NamedTuple):
    """The extractions of one response by the rules and by a judge. A NamedTuple, because a run has many."""

    prompt_id: str
    language: str
    template: str
    """Benchmark, category and template: the cluster in statistics."""
    selection: ChosenBy
    """`all` and `sample` are representative of the run (equal probability within a language)."""
    rules: ExtractionSummary
    judge: ExtractionSummary
    """Its option is as shown, counted from 0; None where the answer chooses none."""
    rules_choice: str
    """The role of the option; `first person` or `second person` without roles; `none` without an option."""
    judge_choice: str


def judged_answers(store: RunStore, judge: str, extractor: str, versions: Mapping[str, str]) -> Iterator[JudgedAnswer]:
    """The judged responses, by language in plan order; `versions`: extractor versions of the rules."""
    for language, version in sorted(versions.items()):
        rows = store.query(
            "SELECT j.prompt_id, i.benchmark || ' / ' || i.category || ' / ' || i.template_id, j.chosen_by,"
            " p.option_order, i.role_0, i.role_1, i.role_2, e.outcome, e.option, e.confidence, e.rule,"
            " d.outcome, d.option, d.confidence, d.rule FROM judgements j JOIN prompts p ON p.prompt_id = j.prompt_id"
            " JOIN instances i ON i.key = p.instance_key"
            " JOIN extractions e ON e.prompt_id = j.prompt_id AND e.extractor = ?"
            " JOIN extractions d ON d.prompt_id = j.prompt_id AND d.extractor = ?"
            " WHERE j.judge = ? AND p.language = ? ORDER BY j.number",
            (version, extractor, judge, language),
        )
        for prompt_id, template, chosen_by, order, *found in rows:
            unnamed = iter(("first person", "second person"))
            roles = [role or next(unnamed) for role in found[:3]]
            read = ExtractionSummary(*found[3:7]), ExtractionSummary(*found[7:])
            choices = ["none" if one.option is None else roles[int(order[one.option])] for one in read]
            yield JudgedAnswer(prompt_id, language, template, chosen_by, *read, *choices)


# --- rounds -----------------------------------------------------------------------------------------------------------


class Stratum(NamedTuple):
    """A group of templates that are sampled evenly in an adaptive run."""

    benchmark: str
    split: str
    language: str
    category: str


class CandidateRequest(NamedTuple):
    """A planned prompt, with the fields by which rounds choose prompts."""

    request_key: str
    stratum: Stratum
    template: str
    kind: Kind
    question: str
    """The same in all languages and splits."""
    prompt_variant: str
    """Its id, label style and reasoning effort."""
    order: str
    """The roles by position, joined; 1 for an option without one."""
    round: int
    """The round that its request is in; 0: none."""
    has_single_target: int


def candidate_requests(store: RunStore) -> Iterator[CandidateRequest]:
    """The planned prompts, in plan order."""
    role = "CASE substr(p.option_order, {}, 1) WHEN '0' THEN i.role_0 WHEN '1' THEN i.role_1 ELSE i.role_2 END"
    roles = " || ".join(f"coalesce({role.format(place)}, 1)" for place in (1, 2, 3))
    rows = store.query(
        "SELECT i.benchmark, i.split, i.language, i.category, i.condition, i.polarity, i.alignment, p.request_key,"
        " i.template_id, i.twin, p.variant || ' ' || p.label_style || coalesce(' ' || p.reasoning_effort, ''),"
        f" {roles}, coalesce(r.round, 0), i.has_single_target FROM prompts p JOIN instances i ON i.key = p.instance_key"
        " LEFT JOIN rounds r ON r.request_key = p.request_key ORDER BY p.number"
    )
    for row in rows:
        key, template, *others = row[7:]
        yield CandidateRequest(key, Stratum(*row[:4]), template, row[4:7], *others)
