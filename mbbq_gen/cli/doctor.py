"""`mbbq-gen doctor`: what is installed, which keys are set, which data is found."""

from __future__ import annotations

import os
from typing import Literal

import typer

from mbbq_gen.cli.options import Json, example, result_console
from mbbq_gen.records import Record


class Finding(Record):
    """One thing that was looked for."""

    about: Literal["package", "models", "keys", "data", "pages", "languages"]
    name: str
    found: bool
    note: str
    """What it is for, where it is, or how to get it. Never a key."""


KEYS = (
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "AZURE_OPENAI_API_KEY",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AWS_PROFILE",
    "AWS_ACCESS_KEY_ID",
    "HF_TOKEN",
)
"""Variables that services' keys stand in; others can be named with --api-key-env."""
_PAGES = {"jinja2": "the page (report -o)", "matplotlib": "charts as PNG and PDF (report --figures)"}


@example("  mbbq-gen doctor\n  mbbq-gen doctor --json")
def doctor(as_json: Json = False) -> None:
    """Shows what is installed, which keys are set (by their names alone), and which benchmarks' data is found.

    Nothing is sent anywhere. What is missing is no fault: each line says what it would be for and how to get it.
    """
    found = findings()
    if as_json:
        typer.echo("[\n" + ",\n".join(one.model_dump_json() for one in found) + "\n]")
        return
    console, width = result_console(), max(len(one.name) for one in found)
    for about in dict.fromkeys(one.about for one in found):
        console.print(f"\n{about}")
        for one in found:
            if one.about == about:
                console.print(f"  {'yes' if one.found else 'no ':3}  {one.name:{width}}  {one.note}".rstrip())


def findings() -> list[Finding]:
    """Everything that is looked for, in the order in which it is shown."""
    return [*_package(), *_models(), *_pages(), *_keys(), *_data(), *_languages()]


def _package() -> list[Finding]:
    import platform

    import mbbq_gen
    from mbbq_gen.resources import cache_directory, shipped_root

    return [
        Finding(
            about="package", name="mbbq-gen", found=True, note=f"{mbbq_gen.__version__}, packs in {shipped_root()}"
        ),
        Finding(about="package", name="Python", found=True, note=platform.python_version()),
        Finding(about="package", name="cache", found=cache_directory().is_dir(), note=str(cache_directory())),
    ]


def _models() -> list[Finding]:
    from mbbq_gen.providers.registry import list_models

    kinds = [entry for entry in list_models() if not entry.name.startswith(("oracle:", "made-up:"))]
    return [
        Finding(
            about="models",
            name=entry.name,
            found=entry.installed,
            note=entry.summary if entry.installed or entry.install is None else entry.install,
        )
        for entry in kinds
    ]


def _pages() -> list[Finding]:
    from mbbq_gen.providers.local_source import is_installed

    return [
        Finding(
            about="pages",
            name=module,
            found=is_installed(module),
            note=purpose if is_installed(module) else f"{purpose}: pip install 'mbbq-gen[report]'",
        )
        for module, purpose in _PAGES.items()
    ]


def _keys() -> list[Finding]:
    return [
        Finding(
            about="keys",
            name=name,
            found=bool(os.environ.get(name, "").strip()),
            note="set" if os.environ.get(name) else "not set",
        )
        for name in KEYS
    ]


def _data() -> list[Finding]:
    from mbbq_gen.datasets.pull import benchmark_folder
    from mbbq_gen.datasets.registry import BENCHMARKS

    found = []
    for name, info in BENCHMARKS.items():
        folder = benchmark_folder(name) if info.needs_data else None
        note = (
            "ships" if not info.needs_data else str(folder) if folder else f"mbbq-gen data pull {name}, or --data DIR"
        )
        found.append(Finding(about="data", name=name, found=folder is not None or not info.needs_data, note=note))
    return found


def _languages() -> list[Finding]:
    from mbbq_gen.resources import PACK_KINDS, Resources

    where = Resources()
    whole = [name for name in where.names("prompts") if all(where.find(kind, name) for kind in PACK_KINDS)]
    return [Finding(about="languages", name=f"{len(whole)} with all packs", found=True, note=", ".join(whole))]
