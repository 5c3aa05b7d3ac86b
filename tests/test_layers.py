"""Imports go downwards only, and starting the command line loads nothing heavy."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "reasoning", "records", "seeding", "storable", "waits"),
    ("resources", "languages", "axes", "axis_texts"),
    (
        "datasets",
        "templates",
        "control",
        "substitution",
        "presentation",
        "recognition",
        "sampling",
        "shots",
        "extraction",
        "scoring",
        "statistics",
    ),
    ("providers", "runs", "checking", "skeletons"),
    ("api", "exports", "imports", "report", "viewer"),
    ("cli", "inspect_tasks"),
    ("__main__",),
)
LEVEL = {module: level for level, modules in enumerate(LAYERS) for module in modules}
APART = {
    "extraction": {"datasets", "templates", "control", "substitution", "presentation", "sampling", "scoring"},
    "scoring": {"datasets", "templates", "control", "substitution", "sampling"},
    "providers": {"runs", "datasets"},
}
"""Within a layer: what a module must not know of. Extraction and scoring see files, never a model."""


def imported(tree: ast.AST) -> set[str]:
    """The top modules of mbbq_gen that a module imports, at its head or inside a function."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {name.name.split(".")[1] for name in node.names if name.name.startswith("mbbq_gen.")}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the layer"
            if node.module and node.module.startswith("mbbq_gen."):
                found.add(node.module.split(".")[1])
            elif node.module == "mbbq_gen":
                found |= {name.name for name in node.names if name.name in LEVEL}
    return found


def modules(repository: Path) -> list[tuple[str, Path]]:
    """(top module, file) for every file of the package."""
    package = repository / "mbbq_gen"
    files = [path for path in sorted(package.rglob("*.py")) if path != package / "__init__.py"]
    return [(path.relative_to(package).parts[0].removesuffix(".py"), path) for path in files]


def test_every_module_has_a_layer(repository: Path) -> None:
    assert {module for module, _ in modules(repository)} <= LEVEL.keys()


def test_imports_go_downwards(repository: Path) -> None:
    wrong = [
        f"{path.name} imports {other}"
        for module, path in modules(repository)
        for other in imported(ast.parse(path.read_text(encoding="utf-8"))) - {module}
        if LEVEL[other] > LEVEL[module] or other in APART.get(module, set())
    ]
    assert wrong == []


def names_of(tree: ast.AST) -> set[str]:
    """The modules that a module imports when it runs, at its head or inside a function; not what only types need."""
    found: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
        found |= names_of(node)
    return found


def test_no_two_files_import_each_other(repository: Path) -> None:
    """A package's own file, which its parts are reached through, is no second file."""
    files = {
        ".".join(path.relative_to(repository).with_suffix("").parts): path
        for _, path in modules(repository)
        if path.stem != "__init__"
    }
    needs = {name: names_of(ast.parse(path.read_text(encoding="utf-8"))) for name, path in files.items()}
    assert needs["mbbq_gen.cli.study"] > {"mbbq_gen.cli.progress"}, "imports are seen"
    assert [(one, other) for one in files for other in needs[one] & files.keys() if one in needs[other]] == []


def test_the_layers_are_seen_by_the_test() -> None:
    """The check can fail: an upward import is found."""
    assert imported(ast.parse("from mbbq_gen.cli import app\nimport mbbq_gen.runs.store")) == {"cli", "runs"}


HEAVY = {"aiohttp", "anthropic", "google.auth", "httpx", "jinja2", "matplotlib", "numpy", "openai", "polars", "regex"}
HEAVY |= {"scipy", "sqlite3", "torch", "transformers"}


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["data", "show", "--help"]])
def test_help_is_light(arguments: list[str]) -> None:
    """`--help` loads no heavy package; benches/bench_help.py tells how long it takes."""
    script = (
        "import sys, json\n"
        "from mbbq_gen.cli import run_command_line\n"
        f"code = run_command_line({arguments!r})\n"
        "print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    code, loaded = json.loads(done.stderr.splitlines()[-1])
    assert code == 0
    assert HEAVY & set(loaded) == set()
    assert "Usage: mbbq-gen" in done.stdout
