"""`mbbq-gen explain`: the story of one reading, from a run or of any response."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mbbq_gen.cli.options import Json, Packs, example, print_json, resources, result_console
from mbbq_gen.errors import UsageError
from mbbq_gen.runs.names import all_of, words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mbbq_gen.extraction import Explanation, Question
    from mbbq_gen.records import Extraction, Response
    from mbbq_gen.resources import Resources
    from mbbq_gen.runs.folder import RunFolder
    from mbbq_gen.runs.lookup import Reading
    from mbbq_gen.runs.store import Answered, RunStore

_NAMED = 5
"""Presentations that an error names."""
_BEGINNING = 60
"""Characters of a response that a list shows."""


@example(
    "  mbbq-gen explain my-run --outcome no_answer\n"
    "  mbbq-gen explain my-run 3fa085e2\n"
    '  mbbq-gen explain --language en --options "The tailor|The baker|Unknown" --response "Not the tailor, B."'
)
def explain(
    run_path: Annotated[Path | None, typer.Argument(metavar="[RUN]", help="The run's folder.")] = None,
    identifier: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", help="A presentation's id or its beginning, or a question's key; none: a list."),
    ] = None,
    language: Annotated[
        str | None, typer.Option(help="Language of --response; for a list, only these languages.", metavar="XX")
    ] = None,
    options: Annotated[
        str | None, typer.Option(help="The options as shown, separated by |.", metavar="TEXT|TEXT|…")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(help="One option; give it once for each, in order.", metavar="TEXT")
    ] = None,
    labels: Annotated[str | None, typer.Option(help="Their labels; none: A,B,C…", metavar="A,B,…")] = None,
    unknown_index: Annotated[
        int | None, typer.Option(min=0, help="Place of the unknown option, counted from 0, if there is one.")
    ] = None,
    response: Annotated[str | None, typer.Option(help="What the model wrote; - reads stdin.", metavar="TEXT|-")] = None,
    prompt: Annotated[str | None, typer.Option(help="What was sent, so that an echo is known.", metavar="TEXT")] = None,
    outcome: Annotated[str | None, typer.Option(help="List only these outcomes, or undetected.", metavar="…")] = None,
    rule: Annotated[str | None, typer.Option(help="List only what this rule decided.", metavar="NAME")] = None,
    limit: Annotated[int, typer.Option(min=1, help="List at most so many.")] = 20,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Shows how a response was read: every candidate marked, the rule and pack line that won, why the others lost.

    With RUN and ID, an answer of that run, read with the packs of today. With RUN alone, a list of its readings, to
    choose from. With --language, --options and --response, any response at all.
    """
    where = resources(packs)
    if run_path is None:
        texts = _option_texts(options, option)
        _explain_response(language, texts, labels, unknown_index, response, prompt, where, as_json=as_json)
        return
    wrong = {"--options": options, "--option": option, "--labels": labels, "--response": response, "--prompt": prompt}
    for name, value in wrong.items():
        if value is not None:
            raise UsageError(f"{name} goes with a response of your own; leave out the run, or leave out {name}")
    from mbbq_gen.runs.folder import RunFolder

    folder = RunFolder(run_path)
    folder.require()
    if identifier is None:
        _list(folder, where, language, outcome, rule, limit, as_json=as_json)
    else:
        _explain_answer(folder, identifier, where, as_json=as_json)


# --- any response ----------------------------------------------------------------------------------------------------


def _option_texts(options: str | None, option: Sequence[str] | None) -> list[str]:
    """The options, given in either way."""
    if options is not None and option:
        raise UsageError("give the options by --options or by --option, not by both")
    found = [text.strip() for text in options.split("|")] if options is not None else [*(option or ())]
    if not found:
        raise UsageError('give a run, or a response of your own: --language en --options "…|…|…" --response "…"')
    if not all(found):
        raise UsageError("--options: one of them is empty; separate them by | and leave none out")
    return found


