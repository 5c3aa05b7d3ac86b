from __future__ import annotations

from pathlib import Path

import pytest

from mbbq_gen.core.errors import PackError
from mbbq_gen.core.files import PACK_KINDS, PackPaths
from mbbq_gen.languages.packs import list_languages
from mbbq_gen.languages.prompt_pack import read_prompts
from tests.support.cases import cases


@pytest.fixture
def own(tmp_path: Path, repository: Path) -> Path:
    (tmp_path / "prompts").mkdir()
    text = (repository / "prompts" / "en.toml").read_text(encoding="utf-8")
    (tmp_path / "prompts" / "en.toml").write_text(text, encoding="utf-8")
    return tmp_path


FAULTS = cases("languages/prompt_faults")


@pytest.mark.parametrize(("old", "new", "says"), FAULTS, ids=[new[:30] for _, new, _ in FAULTS])
def test_a_fault_names_file_key_and_value(own: Path, old: str, new: str, says: str) -> None:
    path = own / "prompts" / "en.toml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(PackError, match=says) as raised:
        read_prompts(PackPaths(packs=own), "en")
    assert "\n" not in str(raised.value)


def test_text_that_is_not_utf8_is_refused(own: Path) -> None:
    (own / "prompts" / "en.toml").write_bytes("# ça\n".encode("latin-1"))
    with pytest.raises(PackError, match=r"not UTF-8 at byte 2; save the file as UTF-8"):
        read_prompts(PackPaths(packs=own), "en")


def test_a_new_language_is_three_files_and_no_code(own: Path, repository: Path) -> None:
    for kind in PACK_KINDS:
        (own / kind).mkdir(exist_ok=True)
        text = (repository / kind / "en.toml").read_text(encoding="utf-8")
        (own / kind / "sco.toml").write_text(text.replace('language = "en"', 'language = "sco"', 1), encoding="utf-8")
    found = {status.language: status for status in list_languages(PackPaths(packs=own))}
    assert set(found["sco"].packs) == set(PACK_KINDS)
