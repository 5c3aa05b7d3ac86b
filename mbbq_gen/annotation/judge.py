"""LLM judges: the prompt, requests about responses, and extractions from replies.

    The options, each with its name for your reply, …          a seeded order of its own for every answer
    X1: shown as "B": "The grandson"
    X2: shown as "C": "Not known"
    X3: shown as "A": "The grandfather"

    The answer stands between the two lines with the mark [[9f2c41d7a06b]].
    [[9f2c41d7a06b]]
    It was the grandson.
    [[9f2c41d7a06b]]

The prompt contains the question, the options as shown, and the response, but no role and no gold label. The order and
the mark depend only on these and the seed, so equal responses to equal questions share one request. A judge that is
resumed uses its stored copy of the prompt.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import count, islice
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from pydantic import Field, JsonValue, field_serializer

from mbbq_gen.core.config import RunConfig
from mbbq_gen.core.files import stable_digest, stable_number
from mbbq_gen.core.option_display import unknown_position
from mbbq_gen.core.records import PARSED, Extraction, FrozenModel, Message, NonBlank, Outcome, Request, Response, decode
from mbbq_gen.runs.extraction import JUDGE_PREFIX, question_of
from mbbq_gen.storage.ledgers import ChosenBy
from mbbq_gen.storage.queries import ExtractionRow, read_completed
from mbbq_gen.storage.schema import BATCH, EXTRACTION, Value, extraction_row, marks, replace_error, response_row
from mbbq_gen.storage.store import COMPLETED, CompletedPrompt, Progress, RunStore

NO_OPTION: Final = "none"
"""The option of a reply that chooses none."""
_PLACEHOLDER: Final = re.compile(r"\{(question|options|mark|answer)\}")
_MARK_LENGTH: Final = 12


class JudgePrompt(FrozenModel):
    """The judge's prompt, as `judge_prompt.toml` defines it."""

    version: int = Field(ge=1)
    source: NonBlank
    licence: NonBlank
    labels: tuple[NonBlank, ...] = Field(min_length=3, max_length=3)
    system: NonBlank
    user: NonBlank
    outcomes: dict[str, Outcome] = Field(min_length=1)
    """Outcome in the reply → outcome of the extraction."""

    @property
    def digest(self) -> str:
        """The sha256 of all fields that determine a request or its interpretation."""
        content = self.model_dump(mode="json", exclude={"source", "licence"})
        return stable_digest(json.dumps(content, sort_keys=True, ensure_ascii=False))

    def reply_schema(self) -> dict[str, JsonValue]:
        """The JSON schema of a reply, with keywords that all services with structured output support."""
        return {
            "type": "object",
            "properties": {
                "outcome": {"type": "string", "enum": list(self.outcomes)},
                "option": {"type": "string", "enum": [*self.labels, NO_OPTION]},
            },
            "required": ["outcome", "option"],
            "additionalProperties": False,
        }


@cache
def shipped_prompt() -> JudgePrompt:
    """The prompt of this package."""
    text = files("mbbq_gen.annotation").joinpath("judge_prompt.toml").read_text(encoding="utf-8")
    return JudgePrompt.model_validate(tomllib.loads(text))


class JudgeInput(NamedTuple):
    """The option order and messages of a request to a judge."""

    option_order: tuple[int, ...]
    """For each label of the judge, the position of its option in the model's prompt."""
    messages: tuple[Message, ...]


def judge_input(answered: CompletedPrompt, prompt: JudgePrompt, seed: int) -> JudgeInput:
    """The option order and messages of the request about a stored response."""
    question = question_of(answered)
    texts = (answered.instance.question, answered.response.text or "")
    shown = list(zip(question.labels, question.options, strict=True))
    order = tuple(sorted(range(len(shown)), key=lambda place: stable_number("judge", seed, *texts, *shown[place])))
    lines = [
        f"{name}: shown as {': '.join(json.dumps(text, ensure_ascii=False) for text in shown[place])}"
        for name, place in zip(prompt.labels, order, strict=True)
    ]
    # the model cannot predict the mark, and the response does not contain it
    marks = (f"[[{stable_digest('mark', seed, number, texts[1])[:_MARK_LENGTH]}]]" for number in count())
    values = {
        "question": texts[0].strip(),
        "options": "\n".join(lines),
        "mark": next(mark for mark in marks if mark not in texts[1]),
        "answer": texts[1],
    }
    user = _PLACEHOLDER.sub(lambda found: values[found[1]], prompt.user.strip())
    return JudgeInput(
        option_order=order,
        messages=(Message(role="system", content=prompt.system.strip()), Message(role="user", content=user)),
    )


