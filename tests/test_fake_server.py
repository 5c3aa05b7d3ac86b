"""The fake server over real sockets: HTTP as clients speak it, the shapes of the APIs, faults, limits, counts."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbbq_gen.errors import UsageError
from mbbq_gen.fake_server.client import FakeServer
from mbbq_gen.fake_server.faults import Fate, chance, draw
from mbbq_gen.fake_server.limits import Bucket
from mbbq_gen.fake_server.running import serving
from mbbq_gen.fake_server.scenario import changes_of, read_scenario
from mbbq_gen.fake_server.service import FakeService
from tests.fake_servers import fake_server

QUESTION = {"model": "m", "messages": [{"role": "user", "content": "Who was it?"}], "max_tokens": 8}


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def send(server: FakeServer, method: str, path: str, body: Any = None, **headers: str) -> Answer:
    parts = urlsplit(server.root)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=600)
    try:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body=data, headers=named)
        reply = connection.getresponse()
        return Answer(reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read())
    finally:
        connection.close()


def ask(server: FakeServer, text: str = "Who was it?", **changes: Any) -> Answer:
    body = {**QUESTION, "messages": [{"role": "user", "content": text}], **changes}
    return send(server, "POST", "/v1/chat/completions", body)


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    with fake_server() as found:
        yield found


# --- HTTP ------------------------------------------------------------------------------------------------------------


def exchange(server: FakeServer, pieces: list[bytes], *, until_closed: bool = True) -> bytes:
    """What comes back for bytes sent piece by piece on one connection."""
    parts = urlsplit(server.root)
    with socket.create_connection((parts.hostname, parts.port), timeout=600) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            connection.sendall(piece)
        if not until_closed:
            return connection.recv(65536)
        found = b""
        while piece := connection.recv(65536):
            found += piece
        return found


def raw(body: bytes, *headers: str, last: bool = True) -> bytes:
    lines = ["POST /v1/chat/completions HTTP/1.1", "Host: x", *headers, *(["Connection: close"] if last else [])]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@given(cuts=st.lists(st.integers(0, 400), max_size=4))
@settings(max_examples=25)
def test_requests_may_come_in_any_pieces(cuts: list[int]) -> None:
    body = json.dumps(QUESTION).encode()
    chunks = b"%x\r\n%b\r\n%x;why=not\r\n%b\r\n0\r\n\r\n" % (10, body[:10], len(body) - 10, body[10:])
    for whole in (raw(body, f"Content-Length: {len(body)}"), raw(chunks, "Transfer-Encoding: chunked")):
        places = sorted({0, *(cut for cut in cuts if cut < len(whole)), len(whole)})
        pieces = [whole[start:end] for start, end in pairwise(places)]
        reply = exchange(_SHARED, pieces)
        assert reply.startswith(b"HTTP/1.1 200 OK\r\n")
        assert json.loads(reply.partition(b"\r\n\r\n")[2])["choices"][0]["message"]["content"] == "A"


_SHARED: FakeServer = FakeServer("")


@pytest.fixture(autouse=True)
def _share(server: FakeServer) -> None:
    """Hypothesis takes no fixtures: the module's server stands where the property finds it."""
    globals()["_SHARED"] = server


def test_a_connection_takes_one_request_after_another(server: FakeServer) -> None:
    body = json.dumps(QUESTION).encode()
    first = raw(body, f"Content-Length: {len(body)}", last=False)
    reply = exchange(server, [first + first + raw(body, f"Content-Length: {len(body)}")])
    assert reply.count(b"HTTP/1.1 200 OK") == 3


def test_a_client_may_wait_for_leave_to_send(server: FakeServer) -> None:
    found = exchange(server, [raw(b"", "Content-Length: 5", "Expect: 100-continue")], until_closed=False)
    assert found.startswith(b"HTTP/1.1 100 Continue\r\n")


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"nonsense\r\n\r\n",
        raw(b"", "Content-Length: -1"),
        raw(b"", "Content-Length: 99999999999"),
        raw(b"zz\r\n", "Transfer-Encoding: chunked"),
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000,
    ],
)
def test_what_is_no_http_is_refused(server: FakeServer, request_bytes: bytes) -> None:
    assert exchange(server, [request_bytes]).startswith(b"HTTP/1.1 400")


