from __future__ import annotations

from pathlib import Path

import pytest

from mbbq_gen import Run
from mbbq_gen.benchmarks.registry import BENCHMARKS, load_lazily
from mbbq_gen.core.config import BenchmarkChoice
from mbbq_gen.core.files import file_digest
from mbbq_gen.core.option_display import SamplingUnit
from mbbq_gen.runs.planner import InputTally

LANGUAGES = {"mbbq": ["en", "es"], "bharatbbq": ["en"], "bbg": ["en"]}
"""Those that our own small files are in, where they are not all of the benchmark's."""
CASES = [
    (name, language)
    for name, info in BENCHMARKS.items()
    if info.needs_data and name != "kobbq_all"
    for language in LANGUAGES.get(name, info.languages)
]


def files_of(name: str, language: str, folder: Path) -> dict[str, str]:
    tally = InputTally()
    questions = load_lazily(name, data=folder, languages=[language], splits=["bias"])
    assert list(tally.count_questions(BenchmarkChoice(name=name, data_dir=str(folder)), questions, lambda: None))
    assert all(file.startswith(f"{name}/") for file in tally.files)
    return {file.removeprefix(f"{name}/"): digest for file, digest in tally.files.items()}


@pytest.mark.parametrize(("name", "language"), CASES)
def test_every_reader_tells_its_files(name: str, language: str, data: Path) -> None:
    folder = data / "datasets" / name
    files = files_of(name, language, folder)
    assert files
    assert files == {file: file_digest(folder / file) for file in files}


@pytest.mark.parametrize(("name", "language"), CASES)
def test_samples_are_drawn_by_what_the_instances_have(name: str, language: str, data: Path) -> None:
    for question in load_lazily(name, data=data / "datasets" / name, languages=[language], splits=["bias"]):
        instance = question.build()
        assert question.unit == SamplingUnit.of(instance)
        assert question.unknown_text == instance.options[instance.unknown_index].text


def test_a_run_keeps_them(data: Path, tmp_path: Path) -> None:
    folder = data / "datasets" / "cbbq"
    run = Run.create(tmp_path / "run", model="oracle:perfect", benchmark="cbbq", data_dir=folder, variants="bare")
    assert {
        f"cbbq/{file}": digest for file, digest in files_of("cbbq", "zh", folder).items()
    } == run.manifest.file_digests
