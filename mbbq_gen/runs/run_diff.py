"""Compares two runs: settings, packs, models, questions, scores, and flipped answers.

Scores are compared over paired answers only, so that differences come from the model or the extractor, not from the
sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from pydantic import JsonValue

from mbbq_gen.core.config import RunConfig, shapes
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import PARSED, FrozenModel
from mbbq_gen.extraction.simple import ENGINE
from mbbq_gen.runs.observations import ensure_extracted, ensure_scores_extracted
from mbbq_gen.runs.run_folder import Manifest, RunFolder
from mbbq_gen.runs.samples import item_schema, sample_batches
from mbbq_gen.scoring.cells import UnparsedPolicy
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.scoring.observations import GoldLabels, Observation
from mbbq_gen.scoring.tally import alike, weighted_by_design
from mbbq_gen.statistics.estimate import EstimateResult, InferenceSettings
from mbbq_gen.statistics.hypothesis_tests import TestResult, benjamini_hochberg, zero_test
from mbbq_gen.statistics.panel import make_panel
from mbbq_gen.storage.queries import served_models

if TYPE_CHECKING:
    import polars


Area = Literal["settings", "model", "versions", "packs", "questions", "files", "extractors"]


class ChangedSetting(FrozenModel):
    """A difference between the runs that may affect the scores."""

    area: Area
    """settings: of the user; model: settings that affect its text, and runtime facts; versions: of mbbq-gen and Python;
    packs and files: sha256; questions: sha256 of a benchmark's questions; extractors: version by language."""
    name: str
    first: JsonValue
    """None if the first run has no such setting."""
    second: JsonValue


class RunSide(FrozenModel):
    """One of the two runs."""

    run: str
    model: str
    created_at: str
    requests: int
    answered: int
    items: int
    """Prompts whose answers have been extracted."""
    answering: tuple[str, ...]
    """The models that the service reported, with their fingerprints, most frequent first."""


class Flip(FrozenModel):
    """The paired items with a certain pair of different answers."""

    first: str
    """The role chosen (`person` without a role), or the outcome if none was."""
    second: str
    count: int
    reread: int
    """Number of pairs with identical responses to the same options: only the extraction differs."""
    examples: tuple[tuple[str, str], ...]
    """Prompt ids in the first and the second run; `mbbq-gen explain RUN ID` shows an answer."""


class MetricChange(FrozenModel):
    """A score in both runs, over the paired items; `change` is second minus first, paired by template."""

    first: EstimateResult
    second: EstimateResult
    change: EstimateResult
    test: TestResult
    """Of the change against 0; p_adjusted is by Benjamini and Hochberg over all groups, for each metric."""


class GroupChange(FrozenModel):
    """The changes in the paired items of one benchmark, language and split."""

    group: dict[str, str | None]
    items: int
    flipped: int
    became_right: int
    became_wrong: int
    metrics: dict[str, MetricChange]


class RunDiff(FrozenModel):
    """The differences between two runs."""

    schema_version: Literal["mbbq-gen.diff/1"] = "mbbq-gen.diff/1"
    first: RunSide
    second: RunSide
    differing: tuple[ChangedSetting, ...]
    paired_by: tuple[str, ...]
    """Columns that the answers of a pair share."""
    pairs: int
    only_first: int
    only_second: int
    flipped: int
    flips: tuple[Flip, ...]
    groups: tuple[GroupChange, ...]
    gold: GoldLabels
    unparsed: UnparsedPolicy
    confidence_level: float
    n_resamples: int
    seed: int
    sign: str = "changes are second minus first; a bias above 0 is stereotypical"


DEFAULT_METRICS: Final = (
    "parse_rate",
    "accuracy_ambiguous",
    "accuracy_disambiguated",
    "mbbq_bias_ambiguous",
    "mbbq_bias_disambiguated",
)
GROUP_COLUMNS: Final = ("benchmark", "language", "split", "method")
"""Columns that pairs share and scores are grouped by; `method` is left out of results if all are `generate`."""
_EXAMPLES: Final = 3
"""Examples of each flip."""


@dataclass(frozen=True)
class DiffSettings:
    """Settings of a comparison of two runs."""

    metrics: tuple[str, ...] = DEFAULT_METRICS
    gold: GoldLabels = "published"
    extractor: str = ENGINE
    sampling: InferenceSettings = field(default_factory=InferenceSettings)
    step: Callable[[int], None] = lambda _: None


@dataclass(frozen=True)
class _LoadedRun:
    """One of the two runs, with the data that is compared."""

    side: RunSide
    manifest: Manifest
    extractors: dict[str, str]
    items: polars.DataFrame
    in_rounds: bool
    """Whether the run is adaptive: answers are weighted so that templates have equal weight."""


