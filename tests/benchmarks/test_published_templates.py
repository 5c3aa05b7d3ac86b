from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest

from mbbq_gen.benchmarks.readers.esbbq import EsbbqRow
from mbbq_gen.benchmarks.registry import find_benchmark
from mbbq_gen.benchmarks.rows import read_table
from mbbq_gen.benchmarks.templates.esbbq import esbbq_rows, read_vocabulary

pytestmark = pytest.mark.slow

ESBBQ_ROWS: Final = {"es": 27_320, "ca": 27_344}
CROSSED: Final = {
    "es": {1090, 1091, 1098, 1099},
    "ca": {1090, 1091, 1098, 1099, 3488, 3489, 3496, 3497, 3536, 3537, 3544, 3545},
}
"""Rows of PhysicalAppearance whose published `answer_info` names the other person than the option's text does."""
WRONG_TYPE: Final = {
    "es": {1061, 1077, 1091, 1099},
    "ca": {1061, 1077, 1091, 1099, 3457, 3473, 3489, 3497, 3505, 3521, 3537, 3545},
}
"""Rows of PhysicalAppearance whose published `question_type` is wrong."""
SPLIT_ADDRESS: Final = {*range(3068, 3092), *range(3260, 3284)}
"""Rows of RaceEthnicity whose published `source` breaks an address at its comma."""


def differences(published: EsbbqRow, filled: EsbbqRow) -> set[str]:
    return {name for name in EsbbqRow.model_fields if getattr(published, name) != getattr(filled, name)}


@pytest.mark.parametrize("language", ["es", "ca"])
def test_esbbq_row_by_row(shared_datasets: Path, language: str) -> None:
    folder = shared_datasets / "esbbq"
    vocabulary = read_vocabulary(folder / "templates", language)
    found: dict[tuple[str, str], set[int]] = defaultdict(set)
    count = 0
    for category in find_benchmark("esbbq").categories:
        published = [row for _, row in read_table(folder / f"data_{language}" / f"{category}.full.csv", EsbbqRow)]
        filled = [row for _, row in esbbq_rows(folder / "templates" / f"{category}.xlsx", vocabulary, language)]
        assert len(filled) == len(published)
        count += len(filled)
        for one, other in zip(published, filled, strict=True):
            for name in differences(one, other) if one != other else ():
                found[category, name].add(one.instance_id)
    assert count == ESBBQ_ROWS[language]
    assert found == {
        ("PhysicalAppearance", "info0"): CROSSED[language],
        ("PhysicalAppearance", "info1"): CROSSED[language],
        ("PhysicalAppearance", "question_type"): WRONG_TYPE[language],
        ("RaceEthnicity", "source"): SPLIT_ADDRESS,
    }


def test_groups_are_right_where_the_published_ones_are_crossed(shared_datasets: Path) -> None:
    folder = shared_datasets / "esbbq" / "templates"
    rows = esbbq_rows(folder / "PhysicalAppearance.xlsx", read_vocabulary(folder, "es"), "es")
    crossed = [row for _, row in rows if row.instance_id in CROSSED["es"]]
    assert len(crossed) == len(CROSSED["es"])
    for row in crossed:
        assert row.ans0.endswith(f" {row.info0[0]}")
        assert row.ans1.endswith(f" {row.info1[0]}")
        assert row.info0[0] in row.info1[0], "one person's words contain the other's"
        assert row.groups[0] in row.stereotyped_groups
