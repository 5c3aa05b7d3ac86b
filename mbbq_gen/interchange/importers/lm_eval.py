"""Reads what lm-evaluation-harness writes with `--log_samples`.

    OUT/MODEL/results_2026-01-31T12-00-00.json              models and settings
    OUT/MODEL/samples_TASK_2026-01-31T12-00-00.jsonl        one line a document and filter
        {"doc_id": 0, "doc": {…}, "arguments": {"gen_args_0": {"arg_0": PROMPT, …}}, "resps": [["the words"]], …}

`doc` holds whatever the task's data set has: a context and a question in fields of their own, and the options as
`choices` or one by one (`ans0`…). The prompt is a text, or the messages as JSON in a text in a list. Older versions
write `arguments` as a list. A task that compares likelihoods has numbers where others have words, and a request for
each answer:

        {"arguments": {"gen_args_0": {"arg_0": PROMPT, "arg_1": " an answer"}, …}, "resps": [[["-7.25", "False"]], …]}

With `acc_mutual_info` the same answers follow again with an empty prompt: their likelihoods without the question.
Read in lm_eval 0.4.13: `loggers/evaluation_tracker.py`, `evaluator.py`.
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
    """The samples of one model: a file, or the latest of each task in a folder.

    Raises UsageError where they are of several models, and as `read_object`.
    """
    how = "lm-eval writes them with --log_samples --output_path"
    samples, notes = log.latest_files(path, _SAMPLES, "samples_*.jsonl", lambda file: file.parent, how)
    results = list(dict.fromkeys(found for sample in samples if (found := _results_beside(sample)) is not None))
    contents = [log.read_object(file, "a results file of lm-eval") for file in results]
    models = [log.name(one.get("model_name") or log.find(one, "config.model")) for one in contents]
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
    """The results file that was written with some samples; the only one there is, where the date is another."""
    match = _SAMPLES.fullmatch(samples.name)
    found = sorted(samples.parent.glob("results_*.json"))
    same = [path for path in found if match and path.name == f"results_{match['date']}.json"]
    return same[0] if same else found[0] if len(found) == 1 else None


def _rows(path: Path) -> Iterator[tuple[log.Place, Row]]:
    match = _SAMPLES.fullmatch(path.name)
    task = match["task"] if match else path.stem
    return log.read_rows(path.name, lines_of(path), lambda row, number: _answers(row, task, number))


def _answers(row: Mapping[str, Any], task: str, number: str) -> Iterator[Row]:
    """The answers of one line: one for each repeat, or the likelihoods."""
    groups, doc = log.take(row, "resps", list), log.take(row, "doc", dict)
    said = log.take(row, "resps.0", list)
    if not said and len(groups) < 2:
        yield SkippedRow("unparsed", "resps is empty")
        return
    requests = _requests(row.get("arguments"))
    likelihoods: tuple[ImportedLoglikelihood, ...] = ()
    responses: list[Response] = []
    options = _options(doc)
    if len(groups) == 1 and all(isinstance(one, str | None) for one in said):
        why = "no response is recorded"
        responses = [log.response(text=one, error=why if one is None else None) for one in said]
    else:
        likelihoods = _likelihoods(requests, groups)
        if len(likelihoods) < 2:
            yield SkippedRow("loglikelihood_only", f"task {task}")
            return
        options = options or (tuple(one.text for one in likelihoods) if len(likelihoods) == 3 else ())
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
    """What each request of a line sent: the prompt, and the answer or settings."""
    entries = list(arguments.values()) if isinstance(arguments, Mapping) else arguments
    listed = [
        [entry.get("arg_0"), entry.get("arg_1")] if isinstance(entry, Mapping) else entry
        for entry in (entries if isinstance(entries, list) else ())
    ]
    return [entry for entry in listed if isinstance(entry, list) and entry]


def _likelihoods(requests: Sequence[Sequence[Any]], groups: Sequence[Any]) -> tuple[ImportedLoglikelihood, ...]:
    """The likelihood of each answer; none where the line does not tell of which answers its numbers are."""
    pairs = [tuple(text.strip() for text in request if isinstance(text, str)) for request in requests]
    # a response is [["-7.25", "False"]] or a number alone
    said = [group[0] if isinstance(group, list) and len(group) == 1 else None for group in groups]
    numbers = [one[0] if isinstance(one, list) and one else one for one in said]
    if any(len(pair) != 2 for pair in pairs) or not log.likelihoods([pair[-1] for pair in pairs], numbers, {}):
        return ()
    of_pair = dict(zip(pairs, numbers, strict=True))
    prompt = pairs[0][0]
    given = {answer: number for (before, answer), number in of_pair.items() if before == prompt}
    alone = {answer: number for (before, answer), number in of_pair.items() if not before and before != prompt}
    return log.likelihoods(list(given), list(given.values()), alone)


def _prompt(requests: Sequence[Sequence[Any]]) -> tuple[Message, ...]:
    """What was sent: a text, or messages as JSON."""
    given = requests[0][0] if requests else None
    if isinstance(given, list) and len(given) == 1:
        given = given[0]
    if not isinstance(given, str):
        return ()
    # an empty prompt was sent, too
    return log.sent({"arguments": given}, "arguments") if given.strip() else (Message(role="user", content=given),)


def _options(doc: Mapping[str, Any]) -> tuple[str, ...]:
    """The options in the document's order; none where it has none under a name that is known."""
    single = ([doc.get(name) for name in names] for names in _SINGLE_OPTIONS)
    for found in chain((log.find(doc, name) for name in _LISTED_OPTIONS), single):
        if isinstance(found, list) and len(found) == 3 and all(isinstance(entry, str) for entry in found):
            return tuple(found)
    return ()
