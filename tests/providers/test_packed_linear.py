"""Layers whose weights are packed give what the library's own give, and models made of them the same answers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.loglikelihood import score_answers

pytest.importorskip("torch", reason="needs the extra: pip install 'mbbq-gen[local]'")
pytest.importorskip("transformers", reason="needs the extra: pip install 'mbbq-gen[local]'")

import torch
from torch import nn

from mbbq_gen.providers.local.decoding import ContinuousBatcher, DecodingPrompt, DecodingSettings, StaticBatcher
from mbbq_gen.providers.local.model import PackedLinear, can_pack, pack_linear_layers
from mbbq_gen.providers.local.scoring import scoring_way
from tests.support.providers import make_model, make_token_lists

pytestmark = pytest.mark.skipif(not can_pack(), reason="this PyTorch or this processor has no oneDNN")


@given(
    shape=st.lists(st.integers(0, 5), max_size=3),
    sizes=st.tuples(st.integers(1, 70), st.integers(1, 70)),
    bias=st.booleans(),
    strided=st.booleans(),
)
def test_a_packed_layer_gives_what_the_layer_gives(
    shape: list[int], sizes: tuple[int, int], bias: bool, strided: bool
) -> None:
    torch.manual_seed(sum(shape))
    layer = nn.Linear(*sizes, bias=bias)
    rows = torch.randn(*shape, 2 * sizes[0])[..., ::2] if strided else torch.randn(*shape, sizes[0])
    with torch.inference_mode():
        expected, packed = layer(rows), PackedLinear(layer)
        torch.testing.assert_close(packed(rows), expected, atol=1e-5, rtol=1e-5)
        assert torch.equal(packed.weight, layer.weight)


PACKED = {"llama": 15, "qwen2": 15, "mistral": 15, "gpt2": 1, "bloom": 9}
"""Layers of the tiny models; gpt2's are of a type of its own, but for the last."""


def both(kind: str) -> tuple[Any, Any]:
    plain, packed = make_model(kind), make_model(kind)
    assert pack_linear_layers(packed) == PACKED[kind]
    assert not [layer for layer in packed.modules() if type(layer) is nn.Linear]
    return plain, packed


@pytest.mark.parametrize("kind", PACKED)
def test_a_packed_model_is_as_sure_of_every_answer(kind: str) -> None:
    plain, packed = both(kind)
    prompts = [list(tokens) for tokens in make_token_lists(8)]
    answers = [[list(tokens) for tokens in make_token_lists(6, seed=number)] for number in range(len(prompts))]
    found, expected = score_answers(packed, prompts, answers), score_answers(plain, prompts, answers)
    for sums, others in zip(found, expected, strict=True):
        assert sums == pytest.approx(others, abs=1e-4, rel=0)
    assert scoring_way(packed) == scoring_way(plain)


@pytest.mark.parametrize("kind", ["llama", "gpt2", "qwen2", "mistral"])
def test_a_packed_model_writes_the_same(kind: str) -> None:
    plain, packed = both(kind)
    settings = DecodingSettings(frozenset({2, 7, 11, 19}), 0, batch_size=7, read_tokens=60)
    prompts = [DecodingPrompt(number, tokens, 12, 0) for number, tokens in enumerate(make_token_lists(30))]
    written = [
        {done.number: done.tokens for done in decoder.decode(prompts, lambda: False)}
        for decoder in (
            StaticBatcher(plain, settings),
            StaticBatcher(packed, settings),
            ContinuousBatcher(packed, settings),
        )
    ]
    assert written[0] == written[1] == written[2]
    assert len(set(written[0].values())) > 10


def test_a_weight_that_is_used_elsewhere_too_stays_there() -> None:
    model = make_model("llama", tie_word_embeddings=True)
    before = model.get_input_embeddings().weight.clone()
    assert pack_linear_layers(model) == PACKED["llama"]
    assert torch.equal(model.get_input_embeddings().weight, before)
    assert torch.equal(model.get_output_embeddings().weight, before)


@pytest.mark.filterwarnings("ignore:TF32 acceleration")  # which switching oneDNN off or on says
def test_nothing_is_packed_where_pytorch_was_told_to_leave_it() -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    with torch.backends.mkldnn.flags(enabled=False):
        assert pack_linear_layers(model) == 0
    assert type(model[0]) is nn.Linear
