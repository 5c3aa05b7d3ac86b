from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.report import oracle_run


def test_scoring_loads_no_slow_library() -> None:
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
    run, page = str(oracle_run(tmp_path / "run", "random")), str(tmp_path / "page.html")
    code = (
        "import sys; from mbbq_gen.cli.main import run_command_line as run\n"
        f"assert run(['report', {run!r}, '-o', {page!r}]) == 0\n"
        "print(sorted({'scipy.stats', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")
    assert "Preference for a place among the options" in Path(page).read_text(encoding="utf-8")
