"""The store of a run: reads and writes prompts, responses and extractions (tables: `storage.schema`).

One writer; every response is durable at once. Prompts with the same request share one response: it is requested, and
paid for, once.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Final

from mbbq_gen.core.errors import RunError
from mbbq_gen.core.records import ContinuationScore, Extraction, Instance, Prompt, Request, Response, SamplingUnit
from mbbq_gen.storage.parallel_options import ParallelOptions, Parallels
from mbbq_gen.storage.schema import Database

_BATCH = 500
SCORED: Final = "scored"
"""Meta name of the mark of runs with loglikelihood methods; without it every response is a text."""
NORMALISE: Final = "normalization"
"""Meta name of the normalization of loglikelihoods."""
IN_ROUNDS: Final = "in_rounds"
"""Meta name of the mark of adaptive runs: only requests in `rounds` are sent."""
_METHOD: Final = "json_extract(p.record, '$.method')"
_TAKEN: Final = " AND p.request_key IN (SELECT request_key FROM rounds)"


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


@dataclass(frozen=True)
class Part:
    """Consecutive prompts: all those of their instances."""

    first: int
    """Number of the first prompt."""
    last: int
    """Number of the last prompt, included."""
    first_key: str
    """Key of the first instance."""
    last_key: str


class RunStore(Database):
    """Prompts, responses and extractions of one run. Open it for writing only while holding the run's lock."""

    # --- plan -----------------------------------------------------------------------------------------------------

    def clear_plan(self) -> None:
        """Deletes instances and prompts of an interrupted plan; responses stay."""
        with self._writing():
            self._db.execute("DELETE FROM main.prompts")
            self._db.execute("DELETE FROM main.instances")

    def add_instances(self, instances: Iterable[Instance]) -> int:
        """Stores instances; returns their number.

        Raises:
            RunError: where two of them have the same key.
        """
        key, count = "", 0

        def rows() -> Iterator[tuple[str | None, ...]]:
            nonlocal key, count
            for count, instance in enumerate(instances, 1):  # noqa: B007 - how many there were
                outline = SamplingUnit.of(instance)
                key = outline.key
                yield (
                    *(outline.key, outline.benchmark, outline.split, outline.language, outline.category),
                    *(outline.template_id, outline.condition, outline.polarity, outline.alignment, outline.twin),
                    instance.model_dump_json(),
                )

        with self._writing():
            try:
                self._db.executemany("INSERT INTO main.instances VALUES (?,?,?,?,?,?,?,?,?,?,1,?)", rows())
            except sqlite3.IntegrityError as error:
                raise RunError(f"two questions have the id {key!r}; ids must be unique") from error
        return count

    def outlines(self) -> Iterator[SamplingUnit]:
        """The sampling units of the selected instances, by key."""
        rows = self._db.execute(
            "SELECT key, benchmark, split, language, category, template_id, condition, polarity, alignment, twin"
            " FROM instances WHERE asked ORDER BY key"
        )
        for row in rows:
            yield SamplingUnit(*row)

    def keep_only(self, asked: set[str], examples: set[str]) -> None:
        """Deletes all instances but the selected ones and few-shot examples."""
        with self._writing():
            left_out = [key for (key,) in self._db.execute("SELECT key FROM instances") if key not in asked]
            dropped = [(key,) for key in left_out if key not in examples]
            self._db.executemany("DELETE FROM main.instances WHERE key = ?", dropped)
            shown = [(key,) for key in left_out if key in examples]
            self._db.executemany("UPDATE main.instances SET asked = 0 WHERE key = ?", shown)
        if dropped:
            self.records.shrink()

    def instances(self, part: Part | None = None) -> Iterator[Instance]:
        """The selected instances, by key; only those of a part where one is given."""
        where, keys = ("", ()) if part is None else (" AND key BETWEEN ? AND ?", (part.first_key, part.last_key))
        for (record,) in self._db.execute(f"SELECT record FROM instances WHERE asked{where} ORDER BY key", keys):
            yield Instance.model_validate_json(record)

    def parts(self, size: int) -> Iterator[Part]:
        """Splits the run into parts of about `size` prompts, in plan order; no instance is in two of them.

        Raises:
            RunError: where prompts are not in the order of their instances, as in imported runs.
        """
        first, before = 1, ""
        last = self.last_planned()
        while last is not None and first <= last[0]:
            begin, key = self._db.execute(
                "SELECT number, instance_key FROM prompts WHERE number >= ? ORDER BY number LIMIT 1", (first,)
            ).fetchone()
            end, end_key = self._db.execute(
                "SELECT number, instance_key FROM prompts WHERE number >= ? ORDER BY number LIMIT 1",
                (min(begin + size - 1, last[0]),),
            ).fetchone()
            following = self._db.execute(
                "SELECT number FROM prompts WHERE number > ? AND instance_key <> ? ORDER BY number LIMIT 1",
                (end, end_key),
            ).fetchone()
            first = last[0] + 1 if following is None else int(following[0])
            part = Part(int(begin), first - 1, str(key), str(end_key))
            if not before < part.first_key <= part.last_key:
                raise RunError(f"{self.path}: its prompts are not in the order of its questions")
            before = part.last_key
            yield part

    def instance(self, key: str) -> Instance:
        """The stored instance of that key, which must exist."""
        (record,) = self._db.execute("SELECT record FROM instances WHERE key = ?", (key,)).fetchone()
        return Instance.model_validate_json(record)

    def add_prompts(self, prompts: Iterable[tuple[Prompt, str]]) -> int:
        """Stores prompts with their request keys; returns their number."""
        count = 0
        with self._writing():
            for prompt, request_key in prompts:
                row = (
                    *(prompt.prompt_id, prompt.instance_key, prompt.language),
                    *(request_key, prompt.model_dump_json()),
                )
                self._db.execute(
                    "INSERT INTO main.prompts (prompt_id, instance_key, language, request_key, record)"
                    " VALUES (?,?,?,?,?)",
                    row,
                )
                count += 1
        return count

    def count_instances(self) -> int:
        """The number of selected instances."""
        (number,) = self._db.execute("SELECT count(*) FROM instances WHERE asked").fetchone()
        return int(number)

    # --- requests and responses -----------------------------------------------------------------------------------

    def pending(self) -> Iterator[Request]:
        """The requests without a response, in plan order, one for each request key.

        Responses may be added meanwhile: rows are queried a few hundred at a time.
        """
        after, read = 0, _InstanceReader()
        taken = _TAKEN if self.is_in_rounds else ""
        while True:
            rows = self._db.execute(
                "SELECT min(p.number), p.request_key, p.record, i.record FROM prompts p"
                " JOIN instances i ON i.key = p.instance_key"
                " LEFT JOIN responses r ON r.request_key = p.request_key AND r.is_error = 0"
                " WHERE p.number > ? AND r.request_key IS NULL AND NOT EXISTS"
                "  (SELECT 1 FROM prompts q WHERE q.request_key = p.request_key AND q.number < p.number)"
                f"{taken} GROUP BY p.number ORDER BY p.number LIMIT ?",
                (after, _BATCH),
            ).fetchall()
            if not rows:
                return
            for number, request_key, prompt_record, instance_record in rows:
                after = number
                prompt = Prompt.model_validate_json(prompt_record)
                yield Request(
                    request_key=request_key,
                    messages=prompt.messages,
                    prompt=prompt,
                    instance=read(instance_record),
                )

    def last_planned(self) -> tuple[int, str] | None:
        """Number and id of the last prompt; None where nothing is planned yet."""
        row = self._db.execute("SELECT number, prompt_id FROM prompts ORDER BY number DESC LIMIT 1").fetchone()
        return None if row is None else (int(row[0]), str(row[1]))

    def planned_messages(self, after: int) -> Iterator[tuple[int, str]]:
        """Number and messages (JSON) of the prompts after that number, in plan order."""
        rows = self._db.execute(
            "SELECT number, json_extract(record, '$.messages') FROM prompts WHERE number > ? ORDER BY number",
            (after,),
        )
        while batch := rows.fetchmany(_BATCH):
            yield from batch

    def request(self, request_key: str) -> Request:
        """The request of that key, which must be planned."""
        (number,) = self._db.execute("SELECT min(number) FROM prompts WHERE request_key = ?", (request_key,)).fetchone()
        return self.planned_request(number)

    def planned_request(self, number: int) -> Request:
        """The request of the prompt of that number, which must exist."""
        request_key, prompt, instance = self._db.execute(
            "SELECT p.request_key, p.record, i.record FROM prompts p JOIN instances i ON i.key = p.instance_key"
            " WHERE p.number = ?",
            (number,),
        ).fetchone()
        shown = Prompt.model_validate_json(prompt)
        return Request(
            request_key=request_key,
            messages=shown.messages,
            prompt=shown,
            instance=Instance.model_validate_json(instance),
        )

    def add_responses(
        self, responses: Sequence[tuple[Response, str]], meta: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Stores responses with their times (ISO 8601, UTC); durable when this returns.

        A response is never replaced; an error is replaced by any later one. `meta`: values to store in the same
        transaction.
        """
        records = [_record_of(response) for response, _ in responses]
        with self._writing():
            self._db.executemany(
                "INSERT INTO main.responses VALUES (?,?,?,?) ON CONFLICT (request_key) DO UPDATE SET"
                " is_error = excluded.is_error, received_at = excluded.received_at, record = excluded.record"
                " WHERE responses.is_error = 1",
                [
                    (response.request_key, int(response.error is not None), received_at, record)
                    for (response, received_at), record in zip(responses, records, strict=True)
                ],
            )
            self._db.executemany(
                "INSERT OR IGNORE INTO option_scores VALUES (?,?,?,?,?,?,?,?,?)",
                (
                    (
                        *(response.request_key, number, score.option, score.text, score.logprob),
                        *(score.tokens, score.characters, score.bytes, score.unconditional_logprob),
                    )
                    for response, _ in responses
                    for number, score in enumerate(response.scores or ())
                ),
            )
            self._db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", meta.items())
        self.records.hear(records)

    def option_scores(self, request_key: str) -> tuple[ContinuationScore, ...]:
        """The loglikelihoods of a request's continuations, in their order; none for `generate`."""
        if not self.is_scored:
            return ()
        rows = self._db.execute(
            "SELECT option, text, logprob, tokens, characters, bytes, unconditional_logprob FROM option_scores"
            " WHERE request_key = ? ORDER BY number",
            (request_key,),
        )
        names = ("option", "text", "logprob", "tokens", "characters", "bytes", "unconditional_logprob")
        return tuple(ContinuationScore(**dict(zip(names, row, strict=True))) for row in rows)

    @property
    def is_in_rounds(self) -> bool:
        """Whether the run is adaptive: only requests in `rounds` are sent."""
        return self.meta(IN_ROUNDS) is not None

    @cached_property
    def is_scored(self) -> bool:
        """Whether any method of the run is a loglikelihood method."""
        return self.meta(SCORED) is not None

    def asked_for(self, *, scored: bool) -> str:
        """SQL condition that the method of prompt `p` is a loglikelihood method, or is `generate`."""
        if not self.is_scored:
            return " AND 0" if scored else ""
        return f" AND {_METHOD} <> 'generate'" if scored else f" AND {_METHOD} = 'generate'"

    def progress(self) -> Progress:
        """Progress of the run; of an adaptive run, over the requests in `rounds`."""
        planned = "rounds" if self.is_in_rounds else "prompts"
        (requests,) = self._db.execute(f"SELECT count(DISTINCT request_key) FROM {planned}").fetchone()
        (answered, failed) = self._db.execute(
            "SELECT count(*) FILTER (WHERE is_error = 0), count(*) FILTER (WHERE is_error = 1) FROM responses"
            f" WHERE request_key IN (SELECT request_key FROM {planned})"
        ).fetchone()
        return Progress(int(requests), int(answered), int(failed))

    # --- extractions ----------------------------------------------------------------------------------------------

    def without_extraction(
        self,
        extractor: str,
        language: str,
        earlier: str | None = None,
        outcomes: Sequence[str] = (),
        *,
        scored: bool = False,
    ) -> Iterator[CompletedPrompt]:
        """The completed prompts of a language without an extraction of this version, in plan order.

        Includes those with an extraction `error` that have a response since. `scored`: only loglikelihood methods;
        else only `generate`. `earlier`: only those to which this other version gave one of `outcomes`. Extractions may
        be added meanwhile: rows are queried a few hundred at a time.
        """
        yield from map(
            AnsweredReader(self), self.records_without_extraction(extractor, language, earlier, outcomes, scored=scored)
        )

    def records_without_extraction(
        self,
        extractor: str,
        language: str,
        earlier: str | None = None,
        outcomes: Sequence[str] = (),
        *,
        scored: bool = False,
    ) -> Iterator[StoredPrompt]:
        """The prompts of `without_extraction`, as stored."""
        read_as = ""
        if earlier is not None:
            read_as = (
                " AND EXISTS (SELECT 1 FROM extractions o WHERE o.prompt_id = p.prompt_id"
                f" AND o.extractor = ? AND o.outcome IN ({', '.join('?' * len(outcomes))}))"
            )
        statement = (
            "SELECT p.number, p.record, i.record, r.record FROM prompts p"
            " JOIN instances i ON i.key = p.instance_key JOIN responses r ON r.request_key = p.request_key"
            " LEFT JOIN extractions e ON e.prompt_id = p.prompt_id AND e.extractor = ?"
            " WHERE p.number > ? AND p.language = ?"
            " AND (e.prompt_id IS NULL OR (e.outcome = 'error' AND r.is_error = 0))"
            f"{read_as}{self.asked_for(scored=scored)} ORDER BY p.number LIMIT ?"
        )
        only = (earlier, *outcomes) if earlier is not None else ()
        after, join = 0, _Joiner(self)
        while rows := self._db.execute(statement, (extractor, after, language, *only, _BATCH)).fetchall():
            for number, prompt, record, response in rows:
                after = number
                yield join(prompt, record, response)

    def answered(self, request_keys: Sequence[str]) -> Iterator[CompletedPrompt]:
        """The prompts that ask these requests for words and have an answer, by question."""
        rows = self._db.execute(
            "SELECT p.record, i.record, r.record FROM json_each(?) wanted"
            " JOIN prompts p ON p.request_key = wanted.value"
            " JOIN instances i ON i.key = p.instance_key JOIN responses r ON r.request_key = p.request_key"
            f" WHERE r.is_error = 0{self.asked_for(scored=False)} ORDER BY p.instance_key, p.number",
            (json.dumps(list(request_keys)),),
        )
        join, parse = _Joiner(self), AnsweredReader(self)
        for prompt, record, response in rows.fetchall():
            yield parse(join(prompt, record, response))

    def add_extractions(self, extractor: str, rows: Iterable[tuple[str, Extraction]]) -> None:
        """Stores extractions (prompt id, extraction) of an extractor version; an older one of it is replaced."""
        with self._writing():
            self._db.executemany(
                "INSERT OR REPLACE INTO extractions VALUES (?,?,?,?)",
                (
                    (prompt_id, extractor, extraction.outcome, extraction.model_dump_json())
                    for prompt_id, extraction in rows
                ),
            )

    def answer_rows(
        self, extractors: Mapping[str, Sequence[str]], part: Part | None = None
    ) -> Iterator[list[tuple[str, str, str, str]]]:
        """What these extractor versions, by language, have read: batches of (instance key, shown, read, extractor).

        In plan order, of the whole run or a part of it. `shown` is the JSON list [variant, label style, order, method,
        thinking], `read` is [outcome, option, confidence]: a run has few different ones, so whoever counts a million
        answers parses each only once.
        """
        wanted = [(language, version) for language, versions in extractors.items() for version in versions]
        within, numbers = ("", ()) if part is None else (" AND p.number BETWEEN ? AND ?", (part.first, part.last))
        rows = self._db.execute(
            "SELECT p.instance_key, json_extract(p.record, '$.variant', '$.label_style', '$.option_order', '$.method',"
            " '$.reasoning_effort'),"
            " json_extract(e.record, '$.outcome', '$.option', '$.confidence'), e.extractor FROM prompts p"
            " JOIN extractions e ON e.prompt_id = p.prompt_id WHERE (p.language, e.extractor) IN"
            f" (VALUES {', '.join(['(?, ?)'] * len(wanted)) or '(NULL, NULL)'}){within}"
            " ORDER BY p.number, e.extractor",
            [*(text for pair in wanted for text in pair), *numbers],
        )
        while batch := rows.fetchmany(_BATCH * 20):
            yield batch

    def extractors(self, language: str) -> list[str]:
        """The extractor versions that have read answers in a language, sorted."""
        rows = self._db.execute(
            "SELECT DISTINCT e.extractor FROM extractions e JOIN prompts p ON p.prompt_id ="
            " e.prompt_id WHERE p.language = ? ORDER BY e.extractor",
            (language,),
        )
        return [version for (version,) in rows]

    def languages(self) -> list[str]:
        """The languages of the planned prompts, sorted."""
        return [code for (code,) in self._db.execute("SELECT DISTINCT language FROM prompts ORDER BY language")]


class _InstanceReader:
    """Reads instances; successive rows of one question share its record."""

    def __init__(self) -> None:
        self._text = ""
        self._instance: Instance | None = None

    def __call__(self, text: str) -> Instance:
        """The instance that the JSON holds."""
        if self._instance is None or text != self._text:
            self._text, self._instance = text, Instance.model_validate_json(text)
        return self._instance


class _Joiner:
    """Puts stored records together, with what the options are called in the run's other languages."""

    def __init__(self, store: RunStore) -> None:
        self._read = _InstanceReader()
        self._parallels = ParallelOptions(store.query)

    def __call__(self, prompt: str, instance: str, response: str) -> StoredPrompt:
        """An answered prompt."""
        return StoredPrompt(prompt, instance, response, self._parallels.of(self._read(instance)))


class AnsweredReader:
    """Parses answered prompts; successive ones of one question share its record."""

    def __init__(self, store: RunStore | None = None) -> None:
        """`store`: where loglikelihoods are; None for answers that are words."""
        self._read = _InstanceReader()
        self._store = store

    def __call__(self, records: StoredPrompt) -> CompletedPrompt:
        """What the JSON of the three records holds."""
        response = Response.model_validate_json(records.response)
        if response.scores is not None and self._store is not None:
            response = response.model_copy(update={"scores": self._store.option_scores(response.request_key)})
        prompt = Prompt.model_validate_json(records.prompt)
        return CompletedPrompt(prompt, self._read(records.instance), response, records.parallels)


def _record_of(response: Response) -> str:
    """A response as it is stored: loglikelihoods have a table of their own."""
    return (response if response.scores is None else response.model_copy(update={"scores": ()})).model_dump_json()
