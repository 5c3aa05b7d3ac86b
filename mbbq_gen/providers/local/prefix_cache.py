"""Tree attention: sequences with common prefixes in one forward pass, each prefix once, without padding.

Sequences are sorted by their tokens, so that neighbours share the longest prefixes. The tokens that a group does not
share are concatenated. With a tree mask each token attends to its own sequence only; it keeps its position there:

    sequences   the man left     the man stayed     the end
    tokens      the man left stayed end
    positions    0   1    2    2     1
    paths       0 1 2            0 1 3              0 4

Keys and values of the last sequence are cached; the next group reuses the prefix that it shares with that sequence.

Answers are scored in the same way: one forward pass reads each prompt once, and also each common prefix of answers and
of neighbouring questions:

    prompt    Who forgot it? │ the old man      tokens   Who forgot it? the old man young one can't be said
              Who forgot it? │ the young one    logits               ^   ^   ^  ^     ^       ^    ^  ^
              Who forgot it? │ can't be said             only before the tokens of answers
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from transformers import DynamicCache

from mbbq_gen.core.errors import ProviderError
from mbbq_gen.providers.local.chat_format import shared_length
from mbbq_gen.providers.local.options import NOT_NUMBERS, is_out_of_memory

if TYPE_CHECKING:
    from torch import Tensor

Model = Any
"""A causal language model of transformers, which is not typed."""
Tokens = Sequence[int]
KeysAndValues = list[tuple["Tensor", "Tensor"]]
"""Keys and values of each layer."""


class Reading(NamedTuple):
    """The result of reading a group of sequences."""

    paths: list[list[int]]
    """For each sequence, the places of its tokens in the keys and values."""
    logits: Tensor
    rows: list[list[int]]
    """For each sequence, the rows of `logits` that belong to the requested tokens."""
    layers: KeysAndValues
    """1 × heads × places × size."""


class PrefixReader:
    """Reads groups of sequences with one model; see the module docstring."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._keeps_logits = "logits_to_keep" in inspect.signature(model.forward).parameters
        self._last: tuple[int, ...] = ()
        """The last sequence of the previous group; `_layers` are its keys and values."""
        self._layers: KeysAndValues = []

    def n_fitting(self, sequences: Iterable[tuple[Sequence[int], int]], most: int) -> int:
        """Number of sequences, at least 1, whose tokens without common prefixes are at `most` so many.

        Each sequence comes with the number of its additional tokens.
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
        """Reads sequences that are sorted by their tokens.

        `shareable`: maximum length of the prefix that each may share. `wanted`: first token of each whose logits are
        requested; no other logits are computed if the model's forward pass allows that.
        """
        kept = min(shared_length(self._last, sequences[0]), shareable[0])
        tokens, positions, shared, paths = list[int](), list[int](), list[int](), list[list[int]]()
        before, path = self._last[:kept], list(range(kept))
        for sequence, most in zip(sequences, shareable, strict=True):
            common, end = min(shared_length(before, sequence), most), kept + len(tokens)
            path = path[:common] + list(range(end, end + len(sequence) - common))
            tokens += sequence[common:]
            positions += range(common, len(sequence))
            shared.append(common)
            paths.append(path)
            before = sequence
        mask = torch.zeros(len(tokens), kept + len(tokens), dtype=torch.bool)
        for path, common in zip(paths, shared, strict=True):
            along = torch.tensor(path)
            own = along[common:] - kept
            mask[own[:, None], along[None, :]] = torch.ones(len(own), len(path), dtype=torch.bool).tril(common)
        ends = [path[start:] for path, start in zip(paths, wanted, strict=True)]
        row_of = {place: row for row, place in enumerate(sorted({place for end in ends for place in end}))}
        layers, logits = self._forward(kept, tokens, positions, mask, list(row_of))
        self._last = sequences[-1]
        self._layers = gather(layers, paths[-1:])
        return Reading(paths, logits, [[row_of[place] for place in end] for end in ends], layers)

    def _forward(
        self, kept: int, tokens: list[int], positions: list[int], mask: Tensor, places: list[int]
    ) -> tuple[KeysAndValues, Tensor]:
        """Reads tokens after the first `kept` of the last sequence; returns the logits at some places."""
        model, cache = self.model, DynamicCache()
        for number, (keys, values) in enumerate(self._layers):
            cache.update(keys[:, :, :kept], values[:, :, :kept], number)
        wanted = torch.tensor(places, device=model.device) - kept
        output = model(
            input_ids=torch.tensor([tokens], device=model.device),
            attention_mask=additive_mask(mask.to(model.device), model.dtype)[None, None],
            position_ids=torch.tensor([positions], device=model.device),
            past_key_values=cache,
            use_cache=True,
            **({"logits_to_keep": wanted} if self._keeps_logits else {}),
        )
        layers = [(layer.keys, layer.values) for layer in cache.layers]
        return layers, output.logits[0] if self._keeps_logits else output.logits[0, wanted]


def additive_mask(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """0 for true and the lowest number for false, as all attention implementations of the library accept."""
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, torch.finfo(dtype).min)


def gather(layers: KeysAndValues, paths: Sequence[Sequence[int]]) -> KeysAndValues:
    """Keys and values by sequence: from 1 × heads × places × size to rows × heads × width × size."""
    width = max(map(len, paths))
    places = torch.tensor([[*path, *[0] * (width - len(path))] for path in paths], device=layers[0][0].device)

    def rows_of(block: Tensor) -> Tensor:
        return block[0][:, places].transpose(0, 1).contiguous()

    return [(rows_of(keys), rows_of(values)) for keys, values in layers]


def tree_window(config: Any) -> float:
    """Maximum tokens for which a tree gives the same result as its sequences alone: the shortest sliding window."""
    windows = (getattr(config, name, None) for name in ("sliding_window", "attention_chunk_size"))
    return min((window for window in windows if window is not None), default=math.inf)


# --- sums of log-probabilities ----------------------------------------------------------------------------------------


def iterate_scores(
    model: Model,
    prompts: Sequence[Tokens],
    answers: Sequence[Sequence[Tokens]],
    *,
    reads_trees: bool = True,
    max_tokens: int = 512,
) -> Iterator[tuple[int, list[float]]]:
    """Yields the number of each prompt and the sums of log-probabilities (natural log) of its answers.

    Prompts and answers are token ids, at least one each; a prompt may have no answers. `max_tokens` are read in one
    forward pass, at least one question; the number is halved if memory runs out. `reads_trees`: whether the model
    supports tree attention (`decoding.supports_tree_attention`); if not, each answer gets a forward pass.

    ProviderError if a probability is NaN, or a question does not fit into memory.
    """
    lengths = {n: len(prompts[n]) + max(map(len, given)) - 1 for n, given in enumerate(answers) if given}
    window = tree_window(model.config.get_text_config())
    packable = [n for n in lengths if reads_trees and lengths[n] <= window]
    waiting, reader = sorted(packable, key=lambda number: tuple(prompts[number])), PrefixReader(model)
    while waiting:
        sizes = ((prompts[n], sum(len(answer) - 1 for answer in answers[n])) for n in waiting)
        group = waiting[: reader.n_fitting(sizes, max_tokens)]
        questions = [(prompts[number], answers[number]) for number in group]
        try:
            scores = _score_group(reader, questions)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            if len(group) == 1:
                raise ProviderError(f"out of memory with a question of {lengths[group[0]]} tokens") from None
            reader, max_tokens = PrefixReader(model), max(1, max_tokens // 2)
            continue
        del waiting[: len(group)]
        yield from zip(group, scores, strict=True)
    for number in sorted(lengths.keys() - set(packable)):
        yield number, [_score_alone(model, prompts[number], answer) for answer in answers[number]]


@torch.inference_mode()
def _score_alone(model: Model, prompt: Tokens, answer: Tokens) -> float:
    """The sum of an answer, by a forward pass of its own."""
    tokens = torch.tensor([[*prompt, *answer[:-1]]], device=model.device)
    logits = model(input_ids=tokens, use_cache=False).logits[0, len(prompt) - 1 :]
    return _sums(logits, [list(range(len(answer)))], [answer])[0]


@torch.inference_mode()
def _score_group(reader: PrefixReader, questions: Sequence[tuple[Tokens, Sequence[Tokens]]]) -> list[list[float]]:
    """The sums of each question's answers in one forward pass; questions are sorted by their prompts."""
    sequences, shareable, starts = list[tuple[int, ...]](), list[int](), list[int]()
    for prompt, answers in questions:
        # an answer's last token is not read, since no token follows it
        own = sorted((*prompt, *answer[:-1]) for answer in answers)
        sequences += own
        shareable += [len(prompt) - 1, *map(len, own[1:])]
        starts += [len(prompt) - 1] * len(own)
    reading = reader.read(sequences, shareable, starts)
    rows_of = dict(zip(zip(starts, sequences, strict=True), reading.rows, strict=True))
    every = [(prompt, answer) for prompt, answers in questions for answer in answers]
    rows = [rows_of[len(prompt) - 1, (*prompt, *answer[:-1])] for prompt, answer in every]
    found = iter(_sums(reading.logits, rows, [answer for _, answer in every]))
    return [[next(found) for _ in answers] for _, answers in questions]


def _sums(logits: Tensor, rows: Sequence[Sequence[int]], answers: Sequence[Tokens]) -> list[float]:
    """Sums of log-probabilities of answers; `rows`: rows of `logits` for the tokens of each answer."""
    logits = logits.float()
    index = torch.tensor([row for path in rows for row in path], device=logits.device)
    tokens = torch.tensor([token for answer in answers for token in answer], device=logits.device)
    remaining = iter((logits[index, tokens] - logits.logsumexp(dim=-1)[index]).tolist())
    sums = [sum(next(remaining) for _ in answer) for answer in answers]
    if any(map(math.isnan, sums)):
        raise ProviderError(NOT_NUMBERS)
    return sums
