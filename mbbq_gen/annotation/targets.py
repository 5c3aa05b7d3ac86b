"""The extractions of a run that a person annotates, of answers or of reasoning traces, and the files they go to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

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
    """One extraction with its text."""

    stored: ExtractionRow
    answered: CompletedPrompt
    """With the text that was extracted from as its response."""
    extraction: Extraction


class ReviewTarget:
    """The answers of a run, whose extractions a person annotates."""

    of_answers = True
    """Whether answers are annotated, and not reasoning traces."""
    _names = (ANNOTATIONS_NAME, DESIGN_NAME, DRAWS_NAME)

    def __init__(self, folder: RunFolder, resources: PackPaths) -> None:
        self._folder, self._resources = folder, resources
        self.annotations_path, self.design_path, self.draws_path = (folder.path / name for name in self._names)

    def versions(self, extractor: str, step: Callable[[int], None]) -> dict[str, str]:
        """Language → the version whose extractions are annotated; missing extractions are made first."""
        return ensure_extracted(self._folder, self._resources, extractor, step)

    def extractions(self, store: RunStore, versions: Mapping[str, str]) -> Iterator[ExtractionRow]:
        """All extractions of these versions."""
        return iter_extractions(store, versions)

    def find(self, store: RunStore, prompt_id: str, version: str) -> ReviewedAnswer | None:
        """One of them with its text; None where there is none."""
        found = find_extraction(store, prompt_id, version)
        return None if found is None else ReviewedAnswer(*found, stored_extractions(store, prompt_id)[version])

    def explain(self, answered: CompletedPrompt) -> Explanation | None:
        """How the engine reads it; None where the service itself says what it is."""
        return explain_answer(answered, self._resources)


class ReasoningTarget(ReviewTarget):
    """The reasoning traces of a run; the right option is the one that the trace concludes."""

    of_answers = False
    _names = ("annotations-reasoning.jsonl", "annotation-sample-reasoning.json", "annotation-draws-reasoning.jsonl")

    def versions(self, extractor: str, step: Callable[[int], None]) -> dict[str, str]:
        """The one extractor of reasoning traces, for every language."""
        version = extract_all_reasoning(self._folder, self._resources, step)
        with self._folder.open_store(read_only=True) as store:
            return dict.fromkeys(store.languages(), version)

    def extractions(self, store: RunStore, versions: Mapping[str, str]) -> Iterator[ExtractionRow]:
        """The extractions of reasoning traces."""
        for version in dict.fromkeys(versions.values()):
            yield from reasoning_extractions(store, version, versions)

    def find(self, store: RunStore, prompt_id: str, version: str) -> ReviewedAnswer | None:
        """A trace in its answer's place, with its extraction."""
        found = find_reasoning_extraction(store, prompt_id, version, self._resources)
        return None if found is None else ReviewedAnswer(*found)
