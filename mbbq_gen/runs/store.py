"""What a run's SQLite file holds (`runs.tables`), put in and taken out: the plan, what was received, what was read.

One writer; every response is durable at once. Presentations that send the very same request share one response: it is
asked, and paid for, once.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Final

from mbbq_gen.errors import RunError
from mbbq_gen.records import AnswerScore, Extraction, Instance, Presentation, Request, Response
from mbbq_gen.runs.parallel import Parallels, ParallelTexts
from mbbq_gen.runs.tables import RunTables
from mbbq_gen.sampling import Outline

_BATCH = 500
SCORED: Final = "scored"
"""Name of the value that says that a run asks for likelihoods too; without it all of its answers are words."""
NORMALISE: Final = "normalise"
"""Name of the value that says how a run's likelihoods are read."""
IN_ROUNDS: Final = "in_rounds"
"""Name of the value that says that a run is asked in rounds: only what a round has taken is to be asked."""
_METHOD: Final = "json_extract(p.record, '$.method')"
_TAKEN: Final = " AND p.request_key IN (SELECT request_key FROM rounds)"


@dataclass(frozen=True)
class Progress:
    """How far a run is, in requests."""

    requests: int
    answered: int
    failed: int

    @property
    def pending(self) -> int:
        """Requests that have no answer yet; failed ones are asked again."""
        return self.requests - self.answered


@dataclass(frozen=True)
class Answered:
    """A presentation with its question and what came back."""

    presentation: Presentation
    instance: Instance
    response: Response
    parallels: Parallels = field(default_factory=dict)
    """What the options are called in the run's other languages."""


@dataclass(frozen=True)
class AnsweredRecords:
    """The same as it is stored: three JSON texts."""

    presentation: str
    instance: str
    response: str
    """Without likelihoods: they have a table of their own."""
    parallels: Parallels


@dataclass(frozen=True)
class Part:
    """Presentations that follow one another, with all that is asked of their questions."""

    first: int
    """Number of the first presentation."""
    last: int
    """Number of the last one, which counts."""
    first_key: str
    """Key of the first question."""
    last_key: str