Fault = Literal[
    "content_filter",  # the service blocked the request or the reply
    "refused",  # the judge refused
    "empty",  # no text
    "truncated",  # cut off before the object was complete
    "invalid_json",  # no object with an outcome
    "two_readings",  # objects with different choices
    "quoted",  # an object within text, and the judged response contains such an object: it may be quoted
    "invalid_choice",  # an unknown outcome or option, or two that contradict each other
]
INVALID: Final = "judge.unparsed."
"""Prefix of the rules of extractions from invalid replies; a fault follows."""
_REASONING: Final = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_FENCE: Final = re.compile(r"\A\s*```(?:json)?|```\s*\Z")
_MOST_OBJECTS: Final = 50
"""Most braces at which an object is parsed; a valid reply has one or two."""


def is_valid(rule: str) -> bool:
    """Whether a judge's extraction with this rule comes from a valid reply."""
    return not rule.startswith(INVALID)


def parse_judge_reply(
    reply: Response, prompt: JudgePrompt, order: Sequence[int], unknown_index: int, answer: Response
) -> Extraction:
    """The extraction of a judge's reply.

    Args:
        reply: a successful response of the judge.
        order: for each label of the judge, the position of its option in the model's prompt.
        unknown_index: position of the unknown option in the model's prompt.
        answer: the judged response; `truncated` without a choice if it was cut off.
    """
    found = _parse_reply(reply, prompt, prompt.labels[list(order).index(unknown_index)], answer)
    if isinstance(found, str):
        return Extraction(outcome="unparsed", confidence="low", rule=f"{INVALID}{found}")
    word, label = found
    outcome: Outcome = prompt.outcomes[word]
    option = None
    if outcome in PARSED:
        option = unknown_index if label is None else order[prompt.labels.index(label)]
    if outcome == "unparsed" and answer.finish_reason == "length":
        outcome = "truncated"
    return Extraction(outcome=outcome, option=option, confidence="medium", rule=f"judge.parsed.{word}")


def _parse_reply(
    reply: Response, prompt: JudgePrompt, unknown: str, answer: Response
) -> tuple[str, str | None] | Fault:
    """Outcome and label of a reply, or its fault; `unknown` is the label of the unknown option."""
    if reply.finish_reason == "content_filter":
        return "content_filter"
    text = _REASONING.sub("", reply.text or "").strip()
    if not text and reply.finish_reason != "length":
        return "refused" if reply.refusal else "empty"
    found = [_parse_choice(entry, prompt, unknown) for entry in _json_objects(text)]
    if not found:
        return "truncated" if reply.finish_reason == "length" else "invalid_json"
    if len(set(found)) > 1:
        return "two_readings"
    if found[0] is None:
        return "invalid_choice"
    # the response contains such an object: the reply may quote it, unless the reply is an object and nothing else
    if next(_json_objects(answer.text or ""), None) is not None:
        try:
            return found[0] if isinstance(json.loads(_FENCE.sub("", text)), dict) else "quoted"
        except (ValueError, RecursionError):
            return "quoted"
    return found[0]


