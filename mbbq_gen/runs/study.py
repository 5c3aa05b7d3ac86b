"""A study: several models on several benchmarks, written down in one TOML file, kept in one folder.

    folder = "results"                  # default: the file's name without .toml, beside it
    languages = ["en", "tr"]            # what holds for all; every option of `mbbq-gen run` by its name, - as _
    splits = ["bias", "control"]
    sample = 96

    [[benchmark]]
    name = "mbbq"
    data_dir = "downloads/mbbq"         # relative to this file
    prompt_source = "published"         # what holds for this benchmark comes before what holds for all

    [[model]]
    name = "openai:gpt-4o-mini"
    max_cost = 5.0                      # US dollars, for each benchmark
    model_args = { max_connections = 16 }  # see docs/providers.md

Each model × benchmark is a run of its own, a folder like any other: a study that was cut off goes on where it stopped,
a model that is added is run alone, and one that fails does not stop the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, JsonValue

from mbbq_gen.core.config import ExecutionOverrides
from mbbq_gen.core.errors import PackError, UsageError
from mbbq_gen.languages.packs import Pack, read_toml, validate_pack
from mbbq_gen.runs.resolve import QuestionSelection

NameList = str | tuple[str, ...]


class RunOverrides(Pack):
    """Questions and settings: options of `mbbq-gen run`; None: as further out in the file, else as there."""

    languages: NameList | None = None
    variants: NameList | None = None
    axes: str | None = None
    design: str | None = None
    prompt_source: str | None = None
    splits: NameList | None = None
    option_order: str | None = None
    label_style: NameList | None = None
    unknown_text: str | None = None
    num_fewshot: int | None = None
    instruction_language: str | None = None
    no_context: bool | None = None
    sample: int | None = None
    seed: int | None = None
    system_prompt: str | None = None
    method: NameList | None = None
    normalization: str | None = None
    allow_confounded_order: bool | None = None
    max_cost: float | None = Field(default=None, gt=0)
    """US dollars that each run may cost."""
    max_error_rate: float | None = Field(default=None, ge=0, le=1)
    prices: str | None = None
    cache_dir: str | None = None
    model_args: dict[str, JsonValue] = Field(default_factory=dict)
    """Options of the model's kind, as docs/providers.md lists them."""


class StudyBenchmark(RunOverrides):
    """A benchmark of a study."""

    name: str | None = None
    data_dir: str | None = None
    """Folder of the published files; None: the release that was pulled."""
    instances: str | None = None
    """In place of a name: a file of one's own questions."""
    field_map: str | None = None
    """Which fields of that file are which of ours."""


class StudyModel(RunOverrides):
    """A model of a study."""

    name: str


class Study(RunOverrides):
    """A study as its file says it."""

    folder: str | None = None
    """Where the runs go, relative to the file."""
    benchmarks: tuple[str, ...] = ()
    """Benchmarks of which there is nothing more to say than their names."""
    benchmark: tuple[StudyBenchmark, ...] = ()
    models: tuple[str, ...] = ()
    """The same of models."""
    model: tuple[StudyModel, ...] = ()


@dataclass(frozen=True)
class StudyRun:
    """One model on one benchmark."""

    path: Path
    """The run's folder."""
    model: str
    benchmark: str
    selection: QuestionSelection
    changes: ExecutionOverrides


def read_study(path: Path) -> Study:
    """The study of a file.

    Raises:
        UsageError: where there is no such file, or it names no model or no benchmark.
        PackError: where it is wrong: file, key, value.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file; `mbbq-gen init {path}` writes one")
    study = validate_pack(Study, read_toml(path), path)
    for name, found in (("model", study.models or study.model), ("benchmark", study.benchmarks or study.benchmark)):
        if not found:
            raise UsageError(f'{path}: names no {name}; add {name}s = ["…"], or a table [[{name}]] with a name')
    for number, one in enumerate(study.benchmark, start=1):
        if (one.name is None) == (one.instances is None):
            raise PackError(f"{path}: benchmark {number}: give either name or instances")
    return study


def study_folder(path: Path, study: Study) -> Path:
    """Where the runs of a study are."""
    return path.parent / (study.folder or path.stem)


def study_runs(path: Path, study: Study, added: Sequence[StudyModel] = ()) -> list[StudyRun]:
    """The runs of a study, model by model; `added` are run beside those of the file.

    Raises:
        PackError: where two of them would go to the same folder.
    """
    models = [*(StudyModel(name=name) for name in study.models), *study.model, *added]
    benchmarks = [*(StudyBenchmark(name=name) for name in study.benchmarks), *study.benchmark]
    runs = [_run(path, study, model, benchmark) for model in models for benchmark in benchmarks]
    paths = [run.path for run in runs]
    if twice := next((run for run in paths if paths.count(run) > 1), None):
        raise PackError(f"{path}: two runs would go to {twice.name}; name each model and benchmark once")
    return runs


def _run(path: Path, study: Study, model: StudyModel, benchmark: StudyBenchmark) -> StudyRun:
    given = _merged(study, benchmark, model)
    rules = {name: given.pop(name, None) for name in ("max_cost", "max_error_rate", "prices", "cache_dir")}
    name = benchmark.name or Path(benchmark.instances or "").stem
    selection = QuestionSelection(
        model=model.name,
        benchmark=benchmark.name,
        data_dir=_beside(path, benchmark.data_dir),
        instances=_beside(path, benchmark.instances),
        field_map=_beside(path, benchmark.field_map),
        **given,
    )
    changes = ExecutionOverrides(
        rules["max_cost"], rules["max_error_rate"], _beside(path, rules["cache_dir"]), _beside(path, rules["prices"])
    )
    folder = study_folder(path, study) / f"{_slug(model.name)}--{_slug(name)}"
    return StudyRun(folder, model.name, name, selection, changes)


def _merged(*levels: RunOverrides) -> dict[str, Any]:
    """What holds, from the outermost level to the innermost; options of the model are put together."""
    names = set(RunOverrides.model_fields) - {"model_args"}
    given: dict[str, Any] = {}
    options: dict[str, JsonValue] = {}
    for level in levels:
        given |= {name: value for name in names if (value := getattr(level, name)) is not None}
        options |= level.model_args
    return {**given, "model_args": options}


def _beside(path: Path, name: str | None) -> Path | None:
    """A path of the file, which is relative to it."""
    return None if name is None else path.parent / Path(name).expanduser()


def _slug(name: str) -> str:
    return re.sub(r"[^\w.]+", "-", name).strip("-.") or "_"


# --- runs in a folder ------------------------------------------------------------------------------------------------


def resolve_run_paths(paths: Sequence[Path]) -> list[Path]:
    """The named run folders: a study's file or folder stands for its runs, in order of their names.

    Raises:
        UsageError: where a study's folder holds no run.
        PackError: where a study's file is wrong.
    """
    return [found for path in paths for found in _runs_at(path)]


def _runs_at(path: Path) -> Iterator[Path]:
    if path.suffix == ".toml":
        path = study_folder(path, read_study(path))
    runs = [] if _is_run(path) or not path.is_dir() else sorted(inner for inner in path.iterdir() if _is_run(inner))
    yield from runs or [path]


def _is_run(path: Path) -> bool:
    return (path / "run.sqlite").is_file()
