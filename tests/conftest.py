"""What all tests share."""

from __future__ import annotations

import gc
import os
import pickle
import tarfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import cast

import pytest
from hypothesis import settings

from mbbq_gen.benchmarks.registry import load_benchmark
from mbbq_gen.cli.main import GC_THRESHOLD
from mbbq_gen.core.errors import MissingExtraError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Instance, Split
from mbbq_gen.providers.local.files import ModelSource, find_gguf, smollm2_source
from tests.support.extraction import copy_run, make_run

Load = Callable[[str, str, Split], list[Instance]]
"""Reads a benchmark's split in a language."""

PACKED = ("cbbq", "pakbbq", "bbg", "bbq_lite")
"""Published sets that lie there as archives."""
FOLDERS = {"cabbq": "esbbq", "gg_bbq": "gg-bbq"}
"""Published sets whose folder has another name."""

FULL = os.environ.get("MBBQ_GEN_PROOF") == "full"
"""`make proof`: everything that `make test` draws a part of is tried in full."""

gc.set_threshold(*GC_THRESHOLD)  # as the command line does

# No key and no address of this machine reaches a provider.
_MARKS = ("_API_KEY", "_BASE_URL", "AZURE_OPENAI", "OPENAI_", "ANTHROPIC_", "GEMINI_", "GOOGLE_")
for _name in [name for name in os.environ if any(mark in name for mark in _MARKS)]:
    del os.environ[_name]

# The same examples in every run; `make proof` looks for new ones. No deadline: the machine may be busy.
settings.register_profile("mbbq-gen", derandomize=not FULL, deadline=None)
settings.load_profile("mbbq-gen")

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of the real model are slow; files with slow tests go first, so that nothing waits for them at the end."""
    for item in items:
        if item.get_closest_marker("model"):
            item.add_marker(pytest.mark.slow)
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def _sendable(value: object) -> object:
    """`value` with halves of a surrogate pair written out: a report that holds one can't be sent between processes."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_sendable(key): _sendable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_sendable(item) for item in value)
    return value


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, object, object]:
    """The failure of a test on text that no encoding has is reported as any other."""
    return _sendable((yield))


def shared(base: Path) -> Path:
    """The folder that all processes of a test run share, of one process's temporary folder `base`."""
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session", autouse=True)
def impatient() -> Iterator[None]:
    """Who tries again without having been told when does so at once: the waits have tests of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mbbq_gen.providers.http.scheduler._BACKOFF", (0.001, 0.05))
        yield


@pytest.fixture
def first_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first request is alone until it is answered, however slow a loaded machine is to bring the refusal."""
    monkeypatch.setattr("mbbq_gen.providers.http.scheduler._ALONE", 60.0)


@pytest.fixture
def api_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every service has a key in the environment, and all have the same."""
    from tests.support.api import KEY

    for service in ("OPENAI", "ANTHROPIC", "GEMINI", "DEEPSEEK", "OPENROUTER", "AZURE_OPENAI", "SOME"):
        monkeypatch.setenv(f"{service}_API_KEY", KEY)
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", KEY)


@pytest.fixture
def run_path(tmp_path: Path) -> Path:
    """Where a test makes its run."""
    return tmp_path / "run"


@pytest.fixture(scope="session")
def scripted_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose answers are of every kind, which no test changes."""
    return make_run(tmp_path_factory.mktemp("scripted") / "run")


@pytest.fixture
def run(scripted_run: Path, tmp_path: Path) -> Path:
    """A copy of such a run, which a test may change."""
    return copy_run(scripted_run, tmp_path)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The checkout's root."""
    return REPOSITORY


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of the tests' own data files."""
    return REPOSITORY / "tests" / "data"


@pytest.fixture(scope="session")
def resources() -> PackPaths:
    """The packs that ship."""
    return PackPaths()


@pytest.fixture(scope="session")
def shared_datasets() -> Path:
    """Real published data, beside the checkout; tests that need it are skipped where it is missing."""
    folder = REPOSITORY.parent / "shared" / "datasets"
    if not (folder / "EXPECTED_COUNTS.json").is_file():
        pytest.skip(f"needs the published data sets in {folder}")
    return folder


@pytest.fixture(scope="session")
def load_published(shared_datasets: Path, tmp_path_factory: pytest.TempPathFactory) -> Load:
    """Reads published data, once for all processes of a test run; archives are unpacked first."""
    unpacked, kept = tmp_path_factory.mktemp("unpacked"), shared(tmp_path_factory.getbasetemp()) / "published"
    kept.mkdir(exist_ok=True)

    def folder_of(name: str) -> Path:
        if name not in PACKED:
            return shared_datasets / FOLDERS.get(name, name)
        if not (unpacked / name).is_dir():
            with tarfile.open(shared_datasets / "more" / f"{name}.tar.xz") as archive:
                archive.extractall(unpacked, filter="data")
        return unpacked / name

    def read(name: str, language: str, split: Split) -> list[Instance]:
        path = kept / f"{name}-{language}-{split}"
        if path.exists():
            return cast(list[Instance], pickle.loads(path.read_bytes()))
        found = list(load_benchmark(name, data=folder_of(name), languages=[language], splits=[split]))
        own = path.with_suffix(f".{os.getpid()}")
        own.write_bytes(pickle.dumps(found, pickle.HIGHEST_PROTOCOL))
        own.replace(path)
        return found

    return read


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> ModelSource:
    """The real small chat model, converted once for all processes of a test run."""
    try:
        find_gguf()
    except MissingExtraError as error:
        pytest.skip(str(error))
    pytest.importorskip("gguf", reason="needs the extra: pip install 'mbbq-gen[local]'")
    source = smollm2_source(shared(tmp_path_factory.getbasetemp()) / "small-model")
    source.prepare()
    return source
