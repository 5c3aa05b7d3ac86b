from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.providers.local.options import find_device

pytest.importorskip("torch", reason="needs the extra: pip install 'mbbq-gen[local]'")
pytest.importorskip("transformers", reason="needs the extra: pip install 'mbbq-gen[local]'")

from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.records import Message, Request
from mbbq_gen.providers.base import ExecutionContext
from mbbq_gen.providers.local.decoding import StaticBatcher
from mbbq_gen.providers.local.options import TransformersOptions
from mbbq_gen.providers.local.provider import TransformersProvider
from mbbq_gen.providers.registry import open_provider
from tests.support.cases import cases
from tests.support.providers import answers, folder, make_request
from tests.support.static_provider import StaticProvider


def count_steps(asked: TransformersProvider) -> list[int]:
    """A list that grows with each step of the loaded model."""
    steps: list[int] = []
    assert asked._loaded is not None
    assert isinstance(asked._loaded.static, StaticBatcher)
    asked._loaded.static._model.register_forward_hook(lambda *_: steps.append(1))
    return steps


__all__ = ["folder"]


def provider(folder: Path, *, static: bool = False, **options: Any) -> TransformersProvider:
    defaults: dict[str, Any] = {"device": "cpu", "threads": 1, "max_tokens": 12}
    return (StaticProvider if static else TransformersProvider)(str(folder), TransformersOptions(**defaults | options))


def questions(count: int = 24) -> list[Request]:
    names = ["anna", "berta", "carl", "doris"]
    texts = [f"who lost the key, {names[n % 4]} or {names[n // 4 % 4]}{n * '?'}" for n in range(count)]
    return [make_request(prompt_id=f"p{number}", text=text) for number, text in enumerate(texts)]


def texts(asked: TransformersProvider, requests: list[Request]) -> dict[str, str | None]:
    return {key: response.text for key, response in answers(asked, iter(requests)).items()}


def test_the_text_depends_neither_on_the_batch_nor_on_the_decoder(folder: Path) -> None:
    expected = texts(provider(folder, static=True, batch_size=1), questions())
    assert len(set(expected.values())) > 8
    for static, size in ((False, 1), (False, 8), (True, 7)):
        assert texts(provider(folder, static=static, batch_size=size), questions()) == expected


def test_bad_requests_are_errors_and_the_others_are_answered(folder: Path) -> None:
    long, empty = (make_request(prompt_id="long", text="a" * 600), make_request(prompt_id="empty", messages=()))
    found = answers(provider(folder), [long, *questions(3), empty])
    assert found["key of long"].error == "the prompt has 637 tokens, and the model takes 512 in all"
    assert str(found["key of empty"].error).startswith("the chat template refuses the messages: ")
    assert all(found[f"key of p{number}"].text is not None for number in range(3))


def test_sampling_is_repeatable_and_moved_by_its_seed(folder: Path) -> None:
    first = texts(provider(folder, temperature=1.0, batch_size=3), questions())
    assert texts(provider(folder, temperature=1.0, batch_size=9), questions()) == first
    assert texts(provider(folder, temperature=1.0, seed=1), questions()) != first


def test_in_float32_the_batch_is_a_fact_and_in_bfloat16_a_setting(folder: Path) -> None:
    exact, coarse = (
        [provider(folder, dtype=dtype, batch_size=size) for size in (1, 8)] for dtype in ("float32", "bfloat16")
    )
    assert exact[0].settings == exact[1].settings
    assert exact[0].runtime_info()["batch_size"] == 1
    assert exact[0].runtime_info()["batch_dependent"] is False
    assert coarse[0].settings != coarse[1].settings
    assert coarse[0].settings["batch_size"] == 1
    assert coarse[0].runtime_info()["batch_dependent"] is True


def test_what_does_not_shape_the_text_is_not_in_the_key(folder: Path) -> None:
    message = [Message(role="user", content="who?")]
    key = provider(folder).request_key(message, "p1")
    assert provider(folder, threads=2, batch_size=3, seed=4, top_p=0.5).request_key(message, "p2") == key
    assert provider(folder, max_tokens=13).request_key(message, "p1") != key
    assert provider(folder, temperature=0.5).request_key(message, "p1") != key


