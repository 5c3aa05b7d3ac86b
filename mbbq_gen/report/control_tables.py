"""Which questions have a control question and why the others have none, as a page."""

from __future__ import annotations

from collections.abc import Iterator

from mbbq_gen.benchmarks.control.maker import REASONS, ControlCoverage
from mbbq_gen.report.comparison_tables import TextTable, tables_page
from mbbq_gen.report.score_tables import share


def control_page(found: ControlCoverage, subject: str) -> str:
    """The counts and a question of each template as a page that holds all it needs.

    Args:
        found: what was counted.
        subject: the benchmark or file that the questions are of.

    Raises:
        MissingExtraError: where jinja2 is not installed.
    """
    return tables_page(
        f"Control questions: {subject}",
        control_tables(found),
        ["Control questions were made by substitution: two first names stand where the two groups stood."],
        f"{found.made:,} of {found.questions:,} questions have a control question",
    )


def control_tables(found: ControlCoverage) -> Iterator[TextTable]:
    """By category, by reason, by template, and samples."""
    parts = tuple(
        (part.language, part.category, f"{part.questions:,}", f"{part.made:,}", share(part.made / part.questions))
        for part in found.categories()
    )
    head = ("language", "category", "questions", "made", "share")
    yield TextTable("How many have one", head, parts, frozenset(head[2:]))
    reasons = tuple((reason, REASONS[reason], f"{count:,}") for reason, count in found.reasons.items())
    yield TextTable("Why the others have none", ("reason", "meaning", "questions"), reasons, frozenset({"questions"}))
    refusals = tuple(
        (part.language, part.template_id, part.reason, f"{part.questions:,}", f"{part.of:,}", part.what)
        for part in found.refusals()
    )
    columns = ("language", "template", "reason", "questions", "of", "failed at")
    yield TextTable("Left out, by template", columns, refusals, frozenset({"questions", "of"}))
    samples = tuple(
        (sample.key, f"{sample.context} {sample.question}", f"{sample.control_context} {sample.control_question}")
        for sample in found.samples()
    )
    yield TextTable("One of each template", ("question", "as published", "with names"), samples, frozenset())
