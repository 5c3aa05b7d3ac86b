"""The key of a run is searched for in everything that a run leaves and says, over all faults of a service.

    python benches/bench_keys.py [--quick] [--forms plain,late]

Each row is a service of the fake service that repeats the key in all that it sends (answers, names of models, ids,
fingerprints, headers, failures, bodies that are no JSON), in five forms, plain and in batches, under each fault by
itself and all together, and with a wrong key, model, parameter and quota. After each run its status, and after some of
them score, report in the terminal and as a page, an export as Parquet and CSV, and a leaderboard. Every file that is
there then, the shared cache too, tables decoded, and every word on stdout and stderr is searched for the key, for each
half of it, and for its base64 and percent-encoded forms. The bench ends where one is found.
"""

from __future__ import annotations

import argparse
import base64
import io
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
from fake_api import say, table

from mbbq_gen.cli.main import run_command_line
from tests.fake_service.client import fake_server

KEY = "sk-bench-7Qx2/Vb9+Lm4Zt8RkWn3Yc6Hd1Jf5"
FORMS = ("plain", "base64", "percent", "escaped", "late")
SERVICES = {"openai:fake": ("openai", True), "anthropic:fake": ("root", True), "gemini:fake": ("root", False)}
"""Model → which address of the server, and whether it is asked in batches too."""
_FAULTS = ("rate_limited", "server_error", "drop", "lost", "cut", "slow", "malformed")
SCENARIOS: dict[str, dict[str, object]] = {
    "none": {},
    **{name: {"faults": {name: 0.3, "retry_after_s": 0.01, "slow_s": 0.01, "most_per_request": 1}} for name in _FAULTS},
    "always failing": {"faults": {"server_error": 1.0, "most_per_request": 99}},
    "never JSON": {"faults": {"malformed": 1.0, "most_per_request": 99}},
    "all together": {"faults": {**dict.fromkeys(_FAULTS, 0.1), "retry_after_s": 0.01, "slow_s": 0.01}},
    "content": {"content": dict.fromkeys(("filtered_prompt", "filtered_answer", "refused", "empty", "truncated"), 0.2)},
    "wrong key": {"access": {"key": "another"}},
    "no model": {"access": {"models": ["another"]}},
    "refused parameter": {"access": {"refused_parameters": ["temperature"]}},
    "quota": {"access": {"quota": 3}},
    "no usage": {"answers": {"usage": "missing"}},
}


_SHOWN = frozenset({"none", "all together", "content", "no usage"})
"""Scenarios whose pages, exports and leaderboards are made too."""


@dataclass
class Search:
    """Where the key was looked for."""

    runs: int = 0
    files: int = 0
    size: int = 0
    """In bytes."""
    needles: tuple[bytes, ...] = field(default_factory=lambda: tuple(_needles()))

    def look(self, content: bytes, where: str) -> None:
        """Ends the bench where a part of the key is found."""
        self.size += len(content)
        for needle in self.needles:
            if needle in content:
                at = content.index(needle)
                sys.exit(f"{where}: {content[max(0, at - 60) : at + 60]!r}")

    def look_through(self, folder: Path, where: str) -> None:
        """Looks at every file, and at what is inside tables."""
        for path in sorted(folder.rglob("*")):
            if not path.is_file():
                continue
            self.files += 1
            self.look(path.read_bytes(), f"{where}: {path}")
            if path.suffix == ".parquet":
                self.look(pl.read_parquet(path).write_ndjson().encode(), f"{where}: {path}")


def _needles() -> Iterator[bytes]:
    """Parts of the key that stand in any form of it."""
    yield KEY[: len(KEY) // 2].encode()
    yield KEY[len(KEY) // 2 :].encode()
    yield KEY[: len(KEY) // 2].replace("/", "\\/").encode()
    yield "".join(f"%{byte:02X}" for byte in KEY[:12].encode()).encode()
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + KEY.encode()).decode()
        yield encoded[4:24].encode()


def commands(run: Path, model: str, address: str, *, batch: bool, pages: bool) -> list[list[str]]:
    """A run, and what shows it: numbers and words, or pages and tables too."""
    beside = run.parent
    asked = ["--model", model, "--base-url", address, "--benchmark", "starter", "--languages", "en", "--sample", "6"]
    more = [
        "--model-arg",
        "attempts=3",
        "--timeout",
        "5",
        "--max-error-rate",
        "1",
        "--cache-dir",
        str(beside / "cache"),
    ]
    first = ["run", str(run), *asked, "--variants", "bare", *more, *(["--batch"] if batch else [])]
    shown = [["status", "--json"]]
    files = [
        ["score", "--json"],
        ["report"],
        ["report", "-o", str(beside / "page.html")],
        ["export", "--parquet", str(beside / "parquet"), "--csv", str(beside / "csv")],
        ["leaderboard", "-o", str(beside / "board.html")],
    ]
    again = [["run", str(run)]] * (2 if batch else 1)
    return [first, *again, *([words[0], str(run), *words[1:]] for words in [*shown, *(files if pages else [])])]


def one_run(search: Search, model: str, form: str, name: str, *, batch: bool) -> None:
    """Runs, shows and searches."""
    tables = dict(SCENARIOS[name])
    access = tables.get("access")
    tables["access"] = {**(access if isinstance(access, dict) else {}), "echo_key": form}
    where = f"{model}, {form}, {name}{', in batches' if batch else ''}"
    with tempfile.TemporaryDirectory() as folder, fake_server(tables) as server:
        address = getattr(server, SERVICES[model][0])
        said = io.StringIO()
        with redirect_stdout(said), redirect_stderr(said):
            for command in commands(Path(folder) / "run", model, address, batch=batch, pages=name in _SHOWN):
                run_command_line(command)
        search.runs += 1
        search.look(said.getvalue().encode(), f"{where}: what was said")
        search.look_through(Path(folder), where)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forms", default=",".join(FORMS), help="in which the key is repeated")
    parser.add_argument("--quick", action="store_true", help="one form and three scenarios of each service")
    given = parser.parse_args()
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        os.environ[name] = KEY
    forms, names = given.forms.split(","), list(SCENARIOS)
    if given.quick:
        forms, names = forms[:1], ["none", "never JSON", "wrong key"]
    rows = []
    for model, (_, has_batches) in SERVICES.items():
        for batch in (False, True) if has_batches else (False,):
            search = Search()
            for form in forms:
                for name in names:
                    one_run(search, model, form, name, batch=batch)
                say(f"  {model}, {form}{', in batches' if batch else ''}: {search.runs} runs")
            way = "in batches" if batch else "one by one"
            found = (f"{search.runs}", f"{search.files:,}", f"{search.size / 1e6:,.0f} MB", "nowhere")
            rows.append((f"`{model.partition(':')[0]}`", way, *found))
    print(table(("service", "asked", "runs", "files", "searched", "the key"), rows))


if __name__ == "__main__":
    main()