def _explain_response(
    language: str | None,
    options: list[str],
    labels: str | None,
    unknown_index: int | None,
    response: str | None,
    prompt: str | None,
    where: Resources,
    *,
    as_json: bool,
) -> None:
    from mbbq_gen.extraction import Question, load_extractor

    if language is None or response is None:
        raise UsageError(f"--{'language' if language is None else 'response'}: missing; any response needs it")
    if not 2 <= len(options) <= 10:
        raise UsageError(f"--options: {len(options)} of them; 2 to 10 can be read")
    shown = words(labels) if labels else [chr(ord("A") + place) for place in range(len(options))]
    text = _decoded(sys.stdin.buffer.read()) if response == "-" else _decoded(response.encode(errors="surrogateescape"))
    question = Question(options, shown, unknown_index, prompt)
    told = load_extractor(language, where).explain(text, question, resources=where)
    if as_json:
        print_json(told.model_dump())
    else:
        _print_options(told.options, told.labels)
        _print(told)


def _decoded(raw: bytes) -> str:
    """The text of bytes that should be UTF-8; what is not is replaced, for models write what they like."""
    return raw.decode("utf-8", errors="replace")


def _print(told: Explanation) -> None:
    from mbbq_gen.report.explanation import print_explanation

    print_explanation(told, result_console())


def _print_options(options: Sequence[str], labels: Sequence[str], notes: Sequence[str] = ()) -> None:
    from mbbq_gen.report.explanation import chosen_text

    for place in range(len(options)):
        note = f"   ({notes[place]})" if notes else ""
        result_console().print(f"  {chosen_text(place, labels, options)}{note}")


# --- an answer of a run ----------------------------------------------------------------------------------------------


def _explain_answer(folder: RunFolder, identifier: str, where: Resources, *, as_json: bool) -> None:
    from mbbq_gen.runs.lookup import stored_readings
    from mbbq_gen.runs.reading import explain_answer, question_of
    from mbbq_gen.runs.thoughts import read_thought, thought_of

    with folder.open_store(read_only=True) as store:
        answered = find_one(store, folder.path, identifier)
        stored = stored_readings(store, answered.presentation.presentation_id)
        if answered.response.scores is not None:
            _explain_likelihoods(answered, stored, store, as_json=as_json)
            return
    question, told = question_of(answered), explain_answer(answered, where)
    thought = thought_of(answered.response, where)
    if as_json:
        read = None if thought is None else read_thought(answered, thought, where).model_dump()
        lean = None if thought is None else {"text": thought.text, "reading": read}
        print_json({**_answer_json(answered, question, stored, told), "thought": lean})
        return
    _print_answer(answered, question, stored, told)
    if thought is not None:
        from mbbq_gen.report.explanation import print_thought

        reading = read_thought(answered, thought, where)
        print_thought(thought.text, reading, question.labels, question.options, result_console())


def find_one(store: RunStore, path: Path, identifier: str) -> Answered:
    """The one answered presentation that an id, the beginning of an id, or a question's key means.

    Raises:
        UsageError: where there is none, or several, or no answer yet.
    """
    from mbbq_gen.runs.lookup import find_answered, find_presentations

    found = find_presentations(store, identifier)
    if not found:
        raise UsageError(f"{path}: nothing has the id or key {identifier!r}; see them with: mbbq-gen explain {path}")
    if len(found) > 1:
        named = ", ".join(f"{shown.presentation_id} ({shown.variant} {shown.order})" for shown in found[:_NAMED])
        more = ", …" if len(found) > _NAMED else ""
        raise UsageError(f"{path}: {identifier!r} means several presentations: {named}{more}; name one of them")
    answered = find_answered(store, found[0].presentation_id)
    if answered is None:
        raise UsageError(f"{path}: {found[0].presentation_id} has no answer yet; go on with: mbbq-gen run {path}")
    return answered


def _answer_json(
    answered: Answered, question: Question, stored: dict[str, Extraction], told: Explanation | None
) -> dict[str, Any]:
    presentation = answered.presentation
    return {
        "presentation_id": presentation.presentation_id,
        "instance_key": presentation.instance_key,
        "variant": presentation.variant,
        "prompt": question.prompt,
        "options": list(question.options),
        "labels": list(question.labels),
        "unknown_index": question.unknown_index,
        "response": answered.response.model_dump(),
        "explanation": told.model_dump() if told else None,
        "stored_readings": {version: found.model_dump() for version, found in stored.items()},
    }


def _print_answer(
    answered: Answered, question: Question, stored: dict[str, Extraction], told: Explanation | None
) -> None:
    from mbbq_gen.report.plain_text import shortened

    console = result_console()
    _print_question(answered, question)
    if told is None:
        console.print(f"\nno response to read: {shortened(_why_unread(answered.response), 200)}")
    else:
        _print(told)
    _print_stored(question, stored)


