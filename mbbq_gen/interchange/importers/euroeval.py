"""Reads the model outputs that EuroEval leaves with `--debug`.

    MODEL-DATASET-model-outputs.json        {"digest": {"sequence": "the words", "messages" or "text": …, …}, …}
                                            {"what was sent": {"sequence": "the words", "scores": …}, …}

The first is how EuroEval writes today: keys are digests, and beside the words stands the row of the data set with what
was sent, as messages or as a text. In the second, of older versions, what was sent is the key: a text, or the messages
as Python writes a list of tables. Without `--debug` there are digests and words alone, and the file is removed when the
model is done; `euroeval_benchmark_results.jsonl` holds sums only, from which no answer comes back. Read in EuroEval's
`model_cache.py` and `generation.py`: 16.11.0, and as they stand in its repository since.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from mbbq_gen.core.errors import DataError, UsageError
from mbbq_gen.core.records import ImportSource
from mbbq_gen.core.tables import UnreadableError, json_object, lines_of
from mbbq_gen.interchange.importers import base as fields
from mbbq_gen.interchange.importers.base import (
    ImportedAnswer,
    ImportedResponse,
    SkippedRow,
    Source,
    read_json,
    require_file,
)

_ENDING: Final = "-model-outputs.json"
_RESULTS: Final = "euroeval_benchmark_results.jsonl"
_NAME: Final = re.compile(r"(.+)-([^-]+-[a-z]{2}|[^-]{3,})")
_DIGEST: Final = re.compile(r"[0-9a-f]{32}")


def open_euroeval(path: Path) -> Source:
    """The outputs of one model on one data set.

    Raises:
        UsageError: where the file holds sums, or digests in place of what was sent.
        DataError: where it is no JSON, or of another shape.
    """
    if path.is_dir():
        raise UsageError(f"{path}: is a folder; name one *{_ENDING} in it, which EuroEval writes with --debug")
    require_file(path, f"a *{_ENDING} of EuroEval")
    if path.suffix == ".jsonl":
        raise UsageError(f"{path}: has scores but no answers; run EuroEval again with --debug and name the *{_ENDING}")
    outputs = read_json(path)
    if not isinstance(outputs, Mapping) or not all(isinstance(entry, Mapping) for entry in outputs.values()):
        raise DataError(f"{path}: a JSON object of what was sent → what came back is needed")
    if outputs and not any(_sent(key, output) for key, output in outputs.items()):
        raise UsageError(f"{path}: has digests instead of messages; run EuroEval again with --debug")
    model, task = _names(path)
    return Source(tool="euroeval", path=path, rows=_rows(outputs, path, task), model=model, files=(path,))


def _names(path: Path) -> tuple[str | None, str]:
    """Model and data set: from the results beside the outputs where they are there, else from the file's name.

    Both names may hold hyphens; of a data set, a language's code at the end belongs to its name (`mbbq-nl`).
    """
    name = path.name.removesuffix(_ENDING)
    results = path.with_name(_RESULTS)
    for _, line in lines_of(results) if results.is_file() else ():
        try:
            entry = json_object(line)
        except UnreadableError:
            continue
        model, task = str(entry.get("model")), str(entry.get("dataset"))
        if name == f"{model.replace('/', '--')}-{task}":
            return name.removesuffix(f"-{task}"), task
    found = _NAME.fullmatch(name)
    return (found[1], found[2]) if found else (None, name)


def _rows(outputs: Mapping[str, Any], path: Path, task: str) -> Iterator[ImportedAnswer | SkippedRow]:
    for number, (key, output) in enumerate(outputs.items(), start=1):
        place = f"{path.name}:{number}"
        try:
            words = fields.text(output.get("sequence"), "sequence")
            if words is None:
                yield SkippedRow("unparsed", place, "no sequence")
                continue
            yield ImportedAnswer(
                origin=ImportSource(tool="euroeval", file=path.name, id=str(number), task=task),
                place=place,
                words=ImportedResponse(text=words),
                messages=fields.sent(_sent(key, output), "what was sent", ast.literal_eval),
                variant=task,
            )
        except UnreadableError as error:
            yield SkippedRow("parse_error", place, str(error))


def _sent(key: str, output: Mapping[str, Any]) -> Any:
    """What was sent: beside the words, or in the key; None where there is only its digest."""
    return output.get("messages") or output.get("text") or (None if _DIGEST.fullmatch(key) else key)
