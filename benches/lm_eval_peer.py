"""lm-evaluation-harness in the same process, on the same model; for the benches of local models."""

from __future__ import annotations

import importlib
import logging
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from transformers import GenerationConfig

from mbbq_gen.core.files import cache_directory
from mbbq_gen.providers.local.decoding import StaticBatcher
from mbbq_gen.providers.local.files import load_files, smollm2_source
from mbbq_gen.providers.local.model import LocalModel
from mbbq_gen.providers.local.options import DevicePlan

logging.getLogger("lm_eval").setLevel(logging.ERROR)


CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "processor": time.process_time}
"""What benches may measure: processor time too, since other work on the machine changes that least."""


def find_lm_eval(venvs: Path | None = None) -> bool:
    """Whether lm-eval can be imported: installed here, or in its own environment as bench_api_peers.py makes it.

    Its folder comes last, so that torch and transformers are the same ones for all that is compared.
    """
    root = venvs or cache_directory() / "bench-peers"
    sys.path += [str(folder) for folder in root.glob("lm-eval/lib/python3*/site-packages")]
    try:
        importlib.import_module("lm_eval.models.huggingface")
    except ImportError as error:
        print(f"lm-eval is left out ({error}); pip install 'lm-eval[hf]'", file=sys.stderr)
        return False
    return True


def wrap(model: Any, tokenizer: Any, batch_size: int) -> Any:
    """lm-eval's hf backend around a loaded model."""
    backend = importlib.import_module("lm_eval.models.huggingface").HFLM
    return backend(pretrained=model, tokenizer=tokenizer, backend="causal", batch_size=batch_size)


@cache
def library_network(device: DevicePlan) -> Any:
    """The small real chat model as transformers loads it, its layers not packed: what others are measured with."""
    network = load_files(smollm2_source(cache_directory()), device, trust_remote_code=False)[1]
    network.generation_config = GenerationConfig()
    return network


def network_of(model: LocalModel) -> Any:
    """The model of transformers that a loaded local model has, its layers packed where they can be."""
    assert isinstance(model.static, StaticBatcher)
    return model.static._model


def requests(kind: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Requests as its tasks make them; `kind` is loglikelihood or generate_until."""
    made = importlib.import_module("lm_eval.api.instance").Instance
    return [made(request_type=kind, doc={}, arguments=line, idx=number) for number, line in enumerate(arguments)]
