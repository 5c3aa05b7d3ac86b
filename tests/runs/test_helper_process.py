from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.cases import known

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux only")
SCRIPT = """
import os
from mbbq_gen.runs.helper_process import HelperProcess
helper = HelperProcess(lambda: None)
helper.start()
print(os.getpid(), helper.call(os.getpid), flush=True)
{then}
"""


def run(then: str) -> list[str]:
    script = SCRIPT.format(then=then)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()


def test_calls_are_done_in_the_other_process() -> None:
    own, other = run("")
    assert own != other


def test_calls_are_done_here_once_the_other_process_is_killed() -> None:
    own, other, after = run("os.kill(helper.call(os.getpid), 9)\nprint(helper.call(os.getpid))")
    assert after == own != other


def test_it_ends_with_the_process_that_is_killed() -> None:
    script = SCRIPT.format(then="import time\ntime.sleep(60)")
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        other = int(known(process.stdout).readline().split()[1])
        process.send_signal(signal.SIGKILL)
    for _ in range(100):
        try:
            os.kill(other, 0)
        except ProcessLookupError:
            return
        if Path(f"/proc/{other}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "Z":
            return  # ended, and not yet collected by init
        time.sleep(0.1)
    os.kill(other, signal.SIGKILL)
    pytest.fail("the helper outlived its process")
