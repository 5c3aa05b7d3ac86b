"""`mbbq-gen extract`: reads answers; never asks a model."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from mbbq_gen.cli.option_groups import expand_options
from mbbq_gen.cli.options import (
    Json,
    Packs,
    example,
    open_lines,
    print_json,
    resources,
    result_console,
    say,
    write_lines,
)
from mbbq_gen.cli.spread_options import HelperOptions
from mbbq_gen.errors import UsageError
from mbbq_gen.runs.bars import Bar
from mbbq_gen.runs.names import all_of, one_of, words

if TYPE_CHECKING:
    from mbbq_gen.records import Outcome
    from mbbq_gen.resources import Resources
    from mbbq_gen.runs.lookup import Change
    from mbbq_gen.runs.spread.helpers import Helpers
    from mbbq_gen.runs.store import RunStore


@example(
    "  mbbq-gen extract my-run --only undetected --language nl,tr\n"
    "  mbbq-gen extract my-run --extractor first-letter\n"
    "  mbbq-gen extract my-run --on ray --workers 8\n"
    "  mbbq-gen extract --jsonl answers.jsonl -o read.jsonl"
)
@expand_options
def extract(
    run_path: Annotated[Path | None, typer.Argument(metavar="[RUN]", help="The run's folder.")] = None,
    jsonl: Annotated[
        Path | None,
        typer.Option(help="Instead of a run: lines with id, language, options, labels, response.", metavar="FILE"),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where the lines go; none: stdout.", metavar="FILE")
    ] = None,
    extractor: Annotated[
        str,
        typer.Option(
            help="Who reads: engine, or for comparison strict-letter, first-letter, mbbq-like, answer-form.",
            metavar="NAME",
        ),
    ] = "engine",
    only: Annotated[
        str | None,
        typer.Option(help="Only answers that were read as this before: undetected, or outcomes.", metavar="NAME,…"),
    ] = None,
    language: Annotated[str | None, typer.Option(help="Only these languages of the run.", metavar="XX,…")] = None,
    strict_languages: Annotated[
        bool,
        typer.Option(
            "--strict-languages", help="With --jsonl: a row in a language without a pack is an error, not a warning."
        ),
    ] = False,
    *,
    helping: HelperOptions,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Reads the chosen option out of answers: those of a run, with the packs of today, or any JSON Lines.

    Each line of --jsonl comes back with outcome, option (an index into its options, or null), confidence, rule and
    spans added. Readings of a run are stored beside earlier ones, the answers stay as they are, and a table says what
    changed: from the engine that read before to the engine of today, or from the engine to a simple reader.
    """
    from mbbq_gen.extraction.jsonl import extractor_names

    where, helpers = resources(packs), helping.helpers()
    reader = one_of("extractor", extractor, extractor_names())
    if (run_path is None) == (jsonl is None):
        raise UsageError("give a run folder or --jsonl FILE, one of them")
    if jsonl is not None:
        if only is not None or language is not None:
            raise UsageError("--only and --language choose among the answers of a run; with --jsonl, choose the lines")
        if helpers is not None:
            raise UsageError("--on: lines are read in this process; split the file, or leave --on out")
        _extract_lines(jsonl, output, where, reader, strict_languages)
        return
    assert run_path is not None
    if output is not None:
        raise UsageError("--output takes the lines of --jsonl; the readings of a run are kept in the run")
    _extract_run(run_path, where, reader, outcomes_of(only), language, helpers=helpers, as_json=as_json)


def outcomes_of(only: str | None) -> list[Outcome]:
    """The outcomes that a list names, `undetected` being all that choose no option; none where there is no list."""
    from mbbq_gen.records import Outcome
    from mbbq_gen.runs.reading import UNDETECTED

    if only is None:
        return []
    known: list[Outcome] = list(get_args(Outcome))
    named = all_of("outcome", only, [*known, "undetected"])
    chosen = {*named, *(UNDETECTED if "undetected" in named else ())}
    return [outcome for outcome in known if outcome in chosen]


# --- the answers of a run --------------------------------------------------------------------------------------------


