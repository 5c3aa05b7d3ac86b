"""From token ids to token ids: how a local model writes its answers, many at a time.

The prompts of a benchmark are long and alike, the answers short and of uneven length. `ContinuousDecoder` uses both:

* **Shared beginnings are read once.** Prompts are taken in the order of their tokens, so that neighbours share most.
  What a group of them does not share is laid end to end as one sequence, in which each token sees its own prompt only
  (a tree mask); no padding is read.
* **Rows come and go.** An answer that is finished leaves the batch at once, and the next prompts take its place.

A row in the batch is right-aligned, with masked padding on the left:

    keys of row 0   . . . . a b c d e f │ g      `.` padding, letters: its prompt and what it has written, │ this step
    keys of row 1   . a b c d e f g h i │ j

In float32 the text is the same as the model's own `generate` gives for each prompt alone. Models whose memory is more
than keys and values (state-space and hybrid ones), or that mask in ways of their own, are found by `reads_trees`, a
comparison on the loaded model; for them `StaticDecoder` runs the library's own `generate`.
"""

from __future__ import annotations

import inspect
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch
from torch.nn.functional import pad, softmax

if TYPE_CHECKING:
    from torch import Tensor

Model = Any
"""A causal language model of transformers, which has no types of its own."""


@dataclass(frozen=True)
class Prompt:
    """What a row starts from."""

    number: int
    """The caller's own number for it."""
    tokens: tuple[int, ...]
    limit: int
    """Most tokens to write; at least 1."""
    seed: int
    """Where sampling starts."""


@dataclass(frozen=True)
class Completion:
    """What was written after a prompt."""

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
    """Why nothing was written, or None."""


@dataclass(frozen=True)
class DecodingSettings:
    """How rows are decoded."""

    stop_tokens: frozenset[int]
    """Tokens that end an answer."""
    pad_token: int
    batch_size: int
    """Most rows at a time."""
    read_tokens: int
    """Most prompt tokens read in one go."""
    temperature: float = 0.0
    """0: the likeliest token always."""
    top_p: float = 1.0


