"""What `benches.frozen` records: runs, analyses and requests, and a stub of every API."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

# --- What is recorded -------------------------------------------------------------------------------------------------

ORACLES = (
    *("perfect", "stereotyped", "anti_stereotyped", "always_unknown", "first_option", "random", "refuser"),
    "verbose_perfect",
)
STARTER = "--benchmark starter --languages en,nl,es,tr --variants all --splits bias,control"
FULL = "--by language,split --tests --adjusted --macro category --baselines --smaller-than 0.03"
ACROSS = "--adjust all --simultaneous --smaller-than 0.05"
SMALL = "--benchmark starter --languages en,tr"
RUNS = {
    "axes": f"--model oracle:random {SMALL} --axes format=free+json,hint=all,debias=all --sample 8",
    "fraction": f"--model oracle:random {SMALL} --axes format=free+label,hint=all,politeness=plain+please,"
    "debias=none+no_stereotypes --design fractional --sample 24",
    "plain": f"--model oracle:random {SMALL} --variants plain --splits bias,control --sample 24",
    "width": f"--model oracle:random {SMALL} --variants bare,polite --until-width 0.4",
    "decided": f"--model oracle:random {SMALL} --variants bare --until-decided 'en != tr' --smaller-than 0.2",
    "weights": f"--model oracle:random {SMALL} --variants bare --sample 30 --label-style A,1,none --order cyclic",
    "shots": f"--model oracle:random {SMALL} --variants letters,reasoned --sample 24 --shots 2 --order shuffled",
    "worded": f"--model oracle:random {SMALL} --variants polite --sample 24 --unknown-wording sampled --system Hello.",
    "foreign": "--model oracle:random --benchmark starter --languages nl,tr --variants all --sample 12 "
    "--instruction-language en --question-only --order all",
    "fair": f"--model made-up:able-fair {SMALL} --variants all --splits bias,control --sample 48",
    "unable": f"--model made-up:unable {SMALL} --variants all --splits bias,control --sample 48",
    "leaning": f"--model made-up:able-stereotyped {SMALL} --variants all --splits bias,control --sample 48",
    "likely": "--model transformers:smollm2 --benchmark starter --languages en --variants bare --splits bias,control "
    "--sample 4 --method generate,likelihood,labels --threads 1 --max-new-tokens 16",
}
ANALYSES = {
    "axes": ["robustness @axes --json", "position @axes --json", "score @axes --json --by variant,split"],
    "fraction": ["robustness @fraction --json"],
    "plain": [
        "score @plain --json --wordings random --tests",
        "compare @plain --json --across variant --wordings fixed",
    ],
    "width": ["score @width --json --tests", "status @width --json", "report @width --json"],
    "decided": ["score @decided --json --tests", "compare @decided --json --across language"],
    "weights": [f"score @weights --json {FULL}", "position @weights --json", "robustness @weights --json"],
    "shots": ["score @shots --json"],
    "worded": ["position @worded --json"],
    "foreign": ["score @foreign --json --undetected keep --interval 0.9"],
    "fair": [f"compare @fair --json --across language --by category --select above-chance {ACROSS}"],
    "leaning": [
        "extract @leaning --extractor first-letter --json",
        "score @leaning --json --extractor first-letter",
        "compare @leaning --json --across extractor",
        f"compare @fair @leaning @unable --json --across model {ACROSS}",
        "diff @fair @leaning --json",
        "leaderboard @fair @leaning @unable --json",
        "report @fair @leaning @unable --json",
        "export @leaning --eval-results @leaning.yaml --json",
        "report @fair @leaning @unable",
        "report @leaning -v",
        "score @leaning --tests",
        "compare @leaning --across language",
    ],
    "unable": [f"score @unable --json {FULL}"],
    "likely": ["agreement @likely --json", "score @likely --json --normalise per_char", "score @likely --json"],
}
IMPORTS = {
    "lm-eval": "lm-eval",
    "inspect": "inspect_own_task.eval",
    "helm": "helm",
    "lighteval": "lighteval",
    "euroeval": "euroeval/openai--fake-model-starter-model-outputs.json",
}
PUBLISHED = {"cabbq": "esbbq", "gg_bbq": "gg-bbq", "kobbq_all": "kobbq", "mbbq": "mbbq", "bbq": "bbq", "esbbq": "esbbq"}
PUBLISHED |= {name: name for name in ("kobbq", "basqbbq", "bbg", "cbbq", "pakbbq", "bbq_lite")}
LARGE = ("kobbq_all", "basqbbq", "esbbq", "cabbq", "bbq")
"""Whose control questions are made in a full recording only."""
QUICK = ("mbbq", "kobbq", "pakbbq", "bbq_lite")
SMALL_DATA = ("jbbq", "bharatbbq")
"""Read from the excerpts of the tests."""
ASKED = "--benchmark starter --languages en --sample 2 --json"
API = {
    "chat": "openai:gpt-4o-mini --base-url {url}/v1 --system Brief. --max-new-tokens 50 --option temperature=0.5 "
    "--option seed=3 --variants all",
    "logprobs": "openai:gpt-4o-mini --base-url {url}/v1 --method first-token --variants bare",
    "efforts": "openai:o3-mini --base-url {url}/v1 --reasoning low,high --variants bare",
    "responses": "openai:gpt-5-mini --base-url {url}/v1 --option api=responses --reasoning low --variants bare,polite",
    "openrouter": "openai:a/b --option service=openrouter --base-url {url}/v1 --reasoning off,high --variants bare",
    "azure": "openai:my-deployment --option service=azure --base-url {url} --variants bare,polite",
    "anthropic": "anthropic:claude-sonnet-4-5 --base-url {url} --system Brief. --variants all",
    "thinking": "anthropic:claude-sonnet-4-5 --base-url {url} --reasoning off,2048 --variants bare",
    "gemini": "gemini:gemini-2.0-flash --base-url {url} --system Brief. --variants all",
    "budget": "gemini:gemini-2.5-flash --base-url {url} --reasoning off,1024 --variants bare",
    "bedrock": "bedrock:anthropic.claude-3-5-haiku-20241022-v1:0 --base-url {url} --system Brief. --variants bare",
    "http": "http:@endpoint.toml --variants bare,polite",
    "vertex_anthropic": "anthropic:claude-sonnet-4-5 --option platform=vertex --base-url {url} --variants bare",
    "vertex_gemini": "gemini:gemini-2.0-flash --base-url {url} --variants bare",
    "batch_openai": "openai:gpt-4o-mini --base-url {url}/v1 --batch --variants all",
    "batch_anthropic": "anthropic:claude-sonnet-4-5 --base-url {url} --batch --variants all",
    "batch_gemini": "gemini:gemini-2.0-flash --base-url {url} --batch --variants all",
}
ENDPOINT = """url = "{url}/generate"
key = "EXAMPLE_API_KEY"
[headers]
Authorization = "Bearer {{key}}"
[body]
input = "{{prompt}}"
chat = "{{messages}}"
parameters = {{ max_tokens = "{{max_new_tokens}}", temperature = "{{temperature}}" }}
[answer]
text = "outputs.0.text"
[finish_reasons]
stop = ["eos"]
"""


# --- A stub of every API ----------------------------------------------------------------------------------------------

HIDDEN = re.compile(r"(sk-frozen-\d+|ya29\.token|Signature=\w+|/20\d{6}/)")
UNKEPT = {"host", "content-length", "x-amz-date", "date", "connection"}


class Stub:
    """A server that answers as each API does, by a digest of what it is asked, and keeps what it got."""

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []
        self._batches: list[tuple[str, Any]] = []
        self.root = ""

    @contextlib.contextmanager
    def serve(self) -> Iterator[Stub]:
        """The server, on a free port of this machine."""
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                content = stub.reply(self.command, self.path, dict(self.headers.items()), body)
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def do_GET(self) -> None:
                self.do_POST()

            def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
                """Says nothing."""

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            server.daemon_threads = True
            self.root = f"http://127.0.0.1:{server.server_port}"
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
            thread.start()
            try:
                yield self
            finally:
                server.shutdown()
                thread.join()

    def taken(self) -> list[dict[str, Any]]:
        """What was got since the last call, sorted."""
        found, self.heard = self.heard, []
        return sorted(found, key=lambda one: json.dumps(one, sort_keys=True))

    def reply(self, method: str, path: str, headers: dict[str, str], body: bytes) -> bytes:
        """Keeps a request; the answer."""
        kept = {name.lower(): HIDDEN.sub("<key>", value) for name, value in headers.items()}
        kept = {name: value for name, value in sorted(kept.items()) if name not in UNKEPT}
        kept["content-type"] = kept.get("content-type", "").partition(";")[0]
        try:
            sent = json.loads(body) if body else None
        except ValueError:
            sent = body.decode("utf-8", "replace").splitlines()
        if path == "/token":
            return json.dumps({"access_token": "ya29.token", "expires_in": 3600, "token_type": "Bearer"}).encode()
        if method == "POST":
            lines = [json.loads(line) for line in sent if line[:1] == "{"] if isinstance(sent, list) else sent
            self.heard.append({"path": path, "headers": kept, "body": lines})
            sent = lines
        found = self._batch(method, path, sent)
        return found if isinstance(found, bytes) else json.dumps(found or answer(path, sent)).encode()

    def _batch(self, method: str, path: str, sent: Any) -> Any:
        """What the three batch APIs answer; None where it is none of theirs."""
        if path == "/v1/files" and method == "POST":
            self._batches.append(("openai", sent))
            return {"id": f"file-{len(self._batches)}"}
        if path.endswith("/content"):
            rows = self._batches[-1][1]
            done = [
                {"custom_id": r["custom_id"], "response": {"status_code": 200, "body": answer(r["url"], r["body"])}}
                for r in rows
            ]
            return "\n".join(map(json.dumps, done)).encode()
        if path.startswith("/v1/batches"):
            count = len(self._batches[-1][1])
            counts = {"total": count, "completed": count, "failed": 0}
            return {"id": "batch-1", "status": "completed", "output_file_id": "file-9", "request_counts": counts}
        if path == "/v1/messages/batches" and method == "POST":
            self._batches.append(("anthropic", sent["requests"]))
        if path.startswith("/v1/messages/batches"):
            rows = self._batches[-1][1]
            if path.endswith("/results"):
                done = [
                    {
                        "custom_id": r["custom_id"],
                        "result": {"type": "succeeded", "message": answer("/v1/messages", r["params"])},
                    }
                    for r in rows
                ]
                return "\n".join(map(json.dumps, done)).encode()
            return {"id": "batch-1", "processing_status": "ended", "request_counts": {"succeeded": len(rows)}}
        if path.endswith(":batchGenerateContent"):
            self._batches.append(("gemini", sent["batch"]["inputConfig"]["requests"]["requests"]))
            return {"name": "batches/1"}
        if "/batches/1" in path:
            rows = self._batches[-1][1]
            done = [{"metadata": r["metadata"], "response": answer(":generateContent", r["request"])} for r in rows]
            stats = {"requestCount": len(rows), "successfulRequestCount": len(rows)}
            found = {"state": "BATCH_STATE_SUCCEEDED", "batchStats": stats}
            return {
                "name": "batches/1",
                "done": True,
                "metadata": found,
                "response": {"inlinedResponses": {"inlinedResponses": done}},
            }
        return None


def answer(path: str, sent: Any) -> Any:
    """A reply in the shape of the API at that path: a letter, or JSON of the schema that was sent."""
    number = int(hashlib.sha256(json.dumps(sent, sort_keys=True).encode()).hexdigest()[:8], 16)
    text, thought = "ABC"[number % 3], f"Let me think. The answer is {'ABC'[number // 3 % 3]}."
    schema = re.search(r'"enum": (\[[^\]]*\])', json.dumps(sent))
    if schema and "schema" in json.dumps(sent):
        properties = _properties(sent)
        text = json.dumps({name: _of(rule, number) for name, rule in properties.items()})
    if path.endswith("/responses"):
        parts = [{"type": "output_text", "text": text}]
        return {
            "id": "r",
            "status": "completed",
            "model": "m",
            "output": [{"type": "message", "content": parts}],
            "usage": {"input_tokens": 9, "output_tokens": 1},
        }
    if path.startswith("/v1/messages") or path.endswith(":rawPredict"):
        return {
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "model": "m",
            "usage": {"input_tokens": 9, "output_tokens": 1},
        }
    if path.endswith(":generateContent"):
        return {
            "candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 1},
        }
    if path.endswith("/converse"):
        return {
            "output": {"message": {"role": "assistant", "content": [{"text": text}]}},
            "stopReason": "end_turn",
            "usage": {"inputTokens": 9, "outputTokens": 1, "totalTokens": 10},
        }
    if path.endswith("/generate"):
        return {"outputs": [{"text": text, "stop": "eos"}]}
    choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
    choice["message"] = {"role": "assistant", "content": text, "reasoning_content": thought}
    if isinstance(sent, dict) and sent.get("logprobs"):
        tops = [{"token": token, "logprob": -0.5 - place, "bytes": None} for place, token in enumerate((text, *"ABC"))]
        choice["logprobs"] = {"content": [tops[0] | {"top_logprobs": tops}]}
    return {"id": "c", "model": "m", "choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 1}}


def _properties(sent: Any) -> dict[str, Any]:
    """The properties of the first JSON schema in a request body."""
    if isinstance(sent, dict):
        if isinstance(sent.get("properties"), dict):
            return dict(sent["properties"])
        sent = list(sent.values())
    found = [_properties(part) for part in sent] if isinstance(sent, list) else []
    return next((one for one in found if one), {})


def _of(rule: Any, number: int) -> Any:
    choices = rule.get("enum") if isinstance(rule, dict) else None
    return choices[number % len(choices)] if choices else ""


def service_account(folder: Path, token_uri: str) -> str:
    """The file of a Google service account whose tokens come from that address."""
    made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = made.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    content = {"type": "service_account", "project_id": "p", "private_key_id": "k", "private_key": pem.decode()}
    content |= {"client_email": "a@p.iam.gserviceaccount.com", "token_uri": token_uri}
    path = folder / "account.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)
