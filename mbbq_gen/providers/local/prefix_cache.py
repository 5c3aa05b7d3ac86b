"""Token sequences that begin alike, read as one tree: each shared beginning once, no padding.

Sequences stand in the order of their tokens, so that neighbours share most. What a group of them does not share is laid
end to end as one sequence, in which each token sees its own sequence only (a tree mask) and keeps its own position:

    sequences   the man left     the man stayed     the end
    sheet       the man left stayed end
    positions    0   1    2    2     1
    paths       0 1 2            0 1 3              0 4

The sequence that was read last is kept as a `PrefixCache`, and the next group goes on from what it shares with that.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import pad
from transformers import Cache, DynamicCache, DynamicLayer

from mbbq_gen.providers.local.chat_format import shared_length
from mbbq_gen.providers.local.options import layers_of

if TYPE_CHECKING:
    from torch import Tensor


Model = Any
"""A causal language model of transformers, which has no types of its own."""


@dataclass(frozen=True)
class PrefixCache:
    """The sequence that was read last, with its keys and values: the next one may begin alike."""

    tokens: tuple[int, ...] = ()
    layers: tuple[tuple[Tensor, Tensor], ...] = ()
    """Keys and values of each layer, 1 × heads × tokens × size."""


@dataclass(frozen=True)
class PackedBatch:
    """A group of sequences laid end to end, each token once. Places count the kept part of the trail first."""

    kept: int
    """Tokens of the trail that the first sequence shares."""
    tokens: list[int]
    positions: list[int]
    paths: list[list[int]]
    fresh: list[int]
    """For each sequence, how many tokens it has before its first own one."""


def lay_out(sequences: Sequence[tuple[int, ...]], trail: PrefixCache, shareable: Sequence[int]) -> PackedBatch:
    """The sheet of some sequences that stand in the order of their tokens.

    `shareable` says how many tokens each may take from others at most: what comes after a token can be read off it only
    where it is in the sheet itself.
    """
    kept = min(shared_length(trail.tokens, sequences[0]), shareable[0])
    sheet = PackedBatch(kept, [], [], [], [])
    before: Sequence[int] = trail.tokens[:kept]
    path = list(range(kept))
    for sequence, most in zip(sequences, shareable, strict=True):
        common = min(shared_length(before, sequence), most)
        first_place = kept + len(sheet.tokens)
        path = path[:common] + list(range(first_place, first_place + len(sequence) - common))
        sheet.tokens.extend(sequence[common:])
        sheet.positions.extend(range(common, len(sequence)))
        sheet.paths.append(path)
        sheet.fresh.append(common)
        before = sequence
    return sheet


def n_fitting(before: Sequence[int], sequences: Iterable[tuple[Sequence[int], int]], most: int) -> int:
    """How many of some sequences can be read in one go, at least the first: so many tokens are not shared with others.

    `before` is what was read last; beside each sequence stands how many tokens of its answers are read, too.
    """
    count = unread = 0
    for sequence, more in sequences:
        unread += len(sequence) - shared_length(before, sequence) + more
        if count and unread > most:
            break
        before, count = sequence, count + 1
    return count


def additive_mask(seen: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where something is seen, the lowest number where it is not: all kinds of attention of the library take this."""
    return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill(~seen, torch.finfo(dtype).min)


def read_sheet(model: Model, sheet: PackedBatch, trail: PrefixCache, places: Sequence[int]) -> tuple[Any, Tensor]:
    """The cache after a sheet was read behind the kept part of a trail, and the logits after some places of the sheet.

    Only those are multiplied with the vocabulary where the model's forward offers that (`logits_to_keep`).
    """
    device, cache = model.device, DynamicCache()
    for number, (keys, values) in enumerate(trail.layers):
        cache.update(keys[:, :, : sheet.kept], values[:, :, : sheet.kept], number)
    # 1 × 1 × tokens × places: 0 where a token sees a place, the lowest number where it doesn't
    seen = torch.zeros(len(sheet.tokens), sheet.kept + len(sheet.tokens), dtype=torch.bool)
    for path, common in zip(sheet.paths, sheet.fresh, strict=True):
        along = torch.tensor(path)
        own = along[common:] - sheet.kept
        seen[own[:, None], along[None, :]] = torch.ones(len(own), len(path), dtype=torch.bool).tril(common)
    wanted = torch.tensor(places, device=device) - sheet.kept
    narrow = "logits_to_keep" in inspect.signature(model.forward).parameters
    output = model(
        input_ids=torch.tensor([sheet.tokens], device=device),
        attention_mask=additive_mask(seen.to(device), model.dtype)[None, None],
        position_ids=torch.tensor([sheet.positions], device=device),
        past_key_values=cache,
        use_cache=True,
        **({"logits_to_keep": wanted} if narrow else {}),
    )
    return cache, output.logits[0] if narrow else output.logits[0, wanted]


