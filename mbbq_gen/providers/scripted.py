"""Answers read from a file: `scripted:FILE`, for trying the tool, for tests, and for answers from elsewhere.

The file is JSON Lines. Each line says what to answer, and when:

    {"response": "B"}                                                      a default: no condition
    {"response": "I'd rather not say.", "instance_id": "17", "variant": "polite"}
    {"response": "Answer: C because", "contains": "grandmother", "finish_reason": "length"}
    {"error": "the service is down", "prompt_id": "3f0c…"}           a failure, never a text

Of the lines whose conditions all hold, the most specific is used (`_CONDITIONS`). Where several are equally specific,
the prompt id picks one of them: evenly spread, and the same in each run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import JsonValue, ValidationError, model_validator

from mbbq_gen.core.errors import DataError, UsageError, describe_fault
from mbbq_gen.core.files import PackPaths, file_digest, stable_number
from mbbq_gen.core.records import FrozenModel, IdText, Request, Response
from mbbq_gen.core.tables import UnreadableError, json_object, lines_of, row_error
from mbbq_gen.providers.base import Capabilities
from mbbq_gen.providers.oracles import LocalResponder

_CONDITIONS = ("prompt_id", "instance_key", "instance_id", "contains", "variant", "reasoning_effort", "language")
"""Each asks for more than all that follow together."""


class ScriptLine(FrozenModel):
    """One line of a script: what to answer, and the conditions under which."""

    response: str | None = None
    """The answer, to the letter; may be empty."""
    error: str | None = None
    """Instead of a response: what fails."""
    reasoning: str | None = None
    finish_reason: Literal["stop", "length", "content_filter", "other"] = "stop"
    prompt_id: str | None = None
    instance_key: str | None = None
    instance_id: IdText | None = None
    language: str | None = None
    variant: str | None = None
    """Id of the prompt variant."""
    reasoning_effort: str | None = None
    contains: str | None = None
    """A text that one of the messages holds, letter by letter."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.response is None) == (self.error is None):
            raise ValueError("give either 'response' or 'error'")
        return self


def read_script(path: Path) -> list[ScriptLine]:
    """The lines of a script; raises DataError where the file can't be read, holds no line, or a wrong one."""
    lines = []
    try:
        for number, line in lines_of(path):
            try:
                lines.append(ScriptLine.model_validate(json_object(line)))
            except UnreadableError as error:
                raise row_error(path, number, str(error)) from error
            except ValidationError as error:
                raise row_error(path, number, describe_fault(error, {})) from error
    except UsageError as error:
        raise DataError(f"{error}; name a JSON Lines file: scripted:FILE") from error
    if not lines:
        raise DataError(f'{path}: no lines; write at least one, such as {{"response": "A"}}')
    return lines


class Script:
    """The lines of a script, by their conditions: scripts may be as long as a benchmark."""

    def __init__(self, lines: Iterable[ScriptLine]) -> None:
        found: dict[tuple[str, ...], dict[tuple[str, ...], list[ScriptLine]]] = {}
        for line in lines:
            shape = tuple(name for name in _CONDITIONS if getattr(line, name) is not None)
            values = tuple(getattr(line, name) for name in shape if name != "contains")
            found.setdefault(shape, defaultdict(list))[values].append(line)
        self._shapes = sorted(found, key=lambda shape: [name in shape for name in _CONDITIONS], reverse=True)
        self._lines = found

    def line_for(self, request: Request) -> ScriptLine | None:
        """The line that answers a request, or None where no line fits."""
        actual = vars(request.prompt) | {"instance_id": request.instance.instance_id}
        texts = [message.content for message in request.messages]
        for shape in self._shapes:
            lines = self._lines[shape].get(tuple(actual[name] for name in shape if name != "contains"), [])
            fitting = [line for line in lines if line.contains is None or any(line.contains in text for text in texts)]
            if fitting:
                return fitting[stable_number("scripted", request.prompt.prompt_id) % len(fitting)]
        return None


class ScriptedProvider(LocalResponder):
    """Answers from a script; a request that no line fits gets an error."""

    kind = "scripted"
    capabilities = Capabilities(reasoning=True)

    def __init__(self, model: str | Path, options: Any = None, resources: PackPaths | None = None) -> None:
        """Raises DataError where the file that `model` names is wrong."""
        self._path = Path(model).expanduser()
        super().__init__(self._path.name, options, resources)
        self._script, self._digest = Script(read_script(self._path)), file_digest(self._path)

    def runtime_info(self) -> dict[str, JsonValue]:
        """Which file it was."""
        return {"script": str(self._path)}

    @property
    def settings(self) -> dict[str, JsonValue]:
        """The file's digest."""
        return {"script_sha256": self._digest}

    def respond(self, request: Request) -> Response:
        """What the script says to a request."""
        line = self._script.line_for(request) or ScriptLine(error=f"no line of {self._path} fits")
        said = line.model_dump(include={"error"} if line.error else {"response", "reasoning", "finish_reason"})
        text = said.pop("response", None)
        return Response(request_key=request.request_key, text=text, model=self.model, **said)
