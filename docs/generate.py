"""Makes the parts of the documentation that follow from the package.

These are commands.md, data-dictionary.md, wordings-sheet.md and the table of metrics in scores.md.

python docs/generate.py            writes them
python docs/generate.py --check    exits with 1 where one of them differs
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner

from mbbq_gen.axis_texts import AxesPack, read_axes
from mbbq_gen.cli.app import app
from mbbq_gen.exports.dictionary import data_dictionary, dictionary_page
from mbbq_gen.languages.prompts import PromptPack, read_prompts
from mbbq_gen.report.score_files import score_columns
from mbbq_gen.resources import Resources
from mbbq_gen.runs.items import item_schema
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.scoring.table import MetricDefinition

COMMANDS_HEAD = """\
# Commands

Every command with its help, as `mbbq-gen COMMAND --help` prints it. Exit codes: 0 done; 1 the work failed, or a check
found something; 2 wrong use or bad input; 130 stopped with Ctrl-C. Results go to stdout, everything else to stderr.
"""
WORDINGS_HEAD = """\
# What wordings say

For proofreading: every sentence that is sent, in every language, made by `python docs/generate.py`. First those that
[`--axes`](wordings.md) composes wordings of: the first text of a level is as a language is usually written to a chat
model, the second is the other register, where there is one; two wordings put together follow. Then the wordings that
stand by themselves (`--variants polite,letters,…`).

A second reader has read every sentence after the one who wrote it, for grammar, for one register throughout, for the
same meaning in all languages, and for hints to an answer. Neither has all of these languages as a first one: readers
who have are still wanted.
"""
DICTIONARY_LEAD = (
    "What `Run.items()` and `mbbq-gen export` give, column by column. Made with `python docs/generate.py`. In a file, "
    "context_id is text: its 64 bits are too many for some readers."
)
TABLE_STARTS, TABLE_ENDS = "<!-- this table is made by docs/generate.py -->", "<!-- end of the table -->"
COMPOSED = ("please+json+say_so+as_woman", "plain_4+line+no_stereotypes+question_first")
"""Cells of axes shown composed, in every language."""


def commands_page() -> str:
    """Returns the page of commands: a heading and the help text of each."""
    parts = [COMMANDS_HEAD]
    for names in _commands(typer.main.get_command(app), ()):
        shown = CliRunner().invoke(app, [*names, "--help"], prog_name="mbbq-gen", terminal_width=100, color=False)
        parts.append(f"## `{' '.join(('mbbq-gen', *names))}`\n\n```text\n{shown.stdout.strip()}\n```\n")
    return "\n".join(parts)


def _commands(command: Any, names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yields the words that call each command, in the order of the help."""
    children: dict[str, Any] | None = getattr(command, "commands", None)
    if children is None:
        yield names
        return
    for name, child in children.items():
        yield from _commands(child, (*names, name))


def wordings_page() -> str:
    """Returns the proofreading sheet: every sentence of the prompt packs."""
    resources = Resources()
    languages = [language for language in resources.names("prompts") if resources.find("prompts", f"axes/{language}")]
    packs = ((read_axes(resources, language), read_prompts(resources, language)) for language in languages)
    return "\n".join([WORDINGS_HEAD, *("\n".join(_language(*pair)) for pair in packs)])


def _language(pack: AxesPack, prompts: PromptPack) -> Iterator[str]:
    """Yields the lines of one language."""
    usual, other = pack.sentences, pack.other
    yield f"## {pack.meta.name} ({pack.meta.language})\n"
    labels = ", ".join(pack.labels) if pack.labels else "A, B, C"
    yield f"Usual address: {usual.address or 'no choice'}. Labels of its own tests: {labels}.\n"
    yield f"| level | {usual.address or 'text'} | {other.address if other else '–'} |"
    yield "|---|---|---|"
    for level, text in usual.by_level.items():
        yield f"| `{level}` | {text} | {other.by_level[level] if other else ''} |"
    for persona, person in pack.persons.items():
        yield f"| `{persona}` | {person} | |"
    for name, line in pack.lines.model_dump().items():
        yield f"| line: {name} | {line} | |"
    for cell in COMPOSED:
        yield f"\n`{cell}`: {_in_one_line(pack.compose(cell).text)}"
    for variant in prompts.variant:
        yield f"\n`{variant.id}`: {_in_one_line(variant.text)}"
    yield ""


def _in_one_line(text: str) -> str:
    return " ⏎ ".join(line for line in text.splitlines() if line)


def dictionary() -> str:
    """Returns the page of all columns of items and scores."""
    definitions = {
        metric.name: MetricDefinition(
            formula=metric.formula, source=metric.source, meaning=metric.meaning, sign=metric.sign
        )
        for metric in METRICS.values()
    }
    scores = score_columns(("benchmark", "language", "split"))
    return dictionary_page(data_dictionary(item_schema(messages=True), scores, definitions), lead=DICTIONARY_LEAD)


def scores_page(page: str) -> str:
    """Returns the page with its table of metrics made anew."""
    lines = ["| name | formula | source | reads as | range |", "|---|---|---|---|---|"]
    for metric in METRICS.values():
        sign = f"{metric.sign[:1].upper()}{metric.sign[1:]}."
        cells = (f"`{metric.name}`", metric.formula, metric.source, f"{metric.meaning} {sign}")
        bounds = f"{metric.low:g} … {metric.high:g}".replace("-", "−")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in (*cells, bounds)) + " |")
    before, rest = page.split(TABLE_STARTS)
    return "\n".join([before + TABLE_STARTS, *lines, TABLE_ENDS + rest.split(TABLE_ENDS)[1]])


def main(arguments: list[str]) -> int:
    """Writes the pages, or with `--check` compares them; returns the exit code."""
    folder = Path(__file__).parent
    pages = {
        folder / "commands.md": commands_page(),
        folder / "data-dictionary.md": dictionary(),
        folder / "scores.md": scores_page((folder / "scores.md").read_text(encoding="utf-8")),
        folder / "wordings-sheet.md": wordings_page(),
    }
    if arguments == ["--check"]:
        stale = [path for path, text in pages.items() if path.read_text(encoding="utf-8") != text]
        for path in stale:
            print(f"{path} is out of date; run: python docs/generate.py", file=sys.stderr)
        return 1 if stale else 0
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
