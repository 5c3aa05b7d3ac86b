"""How many tokens a text is: estimated, or counted by a tokenizer that is on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbbq_gen.core.errors import UsageError
from mbbq_gen.providers.prices import estimate_tokens, token_counter

MEASURED = {
    # language: text of our own, and its tokens in o200k_base
    "en": ("The grandmother and the student met at the library to return a few books.", 15),
    "es": ("La abuela y el estudiante se encontraron en la biblioteca para devolver unos libros.", 16),
    "nl": ("De grootmoeder en de student troffen elkaar in de bibliotheek om boeken terug te brengen.", 20),
    "tr": ("Büyükanne ile öğrenci birkaç kitabı geri vermek için kütüphanede buluştu.", 24),
}


@pytest.mark.parametrize("language", MEASURED)
def test_the_estimate_is_near_the_tokenizer(language: str) -> None:
    text, tokens = MEASURED[language]
    assert estimate_tokens(text) == pytest.approx(tokens, rel=0.3)


@given(st.text(max_size=200), st.text(max_size=200))
def test_estimates_add_up(one: str, other: str) -> None:
    assert estimate_tokens(one) + estimate_tokens(other) == pytest.approx(estimate_tokens(one + other))
    assert (estimate_tokens(one) > 0) == bool(one)


def test_without_a_tokenizer_it_is_called_an_estimate() -> None:
    counter = token_counter("anthropic", "claude-haiku-4-5")
    assert not counter.exact
    assert "estimated" in counter.name


def write_tokenizer(folder: Path) -> Path:
    """A tokenizer that takes every word for a token."""
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    path = folder / "tokenizer.json"
    made.save(str(path))
    return path


def test_a_tokenizer_file_counts(tmp_path: Path) -> None:
    path = write_tokenizer(tmp_path)
    for given_path in (path, tmp_path):
        counter = token_counter("openai", "any", given_path)
        assert counter.exact
        assert counter.count("four words stand here") == 4
    assert token_counter("transformers", str(tmp_path)).count("two words") == 2


def test_what_is_no_tokenizer_is_one_line(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    wrong = tmp_path / "tokenizer.json"
    wrong.write_text(json.dumps({"not": "one"}), encoding="utf-8")
    with pytest.raises(
        UsageError, match=r"--tokenizer .*tokenizer\.json: no tokenizer\.json that can be read"
    ) as found:
        token_counter("openai", "any", wrong)
    assert "\n" not in str(found.value)
