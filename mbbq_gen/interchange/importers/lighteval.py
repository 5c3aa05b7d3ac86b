"""Reads what lighteval writes with `--save-details`.

    OUT/results/MODEL/results_DATE.json                    models and settings
    OUT/details/MODEL/DATE/details_TASK|SHOTS_DATE.parquet one row per document
        doc             {query, choices, id, task_name, specific, …}      the question of the task
        model_response  {input, text, reasonings, logprobs, …}            the prompt and the responses

`text` and `reasonings` have one entry per sample; `logprobs` has one for each of `choices`, if the task compares
loglikelihoods. `input` is a text or messages. Source: lighteval 0.13.0, `logging/evaluation_tracker.py`,
`models/model_output.py`, `tasks/requests.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from mbbq_gen.core.tables import table_rows
from mbbq_gen.interchange.importers import base as log
from mbbq_gen.interchange.importers.base import ImportedAnswer, Row, SkippedRow, Source

_DETAILS: Final = re.compile(r"details_(?P<task>.+?)_(?P<date>\d{4}-\d\d-\d\dT[\d\-.:]+)\.parquet")
_N_OPTIONS: Final = 3


def open_lighteval(path: Path) -> Source:
    """The details of one model: a file, or the latest of each task below a folder."""
    how = "lighteval writes them with --save-details"
    details, notes = log.latest_files(path, _DETAILS, "details_*.parquet", lambda file: file.parent.parent, how)
    results = list(dict.fromkeys(found for file in details if (found := _results_of(file)) is not None))
    content = log.read_object(results[0], "a results file of lighteval") if results else {}
    settings = {
        "model_name": log.find(content, "config_general.model_name")
        or log.find(content, "config_general.model_config.model_name"),
        "lighteval_sha": log.find(content, "config_general.lighteval_sha"),
        "system_prompt": log.find(content, "config_general.model_config.system_prompt"),
    }
    facts = {name: log.name(value) for name, value in settings.items() if value}
    return Source(
        tool="lighteval",
        path=path,
        rows=(row for file in details for row in _rows(file)),
        model=facts.get("model_name"),
        files=(*details, *results),
        facts=facts,
        notes=notes,
    )


def _results_of(details: Path) -> Path | None:
    """The results file of a details file: `OUT/details/MODEL/DATE/…` → `OUT/results/MODEL/…`."""
    match = _DETAILS.fullmatch(details.name)
    parts = details.absolute().parts
    if match is None or "details" not in parts:
        return None
    place = len(parts) - 1 - parts[::-1].index("details")
    found = Path(*parts[:place], "results", *parts[place + 1 : -2], f"results_{match['date']}.json")
    return found if found.is_file() else None


def _rows(path: Path) -> Iterator[tuple[log.Place, Row]]:
    return log.read_rows(path.name, table_rows(path), lambda row, number: _answers(row, path.stem, number))


def _answers(row: Mapping[str, Any], default_task: str, number: str) -> Iterator[Row]:
    """The answers of one row: one for each sample, or one with loglikelihoods."""
    task = log.name(log.find(row, "doc.task_name"), default_task)
    choices, texts = log.texts(row, "doc.choices"), log.texts(row, "model_response.text")
    reasoning = log.texts(row, "model_response.reasonings")
    responses = [
        log.response(text=text, reasoning=trace or None) for text, trace in zip_longest(texts, reasoning[: len(texts)])
    ]
    alone = log.take(row, "model_response.unconditioned_logprobs", list)
    without = dict(zip(choices, alone, strict=True)) if len(alone) == len(choices) else {}
    numbers = log.take(row, "model_response.logprobs", list)
    likelihoods = () if texts else log.likelihoods(choices, numbers, without)
    if (not texts and not likelihoods) or None in log.take(row, "model_response.text", list):
        yield SkippedRow("unparsed", f"task {task}")
        return
    are_letters = all(len(choice.strip()) == 1 for choice in choices)
    for repeat, response in enumerate(responses or [None], start=1):
        yield ImportedAnswer(
            id=log.name(log.find(row, "doc.id"), number),
            task=task,
            repeat=repeat,
            response=response,
            likelihoods=likelihoods,
            # the query of the task, if the messages are not recorded
            messages=log.sent(row, "model_response.input") or log.sent(row, "doc.query"),
            options=tuple(map(str.strip, choices)) if len(choices) == _N_OPTIONS and not are_letters else (),
            hints=log.hints(log.find(row, "doc.specific"), log.find(row, "doc.id")),
            variant=task,
        )
