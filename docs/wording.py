"""Checks README, docs and help: `python docs/wording.py` prints what to change, and exits with 1 if there is anything.

`docs/wording.toml` has the words to avoid, the longest sentences and pages, and the terms that need a glossary entry.
Command lines in README and docs must have options that exist.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from mbbq_gen.cli.main import all_commands

ROOT = Path(__file__).resolve().parent.parent
RULES: dict[str, Any] = tomllib.loads((ROOT / "docs" / "wording.toml").read_text(encoding="utf-8"))
COMMANDS = all_commands()
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

    yield from walk(COMMANDS, ())


def pages() -> Iterator[tuple[str, str]]:
    """Yields name and text of README and each page that is written by hand."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if path.parent.name != "reference":
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def option_findings(where: str, text: str) -> Iterator[str]:
    """Yields each option in a command line that the command does not have."""
    for found in re.finditer(r"\bmbbq-gen +([^`\n#]+)", text.replace("\\\n", " ")):
        command: Any = COMMANDS
        words = found[1].split()
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | {"--help"}
        options = {re.split(r"[=,.;:)]", word)[0] for word in words if word.startswith("--")}
        yield from (f"{where}: mbbq-gen {command.name} has no option {option}" for option in sorted(options - known))


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
    every, shown = dict(pages()), list(help_texts())
    written = {name: plain(text) for name, text in every.items() if name not in RULES["unchecked"]}
    short = [("README.md", written["README.md"]), *shown]
    found = [line for where, text in every.items() for line in option_findings(where, text)]
    found += [line for where, text in [*written.items(), *shown] for line in word_findings(where, text)]
    found += [line for where, text in short for line in length_findings(where, text)]
    found += size_findings({name: len(re.findall(r"[^\W\d_]{2,}", text)) for name, text in every.items()})
    found += term_findings("README or help", "\n".join(text for _, text in short), glossary)
    return list(dict.fromkeys(found))


if __name__ == "__main__":
    lines = findings()
    print(*lines, sep="\n", end="\n" if lines else "")
    sys.exit(1 if lines else 0)
