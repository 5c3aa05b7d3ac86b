"""How many tokens a text is: estimated, or counted by a tokenizer that is on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbbq_gen.core.errors import UsageError
from mbbq_gen.providers.prices import estimate_tokens, token_counter


@given(st.text(max_size=200), st.text(max_size=200))
def test_estimates_add_up(one: str, other: str) -> None:
    assert estimate_tokens(one) + estimate_tokens(other) == pytest.approx(estimate_tokens(one + other))
    assert (estimate_tokens(one) > 0) == bool(one)


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
    with pytest.raises(UsageError, match=r"--tokenizer .*tokenizer\.json: no readable tokenizer\.json") as found:
        token_counter("openai", "any", wrong)
    assert "\n" not in str(found.value)
