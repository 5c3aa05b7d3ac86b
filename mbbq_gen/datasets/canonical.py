"""Reads and writes instances: our own interchange format, and whatever a user's own file holds.

`mbbq-gen data show … --json` writes JSON Lines, one `Instance` a line, and `run`, `data`, `extract` and `score` take it
from anywhere. A user's own questions may also come as a table (CSV, TSV) or as Parquet, told by the file's name, and
with a field map (`mbbq_gen.datasets.mapping`) where their fields have other names.

In a table the nested fields stand either whole, as JSON in their cell, or in columns of their own:

    benchmark,version,…,context,question,options.0.role,options.0.text,options.1.role,…,answer,metadata.source

An empty cell is a field that is not there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError

from mbbq_gen.datasets.mapping import Mapped, is_empty, read_field_map, with_metadata
from mbbq_gen.datasets.rows import Place, read_json_lines, read_table
from mbbq_gen.errors import DataError, UsageError
from mbbq_gen.languages import describe_fault
from mbbq_gen.records import Instance

_DELIMITERS: Final = {".csv": ",", ".tsv": "\t"}
"""File name's end → what is between two cells."""
_PARQUET: Final = ".parquet"
_BATCH: Final = 10_000
"""Rows of a Parquet file that are held at once."""
_JSON_FIELDS: Final = ("options", "metadata", "quirks")
_TRUTHS: Final = {"true": True, "false": False, "1": True, "0": False}


class _AnyRow(BaseModel):
    """A row with whatever fields it has."""

    model_config = ConfigDict(extra="allow", frozen=True)


def read_instances(path: Path, field_map: Path | None = None) -> Iterator[Instance]:
    """The instances of a file, in file order: CSV, TSV or Parquet by its name, else JSON Lines.

    Args:
        path: the file.
        field_map: a TOML file that says which of its fields is which of ours; None where they have our names.

    Raises:
        UsageError: at once, where there is no such file.
        PackError: at once, where the field map is wrong.
        DataError: while reading, at the first row that is not an instance or has the key of an earlier one; it names
            file, row and field.
    """
    if not path.is_file():
        raise UsageError(
            f"no file {path}; give a file of instances: JSON Lines as `mbbq-gen data show --json` writes it, CSV or"
            " Parquet"
        )
    mapped = None if field_map is None else Mapped(read_field_map(field_map), field_map)
    return _unique(_read(path, mapped))


def _unique(rows: Iterable[tuple[Place, Instance]]) -> Iterator[Instance]:
    """The instances, each of whose keys may stand once."""
    seen: dict[str, int] = {}
    for place, instance in rows:
        first = seen.setdefault(instance.key, place.row)
        if first != place.row:
            raise place.error(f"{instance.key!r} stands already in row {first}; ids are unique", "instance_id")
        yield instance


def _read(path: Path, mapped: Mapped | None) -> Iterator[tuple[Place, Instance]]:
    """The instances of a file that is there, each with its place."""
    if mapped is None and not is_table(path):
        yield from read_json_lines(path, Instance)
        return
    for place, row in raw_rows(path):
        plain = _nested(row, place) if is_table(path) else dict(row)
        fields = plain if mapped is None else _typed(mapped.fields_of({**row, **plain}, place), place)
        yield place, _instance(fields, place, mapped)


def _instance(fields: dict[str, Any], place: Place, mapped: Mapped | None) -> Instance:
    """The instance that the fields make; a fault names our field, and theirs where it has another name."""
    try:
        return Instance.model_validate(fields)
    except ValidationError as error:
        location = error.errors(include_url=False, include_input=False, include_context=False)[0]["loc"]
        theirs = mapped.their_name(str(location[0])) if mapped and location else None
        message = describe_fault(error, {})
        raise place.error(message + (f" (their field {theirs!r})" if theirs else "")) from error


# --- rows of any kind ------------------------------------------------------------------------------------------------


def is_table(path: Path) -> bool:
    """Whether a file has cells rather than JSON."""
    return path.suffix.lower() in (*_DELIMITERS, _PARQUET)


def raw_rows(path: Path) -> Iterator[tuple[Place, Mapping[str, Any]]]:
    """The rows of a file as they stand, one by one."""
    kind = path.suffix.lower()
    if kind == _PARQUET:
        yield from _parquet_rows(path)
        return
    delimiter = _DELIMITERS.get(kind)
    rows = read_json_lines(path, _AnyRow) if delimiter is None else read_table(path, _AnyRow, delimiter=delimiter)
    for place, row in rows:
        yield place, row.model_extra or {}


def _parquet_rows(path: Path) -> Iterator[tuple[Place, Mapping[str, Any]]]:
    """The rows of a Parquet file, counted from 1; a part of them is held at once."""
    import polars
    from polars.exceptions import PolarsError

    frame = polars.scan_parquet(path)
    start = 0
    while True:
        try:
            rows = frame.slice(start, _BATCH).collect().to_dicts()
        except (PolarsError, OSError) as error:
            raise DataError(f"{path}: not a Parquet file: {str(error).splitlines()[0]}") from error
        yield from ((Place(path, number), row) for number, row in enumerate(rows, start=start + 1))
        if len(rows) < _BATCH:
            return
        start += _BATCH


# --- cells -----------------------------------------------------------------------------------------------------------


def _nested(row: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """The fields of a row of cells: `options.0.text` put into its list, typed, without the empty ones."""
    whole = _typed({name: value for name, value in row.items() if not is_empty(value)}, place)
    fields: dict[str, Any] = {}
    options: dict[str, dict[str, Any]] = {}
    metadata: dict[str, Any] = {}
    for name, value in whole.items():
        table, _, inner = name.partition(".")
        if table == "options" and inner:
            number, _, key = inner.partition(".")
            options.setdefault(number, {"role": None})[key] = value
        elif table == "metadata" and inner:
            metadata[inner] = value
        else:
            fields[name] = value
    if options:
        fields["options"] = [options[number] for number in sorted(options)]
    if isinstance(fields.get("metadata"), dict):  # a column of Parquet has every row's names: null is not there
        fields["metadata"] = {name: value for name, value in fields["metadata"].items() if value is not None}
    if metadata:
        fields["metadata"] = with_metadata(fields.get("metadata"), metadata, place)
    return fields


def _typed(fields: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """The fields with the types that text alone does not tell: lists and tables, places, true and false."""
    return {
        name: _typed_value(name, value, place) if isinstance(value, str) else value for name, value in fields.items()
    }


def _typed_value(name: str, text: str, place: Place) -> Any:
    """What a cell's text stands for, by its field; other fields stay text."""
    if name in _JSON_FIELDS:
        try:
            return json.loads(text)
        except ValueError as error:
            raise place.error(f"not JSON: {error}", name) from error
    if name == "answer_index" and text.strip().isdecimal():
        return int(text)
    if name == "bias_scorable":
        return _TRUTHS.get(text.strip().casefold(), text)
    return text
