"""A study: several models on several benchmarks, defined in one TOML file, in one folder.

Each model × benchmark is a run in a folder of its own. Settings above the tables apply to all runs; settings of a
benchmark override them, and settings of a model override both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mbbq_gen.core.config import RunConfig, help_of
from mbbq_gen.core.errors import FILE, ConfigError, PackError, UsageError
from mbbq_gen.languages.packs import read_toml

_PATHS: Final = ("data_dir", "instances", "instances_field_map", "prices", "cache_dir")
_TABLES: Final = ("model", "benchmark")
_BENCHMARK_ONLY: Final = frozenset({"data_dir", "instances", "instances_field_map"})


def read_study(path: Path) -> tuple[Path, dict[Path, RunConfig]]:
    """The folder of a study, and its runs (folder → configuration), model by model.

    Settings of a model override those of a benchmark, and these the shared ones. UsageError, PackError or ConfigError,
    with the path, for a missing or wrong file.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file; `mbbq-gen init {path}` writes one")
    shared = read_toml(path)
    name = shared.pop("folder", path.stem)
    if not isinstance(name, str):
        raise PackError(f"{path}: folder: give a text")
    models, benchmarks = (_tables(path, shared, kind) for kind in _TABLES)
    folder, common, runs = path.parent / name, _config(path, shared), dict[Path, RunConfig]()
    for model in models:
        for benchmark in benchmarks:
            levels = (common, benchmark, model)
            given = {name: getattr(level, name) for level in levels for name in level.model_fields_set}
            given["model_args"] = {name: value for level in levels for name, value in level.model_args.items()}
            questions = Path(benchmark.instances).stem if benchmark.instances else ",".join(benchmark.benchmark)
            run = folder / f"{_slug(model.model)}--{_slug(questions)}"
            if run in runs:
                raise PackError(f"{path}: two runs would go to {run.name}; name each model and benchmark once")
            runs[run] = RunConfig(**given)
    return folder, runs


def _tables(path: Path, shared: dict[str, Any], kind: str) -> list[RunConfig]:
    """The models or benchmarks of a file, which are removed from its settings."""
    names, tables = shared.pop(f"{kind}s", []), shared.pop(kind, [])
    for entries, kind_of_entry in ((names, str), (tables, dict)):
        if not isinstance(entries, list) or not all(isinstance(one, kind_of_entry) for one in entries):
            raise PackError(f'{path}: {kind}: write {kind}s = ["…"], or tables [[{kind}]] with a name')
    given = [{kind: name} for name in names]
    given += [{kind if name == "name" else name: value for name, value in one.items()} for one in tables]
    if not given:
        raise UsageError(f'{path}: names no {kind}; add {kind}s = ["…"], or a table [[{kind}]] with a name')
    return [_config(path, one) for one in given]


def _config(path: Path, given: Mapping[str, Any]) -> RunConfig:
    """The configuration of a file or table, with paths relative to the file; ConfigError names the file."""
    beside = {
        name: str(path.parent / Path(value).expanduser())
        for name, value in given.items()
        if name in _PATHS and isinstance(value, str)
    }
    try:
        return RunConfig(**{**given, **beside})
    except ConfigError as error:
        raise error.spelled(FILE, f"{path}: ") from None


def study_schema() -> dict[str, Any]:
    """The JSON schema of a study's file."""
    schema = RunConfig.model_json_schema()
    settings: dict[str, Any] = schema["properties"]
    for name, shown in settings.items():
        shown["description"] = help_of(name, FILE)
        if shown.get("type") == "array":
            shown["type"] = ["array", "string"]  # a list may also be a text with commas
        del shown["metavar"], shown["provider"]
    own = {kind: settings.pop(kind) for kind in _TABLES}
    names = {"type": "array", "items": {"type": "string"}}
    general = {name: value for name, value in settings.items() if name not in _BENCHMARK_ONLY}

    def tables(kind: str, properties: Mapping[str, Any]) -> dict[str, Any]:
        named = {"name": {"type": "string", "description": own[kind]["description"]}, **properties}
        return {"type": "array", "items": {"type": "object", "properties": named, "additionalProperties": False}}

    folder = {"type": "string", "description": "Where the runs go, relative to the file."}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Study of mbbq-gen",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "folder": folder,
            **{f"{kind}s": names for kind in _TABLES},
            "benchmark": tables("benchmark", settings),
            "model": tables("model", general),
            **general,
        },
        **({"$defs": schema["$defs"]} if "$defs" in schema else {}),
    }


def _slug(name: str) -> str:
    return re.sub(r"[^\w.]+", "-", name).strip("-.") or "_"


def resolve_run_paths(paths: Sequence[Path]) -> list[Path]:
    """Run folders; the file or folder of a study is replaced by its runs, sorted by name."""
    found: list[Path] = []
    for path in paths:
        folder = read_study(path)[0] if path.suffix == ".toml" else path
        inner = [] if _is_run(folder) or not folder.is_dir() else sorted(filter(_is_run, folder.iterdir()))
        found += inner or [folder]
    return found


def _is_run(path: Path) -> bool:
    return (path / "run.sqlite").is_file()
