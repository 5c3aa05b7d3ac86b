"""An ASGI app that answers chat completions, served by uvicorn: nothing of it is ours but these lines.

    LATENCY=0.05 LIMITED=0.05 uvicorn answer_server:app --http httptools --loop uvloop

LATENCY: seconds to an answer. LIMITED: share of prompts whose first request gets 429 with `Retry-After: 1`.
`GET /count` tells how many answers were given.
"""

import asyncio
import json
import os
import zlib

_LATENCY, _LIMITED = (float(os.environ.get(name, "0")) for name in ("LATENCY", "LIMITED"))
_TEXTS = ["A", "The answer is B.", "C", "B: Not enough information.", "I think A is right, because the text says so."]
_ANSWERS = [
    json.dumps(
        {
            **{"id": "1", "object": "chat.completion", "created": 1, "model": "fake"},
            "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 4, "total_tokens": 104},
        }
    ).encode()
    for text in _TEXTS
]
_LIMIT = b'{"error": {"message": "Rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}}'
_limited: set[int] = set()
_count = 0


async def app(scope, receive, send) -> None:  # type: ignore[no-untyped-def]
    """One request."""
    global _count  # noqa: PLW0603
    if scope["type"] != "http":
        return
    body = b""
    while (part := await receive())["type"] == "http.request":
        body += part.get("body", b"")
        if not part.get("more_body"):
            break
    number, status, headers = zlib.crc32(body), 200, [(b"content-type", b"application/json")]
    answer = _ANSWERS[number % len(_ANSWERS)]
    if scope["method"] != "POST":
        status, answer = (200, str(_count).encode()) if scope["path"] == "/count" else (404, b"{}")
    elif number not in _limited and (number >> 8) % 1000 < 1000 * _LIMITED:
        _limited.add(number)
        status, answer, headers = 429, _LIMIT, [*headers, (b"retry-after", b"1")]
    else:
        _count += 1
        await asyncio.sleep(_LATENCY)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": answer})
