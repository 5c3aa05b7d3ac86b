"""Command `explain`: shows how one response was extracted."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mbbq_gen.cli.help import example, option
from mbbq_gen.cli.options import Json, Packs, print_json, read_before_use, resources, result_console, show
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.text import all_of, words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mbbq_gen.core.files import PackPaths
    from mbbq_gen.core.records import Extraction, Response
    from mbbq_gen.extraction import Explanation, Question
    from mbbq_gen.runs.run_folder import RunFolder
    from mbbq_gen.storage.store import CompletedPrompt, RunStore

_NAMED = 5
"""Prompts that an error names."""
_BEGINNING = 60
"""Characters of a response shown in a list."""


@example(
    "  mbbq-gen explain my-run --outcome unparsed\n"
    "  mbbq-gen explain my-run 3fa085e2\n"
    '  mbbq-gen explain --language en --options "The tailor|The baker|Unknown" --response "Not the tailor, B."'
)
def explain(
    run_path: Annotated[Path | None, typer.Argument(metavar="RUN", help="Run folder.")] = None,
    identifier: Annotated[
        str | None, typer.Argument(metavar="ID", help="Prompt id (or its beginning) or instance key. Default: a list.")
    ] = None,
    outcome: Annotated[
        str | None,
        option("List", "Only these outcomes, comma-separated; unparsed: all that choose no option.", metavar="NAME,…"),
    ] = None,
    rule: Annotated[str | None, option("List", "Only extractions by this rule.")] = None,
    limit: Annotated[int, option("List", "Maximum extractions to list.", min=1)] = 20,
    response: Annotated[
        str | None, option("Your own response", "Response of a model; - reads stdin.", metavar="TEXT|-")
    ] = None,
    language: Annotated[
        str | None, option("Your own response", "Its language; in a list, only this language of the run.", metavar="XX")
    ] = None,
    options: Annotated[
        str | None, option("Your own response", "Options as shown, separated by |.", metavar="TEXT|TEXT|…")
    ] = None,
    labels: Annotated[
        str | None, option("Your own response", "Labels of the options. Default: A,B,C,…", metavar="A,B,…")
    ] = None,
    unknown_index: Annotated[
        int | None, option("Your own response", "Index of the unknown option, from 0. Default: there is none.", min=0)
    ] = None,
    prompt: Annotated[
        str | None, option("Your own response", "Prompt as sent, to recognise echoes.", metavar="TEXT")
    ] = None,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Shows how a response was extracted.

    Shows all candidates, the rule and pack line that won, and why the others lost. With RUN and ID: a response of
    that run, extracted with the current packs. With RUN only: a list of its extractions. With --language, --options
    and --response: any response.
    """
    from mbbq_gen.extraction import Question, load_extractor
    from mbbq_gen.runs.run_folder import RunFolder

    where = resources(packs)
    if run_path is None:
        texts = [text.strip() for text in options.split("|")] if options is not None else []
        if not texts:
            raise UsageError('give a run, or your own response: --language en --options "…|…|…" --response "…"')
        if not all(texts):
            raise UsageError("--options: one of them is empty; separate them by | and leave none out")

        if language is None or response is None:
            missing, others = ("language", "response") if language is None else ("response", "language")
            raise UsageError(f"--{missing}: missing; give it together with --{others} and --options")
        if not 2 <= len(texts) <= 10:
            raise UsageError(f"--options: {len(texts)} of them; 2 to 10 are possible")
        shown = words(labels) if labels else [chr(ord("A") + place) for place in range(len(texts))]
        text = (
            sys.stdin.buffer.read().decode("utf-8", errors="replace")
            if response == "-"
            else response.encode(errors="surrogateescape").decode("utf-8", errors="replace")
        )
        question = Question(texts, shown, unknown_index, prompt)
        told = load_extractor(language, where).explain(text, question)
        if as_json:
            print_json(told.model_dump())
        else:
            _print_options(told.options, told.labels)
            _print(told)
        return
    wrong = {"--options": options, "--labels": labels, "--response": response, "--prompt": prompt}
    for name, value in wrong.items():
        if value is not None:
            raise UsageError(f"{name} goes with your own --response; leave out the run, or leave out {name}")

    folder = RunFolder(run_path)
    folder.require()
    if identifier is None:
        _list(folder, where, language, outcome, rule, limit, as_json=as_json)
    else:
        _explain_answer(folder, identifier, where, as_json=as_json)


