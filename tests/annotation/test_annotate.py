from __future__ import annotations

import csv
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbbq_gen.annotation.review import (
    SamplingDesign,
    annotate_response,
    annotation_report,
    append_records,
    draw_sample,
    load_annotations,
)
from mbbq_gen.core.errors import DataError
from mbbq_gen.core.text import spreadsheet_safe
from mbbq_gen.report.sheets import SheetEntry, csv_sheet
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.statistics.intervals import wilson
from mbbq_gen.storage.queries import ExtractionRow, find_completed, iter_extractions, stored_extractions
from tests.support.cases import cases
from tests.support.extraction import Capture, call, listed, stderr_of, succeed


@pytest.fixture(scope="module")
def entries(scripted_run: Path) -> list[SheetEntry]:
    with RunFolder(scripted_run).open_store(read_only=True) as store:
        versions = {language: next(iter(store.extractors(language))) for language in store.languages()}
        drawn = draw_sample(iter_extractions(store, versions), SamplingDesign(sample=500)).drawn
        return [
            SheetEntry(reading, answered, stored_extractions(store, reading.prompt_id)[reading.extractor])
            for reading in drawn
            if (answered := find_completed(store, reading.prompt_id)) is not None
        ]


def reading(number: int, language: str = "en", option: int | None = 0, rule: str = "cue", **more: Any) -> ExtractionRow:
    fields = {
        "prompt_id": f"{number:06d}",
        "instance_key": "k",
        "language": language,
        "split": "bias",
        "category": "age",
        "variant": "bare",
        "label_style": "A",
        "outcome": "unparsed" if option is None else "option",
        "option": option,
        "confidence": "high",
        "rule": rule,
        "extractor": "1+x",
    }
    return ExtractionRow(**{**fields, **more})


POPULATION = st.lists(
    st.tuples(st.sampled_from(["en", "tr", "nl"]), st.sampled_from([None, 0, 1]), st.sampled_from("abcdefgh")),
    min_size=1,
    max_size=120,
)


@given(rows=POPULATION, size=st.integers(1, 150), seed=st.integers(0, 5))
def test_a_sample_is_of_the_size_asked_and_of_every_stratum(
    rows: list[tuple[str, int | None, str]], size: int, seed: int
) -> None:
    population = [reading(n, language, option, rule) for n, (language, option, rule) in enumerate(rows)]
    sample = draw_sample(population, SamplingDesign(sample=size, seed=seed))
    ids = [one.prompt_id for one in sample.drawn]
    assert len(ids) == len(set(ids)) == min(size, len(rows))
    assert sorted(one for members in sample.strata.values() for one in members) == sorted(population)
    assert len(sample.strata) <= max(1, size // 2)
    drawn = Counter(name for name, members in sample.strata.items() for one in members if one.prompt_id in set(ids))
    assert set(drawn) == set(sample.strata)
    assert sample.drawn == draw_sample(list(reversed(population)), SamplingDesign(sample=size, seed=seed)).drawn


def test_verdicts_are_kept_and_the_last_counts(tmp_path: Path) -> None:
    path = tmp_path / "annotations.jsonl"
    assert load_annotations(path) == {}
    first = annotate_response(reading(1), right=0)
    second = annotate_response(reading(1), right=None, note="neither")
    append_records(path, [first])
    append_records(path, [second, annotate_response(reading(2), right=None)])
    found = load_annotations(path)
    assert found["000001"] == second
    assert [found[name].agrees for name in sorted(found)] == [False, False]
    assert len(path.read_text().splitlines()) == 3


def test_a_verdict_cut_off_by_a_crash_costs_itself_alone(tmp_path: Path) -> None:
    path = tmp_path / "annotations.jsonl"
    append_records(path, [annotate_response(reading(1), right=0)])
    with path.open("a") as stream:
        stream.write('{"prompt_id": "0000')
    assert set(load_annotations(path)) == {"000001"}
    append_records(path, [annotate_response(reading(2), right=0)])
    with pytest.raises(DataError, match=r"annotations\.jsonl:2: "):
        load_annotations(path)


def test_rates_weigh_strata_as_the_run_holds_them() -> None:
    """90 readings by one rule, of which 2 of 2 judged are right; 10 by another, of which 1 of 2 is."""
    population = [reading(n, rule="often") for n in range(90)] + [reading(n, rule="seldom") for n in range(90, 100)]
    sample = draw_sample(population, SamplingDesign(sample=100, by=("rule",)))
    verdicts = {
        f"{n:06d}": annotate_response(reading(n), right=right) for n, right in ((0, 0), (1, 0), (90, 0), (91, 2))
    }
    report = annotation_report(sample, verdicts, {"en": "1+x"}, ("rule",))
    overall = report.overall
    assert overall.judged.value == 3 / 4
    assert overall.weighted.value == pytest.approx(0.9 * 1 + 0.1 * 0.5)
    effective = (2 * 45 + 2 * 5) ** 2 / (2 * 45**2 + 2 * 5**2)
    assert overall.weighted.effective_n == pytest.approx(effective)
    assert (overall.weighted.ci_low, overall.weighted.ci_high) == pytest.approx(wilson(0.95, effective))
    assert report.coverage == 1
    assert report.mistakes == {"wrong_option": 1, "spurious": 0, "missed": 0}
    (wrong,) = report.disagreements
    assert (wrong.prompt_id, wrong.option, wrong.right) == ("000091", 0, 2)


def test_kinds_of_mistakes() -> None:
    population = [reading(0), reading(1), reading(2, option=None), reading(3)]
    verdicts = [
        annotate_response(population[0], right=1),
        annotate_response(population[1], right=None),
        annotate_response(population[2], right=2),
        annotate_response(population[3], right=0),
    ]
    sample = draw_sample(population, SamplingDesign())
    report = annotation_report(sample, {one.prompt_id: one for one in verdicts}, {"en": "1+x"}, ())
    assert set(report.mistakes.values()) == {1}
    assert report.overall.judged.n == 4


def test_a_sheet_holds_every_answer_and_no_formula(entries: list[SheetEntry]) -> None:
    rows = list(csv.DictReader(io.StringIO(csv_sheet(entries, {}), newline="")))
    assert [row["id"] for row in rows] == [entry.stored.prompt_id for entry in entries]
    assert any(row["response"].startswith("'=HYPERLINK") for row in rows)
    assert any(row["response"].startswith("'@SUM") for row in rows)
    for row, entry in zip(rows, entries, strict=True):
        assert not any((cell or "").startswith(("=", "+", "-", "@", "\x1b")) for cell in row.values())
        read = entry.stored.option
        assert row["read_as"] == ("0" if read is None else str(read + 1))
        assert row[f"option_{(read or 0) + 1}"].endswith(entry.question.options[read or 0])
        assert row["verdict"] == row["right"] == ""


def filled(text: str, delimiter: str = ",", **verdicts: tuple[str, str]) -> bytes:
    rows = list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline="")))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, rows[0], delimiter=delimiter)
    writer.writeheader()
    for row in rows:
        row["verdict"], row["right"] = verdicts.get(row["id"], ("", ""))
        writer.writerow(row)
    return stream.getvalue().encode("utf-8-sig")


