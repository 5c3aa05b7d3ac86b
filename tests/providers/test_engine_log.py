"""vLLM's output goes to a file: its loggers, its processes, its errors."""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra: pip install 'mbbq-gen[local]'")
pytest.importorskip("transformers", reason="needs the extra: pip install 'mbbq-gen[local]'")

from mbbq_gen.cli.main import run_command_line
from mbbq_gen.core.errors import ProviderError
from mbbq_gen.providers.local.vllm import EngineLog, LoggedEngine
from mbbq_gen.providers.registry import open_provider
from tests.support.providers import answers, make_request, save_model
from tests.support.vllm_stand_in import LLM, stand_in


def noise() -> None:
    """What a process of the engine writes."""
    os.write(1, b"from its process\n")
    os.write(2, b"from its library\n")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_the_output_of_loggers_and_processes_is_in_the_file(
    method: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = EngineLog("vllm:m", tmp_path / "new" / "vllm.log")
    with log.taking_all():
        processes: Any = multiprocessing.get_context(method)
        started = processes.Process(target=noise)
        started.start()
        started.join()
        logging.getLogger("vllm.engine").info("from its logger")
        os.write(2, b"progress\n")
    assert capfd.readouterr() == ("", "progress\n")
    text = log.path.read_text(encoding="utf-8")
    assert all(f"from its {part}" in text for part in ("process", "library", "logger"))
    assert "VLLM_LOGGING_CONFIG_PATH" not in os.environ


def test_settings_of_the_user_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_CONFIGURE_LOGGING", "0")
    with EngineLog("vllm:m", tmp_path / "vllm.log").taking_all():
        assert "VLLM_LOGGING_CONFIG_PATH" not in os.environ


def test_an_engine_that_fails_or_does_not_end_is_told_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def shutdown() -> None:
        os.write(1, b"a warning\n")
        raise RuntimeError("gone")

    def generate(*_: object) -> None:
        raise RuntimeError("EngineCore died\nand so on")

    core = SimpleNamespace(engine_core=SimpleNamespace(shutdown=shutdown))
    engine = LoggedEngine(
        SimpleNamespace(llm_engine=core, generate=generate), EngineLog("vllm:m", tmp_path / "vllm.log")
    )
    with pytest.raises(ProviderError) as caught:
        engine.generate()
    assert str(caught.value) == f"vllm:m: vLLM failed: EngineCore died; its log: {tmp_path / 'vllm.log'}"
    engine.close()
    assert capfd.readouterr() == ("", "")
    assert "a warning" in (tmp_path / "vllm.log").read_text(encoding="utf-8")


def test_the_file_is_in_the_folder_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    model, run = save_model(tmp_path / "toy"), tmp_path / "run"
    monkeypatch.setitem(sys.modules, "vllm", stand_in())
    monkeypatch.setenv("MBBQ_GEN_CACHE", str(tmp_path / "cache"))
    capfd.readouterr()
    command = ["run", str(run), "--model", f"vllm:{model}", "--benchmark", "starter", "--languages", "en"]
    options = ["--sample", "1", "--variants", "bare", "--max-tokens", "2", "--model-arg", "max_model_len=512"]
    assert run_command_line([*command, *options]) == 0
    assert str(run / "vllm.log") in capfd.readouterr().err
    assert (run / "vllm.log").is_file()
    assert LLM.started
    answers(open_provider(f"vllm:{model}", {"max_tokens": 2}), [make_request()])
    assert (tmp_path / "cache" / "vllm.log").is_file()
