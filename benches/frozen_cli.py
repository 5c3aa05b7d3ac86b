"""The command line for `benches.frozen`, in its old or its new spelling."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent

COMMANDS = {"plan": "estimate", "thoughts": "reasoning", "audit": "annotate", "position": "position-bias"}
OPTIONS = {
    "--data": "--data-dir",
    "--map": "--field-map",
    "--order": "--option-order",
    "--unknown-wording": "--unknown-text",
    "--shots": "--num-fewshot",
    "--question-only": "--no-context",
    "--system": "--system-prompt",
    "--max-new-tokens": "--max-tokens",
    "--option": "--model-arg",
    "--reasoning": "--reasoning-effort",
    "--normalise": "--normalization",
    "--prompts": "--prompt-source",
    "--concurrency": "--max-connections",
    "--until-width": "--stop-at-ci-width",
    "--until-decided": "--stop-when-decided",
    "--labels": "--gold",
    "--undetected": "--unparsed",
    "--interval": "--confidence-level",
    "--resamples": "--n-resamples",
    "--wordings": "--prompt-effects",
    "--by": "--group-by",
    "--macro": "--macro-average",
    "--adjusted": "--control-adjusted",
    "--smaller-than": "--equivalence-margin",
    "--corrected-by": "--correct-with",
    "--select": "--template-filter",
    "--adjust": "--p-adjust-over",
    "--simultaneous": "--simultaneous-intervals",
    "--verdicts": "--import",
    "--sample": "--sample-size",
    "--from": "--pilot",
    "--width": "--ci-width",
    "--eval-results": "--model-index",
}
VALUES = {
    "likelihood": "loglikelihood",
    "first-token": "first-token-logprobs",
    "per_char": "char",
    "off": "none",
    "on": "default",
    "audit": "annotations",
    "thinking": "reasoning_effort",
    "first-letter": "first-label",
    "strict-letter": "strict-match",
    "answer-form": "answer-line",
    "mean": "token",
}
LABELS_METHOD = {"labels": "label-loglikelihood"}
ENVIRONMENT = {
    "COLUMNS": "160",
    "TERM": "dumb",
    "NO_COLOR": "1",
    "OPENAI_API_KEY": "sk-frozen-0123456789",
    "OPENROUTER_API_KEY": "sk-frozen-0123456789",
    "AZURE_OPENAI_API_KEY": "sk-frozen-0123456789",
    "ANTHROPIC_API_KEY": "sk-frozen-0123456789",
    "GEMINI_API_KEY": "sk-frozen-0123456789",
    "EXAMPLE_API_KEY": "sk-frozen-0123456789",
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE000000000",
    "AWS_SECRET_ACCESS_KEY": "frozen-0123456789",
    "AWS_REGION": "eu-west-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "GOOGLE_CLOUD_PROJECT": "my-project",
    "GOOGLE_CLOUD_LOCATION": "europe-west4",
}


class Product:
    """The command line of this checkout, called in this process."""

    def __init__(self, folder: Path) -> None:
        script = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]["mbbq-gen"]
        module, _, name = script.partition(":")
        self._main: Callable[[], None] = getattr(importlib.import_module(module), name)
        self._helps: dict[tuple[str, ...], str] = {}
        self.folder = folder
        self.seconds: dict[str, float] = {}

    def _call(self, arguments: list[str]) -> tuple[int, str, str]:
        out, err, before = io.StringIO(), io.StringIO(), sys.argv
        sys.argv = ["mbbq-gen", *arguments]
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                self._main()
            code = 0
        except SystemExit as leave:
            code = leave.code if isinstance(leave.code, int) else int(leave.code is not None)
        finally:
            sys.argv = before
        return code, out.getvalue(), err.getvalue()

    def _help(self, *command: str, flag: str = "--help") -> str:
        if command not in self._helps:
            self._helps[command] = self._call([*command, flag] if flag else [*command])[1]
        return self._helps[command]

    def _knows(self, word: str, *command: str) -> bool:
        return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", self._help(*command)) is not None

    def spell(self, words: list[str]) -> list[str]:
        """A command in the spelling of this checkout: an old name that its help lacks becomes the new one."""
        first = words[0] if self._knows(words[0]) else COMMANDS.get(words[0], words[0])
        command: tuple[str, ...] = (first,)
        option, spelt = "", [first]
        if first == "data":
            command = (first, words[1])
            spelt.append(words[1])
        for given in words[len(command) :]:
            word = given
            if word.startswith("--"):
                option, word = word, word if self._knows(word, *command) else OPTIONS.get(word, word)
            elif option in {"--method", "--reasoning", "--normalise", "--corrected-by", "--by", "--extractor"}:
                table = VALUES | LABELS_METHOD if option == "--method" else VALUES
                parts = [self._value(part, table, option, *command) for part in word.split(",")]
                option, word = "", ",".join(parts)
            elif word.startswith("made-up:") and "made-up:" not in self._help("models", flag=""):
                word = word.replace("made-up:", "synthetic:")
            spelt.append(word)
        return spelt

    def _value(self, value: str, table: dict[str, str], option: str, *command: str) -> str:
        new = table.get(value, value)
        renamed = not self._knows(option, *command) if option in OPTIONS else self._knows(new, *command)
        return new if renamed else value

    def seconds_of_help(self) -> float:
        """Wall time of `--help` in a process of its own."""
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "mbbq_gen", "--help"], check=True, capture_output=True, cwd=HERE)
        return round(time.perf_counter() - start, 2)

    def forget(self, name: str) -> None:
        """Removes a run."""
        shutil.rmtree(self.folder / name, ignore_errors=True)

    def __call__(self, line: str) -> tuple[str, Any]:
        """Stdout of a command, and its failure as a golden, or None; `@` is the folder of runs."""
        words = [word.replace("@", f"{self.folder}/") for word in shlex.split(line)]
        start = time.perf_counter()
        code, out, err = self._call(self.spell(words))
        self.seconds[line] = round(time.perf_counter() - start, 1)
        if code:
            print(f"exit {code}: {line}\n  {err.strip()[-600:]}", file=sys.stderr)
        return out, {"exit": code, "said": err.strip().splitlines()[-1:]} if code else None
