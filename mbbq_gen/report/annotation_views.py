"""Annotation sheets, and reports of annotations and of judges.

A sheet is a CSV file of extractions and their responses. A filled one needs the columns `id` and `verdict` (agree or
disagree; then with `right`: the number of the correct option as shown, from 1; 0 for none). Optional columns are `note`
and `extractor` (name of the annotated extractor). Cells that would be formulas in a spreadsheet begin with an
apostrophe.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mbbq_gen.annotation.review import Annotation
from mbbq_gen.core.errors import DataError
from mbbq_gen.core.records import Extraction
from mbbq_gen.core.tables import table_rows
from mbbq_gen.core.text import shortened, whole_percent
from mbbq_gen.extraction import Question
from mbbq_gen.report.run_tables import dollars, price_lines
from mbbq_gen.report.tables import OUTCOME_TITLES, Block, Table, Unwrapped, percent
from mbbq_gen.report.viewer import ExcerptLengths, pieces
from mbbq_gen.runs.extraction import question_of
from mbbq_gen.storage.queries import ExtractionRow
from mbbq_gen.storage.store import CompletedPrompt

if TYPE_CHECKING:
    from mbbq_gen.annotation.judge_report import Basis, JudgeReport
    from mbbq_gen.annotation.judge_runner import JudgeEstimate
    from mbbq_gen.annotation.review import AnnotationReport, Mistake
    from mbbq_gen.core.records import Outcome

_LENGTHS = ExcerptLengths(head=4000, tail=12_000, around=200)
"""For responses; extractors do not read more, and a spreadsheet's cell has a limit."""
_AGREES = {"agree": True, "yes": True, "y": True, "disagree": False, "no": False, "n": False}
"""Accepted values of `verdict`."""
_NONE_WORDS = frozenset({"0", "none", "-"})


@dataclass(frozen=True)
class SheetEntry:
    """One extraction on a sheet."""

    stored: ExtractionRow
    answered: CompletedPrompt
    extraction: Extraction

    @property
    def question(self) -> Question:
        """The question in the form of the prompt."""
        return question_of(self.answered)


@dataclass(frozen=True)
class SheetRow:
    """The annotation in a row of a sheet."""

    where: str
    """File and row, for messages."""
    prompt_id: str
    extractor: str | None
    agrees: bool | None
    right: str
    """As written; empty if there is nothing."""
    note: str


def csv_sheet(entries: Sequence[SheetEntry], annotations: Mapping[str, Annotation]) -> str:
    """The sheet as CSV, with previous annotations filled in."""
    n_options = max((len(entry.question.options) for entry in entries), default=3)
    titles = ["id", "language", "context", "question", *(f"option_{place}" for place in range(1, n_options + 1))]
    titles += ["response", "read_as", "outcome", "rule", "confidence", "verdict", "right", "note", "extractor"]
    table = Table(*titles)
    for entry in entries:
        stored, instance, annotation = entry.stored, entry.answered.instance, annotations.get(entry.stored.prompt_id)
        previous = ("", "", "")
        if annotation is not None:
            right = _option_number(annotation.right)
            previous = ("agree" if annotation.agrees else "disagree", right, annotation.note)
        question = entry.question
        options = [f"{label}: {text}" for label, text in zip(question.labels, question.options, strict=True)]
        options += [""] * (n_options - len(options))
        text = entry.answered.response.text or entry.answered.response.refusal or ""
        response = "".join(part for part, _ in pieces(text, entry.extraction.spans, _LENGTHS))
        extraction = (_option_number(stored.option), stored.outcome, stored.rule, stored.confidence)
        start = (stored.prompt_id, stored.language, instance.context, instance.question)
        table.add_row(*start, *options, response, *extraction, *previous, stored.extractor)
    return table.csv("\r\n")


def _option_number(option: int | None) -> str:
    """The number of an option, from 1; 0 for none."""
    return "0" if option is None else str(option + 1)


def read_sheet(path: Path) -> Iterator[SheetRow]:
    """The annotated rows of a filled sheet, a CSV file.

    Raises:
        UsageError: if there is no such file.
        DataError: if a row is invalid; its text has file, row, field and a remedy.
    """
    for number, row in table_rows(path, required=("id", "verdict")):
        cells = {key: str(value or "").strip().removeprefix("'") for key, value in row.items()}
        where, word, right = f"{path}:{number}", cells["verdict"].casefold(), cells.get("right", "")
        if word and word not in _AGREES:
            raise DataError(f"{where}: verdict: {cells['verdict']!r}; write agree or disagree, or leave it empty")
        if word or right:
            extractor = cells.get("extractor") or None
            yield SheetRow(where, cells["id"], extractor, _AGREES.get(word), right, cells.get("note", ""))


def right_option(row: SheetRow, question: Question) -> int | None:
    """The index of the option annotated as correct, by its number from 1 or its label; None if there is none.

    Raises:
        DataError: if it is not an option of the question.
    """
    text = row.right.casefold()
    if text in _NONE_WORDS:
        return None
    if text.isdecimal() and 1 <= int(text) <= len(question.options):
        return int(text) - 1
    labels = [label.casefold().strip("()") for label in question.labels]
    if text.strip("()") in labels:
        return labels.index(text.strip("()"))
    count = len(question.options)
    raise DataError(f"{row.where}: right: {row.right!r}; write the option's number, 1 to {count}, or 0 for no answer")


# --- reports ----------------------------------------------------------------------------------------------------------