# --- shapes ----------------------------------------------------------------------------------------------------------


def test_openai_chat(server: FakeServer) -> None:
    reply = ask(server)
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["x-request-id"].startswith("req_")
    found = reply.json
    assert (found["object"], found["model"], len(found["choices"])) == ("chat.completion", "m", 1)
    assert found["choices"][0]["message"] == {"role": "assistant", "content": "A", "refusal": None, "annotations": []}
    assert found["choices"][0]["finish_reason"] == "stop"
    usage = found["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 0


def test_openai_responses(server: FakeServer) -> None:
    body = {"model": "m", "instructions": "Be brief.", "input": [{"role": "user", "content": "Who was it?"}]}
    found = send(server, "POST", "/v1/responses", body).json
    assert (found["object"], found["status"], found["incomplete_details"]) == ("response", "completed", None)
    assert found["output"][-1]["content"][0] == {"type": "output_text", "text": "A", "annotations": [], "logprobs": []}
    assert server.count([("system", "Be brief."), ("user", "Who was it?")]).paid >= 1


def test_azure_names_the_model_in_the_path(server: FakeServer) -> None:
    path = "/openai/deployments/mine/chat/completions?api-version=2024-10-21"
    found = send(server, "POST", path, {"messages": QUESTION["messages"]}, api_key="any").json
    assert found["model"] == "mine"
    assert found["prompt_filter_results"][0]["content_filter_results"]["hate"] == {
        "filtered": False,
        "severity": "safe",
    }
    assert found["choices"][0]["content_filter_results"]["violence"]["filtered"] is False


def test_anthropic_messages(server: FakeServer) -> None:
    body = {
        **QUESTION,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "?"}]}],
    }
    reply = send(server, "POST", "/v1/messages", body, x_api_key="any", anthropic_version="2023-06-01")
    found = reply.json
    assert reply.headers["request-id"].startswith("req_")
    assert (found["type"], found["stop_reason"]) == ("message", "end_turn")
    assert found["content"] == [{"type": "text", "text": "A"}]
    assert found["usage"]["output_tokens"] == 1
    assert server.count([("system", "Be brief."), ("user", "?")]).paid == 1


def test_gemini_content(server: FakeServer) -> None:
    body = {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [{"role": "user", "parts": [{"text": "Who"}, {"text": "?"}]}],
        "generationConfig": {"maxOutputTokens": 5},
    }
    found = send(server, "POST", "/v1beta/models/g:generateContent", body, x_goog_api_key="any").json
    assert found["candidates"][0]["content"] == {"role": "model", "parts": [{"text": "A"}]}
    assert found["candidates"][0]["finishReason"] == "STOP"
    assert found["modelVersion"] == "g"
    for version in ("v1", "v1alpha"):
        again = send(server, "POST", f"/{version}/models/g:generateContent", body).json
        assert again["candidates"] == found["candidates"]
    assert server.count([("system", "Be brief."), ("user", "Who?")]).paid == 3


def test_models_are_listed(server: FakeServer) -> None:
    assert [model["id"] for model in send(server, "GET", "/v1/models").json["data"]] == ["fake-model"]
    assert send(server, "GET", "/v1/models", anthropic_version="2023-06-01").json["data"][0]["type"] == "model"
    assert send(server, "GET", "/v1beta/models").json["models"][0]["name"] == "models/fake-model"
    assert send(server, "GET", "/v1/models/any").json["id"] == "any"
    with fake_server({"access": {"models": ["one", "two"]}}) as other:
        assert [model["id"] for model in send(other, "GET", "/v1/models").json["data"]] == ["one", "two"]
        assert send(other, "GET", "/v1/models/three").status == 404


def test_an_unknown_address_says_so(server: FakeServer) -> None:
    found = send(server, "POST", "/v1/completions", QUESTION)
    assert found.status == 404
    assert found.json["error"]["message"] == "unknown address: POST /v1/completions"


# --- what the client does wrong --------------------------------------------------------------------------------------

