"""Loads the weights and the tokenizer of a local model; damaged and missing files are named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
import transformers

from mbbq_gen.core.errors import ProviderError
from mbbq_gen.providers.local.files import ModelSource, first_line
from mbbq_gen.providers.local.options import DevicePlan, is_out_of_memory

_Loaded = TypeVar("_Loaded")


_LFS_POINTER = b"version https://git-lfs"


_INDEX = "model.safetensors.index.json"


def load_files(source: ModelSource, device: DevicePlan, *, trust_remote_code: bool) -> tuple[Any, Any]:
    """Tokenizer and model, the model on its device and ready to answer.

    Raises:
        ProviderError: where a file is missing or damaged, or nothing here can read it.
    """
    check_files(source)
    arguments = {**source.arguments(), "trust_remote_code": trust_remote_code}
    if source.gguf_file is None:  # a GGUF file would be read once more
        _guarded(source, "config.json", lambda: transformers.AutoConfig.from_pretrained(source.location, **arguments))
    tokenizer = _guarded(
        source, "tokenizer", lambda: transformers.AutoTokenizer.from_pretrained(source.location, **arguments)
    )
    model, found = _guarded(
        source,
        "model",
        lambda: transformers.AutoModelForCausalLM.from_pretrained(
            source.location, dtype=device.torch_dtype, output_loading_info=True, **arguments
        ),
    )
    if missing := sorted(found["missing_keys"]):
        raise ProviderError(
            f"transformers:{source.name}: {len(missing)} of its weights are in none of its files ({missing[0]}, …):"
            " the files are not complete, or it is no model that writes text"
        )
    return tokenizer, _guarded(source, "model", lambda: model.to(device.name)).eval()


def check_files(source: ModelSource) -> None:
    """A look at the files of a folder, or at a GGUF file, that the libraries' own errors would not name.

    Raises:
        ProviderError: where one is missing or damaged.
    """
    folder = Path(source.location)
    if source.gguf_file is not None or not folder.is_dir():
        return  # a GGUF file is looked at by its reader, a hub's file by the hub's client
    for name in _parts(folder):
        if not (folder / name).is_file():
            raise ProviderError(f"{folder / name}: missing, but {_INDEX} names it; download the model again")
    for path in sorted(folder.glob("*.safetensors")):
        _check_safetensors(path)


def _parts(folder: Path) -> list[str]:
    """The files that the weights are spread over, by the folder's index; none where it has none."""
    path = folder / _INDEX
    if not path.is_file():
        return []
    try:
        return sorted(set(json.loads(path.read_text(encoding="utf-8"))["weight_map"].values()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ProviderError(f"{path}: not an index of weights; download the model again") from error


def _check_safetensors(path: Path) -> None:
    from safetensors import SafetensorError, safe_open

    with path.open("rb") as stream:
        if stream.read(len(_LFS_POINTER)) == _LFS_POINTER:
            raise ProviderError(f"{path}: this is a Git LFS pointer, not the file; run in its folder: git lfs pull")
    try:
        with safe_open(path, framework="pt"):
            pass
    except (SafetensorError, OSError) as error:
        raise ProviderError(f"{path}: damaged or incomplete ({first_line(error)}); download the model again") from error


def _guarded(source: ModelSource, what: str, load: Callable[[], _Loaded]) -> _Loaded:
    try:
        return load()
    except Exception as error:  # a damaged file may make a library fail in any way
        raise ProviderError(_explain(source, what, error)) from error


def _explain(source: ModelSource, what: str, error: Exception) -> str:
    """What went wrong, in a line."""
    name, reason = f"transformers:{source.name}", first_line(error)
    if is_out_of_memory(error):
        return f"{name}: it does not fit into memory; try --dtype bfloat16 or a smaller model"
    if "ignore_mismatched_sizes" in reason:
        return f"{name}: its weights are of other sizes than its config.json says; download the model again"
    if source.gguf_file is not None and not isinstance(error, ImportError | torch.OutOfMemoryError):
        path = Path(source.location) / source.gguf_file
        return f"{path}: can't be read ({type(error).__name__}: {reason}); a damaged file, or a kind not known here"
    if what == "tokenizer":
        return f"{name}: its tokenizer can't be loaded ({reason}); are tokenizer.json or the like missing or damaged?"
    if what == "config.json":
        return f"{name}: its config.json can't be used: {reason}"
    return f"{name}: can't be loaded: {reason}"
