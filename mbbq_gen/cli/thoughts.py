"""`mbbq-gen thoughts`: what a model thought beside what it answered."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mbbq_gen.cli.option_groups import expand_options
from mbbq_gen.cli.options import Json, Packs, RunPath, example, resources, result_console, say, write_lines
from mbbq_gen.cli.statistics_options import MetricNames, ReaderChoice, StatisticsOptions, metrics_of
from mbbq_gen.errors import UsageError

DEFAULT_METRICS = (
    "mbbq_bias_ambiguous",
    "mbbq_bias_disambiguated",
    "accuracy_ambiguous",
    "accuracy_disambiguated",
)


@example("  mbbq-gen thoughts my-run\n  mbbq-gen thoughts my-run --by language,thinking,split --html thoughts.html")
@expand_options
def thoughts(
    run_path: RunPath,
    by: Annotated[
        str | None,
        typer.Option(
            help="Groupings, comma-separated, as for `score`; none: split, language and thinking.", metavar="…"
        ),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Also write the tables as a page.", metavar="FILE.html")] = None,
    metric: MetricNames = None,
    extractor: ReaderChoice = "engine",
    *,
    statistics: StatisticsOptions,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Shows what a model thought beside what it answered: does it correct itself, or turn to the stereotype?

    A thought is read as a text of its own: the option that it settles on, whether it says that the text doesn't tell,
    what it appeals to, and its language. By split, language and level of thinking: how often the answer is as thought,
    turned to unknown, to the stereotype or to the other person, and the scores of thoughts beside those of answers.
    """
    from mbbq_gen.cli.loading import read_before_use, reading_bar
    from mbbq_gen.report.thought_tables import print_thoughts, thoughts_page
    from mbbq_gen.runs.folder import RunFolder
    from mbbq_gen.runs.names import words
    from mbbq_gen.runs.thoughts import read_thoughts, thought_frames
    from mbbq_gen.statistics.thoughts import ThoughtTable, thought_groups

    folder, where, sampling = RunFolder(run_path), resources(packs), statistics.sampling([run_path])
    folder.require()
    manifest = folder.manifest()
    metrics = metrics_of(metric, DEFAULT_METRICS)
    extractors = read_before_use(folder, where, extractor)
    with reading_bar() as bar:
        version = read_thoughts(folder, where, bar.advance)
    with folder.open_store(read_only=True) as store:
        frames = thought_frames(store, version, extractors, manifest.settings.model, statistics.chosen_labels())
        pending = store.progress().pending
    if pending:
        say(f"{run_path}: {pending:,} requests have no answer yet: thoughts of a part")
    if not frames.facts["has_thought"].any():
        raise UsageError(
            f"{run_path}: no answer has a thought that is told; ask a model that thinks (run --reasoning …), one whose"
            " service shows what it thinks"
        )
    usual = ["split", "language", *(["thinking"] if frames.answers["thinking"].n_unique() > 1 else [])]
    groups = words(by) if by is not None else usual
    found = ThoughtTable(
        run=str(run_path),
        model=manifest.settings.model,
        version=version,
        interval=sampling.confidence,
        resamples=sampling.resamples,
        seed=sampling.seed,
        undetected=sampling.undetected,
        groups=tuple(thought_groups(frames, groups, metrics, sampling)),
    )
    if html is not None:
        write_lines(html, [thoughts_page(found)])
        say(f"written: {html}")
    if as_json:
        typer.echo(found.model_dump_json(indent=2))
    else:
        print_thoughts(found, result_console())
