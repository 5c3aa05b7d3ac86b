"""An index of the extracted responses of a run, which filters and counts them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from mbbq_gen.core.errors import UnknownNameError
from mbbq_gen.core.files import stable_number
from mbbq_gen.core.records import NO_RESPONSE, PARSED
from mbbq_gen.storage.schema import BATCH
from mbbq_gen.storage.store import RunStore

if TYPE_CHECKING:
    import polars


_STRATA: Final = ("benchmark", "split", "language", "outcome", "role", "flipped")
_READ = ", ".join(f"'{outcome}'" for outcome in sorted(PARSED))
_LOST = ", ".join(f"'{outcome}'" for outcome in sorted(NO_RESPONSE))

_CHOSEN = "CAST(substr(p.option_order, e.option + 1, 1) AS INTEGER)"
"""Index in `Instance.options` of the option that extraction `e` of prompt `p` chose."""
_ITEM: Final = f"""
p.number, p.prompt_id, e.extractor, i.key, i.benchmark, i.split, i.language, i.category, i.template_id,
  i.condition, p.variant, e.outcome,
  CASE WHEN e.outcome NOT IN ({_READ}) THEN 'none'
    WHEN e.option IS NULL THEN 'unknown'
    ELSE coalesce(CASE {_CHOSEN} WHEN 0 THEN i.role_0 WHEN 1 THEN i.role_1 ELSE i.role_2 END, 'person') END,
  CASE WHEN e.outcome IN ({_LOST}) THEN 'none'
    WHEN e.outcome NOT IN ({_READ}) THEN 'no'
    WHEN e.option IS NULL THEN CASE i.condition WHEN 'ambiguous' THEN 'yes' ELSE 'no' END
    WHEN {_CHOSEN} = i.gold_index THEN 'yes' ELSE 'no' END,
  e.confidence, coalesce(p.reasoning_effort, 'unset')
"""


class SampleRow(NamedTuple):
    """One answer, as the table holds it; the fields after `key` are FIELDS."""

    number: int
    prompt_id: str
    extractor: str
    key: str
    benchmark: str
    split: str
    language: str
    category: str
    template: str
    condition: str
    variant: str
    outcome: str
    role: str
    """The role chosen, `person` for a person without one, `none` where nothing was chosen."""
    correct: str
    """yes or no, by the published labels; none where no response was received."""
    confidence: str
    reasoning_effort: str
    """The level requested; unset for none."""
    flipped: str
    """Whether the question got different choices under this run's prompt variants, option orders and label styles: yes,
    no, or once where it has one answer only."""


FIELDS: Final = SampleRow._fields[4:]


class SampleIndex:
    """A table of what extractor versions, by language, have read."""

    def __init__(
        self,
        store: RunStore,
        versions: Mapping[str, str],
        seed: int = 0,
        step: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`seed`: of the order in which samples are drawn; `step` is called for each batch of items that is read."""
        import polars as pl

        names = [*SampleRow._fields[:-1], "rank"]
        schema = {name: pl.Int64() if name in ("number", "rank") else pl.String() for name in names}
        parts = [pl.DataFrame(schema=schema)]
        wanted = {language: [version] for language, version in versions.items()}
        rows = store.readings(_ITEM, wanted, "JOIN instances i ON i.key = p.instance_key")
        while batch := rows.fetchmany(10 * BATCH):
            ranked = [(*row, stable_number(seed, row[1]) >> 1) for row in batch]
            parts.append(pl.DataFrame(ranked, schema=schema, orient="row"))
            step(len(batch))
        roles = pl.col("role").filter(~pl.col("outcome").is_in(sorted(NO_RESPONSE)))
        flipped = pl.when(roles.n_unique() > 1).then(pl.lit("yes")).otherwise(pl.lit("no"))
        flipped = pl.when(roles.len() < 2).then(pl.lit("once")).otherwise(flipped)
        self._items = pl.concat(parts).with_columns(flipped.over("key").alias("flipped"))

    def _filtered(self, filters: Mapping[str, str]) -> polars.DataFrame:
        import polars as pl

        for name in filters:
            if name not in {*FIELDS, "id"}:
                raise UnknownNameError("filter", name, [*FIELDS, "id"])
        return self._items.filter(
            pl.col("prompt_id").str.starts_with(filters.get("id", "")),
            *(pl.col(name) == value for name, value in filters.items() if name != "id"),
        )

    def count(self, filters: Mapping[str, str] | None = None) -> int:
        """How many items have these values."""
        return self._filtered(filters or {}).height

    def page(self, filters: Mapping[str, str], offset: int, limit: int) -> list[SampleRow]:
        """Items with these values, in plan order; UnknownNameError for a field that items are not filtered by."""
        return _rows(self._filtered(filters).slice(offset, limit))

    def sample(self, size: int) -> list[SampleRow]:
        """At most `size` items, in plan order: as many from every stratum as there is room, by a seeded rank.

        A stratum is benchmark × split × language × outcome × role × flipped: what is rare is there, so that it can be
        read. Shares in the sample are not those of the run.
        """
        import polars as pl

        turn = pl.col("rank").rank("ordinal").over(_STRATA)
        return _rows(self._items.with_columns(turn=turn).sort("turn", "rank").head(size).sort("number"))

    def values(self) -> dict[str, dict[str, int]]:
        """Field → its values with how many items have each, sorted by value."""
        return {field: dict(self._items[field].value_counts().sort(field).iter_rows()) for field in FIELDS}


def _rows(items: polars.DataFrame) -> list[SampleRow]:
    return [SampleRow(*row) for row in items.select(SampleRow._fields).iter_rows()]
