"""Decoding of local models: prompt tokens → answer tokens, in batches.

The prompts of a benchmark are long and similar, the answers short and of different lengths. `ContinuousBatcher` uses
both: prompts are sorted by their tokens and read as trees (`prefix_cache`), so that common prefixes are read once, and
a finished answer leaves the batch at once (continuous batching). In float32 the text equals that of the model's own
`generate` for each prompt alone. `supports_tree_attention` tests this on the loaded model; state-space and hybrid
models, and those with masks of their own, are decoded by the library's `generate` (`StaticBatcher`).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch.nn.functional import pad, softmax
from transformers import Cache, DynamicLayer, GenerationConfig, LogitsProcessorList, StoppingCriteriaList

from mbbq_gen.core.errors import ProviderError
from mbbq_gen.providers.local.options import NOT_NUMBERS, is_out_of_memory
from mbbq_gen.providers.local.prefix_cache import Model, PrefixReader, additive_mask, gather

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class DecodingPrompt:
    """A prompt to complete."""

    number: int
    tokens: tuple[int, ...]
    limit: int
    """Maximum tokens to generate; at least 1."""
    seed: int


@dataclass(frozen=True)
class Completion:
    """The generated tokens after a prompt."""

    number: int
    tokens: tuple[int, ...]
    """Without the stop token."""
    finish_reason: Literal["stop", "length"]
    written: int
    """Number of generated tokens, the stop token included."""
    latency_s: float
    """Seconds since the prompt was read."""


@dataclass(frozen=True)
class DecodingSettings:
    """The settings of decoding."""

    stop_tokens: frozenset[int]
    pad_token: int
    batch_size: int
    read_tokens: int
    temperature: float = 0.0
    """0: greedy decoding."""
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    """`ContinuousBatcher` supports temperature and top_p only."""
    configured: Mapping[str, Any] = field(default_factory=dict)
    """Sampling parameters of the model's generation configuration, used or not."""


def finish(prompt: DecodingPrompt, written: Sequence[int], stop_tokens: frozenset[int], latency: float) -> Completion:
    """The completion of a prompt with all generated tokens."""
    has_stopped = bool(written) and written[-1] in stop_tokens
    answer = written[:-1] if has_stopped else written
    return Completion(prompt.number, tuple(answer), "stop" if has_stopped else "length", len(written), latency)


