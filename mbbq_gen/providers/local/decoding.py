"""From token ids to token ids: how a local model writes its answers, many at a time.

The prompts of a benchmark are long and alike, the answers short and uneven. `ContinuousBatcher` uses both: prompts are
read in the order of their tokens as trees (`prefix_cache`), so that shared beginnings are read once, and an answer that
is finished leaves the batch at once for the next prompts. In float32 the text equals that of the model's own `generate`
for each prompt alone. `supports_tree_attention` compares both on the loaded model: state-space and hybrid models, and
those with masks of their own, are decoded by the library's `generate` (`StaticBatcher`).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch
from torch.nn.functional import pad, softmax
from transformers import Cache, DynamicLayer, GenerationConfig, LogitsProcessorList, StoppingCriteriaList

from mbbq_gen.providers.local.options import NOT_NUMBERS, is_out_of_memory, none_if_out_of_memory
from mbbq_gen.providers.local.prefix_cache import Model, PrefixReader, additive_mask, gather

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class DecodingPrompt:
    """A prompt to be completed."""

    number: int
    tokens: tuple[int, ...]
    limit: int
    """Most tokens to write; at least 1."""
    seed: int


@dataclass(frozen=True)
class Completion:
    """The tokens that were written after a prompt."""

    number: int
    tokens: tuple[int, ...]
    """Without the stop token."""
    finish_reason: Literal["stop", "length"] | None
    """None where it failed."""
    written: int
    """Tokens that were generated, the stop token included."""
    latency_s: float
    """From when the prompt was taken up."""
    error: str | None = None


@dataclass(frozen=True)
class DecodingSettings:
    """The settings of decoding."""

    stop_tokens: frozenset[int]
    pad_token: int
    batch_size: int
    read_tokens: int
    temperature: float = 0.0
    """0: the likeliest token always."""
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    """`ContinuousBatcher` has temperature and top_p only."""
    configured: Mapping[str, Any] = field(default_factory=dict)
    """The sampling of the model's generation configuration, used or not."""


