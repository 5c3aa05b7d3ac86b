"""Command `extract`: extracts answers from stored responses or JSON Lines; never calls a model."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from mbbq_gen.cli.config_options import WorkerOptions, expand_options
from mbbq_gen.cli.help import example, option
from mbbq_gen.cli.options import (
    Json,
    Packs,
    RunLanguages,
    echo,
    echo_json,
    open_lines,
    print_json,
    resources,
    say,
    show,
    write_lines,
)
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.progress import Bar
from mbbq_gen.core.text import all_of, one_of, words

if TYPE_CHECKING:
    from mbbq_gen.core.files import PackPaths
    from mbbq_gen.core.records import Outcome
    from mbbq_gen.runs.distributed.cluster import MapWorkers
    from mbbq_gen.storage.queries import ExtractionChange


@example(
    "  mbbq-gen extract my-run --only unparsed --languages nl,tr\n"
    "  mbbq-gen extract my-run --extractor first-label\n"
    "  mbbq-gen extract my-run --ray local --workers 8\n"
    "  mbbq-gen extract --jsonl answers.jsonl -o extracted.jsonl"
)
@expand_options
def extract(
    run_path: Annotated[Path | None, typer.Argument(metavar="RUN", help="Run folder.")] = None,
    jsonl: Annotated[
        Path | None,
        option(
            "What to extract",
            "Instead of a run: JSON Lines with id, language, options, labels and response; - reads stdin.",
            metavar="FILE",
        ),
    ] = None,
    only: Annotated[
        str | None,
        option(
            "What to extract",
            "Only responses of the run with these outcomes so far, comma-separated: option, abstention, refusal, "
            "multiple, truncated, empty, or unparsed (all that choose no option). Default: all.",
            metavar="NAME,…",
        ),
    ] = None,
    languages: RunLanguages = None,
    extractor: Annotated[
        str,
        option("Extraction", "Extractor: rules, or a simple one: strict-match, first-label, mbbq-like, answer-line."),
    ] = "rules",
    strict_languages: Annotated[
        bool,
        option(
            "Extraction", "With --jsonl: a language without a pack is an error, not a warning.", "--strict-languages"
        ),
    ] = False,
    *,
    output: Annotated[
        Path | None,
        option("Files", "File for the lines of --jsonl. Default: stdout.", "--output", "-o", metavar="FILE"),
    ] = None,
    packs: Packs = None,
    helping: WorkerOptions,
    as_json: Json = False,
) -> None:
    """Extracts the chosen option from stored responses.

    Reads the responses of a run again, with the current language packs, or those of any JSON Lines file. Each line of
    --jsonl is printed with outcome, option (an index into its options, or null), confidence, rule and spans added.
    Extractions of a run are stored next to earlier ones; responses never change. A table shows what changed from the
    previous version of the rules, or from the rules to a simple extractor.
    """
    from mbbq_gen.extraction.jsonl import extract_lines, extractor_names

    where, helpers = resources(packs), helping.helpers()
    reader = one_of("extractor", extractor, extractor_names())
    if (run_path is None) == (jsonl is None):
        raise UsageError("give a run folder or --jsonl FILE, one of them")
    if jsonl is not None:
        if only is not None or languages is not None:
            raise UsageError("--only and --languages select responses of a run; with --jsonl, select the lines")
        if helpers is not None:
            raise UsageError("--ray: --jsonl is extracted in this process; split the file, or leave --ray out")

        with Bar("reading", None, "answers", delay=1.0) as bar:
            rows = extract_lines(
                open_lines(jsonl), str(jsonl), resources=where, extractor=reader, strict_languages=strict_languages
            )
            lines = _written(rows, jsonl, bar, where)
            if output is None:
                for line in lines:
                    echo_json(line)
            else:
                write_lines(output, lines)
        return
    assert run_path is not None
    if output is not None:
        raise UsageError("--output is for --jsonl; the extractions of a run are stored in the run")
    _extract_run(run_path, where, reader, outcomes_of(only), languages, helpers=helpers, as_json=as_json)


def outcomes_of(only: str | None) -> list[Outcome]:
    """The outcomes of a list, where `unparsed` means all that choose no option."""
    from mbbq_gen.core.records import Outcome
    from mbbq_gen.runs.extraction import UNPARSED

    if only is None:
        return []
    known: list[Outcome] = list(get_args(Outcome))
    named = all_of("outcome", only, [*known, "unparsed"])
    chosen = {*named, *(UNPARSED if "unparsed" in named else ())}
    return [outcome for outcome in known if outcome in chosen]


# --- the answers of a run --------------------------------------------------------------------------------------------


def _extract_run(
    path: Path,
    where: PackPaths,
    extractor: str,
    only: list[Outcome],
    selected: str | None,
    *,
    helpers: MapWorkers | None,
    as_json: bool,
) -> None:
    from mbbq_gen.runs.extraction import extract_run, previous_extraction
    from mbbq_gen.runs.run_folder import RunFolder
    from mbbq_gen.storage.queries import extraction_changes

    folder = RunFolder(path)
    folder.require()
    count = 0
    with Bar("reading", None, "answers", delay=1.0) as bar, folder.locked(), folder.open_store() as store:

        def step(batch: int) -> None:
            nonlocal count
            count += batch
            bar.advance(batch)

        languages = store.languages()
        if selected and words(selected):
            languages = all_of("language of the run", selected, languages)
        versions = extract_run(store, where, step, extractor=extractor, languages=languages, only=only, helpers=helpers)

        found = {code: previous_extraction(store, code, version, where) for code, version in versions.items()}
        against = {code: version for code, version in found.items() if version is not None}

        changes = [
            change
            for code, old in against.items()
            for change in extraction_changes(store, code, old, versions[code], only or None)
        ]
    if as_json:
        print_json(
            {
                "run": str(path),
                "extractor": extractor,
                "read": count,
                "extractors": versions,
                "compared_with": against,
                "compared": sum(change.count for change in changes),
                "changed": sum(change.count for change in changes if change.is_change),
                "moving_scores": sum(change.count for change in changes if change.moves_scores),
                "outcomes": [change.model_dump() for change in changes],
            }
        )
    else:
        _show(extractor, count, against, changes)


def _show(extractor: str, count: int, against: dict[str, str], changes: list[ExtractionChange]) -> None:
    from mbbq_gen.report.run_tables import changes_table

    say(f"{count:,} responses extracted" if count else "all responses are already extracted with these packs")
    if not against:
        return
    compared = sum(change.count for change in changes)
    changed = sum(change.count for change in changes if change.is_change)
    moving = sum(change.count for change in changes if change.moves_scores)
    before = "the rules" if extractor != "rules" else "the previous version of the rules"
    echo(f"{changed:,} of {compared:,} extractions differ from {before}; {moving:,} change scores")
    if changed:
        show([changes_table(changes)])


# --- answers from anywhere -------------------------------------------------------------------------------------------


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
