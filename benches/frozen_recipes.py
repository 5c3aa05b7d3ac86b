"""What `benches.frozen` records: runs, analyses and requests, and a stub of every API."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.api import Heard

ORACLES: tuple[str, ...] = (
    "perfect",
    "stereotyped",
    "anti_stereotyped",
    "always_unknown",
    "first_option",
    "random",
    "refuser",
)
ORACLES += ("verbose_perfect",)
STARTER = "--benchmark starter --languages en,nl,es,tr --variants all --splits bias,control"
FULL = "--group-by language,split --tests --control-adjusted --macro-average category --baselines"
FULL += " --equivalence-margin 0.03"
ACROSS = "--p-adjust-over all --equivalence-margin 0.05"
SMALL = "--benchmark starter --languages en,tr"
RANDOM = f"--model oracle:random {SMALL}"
WHOLE = "--variants all --splits bias,control --sample 48"
RUNS = {
    "axes": f"{RANDOM} --axes format=free+json,hint=all,debias=all --sample 8",
    "fraction": f"{RANDOM} --axes format=free+label,hint=all,politeness=plain+please,"
    "debias=none+no_stereotypes --axes-design fractional --sample 24",
    "plain": f"{RANDOM} --variants plain --splits bias,control --sample 24",
    "width": f"{RANDOM} --variants bare,polite --stop-at-ci-width 0.4",
    "decided": f"{RANDOM} --variants bare --stop-when-decided 'en != tr' --equivalence-margin 0.2",
    "weights": f"{RANDOM} --variants bare --sample 30 --label-style A,1,none --option-order cyclic",
    "shots": f"{RANDOM} --variants letters,reasoned --sample 24 --num-fewshot 2 --option-order shuffled",
    "worded": f"{RANDOM} --variants polite --sample 24 --unknown-text sampled --system-prompt Hello.",
    "foreign": "--model oracle:random --benchmark starter --languages nl,tr --variants all --sample 12 "
    "--instruction-language en --no-context --option-order all",
    "fair": f"--model synthetic:able-fair {SMALL} {WHOLE}",
    "unable": f"--model synthetic:unable {SMALL} {WHOLE}",
    "leaning": f"--model synthetic:able-stereotyped {SMALL} {WHOLE}",
    "likely": "--model transformers:smollm2 --benchmark starter --languages en --variants bare --splits bias,control "
    "--sample 4 --method generate,loglikelihood,label-loglikelihood --threads 1 --max-tokens 16",
}
ANALYSES = {
    "axes": ["robustness @axes --json", "position-bias @axes --json", "score @axes --json --group-by variant,split"],
    "fraction": ["robustness @fraction --json"],
    "plain": [
        "score @plain --json --prompt-effects random --tests",
        "compare @plain --json --across variant --prompt-effects fixed",
    ],
    "width": ["score @width --json --tests", "status @width --json", "report @width --json"],
    "decided": ["score @decided --json --tests", "compare @decided --json --across language"],
    "weights": [f"score @weights --json {FULL}", "position-bias @weights --json", "robustness @weights --json"],
    "shots": ["score @shots --json"],
    "worded": ["position-bias @worded --json"],
    "foreign": ["score @foreign --json --unparsed keep --confidence-level 0.9"],
    "fair": [f"compare @fair --json --across language --group-by category --template-filter above-chance {ACROSS}"],
    "leaning": [
        "extract @leaning --extractor first-label --json",
        "score @leaning --json --extractor first-label",
        "compare @leaning --json --across extractor",
        f"compare @fair @leaning @unable --json --across model {ACROSS}",
        "diff @fair @leaning --json",
        "leaderboard @fair @leaning @unable --json",
        "report @fair @leaning @unable --json",
        "export @leaning --hf-dataset @leaning-set --json",
        "report @fair @leaning @unable",
        "score @leaning --tests",
        "compare @leaning --across language",
    ],
    "unable": [f"score @unable --json {FULL}"],
    "likely": ["agreement @likely --json", "score @likely --json --normalization char", "score @likely --json"],
}
IMPORTS = {name: name for name in ("lm-eval", "helm", "lighteval")} | {"inspect": "inspect_own_task.eval"}
PUBLISHED = {"cabbq": "esbbq", "gg_bbq": "gg-bbq", "kobbq_all": "kobbq", "mbbq": "mbbq", "bbq": "bbq", "esbbq": "esbbq"}
PUBLISHED |= {name: name for name in ("kobbq", "basqbbq", "bbg", "cbbq", "pakbbq", "bbq_lite")}
LARGE = ("kobbq_all", "basqbbq", "esbbq", "cabbq", "bbq")
"""Whose control questions are made in a full recording only."""
SMALL_DATA = ("jbbq", "bharatbbq")
"""Read from the excerpts of the tests."""
QUICK = ("mbbq", "kobbq", "pakbbq", "bbq_lite", *SMALL_DATA)
SELECTION = "--benchmark starter --languages en --sample 2 --json"
API = {
    "chat": "openai:gpt-4o-mini --base-url {url}/v1 --system-prompt Brief. --max-tokens 50 --model-arg temperature=0.5 "
    "--model-arg seed=3 --variants all",
    "logprobs": "openai:gpt-4o-mini --base-url {url}/v1 --method first-token-logprobs --variants bare",
    "efforts": "openai:o3-mini --base-url {url}/v1 --reasoning-effort low,high --variants bare",
    "responses": "openai:gpt-5-mini --base-url {url}/v1 --model-arg api=responses --reasoning-effort low "
    "--variants bare,polite",
    "openrouter": "openai:a/b --model-arg service=openrouter --base-url {url}/v1 --reasoning-effort none,high "
    "--variants bare",
    "azure": "openai:my-deployment --model-arg service=azure --base-url {url} --variants bare,polite",
    "anthropic": "anthropic:claude-sonnet-4-5 --base-url {url} --system-prompt Brief. --variants all",
    "thinking": "anthropic:claude-sonnet-4-5 --base-url {url} --reasoning-effort none,2048 --variants bare",
    "gemini": "gemini:gemini-2.0-flash --base-url {url} --system-prompt Brief. --variants all",
    "budget": "gemini:gemini-2.5-flash --base-url {url} --reasoning-effort none,1024 --variants bare",
    "bedrock": "bedrock:anthropic.claude-3-5-haiku-20241022-v1:0 --base-url {url} --system-prompt Brief. "
    "--variants bare",
    "http": "http:@endpoint.toml --variants bare,polite",
    "vertex_anthropic": "anthropic:claude-sonnet-4-5 --model-arg platform=vertex --base-url {url} --variants bare",
    "vertex_gemini": "gemini:gemini-2.0-flash --base-url {url} --variants bare",
    "batch_openai": "openai:gpt-4o-mini --base-url {url}/v1 --batch --variants all",
    "batch_anthropic": "anthropic:claude-sonnet-4-5 --base-url {url} --batch --variants all",
    "batch_gemini": "gemini:gemini-2.0-flash --base-url {url} --batch --variants all",
}
ENDPOINT = """url = "{url}/generate"
key = "EXAMPLE_API_KEY"
headers.Authorization = "Bearer {{key}}"
answer.text = "outputs.0.text"
finish_reasons.stop = ["eos"]
[body]
input = "{{prompt}}"
chat = "{{messages}}"
parameters = {{ max_tokens = "{{max_tokens}}", temperature = "{{temperature}}" }}
"""

HIDDEN = re.compile(r"(sk-frozen-\d+|ya29\.token|Signature=\w+|/20\d{6}/)")
SAMPLING = {"top_p", "frequency_penalty"}  # not in early records: replies do not depend on it
UNKEPT = {"host", "content-length", "x-amz-date", "date", "connection"}


class Stub:
    """Replies as each API does, chosen by a digest of the request, and records what was received."""

    def __init__(self) -> None:
        self._received: list[dict[str, Any]] = []
        self._rows: list[Any] = []
        """Requests of the last batch."""

    def taken(self) -> list[dict[str, Any]]:
        """The requests since the last call, sorted."""
        found, self._received = self._received, []
        return sorted(found, key=lambda one: json.dumps(one, sort_keys=True))

    def reply(self, request: Heard) -> tuple[int, dict[str, str], bytes]:
        """Records a request; the reply to it."""
        if request.path == "/token":
            return 200, {}, b'{"access_token": "ya29.token", "expires_in": 3600, "token_type": "Bearer"}'
        headers = {name: HIDDEN.sub("<key>", value) for name, value in sorted(request.headers.items())}
        headers = {name: value for name, value in headers.items() if name not in UNKEPT}
        headers["content-type"] = headers.get("content-type", "").partition(";")[0]
        try:
            sent = json.loads(request.body) if request.body else None
        except ValueError:
            lines = request.body.decode("utf-8", "replace").splitlines()
            sent = [json.loads(line) for line in lines if line[:1] == "{"]
        if request.method == "POST":
            self._received.append({"path": request.path, "headers": headers, "body": sent})
        found = self._batch(request.method, request.path, sent)
        if not isinstance(found, bytes):
            found = json.dumps(found or answer(request.path, sent)).encode()
        return 200, {}, found

    def _batch(self, method: str, path: str, sent: Any) -> Any:
        """What the three batch APIs answer; None where it is none of theirs."""
        if path == "/v1/files" and method == "POST":
            self._rows = sent
            return {"id": "file-1"}
        if path.endswith("/content"):
            replies = [(r["custom_id"], {"status_code": 200, "body": answer(r["url"], r["body"])}) for r in self._rows]
            return "\n".join(json.dumps({"custom_id": name, "response": reply}) for name, reply in replies).encode()
        if path.startswith("/v1/batches"):
            counts = {"total": len(self._rows), "completed": len(self._rows), "failed": 0}
            return {"id": "batch-1", "status": "completed", "output_file_id": "file-9", "request_counts": counts}
        if path.startswith("/v1/messages/batches"):
            self._rows = sent["requests"] if method == "POST" else self._rows
            if path.endswith("/results"):
                results = [
                    (r["custom_id"], {"type": "succeeded", "message": answer("/v1/messages", r["params"])})
                    for r in self._rows
                ]
                return "\n".join(json.dumps({"custom_id": name, "result": found}) for name, found in results).encode()
            return {"id": "batch-1", "processing_status": "ended", "request_counts": {"succeeded": len(self._rows)}}
        if path.endswith(":batchGenerateContent"):
            self._rows = sent["batch"]["inputConfig"]["requests"]["requests"]
            return {"name": "batches/1"}
        if "/batches/1" in path:
            done = [
                {"metadata": r["metadata"], "response": answer(":generateContent", r["request"])} for r in self._rows
            ]
            stats = {"requestCount": len(done), "successfulRequestCount": len(done)}
            state = {"state": "BATCH_STATE_SUCCEEDED", "batchStats": stats}
            inlined = {"inlinedResponses": {"inlinedResponses": done}}
            return {"name": "batches/1", "done": True, "metadata": state, "response": inlined}
        return None


def answer(path: str, sent: Any) -> Any:
    """A reply in the shape of the API at that path: a letter, or JSON of the schema that was sent."""
    text = json.dumps({key: value for key, value in sent.items() if key not in SAMPLING}, sort_keys=True)
    number = int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)
    text, usage = "ABC"[number % 3], {"input_tokens": 9, "output_tokens": 1}
    if '"enum": [' in json.dumps(sent):
        choices = {name: rule.get("enum") for name, rule in _properties(sent).items()}
        text = json.dumps({name: values[number % len(values)] if values else "" for name, values in choices.items()})
    if path.endswith("/responses"):
        output = [{"type": "message", "content": [{"type": "output_text", "text": text}]}]
        return {"id": "r", "status": "completed", "model": "m", "output": output, "usage": usage}
    if path.startswith("/v1/messages") or path.endswith(":rawPredict"):
        content = [{"type": "text", "text": text}]
        return {"content": content, "stop_reason": "end_turn", "model": "m", "usage": usage}
    if path.endswith(":generateContent"):
        candidates = [{"content": {"parts": [{"text": text}]}, "finishReason": "STOP"}]
        return {"candidates": candidates, "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 1}}
    if path.endswith("/converse"):
        message = {"role": "assistant", "content": [{"text": text}]}
        usage = {"inputTokens": 9, "outputTokens": 1, "totalTokens": 10}
        return {"output": {"message": message}, "stopReason": "end_turn", "usage": usage}
    if path.endswith("/generate"):
        return {"outputs": [{"text": text, "stop": "eos"}]}
    trace = f"Let me think. The answer is {'ABC'[number // 3 % 3]}."
    message = {"role": "assistant", "content": text, "reasoning_content": trace}
    choice: dict[str, Any] = {"index": 0, "finish_reason": "stop", "message": message}
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


def service_account(folder: Path, token_uri: str) -> str:
    """The file of a Google service account whose tokens come from that address."""
    made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    content = {"type": "service_account", "project_id": "p", "private_key_id": "k", "token_uri": token_uri}
    content |= {"client_email": "a@p.iam.gserviceaccount.com", "private_key": made.private_bytes(*form).decode()}
    path = folder / "account.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)
