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
from pathlib import Path
from typing import Any, Final

from mbbq_gen.core.errors import DataError, UsageError
from mbbq_gen.core.records import ImportSource, Message
from mbbq_gen.core.tables import UnreadableError, json_object, lines_of
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

_SAMPLES: Final = re.compile(r"samples_(?P<task>.+?)(?:_(?P<date>\d{4}-\d\d-\d\dT[\d\-.:]+))?\.jsonl")
_SINGLE_OPTIONS: Final = (("ans0", "ans1", "ans2"), ("option_a", "option_b", "option_c"), ("A", "B", "C"))
_LISTED_OPTIONS: Final = ("choices", "options", "answers")


def open_lm_eval(path: Path) -> Source:
    """The samples of one model: a file, or a folder that holds such files.

    Of a task that was run more than once into the same folder, the latest samples are read.

    Raises:
        UsageError: where there is nothing to read, or the samples are of several models.
        DataError: where the results file beside them is no JSON.
    """
    if path.is_dir():
        samples, dropped = _samples_in(path)
    else:
        require_file(path, "a samples_*.jsonl of lm-eval or its folder")
        samples, dropped = [path], 0
    results = [found for sample in samples if (found := _results_beside(sample)) is not None]
    models = {name for found in results if (name := _model_name(read_json(found)))}
    if len(models) > 1:
        raise UsageError(f"{path}: holds the answers of {', '.join(sorted(models))}; name the folder of one model")
    notes = (f"{path}: {dropped} older files of the same tasks are left out",) if dropped else ()
    return Source(
        tool="lm-eval",
        path=path,
        rows=_rows(samples),
        model=next(iter(models), None),
        files=(*samples, *dict.fromkeys(results)),
        facts=_facts(results),
        notes=notes,
    )


def _samples_in(folder: Path) -> tuple[list[Path], int]:
    """The latest samples of each task below a folder, and how many older ones there are."""
    files = [(_SAMPLES.fullmatch(path.name), path) for path in sorted(folder.rglob("samples_*.jsonl"))]
    found = [(match["task"], match["date"] or "", path) for match, path in files if match is not None]
    if not found:
        raise UsageError(f"{folder}: no samples_*.jsonl in it; lm-eval writes them with --log_samples --output_path")
    if len(parents := {path.parent for *_, path in found}) > 1:
        names = ", ".join(sorted({parent.name for parent in parents}))
        raise UsageError(f"{folder}: holds the answers of several models ({names}); name one folder")
    return fields.latest(found)


def _results_beside(samples: Path) -> Path | None:
    """The results file that was written with some samples; the only one there is, where the date is another."""
    match = _SAMPLES.fullmatch(samples.name)
    date = match["date"] if match else None
    found = sorted(samples.parent.glob("results_*.json"))
    same = [path for path in found if date and path.name == f"results_{date}.json"]
    return same[0] if same else found[0] if len(found) == 1 else None


def _model_name(results: Any) -> str | None:
    """The model's name in a results file."""
    if not isinstance(results, Mapping):
        return None
    config = results.get("config")
    name = results.get("model_name") or (config.get("model") if isinstance(config, Mapping) else None)
    return fields.name(name) or None


def _facts(paths: list[Path]) -> dict[str, str]:
    """What the first results file says about the model's settings."""
    results = read_json(paths[0]) if paths else {}
    if not isinstance(results, Mapping):
        raise DataError(f"{paths[0]}: a JSON object is needed")
    names = ("lm_eval_version", "model_source", "model_name", "system_instruction")
    return {name: fields.name(results[name]) for name in names if results.get(name)}


def _rows(paths: list[Path]) -> Iterator[ImportedAnswer | SkippedRow]:
    """The answers of all files, one by one."""
    for path in paths:
        match = _SAMPLES.fullmatch(path.name)
        task = match["task"] if match else path.stem
        for number, line in lines_of(path):
            place = f"{path.name}:{number}"
            try:
                yield from _answers(json_object(line), path, task, place)
            except UnreadableError as error:
                yield SkippedRow("parse_error", place, str(error))


