"""What commands share: options, reading runs with a progress bar, and writing results."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args

import typer

from mbbq_gen.cli.help import option
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.progress import Bar
from mbbq_gen.core.text import all_of, one_of, visible_text

if TYPE_CHECKING:
    import polars
    from pydantic import BaseModel
    from rich.console import Console

    from mbbq_gen.analysis.correction import AnnotatedFrame
    from mbbq_gen.core.files import PackPaths
    from mbbq_gen.core.progress import ProgressBars
    from mbbq_gen.core.records import Normalise
    from mbbq_gen.report.tables import Block
    from mbbq_gen.runs.distributed.cluster import MapWorkers
    from mbbq_gen.runs.observations import Answers
    from mbbq_gen.runs.run_folder import Manifest, RunFolder
    from mbbq_gen.scoring.cells import UnparsedPolicy
    from mbbq_gen.scoring.codes import Average, PromptEffects
    from mbbq_gen.scoring.metrics import Metric
    from mbbq_gen.scoring.observations import GoldLabels
    from mbbq_gen.statistics.estimate import InferenceSettings
    from mbbq_gen.storage.store import Progress


Result = TypeVar("Result", bound="BaseModel")
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")]
_PACKS = "Folder of your own language packs; they override the built-in ones."
Packs = Annotated[Path | None, option("Files", _PACKS, metavar="DIR")]
RunPacks = Annotated[Path | None, option("Questions", _PACKS, metavar="DIR")]
PRICES = "Your own prices (TOML); they override those of the package genai-prices."
PriceFile = Annotated[Path | None, typer.Option("--prices", metavar="FILE", help=PRICES)]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Also show both splits, all footnotes and the outcomes of extraction.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Languages = Annotated[
    str | None, option("Questions", "Only these languages, comma-separated. Default: all.", metavar="XX,…")
]
RunLanguages = Annotated[
    str | None,
    option("What to extract", "Only these languages of the run, comma-separated. Default: all.", metavar="XX,…"),
]
HtmlFile = Annotated[Path | None, option("Files", "Also write the tables as an HTML page.", metavar="FILE.html")]


def resources(packs: Path | None) -> PackPaths:
    """Where language packs are looked for."""
    from mbbq_gen.core.files import PackPaths

    return PackPaths(packs=packs)


def data_folder(benchmark: str, data: Path | None) -> Path | None:
    """The folder of a benchmark's files: the one given, else the installed release."""
    from mbbq_gen.benchmarks.releases import benchmark_folder

    return benchmark_folder(benchmark, data)


def open_lines(path: Path) -> Iterator[str]:
    """The lines of a text file, or of stdin for `-`; raises as `core.tables.read_lines`, and DataError at the first
    line that is not UTF-8."""
    from mbbq_gen.core.tables import decoded_lines

    return decoded_lines(path, sys.stdin.buffer if str(path) == "-" else None)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Writes lines to an output file; raises as `core.files.output_file`."""
    from mbbq_gen.core.files import write_text

    write_text(path, (f"{line}\n" for line in lines))


_ACTING = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""Characters that JSON allows but that affect a terminal, or have no UTF-8."""


def echo_json(text: str) -> None:
    """Prints JSON on stdout, with control characters escaped as JSON does."""
    typer.echo(_ACTING.sub(lambda found: f"\\u{ord(found.group()):04x}", text))


def print_model(found: BaseModel) -> None:
    """Prints a model as JSON on stdout; a folder's name that is not UTF-8 is escaped."""
    from pydantic_core import PydanticSerializationError

    try:
        echo_json(found.model_dump_json(indent=2))
    except PydanticSerializationError:
        print_json(found.model_dump(mode="json"))


def print_json(value: Any) -> None:
    """Prints a value as JSON on stdout."""
    echo_json(json.dumps(value, ensure_ascii=False, indent=2))


def echo(text: str) -> None:
    """Prints text on stdout, with control characters made visible."""
    typer.echo(visible_text(text))


def say(text: str) -> None:
    """Prints a message on stderr, with control characters made visible."""
    typer.echo(visible_text(text), err=True)


