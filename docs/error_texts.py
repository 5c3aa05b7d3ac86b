"""Lists the texts of all errors: `python docs/error_texts.py` writes `tests/data/error_texts.txt`.

Each line is module, error class and text; `{…}` is a value. Read the difference before you commit it. `--check` exits
with 1 if the list is not up to date.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "data" / "error_texts.txt"


def error_texts() -> list[str]:
    """Returns the lines of the list."""
    lines = set()
    for path in sorted((ROOT / "mbbq_gen").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT / "mbbq_gen").with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and (name := class_name(node.func)).endswith(("Error", "error")):
                lines |= {f"{module}: {name}: {text}" for text in map(template, node.args) if " " in text}
    return sorted(lines)


def class_name(node: ast.expr) -> str:
    """Returns the last part of a name: `errors.UsageError` → `UsageError`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def template(node: ast.expr) -> str:
    """Returns the text of an expression, with `{…}` for what is filled in."""
    return " ".join("".join(_parts(node)).split())


def _parts(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr():
            for value in node.values:
                yield from _parts(value)
        case ast.BinOp(op=ast.Add()):
            yield from _parts(node.left)
            yield from _parts(node.right)
        case ast.IfExp():
            yield from _parts(node.body)
            yield " | "
            yield from _parts(node.orelse)
        case _:
            yield "{…}"


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(LIST.read_text(encoding="utf-8").splitlines() != error_texts())
    LIST.write_text("\n".join(error_texts()) + "\n", encoding="utf-8")
