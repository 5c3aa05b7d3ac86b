"""Reads stored responses: from answers to extractions, and from extractions to the rows that scores count.

Readings are kept per extractor version. Reading again after an upgrade asks the model nothing, and reading with the
same version does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from mbbq_gen.extraction import Extractor, load_extractor
from mbbq_gen.presentation import shown_options, shown_unknown
from mbbq_gen.records import Extraction
from mbbq_gen.resources import Resources
from mbbq_gen.runs.store import Answered, RunStore
from mbbq_gen.scoring.observations import Labels, Observation, observe

_BATCH = 2000


def read_run(store: RunStore, resources: Resources, step: Callable[[int], None]) -> dict[str, str]:
    """Reads every answer that its language's extractor has not read yet; says the extractor version by language.

    `step` hears of each batch that is stored.
    """
    versions: dict[str, str] = {}
    for language in store.languages():
        extractor = load_extractor(language, resources)
        versions[language] = extractor.version
        while True:
            batch = list(islice(store.unread(extractor.version, language), _BATCH))
            if not batch:
                break
            store.add_extractions(extractor.version, _read_all(batch, extractor))
            step(len(batch))
    return versions


def extractor_versions(languages: Iterable[str], resources: Resources) -> dict[str, str]:
    """The extractor version that is current for each language."""
    return {language: load_extractor(language, resources).version for language in languages}


def _read_all(batch: list[Answered], extractor: Extractor) -> Iterator[tuple[str, Extraction]]:
    for answered in batch:
        yield answered.presentation.presentation_id, read_answer(answered, extractor)


def read_answer(answered: Answered, extractor: Extractor) -> Extraction:
    """What one stored response means; a failure is `error` and a blocked answer `filtered`, whatever text they have."""
    response, presentation, instance = answered.response, answered.presentation, answered.instance
    if response.error is not None:
        return Extraction(outcome="error", confidence="high", rule="response.error")
    if response.finish_reason == "content_filter":
        return Extraction(outcome="filtered", confidence="high", rule="response.content_filter")
    return extractor.extract(
        response.text or "",
        shown_options(instance, presentation.order),
        list(presentation.labels),
        shown_unknown(instance, presentation.order),
        prompt=presentation.messages[-1].content,
        finish_reason=response.finish_reason,
    )


def observations(
    store: RunStore, versions: dict[str, str], model: str, labels: Labels = "published"
) -> Iterator[Observation]:
    """One row for each answer that was read by these extractor versions."""
    for instance, presentation, _, extraction in store.read_presentations(versions):
        yield observe(
            instance,
            presentation.order,
            extraction,
            model=model,
            variant=presentation.variant,
            label_style=presentation.label_style,
            labels=labels,
        )
