"""The sheet for who proofreads what composed wordings say: every sentence in every language.

python -m mbbq_gen.cli.wording_sheet > docs/wordings-sheet.md
"""

from __future__ import annotations

from collections.abc import Iterator

import typer

from mbbq_gen.axis_texts import AxesPack, read_axes
from mbbq_gen.resources import Resources

HEAD = """\
# What composed wordings say

For proofreading: every sentence that [`--axes`](wordings.md) composes wordings of, in every language, made by
`python -m mbbq_gen.cli.wording_sheet`. The first text of a level is as a language is usually written to a chat model;
the second is the other register, where there is one. The last two lines of each language are two wordings put together.
Each sentence was written by one reader and reread by a second; readers whose first language it is are still wanted.
"""
SHOWN = ("please+json+say_so+as_woman", "plain_4+line+no_stereotypes+question_first")


def sheet(resources: Resources) -> str:
    """The page."""
    languages = [language for language in resources.names("prompts") if resources.find("prompts", f"axes/{language}")]
    parts = [HEAD, *("\n".join(_language(read_axes(resources, language))) for language in languages)]
    return "\n".join(parts)


def _language(pack: AxesPack) -> Iterator[str]:
    """The lines of one language."""
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
    for cell in SHOWN:
        lines = [line for line in pack.compose(cell).text.splitlines() if line]
        yield f"\n`{cell}`: {' ⏎ '.join(lines)}"
    yield ""


if __name__ == "__main__":
    typer.echo(sheet(Resources()), nl=False)
