"""The structure of the package: who may import whom, and budgets whose numbers may only fall.

`python -m tests.test_house` prints today's numbers beside the budgets; `--lower` writes the lower ones to
`tests/data/house/budgets.toml`.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "mbbq_gen"
BUDGETS = ROOT / "tests" / "data" / "house" / "budgets.toml"

_DATA = {"core", "languages", "extraction", "benchmarks", "scoring", "prompts", "statistics", "analysis", "providers"}
_BELOW_RUNS = _DATA | {"storage"}
ALLOWED: dict[str, set[str]] = {
    "core": set(),
    "languages": {"core"},
    "extraction": {"core", "languages"},
    "benchmarks": {"core", "languages"},
    "scoring": {"core"},
    "prompts": {"core", "languages", "benchmarks"},
    "statistics": {"core", "scoring"},
    "analysis": {"core", "languages", "scoring", "statistics"},
    "providers": {"core", "languages"},
    "storage": {"core", "scoring"},
    "runs": _BELOW_RUNS,
    "annotation": (_BELOW_RUNS | {"runs"}) - {"benchmarks"},
    "report": (_BELOW_RUNS | {"runs", "annotation"}) - {"prompts", "providers"},
    "api": _BELOW_RUNS | {"runs", "annotation", "report"},
    "checks": _BELOW_RUNS | {"runs", "annotation", "report"},
    "interchange": _BELOW_RUNS | {"runs", "report", "api"},
    "cli": _BELOW_RUNS | {"runs", "annotation", "report", "interchange", "api", "checks"},
    "__init__": {"api"},
    "__main__": {"cli"},
}
"""Room → the rooms that it may import, at the head of a module, inside a function, or for types only."""

OLD_WORDS = re.compile(
    r"\b(purse|sendings|mended|untold|undetected|quirks?|wordings?|presentations?|verdicts?|thoughts?|told|asked"
    r"|leans?|honest|made.up|meant|stranger)\b",
    re.IGNORECASE,
)
"""Words of the old vocabulary, in code, docstrings and comments."""
NAME = re.compile(r"(?:^|[`\s►◄])((?:[a-z_]+\.)+\w+)\b", re.MULTILINE)
"""A dotted name in docs/architecture.md."""
PROVIDER_GETATTR = re.compile(r"\b(?:getattr|hasattr)\((?:self\.)?_?(?:provider|inner)\b")
HEAVY = {"aiohttp", "anthropic", "google.auth", "httpx", "jinja2", "numpy", "openai", "polars", "regex"}
HEAVY |= {"scipy", "sqlite3", "torch", "transformers", "vl_convert"}


@cache
def sources() -> dict[str, str]:
    """Module → source, for every module of the package."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path.read_text(encoding="utf-8")
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def room_of(module: str) -> str:
    """The room of a module: `core`, …, or the module itself at the top of the package."""
    return module.split(".")[1]


def imported(tree: ast.AST) -> Iterator[str]:
    """The modules and names of the package that a module imports anywhere."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.startswith("mbbq_gen."))
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the room"
            if node.module and node.module.startswith("mbbq_gen"):
                yield from (f"{node.module}.{name.name}" for name in node.names)


def upward_imports(modules: dict[str, str]) -> list[str]:
    """Imports that the rooms do not allow."""
    rooms = set(ALLOWED) - {"__init__", "__main__"}
    return [
        f"{module}: {name}"
        for module, source in modules.items()
        for name in imported(ast.parse(source))
        if (other := name.split(".")[1]) in rooms
        if other != room_of(module) and other not in ALLOWED[room_of(module)]
    ]


def import_cycles(modules: dict[str, str]) -> list[list[str]]:
    """Groups of modules that import each other when they are loaded."""
    needs: dict[str, set[str]] = {}
    for module, source in modules.items():
        heads = ast.Module([node for node in ast.parse(source).body if not isinstance(node, ast.If)], [])
        shallow = [node for node in heads.body if isinstance(node, ast.Import | ast.ImportFrom)]
        names = imported(ast.Module(list[ast.stmt](shallow), []))
        needs[module] = {name if name in modules else name.rpartition(".")[0] for name in names} & modules.keys()
    listed = list(needs)
    edges = np.array([[other in needs[name] for other in listed] for name in listed])
    _, group = connected_components(csr_array(edges), connection="strong")
    groups = [sorted(listed[place] for place in np.flatnonzero(group == number)) for number in np.unique(group)]
    return [members for members in groups if len(members) > 1]


def _lines(texts: Iterable[str]) -> int:
    return sum(text.count("\n") for text in texts)


def _tree_lines(folder: str) -> int:
    return _lines(path.read_text(encoding="utf-8") for path in (ROOT / folder).rglob("*.py"))


@cache
def today() -> dict[str, int]:
    """Every number that may only fall."""
    modules = sources()
    found = {
        "files": len(modules),
        "lines": _lines(modules.values()),
        "longest_file": max(text.count("\n") for text in modules.values()),
        "upward_imports": len(upward_imports(modules)),
        "import_cycles": len(import_cycles(modules)),
        "provider_getattr": sum(len(PROVIDER_GETATTR.findall(text)) for text in modules.values()),
        "json_extract": sum(text.count("json_extract(") for text in modules.values()),
        "old_words": sum(len(OLD_WORDS.findall(text)) for text in modules.values()),
        "test_lines": _tree_lines("tests"),
        "bench_lines": _tree_lines("benches"),
    }
    for room in tomllib.loads(BUDGETS.read_text(encoding="utf-8"))["final"]["rooms"]:
        texts = [text for module, text in modules.items() if room_of(module) == room]
        found |= {f"{room}.files": len(texts), f"{room}.lines": _lines(texts)}
    return found


def budgets() -> tuple[dict[str, int], dict[str, int]]:
    """The final budgets and today's ceilings, by the names of `today`."""
    content = tomllib.loads(BUDGETS.read_text(encoding="utf-8"))
    final: dict[str, int] = {name: value for name, value in content["final"].items() if name != "rooms"}
    for room, sizes in content["final"]["rooms"].items():
        final |= {f"{room}.{what}": size for what, size in sizes.items()}
    return final, content.get("today", {})