def _extract_run(
    path: Path,
    where: Resources,
    extractor: str,
    only: list[Outcome],
    language: str | None,
    *,
    helpers: Helpers | None,
    as_json: bool,
) -> None:
    from mbbq_gen.runs.folder import RunFolder
    from mbbq_gen.runs.reading import read_run

    folder = RunFolder(path)
    folder.require()
    count = 0
    with Bar("reading", None, "answers", delay=1.0) as bar, folder.locked(), folder.open_store() as store:

        def step(batch: int) -> None:
            nonlocal count
            count += batch
            bar.advance(batch)

        languages = languages_of(store, language)
        versions = read_run(store, where, step, extractor=extractor, languages=languages, only=only, helpers=helpers)
        against = _versions_before(store, versions, where)
        changes = _changes(store, versions, against, only)
    if as_json:
        print_json(_summary(path, extractor, versions, against, count, changes))
    else:
        _show(extractor, count, against, changes)


def languages_of(store: RunStore, text: str | None) -> list[str]:
    """The languages of a run, or those of them that a comma-separated list names."""
    return all_of("language of the run", text, store.languages()) if text and words(text) else store.languages()


def _versions_before(store: RunStore, versions: dict[str, str], where: Resources) -> dict[str, str]:
    """The version that each language's readings are compared with, where there is one."""
    from mbbq_gen.runs.reading import reading_before

    found = {code: reading_before(store, code, version, where) for code, version in versions.items()}
    return {code: version for code, version in found.items() if version is not None}


def _changes(
    store: RunStore, versions: dict[str, str], against: dict[str, str], only: Sequence[Outcome]
) -> list[Change]:
    from mbbq_gen.runs.lookup import reading_changes

    return [
        change
        for code, old in against.items()
        for change in reading_changes(store, code, old, versions[code], only or None)
    ]


def _summary(
    path: Path, extractor: str, versions: dict[str, str], against: dict[str, str], count: int, changes: list[Change]
) -> dict[str, Any]:
    return {
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


def _show(extractor: str, count: int, against: dict[str, str], changes: list[Change]) -> None:
    from mbbq_gen.report.reading_changes import changes_table

    say(f"{count:,} answers read" if count else "every answer has been read with these packs already")
    if not against:
        return
    compared = sum(change.count for change in changes)
    changed = sum(change.count for change in changes if change.is_change)
    moving = sum(change.count for change in changes if change.moves_scores)
    before = "the engine" if extractor != "engine" else "the engine that read before"
    typer.echo(f"{changed:,} of {compared:,} answers are read otherwise than by {before}; {moving:,} choose otherwise")
    if changed:
        result_console().print(changes_table(changes))


# --- answers from anywhere -------------------------------------------------------------------------------------------


def _extract_lines(path: Path, output: Path | None, where: Resources, extractor: str, strict_languages: bool) -> None:
    from mbbq_gen.extraction.jsonl import extract_lines

    with open_lines(path) as stream, Bar("reading", None, "answers", delay=1.0) as bar:
        rows = extract_lines(stream, str(path), resources=where, extractor=extractor, strict_languages=strict_languages)
        lines = _written(rows, path, bar, where)
        if output is None:
            for line in lines:
                typer.echo(line)
        else:
            write_lines(output, lines)


def _written(lines: Iterable[dict[str, Any]], path: Path, bar: Bar, where: Resources) -> Iterator[str]:
    """The lines as JSON, counted; says at the end which languages were read without their words, or that none came."""
    from mbbq_gen.extraction import has_pack

    counts: Counter[str] = Counter()
    for line in lines:
        bar.advance()
        counts[line["language"]] += 1
        yield json.dumps(line, ensure_ascii=False)
    if not counts:
        say(f"{path}: no line with an answer in it: nothing was read")
    without = [f"{language} ({count:,})" for language, count in sorted(counts.items()) if not has_pack(language, where)]
    if without:
        say(
            f"warning: no pack for {', '.join(without)}: read by labels, option texts and structures alone; "
            "docs/extraction.md tells how to add one"
        )
