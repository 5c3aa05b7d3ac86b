from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.runs.estimate import hours_at
from mbbq_gen.runs.run_folder import RunFolder
from tests.support.cases import DATA
from tests.support.extraction import Capture, call, json_of, succeed
from tests.support.prices import write_prices
from tests.support.stores import column

SELECTION = ["--benchmark", "starter", "--languages", "en,tr", "--variants", "bare,letters"]


@pytest.fixture
def price_file(tmp_path: Path) -> Path:
    batch = {"batch_input": 1.5, "batch_output": 2.5}
    return write_prices(tmp_path, "oracle:perfect", 3.0, output=5.0, **batch, note="of our own invention")


def planned(capsys: Capture, *arguments: object) -> dict[str, Any]:
    return dict(json_of(capsys, "estimate", *SELECTION, *arguments, quiet=True))


def test_of_several_benchmarks_each_has_its_own_languages(capsys: Capture) -> None:
    given = ["--benchmark", "kobbq,starter", "--data-dir", DATA / "datasets" / "kobbq", "--languages", "tr"]
    groups = planned(capsys, *given, "--model", "oracle:perfect")["tokens"]["groups"]
    assert {group["language"] for group in groups} == {"tr"}


@pytest.mark.slow
@pytest.mark.parametrize("order", ["balanced", "cyclic"])
@pytest.mark.parametrize("sample", [None, 12])
def test_it_counts_what_a_run_asks(capsys: Capture, tmp_path: Path, order: str, sample: int | None) -> None:
    part = ["--sample", sample] if sample else ["--languages", "en", "--splits", "bias"]
    given = ["--model", "oracle:perfect", "--option-order", order, *part]
    tokens = planned(capsys, *given)["tokens"]
    done = json_of(capsys, "run", tmp_path / "run", *SELECTION, *given)
    assert tokens["prompts"] == done["prompts"]
    assert tokens["requests"] <= done["requests"]  # an oracle is asked for every presentation; a model once for all
    texts = column(tmp_path / "run", "SELECT json_extract(record, '$.messages') FROM prompts")
    assert tokens["requests"] == len(set(texts))
    assert tokens["questions"] == (48 if sample else 864)
    assert sum(group["requests"] for group in tokens["groups"]) == tokens["requests"]


def test_money_is_tokens_times_prices(capsys: Capture, price_file: Path) -> None:
    found = planned(capsys, "--model", "oracle:perfect", "--prices", price_file)
    tokens, cost = found["tokens"], found["cost"]
    assert cost["online"] == pytest.approx((3 * tokens["input_tokens"] + 5 * tokens["output_tokens"]) / 1e6)
    assert cost["batch"] == pytest.approx(cost["online"] / 2)
    assert cost["online_at_most"] is None, "an oracle has no longest answer"
    assert any("of our own invention" in note for note in found["notes"])


def test_an_unknown_price_is_said_and_not_guessed(capsys: Capture) -> None:
    found = planned(capsys, "--model", "oracle:perfect")
    assert found["price"] is found["cost"] is None
    out = succeed(capsys, "estimate", *SELECTION, "--model", "oracle:perfect")
    assert "no price is known for oracle:perfect" in out
    assert "$" not in out


def test_a_known_model_needs_no_key(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    found = planned(capsys, "--model", "openai:gpt-4o-mini", "--rpm", "600")
    assert found["price"]["models"] == ["gpt-4o-mini"]
    assert found["cost"]["batch"] == pytest.approx(found["cost"]["online"] / 2)
    assert found["cost"]["online_at_most"] > found["cost"]["online"]
    assert found["hours"] == pytest.approx(found["tokens"]["requests"] / 600 / 60)


def test_a_pilot_tells_the_length_of_answers(capsys: Capture, tmp_path: Path) -> None:
    pilot = tmp_path / "pilot"
    assert call(capsys, "run", pilot, *SELECTION, "--model", "oracle:random", "--sample", 24, "--json")[0] == 0
    with RunFolder(pilot).open_store() as store:
        store.change(
            (
                "UPDATE responses SET output_tokens = ? WHERE request_key IN"
                " (SELECT request_key FROM prompts WHERE variant = ?)",
                [(7, "bare"), (3, "letters")],
            )
        )
    found = planned(capsys, "--model", "oracle:perfect", "--pilot", pilot)
    groups = found["tokens"]["groups"]
    assert found["tokens"]["outputs"] == "measured"
    expected = {"bare": 7, "letters": 3}
    assert {group["variant"]: group["output_tokens"] / group["requests"] for group in groups} == expected


def test_the_slower_limit_decides() -> None:
    assert hours_at(600, 1000, None, None) is None
    assert hours_at(600, 1000, 10, 1000) == 1.0
    assert hours_at(600, 1_000_000, 600, 1000) == pytest.approx(16.67, abs=0.01)
