"""Extraction of answers in JSON Lines: rows with options, labels and a response, from any source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mbbq_gen.core.errors import DataError, UnknownNameError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Extraction
from mbbq_gen.core.tables import UnreadableError, json_object
from mbbq_gen.extraction import has_pack
from mbbq_gen.extraction.question import Question
from mbbq_gen.extraction.simple import SIMPLE_EXTRACTORS

if TYPE_CHECKING:
    from mbbq_gen.extraction.engine import RuleExtractor


LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]+)*")
"""A language code."""


ENGINE = "rules"
"""Name of the real reader beside the simple ones."""


def extractor_names() -> list[str]:
    """The names of all readers, the real one first."""
    return [ENGINE, *SIMPLE_EXTRACTORS]


def extract_lines(
    lines: Iterable[str],
    source_name: str,
    *,
    resources: PackPaths | None = None,
    extractor: str = ENGINE,
    strict_languages: bool = False,
) -> Iterator[dict[str, Any]]:
    """The objects of the lines, in order, each with its extraction; blank lines are left out.

    Args:
        lines: JSON Lines.
        source_name: How messages name where they come from.
        resources: Where packs are looked for.
        extractor: `rules`, or one of the simple readers.
        strict_languages: Whether a row in a language without a pack is an error; else it is read without its words.

    Raises:
        DataError: where a row is wrong: source, row, field, what to do.
        UnknownNameError: where no reader has that name.
    """
    if extractor not in extractor_names():
        raise UnknownNameError("extractor", extractor, extractor_names())
    packs = resources or PackPaths()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{source_name}:{number}"
        row = read_row(line, where)
        if strict_languages and not has_pack(str(row.get("language")), packs):
            known = ", ".join(packs.names("extractors"))
            raise DataError(f"{where}: {row.get('language')}: no pack for this language; there are {known}")
        yield {**row, **_response_fields(_extract_row(row, where, packs, extractor))}


def _response_fields(extraction: Extraction) -> dict[str, Any]:
    """What an extraction adds to a row."""
    return {
        "outcome": extraction.outcome,
        "option": extraction.option,
        "confidence": extraction.confidence,
        "rule": extraction.rule,
        "spans": [list(span) for span in extraction.spans],
    }


def read_row(line: str, where: str) -> dict[str, Any]:
    """The object of a line.

    Raises:
        DataError: where there is none.
    """
    try:
        return json_object(line)
    except UnreadableError as error:
        raise DataError(f"{where}: {error}") from error


@dataclass(frozen=True)
class ResponseRow:
    """What a line says of one response."""

    language: str
    response: str
    question: Question
    finish_reason: str | None

    def read(self, extractor: RuleExtractor) -> Extraction:
        """What a reader takes it to mean."""
        return extractor.extract(self.response, self.question, finish_reason=self.finish_reason)


def response_row(row: Mapping[str, Any], where: str) -> ResponseRow:
    """The response of a line.

    Raises:
        DataError: where a field is wrong: source, row, field, what to do.
    """
    options, labels = _texts(row, "options", where), _texts(row, "labels", where)
    response, language = _text(row, "response", where), _text(row, "language", where)
    if not LANGUAGE.fullmatch(language):
        raise DataError(f"{where}: language: {language!r} is not a language code; examples: en or pt-br")
    unknown = _unknown(row, options, where)
    aliases = _aliases(row, options, where)
    prompt = _prompt(row, where)
    finish = row.get("finish_reason")
    if finish is not None and not isinstance(finish, str):
        raise DataError(f"{where}: finish_reason: a text or null is needed, found {finish!r}")
    if len(labels) != len(options):
        raise DataError(f"{where}: labels: {len(labels)} for {len(options)} options; give one for each option")
    return ResponseRow(language, response, Question(options, labels, unknown, prompt, aliases), finish)


def _extract_row(row: Mapping[str, Any], where: str, resources: PackPaths, extractor: str) -> Extraction:
    """The extraction of one row, its fields checked."""
    found = response_row(row, where)
    try:
        if extractor != ENGINE:
            return SIMPLE_EXTRACTORS[extractor](found.response, found.question)
        from mbbq_gen.extraction.engine import load_extractor

        return found.read(load_extractor(found.language, resources))
    except (UnknownNameError, UsageError) as error:
        raise DataError(f"{where}: {error}") from error


def _text(row: Mapping[str, Any], field: str, where: str) -> str:
    value = row.get(field)
    if field not in row:
        raise DataError(f"{where}: {field}: missing; every row needs it")
    if not isinstance(value, str):
        raise DataError(f"{where}: {field}: a text is needed, found {value!r}")
    return value


def _texts(row: Mapping[str, Any], field: str, where: str) -> list[str]:
    if field not in row:
        raise DataError(f"{where}: {field}: missing; every row needs it")
    values = row[field]
    if not isinstance(values, list) or not all(isinstance(value, str) and value.strip() for value in values):
        raise DataError(f"{where}: {field}: a list of texts is needed, found {values!r}")
    if not 2 <= len(values) <= 10:
        raise DataError(f"{where}: {field}: {len(values)} of them; 2 to 10 can be read")
    return values


def _unknown(row: Mapping[str, Any], options: list[str], where: str) -> int | None:
    if "unknown_index" not in row:
        raise DataError(f"{where}: unknown_index: missing; write null where no option means unknown")
    value = row["unknown_index"]
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < len(options):
        raise DataError(f"{where}: unknown_index: {value!r} is not an index into {len(options)} options")
    return value


def _aliases(row: Mapping[str, Any], options: list[str], where: str) -> dict[str, list[str]]:
    value = row.get("aliases")
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise DataError(f"{where}: aliases: an object language → texts is needed, found {value!r}")
    for language, texts in value.items():
        if not isinstance(texts, list) or not all(isinstance(text, str) and text.strip() for text in texts):
            raise DataError(f"{where}: aliases.{language}: a list of texts is needed, found {texts!r}")
        if len(texts) != len(options):
            raise DataError(f"{where}: aliases.{language}: {len(texts)} texts for {len(options)} options")
    return value


def _prompt(row: Mapping[str, Any], where: str) -> str | None:
    """The prompt, or what of it the row holds: context, question and options."""
    for field in ("prompt", "context", "question"):
        if row.get(field) is not None and not isinstance(row[field], str):
            raise DataError(f"{where}: {field}: a text is needed, found {row[field]!r}")
    if row.get("prompt"):
        return str(row["prompt"])
    parts = [str(row[field]) for field in ("context", "question") if row.get(field)]
    return "\n".join(parts) or None
