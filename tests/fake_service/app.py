"""The service: its addresses, who may ask what, limits, faults on the wire, and statistics at /admin."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from aiohttp import web

from mbbq_gen.core.files import stable_digest, stable_number
from tests.fake_service.batches import AnthropicBatches, GeminiBatches, OpenAIBatches
from tests.fake_service.dialects import Anthropic, Body, Dialect, Gemini, OpenAIChat, key_of
from tests.fake_service.faults import DEFAULTS, FAULTS, OUTCOMES, Bucket, Settings, changed, draw
from tests.fake_service.model import FailureError, Model, Received
from tests.support.planned_questions import PlannedQuestions

_Handler = Callable[[Dialect, web.Request, bytes], Awaitable[tuple[Body | bytes, str | None]]]


@dataclass
class Stats:
    """What the service has seen since its start or the last reset."""

    asked: Counter[str] = field(default_factory=Counter)  # digest of a question → attempts, batches not counted
    paid_for: Counter[str] = field(default_factory=Counter)  # digest → answers, sent or lost, in batches too
    by_status: Counter[str] = field(default_factory=Counter)
    by_fault: Counter[str] = field(default_factory=Counter)  # `pace` is a limit that was passed
    answered: int = 0  # questions whose answer was sent whole
    too_early: int = 0  # attempts before the Retry-After of the same question was over
    peak_in_flight: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    batches: int = 0
    first: float = 0.0  # when the first question came, and the last one was answered
    last: float = 0.0

    requests = property(lambda self: sum(self.asked.values()))
    paid = property(lambda self: sum(self.paid_for.values()))
    distinct_paid = property(lambda self: len(self.paid_for))
    paid_again = property(lambda self: self.paid - self.distinct_paid)
    seconds = property(lambda self: self.last - self.first)


class Service:
    """Answers every request; `run` is the run folder whose questions it knows."""

    def __init__(self, changes: Settings, run: Path | None) -> None:
        self.questions = PlannedQuestions(run) if run is not None else None
        self.stats = Stats()
        self._attempts: Counter[str] = Counter()
        self._not_before: dict[str, float] = {}
        self._in_flight = self._number = 0
        self.settings: Settings = {}
        self._use(changed(DEFAULTS, changes))

    def _use(self, settings: Settings) -> None:
        if (limits := settings["limits"]) != self.settings.get("limits"):
            self._bucket = Bucket(limits["rpm"], limits["burst_s"]) if limits["rpm"] else None
        self.settings, self._model = settings, Model(settings["answers"], self.questions)

    def app(self) -> web.Application:
        """All routes."""
        app = web.Application(client_max_size=1 << 30)
        chat, messages, gemini = OpenAIChat(), Anthropic(), Gemini()
        questions: dict[str, Dialect] = {"/v1/chat/completions": chat, "/v1/messages": messages}
        questions["/v1beta/models/{model}:generateContent"] = gemini
        questions["/openai/deployments/{model}/chat/completions"] = chat
        for path, dialect in questions.items():
            app.router.add_post(path, partial(self._serve, dialect, self._question))
        app.router.add_get("/v1/models", partial(self._serve, chat, partial(self._other, self._models)))
        app.router.add_get("/v1beta/models", partial(self._serve, gemini, partial(self._other, self._models)))
        for book in (OpenAIBatches(self, chat), AnthropicBatches(self, messages), GeminiBatches(self, gemini)):
            for method, path, handler in book.routes():
                app.router.add_route(method, path, partial(self._serve, book.dialect, partial(self._other, handler)))
        app.router.add_route("*", "/admin/{action}", self._admin)
        app.on_cleanup.append(self._close)
        return app

    async def _close(self, _app: web.Application) -> None:
        if self.questions is not None and self.questions.store is not None:
            self.questions.store.close()

    async def _serve(self, dialect: Dialect, handler: _Handler, request: web.Request) -> web.StreamResponse:
        """The reply to any request but those to /admin."""
        content, key, status, fault = await request.read(), key_of(request), 200, None
        self._number += 1
        headers = {dialect.request_id_header: f"req_{self._number:08x}"}
        try:
            if self.settings["access"]["key"] not in (None, key):
                raise FailureError("wrong_key", "incorrect API key provided")
            found, fault = await handler(dialect, request, content)
        except FailureError as error:
            status, found = dialect.failure(error)
            if error.retry_after_s is not None:
                headers["retry-after"] = f"{error.retry_after_s:g}"
        body, kind = found if isinstance(found, bytes) else json.dumps(found).encode(), "application/json"
        if self._bucket:
            headers |= self._bucket.headers()
        if fault == "page":
            status, body, kind = 403, b"<!DOCTYPE html>\n<html><title>Access denied</title></html>", "text/html"
        elif fault == "malformed":
            body = body[: len(body) // 2]
        reply = web.Response(status=status, body=body, content_type=kind, headers=headers)
        if fault not in ("hang", "drop", "lost", "cut"):
            self.stats.by_status[str(status)] += 1
            return reply
        if fault == "hang":
            await asyncio.sleep(3600)
        if fault == "cut":
            stream = web.StreamResponse(status=status, headers=reply.headers)
            stream.content_length = len(body)
            with suppress(ConnectionError):
                await stream.prepare(request)
                await stream.write(body[: len(body) // 2])
        if request.transport is not None:
            request.transport.close()
        return web.Response()

    async def _question(self, dialect: Dialect, request: web.Request, content: bytes) -> tuple[Body, str | None]:
        """The answer to a question, and the fault of this attempt."""
        received, stats = dialect.parse(json.loads(content), request.match_info.get("model")), self.stats
        now = time.monotonic()
        stats.first = stats.first or now
        stats.asked[received.digest] += 1
        stats.too_early += now < self._not_before.pop(received.digest, now)
        self._in_flight += 1
        stats.peak_in_flight = max(stats.peak_in_flight, self._in_flight)
        try:
            self.check(received)
            if self._bucket is not None and (wait := self._bucket.take()) > 0:
                stats.by_fault["pace"] += 1
                raise self._limited(f"rate limit reached; try again in {wait:.3f}s", wait)
            fault = self._fault(received.digest)
            if fault in ("hang", "drop", "page"):
                return {}, fault
            body = self.answered(dialect, received)
            if self.settings["latency"]["seconds"] > 0:
                await asyncio.sleep(self.settings["latency"]["seconds"])
            stats.answered += fault is None
            return body, fault
        except FailureError as error:
            if error.retry_after_s is not None:
                self._not_before[received.digest] = time.monotonic() + error.retry_after_s
            raise
        finally:
            self._in_flight -= 1
            stats.last = time.monotonic()

    def check(self, received: Received) -> None:
        """Raises FailureError for an unknown model, a refused parameter or an exhausted quota."""
        access = self.settings["access"]
        if access["models"] and received.model not in access["models"]:
            message = f"the model {received.model!r} does not exist or you do not have access to it"
            raise FailureError("unknown_model", message, "model")
        for name in access["refused_parameters"]:
            if received.body.get(name) is not None:
                message = f"unsupported parameter: '{name}' is not supported with this model."
                raise FailureError("unsupported_parameter", message, name)
        if access["quota"] is not None and self.stats.paid >= access["quota"]:
            raise FailureError("quota", "you exceeded your current quota; your credit balance is too low")

    def answered(self, dialect: Dialect, received: Received) -> Body:
        """The body of the model's answer, which is paid; raises FailureError where a filter stops the prompt."""
        stats, content, seed = self.stats, self.settings["content"], self.settings["seed"]
        outcome = draw(OUTCOMES, content, "verdict", seed, received.digest)
        if outcome == "filtered_prompt" and not isinstance(dialect, Gemini):
            raise FailureError("filtered_prompt", "the content filtering policy blocked the prompt")
        said = self._model.say(received, outcome)
        stats.paid_for[received.digest] += 1
        stats.input_tokens += said.input_tokens
        stats.output_tokens += said.output_tokens
        body = dialect.answer(received, said)
        if self.settings["answers"]["usage"] == "missing":
            del body["usage" if "usage" in body else "usageMetadata"]
        return body

    def _limited(self, message: str, seconds: float) -> FailureError:
        is_told = self.settings["faults"]["retry_after_form"] != "untold"
        return FailureError("rate_limited", message, retry_after_s=seconds if is_told else None)

    def _fault(self, digest: str) -> str | None:
        """The fault of the next attempt; raises FailureError where it is an error of the service."""
        attempt, faults, seed = self._attempts[digest], self.settings["faults"], self.settings["seed"]
        self._attempts[digest] += 1
        if attempt >= faults["most_per_request"]:
            return None
        fault = draw(FAULTS, faults, "fault", seed, digest, attempt)
        self.stats.by_fault.update([fault] if fault else [])
        if fault == "rate_limited":
            raise self._limited("rate limit reached; slow down", faults["retry_after_s"])
        if fault == "server_error":
            statuses, number = faults["server_statuses"], stable_number("status", seed, digest, attempt)
            message = "the server had an error while processing the request"
            raise FailureError("server_error", message, status=statuses[number % len(statuses)])
        return fault

    async def _other(
        self, handler: Callable[..., Body | bytes], _dialect: Dialect, request: web.Request, content: bytes
    ) -> tuple[Body | bytes, str | None]:
        """What a handler of files, batches or models replies, and its fault where faults.routes is `all`."""
        fault = None
        if self.settings["faults"]["routes"] == "all":
            fault = self._fault(stable_digest(request.method, request.path, len(content)))
        return {} if fault in ("hang", "drop", "page") else handler(request, content), fault

    def _models(self, request: web.Request, _content: bytes) -> Body:
        names, field = self.settings["access"]["models"], "models" if "v1beta" in request.path else "data"
        return {field: [{"id": name, "name": f"models/{name}"} for name in names or ["fake-model"]]}

    async def _admin(self, request: web.Request) -> web.Response:
        """`stats` are read, `settings` changed, `reset` sets all counts to 0."""
        action = request.match_info["action"]
        if action == "settings":
            self._use(changed(self.settings, await request.json()))
        elif action == "reset":
            self.stats = Stats()
            self._attempts.clear()
        return web.json_response(vars(self.stats))
