"""Commands `extract` and `explain`: read answers from stored responses or any text; never call a model."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from mbbq_gen.cli.command import PackCommand, argument, option
from mbbq_gen.cli.options import RunLanguages, WorkerOptions
from mbbq_gen.cli.output import echo, echo_json, open_lines, print_json, result_console, say, show, write_lines
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.progress import Bar
from mbbq_gen.core.records import Extraction, Outcome, Response
from mbbq_gen.core.text import all_of, one_of, shortened, words

if TYPE_CHECKING:
    from mbbq_gen.extraction import Explanation, Question
    from mbbq_gen.runs.distributed.cluster import MapWorkers
    from mbbq_gen.runs.run_folder import RunFolder
    from mbbq_gen.storage.store import CompletedPrompt, RunStore

_NAMED = 5
"""Prompts that an error names."""
_BEGINNING = 60
"""Characters of a response shown in a list."""


class Extract(PackCommand):
    """Extracts the chosen option from stored responses.

    Reads the responses of a run again, with the current language packs, or those of any JSON Lines file. Each line of
    --jsonl is printed with outcome, option (an index into its options, or null), confidence, rule and spans added.
    Extractions of a run are stored next to earlier ones; responses never change. A table shows what changed from the
    previous version of the rules, or from the rules to a simple extractor.
    """

    help_examples = (
        "  mbbq-gen extract my-run --only unparsed --languages nl,tr\n"
        "  mbbq-gen extract my-run --extractor first-label\n"
        "  mbbq-gen extract my-run --ray local --workers 8\n"
        "  mbbq-gen extract --jsonl answers.jsonl -o extracted.jsonl"
    )
    run_path: Path | None = argument("RUN", "Run folder.")
    jsonl: Path | None = option(
        "What to extract",
        "Instead of a run: JSON Lines with id, language, options, labels and response; - reads stdin.",
        metavar="FILE",
    )
    only: str | None = option(
        "What to extract",
        "Only responses of the run with these outcomes so far, comma-separated: option, abstention, refusal, "
        "multiple, truncated, empty, or unparsed (all that choose no option). Default: all.",
        metavar="NAME,…",
    )
    languages: RunLanguages = None
    extractor: str = option(
        "Extraction",
        "Extractor: rules, or a simple one: strict-match, first-label, mbbq-like, answer-line.",
        default="rules",
    )
    strict_languages: bool = option(
        "Extraction", "With --jsonl: a language without a pack is an error, not a warning.", default=False
    )
    output: Path | None = option(
        "Files", "File for the lines of --jsonl. Default: stdout.", "--output", "-o", metavar="FILE"
    )
    helping: WorkerOptions

    def _run(self) -> None:
        from mbbq_gen.extraction.jsonl import extractor_names

        helpers, extractor = self.helping.helpers(), one_of("extractor", self.extractor, extractor_names())
        if (self.run_path is None) == (self.jsonl is None):
            raise UsageError("give a run folder or --jsonl FILE, one of them")
        if self.run_path is None:
            if self.only is not None or self.languages is not None:
                raise UsageError("--only and --languages select responses of a run; with --jsonl, select the lines")
            if helpers is not None:
                raise UsageError("--ray: --jsonl is extracted in this process; split the file, or leave --ray out")
            self._extract_lines(extractor)
            return
        if self.output is not None:
            raise UsageError("--output is for --jsonl; the extractions of a run are stored in the run")
        self._extract_run(self.run_path, extractor, helpers)

    def _extract_run(self, path: Path, extractor: str, helpers: MapWorkers | None) -> None:
        """Extracts the answers of a run, and shows what changes."""
        from mbbq_gen.report.run_tables import changes_table
        from mbbq_gen.runs.extraction import extract_run, previous_extraction
        from mbbq_gen.runs.run_folder import RunFolder
        from mbbq_gen.storage.queries import extraction_changes

        folder, where, only, count = RunFolder(path).require(), self.where, _outcomes_of(self.only), 0
        with Bar("reading", None, "answers") as bar, folder.locked(), folder.open_store() as store:

            def step(batch: int) -> None:
                nonlocal count
                count += batch
                bar.advance(batch)

            languages = store.languages()
            if self.languages and words(self.languages):
                languages = all_of("language of the run", self.languages, languages)
            versions = extract_run(
                store, where, step, extractor=extractor, languages=languages, only=only, helpers=helpers
            )
            found = {code: previous_extraction(store, code, version, where) for code, version in versions.items()}
            before = {code: version for code, version in found.items() if version is not None}
            changes = [
                change
                for code, old in before.items()
                for change in extraction_changes(store, code, old, versions[code], only or None)
            ]
        compared = sum(change.count for change in changes)
        changed = sum(change.count for change in changes if change.is_change)
        moving = sum(change.count for change in changes if change.moves_scores)
        if self.as_json:
            print_json(
                {
                    "run": str(path),
                    "extractor": extractor,
                    "read": count,
                    "extractors": versions,
                    "compared_with": before,
                    "compared": compared,
                    "changed": changed,
                    "moving_scores": moving,
                    "outcomes": [change.model_dump() for change in changes],
                }
            )
            return
        say(f"{count:,} responses extracted" if count else "all responses are already extracted with these packs")
        if before:
            which = "the rules" if extractor != "rules" else "the previous version of the rules"
            echo(f"{changed:,} of {compared:,} extractions differ from {which}; {moving:,} change scores")
        if changed:
            show([changes_table(changes)])

    def _extract_lines(self, extractor: str) -> None:
        """Extracts the answers of a file and writes its lines with them."""
        from mbbq_gen.extraction.jsonl import extract_lines

        path, where = self.jsonl or Path("-"), self.where
        with Bar("reading", None, "answers") as bar:
            rows = extract_lines(
                *(open_lines(path), str(path)),
                resources=where,
                extractor=extractor,
                strict_languages=self.strict_languages,
            )
            lines = _written(rows, path, bar, where)
            if self.output is not None:
                write_lines(self.output, lines)
                return
            for line in lines:
                echo_json(line)


def _outcomes_of(only: str | None) -> list[Outcome]:
    """The outcomes of a list, where `unparsed` means all that choose no option."""
    from mbbq_gen.runs.extraction import UNPARSED

    if only is None:
        return []
    known: list[Outcome] = list(get_args(Outcome))
    named = all_of("outcome", only, [*known, "unparsed"])
    chosen = {*named, *(UNPARSED if "unparsed" in named else ())}
    return [outcome for outcome in known if outcome in chosen]


def _written(lines: Iterable[dict[str, Any]], path: Path, bar: Bar, where: PackPaths) -> Iterator[str]:
    """The lines as JSON; reports at the end languages without a pack, or that there were no lines."""
    from mbbq_gen.extraction import has_pack

    counts: Counter[str] = Counter()
    for line in lines:
        bar.advance()
        counts[line["language"]] += 1
        yield json.dumps(line, ensure_ascii=False)
    if not counts:
        say(f"{path}: no lines: nothing was extracted")
    without = [f"{language} ({count:,})" for language, count in sorted(counts.items()) if not has_pack(language, where)]
    if without:
        say(
            f"warning: no pack for {', '.join(without)}: extracted by labels, option texts and structures only; "
            "`mbbq-gen language new` adds one"
        )


class Explain(PackCommand):
    """Shows how a response was extracted.

    Shows all candidates, the rule and pack line that won, and why the others lost. With RUN and ID: a response of
    that run, extracted with the current packs. With RUN only: a list of its extractions. With --language, --options
    and --response: any response.
    """

    help_examples = (
        "  mbbq-gen explain my-run --outcome unparsed\n"
        "  mbbq-gen explain my-run 3fa085e2\n"
        '  mbbq-gen explain --language en --options "The tailor|The baker|Unknown" --response "Not the tailor, B."'
    )
    run_path: Path | None = argument("RUN", "Run folder.")
    identifier: str | None = argument("ID", "Prompt id (or its beginning) or instance key. Default: a list.")
    outcome: str | None = option(
        "List", "Only these outcomes, comma-separated; unparsed: all that choose no option.", metavar="NAME,…"
    )
    rule: str | None = option("List", "Only extractions by this rule.")
    limit: int = option("List", "Maximum extractions to list.", default=20, min=1)
    response: str | None = option("Your own response", "Response of a model; - reads stdin.", metavar="TEXT|-")
    language: str | None = option(
        "Your own response", "Its language; in a list, only this language of the run.", metavar="XX"
    )
    options: str | None = option("Your own response", "Options as shown, separated by |.", metavar="TEXT|TEXT|…")
    labels: str | None = option("Your own response", "Labels of the options. Default: A,B,C,…", metavar="A,B,…")
    unknown_index: int | None = option(
        "Your own response", "Index of the unknown option, from 0. Default: there is none.", min=0
    )
    prompt: str | None = option("Your own response", "Prompt as sent, to recognise echoes.", metavar="TEXT")

    def _run(self) -> None:
        from mbbq_gen.runs.run_folder import RunFolder

        if self.run_path is None:
            self._explain_text()
            return
        wrong = {
            "--options": self.options,
            "--labels": self.labels,
            "--response": self.response,
            "--prompt": self.prompt,
        }
        for name, value in wrong.items():
            if value is not None:
                raise UsageError(f"{name} goes with your own --response; leave out the run, or leave out {name}")
        folder = RunFolder(self.run_path).require()
        if self.identifier is None:
            self._list(folder)
        else:
            self._explain_answer(folder, self.identifier)

    def _explain_text(self) -> None:
        """Explains the user's own response."""
        from mbbq_gen.extraction import Question, load_extractor
        from mbbq_gen.report.explanation import print_explanation

        where, language, response = self.where, self.language, self.response
        texts = [text.strip() for text in self.options.split("|")] if self.options is not None else []
        if not texts:
            raise UsageError('give a run, or your own response: --language en --options "…|…|…" --response "…"')
        if not all(texts):
            raise UsageError("--options: one of them is empty; separate them by | and leave none out")
        if language is None or response is None:
            missing, others = ("language", "response") if language is None else ("response", "language")
            raise UsageError(f"--{missing}: missing; give it together with --{others} and --options")
        if not 2 <= len(texts) <= 10:
            raise UsageError(f"--options: {len(texts)} of them; 2 to 10 are possible")
        labels = words(self.labels) if self.labels else [chr(ord("A") + place) for place in range(len(texts))]
        given = sys.stdin.buffer.read() if response == "-" else response.encode(errors="surrogateescape")
        question = Question(texts, labels, self.unknown_index, self.prompt)
        found = load_extractor(language, where).explain(given.decode(errors="replace"), question)
        if self.as_json:
            print_json(found.model_dump())
        else:
            _print_options(found.options, found.labels)
            print_explanation(found, result_console())

    def _explain_answer(self, folder: RunFolder, identifier: str) -> None:
        """Explains a stored response."""
        from mbbq_gen.report.explanation import print_explanation, print_reasoning_trace
        from mbbq_gen.runs.extraction import explain_answer, question_of
        from mbbq_gen.runs.reasoning import extract_reasoning, reasoning_text
        from mbbq_gen.storage.queries import stored_extractions

        where, console = self.where, result_console()
        with folder.open_store(read_only=True) as store:
            answered = _find_one(store, folder.path, identifier)
            stored = stored_extractions(store, answered.prompt.prompt_id)
            if answered.response.scores is not None:
                _explain_likelihoods(answered, stored, store, as_json=self.as_json)
                return
        question, found = question_of(answered), explain_answer(answered, where)
        reasoning = reasoning_text(answered.response, where)
        extraction = None if reasoning is None else extract_reasoning(answered, reasoning, where)
        if self.as_json:
            read = extraction and extraction.model_dump()
            trace = None if reasoning is None else {"text": reasoning.text, "extraction": read}
            print_json({**_answer_json(answered, question, stored, found), "reasoning": trace})
            return
        _print_question(answered, question)
        if found is None:
            console.print(f"\nno response to read: {shortened(_why_unparsed(answered.response), 200)}")
        else:
            print_explanation(found, console)
        _print_stored(question, stored)
        if reasoning is not None and extraction is not None:
            print_reasoning_trace(reasoning.text, extraction, question.labels, question.options, console)

    def _list(self, folder: RunFolder) -> None:
        """Lists extractions of the current rules."""
        from mbbq_gen.cli.loading import extracted
        from mbbq_gen.report.tables import DASH, text_table
        from mbbq_gen.runs.extraction import question_of
        from mbbq_gen.storage.queries import answered_extractions, iter_extractions

        current = extracted(folder, self.where)
        if self.language:
            wanted = all_of("language of the run", self.language, sorted(current))
            current = {code: version for code, version in current.items() if code in wanted}
        outcomes = _outcomes_of(self.outcome)
        with folder.open_store(read_only=True) as store:
            found = [
                extraction
                for extraction in iter_extractions(store, current)
                if (not outcomes or extraction.outcome in outcomes) and self.rule in (None, extraction.rule)
            ]
            rows = list(answered_extractions(store, found[: self.limit]))
        if self.as_json:
            listed = [{**extraction._asdict(), "response": answered.response.text} for extraction, answered in rows]
            print_json({"extractions": len(found), "listed": listed})
            return
        shown = []
        for extraction, answered in rows:
            label = DASH if extraction.option is None else question_of(answered).labels[extraction.option]
            facts = (extraction.prompt_id, extraction.language, extraction.outcome, label, extraction.rule)
            shown.append((*facts, shortened(answered.response.text or "", _BEGINNING)))
        titles = ("id", "language", "outcome", "option", "rule", "response")
        show([text_table(titles, shown), f"{len(rows):,} of {len(found):,} extractions; more with --limit"])


def _print_options(options: Sequence[str], labels: Sequence[str], notes: Sequence[str] = ()) -> None:
    from mbbq_gen.report.explanation import chosen_text

    for place in range(len(options)):
        note = f"   ({notes[place]})" if notes else ""
        result_console().print(f"  {chosen_text(place, labels, options)}{note}")


def _find_one(store: RunStore, path: Path, identifier: str) -> CompletedPrompt:
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
