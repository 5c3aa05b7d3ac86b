"""Commands `data download`, `data control` and `data instantiate`: they write files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from mbbq_gen.cli.data_source import Choice, Data, FieldMap, Splits, with_bar
from mbbq_gen.cli.help import example, option
from mbbq_gen.cli.options import Json, Languages, Packs, echo, print_json, resources, say, write_lines
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.progress import Bar
from mbbq_gen.core.text import splits_of, whole_percent, words

if TYPE_CHECKING:
    from mbbq_gen.benchmarks.control.maker import ControlCoverage, ControlInstance, RefusedInstance
    from mbbq_gen.benchmarks.releases import InstallResult
    from mbbq_gen.core.records import Instance


_SHOWN = 5


@example(
    "  mbbq-gen data download mbbq\n"
    "  mbbq-gen data download bbq --from BBQ-main.zip --to data\n"
    "  mbbq-gen data download kobbq --from ~/checkouts/KoBBQ --json"
)
def download(
    benchmark: Annotated[str, typer.Argument(help="Benchmark, see `mbbq-gen data list`.", metavar="BENCHMARK")],
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Archive or folder to install from. Default: the authors' repository.",
            metavar="URL|FOLDER|ARCHIVE",
        ),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(help="Folder of releases. Default: $MBBQ_GEN_DATA or the cache directory.", metavar="DIR"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Downloads the published files of a benchmark.

    Files are pinned by commit and checksum; prints their folder. An interrupted download resumes. Files that differ
    from the release are refused and nothing is installed. Does nothing if the unchanged release is installed. With
    the default folder, other commands need no --data-dir.
    """
    from mbbq_gen.benchmarks.releases import InstallTools, install_release

    with _Bars() as bars:
        done = install_release(benchmark, source, to, InstallTools(progress=bars.step))
    if as_json:
        print_json(_described(done))
        return
    files = done.record.files
    size = sum(file.size for file in files)
    pinned = sum(file.pinned for file in files)
    state = "already there and unchanged" if done.outcome == "already_there" else "verified"
    lines = [f"{done.benchmark}: {pinned} of {len(files)} files pinned and {state} ({size / 1e6:.1f} MB)"]
    lines.append(f"licence: {done.record.licence}; from {done.record.source}")
    loose = [file.path for file in files if not file.pinned]
    for what, paths in (
        ("replaced, they had changed since the last download", done.damaged),
        ("not pinned (no checksum is known)", loose),
        ("not in this source", done.missing),
    ):
        if paths:
            lines.append(f"{what}: {_listed(paths)}")
    for line in lines:
        say(line)
    echo(str(done.folder))


def _described(done: InstallResult) -> dict[str, object]:
    """The result as JSON, with the entries of the record."""
    fields = done.model_dump(mode="json")
    record = fields.pop("record")
    return {**fields, **record}


def _listed(paths: list[str] | tuple[str, ...]) -> str:
    return ", ".join(paths[:_SHOWN]) + (f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else "")


class _Bars:
    """A bar for each stage, in kilobytes; it begins when the stage does, for only then its length is known."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._stage = ""
        self._shown = 0
        self._bar: Bar | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def step(self, stage: str, done: int, total: int | None) -> None:
        """Shows how far a stage is."""
        if self._bar is None or stage != self._stage:
            self._stack.close()
            self._bar = self._stack.enter_context(Bar(stage, total and total // 1000, "kB", delay=1.0))
            self._stage, self._shown = stage, 0
        self._bar.advance(done // 1000 - self._shown)
        self._shown = done // 1000


_FILES = (".jsonl", ".json", ".csv", ".tsv", ".parquet", ".xlsx")


@example(
    "  mbbq-gen data control --benchmark bbq --languages en -o control.jsonl\n"
    "  mbbq-gen data control --benchmark kobbq --report control.html\n"
    "  mbbq-gen data control --benchmark mine.jsonl --languages nl --audit\n"
    "  mbbq-gen data control --benchmark esbbq --languages es --json"
)
def control(
    benchmark: Annotated[str, option("Questions", "Benchmark, or file of questions.", metavar="NAME|FILE")],
    languages: Languages = None,
    data_dir: Data = None,
    instances_field_map: FieldMap = None,
    output: Annotated[
        Path | None,
        option("Files", "File for the control questions. Default: counts only.", "--output", "-o", metavar="FILE"),
    ] = None,
    report: Annotated[
        Path | None,
        option("Files", "Also write counts and one question of each template as an HTML page.", metavar="FILE.html"),
    ] = None,
    audit: Annotated[bool, typer.Option("--audit", help="Also print each replacement and each refusal.")] = False,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Makes control questions from bias questions.

    First names replace the two groups, with the grammar adapted. A question where this is not certain is refused with
    a reason. Prints counts by category and reason (by template in --json and --report). `run --splits bias,control`
    does the same for benchmarks without a control split.
    """
    is_file = Path(benchmark).suffix.lower() in _FILES
    named, own = (None, Path(benchmark)) if is_file else (benchmark, None)
    choice = Choice(named, data_dir, own, instances_field_map, languages, packs)
    work = _Work(audit and not as_json)
    made = work.make(with_bar(choice.load(["bias"])), packs)
    if output is not None:
        write_lines(output, (one.instance.model_dump_json() for one in made))
    else:
        for _ in made:
            pass
    counts = work.counts
    if not counts.questions:
        raise UsageError("no question of the bias split; leave out --languages to see all")
    if report is not None:
        from mbbq_gen.benchmarks.control.maker import REASONS
        from mbbq_gen.report.analysis_tables import control_blocks
        from mbbq_gen.report.page import blocks_page

        write_lines(report, [blocks_page(f"Control questions: {benchmark}", control_blocks(counts, REASONS))])
    if as_json:
        whole = {"output": None if output is None else str(output), **counts.summary()}
        print_json({**whole, **work.annotated()} if audit else whole)
        return
    _tell(counts)
    for path in (output, report):
        if path is not None:
            say(f"{counts.made:,} control questions written to {path}" if path is output else f"page: {path}")


