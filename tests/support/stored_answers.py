"""What a run's store holds of each answer, as records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mbbq_gen.core.records import Extraction, Instance, Prompt, Response
from mbbq_gen.storage.schema import EXTRACTION, read_extraction
from mbbq_gen.storage.store import RunStore


def read_presentations(
    store: RunStore, extractors: Mapping[str, str]
) -> Iterator[tuple[Instance, Prompt, Response, Extraction]]:
    """Yields everything answered and read, in plan order; `extractors`: language → extractor version."""
    for language, extractor in sorted(extractors.items()):
        rows = store.query(
            f"SELECT i.record, p.record, r.record, {', '.join(EXTRACTION)} FROM prompts p"
            " JOIN instances i ON i.key = p.instance_key JOIN responses r ON r.request_key = p.request_key"
            " JOIN extractions e ON e.prompt_id = p.prompt_id AND e.extractor = ?"
            " WHERE p.language = ? ORDER BY p.number",
            (extractor, language),
        )
        for instance, prompt, response, *extraction in rows:
            yield (
                Instance.model_validate_json(instance),
                Prompt.model_validate_json(prompt),
                Response.model_validate_json(response),
                read_extraction(extraction),
            )