# --- any response ----------------------------------------------------------------------------------------------------


def _print(told: Explanation) -> None:
    from mbbq_gen.report.explanation import print_explanation

    print_explanation(told, result_console())


def _print_options(options: Sequence[str], labels: Sequence[str], notes: Sequence[str] = ()) -> None:
    from mbbq_gen.report.explanation import chosen_text

    for place in range(len(options)):
        note = f"   ({notes[place]})" if notes else ""
        result_console().print(f"  {chosen_text(place, labels, options)}{note}")


# --- an answer of a run ----------------------------------------------------------------------------------------------


def _explain_answer(folder: RunFolder, identifier: str, where: PackPaths, *, as_json: bool) -> None:
    from mbbq_gen.core.text import shortened
    from mbbq_gen.report.explanation import print_reasoning_trace
    from mbbq_gen.runs.extraction import explain_answer, question_of
    from mbbq_gen.runs.reasoning import extract_reasoning, reasoning_text
    from mbbq_gen.storage.queries import stored_extractions

    with folder.open_store(read_only=True) as store:
        answered = find_one(store, folder.path, identifier)
        stored = stored_extractions(store, answered.prompt.prompt_id)
        if answered.response.scores is not None:
            _explain_likelihoods(answered, stored, store, as_json=as_json)
            return
    question, told = question_of(answered), explain_answer(answered, where)
    reasoning = reasoning_text(answered.response, where)
    if as_json:
        read = None if reasoning is None else extract_reasoning(answered, reasoning, where).model_dump()
        trace = None if reasoning is None else {"text": reasoning.text, "extraction": read}
        print_json({**_answer_json(answered, question, stored, told), "reasoning": trace})
        return

    console = result_console()
    _print_question(answered, question)
    if told is None:
        console.print(f"\nno response to read: {shortened(_why_unparsed(answered.response), 200)}")
    else:
        _print(told)
    _print_stored(question, stored)
    if reasoning is not None:
        extraction = extract_reasoning(answered, reasoning, where)
        print_reasoning_trace(reasoning.text, extraction, question.labels, question.options, result_console())


def find_one(store: RunStore, path: Path, identifier: str) -> CompletedPrompt:
    """The one completed prompt of an id, the beginning of an id, or an instance key.

    Raises:
        UsageError: there is none, or several, or no response yet.
    """
    from mbbq_gen.storage.queries import find_completed, find_prompts

    found = find_prompts(store, identifier)
    if not found:
        raise UsageError(f"{path}: nothing has the id or key {identifier!r}; see them with: mbbq-gen explain {path}")
    if len(found) > 1:
        named = ", ".join(f"{shown.prompt_id} ({shown.variant} {shown.option_order})" for shown in found[:_NAMED])
        more = ", …" if len(found) > _NAMED else ""
        raise UsageError(f"{path}: {identifier!r} means several prompts: {named}{more}; name one of them")
    answered = find_completed(store, found[0].prompt_id)
    if answered is None:
        raise UsageError(f"{path}: {found[0].prompt_id} has no response yet; continue with: mbbq-gen run {path}")
    return answered


def _answer_json(
    answered: CompletedPrompt, question: Question, stored: dict[str, Extraction], told: Explanation | None
) -> dict[str, Any]:
    prompt = answered.prompt
    return {
        "prompt_id": prompt.prompt_id,
        "instance_key": prompt.instance_key,
        "variant": prompt.variant,
        "prompt": question.prompt,
        "options": list(question.options),
        "labels": list(question.labels),
        "unknown_index": question.unknown_index,
        "response": answered.response.model_dump(),
        "explanation": told.model_dump() if told else None,
        "stored_extractions": {version: found.model_dump() for version, found in stored.items()},
    }


