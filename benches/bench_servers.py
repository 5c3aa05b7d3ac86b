"""The same model through real servers: does it choose the options that `transformers:` chooses, with all defaults?

    python benches/bench_servers.py [--only vllm,serve] [--sample 24] [--penalty 1.1] [--folder FOLDER]
        [--vllm ENVIRONMENT] [--llama ENVIRONMENT] [--serve ENVIRONMENT]

SmolLM2-135M-Instruct in float32, 240 prompts of `starter` (`--sample 24`), temperature 0. The model's folder asks for
the repetition penalty, temperature 0.7, top-p 0.9 and top-k 20 in generation_config.json. An environment is a
folder made by `python -m venv`. The variables BENCH_VLLM, BENCH_LLAMA and BENCH_SERVE can name them too. A server that
is not installed is skipped with a reason.

vllm     a vLLM server
scores   the same, 48 questions by loglikelihood and 48 by label-loglikelihood
kill     the same, killed (SIGKILL) after 40 answers and started again after 10 seconds
serve    `transformers serve`, which answers one request at a time
llama    llama-cpp-python's server, from the GGUF file
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

from fake_api import ENVIRONMENT, ROOT, must, run_command, say, table

from mbbq_gen.core.files import cache_directory
from mbbq_gen.providers.local.files import find_gguf, smollm2_source

SCORED = ("--method", "loglikelihood,label-loglikelihood", "--variants", "letters", "--splits", "bias")
OWN = {**ENVIRONMENT, "PYTHONPATH": str(ROOT), "VLLM_CPU_KVCACHE_SPACE": "1"}
"""The environment of commands of another Python."""
_LOADING = 900
"""Seconds that a server may take to start."""


class Server:
    """A server on this machine, as a process of its own."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        with closing(socket.create_server(("127.0.0.1", 0))) as free:
            self._port = free.getsockname()[1]
        self._command, self._log = [*command, "--port", str(self._port)], log
        self.start()

    def start(self) -> None:
        """Starts it; it does not answer yet."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, env=OWN, start_new_session=True)

    def kill(self) -> None:
        """Ends it and its processes."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def model(self, name: str) -> list[str]:
        """Waits until it answers; the options of a run that asks it."""
        for _ in range(_LOADING):
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self._port}/openapi.json"):
                return [f"openai:{name}", "--base-url", f"http://127.0.0.1:{self._port}/v1"]
            time.sleep(1)
        sys.exit(f"the server does not answer; see {self._log}")


