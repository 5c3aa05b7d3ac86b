from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.cli.options import extract_missing
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.text import visible_text
from mbbq_gen.report.viewer import ViewServer
from mbbq_gen.runs.run_folder import RunFolder
from tests.support.report import HOSTILE, hostile_report, oracle_report

pytest.importorskip("selenium", reason="needs selenium (extra `dev`)")
pytest.importorskip("jinja2")
pytest.importorskip("vl_convert")

from urllib.parse import parse_qs

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.remote_connection import RemoteConnection
from selenium.webdriver.support.ui import Select, WebDriverWait

BROWSERS, DRIVER = ("chromium", "chromium-browser", "google-chrome"), "chromedriver"
OPTIONS = """
--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync --disable-background-networking
--disable-component-update --disable-dev-shm-usage --window-size=1280,900
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    binary = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    driver = shutil.which(DRIVER)
    if binary is None or driver is None:
        pytest.skip("needs Chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for option in (*OPTIONS.split(), f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield started
    started.quit()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return oracle_report(tmp_path_factory.getbasetemp()).page


def waiting(browser: webdriver.Chrome) -> WebDriverWait[webdriver.Chrome]:
    return WebDriverWait(browser, 600)


def opened(browser: webdriver.Chrome, address: str) -> None:
    browser.get(address)
    waiting(browser).until(lambda _: said(browser) != "Loading the answers.")


def said(browser: webdriver.Chrome) -> str:
    return browser.find_element(By.ID, "count").text


def choose(browser: webdriver.Chrome, field: str, value: str) -> None:
    before = said(browser)
    Select(browser.find_element(By.NAME, field)).select_by_value(value)
    waiting(browser).until(lambda _: said(browser) != before)


def complaints(browser: webdriver.Chrome) -> list[str]:
    """What the browser's console said: errors of scripts, and whatever the policy stopped."""
    entries: list[dict[str, Any]] = browser.get_log("browser")  # type: ignore[no-untyped-call]
    return [entry["message"] for entry in entries]


def total(browser: webdriver.Chrome) -> int:
    return int(said(browser).removesuffix(" answers").rpartition(" ")[2].replace(",", ""))


def test_the_filters_find_answers_and_an_answer_can_be_read(browser: webdriver.Chrome, page: Path) -> None:
    opened(browser, page.as_uri())
    assert said(browser) == "50 of 100 answers"
    browser.find_element(By.ID, "more").click()
    assert said(browser) == "100 of 100 answers"
    choose(browser, "model", "oracle:stereotyped")
    assert total(browser) == 50
    choose(browser, "language", "tr")
    choose(browser, "role", "target")
    entries = browser.find_elements(By.CSS_SELECTOR, "#answers summary")
    assert entries
    assert all(entry.find_element(By.CLASS_NAME, "tag").text.startswith("target, ") for entry in entries)
    entries[0].click()
    body = browser.find_element(By.CSS_SELECTOR, "#answers details")
    assert "mbbq-gen explain" in body.text
    response = body.find_element(By.TAG_NAME, "pre")
    assert response.get_attribute("lang") == "tr"
    assert response.find_element(By.TAG_NAME, "mark").text
    chosen = body.find_element(By.CSS_SELECTOR, ".options .chosen")
    assert "target" in chosen.text
    assert "chosen" in chosen.text
    browser.find_element(By.CSS_SELECTOR, "#filters a").click()
    waiting(browser).until(lambda _: said(browser) == "50 of 100 answers")
    assert complaints(browser) == []


@contextmanager
def window(browser: webdriver.Chrome, width: int) -> Iterator[None]:
    size = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    yield
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def violations(browser: webdriver.Chrome, address: str, theme: str) -> list[tuple[str, str]]:
    """What axe finds against a page, every fold open, at a phone's width: rules, and the first place of each.

    Of a dark page only its colours: the rest is the same page again.
    """
    axe = pytest.importorskip("axe_core_python", reason="needs axe-core-python (extra `dev`)")
    script = (Path(str(axe.__file__)).parent / "axe.min.js").read_text(encoding="utf-8")
    with window(browser, 390):
        scheme = {"name": "prefers-color-scheme", "value": theme}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        opened(browser, address)
        browser.execute_script("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        browser.set_script_timeout(600)
        assert isinstance(browser.command_executor, RemoteConnection)
        browser.command_executor.client_config.timeout = 600  # the driver's own wait, on a busy machine
        browser.execute_script(script)
        only = {"runOnly": ["color-contrast"]} if theme == "dark" else {}
        run = "const [only, done] = arguments; axe.run(only).then((found) => done(found.violations))"
        found = browser.execute_async_script(run, only)
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    return [(one["id"], one["nodes"][0]["html"]) for one in found]


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(browser: webdriver.Chrome, page: Path, theme: str) -> None:
    assert violations(browser, page.as_uri(), theme) == []


def check_nothing_ran(browser: webdriver.Chrome) -> None:
    """Opens every answer that is listed, and looks whether anything of theirs acted."""
    browser.execute_script("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert browser.find_elements(By.CSS_SELECTOR, "#answers details")
    assert browser.execute_script("return window.stolen") is None
    assert "stolen" not in browser.title.replace("window.stolen", "")
    assert browser.find_elements(By.CSS_SELECTOR, "img, iframe, object, embed, link") == []
    assert complaints(browser) == []


def test_nothing_of_a_hostile_run_runs_in_the_page(
    browser: webdriver.Chrome, tmp_path_factory: pytest.TempPathFactory
) -> None:
    opened(browser, hostile_report(tmp_path_factory.getbasetemp()).page.as_uri())
    check_nothing_ran(browser)
    while (more := browser.find_element(By.ID, "more")).is_displayed():
        more.click()
        check_nothing_ran(browser)
    answers = browser.find_elements(By.CSS_SELECTOR, "#answers pre")
    assert visible_text(HOSTILE["script"]) in {answer.text for answer in answers}


def test_nothing_of_a_hostile_run_runs_in_the_viewer(
    browser: webdriver.Chrome, tmp_path_factory: pytest.TempPathFactory, resources: PackPaths
) -> None:
    folder = RunFolder(hostile_report(tmp_path_factory.getbasetemp()).runs[0])
    with ViewServer(folder, extract_missing(folder, resources)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            opened(browser, server.url)
            check_nothing_ran(browser)
            Select(browser.find_element(By.NAME, "outcome")).select_by_value("option")
            browser.find_element(By.CSS_SELECTOR, "#filters button").click()
            waiting(browser).until(lambda _: "outcome=option" in browser.current_url)
            assert total(browser) == server.index.count({"outcome": "option"})
            check_nothing_ran(browser)
        finally:
            server.shutdown()
            thread.join()


def test_every_link_to_answers_finds_some(browser: webdriver.Chrome, page: Path) -> None:
    """Marks, cells of maps and numbers of tables; what they ask for is what the filters then say."""
    opened(browser, page.as_uri())
    found = browser.find_elements(By.CSS_SELECTOR, "a.to-items:not([aria-hidden])")
    links = {str(one.get_dom_attribute("href")).removeprefix("#browse?") for one in found}
    assert len(links) > 12
    for link in sorted(links):
        browser.execute_script("location.hash = arguments[0]", f"#browse?{link}")
        wanted = {name: values[0] for name, values in parse_qs(link).items() if name != "benchmark"}
        chosen = "return Object.fromEntries(new FormData(document.getElementById('filters')))"
        waiting(browser).until(
            lambda _: wanted.items() <= browser.execute_script(chosen).items()  # noqa: B023 - done at once
        )
        assert said(browser) == "No answers." or total(browser) <= 100
