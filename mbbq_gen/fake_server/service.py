"""The fake server as a whole: its addresses, and the admin address that changes and tells what it does.

POST /v1/chat/completions, /v1/responses          OpenAI and compatible
POST /openai/deployments/MODEL/chat/completions   Azure
POST /v1/messages                                 Anthropic
POST /v1beta/models/MODEL:generateContent         Gemini; also under /v1, /v1alpha
GET  /v1/models, /v1/models/MODEL
/v1/files…, /v1/batches…, /v1/messages/batches…   files and batches
POST /v1beta/models/MODEL:batchGenerateContent, /v1beta/batches…   batches of Gemini
GET|PATCH|PUT /admin/scenario   GET /admin/stats   GET /admin/asked   POST /admin/reset     from this machine only
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence

from pydantic import JsonValue

from mbbq_gen.errors import UsageError
from mbbq_gen.fake_server.asked import Failure, FailureError
from mbbq_gen.fake_server.asking import Asking, parse_json
from mbbq_gen.fake_server.batches.anthropic import anthropic_batch_routes
from mbbq_gen.fake_server.batches.gemini import gemini_batch_routes
from mbbq_gen.fake_server.batches.openai import openai_batch_routes
from mbbq_gen.fake_server.dialects.anthropic import Anthropic
from mbbq_gen.fake_server.dialects.base import Dialect
from mbbq_gen.fake_server.dialects.gemini import Gemini
from mbbq_gen.fake_server.dialects.openai_chat import OpenAIChat
from mbbq_gen.fake_server.dialects.openai_responses import OpenAIResponses
from mbbq_gen.fake_server.http import HttpRequest, Reply, json_reply
from mbbq_gen.fake_server.questions import Questions
from mbbq_gen.fake_server.routing import Route, RouteHandler, Router
from mbbq_gen.fake_server.scenario import Scenario, read_scenario
from mbbq_gen.resources import Resources

DEFAULT_MODEL = "fake-model"
"""What the list of models holds where the scenario names none."""
_BORN = 1_700_000_000
"""When all models were made."""


class FakeService:
    """Answers every request of the fake server."""

    def __init__(
        self,
        scenario: Scenario,
        questions: Sequence[Questions] = (),
        resources: Resources | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises UnknownNameError where the scenario names an oracle that does not exist."""
        self.asking = Asking(scenario, questions, resources or Resources(), clock)
        self._questions = questions
        self._chat, self._responses, self._messages = OpenAIChat(), OpenAIResponses(), Anthropic()
        self._gemini = Gemini()
        self._router = Router([*self._routes(), *self._batch_routes(clock), *self._admin_routes()])

    @property
    def scenario(self) -> Scenario:
        """The scenario in force."""
        return self.asking.scenario

    def close(self) -> None:
        """Frees what the questions hold."""
        for questions in self._questions:
            questions.close()

    def handle(self, request: HttpRequest) -> Reply:
        """The reply to a request."""
        found = self._router.find(request.method, request.path)
        if found is None:
            failure = Failure("not_found", f"unknown address: {request.method} {request.path}")
            return self.asking.failed(self._dialect_of(request), failure)
        route, parts = found
        self.asking.ledger.by_route[route.name] += 1
        return route.handler(request, parts)

    def _dialect_of(self, request: HttpRequest) -> Dialect:
        """The dialect that a request to a shared address speaks."""
        return self._messages if "anthropic-version" in request.headers else self._chat

    def _routes(self) -> list[Route]:
        def asks(dialect: Dialect) -> RouteHandler:
            return lambda request, parts: self.asking.ask(dialect, request, parts.get("model"))

        azure = "/deployments/{model}/chat/completions"
        return [
            Route("POST", "/v1/chat/completions", asks(self._chat)),
            Route("POST", "/v1/responses", asks(self._responses)),
            Route("POST", "/v1/messages", asks(self._messages)),
            *(
                Route("POST", f"/{version}/models/{{model}}:generateContent", asks(self._gemini))
                for version in ("v1", "v1beta", "v1alpha")
            ),
            Route("POST", azure, asks(self._chat)),
            Route("GET", "/v1/models", self._list_models),
            Route("GET", "/v1/models/{model}", self._show_model),
            Route("GET", "/v1beta/models", self._list_models),
            Route("GET", "/", lambda _request, _parts: json_reply(200, {"server": "mbbq-gen fake-server"})),
        ]

    def _batch_routes(self, clock: Callable[[], float]) -> list[Route]:
        dialects: dict[str, Dialect] = {"/v1/chat/completions": self._chat, "/v1/responses": self._responses}
        dialects |= {endpoint.removeprefix("/v1"): dialect for endpoint, dialect in dialects.items()}  # Azure's
        return [
            *openai_batch_routes(self.asking, dialects, clock),
            *anthropic_batch_routes(self.asking, self._messages, clock),
            *gemini_batch_routes(self.asking, self._gemini, clock),
        ]

    # --- models ---------------------------------------------------------------------------------------------------

    def _list_models(self, request: HttpRequest, _parts: dict[str, str]) -> Reply:
        dialect = self._gemini if request.path.startswith("/v1beta") else self._dialect_of(request)
        try:
            self.asking.check_key(dialect, request)
        except FailureError as error:
            return self.asking.failed(dialect, error.failure)
        names = self.scenario.access.models or (DEFAULT_MODEL,)
        models: list[JsonValue] = [_model_entry(name, dialect) for name in names]
        if isinstance(dialect, Gemini):
            return json_reply(200, {"models": models})
        if isinstance(dialect, Anthropic):
            return json_reply(200, {"data": models, "has_more": False, "first_id": names[0], "last_id": names[-1]})
        return json_reply(200, {"object": "list", "data": models})

    def _show_model(self, request: HttpRequest, parts: dict[str, str]) -> Reply:
        dialect, name = self._dialect_of(request), parts["model"]
        if self.scenario.access.models and name not in self.scenario.access.models:
            return self.asking.failed(dialect, Failure("unknown_model", f"the model {name!r} does not exist", "model"))
        return json_reply(200, _model_entry(name, dialect))

    # --- admin ----------------------------------------------------------------------------------------------------

    def _admin_routes(self) -> list[Route]:
        def local(handler: Callable[[HttpRequest], Reply]) -> RouteHandler:
            """Lets nobody in from another machine."""

            def guarded(request: HttpRequest, _parts: dict[str, str]) -> Reply:
                if not request.is_local:
                    return _admin_error(403, "the admin address answers this machine only")
                return handler(request)

            return guarded

        return [
            Route("GET", "/admin/stats", local(lambda _: json_reply(200, self.asking.ledger.stats().model_dump()))),
            Route("GET", "/admin/asked", local(self._admin_asked)),
            Route("POST", "/admin/reset", local(self._admin_reset)),
            Route("GET", "/admin/scenario", local(lambda _: self._admin_show())),
            Route("PATCH", "/admin/scenario", local(lambda request: self._admin_change(request, merge=True))),
            Route("PUT", "/admin/scenario", local(lambda request: self._admin_change(request, merge=False))),
        ]

    def _admin_show(self) -> Reply:
        return json_reply(200, self.scenario.model_dump(mode="json"))

    def _admin_change(self, request: HttpRequest, *, merge: bool) -> Reply:
        try:
            changes = parse_json(request.body)
            source = "/admin/scenario"
            self.asking.use(self.scenario.with_changes(changes, source) if merge else read_scenario(changes, source))
        except FailureError as error:
            return _admin_error(400, error.failure.message)
        except UsageError as error:
            return _admin_error(400, str(error))
        return self._admin_show()

    def _admin_asked(self, request: HttpRequest) -> Reply:
        """How often each question was asked; `?digest=` asks for one."""
        if "digest" in request.query:
            return json_reply(200, self.asking.ledger.count(request.query["digest"]).model_dump())
        lines = (json.dumps(count.model_dump()) for count in self.asking.ledger.counts())
        return Reply(200, "".join(f"{line}\n" for line in lines).encode(), content_type="application/jsonl")

    def _admin_reset(self, _request: HttpRequest) -> Reply:
        self.asking.ledger.reset()
        return json_reply(200, {})


def _admin_error(status: int, message: str) -> Reply:
    return json_reply(status, {"error": {"message": message}})


def _model_entry(name: str, dialect: Dialect) -> dict[str, JsonValue]:
    if isinstance(dialect, Gemini):
        return {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": ["generateContent"]}
    if isinstance(dialect, Anthropic):
        return {"type": "model", "id": name, "display_name": name, "created_at": "2023-11-14T22:13:20Z"}
    return {"id": name, "object": "model", "created": _BORN, "owned_by": "mbbq-gen"}
