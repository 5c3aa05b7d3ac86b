"""The fake server's files and batches, as OpenAI and Anthropic have them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from mbbq_gen.fake_server.asked import FailureError
from mbbq_gen.fake_server.batches.files import parse_form
from mbbq_gen.fake_server.batches.openai import read_lines
from mbbq_gen.fake_server.client import FakeServer
from tests.fake_servers import fake_server
from tests.test_fake_server import Answer, send

CHAT = "/v1/chat/completions"


def line(number: int, **changes: Any) -> dict[str, Any]:
    body = {"model": "m", "messages": [{"role": "user", "content": f"Question {number}"}], "max_tokens": 4}
    return {"custom_id": f"r{number}", "method": "POST", "url": CHAT, "body": {**body, **changes}}


def upload(server: FakeServer, rows: Iterable[Mapping[str, Any]]) -> Answer:
    content = "".join(json.dumps(row) + "\n" for row in rows)
    form = (
        '--b0undary\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        '--b0undary\r\nContent-Disposition: form-data; name="file"; filename="in.jsonl"\r\n'
        f"Content-Type: application/jsonl\r\n\r\n{content}\r\n--b0undary--\r\n"
    )
    kind = 'multipart/form-data; boundary="b0undary"'
    return send(server, "POST", "/v1/files", form.encode(), content_type=kind)


def create(server: FakeServer, rows: Iterable[Mapping[str, Any]]) -> Any:
    body = {
        "input_file_id": upload(server, rows).json["id"],
        "endpoint": CHAT,
        "completion_window": "24h",
        "metadata": {"name": "part 1"},
    }
    return send(server, "POST", "/v1/batches", body).json


def show(server: FakeServer, batch: Any) -> Any:
    return send(server, "GET", f"/v1/batches/{batch['id']}").json


def content(server: FakeServer, file_id: str | None) -> dict[str, Any]:
    """The rows of a batch's file, by custom id."""
    if file_id is None:
        return {}
    rows = [json.loads(row) for row in send(server, "GET", f"/v1/files/{file_id}/content").body.splitlines()]
    assert len({row["custom_id"] for row in rows}) == len(rows)
    return {row["custom_id"]: row for row in rows}


# --- OpenAI ----------------------------------------------------------------------------------------------------------


def test_a_batch_from_file_to_answers() -> None:
    with fake_server() as server:
        made = create(server, map(line, range(30)))
        assert (made["status"], made["metadata"]) == ("validating", {"name": "part 1"})
        found = show(server, made)
        assert found["status"] == "completed"
        assert found["request_counts"] == {"total": 30, "completed": 30, "failed": 0}
        assert found["error_file_id"] is None
        rows = content(server, found["output_file_id"])
        assert set(rows) == {f"r{number}" for number in range(30)}
        assert list(rows) != sorted(rows, key=lambda name: int(name[1:])), "answers come in any order"
        assert all(row["response"]["status_code"] == 200 for row in rows.values())
        assert rows["r7"]["response"]["body"]["choices"][0]["message"]["content"] == "A"
        assert server.count([("user", "Question 7")]).paid == 1
        assert (server.stats().paid, server.stats().requests, server.stats().batches) == (30, 0, 1)


def test_a_batch_takes_its_time_and_can_be_cancelled() -> None:
    now = [0.0]
    with fake_server({"batches": {"delay_s": 30}}, clock=lambda: now[0]) as server:
        made = create(server, map(line, range(3000)))
        now[0] += 10
        found = show(server, made)
        assert found["status"] == "in_progress"
        done = found["request_counts"]["completed"]
        assert 0 < done < 1500
        assert found["output_file_id"] is None
        assert send(server, "POST", f"/v1/batches/{made['id']}/cancel").json["status"] == "cancelling"
        found = show(server, made)
        assert found["status"] == "cancelled"
        kept = len(content(server, found["output_file_id"]))
        assert done <= kept < 1500
        assert server.stats().paid == kept
        assert send(server, "POST", f"/v1/batches/{made['id']}/cancel").status == 409


