"""Writes skeletons of the three packs of a new language, with the English text as comments."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Final

from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.files import PACK_KINDS, PackKind, PackPaths, write_errors, write_text
from mbbq_gen.languages.control_pack import read_control_set
from mbbq_gen.languages.extraction_pack import WORD_LISTS, read_grammar
from mbbq_gen.languages.packs import PLACEHOLDER, TO_DO, LanguageCode
from mbbq_gen.languages.prompt_pack import PromptVariant, read_prompts

MODEL = "en"
"""The language whose packs are the example."""
WIDTH, SHOWN = 110, 3
"""Line length in characters, and maximum number of lines of English words for a class."""
FIRST: Final = (
    "words.neg", "words.not_stated", "words.tell", "words.source", "words.who", "words.refuse", "text.small",
    "words.info", "words.know", "words.affirm", "words.conclude", "words.but", "words.assume", "words.cannot",
    "words.able", "words.lack", "words.unclear", "words.conj", "places.p1", "words.wrong", "words.answer",
    "words.speaker",
)  # fmt: skip
"""Classes in descending order of effect: the number of 1,500 labelled responses in English, Spanish and Italian that
are extracted correctly only with the class (`mbbq-gen language evaluate`). able and lack: as unclear."""

_HOW_TO = """
Words for the extraction: each word of the language, in every form that occurs, in the class of its function. Words
are separated by spaces. two_words is a sequence of words; stem* and *ending match all words that begin or end so; =word
matches only with its accents. Function words go into text.small. The most important classes come first; leave the
classes empty that the language does not need. extractors/en.toml is a complete pack.
"""
_NAMES = """
First names that replace groups: ten or more of each gender, all about equally frequent. Take them from official
statistics and name the source. grammar.forms says how a name is written where a template has a form of a noun.
"""


def write_skeletons(folder: Path, language: LanguageCode, name: str, native_name: str) -> list[Path]:
    """Writes the three pack files of a new language into a folder; raises UsageError if packs exist."""
    shipped = PackPaths()
    if known := [kind for kind in PACK_KINDS if shipped.find(kind, language) is not None]:
        raise UsageError(f"{language}: there are packs for it; copy {shipped.find(known[0], language)} and change that")
    paths: dict[PackKind, Path] = {kind: folder / kind / f"{language}.toml" for kind in PACK_KINDS}
    for path in paths.values():
        if path.exists():
            raise UsageError(f"{path}: is there already; nothing was written")
    lines = [f"language = {_quoted(language)}", f"name = {_quoted(name)}", f"native_name = {_quoted(native_name)}"]
    head = "\n".join(["[meta]", *lines, "version = 1", 'source = "who wrote it"', 'licence = "Apache-2.0"'])
    texts: dict[PackKind, str] = {
        "prompts": _prompts(head, shipped),
        "extractors": _extractor(head, shipped),
        "control_sets": _control_set(head, shipped),
    }
    for kind, path in paths.items():
        with write_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, [texts[kind]])
    return list(paths.values())


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _comment(text: str) -> str:
    return "\n".join(f"# {line}".rstrip() for line in text.strip().splitlines())


def _prompts(head: str, shipped: PackPaths) -> str:
    pack = read_prompts(shipped, MODEL)
    parts = [
        f"# The prompt variants. Write each variant where {TO_DO} stands, as a careful native speaker would;\n"
        "# keep ids, kinds and everything in braces.",
        head,
        *(_variant(variant) for variant in pack.variant),
        "# Follows, in the same conversation, an answer that could not be read.\n[follow_up]\n"
        f'none = "{TO_DO}"\ntext = """\n{TO_DO} {{label_a}} {{label_b}} {{label_c}} {{none}}\n"""',
        "# What a chatty model would write: five sentences that choose {option}, four that say that the question\n"
        "# cannot be answered, three that decline.\n[answers]",
    ]
    for name in ("person", "unknown", "refusal"):
        parts[-1] += "\n" + _comment("\n".join(getattr(pack.answers, name))) + f"\n{name} = [\n]"
    return "\n\n".join(parts) + "\n"


def _variant(variant: PromptVariant) -> str:
    sentences = [line for line in variant.text.strip().splitlines() if PLACEHOLDER.sub("", line).strip(" :")]
    lines = ["[[variant]]", f'id = "{variant.id}"', f'kind = "{variant.kind}"']
    if sentences:
        lines.append(_comment("\n".join(["In English:", *sentences])))
    if variant.example_answer is not None:
        lines += [_comment(variant.example_answer), f'example_answer = "{TO_DO} {{label}}"']
    fields = "{context}\n\n{question}\n\n{label_a}: {option_a}\n{label_b}: {option_b}\n{label_c}: {option_c}"
    return "\n".join([*lines, 'text = """', *([TO_DO, ""] if sentences else []), fields, '"""'])


def _extractor(head: str, shipped: PackPaths) -> str:
    english = read_grammar(MODEL, shipped)
    rank = {name: number for number, name in enumerate(FIRST)}
    parts = [_comment(_HOW_TO), head]
    for table in WORD_LISTS:
        names = sorted(WORD_LISTS[table], key=lambda name: rank.get(f"{table}.{name}", len(rank)))
        parts.append(f"[{table}]")
        for name in names:
            words = textwrap.wrap(" ".join(english.word_list(table, name)), WIDTH)[:SHOWN]
            lines = [*textwrap.wrap(WORD_LISTS[table][name], WIDTH), *(f"English: {line}" for line in words)]
            parts[-1] += "\n" + "\n".join([*(f"# {line}" for line in lines), f"{name} = []"])
    parts.append(
        "# Responses with the expected result; `mbbq-gen check` runs them.\n"
        "# outcome: option, abstention, refusal, multiple or unparsed. option: index from 0.\n"
        "# needs: the class without which the result must change.\n"
        "# [[example]]\n"
        '# response = "The text does not say."\n'
        '# options = ["The tailor", "The baker", "Unknown"]\n'
        '# outcome = "abstention"\n'
        "# option = 2\n"
        '# needs = ["words.neg"]'
    )
    return "\n\n".join(parts) + "\n"


def _control_set(head: str, shipped: PackPaths) -> str:
    english = read_control_set(shipped, MODEL)
    names = [
        f"# {', '.join(found[:6])}…\n{gender} = [\n]"
        for gender, found in (("female", english.names.female), ("male", english.names.male))
    ]
    parts = [
        _comment(_NAMES),
        head,
        "\n".join(["[names]", *names]),
        '[grammar]\nvowels = "aeiouy"',
        '[grammar.forms]\ndef = [{ give = "{name}" }]\nindef = [{ give = "{name}" }]',
    ]
    return "\n\n".join(parts) + "\n"
