"""Designs as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mbbq_gen.core.text import whole_percent
from mbbq_gen.report.analysis_tables import plain_table
from mbbq_gen.report.run_tables import dollars

if TYPE_CHECKING:
    from rich.console import Console

    from mbbq_gen.analysis.design import Components
    from mbbq_gen.runs.design_costs import DesignReport


def print_design(found: DesignReport, console: Console) -> None:
    """The best design, the next best ones, and what they stand on."""
    languages, splits = ", ".join(found.languages), " and ".join(found.splits)
    console.print(f"{found.model}: {found.target}, {found.metric}; in {languages}; {splits} questions")
    console.print(
        f"there are {found.templates} templates with {found.questions:,} questions that count for it,"
        f" {found.prompt_variants} wordings, {found.orders} option order{'s' if found.orders > 1 else ''}"
    )
    for price in found.prices:
        cost = "" if price.cost is None else f", {dollars(1000 * price.cost)} for a thousand"
        console.print(
            f"a request in {price.language}: {price.input_tokens:,.0f} tokens in, {price.output_tokens:,.0f} out{cost}"
        )
    console.print()
    named = [("best", found.best)] if found.best else []
    named += [("", other) for other in found.others] + [("everything", found.everything)]
    numbers = ("templates", "answers each", "wordings", "of a question", "orders", "requests", "price", "in batches")
    widths = ("width", "of this benchmark")
    table = plain_table(("", *numbers, *widths), right=(*numbers, *widths))
    for name, design in named:
        shape = (
            design.templates,
            design.answers,
            design.prompt_variants,
            design.prompt_variants_each,
            design.orders_each,
        )
        table.add_row(
            name,
            *(str(number) for number in shape),
            f"{design.requests:,}",
            dollars(design.cost),
            dollars(design.batch_cost),
            f"{design.width:.3f}",
            f"{design.within:.3f}",
        )
    console.print(table)
    about, command = "templates like these, in these wordings", "score"
    if found.speaks_of == "random":
        about, command = "templates and wordings like these", "score --prompt-effects random"
    console.print(f"\nwidth: of the interval about {about}, as `{command}` shows it;")
    console.print("of this benchmark: about what this benchmark would say if all of it were asked\n")
    for line in (*_how(found), *found.notes, *_components(found.components)):
        console.print(line)


def _how(found: DesignReport) -> list[str]:
    """How the best design is asked."""
    design = found.as_run
    if design is None:
        return []
    metric = "" if found.metric == "mbbq_bias_ambiguous" else f" --metric {found.metric}"
    return [
        f"ask it with: mbbq-gen run RUN … --answers-per-template {design.answers}{metric}"
        f"    ({design.requests:,} requests, width {design.width:.3f})"
    ]


def _components(components: Components) -> list[str]:
    sd = components.assumptions
    return [
        f"standard deviations: template {sd.template:.3f}, template × language {sd.template_language:.3f}, wording"
        f" {sd.prompt_variant:.3f}, template × wording {sd.template_prompt_variant:.3f}, language × wording"
        f" {sd.language_prompt_variant:.3f}, one answer {sd.answer:.3f} ({sd.source})",
        f"of an answer's variance, its question makes {whole_percent(components.question_share)}"
        f" ({components.question_source})",
    ]
