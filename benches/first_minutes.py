"""The terminal of a newcomer's first minutes, as text with times: what docs/first-minutes.md shows.

    python benches/first_minutes.py > docs/first-minutes.md

Makes a virtual environment in a temporary folder, installs this checkout into it, and types the commands below in a
pseudo-terminal of 100 columns, with an empty home and no key set. What a terminal would show at the end is kept:
bars that were drawn over are not. The made-up models are asked, so that neither a network nor a key is needed after
the install.
"""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COLUMNS = 100
COMMANDS = (
    "mbbq-gen",
    "mbbq-gen doctor",
    "mbbq-gen init --model made-up:able-stereotyped,made-up:unable --benchmark starter --languages en,nl --sample 96",
    "mbbq-gen run study.toml",
    "mbbq-gen explain study/made-up-unable--starter",
    "mbbq-gen report study.toml -o report.html",
    "mbbq-gen leaderboard study.toml -o board.html",
)
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|[=>78])")
_MOST_LINES = 45


def main() -> None:
    checkout = Path(__file__).resolve().parent.parent
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(_HEAD)
        began = time.monotonic()
        install(folder, checkout, began)
        for command in COMMANDS:
            show(command, typed(command, folder), began, folder)
        print(f"Written in {time.monotonic() - began:.0f} seconds: " + ", ".join(files(folder)) + ".")


_HEAD = """# The first minutes

The terminal of somebody who installs the package on a machine that has only Python, as it came: made by
`python benches/first_minutes.py`, which says how. Before each command stands the time since the start, in minutes and
seconds, on two cores that ten times as much other work shared: what counts is the processor's time. The models are made
up by this project, so that no key and no download is needed; for a real one put its name in the third command.
"""


def install(folder: Path, checkout: Path, began: float) -> None:
    """A virtual environment with this checkout; its own lines are not shown."""
    print("```text\n[0:00] $ python -m venv .venv && .venv/bin/pip install 'mbbq-gen[report]'\n```\n")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    pip = [
        str(folder / "venv" / "bin" / "pip"),
        "install",
        "--quiet",
        "--disable-pip-version-check",
        f"{checkout}[report]",
    ]
    subprocess.run(pip, check=True)


def typed(command: str, folder: Path) -> tuple[str, float, float]:
    """What a terminal shows of a command, and its seconds by the clock and on the processor."""
    work = folder / "work"
    work.mkdir(exist_ok=True)
    (folder / "home").mkdir(exist_ok=True)
    path = f"{folder / 'venv' / 'bin'}:/usr/bin:/bin"
    env = {"PATH": path, "HOME": str(folder / "home"), "TERM": "xterm", "COLUMNS": str(COLUMNS), "LANG": "C.UTF-8"}
    ours, theirs = pty.openpty()
    before, started = os.times(), time.monotonic()
    process = subprocess.Popen(
        ["/bin/sh", "-c", command], cwd=work, env=env, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        said += part
    process.wait()
    os.close(ours)
    after = os.times()
    worked = after.children_user + after.children_system - before.children_user - before.children_system
    return said.decode(errors="replace"), time.monotonic() - started, worked


def show(command: str, found: tuple[str, float, float], began: float, folder: Path) -> None:
    """Prints a command with its time, its output as it stands at the end, and how long it took."""
    text, took, worked = found
    at = max(0, round(time.monotonic() - began - took))
    lines = [
        seen(line).replace(str(folder / "work"), "~").replace(str(folder), "~").rstrip()
        for line in text.replace("\r\n", "\n").split("\n")
    ]
    while lines and not lines[-1]:
        lines.pop()
    if len(lines) > _MOST_LINES:
        lines[_MOST_LINES - 5 :] = [f"… {len(lines) - _MOST_LINES + 5} lines more"]
    shown = "\n".join(lines)
    print(f"```text\n[{at // 60}:{at % 60:02}] $ {command}\n{shown}\n```\n")
    print(f"{took:.1f} s by the clock, {worked:.1f} s of processor.\n", flush=True)


def seen(line: str) -> str:
    """What is left of a line after what was drawn over, and without colours."""
    parts = [_ESCAPES.sub("", part) for part in line.split("\r")]
    return next((part for part in reversed(parts) if part.strip()), "")


def files(folder: Path) -> list[str]:
    """What the newcomer has in the end."""
    return sorted(f"`{path.name}`" for path in (folder / "work").iterdir())


if __name__ == "__main__":
    if shutil.which("sh") is None:
        raise SystemExit("needs a POSIX shell")
    main()
