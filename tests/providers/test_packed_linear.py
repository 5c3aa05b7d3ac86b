from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="needs the extra: pip install 'mbbq-gen[local]'")
pytest.importorskip("transformers", reason="needs the extra: pip install 'mbbq-gen[local]'")

import torch
from torch import nn

from mbbq_gen.providers.local.decoding import ContinuousBatcher, DecodingPrompt, DecodingSettings, StaticBatcher
from mbbq_gen.providers.local.model import PackedLinear, can_pack, pack_linear_layers
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
