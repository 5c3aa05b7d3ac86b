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


def _fail(prompt: Prompt, error: str) -> Completion:
    return Completion(prompt.number, (), None, 0, 0.0, error)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of torch says that a device has no memory left: each kind of device says it in its own words."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    words = ("out of memory", "can't allocate memory", "not enough memory")
    return isinstance(error, RuntimeError) and any(word in str(error).lower() for word in words)


def _release_memory() -> None:
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


def _cache_of(layers: Sequence[tuple[Tensor, Tensor]]) -> Any:
    from transformers import DynamicCache

    cache = DynamicCache()
    for number, (keys, values) in enumerate(layers):
        cache.update(keys, values, number)
    return cache


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
                    rows, layers, trail, logits = self._read(group, trail)
                    batch.join(rows, layers)
                    del layers
                    yield from self._advance(batch, rows, logits)
                else:
                    yield from self._advance(batch, batch.rows, batch.step())
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                interrupted = sorted([*group, *(row.prompt for row in batch.rows)], key=lambda prompt: prompt.tokens)
                batch, trail = _Batch(self._model), _Trail()
                _release_memory()
                if self.batch_size == 1 or len(interrupted) == 1:
                    yield _fail(interrupted[0], f"out of memory with a prompt of {len(interrupted[0].tokens)} tokens")
                    del interrupted[0]
                self.batch_size = max(1, self.batch_size // 2)
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

    def _read(
        self, prompts: Sequence[Prompt], trail: _Trail
    ) -> tuple[list[_Row], list[tuple[Tensor, Tensor]], _Trail, Tensor]:
        """Reads prompts: their rows, keys and values, the trail that they leave, and the logits of their first tokens."""
        started = time.perf_counter()
        sheet = _lay_out(prompts, trail)
        cache, logits = read_sheet(self._model, sheet, trail)
        width = max(len(path) for path in sheet.paths)
        places = torch.tensor([[0] * (width - len(path)) + path for path in sheet.paths], device=self._model.device)
        last = places[-1:, width - len(sheet.paths[-1]) :]
        layers = [(_gather(layer.keys, places), _gather(layer.values, places)) for layer in cache.layers]
        left = tuple((_gather(layer.keys, last), _gather(layer.values, last)) for layer in cache.layers)
        rows = [_Row(prompt, started) for prompt in prompts]
        return rows, layers, _Trail(prompts[-1].tokens, left), logits

    def _advance(self, batch: _Batch, rows: Sequence[_Row], logits: Tensor) -> Iterator[Completion]:
        """Writes the next token of some rows, and lets those go that are finished."""
        for row, token in zip(rows, _choose(logits, rows, self._settings), strict=True):
            row.written.append(token)
        finished = {place: self._reason(row) for place, row in enumerate(batch.rows)}
        done = [(row, reason) for row, reason in zip(batch.rows, finished.values(), strict=True) if reason]
        batch.keep([place for place, reason in finished.items() if reason is None])
        for row, reason in done:
            yield _complete(row, reason)

    def _reason(self, row: _Row) -> Literal["stop", "length"] | None:
        return row.finish_reason(self._settings.stop_tokens)


def read_sheet(model: Model, sheet: _Sheet, trail: _Trail) -> tuple[Any, Tensor]:
    """The cache after a sheet was read after the kept part of a trail, and the logits behind each prompt's last token."""
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


# --- can this model be read so? --------------------------------------------------------------------------------------

_PROBES = ((5, 6, 7, 8, 9, 10), (5, 6, 7, 11, 12), (5, 13, 14, 15, 16, 17, 18))
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
    settings = DecodingSettings(frozenset(), 0, len(_PROBES), sum(map(len, _PROBES)))
    decoder, batch = ContinuousDecoder(model, settings), _Batch(model)
    prompts = [Prompt(number, tokens, 2, 0) for number, tokens in enumerate(sorted(_PROBES))]
    rows, layers, trail, first = decoder._read(prompts[:2], _Trail())
    late_rows, late_layers, _, late_first = decoder._read(prompts[2:], trail)
    batch.join(rows, layers)
    batch.join(late_rows, late_layers)
    for row in batch.rows:
        row.written.append(19)
    found = torch.cat([first, late_first]), batch.step()
    return all(
        _alike(line, _alone(model, [*row.prompt.tokens, *more]))
        for lines, more in zip(found, ([], [19]), strict=True)
        for line, row in zip(lines, batch.rows, strict=True)
    )


def _alone(model: Model, tokens: Sequence[int]) -> Tensor:
    logits: Tensor = model(input_ids=torch.tensor([list(tokens)], device=model.device), use_cache=False).logits[0, -1]
    return logits


def _alike(found: Tensor, expected: Tensor) -> bool:
    difference = (found.float() - expected.float()).abs().max()
    return bool(difference <= _TOLERANCES.get(found.dtype, 8e-2) * expected.float().abs().max())


# --- the library's own way -------------------------------------------------------------------------------------------


class StaticDecoder:
    """Decodes with the library's `generate`: batches of similar length, each of which runs until its longest answer."""

    def __init__(self, model: Model, settings: DecodingSettings) -> None:
        self._model = model
        self._settings = settings
        self.batch_size = settings.batch_size if settings.temperature == 0 else 1
        """Rows at a time; halved for good where memory ran out. Sampled answers are drawn one by one, each by its seed."""

    def decode(self, prompts: Sequence[Prompt], is_cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """A completion of each prompt, batch by batch; stops after the current step once it is cancelled."""
        waiting = deque(sorted(prompts, key=lambda prompt: (prompt.limit, -len(prompt.tokens))))
        while waiting and not is_cancelled():
            size = min(self.batch_size, len(waiting))
            group = [waiting[place] for place in range(size) if waiting[place].limit == waiting[0].limit]
            try:
                completions = self._generate(group, is_cancelled)
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                _release_memory()
                completions = []
                if len(group) == 1:
                    completions = [_fail(group[0], f"out of memory with a prompt of {len(group[0].tokens)} tokens")]
                self.batch_size = max(1, len(group) // 2)
            if is_cancelled():
                return
            for completion in completions:
                waiting.popleft()
                yield completion

    @torch.inference_mode()
    def _generate(self, group: Sequence[Prompt], is_cancelled: Callable[[], bool]) -> list[Completion]:
        """The completions of a batch, in its order."""
        started = time.perf_counter()
        width = max(len(prompt.tokens) for prompt in group)
        lines = [[self._settings.pad_token] * (width - len(prompt.tokens)) + [*prompt.tokens] for prompt in group]
        mask = [[0] * (width - len(prompt.tokens)) + [1] * len(prompt.tokens) for prompt in group]
        with torch.random.fork_rng(enabled=self._settings.temperature > 0):
            if self._settings.temperature > 0:
                torch.manual_seed(group[0].seed)
            output = self._model.generate(
                input_ids=torch.tensor(lines, device=self._model.device),
                attention_mask=torch.tensor(mask, device=self._model.device),
                generation_config=self._configuration(group[0].limit),
                stopping_criteria=[lambda input_ids, scores, **_: torch.full((len(group),), is_cancelled())],
            )
        written = output[:, width:].tolist()
        return [self._cut(prompt, line, started) for prompt, line in zip(group, written, strict=True)]

    def _configuration(self, limit: int) -> Any:
        from transformers import GenerationConfig

        sampling: dict[str, Any] = {"do_sample": False}
        if self._settings.temperature > 0:
            sampling = {
                "do_sample": True,
                "temperature": self._settings.temperature,
                "top_p": self._settings.top_p,
                "top_k": 0,
            }
        return GenerationConfig(
            max_new_tokens=limit,
            eos_token_id=sorted(self._settings.stop_tokens),
            pad_token_id=self._settings.pad_token,
            **sampling,
        )

    def _cut(self, prompt: Prompt, line: Sequence[int], started: float) -> Completion:
        """What a line of the batch holds up to its stop token."""
        stop = next((place for place, token in enumerate(line) if token in self._settings.stop_tokens), None)
        elapsed = time.perf_counter() - started
        if stop is None:
            return Completion(prompt.number, tuple(line), "length", len(line), elapsed)
        return Completion(prompt.number, tuple(line[:stop]), "stop", stop + 1, elapsed)
