"""Answers as Parquet files: each finished block is one, written by the worker before it counts.

    PLACE/run.json                        whose shards these are
    PLACE/<block>-<sha256[:16]>.parquet   zstd; request_key, received_at, record (JSON of a Response)

A shard is written beside its place, flushed to the disk and renamed, so it is there whole or not at all. Its name holds
the digest of its bytes, so one that was changed is seen. The run's store stays the one place that all commands read;
shards are what a worker or a driver that dies leaves behind, and nothing that stands in one is asked again.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from mbbq_gen.errors import RunError, UsageError
from mbbq_gen.records import Response, from_json
from mbbq_gen.runs.record_files import digest
from mbbq_gen.runs.spread.places import place_of
from mbbq_gen.runs.store import RunStore
from mbbq_gen.runs.uncounted import Sendings

META: Final = "shards"
"""Name of the value of a run that says in which folder its shards are."""
OWN_FOLDER: Final = "shards"
"""Folder inside the run's, where no other is named."""
_OWNER: Final = "run.json"
_LOOKED_UP: Final = 500

Answers = Sequence[tuple[Response, str]]
"""Responses, each with the time (ISO 8601, UTC) at which it came."""


class ShardFolder:
    """The shards of one run."""

    def __init__(self, place: str | Path) -> None:
        """`place`: a folder, or an address that fsspec knows; raises as `place_of`."""
        self.place = place_of(place)

    def claim(self, created_at: str) -> None:
        """Makes the folder, and this run its owner.

        Raises:
            UsageError: where it holds something else, or another run's shards.
            RunError: where it can't be written.
        """
        place = self.place
        try:
            place.make()
            names = place.names()
            if _OWNER in names:
                if json.loads(place.read(_OWNER)) != {"run_created_at": created_at}:
                    raise UsageError(f"--shards {place}: holds the shards of another run; name another folder")
                return
            if names:
                raise UsageError(f"--shards {place}: holds {names[0]!r}; name a new or empty folder")
            place.write(_OWNER, json.dumps({"run_created_at": created_at}).encode() + b"\n")
        except (OSError, ValueError) as error:
            raise RunError(f"--shards {place}: can't be used: {error}") from error

    def write(self, block: str, answers: Answers) -> str:
        """Writes a shard and says its name; durable when this returns.

        Raises:
            RunError: where it can't be written.
        """
        import polars

        columns = {
            "request_key": [response.request_key for response, _ in answers],
            "received_at": [received_at for _, received_at in answers],
            "record": [response.model_dump_json() for response, _ in answers],
        }
        content = io.BytesIO()
        polars.DataFrame(columns, schema=dict.fromkeys(columns, polars.String)).write_parquet(content)
        data = content.getvalue()
        name = f"{block}-{digest(data)}.parquet"
        try:
            self.place.write(name, data)
        except OSError as error:
            raise RunError(f"{self.place}/{name}: can't write: {error.strerror or error}") from error
        return name

    def names(self) -> list[str]:
        """The shards that are there, by name.

        Raises:
            RunError: where the place can't be reached.
        """
        return self.of_block("")

    def of_block(self, block: str) -> list[str]:
        """The shards of a block: none where it was not finished; raises as `names`."""
        try:
            return [name for name in self.place.names(block) if name.endswith(".parquet")]
        except OSError as error:
            raise RunError(f"{self.place}: can't be read: {error.strerror or error}") from error

    def read(self, name: str) -> list[tuple[Response, str]]:
        """The answers of a shard.

        Raises:
            RunError: where it can't be read, or is not what was written.
        """
        import polars

        path = f"{self.place}/{name}"
        try:
            data = self.place.read(name)
        except OSError as error:
            raise RunError(f"{path}: can't read: {error.strerror or error}") from error
        if not name.endswith(f"-{digest(data)}.parquet"):
            raise RunError(f"{path}: damaged (it is not what its name says); take it away to ask its requests again")
        rows = polars.read_parquet(io.BytesIO(data), columns=["received_at", "record"]).iter_rows()
        return [(from_json(Response, record), received_at) for received_at, record in rows]

    def clear_parts(self) -> None:
        """Removes what a worker had begun to write when it died. Only under the run's lock, with no worker at work."""
        for name in self.place.names():
            if name.endswith(".part"):
                self.place.remove(name)


def fold_shards(store: RunStore, folder: ShardFolder, names: Iterable[str]) -> int:
    """Stores what stands in these shards and not in the store, and says how many answers that was.

    A failure in a shard counts only where nothing else is known.
    """
    sendings, found = Sendings(store), 0
    for name in names:
        answers = _new(store, folder.read(name))
        if answers:
            sendings.store_responses(answers)
            found += sum(response.error is None for response, _ in answers)
    return found


def _new(store: RunStore, answers: Iterable[tuple[Response, str]]) -> list[tuple[Response, str]]:
    """Of a shard's answers, those that the run planned and has not."""
    by_key = {response.request_key: (response, at) for response, at in answers}
    keys, new = list(by_key), []
    for begin in range(0, len(keys), _LOOKED_UP):
        rows = store.query(
            "SELECT w.value, r.is_error FROM json_each(?) w LEFT JOIN responses r ON r.request_key = w.value"
            " WHERE EXISTS (SELECT 1 FROM presentations p WHERE p.request_key = w.value)",
            (json.dumps(keys[begin : begin + _LOOKED_UP]),),
        )
        for key, is_error in rows.fetchall():
            if is_error is None or (is_error and by_key[key][0].error is None):
                new.append(by_key[key])
    return new
