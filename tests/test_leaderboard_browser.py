"""The leaderboard's page in a real browser: it sorts by keyboard, says so, and its policy has nothing to complain of.

Needs what `test_report_browser` needs, and is skipped where that is.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mbbq_gen.cli import run_command_line
from tests.report_support import oracle_run

pytest.importorskip("selenium", reason="needs selenium (extra `dev`)")

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.test_report_browser import browser, complaints

__all__ = ["browser"]  # a fixture: pytest finds it here by its name


def models(page: webdriver.Chrome) -> list[str]:
    return [cell.text for cell in page.find_elements(By.CSS_SELECTOR, "table.board tbody th")]


def test_the_board_sorts_by_keyboard(browser: webdriver.Chrome, tmp_path: Path) -> None:
    runs = [oracle_run(tmp_path / oracle, oracle) for oracle in ("verbose_perfect", "stereotyped")]
    board = tmp_path / "board.html"
    assert run_command_line(["leaderboard", *map(str, runs), "-o", str(board), "--resamples", "100"]) == 0
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
