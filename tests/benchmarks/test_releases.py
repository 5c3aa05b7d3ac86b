from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import lzma
import posixpath
import random
import signal
import stat
import subprocess
import sys
import tarfile
import threading
import time
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st

from mbbq_gen.benchmarks.archives import ArchiveLimits
from mbbq_gen.benchmarks.download import ATTEMPTS, Download
from mbbq_gen.benchmarks.registry import BENCHMARKS, load_benchmark
from mbbq_gen.benchmarks.release_catalogue import ReleaseCatalogue, fits, is_inside, shipped_catalogue
from mbbq_gen.benchmarks.releases import InstallResult, InstallTools, install_release, installed_folder
from mbbq_gen.cli.main import run_command_line
from mbbq_gen.core.errors import DownloadError, UsageError

COMMIT = "0123456789abcdef0123456789abcdef01234567"
EDITION = COMMIT[:12]
Files = dict[str, bytes]


def invented(name: str, size: int) -> bytes:
    return random.Random(name).randbytes(size)


PINNED: Files = {
    "data/one.jsonl": invented("one", 120_000),
    "data/two.jsonl": invented("two", 80_000),
    "more/one.jsonl": invented("another one", 500),
    "templates/one.csv": b"a,b\n1,2\n",
}
LOOSE: Files = {"data/big.jsonl": invented("big", 3_000), "README.md": b"# Toys\n"}
OTHER: Files = {"code/run.py": b"print()\n", "results/one.jsonl": b"{}\n" * 100, "more/README.md": b"more\n"}
RELEASE: Files = {**PINNED, **LOOSE, **OTHER}


def pins(files: Files) -> str:
    return "\n".join(f"{len(text):>8} {hashlib.sha256(text).hexdigest()} {path}" for path, text in files.items())


def catalogue_of(**changes: Any) -> ReleaseCatalogue:
    toys = {
        "name": "toys",
        "serves": ["toys", "dolls"],
        "repository": "https://example.invalid/toys",
        "commit": COMMIT,
        "licence": "CC0",
        "required": ["data/*.jsonl"],
        "take": ["README.md", "LICENSE*", "data/*.jsonl"],
        "unpinned": ["data/big.jsonl"],
        "files": pins(PINNED),
    }
    asked = {
        "name": "asked", "repository": "https://example.invalid/asked", "on_request": "write to its authors",
        "licence": "none", "required": ["*.jsonl"], "take": ["*.jsonl"],
    }  # fmt: skip
    tables = {"archive": "{repository}/archive/{commit}.tar.gz", "release": [{**toys, **changes}, asked]}
    return ReleaseCatalogue.model_validate(tables)


