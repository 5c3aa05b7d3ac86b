"""Reads what lm-evaluation-harness writes with `--log_samples`.

    OUT/MODEL/results_2026-01-31T12-00-00.json              models and settings
    OUT/MODEL/samples_TASK_2026-01-31T12-00-00.jsonl        one line per document and filter
        {"doc_id": 0, "doc": {…}, "arguments": {"gen_args_0": {"arg_0": PROMPT, …}}, "resps": [["response"]], …}

`doc` is a row of the task's data set, with context and question in separate fields, and the options as `choices` or in
fields of their own (`ans0`…). The prompt is a text, or a list with the messages as JSON. Older versions write
`arguments` as a list. A task that compares loglikelihoods has a request and a number for each answer:

        {"arguments": {"gen_args_0": {"arg_0": PROMPT, "arg_1": " an answer"}, …}, "resps": [[["-7.25", "False"]], …]}

With `acc_mutual_info` the same answers are repeated with an empty prompt: their loglikelihoods without the question.
Source: lm_eval 0.4.13, `loggers/evaluation_tracker.py`, `evaluator.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.records import Message, Response
from mbbq_gen.core.tables import lines_of
from mbbq_gen.interchange.importers import base as log
from mbbq_gen.interchange.importers.base import ImportedAnswer, ImportedLoglikelihood, Row, SkippedRow, Source

_SAMPLES: Final = re.compile(r"samples_(?P<task>.+?)(?:_(?P<date>\d{4}-\d\d-\d\dT[\d\-.:]+))?\.jsonl")
_SINGLE_OPTIONS: Final = (("ans0", "ans1", "ans2"), ("option_a", "option_b", "option_c"), ("A", "B", "C"))
_LISTED_OPTIONS: Final = ("choices", "choices.text", "options", "options.text", "answers", "answers.text")
_CONTEXTS: Final = ("context", "ctx", "passage")
_FACTS: Final = ("lm_eval_version", "model_source", "model_name", "system_instruction")


def open_lm_eval(path: Path) -> Source:
    """The samples of one model: a file, or the latest of each task; UsageError for several models."""
    how = "lm-eval writes them with --log_samples --output_path"
    samples, notes = log.latest_files(path, _SAMPLES, "samples_*.jsonl", lambda file: file.parent, how)
    results = list(dict.fromkeys(found for sample in samples if (found := _results_beside(sample)) is not None))
    contents = [log.read_object(file, "a results file of lm-eval") for file in results]
    models = [log.name(result.get("model_name") or log.find(result, "config.model")) for result in contents]
    if len(several := sorted(set(models) - {""})) > 1:
        raise UsageError(f"{path}: holds the answers of several models ({', '.join(several)}); name one file")
    content = contents[0] if contents else {}
    return Source(
        tool="lm-eval",
        path=path,
        rows=(row for sample in samples for row in _rows(sample)),
        model=next(iter(several), None),
        files=(*samples, *results),
        facts={name: log.name(content[name]) for name in _FACTS if content.get(name)},
        notes=notes,
    )


def _results_beside(samples: Path) -> Path | None:
    """The results file with the date of the samples, or the only one in the folder."""
    match = _SAMPLES.fullmatch(samples.name)
    found = sorted(samples.parent.glob("results_*.json"))
    same = [path for path in found if match and path.name == f"results_{match['date']}.json"]
    return same[0] if same else found[0] if len(found) == 1 else None


def _rows(path: Path) -> Iterator[tuple[log.Place, Row]]:
    match = _SAMPLES.fullmatch(path.name)
    task = match["task"] if match else path.stem
    return log.read_rows(path.name, lines_of(path), lambda row, number: _answers(row, task, number))


def _answers(row: Mapping[str, Any], task: str, number: str) -> Iterator[Row]:
    """The answers of one line: one for each repeat, or one with loglikelihoods."""
    groups, doc = log.take(row, "resps", list), log.take(row, "doc", dict)
    texts = log.take(row, "resps.0", list)
    if not texts and len(groups) < 2:
        yield SkippedRow("unparsed", "resps is empty")
        return
    requests = _requests(row.get("arguments"))
    likelihoods: tuple[ImportedLoglikelihood, ...] = ()
    responses: list[Response] = []
    options = _options(doc)
    if len(groups) == 1 and all(isinstance(text, str | None) for text in texts):
        error = "no response is recorded"
        responses = [log.response(text=text, error=error if text is None else None) for text in texts]
    else:
        likelihoods = _likelihoods(requests, groups)
        if len(likelihoods) < 2:
            yield SkippedRow("loglikelihood_only", f"task {task}")
            return
        options = options or (tuple(answer.text for answer in likelihoods) if len(likelihoods) == 3 else ())
    for repeat, response in enumerate(responses or [None], start=1):
        yield ImportedAnswer(
            id=log.name(row.get("doc_id"), number),
            task=task,
            repeat=repeat,
            response=response,
            likelihoods=likelihoods,
            messages=_prompt(requests),
            context=next((doc[name] for name in _CONTEXTS if isinstance(doc.get(name), str)), None),
            question=doc["question"] if isinstance(doc.get("question"), str) else None,
            options=options,
            hints=log.hints(doc),
            variant=task,
        )


def _requests(arguments: Any) -> list[list[Any]]:
    """The requests of a line, each as the prompt, and the answer or settings."""
    entries = list(arguments.values()) if isinstance(arguments, Mapping) else arguments
    listed = [
        [entry.get("arg_0"), entry.get("arg_1")] if isinstance(entry, Mapping) else entry
        for entry in (entries if isinstance(entries, list) else ())
    ]
    return [entry for entry in listed if isinstance(entry, list) and entry]


def _likelihoods(requests: Sequence[Sequence[Any]], groups: Sequence[Any]) -> tuple[ImportedLoglikelihood, ...]:
    """The loglikelihood of each answer; empty unless each number has its answer."""
    pairs = [tuple(text.strip() for text in request if isinstance(text, str)) for request in requests]
    # a response is [["-7.25", "False"]] or only a number
    values = [group[0] if isinstance(group, list) and len(group) == 1 else None for group in groups]
    numbers = [value[0] if isinstance(value, list) and value else value for value in values]
    if any(len(pair) != 2 for pair in pairs) or not log.likelihoods([pair[-1] for pair in pairs], numbers, {}):
        return ()
    number_of = dict(zip(pairs, numbers, strict=True))
    first = pairs[0][0]
    given = {answer: number for (prompt, answer), number in number_of.items() if prompt == first}
    alone = {answer: number for (prompt, answer), number in number_of.items() if not prompt and prompt != first}
    return log.likelihoods(list(given), list(given.values()), alone)


def _prompt(requests: Sequence[Sequence[Any]]) -> tuple[Message, ...]:
    """The messages of the first request."""
    given = requests[0][0] if requests else None
    if isinstance(given, list) and len(given) == 1:
        given = given[0]
    if not isinstance(given, str):
        return ()
    # an empty prompt is also a message
    return log.sent({"arguments": given}, "arguments") if given.strip() else (Message(role="user", content=given),)


def _options(doc: Mapping[str, Any]) -> tuple[str, ...]:
    """The options in the document's order; empty if no known field has them."""
    single = ([doc.get(name) for name in names] for names in _SINGLE_OPTIONS)
    for found in chain((log.find(doc, name) for name in _LISTED_OPTIONS), single):
        if isinstance(found, list) and len(found) == 3 and all(isinstance(entry, str) for entry in found):
            return tuple(found)
    return ()