class Batcher(Protocol):
    """Completes prompts in batches that are independent of each other."""

    name: str
    batch_size: int

    def decode(self, prompts: Sequence[DecodingPrompt], is_cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """A completion of each prompt; stops soon once it is cancelled."""


def fail(prompt: DecodingPrompt, error: str) -> Completion:
    """A failed completion, with its error."""
    return Completion(prompt.number, (), None, 0, 0.0, error)


def out_of_memory(prompt: DecodingPrompt) -> Completion:
    """The completion of a prompt that does not even fit alone."""
    return fail(prompt, f"out of memory with a prompt of {len(prompt.tokens)} tokens")


def finish(prompt: DecodingPrompt, written: Sequence[int], stop_tokens: frozenset[int], latency: float) -> Completion:
    """The completion that ends with the last of some tokens."""
    has_stopped = bool(written) and written[-1] in stop_tokens
    answer = written[:-1] if has_stopped else written
    return Completion(prompt.number, tuple(answer), "stop" if has_stopped else "length", len(written), latency)


# --- rows that come and go -------------------------------------------------------------------------------------------


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
        """Rows and places of the next tokens."""

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
        """Prepares `update`: each row has `lengths` tokens, and gets the next one; `width`: most of them afterwards."""
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
        """Makes room for all rows, and for `width` tokens of each."""
        held_rows, _, held_width, _ = self.keys.shape
        if self.count > held_rows or width > held_width:
            wider = max(0, -(-width // _STEP) * _STEP - held_width)
            more = (0, 0, 0, wider, 0, 0, 0, max(0, self.count - held_rows))
            self.keys, self.values = pad(self.keys, more), pad(self.values, more)


@dataclass
class _Row:
    """A prompt in work."""

    prompt: DecodingPrompt
    started: float
    written: list[int] = field(default_factory=list)
    generator: torch.Generator | None = None
    """Each row draws from its own, so what it draws does not depend on others."""
    is_broken: bool = False
    """Whether the model gave no numbers for the next token."""


def _write_next(rows: Sequence[_Row], logits: Tensor, settings: DecodingSettings) -> None:
    """Writes the next token of each row."""
    highest, likeliest = logits.max(dim=-1)
    tokens, probabilities = likeliest.tolist(), None
    if settings.temperature > 0:
        probabilities = softmax(logits.float().cpu() / settings.temperature, dim=-1)
    for place, (row, is_number) in enumerate(zip(rows, highest.isfinite().tolist(), strict=True)):
        if not is_number:
            row.is_broken = True
        elif probabilities is None:
            row.written.append(tokens[place])
        else:
            if row.generator is None:
                row.generator = torch.Generator().manual_seed(row.prompt.seed)
            ordered, drawable = probabilities[place].sort(descending=True, stable=True)
            kept = ordered * ((ordered.cumsum(dim=0) - ordered) < settings.top_p)
            row.written.append(int(drawable[torch.multinomial(kept, 1, generator=row.generator)].item()))


class _Batch:
    """The rows in work with their keys and values."""

    def __init__(self, model: Model) -> None:
        self.reader = PrefixReader(model)
        self.rows: list[_Row] = []
        self._layers: list[RowLayer] = []

    def read(self, prompts: Sequence[DecodingPrompt]) -> tuple[list[_Row], Tensor]:
        """Takes in prompts that stand in the order of their tokens; their rows and the logits of the first tokens."""
        started, sequences = time.perf_counter(), [prompt.tokens for prompt in prompts]
        # the last token of each prompt is always its own, because what comes next is read off it
        last = [len(sequence) - 1 for sequence in sequences]
        reading = self.reader.read(sequences, last, last)
        self._layers = self._layers or [RowLayer() for _ in reading.layers]
        for layer, (keys, values) in zip(self._layers, gather(reading.layers, reading.paths), strict=True):
            layer.join(keys, values)
        rows = [_Row(prompt, started) for prompt in prompts]
        self.rows += rows
        return rows, reading.logits

    def step(self) -> tuple[list[_Row], Tensor]:
        """Reads the token that each row wrote last; the rows and the logits of the next one, rows × vocabulary."""
        model = self.reader.model
        # keys are there of all tokens but the one that was written last
        before = [len(row.prompt.tokens) + len(row.written) - 1 for row in self.rows]
        lengths, width = torch.tensor(before, device=model.device), max(before) + 1
        places = torch.arange(len(before), device=model.device)
        for layer in self._layers:
            layer.await_token(places, lengths, width)
        seen = torch.arange(width, device=model.device)[None, :] <= lengths[:, None]
        output = model(
            input_ids=torch.tensor([[row.written[-1]] for row in self.rows], device=model.device),
            attention_mask=additive_mask(seen, model.dtype)[:, None, None],
            position_ids=lengths[:, None],
            past_key_values=Cache(layers=self._layers),
            use_cache=True,
        )
        return self.rows, output.logits[:, -1]

    def advance(self, group: Sequence[DecodingPrompt], settings: DecodingSettings) -> bool:
        """Reads prompts, else the last token of every row, and writes the next tokens."""
        _write_next(*(self.read(group) if group else self.step()), settings)
        return True

    def pop_finished(self, stop_tokens: frozenset[int]) -> list[_Row]:
        """The rows that are finished or broken, which are let go; the last of the others take their places."""
        going = [
            row.is_broken or row.written[-1] in stop_tokens or len(row.written) >= row.prompt.limit for row in self.rows
        ]
        finished = [row for row, goes in zip(self.rows, going, strict=True) if goes]
        count = len(self.rows) - len(finished)
        movers = [place for place in range(count, len(self.rows)) if not going[place]]
        for hole, mover in zip((place for place in range(count) if going[place]), movers, strict=True):
            self.rows[hole] = self.rows[mover]
            for layer in self._layers:
                layer.move(mover, hole)
        del self.rows[count:]
        for layer in self._layers:
            layer.count = count
        return finished


class ContinuousBatcher:
    """Decodes with shared beginnings and rows that come and go; see the module's docstring."""

    name = "continuous"

    def __init__(self, model: Model, settings: DecodingSettings) -> None:
        self._model = model
        self._settings = settings
        self.batch_size = settings.batch_size
        """Rows at a time; halved for good where memory ran out."""

    @torch.inference_mode()
    def decode(self, prompts: Sequence[DecodingPrompt], is_cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """A completion of each prompt, as they finish; stops after the current step once it is cancelled."""
        stop_tokens = self._settings.stop_tokens
        waiting, batch = deque(sorted(prompts, key=lambda prompt: prompt.tokens)), _Batch(self._model)
        while (waiting or batch.rows) and not is_cancelled():
            group = self._next_group(waiting, batch)
            if none_if_out_of_memory(batch.advance, group, self._settings):
                for row in batch.pop_finished(stop_tokens):
                    if row.is_broken:
                        yield fail(row.prompt, NOT_NUMBERS)
                    else:
                        yield finish(row.prompt, row.written, stop_tokens, time.perf_counter() - row.started)
                continue
            # starts over with half the batch size; a prompt that doesn't even fit alone is given up
            given = {prompt.number: prompt for prompt in [*group, *(row.prompt for row in batch.rows)]}
            batch = _Batch(self._model)
            if len(given) == 1:
                yield out_of_memory(*given.values())
            else:
                self.batch_size = max(1, min(self.batch_size, len(given)) // 2)
                waiting = deque(sorted([*given.values(), *waiting], key=lambda prompt: prompt.tokens))

    def _next_group(self, waiting: deque[DecodingPrompt], batch: _Batch) -> list[DecodingPrompt]:
        """The prompts to read now; none while so few rows are free that reading is not worth its fixed cost."""
        room = self.batch_size - len(batch.rows)
        if room < max(1, self.batch_size // 4):
            return []
        costs = [(prompt.tokens, 0) for prompt in islice(waiting, room)]
        return [waiting.popleft() for _ in range(batch.reader.n_fitting(costs, self._settings.read_tokens))]


_PROBES = ((5, 6, 7, 8, 9, 10), (5, 6, 7, 11, 12), (5, 13, 14, 15, 16, 17, 18))
_PROBE_ANSWER = 19
_TOLERANCES = {torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 8e-2}


@torch.inference_mode()
def supports_tree_attention(model: Model) -> bool:
    """Whether the model gives the same logits for a tree of prompts, and for the rows made of it, as for each alone."""
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
    except Exception as error:  # a model may refuse masks, positions or caches in any way it likes
        if is_out_of_memory(error):
            raise
        return False
    return True


# --- the library's own decoding --------------------------------------------------------------------------------------


class StaticBatcher:
    """Decodes with the library's `generate`: batches of similar length, each of which runs until its longest answer."""

    name = "static"

    def __init__(self, model: Model, settings: DecodingSettings) -> None:
        self._model = model
        self._settings = settings
        self.batch_size = settings.batch_size if settings.temperature == 0 else 1
        """Rows at a time; halved for good where memory ran out. Sampled answers are drawn one by one."""

    def decode(self, prompts: Sequence[DecodingPrompt], is_cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """A completion of each prompt, batch by batch; stops after the current step once it is cancelled."""
        waiting = deque(sorted(prompts, key=lambda prompt: (prompt.limit, -len(prompt.tokens))))
        while waiting and not is_cancelled():
            size = min(self.batch_size, len(waiting))
            group = [waiting[place] for place in range(size) if waiting[place].limit == waiting[0].limit]
            completions = none_if_out_of_memory(self._generate, group, is_cancelled)
            if completions is None and len(group) > 1:
                self.batch_size = len(group) // 2
                continue
            completions = completions or [out_of_memory(group[0])]
            if is_cancelled():
                return
            for completion in completions:
                waiting.popleft()
                yield completion

    @torch.inference_mode()
    def _generate(self, group: Sequence[DecodingPrompt], is_cancelled: Callable[[], bool]) -> list[Completion]:
        """The completions of a batch, in its order."""
        settings, started = self._settings, time.perf_counter()
        are_broken = [False] * len(group)
        """Whether a row had something that is no number before it was finished."""
        width = max(len(prompt.tokens) for prompt in group)

        def stop(input_ids: Tensor, _scores: Any, **_: Any) -> Tensor:
            return torch.full((len(input_ids),), is_cancelled(), device=input_ids.device)

        def look(_tokens: Tensor, scores: Tensor) -> Tensor:
            """Called at every token; a broken row goes on with numbers, since drawing takes no others."""
            broken = ~scores.amax(dim=-1).isfinite()
            if not broken.any():
                return scores
            are_broken[:] = [was or now for was, now in zip(are_broken, broken.tolist(), strict=True)]
            return scores.masked_fill(broken[:, None], 0.0)

        def penalise(tokens: Tensor, scores: Tensor) -> Tensor:
            """Presence and frequency penalty, which the library lacks: of the tokens that were written."""
            written = tokens[:, width:]
            counts = torch.zeros_like(scores).scatter_add_(1, written, torch.ones_like(written, dtype=scores.dtype))
            return scores - settings.frequency_penalty * counts - settings.presence_penalty * (counts > 0)

        is_penalised = settings.presence_penalty or settings.frequency_penalty
        draws = settings.temperature > 0
        sampling: dict[str, Any] = {"do_sample": draws, "max_new_tokens": group[0].limit}
        sampling |= {"eos_token_id": sorted(settings.stop_tokens), "pad_token_id": settings.pad_token}
        if settings.repetition_penalty != 1:
            sampling["repetition_penalty"] = settings.repetition_penalty
        if draws:
            sampling |= {"temperature": settings.temperature, "top_p": settings.top_p, "top_k": settings.top_k}
            sampling["min_p"] = settings.min_p or None
        lines = [[settings.pad_token] * (width - len(prompt.tokens)) + [*prompt.tokens] for prompt in group]
        mask = [[0] * (width - len(prompt.tokens)) + [1] * len(prompt.tokens) for prompt in group]
        with torch.random.fork_rng(enabled=draws):
            if draws:
                torch.manual_seed(group[0].seed)
            output = self._model.generate(
                input_ids=torch.tensor(lines, device=self._model.device),
                attention_mask=torch.tensor(mask, device=self._model.device),
                generation_config=GenerationConfig(**sampling),
                stopping_criteria=StoppingCriteriaList([stop]),
                logits_processor=LogitsProcessorList([look, penalise] if is_penalised else [look]),
            )
        completions, elapsed = list[Completion](), time.perf_counter() - started
        for prompt, line, is_broken in zip(group, output[:, width:].tolist(), are_broken, strict=True):
            end = next((place for place, token in enumerate(line, start=1) if token in settings.stop_tokens), None)
            completion = finish(prompt, line[:end], settings.stop_tokens, elapsed)  # padding may follow a stop token
            completions.append(fail(prompt, NOT_NUMBERS) if is_broken else completion)
        return completions
