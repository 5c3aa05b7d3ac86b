"""The table of an LLM judge: its requests about a run, and its replies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from pydantic import Field, JsonValue, ValidationError, field_serializer

from mbbq_gen.annotation.judge import JudgePrompt, parse_judge_reply, sheet_of
from mbbq_gen.core.config import RunConfig
from mbbq_gen.core.errors import RunError, describe_fault
from mbbq_gen.core.options import shown_unknown
from mbbq_gen.core.records import Extraction, FrozenModel, Instance, Prompt, Request, Response
from mbbq_gen.runs.extraction import JUDGE_PREFIX
from mbbq_gen.storage.queries import ExtractionRow
from mbbq_gen.storage.store import CompletedPrompt, Progress, RunStore

ChosenBy = Literal["all", "sample", "only"]
"""Why a judge reads an answer: it reads all of them, the answer was drawn by chance, or for how the rules read it."""


BY_CHANCE: Final[tuple[ChosenBy, ...]] = ("all", "sample")
"""What stands for the run: an answer that was picked for being hard to read does not."""


_BATCH: Final = 500


class LLMJudge(FrozenModel):
    """A second reader of a run."""

    name: str
    """What it is called in this run; `judge:NAME` is its extractor."""
    model: str
    """`kind:model`."""
    model_args: dict[str, JsonValue] = Field(default_factory=dict)
    """Options of the provider that were given, by name."""
    provider_settings: dict[str, JsonValue]
    """What shapes the model's text: part of every request key."""
    prompt: JudgePrompt
    """The whole prompt: it stays the same whatever ships later."""
    seed: int = 0
    """Of the order in which it sees options."""
    execution: RunConfig = RunConfig()
    """Limits, prices and cache, as a run has them."""
    runtime_info: dict[str, JsonValue] = Field(default_factory=dict)
    """What is true of it but shapes no text: server, versions, parameters that the model refused."""
    created_at: str
    """ISO 8601, UTC."""

    @field_serializer("execution")
    def _given(self, execution: RunConfig) -> dict[str, JsonValue]:
        """Only what was given."""
        return execution.model_dump(exclude_defaults=True)

    @property
    def extractor(self) -> str:
        """The version that its readings are stored under."""
        return f"{JUDGE_PREFIX}{self.name}"


class JudgeRequest(NamedTuple):
    """One answer that a judge is to read."""

    number: int
    """Of the prompt, in plan order."""
    prompt: Prompt
    instance: Instance
    option_order: tuple[int, ...]
    request: Request


def judges_of(store: RunStore) -> dict[str, LLMJudge]:
    """Name → judge, of all that a run has.

    Raises:
        RunError: where the store holds something else.
    """
    if not store.has_table("judges"):
        return {}
    rows = store.query("SELECT name, record FROM judges ORDER BY name")
    try:
        return {name: LLMJudge.model_validate_json(record) for name, record in rows}
    except ValidationError as error:
        raise RunError(f"{store.path}: judges: {describe_fault(error, {})}") from error