def entry(name: str, text: bytes = b"", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.size = len(text)
    for key, value in fields.items():
        setattr(member, key, value)
    return member, text


def tar_of(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for member, text in entries:
            tar.addfile(member, io.BytesIO(text))
    return buffer.getvalue()


def plain_tar(files: Files, top: str = f"toys-{COMMIT}/") -> bytes:
    folders = sorted({posixpath.dirname(top + path) for path in files})
    return tar_of(
        *(entry(folder, type=tarfile.DIRTYPE) for folder in folders if folder),
        *(entry(top + path, text) for path, text in files.items()),
    )


def tar_gz(files: Files) -> bytes:
    return gzip.compress(plain_tar(files), mtime=0)


def zip_of(files: Files, top: str = "toys-main/") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(top or "empty/"), b"")
        for path, text in files.items():
            archive.writestr(zipfile.ZipInfo(top + path), text, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


KINDS: dict[str, Callable[[Files], bytes]] = {
    "tar.gz": tar_gz,
    "tar.xz": lambda files: lzma.compress(plain_tar(files)),
    "tar.bz2": lambda files: bz2.compress(plain_tar(files)),
    "tar": plain_tar,
    "zip": zip_of,
}


@dataclass
class Fault:
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut_after: int | None = None
    """Bytes of the body that are sent before the line goes dead."""
    stall: threading.Event | None = None
    """Waited for where the line would be cut."""


@dataclass
class Host:
    url: str = ""
    files: Files = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    asked: list[str | None] = field(default_factory=list)
    """The Range header of every request, or None."""
    sent: int = 0
    knows_ranges: bool = True
    mark: dict[str, str] = field(default_factory=lambda: {"ETag": '"first"'})

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        wanted = request.headers.get("Range")
        self.asked.append(wanted)
        fault = self.faults.pop(0) if self.faults else Fault()
        body = self.files.get(request.path)
        if fault.status != 200 or body is None:
            self.send(request, fault.status if fault.status != 200 else 404, b"no such thing", fault)
        elif wanted and self.knows_ranges and request.headers.get("If-Range") in self.mark.values():
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(body):
                fault.headers.setdefault("Content-Range", f"bytes */{len(body)}")
                self.send(request, 416, b"", fault)
            else:
                fault.headers.setdefault("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
                self.send(request, 206, body[start:], fault)
        else:
            self.send(request, 200, body, fault)

    def send(self, request: BaseHTTPRequestHandler, status: int, body: bytes, fault: Fault) -> None:
        request.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **self.mark, **fault.headers}.items():
            request.send_header(name, value)
        request.end_headers()
        part = body[: fault.cut_after]
        request.wfile.write(part)
        request.wfile.flush()
        self.sent += len(part) if status < 300 else 0
        if fault.stall is not None:
            fault.stall.wait(20)
        if fault.cut_after is not None:
            request.close_connection = True


@pytest.fixture
def host() -> Iterator[Host]:
    state = Host()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            state.answer(self)

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """A client that has hung up is no fault of the server."""

    server = Server(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield state
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def tools(pauses: list[float]) -> Iterator[InstallTools]:
    with httpx.Client(trust_env=False, follow_redirects=True, timeout=600) as client:
        yield InstallTools(catalogue=catalogue_of(), client=client, sleep=pauses.append)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data"


def there(folder: Path) -> Files:
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != "install.json"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def beside(root: Path) -> set[str]:
    return {path.name for path in (root / "toys").glob("*") if path.suffix != ".lock"}


def put(folder: Path, files: Files) -> Path:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text)
    return folder


def serve(host: Host, body: bytes) -> str:
    host.files["/toys"] = body
    return f"{host.url}/toys"


def refusal(source: str, root: Path, tools: InstallTools) -> str:
    with pytest.raises(DownloadError) as caught:
        install_release("toys", source, root, tools)
    assert caught.value.exit_code == 1
    line = str(caught.value)
    assert len(line.splitlines()) == 1
    assert not (root / "toys" / EDITION).exists()
    assert not any(name.endswith((".new", ".old")) for name in beside(root))
    return line


def check_whole(done: InstallResult, root: Path) -> None:
    assert done.outcome == "installed"
    assert done.folder == str(root / "toys" / EDITION)
    assert there(Path(done.folder)) == {**PINNED, **LOOSE}
    assert {file.path for file in done.record.files if file.pinned} == set(PINNED)
    assert {file.path for file in done.record.files if not file.pinned} == set(LOOSE)
    for file in done.record.files:
        text = {**PINNED, **LOOSE}[file.path]
        assert (file.size, file.sha256) == (len(text), hashlib.sha256(text).hexdigest())
    assert done.missing == ()
    assert beside(root) == {EDITION}


@pytest.mark.parametrize("kind", KINDS)
def test_an_archive_is_downloaded_and_only_the_release_taken(
    host: Host, root: Path, tools: InstallTools, kind: str
) -> None:
    done = install_release("toys", serve(host, KINDS[kind](RELEASE)), root, tools)
    check_whole(done, root)
    assert host.asked == [None]


def test_without_a_source_the_repository_is_asked(host: Host, root: Path, tools: InstallTools) -> None:
    host.files[f"/toys/archive/{COMMIT}.tar.gz"] = tar_gz(RELEASE)
    catalogue = catalogue_of(repository=f"{host.url}/toys")
    done = install_release("dolls", None, root, InstallTools(catalogue=catalogue, client=tools.client))
    check_whole(done, root)
    assert done.benchmark == "dolls"
    assert done.record.source == f"{host.url}/toys/archive/{COMMIT}.tar.gz"


@pytest.mark.parametrize("share", [0.001, 0.5, 0.999])
def test_a_cut_download_asks_for_the_rest_alone(host: Host, root: Path, tools: InstallTools, share: float) -> None:
    archive = tar_gz(RELEASE)
    cut = int(len(archive) * share)
    host.faults = [Fault(cut_after=cut)]
    check_whole(install_release("toys", serve(host, archive), root, tools), root)
    assert host.asked == [None, f"bytes={cut}-"]
    assert host.sent == len(archive)


def test_a_later_pull_goes_on_where_the_first_gave_up(
    host: Host, root: Path, tools: InstallTools, pauses: list[float]
) -> None:
    archive = tar_gz(RELEASE)
    half = len(archive) // 2
    source = serve(host, archive)
    host.faults = [Fault(cut_after=half), *[Fault(status=503) for _ in range(ATTEMPTS - 1)]]
    line = refusal(source, root, tools)
    assert "503" in line
    assert f"{half:,} bytes are kept" in line
    assert (root / "toys" / f"{EDITION}.part").read_bytes() == archive[:half]
    assert len(host.asked) == ATTEMPTS
    assert len(pauses) == ATTEMPTS - 1
    host.asked.clear()
    check_whole(install_release("toys", source, root, tools), root)
    assert host.asked == [f"bytes={half}-"]
    assert host.sent == len(archive)


@pytest.mark.parametrize(
    "case",
    [
        ({}, True, None),
        ({"ETag": 'W/"weak"'}, True, None),
        ({"Last-Modified": formatdate(0, usegmt=True)}, True, "bytes=50000-"),
        ({"ETag": '"first"'}, False, "bytes=50000-"),
    ],
)
def test_a_download_is_resumed_only_where_the_edition_is_known(
    host: Host, root: Path, tools: InstallTools, case: tuple[dict[str, str], bool, str | None]
) -> None:
    host.mark, host.knows_ranges, second = case
    host.faults = [Fault(cut_after=50_000)]
    check_whole(install_release("toys", serve(host, tar_gz(RELEASE)), root, tools), root)
    assert host.asked == [None, second]


@pytest.mark.parametrize("other", ["edition", "address"])
def test_another_edition_or_address_does_not_go_on_with_the_part(
    host: Host, root: Path, tools: InstallTools, other: str
) -> None:
    archive = gzip.compress(plain_tar(RELEASE), 1, mtime=9)
    source = serve(host, archive)
    host.faults = [Fault(cut_after=50_000), *[Fault(status=500) for _ in range(ATTEMPTS - 1)]]
    refusal(source, root, tools)
    host.asked.clear()
    if other == "edition":
        host.mark = {"ETag": '"second"'}
        host.files["/toys"] = tar_gz({**RELEASE, "code/more.py": b"pass\n"})
    else:
        host.files["/mirror"] = archive
    check_whole(install_release("toys", source if other == "edition" else f"{host.url}/mirror", root, tools), root)
    assert host.asked == (["bytes=50000-"] if other == "edition" else [None])


def download(host: Host, tools: InstallTools, part: Path, largest: int = 1 << 30) -> Download:
    assert tools.client is not None
    return Download(f"{host.url}/toys", part, tools.client, largest, tools.sleep)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(headers={"Content-Range": "bytes 2-9/10"}),
        Fault(headers={"Content-Range": "all of it"}),
        Fault(headers={"Content-Range": "bytes 4-9/12"}),
        Fault(status=416, headers={"Content-Range": "bytes */11"}),
        Fault(status=416),
    ],
    ids=lambda fault: f"{fault.status} {fault.headers.get('Content-Range')}",
)
def test_a_range_that_was_not_asked_for_is_not_used(
    host: Host, tools: InstallTools, tmp_path: Path, fault: Fault
) -> None:
    serve(host, b"0123456789")
    part = tmp_path / "x.part"
    host.faults = [Fault(cut_after=4), fault]
    download(host, tools, part).fetch()
    assert part.read_bytes() == b"0123456789"
    assert host.asked[:2] == [None, "bytes=4-"]
    assert len(host.asked) in (3, 4)


