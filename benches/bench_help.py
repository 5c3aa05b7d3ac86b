"""How long `--help` takes: processor seconds of a whole process, the best of some, since other work only slows it down.

python benches/bench_help.py [--repeats 10]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from fake_api import table

COMMANDS = (["--help"], ["run", "--help"], ["data", "show", "--help"])


def seconds(command: list[str]) -> float:
    """Processor seconds of a command."""
    with subprocess.Popen([sys.executable, "-m", "mbbq_gen", *command], stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if status:
        sys.exit(f"{command} failed")
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=10)
    given = parser.parse_args()
    rows = []
    for command in COMMANDS:
        best = min(seconds(command) for _ in range(given.repeats))
        rows.append((f"`mbbq-gen {' '.join(command)}`", f"{best:.2f} s"))
    print(table(("command", "processor time, at best"), rows))


if __name__ == "__main__":
    main()
