"""The viewer passes over browsers that drop their connections."""

from __future__ import annotations

import socket
import struct
import threading
import urllib.request
from pathlib import Path

import pytest

from mbbq_gen.core.files import PackPaths
from mbbq_gen.report.viewer import ViewServer, open_viewer
from mbbq_gen.runs.observations import ensure_extracted
from mbbq_gen.runs.run_folder import RunFolder
from tests.support.extraction import make_run


def test_dropped_connections_are_silent(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder, packs = RunFolder(make_run(tmp_path / "run", sample=12)), PackPaths()
    viewer = open_viewer(folder, ensure_extracted(folder, packs, "rules", lambda _: None), packs, lambda _: None)
    capfd.readouterr()
    with ViewServer(viewer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for _ in range(20):
            client = socket.create_connection(("127.0.0.1", server.server_port))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close with a reset
            client.sendall(f"GET /{server.token}/ HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n".encode() * 2)
            client.sendall(b"\r\n")
            client.close()
        with urllib.request.urlopen(server.url) as page:
            assert page.status == 200
        server.shutdown()
    assert capfd.readouterr().err == ""
