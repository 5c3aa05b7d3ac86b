"""Tables of texts, and what a leaderboard says of models asked with other prompts."""

from __future__ import annotations

from mbbq_gen.report.leaderboard import differences_from_most
from mbbq_gen.report.tables import Table


def test_columns_of_plain_numbers_stand_to_the_right() -> None:
    rows = [("a", 1200, "+0.10 [+0.01, +0.20]", "<0.001", "97 %", None), ("b", 3, None, "0.051", "5%", "$0.0031")]
    found = Table("name", "count", "score", "p", "share", "cost", rows=rows, title="Title")
    assert [column.kind for column in found.columns] == ["text", "number", "text", "number", "number", "number"]
    assert found.texts()[0] == ["a", "1,200", "+0.10 [+0.01, +0.20]", "<0.001", "97 %", "–"]
    assert [column.kind for column in Table("empty").columns] == ["text"]


def test_other_option_orders_are_said_only_where_nothing_else_differs() -> None:
    one = {"prompt variants": "bare", "option orders": "1 (a)"}
    turned = one | {"option orders": "1 (b)"}
    worded = turned | {"prompt variants": "polite"}
    found = differences_from_most({"a": one, "b": one, "c": turned, "d": worded})
    assert found["a"] == found["b"] == []
    assert found["c"] == ["option orders: 1 (b) instead of 1 (a)"]
    assert found["d"] == ["prompt variants: polite instead of bare"]
