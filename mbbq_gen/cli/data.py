"""Commands `data list`, `data show`, `data stats` and `data validate`: benchmarks and their questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from mbbq_gen.cli.command import JsonCommand, command_group, option
from mbbq_gen.cli.data_files import Download, Instantiate, MakeControl, counted, with_bar
from mbbq_gen.cli.options import QuestionOptions, Splits
from mbbq_gen.cli.output import echo, echo_json, print_json, print_rows, result_console, say
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Instance
from mbbq_gen.core.text import one_of, splits_of

if TYPE_CHECKING:
    from mbbq_gen.benchmarks.control.maker import ControlCoverage
    from mbbq_gen.benchmarks.quality import CategoryCount, DataIssue
    from mbbq_gen.benchmarks.registry import BenchmarkInfo

_SHOWN = 6
"""Parts of a benchmark that are listed for a finding; JSON has them all."""


class ValidateData(JsonCommand):
    """Lists issues of the questions.

    Each has a stable code, counts, examples, and how the loader handles it. A problem may change a score; a note is
    for information. Rows that can't be read stop the command with file, row and field.
    """

    help_examples = (
        "  mbbq-gen data validate mbbq\n"
        "  mbbq-gen data validate esbbq --data-dir EsBBQ-CaBBQ --json\n"
        "  mbbq-gen data validate --instances mine.csv --instances-field-map map.toml --strict"
    )
    questions: QuestionOptions
    strict: bool = option("", "Exit with 1 if there is any finding.", default=False)

    def _run(self) -> None:
        from mbbq_gen.benchmarks.quality import validate as look_over

        counts: Counter[tuple[str, str, str, str]] = Counter()
        findings = look_over(with_bar(counted(self.questions.load(), counts)))
        total = counts.total()
        if not total:
            raise UsageError("no questions to validate")
        if self.as_json:
            print_json({"questions": total, "findings": [finding.model_dump() for finding in findings]})
        else:
            for _, same in groupby(findings, key=lambda finding: finding.code):
                echo(_issue_lines(list(same)))
            codes = len({finding.code for finding in findings})
            say(f"{total:,} questions; {codes} kinds of issues" if codes else f"{total:,} questions; no issues")
        if self.strict and findings:
            raise typer.Exit(1)


def _issue_lines(same: Sequence[DataIssue]) -> str:
    """All findings of a code as text."""
    first = same[0]
    total = sum(finding.count for finding in same)
    lines = [f"{first.code}  ({first.level}, {total:,})", f"  {first.what}: {first.action}"]
    for finding in same[:_SHOWN]:
        part = " ".join(text for text in (finding.split, finding.language, finding.category) if text)
        lines.append(f"    {finding.count:>7,}  {part or finding.benchmark}: {'; '.join(finding.examples)}")
    if len(same) > _SHOWN:
        lines.append(f"             and {len(same) - _SHOWN} more parts, see --json")
    return "\n".join(lines) + "\n"


_COLUMNS = {
    "templates": "templates",
    "ambiguous": "amb.",
    "disambiguated": "dis.",
    "negative": "neg.",
    "non_negative": "non-neg.",
    "biased": "biased",
    "counter_biased": "counter",
    "unscorable": "unscor.",
    "wrong_labels": "wrong",
}
"""Field of a count → its column."""
_LEGEND = (
    "biased, counter: disambiguated questions whose right answer fits the stereotype, or contradicts it;"
    " unscor.: without a single target; wrong: published label known to be wrong"
)


class DataStats(JsonCommand):
    """Counts the questions and compares with the paper.

    Counts by language, split, category, condition, polarity and alignment. Differences from the paper are explained
    below the table. --control makes control questions from the bias questions of every language with a control
    grammar, and counts refusals by reason and template.
    """

    help_examples = (
        "  mbbq-gen data stats mbbq\n"
        "  mbbq-gen data stats kobbq --data-dir KoBBQ --json\n"
        "  mbbq-gen data stats kobbq --control\n"
        "  mbbq-gen data stats --instances mine.parquet"
    )
    questions: QuestionOptions
    control: bool = option(
        "", "Also count the questions without a possible control question, by reason.", default=False
    )

    def _run(self) -> None:
        from mbbq_gen.benchmarks.control.maker import ControlCoverage
        from mbbq_gen.benchmarks.quality import count_instances

        questions: Iterable[Instance] = with_bar(self.questions.load())
        made = ControlCoverage()
        counts = count_instances(_with_twins(questions, made, self.questions.packs) if self.control else questions)
        if not counts:
            raise UsageError("no questions to count")
        if self.as_json:
            rows = [{**count.model_dump(), "agrees": count.agrees} for count in counts]
            print_json({"counts": rows, "control": made.summary()} if self.control else rows)
            return
        console = result_console()
        titles = ("rows", "paper", *_COLUMNS.values())
        for name, part in groupby(counts, key=lambda count: f"{count.benchmark}  {count.language}  {count.split}"):
            alike = list(part)
            shown = []
            for row in alike:
                paper = "–" if row.published_rows is None else f"{row.published_rows:,}"
                numbers = [f"{getattr(row, field):,}" for field in _COLUMNS]
                shown.append((row.category, f"{row.rows:,}", paper, *numbers))
            print_rows(("category", *titles), shown, right=titles, title=name)
            for line in _differences(alike):
                console.print(line, soft_wrap=True)
            console.print()
        console.print(_LEGEND, soft_wrap=True)
        if self.control:
            console.print()
            # The questions that no control question can be made of, by template and reason.
            refusals = [
                (one.template_id, one.language, one.reason, f"{one.questions:,}", f"{one.of:,}")
                for one in made.counts().templates
            ]
            titles = ("questions", "of")
            print_rows(("template", "language", "reason", *titles), refusals, right=titles, title="no control question")
            console.print(f"control questions: {made.counts().sentence}", soft_wrap=True)


def _with_twins(questions: Iterable[Instance], made: ControlCoverage, packs: Path | None) -> Iterator[Instance]:
    """The questions; what becomes of the bias questions when control questions are made of them is counted."""
    from mbbq_gen.benchmarks.control.maker import ControlGenerators, makeable_languages

    where = PackPaths(packs=packs)
    makers, known = ControlGenerators(where), makeable_languages(where)
    for question in questions:
        if question.split == "bias" and question.language in known:
            made.add(question, makers.make(question))
        yield question


def _differences(rows: Iterable[CategoryCount]) -> list[str]:
    """What is said of every row that is not as the paper has it."""
    differing = [row for row in rows if row.agrees is False]
    explained = all(row.note for row in differing if row.category != "all")
    lines = []
    for row in differing:
        summed = "the sum of the above" if explained and len(differing) > 1 else "see docs/datasets.md"
        note = row.note or (summed if row.category == "all" else "see docs/datasets.md")
        lines.append(f"{row.category}: {row.rows:,} for {row.published_rows:,}: {note}")
    return lines


class ListData(JsonCommand):
    """Lists the benchmarks with licence, citation and files."""

    help_examples = "  mbbq-gen data list\n  mbbq-gen data list --json"

    def _run(self) -> None:
        from mbbq_gen.benchmarks.control.maker import makeable_languages
        from mbbq_gen.benchmarks.registry import BENCHMARKS
        from mbbq_gen.benchmarks.releases import installed_folder

        known = makeable_languages(PackPaths())
        control = {name: _control_split(info, known) for name, info in BENCHMARKS.items()}
        folders = {name: installed_folder(name) if info.needs_data else None for name, info in BENCHMARKS.items()}
        if self.as_json:
            print_json(
                [
                    {
                        **info.model_dump(exclude={"version", "categories"}),
                        "control_split": control[name][0],
                        "control_languages": control[name][1],
                        "installed": str(folders[name]) if folders[name] else None,
                    }
                    for name, info in BENCHMARKS.items()
                ]
            )
            return
        for name, info in BENCHMARKS.items():
            kind, codes = control[name]
            missing = f"not here; mbbq-gen data download {name}" if info.needs_data else "yes, it ships with mbbq-gen"
            lines = [
                f"{name}  {info.title}",
                f"  {', '.join(info.languages)}; {', '.join(info.splits)}; licence: {info.licence}",
                f"  {info.citation}",
                f"  {info.link}",
                f"  control questions: {' in '.join(filter(None, (kind, ', '.join(codes))))}",
                f"  on this machine: {folders[name] or missing}",
            ]
            echo("\n".join(lines + [f"  note: {info.notice}"] * bool(info.notice)) + "\n")


def _control_split(info: BenchmarkInfo, known: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Whether a benchmark's control questions are published, made by substitution, or neither; and its languages that
    have them."""
    if "control" in info.splits:
        return "published", info.languages
    makeable = tuple(code for code in info.languages if code in known)
    return ("made", makeable) if makeable else ("none", ())


