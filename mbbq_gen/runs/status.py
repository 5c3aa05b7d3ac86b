"""Reports the status of a run from its folder: progress, failures, cost, time left."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Final, Literal

from mbbq_gen.core.records import FrozenModel
from mbbq_gen.providers.http.errors import failure_kind
from mbbq_gen.providers.prices import Price
from mbbq_gen.providers.registry import parse_name
from mbbq_gen.runs.budget import CostReport, cost_report
from mbbq_gen.runs.follow_up import FollowUpStatus, follow_up_status
from mbbq_gen.runs.run_folder import Manifest, Serving
from mbbq_gen.runs.stopping_rule import StoppingRecord
from mbbq_gen.storage.ledgers import Batch, BatchTable
from mbbq_gen.storage.queries import recorded_failures, response_times
from mbbq_gen.storage.store import RunStore

_WINDOW: Final = 300.0
"""Seconds before the last response over which the rate is computed."""
_ENOUGH: Final = 10
"""Fewest responses for a rate."""
_RECENT: Final = 120.0
"""Seconds without a response after which a run counts as inactive."""


class RunStatus(FrozenModel):
    """The status of a run."""

    schema_version: Literal["mbbq-gen.status/1"] = "mbbq-gen.status/1"
    run: str
    model: str
    requests: int
    answered: int
    failed: int
    not_sent: int
    in_batches: int
    failures: dict[str, int]
    """Kind of failure → number, most frequent first."""
    content_filter: int
    truncated: int
    cost_report: CostReport
    cost: float | None
    """In US dollars, of all responses so far; None if no price is known."""
    expected_cost: float | None
    """Of the whole run, if the remaining requests cost as much as those so far; None without prices or responses."""
    first_at: str | None
    last_at: str | None
    """The times of the first and the last response, ISO 8601, UTC."""
    per_minute: float | None
    """Recent responses per minute, outside of batches; None if there were too few."""
    is_running: bool
    seconds_left: float | None
    """Estimated seconds left outside of batches; None if the run is not active."""
    batches: tuple[Batch, ...]
    serving: Serving = Serving()
    follow_ups: FollowUpStatus | None = None
    """The follow-ups, which are included in the requests; None without any."""
    adaptive: StoppingRecord | None = None
    """Why an adaptive run stopped, with its targets; None until then, and for other runs."""


def run_status(
    store: RunStore,
    manifest: Manifest,
    path: str,
    user_prices: tuple[Price, ...],
    base_url: str | None,
    *,
    now: datetime | None = None,
) -> RunStatus:
    """The status of a run, which another process may be executing.

    `path`: the run folder as the user gave it; `user_prices`: of the user's file; `base_url`: the server, if any.
    """
    kind, model = parse_name(manifest.config.model)
    progress, ledger = store.progress(), BatchTable(store)
    if store.meta("planned") is None:  # the plan grows, or was interrupted
        progress = replace(progress, requests=max(progress.requests, manifest.counts.requests))
    batches = ledger.batches()
    held = sum(batch.requests for batch in batches if batch.is_open)
    bill = cost_report(store, kind, model, user_prices, base_url)
    first, last = response_times(store) or (None, None)
    seconds_since = (now or datetime.now(UTC)) - datetime.fromisoformat(last) if last else None
    recent, rate = seconds_since is not None and seconds_since.total_seconds() <= _RECENT, _rate(store)
    waiting, left = max(progress.pending - held, 0), progress.requests - progress.answered
    n_paid = bill.charged("responses")
    answers = store.query("SELECT finish_reason, count(*) FROM responses WHERE is_error = 0 GROUP BY 1")
    reasons, failures = dict(answers.fetchall()), Counter[str]()
    for error, count in recorded_failures(store).items():
        failures[failure_kind(error)] += count
    return RunStatus(
        run=path,
        model=manifest.config.model,
        **asdict(progress),
        not_sent=max(progress.pending - progress.failed - held, 0),
        in_batches=held,
        failures=dict(failures.most_common()),
        content_filter=reasons.get("content_filter", 0),
        truncated=reasons.get("length", 0),
        cost_report=bill,
        cost=bill.total,
        expected_cost=bill.total + bill.total / n_paid * left if bill.total is not None and n_paid else None,
        first_at=first,
        last_at=last,
        per_minute=None if rate is None else rate * 60,
        is_running=recent,
        seconds_left=waiting / rate if rate and recent and waiting else None,
        adaptive=manifest.adaptive,
        batches=tuple(batches),
        serving=manifest.serving,
        follow_ups=follow_up_status(store),
    )


def _rate(store: RunStore) -> float | None:
    """Recent responses per second outside of batches; None if there are too few."""
    alone = "FROM responses WHERE batch_id IS NULL AND NOT cached"
    first, last, count = store.query(
        f"SELECT min(received_at), max(received_at), count(*) {alone} AND received_at >="
        f" (SELECT strftime('%Y-%m-%dT%H:%M:%f', max(received_at), '-{_WINDOW} seconds') {alone})"
    ).fetchone()
    if not first or not last or count < _ENOUGH:
        return None
    seconds = (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds()
    return (count - 1) / seconds if seconds > 0 else None