def test_verdicts_there_and_back(capsys: Capture, run: Path, tmp_path: Path) -> None:
    sheet, back = tmp_path / "sheet.csv", tmp_path / "filled.csv"
    code, out, err = call(capsys, "annotate", run, "--sample-size", 30, "--seed", 3, "--csv", sheet)
    assert (code, out) == (0, "")
    assert f"mbbq-gen annotate {run} --import {sheet}" in err
    rows = list(csv.DictReader(io.StringIO(sheet.read_text("utf-8-sig"), newline="")))
    assert len(rows) == 30
    person = next(row for row in rows if row["read_as"] != "0")
    missed = next(row for row in rows if row["read_as"] == "0")
    given_back = {row["id"]: ("agree", "") for row in rows[:20]}
    given_back |= {person["id"]: ("disagree", "0"), missed["id"]: ("disagree", "B")}
    back.write_bytes(filled(sheet.read_text("utf-8-sig"), ";", **given_back))
    code, out, err = call(capsys, "annotate", run, "--import", back, "--json")
    assert code == 0, err
    report = json.loads(out)
    judged = len(given_back)
    assert report["overall"]["judged"]["n"] == judged
    assert report["overall"]["judged"]["value"] == (judged - 2) / judged
    assert report["mistakes"]["spurious"] == report["mistakes"]["missed"] == 1
    assert str(back) in err
    again = call(capsys, "annotate", run, "--import", back, "--json")
    assert json.loads(again[1]) == report
    assert "0 of them new" in again[2]
    assert len((run / "annotations.jsonl").read_text().splitlines()) == judged
    assert missed["id"] in succeed(capsys, "annotate", run)
    # A sheet that is written again has the verdicts filled in.
    call(capsys, "annotate", run, "--csv", sheet)
    rows = list(csv.DictReader(io.StringIO(sheet.read_text("utf-8-sig"), newline="")))
    assert Counter(row["verdict"] for row in rows) == {"agree": judged - 2, "disagree": 2, "": 30 - judged}


@pytest.mark.parametrize(("heading", "row", "words"), cases("annotation/annotate", "a_wrong_sheet_is_one_line"))
def test_a_wrong_sheet_is_one_line(capsys: Capture, run: Path, heading: str, row: str, words: str) -> None:
    one = next(found for found in listed(capsys, run) if found["option"] == 0)
    path = run.parent / "sheet.csv"
    path.write_text(f"{heading}\n{row.replace('ID', one['prompt_id']).replace('WRONG', '2')}\n")
    err = stderr_of(capsys, "annotate", run, "--import", path)
    assert words in err
    assert str(path) in err
    assert err.count("\n") == 1
    assert not (run / "annotations.jsonl").exists()


@pytest.mark.parametrize(
    ("holding", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_is_as_published(holding: int, n: int, low: float, high: float) -> None:
    """The four examples of Newcombe (1998), table I, method 3."""
    assert wilson(holding / n, n) == pytest.approx((low, high), abs=5e-5)


@given(st.text(max_size=60))
def test_no_cell_is_a_formula(text: str) -> None:
    shown = spreadsheet_safe(text)
    assert not shown.lstrip().startswith(("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠"))
    assert "\x00" not in shown
