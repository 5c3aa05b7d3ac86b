"""Options of local models, and the device, number type and batch sizes that result from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

import torch
from pydantic import Field

from mbbq_gen.core.errors import UsageError
from mbbq_gen.providers.base import JsonTable, SamplingOptions
from mbbq_gen.providers.local.chat_format import PromptFormat

NumberType = Literal["float32", "bfloat16", "float16"]
NOT_NUMBERS: Final = "the model's probabilities are not numbers (NaN); try --dtype float32"


class TransformersOptions(SamplingOptions):
    """Options of `transformers:MODEL`."""

    may_change: ClassVar[frozenset[str]] = frozenset({"batch_size", "threads"})
    """They may change in float32 only; with other number types they are part of the settings."""

    max_tokens: int = Field(default=128, ge=1, description="maximum tokens of an answer")
    temperature: float = Field(default=0.0, ge=0.0, le=5.0, description="temperature; 0: always the likeliest token")
    seed: int = Field(default=0, ge=0, description="seed of the sampling")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        default="auto", description="number type; auto: float32 on a CPU, else that of the weights"
    )
    prompt_format: PromptFormat = Field(
        default="auto", description="auto: the model's chat template, if there is one; plain: the text alone"
    )
    template_args: JsonTable = Field(
        default_factory=dict, description='variables of the chat template, such as {"enable_thinking": false}'
    )
    revision: str | None = Field(default=None, description="branch, tag or commit on the hub")
    trust_remote_code: bool = Field(default=False, description="run code that comes with the model")
    device: str = Field(
        default="auto", pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$", description="auto: cuda, else mps, else cpu"
    )
    batch_size: int | None = Field(
        default=None,
        ge=1,
        description="maximum answers at a time, halved where memory runs out; default: 32, on a GPU 128",
    )
    threads: int | None = Field(default=None, ge=1, description="CPU threads; default: one per physical core")


@dataclass(frozen=True)
class DevicePlan:
    """Device, number type and batch sizes for a model."""

    name: str
    """`cpu`, `mps`, `cuda` or `cuda:1`."""
    dtype: NumberType
    batch_size: int
    read_tokens: int
    """Prompt tokens read in one forward pass."""
    threads: int


def find_device(options: TransformersOptions, stored: Callable[[], str | None] = lambda: None) -> DevicePlan:
    """The device plan for the options; raises UsageError if the requested device does not exist.

    `stored` returns the number type of the weights, or None if unknown.
    """
    name, on_mps = options.device, torch.backends.mps.is_available()
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if on_mps else "cpu"
    on_cpu, on_cuda = name == "cpu", name.startswith("cuda")
    if not on_cpu:
        number = int(name.partition(":")[2] or 0)
        if not (number < torch.cuda.device_count() if on_cuda else on_mps):
            raise UsageError(f"transformers: option device: {name!r} is not on this machine; use auto or cpu")
    dtype = options.dtype
    if dtype == "auto":
        short: NumberType = "bfloat16" if on_cuda and torch.cuda.is_bf16_supported() else "float16"
        kept = None if on_cpu else stored()
        dtype = "float32" if on_cpu or kept == "float32" else "float16" if kept == "float16" else short
    return DevicePlan(
        name=name,
        dtype=dtype,
        batch_size=options.batch_size or (32 if on_cpu else 128),
        read_tokens=512 if on_cpu else 4096,
        threads=options.threads or torch.get_num_threads(),
    )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that a device is out of memory; each kind of device has its own message."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    words = ("out of memory", "can't allocate memory", "not enough memory")
    return isinstance(error, RuntimeError) and any(word in str(error).lower() for word in words)