class ShowData(JsonCommand):
    """Shows questions with roles and gold label.

    With --json, one record per line.
    """

    help_examples = (
        "  mbbq-gen data show starter --languages nl --limit 3\n"
        "  mbbq-gen data show esbbq --languages es --category age --limit 3\n"
        "  mbbq-gen data show mbbq --data-dir MBBQ --languages tr --json > mbbq_tr.jsonl\n"
        "  mbbq-gen data show --instances mine.csv --instances-field-map map.toml"
    )
    questions: QuestionOptions
    category: str | None = option("Questions", "Only this category.", metavar="SLUG")
    template: str | None = option("Questions", "Only this template.", metavar="ID")
    splits: Splits = "bias"
    limit: int | None = option("", "Maximum questions. Default: 3; with --json all.", min=1)

    def _run(self) -> None:
        source = self.questions
        if source.benchmark is None and source.instances is None:
            source = source.model_copy(update={"benchmark": "starter"})
        chosen = _only(source.load(splits_of(self.splits)), self.category, self.template)
        shown = 0
        for instance in islice(chosen, self.limit if self.as_json else self.limit or 3):
            echo_json(instance.model_dump_json()) if self.as_json else echo(_draw(instance))
            shown += 1
        if not shown:
            raise UsageError("no question matches; leave out --category or --template to see all")


