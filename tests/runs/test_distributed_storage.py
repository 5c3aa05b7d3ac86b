from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mbbq_gen.core.errors import RunError, UsageError
from mbbq_gen.core.records import Response
from mbbq_gen.providers.base import is_installed
from mbbq_gen.runs.distributed.storage import ResponseShards
from tests.support.cases import cases
from tests.support.extraction import Capture, call, stderr_of
from tests.support.stores import change, rows

AT = "2026-01-01T00:00:00.000+00:00"
needs_s3 = pytest.mark.skipif(
    not (is_installed("moto") and is_installed("flask") and is_installed("s3fs")),
    reason="needs moto[server] and s3fs: pip install -e '.[dev]'",
)


@pytest.fixture(scope="module")
def server() -> Iterator[dict[str, str]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "synthetic",
            "AWS_SECRET_ACCESS_KEY": "synthetic",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def bucket(server: dict[str, str], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    import fsspec

    for name, value in server.items():
        monkeypatch.setenv(name, value)
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name.lower())[:50].strip("-")
    fsspec.filesystem("s3", skip_instance_cache=True).mkdir(name)
    return f"s3://{name}"


@pytest.fixture(params=["folder", "file", pytest.param("s3", marks=needs_s3)])
def name(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "s3":
        return f"{request.getfixturevalue('bucket')}/runs/one"
    path = tmp_path / "with space" / "shards"
    return str(path) if request.param == "folder" else path.as_uri()


def test_shards_are_the_same_in_every_place(name: str) -> None:
    shards = ResponseShards(name)
    assert not shards.is_there()
    shards.claim("now")
    assert shards.is_there()
    answers = [(Response(request_key="a", text="হ্যাঁ\n", finish_reason="stop"), AT)]
    shard = shards.write("0" * 16, answers)
    assert ResponseShards(name).read(shard) == answers
    assert (shards.names(), shards.names("0" * 16), shards.names("1" * 16)) == ([shard], [shard], [])
    shards.clear_parts()
    ResponseShards(name).claim("now")
    with pytest.raises(UsageError, match="another run"):
        ResponseShards(name).claim("later")
    shards.put(shard, shards.get(shard)[:-1])
    with pytest.raises(RunError, match="damaged"):
        shards.read(shard)
    with pytest.raises(RunError, match="can't read"):
        shards.read("never there")


@pytest.mark.parametrize(("address", "kind", "says"), cases("runs/distributed_storage", "what_can_not_be_used_is_said"))
def test_what_can_not_be_used_is_said(address: str, kind: str, says: str) -> None:
    if is_installed("ossfs") and "oss:" in address:
        pytest.skip("ossfs is installed")
    with pytest.raises(UsageError, match=says) as caught:
        ResponseShards(address)
    assert type(caught.value).__name__ == kind
    assert "secret" not in str(caught.value)


@needs_s3
@pytest.mark.slow
@pytest.mark.skipif(not is_installed("ray"), reason="needs the extra: pip install 'mbbq-gen[ray]'")
def test_workers_write_to_object_storage(capsys: Capture, tmp_path: Path, bucket: str) -> None:
    script = tmp_path / "answers.jsonl"
    script.write_text("".join(json.dumps({"response": text}) + "\n" for text in "ABC"), encoding="utf-8")
    given = ["--model", f"scripted:{script}", "--benchmark", "starter", "--languages", "en"]
    given += ["--sample", "200", "--json"]
    plain, spread = tmp_path / "plain", tmp_path / "spread"
    assert call(capsys, "run", plain, *given)[0] == 0
    words = ["run", spread, *given, "--ray", "local", "--workers", "2", "--shard-dir", f"{bucket}/run"]
    command = [sys.executable, "-m", "mbbq_gen", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert texts(spread) == texts(plain)
    assert not (spread / "worker-shards").exists()
    shards = ResponseShards(f"{bucket}/run")
    kept = [answer.request_key for shard in shards.names() for answer, _ in shards.read(shard)]
    assert sorted(kept) == sorted(texts(plain))
    change(spread, "DELETE FROM responses WHERE request_key IN (SELECT request_key FROM responses LIMIT 90)")
    assert "90 answers were in shards already" in stderr_of(capsys, "run", spread, "--json", code=0)
    assert texts(spread) == texts(plain)


def texts(run: Path) -> dict[str, str]:
    return dict(rows(run, "SELECT request_key, json_extract(record, '$.text') FROM responses"))
