"""Checks the wording of README, docs and help: `python -m tests.wording` prints what to change.

`tests/data/wording.toml` has the words to avoid, the length of sentences, and the terms that need a glossary entry.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import typer

from mbbq_gen.cli.main import app

ROOT = Path(__file__).resolve().parent.parent
RULES: dict[str, Any] = tomllib.loads((ROOT / "tests" / "data" / "wording.toml").read_text(encoding="utf-8"))
_CODE = re.compile(r"```.*?```|^(?: {4}|\t).*?$|`[^`\n]*`|\]\([^)]*\)|!\[[^\]]*\]", re.DOTALL | re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+|\n\s*\n|\n\s*[*#|-]|\n\s*\d+\.\s|\|")


def plain(markdown: str) -> str:
    """Returns a page without code, code marks and link targets."""
    return _CODE.sub(" ", markdown)


def help_texts() -> Iterator[tuple[str, str]]:
    """Yields command and each of its help texts."""

    def walk(command: Any, names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        where = " ".join(("mbbq-gen", *names))
        yield where, plain(command.help or "")
        for parameter in command.params:
            yield f"{where} {parameter.opts[0]}", plain(getattr(parameter, "help", None) or "")
        for name, child in getattr(command, "commands", {}).items():
            yield from walk(child, (*names, name))

    yield from walk(typer.main.get_command(app), ())


def pages() -> Iterator[tuple[str, str]]:
    """Yields name and text of README and each page that is written by hand."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for path in paths:
        name = str(path.relative_to(ROOT))
        if "docs/reference/" not in name and name not in RULES["unchecked"]:
            yield name, plain(path.read_text(encoding="utf-8"))


def word_findings(where: str, text: str) -> Iterator[str]:
    """Yields each word to avoid."""
    for pattern, instead in RULES["words"].items():
        for found in re.finditer(pattern, text, re.IGNORECASE):
            yield f"{where}: {found[0]!r}; write: {instead}"


def length_findings(where: str, text: str) -> Iterator[str]:
    """Yields each sentence with too many words."""
    for sentence in _SENTENCE_END.split(text):
        words = [word for word in sentence.split() if re.search(r"\w", word)]
        if len(words) > RULES["max_words"]:
            yield f"{where}: {len(words)} words: {' '.join(words)[:90]}…"


def size_findings(sizes: dict[str, int]) -> Iterator[str]:
    """Yields each page with too many words, and all pages if they have too many together."""
    limits = RULES["page_words"]
    for name, words in {**sizes, "all": sum(sizes.values())}.items():
        most = next(limit for pattern, limit in limits.items() if fnmatch(name, pattern))
        if words > most:
            yield f"{name}: {words:,} words, at most {most:,}"


def term_findings(where: str, text: str, glossary: str) -> Iterator[str]:
    """Yields each term without a row in the glossary."""
    rows = {
        cell.strip(" `") for row in re.findall(r"^\| ([^|]+) \|", glossary, re.MULTILINE) for cell in row.split(",")
    }
    for pattern, term in RULES["terms"].items():
        if term not in rows and (found := re.search(pattern, text)):
            yield f"{where}: {found[0]!r} is not in docs/glossary.md, which needs a row {term!r}"


def findings() -> list[str]:
    """Returns everything to change."""
    glossary = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    written, shown = dict(pages()), list(help_texts())
    short = [("README.md", written["README.md"]), *shown]
    found = [line for where, text in [*written.items(), *shown] for line in word_findings(where, text)]
    found += [line for where, text in short for line in length_findings(where, text)]
    found += size_findings({name: len((ROOT / name).read_text(encoding="utf-8").split()) for name in written})
    found += term_findings("README or help", "\n".join(text for _, text in short), glossary)
    return list(dict.fromkeys(found))


if __name__ == "__main__":
    lines = findings()
    print(*lines, sep="\n", end="\n" if lines else "")  # noqa: T201
    sys.exit(1 if lines else 0)