GEMINI = "/v1beta/models/m:generateContent"
ADDRESSES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": QUESTION,
    "/v1/responses": {"model": "m", "input": "Who was it?"},
    "/v1/messages": QUESTION,
    GEMINI: {"contents": [{"parts": [{"text": "Who was it?"}]}]},
}


@pytest.mark.parametrize("path", ADDRESSES)
@pytest.mark.parametrize("body", [b"{", b"[]", b"{}", b'{"model": "m", "messages": [], "input": [], "contents": []}'])
def test_a_wrong_body_is_an_error_of_the_client(server: FakeServer, path: str, body: bytes) -> None:
    found = send(server, "POST", path, body)
    assert found.status == 400
    assert found.json["error"]["message"]


def test_anthropic_needs_a_token_budget(server: FakeServer) -> None:
    found = send(server, "POST", "/v1/messages", {"model": "m", "messages": QUESTION["messages"]})
    assert (found.status, found.json["error"]["type"]) == (400, "invalid_request_error")
    assert "max_tokens" in found.json["error"]["message"]


@pytest.mark.parametrize(
    ("access", "path", "status", "told"),
    [
        ({"key": "right"}, "/v1/chat/completions", 401, {"code": "invalid_api_key"}),
        ({"key": "right"}, "/v1/messages", 401, {"type": "authentication_error"}),
        ({"key": "right"}, "/v1beta/models/m:generateContent", 400, {"status": "INVALID_ARGUMENT"}),
        ({"models": ["n"]}, "/v1/chat/completions", 404, {"code": "model_not_found"}),
        ({"models": ["n"]}, "/v1/messages", 404, {"type": "not_found_error"}),
        ({"models": ["n"]}, "/v1beta/models/m:generateContent", 404, {"status": "NOT_FOUND"}),
        ({"quota": 0}, "/v1/chat/completions", 429, {"code": "insufficient_quota", "type": "insufficient_quota"}),
        ({"quota": 0}, "/v1/messages", 400, {"type": "invalid_request_error"}),
        ({"quota": 0}, "/v1beta/models/m:generateContent", 429, {"status": "RESOURCE_EXHAUSTED"}),
    ],
)
def test_what_the_client_has_no_right_to(access: Any, path: str, status: int, told: dict[str, str]) -> None:
    with fake_server({"access": access}) as server:
        found = send(server, "POST", path, ADDRESSES[path], authorization="Bearer wrong")
        assert found.status == status
        assert told.items() <= found.json["error"].items()
        assert server.stats().paid == 0


def test_the_right_key_is_let_in() -> None:
    with fake_server({"access": {"key": "right"}}) as server:
        for path, header in (
            ("/v1/chat/completions", {"authorization": "Bearer right"}),
            ("/openai/deployments/m/chat/completions", {"api_key": "right"}),
            ("/v1/messages", {"x_api_key": "right"}),
            ("/v1beta/models/m:generateContent", {"x_goog_api_key": "right"}),
        ):
            body = ADDRESSES.get(path, QUESTION)
            assert send(server, "POST", path, body, **header).status == 200
            assert send(server, "POST", path, body).status in (400, 401)
        assert send(server, "GET", "/v1/models").status == 401
        assert send(server, "GET", "/v1/batches").status == 401


def test_refused_parameters_name_themselves() -> None:
    with fake_server({"access": {"refused_parameters": ["temperature", "max_tokens"]}}) as server:
        found = ask(server, temperature=0).json["error"]
        assert (found["param"], found["code"]) == ("temperature", "unsupported_value")
        found = ask(server).json["error"]
        assert (found["param"], found["code"]) == ("max_tokens", "unsupported_parameter")
        assert "'max_completion_tokens'" in found["message"]
        body = {"model": "m", "messages": QUESTION["messages"], "max_completion_tokens": 8}
        assert send(server, "POST", "/v1/chat/completions", body).status == 200


def test_a_quota_ends() -> None:
    with fake_server({"access": {"quota": 2}}) as server:
        assert [ask(server, str(number)).status for number in range(4)] == [200, 200, 429, 429]


# --- content ---------------------------------------------------------------------------------------------------------


