"""The names in docs/architecture.md exist."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAME = re.compile(r"(?:^|[`\s►◄])((?:[a-z_]+\.)+\w+)\b", re.MULTILINE)
FILES = (".py", ".toml", ".md")


def exists(name: str) -> bool:
    """Whether a dotted name below mbbq_gen is a module, or something in one."""
    parts = name.split(".")
    for size in range(len(parts), 0, -1):
        try:
            found: object = import_module(".".join(["mbbq_gen", *parts[:size]]))
        except ModuleNotFoundError:
            continue
        return all((found := getattr(found, part, None)) is not None for part in parts[size:])
    return False


def test_every_name_exists() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    names = {name for name in NAME.findall(text) if not name.endswith(FILES)}
    assert len(names) > 40
    assert sorted(name for name in names if not exists(name)) == []


def test_every_file_exists() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    paths = {path for path in re.findall(r"`([\w./]+)`", text) if "/" in path and "xx" not in path}
    assert len(paths) > 8
    assert sorted(path for path in paths if not any((top / path).exists() for top in (ROOT, ROOT / "mbbq_gen"))) == []
