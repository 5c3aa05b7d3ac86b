"""The prompt of the second reader: a published text, and what is put into it of one answer.

    The options, each with its name for your reply, …          a seeded order of its own for every answer
    X1: shown as "B": "The grandson"
    X2: shown as "C": "Not known"
    X3: shown as "A": "The grandfather"

    The answer stands between the two lines with the mark [[9f2c41d7a06b]].
    [[9f2c41d7a06b]]
    It was the grandson.
    [[9f2c41d7a06b]]

What goes in is the question, the options as shown, and the answer: nothing that tells a role or the right answer. The
order and the mark depend on these and the seed alone, so equal answers to equal questions are one request.
"""

from __future__ import annotations

import json
import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Final, Self

from pydantic import Field, JsonValue, ValidationError, model_validator

from mbbq_gen.errors import DataError
from mbbq_gen.languages import describe_fault
from mbbq_gen.records import Message, NonBlank, Outcome, Record
from mbbq_gen.runs.reading import question_of
from mbbq_gen.runs.store import Answered
from mbbq_gen.seeding import stable_digest, stable_number

NO_OPTION: Final = "none"
"""What the reply says in the place of an option where none is chosen."""
_PLACEHOLDER: Final = re.compile(r"\{(question|options|mark|answer)\}")
_MARK_LENGTH: Final = 12


class JudgePrompt(Record):
    """The prompt as it stands in `prompt.toml`."""

    version: int = Field(ge=1)
    source: NonBlank
    licence: NonBlank
    labels: tuple[NonBlank, ...] = Field(min_length=3, max_length=3)
    """The judge's names of the options."""
    system: NonBlank
    user: NonBlank
    outcomes: dict[str, Outcome] = Field(min_length=1)
    """The reply's word → the outcome that it means."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        found = set(_PLACEHOLDER.findall(self.user))
        if missing := {"question", "options", "mark", "answer"} - found:
            raise ValueError(f"user: placeholders missing: {', '.join(sorted(missing))}")
        return self

    @property
    def digest(self) -> str:
        """The sha256 of all that shapes a request or the meaning of a reply."""
        content = self.model_dump(mode="json", exclude={"source", "licence"})
        return stable_digest(json.dumps(content, sort_keys=True, ensure_ascii=False))

    def reply_schema(self) -> dict[str, JsonValue]:
        """The JSON schema of a reply, in the few words that all services with structured output know."""
        return {
            "type": "object",
            "properties": {
                "outcome": {"type": "string", "enum": list(self.outcomes)},
                "option": {"type": "string", "enum": [*self.labels, NO_OPTION]},
            },
            "required": ["outcome", "option"],
            "additionalProperties": False,
        }


@cache
def shipped_prompt() -> JudgePrompt:
    """The prompt that ships.

    Raises:
        DataError: where its file is wrong: key, value.
    """
    content = tomllib.loads(files("mbbq_gen.runs.judging").joinpath("prompt.toml").read_text(encoding="utf-8"))
    try:
        return JudgePrompt.model_validate(content)
    except ValidationError as error:
        raise DataError(f"prompt.toml: {describe_fault(error, content)}") from error


class Sheet(Record):
    """What a judge is shown of one answer."""

    order: tuple[int, ...]
    """`order[place]` is the index, among the options as the model saw them, of the one with the judge's label there."""
    messages: tuple[Message, ...]


def sheet_of(answered: Answered, prompt: JudgePrompt, seed: int) -> Sheet:
    """What a judge is asked about a stored answer."""
    question = question_of(answered)
    texts = (answered.instance.question, answered.response.text or "")
    shown = list(zip(question.labels, question.options, strict=True))
    order = tuple(sorted(range(len(shown)), key=lambda place: stable_number("judge", seed, *texts, *shown[place])))
    lines = [
        f"{name}: shown as {_quoted(shown[place][0])}: {_quoted(shown[place][1])}"
        for name, place in zip(prompt.labels, order, strict=True)
    ]
    values = {
        "question": texts[0].strip(),
        "options": "\n".join(lines),
        "mark": _mark(texts[1], seed),
        "answer": texts[1],
    }
    user = _PLACEHOLDER.sub(lambda found: values[found[1]], prompt.user.strip())
    return Sheet(
        order=order,
        messages=(Message(role="system", content=prompt.system.strip()), Message(role="user", content=user)),
    )


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _mark(answer: str, seed: int) -> str:
    """A line that does not occur in the answer, and that whoever wrote the answer could not have known."""
    number = 0
    while True:
        mark = f"[[{stable_digest('mark', seed, number, answer)[:_MARK_LENGTH]}]]"
        if mark not in answer:
            return mark
        number += 1
