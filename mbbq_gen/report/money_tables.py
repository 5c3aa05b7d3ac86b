"""Plans and states of runs as text for a terminal: requests, tokens, money, time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mbbq_gen.report.statistics_tables import plain_table
from mbbq_gen.report.tables import DASH

if TYPE_CHECKING:
    from rich.console import Console

    from mbbq_gen.runs.estimate import Cost, Duration, TokenEstimate
    from mbbq_gen.runs.forecast import Forecast, SampleForecast
    from mbbq_gen.runs.judging.standing import JudgeLine
    from mbbq_gen.runs.money import Bill
    from mbbq_gen.runs.probe import Probe
    from mbbq_gen.runs.spread.pool import SpreadStatus
    from mbbq_gen.runs.status import BatchLine, RunStatus


def dollars(amount: float | None) -> str:
    """An amount of money, with more digits the smaller it is: `$12.40`, `$0.0031`, or a dash."""
    if amount is None:
        return DASH
    if amount == 0 or amount >= 0.995:
        return f"${amount:,.2f}"
    return f"${amount:.4f}" if amount >= 0.0001 else "<$0.0001"


def hours(number: float) -> str:
    """A time in words: `45 s`, `12 min`, `3.5 h`."""
    if number * 3600 < 90:
        return f"{number * 3600:.0f} s"
    return f"{number * 60:.0f} min" if number < 1.5 else f"{number:.1f} h"


def _tokens(number: float) -> str:
    """Tokens in words: `812`, `3,400`, `47.1 million`."""
    return f"{number / 1e6:,.1f} million" if number >= 1e6 else f"{number:,.0f}"


def cost_line(bill: Bill) -> str:
    """What a run has cost, in a line, with the versions of the prices."""
    versions = sorted({line.price.version for line in bill.lines if line.price is not None})
    if bill.total is None:
        known = f"{dollars(bill.known)} and more" if bill.known else "not known"
        return f"cost: {known}: no price for every model (--price-file gives one)"
    uncounted = f", {left_out}" if (left_out := _uncounted(bill)) else ""
    tokens = f"{_tokens(bill.input_tokens)} tokens in, {_tokens(bill.output_tokens)} out"
    priced = f" (price of {', '.join(versions)})" if versions else ""
    return f"cost: {dollars(bill.total)} for {tokens}{uncounted}{priced}"


def _uncounted(bill: Bill) -> str | None:
    """What a bill's total leaves out, or None."""
    if bill.uncounted:
        requests = f"{bill.uncounted:,} requests whose tokens nobody counted"
        cost = bill.uncounted_cost
        return f"without {requests}" if cost is None else f"and at most {dollars(cost)} for {requests}"
    return f"without {bill.without_usage:,} answers whose tokens are not known" if bill.without_usage else None


def print_forecast(found: Forecast, console: Console) -> None:
    """What a run would take and cost, by language and wording, then what smaller ones would."""
    tokens = found.tokens
    console.print(f"{found.model}" + (f" at {found.base_url}" if found.base_url else ""))
    console.print(
        f"{tokens.questions:,} questions, {tokens.presentations:,} presentations,"
        f" {tokens.requests:,} different requests"
    )
    print_price(tokens, found.cost, found.duration, console)
    if found.probe is not None:
        console.print(probe_line(found.probe))
    if found.judge is not None:
        read = found.judge.tokens
        console.print(
            f"judge       {found.judge.model}: at most {read.requests:,} requests, {_tokens(read.input_tokens)} tokens"
            f" in, {_tokens(read.output_tokens)} out"
            + ("" if found.judge.cost is None else f", {dollars(found.judge.cost.online)} on top")
        )
    console.print()
    ways = ["asked by"] if any(group.method != "generate" for group in tokens.groups) else []
    levels = ["thinking"] if any(group.reasoning for group in tokens.groups) else []
    amounts = ("requests", "tokens in", "tokens out")
    table = plain_table(("language", "wording", *levels, *ways, *amounts), right=amounts)
    for group in tokens.groups:
        numbers = (group.requests, group.input_tokens, group.output_tokens)
        way = [*([group.reasoning or DASH] if levels else []), *([group.method] if ways else [])]
        table.add_row(group.language, group.variant, *way, *(f"{number:,}" for number in numbers))
    console.print(table)
    _print_samples(found.samples, console)
    console.print()
    for note in found.notes:
        console.print(note)


def probe_line(probe: Probe) -> str:
    """What a model on this machine would take, by a few questions that it was asked."""
    return (
        f"time        {hours(probe.hours)} on this machine, by {probe.questions} answers in {probe.seconds:.1f} s"
        f" ({probe.questions / probe.seconds:.2g} a second), and {probe.loading_seconds:.0f} s to load the model;"
        " asked all at once, questions that begin alike take less"
    )


def print_price(tokens: TokenEstimate, cost: Cost | None, duration: Duration | None, console: Console) -> None:
    """Tokens, money and time of what would be asked."""
    console.print(f"tokens in   {_tokens(tokens.input_tokens)} ({tokens.tokenizer})")
    most = "" if tokens.most_output_tokens is None else f", at most {_tokens(tokens.most_output_tokens)}"
    console.print(f"tokens out  {_tokens(tokens.output_tokens)} ({tokens.outputs}{most})")
    if cost is not None:
        _print_cost(cost, console)
    if duration is not None:
        console.print(f"time        {hours(duration.hours)}, by {duration.limit}")


