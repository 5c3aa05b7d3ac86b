"""Commands `extract` and `explain`, which extract answers from stored responses or any text."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from mbbq_gen.cli.command import PackCommand, argument, option
from mbbq_gen.cli.options import extract_missing
from mbbq_gen.cli.output import (
    echo,
    echo_json,
    open_lines,
    print_json,
    print_rows,
    result_console,
    say,
    show,
    write_lines,
)
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.progress import Bar
from mbbq_gen.core.records import Outcome
from mbbq_gen.core.text import all_of, one_of, shortened

if TYPE_CHECKING:
    from mbbq_gen.extraction import Question
    from mbbq_gen.runs.run_folder import RunFolder
    from mbbq_gen.storage.store import CompletedPrompt, RunStore


class Extract(PackCommand):
    """Extracts the chosen option from stored responses.

    Reads the responses of a run again, with the current language packs, or those of any JSON Lines file. Each line of
    --jsonl is printed with outcome, option (an index into its options, or null), confidence, rule and spans added.
    Extractions of a run are stored next to earlier ones; responses never change. A table shows what changed from the
    previous version of the rules, or from the rules to a simple extractor.
    """

    help_examples = (
        "  mbbq-gen extract my-run\n"
        "  mbbq-gen extract my-run --extractor first-label\n"
        "  mbbq-gen extract --jsonl answers.jsonl -o extracted.jsonl"
    )
    run_path: Path | None = argument("RUN", "Run folder.")
    jsonl: Path | None = option(
        "What to extract",
        "Instead of a run: JSON Lines with id, language, options, labels and response; - reads stdin.",
    )
    extractor: str = option(
        "Extraction", "Extractor: rules, strict-match, first-label, mbbq-like or answer-line.", default="rules"
    )
    output: Path | None = option("Files", "File for the lines of --jsonl. Default: stdout.", "--output", "-o")

    def _run(self) -> None:
        from mbbq_gen.extraction import extractor_names

        extractor = one_of("extractor", self.extractor, extractor_names())
        if (self.run_path is None) == (self.jsonl is None):
            raise UsageError("give a run folder or --jsonl FILE, one of them")
        if self.run_path is not None:
            if self.output is not None:
                raise UsageError("--output is for --jsonl; the extractions of a run are stored in the run")
            self._extract_run(self.run_path, extractor)
        else:
            self._extract_lines(extractor)

    def _extract_run(self, path: Path, extractor: str) -> None:
        """Extracts the answers of a run and shows the changes."""
        from mbbq_gen.report.run_tables import changes_table
        from mbbq_gen.runs.extraction import extract_run, previous_extraction
        from mbbq_gen.runs.run_folder import RunFolder
        from mbbq_gen.storage.queries import extraction_changes

        folder, resources, count = RunFolder(path).require(), self.resources, 0
        with Bar("reading", None, "answers") as bar, folder.locked(), folder.open_store() as store:

            def step(batch: int) -> None:
                nonlocal count
                count += batch
                bar.advance(batch)

            versions = extract_run(store, resources, step, extractor=extractor)
            last = {code: previous_extraction(store, code, version, resources) for code, version in versions.items()}
            previous = {code: version for code, version in last.items() if version is not None}
            changes = [
                change
                for code, old in previous.items()
                for change in extraction_changes(store, code, old, versions[code])
            ]
        compared = sum(change.count for change in changes)
        changed = sum(change.count for change in changes if change.is_change)
        moving = sum(change.count for change in changes if change.moves_scores)
        if self.as_json:
            facts = {"run": str(path), "extractor": extractor, "read": count, "extractors": versions}
            facts |= {"compared_with": previous, "compared": compared, "changed": changed, "moving_scores": moving}
            print_json({**facts, "outcomes": [change.model_dump() for change in changes]})
            return
        say(f"{count:,} responses extracted" if count else "all responses are already extracted with these packs")
        if previous:
            name = "the rules" if extractor != "rules" else "the previous version of the rules"
            echo(f"{changed:,} of {compared:,} extractions differ from {name}; {moving:,} change scores")
        if changed:
            show([changes_table(changes)])

    def _extract_lines(self, extractor: str) -> None:
        """Extracts the answers of a file and writes its lines with the extractions."""
        from mbbq_gen.extraction import has_pack
        from mbbq_gen.extraction.jsonl import extract_lines

        path, resources = self.jsonl or Path("-"), self.resources
        counts: Counter[str] = Counter()

        def extracted_lines() -> Iterator[str]:
            for row in extract_lines(open_lines(path), str(path), resources=resources, extractor=extractor):
                bar.advance()
                counts[row["language"]] += 1
                yield json.dumps(row, ensure_ascii=False)

        with Bar("reading", None, "answers") as bar:
            if self.output is not None:
                write_lines(self.output, extracted_lines())
            else:
                for line in extracted_lines():
                    echo_json(line)
        if not counts:
            say(f"{path}: no lines: nothing was extracted")
        without = [f"{code} ({count:,})" for code, count in sorted(counts.items()) if not has_pack(code, resources)]
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
    outcome: tuple[Outcome, ...] | None = option(
        "List", "Only these outcomes, comma-separated; unparsed: all that choose no option.", metavar="NAME,…"
    )
    limit: int = option("List", "Maximum extractions to list.", default=20, min=1)
    response: str | None = option("Your own response", "Response of a model; - reads stdin.", metavar="TEXT|-")
    language: str | None = option("Your own response", "Its language; in a list, only this one.", metavar="XX")
    options: str | None = option("Your own response", "Options as shown, separated by |.", metavar="TEXT|TEXT|…")
    unknown_index: int | None = option("Your own response", "Index of the unknown option, from 0.", min=0)

    def _run(self) -> None:
        from mbbq_gen.runs.run_folder import RunFolder

        if self.run_path is None:
            self._explain_text()
        elif self.response is not None or self.options is not None:
            raise UsageError("--response and --options: go with your own response; leave them, or the run, out")
        elif self.identifier is None:
            self._list(RunFolder(self.run_path).require())
        else:
            self._explain_answer(RunFolder(self.run_path).require(), self.identifier)

    def _explain_text(self) -> None:
        """Explains the user's own response."""
        from mbbq_gen.extraction import Question, load_extractor
        from mbbq_gen.report.explanation import print_explanation

        if self.language is None or self.response is None or self.options is None:
            raise UsageError('give a run, or your own response: --language en --options "…|…|…" --response "…"')
        texts = [text.strip() for text in self.options.split("|")]
        if not all(texts):
            raise UsageError("--options: one of them is empty; separate them by | and leave none out")
        given = sys.stdin.buffer.read() if self.response == "-" else self.response.encode(errors="surrogateescape")
        question = Question(texts, "ABCDEFGHIJ"[: len(texts)], self.unknown_index)
        found = load_extractor(self.language, self.resources).explain(given.decode(errors="replace"), question)
        if self.as_json:
            print_json(found.model_dump())
        else:
            _print_options(question)
            print_explanation(found, result_console())

    def _explain_answer(self, folder: RunFolder, identifier: str) -> None:
        """Explains a stored response, or shows its loglikelihoods."""
        from mbbq_gen.report import explanation as views
        from mbbq_gen.runs.extraction import explain_answer, question_of, scores_version
        from mbbq_gen.runs.reasoning import extract_reasoning, reasoning_text
        from mbbq_gen.storage.queries import stored_extractions

        console = result_console()
        with folder.open_store(read_only=True) as store:
            answered = _find_one(store, folder.path, identifier)
            prompt, response = answered.prompt, answered.response
            stored = stored_extractions(store, prompt.prompt_id)
            version = scores_version(store) or ""
            if response.scores is not None:
                response = response.model_copy(update={"scores": store.option_scores(response.request_key)})
        has_text, question = response.scores is None, question_of(answered)
        found = explain_answer(answered, self.resources) if has_text else None
        reasoning = reasoning_text(response, self.resources) if has_text else None
        conclusion = None if reasoning is None else extract_reasoning(answered, reasoning, self.resources)
        if self.as_json:
            fields: dict[str, Any] = {name: getattr(prompt, name) for name in ("prompt_id", "instance_key", "variant")}
            fields |= {name: getattr(question, name) for name in ("prompt", "options", "labels", "unknown_index")}
            fields |= {
                "response": response.model_dump(),
                "explanation": found and found.model_dump(),
                "stored_extractions": {name: extraction.model_dump() for name, extraction in stored.items()},
            }
            if has_text:
                trace = reasoning and {"text": reasoning.text, "extraction": conclusion and conclusion.model_dump()}
                fields["reasoning"] = trace
            print_json(fields)
            return
        instance = answered.instance
        console.print(f"{prompt.instance_key}, variant {prompt.variant}, {prompt.prompt_id}")
        console.print(instance.context, instance.question, sep="\n")
        options = [(index, instance.options[index].role or "person") for index in prompt.option_order]
        _print_options(question, [f"{role}, correct" if at == instance.gold_index else role for at, role in options])
        if response.scores is not None:
            option = stored[version].option if version in stored else None
            console.print(f"\n{prompt.method}: natural log-probabilities of {len(response.scores)} answers\n")
            views.print_likelihoods(response.scores, prompt.option_order, question.labels, option, console)
            console.print()
        elif found is None:
            why = response.error or response.refusal or f"finish reason {response.finish_reason}"
            console.print(f"\nno response to read: {shortened(why, 200)}")
        else:
            views.print_explanation(found, console)
        for name, extraction in stored.items():
            chosen = views.chosen_text(extraction.option, question.labels, question.options)
            console.print(f"stored    {name}: {extraction.outcome}, {chosen}, rule {extraction.rule}")
        if reasoning is not None and conclusion is not None:
            views.print_reasoning_trace(reasoning.text, conclusion, question.labels, question.options, console)

    def _list(self, folder: RunFolder) -> None:
        """Lists extractions of the current rules."""
        from mbbq_gen.runs.extraction import UNPARSED_OUTCOMES, question_of
        from mbbq_gen.storage.queries import find_completed, iter_extractions

        current = extract_missing(folder, self.resources)
        if self.language:
            codes = all_of("language of the run", self.language, sorted(current))
            current = {code: version for code, version in current.items() if code in codes}
        chosen = set(self.outcome or ())
        chosen |= set(UNPARSED_OUTCOMES) if "unparsed" in chosen else set()
        outcomes = [outcome for outcome in get_args(Outcome) if outcome in chosen]
        with folder.open_store(read_only=True) as store:
            found = [
                extraction
                for extraction in iter_extractions(store, current)
                if not outcomes or extraction.outcome in outcomes
            ]
            pairs = ((extraction, find_completed(store, extraction.prompt_id)) for extraction in found[: self.limit])
            rows = [(extraction, answered) for extraction, answered in pairs if answered is not None]
        if self.as_json:
            listed = [{**extraction._asdict(), "response": answered.response.text} for extraction, answered in rows]
            print_json({"extractions": len(found), "listed": listed})
            return
        table = []
        for extraction, answered in rows:
            label = None if extraction.option is None else question_of(answered).labels[extraction.option]
            facts = {"id": extraction.prompt_id, "language": extraction.language, "outcome": extraction.outcome}
            facts |= {"option": str(label or "–"), "rule": extraction.rule}
            table.append({**facts, "response": shortened(answered.response.text or "", 60)})
        print_rows(table)
        echo(f"\n{len(rows):,} of {len(found):,} extractions; more with --limit")


def _print_options(question: Question, notes: Sequence[str] = ()) -> None:
    from mbbq_gen.report.explanation import chosen_text

    for position in range(len(question.options)):
        note = f"   ({notes[position]})" if notes else ""
        result_console().print(f"  {chosen_text(position, question.labels, question.options)}{note}")


def _find_one(store: RunStore, path: Path, identifier: str) -> CompletedPrompt:
    """The completed prompt of an id, its beginning, or an instance key; UsageError for none or several."""
    from mbbq_gen.storage.queries import find_completed, find_prompts

    found = find_prompts(store, identifier)
    if not found:
        raise UsageError(f"{path}: nothing has the id or key {identifier!r}; see them with: mbbq-gen explain {path}")
    if len(found) > 1:
        names = ", ".join(f"{prompt_id} ({variant} [{','.join(order)}])" for prompt_id, variant, order in found[:5])
        more = ", …" if len(found) > 5 else ""
        raise UsageError(f"{path}: {identifier!r} means several prompts: {names}{more}; name one of them")
    answered = find_completed(store, found[0][0])
    if answered is None:
        raise UsageError(f"{path}: {found[0][0]} has no response yet; continue with: mbbq-gen run {path}")
    return answered
