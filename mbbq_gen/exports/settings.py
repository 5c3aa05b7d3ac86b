"""What an export is of: whose reading, which right answers, which scores; and what its folder says of itself."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mbbq_gen.extraction.jsonl import ENGINE
from mbbq_gen.records import Record
from mbbq_gen.scoring import Labels, Undetected
from mbbq_gen.scoring.wordings import Wordings

DEFAULT_BY = ("benchmark", "language", "split")
QUESTION_COLUMNS = (
    *("context", "question", "options", "option_groups", "chosen_text", "unknown_text", "metadata"),
    *("prompt", "messages"),
)
"""Columns of items that hold the benchmark's own text: left out where it may not be passed on."""


class ExportSettings(Record):
    """How what is exported was read and scored."""

    extractor: str = ENGINE
    """A reader by its name, or a stored version."""
    labels: Labels = "published"
    undetected: Undetected = "discard"
    by: tuple[str, ...] = DEFAULT_BY
    """Groupings of the scores."""
    metrics: tuple[str, ...] | None = None
    """None: all."""
    interval: float = 0.95
    resamples: int = 2000
    seed: int = 0
    wordings: Wordings = "fixed"
    """What intervals speak of: the wordings asked, or wordings like them."""
    with_questions: bool = True
    """Whether the benchmark's own text (`QUESTION_COLUMNS`) goes along."""


class ExportedFile(Record):
    """One file of an export."""

    path: str
    """Within the folder, with `/` between its steps."""
    rows: int | None
    """None for what is no table."""
    size: int
    """Bytes."""
    sha256: str


class ExportRecord(Record):
    """What stands in an export's export.json."""

    schema_version: Literal["mbbq-gen.export/1"] = "mbbq-gen.export/1"
    """Raised when a file changes its name or kind."""
    mbbq_gen: str
    """Version of the package that wrote it."""
    run: str
    """Name of the run's folder."""
    model: str
    kind: Literal["parquet", "csv", "hf-dataset"]
    settings: ExportSettings
    extractors: dict[str, str]
    """Language → version of the extractor whose readings these are."""
    requests: int
    answered: int
    """Requests with an answer; where it is less than `requests`, this is a part of the run."""
    files: tuple[ExportedFile, ...] = Field(default=())
