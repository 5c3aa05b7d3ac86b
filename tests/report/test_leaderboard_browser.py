"""The leaderboard's page in a real browser: keyboard, phone, links, downloads, axe, and no complaint.

Needs what `test_report_browser` needs, and is skipped where that is.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mbbq_gen.cli.main import run_command_line
from tests.support.report import oracle_run

pytest.importorskip("selenium", reason="needs selenium (extra `dev`)")

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.report.test_browser import browser, check_downloads, check_links, check_print, complaints, violations, window

__all__ = ["browser"]  # a fixture: pytest finds it here by its name


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of two oracles asked alike and one that was asked otherwise."""
    folder = tmp_path_factory.mktemp("board")
    runs = [oracle_run(folder / oracle, oracle) for oracle in ("verbose_perfect", "stereotyped")]
    runs.append(oracle_run(folder / "random", "random", "--seed", "1"))
    page = folder / "board.html"
    assert run_command_line(["leaderboard", *map(str, runs), "-o", str(page), "--n-resamples", "100"]) == 0
    return page


def models(page: webdriver.Chrome) -> list[str]:
    rows = page.find_elements(By.CSS_SELECTOR, "table.board tbody th")
    return [row.text for row in rows if row.text != "oracle:random"]


def test_the_board_sorts_by_keyboard(browser: webdriver.Chrome, board: Path) -> None:
    browser.get(board.as_uri())
    before = models(browser)
    heading = next(
        cell
        for cell in browser.find_elements(By.CSS_SELECTOR, "table.board thead th")
        if cell.text.startswith("accuracy, ambiguous")
    )
    button = heading.find_element(By.TAG_NAME, "button")
    button.send_keys(Keys.ENTER)
    half = len(before) // 2
    assert heading.get_attribute("aria-sort") == "ascending"
    assert models(browser) == ["oracle:stereotyped"] * half + ["oracle:verbose_perfect"] * half
    button.send_keys(Keys.SPACE)
    assert heading.get_attribute("aria-sort") == "descending"
    assert models(browser) == ["oracle:verbose_perfect"] * half + ["oracle:stereotyped"] * half
    status = browser.find_element(By.ID, "sorted").get_attribute("textContent")
    assert status == "Sorted by accuracy, ambiguous, descending"
    assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    assert complaints(browser) == []


@pytest.mark.parametrize("width", [1280, 390])
def test_the_answer_is_above_the_fold(browser: webdriver.Chrome, board: Path, width: int) -> None:
    """The sentence is seen without scrolling; on a wide screen the whole picture too, on a phone its beginning."""
    with window(browser, width):
        browser.get(board.as_uri())
        sentence = browser.find_element(By.CLASS_NAME, "conclusion")
        assert {"oracle:stereotyped", "oracle:verbose_perfect"} <= set(re.findall(r"oracle:\w+", sentence.text))
        place = browser.find_element(By.CSS_SELECTOR, "svg.picture").rect
        assert place["y"] + (place["height"] if width > 500 else 60) < 844
        over = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert browser.execute_script(over) == 0


def test_every_link_leads_to_what_is_seen(browser: webdriver.Chrome, board: Path) -> None:
    check_links(browser, board.as_uri())


def test_a_board_fits_on_paper(browser: webdriver.Chrome, board: Path) -> None:
    check_print(browser, board.as_uri())


def test_drawings_are_downloaded(browser: webdriver.Chrome, board: Path, tmp_path: Path) -> None:
    browser.get(board.as_uri())
    check_downloads(browser, tmp_path, "picture-1")
    check_downloads(browser, tmp_path, "panel-1-mbbq_bias_ambiguous")
    assert complaints(browser) == []


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(browser: webdriver.Chrome, board: Path, theme: str) -> None:
    assert violations(browser, board.as_uri(), theme) == []