class Decoder(Protocol):
    """Something that completes prompts."""

    def decode(self, prompts: Sequence[Prompt], is_cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """A completion of each prompt, as they finish; stops after the current step once it is cancelled."""


# --- choosing tokens -------------------------------------------------------------------------------------------------


@dataclass
class _Row:
    """A prompt in work."""

    prompt: Prompt
    started: float
    written: list[int] = field(default_factory=list)
    generator: torch.Generator | None = None

    @property
    def length(self) -> int:
        """Tokens whose keys are in the cache: all but the one that was written last."""
        return len(self.prompt.tokens) + len(self.written) - 1

    def finish_reason(self, stop_tokens: frozenset[int]) -> Literal["stop", "length"] | None:
        """Why the row is finished, or None where it is not."""
        if self.written[-1] in stop_tokens:
            return "stop"
        return "length" if len(self.written) >= self.prompt.limit else None


def _choose(logits: Tensor, rows: Sequence[_Row], settings: DecodingSettings) -> list[int]:
    """The next token of each row. Each row draws from its own generator, so what it draws does not depend on others."""
    if settings.temperature == 0:
        chosen: list[int] = logits.argmax(dim=-1).tolist()
        return chosen
    probabilities = softmax(logits.float().cpu() / settings.temperature, dim=-1)
    return [_draw(line, row, settings.top_p) for line, row in zip(probabilities, rows, strict=True)]


def _draw(probabilities: Tensor, row: _Row, top_p: float) -> int:
    if row.generator is None:
        row.generator = torch.Generator().manual_seed(row.prompt.seed)
    ordered, tokens = probabilities.sort(descending=True, stable=True)
    kept = ordered * ((ordered.cumsum(dim=0) - ordered) < top_p)
    return int(tokens[torch.multinomial(kept, 1, generator=row.generator)].item())


def _complete(row: _Row, reason: Literal["stop", "length"]) -> Completion:
    answer = row.written[:-1] if reason == "stop" else row.written
    elapsed = time.perf_counter() - row.started
    return Completion(row.prompt.number, tuple(answer), reason, len(row.written), elapsed)


def fail(prompt: Prompt, error: str) -> Completion:
    """A completion that says why there is none."""
    return Completion(prompt.number, (), None, 0, 0.0, error)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of torch says that a device has no memory left: each kind of device says it in its own words."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    words = ("out of memory", "can't allocate memory", "not enough memory")
    return isinstance(error, RuntimeError) and any(word in str(error).lower() for word in words)


def release_memory() -> None:
    """Gives back what torch keeps for later on the device."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    elif torch.backends.mps.is_available():
        torch.mps.empty_cache()


# --- reading prompts -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Trail:
    """The prompt that was read last, with its keys and values: the next one may begin alike."""

    tokens: tuple[int, ...] = ()
    layers: tuple[tuple[Tensor, Tensor], ...] = ()
    """Keys and values of each layer, 1 × heads × tokens × size."""


@dataclass(frozen=True)
class _Sheet:
    """A group of prompts laid end to end, each token once. Places count the kept part of the trail first."""

    kept: int
    """Tokens of the trail that the first prompt shares."""
    tokens: list[int]
    """What has to be read."""
    positions: list[int]
    """Place of each of them in its prompt."""
    paths: list[list[int]]
    """For each prompt, the places of its tokens."""
    fresh: list[int]
    """For each prompt, how many tokens it has before its first own one."""


def shared_length(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens two prompts begin with in common."""
    limit = min(len(first), len(second))
    return next((place for place in range(limit) if first[place] != second[place]), limit)


def _lay_out(prompts: Sequence[Prompt], trail: _Trail) -> _Sheet:
    """The sheet of some prompts that stand in the order of their tokens.

    The last token of each prompt is always its own, because what comes next is read off it.
    """
    kept = min(shared_length(trail.tokens, prompts[0].tokens), len(prompts[0].tokens) - 1)
    sheet = _Sheet(kept, [], [], [], [])
    before: Sequence[int] = trail.tokens[:kept]
    path = list(range(kept))
    for prompt in prompts:
        common = min(shared_length(before, prompt.tokens), len(prompt.tokens) - 1)
        first_place = kept + len(sheet.tokens)
        path = path[:common] + list(range(first_place, first_place + len(prompt.tokens) - common))
        sheet.tokens.extend(prompt.tokens[common:])
        sheet.positions.extend(range(common, len(prompt.tokens)))
        sheet.paths.append(path)
        sheet.fresh.append(common)
        before = prompt.tokens
    return sheet


def _tree_mask(sheet: _Sheet, dtype: torch.dtype, device: torch.device) -> Tensor:
    """1 × 1 × tokens × places: 0 where a token sees a place, the lowest number where it doesn't."""
    seen = torch.zeros(len(sheet.tokens), sheet.kept + len(sheet.tokens), dtype=torch.bool)
    for path, common in zip(sheet.paths, sheet.fresh, strict=True):
        places = torch.tensor(path)
        own = places[common:] - sheet.kept
        seen[own[:, None], places[None, :]] = torch.ones(len(own), len(path), dtype=torch.bool).tril(common)
    mask = torch.zeros(seen.shape, dtype=dtype).masked_fill(~seen, torch.finfo(dtype).min)
    return mask[None, None].to(device)


def _cache_of(layers: Sequence[tuple[Tensor, Tensor]]) -> Any:
    from transformers import DynamicCache

    cache = DynamicCache()
    for number, (keys, values) in enumerate(layers):
        cache.update(keys, values, number)
    return cache


@dataclass(frozen=True)
class _Reading:
    """What comes of reading some prompts."""

    rows: list[_Row]
    layers: list[tuple[Tensor, Tensor]]
    """Keys and values of the rows in each layer, right-aligned."""
    trail: _Trail
    """What the next prompts may share."""
    logits: Tensor
    """Of the first token of each answer, rows × vocabulary."""


def read_prompts(model: Model, prompts: Sequence[Prompt], trail: _Trail) -> _Reading:
    """Reads prompts that stand in the order of their tokens, in one go."""
    started = time.perf_counter()
    sheet = _lay_out(prompts, trail)
    cache, logits = _read_sheet(model, sheet, trail)
    width = max(len(path) for path in sheet.paths)
    places = torch.tensor([[0] * (width - len(path)) + path for path in sheet.paths], device=model.device)
    last = places[-1:, width - len(sheet.paths[-1]) :]
    return _Reading(
        rows=[_Row(prompt, started) for prompt in prompts],
        layers=[(_gather(layer.keys, places), _gather(layer.values, places)) for layer in cache.layers],
        trail=_Trail(
            prompts[-1].tokens,
            tuple((_gather(layer.keys, last), _gather(layer.values, last)) for layer in cache.layers),
        ),
        logits=logits,
    )


def _read_sheet(model: Model, sheet: _Sheet, trail: _Trail) -> tuple[Any, Tensor]:
    """The cache after a sheet was read behind the kept part of a trail, and the logits after each prompt."""
    device = model.device
    cache = _cache_of([(keys[:, :, : sheet.kept], values[:, :, : sheet.kept]) for keys, values in trail.layers])
    ends = torch.tensor([path[-1] - sheet.kept for path in sheet.paths], device=device)
    narrow = "logits_to_keep" in inspect.signature(model.forward).parameters
    output = model(
        input_ids=torch.tensor([sheet.tokens], device=device),
        attention_mask=_tree_mask(sheet, model.dtype, device),
        position_ids=torch.tensor([sheet.positions], device=device),
        past_key_values=cache,
        use_cache=True,
        **({"logits_to_keep": ends} if narrow else {}),
    )
    return cache, output.logits[0] if narrow else output.logits[0, ends]


def _gather(block: Tensor, places: Tensor) -> Tensor:
    """From 1 × heads × places × size to rows × heads × width × size."""
    return block[0][:, places].transpose(0, 1).contiguous()


# --- rows that come and go -------------------------------------------------------------------------------------------


class _Batch:
    """The rows in work and their keys and values, right-aligned."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.rows: list[_Row] = []
        self._cache: Any = None

    def __len__(self) -> int:
        return len(self.rows)

    def step(self) -> Tensor:
        """Reads the token that each row wrote last; the logits of the next one, rows × vocabulary."""
        device = self._model.device
        lengths = torch.tensor([row.length for row in self.rows], device=device)
        width = self._cache.get_seq_length() + 1
        visible = torch.arange(width, device=device)[None, :] >= width - 1 - lengths[:, None]
        last = torch.tensor([[row.written[-1]] for row in self.rows], device=device)
        output = self._model(
            input_ids=last,
            attention_mask=visible.long(),
            position_ids=lengths[:, None],
            past_key_values=self._cache,
            use_cache=True,
        )
        logits: Tensor = output.logits[:, -1]
        return logits

    def keep(self, places: Sequence[int]) -> None:
        """Lets all other rows go, and the padding that nobody needs any more."""
        if len(places) == len(self.rows):
            return
        self.rows = [self.rows[place] for place in places]
        if not self.rows:
            self._cache = None
            return
        index = torch.tensor(places, device=self._model.device)
        width = max(row.length for row in self.rows)
        for layer in self._cache.layers:
            layer.keys = layer.keys[index][:, :, -width:].contiguous()
            layer.values = layer.values[index][:, :, -width:].contiguous()

    def join(self, rows: Sequence[_Row], layers: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Takes rows in; their keys and values are right-aligned to the longest of them."""
        if self._cache is None:
            self._cache = _cache_of(layers)
        else:
            for layer, (keys, values) in zip(self._cache.layers, layers, strict=True):
                layer.keys = _stack(layer.keys, keys)
                layer.values = _stack(layer.values, values)
        self.rows = [*self.rows, *rows]


def _stack(upper: Tensor, lower: Tensor) -> Tensor:
    """Two blocks of rows as one, padded on the left to the wider one."""
    width = max(upper.shape[2], lower.shape[2])
    return torch.cat([pad(block, (0, 0, width - block.shape[2], 0)) for block in (upper, lower)])


class ContinuousDecoder:
    """Decodes with shared beginnings and rows that come and go; see the module's docstring."""

    def __init__(self, model: Model, settings: DecodingSettings) -> None:
        self._model = model
        self._settings = settings
        self.batch_size = settings.batch_size
        """Rows at a time; halved for good where memory ran out."""

    @torch.inference_mode()
    def decode(self, prompts: Sequence[Prompt], is_cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """A completion of each prompt, as they finish; stops after the current step once it is cancelled."""
        waiting = deque(sorted(prompts, key=lambda prompt: prompt.tokens))
        batch, trail = _Batch(self._model), _Trail()
        while (waiting or len(batch)) and not is_cancelled():
            group: list[Prompt] = []
            try:
                if waiting and self._has_room(batch):
                    group = self._take(waiting, self.batch_size - len(batch), trail)
                    reading = read_prompts(self._model, group, trail)
                    batch.join(reading.rows, reading.layers)
                    group, trail = [], reading.trail
                    yield from self._advance(batch, reading.rows, reading.logits)
                else:
                    yield from self._advance(batch, batch.rows, batch.step())
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                interrupted = sorted([*group, *(row.prompt for row in batch.rows)], key=lambda prompt: prompt.tokens)
                batch, trail = _Batch(self._model), _Trail()
                release_memory()
                if len(interrupted) > 1:
                    self.batch_size = max(1, min(self.batch_size, len(interrupted)) // 2)
                else:
                    lone = interrupted.pop()
                    yield fail(lone, f"out of memory with a prompt of {len(lone.tokens)} tokens")
                waiting.extendleft(reversed(interrupted))

    def _has_room(self, batch: _Batch) -> bool:
        """Whether enough rows have left that reading new prompts is worth its fixed cost."""
        return len(batch) <= self.batch_size - max(1, self.batch_size // 4)

    def _take(self, waiting: deque[Prompt], room: int, trail: _Trail) -> list[Prompt]:
        """The next prompts: as many as there is room for and as can be read in one go, but at least one."""
        group: list[Prompt] = []
        before, unread = trail.tokens, 0
        while waiting and len(group) < room:
            unread += len(waiting[0].tokens) - shared_length(before, waiting[0].tokens)
            if group and unread > self._settings.read_tokens:
                break
            before = waiting[0].tokens
            group.append(waiting.popleft())
        return group

    def _advance(self, batch: _Batch, rows: Sequence[_Row], logits: Tensor) -> Iterator[Completion]:
        """Writes the next token of some rows, and lets those go that are finished."""
        for row, token in zip(rows, _choose(logits, rows, self._settings), strict=True):
            row.written.append(token)
        reasons = [row.finish_reason(self._settings.stop_tokens) for row in batch.rows]
        for row, reason in zip(batch.rows, reasons, strict=True):
            if reason is not None:
                yield _complete(row, reason)
        batch.keep([place for place, reason in enumerate(reasons) if reason is None])


# --- can this model be read so? --------------------------------------------------------------------------------------

_PROBES = ((5, 6, 7, 8, 9, 10), (5, 6, 7, 11, 12), (5, 13, 14, 15, 16, 17, 18))
_PROBE_ANSWER = 19
_TOLERANCES = {torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 8e-2}


@torch.inference_mode()
def reads_trees(model: Model) -> bool:
    """Whether the model gives the same logits for a tree of prompts, and for the rows made of it, as for each alone."""
    try:
        return _reads_probes(model)
    except Exception as error:  # a model may refuse masks, positions or caches in any way it likes
        if is_out_of_memory(error):
            raise
        return False


def _reads_probes(model: Model) -> bool:
    prompts = [Prompt(number, tokens, 2, 0) for number, tokens in enumerate(sorted(_PROBES))]
    early = read_prompts(model, prompts[:2], _Trail())
    late = read_prompts(model, prompts[2:], early.trail)
    batch = _Batch(model)
    for reading in (early, late):
        batch.join(reading.rows, reading.layers)
    for row in batch.rows:
        row.written.append(_PROBE_ANSWER)
    first, second = torch.cat([early.logits, late.logits]), batch.step()
    return all(
        _alike(first[place], _alone(model, prompt.tokens))
        and _alike(second[place], _alone(model, [*prompt.tokens, _PROBE_ANSWER]))
        for place, prompt in enumerate(prompts)
    )


def _alone(model: Model, tokens: Sequence[int]) -> Tensor:
    logits: Tensor = model(input_ids=torch.tensor([list(tokens)], device=model.device), use_cache=False).logits[0, -1]
    return logits


def _alike(found: Tensor, expected: Tensor) -> bool:
    difference = (found.float() - expected.float()).abs().max()
    return bool(difference <= _TOLERANCES.get(found.dtype, 8e-2) * expected.float().abs().max())
