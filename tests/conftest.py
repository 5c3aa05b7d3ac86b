"""What all tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from mbbq_gen.resources import Resources

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def repository() -> Path:
    """The checkout's root."""
    return REPOSITORY


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of the tests' own data files."""
    return REPOSITORY / "tests" / "data"


@pytest.fixture(scope="session")
def resources() -> Resources:
    """The packs that ship."""
    return Resources()


@pytest.fixture(scope="session")
def shared_datasets() -> Path:
    """Real published data, beside the checkout; tests that need it are skipped where it is missing."""
    folder = REPOSITORY.parent / "shared" / "datasets"
    if not (folder / "EXPECTED_COUNTS.json").is_file():
        pytest.skip(f"needs the published data sets in {folder}")
    return folder
