from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import lzma
import posixpath
import random
import stat
import tarfile
import threading
import time
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st

from mbbq_gen.benchmarks.download import ATTEMPTS, ArchiveLimits, download, is_inside
from mbbq_gen.benchmarks.registry import BENCHMARKS, load_benchmark
from mbbq_gen.benchmarks.releases import (
    InstallResult,
    InstallTools,
    ReleaseCatalogue,
    install_release,
    installed_folder,
    matches,
    shipped_catalogue,
)
from mbbq_gen.core.errors import DownloadError, UsageError
from tests.support.cases import known


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data"


MADE_HERE = "made by this census"
FOLDERS = {"gg_bbq": "gg-bbq"}
NOT_TAKEN = ("results/", "Metrics/")
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
    toys: dict[str, Any] = {"name": "toys", "serves": ["toys", "dolls"], "repository": "https://example.invalid/toys"}
    toys |= {"commit": COMMIT, "licence": "CC0", "required": ["data/*.jsonl"]}
    toys |= {"take": ["README.md", "LICENSE*", "data/*.jsonl"], "unpinned": ["data/big.jsonl"], "files": pins(PINNED)}
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


@dataclass
class Host:
    url: str = ""
    files: Files = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    """The path of every request."""

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        self.asked.append(request.path)
        fault = self.faults.pop(0) if self.faults else Fault()
        body = self.files.get(request.path)
        if fault.status != 200 or body is None:
            self.send(request, fault.status if fault.status != 200 else 404, b"no such thing", fault)
        else:
            self.send(request, 200, body, fault)

    def send(self, request: BaseHTTPRequestHandler, status: int, body: bytes, fault: Fault) -> None:
        request.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **fault.headers}.items():
            request.send_header(name, value)
        request.end_headers()
        part = body[: fault.cut_after]
        request.wfile.write(part)
        request.wfile.flush()
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


class Pull:
    """`install_release` of the toys into a folder of its own, from the server or from what is named."""

    def __init__(self, host: Host, root: Path, client: httpx.Client) -> None:
        self.host, self.root, self.pauses = host, root, list[float]()
        self.place = root / "toys"
        self.tools = InstallTools(catalogue=catalogue_of(), client=client, sleep=self.pauses.append)

    def serve(self, body: bytes) -> str:
        self.host.files["/toys"] = body
        return f"{self.host.url}/toys"

    def __call__(self, source: bytes | Path | str | None, name: str = "toys") -> InstallResult:
        given = self.serve(source) if isinstance(source, bytes) else source
        return install_release(name, None if given is None else str(given), self.root, self.tools)

    def beside(self) -> set[str]:
        """What stands in the place of the release, but for the lock."""
        return {path.name for path in self.place.glob("*") if path.suffix != ".lock"}

    def whole(self, source: bytes | Path | str | None, name: str = "toys") -> InstallResult:
        done = self(source, name)
        assert (done.outcome, done.folder, done.missing) == ("installed", str(self.place / EDITION), ())
        assert there(Path(done.folder)) == {**PINNED, **LOOSE}
        assert {file.path for file in done.record.files if file.pinned} == set(PINNED)
        for file in done.record.files:
            text = {**PINNED, **LOOSE}[file.path]
            assert (file.size, file.sha256) == (len(text), hashlib.sha256(text).hexdigest())
        assert self.beside() == {EDITION}
        return done

    def refusal(self, source: bytes | Path | str) -> str:
        """The line of a pull that fails; nothing stands in the release's place then."""
        with pytest.raises(DownloadError) as caught:
            self(source)
        assert caught.value.exit_code == 1
        assert self.beside() == set()
        line = str(caught.value)
        assert "\n" not in line
        return line


@pytest.fixture
def pull(host: Host, tmp_path: Path) -> Iterator[Pull]:
    with httpx.Client(trust_env=False, follow_redirects=True, timeout=600) as client:
        yield Pull(host, tmp_path / "data", client)


