from __future__ import annotations

import http.client
import os
import re
import signal
import threading
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from mbbq_gen.cli.options import InferenceOptions, extract_missing
from mbbq_gen.core.errors import RunError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.report.viewer import ViewServer
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
    with ViewServer(folder, extract_missing(folder, resources)) as found:
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


def test_a_page_has_the_filters_and_the_answers(server: ViewServer) -> None:
    status, headers, body = ask(server, "/?language=tr&page=2")
    assert status == 200
    page = Page(body)
    assert headers["Content-Security-Policy"] == "frame-ancestors 'none'"
    assert "default-src 'none'" in page.policy
    assert "form-action 'self'" in page.policy
    fields = [attributes["name"] for tag, attributes in page.elements if tag == "select" and "name" in attributes]
    assert {"language", "category", "template", "outcome"} <= set(fields) <= set(FIELDS)
    assert ("option", {"value": "tr", "selected": None}) in page.elements
    assert [tag for tag, _ in page.elements].count("bdi") == 20
    assert f"Answers 21 to 40 of {server.index.count({'language': 'tr'}):,}" in page.text
    links = [attributes["href"] for tag, attributes in page.elements if tag == "a"]
    assert "?language=tr&page=3" in links


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
    status, _, body = ask(server, "/", Host=host.format(port=server.server_port))
    assert status == 421
    assert "its own address only" in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
def test_nothing_can_be_changed(server: ViewServer, method: str) -> None:
    status, headers, body = ask(server, "/", method)
    assert status == 501
    assert headers["Content-Security-Policy"]
    assert "<" not in body


def test_the_server_listens_on_the_loopback_address_only(server: ViewServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{22}/", server.url)


@pytest.mark.parametrize(
    "path", ["/", "/wrong/", "//", "/{token}", "/{token}x/", "/{token}/run.sqlite", "/../../etc/passwd"]
)
def test_who_does_not_know_the_token_gets_nothing(server: ViewServer, path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=600)
    connection.request("GET", path.format(token=server.token))
    answer = connection.getresponse()
    assert (answer.status, b"mbbq-gen view printed" in answer.read()) == (403, True)
    connection.close()


def test_a_hostile_run_is_served_as_plain_text(tmp_path_factory: pytest.TempPathFactory, resources: PackPaths) -> None:
    for server in serve(hostile_report(tmp_path_factory.getbasetemp()).runs[0], resources):
        assert server.index.count() > 50
        for number in (1, 2, 3):
            _, _, body = ask(server, f"/?page={number}")
            assert not any(name.startswith("on") for _, found in Page(body).elements for name in found)
            assert "<script>window" not in body
            assert "\u202e" not in body


def test_the_command_says_its_address_and_ends_with_ctrl_c(run: Path) -> None:
    with start("view", run) as process:
        url = known(process.stdout).readline().strip()
        address = urllib.parse.urlsplit(url)
        connection = http.client.HTTPConnection("127.0.0.1", address.port, timeout=600)
        connection.request("GET", f"{address.path}?language=tr")
        assert b"Answers 1 to " in connection.getresponse().read()
        connection.close()
        os.kill(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    assert err == "stopped.\n"


def test_a_port_in_use_is_one_clear_line(server: ViewServer) -> None:
    with pytest.raises(RunError, match="name another with --port"):
        ViewServer(server.folder, {}, server.server_port)


def test_two_viewers_have_two_tokens(server: ViewServer) -> None:
    with ViewServer(server.folder, {}) as other:
        assert other.token != server.token
