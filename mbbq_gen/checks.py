"""Checks every pack and every starter file: schemas, placeholders, examples, and that languages agree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from mbbq_gen.benchmarks.registry import find_benchmark, load_benchmark
from mbbq_gen.benchmarks.templates.files import missing_forms, starter_folder, starter_templates
from mbbq_gen.core.errors import MbbqGenError, PackError, describe_faults
from mbbq_gen.core.files import PACK_KINDS, PackPaths
from mbbq_gen.core.records import FrozenModel
from mbbq_gen.extraction.pack_tools import check_pack
from mbbq_gen.extraction.question import Question, read_people
from mbbq_gen.extraction.reasoning import load_reasoning_extractor, read_reasoning_pack
from mbbq_gen.languages.axes_pack import paraphrase_fault, read_axes
from mbbq_gen.languages.control_pack import read_control_set
from mbbq_gen.languages.packs import TO_DO, read_toml
from mbbq_gen.languages.prompt_pack import PromptPack, read_prompts
from mbbq_gen.providers.synthetic import read_synthetic_pack

Read = TypeVar("Read")


class Finding(FrozenModel):
    """Something wrong in a file."""

    file: str
    what: str
    """Key, value and what to do, in one line."""


class CheckReport(FrozenModel):
    """What was checked and what was found."""

    checked: tuple[str, ...]
    findings: tuple[Finding, ...]
    incomplete: dict[str, tuple[str, ...]]
    """Language → packs that it lacks: it cannot be used yet. Not a fault of what is there."""


def check_everything(resources: PackPaths, languages: Iterable[str]) -> CheckReport:
    """Checks the packs of these languages, and the starter templates."""
    checked: list[Path] = []
    findings: list[Finding] = []
    incomplete: dict[str, tuple[str, ...]] = {}
    prompts: dict[str, PromptPack] = {}
    persons = _starter_persons()
    for code in languages:
        paths = {kind: resources.find(kind, code) for kind in PACK_KINDS}
        axes, synthetic = (resources.find("prompts", f"{name}/{code}") for name in ("axes", "synthetic"))
        people, traces = (resources.find("extractors", f"{name}/{code}") for name in ("people", "reasoning"))
        checked += [path for path in (*paths.values(), axes, synthetic, people, traces) if path is not None]
        if missing := tuple(f"{kind}/{code}.toml" for kind, path in paths.items() if path is None):
            incomplete[code] = missing
        file = f"prompts/{code}.toml"
        if paths["prompts"] is not None and (pack := _read(resources, code, file, read_prompts, findings)) is not None:
            prompts[code] = pack
            findings += [Finding(file=file, what=f"{place}: {TO_DO} is still to be written") for place in _to_do(pack)]
        if (
            axes is not None
            and (composed := _read(resources, code, f"prompts/axes/{code}.toml", read_axes, findings)) is not None
        ):
            faults = (paraphrase_fault(one.plain) for one in (composed.sentences, composed.other) if one is not None)
            findings += [Finding(file=f"prompts/axes/{code}.toml", what=f"plain: {fault}") for fault in faults if fault]
        if synthetic is not None:
            _read(resources, code, f"prompts/synthetic/{code}.toml", read_synthetic_pack, findings)
        if paths["control_sets"] is not None:
            _read(resources, code, f"control_sets/{code}.toml", read_control_set, findings)
        before, file = len(findings), f"extractors/people/{code}.toml"
        findings += [
            Finding(
                file=file, what=f"words.{' '.join(row.english)}: needs one or more words of the language, each once"
            )
            for row in _read(resources, code, file, read_people, findings) or ()
            if not row.words or len(set(row.words)) < len(row.words)
        ]
        if len(findings) == before and paths["extractors"] is not None:
            findings += [
                Finding(file=found.file, what=f"{found.key}: {found.message} (value: {found.value!r})")
                for found in check_pack(resources, code, persons.get(code, []))
            ]
        if len(findings) == before:
            findings += _reasoning_findings(resources, code)
    findings += _variant_findings(prompts)
    folder = starter_folder()
    lacking = missing_forms(starter_templates(), folder, resources)
    findings += [Finding(file=str(file), what=problem) for file, problem in lacking]
    names = [str(path) for path in (*checked, *sorted(folder.glob("*.toml")))]
    return CheckReport(checked=tuple(names), findings=tuple(findings), incomplete=incomplete)


def _read(
    resources: PackPaths, language: str, file: str, reader: Callable[[PackPaths, str], Read], findings: list[Finding]
) -> Read | None:
    """The pack; None, and what is wrong is added to the findings, where it can't be read."""
    try:
        return reader(resources, language)
    except MbbqGenError as error:
        findings += _findings(error, file)
        return None


