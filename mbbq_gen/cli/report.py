"""`mbbq-gen report`: the result of a run, for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mbbq_gen.cli.options import Packs, RunPath, example, resources, result_console

if TYPE_CHECKING:
    from mbbq_gen.resources import Resources
    from mbbq_gen.runs.folder import Manifest, RunFolder


@example("  mbbq-gen report my-run")
def report(run_path: RunPath, packs: Packs = None) -> None:
    """Shows a run's result: who was asked what, how the answers were read, accuracy and bias by language."""
    from mbbq_gen.runs.folder import RunFolder

    folder = RunFolder(run_path)
    folder.require()
    show_report(folder, resources(packs))


def show_report(folder: RunFolder, where: Resources) -> None:
    """Prints the report of a run on stdout."""
    from mbbq_gen.cli.loading import run_frame
    from mbbq_gen.report.money_tables import cost_line
    from mbbq_gen.report.tables import SUMMARY_METRICS, Notes, outcome_table, summary_table
    from mbbq_gen.scoring import score

    manifest = folder.manifest()
    frame, progress = run_frame(folder, manifest, where)
    by = (["benchmark"] if len(manifest.settings.benchmarks) > 1 else []) + ["language", "split"]
    scores = score(frame, by, SUMMARY_METRICS)
    console = result_console()
    for line in _heading(manifest):
        console.print(line)
    if progress.pending:
        console.print(f"{progress.pending:,} of {progress.requests:,} requests have no answer yet: this is a part")
    console.print()
    notes = Notes(scores)
    console.print(summary_table(scores, notes, console.width))
    console.print("\nHow the answers were read\n")
    console.print(outcome_table(scores))
    console.print(
        "\nitems: presentations asked. read: an answer could be read. bias: above 0 leans to the stereotype, below 0 "
        "against it, with a 95% bootstrap interval over templates. control: the same questions with first names."
    )
    for line in [*notes.lines(), *manifest.notices]:
        console.print(line)
    if manifest.bill is not None:
        console.print(cost_line(manifest.bill))
    console.print(f"\nrun folder: {folder.path}    more: mbbq-gen score {folder.path} --by language,category --json")


def _heading(manifest: Manifest) -> list[str]:
    """Who was asked what, with which settings."""
    settings, total = manifest.settings, sum(manifest.available.values())
    part = "all" if manifest.counts.instances == total else f"{manifest.counts.instances:,} of"
    names = ", ".join(choice.name for choice in settings.benchmarks)
    facts = [
        f"wordings: {', '.join(settings.variants)}",
        f"option order: {settings.order}",
        f"labels: {', '.join(settings.label_styles)}",
        f"seed: {settings.seed}",
    ]
    if settings.shots:
        facts.append(f"{settings.shots} solved examples")
    if settings.instruction_language:
        facts.append(f"instructions in {settings.instruction_language}")
    if settings.question_only:
        facts.append("questions without their contexts")
    return [
        f"{settings.model} on {names}: {part} {total:,} questions, {manifest.counts.presentations:,} presentations",
        "; ".join(facts),
    ]