def test_a_folder_is_known_by_its_files(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "toy"
    shutil.copytree(folder, copy)
    assert provider(copy).settings == provider(folder).settings
    (copy / "README.md").write_text("not a file of the model")
    assert provider(copy).settings == provider(folder).settings
    with (copy / "chat_template.jinja").open("a") as template:
        template.write(" ")
    assert provider(copy).settings != provider(folder).settings


def test_cancelling_the_task_stops_the_work_and_the_model_can_be_asked_again(folder: Path) -> None:
    asked = provider(folder, batch_size=2)

    async def cancel_then_ask() -> int:
        got = asyncio.Event()

        async def read() -> None:
            async for _ in asked.generate(questions(200), ExecutionContext()):
                got.set()

        task = asyncio.create_task(read())
        await got.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        count = 0
        async for _ in asked.generate(questions(3), ExecutionContext()):
            count += 1
        await asked.aclose()
        return count

    assert asyncio.run(cancel_then_ask()) == 3


@pytest.mark.parametrize("options", [{}, {"temperature": 1.0}, {"static": True}])
def test_calls_that_overlap_get_what_each_gets_alone(folder: Path, options: dict[str, Any]) -> None:
    calls = questions()[:9], questions()[9:20], questions()[20:]
    asked = provider(folder, batch_size=4, **options)

    async def one(requests: list[Request]) -> dict[str, str | None]:
        return {response.request_key: response.text async for response in asked.generate(requests, ExecutionContext())}

    async def all_of_them() -> list[dict[str, str | None]]:
        return await asyncio.gather(*map(one, calls))

    found = asyncio.run(all_of_them())
    assert [list(one) for one in map(sorted, found)] == [sorted(r.request_key for r in call) for call in calls]
    expected = texts(provider(folder, **options), questions())
    assert {key: text for one in found for key, text in one.items()} == expected


@pytest.mark.parametrize(("model", "kind", "message"), cases("providers/transformers", "a_wrong_model"))
def test_a_wrong_model_is_told_before_anything_is_loaded(
    model: str, kind: str, message: str, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    with pytest.raises(UsageError) as caught:
        open_provider(f"transformers:{model}")
    assert type(caught.value).__name__ == kind
    assert str(caught.value).startswith(message)


@pytest.mark.slow
def test_a_model_of_the_hub_is_known_by_its_commit_and_needs_no_network_once_it_is_here(
    folder: Path, tmp_path: Path
) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    kept = tmp_path / "models--acme--toy"
    shutil.copytree(folder, kept / "snapshots" / commit)
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text(commit)
    code = (
        "import asyncio, json, sys\n"
        "from mbbq_gen.providers.registry import open_provider\n"
        "from tests.support.providers import answers, make_request\n"
        "asked = open_provider(sys.argv[1], {'device': 'cpu', 'max_tokens': 4})\n"
        "(response,) = answers(asked, [make_request()]).values()\n"
        "print(json.dumps([asked.settings['commit'], response.model, response.error]))\n"
    )
    environment = {**os.environ, "HF_HUB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "1"}

    def ask(model: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", code, model]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    assert json.loads(ask("transformers:acme/toy").stdout) == [commit, "acme/toy", None]
    missing = ask("transformers:acme/other").stderr.strip().splitlines()[-1]
    assert missing.endswith("transformers:acme/other: the hub can't be reached, and no copy is on this machine")


def test_the_device_is_found_or_refused() -> None:
    import torch

    device = find_device(TransformersOptions(device="cpu"))
    assert (device.dtype, device.batch_size) == ("float32", 32)
    if not torch.cuda.is_available():
        with pytest.raises(UsageError, match="option device: 'cuda:1' is not on this machine; use auto or cpu"):
            find_device(TransformersOptions(device="cuda:1"))


def test_closing_the_generator_stops_the_work(folder: Path) -> None:
    asked = provider(folder, batch_size=2)

    async def take_one() -> tuple[int, int]:
        responses = asked.generate(questions(200), ExecutionContext())
        await anext(responses)
        steps = count_steps(asked)
        await responses.aclose()
        at_close = len(steps)
        await asyncio.sleep(0.1)
        after = len(steps)
        await asked.aclose()
        return at_close, after

    at_close, after = asyncio.run(take_one())
    assert at_close == after
    assert at_close < 200
