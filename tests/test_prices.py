"""Prices: what is in the table, which entry holds for whom, and what answers cost."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbbq_gen.errors import DataError, UsageError
from mbbq_gen.providers.prices import OFFICIAL_HOSTS, Price, PriceTable, cost_of, price_of, read_prices
from mbbq_gen.records import Usage

OWN = """
[[price]]
kind = "openai"
models = ["gpt-4o-mini", "mine"]
input = 1.0
output = 2.0
date = 2026-01-01
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "prices.toml"
    path.write_text(OWN, encoding="utf-8")
    return path


def test_every_shipped_price_says_where_and_when_it_was_read() -> None:
    prices = read_prices().prices
    assert {price.kind for price in prices} >= {"openai", "anthropic", "gemini"}
    for price in prices:
        assert price.source is not None
        assert price.source.startswith("https://")
        assert datetime.date(2025, 1, 1) <= price.date <= datetime.date(2030, 1, 1)
        assert price.hosts, "a shipped price holds at its own service only"
        assert price.output >= price.input > 0
        assert price.cached_input is None or price.cached_input < price.input
        if price.batch_input is not None:
            assert price.batch_output is not None
            assert price.batch_input == pytest.approx(price.input / 2)
            assert price.batch_output == pytest.approx(price.output / 2)


def test_no_model_has_two_prices_at_one_service() -> None:
    named = [
        (price.kind, host, model) for price in read_prices().prices for host in price.hosts for model in price.models
    ]
    assert len(named) == len(set(named))


@pytest.mark.parametrize(
    ("kind", "model", "base_url", "expected"),
    [
        ("openai", "gpt-4o-mini", None, 0.15),
        ("openai", "gpt-4o-mini-2024-07-18", None, 0.15),
        ("openai", "gpt-4o-2024-05-13", None, 5.0),  # a version that costs something else
        ("openai", "gpt-4o-2024-08-06", "https://api.openai.com/v1", 2.5),
        ("anthropic", "claude-3-haiku-20240307", None, 0.25),
        ("anthropic", "claude-3-5-haiku-latest", None, 0.8),
        ("gemini", "gemini-2.0-flash-001", None, 0.1),
        ("openai", "gpt-4o-mini", "http://127.0.0.1:8000/v1", None),  # the same name on another server
        ("openai", "gpt-4o-mini-audio-preview", None, None),  # another model, not a version
        ("openai", "no-such-model", None, None),
        ("http", "gpt-4o-mini", None, None),
        ("transformers", "gpt-4o-mini", None, None),
    ],
)
def test_a_price_holds_for_a_kind_a_model_and_its_versions(
    kind: str, model: str, base_url: str | None, expected: float | None
) -> None:
    found = price_of(kind, model, base_url=base_url)
    assert (None if found is None else found.input) == expected


def test_own_prices_come_first_and_hold_anywhere(own: Path) -> None:
    table = read_prices(own)
    for address in (None, "https://api.openai.com/v1", "http://127.0.0.1:8000/v1"):
        found = price_of("openai", "gpt-4o-mini", table, base_url=address)
        assert found is not None
        assert found.input == 1.0
    assert price_of("openai", "gpt-4o", table) == price_of("openai", "gpt-4o")


def test_the_official_hosts_are_those_of_the_table() -> None:
    hosts = {host for price in read_prices().prices for host in price.hosts}
    assert set(OFFICIAL_HOSTS.values()) <= hosts


PRICE = Price(
    kind="openai",
    models=("m",),
    input=2.0,
    output=8.0,
    cached_input=0.5,
    batch_input=1.0,
    batch_output=4.0,
    date=datetime.date(2026, 1, 1),
)