def _print_question(answered: Answered, question: Question) -> None:
    """What was asked, and the options with their roles."""
    from mbbq_gen.report.plain_text import visible

    console, presentation, instance = result_console(), answered.presentation, answered.instance
    console.print(f"{presentation.instance_key}, wording {presentation.variant}, {presentation.presentation_id}")
    console.print(visible(instance.context), visible(instance.question), sep="\n")
    roles = [instance.options[place].role or "person" for place in presentation.order]
    notes = [
        role + (", right" if presentation.order[n] == instance.answer_index else "") for n, role in enumerate(roles)
    ]
    _print_options(question.options, question.labels, notes)


def _print_stored(question: Question, stored: Mapping[str, Extraction]) -> None:
    """What was read in the answer, by each version that did."""
    from mbbq_gen.report.explanation import chosen_text

    for version, found in stored.items():
        chosen = chosen_text(found.option, question.labels, question.options)
        result_console().print(f"stored    {version}: {found.outcome}, {chosen}, rule {found.rule}")


def _explain_likelihoods(answered: Answered, stored: dict[str, Extraction], store: RunStore, *, as_json: bool) -> None:
    """How likely each answer was, and which option the run's own normalisation chose."""
    from mbbq_gen.report.likelihood_table import print_likelihoods
    from mbbq_gen.runs.reading import question_of, scores_version

    shown, question = answered.presentation, question_of(answered)
    scores = store.option_scores(answered.response.request_key)
    if as_json:
        response = answered.response.model_copy(update={"scores": scores})
        print_json(_answer_json(replace(answered, response=response), question, stored, None))
        return
    reading = stored.get(scores_version(store) or "")
    _print_question(answered, question)
    console = result_console()
    console.print(f"\nasked by {shown.method}: natural log-probabilities of {len(scores)} answers\n")
    print_likelihoods(scores, shown.order, question.labels, reading.option if reading else None, console)
    console.print()
    _print_stored(question, stored)


def _why_unread(response: Response) -> str:
    """What the service says in place of a text."""
    if response.error is not None:
        return response.error
    if response.finish_reason == "content_filter":
        return "the answer was blocked by the service"
    return f"the model declined: {response.refusal}" if response.refusal else "all tokens were spent before an answer"


# --- a list to choose from -------------------------------------------------------------------------------------------


def _list(
    folder: RunFolder,
    where: Resources,
    language: str | None,
    outcome: str | None,
    rule: str | None,
    limit: int,
    *,
    as_json: bool,
) -> None:
    """Lists readings of the engine as it is now."""
    from mbbq_gen.cli.extract import outcomes_of
    from mbbq_gen.cli.loading import read_before_use
    from mbbq_gen.runs.lookup import answered_readings, readings

    current = read_before_use(folder, where)
    if language:
        wanted = all_of("language of the run", language, sorted(current))
        current = {code: version for code, version in current.items() if code in wanted}
    outcomes = outcomes_of(outcome)
    with folder.open_store(read_only=True) as store:
        found = [
            reading
            for reading in readings(store, current)
            if (not outcomes or reading.outcome in outcomes) and (rule is None or reading.rule == rule)
        ]
        rows = list(answered_readings(store, found[:limit]))
    if as_json:
        listed = [{**reading._asdict(), "response": answered.response.text} for reading, answered in rows]
        print_json({"readings": len(found), "listed": listed})
    else:
        _print_list(rows, len(found))


def _print_list(rows: Sequence[tuple[Reading, Answered]], total: int) -> None:
    from mbbq_gen.report.plain_text import shortened
    from mbbq_gen.report.statistics_tables import plain_table
    from mbbq_gen.report.tables import DASH
    from mbbq_gen.runs.reading import question_of

    table = plain_table(("id", "language", "outcome", "option", "rule", "response"))
    for reading, answered in rows:
        label = DASH if reading.option is None else question_of(answered).labels[reading.option]
        facts = (reading.presentation_id, reading.language, reading.outcome, label, reading.rule)
        table.add_row(*facts, shortened(answered.response.text or "", _BEGINNING))
    console = result_console()
    console.print(table)
    console.print(f"{len(rows):,} of {total:,} readings; more with --limit")