def test_a_part_of_a_batch_fails_and_another_is_left_undone() -> None:
    with fake_server({"batches": {"failed": 0.2, "expired": 0.3, "most_per_request": 1}}) as server:
        found = show(server, create(server, map(line, range(200))))
        assert found["status"] == "expired"
        answers, failures = content(server, found["output_file_id"]), content(server, found["error_file_id"])
        assert not answers.keys() & failures.keys()
        assert len(answers) + len(failures) == 200
        undone = {name for name, row in failures.items() if row["response"] is None}
        assert {failures[name]["error"]["code"] for name in undone} == {"batch_expired"}
        failed = failures.keys() - undone
        assert {failures[name]["response"]["status_code"] for name in failed} == {500}
        assert 25 < len(failed) < 55
        assert 45 < len(undone) < 75
        again = show(server, create(server, (line(int(name[1:])) for name in failures)))
        assert again["status"] == "completed"
        assert content(server, again["output_file_id"]).keys() == failures.keys()
        assert (server.stats().paid, server.stats().paid_again) == (200, 0)


def test_rows_fail_as_requests_do() -> None:
    with fake_server({"access": {"models": ["m"], "refused_parameters": ["temperature"]}}) as server:
        found = show(server, create(server, [line(0), line(1, temperature=0)]))
        assert found["status"] == "completed"
        failures = content(server, found["error_file_id"])
        assert failures["r1"]["response"]["status_code"] == 400
        assert failures["r1"]["response"]["body"]["error"]["param"] == "temperature"
        found = show(server, create(server, [line(0, model="n")]))
        assert content(server, found["error_file_id"])["r0"]["response"]["status_code"] == 404


@pytest.mark.parametrize(
    ("rows", "code", "place"),
    [
        ([line(0), {"custom_id": "x"}], "invalid_json_line", 2),
        ([line(0), line(0)], "duplicate_custom_id", 2),
        ([{**line(0), "url": "/v1/responses"}], "mismatched_endpoint", 1),
        ([line(0), line(1, model="n")], "mismatched_model", None),
        ([line(0), line(1), line(2)], "too_many_tasks", None),
        ([], "empty_file", None),
    ],
)
def test_a_wrong_file_fails_at_validation(rows: list[Any], code: str, place: int | None) -> None:
    with fake_server({"batches": {"max_requests": 2}}) as server:
        found = show(server, create(server, rows))
        assert found["status"] == "failed"
        assert (found["errors"]["data"][0]["code"], found["errors"]["data"][0]["line"]) == (code, place)
        assert server.stats().paid == 0


def test_lines_that_are_no_json_are_told() -> None:
    requests, errors = read_lines(b'{"custom_id"\n', CHAT, 10)
    assert requests == []
    assert [error["line"] for error in errors if isinstance(error, dict)] == [1]


def test_batches_are_listed_the_newest_first() -> None:
    with fake_server() as server:
        made = [create(server, [line(number)])["id"] for number in range(5)]
        first = send(server, "GET", "/v1/batches?limit=2").json
        assert [batch["id"] for batch in first["data"]] == [made[4], made[3]]
        assert first["has_more"] is True
        rest = send(server, "GET", f"/v1/batches?limit=20&after={first['last_id']}").json
        assert [batch["id"] for batch in rest["data"]] == [made[2], made[1], made[0]]
        assert rest["has_more"] is False
        assert [batch["metadata"] for batch in rest["data"]] == [{"name": "part 1"}] * 3
        assert send(server, "GET", "/v1/batches?limit=x").status == 400
        assert send(server, "GET", "/v1/batches/batch_none").status == 404


def test_files_are_kept_and_deleted() -> None:
    with fake_server({"batches": {"max_bytes": 500}}) as server:
        found = upload(server, [line(0)]).json
        assert (found["purpose"], found["filename"]) == ("batch", "in.jsonl")
        kept = send(server, "GET", f"/v1/files/{found['id']}/content").body
        assert (json.loads(kept), len(kept)) == (line(0), found["bytes"])
        assert [entry["id"] for entry in send(server, "GET", "/v1/files").json["data"]] == [found["id"]]
        assert send(server, "DELETE", f"/v1/files/{found['id']}").json["deleted"] is True
        assert send(server, "GET", f"/v1/files/{found['id']}").status == 404
        assert upload(server, map(line, range(20))).status == 413
        assert send(server, "POST", "/v1/files", b"{}", content_type="application/json").status == 400


def test_forms_keep_bytes_as_they_are() -> None:
    content = bytes(range(256)) + b"\r\n--other\r\n"
    body = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a b"\r\n\r\n' + content + b"\r\n--x--"
    parts = parse_form({"content-type": "multipart/form-data; boundary=x"}, body)
    assert (parts["file"].content, parts["file"].filename) == (content, "a b")
    with pytest.raises(FailureError):
        parse_form({"content-type": "multipart/form-data"}, body)


