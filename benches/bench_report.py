"""How large a report's page is, how long it takes to make and to open, and how fast the viewer answers, by items.

    python benches/bench_report.py [--sizes 1000,50000,400000] [--folder DIR]

An oracle that picks at random answers the starter questions in four languages, five variants and all orders, each as
often as needed for so many items; the runs stay in DIR, and those that are there are used again. Then `mbbq-gen
report RUN -o` is timed with its peak of memory, the page is opened in headless Chromium (with selenium, if both are
there) until its items are listed and until a filter has been applied, and the viewer is started and shows a page of
filtered items. Prints a table; "processor" is the time that the processors worked on making the page.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from mbbq_gen.benchmarks.registry import load_benchmark
from mbbq_gen.core.records import Instance

LANGUAGES = ("en", "es", "nl", "tr")
VARIANTS = "bare,letters,polite,single_letter,reasoned"
WAYS = 5 * 6
"""Prompt variants × orders."""
COLUMNS = (
    "items",
    "page, MB",
    "made in, s",
    "processor, s",
    "peak, GB",
    "listed, s",
    "filtered, ms",
    "viewer starts, s",
    "answers, ms",
)


@dataclass(frozen=True)
class Opened:
    """How long a browser took, in seconds."""

    listed: float
    filtered: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1000,50000,400000")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "mbbq-gen-bench-report")
    wanted = parser.parse_args()
    wanted.folder.mkdir(parents=True, exist_ok=True)
    print("| " + " | ".join(COLUMNS) + " |")
    print("|" + "---:|" * len(COLUMNS))
    for size in map(int, wanted.sizes.split(",")):
        print(measure(size, wanted.folder), flush=True)


def measure(size: int, folder: Path) -> str:
    """One line of the table."""
    run, page = folder / f"run-{size}", folder / f"report-{size}.html"
    if not (run / "manifest.json").is_file():
        make_run(run, size)
    began = time.perf_counter()
    used = command("report", run, "-o", page)
    made = time.perf_counter() - began
    opened = open_page(page)
    n_answers, starts, answers = ask_viewer(run)
    seconds = ["–", "–"] if opened is None else [f"{opened.listed:.1f}", f"{opened.filtered * 1000:.0f}"]
    size_mb = page.stat().st_size / 1e6
    worked, peak = used.ru_utime + used.ru_stime, used.ru_maxrss / 1e6
    making = [f"{size_mb:.1f}", f"{made:.0f}", f"{worked:.0f}", f"{peak:.1f}"]
    cells = [f"{n_answers:,}", *making, *seconds, f"{starts:.1f}", f"{answers:.0f}"]
    return "| " + " | ".join(cells) + " |"


def command(*arguments: object) -> resource.struct_rusage:
    """Runs mbbq-gen; says what it used."""
    process = subprocess.Popen([sys.executable, "-m", "mbbq_gen", *map(str, arguments)], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(process.returncode)
    return used


def make_run(run: Path, size: int) -> None:
    """A run with about that many items."""
    questions = run.with_suffix(".jsonl")
    starter = list(load_benchmark("starter", languages=LANGUAGES, splits=["bias", "control"]))
    sample = round(size / WAYS / len(LANGUAGES) / 2)
    copies = -(-sample * len(LANGUAGES) * 2 // len(starter))
    with questions.open("w", encoding="utf-8") as file:
        for number in range(copies):
            file.writelines(f"{numbered(instance, number).model_dump_json()}\n" for instance in starter)
    options = ["--instances", questions, "--languages", ",".join(LANGUAGES), "--sample", sample]
    command("run", run, "--model", "oracle:random", *options, "--variants", VARIANTS, "--option-order", "all")


def numbered(instance: Instance, number: int) -> Instance:
    """A copy that asks in other words, so that it is a question of its own."""
    own = f"{instance.instance_id}-{number}"
    return instance.model_copy(
        update={"instance_id": own, "parallel_id": own, "context": f"{number}. {instance.context}"}
    )


def open_page(page: Path) -> Opened | None:
    """How long the page takes until its items are listed, and a filter until it has been applied; None: no browser."""
    binary, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    try:
        from selenium import webdriver
    except ImportError:
        return None
    if binary is None or driver is None:
        return None
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for option in ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"):
        options.add_argument(option)
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        browser.set_script_timeout(120)
        began = time.perf_counter()
        browser.get(page.as_uri())
        browser.execute_async_script(_LISTED)
        listed = time.perf_counter() - began
        return Opened(listed, float(browser.execute_async_script(_FILTERED)) / 1000)
    finally:
        browser.quit()


_LISTED = """
const done = arguments[0];
(function look() { document.querySelector("#answers li") ? done() : setTimeout(look, 5); })();
"""
_FILTERED = """
const done = arguments[0], before = document.getElementById("count").textContent, began = performance.now();
const box = document.getElementById("f-role");
box.selectedIndex = box.options.length - 1;
box.dispatchEvent(new Event("change", { bubbles: true }));
(function look() {
  document.getElementById("count").textContent !== before || performance.now() - began > 3000
    ? done(performance.now() - began) : setTimeout(look, 1);
})();
"""


def ask_viewer(run: Path) -> tuple[int, float, float]:
    """The run's items, seconds until the viewer is ready, and milliseconds for a filtered page deep in the list."""
    from mbbq_gen.core.files import PackPaths
    from mbbq_gen.report.viewer import ViewServer
    from mbbq_gen.runs.observations import ensure_extracted
    from mbbq_gen.runs.run_folder import RunFolder

    folder, where = RunFolder(run), PackPaths()
    versions = ensure_extracted(folder, where)
    began = time.perf_counter()
    with ViewServer(folder, versions) as server:
        starts = time.perf_counter() - began
        began = time.perf_counter()
        server.page({"language": "en", "flipped": "yes", "page": "11"})
        answers = time.perf_counter() - began
        return server.index.count(), starts, answers * 1000


if __name__ == "__main__":
    main()
