"""Estimates, statuses, differences and designs of runs as paragraphs and tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pydantic import JsonValue

from mbbq_gen.core.text import shortened, whole_percent
from mbbq_gen.report.analysis_tables import deviations_text
from mbbq_gen.report.tables import DASH, OUTCOME_TITLES, Block, Table, without_repeats
from mbbq_gen.runs.stopping_rule import target_line

if TYPE_CHECKING:
    from mbbq_gen.runs.budget import CostReport
    from mbbq_gen.runs.estimate import Cost, CostEstimate, TokenEstimate
    from mbbq_gen.runs.run_diff import RunDiff
    from mbbq_gen.runs.run_folder import Manifest
    from mbbq_gen.runs.setup import DesignReport
    from mbbq_gen.runs.status import RunStatus
    from mbbq_gen.storage.ledgers import Batch
    from mbbq_gen.storage.queries import ExtractionChange


def dollars(amount: float | None) -> str:
    """An amount of money, with more digits for small ones: `$12.40`, `$0.0031`; a dash for None."""
    if amount is None:
        return DASH
    if amount == 0 or amount >= 0.995:
        return f"${amount:,.2f}"
    return f"${amount:.4f}" if amount >= 0.0001 else "<$0.0001"


def hours(number: float) -> str:
    """A duration: `45 s`, `12 min`, `3.5 h`."""
    if number * 3600 < 90:
        return f"{number * 3600:.0f} s"
    return f"{number * 60:.0f} min" if number < 1.5 else f"{number:.1f} h"


def _tokens(number: float) -> str:
    """A number of tokens: `812`, `3,400`, `47.1 million`."""
    return f"{number / 1e6:,.1f} million" if number >= 1e6 else f"{number:,.0f}"


def cost_line(cost_report: CostReport) -> str:
    """The cost of a run with the versions of the prices, in one line."""
    if cost_report.total is None:
        known = f"{dollars(cost_report.known)} and more" if cost_report.known else "not known"
        return f"cost: {known}: no price for every model (--prices gives one)"
    versions = sorted({line.price.version for line in cost_report.lines if line.price is not None})
    uncounted = f", {left_out}" if (left_out := _uncounted(cost_report)) else ""
    priced = f" (price of {', '.join(versions)})" if versions else ""
    return f"cost: {dollars(cost_report.total)} for {_in_and_out(cost_report)}{uncounted}{priced}"


def _uncounted(cost_report: CostReport) -> str:
    """Requests and answers whose cost is not in the total; empty if there are none."""
    if cost_report.unmetered:
        requests = f"{cost_report.unmetered:,} requests whose tokens nobody counted"
        cost = cost_report.unmetered_cost
        return f"without {requests}" if cost is None else f"and at most {dollars(cost)} for {requests}"
    without = cost_report.n_without_usage
    return f"without {without:,} answers whose tokens are not known" if without else ""


def estimate_blocks(found: CostEstimate) -> Iterator[Block]:
    """Requests, tokens and cost of a planned run by language and variant."""
    tokens = found.tokens
    yield f"{found.model}" + (f" at {found.base_url}" if found.base_url else "")
    yield f"{tokens.questions:,} questions, {tokens.prompts:,} prompts, {tokens.requests:,} different requests"
    yield from price_lines(tokens, found.cost, found.hours)
    groups = Table("language", "variant", "reasoning effort", "method", "requests", "tokens in", "tokens out")
    for one in tokens.groups:
        counts = (one.requests, one.input_tokens, one.output_tokens)
        groups.add_row(one.language, one.variant, one.reasoning or DASH, one.method, *counts)
    yield from ("", groups)
    yield from ("", *found.notes)


def _in_and_out(tokens: TokenEstimate | CostReport) -> str:
    return f"{_tokens(tokens.input_tokens)} tokens in, {_tokens(tokens.output_tokens)} out"


def price_lines(tokens: TokenEstimate, cost: Cost | None, hours_left: float | None) -> Iterator[str]:
    """Tokens, price and duration of a planned run."""
    yield f"tokens in   {_tokens(tokens.input_tokens)} (estimated from the characters, by script)"
    most = "" if tokens.most_output_tokens is None else f", at most {_tokens(tokens.most_output_tokens)}"
    yield f"tokens out  {_tokens(tokens.output_tokens)} ({tokens.outputs}{most})"
    if cost is not None:
        for name, expected, most_cost in (
            ("price       ", cost.online, cost.online_at_most),
            ("in batches  ", cost.batch, cost.batch_at_most),
        ):
            if expected is not None:
                yield f"{name}{dollars(expected)}" + ("" if most_cost is None else f", at most {dollars(most_cost)}")
    if hours_left is not None:
        yield f"time        {hours(hours_left)}, at the limits of requests and tokens"


def status_blocks(status: RunStatus) -> Iterator[Block]:
    """The status of a run: answers, failures, server, cost, rate, follow-ups, batches."""
    yield f"{status.run}: {status.model}"
    yield f"answered    {_part(status.answered, status.requests)}"
    why = ", ".join(f"{kind} {number:,}" for kind, number in status.failures.items())
    for name, count in (
        ("in batches", status.in_batches),
        ("not sent", status.not_sent),
        ("failed", status.failed),
        ("content_filter", status.content_filter),
        ("truncated", status.truncated),
    ):
        if count:
            yield f"{name:<12}{count:,}" + (f" ({why})" if name == "failed" else "")
    for name, facts in (("server", status.serving.server), ("sampling", status.serving.sampling)):
        if facts:
            values = {key: "not known" if value is None else _value(value) for key, value in facts.items()}
            yield f"{name:<12}" + ", ".join(text if key == "name" else f"{key} {text}" for key, text in values.items())
    yield from _cost_blocks(status)
    if status.per_minute is not None:
        left = "" if status.seconds_left is None else f", {hours(status.seconds_left / 3600)} left"
        yield f"rate        {status.per_minute:,.0f} a minute{left}"
    if status.last_at is not None:
        yield f"last answer {status.last_at}" + ("" if status.is_running else " (not running)")
    if status.adaptive is not None:
        yield f"adaptive    {status.adaptive.sentence}"
        yield from (f"            {target_line(target)}" for target in status.adaptive.targets)
    if (found := status.follow_ups) is not None:
        replies = f"{found.read:,} read, {found.none:,} chose no option"
        yield f"follow-up   {found.answered:,} of {found.requests:,} answered, {replies}"
    if status.batches:
        yield from ("", *batch_blocks(status.batches))


def _part(count: int, whole: int, unit: str = "") -> str:
    return f"{count:,} of {whole:,}{unit} ({whole_percent(count / whole if whole else 0.0)})"


def _cost_blocks(status: RunStatus) -> Iterator[Block]:
    found = status.cost_report
    if not found.lines:
        return
    if status.cost is None:
        known = f"{dollars(found.known)} and more" if found.known else "unknown"
        yield f"cost        {known}: no price for every model; give it with --prices"
    else:
        left = "" if status.expected_cost is None else f", {dollars(status.expected_cost)} expected for the whole run"
        yield f"cost        {dollars(status.cost)}{left}"
    if left_out := _uncounted(found):
        yield f"            {left_out}"
    bills = Table("model", "sent", "responses", "tokens in", "tokens out", "cost", "price of")
    for line in found.lines:
        sent = "from the cache" if line.cached else "in batches" if line.batch else "online"
        version = None if line.price is None else line.price.version
        counts = (line.responses, line.input_tokens, line.output_tokens)
        bills.add_row(line.model or None, sent, *counts, dollars(line.cost), version)
    yield from ("", bills, "")


def batch_blocks(batches: Sequence[Batch]) -> Iterator[Block]:
    """The batches of a run."""
    if not batches:
        yield "no batches yet"
        return
    table = Table("batch", "state", "at the service", "requests", "done", "failed", "stored", "missing", "note")
    for batch in batches:
        counts = (batch.requests, batch.done, batch.failed, batch.answered, batch.missing)
        note = batch.reason or ("cancelled" if batch.cancelled else "")
        table.add_row(batch.name, batch.state, batch.service_state or None, *counts, note)
    yield table


def setting_facts(manifest: Manifest) -> list[tuple[str, str]]:
    """The names and values of a run's settings, without optional ones that have their defaults."""
    settings = manifest.config
    facts = {
        "prompt variants": ", ".join(dict.fromkeys((*settings.variants, *settings.scored_variants))),
        "option order": settings.option_order,
        "labels": ", ".join(settings.label_style),
        "seed": str(settings.seed),
        "reasoning effort": ", ".join(settings.reasoning_effort),
        "methods": "" if settings.method == ("generate",) else ", ".join(settings.method),
        "normalization": settings.normalization if settings.is_scored else "",
        "few-shot examples": str(settings.num_fewshot or ""),
        "language of the instructions": settings.instruction_language or "",
        "contexts": "left out" if settings.no_context else "",
    }
    return [(term, text) for term, text in facts.items() if text]


