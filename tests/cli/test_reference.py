"""The generated pages of the documentation are up to date."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_generated_pages_are_up_to_date(repository: Path) -> None:
    command = [sys.executable, str(repository / "docs" / "generate.py"), "--check"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