def result_console(*, stderr: bool = False) -> Console:
    """The console for tables: as wide as the terminal, or 160 columns; control characters are made visible."""
    from rich.console import Console
    from rich.segment import Segment

    class VisibleConsole(Console):
        """Shows texts from outside without obeying them."""

        def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
            """The pieces of something to print; Rich's own styles are added later."""
            for piece in super().render(renderable, options):
                yield piece if piece.control else Segment(visible_text(piece.text), piece.style)

    is_terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return VisibleConsole(stderr=stderr, markup=False, highlight=False, width=None if is_terminal else 160)


def show_result(found: Result, blocks: Callable[[Result], Iterable[Block]], *, as_json: bool) -> None:
    """Prints a result as JSON, or as the paragraphs and tables that are made of it."""
    if as_json:
        print_model(found)
    else:
        show(blocks(found))


def show(blocks: Iterable[Block]) -> None:
    """Prints paragraphs and tables on stdout."""
    from mbbq_gen.report.tables import print_blocks

    print_blocks(blocks, result_console())


def print_rows(titles: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = ()) -> None:
    """Prints a plain table on stdout; the columns of `right` are numbers."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in titles:
        table.add_column(title, justify="right" if title in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    result_console().print(table)


def extraction_bar() -> Bar:
    """The bar for extraction; it shows only if that takes a while."""
    return Bar("reading", None, "answers", delay=1.0)


def run_frame(
    folder: RunFolder,
    manifest: Manifest,
    where: PackPaths,
    gold: GoldLabels = "published",
    *,
    model: str | None = None,
    extractor: str = "rules",
    normalise: Normalise | None = None,
) -> tuple[polars.DataFrame, Progress]:
    """The observations of a run, and its progress."""
    from mbbq_gen.runs import observations as frames

    with extraction_bar() as bar:
        return frames.load_run_observations(
            folder,
            manifest,
            where,
            gold,
            model=model,
            extractor=extractor,
            normalise=normalise,
            step=bar.advance,
            tell=say,
        )


def run_sums(
    path: Path,
    where: PackPaths,
    gold: GoldLabels,
    *,
    by: Sequence[str],
    beside: Sequence[str],
    extractor: str,
    normalise: Normalise | None,
    answers: Answers,
    helpers: MapWorkers,
) -> polars.DataFrame:
    """The observations of a run, summed by workers for some groupings; reports pending requests."""
    from mbbq_gen.runs import observations as frames
    from mbbq_gen.runs.run_folder import RunFolder
    from mbbq_gen.scoring.tally import grouping_columns

    folder = RunFolder(path)
    folder.require()
    with extraction_bar() as bar:
        frame, progress = frames.load_sums(
            *(folder, folder.manifest(), where, gold),
            groups=list(grouping_columns(by).values()),
            beside=list(grouping_columns(beside).values()),
            extractor=extractor,
            normalise=normalise,
            answers=answers,
            helpers=helpers,
            step=bar.advance,
            tell=say,
        )
    frames.report_pending(folder, progress, say)
    tell_failures(frame)
    return frame


def read_before_use(folder: RunFolder, where: PackPaths, extractor: str = "rules") -> dict[str, str]:
    """The extractor version of each language; extracts first what is missing."""
    from mbbq_gen.runs import observations as frames

    with extraction_bar() as bar:
        return frames.ensure_extracted(folder, where, extractor, bar.advance)


def runs_frame(
    paths: Sequence[Path],
    where: PackPaths,
    gold: GoldLabels = "published",
    *,
    extractor: str = "rules",
    all_extractors: bool = False,
    normalise: Normalise | None = None,
    answers: Answers = "first",
) -> polars.DataFrame:
    """The observations of several runs in one table; reports pending requests."""
    from mbbq_gen.runs import observations as frames

    with extraction_bar() as bar:
        frame = frames.load_observations(
            paths,
            where,
            gold,
            extractor=extractor,
            all_extractors=all_extractors,
            normalise=normalise,
            answers=answers,
            step=bar.advance,
            tell=say,
        )
    tell_failures(frame)
    return frame


def tell_failures(frame: polars.DataFrame) -> None:
    """Warns if there is no response at all."""
    from mbbq_gen.core.records import NO_RESPONSE
    from mbbq_gen.scoring.tally import answers_of

    if frame.height and frame["outcome"].cast(str).is_in(sorted(NO_RESPONSE)).all():
        say(f"none of the {answers_of(frame):,} requests has a response (error or filtered): every score is undefined")


def runs_labels(
    paths: Sequence[Path],
    where: PackPaths,
    source: str | None,
    gold: GoldLabels = "published",
    extractor: str = "rules",
) -> AnnotatedFrame | None:
    """The annotated responses of the runs; reports those left out. None without a source."""
    from mbbq_gen.annotation.annotations import runs_labels
    from mbbq_gen.statistics.ppi import MIN_LABELS

    if source is None:
        return None
    with extraction_bar():
        found = runs_labels(paths, where, source, gold=gold, extractor=extractor, at_least=MIN_LABELS)
    if found.unsampled_annotations:
        say(f"{found.unsampled_annotations:,} annotations are in no sample that was drawn: left out of the correction")
    if found.stale_annotations:
        say(f"{found.stale_annotations:,} annotations only rejected an extraction that has changed since: left out")
    return found


def chosen_answers(given: str, correct_with: str | None = None) -> Answers:
    """The checked value of --answers."""
    from mbbq_gen.runs.observations import Answers

    if given != "first" and correct_with is not None:
        raise UsageError(
            f"--answers {given}: --correct-with {correct_with} corrects first answers; leave one of them out"
        )
    return one_of("choice for --answers", given, get_args(Answers))


def terminal() -> ProgressBars:
    """The progress listener for a terminal."""
    from mbbq_gen.core.progress import ProgressBars

    return ProgressBars(say)


def load_extraction() -> None:
    """Imports what extraction needs."""
    import_module("mbbq_gen.extraction.engine")


def load_report() -> None:
    """Imports what extraction and report need while the model is busy, because that is slow."""
    load_extraction()
    for name in ("scipy.special", "mbbq_gen.report.score_tables"):
        import_module(name)


def studied(paths: list[Path] | None) -> list[Path] | None:
    """The run folders, with a study's file or folder replaced by its runs."""
    if not paths:
        return paths
    from mbbq_gen.runs.study import resolve_run_paths

    return resolve_run_paths(paths)