def test_what_answers_cost() -> None:
    usage = Usage(input_tokens=1_000_000, output_tokens=500_000)
    assert cost_of(usage, PRICE) == pytest.approx(2.0 + 4.0)
    assert cost_of(usage, PRICE, batch=True) == pytest.approx(1.0 + 2.0)
    cached = Usage(input_tokens=1_000_000, output_tokens=0, cached_input_tokens=400_000)
    assert cost_of(cached, PRICE) == pytest.approx(0.6 * 2.0 + 0.4 * 0.5)
    assert cost_of(cached, PRICE.model_copy(update={"cached_input": None})) == pytest.approx(2.0)
    assert cost_of(cached, PRICE, batch=True) == pytest.approx(1.0)


def test_what_is_not_known_has_no_cost() -> None:
    assert cost_of(Usage(), PRICE) is None
    assert cost_of(Usage(input_tokens=1), PRICE) is None
    no_batch = PRICE.model_copy(update={"batch_output": None})
    assert cost_of(Usage(input_tokens=1, output_tokens=1), no_batch, batch=True) is None
    assert not no_batch.has_batch


TOKENS = st.integers(min_value=0, max_value=10**9)


@given(TOKENS, TOKENS, TOKENS, TOKENS, st.booleans())
def test_costs_add_up_and_batches_are_never_dearer(a: int, b: int, c: int, d: int, batch: bool) -> None:
    def cost(read: int, written: int, *, batch: bool = batch) -> float:
        found = cost_of(Usage(input_tokens=read, output_tokens=written), PRICE, batch)
        assert found is not None
        return found

    assert cost(a, b) + cost(c, d) == pytest.approx(cost(a + c, b + d))
    assert cost(a, b, batch=True) <= cost(a, b, batch=False)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[[price]", "not TOML"),
        (OWN.replace("input = 1.0", "input = -1.0"), "input"),
        (OWN.replace("date = 2026-01-01", ""), "date"),
        (OWN + "inputt = 1.0\n", "inputt: unknown key"),
        (OWN.replace('["gpt-4o-mini", "mine"]', "[]"), "models"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError) as found:
        read_prices(path)
    line = str(found.value)
    assert line.startswith(f"{path}: ")
    assert problem in line
    assert "\n" not in line


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--price-file .*none\.toml: No such file"):
        read_prices(tmp_path / "none.toml")


def test_a_table_is_searched_in_its_order() -> None:
    dear = PRICE.model_copy(update={"input": 9.0})
    assert price_of("openai", "m", PriceTable((dear, PRICE))) == dear


@pytest.mark.parametrize(
    ("model", "url", "same_as", "has_batch"),
    [
        ("openai/gpt-4o-mini", "https://openrouter.ai/api/v1", ("openai", "gpt-4o-mini"), False),
        ("anthropic/claude-3.5-haiku", "https://openrouter.ai/api/v1", ("anthropic", "claude-3-5-haiku"), False),
        ("google/gemini-2.5-flash", "https://openrouter.ai/api/v1", ("gemini", "gemini-2.5-flash"), False),
        ("gpt-4o-mini", "https://mine.openai.azure.com/openai/deployments/d", ("openai", "gpt-4o-mini"), True),
        ("gpt-4o-mini-2024-07-18", "https://mine.cognitiveservices.azure.com", ("openai", "gpt-4o-mini"), True),
        ("openai/gpt-4o-mini:free", "https://openrouter.ai/api/v1", None, False),
        ("meta/llama", "https://openrouter.ai/api/v1", None, False),
        ("gpt-4o-mini", "https://openrouter.ai.evil.example/v1", None, False),
        ("my-deployment", "https://mine.openai.azure.com", None, False),
    ],
)
def test_prices_that_are_passed_on(model: str, url: str, same_as: tuple[str, str] | None, has_batch: bool) -> None:
    """OpenRouter and Azure sell at their makers' prices, by the model's name; other offers have no price."""
    found = price_of("openai", model, base_url=url)
    if same_as is None:
        assert found is None
        return
    makers = price_of(*same_as)
    assert makers is not None
    assert found is not None
    assert (found.input, found.output, found.cached_input) == (makers.input, makers.output, makers.cached_input)
    assert found.has_batch is (has_batch and makers.has_batch)
    assert "the maker's price" in str(found.note)
