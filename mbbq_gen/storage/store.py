"""The store of a run: reads and writes prompts, responses and extractions (tables: `storage.schema`).

One process writes, and every response is durable at once. Prompts with equal requests share one request and response.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

from mbbq_gen.core.errors import RunError
from mbbq_gen.core.option_display import SamplingUnit
from mbbq_gen.core.records import (
    PARSED,
    ContinuationScore,
    Instance,
    Message,
    Prompt,
    Request,
    Response,
    Role,
    construct_valid,
)
from mbbq_gen.scoring.observations import INSTANCE_COLUMNS, QUESTION_ROW, Questions, question_row, questions_from_rows
from mbbq_gen.storage.schema import BATCH, RESPONSE, Database, Value, marks, replace_error, response_row

SCORED: Final = "scored"
"""Meta name that marks runs with loglikelihood methods."""
NORMALISE: Final = "normalization"
IN_ROUNDS: Final = "in_rounds"
"""Meta name that marks adaptive runs: only requests in `rounds` are sent."""
COMPLETED: Final = (
    "prompts p JOIN instances i ON i.key = p.instance_key JOIN responses r ON r.request_key = p.request_key"
)
WORDS: Final = " AND p.method = 'generate'"
"""The condition that the response to prompt `p` is a text."""
_CONTEXT: Final = INSTANCE_COLUMNS.index("context_id")
_FLAGS: Final = [INSTANCE_COLUMNS.index(name) for name in ("has_single_target", "groups_swapped", "proper_names")]
_UNSIGNED: Final = 2**63
"""Subtracted from the stored `context_id`, because SQLite's integers are signed."""
_KEPT: Final = 5000
"""Most instances and prompts that stay in memory after they were stored."""
_SCORE_COLUMNS: Final = ("option", "text", "logprob", "tokens", "characters", "bytes", "unconditional_logprob")
_OF_EXTRACTION: Final = ("outcome", "option", "confidence", "extractor")
ANSWER_ROW: Final = (
    *("instance_key", "variant", "label_style", "option_order", "method", "reasoning_effort"),
    *_OF_EXTRACTION,
)
NONE_RULE: Final = "follow_up.none"
"""Rule of a reply that states that no option was chosen."""
_FOLLOW_UP: Final = (
    "SELECT u.number, u.request_key, u.turns, u.max_tokens, p.record, i.record FROM follow_ups u"
    " JOIN prompts p ON p.prompt_id = u.prompt_id JOIN instances i ON i.key = p.instance_key"
)
_PARSED: Final = ", ".join(f"'{outcome}'" for outcome in sorted(PARSED))
COUNTS: Final = (
    f"(e.outcome NOT IN ({_PARSED}, 'error', 'content_filter') OR (u.reason = 'low' AND e.confidence = 'low'))"
    f" AND (u.outcome IN ({_PARSED}) OR u.rule = '{NONE_RULE}')"
)
"""The condition that follow-up `u` replaces the uncertain extraction `e`."""
Parallels = Mapping[str, Mapping[Role, str]]
"""Language → role → the option's text in it."""


@dataclass(frozen=True)
class Progress:
    """Progress of a run, in requests."""

    requests: int
    answered: int
    failed: int

    @property
    def pending(self) -> int:
        """Requests without a response; failed ones are sent again."""
        return self.requests - self.answered


@dataclass(frozen=True)
class CompletedPrompt:
    """A prompt with its instance and response."""

    prompt: Prompt
    instance: Instance
    response: Response
    parallels: Parallels = field(default_factory=dict)
    """Texts of the options in the run's other languages."""


@dataclass(frozen=True)
class StoredPrompt:
    """A completed prompt as stored: three JSON texts."""

    prompt: str
    instance: str
    response: str
    """Without loglikelihoods: they are in `option_scores`."""
    parallels: Parallels


@dataclass
class GrowingPlan:
    """The rest of a plan, stored while the first requests are in flight."""

    prompts: Iterator[tuple[Prompt, str]]
    """Prompts that are not stored yet, with their request keys."""
    left: int
    """Their number."""
    finish: Callable[[], None]
    """Called when all are stored."""