def test_content_filters_and_refusals() -> None:
    with fake_server({"content": {"filtered_prompt": 1}}) as server:
        found = ask(server)
        assert (found.status, found.json["error"]["code"]) == (400, "content_filter")
        assert found.json["error"]["innererror"]["content_filter_result"]["hate"]["filtered"] is True
        blocked = send(server, "POST", GEMINI, ADDRESSES[GEMINI])
        assert (blocked.status, blocked.json["promptFeedback"]["blockReason"]) == (200, "SAFETY")
        assert "candidates" not in blocked.json

        server.change({"content": {"filtered_prompt": None, "filtered_answer": 1}})
        assert ask(server).json["choices"][0]["finish_reason"] == "content_filter"
        found = send(server, "POST", "/v1/messages", QUESTION)
        assert (found.json["stop_reason"], found.json["content"]) == ("refusal", [])
        found = send(server, "POST", "/v1/responses", ADDRESSES["/v1/responses"])
        assert found.json["incomplete_details"] == {"reason": "content_filter"}

        server.change({"content": {"filtered_answer": None, "refused": 1}})
        message = ask(server).json["choices"][0]["message"]
        assert message["content"] is None
        assert message["refusal"]

        server.change({"content": {"refused": None, "empty": 1}})
        found = ask(server).json
        assert (found["choices"][0]["message"]["content"], found["choices"][0]["finish_reason"]) == ("", "length")
        assert found["usage"]["completion_tokens_details"]["reasoning_tokens"] == 8
        assert send(server, "POST", "/v1/messages", QUESTION).json["stop_reason"] == "max_tokens"
        assert server.stats().by_verdict == {"filtered_prompt": 2, "filtered_answer": 3, "refused": 1, "empty": 2}


# --- faults ----------------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_faults() -> None:
    scenario = read_scenario({"seed": 5, "faults": {"rate_limited": 0.2, "cut": 0.1}}, "test")
    fate, again = Fate(scenario), Fate(scenario)
    met = [fate.fault(f"{number:032x}", 0) for number in range(4000)]
    assert met == [again.fault(f"{number:032x}", 0) for number in range(4000)]
    assert 700 < met.count("rate_limited") < 900
    assert 330 < met.count("cut") < 470
    other = Fate(read_scenario({"seed": 6, "faults": {"rate_limited": 0.2, "cut": 0.1}}, "test"))
    assert met != [other.fault(f"{number:032x}", 0) for number in range(4000)]


def test_faults_of_a_question_end() -> None:
    fate = Fate(read_scenario({"faults": {"rate_limited": 1, "most_per_request": 3}}, "test"))
    assert [fate.fault("0", attempt) for attempt in range(5)] == ["rate_limited"] * 3 + [None] * 2


def test_a_spread_latency_has_its_median() -> None:
    fate = Fate(read_scenario({"latency": {"seconds": 0.2, "spread": 0.5}}, "test"))
    delays = sorted(fate.delay_s(str(number), 0) for number in range(2001))
    assert delays[1000] == pytest.approx(0.2, rel=0.1)
    assert delays[1700] / delays[1000] == pytest.approx(2.718 ** (0.5 * 1.036), rel=0.1)


@given(st.dictionaries(st.sampled_from("abcd"), st.floats(0, 0.25)), st.floats(0, 0.9999))
def test_a_point_falls_in_one_share(shares: dict[str, float], point: float) -> None:
    name = draw(shares, point)
    before = 0.0
    for other, share in shares.items():
        if other == name:
            assert before - 1e-9 <= point < before + share + 1e-9
        before += share
    assert name is not None or point >= before - 1e-9
    assert 0 <= chance("x", point) < 1