def _only(instances: Iterator[Instance], category: str | None, template: str | None) -> Iterator[Instance]:
    """The instances of a category and a template; a mistyped one is named beside those that exist."""
    seen: set[str] = set()
    found = False
    for instance in instances:
        seen.add(instance.category)
        if category in (None, instance.category) and template in (None, instance.template_id):
            found = True
            yield instance
    if category is not None and not found and category not in seen:
        one_of("category", category, seen)


def _draw(instance: Instance) -> str:
    """A question as a person reads it."""
    from mbbq_gen.benchmarks.quality import KINDS

    facts = [instance.category, f"template {instance.template_id}", instance.condition, f"{instance.polarity} question"]
    if instance.alignment:
        facts.append(f"gold is {instance.alignment}")
    if not instance.has_single_target:
        facts.append(f"not bias-scorable: {instance.no_target_reason}")
    lines = [instance.key, "  " + ", ".join(facts), f"  {instance.context}", f"  {instance.question}"]
    for place, shown in enumerate(instance.options):
        marks: list[str] = [shown.role or "person without a role"]
        if shown.group and shown.role != "unknown":
            marks.append(shown.group)
        if place == instance.gold_index:
            marks.append("gold")
        if shown.role == instance.biased_role:
            marks.append("biased")
        if instance.corrected_gold_role and shown.role == instance.corrected_gold_role:
            marks.append("corrected gold")
        if instance.groups_swapped and shown.role == "non_target":
            marks.append("target after correction")
        lines.append(f"    - {shown.text}  [{', '.join(marks)}]")
    actions = {code: kind.action for code, kind in KINDS.items()}
    lines += [f"  data issue: {code} ({actions.get(code, 'kept')})" for code in instance.data_issues]
    return "\n".join(lines) + "\n"


data_app = command_group(
    "Lists, shows, downloads, checks and makes benchmark data.",
    "  mbbq-gen data list\n  mbbq-gen data show starter --languages nl\n  mbbq-gen data download mbbq",
    {
        "list": ListData,
        "show": ShowData,
        "download": Download,
        "stats": DataStats,
        "validate": ValidateData,
        "instantiate": Instantiate,
        "control": MakeControl,
    },
)
