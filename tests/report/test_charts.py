from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest

from mbbq_gen.analysis.scores import score
from mbbq_gen.core.files import PackPaths
from mbbq_gen.report.charts import CHARTS, Chart, ChartCollection, make_charts, write_figures
from mbbq_gen.report.charts.vega import svg
from mbbq_gen.runs.observations import LoadOptions, load_observations
from mbbq_gen.statistics.estimate import InferenceSettings
from tests.support.report import oracle_run

pytest.importorskip("vl_convert")

FEW = InferenceSettings(n_resamples=100)
HOSTILE = "</text><script>alert(1)</script> $\\frac{x}$ \u202e=1+1 模型 \x00 " + "long-" * 30


@pytest.fixture(scope="module")
def frame(tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    """Answers of two oracles to starter questions, two languages, two wordings, both splits."""
    folder, more = tmp_path_factory.mktemp("runs"), ("--splits", "bias,control", "--sample", 96)
    runs = [oracle_run(folder / name, name, *more) for name in ("stereotyped", "random")]
    return load_observations(runs, LoadOptions(PackPaths()))


@pytest.fixture(scope="module")
def charts(frame: pl.DataFrame) -> ChartCollection:
    return make_charts(frame, FEW)


def chart_of(charts: ChartCollection, name: str) -> Chart:
    return next(chart for chart in charts.charts if chart.name == name)


def rows_of(chart: Chart) -> list[dict[str, object]]:
    names = [column.name for column in chart.table.columns]
    return [dict(zip(names, row, strict=True)) for row in chart.table.rows]


def test_every_chart_is_made_or_its_absence_explained(charts: ChartCollection) -> None:
    made, left_out = [chart.name for chart in charts.charts], charts.left_out
    assert sorted([*made, *left_out]) == sorted(CHARTS)
    assert left_out == {
        "spread_label_style": "needs answers to two or more values of label style",
        "spread_reasoning_effort": "needs answers to two or more values of reasoning effort",
        "effects_of_axes": "shows one model; make it for each run separately",
    }
    for chart in charts.charts:
        assert chart.title
        assert chart.caption.endswith(".")
        assert chart.alt.endswith(".")
        assert chart.command.startswith("mbbq-gen ")
        assert chart.table.rows


def test_a_run_of_control_questions_has_the_charts_of_these(frame: pl.DataFrame) -> None:
    found = make_charts(frame.filter(pl.col("split") == "control"), FEW)
    assert [chart.name for chart in found.charts] == ["outcomes_by_language"]
    assert "position_preference" in found.left_out


def test_numbers_are_the_scores(frame: pl.DataFrame, charts: ChartCollection) -> None:
    rows = rows_of(chart_of(charts, "scores_by_language"))
    bias = frame.filter(pl.col("split") == "bias")
    table = score(
        bias, ["model", "language"], ["mbbq_bias_ambiguous", "accuracy_disambiguated"], InferenceSettings(0.95, 100)
    )
    assert len(rows) == len(table.groups) == 4
    for group in table.groups:
        row = next(row for row in rows if (row["model"], row["language"]) == tuple(group.group.values()))
        for name, found in group.metrics.items():
            assert (row[name], row[f"{name}_low"], row[f"{name}_high"]) == (found.value, found.ci_low, found.ci_high)
        assert row["n_answers"] == group.n_answers


def test_the_stereotyped_oracle_is_seen_as_such(charts: ChartCollection) -> None:
    for row in rows_of(chart_of(charts, "bias_by_category")):
        if row["model"] == "oracle:stereotyped":
            assert row["mbbq_bias_ambiguous"] == 1
            assert row["diff_bias_disambiguated"] == 1
    cells = chart_of(charts, "bias_by_category").spec["data"]["values"]
    assert {cell["text"].rstrip("*") for cell in cells if cell["model"] == "oracle:stereotyped"} == {"+1.00"}
    assert "oracle:stereotyped, en +1.00" in chart_of(charts, "scores_by_language").alt


def picture(chart: Chart) -> str:
    return svg(chart.spec, chart.name, chart.title, chart.alt)


def test_svg_passes_a_strict_policy(charts: ChartCollection) -> None:
    ids: set[str] = set()
    for chart in charts.charts:
        text = picture(chart)
        root = ElementTree.fromstring(text)
        elements = list(root.iter())
        tags = {element.tag.rpartition("}")[2] for element in elements}
        assert tags <= {
            "svg",
            "title",
            "desc",
            "g",
            "path",
            "line",
            "text",
            "rect",
            "defs",
            "linearGradient",
            "stop",
            "a",
        }
        assert not any("style" in element.attrib for element in elements)
        assert "url(http" not in text
        own = [element.attrib["id"] for element in elements if "id" in element.attrib]
        assert len(own) == len(set(own))
        assert not ids & set(own)
        ids |= set(own)
        assert root.find("{*}title") is not None
        assert root.findtext("{*}desc") == chart.alt
        assert "#000000" not in text
        assert "vega" not in text
        assert all(element.attrib.get("href", "#browse?").startswith("#browse?") for element in elements)


def test_files(charts: ChartCollection, tmp_path: Path) -> None:
    small = ChartCollection((chart_of(charts, "bias_by_category"),), charts.left_out)
    written = write_figures(small, tmp_path / "new" / "folder")
    kinds = [path.name.removeprefix("bias_by_category.") for path in written]
    assert kinds == ["svg", "png", "pdf", "vl.json", "csv", "tex"]
    contents = {kind: path.read_bytes() for kind, path in zip(kinds, written, strict=True)}
    assert contents["png"].startswith(b"\x89PNG")
    assert contents["pdf"].startswith(b"%PDF")
    for kind in ("svg", "vl.json"):
        assert b"href" not in contents[kind]
        assert b"currentColor" not in contents[kind]


def test_hostile_names_are_drawn_and_do_nothing(frame: pl.DataFrame, tmp_path: Path) -> None:
    name = pl.when(pl.col("model").cast(pl.String) == "oracle:random").then(pl.lit(HOSTILE)).otherwise(pl.lit("m"))
    names = ["scores_by_language", "bias_by_category", "position_preference"]
    found = make_charts(frame.with_columns(model=name), FEW, names)
    assert len(found.charts) == len(names)
    for chart in found.charts:
        text = picture(chart)
        assert "<script" not in text
        assert "\u202e" not in text
        ElementTree.fromstring(text)
    write_figures(found, tmp_path)
    table = (tmp_path / "scores_by_language.tex").read_text(encoding="utf-8")
    assert "\\textbackslash{}frac\\{x\\}" in table
    assert "\\$" in table
