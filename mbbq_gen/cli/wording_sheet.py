"""The sheet for who proofreads what wordings say: every sentence in every language.

python -m mbbq_gen.cli.wording_sheet > docs/wordings-sheet.md
"""

from __future__ import annotations

from collections.abc import Iterator

import typer

from mbbq_gen.axis_texts import AxesPack, read_axes
from mbbq_gen.languages.prompts import PromptPack, read_prompts
from mbbq_gen.resources import Resources

HEAD = """\
# What wordings say

For proofreading: every sentence that is sent, in every language, made by `python -m mbbq_gen.cli.wording_sheet`. First
those that [`--axes`](wordings.md) composes wordings of: the first text of a level is as a language is usually written
to a chat model, the second is the other register, where there is one; two wordings put together follow. Then the
wordings that stand by themselves (`--variants polite,letters,…`).

A second reader has read every sentence after the one who wrote it, for grammar, for one register throughout, for the
same meaning in all languages, and for hints to an answer. Neither has all of these languages as a first one: readers
who have are still wanted.
"""
SHOWN = ("please+json+say_so+as_woman", "plain_4+line+no_stereotypes+question_first")


def sheet(resources: Resources) -> str:
    """The page."""
    languages = [language for language in resources.names("prompts") if resources.find("prompts", f"axes/{language}")]
    packs = ((read_axes(resources, language), read_prompts(resources, language)) for language in languages)
    return "\n".join([HEAD, *("\n".join(_language(*pair)) for pair in packs)])


def _language(pack: AxesPack, prompts: PromptPack) -> Iterator[str]:
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
        yield f"\n`{cell}`: {_in_one_line(pack.compose(cell).text)}"
    for variant in prompts.variant:
        yield f"\n`{variant.id}`: {_in_one_line(variant.text)}"
    yield ""


def _in_one_line(text: str) -> str:
    return " ⏎ ".join(line for line in text.splitlines() if line)


if __name__ == "__main__":
    typer.echo(sheet(Resources()), nl=False)