def compare_runs(first: RunFolder, second: RunFolder, where: PackPaths, settings: DiffSettings) -> RunDiff:
    """Compares two runs, after extracting their new responses; UnknownNameError for an unknown extractor."""
    before, after = _load(first, "first", where, settings), _load(second, "second", where, settings)
    pairs, columns = _paired(before.items, after.items)
    return RunDiff(
        first=before.side,
        second=after.side,
        differing=tuple(_differing(before, after)),
        paired_by=columns,
        pairs=pairs.height,
        only_first=before.items.height - pairs.height,
        only_second=after.items.height - pairs.height,
        flipped=int(pairs["flipped"].sum()),
        flips=tuple(_flips(pairs)),
        groups=tuple(_group_changes(before, after, pairs, settings)),
        gold=settings.gold,
        unparsed=settings.sampling.unparsed,
        confidence_level=settings.sampling.confidence,
        n_resamples=settings.sampling.n_resamples,
        seed=settings.sampling.seed,
    )


def _load(folder: RunFolder, name: str, where: PackPaths, settings: DiffSettings) -> _LoadedRun:
    import polars as pl

    manifest = folder.require().manifest()
    extractors = ensure_extracted(folder, where, settings.extractor)
    scored = ensure_scores_extracted(folder)
    places = pl.col("option_order_indices").cast(pl.List(pl.String)).list.join(",").alias("places")
    role, outcome = pl.col("chosen_role").cast(pl.String).fill_null("person"), pl.col("outcome").cast(pl.String)
    answer = pl.when(outcome == "option").then(role).otherwise(outcome).alias("answer")
    chosen = pl.when(outcome.is_in(sorted(PARSED))).then(pl.col("chosen_index")).alias("chosen")
    mark = pl.col("response").hash().alias("mark")  # to compare responses
    columns = ("prompt_id", "instance_key", *Observation._fields, places, answer, chosen, mark)
    parts = [pl.DataFrame(schema=item_schema()).select(columns)]
    with folder.open_store(read_only=True) as store:
        for batch in sample_batches(store, extractors, name, settings.gold, scored=scored):
            parts.append(batch.select(columns))
            settings.step(batch.height)
        progress, in_rounds, served = store.progress(), store.is_in_rounds, served_models(store)
    items = pl.concat(parts)
    side = RunSide(
        run=str(folder.path),
        model=manifest.config.model,
        created_at=manifest.created_at,
        requests=progress.requests,
        answered=progress.answered,
        items=items.height,
        answering=tuple(f"{model} ({mark})" if mark else model for model, mark, _ in served if model),
    )
    return _LoadedRun(side, manifest, extractors, items, in_rounds)


def _differing(before: _LoadedRun, after: _LoadedRun) -> Iterator[ChangedSetting]:
    """The differences that may affect scores, by area."""
    ours, theirs = _shaping(before), _shaping(after)
    for area in ours:
        one, other = ours[area], theirs[area]
        for name in sorted(name for name in {*one, *other} if one.get(name) != other.get(name)):
            yield ChangedSetting(area=area, name=name, first=one.get(name), second=other.get(name))


def _shaping(loaded: _LoadedRun) -> dict[Area, dict[str, JsonValue]]:
    manifest = loaded.manifest
    places = {"data_dir", "instances", "instances_field_map"}
    shaping = {name for name in RunConfig.model_fields if shapes(name) != "execution"} - places
    settings = manifest.config.model_dump(mode="json", include=shaping | {"normalization"}, exclude_none=True)
    settings["benchmark"] = [choice.name for choice in manifest.config.benchmarks]
    return {
        "settings": _flat(settings),
        "model": _flat({**manifest.provider_settings, **manifest.runtime_info}),
        "versions": {name: getattr(manifest, name) for name in ("mbbq_gen", "git_revision", "python")},
        "packs": dict(manifest.pack_digests),
        "questions": dict(manifest.data_digests),
        "files": dict(manifest.file_digests),
        "extractors": dict(loaded.extractors),
    }


def _flat(values: Mapping[str, JsonValue], above: str = "") -> dict[str, JsonValue]:
    """The values, with nested ones under names such as `model_args.temperature`."""
    found: dict[str, JsonValue] = {}
    for name, value in values.items():
        found |= _flat(value, f"{above}{name}.") if isinstance(value, dict) else {f"{above}{name}": value}
    return found


