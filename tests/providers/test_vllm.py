from __future__ import annotations

import logging
import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.loglikelihood import score_answers as score_packed

pytest.importorskip("torch", reason="needs the extra: pip install 'mbbq-gen[local]'")
pytest.importorskip("transformers", reason="needs the extra: pip install 'mbbq-gen[local]'")

from mbbq_gen.cli.main import run_command_line
from mbbq_gen.core.errors import MissingExtraError, ProviderError, UnknownNameError, UsageError
from mbbq_gen.core.records import Request
from mbbq_gen.providers.base import Provider
from mbbq_gen.providers.local.vllm import Engine
from mbbq_gen.providers.registry import open_provider
from tests.support.providers import answers, folder, make_request, save_model
from tests.support.vllm_stand_in import LLM, stand_in

__all__ = ["folder"]


@pytest.fixture
def _vllm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MBBQ_GEN_CACHE", str(tmp_path))
    monkeypatch.setitem(sys.modules, "vllm", stand_in())


def provider(folder: Path, kind: str = "vllm", **options: Any) -> Provider:
    here = {} if kind == "vllm" else {"device": "cpu", "threads": 1}
    return open_provider(f"{kind}:{folder}", {"max_tokens": 6, **here, **options})


def questions(count: int = 9) -> list[Request]:
    return [make_request(prompt_id=f"p{number}", text=f"who lost it{number * '?'}") for number in range(count)]


def texts(asked: Provider) -> dict[str, tuple[str | None, str | None, int | None, int | None]]:
    return {
        key: (found.text, found.finish_reason, found.usage.input_tokens, found.usage.output_tokens)
        for key, found in answers(asked, questions()).items()
    }


@pytest.mark.usefixtures("_vllm")
@pytest.mark.parametrize("options", [{}, {"system": "none"}, {"system": "be quick"}, {"prompt_format": "plain"}])
def test_it_writes_what_transformers_writes(folder: Path, options: dict[str, Any]) -> None:
    assert texts(provider(folder, **options)) == texts(provider(folder, "transformers", **options))


@pytest.mark.usefixtures("_vllm")
def test_the_engine_is_started_as_the_options_say(folder: Path) -> None:
    asked = provider(folder, batch_size=4, max_model_len=200, dtype="bfloat16", engine={"enforce_eager": True})
    assert len(texts(asked)) == 9
    assert LLM.calls == [4, 4, 1]
    assert LLM.started == [
        {
            "dtype": "bfloat16",
            "seed": 0,
            "trust_remote_code": False,
            "tensor_parallel_size": 1,
            "enable_prefix_caching": True,
            "max_model_len": 200,
            "enforce_eager": True,
        }
    ]
    facts = asked.runtime_info()
    assert (facts["decoding_used"], facts["prompt_format_used"]) == ("vllm", "chat")
    assert facts["batch_dependent"] is True
    assert asked.settings["max_model_len"] == 200
    assert asked.settings["dtype"] == "bfloat16"
    assert asked.settings["files_sha256"] == provider(folder, "transformers").settings["files_sha256"]


@pytest.mark.usefixtures("_vllm")
def test_a_prompt_beyond_the_context_is_an_error_of_its_own(folder: Path) -> None:
    long = make_request(prompt_id="long", text="a" * 300)
    found = answers(provider(folder, max_model_len=200), [long, *questions(2)])
    assert found["key of long"].error == "the prompt has 337 tokens, and the model takes 200 in all"
    assert found["key of p0"].text is not None


@pytest.mark.usefixtures("_vllm")
def test_likelihoods_are_those_of_the_packed_forward(folder: Path, tmp_path: Path) -> None:
    import transformers

    network = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    prompts = [[1, 9, 12, 20], [1, 9, 12, 21, 30], [5]]
    given = [[[7], [8, 9], [8, 9, 10]], [[11, 12]], []]
    engine = Engine("vllm:m", tmp_path / "vllm.log", 3)
    engine.start(str(folder), {})
    found = [sums for _, sums in engine.iterate_scores(prompts, given)]
    for sums, expected in zip(found, score_packed(network, prompts, given), strict=True):
        assert sums == pytest.approx(expected, abs=1e-4)
    assert LLM.calls == [3, 1]


@pytest.mark.usefixtures("_vllm")
def test_what_has_no_likelihood_is_refused(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine("vllm:m", tmp_path / "vllm.log", 3)
    engine.start(str(folder), {})
    monkeypatch.setattr(LLM, "_logprobs_of", lambda *_: [None, {}, {}])
    with pytest.raises(ProviderError, match="vLLM does not tell how likely each token of a prompt is"):
        list(engine.iterate_scores([[1, 2]], [[[3]]]))
    from tests.support.vllm_stand_in import Logprob

    monkeypatch.setattr(LLM, "_logprobs_of", lambda *_: [None, {}, {3: Logprob(float("nan"))}])
    with pytest.raises(ProviderError, match="not numbers"):
        list(engine.iterate_scores([[1, 2]], [[[3]]]))


@pytest.mark.usefixtures("_vllm")
def test_wrong_names_and_options_are_told_before_anything_is_loaded(folder: Path) -> None:
    for name, kind, message in (
        ("vllm:model.gguf", UsageError, "for a GGUF file, start the server of llama.cpp"),
        ("vllm:./nowhere", UsageError, "no such folder"),
        ("vllm:toy", UnknownNameError, "unknown model of vllm 'toy'"),
    ):
        with pytest.raises(kind, match=message):
            open_provider(name)
    with pytest.raises(UnknownNameError, match="unknown option of vllm 'device'"):
        provider(folder, device="cuda")
    assert LLM.started == []


def test_without_vllm_the_command_that_installs_it_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mbbq_gen.providers.base.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"needs vllm .*: pip install 'mbbq-gen\[vllm\]'"):
        open_provider(f"vllm:{folder}")


def noise() -> None:
    os.write(1, b"from its process\n")
    os.write(2, b"from its library\n")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_the_output_of_loggers_and_processes_is_in_the_file(
    method: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoisyLLM:
        def __init__(self, **_: object) -> None:
            processes: Any = multiprocessing.get_context(method)
            started = processes.Process(target=noise)
            started.start()
            started.join()

    module = stand_in()
    module.LLM = NoisyLLM  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", module)
    monkeypatch.setattr(logging.getLogger("vllm"), "handlers", [])
    engine = Engine("vllm:m", tmp_path / "new" / "vllm.log", 3)
    engine.start("m", {})
    logging.getLogger("vllm.engine").warning("from its logger")
    engine.close()
    os.write(2, b"progress\n")
    assert capfd.readouterr() == ("", "progress\n")
    text = engine.log.read_text(encoding="utf-8")
    assert all(f"from its {part}" in text for part in ("process", "library", "logger"))


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