class Bench:
    """The folder of all runs, and their rows."""

    def __init__(self, given: argparse.Namespace, folder: Path) -> None:
        self._given, self._folder = given, folder

    def folder_of_model(self) -> str:
        """The model's folder, with sampling in its generation_config.json."""
        source, folder = smollm2_source(cache_directory()), self._folder / f"model-{self._given.penalty}"
        source.prepare()
        folder.mkdir(exist_ok=True)
        settings: dict[str, Any] = {"do_sample": True, "temperature": 0.7, "top_p": 0.9, "top_k": 20}
        for file in Path(source.location).iterdir():
            if file.name == "generation_config.json":
                settings |= json.loads(file.read_text()) | {"repetition_penalty": self._given.penalty}
            elif not (folder / file.name).exists():
                (folder / file.name).symlink_to(file)
        (folder / "generation_config.json").write_text(json.dumps(settings | {"do_sample": True}), encoding="utf-8")
        return str(folder)

    def python(self, environment: str, modules: str) -> str:
        """The Python of an environment; raises LookupError with the reason where modules are missing."""
        folder = getattr(self._given, environment) or os.environ.get(f"BENCH_{environment.upper()}")
        if folder is None:
            raise LookupError(f"give --{environment}, a folder with {modules}")
        python = f"{folder}/bin/python"
        tried = subprocess.run(
            [python, "-c", f"import {modules}"], capture_output=True, text=True, check=False, env=OWN
        )
        if tried.returncode:
            raise LookupError(f"{folder}: {tried.stderr.strip().splitlines()[-1]}")
        return python

    def query(self, run: str, statement: str) -> list[Any]:
        with closing(sqlite3.connect(self._folder / run / "run.sqlite")) as store:
            return store.execute(statement).fetchall()

    def command(self, run: str, model: Sequence[str], *options: str, python: str = sys.executable) -> list[str]:
        """The command of a run."""
        chosen = ["--benchmark", "starter", "--languages", "en", "--sample", str(self._given.sample)]
        return [python, "-m", "mbbq_gen", "run", str(self._folder / run), "--model", *model, *chosen, *options]

    def row(self, run: str, command: list[str], *scored: str, kills: Server | None = None) -> list[str]:
        """Does a run, and compares it with the same of `transformers:`, which is done where it is not there yet."""
        reference = "reference-scores" if scored else "reference"
        if not (self._folder / reference).exists():
            line = self.command(reference, ["transformers:smollm2"], *scored)
            must(run_command(line, self._folder / f"{reference}.log", OWN), reference)
        began = time.monotonic()
        with (self._folder / f"{run}.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=OWN)
            while kills is not None and process.poll() is None:
                time.sleep(0.5)
                with suppress(sqlite3.OperationalError):
                    if self.query(run, "SELECT count(*) FROM responses")[0][0] >= 40:
                        kills.kill()
                        time.sleep(10)
                        kills.start()
                        kills = None
            code = process.wait()
        seconds, same = time.monotonic() - began, []
        text = "json_extract(responses.record, '$.text')"
        for columns in (f"{text} FROM prompts JOIN responses USING (request_key)", "outcome, option FROM extractions"):
            found, right = (dict(self._pairs(name, columns)) for name in (run, reference))
            same.append(f"{sum(found.get(key) == value for key, value in right.items())} of {len(right)}")
        if scored:
            columns = "option_scores.number, logprob FROM prompts JOIN option_scores USING (request_key)"
            pairs = zip(*(sorted(self._pairs(name, columns)) for name in (run, reference)), strict=True)
            same[0] = f"within {max(abs(one[1][1] - other[1][1]) for one, other in pairs):.1e}"
        errors = self.query(run, "SELECT count(*) FROM responses WHERE is_error")[0][0]
        return [run, f"{seconds:.0f} s", *same, f"{code}, {errors} errors"]

    def _pairs(self, run: str, columns: str) -> list[tuple[str, tuple[Any, ...]]]:
        return [(line[0], line[1:]) for line in self.query(run, f"SELECT prompt_id, {columns}")]

    def rows(self, name: str, wanted: Sequence[str]) -> Iterator[list[str]]:
        """The rows of one server; raises LookupError where it is not installed."""
        with ExitStack() as stack:

            def serving(*command: str) -> Server:
                server = Server(command, self._folder / f"server-{name}.log")
                stack.callback(server.kill)
                return server

            if name == "vllm":
                named = ("--served-model-name", "smol", "--max-model-len", "2048", "--dtype", "float32")
                python = self.python("vllm", "vllm")
                server = serving(python, "-m", "vllm.entrypoints.cli.main", "serve", self.folder_of_model(), *named)
                for run in ("vllm", "scores", "kill"):
                    scored = SCORED if run == "scores" else ()
                    if run in wanted:
                        command = self.command(run, server.model("smol"), *scored)
                        yield self.row(run, command, *scored, kills=server if run == "kill" else None)
            elif name == "serve":
                python = self.python("serve", "transformers.cli.serve, uvicorn, fastapi")
                model = self.folder_of_model()
                program = str(Path(python).with_name("transformers"))
                server = serving(program, "serve", model, "--device", "cpu", "--dtype", "float32")
                yield self.row(name, self.command(name, server.model(model)))
            else:
                python = self.python("llama", "llama_cpp.server.app")
                server = serving(python, "-m", "llama_cpp.server", "--model", str(find_gguf()), "--n_ctx", "2048")
                yield self.row(name, self.command(name, server.model("smollm2")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="vllm,scores,kill,serve,llama", help="rows, separated by commas")
    parser.add_argument("--sample", type=int, default=24, help="questions of each split; 24: 240 prompts")
    parser.add_argument("--penalty", type=float, default=1.1, help="in generation_config.json")
    parser.add_argument("--folder", type=Path, help="where runs and logs are written; default: a temporary folder")
    for environment in ("vllm", "llama", "serve"):
        parser.add_argument(f"--{environment}", help="its environment")
    given = parser.parse_args()
    wanted, rows = given.only.split(","), list[list[str]]()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (given.folder or Path(temporary)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        for name in dict.fromkeys("vllm" if name in ("scores", "kill") else name for name in wanted):
            try:
                for row in Bench(given, folder).rows(name, wanted):
                    say(" | ".join(row))
                    rows.append(row)
            except LookupError as reason:
                say(f"{name} is left out: {reason}")
    print(table(["through", "wall", "same text", "same option", "exit code"], rows))


if __name__ == "__main__":
    main()
