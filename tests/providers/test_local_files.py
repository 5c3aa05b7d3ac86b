from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra: pip install 'mbbq-gen[local]'")
pytest.importorskip("transformers", reason="needs the extra: pip install 'mbbq-gen[local]'")

from mbbq_gen.core.errors import ProviderError
from mbbq_gen.core.records import Response
from mbbq_gen.providers.local.options import NOT_NUMBERS, TransformersOptions
from mbbq_gen.providers.local.provider import TransformersProvider
from tests.support.providers import answers, make_request, make_tokenizer, save_model
from tests.support.static_provider import StaticProvider

Spoil = Callable[[Path], object]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("models") / "toy")


def ask(model: Path, **options: Any) -> Response:
    chosen = TransformersOptions(**{"device": "cpu", "threads": 1, "max_tokens": 4, **options})
    (response,) = answers(TransformersProvider(str(model), chosen), [make_request()]).values()
    return response


def cut(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def change(**fields: Any) -> Spoil:
    def spoil(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | fields))

    return spoil


def write(name: str, text: str) -> Spoil:
    return lambda folder: (folder / name).write_text(text)


def split(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    index = {"metadata": {}, "weight_map": {"lm_head.weight": "model-00002-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def rewrite_weights(change_them: Callable[[dict[str, Any]], object]) -> Spoil:
    def spoil(folder: Path) -> None:
        from safetensors.torch import load_file, save_file

        weights = load_file(folder / "model.safetensors")
        change_them(weights)
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

    return spoil


def become_encoder(folder: Path) -> None:
    import transformers

    small = {"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    transformers.BertConfig(vocab_size=48, hidden_size=32, **small).save_pretrained(folder)


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:aa\nsize 99\n"
DAMAGES: dict[str, tuple[Spoil, str]] = {
    "cut": (cut, "model.safetensors: damaged, cut off or a pointer of Git LFS ("),
    "garbage": (
        write("model.safetensors", "not a model" * 50),
        "model.safetensors: damaged, cut off or a pointer of Git LFS (",
    ),
    "empty": (write("model.safetensors", ""), "model.safetensors: damaged, cut off or a pointer of Git LFS ("),
    "pointer": (write("model.safetensors", POINTER), "cut off or a pointer of Git LFS ("),
    "part": (split, "model-00002-of-00002.safetensors"),
    "weight": (
        rewrite_weights(lambda weights: weights.pop("model.layers.0.input_layernorm.weight")),
        "transformers:weight: 1 of its weights are in none of its files (model.layers.0.input_layernorm.weight, …)",
    ),
    "encoder": (become_encoder, "or it is no model that writes text"),
    "sizes": (change(intermediate_size=96), "transformers:sizes: its weights are of other sizes than its config.json"),
    "architecture": (
        change(model_type="nosuch"),
        "architecture: its config.json can't be loaded: The checkpoint you are",
    ),
    "vision": (change(model_type="vit"), "vision: its model can't be loaded: Unrecognized configuration class"),
    "json": (write("config.json", '{"model_type": '), "transformers:json: its config.json can't be loaded: "),
    "list": (write("config.json", "[]"), "transformers:list: its config.json can't be loaded: "),
    "field": (change(hidden_size="big"), "can't be loaded: Validation error for field 'hidden_size': TypeError: Field"),
    "tokenizer": (write("tokenizer.json", "{}"), "transformers:tokenizer: its tokenizer can't be loaded: "),
    "no tokenizer": (lambda folder: (folder / "tokenizer.json").unlink(), "its tokenizer can't be loaded: "),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_folder_is_told_in_one_line(damage: str, whole: Path, tmp_path: Path) -> None:
    spoil, message = DAMAGES[damage]
    folder = tmp_path / damage
    shutil.copytree(whole, folder)
    spoil(folder)
    with pytest.raises(ProviderError) as caught:
        ask(folder)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("options", [{}, {"temperature": 1.0}])
def test_a_model_that_gives_no_numbers_ends_the_run(options: dict[str, Any], whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "nan"
    shutil.copytree(whole, folder)
    rewrite_weights(lambda weights: weights["model.norm.weight"].fill_(float("nan")))(folder)
    with pytest.raises(ProviderError, match=re.escape(NOT_NUMBERS)):
        ask(folder, **options)


@pytest.mark.parametrize("kind", [TransformersProvider, StaticProvider])
def test_a_question_without_numbers_ends_the_run(kind: type[TransformersProvider], whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "one"
    shutil.copytree(whole, folder)
    token = make_tokenizer().convert_tokens_to_ids("z")
    rewrite_weights(lambda weights: weights["model.embed_tokens.weight"][token].fill_(float("nan")))(folder)
    options = TransformersOptions(device="cpu", threads=1, max_tokens=1)
    for text in ("who", "whoz"):
        asked = kind(str(folder), options)
        if text == "who":
            assert answers(asked, [make_request(text=text)])
        else:
            with pytest.raises(ProviderError, match=re.escape(NOT_NUMBERS)):
                answers(asked, [make_request(text=text)])