def _print_question(answered: CompletedPrompt, question: Question) -> None:
    """The question, and the options with their roles."""

    console, prompt, instance = result_console(), answered.prompt, answered.instance
    console.print(f"{prompt.instance_key}, variant {prompt.variant}, {prompt.prompt_id}")
    console.print(instance.context, instance.question, sep="\n")
    roles = [instance.options[place].role or "person" for place in prompt.option_order]
    notes = [
        role + (", correct" if prompt.option_order[n] == instance.gold_index else "") for n, role in enumerate(roles)
    ]
    _print_options(question.options, question.labels, notes)


def _print_stored(question: Question, stored: Mapping[str, Extraction]) -> None:
    """The stored extractions of the response, by version."""
    from mbbq_gen.report.explanation import chosen_text

    for version, found in stored.items():
        chosen = chosen_text(found.option, question.labels, question.options)
        result_console().print(f"stored    {version}: {found.outcome}, {chosen}, rule {found.rule}")


def _explain_likelihoods(
    answered: CompletedPrompt, stored: dict[str, Extraction], store: RunStore, *, as_json: bool
) -> None:
    """The loglikelihood of each answer, and the option chosen by the normalization of the run."""
    from mbbq_gen.report.explanation import print_likelihoods
    from mbbq_gen.runs.extraction import question_of, scores_version

    shown, question = answered.prompt, question_of(answered)
    scores = store.option_scores(answered.response.request_key)
    if as_json:
        response = answered.response.model_copy(update={"scores": scores})
        print_json(_answer_json(replace(answered, response=response), question, stored, None))
        return
    extraction = stored.get(scores_version(store) or "")
    _print_question(answered, question)
    console = result_console()
    console.print(f"\n{shown.method}: natural log-probabilities of {len(scores)} answers\n")
    print_likelihoods(scores, shown.option_order, question.labels, extraction.option if extraction else None, console)
    console.print()
    _print_stored(question, stored)


def _why_unparsed(response: Response) -> str:
    """Why there is no text to extract from."""
    if response.error is not None:
        return response.error
    if response.finish_reason == "content_filter":
        return "the service blocked the response"
    return f"the model declined: {response.refusal}" if response.refusal else "all tokens were used before an answer"


# --- a list to choose from -------------------------------------------------------------------------------------------


def _list(
    folder: RunFolder,
    where: PackPaths,
    language: str | None,
    outcome: str | None,
    rule: str | None,
    limit: int,
    *,
    as_json: bool,
) -> None:
    """Lists extractions of the current rules."""
    from mbbq_gen.cli.extract import outcomes_of
    from mbbq_gen.core.text import shortened
    from mbbq_gen.report.tables import DASH, text_table
    from mbbq_gen.runs.extraction import question_of
    from mbbq_gen.storage.queries import answered_extractions, iter_extractions

    current = read_before_use(folder, where)
    if language:
        wanted = all_of("language of the run", language, sorted(current))
        current = {code: version for code, version in current.items() if code in wanted}
    outcomes = outcomes_of(outcome)
    with folder.open_store(read_only=True) as store:
        found = [
            extraction
            for extraction in iter_extractions(store, current)
            if (not outcomes or extraction.outcome in outcomes) and (rule is None or extraction.rule == rule)
        ]
        rows = list(answered_extractions(store, found[:limit]))
    if as_json:
        listed = [{**extraction._asdict(), "response": answered.response.text} for extraction, answered in rows]
        print_json({"extractions": len(found), "listed": listed})
    else:
        total = len(found)
        shown = []
        for extraction, answered in rows:
            label = DASH if extraction.option is None else question_of(answered).labels[extraction.option]
            facts = (extraction.prompt_id, extraction.language, extraction.outcome, label, extraction.rule)
            shown.append((*facts, shortened(answered.response.text or "", _BEGINNING)))
        titles = ("id", "language", "outcome", "option", "rule", "response")
        show([text_table(titles, shown), f"{len(rows):,} of {total:,} extractions; more with --limit"])
