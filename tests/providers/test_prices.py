from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbbq_gen.core.errors import DataError
from mbbq_gen.core.records import Usage
from mbbq_gen.providers.prices import Price, cost_of, price_of, read_prices
from tests.support.cases import cases, known

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


@pytest.mark.parametrize(("kind", "model", "base_url", "named"), cases("providers/priced_models"))
def test_a_price_holds_for_a_model_and_its_versions_alone(
    kind: str, model: str, base_url: str | None, named: str | None
) -> None:
    found = price_of(kind, model, base_url=base_url)
    assert (None if found is None else found.models) == (named and (named,))
    assert found is None or found.output >= found.input > 0


def test_the_price_is_that_of_short_prompts() -> None:
    found = known(price_of("gemini", "gemini-2.5-pro"))
    assert (found.input, found.output, found.batch_input) == (1.25, 10.0, 0.625)


def test_own_prices_come_first_and_hold_anywhere(own: Path) -> None:
    table = read_prices(own)
    for address in (None, "https://api.openai.com/v1", "http://127.0.0.1:8000/v1"):
        found = known(price_of("openai", "gpt-4o-mini", table, base_url=address))
        assert found.input == 1.0
    assert price_of("openai", "gpt-4o", table) == price_of("openai", "gpt-4o")


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


TOKENS = st.integers(min_value=0, max_value=10**9)


@given(TOKENS, TOKENS, TOKENS, TOKENS, st.booleans())
def test_costs_add_up_and_batches_are_never_dearer(a: int, b: int, c: int, d: int, batch: bool) -> None:
    def cost(read: int, written: int, *, batch: bool = batch) -> float:
        return known(cost_of(Usage(input_tokens=read, output_tokens=written), PRICE, batch))

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


def test_what_is_not_known_has_no_cost() -> None:
    assert cost_of(Usage(), PRICE) is None
    assert cost_of(Usage(input_tokens=1), PRICE) is None
    no_batch = PRICE.model_copy(update={"batch_output": None})
    assert cost_of(Usage(input_tokens=1, output_tokens=1), no_batch, batch=True) is None
    assert no_batch.batch_output is None