def difference_blocks(found: RunDiff) -> Iterator[Block]:
    """Differences of two runs: settings and files, changed answers."""
    for name, side in (("first", found.first), ("second", found.second)):
        left = side.requests - side.answered
        part = f", {left:,} requests without an answer" if left > 0 else ""
        answered = f"; answered as {shortened(', '.join(side.answering), 120)}" if side.answering else ""
        model = shortened(side.model, 120)
        yield f"{name}: {side.run}: {model}, {side.items:,} answers{part}, begun {side.created_at}{answered}"
    yield "\nWhat shaped the numbers\n"
    differing = [(one.area, shortened(one.name, 60), _value(one.first), _value(one.second)) for one in found.differing]
    if differing:
        yield Table("", "name", "first", "second", rows=without_repeats(differing, 1))
    else:
        yield "settings, model, versions, packs, questions and extractors are the same"
    yield f"\nPaired answers: {found.pairs:,}, by {', '.join(found.paired_by)}\n"
    for count, title in ((found.only_first, "first"), (found.only_second, "second")):
        if count:
            yield f"{count:>9,}  only in the {title} run"
    if not found.groups:
        yield "nothing is paired: there is nothing to compare"
        return
    changed = Table(*found.groups[0].group, "answers", "changed", "became correct", "became incorrect")
    for group in found.groups:
        changed.add_row(*group.group.values(), group.items, group.flipped, group.became_right, group.became_wrong)
    yield f"\nChanged answers: {found.flipped:,} of {found.pairs:,}\n"
    yield changed
    if found.flips:
        flips = Table("first", "second", "answers", "re-extracted", "for example")
        for flip in found.flips:
            flips.add_row(_outcome(flip.first), _outcome(flip.second), flip.count, flip.reread, flip.examples[0][1])
        yield from ("", flips)
        yield "\nre-extracted: the same response to the same options; only its extraction differs."
        yield f"one of them: mbbq-gen explain {found.second.run} {found.flips[0].examples[0][1]}"