def _json_objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects with an outcome in a text, in order."""
    decoder, start = json.JSONDecoder(), 0
    for _ in range(_MOST_OBJECTS):
        start = text.find("{", start)
        if start < 0:
            return
        try:
            value, start = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            start += 1
            continue
        if "outcome" in value:
            yield value


def _parse_choice(entry: dict[str, Any], prompt: JudgePrompt, unknown: str) -> tuple[str, str | None] | None:
    """Outcome and label of an object; None if one is unknown, or they contradict each other."""
    word, label = entry["outcome"], entry.get("option")
    meaning = prompt.outcomes.get(word) if isinstance(word, str) else None
    if meaning is None:
        return None
    label = None if label == NO_OPTION else label
    if meaning == "option":
        return (word, label) if label in prompt.labels else None
    # "can't be determined" means the unknown option: its label is no contradiction
    return (word, None) if label in ((None, unknown) if meaning in PARSED else (None,)) else None


# --- the judges of a run ----------------------------------------------------------------------------------------------

BY_CHANCE: Final[tuple[ChosenBy, ...]] = ("all", "sample")
"""Selections that are representative of the run."""


class LLMJudge(FrozenModel):
    """A chat model that extracts the responses of a run."""

    name: str
    """Its name in this run; `judge:NAME` is its extractor."""
    model: str
    model_args: dict[str, JsonValue] = Field(default_factory=dict)
    provider_settings: dict[str, JsonValue]
    """Settings that affect the model's text; part of every request key."""
    prompt: JudgePrompt
    """The complete prompt, so that a later version of the package does not change it."""
    seed: int = 0
    execution: RunConfig = RunConfig()
    runtime_info: dict[str, JsonValue] = Field(default_factory=dict)
    """Facts that do not affect the text: server, versions, parameters that the model rejected."""
    created_at: str

    @field_serializer("execution")
    def _given(self, execution: RunConfig) -> dict[str, JsonValue]:
        """Serialises only the settings that were given."""
        return execution.model_dump(exclude_defaults=True)

    @property
    def extractor(self) -> str:
        """The extractor version of its extractions."""
        return f"{JUDGE_PREFIX}{self.name}"


def judges_of(store: RunStore) -> dict[str, LLMJudge]:
    """Name → judge, for all judges of a run."""
    rows = store.query("SELECT name, record FROM judges ORDER BY name")
    return {name: LLMJudge.model_validate_json(record) for name, record in rows}