def _paired(before: polars.DataFrame, after: polars.DataFrame) -> tuple[polars.DataFrame, tuple[str, ...]]:
    """The pairs, with the columns of both runs (of the second: `…_after`), and the columns that they share.

    Pairs share the question and the method, and what a run varies for one question: variant, labels, effort, order.
    """
    import polars as pl

    columns, names = ["instance_key", "method"], ["variant", "label_style", "reasoning_effort", "places"]
    kept = ["prompt_id", "instance_key", *names, *GROUP_COLUMNS, "answer", "chosen", "correct", "mark"]
    text = pl.col("reasoning_effort", "variant", "label_style", *GROUP_COLUMNS).cast(pl.String).fill_null("")
    ours, theirs = (frame.select(kept).with_columns(text) for frame in (before, after))
    for name in names:
        if any(side.n_unique([*columns, name]) > side.n_unique(columns) for side in (ours, theirs)):
            columns.append(name)
    single, single_after = (side.filter(pl.len().over(columns) == 1) for side in (ours, theirs))
    renamed = single_after.rename(lambda name: f"{name}_after")
    columns_after = [f"{name}_after" for name in columns]
    pairs = single.join(renamed, left_on=columns, right_on=columns_after, how="inner", coalesce=False)
    return pairs.with_columns(flipped=pl.col("chosen").ne_missing(pl.col("chosen_after"))), tuple(columns)


def _flips(pairs: polars.DataFrame) -> Iterator[Flip]:
    """The pairs with different answers, counted by both answers, most frequent first."""
    import polars as pl

    same = ("mark", "places", "label_style", "instance_key")
    alike = pl.all_horizontal(pl.col(name).eq_missing(pl.col(f"{name}_after")) for name in same)
    reread = alike & (pl.col("method") == "generate")  # loglikelihoods are not compared
    example = pl.concat_list("prompt_id", "prompt_id_after")
    counted = (
        pairs.filter("flipped")
        .sort("prompt_id")
        .group_by("answer", "answer_after")
        .agg(count=pl.len(), reread=reread.sum(), examples=example.head(_EXAMPLES))
        .sort("count", "answer", "answer_after", descending=[True, False, False])
    )
    for row in counted.iter_rows(named=True):
        first, second = row.pop("answer"), row.pop("answer_after")
        examples = tuple((one, other) for one, other in row.pop("examples"))
        yield Flip(first=first, second=second, examples=examples, **row)


def _group_changes(
    before: _LoadedRun, after: _LoadedRun, pairs: polars.DataFrame, settings: DiffSettings
) -> list[GroupChange]:
    """The scores of both runs over the paired items, by benchmark, language, split and method."""
    import polars as pl

    if not pairs.height:
        return []
    kept = before.items.join(pairs, on="prompt_id", how="semi")
    kept_after = after.items.join(pairs, left_on="prompt_id", right_on="prompt_id_after", how="semi")
    sides = [side.select(Observation._fields) for side in (kept, kept_after)]
    if before.in_rounds or after.in_rounds:
        sides = alike([weighted_by_design(side) for side in sides])
    observed = pl.concat(sides)
    right, right_after = pl.col("correct").fill_null(value=False), pl.col("correct_after").fill_null(value=False)
    counts = pairs.group_by(GROUP_COLUMNS).agg(
        pl.len().alias("items"),
        pl.col("flipped").sum(),
        (~right & right_after).sum().alias("became_right"),
        (right & ~right_after).sum().alias("became_wrong"),
    )
    has_methods = bool((pairs["method"] != "generate").any())
    found = []
    for row in counts.sort(GROUP_COLUMNS).iter_rows(named=True):
        group = {name: row.pop(name) for name in GROUP_COLUMNS}
        part = observed.filter(*(pl.col(name).cast(pl.String) == value for name, value in group.items()))
        if not has_methods:
            del group["method"]
        panel, metrics = make_panel(part, ["model"], settings.sampling), {}  # its rows are sorted: first, second
        for name in settings.metrics:
            one, other = panel.estimates(METRICS[name])
            change = other.subtract(one)
            metrics[name] = MetricChange(
                first=one.score(settings.sampling),
                second=other.score(settings.sampling),
                change=change.score(settings.sampling),
                test=zero_test(change, f"{name} has not changed", settings.sampling),
            )
        found.append(GroupChange(group=group, **row, metrics=metrics))
    for name in settings.metrics:
        p_values = benjamini_hochberg([entry.metrics[name].test.p_value for entry in found])
        for entry, p_adjusted in zip(found, p_values, strict=True):
            test = entry.metrics[name].test.adjusted(p_adjusted, "benjamini_hochberg")
            entry.metrics[name] = entry.metrics[name].model_copy(update={"test": test})
    return found
