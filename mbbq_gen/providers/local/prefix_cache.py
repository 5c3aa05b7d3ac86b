"""Token sequences that begin alike, read as one tree: each shared beginning once, no padding.

Sequences stand in the order of their tokens, so that neighbours share most. What a group of them does not share is laid
end to end as one sequence, in which each token sees its own sequence only (a tree mask) and keeps its own position:

    sequences   the man left     the man stayed     the end
    sheet       the man left stayed end
    positions    0   1    2    2     1
    paths       0 1 2            0 1 3              0 4

Keys and values of the sequence that was read last are kept, and the next group goes on from what it shares with that.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.nn.functional import pad
from transformers import DynamicCache, DynamicLayer

from mbbq_gen.providers.local.chat_format import shared_length

if TYPE_CHECKING:
    from torch import Tensor


Model = Any
"""A causal language model of transformers, which has no types of its own."""
KeysAndValues = list[tuple["Tensor", "Tensor"]]
"""Keys and values of each layer."""


class Reading(NamedTuple):
    """What reading a group of sequences gives."""

    paths: list[list[int]]
    """For each sequence, the places of its tokens among the keys and values that were read."""
    logits: Tensor
    rows: list[list[int]]
    """For each sequence, the rows of `logits` after those of its tokens for which they were requested."""
    layers: KeysAndValues
    """1 × heads × places × size."""


class PrefixReader:
    """Reads groups of sequences with one model; see the module's docstring."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._keeps_logits = "logits_to_keep" in inspect.signature(model.forward).parameters
        self._last: tuple[int, ...] = ()
        """The sequence that was read last, and its keys and values."""
        self._layers: KeysAndValues = []

    def n_fitting(self, sequences: Iterable[tuple[Sequence[int], int]], most: int) -> int:
        """How many sequences can be read in one go, at least the first: so many of their tokens are not shared.

        Beside each sequence stands how many tokens are read in addition.
        """
        before: Sequence[int] = self._last
        count = unread = 0
        for sequence, more in sequences:
            unread += len(sequence) - shared_length(before, sequence) + more
            if count and unread > most:
                break
            before, count = sequence, count + 1
        return count

    def read(self, sequences: Sequence[tuple[int, ...]], shareable: Sequence[int], wanted: Sequence[int]) -> Reading:
        """Reads sequences that stand in the order of their tokens.

        `shareable`: how many tokens each may take from others at most. `wanted`: from which token on the logits of
        each are requested; only those are multiplied with the vocabulary where the model's forward offers that.
        """
        kept = min(shared_length(self._last, sequences[0]), shareable[0])
        tokens, positions, fresh, paths = list[int](), list[int](), list[int](), list[list[int]]()
        before, path = self._last[:kept], list(range(kept))
        for sequence, most in zip(sequences, shareable, strict=True):
            common, end = min(shared_length(before, sequence), most), kept + len(tokens)
            path = path[:common] + list(range(end, end + len(sequence) - common))
            tokens += sequence[common:]
            positions += range(common, len(sequence))
            fresh.append(common)
            paths.append(path)
            before = sequence
        seen = torch.zeros(len(tokens), kept + len(tokens), dtype=torch.bool)
        for path, common in zip(paths, fresh, strict=True):
            along = torch.tensor(path)
            own = along[common:] - kept
            seen[own[:, None], along[None, :]] = torch.ones(len(own), len(path), dtype=torch.bool).tril(common)
        ends = [path[start:] for path, start in zip(paths, wanted, strict=True)]
        row_of = {place: row for row, place in enumerate(sorted({place for end in ends for place in end}))}
        layers, logits = self._forward(kept, tokens, positions, seen, list(row_of))
        self._last = sequences[-1]
        self._layers = gather(layers, paths[-1:])
        return Reading(paths, logits, [[row_of[place] for place in end] for end in ends], layers)

    def _forward(
        self, kept: int, tokens: list[int], positions: list[int], seen: Tensor, places: list[int]
    ) -> tuple[KeysAndValues, Tensor]:
        """Reads tokens behind the first `kept` of the last sequence; the logits are those after some places."""
        model, cache = self.model, DynamicCache()
        for number, (keys, values) in enumerate(self._layers):
            cache.update(keys[:, :, :kept], values[:, :, :kept], number)
        wanted = torch.tensor(places, device=model.device) - kept
        output = model(
            input_ids=torch.tensor([tokens], device=model.device),
            attention_mask=additive_mask(seen.to(model.device), model.dtype)[None, None],
            position_ids=torch.tensor([positions], device=model.device),
            past_key_values=cache,
            use_cache=True,
            **({"logits_to_keep": wanted} if self._keeps_logits else {}),
        )
        layers = [(layer.keys, layer.values) for layer in cache.layers]
        return layers, output.logits[0] if self._keeps_logits else output.logits[0, wanted]