class JudgeTable:
    """The requests and replies of one judge: a `runs.budget.PendingSource`. Written under the run's lock only."""

    def __init__(self, store: RunStore, judge: LLMJudge) -> None:
        self._store, self.judge = store, judge

    def update(self, judge: LLMJudge) -> None:
        """Stores changed fields of the judge; its name must not change."""
        self.judge = judge
        row = (judge.name, judge.model_dump_json())
        self._store.change(("INSERT OR REPLACE INTO judges VALUES (?, ?)", [row]))

    def add_judgements(self, rows: Iterable[Sequence[Value]], chosen_by: ChosenBy) -> int:
        """Stores rows (number, prompt_id, request_key, shown); returns the number of new ones.

        A representative selection (`BY_CHANCE`) also replaces `chosen_by` of earlier rows.
        """
        count = "SELECT count(*) FROM judgements WHERE judge = ?"
        before = self._store.value(count, self.judge.name)
        action = "UPDATE SET chosen_by = excluded.chosen_by" if chosen_by in BY_CHANCE else "NOTHING"
        statement = f"INSERT INTO judgements VALUES (?,?,?,?,?,?) ON CONFLICT (judge, prompt_id) DO {action}"
        self._store.change((statement, [(self.judge.name, *row, chosen_by) for row in rows]))
        return int(self._store.value(count, self.judge.name) - before)

    def progress(self) -> Progress:
        """The numbers of requests, and of those with a reply."""
        requests, answered, failed = self._store.query(
            "SELECT (SELECT count(DISTINCT request_key) FROM judgements WHERE judge = ?1),"
            " count(*) FILTER (WHERE is_error = 0), count(*) FILTER (WHERE is_error = 1)"
            " FROM judge_replies WHERE judge = ?1",
            (self.judge.name,),
        ).fetchone()
        return Progress(int(requests), int(answered), int(failed))

    def pending(self) -> Iterator[Request]:
        """The requests without a reply, in plan order; replies may be added meanwhile."""
        rows = self._store.paged(
            f"SELECT j.number, j.request_key, p.record, i.record, r.record FROM {COMPLETED}"
            " JOIN judgements j ON j.prompt_id = p.prompt_id"
            " LEFT JOIN judge_replies d ON d.judge = j.judge AND d.request_key = j.request_key AND d.is_error = 0"
            " WHERE j.judge = ? AND d.request_key IS NULL AND NOT EXISTS (SELECT 1 FROM judgements k"
            " WHERE k.judge = j.judge AND k.request_key = j.request_key AND k.number < j.number)"
            " AND j.number > ? ORDER BY j.number LIMIT ?",
            self.judge.name,
        )
        for _, key, prompt, stored_instance, response in rows:
            instance = self._store.text(stored_instance)
            answered = read_completed(self._store, prompt, instance, response)
            messages = judge_input(answered, self.judge.prompt, self.judge.seed).messages
            yield Request(request_key=key, messages=messages, prompt=answered.prompt, instance_record=instance)

    def read_replies(self) -> None:
        """Stores the extractions of new replies as the version `judge:NAME`."""
        rows = self._store.paged(
            f"SELECT j.number, j.shown, d.record, p.record, i.record, r.record FROM {COMPLETED}"
            " JOIN judgements j ON j.prompt_id = p.prompt_id"
            " JOIN judge_replies d ON d.judge = j.judge AND d.request_key = j.request_key AND d.is_error = 0"
            " LEFT JOIN extractions e ON e.prompt_id = j.prompt_id AND e.extractor = ?"
            " WHERE j.judge = ? AND (e.prompt_id IS NULL OR e.outcome = 'error') AND j.number > ?"
            " ORDER BY j.number LIMIT ?",
            *(self.judge.extractor, self.judge.name),
        )
        while batch := list(islice(rows, BATCH)):
            found = []
            for _, shown, record, *records in batch:
                answered = read_completed(self._store, *records)
                unknown = unknown_position(answered.instance, answered.prompt.option_order)
                reply, order = decode(Response, record), tuple(map(int, shown.split(",")))
                extraction = parse_judge_reply(reply, self.judge.prompt, order, unknown, answered.response)
                found.append((answered.prompt.prompt_id, *extraction_row(extraction)))
            self._store.add_extractions(self.judge.extractor, found)

    def copy_extractions(self, extractions: Iterable[ExtractionRow]) -> None:
        """Copies extractions of the rules as extractions of this judge."""
        columns = ", ".join(EXTRACTION)
        statement = (
            f"INSERT INTO extractions SELECT prompt_id, ?, {columns} FROM extractions"
            " WHERE prompt_id = ? AND extractor = ? ON CONFLICT DO NOTHING"
        )
        rows = [(self.judge.extractor, found.prompt_id, found.extractor) for found in extractions]
        self._store.change((statement, rows))

    def add_responses(
        self, responses: Sequence[tuple[Response, str]], meta: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Stores replies and values of this judge, as `RunStore.add_responses` does."""
        rows = [(self.judge.name, *response_row(reply, received_at)) for reply, received_at in responses]
        self._store.change(
            (
                f"INSERT INTO judge_replies VALUES ({marks(15)}) ON CONFLICT (judge, request_key)"
                f" {replace_error('judge_replies')}",
                rows,
            ),
            ("INSERT OR REPLACE INTO meta VALUES (?, ?)", [(self._meta_name(name), meta[name]) for name in meta]),
        )

    def meta(self, name: str) -> str | None:
        """A value stored for this judge, or None."""
        return self._store.meta(self._meta_name(name))

    def set_meta(self, name: str, value: str) -> None:
        """Stores a value for this judge."""
        self._store.set_meta(self._meta_name(name), value)

    def _meta_name(self, name: str) -> str:
        return f"{name}:{self.judge.name}"

    def reply_tokens(self) -> dict[str, int | None]:
        """Request key → output tokens of its reply, reasoning included; None where unknown."""
        replies = "SELECT request_key, output_tokens FROM judge_replies WHERE judge = ? AND is_error = 0"
        return dict(self._store.query(replies, (self.judge.name,)).fetchall())
