"""Commands `data download`, `data control` and `data instantiate`: they write files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mbbq_gen.cli.command import JsonCommand, PackCommand, argument, option
from mbbq_gen.cli.options import Data, FieldMap, Languages, QuestionOptions, Splits
from mbbq_gen.cli.output import echo, print_json, say, write_lines
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.progress import Bar
from mbbq_gen.core.records import Instance
from mbbq_gen.core.text import splits_of, whole_percent, words

if TYPE_CHECKING:
    from mbbq_gen.benchmarks.control.maker import ControlCoverage, ControlInstance
    from mbbq_gen.benchmarks.releases import InstallResult

_SHOWN = 5
"""Files that a line of `data download` lists."""
_FILES = (".jsonl", ".json", ".csv", ".tsv", ".parquet", ".xlsx")


def with_bar(instances: Iterable[Instance], title: str = "reading") -> Iterator[Instance]:
    """The same questions, with a bar on a terminal once it takes longer than a second."""
    with Bar(title, None, "questions") as bar:
        for instance in instances:
            bar.advance()
            yield instance


def counted(instances: Iterable[Instance], counts: Counter[tuple[str, str, str, str]]) -> Iterator[Instance]:
    """The same questions, counted by benchmark, language, split and category as they pass."""
    for instance in instances:
        counts[instance.benchmark, instance.language, instance.split, instance.category] += 1
        yield instance


class Download(JsonCommand):
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
    source: str | None = option(
        "",
        "Archive or folder to install from. Default: the authors' repository.",
        "--from",
        metavar="URL|FOLDER|ARCHIVE",
    )
    to: Path | None = option("", "Folder of releases. Default: $MBBQ_GEN_DATA or the cache directory.", metavar="DIR")

    def _run(self) -> None:
        done = self._install()
        if self.as_json:
            fields = done.model_dump(mode="json")
            record = fields.pop("record")
            print_json({**fields, **record})
            return
        files = done.record.files
        size = sum(file.size for file in files)
        pinned = sum(file.pinned for file in files)
        state = "already there and unchanged" if done.outcome == "already_there" else "verified"
        say(f"{done.benchmark}: {pinned} of {len(files)} files pinned and {state} ({size / 1e6:.1f} MB)")
        say(f"licence: {done.record.licence}; from {done.record.source}")
        loose = [file.path for file in files if not file.pinned]
        for what, paths in (
            ("replaced, they had changed since the last download", done.damaged),
            ("not pinned (no checksum is known)", loose),
            ("not in this source", done.missing),
        ):
            if paths:
                more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
                say(f"{what}: {', '.join(paths[:_SHOWN])}{more}")
        echo(str(done.folder))

    def _install(self) -> InstallResult:
        """Installs the release, with a bar in kilobytes for each stage, whose length is known when it begins."""
        from mbbq_gen.benchmarks.releases import InstallTools, install_release

        with ExitStack() as stack:
            current, shown, bar = "", 0, Bar("", None, "kB")

            def step(stage: str, done: int, total: int | None) -> None:
                nonlocal current, shown, bar
                if stage != current:
                    stack.close()
                    bar = stack.enter_context(Bar(stage, total and total // 1000, "kB"))
                    current, shown = stage, 0
                bar.advance(done // 1000 - shown)
                shown = done // 1000

            return install_release(self.benchmark, self.source, self.to, InstallTools(progress=step))


class MakeControl(PackCommand):
    """Makes control questions from bias questions.

    First names replace the two groups, with the grammar adapted. A question where this is not certain is refused with
    a reason. Prints counts by category and reason (by template in --json and --report). `run --splits bias,control`
    does the same for benchmarks without a control split.
    """

    help_examples = (
        "  mbbq-gen data control --benchmark bbq --languages en -o control.jsonl\n"
        "  mbbq-gen data control --benchmark kobbq --report control.html\n"
        "  mbbq-gen data control --benchmark mine.jsonl --languages nl --audit\n"
        "  mbbq-gen data control --benchmark esbbq --languages es --json"
    )
    benchmark: str = option("Questions", "Benchmark, or file of questions.", default=..., metavar="NAME|FILE")
    languages: Languages = None
    data_dir: Data = None
    instances_field_map: FieldMap = None
    output: Path | None = option(
        "Files", "File for the control questions. Default: counts only.", "--output", "-o", metavar="FILE"
    )
    report: Path | None = option(
        "Files", "Also write counts and one question of each template as an HTML page.", metavar="FILE.html"
    )
    audit: bool = option("", "Also print each replacement and each refusal.", default=False)

    def _run(self) -> None:
        from mbbq_gen.benchmarks.control.maker import REASONS, ControlCoverage

        output, coverage = self.output, ControlCoverage()
        audit: dict[str, list[Any]] = {"replacements": [], "refusals": []}
        made = self._made(coverage, audit)
        if output is not None:
            write_lines(output, (one.instance.model_dump_json() for one in made))
        else:
            for _ in made:
                pass
        counts = coverage.counts()
        if not counts.questions:
            raise UsageError("no question of the bias split; leave out --languages to see all")
        if self.report is not None:
            from mbbq_gen.report.analysis_tables import control_blocks
            from mbbq_gen.report.page import blocks_page

            title, blocks = f"Control questions: {self.benchmark}", control_blocks(coverage, REASONS)
            write_lines(self.report, [blocks_page(title, blocks)])
        if self.as_json:
            whole = {"output": None if output is None else str(output), **coverage.summary()}
            print_json({**whole, **audit} if self.audit else whole)
            return
        for part in coverage.categories():
            refused = ", ".join(f"{reason} {count:,}" for reason, count in part["skipped"].items())
            share = (
                f"{part['made']:>8,} of {part['questions']:>7,}  {whole_percent(part['made'] / part['questions']):>4}"
            )
            echo(f"{part['language']}  {part['category']:<24}{share}  {refused}".rstrip())
        echo(f"{counts.made:,} of {counts.questions:,} questions have a control question")
        for reason in counts.reasons:
            echo(f"  {reason}: {REASONS[reason]}")
        if output is not None:
            say(f"{counts.made:,} control questions written to {output}")
        if self.report is not None:
            say(f"page: {self.report}")

    def _made(self, counts: ControlCoverage, audit: dict[str, list[Any]]) -> Iterator[ControlInstance]:
        """The control questions; each is counted, and listed in the audit as is each refusal."""
        from mbbq_gen.benchmarks.control.maker import ControlGenerators, RefusedInstance

        is_file = Path(self.benchmark).suffix.lower() in _FILES
        source = QuestionOptions(
            benchmark=None if is_file else self.benchmark,
            data_dir=self.data_dir,
            instances=Path(self.benchmark) if is_file else None,
            instances_field_map=self.instances_field_map,
            languages=self.languages,
            packs=self.packs,
        )
        makers, prints = ControlGenerators(self.where), self.audit and not self.as_json
        for instance in with_bar(source.load(["bias"])):
            made = makers.make(instance)
            counts.add(instance, made)
            if isinstance(made, RefusedInstance):
                audit["refusals"].append(made.model_dump())
                if prints:
                    echo(f"{made.key}\n  left out, {made.reason}: {made.what}")
                continue
            pairs = list(dict.fromkeys((one.was, one.name) for one in made.replaced))
            replaced = [{"was": was, "name": name} for was, name in pairs]
            audit["replacements"].append({"key": instance.key, "replaced": replaced})
            if prints:
                echo("\n".join([instance.key, *(f"  {was} → {name}" for was, name in pairs)]))
            yield made


class Instantiate(PackCommand):
    """Fills templates (texts with gaps) and writes the questions as JSON Lines.

    Use them with `run --instances`. Two formats: ours (templates.toml and one TOML file per language) and EsBBQ's
    (workbooks with a vocabulary). Prints the number of questions by language, split and category.
    """

    help_examples = (
        "  mbbq-gen data instantiate EsBBQ-CaBBQ --languages es -o esbbq.jsonl\n"
        "  mbbq-gen data instantiate my-templates --splits bias,control -o mine.jsonl"
    )
    folder: Path = argument("FOLDER", "Folder of templates, or a checkout that contains one.", default=...)
    output: Path = option("", "File for the questions.", "--output", "-o", default=..., metavar="FILE")
    languages: Languages = None
    splits: Splits = "bias"

    def _run(self) -> None:
        from mbbq_gen.benchmarks.templates.fill import load_template_folder

        if (codes := None if self.languages is None else words(self.languages)) == []:
            raise UsageError("name at least one language, such as --languages es")
        instances = load_template_folder(
            self.folder,
            languages=codes,
            splits=splits_of(self.splits),
            resources=self.where,
        )
        counts: Counter[tuple[str, str, str, str]] = Counter()
        made = with_bar(counted(instances, counts), "filling")
        write_lines(self.output, (instance.model_dump_json() for instance in made))
        if self.as_json:
            keys = ("benchmark", "language", "split", "category")
            rows = [dict(zip(keys, about, strict=True)) | {"questions": count} for about, count in counts.items()]
            print_json({"output": str(self.output), "questions": counts.total(), "counts": rows})
            return
        for (benchmark, language, split, category), count in counts.items():
            echo(f"{benchmark}  {language}  {split}  {category:<24}{count:>8,}")
        say(f"{counts.total():,} questions written to {self.output}")