class JudgeTable:
    """The requests of one judge. Written under the run's lock only."""

    def __init__(self, store: RunStore, judge: LLMJudge) -> None:
        self._store = store
        self.judge = judge

    def keep(self, judge: LLMJudge) -> None:
        """Writes the judge down as it is now; its name stays."""
        self.judge = judge
        row = (judge.name, judge.model_dump_json())
        self._store.change(("INSERT OR REPLACE INTO judges VALUES (?, ?)", [row]))

    def plan(self, requests: Iterable[JudgeRequest], chosen_by: ChosenBy) -> int:
        """Stores requests; returns how many of them are new.

        What was picked by hand before and is drawn by chance now counts as drawn by chance.
        """
        before = self._planned()
        rows = [
            (
                *(self.judge.name, ask.number, ask.prompt.prompt_id, ask.request.request_key),
                *(",".join(map(str, ask.option_order)), chosen_by),
            )
            for ask in requests
        ]
        better = "" if chosen_by == "only" else " DO UPDATE SET chosen_by = excluded.chosen_by"
        self._store.change(
            (
                "INSERT INTO judgements VALUES (?,?,?,?,?,?) ON CONFLICT (judge, prompt_id)"
                + (better or " DO NOTHING"),
                rows,
            )
        )
        return self._planned() - before

    def _planned(self) -> int:
        (count,) = self._store.query("SELECT count(*) FROM judgements WHERE judge = ?", (self.judge.name,)).fetchone()
        return int(count)

    # --- asking: what the runner needs ---

    def progress(self) -> Progress:
        """How far it is, in requests."""
        (requests,) = self._store.query(
            "SELECT count(DISTINCT request_key) FROM judgements WHERE judge = ?", (self.judge.name,)
        ).fetchone()
        answered, failed = self._store.query(
            "SELECT count(*) FILTER (WHERE is_error = 0), count(*) FILTER (WHERE is_error = 1) FROM judge_replies"
            " WHERE judge = ?",
            (self.judge.name,),
        ).fetchone()
        return Progress(int(requests), int(answered), int(failed))

    def pending(self) -> Iterator[Request]:
        """The requests without a reply, in plan order, one for answers that ask the same.

        May be read while replies are added: it asks the file again for every few hundred rows.
        """
        after = -1
        while rows := self._store.query(
            "SELECT j.number, j.request_key, p.record, i.record, r.record FROM judgements j"
            " JOIN prompts p ON p.prompt_id = j.prompt_id"
            " JOIN instances i ON i.key = p.instance_key JOIN responses r ON r.request_key = p.request_key"
            " LEFT JOIN judge_replies d ON d.judge = j.judge AND d.request_key = j.request_key AND d.is_error = 0"
            " WHERE j.judge = ? AND j.number > ? AND d.request_key IS NULL AND NOT EXISTS (SELECT 1 FROM judgements k"
            " WHERE k.judge = j.judge AND k.request_key = j.request_key AND k.number < j.number)"
            " ORDER BY j.number LIMIT ?",
            (self.judge.name, after, _BATCH),
        ).fetchall():
            for number, request_key, prompt, instance, response in rows:
                after, answered = number, _answered(prompt, instance, response)
                yield Request(
                    request_key=request_key,
                    messages=sheet_of(answered, self.judge.prompt, self.judge.seed).messages,
                    prompt=answered.prompt,
                    instance=answered.instance,
                )

    def meta(self, name: str) -> str | None:
        """A value kept for this judge, or None."""
        return self._store.meta(self._own(name))

    def set_meta(self, name: str, value: str) -> None:
        """Keeps a value for this judge."""
        self._store.set_meta(self._own(name), value)

    def _own(self, name: str) -> str:
        return f"{name}:{self.judge.name}"

    def add_responses(
        self, responses: Sequence[tuple[Response, str]], meta: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Stores replies, each with the time (ISO 8601, UTC); durable when this returns.

        A reply is never replaced; a failure is replaced by whatever comes later. `meta`: values of this judge that
        change with them, in the same transaction.
        """
        rows = [
            (self.judge.name, reply.request_key, int(reply.error is not None), received_at, reply.model_dump_json())
            for reply, received_at in responses
        ]
        self._store.change(
            (
                "INSERT INTO judge_replies VALUES (?,?,?,?,?) ON CONFLICT (judge, request_key) DO UPDATE SET"
                " is_error = excluded.is_error, received_at = excluded.received_at, record = excluded.record"
                " WHERE judge_replies.is_error = 1",
                rows,
            ),
            ("INSERT OR REPLACE INTO meta VALUES (?, ?)", [(self._own(name), value) for name, value in meta.items()]),
        )

    # --- reading ---

    def read_replies(self) -> int:
        """Turns replies that have not been read yet into readings of the version `judge:NAME`; says how many."""
        count = 0
        unparsed = self._unparsed()
        while batch := list(islice(unparsed, _BATCH)):
            self._store.add_extractions(self.judge.extractor, batch)
            count += len(batch)
        return count

    def take_over(self, settled: Iterable[ExtractionRow]) -> None:
        """Stores readings that are not the judge's to give as its own: what the service itself says of an answer."""
        rows = [(self.judge.extractor, extraction.prompt_id, extraction.extractor) for extraction in settled]
        self._store.change(
            (
                "INSERT INTO extractions SELECT prompt_id, ?, outcome, record FROM extractions"
                " WHERE prompt_id = ? AND extractor = ? ON CONFLICT DO NOTHING",
                rows,
            )
        )

    def _unparsed(self) -> Iterator[tuple[str, Extraction]]:
        after = -1
        while rows := self._store.query(
            "SELECT j.number, j.shown, p.record, i.record, r.record, d.record FROM judgements j"
            " JOIN prompts p ON p.prompt_id = j.prompt_id"
            " JOIN instances i ON i.key = p.instance_key JOIN responses r ON r.request_key = p.request_key"
            " JOIN judge_replies d ON d.judge = j.judge AND d.request_key = j.request_key AND d.is_error = 0"
            " LEFT JOIN extractions e ON e.prompt_id = j.prompt_id AND e.extractor = ?"
            " WHERE j.judge = ? AND j.number > ? AND (e.prompt_id IS NULL OR e.outcome = 'error')"
            " ORDER BY j.number LIMIT ?",
            (self.judge.extractor, self.judge.name, after, _BATCH),
        ).fetchall():
            for number, shown, prompt, instance, response, reply in rows:
                after, answered = number, _answered(prompt, instance, response)
                yield (
                    answered.prompt.prompt_id,
                    parse_judge_reply(
                        Response.model_validate_json(reply),
                        self.judge.prompt,
                        [int(place) for place in shown.split(",")],
                        shown_unknown(answered.instance, answered.prompt.option_order),
                        answered.response,
                    ),
                )

    def answered_keys(self) -> set[str]:
        """The keys of the requests that have a reply."""
        if not self._store.has_table("judge_replies"):
            return set()
        rows = self._store.query(
            "SELECT request_key FROM judge_replies WHERE judge = ? AND is_error = 0", (self.judge.name,)
        )
        return {key for (key,) in rows}


def _answered(prompt: str, instance: str, response: str) -> CompletedPrompt:
    return CompletedPrompt(
        Prompt.model_validate_json(prompt),
        Instance.model_validate_json(instance),
        Response.model_validate_json(response),
    )


def answers_by_number(store: RunStore, ids: set[str]) -> Iterator[tuple[int, CompletedPrompt]]:
    """The answered prompts of these ids, each with its number, in plan order."""
    rows = store.query(
        "SELECT p.number, p.prompt_id, p.record, i.record, r.record FROM prompts p"
        " JOIN instances i ON i.key = p.instance_key JOIN responses r ON r.request_key = p.request_key"
        " ORDER BY p.number"
    )
    while batch := rows.fetchmany(_BATCH):
        for number, prompt_id, prompt, instance, response in batch:
            if prompt_id in ids:
                yield number, _answered(prompt, instance, response)
