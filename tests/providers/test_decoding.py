from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="needs the extra: pip install 'mbbq-gen[local]'")
pytest.importorskip("transformers", reason="needs the extra: pip install 'mbbq-gen[local]'")

import torch

from mbbq_gen.core.errors import ProviderError
from mbbq_gen.providers.local.decoding import (
    Completion,
    ContinuousBatcher,
    DecodingPrompt,
    DecodingSettings,
    StaticBatcher,
    decode_all,
    supports_tree_attention,
)
from tests.conftest import FULL
from tests.support.providers import make_model, make_token_lists

STOP = frozenset({2, 7, 11, 19})
Answers = dict[int, tuple[tuple[int, ...], str, int]]


def settings(
    batch_size: int = 5, read_tokens: int = 30, temperature: float = 0.0, top_p: float = 1.0
) -> DecodingSettings:
    return DecodingSettings(STOP, 0, batch_size, read_tokens, temperature, top_p)


def prompts_of(lists: Sequence[tuple[int, ...]], limit: int = 12) -> list[DecodingPrompt]:
    return [DecodingPrompt(number, tokens, limit, seed=number) for number, tokens in enumerate(lists)]


def run(decoder: ContinuousBatcher | StaticBatcher, prompts: Sequence[DecodingPrompt]) -> Answers:
    found: dict[int, Completion] = {}
    for completion in decode_all(decoder, prompts, lambda: False):
        assert completion.number not in found
        found[completion.number] = completion
    return {number: (done.tokens, done.finish_reason, done.written) for number, done in sorted(found.items())}


def alone(model: Any, prompts: Sequence[DecodingPrompt]) -> Answers:
    found: Answers = {}
    for prompt in prompts:
        with torch.inference_mode():
            output = model.generate(
                input_ids=torch.tensor([prompt.tokens]),
                attention_mask=torch.ones(1, len(prompt.tokens), dtype=torch.long),
                max_new_tokens=prompt.limit,
                do_sample=False,
                eos_token_id=sorted(STOP),
                pad_token_id=0,
            )
        written = output[0, len(prompt.tokens) :].tolist()
        stopped = written[-1] in STOP
        found[prompt.number] = (
            tuple(written[:-1] if stopped else written),
            "stop" if stopped else "length",
            len(written),
        )
    return found


@cache
def expected_of(kind: str) -> tuple[Any, list[DecodingPrompt], Answers]:
    model, prompts = make_model(kind), prompts_of(make_token_lists(30))
    return model, prompts, alone(model, prompts)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["llama", "gpt2", "mistral"])
@pytest.mark.parametrize(("batch_size", "read_tokens"), [(1, 1), (2, 10), (5, 30), (8, 1000), (64, 64)])
def test_continuous_decoding_gives_what_each_prompt_gives_alone(kind: str, batch_size: int, read_tokens: int) -> None:
    model, prompts, expected = expected_of(kind)
    assert run(ContinuousBatcher(model, settings(batch_size, read_tokens)), prompts) == expected
    assert {reason for _, reason, _ in expected.values()} == {"stop", "length"}
    assert len({tokens for tokens, _, _ in expected.values()}) > 15


kept_model = cache(make_model)
"""A model that tests may share: made when the first of them asks."""
beginnings = st.lists(st.integers(5, 9), max_size=6).map(tuple)
endings = st.lists(st.integers(5, 47), min_size=1, max_size=5).map(tuple)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gpt2", "llama", "qwen2"])
@hypothesis.settings(max_examples=100 if FULL else 40)
@given(
    lists=st.lists(st.builds(lambda first, rest: (*first, *rest), beginnings, endings), min_size=1, max_size=10),
    batch_size=st.integers(1, 12),
    read_tokens=st.integers(1, 60),
)
def test_any_prompts_in_any_order_and_batch_are_answered_as_alone(
    kind: str, lists: list[tuple[int, ...]], batch_size: int, read_tokens: int
) -> None:
    prompts = prompts_of(lists, limit=6)
    decoder = ContinuousBatcher(kept_model(kind), settings(batch_size, read_tokens))
    assert run(decoder, prompts) == alone(kept_model(kind), prompts)


