"""Reads the model outputs that EuroEval writes with `--debug`.

    MODEL-DATASET-model-outputs.json        {"digest": {"sequence": "response", "messages" or "text": …, …}, …}
                                            {"prompt": {"sequence": "response", "scores": …}, …}

The first is the format of EuroEval's repository: keys are digests, and each entry has the row of the data set with the
prompt, as messages or as text. In the second, of 16.11.0, the key is the prompt: a text, or the `repr` of a list of
messages. Without `--debug` there are only digests and responses. Source: EuroEval's `model_cache.py`, `generation.py`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.tables import UnreadableError, json_object, lines_of
from mbbq_gen.interchange.importers import base as log
from mbbq_gen.interchange.importers.base import ImportedAnswer, Row, SkippedRow, Source

_ENDING: Final = "-model-outputs.json"
_RESULTS: Final = "euroeval_benchmark_results.jsonl"
_NAME: Final = re.compile(r"(.+)-([^-]+-[a-z]{2}|[^-]{3,})")
"""Model and data set; a language code at the end belongs to the data set (`mbbq-nl`)."""
_DIGEST: Final = re.compile(r"[0-9a-f]{32}")


def open_euroeval(path: Path) -> Source:
    """The outputs of one model on one data set; UsageError or DataError for other files."""
    if path.is_dir() or path.suffix == ".jsonl":
        raise UsageError(f"{path}: has no answers; name one *{_ENDING}, which EuroEval writes with --debug")
    outputs = log.read_object(path, "a file of EuroEval")
    if outputs and not any(_sent(key, output) for key, output in outputs.items()):
        raise UsageError(f"{path}: has digests instead of messages; run EuroEval again with --debug")
    model, task = _names(path)

    def answer(output: Mapping[str, Any], number: str) -> list[Row]:
        response = log.text(output, "sequence")
        if response is None:
            return [SkippedRow("unparsed", "no sequence")]
        sent = log.sent(output, "sent", ast.literal_eval)
        return [ImportedAnswer(id=number, task=task, response=log.response(text=response), messages=sent, variant=task)]

    records = (
        {**output, "sent": _sent(key, output)} if isinstance(output, dict) else output
        for key, output in outputs.items()
    )
    rows = log.read_rows(path.name, enumerate(records, start=1), answer)
    return Source(tool="euroeval", path=path, rows=rows, model=model, files=(path,))


def _names(path: Path) -> tuple[str | None, str]:
    """Model and data set, by the results file in the same folder, else by the file's name."""
    name, results = path.name.removesuffix(_ENDING), path.with_name(_RESULTS)
    for _, line in lines_of(results) if results.is_file() else ():
        with suppress(UnreadableError):
            entry = json_object(line)
            if name == f"{str(entry.get('model')).replace('/', '--')}-{entry.get('dataset')}":
                return name.removesuffix(f"-{entry['dataset']}"), entry["dataset"]
    found = _NAME.fullmatch(name)
    return (found[1], found[2]) if found else (None, name)


def _sent(key: str, output: Any) -> Any:
    """The prompt, in the entry or as its key; None if there is only its digest."""
    return log.find(output, "messages") or log.find(output, "text") or (None if _DIGEST.fullmatch(key) else key)
