"""Compares two runs: settings, packs, models, questions, and flipped answers. Scores are for `analysis.comparison`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from pydantic import JsonValue

from mbbq_gen.core.config import RunConfig, shapes
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import PARSED, FrozenModel
from mbbq_gen.extraction import ENGINE
from mbbq_gen.runs.observations import ensure_extracted, ensure_scores_extracted
from mbbq_gen.runs.run_folder import Manifest, RunFolder
from mbbq_gen.runs.samples import item_schema, sample_batches
from mbbq_gen.scoring.observations import GoldLabels
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


class GroupChange(FrozenModel):
    """The changes in the paired items of one benchmark, language and split."""

    group: dict[str, str]
    items: int
    flipped: int
    became_right: int
    became_wrong: int


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


GROUP_COLUMNS: Final = ("benchmark", "language", "split", "method")
"""Columns by which pairs are counted; `method` is left out if all are `generate`."""
_EXAMPLES: Final = 3
"""Examples of each flip."""


@dataclass(frozen=True)
class _LoadedRun:
    """One of the two runs, with the data that is compared."""

    side: RunSide
    manifest: Manifest
    extractors: dict[str, str]
    items: polars.DataFrame


def compare_runs(
    first: RunFolder,
    second: RunFolder,
    where: PackPaths,
    *,
    gold: GoldLabels = "published",
    extractor: str = ENGINE,
    step: Callable[[int], None] = lambda _: None,
) -> RunDiff:
    """Compares two runs, after extracting their new responses; UnknownNameError for an unknown extractor.

    `extractor`: its name or a stored version; `step`: called with the number of items of each batch read.
    """
    before, after = (_load(folder, where, gold, extractor, step) for folder in (first, second))
    pairs, columns = _paired(before.items, after.items)
    ours, theirs = _shaping(before), _shaping(after)
    return RunDiff(
        first=before.side,
        second=after.side,
        differing=tuple(
            ChangedSetting(area=area, name=name, first=ours[area].get(name), second=theirs[area].get(name))
            for area in ours
            for name in sorted({*ours[area], *theirs[area]})
            if ours[area].get(name) != theirs[area].get(name)
        ),
        paired_by=columns,
        pairs=pairs.height,
        only_first=before.items.height - pairs.height,
        only_second=after.items.height - pairs.height,
        flipped=int(pairs["flipped"].sum()),
        flips=tuple(_flips(pairs)),
        groups=tuple(_group_changes(pairs)),
        gold=gold,
    )


def _load(
    folder: RunFolder, where: PackPaths, gold: GoldLabels, extractor: str, step: Callable[[int], None]
) -> _LoadedRun:
    import polars as pl

    manifest = folder.require().manifest()
    extractors = ensure_extracted(folder, where, extractor)
    scored = ensure_scores_extracted(folder)
    places = pl.col("option_order_indices").cast(pl.List(pl.String)).list.join(",").alias("places")
    role, outcome = pl.col("chosen_role").cast(pl.String).fill_null("person"), pl.col("outcome").cast(pl.String)
    answer = pl.when(outcome == "option").then(role).otherwise(outcome).alias("answer")
    chosen = pl.when(outcome.is_in(sorted(PARSED))).then(pl.col("chosen_index")).alias("chosen")
    mark = pl.col("response").hash().alias("mark")  # to compare responses
    texts = pl.col("reasoning_effort", "variant", "label_style", *GROUP_COLUMNS).cast(pl.String).fill_null("")
    columns = ("prompt_id", "instance_key", texts, places, answer, chosen, "correct", mark)
    parts = [pl.DataFrame(schema=item_schema()).select(columns)]
    with folder.open_store(read_only=True) as store:
        for batch in sample_batches(store, extractors, "", gold, scored=scored):
            parts.append(batch.select(columns))
            step(batch.height)
        progress, served = store.progress(), served_models(store)
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
    return _LoadedRun(side, manifest, extractors, items)


def _shaping(loaded: _LoadedRun) -> dict[Area, dict[str, JsonValue]]:
    """What may affect the scores, by area."""
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
    for name in names:
        if any(side.n_unique([*columns, name]) > side.n_unique(columns) for side in (before, after)):
            columns.append(name)
    single, single_after = (side.filter(pl.len().over(columns) == 1) for side in (before, after))
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


def _group_changes(pairs: polars.DataFrame) -> Iterator[GroupChange]:
    """Counts of the pairs by benchmark, language, split and, if there are several, method."""
    import polars as pl

    right, right_after = pl.col("correct").fill_null(value=False), pl.col("correct_after").fill_null(value=False)
    columns = GROUP_COLUMNS if (pairs["method"] != "generate").any() else GROUP_COLUMNS[:-1]
    counts = pairs.group_by(columns).agg(
        pl.len().alias("items"),
        pl.col("flipped").sum(),
        (~right & right_after).sum().alias("became_right"),
        (right & ~right_after).sum().alias("became_wrong"),
    )
    for row in counts.sort(columns).iter_rows(named=True):
        yield GroupChange(group={name: row.pop(name) for name in columns}, **row)
