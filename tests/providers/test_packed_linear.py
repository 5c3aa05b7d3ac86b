from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="needs the extra: pip install 'mbbq-gen[local]'")
pytest.importorskip("transformers", reason="needs the extra: pip install 'mbbq-gen[local]'")

import torch
from torch import nn

from mbbq_gen.providers.local.model import PackedLinear, pack_linear_layers

IS_PACKED = pack_linear_layers(nn.Sequential(nn.Linear(2, 2)))
pytestmark = pytest.mark.skipif(not IS_PACKED, reason="this PyTorch or this processor has no oneDNN")


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