def test_rate_limits_tell_when_to_come_back() -> None:
    with fake_server({"faults": {"rate_limited": 1, "retry_after_s": 2, "most_per_request": 99}}) as server:
        found = ask(server)
        assert (found.status, found.headers["retry-after"]) == (429, "2")
        found = send(server, "POST", GEMINI, ADDRESSES[GEMINI])
        assert found.json["error"]["details"][0]["retryDelay"] == "2s"
        assert server.stats().too_early == 1
        server.change({"faults": {"retry_after_form": "milliseconds"}})
        assert ask(server).headers["retry-after-ms"] == "2000"
        server.change({"faults": {"retry_after_form": "date"}})
        asked_at = time.time()
        told = parsedate_to_datetime(ask(server).headers["retry-after"]).timestamp()
        assert asked_at + 2 <= told, "whole seconds, rounded up: who obeys the date is not too early"
        assert told < time.time() + 3
        server.change({"faults": {"retry_after_form": "untold"}})
        assert not {"retry-after", "retry-after-ms"} & ask(server).headers.keys()
        server.change({"faults": {"rate_limited": 0}})
        assert ask(server).status == 200


def test_server_errors_have_the_statuses_that_are_named() -> None:
    with fake_server({"faults": {"server_error": 1, "server_statuses": [503, 529]}}) as server:
        assert {ask(server, str(number)).status for number in range(12)} == {503, 529}
        send(server, "POST", "/v1/messages", QUESTION)
        assert server.stats().paid == 0


def test_broken_answers() -> None:
    with fake_server({"faults": {"cut": 1, "most_per_request": 99}}) as server:
        with pytest.raises(http.client.IncompleteRead):
            ask(server)
        server.change({"faults": {"cut": 0, "lost": 1}})
        with pytest.raises(http.client.RemoteDisconnected):
            ask(server)
        server.change({"faults": {"lost": 0, "drop": 1}})
        with pytest.raises(http.client.RemoteDisconnected):
            ask(server)
        server.change({"faults": {"drop": 0, "malformed": 1}})
        found = ask(server)
        with pytest.raises(json.JSONDecodeError):
            assert found.json
        server.change({"faults": {"malformed": 0, "slow": 1, "slow_s": 0.2}})
        before = time.monotonic()
        assert ask(server).json["object"] == "chat.completion"
        assert time.monotonic() - before > 0.18
        stats = server.stats()
        assert stats.by_fault == {"cut": 1, "lost": 1, "drop": 1, "malformed": 1, "slow": 1}
        assert (stats.requests, stats.answered, stats.paid, stats.in_flight) == (5, 1, 4, 0)


def test_an_answer_that_never_comes() -> None:
    with fake_server({"faults": {"hang": 1}}) as server:
        parts = urlsplit(server.root)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=0.2)
        connection.request("POST", "/v1/chat/completions", json.dumps(QUESTION))
        with pytest.raises(TimeoutError):
            connection.getresponse()
        assert server.stats().in_flight == 1
        connection.close()
        wait_until(lambda: server.stats().in_flight == 0)
        assert server.stats().answered == 0


def wait_until(condition: Any, seconds: float = 600) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.01)


# --- limits ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(1, 30)), max_size=40))
def test_a_bucket_never_gives_more_than_its_rate(steps: list[tuple[float, int]]) -> None:
    bucket, now, taken = Bucket(600, 2.0, 0.0), 0.0, 0  # ten a second, twenty at once
    for pause, amount in steps:
        now += pause
        wait = bucket.wait_s(amount, now)
        assert wait >= 0
        if wait == 0:
            bucket.take(amount)
            taken += min(amount, 20)
        else:
            later = now + wait + 1e-6
            assert Bucket.wait_s(bucket, amount, later) == pytest.approx(0, abs=1e-6)
            now = later
        assert taken <= 20 + 10 * now + 1e-6


def test_requests_a_minute_are_enforced_and_told() -> None:
    with fake_server({"limits": {"rpm": 60, "burst_s": 3}}) as server:
        found = [ask(server, str(number)) for number in range(5)]
        assert [reply.status for reply in found] == [200, 200, 200, 429, 429]
        assert [found[number].headers["x-ratelimit-remaining-requests"] for number in range(3)] == ["2", "1", "0"]
        assert found[0].headers["x-ratelimit-limit-requests"] == "60"
        assert 0 < float(found[3].headers["retry-after"]) <= 1
        found[0] = send(server, "POST", "/v1/messages", QUESTION)
        assert found[0].headers["anthropic-ratelimit-requests-limit"] == "60"
        assert found[0].json["error"]["type"] == "rate_limit_error"
        assert server.stats().by_fault == {"pace": 3}