def _outcome(name: str) -> str:
    return next((text for outcome, text in OUTCOME_TITLES.items() if outcome == name), name.replace("_", "-"))


def _value(value: JsonValue) -> str:
    if value is None:
        return DASH
    if isinstance(value, list):
        return ", ".join(map(_value, value)) or DASH
    text = str(value)
    is_sha256 = len(text) == 64 and text.isalnum()
    return f"{text[:12]}…" if is_sha256 else shortened(text, 60)


def changes_table(changes: Iterable[ExtractionChange]) -> Table:
    """One row for each kind of change in a language, most frequent first; equal extractions have one row each."""
    rows = []
    for one in changes:
        now = ("another " if one.other_option else "") + OUTCOME_TITLES[one.new] if one.is_change else "the same"
        examples = ", ".join(one.examples[:2]) if one.is_change else ""
        rows.append((one.language, OUTCOME_TITLES[one.old], now, f"{one.count:,}", examples))
    return Table("language", "before", "now", "answers", "for example", rows=without_repeats(rows, 1))


def design_blocks(found: DesignReport) -> Iterator[Block]:
    """The best design, the next best ones, and their assumptions."""
    languages, splits = ", ".join(found.languages), " and ".join(found.splits)
    yield f"{found.model}: {found.target}, {found.metric}; in {languages}; {splits} questions"
    yield (
        f"there are {found.templates} templates with {found.questions:,} questions that count for it,"
        f" {found.prompt_variants} prompt variants, {found.orders} option order{'s' if found.orders > 1 else ''}"
    )
    if found.request_cost is not None:
        yield f"a thousand requests cost {dollars(1000 * found.request_cost)} on average"
    named = [("best", found.best)] if found.best else []
    named += [("", other) for other in found.others] + [("everything", found.everything)]
    titles = ("", "templates", "answers each", "prompt variants", "of a question", "orders", "requests")
    designs = Table(*titles, "price", "in batches", "width")
    for name, one in named:
        sizes = (one.templates, one.answers, one.prompt_variants, one.prompt_variants_each, one.orders_each)
        designs.add_row(name, *sizes, one.requests, dollars(one.cost), dollars(one.batch_cost), f"{one.width:.3f}")
    yield from ("", designs)
    yield f"\nwidth: of the interval that `score --prompt-effects {found.speaks_of}` shows\n"
    if (design := found.as_run) is not None:
        metric = "" if found.metric == "mbbq_bias_ambiguous" else f" --metric {found.metric}"
        yield (
            f"ask it with: mbbq-gen run RUN … --answers-per-template {design.answers}{metric}"
            f"    ({design.requests:,} requests, width {design.width:.3f})"
        )
    yield from found.notes
    yield f"{deviations_text(found.components.assumptions)} ({found.components.assumptions.source})"
    question_share, source = found.components.question_share, found.components.question_source
    yield f"of an answer's variance, its question makes {whole_percent(question_share)} ({source})"