def decode_all(
    batcher: ContinuousBatcher | StaticBatcher, prompts: Sequence[DecodingPrompt], is_cancelled: Callable[[], bool]
) -> Iterator[Completion]:
    """Yields a completion of each prompt; whenever memory runs out, it starts again with half the batch size."""
    left = {prompt.number: prompt for prompt in prompts}
    while left and not is_cancelled():
        try:
            for completion in batcher.decode(list(left.values()), is_cancelled):
                del left[completion.number]
                yield completion
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            if batcher.batch_size == 1:
                raise ProviderError("out of memory with one prompt; use --dtype bfloat16 or a smaller model") from None
            batcher.batch_size = max(1, min(batcher.batch_size, len(left)) // 2)


def _check_numbers(highest: Tensor) -> None:
    """Raises ProviderError if the highest logit of a row is NaN or infinite."""
    if not highest.isfinite().all():
        raise ProviderError(NOT_NUMBERS)


# --- continuous batching ---------------------------------------------------------------------------------------------

_STEP = 64
"""Tokens by which the cache grows, since each growth copies it."""


class RowLayer(DynamicLayer):  # type: ignore[misc]  # the library is not typed
    """One layer's keys and values, rows × heads × width × size; rows may be added and removed.

    The library calls `update` with one token of each row at a time.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count = self.width = 0
        self.rows, self.places = torch.tensor([]), torch.tensor([])
        """Rows and places of the next tokens."""

    def append(self, keys: Tensor, values: Tensor) -> None:
        """Appends rows."""
        start, width = self.count, keys.shape[2]
        self.count += len(keys)
        if not self.is_initialized:  # with zeros, since masked values must not be NaN
            self.lazy_initialization(keys, values)
            self.keys, self.values = keys.new_zeros(0, *keys.shape[1:]), values.new_zeros(0, *values.shape[1:])
        self._grow(width)
        for block, new in ((self.keys, keys), (self.values, values)):
            block[start : self.count, :, :width] = new
            block[start : self.count, :, width:] = 0

    def prepare_update(self, rows: Tensor, lengths: Tensor, width: int) -> None:
        """Prepares `update` for the next token of each row, after `lengths` tokens; `width`: the new maximum."""
        self.rows, self.places, self.width = rows, lengths, width
        self._grow(width)

    def move(self, old: int, new: int) -> None:
        """Overwrites a removed row with another one."""
        self.keys[new], self.values[new] = self.keys[old], self.values[old]

    def update(self, keys: Tensor, values: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Writes one token per row; returns the keys and values of all rows, as wide as the longest row."""
        self.keys[self.rows, :, self.places] = keys[:, :, 0]
        self.values[self.rows, :, self.places] = values[:, :, 0]
        return self.keys[: self.count, :, : self.width], self.values[: self.count, :, : self.width]

    def get_seq_length(self) -> int:
        """Number of tokens of the longest row."""
        return self.width

    def _grow(self, width: int) -> None:
        """Allocates memory for all rows, and for `width` tokens of each."""
        old_rows, _, old_width, _ = self.keys.shape
        if self.count > old_rows or width > old_width:
            added_width = max(0, -(-width // _STEP) * _STEP - old_width)
            padding = (0, 0, 0, added_width, 0, 0, 0, max(0, self.count - old_rows))
            self.keys, self.values = pad(self.keys, padding), pad(self.values, padding)


@dataclass
class _Row:
    """A prompt and the tokens generated so far."""

    prompt: DecodingPrompt
    started: float
    written: list[int] = field(default_factory=list)
    generator: torch.Generator | None = None
    """Each row has its own, so that its draws do not depend on other rows."""


def _write_next(rows: Sequence[_Row], logits: Tensor, settings: DecodingSettings) -> None:
    """Appends the next token to each row."""
    highest, likeliest = logits.max(dim=-1)
    _check_numbers(highest)
    if settings.temperature == 0:
        for row, token in zip(rows, likeliest.tolist(), strict=True):
            row.written.append(token)
        return
    probabilities = softmax(logits.float().cpu() / settings.temperature, dim=-1)
    for row, likely in zip(rows, probabilities, strict=True):
        if row.generator is None:
            row.generator = torch.Generator().manual_seed(row.prompt.seed)
        ordered, candidates = likely.sort(descending=True, stable=True)
        kept = ordered * ((ordered.cumsum(dim=0) - ordered) < settings.top_p)
        row.written.append(int(candidates[torch.multinomial(kept, 1, generator=row.generator)].item()))


class _Batch:
    """The unfinished rows with their keys and values."""

    def __init__(self, model: Model) -> None:
        self.reader = PrefixReader(model)
        self.rows: list[_Row] = []
        self._layers: list[RowLayer] = []

    def read(self, prompts: Sequence[DecodingPrompt]) -> tuple[list[_Row], Tensor]:
        """Adds prompts that are sorted by their tokens; returns their rows and the logits of the first tokens."""
        started, sequences = time.perf_counter(), [prompt.tokens for prompt in prompts]
        # the last token of a prompt is never shared, because its logits are needed
        last = [len(sequence) - 1 for sequence in sequences]
        reading = self.reader.read(sequences, last, last)
        self._layers = self._layers or [RowLayer() for _ in reading.layers]
        for layer, (keys, values) in zip(self._layers, gather(reading.layers, reading.paths), strict=True):
            layer.append(keys, values)
        rows = [_Row(prompt, started) for prompt in prompts]
        self.rows += rows
        return rows, reading.logits

    def step(self) -> tuple[list[_Row], Tensor]:
        """Reads the last token of each row; returns the rows and the logits of the next one, rows × vocabulary."""
        model = self.reader.model
        # the cache holds all tokens but the last
        before = [len(row.prompt.tokens) + len(row.written) - 1 for row in self.rows]
        lengths, width = torch.tensor(before, device=model.device), max(before) + 1
        places = torch.arange(len(before), device=model.device)
        for layer in self._layers:
            layer.prepare_update(places, lengths, width)
        mask = torch.arange(width, device=model.device)[None, :] <= lengths[:, None]
        output = model(
            input_ids=torch.tensor([[row.written[-1]] for row in self.rows], device=model.device),
            attention_mask=additive_mask(mask, model.dtype)[:, None, None],
            position_ids=lengths[:, None],
            past_key_values=Cache(layers=self._layers),
            use_cache=True,
        )
        return self.rows, output.logits[:, -1]

    def pop_finished(self, stop_tokens: frozenset[int]) -> list[_Row]:
        """Removes and returns the finished rows; the last of the others take their places."""
        is_done = [row.written[-1] in stop_tokens or len(row.written) >= row.prompt.limit for row in self.rows]
        finished = [row for row, done in zip(self.rows, is_done, strict=True) if done]
        count = len(self.rows) - len(finished)
        moved = [place for place in range(count, len(self.rows)) if not is_done[place]]
        for new, old in zip((place for place in range(count) if is_done[place]), moved, strict=True):
            self.rows[new] = self.rows[old]
            for layer in self._layers:
                layer.move(old, new)
        del self.rows[count:]
        for layer in self._layers:
            layer.count = count
        return finished


class ContinuousBatcher:
    """Continuous batching with shared prefixes; see the module docstring."""

    name = "continuous"

    def __init__(self, model: Model, settings: DecodingSettings) -> None:
        self._model = model
        self._settings = settings
        self.batch_size = settings.batch_size

    @torch.inference_mode()
    def decode(self, prompts: Sequence[DecodingPrompt], is_cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """Yields the completions as they finish; stops after the current step if cancelled."""
        stop_tokens = self._settings.stop_tokens
        waiting, batch = deque(sorted(prompts, key=lambda prompt: prompt.tokens)), _Batch(self._model)
        while (waiting or batch.rows) and not is_cancelled():
            group: list[DecodingPrompt] = []
            free = self.batch_size - len(batch.rows)
            if free >= max(1, self.batch_size // 4):  # fewer do not justify a forward pass
                costs = [(prompt.tokens, 0) for prompt in islice(waiting, free)]
                n_read = batch.reader.n_fitting(costs, self._settings.read_tokens)
                group = [waiting.popleft() for _ in range(n_read)]
            _write_next(*(batch.read(group) if group else batch.step()), self._settings)
            for row in batch.pop_finished(stop_tokens):
                yield finish(row.prompt, row.written, stop_tokens, time.perf_counter() - row.started)


_PROBES = ((5, 6, 7, 8, 9, 10), (5, 6, 7, 11, 12), (5, 13, 14, 15, 16, 17, 18))
_PROBE_ANSWER = 19
_TOLERANCES = {torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 8e-2}


@torch.inference_mode()
def supports_tree_attention(model: Model) -> bool:
    """Whether prompts have the same logits in a tree, and in the rows made of it, as each alone."""
    prompts = [DecodingPrompt(number, tokens, 2, 0) for number, tokens in enumerate(sorted(_PROBES))]
    batch = _Batch(model)
    try:
        early, late = (batch.read(some)[1] for some in (prompts[:2], prompts[2:]))
        for row in batch.rows:
            row.written.append(_PROBE_ANSWER)
        first, (_, second) = torch.cat([early, late]), batch.step()
        for place, prompt in enumerate(prompts):
            for found, tokens in ((first[place], prompt.tokens), (second[place], (*prompt.tokens, _PROBE_ANSWER))):
                alone = torch.tensor([list(tokens)], device=model.device)
                expected = model(input_ids=alone, use_cache=False).logits[0, -1].float()
                most = _TOLERANCES.get(found.dtype, 8e-2) * expected.abs().max()
                if not bool((found.float() - expected).abs().max() <= most):
                    return False
    except Exception as error:  # a model may refuse masks, positions or caches with any error
        if is_out_of_memory(error):
            raise
        return False
    return True


# --- the library's own decoding --------------------------------------------------------------------------------------


class StaticBatcher:
    """Decodes with the library's `generate`, in batches of prompts of similar length."""

    name = "static"

    def __init__(self, model: Model, settings: DecodingSettings) -> None:
        self._model = model
        self._settings = settings
        self.batch_size = settings.batch_size if settings.temperature == 0 else 1  # each prompt has its own seed

    def decode(self, prompts: Sequence[DecodingPrompt], is_cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """Yields a completion of each prompt, batch by batch; stops after the current step if cancelled."""
        ordered = sorted(prompts, key=lambda prompt: (prompt.limit, -len(prompt.tokens)))
        for _, same_limit in groupby(ordered, key=lambda prompt: prompt.limit):
            while group := list(islice(same_limit, self.batch_size)):
                completions = self._generate(group, is_cancelled)
                if is_cancelled():
                    return
                yield from completions

    @torch.inference_mode()
    def _generate(self, group: Sequence[DecodingPrompt], is_cancelled: Callable[[], bool]) -> list[Completion]:
        """The completions of a batch, in its order."""
        settings, started = self._settings, time.perf_counter()
        width = max(len(prompt.tokens) for prompt in group)

        def stop(input_ids: Tensor, _scores: Any, **_: Any) -> Tensor:
            return torch.full((len(input_ids),), is_cancelled(), device=input_ids.device)

        def check(_tokens: Tensor, scores: Tensor) -> Tensor:
            _check_numbers(scores.amax(dim=-1))
            return scores

        def penalise(tokens: Tensor, scores: Tensor) -> Tensor:
            """Presence and frequency penalties of generated tokens, which the library lacks."""
            written = tokens[:, width:]
            counts = torch.zeros_like(scores).scatter_add_(1, written, torch.ones_like(written, dtype=scores.dtype))
            return scores - settings.frequency_penalty * counts - settings.presence_penalty * (counts > 0)

        is_penalised = settings.presence_penalty or settings.frequency_penalty
        is_sampled = settings.temperature > 0
        sampling: dict[str, Any] = {"do_sample": is_sampled, "repetition_penalty": settings.repetition_penalty}
        sampling |= {"eos_token_id": sorted(settings.stop_tokens), "pad_token_id": settings.pad_token}
        if is_sampled:
            sampling |= {"temperature": settings.temperature, "top_p": settings.top_p, "top_k": settings.top_k}
            sampling["min_p"] = settings.min_p or None
        rows = [[settings.pad_token] * (width - len(prompt.tokens)) + [*prompt.tokens] for prompt in group]
        mask = [[0] * (width - len(prompt.tokens)) + [1] * len(prompt.tokens) for prompt in group]
        torch.manual_seed(group[0].seed)
        output = self._model.generate(
            input_ids=torch.tensor(rows, device=self._model.device),
            attention_mask=torch.tensor(mask, device=self._model.device),
            generation_config=GenerationConfig(max_new_tokens=group[0].limit, **sampling),
            stopping_criteria=StoppingCriteriaList([stop]),
            logits_processor=LogitsProcessorList([check, penalise] if is_penalised else [check]),
        )
        completions, elapsed = list[Completion](), time.perf_counter() - started
        for prompt, row in zip(group, output[:, width:].tolist(), strict=True):
            end = next((place for place, token in enumerate(row, start=1) if token in settings.stop_tokens), None)
            completions.append(finish(prompt, row[:end], settings.stop_tokens, elapsed))  # padding may follow
        return completions
