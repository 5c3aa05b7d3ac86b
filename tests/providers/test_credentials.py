from __future__ import annotations

import base64
import json
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbbq_gen.cli.main import run_command_line
from mbbq_gen.core.errors import MbbqGenError
from mbbq_gen.providers.api.provider import ApiProvider
from mbbq_gen.providers.http.credentials import HIDDEN, SecretRedactor, hide_lookalikes, redact_input
from tests.support.api import KEY, answer, answering, ask, provider, requests, spoken
from tests.support.cases import cases, read_data

pytestmark = pytest.mark.usefixtures("api_keys")

ODD_KEY = 'k+/=&"\\é 0123456789'
"""What every encoding has to change."""


def escaped(text: str) -> str:
    return "".join(f"\\u{ord(letter):04x}" for letter in text)


FORMS: dict[str, Callable[[str], str]] = {
    "plain": lambda key: key,
    "percent": lambda key: urllib.parse.quote(key, safe=""),
    "percent, small letters": lambda key: urllib.parse.quote(key, safe="").lower(),
    "form": urllib.parse.quote_plus,
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "base64 of a header": lambda key: base64.b64encode(f"Bearer {key}".encode()).decode(),
    "base64 of a user": lambda key: base64.b64encode(f"me:{key}".encode()).decode(),
    "base64 for addresses": lambda key: base64.urlsafe_b64encode(f"x{key}".encode()).decode(),
    "cut off": lambda key: key[: len(key) * 2 // 3],
}


def leaks(text: str, key: str) -> list[str]:
    found = []
    for name, form in FORMS.items():
        written = form(key)
        middle = written[len(written) // 4 : -(len(written) // 4)]
        if middle in text:
            found.append(name)
    return found


@pytest.mark.parametrize("key", [KEY, ODD_KEY, "AIzaSyA-0123456789_abcdefghijklmnop", "0123456789abcdef" * 2])
@pytest.mark.parametrize("name", FORMS)
def test_a_key_is_hidden_in_every_form(name: str, key: str) -> None:
    text = f"the key <{FORMS[name](key)}> is wrong"
    mask = SecretRedactor([key])
    assert leaks(mask.text(text), key) == []
    assert leaks(mask.body(text.encode()).decode(), key) == []
    assert mask.text(text).startswith("the key <")
    assert HIDDEN in mask.text(text)


@pytest.mark.parametrize("key", [KEY, 'k/"\\0123456789'])
@pytest.mark.parametrize("body", cases("providers/credentials", "json_may_write_it_with_escapes"))
def test_json_may_write_it_with_escapes(key: str, body: str) -> None:
    written = body.format(
        escaped=escaped(key), json=json.dumps(key)[1:-1], slashed=json.dumps(key)[1:-1].replace("/", "\\/")
    )
    hidden = SecretRedactor([key]).body(written.encode())
    assert HIDDEN.encode() in hidden
    if not written.endswith("}"):
        return
    assert key not in json.dumps(json.loads(hidden), ensure_ascii=False)
    assert all(key not in value for value in json.loads(hidden).values())


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.none()), st.booleans())
def test_what_holds_no_key_stays_as_it_is(payload: dict[str, Any], ascii_only: bool) -> None:
    body = json.dumps(payload, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    assert SecretRedactor([KEY]).body(body) == body


@given(st.text(max_size=20), st.text(max_size=20), st.booleans())
def test_answers_around_a_key_stay_as_they_are(before: str, after: str, ascii_only: bool) -> None:
    before, after = before.encode("utf-8", "replace").decode(), after.encode("utf-8", "replace").decode()
    body = json.dumps({"text": before + KEY + after}, ensure_ascii=ascii_only).encode()
    assert json.loads(SecretRedactor([KEY]).body(body))["text"] == before + HIDDEN + after


def test_every_header_that_lets_in_is_a_secret() -> None:
    mask = SecretRedactor(
        (), {"Authorization": "Basic bWU6c2VjcmV0LXBhc3M=", "X-Gateway-Token": "gate-way", "Accept": "json"}
    )
    assert mask.text("me:secret-pass, secret-pass, bWU6c2VjcmV0LXBhc3M=, gate-way, json") == "***, ***, ***, ***, json"


@pytest.mark.parametrize("text", cases("providers/credentials", "other_keys_are_hidden_by_their_looks"))
def test_other_keys_are_hidden_by_their_looks(text: str) -> None:
    hidden = hide_lookalikes(text)
    assert HIDDEN in hidden
    assert "wxyz" not in hidden
    assert "abcdefgh" not in hidden


@pytest.mark.parametrize(("typed", "shown"), cases("providers/credentials", "what_is_typed_is_shown_without_secrets"))
def test_what_is_typed_is_shown_without_secrets(typed: str, shown: str) -> None:
    assert redact_input(typed) == shown


KINDS = ("openai", "anthropic", "gemini")
ECHOES: dict[str, Callable[[str], str]] = {
    "plain": FORMS["plain"],
    "base64": FORMS["base64 of a header"],
    "form": FORMS["form"],
    "escaped": FORMS["plain"],
    "late": lambda key: f"{'.' * 380} {key}",
}
FAILURES = read_data("providers/credentials")["failures"]


@contextmanager
def echoing(kind: str, form: str, failure: str | None = None) -> Iterator[ApiProvider]:
    """A model at a service that repeats the client's key, in one form, in texts, names, ids and headers."""
    key = ECHOES[form](KEY)
    named = dict.fromkeys(("model", "id", "modelVersion", "responseId", "system_fingerprint"), f"m {key}")
    status, error = FAILURES[failure] if failure else (200, None)
    payload = answer(kind, f"A {key}", **named)
    if error:
        payload = {"error": error | {"message": f"{error['message']} {key}", "type": f"t {key}"}, **named}
    body = json.dumps(payload)
    body = body.replace(KEY, escaped(KEY)) if form == "escaped" else body
    content = body[: len(body) // 2 if failure == "not JSON" else None].encode()
    with spoken(lambda _heard: (status, {"x-request-id": f"r {key}", "request-id": f"r {key}"}, content)) as server:
        root = f"{server.root}/v1" if kind == "openai" else server.root
        yield provider(f"{kind}:m", base_url=root, attempts=1)


@pytest.mark.parametrize("form", ECHOES)
@pytest.mark.parametrize("kind", KINDS)
def test_no_field_of_an_answer_holds_the_key(kind: str, form: str) -> None:
    with echoing(kind, form) as asked:
        found = ask(asked, requests(3))
    assert len(found) == 3
    said = "\n".join(response.model_dump_json() for response in found) + json.dumps(asked.runtime_info())
    assert leaks(said, KEY) == []
    assert all(HIDDEN in str(response.text) for response in found)


@pytest.mark.parametrize("form", ECHOES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("failure", FAILURES)
def test_no_failure_holds_the_key(kind: str, form: str, failure: str) -> None:
    notices: list[str] = []
    with echoing(kind, form, failure) as asked:
        try:
            words = [response.model_dump_json() for response in ask(asked, requests(2), notices)]
        except MbbqGenError as error:
            words = [repr(error), repr(error.__cause__)]
    assert words
    assert leaks("\n".join([*words, *notices, json.dumps(asked.runtime_info())]), KEY) == []


def test_text_that_is_no_json_is_hidden_before_it_is_cut() -> None:
    with answering((200, f"no page either: {'.' * 60}{KEY}")) as root:
        (found,) = ask(provider("openai:m", base_url=root, attempts=1), requests(1))
    assert "not JSON" in str(found.error)
    assert KEY[:8] not in str(found.error)


@pytest.mark.parametrize("variable", ["OPENAI_BASE_URL"])
def test_a_key_in_the_address_of_the_environment_is_not_repeated(
    variable: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, f"http://user:{KEY}@127.0.0.1:1/v1")
    given = ["run", str(tmp_path / "run"), "--model", "openai:m", "--benchmark", "starter", "--languages", "en"]
    assert run_command_line(given) == 2
    assert KEY not in "".join(capsys.readouterr())