def test_tokens_a_minute_count_what_is_reserved() -> None:
    with fake_server({"limits": {"tpm": 1000}}) as server:
        assert ask(server, max_tokens=900).status == 200
        refused = ask(server, max_tokens=900)
        assert refused.status == 429
        assert refused.headers["x-ratelimit-limit-tokens"] == "1000"


def test_too_many_at_the_same_time_are_refused() -> None:
    with fake_server({"limits": {"concurrency": 2}, "latency": {"seconds": 0.4}}) as server:
        statuses: list[int] = []
        threads = [threading.Thread(target=lambda: statuses.append(ask(server).status)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(statuses) == [200, 200, 429, 429]


# --- settings and counts ---------------------------------------------------------------------------------------------


def test_settings_change_while_it_runs() -> None:
    with fake_server({"seed": 3}) as server:
        found = send(server, "PATCH", "/admin/scenario", {"answers": {"fixed": "B"}}).json
        assert (found["seed"], found["answers"]["fixed"]) == (3, "B")
        assert ask(server).json["choices"][0]["message"]["content"] == "B"
        found = send(server, "PUT", "/admin/scenario", {"answers": {"unrecognised": "echo"}}).json
        assert (found["seed"], found["answers"]["fixed"]) == (0, "A")
        assert ask(server).json["choices"][0]["message"]["content"] == "Who was it?"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"faults": {"cutt": 1}}, "faults.cutt: unknown key"),
        ({"faults": {"cut": 2}}, "faults.cut"),
        ({"faults": {"cut": 0.6, "drop": 0.6}}, "above 1"),
        ({"answers": {"oracle": "perfekt"}}, "did you mean 'perfect'"),
    ],
)
def test_wrong_settings_are_told_and_change_nothing(server: FakeServer, change: Any, told: str) -> None:
    before = send(server, "GET", "/admin/scenario").json
    found = send(server, "PATCH", "/admin/scenario", change)
    assert found.status == 400
    assert told in found.json["error"]["message"]
    assert send(server, "GET", "/admin/scenario").json == before


def test_counts_by_question() -> None:
    with fake_server({"faults": {"rate_limited": 0.5, "retry_after_s": 0, "most_per_request": 1}}) as server:
        texts = [f"Question {number}" for number in range(20)]
        refused = [text for text in texts if ask(server, text).status == 429]
        for text in refused:
            assert ask(server, text).status == 200
        assert 0 < len(refused) < 20
        for text in texts:
            count = server.count([("user", text)])
            assert (count.asked, count.paid) == (1 + (text in refused), 1)
        stats = server.stats()
        assert (stats.requests, stats.answered, stats.distinct, stats.paid_again) == (20 + len(refused), 20, 20, 0)
        assert stats.by_status == {"200": 20, "429": len(refused)}
        assert len(server.counts()) == 20
        server.reset()
        assert server.stats().requests == 0
        assert server.counts() == []


def test_an_answer_that_nobody_waits_for_is_paid() -> None:
    with fake_server({"latency": {"seconds": 5}}) as server:
        parts = urlsplit(server.root)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
        connection.request("POST", "/v1/chat/completions", json.dumps(QUESTION))
        wait_until(lambda: server.stats().in_flight == 1)
        connection.close()
        wait_until(lambda: server.stats().in_flight == 0)
        stats = server.stats()
        assert (stats.paid, stats.answered, stats.abandoned) == (1, 0, 1)


def test_settings_by_dotted_names() -> None:
    assert changes_of({"faults.cut": 0.5, "faults.drop": 0, "seed": 2}) == {
        "faults": {"cut": 0.5, "drop": 0},
        "seed": 2,
    }


def test_a_port_that_is_taken_is_told(server: FakeServer) -> None:
    port = urlsplit(server.root).port or 0
    service = FakeService(read_scenario({}, "test"))
    with pytest.raises(UsageError, match=f"can't listen at 127.0.0.1:{port}.*--port"), serving(service, port=port):
        pass