def there(folder: Path) -> Files:
    """What stands in a folder, but for the record."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != "install.json"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def put(folder: Path, files: Files) -> Path:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text)
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_an_archive_is_downloaded_and_only_the_release_taken(pull: Pull, kind: str) -> None:
    pull.whole(KINDS[kind](RELEASE))
    assert pull.host.asked == ["/toys"]


def test_without_a_source_the_repository_is_asked(pull: Pull) -> None:
    pull.host.files[f"/toys/archive/{COMMIT}.tar.gz"] = tar_gz(RELEASE)
    pull.tools = replace(pull.tools, catalogue=catalogue_of(repository=f"{pull.host.url}/toys"))
    done = pull.whole(None, "dolls")
    assert (done.benchmark, done.record.source) == ("dolls", f"{pull.host.url}/toys/archive/{COMMIT}.tar.gz")


def test_a_download_that_breaks_off_is_tried_again(pull: Pull) -> None:
    pull.host.faults = [Fault(cut_after=50_000)]
    pull.whole(tar_gz(RELEASE))
    assert len(pull.host.asked) == 2


def test_a_file_larger_than_any_release_is_not_downloaded(pull: Pull, tmp_path: Path) -> None:
    assert pull.tools.client is not None
    with pytest.raises(DownloadError, match="10 bytes or more, larger than any release"):
        download(pull.serve(b"0123456789"), tmp_path / "x", pull.tools.client, 9)


@pytest.mark.parametrize(
    ("fault", "says"),
    [(Fault(status=status), f"{status} ") for status in (401, 404, 501)]
    + [(Fault(status=503, headers={"Retry-After": "3600"}), "asks to wait 3600 s")],
)
def test_what_will_not_pass_soon_is_not_tried_again(pull: Pull, fault: Fault, says: str) -> None:
    pull.host.faults = [fault]
    assert says in pull.refusal(b"")
    assert (len(pull.host.asked), pull.pauses) == (1, [])


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_what_may_pass_is_tried_again(pull: Pull, status: int) -> None:
    pull.host.faults = [Fault(status=status), Fault(status=status)]
    pull.whole(tar_gz(RELEASE))
    assert len(pull.host.asked) == 3
    assert 0 < pull.pauses[0] < pull.pauses[1] < 10


@pytest.mark.parametrize("asked", ["7", "date", "soon"])
def test_a_server_that_asks_to_wait_is_obeyed(pull: Pull, asked: str) -> None:
    value = formatdate(time.time() + 7, usegmt=True) if asked == "date" else asked
    pull.host.faults = [Fault(status=429, headers={"Retry-After": value})]
    pull.whole(tar_gz(RELEASE))
    assert len(pull.pauses) == 1
    assert asked == "soon" or pull.pauses == [pytest.approx(7, abs=0 if asked == "7" else 2)]


def test_nobody_at_home(pull: Pull) -> None:
    assert f"{ATTEMPTS} times" in pull.refusal("http://127.0.0.1:9/toys")
    assert len(pull.pauses) == ATTEMPTS - 1


def test_other_addresses_are_wrong_use(pull: Pull) -> None:
    with pytest.raises(UsageError, match=r"file:///etc/passwd.*https:"):
        pull("file:///etc/passwd")
    assert not pull.root.exists()


SPOILT = {**RELEASE, "data/two.jsonl": PINNED["data/two.jsonl"][:-1] + b"!"}


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (tar_gz(SPOILT), "data/two.jsonl is not the release's"),
        *(
            (body, "toys: not a complete tar or zip archive")
            for body in (b"<html>Sign in</html>", b"", tar_gz(RELEASE)[:-5000], tar_gz(RELEASE)[:-8] + b"8 wrongs")
        ),
        (zip_of(RELEASE)[:-9], "toys: not a complete tar or zip archive"),
    ],
    ids=["checksum", "a page", "nothing", "cut off", "wrong crc", "zip cut off"],
)
def test_what_is_no_whole_release_is_refused_and_removed(pull: Pull, body: bytes, says: str) -> None:
    assert says in pull.refusal(body)
    assert there(pull.root) == {f"toys/{EDITION}.lock": b""}


OUTSIDE = ["../evil", "/tmp/evil", "toys/../../evil", "..\\evil", "C:\\evil", "data/../../data/evil.jsonl", ".."]


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_a_path_that_climbs_out_is_refused(pull: Pull, kind: str, name: str) -> None:
    good = [entry(path, text) for path, text in RELEASE.items()]
    evil = {**RELEASE, name: b"evil"}
    body = gzip.compress(tar_of(*good, entry(name, b"evil"))) if kind == "tar" else zip_of(evil, top="")
    assert "leads out of the archive" in pull.refusal(body)
    assert there(pull.root.parent) == {f"data/toys/{EDITION}.lock": b""}


LINKS = [
    entry("data/link", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
    entry("data/link", type=tarfile.LNKTYPE, linkname="../outside"),
    entry("link", type=tarfile.LNKTYPE, linkname="data/one.jsonl"),
    entry("data/device", type=tarfile.FIFOTYPE),
    entry("data/device", type=tarfile.CHRTYPE),
]


@pytest.mark.parametrize("member", LINKS, ids=[f"{each.name}-{each.linkname}" for each, _ in LINKS])
def test_links_and_devices_are_passed_over(pull: Pull, member: tuple[tarfile.TarInfo, bytes]) -> None:
    pull.whole(tar_of(member, *(entry(path, text) for path, text in RELEASE.items())))


def zip_link(target: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        link = zipfile.ZipInfo("data/link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, target)
        for path, text in RELEASE.items():
            archive.writestr(path, text)
    return buffer.getvalue()


def test_links_in_a_zip_and_a_pinned_file_that_is_one(pull: Pull) -> None:
    pinned = entry("data/one.jsonl", type=tarfile.SYMTYPE, linkname="two.jsonl")
    others = (entry(path, text) for path, text in RELEASE.items() if path != "data/one.jsonl")
    assert "lacks data/one.jsonl" in pull.refusal(tar_of(pinned, *others))
    pull.whole(zip_link("../../outside"))


def claiming(size: int) -> bytes:
    """A tar whose only file says that it is that long."""
    member = tarfile.TarInfo("data/one.jsonl")
    member.size = size
    return gzip.compress(member.tobuf(tarfile.GNU_FORMAT) + bytes(1024))


def header_bomb() -> bytes:
    """A tar whose header has an extension of 64 MB."""
    member = tarfile.TarInfo("././@PaxHeader")
    member.type, member.size = tarfile.XHDTYPE, 1 << 26
    return gzip.compress(member.tobuf(tarfile.USTAR_FORMAT) + bytes(1 << 26), 1)


@pytest.mark.parametrize("body", [claiming(1 << 50), header_bomb()], ids=["PB", "header"])
def test_a_bomb_is_refused_before_it_goes_off(pull: Pull, body: bytes) -> None:
    tracemalloc.start()
    try:
        assert "refused" in pull.refusal(body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 32_000_000, "what a bomb claims or unpacks to is never held"


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
@pytest.mark.parametrize("limit", [{"members": 4}, {"file_bytes": 110_000}, {"total_bytes": 150_000}], ids=str)
def test_limits_hold_for_every_kind(pull: Pull, kind: str, limit: dict[str, int]) -> None:
    pull.tools = replace(pull.tools, limits=ArchiveLimits(**limit))
    assert "refused" in pull.refusal(KINDS[kind](RELEASE))


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({**PINNED, "data/two.jsonl": b"{}\n"}, "two.jsonl is not the release's (3 bytes"),
        ({"readme.txt": b""}, "lacks data/one.jsonl, data/two.jsonl of toys"),
    ],
)
def test_a_wrong_or_incomplete_folder_is_refused(tmp_path: Path, pull: Pull, files: Files, says: str) -> None:
    assert says in pull.refusal(put(tmp_path / "toys", files))


def test_on_request_only_from_the_users_copy(tmp_path: Path, pull: Pull) -> None:
    with pytest.raises(UsageError, match=r"asked: no download: write to its authors .* --from"):
        pull(None, "asked")
    with pytest.raises(DownloadError, match=r"lacks \*\.jsonl of asked"):
        pull(put(tmp_path / "empty", {"readme.txt": b"x"}), "asked")
    done = pull(put(tmp_path / "asked", {"v1/data/age.jsonl": b"{}\n", "v1/readme.txt": b"x"}), "asked")
    assert Path(done.folder) == pull.root / "asked" / "on-request"
    assert there(Path(done.folder)) == {"age.jsonl": b"{}\n"}
    assert installed_folder("asked", pull.root, pull.tools.catalogue) == Path(done.folder)
    assert pull(None, "asked").outcome == "already_there"


def test_a_second_pull_does_nothing(pull: Pull) -> None:
    first = pull.whole(tar_gz(RELEASE))
    before = {path: path.stat().st_mtime_ns for path in pull.root.rglob("*")}
    pull.host.asked.clear()
    for origin in (tar_gz(RELEASE), None):
        again = pull(origin, "dolls")
        assert (again.outcome, again.record) == ("already_there", first.record)
    assert pull.host.asked == []
    assert {path: path.stat().st_mtime_ns for path in pull.root.rglob("*")} == before


@pytest.mark.parametrize("change", [None, b"{}"], ids=["gone", "other"])
@pytest.mark.parametrize("name", ["data/one.jsonl", "README.md"])
def test_a_damaged_release_is_repaired(tmp_path: Path, pull: Pull, name: str, change: bytes | None) -> None:
    folder = Path(pull.whole(tar_gz(RELEASE)).folder)
    (folder / name).unlink() if change is None else (folder / name).write_bytes(change)
    damaged = there(folder)
    with pytest.raises(DownloadError, match="not the release's"):
        pull(put(tmp_path / "spoilt", SPOILT))
    assert there(folder) == damaged, "it stays where no better one is had"
    assert pull.whole(tar_gz(RELEASE)).damaged == (name,)


def test_a_folder_of_somebody_else_is_left_alone(pull: Pull) -> None:
    put(pull.place / EDITION, {"mine.txt": b"mine"})
    for record in (None, "{}"):
        if record is not None:
            (pull.place / EDITION / "install.json").write_text(record)
        with pytest.raises(UsageError, match=r"install\.json"):
            pull(tar_gz(RELEASE))
    assert (pull.place / EDITION / "mine.txt").read_bytes() == b"mine"


def test_one_pull_at_a_time_and_leftovers_of_a_killed_one_are_cleared(pull: Pull) -> None:
    pull.place.mkdir(parents=True)
    with FileLock(pull.place / f"{EDITION}.lock"):
        assert "another process" in pull.refusal(tar_gz(RELEASE))
    put(pull.place / f"{EDITION}.new", {"tree/data/one.jsonl": b"half"})
    put(pull.place / f"{EDITION}.old", {"data/one.jsonl": b"old"})
    pull.whole(tar_gz(RELEASE))


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
            assert all(any(matches(pin, pattern) for pin in release.pins) for pattern in release.required)


REAL = ["mbbq", "bbq", "esbbq", "cabbq", "kobbq", "bharatbbq", "gg_bbq", "basqbbq", "cbbq", "pakbbq", "bbg", "bbq_lite"]


@pytest.mark.parametrize("name", REAL)
def test_the_published_files_are_the_pinned_ones(shared_datasets: Path, tmp_path: Path, name: str) -> None:
    release = shipped_catalogue().find(name)
    source = shared_datasets / {"gg_bbq": "gg-bbq"}.get(release.name, release.name)
    source = source if source.is_dir() else shared_datasets / "more" / f"{release.name}.tar.xz"
    if name == "bbq_lite":  # kept without the folders of its package
        with tarfile.open(source) as archive:
            text = known(archive.extractfile("bbq_lite/SES.json")).read()
        source = put(tmp_path / "bigbench", {"bbq_lite/resources/SES.json": text})
    done = install_release(name, str(source), tmp_path)
    assert {file.path for file in done.record.files} == set(release.pins)
    assert all(file.pinned for file in done.record.files)
    assert set(done.missing) == set(release.unpinned)
    assert installed_folder(name, tmp_path) == Path(done.folder)
    language = BENCHMARKS[name].languages[0]
    first = next(load_benchmark(name, data=Path(done.folder), languages=[language], splits=["bias"]))
    assert first.benchmark == name


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


def test_the_table_is_what_the_published_files_are(shared_datasets: Path) -> None:
    listed = json.loads((shared_datasets / "MANIFEST.json").read_text(encoding="utf-8"))
    for release in shipped_catalogue().release:
        folder = FOLDERS.get(release.name, release.name)
        known = {
            file["path"].removeprefix(f"{folder}/"): (file["bytes"], file["sha256"])
            for file in listed["files"]
            if file["path"].startswith(f"{folder}/") and file["note"] != MADE_HERE
        }
        wanted = {path: content for path, content in known.items() if not path.startswith(NOT_TAKEN)}
        top = "bbq_lite/resources/" if release.name == "bbq_lite" else ""
        assert {pin.path.removeprefix(top): (pin.size, pin.sha256) for pin in release.files} == wanted
        if release.commit:
            assert listed["datasets"][folder]["commit"] == release.commit
        if release.commit and not release.archive:
            assert release.repository == f"https://github.com/{listed['datasets'][folder]['repo']}"
