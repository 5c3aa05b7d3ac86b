from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from mbbq_gen.benchmarks.registry import BENCHMARKS
from mbbq_gen.core.records import Instance
from mbbq_gen.providers.registry import KINDS
from mbbq_gen.scoring.metrics import METRICS

WORDING = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "wording.py"))


def test_there_is_nothing_to_change(repository: Path) -> None:
    """After a change of an error run `python docs/error_texts.py`, and read the difference."""
    assert WORDING["findings"]() == []
    subprocess.run([sys.executable, repository / "docs" / "error_texts.py", "--check"], check=True)


def test_what_is_wrong_is_found() -> None:
    assert len(list(WORDING["word_findings"]("page", WORDING["plain"]("a lean of the `lean` axis")))) == 1
    assert len(list(WORDING["length_findings"]("page", "word " * 30 + ". " + "word " * 31))) == 1
    assert len(list(WORDING["option_findings"]("page", "`mbbq-gen data show --limit 3 --many`"))) == 1
    assert len(list(WORDING["term_findings"]("page", "Holm", "| bootstrap, Wilson | … |"))) == 1
    assert len(list(WORDING["size_findings"]({"README.md": 801, "docs/guides/x.md": 900, "docs/x.md": 40_000}))) == 3


def test_generated_pages_name_everything(repository: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, repository / "docs" / "generate.py", tmp_path], check=True)
    wanted: dict[str, Iterable[str]] = {
        "commands.md": ["mbbq-gen run`"],
        "benchmarks.md": BENCHMARKS,
        "metrics.md": METRICS,
        "models.md": KINDS,
    }
    wanted |= {"json-fields.md": Instance.model_fields, "prompt-texts.md": ["(tr)", "Prompt of the judge"]}
    texts = {name: (tmp_path / name).read_text(encoding="utf-8") for name in wanted}
    assert [one for name, names in wanted.items() for one in names if one not in texts[name]] == []