class RunStore(Database):
    """Prompts, responses and extractions of one run. Open it for writing only while holding the run's lock."""

    _plan: GrowingPlan | None = None
    _unrendered: Mapping[str, Instance] = MappingProxyType({})
    """Instances that were added last, by key: they are rendered next, and need not be read for that."""
    _unrequested: dict[str, Prompt] = {}  # noqa: RUF012
    """Prompts of a growing plan that were stored last, by request key: they need not be read to be requested."""
    _last_parallels: tuple[str, Parallels] = ("", MappingProxyType({}))
    """Key of the instance that `parallels` looked up last, and what it found."""

    # --- plan -----------------------------------------------------------------------------------------------------

    def clear_plan(self) -> None:
        """Deletes instances and prompts of an interrupted plan; responses stay."""
        self.change(("DELETE FROM prompts", [()]), ("DELETE FROM instances", [()]))

    def add_instances(self, instances: Iterable[tuple[Instance, str]]) -> None:
        """Stores instances with their JSON; RunError if two have the same key."""
        key, added = "", dict[str, Instance]()  # `key`: of the row that is stored now

        def rows() -> Iterator[tuple[Value, ...]]:
            nonlocal key
            for instance, record in instances:
                key, *columns = question_row(instance)
                columns[_CONTEXT] -= _UNSIGNED
                if len(added) < _KEPT:
                    added[key] = instance
                yield (
                    *(key, *columns, instance.alignment, instance.parallel_id or instance.instance_id),
                    *(option.text for option in instance.options),
                    *(1, record),
                )

        with self._writing():
            try:
                self._db.executemany(f"INSERT INTO instances VALUES ({marks(32)})", rows())
            except sqlite3.IntegrityError as error:
                raise duplicate_key(key) from error
        self._unrendered = added

    def sampling_units(self) -> Iterator[SamplingUnit]:
        """The sampling units of the selected instances, by key."""
        rows = self._db.execute(
            "SELECT key, benchmark, split, language, category, template_id, condition, polarity, alignment, twin"
            " FROM instances WHERE asked ORDER BY key"
        )
        for row in rows:
            yield SamplingUnit(*row)

    def select_only(self, keys: Set[str]) -> None:
        """Selects these instances; the others serve only as few-shot examples."""
        others = [(key,) for (key,) in self.query("SELECT key FROM instances") if key not in keys]
        self.change(("UPDATE instances SET asked = 0 WHERE key = ?", others))

    def instances(self) -> Iterator[Instance]:
        """The selected instances, by key."""
        for key, record in self._db.execute("SELECT key, record FROM instances WHERE asked ORDER BY key"):
            yield self._unrendered.get(key) or self.read(Instance, record)

    def questions(self) -> Questions:
        """The selected instances as a table, by key."""

        def rows() -> Iterator[tuple[Any, ...]]:
            found = self._db.execute(f"SELECT {', '.join(QUESTION_ROW)} FROM instances WHERE asked ORDER BY key")
            for key, *columns in found:
                columns[_CONTEXT] += _UNSIGNED
                for place in _FLAGS:
                    columns[place] = None if columns[place] is None else bool(columns[place])
                yield (key, *columns)

        return questions_from_rows(rows(), self.instance)

    def instance(self, key: str) -> Instance:
        """The stored instance of that key, which must exist."""
        return self.read(Instance, self.value("SELECT record FROM instances WHERE key = ?", key))

    def add_prompts(self, prompts: Iterable[tuple[Prompt, str]]) -> int:
        """Stores prompts with their request keys; returns their number."""
        rows = (
            (
                *(prompt.prompt_id, prompt.instance_key, prompt.language, request_key, prompt.variant),
                *(prompt.label_style, "".join(map(str, prompt.option_order)), prompt.method),
                *(prompt.reasoning_effort, prompt.model_dump_json()),
            )
            for prompt, request_key in prompts
        )
        with self._writing():
            return self._db.executemany(f"INSERT INTO prompts VALUES (NULL, {marks(10)})", rows).rowcount

    def grow(self, plan: GrowingPlan) -> None:
        """Stores the first prompts of a plan; the others follow by `store_prompts`."""
        self._plan, self._unrequested = plan, {}
        self.store_prompts()

    def store_prompts(self) -> bool:
        """Stores the next prompts of a growing plan; False if all were stored before.

        Raises:
            RunError: the plan has fewer prompts than it should; it is made again when the run continues.
        """
        plan, self._plan = self._plan, None  # after an error, nothing more is stored: the plan stays unfinished
        if plan is None:
            return False
        prompts = list(islice(plan.prompts, BATCH))
        if not prompts:
            raise RunError(f"{self.path}: {plan.left:,} prompts of the plan are missing; run the same command again")
        plan.left -= self.add_prompts(prompts)
        if len(self._unrequested) < _KEPT:
            for prompt, request_key in prompts:
                self._unrequested.setdefault(request_key, prompt)
        if plan.left == 0:
            plan.finish()
        else:
            self._plan = plan
        return True

    def count_instances(self) -> int:
        """The number of selected instances."""
        return int(self.value("SELECT count(*) FROM instances WHERE asked"))

    # --- requests and responses -----------------------------------------------------------------------------------

    def pending(self) -> Iterator[Request]:
        """The requests without a response, in plan order, then follow-ups; responses may be added meanwhile."""
        in_rounds = " AND p.request_key IN (SELECT request_key FROM rounds)" if self.is_in_rounds else ""
        rows = self.paged(
            "SELECT p.number, p.request_key, p.record, i.record FROM prompts p"
            " JOIN instances i ON i.key = p.instance_key"
            " LEFT JOIN responses r ON r.request_key = p.request_key AND r.is_error = 0"
            " WHERE r.request_key IS NULL AND NOT EXISTS"
            "  (SELECT 1 FROM prompts q WHERE q.request_key = p.request_key AND q.number < p.number)"
            f"{in_rounds} AND p.number > ? ORDER BY p.number LIMIT ?",
            add_rows=self.store_prompts,
        )
        for _, request_key, record, instance in rows:
            prompt = self._unrequested.pop(request_key, None) or self.read(Prompt, record)
            yield _request(request_key, prompt, self.text(instance))
        yield from self.pending_follow_ups()

    def pending_follow_ups(self) -> Iterator[Request]:
        """The follow-ups without a response, in plan order, one for each request key."""
        rows = self.paged(
            f"{_FOLLOW_UP} LEFT JOIN responses r ON r.request_key = u.request_key AND r.is_error = 0"
            " WHERE r.request_key IS NULL AND NOT EXISTS (SELECT 1 FROM follow_ups v"
            " WHERE v.request_key = u.request_key AND v.number < u.number) AND u.number > ? ORDER BY u.number LIMIT ?"
        )
        return map(self._follow_up, rows)

    def _follow_up(self, row: Sequence[Any]) -> Request:
        """The request of a row of _FOLLOW_UP."""
        _, key, turns, limit, record, instance = row
        prompt = self.read(Prompt, record)
        messages = (*prompt.messages, *map(Message.model_validate, json.loads(turns)))
        values = {"request_key": key, "messages": messages, "prompt": prompt, "instance_record": self.text(instance)}
        return Request(**values, max_tokens=limit)

    def request(self, request_key: str) -> Request:
        """The request of that key, which must be planned."""
        found = self._db.execute(
            "SELECT p.record, i.record FROM prompts p JOIN instances i ON i.key = p.instance_key"
            " WHERE p.request_key = ? ORDER BY p.number LIMIT 1",
            (request_key,),
        ).fetchone()
        if found is None:
            statement = f"{_FOLLOW_UP} WHERE u.request_key = ? ORDER BY u.number LIMIT 1"
            return self._follow_up(self.query(statement, (request_key,)).fetchone())
        return _request(request_key, self.read(Prompt, found[0]), self.text(found[1]))

    def number_of(self, prompt_id: str) -> int:
        """The number of a prompt in plan order, which must exist."""
        return int(self.value("SELECT number FROM prompts WHERE prompt_id = ?", prompt_id))

    def add_responses(
        self, responses: Sequence[tuple[Response, str]], meta: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Stores responses with their times (ISO 8601, UTC), and values of `meta`; durable when this returns.

        A response is never replaced; an error is replaced by any later one.
        """
        rows = [response_row(response, received_at) for response, received_at in responses]
        scores = (
            (response.request_key, number, *(getattr(score, name) for name in _SCORE_COLUMNS))
            for response, _ in responses
            for number, score in enumerate(response.scores or ())
        )
        conflict = f"ON CONFLICT (request_key) {replace_error('responses')}"
        self.change(
            (f"INSERT INTO responses VALUES ({marks(len(RESPONSE))}) {conflict}", rows),
            ("INSERT OR IGNORE INTO option_scores VALUES (?,?,?,?,?,?,?,?,?)", scores),
            ("INSERT OR REPLACE INTO meta VALUES (?, ?)", meta.items()),
        )
        self.records.pack_if_full([str(row[-1]) for row in rows])

    def option_scores(self, request_key: str) -> tuple[ContinuationScore, ...]:
        """The loglikelihoods of a request's continuations, in order; empty for `generate`."""
        if not self.is_scored:
            return ()
        statement = f"SELECT {', '.join(_SCORE_COLUMNS)} FROM option_scores WHERE request_key = ? ORDER BY number"
        rows = self._db.execute(statement, (request_key,))
        return tuple(ContinuationScore(**dict(zip(_SCORE_COLUMNS, row, strict=True))) for row in rows)

    @property
    def is_in_rounds(self) -> bool:
        """Whether the run is adaptive: only requests in `rounds` are sent."""
        return self.meta(IN_ROUNDS) is not None

    @cached_property
    def is_scored(self) -> bool:
        """Whether any method of the run is a loglikelihood method."""
        return self.meta(SCORED) is not None

    def progress(self, *, follow_ups_only: bool = False) -> Progress:
        """Progress of the run with its follow-ups, or of these only; adaptive runs count the requests in `rounds`."""
        planned_in = "follow_ups" if follow_ups_only else "rounds" if self.is_in_rounds else "prompts"
        planned = f"(SELECT request_key FROM {planned_in} UNION SELECT request_key FROM follow_ups)"
        requests = self.value(f"SELECT count(*) FROM {planned}") + (self._plan.left if self._plan else 0)
        answered, failed = self._db.execute(
            "SELECT count(*) FILTER (WHERE is_error = 0), count(*) FILTER (WHERE is_error = 1) FROM responses"
            f" WHERE request_key IN {planned}"
        ).fetchone()
        return Progress(int(requests), int(answered), int(failed))

    # --- extractions ----------------------------------------------------------------------------------------------

    def without_extraction(self, extractor: str, language: str, *, scored: bool = False) -> Iterator[StoredPrompt]:
        """The completed prompts without an extraction by this version since their last response.

        `scored`: only loglikelihood methods, else only `generate`. Extractions may be added meanwhile.
        """
        method = " AND p.method <> 'generate'" if scored else WORDS
        rows = self.paged(
            # The instances are joined last: their rows are long, and mostly no prompt is left.
            "SELECT p.number, p.instance_key, p.record, i.record, r.record FROM prompts p"
            " JOIN responses r ON r.request_key = p.request_key"
            " LEFT JOIN extractions e ON e.prompt_id = p.prompt_id AND e.extractor = ?"
            " JOIN instances i ON i.key = p.instance_key"
            " WHERE p.language = ? AND (e.prompt_id IS NULL OR (e.outcome = 'error' AND r.is_error = 0))"
            f"{method} AND p.number > ? ORDER BY p.number LIMIT ?",
            *(extractor, language),
        )
        return (self._stored_prompt(*row) for _, *row in rows)

    def answered(self, request_keys: Sequence[str]) -> Iterator[StoredPrompt]:
        """The prompts of these requests with a text response, by question."""
        rows = self._db.execute(
            f"SELECT p.instance_key, p.record, i.record, r.record FROM {COMPLETED} WHERE p.request_key IN"
            f" ({marks(len(request_keys))}) AND r.is_error = 0{WORDS} ORDER BY p.instance_key, p.number",
            request_keys,
        )
        return (self._stored_prompt(*row) for row in rows.fetchall())

    def _stored_prompt(self, key: str, prompt: str, instance: str, response: str) -> StoredPrompt:
        return StoredPrompt(self.text(prompt), self.text(instance), self.text(response), self.parallels(key))

    def parallels(self, instance_key: str) -> Parallels:
        """The options' texts in the run's other languages, which a response may use; empty without roles."""
        if self._has_parallels and instance_key != self._last_parallels[0]:
            options = ", ".join(f"{side}.role_{place}, {side}.text_{place}" for side in "io" for place in range(3))
            rows = self._db.execute(
                f"SELECT o.language, {options} FROM instances i JOIN instances o ON o.twin = i.parallel_id"
                " AND o.benchmark = i.benchmark AND o.split = i.split AND o.language <> i.language"
                " WHERE i.key = ? ORDER BY o.language, o.key",
                (instance_key,),
            )
            found: dict[str, Mapping[Role, str]] = {}
            for language, *columns in rows:  # role and text by turns, of the instance and then of the other one
                own, texts = (dict(zip(side[::2], side[1::2], strict=True)) for side in (columns[:6], columns[6:]))
                if None not in own and texts.keys() == own.keys() and texts != own:
                    found[language] = texts
            self._last_parallels = (instance_key, found)
        return self._last_parallels[1]

    @cached_property
    def _has_parallels(self) -> bool:
        """Whether the run has questions in several languages."""
        other = "SELECT 1 FROM instances WHERE language <> (SELECT language FROM instances LIMIT 1) LIMIT 1"
        return self.value(other) is not None

    def add_extractions(self, extractor: str, rows: Iterable[Sequence[Value]]) -> None:
        """Stores extractions (prompt id, EXTRACTION) of an extractor version, replacing earlier ones of it."""
        values = ((prompt_id, extractor, *columns) for prompt_id, *columns in rows)
        self.change((f"INSERT OR REPLACE INTO extractions VALUES ({marks(8)})", values))

    def answer_rows(
        self, extractors: Mapping[str, Sequence[str]], *, follow_up: bool = False
    ) -> Iterator[list[tuple[Value, ...]]]:
        """Batches of extractions (ANSWER_ROW), in plan order; `follow_up`: replaced by follow-ups (COUNTS)."""
        columns, joined = [("e." if name in _OF_EXTRACTION else "p.") + name for name in ANSWER_ROW], ""
        if follow_up:
            joined = "LEFT JOIN follow_ups u ON u.prompt_id = p.prompt_id"
            for place, name in enumerate(ANSWER_ROW):
                if name in ("outcome", "option", "confidence"):
                    columns[place] = f"CASE WHEN {COUNTS} THEN u.{name} ELSE e.{name} END"
        rows = self.extraction_rows(", ".join(columns), extractors, joined)
        while batch := rows.fetchmany(BATCH * 20):
            yield batch

    def extractors(self, language: str) -> dict[str, int]:
        """Extractor version → number of its extractions in a language, sorted."""
        rows = self._db.execute(
            "SELECT e.extractor, count(*) FROM extractions e JOIN prompts p ON p.prompt_id = e.prompt_id"
            " WHERE p.language = ? GROUP BY e.extractor ORDER BY e.extractor",
            (language,),
        )
        return dict(rows.fetchall())

    def languages(self) -> list[str]:
        """The languages of the planned prompts, sorted."""
        return [code for (code,) in self._db.execute("SELECT DISTINCT language FROM prompts ORDER BY language")]


def duplicate_key(key: str) -> RunError:
    """The error of two instances with the same key."""
    return RunError(f"two questions have the id {key!r}; ids must be unique")


def _request(request_key: str, prompt: Prompt, instance: str) -> Request:
    """The request of a stored prompt."""
    values = {"request_key": request_key, "messages": prompt.messages, "prompt": prompt, "instance_record": instance}
    return construct_valid(Request, {**values, "max_tokens": None})