_MISTAKE_TITLES: dict[Mistake, str] = {
    "wrong_option": "another option is correct",
    "spurious": "an option extracted where there is none",
    "missed": "an option that was not extracted",
}
_MAX_LISTED = 40
_BASES: dict[Basis, str] = {
    "all": "of all answers of the run that have a text",
    "sample": "of a random sample within each language: representative of the run",
    "only": "of answers selected by their extraction: NOT representative of the run",
    "nothing": "of no answers: there is no reply yet",
}


def annotation_blocks(report: AnnotationReport) -> Iterator[Block]:
    """The share of correct extractions by language, and the wrong ones."""
    titles = ("annotated", "correct", "correct, of those annotated", "correct, in the run")
    shares = Table("language", "extractions", *titles)
    for rate in (*report.by_language, report.overall):
        n_correct = round((rate.judged.value or 0.0) * rate.judged.n)
        parts = (percent(rate.judged), percent(rate.weighted))
        shares.add_row(rate.group, rate.n_extractions, rate.judged.n, n_correct, *parts)
    yield shares
    covered = ""
    if report.coverage is not None:
        covered = f"; annotated strata hold {whole_percent(report.coverage)} of the run's extractions"
    yield (
        "\ncorrect: the extraction is what the response chooses. in the run: each annotation is weighted by the "
        f"extractions of its stratum ({', '.join(report.by) or 'one stratum'}) that it stands for{covered}. Intervals: "
        f"Wilson, {report.confidence_level:.0%}, on the effective number of annotations."
    )
    if not report.disagreements:
        return
    counts = [f"{_MISTAKE_TITLES[kind]}: {count}" for kind, count in report.mistakes.items() if count]
    title = f"extractions annotated as wrong ({'; '.join(counts)})"
    wrong = Table("id", "language", "extracted", "rule", "correct", "note", title=title)
    for one in report.disagreements[:_MAX_LISTED]:
        right = "no option" if one.right is None else f"option {one.right + 1}"
        extracted = (_extraction_text(one.outcome, one.option), one.rule)
        wrong.add_row(one.prompt_id, one.language, *extracted, right, shortened(one.note, 60))
    yield wrong
    yield from _and_more(report.disagreements)


def _and_more(found: Sequence[object]) -> Iterator[str]:
    if len(found) > _MAX_LISTED:
        yield f"and {len(found) - _MAX_LISTED:,} more; --json has them all"


def judge_estimate_blocks(found: JudgeEstimate) -> Iterator[Block]:
    """Requests, tokens and cost of a judge."""
    tokens = found.tokens
    yield f"{found.model}" + (f" at {found.base_url}" if found.base_url else "") + f", judge {found.judge!r}"
    yield f"prompt      version {found.prompt_version} (sha256 {found.prompt_sha256[:12]})"
    done = f", {found.answered:,} more have a reply already" if found.answered else ""
    yield f"{tokens.prompts:,} answers to judge, {tokens.requests:,} different requests{done}"
    yield from price_lines(tokens, found.cost, found.hours)
    rows = ((one.language, one.requests, one.input_tokens, one.output_tokens) for one in tokens.groups)
    yield from ("", Table("language", "requests", "tokens in", "tokens out", rows=rows), "")
    yield from found.notes


def judge_report_blocks(report: JudgeReport) -> Iterator[Block]:
    """Agreement, accuracy by annotations, and the disagreements with their ids."""
    prompt = f"prompt version {report.prompt_version} (sha256 {report.prompt_sha256[:12]})"
    yield f"judge {report.judge!r}: {report.model}, {prompt}"
    failed = f", {report.failed:,} failed" if report.failed else ""
    cost = "" if report.cost is None else f", {dollars(report.cost)}"
    yield f"{report.answered:,} of {report.requests:,} requests answered{failed}{cost}"
    if unparsed := sum(report.faults.values()):
        why = ", ".join(f"{fault.replace('_', ' ')} {count:,}" for fault, count in report.faults.items())
        yield f"{unparsed:,} of {report.answers:,} answers unparsed by the judge ({why})"
    title = f"agreement with the rules, {_BASES[report.basis]}"
    agreement = Table("language", "answers", "unparsed", "same choice", "kappa", "templates", title=title)
    for row in report.agreement:
        found = row.equal_share
        shown = percent(found) if found.ci_low is not None or found.value is None else f"{found.value:.1%}"
        agreement.add_row(row.group, row.n, row.unparsed, shown, row.kappa, row.kappa.n_templates)
    yield agreement
    if report.annotated:
        title = "accuracy by annotations (mbbq-gen annotate), on the answers that both have"
        rows = ((one.group, one.judge.n, percent(one.judge), percent(one.rules)) for one in report.annotated)
        yield Table("language", "annotated", "judge correct", "rules correct", rows=rows, title=title)
    else:
        yield Unwrapped(f"\nno annotations to evaluate this judge with yet: mbbq-gen annotate {report.run}")
    if report.differences:
        count = len(report.differences)
        yield Unwrapped(f"\ndisagreements: {count:,}; see one with: mbbq-gen explain {report.run} ID\n")
        differing = Table("id", "language", "rules", "confidence", "rule", "judge")
        for one in report.differences[:_MAX_LISTED]:
            extracted = (_extraction_text(one.outcome, one.option), one.confidence, one.rule)
            judged = _extraction_text(one.judge_outcome, one.judge_option)
            differing.add_row(one.prompt_id, one.language, *extracted, judged)
        yield differing
        yield from _and_more(report.differences)
    yield Unwrapped(
        f"\nThe rules' extractions are unchanged. The judge's are {report.extractor!r}:"
        f" mbbq-gen score {report.run} --extractor {report.extractor}"
    )


def _extraction_text(outcome: Outcome, option: int | None) -> str:
    return OUTCOME_TITLES[outcome] + ("" if option is None else f" {option + 1}")
