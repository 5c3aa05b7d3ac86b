from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.core.errors import ProviderError, UsageError
from mbbq_gen.providers.api.batches import batch_service
from tests.support.api import KEY, Heard, ask, provider, requests, spoken, with_system
from tests.support.cases import cases, known

MODEL = "anthropic.claude-3-5-haiku-20241022-v1:0"
ACCESS, SECRET = "AKIDEXAMPLE000000000", "wJalrXUtnFEMI-K7MDENG-bPxRfiCYEXAMPLEKEY"
CONVERSED = {
    "output": {"message": {"role": "assistant", "content": [{"text": "A"}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 7, "outputTokens": 1, "totalTokens": 8},
}
MESSAGE = {"content": [{"type": "text", "text": "A"}], "stop_reason": "end_turn", "model": "claude", "usage": {}}
Told = tuple[int, dict[str, str], bytes]


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    marks = ("AWS_", "AZURE_", "GOOGLE_", "CLOUD_", "IDENTITY_", "MSI_", "ANTHROPIC_", "CLOUDSDK_")
    for name in [name for name in os.environ if name.startswith(marks)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_REGION", "eu-west-1")


def told(payload: Any, status: int = 200, **headers: str) -> Told:
    return status, {name.replace("_", "-"): value for name, value in headers.items()}, json.dumps(payload).encode()


def signature_of(root: str, heard: Heard) -> tuple[str, str]:
    """The signature that a request carries, and the one that it must have, made from what arrived."""
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    found = known(re.search(r"SignedHeaders=([^,]+), Signature=(\w+)", heard.headers["authorization"]))
    signed = {name: heard.headers[name] for name in found[1].split(";")}
    request = AWSRequest(method=heard.method, url=root + heard.path, data=heard.body, headers=signed)
    request.context["timestamp"] = heard.headers["x-amz-date"]
    signer = SigV4Auth(Credentials(ACCESS, SECRET), "bedrock", "eu-west-1")
    wanted = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
    return found[2], wanted


def test_bedrock_signs_what_it_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("botocore")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with spoken(lambda _heard: told(CONVERSED, x_amzn_requestid="r1")) as server:
        asked = provider(f"bedrock:{MODEL}", base_url=server.root, max_tokens=9, extra={"top_k": 1})
        asked.check_access()
        responses = ask(asked, [with_system("Who?", "Be brief."), *requests(3)])
        for heard in server.heard:
            assert heard.path == "/model/anthropic.claude-3-5-haiku-20241022-v1%3A0/converse"
            carried, wanted = signature_of(server.root, heard)
            assert carried == wanted
            assert f"Credential={ACCESS}/" in heard.headers["authorization"]
        assert json.loads(server.heard[0].body) == {
            "messages": [{"role": "user", "content": [{"text": "Who?"}]}],
            "system": [{"text": "Be brief."}],
            "inferenceConfig": {"maxTokens": 9, "temperature": 0.0},
            "additionalModelRequestFields": {"top_k": 1},
        }
    assert {(response.text, response.finish_reason, response.request_id) for response in responses} == {
        ("A", "stop", "r1")
    }
    assert responses[0].usage.input_tokens == 7


def test_bedrock_goes_to_its_region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", KEY)
    asked = provider(f"bedrock:{MODEL}", region="us-east-1")
    path = "/model/anthropic.claude-3-5-haiku-20241022-v1%3A0/converse"
    assert asked.url(asked.path) == f"https://bedrock-runtime.us-east-1.amazonaws.com{path}"
    assert "base_url" not in asked.settings
    monkeypatch.delenv("AWS_REGION")
    with pytest.raises(UsageError, match="no region; set AWS_REGION"):
        provider("bedrock:m")


@pytest.mark.parametrize(("status", "kind", "words"), cases("providers/api_clouds", "what_bedrock_refuses"))
def test_what_bedrock_refuses(status: int, kind: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", KEY)
    with spoken(lambda _heard: told({"message": "no"}, status, x_amzn_errortype=f"{kind}:http://x/")) as server:
        with pytest.raises(ProviderError, match=words):
            ask(provider("bedrock:m", base_url=server.root), requests(5))
        assert len(server.heard) <= 5, "no request is tried again"


def service_account(folder: Path, token_uri: str) -> Path:
    """The file of a service account whose tokens come from that address, with a key of its own."""
    rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")
    from cryptography.hazmat.primitives import serialization

    made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = made.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / "account.json"
    content: dict[str, Any] = {"type": "service_account", "project_id": "p", "private_key_id": "k"}
    content |= {"private_key": pem.decode(), "client_email": "a@p.iam.gserviceaccount.com", "token_uri": token_uri}
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", ["anthropic", "gemini"])
def test_models_on_vertex(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("google.auth")
    gemini = {"candidates": [{"content": {"parts": [{"text": "A"}]}, "finishReason": "STOP"}]}
    given = [told({"access_token": "ya29.token", "expires_in": 3600, "token_type": "Bearer"})]

    def reply(heard: Heard) -> Told:
        return given[0] if heard.path == "/token" else told(MESSAGE if kind == "anthropic" else gemini)

    with spoken(reply) as server:
        account = service_account(tmp_path, f"{server.root}/token")
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account))
        monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "my-project")
        monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "europe-west4")
        if kind == "gemini":
            monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
        options = {"platform": "vertex"} if kind == "anthropic" else {}
        asked = provider(f"{kind}:some-model", base_url=server.root, **options)
        asked.check_access()
        responses = ask(asked, requests(5))
        posts = [heard for heard in server.heard if heard.path != "/token"]
        assert len(server.heard) - len(posts) == 1, "one token for all"
    verb = "rawPredict" if kind == "anthropic" else "generateContent"
    publisher = "anthropic" if kind == "anthropic" else "google"
    place = f"/v1/projects/my-project/locations/europe-west4/publishers/{publisher}/models/some-model:{verb}"
    assert {heard.path for heard in posts} == {place}
    assert {heard.headers["authorization"] for heard in posts} == {"Bearer ya29.token"}
    assert {response.text for response in responses} == {"A"}
    body = json.loads(posts[0].body)
    assert "model" not in body
    assert ("anthropic_version" in body) is (kind == "anthropic")
    plain = provider(f"{kind}:some-model", **options)
    assert plain.url(plain.path) == f"https://europe-west4-aiplatform.googleapis.com{place}"
    with pytest.raises(UsageError, match="Vertex AI takes batches from buckets only"):
        batch_service(asked)


def test_tokens_of_entra(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("azure.identity")
    chat = {"choices": [{"message": {"content": "A"}, "finish_reason": "stop"}], "model": "m"}
    ends = str(int(time.time()) + 3600)

    def reply(heard: Heard) -> Told:
        if heard.path.startswith("/identity"):
            return told({"access_token": "entra-token", "expires_on": ends, "token_type": "Bearer", "resource": "r"})
        return told(chat)

    with spoken(reply) as server:
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"{server.root}/identity")
        monkeypatch.setenv("IDENTITY_HEADER", "secret")
        asked = provider("openai:dep", service="azure", entra=True, base_url=server.root)
        asked.check_access()
        responses = ask(asked, requests(4))
        posts = [heard for heard in server.heard if not heard.path.startswith("/identity")]
        assert len(server.heard) - len(posts) == 1, "one token for all"
    assert {response.text for response in responses} == {"A"}
    assert {heard.headers["authorization"] for heard in posts} == {"Bearer entra-token"}
    assert all("api-key" not in heard.headers for heard in posts)