def _print_cost(cost: Cost, console: Console) -> None:
    for name, usual, most in (
        ("price       ", cost.online, cost.online_at_most),
        ("in batches  ", cost.batch, cost.batch_at_most),
    ):
        if usual is not None:
            console.print(f"{name}{dollars(usual)}" + ("" if most is None else f", at most {dollars(most)}"))


def _print_samples(samples: tuple[SampleForecast, ...], console: Console) -> None:
    if not samples:
        return
    console.print("\nwhat a balanced sample (--sample N) would cost and tell\n")
    columns = ("benchmark", "N", "requests", "price", "in batches", "a score ±", "two languages ±", "two wordings ±")
    table = plain_table(columns, right=columns[1:])
    for sample in samples:
        widths = sample.half_widths
        shown = (
            [DASH] * 3
            if widths is None
            else [f"{widths[name]:.3f}" for name in ("one score against 0", "two languages", "two wordings")]
        )
        price, batch = (None, None) if sample.cost is None else (sample.cost.online, sample.cost.batch)
        size = f"{sample.questions:,}" + (" (all)" if sample.is_all else "")
        table.add_row(sample.benchmark, size, f"{sample.requests:,}", dollars(price), dollars(batch), *shown)
    console.print(table)
    console.print(
        "\nN: questions for each language and split. ±: half of a 95% interval of the bias in ambiguous contexts, and"
        " of its difference between two languages or wordings, as `mbbq-gen power` computes them."
    )


def print_status(status: RunStatus, console: Console) -> None:
    """How a run stands: done, failed, money, time, batches."""
    share = status.answered / status.requests if status.requests else 0.0
    console.print(f"{status.run}: {status.model}")
    console.print(f"answered    {status.answered:,} of {status.requests:,} ({share:.0%})")
    for name, count in (
        ("in batches", status.in_batches),
        ("not asked", status.never_asked),
        ("failed", status.failed),
        ("filtered", status.filtered),
        ("truncated", status.truncated),
    ):
        if count:
            why = ", ".join(f"{kind} {number:,}" for kind, number in status.failures.items())
            console.print(f"{name:<12}{count:,}" + (f" ({why})" if name == "failed" else ""))
    _print_bill(status, console)
    if status.per_minute is not None:
        left = "" if status.seconds_left is None else f", {hours(status.seconds_left / 3600)} left"
        console.print(f"rate        {status.per_minute:,.0f} a minute{left}")
    if status.last_at is not None:
        console.print(f"last answer {status.last_at}" + ("" if status.is_asked else " (nothing is being asked now)"))
    if status.spread is not None:
        _print_workers(status.spread, console)
    for judge in status.judges:
        console.print(_judge_line(judge))
    if status.batches:
        console.print()
        print_batches(status.batches, console)


def _print_workers(spread: SpreadStatus, console: Console) -> None:
    """How the workers of a run stand."""
    again = f", {spread.blocks_asked_again:,} blocks asked again" if spread.blocks_asked_again else ""
    console.print(f"workers     {len(spread.workers)} by --on {spread.on}; {spread.lost} died and were replaced{again}")
    for line in spread.workers:
        rate = DASH if line.per_minute is None else f"{line.per_minute:,.0f} a minute"
        deaths = f", died {line.deaths} times" if line.deaths else ""
        console.print(f"  {line.number:<10}{line.answered:,} answers in {line.blocks:,} blocks, {rate}{deaths}")


def _judge_line(line: JudgeLine) -> str:
    """How a judge of a run stands."""
    share = line.answered / line.requests if line.requests else 0.0
    parts = [f"{line.answered:,} of {line.requests:,} answered ({share:.0%})"]
    parts += [f"{line.failed:,} failed"] if line.failed else []
    parts += [f"{line.unread:,} answers unread by it"] if line.unread else []
    parts += [dollars(line.cost)] if line.cost is not None else []
    return f"judge       {line.name} ({line.model}): {', '.join(parts)}"


def _print_bill(status: RunStatus, console: Console) -> None:
    if not status.bill.lines:
        return
    if status.cost is None:
        known = f"{dollars(status.bill.known)} and more" if status.bill.known else "unknown"
        console.print(f"cost        {known}: no price for every model; give it with --price-file")
    else:
        left = "" if status.expected_cost is None else f", {dollars(status.expected_cost)} expected for the whole run"
        console.print(f"cost        {dollars(status.cost)}{left}")
    if left_out := _uncounted(status.bill):
        console.print(f"            {left_out}")
    columns = ("model", "asked", "responses", "tokens in", "tokens out", "cost", "price of")
    table = plain_table(columns, right=columns[2:6])
    for line in status.bill.lines:
        way = "from the cache" if line.from_cache else "in batches" if line.batch else "one by one"
        numbers = (line.responses, line.input_tokens, line.output_tokens)
        version = DASH if line.price is None else line.price.version
        table.add_row(line.model or DASH, way, *(f"{number:,}" for number in numbers), dollars(line.cost), version)
    console.print()
    console.print(table)
    console.print()


def print_batches(batches: Sequence[BatchLine], console: Console) -> None:
    """The batches of a run."""
    if not batches:
        console.print("no batches yet")
        return
    columns = ("batch", "state", "at the service", "requests", "done", "failed", "stored", "missing", "note")
    table = plain_table(columns, right=columns[3:8])
    for batch in batches:
        counts = (batch.done, batch.failed, batch.answered, batch.missing)
        note = batch.reason or ("cancelled" if batch.cancelled else "")
        shown = (DASH if count is None else f"{count:,}" for count in counts)
        table.add_row(batch.name, batch.state, batch.service_state or DASH, f"{batch.requests:,}", *shown, note)
    console.print(table)