@pytest.mark.parametrize("name", sorted(today()))
def test_no_number_rises(name: str) -> None:
    _, ceilings = budgets()
    assert today()[name] <= ceilings[name]


def test_imports_go_down() -> None:
    assert upward_imports(sources()) == []


def test_no_import_cycles() -> None:
    assert import_cycles(sources()) == []


def test_the_checks_can_fail() -> None:
    """An upward import and a cycle are found."""
    lower, upper = "from mbbq_gen.cli.main import main\n", "from mbbq_gen.core.text import visible_text\n"
    made = {"mbbq_gen.core.text": lower, "mbbq_gen.cli.main": upper}
    assert upward_imports(made) == ["mbbq_gen.core.text: mbbq_gen.cli.main.main"]
    assert import_cycles(made) == [["mbbq_gen.cli.main", "mbbq_gen.core.text"]]


def test_only_a_job_knows_of_distributed_runs() -> None:
    """Of the room `runs`, only this module imports `runs/distributed`."""
    users = {
        module
        for module, source in sources().items()
        if room_of(module) == "runs" and not module.startswith("mbbq_gen.runs.distributed")
        if any(name.startswith("mbbq_gen.runs.distributed.") for name in imported(ast.parse(source)))
    }
    assert users == {"mbbq_gen.runs.job"}


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["data", "show", "--help"]])
def test_help_is_light(arguments: list[str]) -> None:
    """`--help` loads no heavy package."""
    script = (
        "import sys, json\n"
        "from mbbq_gen.cli.main import run_command_line\n"
        f"code = run_command_line({arguments!r})\n"
        "print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    code, loaded = json.loads(done.stderr.splitlines()[-1])
    assert code == 0
    assert HEAVY & set(loaded) == set()


def exists(name: str) -> bool:
    """Whether a dotted name below mbbq_gen is a module, or something in one."""
    parts = name.split(".")
    for size in range(len(parts), 0, -1):
        try:
            found: object = import_module(".".join(["mbbq_gen", *parts[:size]]))
        except ModuleNotFoundError:
            continue
        return all((found := getattr(found, part, None)) is not None for part in parts[size:])
    return False


def test_every_name_in_the_architecture_exists() -> None:
    """The names and files in docs/architecture.md."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    names = {name for name in NAME.findall(text) if not name.endswith((".py", ".toml", ".md"))}
    assert len(names) > 40
    assert sorted(name for name in names if not exists(name)) == []
    paths = {path for path in re.findall(r"`([\w./]+)`", text) if "/" in path and "xx" not in path}
    assert len(paths) > 8
    assert sorted(path for path in paths if not any((top / path).exists() for top in (ROOT, ROOT / "mbbq_gen"))) == []


def _main(arguments: list[str]) -> None:
    final, ceilings = budgets()
    numbers = today()
    print(f"{'':24}{'today':>10}{'ceiling':>10}{'final':>10}")  # noqa: T201
    for name, value in numbers.items():
        print(f"{name:24}{value:>10,}{ceilings.get(name, value):>10,}{final.get(name, 0):>10,}")  # noqa: T201
    if "--lower" in arguments:
        kept = BUDGETS.read_text(encoding="utf-8").partition("\n[today]\n")[0].rstrip("\n")
        lower = {name: min(value, ceilings.get(name, value)) for name, value in numbers.items()}
        table = "".join(f'"{name}" = {value:_}\n' for name, value in lower.items())
        BUDGETS.write_text(f"{kept}\n\n[today]\n{table}", encoding="utf-8")


if __name__ == "__main__":
    _main(sys.argv[1:])