def additive_mask(seen: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where something is seen, the lowest number where it is not: all kinds of attention of the library take this."""
    return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill(~seen, torch.finfo(dtype).min)


def gather(layers: KeysAndValues, paths: Sequence[Sequence[int]]) -> KeysAndValues:
    """Keys and values by row: from 1 × heads × places × size to rows × heads × width × size."""
    width = max(map(len, paths))
    places = torch.tensor([[*path, *[0] * (width - len(path))] for path in paths], device=layers[0][0].device)

    def rows_of(block: Tensor) -> Tensor:
        return block[0][:, places].transpose(0, 1).contiguous()

    return [(rows_of(keys), rows_of(values)) for keys, values in layers]


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


class RowLayer(DynamicLayer):  # type: ignore[misc]  # the library has no types
    """One layer's keys and values of rows that come and go, rows × heads × width × size.

    The library writes and reads them through `update`, a token of each row at a time.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count = self.width = 0
        self.rows, self.places = torch.tensor([]), torch.tensor([])
        """Where the next token of each row goes."""

    def join(self, keys: Tensor, values: Tensor) -> None:
        """Takes rows in behind the others."""
        start, width = self.count, keys.shape[2]
        self.count += len(keys)
        if not self.is_initialized:  # zeros: a masked value counts nothing only where it is a number
            self.lazy_initialization(keys, values)
            self.keys, self.values = keys.new_zeros(0, *keys.shape[1:]), values.new_zeros(0, *values.shape[1:])
        self._grow(width)
        for block, new in ((self.keys, keys), (self.values, values)):
            block[start : self.count, :, :width] = new
            block[start : self.count, :, width:] = 0

    def await_token(self, rows: Tensor, lengths: Tensor, width: int) -> None:
        """Prepares `update`: each row has so many tokens, and gets the next one; `width`: most of them afterwards."""
        self.rows, self.places, self.width = rows, lengths, width
        self._grow(width)

    def move(self, old: int, new: int) -> None:
        """Puts a row in the place of one that is let go."""
        self.keys[new], self.values[new] = self.keys[old], self.values[old]

    def update(self, keys: Tensor, values: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Writes one token a row, and gives what the rows hold, as wide as the longest."""
        self.keys[self.rows, :, self.places] = keys[:, :, 0]
        self.values[self.rows, :, self.places] = values[:, :, 0]
        return self.keys[: self.count, :, : self.width], self.values[: self.count, :, : self.width]

    def get_seq_length(self) -> int:
        """Most tokens of a row."""
        return self.width

    def _grow(self, width: int) -> None:
        """Makes room for all rows, and for so many tokens of each."""
        held_rows, _, held_width, _ = self.keys.shape
        if self.count > held_rows or width > held_width:
            wider = max(0, -(-width // _STEP) * _STEP - held_width)
            more = (0, 0, 0, wider, 0, 0, 0, max(0, self.count - held_rows))
            self.keys, self.values = pad(self.keys, more), pad(self.values, more)