RunPaths = Annotated[
    list[Path], typer.Argument(metavar="RUN", callback=studied, help="Run folders, or a study's file or folder.")
]
MetricNames = Annotated[
    str, option("Grouping", "Metrics, comma-separated, or `all`; for names: `mbbq-gen score --help`.", metavar="NAME,…")
]
NormalizationChoice = Annotated[
    str | None,
    option(
        "What to score",
        "Normalization of loglikelihoods: sum (none); token, char or byte (divided by their number; char is acc_norm "
        "of lm-eval); or pmi (see `mbbq-gen run --help`). Default: the run's.",
        metavar="TYPE",
    ),
]
GROUPS = "comma-separated: model, benchmark, language, split, category, template, variant, …"
GroupBy = Annotated[str, option("Grouping", f"Group the scores by these, {GROUPS}", metavar="NAME,…")]
ExtractorChoice = Annotated[
    str,
    option(
        "What to score",
        "Extractor whose results are used: rules, a simple one (strict-match, first-label, mbbq-like, answer-line), "
        "judge:NAME, or a stored version.",
    ),
]
AnswersChoice = Annotated[
    str,
    option(
        "What to score",
        "Answers to score: first, or follow-up (replies to `run --follow-up` where nothing could be read).",
    ),
]
CorrectWith = Annotated[
    str | None,
    option(
        "Also show",
        "Scores corrected for extraction errors: annotations (of `mbbq-gen annotate`) or follow-up (`run --follow-up "
        "unread --follow-up-check N`).",
        metavar="SOURCE",
    ),
]
PromptEffectsChoice = Annotated[
    str,
    option(
        "Statistics",
        "What intervals and tests hold for: fixed (only these prompt variants) or random (all variants like them; "
        "needs at least three).",
        metavar="TYPE",
    ),
]
ConfidenceLevel = Annotated[float, option("Statistics", "Confidence level of the intervals.", min=0.5, max=0.999)]


def equivalence_option(what: str) -> Any:
    """The option --equivalence-margin of a command; `what` is tested."""
    text = f"Also test whether {what} is within ±MARGIN of 0, such as 0.03. Default: no test."
    return option("Statistics", text, "--equivalence-margin", min=0.0001, max=0.9999, metavar="MARGIN")