def test_a_batch_may_be_made_although_its_reply_is_lost() -> None:
    with fake_server() as server:
        body = {"endpoint": CHAT, "completion_window": "24h", "input_file_id": upload(server, [line(0)]).json["id"]}
        server.change({"faults": {"lost": 1, "routes": "all", "most_per_request": 1}})
        with pytest.raises(ConnectionError):
            send(server, "POST", "/v1/batches", body)
        server.change({"faults": {"lost": 0}})
        assert len(send(server, "GET", "/v1/batches").json["data"]) == 1
        assert server.stats().by_fault == {"lost": 1}
        server.change({"faults": {"rate_limited": 1}})
        reply = send(server, "POST", "/v1/batches", {**body, "metadata": {}})
        assert (reply.status, reply.headers["retry-after"]) == (429, "1")
        assert server.stats().batches == 1


def test_batches_may_be_rejected() -> None:
    with fake_server({"batches": {"rejected": 1}}) as server:
        assert show(server, create(server, [line(0)]))["status"] == "failed"


# --- Anthropic -------------------------------------------------------------------------------------------------------


def entry(number: int, **changes: Any) -> dict[str, Any]:
    return {"custom_id": f"r{number}", "params": {**line(number)["body"], **changes}}


def submit(server: FakeServer, rows: Iterable[Any]) -> Any:
    return send(server, "POST", "/v1/messages/batches", {"requests": list(rows)}, host="here:1").json


def results(server: FakeServer, batch: Any) -> dict[str, Any]:
    found = send(server, "GET", f"/v1/messages/batches/{batch['id']}/results")
    assert found.status == 200
    return {row["custom_id"]: row["result"] for row in map(json.loads, found.body.splitlines())}


def test_message_batches() -> None:
    with fake_server() as server:
        made = submit(server, map(entry, range(20)))
        assert (made["processing_status"], made["request_counts"]["processing"]) == ("in_progress", 20)
        found = send(server, "GET", f"/v1/messages/batches/{made['id']}", host="here:1").json
        assert (found["processing_status"], found["request_counts"]["succeeded"]) == ("ended", 20)
        assert found["results_url"] == f"http://here:1/v1/messages/batches/{made['id']}/results"
        rows = results(server, made)
        assert set(rows) == {f"r{number}" for number in range(20)}
        assert rows["r3"]["message"]["content"] == [{"type": "text", "text": "A"}]
        listed = send(server, "GET", "/v1/messages/batches?limit=1").json
        assert [batch["id"] for batch in listed["data"]] == [made["id"]]


def test_message_batches_that_do_not_go_well() -> None:
    with fake_server({"batches": {"failed": 0.3, "expired": 0.3}}) as server:
        made = submit(server, map(entry, range(60)))
        found = send(server, "GET", f"/v1/messages/batches/{made['id']}").json
        kinds = [result["type"] for result in results(server, made).values()]
        counts = {name: kinds.count(name) for name in ("succeeded", "errored", "expired", "canceled")}
        assert found["request_counts"] == {**counts, "processing": 0}
        assert counts["canceled"] == 0
        assert all(counts[name] > 5 for name in ("succeeded", "errored", "expired"))
        errored = next(result for result in results(server, made).values() if result["type"] == "errored")
        assert errored["error"]["error"]["type"] == "api_error"


def test_message_batches_are_cancelled() -> None:
    with fake_server({"batches": {"delay_s": 600}}) as server:
        made = submit(server, map(entry, range(4)))
        path = f"/v1/messages/batches/{made['id']}"
        assert send(server, "GET", f"{path}/results").status == 404
        assert send(server, "DELETE", path).status == 400
        assert send(server, "POST", f"{path}/cancel").json["processing_status"] == "canceling"
        assert send(server, "GET", path).json["request_counts"]["canceled"] == 4
        assert {result["type"] for result in results(server, made).values()} == {"canceled"}
        assert send(server, "DELETE", path).json["type"] == "message_batch_deleted"


@pytest.mark.parametrize(
    "rows", [[], [{}], [entry(0), entry(0)], [{**entry(0), "custom_id": "a b"}], [entry(0), entry(1), entry(2)]]
)
def test_wrong_message_batches_are_refused(rows: list[Any]) -> None:
    with fake_server({"batches": {"max_requests": 2}}) as server:
        reply = send(server, "POST", "/v1/messages/batches", {"requests": rows})
        assert (reply.status, reply.json["error"]["type"]) == (400, "invalid_request_error")
        assert server.stats().batches == 0
