from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.support.labelled_responses import load_labelled


def test_real_responses_are_read_as_a_person_reads_them(repository: Path) -> None:
    path = repository.parent / "shared" / "reference" / "responses_dev.jsonl"
    if not path.is_file():
        pytest.skip(f"needs the labelled responses in {path}")
    counts: Counter[str] = Counter()
    total = 0
    for labelled in load_labelled(path):
        counts[labelled.result(labelled.read())] += 1
        total += 1
    assert total > 240
    assert counts["right"] >= 0.93 * total, counts
    assert counts["wrong option"] <= 0.025 * total, counts
