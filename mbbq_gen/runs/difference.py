"""What differs between two runs: settings, packs, models, questions, scores, and the items whose answer flipped.

Items are paired as closely as they can be: those that sent the same messages first, then those that show the same
question in the same wording and order, and so on (`Matched`). Scores are compared over the paired items alone, so that
a change is the model's (or the reader's) and not that of another sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from mbbq_gen.extraction.jsonl import ENGINE
from mbbq_gen.records import DETECTED
from mbbq_gen.resources import Resources
from mbbq_gen.runs.difference_table import (
    Answering,
    Area,
    Differing,
    Flip,
    FlipExample,
    GroupChange,
    Matched,
    MetricChange,
    RunDifference,
    Side,
    Tier,
)
from mbbq_gen.runs.folder import Manifest, RunFolder
from mbbq_gen.runs.frames import read_before_use, read_scores_before_use
from mbbq_gen.runs.items import ItemChoice, item_batches
from mbbq_gen.scoring import METRICS, Labels, Metric
from mbbq_gen.scoring.observations import Observation
from mbbq_gen.scoring.weights import alike, weighted_by_design
from mbbq_gen.statistics.panel import Panel, Sampling, make_panel
from mbbq_gen.statistics.significance import TestResult, benjamini_hochberg
from mbbq_gen.statistics.zero_tests import is_zero

if TYPE_CHECKING:
    import polars

DEFAULT_METRICS: Final = (
    "detection_rate",
    "accuracy_ambiguous",
    "accuracy_disambiguated",
    "mbbq_bias_ambiguous",
    "mbbq_bias_disambiguated",
)
GROUP: Final = ("benchmark", "language", "split", "method")
"""What answers are paired within, and scored by; the way of asking is named where it is not words alone."""
_TIERS: Final[dict[Tier, tuple[str, ...]]] = {
    "same_request": ("presentation_id",),
    "same_presentation": ("instance_key", "method", "thinking", "variant", "label_style", "places"),
    "same_wording": ("instance_key", "method", "thinking", "variant"),
    "same_question": ("instance_key", "method"),
}
_FIRST, _SECOND = "first", "second"


@dataclass(frozen=True)
class Choice:
    """How two runs are compared."""

    metrics: tuple[str, ...] = DEFAULT_METRICS
    labels: Labels = "published"
    extractor: str = ENGINE
    sampling: Sampling = field(default_factory=Sampling)
    examples: int = 3
    """Examples of each kind of flip."""
    step: Callable[[int], None] = lambda _: None
    """Hears of each batch of items that is read."""


@dataclass(frozen=True)
class _Loaded:
    """One of the two runs, with what is compared."""

    side: Side
    manifest: Manifest
    extractors: dict[str, str]
    items: polars.DataFrame
    in_rounds: bool
    """Whether templates count alike, however much they were asked."""


def compare_runs(first: RunFolder, second: RunFolder, where: Resources, choice: Choice) -> RunDifference:
    """What differs between two runs; answers that are unread are read first.

    Raises:
        UsageError: where one of them is no run.
        UnknownNameError: for an extractor that has read nothing.
    """
    before, after = (_load(folder, name, where, choice) for folder, name in ((first, _FIRST), (second, _SECOND)))
    pairs, matched = _paired(before.items, after.items)
    return RunDifference(
        first=before.side,
        second=after.side,
        differing=tuple(_differing(before, after)),
        matched=matched,
        flipped=int(pairs["flipped"].sum()),
        flips=tuple(_flips(pairs, choice.examples)),
        groups=tuple(_group_changes(before, after, pairs, choice)),
        labels=choice.labels,
        undetected=choice.sampling.undetected,
        interval=choice.sampling.confidence,
        resamples=choice.sampling.resamples,
        seed=choice.sampling.seed,
    )


def _load(folder: RunFolder, name: str, where: Resources, choice: Choice) -> _Loaded:
    folder.require()
    manifest = folder.manifest()
    extractors = read_before_use(folder, where, choice.extractor)
    scored = read_scores_before_use(folder)
    with folder.open_store(read_only=True) as store:
        progress, in_rounds = store.progress(), store.is_in_rounds
        batches = item_batches(store, ItemChoice(extractors, name, choice.labels, scored=scored))
        items = _slim(batches, choice.step)
        answering = tuple(
            Answering(model=model, fingerprint=mark, responses=count)
            for model, mark, count in store.query(
                "SELECT json_extract(record, '$.model'), json_extract(record, '$.fingerprint'), count(*)"
                " FROM responses WHERE is_error = 0 GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2"
            )
        )
    side = Side(
        run=str(folder.path),
        model=manifest.settings.model,
        created_at=manifest.created_at,
        requests=progress.requests,
        answered=progress.answered,
        items=items.height,
        answering=answering,
    )
    return _Loaded(side, manifest, extractors, items, in_rounds)


def _slim(batches: Iterator[polars.DataFrame], step: Callable[[int], None]) -> polars.DataFrame:
    """The items with what pairing and scoring need: of the response, only a mark that tells whether it is the same."""
    import polars as pl

    from mbbq_gen.runs.items import item_schema

    kept = ("presentation_id", "instance_key", *Observation._fields)
    places = pl.col("shown_order").cast(pl.List(pl.String)).list.join(",").alias("places")
    answer = (
        pl.when(pl.col("outcome") == "option")
        .then(pl.col("chosen_role").cast(pl.String).fill_null("person"))
        .otherwise(pl.col("outcome").cast(pl.String))
        .alias("answer")
    )
    chosen = pl.when(pl.col("outcome").cast(pl.String).is_in(sorted(DETECTED))).then(pl.col("chosen_index"))
    columns = (*kept, places, answer, chosen.alias("chosen"), pl.col("response").hash().alias("mark"))
    parts = [pl.DataFrame(schema=item_schema()).select(columns)]
    for batch in batches:
        parts.append(batch.select(columns))
        step(batch.height)
    return pl.concat(parts)


# --- what shaped the numbers -----------------------------------------------------------------------------------------


def _differing(before: _Loaded, after: _Loaded) -> Iterator[Differing]:
    """Everything that is not the same, by area."""
    areas = zip(_shaping(before).items(), _shaping(after).values(), strict=True)
    for (area, ours), theirs in areas:
        for name in sorted({*ours, *theirs}):
            if ours.get(name) != theirs.get(name):
                yield Differing(area=area, name=name, first=ours.get(name), second=theirs.get(name))


def _shaping(loaded: _Loaded) -> dict[Area, dict[str, JsonValue]]:
    manifest = loaded.manifest
    settings = manifest.settings.model_dump(mode="json")
    settings["benchmarks"] = [choice["name"] for choice in settings["benchmarks"]]
    return {
        "settings": _flat(settings),
        "model": _flat({**manifest.provider_settings, **manifest.provider_facts}),
        "versions": {
            "mbbq_gen": manifest.mbbq_gen,
            "git_revision": manifest.git_revision,
            "python": manifest.python,
        },
        "packs": dict(manifest.packs),
        "questions": dict(manifest.data),
        "files": dict(manifest.files),
        "extractors": dict(loaded.extractors),
    }


def _flat(values: Mapping[str, JsonValue], above: str = "") -> dict[str, JsonValue]:
    """The values with tables within them put into their names: `model_options.temperature`."""
    found: dict[str, JsonValue] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{above}{name}.")
        else:
            found[f"{above}{name}"] = value
    return found


# --- pairs -----------------------------------------------------------------------------------------------------------


def _paired(before: polars.DataFrame, after: polars.DataFrame) -> tuple[polars.DataFrame, Matched]:
    """The pairs, each a row with the columns of both (the second's end in `_after`), and how they were found."""
    import polars as pl

    names = ["presentation_id", "instance_key", "thinking", "variant", "label_style", "places", *GROUP]
    names += ["answer", "chosen", "correct", "mark"]
    text = pl.col("thinking", "variant", "label_style", *GROUP).cast(pl.String).fill_null("")
    ours, theirs = (frame.select(names).with_columns(text) for frame in (before, after))
    found: list[polars.DataFrame] = []
    counts: dict[Tier, int] = {}
    for tier, keys in _TIERS.items():
        pairs = _join(ours, theirs, keys)
        found.append(pairs)
        counts[tier] = pairs.height
        ours = ours.join(pairs, on="presentation_id", how="anti")
        theirs = theirs.join(pairs, left_on="presentation_id", right_on="presentation_id_after", how="anti")
    pairs = pl.concat(found).with_columns(flipped=pl.col("chosen").ne_missing(pl.col("chosen_after")))
    return pairs, Matched(**counts, only_first=ours.height, only_second=theirs.height)


def _join(ours: polars.DataFrame, theirs: polars.DataFrame, keys: Sequence[str]) -> polars.DataFrame:
    """The rows with the same keys; only where each side has one such row."""
    import polars as pl

    once = pl.len().over(keys) == 1
    names = [f"{name}_after" for name in ours.columns]
    renamed = theirs.filter(once).rename(dict(zip(ours.columns, names, strict=True)))
    joined = ours.filter(once).join(
        renamed, left_on=keys, right_on=[f"{key}_after" for key in keys], how="inner", coalesce=False
    )
    return joined.select(*ours.columns, *names)


def _flips(pairs: polars.DataFrame, examples: int) -> Iterator[Flip]:
    """The pairs with another answer, counted by from and to, most frequent first."""
    import polars as pl

    same = ("mark", "places", "label_style", "instance_key")
    alike = pl.all_horizontal(pl.col(name).eq_missing(pl.col(f"{name}_after")) for name in same)
    reread = alike & (pl.col("method") == "generate")  # of likelihoods, no mark tells whether they are the same
    counted = (
        pairs.filter("flipped")
        .sort("presentation_id")
        .group_by("answer", "answer_after")
        .agg(
            pl.len().alias("count"),
            reread.sum().alias("reread"),
            pl.struct(
                "instance_key",
                pl.col("presentation_id").alias("first_id"),
                pl.col("presentation_id_after").alias("second_id"),
            )
            .head(examples)
            .alias("examples"),
        )
        .sort("count", "answer", "answer_after", descending=[True, False, False])
    )
    for row in counted.iter_rows(named=True):
        yield Flip(
            first=row["answer"],
            second=row["answer_after"],
            count=row["count"],
            reread=row["reread"],
            examples=tuple(FlipExample(**example) for example in row["examples"]),
        )


# --- scores ----------------------------------------------------------------------------------------------------------


def _group_changes(before: _Loaded, after: _Loaded, pairs: polars.DataFrame, choice: Choice) -> list[GroupChange]:
    """The scores of both runs over the paired items, by benchmark, language, split and way of asking."""
    import polars as pl

    if not pairs.height:
        return []
    kept = before.items.join(pairs, on="presentation_id", how="semi")
    kept_after = after.items.join(pairs, left_on="presentation_id", right_on="presentation_id_after", how="semi")
    sides = [side.select(Observation._fields) for side in (kept, kept_after)]
    if before.in_rounds or after.in_rounds:
        sides = alike([weighted_by_design(side) for side in sides])
    observed = pl.concat(sides)
    right, right_after = pl.col("correct").fill_null(value=False), pl.col("correct_after").fill_null(value=False)
    counts = pairs.group_by(GROUP).agg(
        pl.len().alias("items"),
        pl.col("flipped").sum(),
        (~right & right_after).sum().alias("became_right"),
        (right & ~right_after).sum().alias("became_wrong"),
    )
    has_ways = bool((pairs["method"] != "generate").any())
    found = []
    for row in counts.sort(GROUP).iter_rows(named=True):
        group = {name: row.pop(name) for name in GROUP}
        part = observed.filter(*(pl.col(name).cast(pl.String) == value for name, value in group.items()))
        if not has_ways:
            del group["method"]
        found.append(GroupChange(group=group, **row, metrics=_metric_changes(part, choice)))
    return _adjusted(found, choice.metrics)


def _metric_changes(part: polars.DataFrame, choice: Choice) -> dict[str, MetricChange]:
    panel = make_panel(part, ["model"], choice.sampling)  # sorted: first, second
    return {name: _metric_change(panel, METRICS[name], choice.sampling) for name in choice.metrics}


def _metric_change(panel: Panel, metric: Metric, sampling: Sampling) -> MetricChange:
    first, second = panel.estimates(metric)
    change = second.minus(first)
    return MetricChange(
        first=first.score(sampling),
        second=second.score(sampling),
        change=change.score(sampling),
        test=is_zero(change, f"{metric.name} has not changed", seed=sampling.seed),
    )


def _adjusted(groups: list[GroupChange], metrics: Sequence[str]) -> list[GroupChange]:
    """The same with the false discovery rate held over all groups, for each metric."""
    adjusted = {name: benjamini_hochberg([group.metrics[name].test.p_value for group in groups]) for name in metrics}
    return [
        group.model_copy(
            update={
                "metrics": {
                    name: change.model_copy(update={"test": _with_p(change.test, adjusted[name][place])})
                    for name, change in group.metrics.items()
                }
            }
        )
        for place, group in enumerate(groups)
    ]


def _with_p(test: TestResult, p_adjusted: float | None) -> TestResult:
    return test.model_copy(update={"p_adjusted": p_adjusted, "adjustment": "benjamini_hochberg"})
