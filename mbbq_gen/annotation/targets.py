"""What a person may judge of a run, answers or the thoughts before them: their readings and the verdicts' files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from mbbq_gen.annotation.annotations import DRAWS_NAME
from mbbq_gen.annotation.review import ANNOTATIONS_NAME, DESIGN_NAME
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Extraction
from mbbq_gen.extraction import Explanation
from mbbq_gen.runs.extraction import explain_answer
from mbbq_gen.runs.observations import ensure_extracted
from mbbq_gen.runs.reasoning import extract_all_reasoning, find_reasoning_extraction, reasoning_extractions
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.storage.queries import ExtractionRow, find_extraction, iter_extractions, stored_extractions
from mbbq_gen.storage.store import CompletedPrompt, RunStore


class ReviewedAnswer(NamedTuple):
    """One reading with what was read."""

    stored: ExtractionRow
    answered: CompletedPrompt
    """With the text that was read as its response."""
    extraction: Extraction


class ReviewTarget(Protocol):
    """Texts of a run that were read, and where verdicts on their readings are kept."""

    of_answers: bool
    """Whether they are answers."""
    annotations_path: Path
    design_path: Path
    draws_path: Path

    def versions(self, extractor: str, step: Callable[[int], None]) -> dict[str, str]:
        """Language → the version whose readings are judged; reads first what it has not read yet."""

    def extractions(self, store: RunStore, versions: Mapping[str, str]) -> Iterator[ExtractionRow]:
        """All readings of these versions."""

    def find(self, store: RunStore, prompt_id: str, version: str) -> ReviewedAnswer | None:
        """One of them with what was read; None where there is none."""

    def explain(self, answered: CompletedPrompt) -> Explanation | None:
        """How the engine reads it; None where the service itself says what it is."""


class Answers:
    """What models said."""

    of_answers = True

    def __init__(self, folder: RunFolder, resources: PackPaths) -> None:
        self._folder, self._resources = folder, resources
        self.annotations_path = folder.path / ANNOTATIONS_NAME
        self.design_path = folder.path / DESIGN_NAME
        self.draws_path = folder.path / DRAWS_NAME

    def versions(self, extractor: str, step: Callable[[int], None]) -> dict[str, str]:
        """Those of a reader of answers."""
        return ensure_extracted(self._folder, self._resources, extractor, step)

    def extractions(self, store: RunStore, versions: Mapping[str, str]) -> Iterator[ExtractionRow]:
        """What was read in answers."""
        return iter_extractions(store, versions)

    def find(self, store: RunStore, prompt_id: str, version: str) -> ReviewedAnswer | None:
        """An answer with its reading."""
        found = find_extraction(store, prompt_id, version)
        return None if found is None else ReviewedAnswer(*found, stored_extractions(store, prompt_id)[version])

    def explain(self, answered: CompletedPrompt) -> Explanation | None:
        """As `explain` does."""
        return explain_answer(answered, self._resources)


class ReasoningTarget:
    """What models thought first; the right option is the one that the thought settles on."""

    of_answers = False

    def __init__(self, folder: RunFolder, resources: PackPaths) -> None:
        self._folder, self._resources = folder, resources
        self.annotations_path = folder.path / "annotations-reasoning.jsonl"
        self.design_path = folder.path / "annotation-sample-reasoning.json"
        self.draws_path = folder.path / "annotation-draws-reasoning.jsonl"

    def versions(self, extractor: str, step: Callable[[int], None]) -> dict[str, str]:
        """The one reader of thoughts, for every language."""
        version = extract_all_reasoning(self._folder, self._resources, step)
        with self._folder.open_store(read_only=True) as store:
            return dict.fromkeys(store.languages(), version)

    def extractions(self, store: RunStore, versions: Mapping[str, str]) -> Iterator[ExtractionRow]:
        """What was read in thoughts."""
        for version in dict.fromkeys(versions.values()):
            yield from reasoning_extractions(store, version, versions)

    def find(self, store: RunStore, prompt_id: str, version: str) -> ReviewedAnswer | None:
        """A thought in its answer's place, with its reading."""
        found = find_reasoning_extraction(store, prompt_id, version, self._resources)
        return None if found is None else ReviewedAnswer(*found)

    def explain(self, answered: CompletedPrompt) -> Explanation | None:
        """How the reader of answers reads the whole of it."""
        return explain_answer(answered, self._resources)
