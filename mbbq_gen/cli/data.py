"""Commands `data …`: benchmarks and their questions."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

import typer

from mbbq_gen.cli.command import Command, PackCommand, argument, command_group, flag, option
from mbbq_gen.cli.options import Languages, QuestionCommand, Splits
from mbbq_gen.cli.output import echo, echo_json, print_json, print_rows, say, write_lines
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.progress import Bar
from mbbq_gen.core.records import Instance
from mbbq_gen.core.text import one_of, whole_percent, words

_HIDDEN = {"benchmark", "language", "split", "negative", "non_negative", "note"}
"""Fields of a count that are not shown in its table."""


def _with_bar(instances: Iterable[Instance], title: str = "reading") -> Iterator[Instance]:
    """The same questions, with a progress bar."""
    with Bar(title, None, "questions") as bar:
        for instance in instances:
            bar.advance()
            yield instance


class ListData(Command):
    """Lists the benchmarks with licence, citation and files."""

    help_examples = "  mbbq-gen data list\n  mbbq-gen data list --json"

    def _run(self) -> None:
        from mbbq_gen.benchmarks.control.maker import makeable_languages
        from mbbq_gen.benchmarks.registry import BENCHMARKS
        from mbbq_gen.benchmarks.releases import installed_folder

        known, rows = makeable_languages(PackPaths()), []
        for name, info in BENCHMARKS.items():
            folder = installed_folder(name) if info.needs_data else None
            control, codes = "published", info.languages
            if "control" not in info.splits:
                codes = tuple(code for code in codes if code in known)
                control = "made" if codes else "none"
            facts = {"control_split": control, "control_languages": codes, "installed": folder and str(folder)}
            hidden = {"version", "categories", "reader", "files", "inside", "called", "partial"}
            rows.append(info.model_dump(exclude=hidden) | facts)
            if not self.as_json:
                missing = f"not here; mbbq-gen data download {name}" if info.needs_data else "ships with mbbq-gen"
                lines = [
                    f"{name}  {info.title}",
                    f"  {', '.join(info.languages)}; {', '.join(info.splits)}; licence: {info.licence}",
                    f"  {info.citation}\n  {info.link}",
                    f"  control questions: {control}{' in ' if codes else ''}{', '.join(codes)}",
                    f"  on this machine: {folder or missing}",
                    *([f"  note: {info.notice}"] if info.notice else []),
                ]
                echo("\n".join(lines) + "\n")
        if self.as_json:
            print_json(rows)


class ShowData(QuestionCommand):
    """Shows the questions of a benchmark, or of a file.

    Marks the role of each option, the gold option and data issues. --json prints questions as JSON Lines, which
    `--instances` reads.
    """

    help_examples = (
        "  mbbq-gen data show starter --languages nl --limit 1\n"
        "  mbbq-gen data show mbbq --data-dir MBBQ --languages tr --json > mbbq_tr.jsonl\n"
        "  mbbq-gen data show --instances mine.csv --instances-field-map map.toml"
    )
    category: str | None = option("Questions", "Only this category.", metavar="SLUG")
    template: str | None = option("Questions", "Only this template.", metavar="ID")
    splits: Splits = ("bias",)
    limit: int | None = option("", "Maximum questions. Default: 3; with --json all.", min=1)

    def _run(self) -> None:
        source = self
        if self.benchmark is None and self.config.instances is None:
            source = self.model_copy(update={"benchmark": "starter"})
        seen: set[str] = set()
        limit, n_shown = self.limit or (None if self.as_json else 3), 0
        for question in source.questions(self.splits):
            if n_shown == limit:
                break
            seen.add(question.category)
            if self.category in (None, question.category) and self.template in (None, question.template_id):
                n_shown += 1
                echo_json(question.model_dump_json()) if self.as_json else echo(_question_text(question))
        if not n_shown:
            if self.category is not None:
                one_of("category", self.category, seen)
            raise UsageError("no question matches; leave out --category or --template to see all")


def _question_text(instance: Instance) -> str:
    """The description of a question in several lines."""
    from mbbq_gen.benchmarks.quality import KINDS

    facts = [instance.category, f"template {instance.template_id}", instance.condition, f"{instance.polarity} question"]
    if instance.alignment:
        facts.append(f"gold is {instance.alignment}")
    if not instance.has_single_target:
        facts.append(f"not bias-scorable: {instance.no_target_reason}")
    lines = [instance.key, "  " + ", ".join(facts), f"  {instance.context}", f"  {instance.question}"]
    for index, answer in enumerate(instance.options):
        marks = (
            (answer.role or "person without a role", True),
            (str(answer.group), answer.group and answer.role != "unknown"),
            ("gold", index == instance.gold_index),
            ("biased", answer.role == instance.biased_role),
            ("corrected gold", instance.corrected_gold_role and answer.role == instance.corrected_gold_role),
            ("target after correction", instance.groups_swapped and answer.role == "non_target"),
        )
        lines.append(f"    - {answer.text}  [{', '.join(mark for mark, applies in marks if applies)}]")
    for code in instance.data_issues:
        lines.append(f"  data issue: {code} ({KINDS[code].action if code in KINDS else 'kept'})")
    return "\n".join(lines) + "\n"


class ValidateData(QuestionCommand):
    """Lists issues of the questions.

    Each has a stable code, counts, examples, and how the loader handles it. A problem may change a score; a note is
    for information. Rows that can't be read stop the command with file, row and field.
    """

    help_examples = (
        "  mbbq-gen data validate mbbq\n"
        "  mbbq-gen data validate --instances mine.csv --instances-field-map map.toml --strict"
    )
    strict: bool = flag("", "Exit with 1 if there is any finding.")

    def _run(self) -> None:
        from mbbq_gen.benchmarks.quality import validate

        total = 0

        def counted() -> Iterator[Instance]:
            nonlocal total
            for total, question in enumerate(_with_bar(self.questions()), start=1):  # noqa: B007
                yield question

        findings = validate(counted())
        if not total:
            raise UsageError("no questions to validate")
        if self.as_json:
            print_json({"questions": total, "findings": [finding.model_dump() for finding in findings]})
        else:
            columns = {"count", "split", "language", "category", "examples"}
            for _, group in groupby(findings, key=lambda finding: finding.code):
                same = list(group)
                title = f"{same[0].code} ({same[0].level}): {same[0].what}: {same[0].action}"
                print_rows([finding.model_dump(include=columns) for finding in same], title=title)
            codes = len({finding.code for finding in findings})
            say(f"{total:,} questions; {codes} kinds of issues" if codes else f"{total:,} questions; no issues")
        if self.strict and findings:
            raise typer.Exit(1)


class DataStats(QuestionCommand):
    """Counts the questions and compares with the paper.

    Counts by language, split, category, condition, polarity and alignment. Differences from the paper are explained
    below the table. For the questions that no control question can be made of, see `data control`.
    """

    help_examples = "  mbbq-gen data stats mbbq\n  mbbq-gen data stats --instances mine.parquet --json"

    def _run(self) -> None:
        from mbbq_gen.benchmarks.quality import count_instances

        counts = count_instances(_with_bar(self.questions()))
        if not counts:
            raise UsageError("no questions to count")
        if self.as_json:
            print_json([{**count.model_dump(), "agrees": count.agrees} for count in counts])
            return
        for name, part in groupby(counts, key=lambda count: f"{count.benchmark}  {count.language}  {count.split}"):
            rows = list(part)
            print_rows([row.model_dump(exclude=_HIDDEN) for row in rows], title=name)
            for row in rows:
                if row.agrees is False and (row.note or row.category != "all"):
                    note = row.note or "see docs/datasets.md"
                    echo(f"{row.category}: {row.rows:,} for {row.published_rows:,}: {note}")


class Download(Command):
    """Downloads the published files of a benchmark.

    Files are pinned by commit and checksum; prints their folder. An interrupted download resumes. Files that differ
    from the release are refused and nothing is installed. Does nothing if the unchanged release is installed. With
    the default folder, other commands need no --data-dir.
    """

    help_examples = (
        "  mbbq-gen data download mbbq\n"
        "  mbbq-gen data download bbq --from BBQ-main.zip --to data\n"
        "  mbbq-gen data download kobbq --from ~/checkouts/KoBBQ --json"
    )
    benchmark: str = argument("BENCHMARK", "Benchmark, see `mbbq-gen data list`.", default=...)
    source: str | None = option("", "Archive, URL or folder. Default: the authors' repository.", "--from")
    to: Path | None = option("", "Folder of releases. Default: $MBBQ_GEN_DATA or the cache directory.", metavar="DIR")

    def _run(self) -> None:
        from mbbq_gen.benchmarks.releases import InstallTools, install_release

        with Bar("", None, "kB") as bar:

            def step(stage: str, size: int, total: int | None) -> None:
                bar.title, bar.total = stage, total and total // 1000
                bar.advance(size // 1000 - bar.done)

            done = install_release(self.benchmark, self.source, self.to, InstallTools(progress=step))
        files, record = done.record.files, done.record
        if self.as_json:
            print_json(done.model_dump(mode="json", exclude={"record"}) | record.model_dump(mode="json"))
            return
        state = "already there and unchanged" if done.outcome == "already_there" else "verified"
        size = f"{sum(file.size for file in files) / 1e6:.1f} MB"
        say(f"{done.benchmark}: {len(files)} files, {state} ({size}); licence: {record.licence}; from {record.source}")
        for title, paths in {
            "replaced, they had changed since the last download": done.damaged,
            "not pinned (no checksum is known)": [file.path for file in files if not file.pinned],
            "not in this source": done.missing,
        }.items():
            if paths:
                say(f"{title}: {', '.join(paths)}")
        echo(str(done.folder))


class MakeControl(QuestionCommand):
    """Makes control questions from bias questions.

    First names replace the two groups, with the grammar adapted. A question where this is not certain is refused with
    a reason. Prints counts by category and reason (by template in --json). `run --splits bias,control`
    does the same for benchmarks without a control split.
    """

    help_examples = (
        "  mbbq-gen data control bbq --languages en -o control.jsonl\n"
        "  mbbq-gen data control --instances mine.jsonl --languages nl --json"
    )
    output: Path | None = option("Files", "File for the control questions. Default: none.", "--output", "-o")

    def _run(self) -> None:
        from mbbq_gen.benchmarks.control.coverage import ControlCoverage
        from mbbq_gen.benchmarks.control.maker import REASONS, with_control

        output, coverage = self.output, ControlCoverage()
        made = with_control(_with_bar(self.questions(["bias"])), ["control"], self.resources, coverage.add)
        if output is not None:
            write_lines(output, (control.model_dump_json() for control in made))
        else:
            deque(made, maxlen=0)  # only counts
        counts = coverage.counts()
        if not counts.questions:
            raise UsageError("no question of the bias split; leave out --languages to see all")
        if self.as_json:
            print_json({"output": None if output is None else str(output), **coverage.summary()})
            return
        for part in coverage.categories():
            refused = ", ".join(f"{reason} {count:,}" for reason, count in part["skipped"].items())
            share = whole_percent(part["made"] / part["questions"])
            numbers = f"{part['made']:>8,} of {part['questions']:>7,}  {share:>4}"
            echo(f"{part['language']}  {part['category']:<24}{numbers}  {refused}".rstrip())
        echo(f"{counts.made:,} of {counts.questions:,} questions have a control question")
        for reason in counts.reasons:
            echo(f"  {reason}: {REASONS[reason]}")
        if output is not None:
            say(f"written: {output}")


class Instantiate(PackCommand):
    """Fills templates (texts with gaps) and writes the questions as JSON Lines.

    Use them with `run --instances`. The folder has templates.toml and one TOML file per language. Prints the number of
    questions by language, split and category.
    """

    help_examples = (
        "  mbbq-gen data instantiate my-templates --languages es -o mine.jsonl\n"
        "  mbbq-gen data instantiate my-templates --splits bias,control -o mine.jsonl"
    )
    folder: Path = argument("FOLDER", "Folder of templates.", default=...)
    output: Path = option("", "File for the questions.", "--output", "-o", default=..., metavar="FILE")
    languages: Languages = None
    splits: Splits = ("bias",)

    def _run(self) -> None:
        from mbbq_gen.benchmarks.templates import load_template_folder

        codes = words(self.languages) if self.languages else None
        instances = load_template_folder(self.folder, languages=codes, splits=self.splits, resources=self.resources)
        counts: Counter[tuple[str, str, str, str]] = Counter()

        def counted() -> Iterator[str]:
            for question in _with_bar(instances, "filling"):
                counts[question.benchmark, question.language, question.split, question.category] += 1
                yield question.model_dump_json()

        write_lines(self.output, counted())
        keys = ("benchmark", "language", "split", "category", "questions")
        rows = [dict(zip(keys, (*part, count), strict=True)) for part, count in counts.items()]
        if self.as_json:
            print_json({"output": str(self.output), "questions": counts.total(), "counts": rows})
            return
        print_rows(rows)
        say(f"{counts.total():,} questions written to {self.output}")


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
