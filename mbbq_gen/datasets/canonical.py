"""Reads and writes instances as JSON Lines: our own interchange format, one `Instance` a line.

`mbbq-gen data show … --json` writes it, and `run`, `extract` and `score` take it from anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from mbbq_gen.datasets.rows import read_json_lines
from mbbq_gen.errors import UsageError
from mbbq_gen.records import Instance, to_jsonl


def read_instances(path: Path) -> Iterator[Instance]:
    """The instances of a JSON Lines file, in file order.

    Raises:
        UsageError: at once, where there is no such file.
        DataError: while reading, at the first row that is not an instance or has the key of an earlier one; it names
            file, row and field.
    """
    if not path.is_file():
        raise UsageError(
            f"no file {path}; give a JSON Lines file of instances, as `mbbq-gen data show --json` writes it"
        )
    return _read(path)


def _read(path: Path) -> Iterator[Instance]:
    """The instances of a file that is there."""
    rows: dict[str, int] = {}
    for place, instance in read_json_lines(path, Instance):
        first = rows.setdefault(instance.key, place.row)
        if first != place.row:
            raise place.error(f"{instance.key!r} stands already in row {first}; ids are unique", "instance_id")
        yield instance


def write_instances(instances: Iterable[Instance], path: Path) -> int:
    """Writes instances as JSON Lines and returns how many; an existing file is replaced."""
    count = 0
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        for line in to_jsonl(instances):
            stream.write(line + "\n")
            count += 1
    return count
