"""Extracts answers from JSON Lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final, TypeVar

from pydantic import BaseModel, Field, StringConstraints, ValidationError

from mbbq_gen.core.errors import DataError, UnknownNameError, UsageError, describe_fault
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Extraction
from mbbq_gen.core.tables import UnreadableError, json_object
from mbbq_gen.extraction import ENGINE, extractor_names
from mbbq_gen.extraction.engine import RuleExtractor, load_extractor
from mbbq_gen.extraction.question import Question
from mbbq_gen.extraction.simple import SIMPLE_EXTRACTORS

LANGUAGE: Final = r"[a-z]{2,3}(-[A-Za-z0-9]+)*"
_Text = Annotated[str, StringConstraints(strict=True)]
_Texts = Annotated[list[Annotated[_Text, StringConstraints(pattern=r"\S")]], Field(min_length=2, max_length=10)]


class ResponseRow(BaseModel):
    """One response with its question; other fields of the line are ignored."""

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
        """The question; without a prompt, it is made from context and question. Raises as `Question`."""
        prompt = self.prompt or "\n".join(part for part in (self.context, self.question) if part) or None
        labels = self.labels or list("ABCDEFGHIJ"[: len(self.options)])
        return Question(self.options, labels, self.unknown_index, prompt, self.aliases or {})

    def read(self, extractor: RuleExtractor) -> Extraction:
        """The extraction of the response by the rule extractor."""
        return extractor.extract(self.response, self.to_question(), finish_reason=self.finish_reason)


RowT = TypeVar("RowT", bound=ResponseRow)


def extract_lines(
    lines: Iterable[str], source_name: str, *, resources: PackPaths | None = None, extractor: str = ENGINE
) -> Iterator[dict[str, Any]]:
    """The JSON objects of the lines, in order, each with its extraction; blank lines are skipped.

    `source_name`: for messages; `extractor`: its name. DataError for a wrong row, with source, row and field.
    """
    if extractor not in extractor_names():
        raise UnknownNameError("extractor", extractor, extractor_names())
    for row, checked in read_rows(ResponseRow, lines, source_name):
        if extractor == ENGINE:
            found = checked.read(load_extractor(checked.language, resources))
        else:
            found = SIMPLE_EXTRACTORS[extractor](checked.response, checked.to_question())
        yield row | found.model_dump(mode="json", include={"outcome", "option", "confidence", "rule", "spans"})


def read_rows(schema: type[RowT], lines: Iterable[str], source_name: str) -> Iterator[tuple[dict[str, Any], RowT]]:
    """Object and row of each line that is not blank; raises DataError for wrong rows."""
    required = [name for name, field in schema.model_fields.items() if field.is_required()]
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{source_name}:{number}"
        try:
            row = json_object(line)
            for field in required:
                if field not in row:
                    raise DataError(f"{where}: {field}: missing; every row needs it (the indices may be null)")
            checked = schema.model_validate(row)
            checked.to_question()
        except ValidationError as error:
            raise DataError(f"{where}: {describe_fault(error, row)}") from error
        except (UnreadableError, UsageError) as error:
            raise DataError(f"{where}: {error}") from error
        yield row, checked