class _Work:
    """Makes the control questions and counts them."""

    def __init__(self, says: bool) -> None:
        from mbbq_gen.benchmarks.control.maker import ControlCoverage

        self._says = says
        self.counts = ControlCoverage()
        self._left: list[RefusedInstance] = []
        self._replaced: list[dict[str, Any]] = []

    def make(self, instances: Iterable[Instance], packs: Path | None) -> Iterator[ControlInstance]:
        """The control questions, one by one."""
        from mbbq_gen.benchmarks.control.maker import ControlGenerators, RefusedInstance

        makers = ControlGenerators(resources(packs))
        for instance in instances:
            made = makers.make(instance)
            self.counts.add(instance, made)
            if isinstance(made, RefusedInstance):
                self._left.append(made)
                if self._says:
                    echo(f"{made.key}\n  left out, {made.reason}: {made.what}")
                continue
            pairs = list(dict.fromkeys((one.was, one.name) for one in made.replaced))
            self._replaced.append(
                {"key": instance.key, "replaced": [{"was": was, "name": name} for was, name in pairs]}
            )
            if self._says:
                echo("\n".join([instance.key, *(f"  {was} → {name}" for was, name in pairs)]))
            yield made

    def annotated(self) -> dict[str, Any]:
        """Each replacement and each refusal, as JSON."""
        return {"replacements": self._replaced, "refusals": [left.model_dump() for left in self._left]}


def _tell(counts: ControlCoverage) -> None:
    """Prints the counts."""
    from mbbq_gen.benchmarks.control.maker import REASONS

    for part in counts.categories():
        told = ", ".join(f"{reason} {count:,}" for reason, count in part.skipped.items())
        made = f"{part.made:>8,} of {part.questions:>7,}  {whole_percent(part.made / part.questions):>4}"
        echo(f"{part.language}  {part.category:<24}{made}  {told}".rstrip())
    echo(f"{counts.made:,} of {counts.questions:,} questions have a control question")
    for reason in counts.reasons:
        echo(f"  {reason}: {REASONS[reason]}")


@example(
    "  mbbq-gen data instantiate EsBBQ-CaBBQ --languages es -o esbbq.jsonl\n"
    "  mbbq-gen data instantiate my-templates --splits bias,control -o mine.jsonl"
)
def instantiate(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder of templates, or a checkout that contains one.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="File for the questions.", metavar="FILE")],
    languages: Languages = None,
    splits: Splits = "bias",
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Fills templates (texts with gaps) and writes the questions as JSON Lines.

    Use them with `run --instances`. Two formats: ours (templates.toml and one TOML file per language) and EsBBQ's
    (workbooks with a vocabulary). Prints the number of questions by language, split and category.
    """
    from mbbq_gen.benchmarks.templates.fill import load_template_folder
    from mbbq_gen.core.records import to_jsonl

    if (codes := None if languages is None else words(languages)) == []:
        raise UsageError("name at least one language, such as --languages es")
    instances = load_template_folder(
        folder,
        languages=codes,
        splits=splits_of(splits),
        resources=resources(packs),
    )
    counts: Counter[tuple[str, str, str, str]] = Counter()
    with Bar("filling", None, "questions", delay=1.0) as bar:
        write_lines(output, to_jsonl(_counted(instances, counts, bar)))
    if as_json:
        keys = ("benchmark", "language", "split", "category")
        rows = [dict(zip(keys, about, strict=True)) | {"questions": count} for about, count in counts.items()]
        print_json({"output": str(output), "questions": counts.total(), "counts": rows})
    else:
        _print_instances(output, counts)


def _counted(instances: Iterable[Instance], counts: Counter[tuple[str, str, str, str]], bar: Bar) -> Iterator[Instance]:
    """The instances, counted as they pass."""
    for instance in instances:
        counts[instance.benchmark, instance.language, instance.split, instance.category] += 1
        bar.advance()
        yield instance


def _print_instances(output: Path, counts: Counter[tuple[str, str, str, str]]) -> None:
    """Prints how many questions there are, by category, and says where they are."""
    for (benchmark, language, split, category), count in counts.items():
        echo(f"{benchmark}  {language}  {split}  {category:<24}{count:>8,}")
    say(f"{counts.total():,} questions written to {output}")