@pytest.mark.parametrize("kind", ["llama", "bloom"])
def test_static_decoding_gives_what_each_prompt_gives_alone(kind: str) -> None:
    model = make_model(kind)
    prompts = [*prompts_of(make_token_lists(12)), DecodingPrompt(99, (9, 10, 12), limit=3, seed=0)]
    assert run(StaticBatcher(model, settings(4)), prompts) == alone(model, prompts)


@pytest.mark.parametrize(("kind", "expected"), [("llama", True), ("gpt2", True), ("mistral", True), ("bloom", False)])
def test_models_that_mask_in_their_own_way_are_found(kind: str, expected: bool) -> None:
    assert supports_tree_attention(make_model(kind)) is expected


def test_sampling_follows_the_probabilities() -> None:
    model, tokens = make_model(), (5, 9, 12, 30)
    with torch.inference_mode():
        likely = torch.softmax(model(torch.tensor([tokens])).logits[0, -1] / 2.0, dim=-1)
    prompts = [DecodingPrompt(number, tokens, 1, seed=number) for number in range(2000)]
    decoder = ContinuousBatcher(model, DecodingSettings(frozenset(), 0, 500, 500, temperature=2.0))
    drawn = torch.zeros(len(likely))
    for completion in decoder.decode(prompts, lambda: False):
        drawn[completion.tokens[0]] += 1 / len(prompts)
    assert (drawn - likely).abs().max() < 0.05


def test_static_sampling_depends_on_the_seed() -> None:
    model, prompts = make_model(), prompts_of(make_token_lists(6))
    first = run(StaticBatcher(model, settings(4, temperature=1.0)), prompts)
    assert run(StaticBatcher(model, settings(2, temperature=1.0)), list(reversed(prompts))) == first


@pytest.mark.parametrize("kind", [ContinuousBatcher, StaticBatcher])
def test_cancelling_stops_after_the_current_step(kind: type[ContinuousBatcher | StaticBatcher]) -> None:
    model = Proxy(make_model())
    prompts = prompts_of(make_token_lists(40), limit=60)
    decoder = kind(model, DecodingSettings(frozenset(), 0, 4, 50))
    assert list(decoder.decode(prompts, lambda: model.calls >= 3)) == []
    assert model.calls <= 4


@pytest.mark.parametrize("kind", [ContinuousBatcher, StaticBatcher])
def test_when_memory_runs_out_the_batch_is_halved_and_the_text_stays(
    kind: type[ContinuousBatcher | StaticBatcher],
) -> None:
    model, prompts = make_model(), prompts_of(make_token_lists(25))
    decoder = kind(Proxy(model, fails=lambda ids: ids.shape[0] > 3), settings(16, 1000))
    assert run(decoder, prompts) == alone(model, prompts)
    assert decoder.batch_size in (2, 3)


@pytest.mark.parametrize("kind", [ContinuousBatcher, StaticBatcher])
def test_too_little_memory_for_one_prompt_ends_the_run(kind: type[ContinuousBatcher | StaticBatcher]) -> None:
    decoder = kind(Proxy(make_model(), fails=lambda _: True), settings(4, 1000))
    with pytest.raises(ProviderError, match="out of memory with one prompt"):
        run(decoder, prompts_of([(5, 6, 9), (5, 6, 9, 10), (20, 21)]))


class Proxy:
    def __init__(self, model: Any, fails: Callable[[Any], bool] = lambda _: False, forget: str = "") -> None:
        self._model, self._fails, self._forget = model, fails, forget
        self._forward = model.forward
        model.forward = self.forward
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def forward(self, *args: Any, logits_to_keep: Any = 0, **named: Any) -> Any:
        self.calls += 1
        if self._fails(named["input_ids"]):
            raise torch.OutOfMemoryError("out of memory")
        named.pop(self._forget, None)
        return self._forward(*args, logits_to_keep=logits_to_keep, **named)

    def __call__(self, **named: Any) -> Any:
        return self.forward(**named)

    def generate(self, **named: Any) -> Any:
        return self._model.generate(**named)