@dataclass(frozen=True)
class InferenceOptions:
    """Options of every score with an interval."""

    extractor: ExtractorChoice = "rules"
    gold: Annotated[
        str, option("What to score", "Gold labels: published, or corrected (known errors fixed).", metavar="SOURCE")
    ] = "published"
    unparsed: Annotated[
        str,
        option(
            "Statistics",
            "Unparsed responses in the denominators of bias scores: discard (left out) or keep (counted as neither "
            "answer).",
            metavar="ACTION",
        ),
    ] = "discard"
    confidence_level: ConfidenceLevel = 0.95
    n_resamples: Annotated[int, option("Statistics", "Number of bootstrap resamples of templates.", min=100)] = 2000
    seed: Annotated[int, option("Statistics", "Seed of bootstrap resamples and permutation tests.", min=0)] = 0

    def chosen_gold(self) -> GoldLabels:
        """The gold labels to score by."""
        from mbbq_gen.scoring.observations import GoldLabels

        return one_of("gold labels", self.gold, get_args(GoldLabels))

    def chosen_unparsed(self) -> UnparsedPolicy:
        """How unparsed responses count."""
        from mbbq_gen.scoring.cells import UnparsedPolicy

        return one_of("choice for --unparsed", self.unparsed, get_args(UnparsedPolicy))

    def sampling(self, runs: Sequence[Path] = (), variants: str = "fixed") -> InferenceSettings:
        """The settings of intervals and tests; wider intervals for runs with interim looks."""
        from mbbq_gen.runs.run_folder import RunFolder
        from mbbq_gen.runs.stopping_rule import sequential_inference

        folders = map(RunFolder, dict.fromkeys(runs))
        stops = [folder.manifest().adaptive for folder in folders if folder.manifest_path.is_file()]
        return sequential_inference(self.settings(variants), stops, say)

    def settings(self, variants: str) -> InferenceSettings:
        """The settings as given."""
        from mbbq_gen.statistics.estimate import InferenceSettings

        return InferenceSettings(
            self.confidence_level, self.n_resamples, self.seed, self.chosen_unparsed(), prompt_effects_of(variants)
        )


AverageChoice = Annotated[
    str,
    option(
        "Statistics",
        "What a score is the mean over: questions (large templates weigh more), templates (each alike) or "
        "random-effects (templates, weighted by how exactly each is known; narrower intervals).",
        "--average",
        metavar="TYPE",
    ),
]


@dataclass(frozen=True)
class ScoreOptions(InferenceOptions):
    """Options of scores that can be averaged over templates."""

    average: AverageChoice = "questions"
    unseen_deviation: Annotated[
        float,
        option(
            "Statistics",
            "How far the score of an unseen template may lie off, where few templates differ (0 to 2).",
            min=0,
        ),
    ] = 0.3
    unseen_stretch: Annotated[
        float, option("Statistics", "How much farther it may lie off near an end of the scale.", min=0)
    ] = 1.2

    def settings(self, variants: str) -> InferenceSettings:
        """The settings as given."""
        return replace(
            InferenceOptions.settings(self, variants),
            average=average_of(self.average),
            unseen_deviation=self.unseen_deviation,
            unseen_stretch=self.unseen_stretch,
        )


def average_of(name: str) -> Average:
    """The checked value of --average."""
    from mbbq_gen.scoring.codes import Average

    return one_of("average", name, get_args(Average))


def check_correction(correct_with: str | None, sampling: InferenceSettings) -> None:
    """Makes sure that scores can be corrected with these settings.

    Raises:
        UsageError: they can't.
    """
    option = f"--correct-with {correct_with}: corrected scores are"
    if correct_with is not None and sampling.prompt_effects == "random":
        raise UsageError(f"{option} for fixed prompt variants; leave --prompt-effects out")
    if correct_with is not None and sampling.average != "questions":
        raise UsageError(f"{option} means over questions; leave --average out")


def prompt_effects_of(variants: str) -> PromptEffects:
    """The checked value of --prompt-effects."""
    from mbbq_gen.scoring.codes import PromptEffects

    return one_of("choice for --prompt-effects", variants, get_args(PromptEffects))


def metrics_of(names: str) -> list[Metric]:
    """The metrics of a comma-separated list, or all."""
    from mbbq_gen.scoring.metrics import METRICS

    return (
        list(METRICS.values()) if names == "all" else [METRICS[name] for name in all_of("metric", names, list(METRICS))]
    )


def several(frame: polars.DataFrame, *groupings: str) -> list[str]:
    """The groupings that have several values in the table."""
    from mbbq_gen.scoring.tally import GROUPINGS

    return [name for name in groupings if frame[GROUPINGS[name]].n_unique() > 1]
