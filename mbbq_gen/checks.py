"""Checks of all packs: schemas, placeholders, examples, and variants across languages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mbbq_gen.core.errors import MbbqGenError, PackError, describe_faults
from mbbq_gen.core.files import PACK_KINDS, PackKind, PackPaths
from mbbq_gen.core.records import FrozenModel
from mbbq_gen.extraction.pack_tools import check_pack
from mbbq_gen.extraction.question import Question, read_people
from mbbq_gen.extraction.reasoning import read_reasoning_pack, read_trace
from mbbq_gen.languages.axes_pack import read_axes
from mbbq_gen.languages.control_pack import read_control_set
from mbbq_gen.languages.packs import TO_DO, read_toml
from mbbq_gen.languages.prompt_pack import PromptPack, read_prompts


class Finding(FrozenModel):
    """A problem in a file."""

    file: str
    what: str
    """Key, value and advice, in one line."""


class CheckReport(FrozenModel):
    """The files checked and the findings."""

    checked: tuple[str, ...]
    findings: tuple[Finding, ...]
    incomplete: dict[str, tuple[str, ...]]
    """Language → missing packs, without which the language can't be used; not a finding."""


def check_everything(resources: PackPaths, languages: Iterable[str]) -> CheckReport:
    """Checks the packs of these languages."""
    checked: list[Path] = []
    findings: list[Finding] = []
    incomplete: dict[str, tuple[str, ...]] = {}
    prompts: dict[str, PromptPack] = {}
    for code in languages:
        if missing := tuple(f"{kind}/{code}.toml" for kind in PACK_KINDS if resources.find(kind, code) is None):
            incomplete[code] = missing
        for (kind, part), (read, faults) in _PACKS.items():
            if (path := resources.find(kind, f"{part}{code}")) is None:
                continue
            checked.append(path)
            file = f"{kind}/{part}{code}.toml"
            try:
                pack = read(resources, code)
                findings += [Finding(file=file, what=fault) for fault in faults(pack)]
            except MbbqGenError as error:
                findings += _findings(error, file)
                continue
            if isinstance(pack, PromptPack):
                prompts[code] = pack
        if (path := resources.find("extractors", code)) is not None:
            checked.append(path)
            if not any(finding.file.endswith(f"extractors/people/{code}.toml") for finding in findings):
                findings += _extraction_findings(resources, code)
    findings += _variant_findings(prompts)
    names = [str(path) for path in checked]
    return CheckReport(checked=tuple(names), findings=tuple(findings), incomplete=incomplete)


def _prompt_faults(pack: PromptPack) -> Iterator[str]:
    """The parts of a prompt pack that are not written yet."""
    parts = {f"variant {variant.id!r}": variant.text + variant.shot_answer for variant in pack.variant}
    if pack.follow_up is not None:
        parts["follow_up"] = pack.follow_up.text + pack.follow_up.none
    yield from (f"{place}: {TO_DO} is still to be written" for place, text in parts.items() if TO_DO in text)


_PACKS: dict[tuple[PackKind, str], tuple[Callable[[PackPaths, str], Any], Callable[[Any], Iterable[str]]]] = {
    ("prompts", ""): (read_prompts, _prompt_faults),
    ("prompts", "axes/"): (read_axes, lambda _: ()),
    ("control_sets", ""): (read_control_set, lambda _: ()),
    ("extractors", "people/"): (
        read_people,
        lambda rows: [
            f"words.{' '.join(row.english)}: needs one or more words of the language, each once"
            for row in rows
            if not row.words or len(set(row.words)) < len(row.words)
        ],
    ),
    ("extractors", "reasoning/"): (read_reasoning_pack, lambda _: ()),
}
"""Kind and folder of a pack → its reader, and further checks."""


def _extraction_findings(resources: PackPaths, code: str) -> Iterator[Finding]:
    """Findings in an extraction pack: wrong classes and failing examples."""
    faults = check_pack(resources, code)
    for fault in faults:
        yield Finding(file=f"extractors/{code}.toml", what=fault)
    if faults or resources.find("extractors", f"reasoning/{code}") is None:
        return
    try:
        pack = read_reasoning_pack(resources, code)
    except MbbqGenError:
        return  # reported with its file
    for example in pack.example if pack is not None else ():
        count = len(example.options)
        try:
            question = Question(example.options, "ABCDEFGHIJ"[:count], count - 1)
            found = read_trace(example.reasoning, question, code, resources)
        except PackError:
            return  # reported with the other pack
        if example.stance not in found.stances or example.conclusion not in (None, found.option):
            stances = ", ".join(sorted(found.stances)) or "nothing"
            problem = f"read as {stances}, option {found.option}; correct the example or the words"
            yield Finding(file=f"extractors/reasoning/{code}.toml", what=f"example {example.reasoning!r}: {problem}")


def _variant_findings(prompts: dict[str, PromptPack]) -> Iterator[Finding]:
    """Findings for variants that differ between languages in id or kind."""
    kinds = {language: {variant.id: variant.kind for variant in pack.variant} for language, pack in prompts.items()}
    expected = kinds.get("en") or next(iter(kinds.values()), {})
    for language, found in kinds.items():
        file = f"prompts/{language}.toml"
        for variant in sorted(expected.keys() - found.keys()):
            yield Finding(file=file, what=f"variant {variant!r} is missing; other languages have it")
        for variant in sorted(found.keys() - expected.keys()):
            yield Finding(file=file, what=f"variant {variant!r} is in no other language; ids are shared")
        for variant in sorted(found.keys() & expected.keys()):
            if found[variant] != expected[variant]:
                what = f"variant {variant!r}.kind: {found[variant]!r}, elsewhere {expected[variant]!r}"
                yield Finding(file=file, what=what)


def _findings(error: MbbqGenError, file: str) -> list[Finding]:
    """Converts an error to findings, with the file that its message names, else `file`."""
    text, cause = str(error), error.__cause__
    before, _, after = text.partition(".toml: ")
    if not after:
        return [Finding(file=file, what=text)]
    path = f"{before}.toml"
    faults = describe_faults(cause, read_toml(Path(path))) if isinstance(cause, ValidationError) else [after]
    return [Finding(file=path, what=fault) for fault in faults]