def _answers(row: Mapping[str, Any], path: Path, task: str, place: str) -> Iterator[ImportedAnswer | SkippedRow]:
    """The answers of one line: one for each repeat, or the likelihoods."""
    doc = fields.table(row.get("doc"), "doc")
    groups = fields.array(row.get("resps"), "resps")
    said_each = fields.array(groups[0], "resps[0]") if groups else ()
    if not said_each and len(groups) < 2:
        yield SkippedRow("unparsed", place, "resps is empty")
        return
    words: list[ImportedResponse] = []
    likelihoods: tuple[ImportedLoglikelihood, ...] = ()
    options = _options(doc)
    if len(groups) == 1 and all(isinstance(said, str | None) for said in said_each):
        for said in said_each:
            error = "no response is recorded" if said is None else None
            words.append(ImportedResponse(text=fields.text(said, "resps"), error=error))
    else:
        likelihoods = _likelihoods(row.get("arguments"), groups)
        if len(likelihoods) < 2:
            yield SkippedRow("loglikelihood_only", place, f"task {task}")
            return
        words = [ImportedResponse()]
        options = options or (tuple(one.text for one in likelihoods) if len(likelihoods) == 3 else ())
    identity = fields.name(row.get("doc_id"), place.rpartition(":")[2])
    for number, response in enumerate(words, start=1):
        yield ImportedAnswer(
            origin=ImportSource(tool="lm-eval", file=path.name, id=identity, task=task, repeat=number),
            place=place,
            words=response,
            likelihoods=likelihoods,
            messages=_prompt(row.get("arguments")),
            context=_text_of(doc, "context", "ctx", "passage"),
            question=_text_of(doc, "question"),
            options=options,
            hints=fields.hints(doc),
            variant=task,
        )


def _likelihoods(arguments: Any, groups: Sequence[Any]) -> tuple[ImportedLoglikelihood, ...]:
    """The likelihood of each answer; none where the line does not tell of which answers its numbers are."""
    entries = list(arguments.values()) if isinstance(arguments, Mapping) else arguments
    pairs = [_pair(entry) for entry in (entries if isinstance(entries, list) else ())]
    numbers = [_log_probability(group) for group in groups]
    if len(pairs) != len(numbers) or None in pairs or None in numbers:
        return ()
    scored = [(*pair, number) for pair, number in zip(pairs, numbers, strict=True) if pair and number is not None]
    if not scored:
        return ()
    prompt = scored[0][0]
    alone = {text: number for before, text, number in scored if not before and before != prompt}
    return tuple(
        ImportedLoglikelihood(
            text=text, logprob=fields.finite(number), unconditional_logprob=fields.finite(alone.get(text))
        )
        for before, text, number in scored
        if before == prompt
    )


def _pair(entry: Any) -> tuple[str, str] | None:
    """The prompt of a request and the answer, without blanks at its edges; None where there are no such two."""
    given = [entry.get("arg_0"), entry.get("arg_1")] if isinstance(entry, Mapping) else entry
    if not isinstance(given, list) or len(given) != 2 or not all(isinstance(text, str) for text in given):
        return None
    return (given[0].strip(), given[1].strip()) if given[1].strip() else None


def _log_probability(group: Any) -> float | None:
    """The number of a response such as [["-7.25", "False"]]; None where there is none."""
    said = group[0] if isinstance(group, list) and len(group) == 1 else None
    value = said[0] if isinstance(said, list) and said else said
    return fields.log_probability(value)


def _prompt(arguments: Any) -> tuple[Message, ...]:
    """What was sent: a text, or messages as JSON."""
    given = arguments
    if isinstance(given, Mapping):
        given = fields.table(given.get("gen_args_0"), "arguments.gen_args_0").get("arg_0")
    elif isinstance(given, list) and given and isinstance(given[0], list) and given[0]:
        given = given[0][0]
    if isinstance(given, list) and len(given) == 1:
        given = given[0]
    if isinstance(given, str) and not given.strip():  # an empty prompt was sent
        return (Message(role="user", content=given),)
    return fields.sent(given, "arguments") if isinstance(given, str) else ()


def _options(doc: Mapping[str, Any]) -> tuple[str, ...]:
    """The options in the document's order; none where it has none under a name that is known."""
    for name in _LISTED_OPTIONS:
        listed = doc.get(name)
        if isinstance(listed, Mapping):  # {"text": […], "label": […]}
            listed = listed.get("text")
        if isinstance(listed, list) and len(listed) == 3 and all(isinstance(entry, str) for entry in listed):
            return fields.texts(listed, f"doc.{name}")
    for names in _SINGLE_OPTIONS:
        found = [doc[name] for name in names if isinstance(doc.get(name), str)]
        if len(found) == len(names):
            return fields.texts(found, "doc")
    return ()


def _text_of(doc: Mapping[str, Any], *names: str) -> str | None:
    """The first of some fields that holds a text."""
    return next((fields.text(doc[name], f"doc.{name}") for name in names if isinstance(doc.get(name), str)), None)
