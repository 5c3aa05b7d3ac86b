"""Linear layers on a CPU in float32 by oneDNN, their weights laid out for it once, when the model is loaded.

PyTorch hands such products to Intel's MKL, which on processors of other makers leaves their widest instructions unused:
on two cores of an AMD EPYC it reaches 110 GFLOP/s a core, and oneDNN, which is part of PyTorch as well, 250. Results
differ in float rounding only, as they do between numbers of threads (docs/decisions/0007-local-models.md).

A layer gives up its own weight, so that no memory is needed twice; what reads it all the same is given a copy.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.functional import linear

if TYPE_CHECKING:
    from torch import Tensor

_ROWS = 64
"""Rows that the layout of weights is chosen for; others are as fast with it."""
_ALIKE = 1e-4
_WIDE = ("AVX2", "AVX512")
"""Instructions that oneDNN's own kernels are written in; with narrower ones it is slower than MKL."""


class PackedLinear(nn.Module):
    """What a linear layer gives, from a weight in oneDNN's own layout."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.bias = layer.bias
        self._packed = _pack(layer.weight.detach())

    @property
    def weight(self) -> Tensor:
        """Out × in, laid out anew at each call: for code of models that looks at it."""
        return self._packed.to_dense()

    def forward(self, rows: Tensor) -> Tensor:
        """… × in → … × out."""
        return _multiply(rows, self._packed, self.bias)


def pack_linear_layers(model: nn.Module) -> int:
    """Puts packed layers in place of a model's linear ones; how many.

    None where oneDNN is not there or was switched off. Layers of other types, number types and devices stay as they
    are, and so do layers that something is hooked to.
    """
    if not (torch.backends.mkldnn.enabled and can_pack()):
        return 0
    places = [
        (parent, name, layer)
        for parent in model.modules()
        for name, layer in parent.named_children()
        if type(layer) is nn.Linear and _is_plain(layer)
    ]
    count = len(places)
    while places:  # let go one by one: the memory of each is free before the next is packed
        parent, name, layer = places.pop()
        setattr(parent, name, PackedLinear(layer))
    return count


@cache
def can_pack() -> bool:
    """Whether PyTorch has what is needed on this machine, which a small layer shows: its operators are not public."""
    if torch.backends.cpu.get_cpu_capability() not in _WIDE:
        return False
    numbers = torch.Generator().manual_seed(0)
    weight, rows, bias = (torch.randn(*size, generator=numbers) for size in ((48, 80), (3, 80), (48,)))
    try:
        packed = _pack(weight)
        found = _multiply(rows, packed, bias)
        return torch.equal(packed.to_dense(), weight) and torch.allclose(found, linear(rows, weight, bias), atol=_ALIKE)
    except (RuntimeError, AttributeError, TypeError):
        return False


def _is_plain(layer: nn.Linear) -> bool:
    hooks: list[Any] = [layer._forward_hooks, layer._forward_pre_hooks, getattr(layer, "_hf_hook", None)]
    return layer.weight.device.type == "cpu" and layer.weight.dtype == torch.float32 and not any(hooks)


def _pack(weight: Tensor) -> Tensor:
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _ROWS)
    return packed


def _multiply(rows: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(rows, packed, bias, "none", [], "")
    return product