class RunStore(RunTables):
    """Plan, answers and readings of one run. Open it for writing under the run's lock only."""

    # --- plan -----------------------------------------------------------------------------------------------------

    def clear_plan(self) -> None:
        """Empties instances and presentations: an interrupted plan is made anew, responses stay."""
        with self._writing():
            self._db.execute("DELETE FROM main.presentations")
            self._db.execute("DELETE FROM main.instances")

    def add_instances(self, instances: Iterable[Instance]) -> int:
        """Stores questions; says how many.

        Raises:
            RunError: where two of them have the same key.
        """
        key, count = "", 0

        def rows() -> Iterator[tuple[str | None, ...]]:
            nonlocal key, count
            for count, instance in enumerate(instances, 1):  # noqa: B007 - how many there were
                outline = Outline.of(instance)
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

    def outlines(self) -> Iterator[Outline]:
        """What the plan needs to know of every question to be asked."""
        rows = self._db.execute(
            "SELECT key, benchmark, split, language, category, template_id, condition, polarity, alignment, twin"
            " FROM instances WHERE asked ORDER BY key"
        )
        for row in rows:
            yield Outline(*row)

    def keep_only(self, asked: set[str], examples: set[str]) -> None:
        """Of the stored questions keeps those to be asked, and those that only serve as solved examples."""
        with self._writing():
            left_out = [key for (key,) in self._db.execute("SELECT key FROM instances") if key not in asked]
            dropped = [(key,) for key in left_out if key not in examples]
            self._db.executemany("DELETE FROM main.instances WHERE key = ?", dropped)
            shown = [(key,) for key in left_out if key in examples]
            self._db.executemany("UPDATE main.instances SET asked = 0 WHERE key = ?", shown)

    def instances(self, part: Part | None = None) -> Iterator[Instance]:
        """Every question to be asked, by key; of a part of the run, those that it asks."""
        where, keys = ("", ()) if part is None else (" AND key BETWEEN ? AND ?", (part.first_key, part.last_key))
        for (record,) in self._db.execute(f"SELECT record FROM instances WHERE asked{where} ORDER BY key", keys):
            yield Instance.model_validate_json(record)

    def parts(self, size: int) -> Iterator[Part]:
        """The run in parts of about so many presentations, in plan order; no question is in two of them.

        Raises:
            RunError: where presentations are not in the order of their questions, as in runs that were imported.
        """
        first, before = 1, ""
        last = self.last_planned()
        while last is not None and first <= last[0]:
            begin, key = self._db.execute(
                "SELECT number, instance_key FROM presentations WHERE number >= ? ORDER BY number LIMIT 1", (first,)
            ).fetchone()
            end, end_key = self._db.execute(
                "SELECT number, instance_key FROM presentations WHERE number >= ? ORDER BY number LIMIT 1",
                (min(begin + size - 1, last[0]),),
            ).fetchone()
            following = self._db.execute(
                "SELECT number FROM presentations WHERE number > ? AND instance_key <> ? ORDER BY number LIMIT 1",
                (end, end_key),
            ).fetchone()
            first = last[0] + 1 if following is None else int(following[0])
            part = Part(int(begin), first - 1, str(key), str(end_key))
            if not before < part.first_key <= part.last_key:
                raise RunError(f"{self.path}: its answers are not in the order of its questions")
            before = part.last_key
            yield part

    def instance(self, key: str) -> Instance:
        """The stored question of that key, which must be there."""
        (record,) = self._db.execute("SELECT record FROM instances WHERE key = ?", (key,)).fetchone()
        return Instance.model_validate_json(record)

    def add_presentations(self, presentations: Iterable[tuple[Presentation, str]]) -> int:
        """Stores what will be sent, each with its request key; says how many."""
        count = 0
        with self._writing():
            for presentation, request_key in presentations:
                row = (
                    *(presentation.presentation_id, presentation.instance_key, presentation.language),
                    *(request_key, presentation.model_dump_json()),
                )
                self._db.execute(
                    "INSERT INTO main.presentations (presentation_id, instance_key, language, request_key, record)"
                    " VALUES (?,?,?,?,?)",
                    row,
                )
                count += 1
        return count

    def count_instances(self) -> int:
        """How many questions are to be asked."""
        (number,) = self._db.execute("SELECT count(*) FROM instances WHERE asked").fetchone()
        return int(number)

    # --- requests and responses -----------------------------------------------------------------------------------

    def pending(self) -> Iterator[Request]:
        """The requests without an answer, in plan order, one for presentations that send the same.

        May be read while responses are added: it asks the file again for every few hundred rows.
        """
        after, read = 0, _InstanceReader()
        taken = _TAKEN if self.is_in_rounds else ""
        while True:
            rows = self._db.execute(
                "SELECT min(p.number), p.request_key, p.record, i.record FROM presentations p"
                " JOIN instances i ON i.key = p.instance_key"
                " LEFT JOIN responses r ON r.request_key = p.request_key AND r.is_error = 0"
                " WHERE p.number > ? AND r.request_key IS NULL AND NOT EXISTS"
                "  (SELECT 1 FROM presentations q WHERE q.request_key = p.request_key AND q.number < p.number)"
                f"{taken} GROUP BY p.number ORDER BY p.number LIMIT ?",
                (after, _BATCH),
            ).fetchall()
            if not rows:
                return
            for number, request_key, presentation_record, instance_record in rows:
                after = number
                presentation = Presentation.model_validate_json(presentation_record)
                yield Request(
                    request_key=request_key,
                    messages=presentation.messages,
                    presentation=presentation,
                    instance=read(instance_record),
                )

    def last_planned(self) -> tuple[int, str] | None:
        """Number and id of the presentation that was planned last; None where nothing is planned yet."""
        row = self._db.execute(
            "SELECT number, presentation_id FROM presentations ORDER BY number DESC LIMIT 1"
        ).fetchone()
        return None if row is None else (int(row[0]), str(row[1]))

    def planned_messages(self, after: int) -> Iterator[tuple[int, str]]:
        """Number and messages (JSON) of every presentation that was planned after that number, in plan order."""
        rows = self._db.execute(
            "SELECT number, json_extract(record, '$.messages') FROM presentations WHERE number > ? ORDER BY number",
            (after,),
        )
        while batch := rows.fetchmany(_BATCH):
            yield from batch

    def request(self, request_key: str) -> Request:
        """The request of that key, which must be planned."""
        (number,) = self._db.execute(
            "SELECT min(number) FROM presentations WHERE request_key = ?", (request_key,)
        ).fetchone()
        return self.planned_request(number)

    def planned_request(self, number: int) -> Request:
        """The request of the presentation of that number, which must be there."""
        request_key, presentation, instance = self._db.execute(
            "SELECT p.request_key, p.record, i.record FROM presentations p JOIN instances i ON i.key = p.instance_key"
            " WHERE p.number = ?",
            (number,),
        ).fetchone()
        shown = Presentation.model_validate_json(presentation)
        return Request(
            request_key=request_key,
            messages=shown.messages,
            presentation=shown,
            instance=Instance.model_validate_json(instance),
        )

    def add_responses(
        self, responses: Sequence[tuple[Response, str]], meta: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Stores what came back, each with the time (ISO 8601, UTC); durable when this returns.

        An answer is never replaced; a failure is replaced by whatever comes later. `meta`: values beside the tables
        that change with it, in the same transaction.
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
                        *(score.tokens, score.characters, score.bytes, score.unconditional),
                    )
                    for response, _ in responses
                    for number, score in enumerate(response.scores or ())
                ),
            )
            self._db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", meta.items())
        self.records.hear(records)

    def option_scores(self, request_key: str) -> tuple[AnswerScore, ...]:
        """How likely the answers of a request are, in their order; none where it asked for words."""
        if not self.is_scored:
            return ()
        rows = self._db.execute(
            "SELECT option, text, logprob, tokens, characters, bytes, unconditional FROM option_scores"
            " WHERE request_key = ? ORDER BY number",
            (request_key,),
        )
        names = ("option", "text", "logprob", "tokens", "characters", "bytes", "unconditional")
        return tuple(AnswerScore(**dict(zip(names, row, strict=True))) for row in rows)

    @property
    def is_in_rounds(self) -> bool:
        """Whether only what rounds have taken is asked."""
        return self.meta(IN_ROUNDS) is not None

    @cached_property
    def is_scored(self) -> bool:
        """Whether the run asks for likelihoods, beside words or instead of them."""
        return self.meta(SCORED) is not None

    def asked_for(self, *, scored: bool) -> str:
        """The condition that a presentation `p` asks for likelihoods, or for words."""
        if not self.is_scored:
            return " AND 0" if scored else ""
        return f" AND {_METHOD} <> 'generate'" if scored else f" AND {_METHOD} = 'generate'"

    def progress(self) -> Progress:
        """How far the run is; of a run in rounds, with what its rounds have taken."""
        planned = "rounds" if self.is_in_rounds else "presentations"
        (requests,) = self._db.execute(f"SELECT count(DISTINCT request_key) FROM {planned}").fetchone()
        (answered, failed) = self._db.execute(
            "SELECT count(*) FILTER (WHERE is_error = 0), count(*) FILTER (WHERE is_error = 1) FROM responses"
            f" WHERE request_key IN (SELECT request_key FROM {planned})"
        ).fetchone()
        return Progress(int(requests), int(answered), int(failed))

    # --- extractions ----------------------------------------------------------------------------------------------

    def unread(
        self,
        extractor: str,
        language: str,
        earlier: str | None = None,
        outcomes: Sequence[str] = (),
        *,
        scored: bool = False,
    ) -> Iterator[Answered]:
        """Answered presentations of a language that this extractor version has not read yet, in plan order.

        Those that it read as a failure, and that were answered since, are among them.

        Only those that asked for words, or with `scored`, only those that asked for likelihoods.

        With `earlier`, another version: only those that it gave one of these outcomes. May be read while readings are
        added: it asks the file again for every few hundred rows.
        """
        yield from map(AnsweredReader(self), self.unread_records(extractor, language, earlier, outcomes, scored=scored))

    def unread_records(
        self,
        extractor: str,
        language: str,
        earlier: str | None = None,
        outcomes: Sequence[str] = (),
        *,
        scored: bool = False,
    ) -> Iterator[AnsweredRecords]:
        """What `unread` gives, as it is stored: for whoever hands it on."""
        read_as = ""
        if earlier is not None:
            read_as = (
                " AND EXISTS (SELECT 1 FROM extractions o WHERE o.presentation_id = p.presentation_id"
                f" AND o.extractor = ? AND o.outcome IN ({', '.join('?' * len(outcomes))}))"
            )
        statement = (
            "SELECT p.number, p.record, i.record, r.record FROM presentations p"
            " JOIN instances i ON i.key = p.instance_key JOIN responses r ON r.request_key = p.request_key"
            " LEFT JOIN extractions e ON e.presentation_id = p.presentation_id AND e.extractor = ?"
            " WHERE p.number > ? AND p.language = ?"
            " AND (e.presentation_id IS NULL OR (e.outcome = 'error' AND r.is_error = 0))"
            f"{read_as}{self.asked_for(scored=scored)} ORDER BY p.number LIMIT ?"
        )
        only = (earlier, *outcomes) if earlier is not None else ()
        after, join = 0, _Joiner(self)
        while rows := self._db.execute(statement, (extractor, after, language, *only, _BATCH)).fetchall():
            for number, presentation, record, response in rows:
                after = number
                yield join(presentation, record, response)

    def answered(self, request_keys: Sequence[str]) -> Iterator[Answered]:
        """The presentations that ask these requests for words and have an answer, by question."""
        rows = self._db.execute(
            "SELECT p.record, i.record, r.record FROM json_each(?) wanted"
            " JOIN presentations p ON p.request_key = wanted.value"
            " JOIN instances i ON i.key = p.instance_key JOIN responses r ON r.request_key = p.request_key"
            f" WHERE r.is_error = 0{self.asked_for(scored=False)} ORDER BY p.instance_key, p.number",
            (json.dumps(list(request_keys)),),
        )
        join, parse = _Joiner(self), AnsweredReader(self)
        for presentation, record, response in rows.fetchall():
            yield parse(join(presentation, record, response))

    def add_extractions(self, extractor: str, rows: Iterable[tuple[str, Extraction]]) -> None:
        """Stores readings (presentation id, extraction) of an extractor version; an older one of it is replaced."""
        with self._writing():
            self._db.executemany(
                "INSERT OR REPLACE INTO extractions VALUES (?,?,?,?)",
                (
                    (presentation_id, extractor, extraction.outcome, extraction.model_dump_json())
                    for presentation_id, extraction in rows
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
            "SELECT p.instance_key, json_extract(p.record, '$.variant', '$.label_style', '$.order', '$.method',"
            " '$.reasoning'),"
            " json_extract(e.record, '$.outcome', '$.option', '$.confidence'), e.extractor FROM presentations p"
            " JOIN extractions e ON e.presentation_id = p.presentation_id WHERE (p.language, e.extractor) IN"
            f" (VALUES {', '.join(['(?, ?)'] * len(wanted)) or '(NULL, NULL)'}){within}"
            " ORDER BY p.number, e.extractor",
            [*(text for pair in wanted for text in pair), *numbers],
        )
        while batch := rows.fetchmany(_BATCH * 20):
            yield batch

    def extractors(self, language: str) -> list[str]:
        """The extractor versions that have read answers in a language, sorted."""
        rows = self._db.execute(
            "SELECT DISTINCT e.extractor FROM extractions e JOIN presentations p ON p.presentation_id ="
            " e.presentation_id WHERE p.language = ? ORDER BY e.extractor",
            (language,),
        )
        return [version for (version,) in rows]

    def languages(self) -> list[str]:
        """The languages of the planned presentations, sorted."""
        return [code for (code,) in self._db.execute("SELECT DISTINCT language FROM presentations ORDER BY language")]


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
        self._parallels = ParallelTexts(store.query)

    def __call__(self, presentation: str, instance: str, response: str) -> AnsweredRecords:
        """An answered presentation."""
        return AnsweredRecords(presentation, instance, response, self._parallels.of(self._read(instance)))


class AnsweredReader:
    """Parses answered presentations; successive ones of one question share its record."""

    def __init__(self, store: RunStore | None = None) -> None:
        """`store`: where likelihoods are; None for answers that are words."""
        self._read = _InstanceReader()
        self._store = store

    def __call__(self, records: AnsweredRecords) -> Answered:
        """What the JSON of the three records holds."""
        response = Response.model_validate_json(records.response)
        if response.scores is not None and self._store is not None:
            response = response.model_copy(update={"scores": self._store.option_scores(response.request_key)})
        presentation = Presentation.model_validate_json(records.presentation)
        return Answered(presentation, self._read(records.instance), response, records.parallels)


def _record_of(response: Response) -> str:
    """A response as it is stored: likelihoods have a table of their own."""
    return (response if response.scores is None else response.model_copy(update={"scores": ()})).model_dump_json()
