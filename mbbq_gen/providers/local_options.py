"""What a user may choose about a model on this machine, and what it comes to here: device, number type, batch."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from mbbq_gen.errors import UsageError
from mbbq_gen.providers.base import JsonTable, ProviderOptions
from mbbq_gen.providers.chat_prompts import PromptFormat

if TYPE_CHECKING:
    import torch

NumberType = Literal["float32", "bfloat16", "float16"]


class LocalOptions(ProviderOptions):
    """What every kind of model on this machine takes: how it is asked and sampled, and which one it is."""

    max_new_tokens: int = Field(default=128, ge=1, description="most tokens of an answer; longer ones are cut off")
    system: str = Field(
        default="default",
        min_length=1,
        description="system prompt of questions that have none: a text; none (not even the template's own); "
        "default (what the model's chat template does)",
    )
    temperature: float = Field(default=0.0, ge=0.0, le=5.0, description="0: the likeliest token always")
    top_p: float = Field(default=1.0, gt=0.0, le=1.0, description="share of the likeliest tokens to sample from")
    seed: int = Field(default=0, ge=0, description="where sampling starts")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(default="auto", description="number type")
    prompt_format: PromptFormat = Field(
        default="auto", description="chat: the model's chat template; plain: the text alone; auto: chat if there is one"
    )
    template_args: JsonTable = Field(
        default_factory=dict, description='variables of the chat template, such as {"enable_thinking": false}'
    )
    revision: str | None = Field(default=None, description="branch, tag or commit on the hub")
    trust_remote_code: bool = Field(default=False, description="run code that comes with the model")


class TransformersOptions(LocalOptions):
    """Options of `transformers:MODEL`."""

    may_change: ClassVar[frozenset[str]] = frozenset({"batch_size", "read_tokens", "threads"})
    """Facts in float32; in the shorter types they are the provider's settings, and so can't."""

    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        default="auto", description="number type; auto: float32 on a CPU, else bfloat16 where the device has it"
    )
    device: str = Field(
        default="auto", pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$", description="auto: cuda, else mps, else cpu"
    )
    batch_size: int | None = Field(
        default=None, ge=1, description="most answers at a time; default 32, on a GPU 128 or what fits"
    )
    read_tokens: int | None = Field(
        default=None, ge=1, description="prompt tokens read at a time; default 512, on a GPU 4096"
    )
    threads: int | None = Field(default=None, ge=1, description="CPU threads; default one a physical core")
    decoding: Literal["auto", "continuous", "static"] = Field(
        default="auto",
        description="continuous: shared beginnings are read once, rows come and go; static: the library's generate; "
        "auto: continuous where the model gives the same so",
    )


class VLLMOptions(LocalOptions):
    """Options of `vllm:MODEL`."""

    may_change: ClassVar[frozenset[str]] = frozenset({"gpu_memory_utilization"})

    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        default="auto", description="number type; auto: what vLLM takes for the model"
    )
    tensor_parallel_size: int = Field(default=1, ge=1, description="GPUs that the model is spread over")
    gpu_memory_utilization: float | None = Field(
        default=None, gt=0.0, le=1.0, description="share of a GPU's memory that vLLM takes; default its own"
    )
    max_model_len: int | None = Field(default=None, ge=1, description="most tokens of prompt and answer together")
    batch_size: int = Field(default=512, ge=1, description="questions that are handed to vLLM at a time")
    engine: JsonTable = Field(
        default_factory=dict, description='other arguments of vLLM\'s LLM class, such as {"enforce_eager": true}'
    )


@dataclass(frozen=True)
class Device:
    """Where and how a model computes."""

    name: str
    """`cpu`, `mps`, `cuda` or `cuda:1`."""
    dtype: NumberType
    batch_size: int
    """Most answers at a time."""
    read_tokens: int
    """Most prompt tokens read in one go."""
    threads: int
    """CPU threads."""

    @property
    def text_depends_on_batch(self) -> bool:
        """Whether rounding is so coarse that the neighbours in a batch may change a text."""
        return self.dtype != "float32"

    @property
    def torch_dtype(self) -> torch.dtype:
        """The number type as torch names it."""
        import torch

        types = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
        return types[self.dtype]


def find_device(options: TransformersOptions) -> Device:
    """What the options come to on this machine.

    Raises:
        UsageError: where the device that was asked for is not here.
    """
    name = options.device if options.device != "auto" else _best_device()
    on_cpu = name == "cpu"
    if not on_cpu:
        _check_there(name)
    return Device(
        name=name,
        dtype=_number_type(name) if options.dtype == "auto" else options.dtype,
        batch_size=options.batch_size or (32 if on_cpu else 128),
        read_tokens=options.read_tokens or (512 if on_cpu else 4096),
        threads=options.threads or physical_cores(),
    )


def _best_device() -> str:
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _check_there(name: str) -> None:
    import torch

    if name == "mps":
        there = torch.backends.mps.is_available()
    else:
        there = int(name.partition(":")[2] or 0) < torch.cuda.device_count()
    if not there:
        raise UsageError(f"transformers: option device: {name!r} is not on this machine; use auto or cpu")


def _number_type(device: str) -> NumberType:
    import torch

    if device == "cpu":
        return "float32"
    return "bfloat16" if device.startswith("cuda") and torch.cuda.is_bf16_supported() else "float16"


def physical_cores() -> int:
    """CPU cores that this process may use, hyper-threads not counted; at least 1."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        from psutil import cpu_count  # type: ignore[import-untyped]  # comes with accelerate
    except ImportError:
        return allowed
    return max(1, min(allowed, cpu_count(logical=False) or allowed))
