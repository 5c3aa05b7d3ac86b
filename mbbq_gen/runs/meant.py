"""Which runs are meant by what was typed: a run's folder, or a study's file or folder for all of its runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path


def runs_in(paths: Sequence[Path]) -> list[Path]:
    """The run folders that are meant: a study's file or folder stands for its runs, in order of their names.

    Raises:
        UsageError: where a study's folder holds no run.
        PackError: where a study's file is wrong.
    """
    return [found for path in paths for found in _runs_at(path)]


def _runs_at(path: Path) -> Iterator[Path]:
    if path.suffix == ".toml":
        from mbbq_gen.runs.study import read_study, study_folder

        path = study_folder(path, read_study(path))
    runs = [] if _is_run(path) or not path.is_dir() else sorted(inner for inner in path.iterdir() if _is_run(inner))
    yield from runs or [path]


def _is_run(path: Path) -> bool:
    return (path / "run.sqlite").is_file()
