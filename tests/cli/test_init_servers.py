from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from pathlib import Path

from mbbq_gen.core.files import PackPaths
from mbbq_gen.runs.setup import find_servers
from tests.support.api import answering
from tests.support.servers import SERVERS, serving

CASES = {case.name: case for case in SERVERS}


def port_of(root: str) -> int:
    return int(root.rpartition(":")[2])


def test_servers_on_ports_are_recognised_without_a_question() -> None:
    with (
        serving(CASES["vllm"], lambda _: "A") as first,
        serving(CASES["ollama"], lambda _: "A") as second,
        answering((404, {})) as other,
    ):
        ports = [port_of(root) for root in (first.root, second.root, other)]
        found = find_servers(PackPaths(), [*ports, 1])
        assert [heard.path for heard in (*first.heard, *second.heard) if heard.method == "POST"] == []
    expected = [("vllm", f"{first.root}/v1", "openai:smol"), ("ollama", f"{second.root}/v1", "ollama:m")]
    assert [(server.server, server.base_url, server.model_option) for server in found] == expected


def test_on_a_terminal_init_asks_before_it_looks_for_servers(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "mbbq_gen", "init", "study.toml"]
    child = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=tmp_path, start_new_session=True)
    os.close(theirs)
    os.write(ours, b"n\n" + b"\n" * 6)
    screen = b""
    try:
        while select.select([ours], [], [], 60)[0]:
            try:
                read = os.read(ours, 65536)
            except OSError:  # nobody holds the other end any more
                break
            screen += read
        assert child.wait(60) == 0, screen
    finally:
        child.kill()
        os.close(ours)
    assert b"[y/N]" in screen
    assert "synthetic:" in (tmp_path / "study.toml").read_text(encoding="utf-8")
