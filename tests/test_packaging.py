"""The wheel and the sdist carry every data file, byte for byte, and the installed package finds its packs."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from mbbq_gen.resources import PACK_KINDS, Resources, shipped_root


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """A folder with the wheel and the sdist, built without the network."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(repository)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def data_files(repository: Path) -> dict[str, bytes]:
    """Every file that is not Python, by the path that it has in the wheel."""
    found = {
        f"mbbq_gen/data/{path.relative_to(repository)}": path.read_bytes()
        for kind in PACK_KINDS
        for path in (repository / kind).rglob("*.toml")
    }
    for path in (repository / "mbbq_gen").rglob("*"):
        if path.is_file() and path.suffix not in {".py", ".pyc"}:
            found[str(path.relative_to(repository))] = path.read_bytes()
    return found


def test_the_wheel_holds_every_file(built: Path, repository: Path) -> None:
    wanted = data_files(repository)
    wanted |= {str(path.relative_to(repository)): path.read_bytes() for path in (repository / "mbbq_gen").rglob("*.py")}
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        held = {name: wheel.read(name) for name in wheel.namelist() if ".dist-info/" not in name}
    assert held.keys() == wanted.keys()
    assert [name for name, content in wanted.items() if held[name] != content] == []
    assert "mbbq_gen/data/prompts/en.toml" in wanted
    assert "mbbq_gen/py.typed" in wanted


def test_the_sdist_holds_every_pack(built: Path, repository: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {f"{kind}/{path.name}" for kind in PACK_KINDS for path in (repository / kind).glob("*.toml")}
    assert wanted <= names
    assert {"LICENSE", "README.md", "CHANGELOG.md", "Makefile", "constraints.txt"} <= names


def test_the_wheel_finds_its_packs(built: Path, tmp_path: Path) -> None:
    """Unpacked elsewhere, without the checkout, it finds what it carries."""
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        wheel.extractall(tmp_path)
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import mbbq_gen.resources as resources\n"
        "print(resources.__file__); print(resources.shipped_root()); print(*resources.Resources().names('prompts'))\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    module, root, names = done.stdout.splitlines()
    assert module.startswith(str(tmp_path))
    assert root == str(tmp_path / "mbbq_gen" / "data")
    assert {"en", "nl", "es", "tr"} <= set(names.split())


def test_the_checkout_finds_its_packs(repository: Path) -> None:
    """An editable install reads the packs where they are edited."""
    assert shipped_root() == repository
    assert Resources().find("prompts", "en") == repository / "prompts" / "en.toml"