def trail_of(sequence: tuple[int, ...], path: Sequence[int], cache: Any) -> PrefixCache:
    """The trail that a sequence of a sheet leaves, by the places of its tokens."""
    places = torch.tensor([path], device=cache.layers[0].keys.device)
    return PrefixCache(
        sequence, tuple((gather(keys, places), gather(values, places)) for keys, values in layers_of(cache))
    )


def gather(block: Tensor, places: Tensor) -> Tensor:
    """From 1 × heads × places × size to rows × heads × width × size."""
    return block[0][:, places].transpose(0, 1).contiguous()


def tree_window(config: Any) -> int | None:
    """Up to how many tokens a model reads a tree as it reads its sequences alone; None: of any length.

    Beyond it a layer looks back through a sliding window, or positions are scaled by the longest of a batch.
    """
    named = [getattr(config, name, None) for name in ("sliding_window", "attention_chunk_size")]
    scaling = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    if scaling.get("rope_type") in ("dynamic", "longrope"):
        named.append(
            scaling.get("original_max_position_embeddings") or getattr(config, "max_position_embeddings", None)
        )
    return min((window for window in named if window is not None), default=None)


_STEP = 64
"""Tokens by which blocks grow: each growth copies them."""


class _RowLayer(DynamicLayer):  # type: ignore[misc]  # the library has no types
    """One layer's keys and values, rows × heads × width × size; the library writes and reads them through `update`."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        super().__init__()
        self.lazy_initialization(keys, values)
        self.keys, self.values = keys, values
        self.rows, self.places = torch.tensor([]), torch.tensor([])
        """Where the next token of each row goes."""
        self.width = 0

    def update(self, keys: Tensor, values: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Writes one token a row, and gives what the rows hold, as wide as the longest."""
        self.keys[self.rows, :, self.places] = keys[:, :, 0]
        self.values[self.rows, :, self.places] = values[:, :, 0]
        count = len(self.rows)
        return self.keys[:count, :, : self.width], self.values[:count, :, : self.width]

    def get_seq_length(self) -> int:
        return self.width


class KVCache:
    """The keys and values of some rows."""

    def __init__(self) -> None:
        self._layers: list[_RowLayer] = []
        self._count = 0

    def join(self, layers: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Takes rows in behind the others: keys and values of each layer, rows × heads × width × size."""
        rows, _, width, _ = layers[0][0].shape
        self._grow(layers, self._count + rows, width)
        here = slice(self._count, self._count + rows)
        for layer, (keys, values) in zip(self._layers, layers, strict=True):
            for block, new in ((layer.keys, keys), (layer.values, values)):
                block[here, :, :width] = new
                block[here, :, width:] = 0
        self._count += rows

    def next_step(self, lengths: Tensor) -> Cache:
        """The cache to read one token of each row with; `lengths` says how many each row has before it."""
        width = int(lengths.max()) + 1
        self._grow([], len(lengths), width)
        rows = torch.arange(len(lengths), device=lengths.device)
        for layer in self._layers:
            layer.rows, layer.places, layer.width = rows, lengths, width
        return Cache(layers=list(self._layers))

    def keep(self, places: Sequence[int]) -> list[int]:
        """Lets all other rows go. Returns the order of those that stay: the last ones take the freed places."""
        count = len(places)
        stay = set(places)
        holes = [place for place in range(count) if place not in stay]
        movers = [place for place in places if place >= count]
        for hole, mover in zip(holes, movers, strict=True):
            for layer in self._layers:
                layer.keys[hole], layer.values[hole] = layer.keys[mover], layer.values[mover]
        self._count = count
        moved = dict(zip(holes, movers, strict=True))
        return [moved.get(place, place) for place in range(count)]

    def _grow(self, like: Sequence[tuple[Tensor, Tensor]], rows: int, width: int) -> None:
        """Makes room for so many rows and tokens a row."""
        held_rows, held_width = self._layers[0].keys.shape[:3:2] if self._layers else (0, 0)
        if rows <= held_rows and width <= held_width:
            return
        rows, width = max(rows, held_rows), max(-(-width // _STEP) * _STEP, held_width)
        if not self._layers:  # zeros: a masked value counts nothing only where it is a number
            self._layers = [
                _RowLayer(*(block.new_zeros(rows, block.shape[1], width, block.shape[3]) for block in layer))
                for layer in like
            ]
            return
        more = (0, 0, 0, width - held_width, 0, 0, 0, rows - held_rows)
        for layer in self._layers:
            layer.keys, layer.values = pad(layer.keys, more), pad(layer.values, more)
