"""Counts a benchmark by language, split and category, beside what its paper says (`published_counts.toml`)."""

from __future__ import annotations

import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any

from pydantic import BaseModel, ConfigDict

from mbbq_gen.records import Instance, Record, Split


class CategoryCount(Record):
    """How many rows of each kind a category has in a language and split."""

    benchmark: str
    language: str
    split: str
    category: str
    """Slug; `all` for the sum of a language and split."""
    rows: int
    templates: int
    ambiguous: int
    disambiguated: int
    negative: int
    non_negative: int
    biased: int
    """Disambiguated rows whose right answer fits the stereotype."""
    counter_biased: int
    unscorable: int
    """Rows without a single target: they count for accuracy alone."""
    wrong_labels: int
    """Rows whose published label is known to be wrong."""
    published_rows: int | None = None
    """Rows of the category in a language and split as the paper has them; None where it does not say."""
    note: str | None = None
    """Why the files hold another number than the paper."""

    @property
    def agrees(self) -> bool | None:
        """Whether the count is the paper's; None where it does not say."""
        return None if self.published_rows is None else self.rows == self.published_rows


class _Published(BaseModel):
    """What a paper says."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    total: int | None = None
    rows: dict[str, int] = {}
    notes: dict[str, str] = {}


_Part = tuple[str, str, Split]
"""Benchmark, language, split."""


@cache
def published_counts() -> dict[str, _Published]:
    """Benchmark → what its paper says."""
    text = files("mbbq_gen.datasets").joinpath("published_counts.toml").read_text(encoding="utf-8")
    return {name: _Published.model_validate(table) for name, table in tomllib.loads(text).items()}


def count_instances(instances: Iterable[Instance]) -> list[CategoryCount]:
    """The counts of every benchmark, language, split and category, in order of appearance; after each split its sum.

    Reads the instances once and remembers counts alone.
    """
    counts: dict[_Part, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    templates: dict[_Part, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for instance in instances:
        part = instance.benchmark, instance.language, instance.split
        counts[part][instance.category].update(_kinds(instance))
        templates[part][instance.category].add(instance.template_id)
    found = []
    for part, by_category in counts.items():
        sizes = {category: len(ids) for category, ids in templates[part].items()}
        found += [_count(part, category, count, sizes[category]) for category, count in by_category.items()]
        total = sum(by_category.values(), Counter[str]())
        found.append(_count(part, "all", total, sum(sizes.values()), _missing(part[0], by_category)))
    return found


def _kinds(instance: Instance) -> list[str]:
    """Every field of CategoryCount that an instance counts for."""
    kinds: list[str] = ["rows", instance.condition, instance.polarity]
    if instance.alignment is not None:
        kinds.append(instance.alignment)
    if not instance.bias_scorable:
        kinds.append("unscorable")
    if instance.corrected_answer is not None:
        kinds.append("wrong_labels")
    return kinds


_FIELDS = (
    "rows", "ambiguous", "disambiguated", "negative", "non_negative", "biased", "counter_biased", "unscorable",
    "wrong_labels",
)  # fmt: skip


def _missing(benchmark: str, by_category: Iterable[str]) -> str | None:
    """Which of a paper's categories the files lack, for a note; None where they have all."""
    published = published_counts().get(benchmark)
    missing = sorted(set(published.rows) - set(by_category)) if published else []
    return f"not in this copy: {', '.join(missing)}" if missing else None


def _count(
    part: _Part, category: str, count: Counter[str], templates: int, missing: str | None = None
) -> CategoryCount:
    """The counts of a category, beside the paper's."""
    benchmark, language, split = part
    published = published_counts().get(benchmark)
    said: dict[str, Any] = {}
    if published is not None:
        said["published_rows"] = published.total if category == "all" else published.rows.get(category)
        differs = said["published_rows"] not in (None, count["rows"])
        said["note"] = missing or published.notes.get(category) if differs else None
    numbers = {field: count[field] for field in _FIELDS}
    return CategoryCount(
        benchmark=benchmark, language=language, split=split, category=category, templates=templates, **numbers, **said
    )
