"""Extraction of answers in JSON Lines: rows with options, labels and a response, from any source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from pydantic import BaseModel, Field, StringConstraints, ValidationError

from mbbq_gen.core.errors import DataError, UnknownNameError, UsageError, describe_fault
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Extraction
from mbbq_gen.core.tables import UnreadableError, json_object
from mbbq_gen.extraction.question import Question
from mbbq_gen.extraction.simple import SIMPLE_EXTRACTORS

if TYPE_CHECKING:
    from mbbq_gen.extraction.engine import RuleExtractor

LANGUAGE: Final = r"[a-z]{2,3}(-[A-Za-z0-9]+)*"
ENGINE: Final = "rules"
"""Name of the rule extractor beside the simple ones."""
_Text = Annotated[str, StringConstraints(strict=True)]
_Texts = Annotated[list[Annotated[_Text, StringConstraints(pattern=r"\S")]], Field(min_length=2, max_length=10)]


def extractor_names() -> list[str]:
    """The names of all extractors, the rule extractor first."""
    return [ENGINE, *SIMPLE_EXTRACTORS]


class ResponseRow(BaseModel):
    """What a line says of one response; other fields are left alone."""

    language: Annotated[str, StringConstraints(strict=True, pattern=f"^{LANGUAGE}$")]
    response: _Text
    options: _Texts
    labels: _Texts = []
    """The labels as shown; A, B, C… if left out."""
    unknown_index: Annotated[int, Field(strict=True)] | None
    aliases: dict[str, _Texts] | None = None
    prompt: _Text | None = None
    context: _Text | None = None
    question: _Text | None = None
    finish_reason: _Text | None = None

    def to_question(self) -> Question:
        """The question, whose prompt is made of context and question where the row holds none.

        Raises:
            UsageError: where options, labels, unknown option and aliases don't fit together.
        """
        prompt = self.prompt or "\n".join(part for part in (self.context, self.question) if part) or None
        labels = self.labels or list("ABCDEFGHIJ"[: len(self.options)])
        return Question(self.options, labels, self.unknown_index, prompt, self.aliases or {})

    def read(self, extractor: RuleExtractor) -> Extraction:
        """What an extractor takes it to mean."""
        return extractor.extract(self.response, self.to_question(), finish_reason=self.finish_reason)


RowT = TypeVar("RowT", bound=ResponseRow)


def extract_lines(
    lines: Iterable[str],
    source_name: str,
    *,
    resources: PackPaths | None = None,
    extractor: str = ENGINE,
) -> Iterator[dict[str, Any]]:
    """The objects of the lines, in order, each with its extraction; blank lines are left out.

    Args:
        source_name: How messages name where they come from.
        extractor: `rules`, or one of the simple extractors.

    Raises:
        DataError: where a row is wrong: source, row, field, what to do.
    """
    from mbbq_gen.extraction.engine import load_extractor

    if extractor not in extractor_names():
        raise UnknownNameError("extractor", extractor, extractor_names())
    packs = resources or PackPaths()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{source_name}:{number}"
        row, checked = read_row(ResponseRow, line, where)
        if extractor == ENGINE:
            found = checked.read(load_extractor(checked.language, packs))
        else:
            found = SIMPLE_EXTRACTORS[extractor](checked.response, checked.to_question())
        yield {**row, **found.model_dump(mode="json", include={"outcome", "option", "confidence", "rule", "spans"})}


def read_row(schema: type[RowT], line: str, where: str) -> tuple[dict[str, Any], RowT]:
    """The object of a line, and the response that it describes; raises DataError where there is none."""
    try:
        row = json_object(line)
        for field in ("language", "response", "options", "unknown_index"):
            if field not in row:
                raise DataError(f"{where}: {field}: missing; every row needs it (unknown_index may be null)")
        checked = schema.model_validate(row)
        checked.to_question()
    except ValidationError as error:
        raise DataError(f"{where}: {describe_fault(error, row)}") from error
    except (UnreadableError, UsageError) as error:
        raise DataError(f"{where}: {error}") from error
    return row, checked