def test_a_file_larger_than_any_release_is_not_downloaded(host: Host, tools: InstallTools, tmp_path: Path) -> None:
    serve(host, b"0" * 100_000)
    with pytest.raises(DownloadError, match="larger than any release"):
        download(host, tools, tmp_path / "x.part", largest=99_999).fetch()
    assert list(tmp_path.iterdir()) == []


SCRIPT = """
import sys
from mbbq_gen.cli.main import main
sys.exit(main(["data", "download", "kobbq", "--from", sys.argv[1], "--to", sys.argv[2]]))
"""


def test_a_killed_download_goes_on(
    host: Host, root: Path, shared_datasets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    archive = real_archive(shared_datasets / "kobbq")
    half = len(archive) // 2
    halfway = threading.Event()
    source = serve(host, archive)
    host.faults = [Fault(cut_after=half, stall=halfway)]
    command = [sys.executable, "-c", SCRIPT, source, str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        parts = root / "kobbq"
        deadline = time.monotonic() + 600
        while (
            not any(path.stat().st_size for path in parts.glob("*.part"))
            and time.monotonic() < deadline
            and process.poll() is None
        ):
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    halfway.set()
    (part,) = parts.glob("*.part")
    arrived = part.stat().st_size
    assert 0 < arrived <= half
    assert installed_folder("kobbq", root) is None
    host.asked.clear()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert host.asked == [f"bytes={arrived}-"]
    assert Path(done.stdout.strip()) == installed_folder("kobbq", root)
    assert [path.suffix for path in sorted(parts.iterdir())] == ["", ".lock"]


@pytest.mark.parametrize(
    "case",
    [
        *((Fault(status=status), f"{status} ") for status in (400, 401, 403, 404, 410, 501)),
        (Fault(status=503, headers={"Retry-After": "3600"}), "asks to wait 3600 s"),
    ],
    ids=lambda case: case[1],
)
def test_what_will_not_pass_soon_is_not_tried_again(
    host: Host, root: Path, tools: InstallTools, pauses: list[float], case: tuple[Fault, str]
) -> None:
    fault, says = case
    host.faults = [fault]
    assert says in refusal(serve(host, b""), root, tools)
    assert (len(host.asked), pauses) == (1, [])


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_what_may_pass_is_tried_again(
    host: Host, root: Path, tools: InstallTools, pauses: list[float], status: int
) -> None:
    host.faults = [Fault(status=status), Fault(status=status)]
    check_whole(install_release("toys", serve(host, tar_gz(RELEASE)), root, tools), root)
    assert len(host.asked) == 3
    assert len(pauses) == 2
    assert 0 < pauses[0] < pauses[1] < 10


@pytest.mark.parametrize("asked", ["7", "date", "soon"])
def test_a_server_that_asks_to_wait_is_obeyed(
    host: Host, root: Path, tools: InstallTools, pauses: list[float], asked: str
) -> None:
    value = formatdate(time.time() + 7, usegmt=True) if asked == "date" else asked
    host.faults = [Fault(status=429, headers={"Retry-After": value})]
    check_whole(install_release("toys", serve(host, tar_gz(RELEASE)), root, tools), root)
    assert len(pauses) == 1
    assert asked == "soon" or pauses == [pytest.approx(7, abs=0 if asked == "7" else 2)]


def test_nobody_at_home(host: Host, root: Path, tools: InstallTools, pauses: list[float]) -> None:
    line = refusal("http://127.0.0.1:9/toys", root, tools)
    assert f"{ATTEMPTS} times" in line
    assert len(pauses) == ATTEMPTS - 1
    assert host.asked == []


@pytest.mark.parametrize("source", ["ftp://example.invalid/x", "file:///etc/passwd", "s3://bucket/x"])
def test_other_addresses_are_wrong_use(root: Path, tools: InstallTools, source: str) -> None:
    with pytest.raises(UsageError, match=f"{source}.*https:"):
        install_release("toys", source, root, tools)
    assert not root.exists()


SPOILT = {**RELEASE, "data/two.jsonl": PINNED["data/two.jsonl"][:-1] + b"!"}


def test_a_wrong_checksum_is_refused_and_nothing_left(host: Host, root: Path, tools: InstallTools) -> None:
    line = refusal(serve(host, tar_gz(SPOILT)), root, tools)
    assert "data/two.jsonl is not the release's" in line
    assert hashlib.sha256(SPOILT["data/two.jsonl"]).hexdigest()[:12] in line
    assert beside(root) == set()
    assert there(root) == {f"toys/{EDITION}.lock": b""}


@pytest.mark.parametrize(
    "body",
    [
        b"<html>Sign in to this network</html>",
        b"",
        tar_gz(RELEASE)[:-5000],
        tar_gz(RELEASE)[:-8] + b"8 wrongs",
        zip_of(RELEASE)[:-9],
    ],
    ids=["a page", "nothing", "cut off", "wrong crc", "zip cut off"],
)
def test_what_is_no_whole_archive_is_refused_and_removed(
    host: Host, root: Path, tools: InstallTools, body: bytes
) -> None:
    line = refusal(serve(host, body), root, tools)
    assert line.startswith(f"{host.url}/toys: not a complete tar or zip archive")
    assert beside(root) == set()


OUTSIDE = ["../evil", "/tmp/evil", "toys/../../evil", "..\\evil", "C:\\evil", "data/../../data/evil.jsonl", ".."]


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_a_path_that_climbs_out_is_refused(host: Host, root: Path, tools: InstallTools, kind: str, name: str) -> None:
    good = [entry(path, text) for path, text in RELEASE.items()]
    body = tar_of(*good, entry(name, b"evil")) if kind == "tar" else zip_of({**RELEASE, name: b"evil"}, top="")
    assert "leads out of the archive" in refusal(
        serve(host, gzip.compress(body) if kind == "tar" else body), root, tools
    )
    assert there(root.parent) == {f"data/toys/{EDITION}.lock": b""}


@given(
    st.lists(st.sampled_from(["a", "..", ".", "", "C:", "data", "\\", "..\\..", "a\\..", "…"]), min_size=1, max_size=6)
)
def test_a_path_that_is_said_to_be_inside_is(steps: list[str]) -> None:
    path = "/".join(steps)
    if is_inside(path):
        for seen in (
            posixpath.normpath(posixpath.join("/here", path)),
            posixpath.normpath("/here/" + path.replace("\\", "/")),
        ):
            assert seen == "/here" or seen.startswith("/here/")


LINKS = [
    entry("data/link", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
    entry("data/link", type=tarfile.SYMTYPE, linkname="../../outside"),
    entry("data/link", type=tarfile.LNKTYPE, linkname="../outside"),
    entry("link", type=tarfile.LNKTYPE, linkname="data/one.jsonl"),
    entry("data/device", type=tarfile.FIFOTYPE),
    entry("data/device", type=tarfile.CHRTYPE),
    entry("data/device", type=tarfile.BLKTYPE),
]


@pytest.mark.parametrize("member", LINKS, ids=[f"{each.name}-{each.linkname}" for each, _ in LINKS])
def test_links_and_devices_are_passed_over(
    host: Host, root: Path, tools: InstallTools, member: tuple[tarfile.TarInfo, bytes]
) -> None:
    body = tar_of(member, *(entry(path, text) for path, text in RELEASE.items()))
    check_whole(install_release("toys", serve(host, body), root, tools), root)


def zip_link(target: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        link = zipfile.ZipInfo("data/link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, target)
        for path, text in RELEASE.items():
            archive.writestr(path, text)
    return buffer.getvalue()


def test_links_in_a_zip(host: Host, root: Path, tools: InstallTools) -> None:
    check_whole(install_release("toys", serve(host, zip_link("../../outside")), root, tools), root)


def test_a_pinned_file_that_is_a_link_is_missing(host: Host, root: Path, tools: InstallTools) -> None:
    pinned = entry("data/one.jsonl", type=tarfile.SYMTYPE, linkname="two.jsonl")
    others = (entry(path, text) for path, text in RELEASE.items() if path != "data/one.jsonl")
    assert "lacks data/one.jsonl" in refusal(serve(host, tar_of(pinned, *others)), root, tools)


def claiming(size: int) -> bytes:
    member = tarfile.TarInfo("data/one.jsonl")
    member.size = size
    return gzip.compress(member.tobuf(tarfile.GNU_FORMAT) + bytes(1024))


def header_bomb() -> bytes:
    member = tarfile.TarInfo("././@PaxHeader")
    member.type, member.size = tarfile.XHDTYPE, 1 << 26
    return gzip.compress(member.tobuf(tarfile.USTAR_FORMAT) + bytes(1 << 26), 1)


@pytest.mark.parametrize(
    "body", [claiming(1 << 50), claiming((1 << 30) + 1), header_bomb()], ids=["PB", "GB", "header"]
)
def test_a_bomb_is_refused_before_it_goes_off(host: Host, root: Path, tools: InstallTools, body: bytes) -> None:
    tracemalloc.start()
    try:
        line = refusal(serve(host, body), root, tools)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "refused" in line
    assert peak < 32_000_000, "what a bomb claims or unpacks to is never held"
    assert beside(root) == set()


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
@pytest.mark.parametrize(
    "limits",
    [ArchiveLimits(members=4), ArchiveLimits(file_bytes=110_000), ArchiveLimits(total_bytes=150_000)],
    ids=["many", "large", "sum"],
)
def test_limits_hold_for_every_kind(
    host: Host, root: Path, tools: InstallTools, kind: str, limits: ArchiveLimits
) -> None:
    small = InstallTools(catalogue=tools.catalogue, client=tools.client, limits=limits)
    assert "refused" in refusal(serve(host, KINDS[kind](RELEASE)), root, small)


def test_a_flat_folder(tmp_path: Path, root: Path, tools: InstallTools) -> None:
    flat = {path.rpartition("/")[2]: text for path, text in RELEASE.items() if not path.startswith(("more", "results"))}
    done = install_release("toys", str(put(tmp_path / "flat", flat)), root, tools)
    wanted = {path: text for path, text in PINNED.items() if path != "more/one.jsonl"}
    assert there(Path(done.folder)) == {**wanted, "README.md": LOOSE["README.md"]}
    assert done.missing == ("data/big.jsonl", "more/one.jsonl")
    assert {file.path for file in done.record.files if not file.pinned} == {"README.md"}


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (
            {"data/one.jsonl": PINNED["data/one.jsonl"], "data/two.jsonl": b"{}\n"},
            "two.jsonl is not the release's (3 bytes",
        ),
        ({"data/one.jsonl": PINNED["data/one.jsonl"]}, "lacks data/two.jsonl of toys"),
        ({"readme.txt": b""}, "lacks data/one.jsonl, data/two.jsonl of toys"),
    ],
)
def test_a_wrong_or_incomplete_folder_is_refused(
    tmp_path: Path, root: Path, tools: InstallTools, files: Files, says: str
) -> None:
    assert says in refusal(str(put(tmp_path / "toys", files)), root, tools)


def test_on_request_only_from_the_users_copy(tmp_path: Path, root: Path, tools: InstallTools) -> None:
    with pytest.raises(UsageError, match=r"asked: no download: write to its authors .* --from"):
        install_release("asked", None, root, tools)
    source = put(tmp_path / "asked", {"v1/data/age.jsonl": b"{}\n", "v1/readme.txt": b"x"})
    done = install_release("asked", str(source), root, tools)
    assert Path(done.folder) == root / "asked" / "on-request"
    assert there(Path(done.folder)) == {"age.jsonl": b"{}\n"}
    assert [file.pinned for file in done.record.files] == [False]
    assert installed_folder("asked", root, tools.catalogue) == Path(done.folder)
    assert install_release("asked", None, root, tools).outcome == "already_there"
    with pytest.raises(DownloadError, match=r"lacks \*\.jsonl of asked"):
        install_release("asked", str(put(tmp_path / "empty", {"readme.txt": b"x"})), tmp_path / "elsewhere", tools)


def test_a_second_pull_does_nothing(host: Host, root: Path, tools: InstallTools) -> None:
    source = serve(host, tar_gz(RELEASE))
    first = install_release("toys", source, root, tools)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    host.asked.clear()
    for origin in (source, None):
        again = install_release("dolls", origin, root, tools)
        assert again.outcome == "already_there"
        assert again.record == first.record
    assert host.asked == []
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


@pytest.mark.parametrize(
    "spoil", [lambda path: path.unlink(), lambda path: path.write_bytes(b"{}")], ids=["gone", "other"]
)
@pytest.mark.parametrize("name", ["data/one.jsonl", "README.md"])
def test_a_damaged_release_is_repaired(
    host: Host, root: Path, tools: InstallTools, name: str, spoil: Callable[[Path], Any]
) -> None:
    source = serve(host, tar_gz(RELEASE))
    folder = Path(install_release("toys", source, root, tools).folder)
    spoil(folder / name)
    repaired = install_release("toys", source, root, tools)
    check_whole(repaired, root)
    assert repaired.damaged == (name,)


def test_another_source_adds_what_is_missing_and_nothing_is_lost(
    host: Host, tmp_path: Path, root: Path, tools: InstallTools
) -> None:
    part = put(tmp_path / "part", {path: text for path, text in PINNED.items() if path != "more/one.jsonl"})
    other = put(tmp_path / "other", {**{path: PINNED[path] for path in PINNED if path.startswith("data/")}, **LOOSE})
    assert install_release("toys", str(part), root, tools).missing == ("data/big.jsonl", "more/one.jsonl")
    assert install_release("toys", str(part), root, tools).outcome == "already_there"
    added = install_release("toys", str(other), root, tools)
    assert (added.outcome, added.missing) == ("installed", ("more/one.jsonl",))
    assert there(Path(added.folder)) == {p: t for p, t in {**PINNED, **LOOSE}.items() if p != "more/one.jsonl"}
    check_whole(install_release("toys", serve(host, tar_gz(RELEASE)), root, tools), root)


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path, root: Path, tools: InstallTools) -> None:
    put(root / "toys" / EDITION, {"mine.txt": b"mine"})
    with pytest.raises(UsageError, match=r"install\.json"):
        install_release("toys", str(put(tmp_path / "toys", RELEASE)), root, tools)
    (root / "toys" / EDITION / "install.json").write_text("{}")
    with pytest.raises(UsageError, match=r"install\.json"):
        install_release("toys", str(tmp_path / "toys"), root, tools)
    assert (root / "toys" / EDITION / "mine.txt").read_bytes() == b"mine"


def test_one_pull_at_a_time(tmp_path: Path, root: Path, tools: InstallTools) -> None:
    source = str(put(tmp_path / "toys", RELEASE))
    (root / "toys").mkdir(parents=True)
    with FileLock(root / "toys" / f"{EDITION}.lock"):
        assert "another process" in refusal(source, root, tools)
    check_whole(install_release("toys", source, root, tools), root)


def test_every_published_benchmark_has_a_release() -> None:
    served = {name for release in shipped_catalogue().release for name in release.benchmarks}
    published = {info.name: info.licence for info in BENCHMARKS.values() if info.needs_data}
    assert set(published) == served
    for name, licence in published.items():
        assert shipped_catalogue().find(name).licence == licence, name
    names = [name for release in shipped_catalogue().release for name in release.benchmarks]
    assert len(names) == len(set(names))
    for release in shipped_catalogue().release:
        assert (release.commit is None) == bool(release.on_request)
        paths = [*(pin.path for pin in release.files), *release.unpinned]
        assert len(set(paths)) == len(paths)
        assert all(is_inside(path) and "\\" not in path for path in (*paths, *release.required, *release.take))
        if release.files:
            assert all(any(fits(pin, pattern) for pin in release.pins) for pattern in release.required)


FOLDERS = {"gg_bbq": "gg-bbq"}


def real_archive(folder: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as tar:
        tar.add(folder, arcname=f"Repo-{COMMIT}")
    return buffer.getvalue()


REAL = ["mbbq", "bbq", "esbbq", "cabbq", "kobbq", "bharatbbq", "gg_bbq", "basqbbq", "cbbq", "pakbbq", "bbg", "bbq_lite"]


def real_source(name: str, datasets: Path) -> Path:
    release = shipped_catalogue().find(name)
    folder = datasets / FOLDERS.get(release.name, release.name)
    return folder if folder.is_dir() else datasets / "more" / f"{release.name}.tar.xz"


@pytest.mark.parametrize("name", REAL)
def test_the_published_files_are_the_pinned_ones(shared_datasets: Path, root: Path, name: str) -> None:
    release = shipped_catalogue().find(name)
    done = install_release(name, str(real_source(name, shared_datasets)), root)
    assert {file.path for file in done.record.files} == set(release.pins)
    assert all(file.pinned for file in done.record.files)
    assert set(done.missing) == set(release.unpinned)
    assert installed_folder(name, root) == Path(done.folder)
    assert install_release(name, str(real_source(name, shared_datasets)), root).outcome == "already_there"
    first = next(
        load_benchmark(name, data=Path(done.folder), languages=[BENCHMARKS[name].languages[0]], splits=["bias"])
    )
    assert first.benchmark == name


Command = Callable[..., tuple[str, str]]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*arguments: object, code: int = 0) -> tuple[str, str]:
        assert run_command_line(["data", "download", *map(str, arguments)]) == code
        return capsys.readouterr()

    return run


def test_the_command_as_json_over_http(
    command: Command, host: Host, shared_datasets: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    source = serve(host, real_archive(shared_datasets / "kobbq"))
    host.faults = [Fault(cut_after=100_000)]
    out, err = command("kobbq", "--from", source, "--to", root, "--json")
    done = json.loads(out)
    assert err == ""
    assert host.asked == [None, "bytes=100000-"]
    assert done["outcome"] == "installed"
    assert done["source"] == source
    assert done["commit"] == shipped_catalogue().find("kobbq").commit
    assert done["missing"] == ["data/KoBBQ_all_samples.tsv"]
    assert {file["path"] for file in done["files"]} == set(shipped_catalogue().find("kobbq").pins)
    assert all(set(file) == {"path", "size", "sha256", "pinned"} for file in done["files"])
