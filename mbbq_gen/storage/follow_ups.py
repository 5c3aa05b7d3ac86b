"""Follow-ups of a run: second turns of conversations, which ask what an answer intended, and their readings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from mbbq_gen.core.records import PARSED, Extraction, Instance, Message, Prompt, Request, Response
from mbbq_gen.storage.schema import EXTRACTION, Database, Value, extraction_row

if TYPE_CHECKING:
    from mbbq_gen.storage.store import Progress, RunStore

FollowUpReason = Literal["unread", "low", "check"]
"""Why an answer is followed up: nothing was read, it was read with low confidence, or it is in the check sample."""
NONE_RULE: Final = "follow_up.none"
"""Rule of a reply that says that no option was chosen."""
_JOINED: Final = "follow_ups u JOIN prompts p ON p.prompt_id = u.prompt_id JOIN instances i ON i.key = p.instance_key"
_REQUEST: Final = f"SELECT u.number, u.request_key, u.turns, u.max_tokens, p.record, i.record FROM {_JOINED}"
_PARSED: Final = ", ".join(f"'{outcome}'" for outcome in sorted(PARSED))
COUNTS: Final = (
    f"(e.outcome NOT IN ({_PARSED}, 'error', 'content_filter') OR (u.reason = 'low' AND e.confidence = 'low'))"
    f" AND (u.outcome IN ({_PARSED}) OR u.rule = '{NONE_RULE}')"
)
"""The condition that follow-up `u` takes the place of extraction `e`: nothing certain was read, and the reply says what
was intended. Of an answer in the check sample the first reading stays."""


def _requests(store: Database, rows: Iterable[Sequence[Any]]) -> Iterator[Request]:
    for _, key, turns, limit, record, instance in rows:
        prompt = store.read(Prompt, record)
        messages = (*prompt.messages, *map(Message.model_validate, json.loads(turns)))
        question = store.read(Instance, instance)
        yield Request(request_key=key, messages=messages, prompt=prompt, instance=question, max_tokens=limit)


def pending_follow_ups(store: Database) -> Iterator[Request]:
    """The follow-ups without a response, in plan order, one for each request key; responses may be added meanwhile."""
    rows = store.paged(
        f"{_REQUEST} LEFT JOIN responses r ON r.request_key = u.request_key AND r.is_error = 0"
        " WHERE r.request_key IS NULL AND NOT EXISTS (SELECT 1 FROM follow_ups v"
        " WHERE v.request_key = u.request_key AND v.number < u.number) AND u.number > ? ORDER BY u.number LIMIT ?"
    )
    return _requests(store, rows)


def follow_up_request(store: Database, request_key: str) -> Request:
    """The follow-up of that request key, which must be planned."""
    rows = store.query(f"{_REQUEST} WHERE u.request_key = ? ORDER BY u.number LIMIT 1", (request_key,))
    return next(_requests(store, rows))


class FollowUpTable:
    """The follow-ups of a run as something to send: a `runs.budget.PendingSource`."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self.meta, self.set_meta, self.add_responses = store.meta, store.set_meta, store.add_responses

    def pending(self) -> Iterator[Request]:
        """The follow-ups without a response."""
        return pending_follow_ups(self._store)

    def progress(self) -> Progress:
        """Progress of the follow-ups alone."""
        return self._store.progress(follow_ups_only=True)

    def add(self, planned: Iterable[Mapping[str, Value]]) -> int:
        """Stores follow-ups, by column; returns how many are new. An answer has one; `low` replaces `check`."""
        before = self.count()
        self._store.change(
            (
                "INSERT INTO follow_ups (prompt_id, number, request_key, reason, turns, none, max_tokens)"
                " VALUES (:prompt_id, :number, :request_key, :reason, :turns, :none, :max_tokens)"
                " ON CONFLICT (prompt_id) DO UPDATE SET reason = 'low'"
                " WHERE follow_ups.reason = 'check' AND excluded.reason = 'low'",
                planned,
            )
        )
        return self.count() - before

    def withdraw(self) -> None:
        """Deletes the follow-ups without a response: the model takes none."""
        gone = "DELETE FROM follow_ups WHERE request_key NOT IN (SELECT request_key FROM responses WHERE is_error = 0)"
        self._store.change((gone, [()]))

    def count(self) -> int:
        """How many answers are followed up."""
        return int(self._store.value("SELECT count(*) FROM follow_ups"))

    def unread(self, language: str, version: str) -> list[tuple[str, str, tuple[Prompt, Instance, Response]]]:
        """The replies in a language that this extractor version has not read.

        Rows of prompt id, the reply that chooses none, and prompt (with the turns of the follow-up as its messages),
        instance and response.
        """
        rows = self._store.query(
            f"SELECT u.prompt_id, u.none, u.turns, p.record, i.record, r.record FROM {_JOINED}"
            " JOIN responses r ON r.request_key = u.request_key AND r.is_error = 0"
            " WHERE p.language = ? AND u.version IS NOT ? ORDER BY u.number",
            (language, version),
        )
        return [
            (name, none, (
                Prompt.model_validate({**json.loads(self._store.text(prompt)), "messages": json.loads(turns)}),
                self._store.read(Instance, instance),
                self._store.read(Response, response),
            ))
            for name, none, turns, prompt, instance, response in rows
        ]  # fmt: skip

    def keep(self, version: str, readings: Iterable[tuple[str, Extraction]]) -> None:
        """Stores how replies were read."""
        values = ((version, *extraction_row(read), name) for name, read in readings)
        columns = ", ".join(f"{name} = ?" for name in ("version", *EXTRACTION))
        self._store.change((f"UPDATE follow_ups SET {columns} WHERE prompt_id = ?", values))

    def readings(self) -> tuple[int, int]:
        """How many replies were parsed, and how many choose no option."""
        read, none = self._store.query(
            f"SELECT count(*) FILTER (WHERE outcome IN ({_PARSED})), count(*) FILTER (WHERE rule = '{NONE_RULE}')"
            " FROM follow_ups"
        ).fetchone()
        return read, none


