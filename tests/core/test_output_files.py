from __future__ import annotations

import csv
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mbbq_gen.core.errors import RunError, UsageError
from mbbq_gen.core.files import CACHE_VARIABLE, output_file, write_text
from tests.support.extraction import Capture, call, copy_run, stderr_of


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path_factory.mktemp("cache")))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_of_ours_is_replaced_and_a_changed_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    for text in ("one\n", "two\n"):
        write_text(path, [text])
    assert path.read_bytes() == b"two\n"
    path.write_text("two, and mine\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"out\.txt"):
        write_text(path, ["three\n"])
    assert path.read_text(encoding="utf-8") == "two, and mine\n"
    assert names(tmp_path) == ["out.txt"]


def test_a_file_that_somebody_else_wrote_is_kept_and_an_empty_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "thesis.txt"
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError):
        write_text(path, ["x"])
    path.write_text("", encoding="utf-8")
    path.chmod(0o640)
    write_text(path, ["x"])
    assert (path.read_text(encoding="utf-8"), path.stat().st_mode & 0o777) == ("x", 0o640)


def test_nothing_is_left_of_a_file_that_failed(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    write_text(path, ["before"])
    with pytest.raises(ZeroDivisionError), output_file(path) as temporary:
        temporary.write_text(f"half {1 // 0}", encoding="utf-8")
    assert (path.read_text(encoding="utf-8"), names(tmp_path)) == ("before", ["out.txt"])


@pytest.mark.parametrize("place", ["/dev/null", "/dev/full", ".", "nothing/out", "out/" + "x" * 300, "fifo"])
def test_places_that_take_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo")
    with pytest.raises(UsageError, match=place[:20]):
        write_text(Path(place), ["x"])
    assert names(tmp_path) == ["fifo"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(UsageError):
        write_text(tmp_path / "locked" / "out", ["x"])


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    path, before = tmp_path / "out", resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(RunError):
            write_text(path, ["x" * 5000])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert names(tmp_path) == []


Command = tuple[str | Path, ...]
WRITERS: dict[str, Callable[[Path, str | Path], Command]] = {
    "report": lambda run, out: ("report", run, "-o", out),
    "leaderboard": lambda run, out: ("leaderboard", run, "-o", out),
    "leaderboard csv": lambda run, out: ("leaderboard", run, "--csv", out),
    "score csv": lambda run, out: ("score", run, "--csv", out),
    "annotate csv": lambda run, out: ("annotate", run, "--csv", out),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_no_command_overwrites_a_file_of_a_run(capsys: Capture, run: Path, writer: str) -> None:
    call(capsys, "score", run)  # what is derived of the run is there before
    before = {path.name: path.read_bytes() for path in run.iterdir() if path.suffix in {".sqlite", ".json"}}
    for name in ("run.sqlite", ("manifest.json", "run.lock")[list(WRITERS).index(writer) % 2]):
        err = stderr_of(capsys, *WRITERS[writer](run, run / name))
        assert err.splitlines()[-1].startswith(f"error: {run / name}:")
    assert {name: (run / name).read_bytes() for name in before} == before


def test_an_annotation_sheet_that_a_person_filled_in_is_kept(capsys: Capture, run: Path, tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.csv"
    for _ in range(2):
        assert call(capsys, "annotate", run, "--csv", sheet)[0] == 0
    rows = list(csv.reader(sheet.read_text("utf-8-sig").splitlines(keepends=True)))
    rows[1][rows[0].index("verdict")] = "agree"
    with sheet.open("w", encoding="utf-8-sig", newline="") as stream:
        csv.writer(stream).writerows(rows)
    filled = sheet.read_bytes()
    assert call(capsys, "annotate", run, "--csv", sheet)[0] == 2
    assert sheet.read_bytes() == filled
    assert call(capsys, "annotate", run, "--import", sheet)[0] == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_output_on_a_full_disk_is_one_line(run: Path, options: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "mbbq_gen", "score", str(run), *options]
    with Path("/dev/full").open("w") as full:
        found = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert found.returncode == 1
    assert found.stderr.splitlines()[-1].startswith(b"error: ")
    assert b"Traceback" not in found.stderr


@pytest.mark.parametrize(
    ("arguments", "codes"),
    [
        (("score", "RUN", "--csv", "DIR/scores.csv"), {0}),
        (("report", "RUN", "-o", "DIR/page.html"), {0}),
        (("status", "RUN", "--json"), {0, 1}),
        (("export", "RUN", "--csv", "DIR/tables"), {0}),
        (("export", "RUN", "--parquet", "DIR/parquet"), {2}),
    ],
)
def test_a_folder_whose_name_is_not_utf8(
    capsys: Capture, scripted_run: Path, tmp_path: Path, arguments: tuple[str, ...], codes: set[int]
) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    folder.mkdir()
    run = copy_run(scripted_run, folder)
    code, out, err = call(capsys, *(a.replace("RUN", str(run)).replace("DIR", str(folder)) for a in arguments))
    assert code in codes, err
    assert (out + err).isascii() or (out + err).encode("utf-8")
