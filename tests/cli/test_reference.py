"""The generated pages of the documentation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mbbq_gen.benchmarks.quality import KINDS as ISSUES
from mbbq_gen.benchmarks.registry import BENCHMARKS
from mbbq_gen.core.records import Instance
from mbbq_gen.providers.registry import KINDS
from mbbq_gen.scoring.metrics import METRICS


@pytest.fixture(scope="module")
def pages(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("reference")
    command = [sys.executable, str(repository / "docs" / "generate.py"), str(folder)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("commands.md", ["mbbq-gen run`", "mbbq-gen data show`", "mbbq-gen batch cancel`"]),
        ("models.md", [f"`{kind}:" for kind in KINDS]),
        ("metrics.md", [f"`{name}`" for name in METRICS]),
        ("json-fields.md", [f"| `{field}` |" for field in Instance.model_fields]),
        ("data-dictionary.md", ["`prompt_id`", "`ci_low`"]),
        ("benchmarks.md", [f"`{name}`" for name in [*BENCHMARKS, *ISSUES]]),
        ("prompt-texts.md", ["(en)", "(tr)", "Prompt of the judge"]),
    ],
)
def test_a_generated_page_names_everything(page: str, names: list[str], pages: dict[str, str]) -> None:
    assert [name for name in names if name not in pages[page]] == []
