from __future__ import annotations

import http.client
import json
import os
import re
import signal
import threading
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.cli.options import InferenceOptions, extract_missing
from mbbq_gen.core.errors import RunError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.report.viewer import ViewServer, open_viewer
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.runs.samples import FIELDS, SampleIndex
from tests.support.cases import cases, known
from tests.support.extraction import make_run, start
from tests.support.report import Page, hostile_report

pytest.importorskip("jinja2")
pytest.importorskip("vl_convert")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("viewer") / "run")


@pytest.fixture(scope="module")
def index(run: Path, resources: PackPaths) -> SampleIndex:
    folder = RunFolder(run)
    versions = extract_missing(folder, resources)
    with folder.open_store(read_only=True) as store:
        return SampleIndex(store, versions)


@pytest.fixture(scope="module")
def server(run: Path, resources: PackPaths) -> Iterator[ViewServer]:
    yield from serve(run, resources)


def serve(run: Path, resources: PackPaths) -> Iterator[ViewServer]:
    folder = RunFolder(run)
    viewer = open_viewer(folder, extract_missing(folder, resources), resources)
    with ViewServer(viewer) as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def ask(server: ViewServer, path: str, method: str = "GET", **headers: str) -> tuple[int, http.client.HTTPMessage, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=600)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, f"/{server.token}{path}", headers=sent)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, answer.headers, body


def items(server: ViewServer, **filters: object) -> dict[str, Any]:
    status, _, body = ask(server, "/items?" + urllib.parse.urlencode(filters))
    assert status == 200, body
    found: dict[str, Any] = json.loads(body)
    return found


def test_items_are_counted_as_the_scores_count_them(index: SampleIndex, run: Path, resources: PackPaths) -> None:
    frame = InferenceOptions().frame([run], resources)
    assert index.count() == frame.height
    values = index.values()
    for field, column in (("outcome", "outcome"), ("language", "language"), ("category", "category")):
        assert values[field] == Counter(frame[column].cast(str).to_list())
    roles = Counter(role or "none" for role in frame["chosen_role"].to_list())
    assert values["role"] == roles
    assert values["correct"]["yes"] == frame["correct"].sum()
    assert values["correct"]["none"] == frame["correct"].is_null().sum()
    assert sum(values["flipped"].values()) == frame.height


def test_the_page_may_ask_its_own_server_only(server: ViewServer) -> None:
    status, headers, body = ask(server, "/")
    assert status == 200
    page = Page(body)
    assert headers["Content-Security-Policy"] == f"{page.policy}; frame-ancestors 'none'"
    assert "default-src 'none'" in page.policy
    assert "connect-src 'self'" in page.policy
    assert page.data["languages"] == {"en": "English", "tr": "Turkish"}
    fields = [attributes["name"] for tag, attributes in page.elements if tag == "select" and "name" in attributes]
    assert set(fields) == set(FIELDS)


@pytest.mark.parametrize(("path", "status", "said"), cases("storage/samples", "odd_requests"))
def test_odd_requests(server: ViewServer, path: str, status: int, said: str) -> None:
    found, headers, body = ask(server, path)
    assert found == status
    assert said in body
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "html" not in headers["Content-Type"]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.evil:{port}", ""]
)
def test_other_hosts_are_refused(server: ViewServer, host: str) -> None:
    for path in ("/", "/items", "/values"):
        status, _, body = ask(server, path, Host=host.format(port=server.server_port))
        assert status == 421
        assert "its own address only" in body


def test_other_sites_are_refused(server: ViewServer) -> None:
    assert ask(server, "/items", Sec_Fetch_Site="cross-site")[0] == 403
    assert ask(server, "/items", Origin="http://evil.example")[0] == 403
    assert (
        ask(server, "/items", Origin=f"http://127.0.0.1:{server.server_port}", Sec_Fetch_Site="same-origin")[0] == 200
    )


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_changed(server: ViewServer, method: str) -> None:
    status, headers, body = ask(server, "/items", method)
    assert status == 501
    assert headers["Content-Security-Policy"]
    assert "<" not in body


def test_the_server_listens_on_the_loopback_address_only(server: ViewServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{22}/", server.url)


@pytest.mark.parametrize(
    "path", ["/", "/values", "/items", "/wrong/values", "//values", "/{token}", "/{token}x/values"]
)
def test_who_does_not_know_the_token_gets_nothing(server: ViewServer, path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=600)
    connection.request("GET", path.format(token=server.token))
    answer = connection.getresponse()
    assert (answer.status, b"mbbq-gen view printed" in answer.read()) == (403, True)
    connection.close()


def test_a_hostile_run_is_served_as_plain_data(tmp_path_factory: pytest.TempPathFactory, resources: PackPaths) -> None:
    for server in serve(hostile_report(tmp_path_factory.getbasetemp()).runs[0], resources):
        assert not any(name.startswith("on") for _, found in Page(ask(server, "/")[2]).elements for name in found)
        found = items(server, limit=100)
        assert found["total"] > 50
        assert all("\u202e" not in json.dumps(item, ensure_ascii=False) for item in found["items"])


def test_the_command_says_its_address_and_ends_with_ctrl_c(run: Path) -> None:
    with start("view", run) as process:
        url = known(process.stdout).readline().strip()
        address = urllib.parse.urlsplit(url)
        connection = http.client.HTTPConnection("127.0.0.1", address.port, timeout=600)
        connection.request("GET", f"{address.path}values")
        assert json.loads(connection.getresponse().read())["language"]
        connection.close()
        os.kill(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    assert err == "stopped.\n"


def test_a_port_in_use_is_one_clear_line(server: ViewServer) -> None:
    with pytest.raises(RunError, match="name another with --port"):
        ViewServer(server.viewer, server.server_port)


def test_two_viewers_have_two_tokens(server: ViewServer) -> None:
    with ViewServer(server.viewer) as other:
        assert other.token != server.token
