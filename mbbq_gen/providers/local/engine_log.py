"""Keeps the output of vLLM off the terminal: a file gets it, that of its processes too.

vLLM logs through Python's logging, and its processes write to the standard streams that they inherit. So its loggers
get a file by `VLLM_LOGGING_CONFIG_PATH` (docs.vllm.ai, logging configuration), and while a process starts, the standard
streams lead to the same file: a moment each, since the progress of the run is written there as well.
"""

from __future__ import annotations

import json
import logging.config
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from multiprocessing import process, resource_tracker
from pathlib import Path
from typing import Any, Final, Protocol
from unittest.mock import patch

from mbbq_gen.core.errors import ProviderError
from mbbq_gen.providers.local.files import first_line

_OWN_SETTINGS: Final = ("VLLM_LOGGING_CONFIG_PATH", "VLLM_CONFIGURE_LOGGING")
"""Variables by which users configure vLLM's logging themselves; then it stays as it is."""


class Engine(Protocol):
    """A `vllm.LLM`, as far as it is used."""

    def generate(self, *arguments: Any, **named: Any) -> Any:
        """The outputs of prompts."""


class EngineLog:
    """The file that gets vLLM's output."""

    def __init__(self, name: str, path: Path) -> None:
        """`name`: of the model, for messages; the folder of `path` is made where it is missing."""
        self._name, self.path = name, path.absolute()
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)

    def failure(self, what: str, error: Exception) -> ProviderError:
        """An error of vLLM in one line, with the file's name."""
        if isinstance(error, ProviderError):
            return error
        return ProviderError(f"{self._name}: vLLM {what}: {first_line(error)}; its log: {self.path}")

    @contextmanager
    def taking_streams(self) -> Iterator[None]:
        """Leads the standard streams of this process to the file."""
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        saved = [(number, os.dup(number)) for number in (1, 2)]
        try:
            with self.path.open("ab", buffering=0) as file:
                for number, _ in saved:
                    os.dup2(file.fileno(), number)
            yield
        finally:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            for number, copy in saved:
                os.dup2(copy, number)
                os.close(copy)

    @contextmanager
    def taking_all(self) -> Iterator[None]:
        """Leads what vLLM logs, and what processes started meanwhile write, to the file."""
        start: Callable[[process.BaseProcess], None] = process.BaseProcess.start

        @wraps(start)
        def start_quietly(started: process.BaseProcess) -> None:
            with self.taking_streams():
                start(started)

        with tempfile.TemporaryDirectory() as folder:
            settings = {} if any(name in os.environ for name in _OWN_SETTINGS) else self._settings(Path(folder))
            with self.taking_streams():
                resource_tracker.ensure_running()
            with patch.dict(os.environ, settings), patch.object(process.BaseProcess, "start", start_quietly):
                yield

    def _settings(self, folder: Path) -> dict[str, str]:
        """The variables of vLLM's logging, with its configuration in a folder; it applies at once, too."""
        handler = {"class": "logging.FileHandler", "filename": str(self.path), "formatter": "line", "encoding": "utf-8"}
        configuration = {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"line": {"format": "%(levelname)s %(asctime)s pid=%(process)d %(name)s: %(message)s"}},
            "handlers": {"file": handler},
            "loggers": {"vllm": {"handlers": ["file"], "level": "INFO", "propagate": False}},
        }
        (folder / "logging.json").write_text(json.dumps(configuration), encoding="utf-8")
        logging.config.dictConfig(configuration)  # vLLM reads it once only, and after its first lines
        return {"VLLM_LOGGING_CONFIG_PATH": str(folder / "logging.json")}


class LoggedEngine:
    """A `vllm.LLM` whose errors are of one line, and that is shut down quietly."""

    def __init__(self, engine: Any, log: EngineLog) -> None:
        self._engine, self._log = engine, log

    def generate(self, *arguments: Any, **named: Any) -> Any:
        """As the engine's.

        Raises:
            ProviderError: where it fails.
        """
        try:
            return self._engine.generate(*arguments, **named)
        except Exception as error:  # its processes may die in many ways
            raise self._log.failure("failed", error) from error

    def close(self) -> None:
        """Ends the engine's processes; whatever goes wrong is in the log."""
        core = getattr(getattr(self._engine, "llm_engine", None), "engine_core", None)
        if core is not None:
            with self._log.taking_streams(), suppress(Exception):
                core.shutdown()
