"""What keeps commands quick to start gives the same as what it stands for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mbbq_gen.core.files import PackPaths
from mbbq_gen.extraction import current_version, load_extractor
from mbbq_gen.statistics.hypothesis_tests import mid_ranks
from tests.support.report import oracle_run


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=40))
def test_ranks_are_scipys(values: list[int]) -> None:
    assert np.array_equal(mid_ranks(np.array(values, dtype=float)), stats.rankdata(values))


def test_an_extractors_version_is_told_from_its_files() -> None:
    """`en` is the second language of the others; `xx` has no pack."""
    where = PackPaths()
    assert all(current_version(code, where) == load_extractor(code, where).version for code in ("en", "tr", "xx"))


def test_scoring_loads_no_slow_library() -> None:
    """scipy.stats and vl_convert take longer to import than a small run to score."""
    code = (
        "import sys; from mbbq_gen.cli.main import run_command_line as run\n"
        "assert run(['score', '--benchmark']) == 2\n"
        "import mbbq_gen.analysis.scores, mbbq_gen.statistics.hypothesis_tests as sizes, numpy as np\n"
        "sizes.sizes_matter(np.arange(12.0), np.arange(1, 13))\n"
        "print(sorted({'scipy.stats', 'vl_convert', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")


def test_a_page_loads_no_slow_library(tmp_path: Path) -> None:
    """Orders of few questions are dealt without scipy.stats."""
    run, page = str(oracle_run(tmp_path / "run", "random")), str(tmp_path / "page.html")
    code = (
        "import sys; from mbbq_gen.cli.main import run_command_line as run\n"
        f"assert run(['report', {run!r}, '-o', {page!r}]) == 0\n"
        "print(sorted({'scipy.stats', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")
    assert "Preference for a place among the options" in Path(page).read_text(encoding="utf-8")