class FollowUpRow(NamedTuple):
    """A first reading with that of its follow-up."""

    prompt_id: str
    language: str
    first_outcome: str
    first_option: int | None
    reason: FollowUpReason | None
    outcome: str | None
    """How the reply was read; None where there is none."""
    option: int | None
    rule: str | None
    counts: bool
    """Whether it takes the place of the first reading (COUNTS)."""

    @property
    def reply(self) -> str | None:
        """How the reply was read, `none` for no option; None where it does not say what was intended."""
        return "none" if self.rule == NONE_RULE else self.outcome if self.outcome in PARSED else None


def follow_up_rows(store: Database, versions: Mapping[str, Sequence[str]]) -> Iterator[FollowUpRow]:
    """Every row of `RunStore.answer_rows` for these extractor versions, in its order, with its follow-up."""
    columns = "p.prompt_id, p.language, e.outcome, e.option, u.reason, u.outcome, u.option, u.rule"
    joined = "LEFT JOIN follow_ups u ON u.prompt_id = p.prompt_id"
    rows = store.readings(f"{columns}, coalesce({COUNTS}, 0)", versions, joined)
    return (FollowUpRow._make((*row[:-1], bool(row[-1]))) for row in rows)


REPLY_COLUMNS: Final = tuple(
    f"follow_up_{name}" for name in ("reason", "outcome", "position", "confidence", "response")
)
"""The columns of a follow-up in exports."""


def follow_up_columns(store: Database, prompt_ids: Sequence[str]) -> dict[str, dict[str, object]]:
    """Prompt id → its follow-up by REPLY_COLUMNS, of those that have one."""
    rows = store.query(
        "SELECT u.prompt_id, r.record, u.reason, u.outcome, u.option, u.confidence"
        " FROM json_each(?) w JOIN follow_ups u ON u.prompt_id = w.value"
        " LEFT JOIN responses r ON r.request_key = u.request_key AND r.is_error = 0",
        (json.dumps(list(prompt_ids)),),
    )
    found = {}
    for prompt_id, record, *values in rows:
        text = None if record is None else store.read(Response, record).text
        found[prompt_id] = dict(zip(REPLY_COLUMNS, (*values, text), strict=True))
    return found