def _to_do(pack: PromptPack) -> Iterator[str]:
    """The parts of a prompt pack that are still to be written."""
    for variant in pack.variant:
        if TO_DO in variant.text or TO_DO in variant.shot_answer:
            yield f"variant {variant.id!r}"
    if pack.follow_up is not None and TO_DO in pack.follow_up.text + pack.follow_up.none:
        yield "follow_up"


def _reasoning_findings(resources: PackPaths, language: str) -> Iterator[Finding]:
    """What is wrong in how a language's reasoning traces are read: the file, or a failing example."""
    name = f"extractors/reasoning/{language}.toml"
    try:
        pack = read_reasoning_pack(resources, language)
        reader = load_reasoning_extractor(language, resources) if pack is not None else None
    except MbbqGenError as error:
        yield from _findings(error, name)
        return
    if pack is None or reader is None:
        return
    for example in pack.example:
        count = len(example.options)
        question = Question(example.options, "ABCDEFGHIJ"[:count], count - 1)
        try:
            extraction = reader.read(example.reasoning, question)
        except PackError:
            return  # another pack's fault, which its own check finds
        if example.stance not in extraction.stances or example.conclusion not in (None, extraction.option):
            stances = ", ".join(sorted(extraction.stances)) or "nothing"
            found = f"read as {stances}, option {extraction.option}; correct the example or the words"
            yield Finding(file=name, what=f"example {example.reasoning!r}: {found}")


def _starter_persons() -> dict[str, list[str]]:
    """Language → the option texts of the starter benchmark that mean a person."""
    persons: dict[str, list[str]] = {}
    for language in find_benchmark("starter").languages:
        try:
            instances = list(load_benchmark("starter", languages=[language], splits=["bias"]))
        except MbbqGenError:
            continue  # the starter's own check finds what is wrong
        texts = (option.text for found in instances for option in found.options if option.role != "unknown")
        persons[language] = list(dict.fromkeys(texts))
    return persons


def _variant_findings(prompts: dict[str, PromptPack]) -> Iterator[Finding]:
    """Every language must have the same variants of the same kinds, so that variants can be compared."""
    kinds = {language: {variant.id: variant.kind for variant in pack.variant} for language, pack in prompts.items()}
    wanted = kinds.get("en") or next(iter(kinds.values()), {})
    for language, found in kinds.items():
        file = f"prompts/{language}.toml"
        for variant in sorted(wanted.keys() - found.keys()):
            yield Finding(file=file, what=f"variant {variant!r} is missing; other languages have it")
        for variant in sorted(found.keys() - wanted.keys()):
            yield Finding(file=file, what=f"variant {variant!r} is in no other language; ids are shared")
        for variant in sorted(found.keys() & wanted.keys()):
            if found[variant] != wanted[variant]:
                what = f"variant {variant!r}.kind: {found[variant]!r}, elsewhere {wanted[variant]!r}"
                yield Finding(file=file, what=what)


def _findings(error: MbbqGenError, file: str) -> list[Finding]:
    """An error as findings, one for each fault of a file; the file goes before the colon where the message names it."""
    text, cause = str(error), error.__cause__
    before, _, after = text.partition(".toml: ")
    if not after:
        return [Finding(file=file, what=text)]
    path = f"{before}.toml"
    faults = describe_faults(cause, read_toml(Path(path))) if isinstance(cause, ValidationError) else [after]
    return [Finding(file=path, what=fault) for fault in faults]
