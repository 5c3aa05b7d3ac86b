"""Follow-ups of a run: second turns of conversations, which ask what an answer intended, and their readings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from mbbq_gen.core.records import PARSED, Instance, Message, Prompt, Request, Response
from mbbq_gen.storage.schema import Database

FollowUpReason = Literal["unread", "low", "check"]
"""Why an answer is followed up: nothing was read, it was read with low confidence, or it is in the check sample."""
NONE_RULE: Final = "follow_up.none"
"""Rule of a reply that says that no option was chosen."""
_REQUEST: Final = (
    "SELECT u.number, u.request_key, u.turns, u.max_tokens, p.record, i.record FROM follow_ups u"
    " JOIN prompts p ON p.prompt_id = u.prompt_id JOIN instances i ON i.key = p.instance_key"
)
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
