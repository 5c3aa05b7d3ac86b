"""Estimates, statuses, differences, designs, annotations and judges of runs as paragraphs and tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pydantic import JsonValue

from mbbq_gen.core.text import duration, shortened, whole_percent
from mbbq_gen.report.analysis_tables import deviations_text
from mbbq_gen.report.tables import DASH, OUTCOME_TITLES, Block, Table, percent
from mbbq_gen.runs.stopping_rule import target_line

if TYPE_CHECKING:
    from mbbq_gen.annotation.judge_report import Basis, JudgeReport
    from mbbq_gen.annotation.judge_runner import JudgeEstimate
    from mbbq_gen.annotation.review import AnnotationReport
    from mbbq_gen.core.records import Outcome
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


def cost_text(found: CostReport) -> str:
    """One line with the cost of a run, its tokens, the uncounted requests and the versions of the prices."""
    if found.total is None:
        known = f"{dollars(found.known)} and more" if found.known else "not known"
        return f"{known}: no price for every model (mbbq-gen status RUN --prices FILE gives one)"
    tokens_in, tokens_out = found.charged("input_tokens"), found.charged("output_tokens")
    text = f"{dollars(found.total)} for {tokens_in:,} tokens in, {tokens_out:,} out"
    if found.unmetered:
        most = "without" if found.unmetered_cost is None else f"and at most {dollars(found.unmetered_cost)} for"
        text += f", {most} {found.unmetered:,} requests whose tokens nobody counted"
    elif uncounted := found.charged("n_without_usage"):
        text += f", without {uncounted:,} answers whose tokens are not known"
    versions = sorted({line.price.version for line in found.lines if line.price is not None})
    return f"{text} (price of {', '.join(versions)})" if versions else text


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


def price_lines(tokens: TokenEstimate, cost: Cost | None, hours: float | None) -> Iterator[str]:
    """Tokens, price and duration of a planned run."""
    yield f"tokens in   {tokens.input_tokens:,.0f} (estimated from the characters, by script)"
    most = "" if tokens.most_output_tokens is None else f", at most {tokens.most_output_tokens:,.0f}"
    yield f"tokens out  {tokens.output_tokens:,.0f} ({tokens.outputs}{most})"
    if cost is not None:
        yield f"price       {dollars(cost.online)}, at most {dollars(cost.online_at_most)}"
        if cost.batch is not None:
            yield f"in batches  {dollars(cost.batch)}, at most {dollars(cost.batch_at_most)}"
    if hours is not None:
        yield f"time        {duration(3600 * hours)}, at the limits of requests and tokens"


def status_blocks(status: RunStatus) -> Iterator[Block]:
    """The status of a run: answers, failures, server, cost, rate, follow-ups, batches."""
    yield f"{status.run}: {status.model}"
    part = whole_percent(status.answered / max(1, status.requests))
    yield f"answered    {status.answered:,} of {status.requests:,} ({part})"
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
    if status.cost_report.lines:
        expected = status.expected_cost
        left = "" if expected is None else f"; {dollars(expected)} expected for the whole run"
        yield f"cost        {cost_text(status.cost_report)}{left}"
    if status.per_minute is not None:
        left = "" if status.seconds_left is None else f", {duration(status.seconds_left)} left"
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
        yield Table("", "name", "first", "second", rows=differing)
    else:
        yield "settings, model, versions, packs, questions and extractors are the same"
    yield f"\nPaired answers: {found.pairs:,}, by {', '.join(found.paired_by)}"
    yield f"only in the first run: {found.only_first:,}; only in the second: {found.only_second:,}"
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
            choices = (flip.first.replace("_", "-"), flip.second.replace("_", "-"))
            flips.add_row(*choices, flip.count, flip.reread, flip.examples[0][1])
        yield from ("", flips)
        yield "\nre-extracted: the same response to the same options; only its extraction differs."
        yield f"one of them: mbbq-gen explain {found.second.run} {found.flips[0].examples[0][1]}"


def _value(value: JsonValue) -> str:
    if value is None:
        return DASH
    if isinstance(value, list):
        return ", ".join(map(_value, value)) or DASH
    text = str(value)
    is_sha256 = len(text) == 64 and text.isalnum()
    return f"{text[:12]}…" if is_sha256 else shortened(text, 60)


def changes_table(changes: Iterable[ExtractionChange]) -> Table:
    """One row for each kind of change in a language, most frequent first."""
    rows = []
    for one in changes:
        now = ("another " if one.other_option else "") + OUTCOME_TITLES[one.new] if one.is_change else "the same"
        examples = ", ".join(one.examples[:2]) if one.is_change else ""
        rows.append((one.language, OUTCOME_TITLES[one.old], now, f"{one.count:,}", examples))
    return Table("language", "before", "now", "answers", "for example", rows=rows)


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


# --- annotations and judges ------------------------------------------------------------------------------------------

_MAX_LISTED = 40
_BASES: dict[Basis, str] = {
    "all": "of all answers of the run that have a text",
    "sample": "of a random sample within each language: representative of the run",
    "only": "of answers selected by their extraction: NOT representative of the run",
    "nothing": "of no answers: there is no reply yet",
}


def annotation_blocks(report: AnnotationReport) -> Iterator[Block]:
    """The share of correct extractions by language, and the wrong ones."""
    titles = ("annotated", "correct", "correct, of those annotated", "correct, in the run")
    shares = Table("language", "extractions", *titles)
    for rate in (*report.by_language, report.overall):
        n_correct = round((rate.judged.value or 0.0) * rate.judged.n)
        parts = (percent(rate.judged), percent(rate.weighted))
        shares.add_row(rate.group, rate.n_extractions, rate.judged.n, n_correct, *parts)
    yield shares
    covered = ""
    if report.coverage is not None:
        covered = f"; annotated strata hold {whole_percent(report.coverage)} of the run's extractions"
    yield (
        "\ncorrect: the extraction is what the response chooses. in the run: each annotation is weighted by the "
        f"extractions of its stratum ({', '.join(report.by) or 'one stratum'}) that it stands for{covered}. Intervals: "
        f"Wilson, {report.confidence_level:.0%}, on the effective number of annotations."
    )
    if not report.disagreements:
        return
    counts = [f"{kind.replace('_', ' ')}: {count}" for kind, count in report.mistakes.items() if count]
    title = f"extractions annotated as wrong ({'; '.join(counts)}), at most {_MAX_LISTED}; --json has all"
    wrong = Table("id", "language", "extracted", "rule", "correct", "note", title=title)
    for one in report.disagreements[:_MAX_LISTED]:
        right = "no option" if one.right is None else f"option {one.right + 1}"
        extracted = (_extraction_text(one.outcome, one.option), one.rule)
        wrong.add_row(one.prompt_id, one.language, *extracted, right, shortened(one.note, 60))
    yield wrong


def judge_estimate_blocks(found: JudgeEstimate) -> Iterator[Block]:
    """Requests, tokens and cost of a judge."""
    tokens = found.tokens
    yield f"{found.model}" + (f" at {found.base_url}" if found.base_url else "") + f", judge {found.judge!r}"
    yield f"prompt      version {found.prompt_version} (sha256 {found.prompt_sha256[:12]})"
    done = f", {found.answered:,} more have a reply already" if found.answered else ""
    yield f"{tokens.prompts:,} answers to judge, {tokens.requests:,} different requests{done}"
    yield from price_lines(tokens, found.cost, found.hours)
    yield from found.notes


def judge_report_blocks(report: JudgeReport) -> Iterator[Block]:
    """Agreement, accuracy by annotations, and the disagreements with their ids."""
    prompt = f"prompt version {report.prompt_version} (sha256 {report.prompt_sha256[:12]})"
    yield f"judge {report.judge!r}: {report.model}, {prompt}"
    failed = f", {report.failed:,} failed" if report.failed else ""
    cost = "" if report.cost is None else f", {dollars(report.cost)}"
    yield f"{report.answered:,} of {report.requests:,} requests answered{failed}{cost}"
    if unparsed := sum(report.faults.values()):
        why = ", ".join(f"{fault.replace('_', ' ')} {count:,}" for fault, count in report.faults.items())
        yield f"{unparsed:,} of {report.answers:,} answers unparsed by the judge ({why})"
    title = f"agreement with the rules, {_BASES[report.basis]}"
    agreement = Table("language", "answers", "unparsed", "same choice", "kappa", "templates", title=title)
    for row in report.agreement:
        shown = percent(row.equal_share)
        agreement.add_row(row.group, row.n, row.unparsed, shown, row.kappa, row.kappa.n_templates)
    yield agreement
    if report.annotated:
        title = "accuracy by annotations (mbbq-gen annotate), on the answers that both have"
        rows = ((one.group, one.judge.n, percent(one.judge), percent(one.rules)) for one in report.annotated)
        yield Table("language", "annotated", "judge correct", "rules correct", rows=rows, title=title)
    else:
        yield f"\nno annotations to evaluate this judge with yet: mbbq-gen annotate {report.run}"
    if report.differences:
        count = f"{len(report.differences):,} (at most {_MAX_LISTED} shown; --json has all)"
        yield f"\ndisagreements: {count}; see one with: mbbq-gen explain {report.run} ID\n"
        differing = Table("id", "language", "rules", "confidence", "rule", "judge")
        for one in report.differences[:_MAX_LISTED]:
            extracted = (_extraction_text(one.outcome, one.option), one.confidence, one.rule)
            judged = _extraction_text(one.judge_outcome, one.judge_option)
            differing.add_row(one.prompt_id, one.language, *extracted, judged)
        yield differing
    yield (
        f"\nThe rules' extractions are unchanged. The judge's are {report.extractor!r}:"
        f" mbbq-gen score {report.run} --extractor {report.extractor}"
    )


def _extraction_text(outcome: Outcome, option: int | None) -> str:
    return OUTCOME_TITLES[outcome] + ("" if option is None else f" {option + 1}")
