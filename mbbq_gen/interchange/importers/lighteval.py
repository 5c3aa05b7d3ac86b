"""Reads what lighteval writes with `--save-details`.

    OUT/results/MODEL/results_DATE.json                    models and settings
    OUT/details/MODEL/DATE/details_TASK|SHOTS_DATE.parquet one row a document
        doc             {query, choices, id, task_name, specific, …}      what the task made of a row of its data
        model_response  {input, text, reasonings, logprobs, …}            what was sent, and what came back

`text` and `reasonings` have an entry a sample; `logprobs` has one for each of `choices`, where a task compares
likelihoods and nothing is written. `input` is a text, or the messages. Read in lighteval 0.13.0:
`logging/evaluation_tracker.py`, `models/model_output.py`, `tasks/requests.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.records import ImportSource
from mbbq_gen.core.tables import UnreadableError, table_rows
from mbbq_gen.interchange.importers import base as fields
from mbbq_gen.interchange.importers.base import (
    ImportedAnswer,
    ImportedLoglikelihood,
    ImportedResponse,
    SkippedRow,
    Source,
    read_json,
    require_file,
)

_DETAILS: Final = re.compile(r"details_(?P<task>.+?)_(?P<date>\d{4}-\d\d-\d\dT[\d\-.:]+)\.parquet")
_N_OPTIONS: Final = 3


def open_lighteval(path: Path) -> Source:
    """The details of one model: a file, a folder of one date, or the folder that `--output-dir` named.

    Of several dates, the latest details of each task are read.

    Raises:
        UsageError: where there is nothing to read, or the details are of several models.
        DataError: where the results file beside them is no JSON.
    """
    if path.is_dir():
        details, dropped = _details_in(path)
    else:
        require_file(path, "a details_*.parquet of lighteval or its folder")
        details, dropped = [path], 0
    results = list(dict.fromkeys(found for file in details if (found := _results_of(file)) is not None))
    facts = _facts(read_json(results[0])) if results else {}
    return Source(
        tool="lighteval",
        path=path,
        rows=_rows(details),
        model=facts.get("model_name"),
        files=(*details, *results),
        facts=facts,
        notes=(f"{path}: {dropped} older files of the same tasks are left out",) if dropped else (),
    )


def _details_in(folder: Path) -> tuple[list[Path], int]:
    """The latest details of each task below a folder, and how many older ones there are."""
    files = [(_DETAILS.fullmatch(path.name), path) for path in folder.rglob("details_*.parquet")]
    found = sorted((match["task"], match["date"], path) for match, path in files if match is not None)
    if not found:
        raise UsageError(f"{folder}: no details_*.parquet in it; lighteval writes them with --save-details")
    if len(models := {path.parent.parent for *_, path in found}) > 1:
        names = ", ".join(sorted(model.name for model in models))
        raise UsageError(f"{folder}: holds the answers of several models ({names}); name one folder")
    return fields.latest(found)


def _results_of(details: Path) -> Path | None:
    """The results file that was written with some details: `OUT/details/MODEL/DATE/…` → `OUT/results/MODEL/…`."""
    match = _DETAILS.fullmatch(details.name)
    parts = details.absolute().parts
    if match is None or "details" not in parts:
        return None
    place = len(parts) - 1 - parts[::-1].index("details")
    found = Path(*parts[:place], "results", *parts[place + 1 : -2], f"results_{match['date']}.json")
    return found if found.is_file() else None


def _facts(results: Any) -> dict[str, str]:
    """What the results file says about the model's settings."""
    general = results.get("config_general") if isinstance(results, Mapping) else None
    if not isinstance(general, Mapping):
        return {}
    config = general.get("model_config")
    name = general.get("model_name") or (config.get("model_name") if isinstance(config, Mapping) else None)
    facts = {"model_name": fields.name(name), "lighteval_sha": fields.name(general.get("lighteval_sha"))}
    if isinstance(config, Mapping) and config.get("system_prompt"):
        facts["system_prompt"] = fields.name(config["system_prompt"])
    return {key: value for key, value in facts.items() if value}


def _rows(paths: list[Path]) -> Iterator[ImportedAnswer | SkippedRow]:
    """The answers of all files, one by one."""
    for path in paths:
        for number, row in table_rows(path):
            where = f"{path.name}:{number}"
            try:
                yield from _answers(row, path, where, str(number))
            except UnreadableError as error:
                yield SkippedRow("parse_error", where, str(error))


def _answers(row: Mapping[str, Any], path: Path, place: str, number: str) -> Iterator[ImportedAnswer | SkippedRow]:
    """The answers of one row: one for each sample, or the likelihoods."""
    doc, said = fields.table(row.get("doc"), "doc"), fields.table(row.get("model_response"), "model_response")
    task, given = fields.name(doc.get("task_name"), path.stem), said.get("input")
    shared: dict[str, Any] = {
        "place": place,
        # The task's query where what was sent is not kept.
        "messages": fields.sent(doc.get("query") if given in (None, "") else given, "model_response.input"),
        "options": _options(doc),
        "hints": fields.hints(doc.get("specific"), doc.get("id")),
        "variant": task,
    }

    def origin(repeat: int = 1) -> ImportSource:
        return ImportSource(
            tool="lighteval", file=path.name, id=fields.name(doc.get("id"), number), task=task, repeat=repeat
        )

    texts = fields.array(said.get("text") or [], "model_response.text")
    traces = fields.array(said.get("reasonings") or [], "model_response.reasonings")
    for sample, text in enumerate(texts, start=1):
        reasoning = traces[sample - 1] if sample <= len(traces) else None
        words = ImportedResponse(text=fields.text(text, "text"), reasoning=fields.text(reasoning, "reasonings"))
        yield ImportedAnswer(origin=origin(sample), words=words, **shared)
    if texts:
        return
    likelihoods = _likelihoods(doc, said)
    if likelihoods:
        yield ImportedAnswer(origin=origin(), words=ImportedResponse(), likelihoods=likelihoods, **shared)
    else:
        yield SkippedRow("unparsed", place, f"task {task}")


def _likelihoods(doc: Mapping[str, Any], said: Mapping[str, Any]) -> tuple[ImportedLoglikelihood, ...]:
    """The likelihood of each choice; none where the numbers are not those of the choices."""
    choices = fields.texts(doc.get("choices") or [], "doc.choices")
    numbers, alone = (
        [fields.log_probability(entry) for entry in fields.array(said.get(name) or [], where)]
        for name, where in (("logprobs", "model_response.logprobs"), ("unconditioned_logprobs", "unconditioned"))
    )
    if not choices or len(choices) != len(numbers) or None in numbers or not all(text.strip() for text in choices):
        return ()
    without = alone if len(alone) == len(choices) else [None] * len(choices)
    return tuple(
        ImportedLoglikelihood(
            text=text.strip(), logprob=fields.finite(number), unconditional_logprob=fields.finite(other)
        )
        for text, number, other in zip(choices, numbers, without, strict=True)
    )


def _options(doc: Mapping[str, Any]) -> tuple[str, ...]:
    """The choices, where they are the options' texts and not their letters."""
    choices = doc.get("choices")
    if not isinstance(choices, list) or len(choices) != _N_OPTIONS:
        return ()
    texts = fields.texts(choices, "doc.choices")
    return () if all(len(text.strip()) == 1 for text in texts) else tuple(text.strip() for text in texts)
