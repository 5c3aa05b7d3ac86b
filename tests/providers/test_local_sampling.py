from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra: pip install 'mbbq-gen[local]'")
pytest.importorskip("transformers", reason="needs the extra: pip install 'mbbq-gen[local]'")

import torch
import transformers

from mbbq_gen.core.records import Request
from mbbq_gen.providers.base import NEUTRAL_SAMPLING, ExecutionContext, Provider
from mbbq_gen.providers.registry import open_provider
from tests.support.providers import answers, make_request, save_model

CONFIGURED = {"repetition_penalty": 1.8, "top_k": 5, "do_sample": True}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = save_model(tmp_path_factory.mktemp("models") / "toy")
    transformers.GenerationConfig(eos_token_id=[2], pad_token_id=0, **CONFIGURED).save_pretrained(made)
    return made


def local(folder: Path, **options: Any) -> Provider:
    return open_provider(f"transformers:{folder}", {"max_tokens": 12, "device": "cpu", "threads": 1, **options})


def requests(count: int = 6) -> list[Request]:
    return [make_request(prompt_id=f"p{number}", text=f"who lost it{number * '?'}") for number in range(count)]


def texts(asked: Provider) -> list[str | None]:
    return [response.text for _, response in sorted(answers(asked, requests()).items())]


def test_the_generation_configuration_is_used_only_if_asked_for(folder: Path) -> None:
    neutral, own, given = (
        local(folder, **options) for options in ({}, {"sampling": "server"}, {"repetition_penalty": 1.8})
    )
    found = [texts(asked) for asked in (neutral, own, given)]
    assert found[1] == found[2] != found[0]
    assert len({str(asked.settings) for asked in (neutral, own, given)}) == 3
    info: Any = neutral.runtime_info()
    assert info["sampling"] == {"temperature": 0.0, **NEUTRAL_SAMPLING}
    assert info["server"]["sampling_defaults"] == CONFIGURED
    assert {"name", "model_file", "dtype", "context_length", "chat_template_digest"} <= info["server"].keys()
    assert (info["server"]["name"], info["server"]["dtype"]) == ("transformers", "float32")
    info = own.runtime_info()
    assert info["sampling"] == {"temperature": 0.0, **NEUTRAL_SAMPLING, "repetition_penalty": 1.8, "top_k": 5}


@pytest.mark.parametrize(("options", "lines"), [({}, 1), ({"temperature": 0.5, "sampling": "server"}, 1)])
def test_one_line_says_what_is_not_used(folder: Path, options: dict[str, Any], lines: int) -> None:
    said: list[str] = []
    context = ExecutionContext(notify=said.append)
    answers(local(folder, **options), requests(2), context)
    assert len(said) == lines
    assert ("repetition_penalty 1.8" in said[0]) == (not options)


def penalised(folder: Path, prompt: list[int], presence: float, frequency: float) -> list[int]:
    """The likeliest tokens, one after another, with penalties on those that were written."""
    network = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    written: list[int] = []
    while len(written) < 12:
        with torch.inference_mode():
            scores = network(torch.tensor([prompt + written])).logits[0, -1].clone()
            for token, count in Counter(written).items():
                scores[token] -= presence + frequency * count
            written.append(int(scores.argmax()))
        if written[-1] == 2:
            return written[:-1]
    return written


@pytest.mark.parametrize(("presence", "frequency"), [(0.0, 0.0), (1.5, 0.0), (0.0, 0.7), (2.0, -0.5)])
def test_presence_and_frequency_penalty_count_the_tokens_of_the_answer(
    folder: Path, presence: float, frequency: float
) -> None:
    from mbbq_gen.providers.local.model import load_model
    from mbbq_gen.providers.local.options import TransformersOptions, find_device

    options = TransformersOptions(device="cpu", max_tokens=12, presence_penalty=presence, frequency_penalty=frequency)
    asked = local(folder)
    model = load_model(asked.source, find_device(options), options)  # type: ignore[attr-defined]
    prompts = [model._prompt(number, request) for number, request in enumerate(requests(3))]
    stop = {token for token in model.decoding.stop_tokens if token != 2}
    for completion in model.static.decode(prompts, lambda: False):
        expected = penalised(folder, list(prompts[completion.number].tokens), presence, frequency)
        cut = next((place for place, token in enumerate(expected) if token in stop), len(expected))
        assert list(completion.tokens) == expected[:cut]
