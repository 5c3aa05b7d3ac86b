"""Extracts the answers of stored responses, and turns extractions into observations.

Extractions are stored by extractor version: for the rules, a digest of their packs (`1+be9bd7e0c1e6`); for a simple
extractor, its name and version (`strict-match+1`). A new version extracts all responses again, without requests.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Self, get_args

from mbbq_gen import extraction
from mbbq_gen.core.errors import UnknownNameError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.option_display import options_in_order, unknown_position
from mbbq_gen.core.records import NO_RESPONSE, NORMALISATIONS, PARSED, Extraction, Normalise, Outcome, Response
from mbbq_gen.core.text import one_of
from mbbq_gen.extraction import BASELINES, ENGINE, SIMPLE_VERSION, current_version, extractor_names
from mbbq_gen.extraction.likelihood import LIKELIHOOD_PREFIX, choose_by_loglikelihood, version_of
from mbbq_gen.runs.helper_process import HelperProcess
from mbbq_gen.scoring.observations import (
    ANSWER_COLUMNS,
    METHOD,
    REASONING_EFFORT,
    GoldLabels,
    Questions,
    model_by_method,
    observations_from_columns,
    without_places,
)
from mbbq_gen.storage.queries import parse_completed
from mbbq_gen.storage.schema import Value, extraction_row
from mbbq_gen.storage.store import ANSWER_ROW, NORMALISE, CompletedPrompt, RunStore

if TYPE_CHECKING:
    import polars

    from mbbq_gen.extraction import Question
    from mbbq_gen.extraction.explain import Explanation

_BATCH_SIZE: Final = 2000
"""Extractions that share one commit."""
JUDGE_PREFIX = "judge:"
"""Prefix of the extractor versions of LLM judges (`annotation.judge`); the judge's name follows."""

UNPARSED_OUTCOMES: tuple[Outcome, ...] = tuple(
    outcome for outcome in get_args(Outcome) if outcome not in PARSED and outcome not in NO_RESPONSE
)
"""Outcomes of a response that chooses no option."""


def question_of(answered: CompletedPrompt) -> Question:
    """The question of a stored response, for the extractor.

    `prompt` is the last message followed by the question. `aliases` are the options in other languages of the run.
    """
    prompt, instance = answered.prompt, answered.instance
    roles = [instance.options[index].role for index in prompt.option_order]
    return extraction.Question(  # imported on first use
        options=tuple(options_in_order(instance, prompt.option_order, prompt.unknown_text)),
        labels=prompt.option_labels,
        unknown_index=unknown_position(instance, prompt.option_order),
        prompt=f"{prompt.messages[-1].content if prompt.messages else ''}\n{instance.question}",
        aliases={
            language: tuple(texts[role] for role in roles if role is not None)
            for language, texts in answered.parallels.items()
        },
    )


class Extractor(NamedTuple):
    """An extractor for one language."""

    version: str
    extract: Callable[..., Extraction]
    """Called with the text of a response, its question and `finish_reason`."""


def extractor_for(name: str, language: str, resources: PackPaths) -> Extractor:
    """The extractor of that name for a language; raises UnknownNameError if there is none."""
    if name == ENGINE:
        from mbbq_gen.extraction.engine import load_extractor

        engine = load_extractor(language, resources)
        return Extractor(engine.version, engine.extract)
    if name not in BASELINES:
        raise UnknownNameError("extractor", name, extractor_names())
    from mbbq_gen.extraction.simple import SIMPLE_EXTRACTORS

    read = SIMPLE_EXTRACTORS[name]
    return Extractor(f"{name}+{SIMPLE_VERSION}", lambda response, question, finish_reason: read(response, question))


def extract_response(answered: CompletedPrompt, reader: Extractor) -> Extraction:
    """Extracts the answer of one stored response."""
    response = answered.response
    return outcome_without_text(answered) or reader.extract(
        response.text or "", question_of(answered), finish_reason=response.finish_reason
    )


def outcome_without_text(answered: CompletedPrompt) -> Extraction | None:
    """The extraction for an error, a content filter or a missing text; None if the text must be extracted."""
    response = answered.response
    if response.error is not None:
        return Extraction(outcome="error", confidence="high", rule="response.error")
    if response.finish_reason == "content_filter":
        return Extraction(outcome="content_filter", confidence="high", rule="response.content_filter")
    if (response.text or "").strip():
        return None
    if response.refusal:  # the service separates the text of a refusal
        unknown = question_of(answered).unknown_index
        return Extraction(outcome="refusal", option=unknown, confidence="high", rule="response.refusal")
    if response.finish_reason == "length":  # all tokens were used for reasoning
        return Extraction(outcome="truncated", confidence="high", rule="response.length")
    return None


def explain_answer(answered: CompletedPrompt, resources: PackPaths) -> Explanation | None:
    """Explains how the rules extract one stored response; None if `outcome_without_text` applies."""
    if outcome_without_text(answered) is not None:
        return None
    from mbbq_gen.extraction.engine import load_extractor

    response = answered.response
    return load_extractor(answered.prompt.language, resources).explain(
        response.text or "", question_of(answered), finish_reason=response.finish_reason
    )


def extractor_name(version: str) -> str:
    """The name of the extractor of a version; for judges and loglikelihoods, the version itself."""
    if version.startswith((JUDGE_PREFIX, LIKELIHOOD_PREFIX)):
        return version
    name = version.rpartition("+")[0]
    return name if name in BASELINES else ENGINE


def extractor_versions(languages: Iterable[str], resources: PackPaths, name: str = ENGINE) -> dict[str, str]:
    """Language → the current version of an extractor.

    The version of the rules is a digest of their files, so no pack is compiled if there is nothing to extract.
    """
    if name == ENGINE:
        return {language: current_version(language, resources) for language in languages}
    return {language: extractor_for(name, language, resources).version for language in languages}


StoredExtraction = tuple[Value, ...]
"""Prompt id and the columns of its extraction."""


def extract_run(
    store: RunStore, resources: PackPaths, step: Callable[[int], None], *, extractor: str = ENGINE
) -> dict[str, str]:
    """Extracts the responses without an extraction of the current version; returns language → extractor version.

    `step`: called with the number of extractions of each stored batch.
    """
    versions = extractor_versions(store.languages(), resources, extractor)
    for language, version in versions.items():
        unextracted = parse_completed(store.without_extraction(version, language))
        reader: Extractor | None = None  # loaded only if there is something to extract
        while batch := list(islice(unextracted, _BATCH_SIZE)):
            reader = reader or extractor_for(extractor, language, resources)
            rows = [_row(answered, extract_response(answered, reader)) for answered in batch]
            store_extractions(store, language, version, rows)
            step(len(rows))
    extract_scores(store, step)
    return versions


def _row(answered: CompletedPrompt, found: Extraction) -> StoredExtraction:
    return answered.prompt.prompt_id, *extraction_row(found)


def extract_scores(store: RunStore, step: Callable[[int], None], normalise: Normalise | None = None) -> None:
    """Extracts the choices of all loglikelihoods without an extraction.

    `normalise`: the normalization; None: the run's. UsageError if the run lacks the loglikelihoods that it needs.
    """
    version, how = scores_version(store, normalise), normalise or _run_normalise(store)
    for language in store.languages() if version else ():
        unextracted = parse_completed(store.without_extraction(str(version), language, scored=True), store)
        while batch := list(islice(unextracted, _BATCH_SIZE)):
            rows = [_row(answered, extract_scored(answered, how)) for answered in batch]
            store.add_extractions(str(version), rows)
            step(len(batch))


def scores_version(store: RunStore, normalise: Normalise | None = None) -> str | None:
    """The extractor version for loglikelihoods; None if the run has no loglikelihood method."""
    return version_of(normalise or _run_normalise(store)) if store.is_scored else None


def _run_normalise(store: RunStore) -> Normalise:
    return one_of("normalisation", store.meta(NORMALISE) or "sum", NORMALISATIONS)


def extract_scored(answered: CompletedPrompt, normalise: Normalise) -> Extraction:
    """The option with the highest normalised loglikelihood; `error` for a failed request."""
    shown = answered.prompt
    return outcome_without_text(answered) or choose_by_loglikelihood(
        answered.response.scores or (), shown.option_order, shown.method, normalise
    )


def store_extractions(store: RunStore, language: str, version: str, extractions: Sequence[StoredExtraction]) -> None:
    """Stores extractions of one language by one extractor version."""
    order = _version_order(store, language)
    if version not in order:
        store.set_meta(f"extractors/{language}", json.dumps([*order, version]))
    store.add_extractions(version, extractions)


def previous_extraction(store: RunStore, language: str, version: str, resources: PackPaths) -> str | None:
    """The extractor version with which `version` is compared in a language; None if there is none.

    For the rules, the preceding version; for a simple extractor, the current or latest version of the rules.
    """
    order = _version_order(store, language)
    stored = sorted(store.extractors(language), key=lambda name: (order.index(name) if name in order else -1, name))
    engines = [name for name in stored if extractor_name(name) == ENGINE]
    if extractor_name(version) == ENGINE:
        engines = engines[: engines.index(version)] if version in engines else engines
    elif (current := current_version(language, resources)) in engines:
        return current
    return engines[-1] if engines else None


def _version_order(store: RunStore, language: str) -> list[str]:
    """The extractor versions of a language, in the order of their first use."""
    found: list[str] = json.loads(store.meta(f"extractors/{language}") or "[]")
    return found


def observations(
    store: RunStore,
    versions: Mapping[str, Sequence[str]],
    model: str,
    gold: GoldLabels = "published",
    *,
    questions: Questions | None = None,
    follow_up: bool = False,
) -> polars.DataFrame:
    """The observations of all responses with extractions of these versions, in plan order.

    `versions`: language → extractor versions; `questions`: None to load them; `follow_up`: whether follow-ups replace
    responses that could not be extracted.
    """
    import polars as pl

    read = []
    for batch in store.answer_rows(versions, follow_up=follow_up):
        rows = answer_table(batch, ANSWER_ROW)
        orders = {order: json.dumps([*map(int, order)]) for order in rows["option_order"].unique()}
        rows = rows.with_columns(pl.col("option_order").replace_strict(orders), model=model_by_method(model))
        texts = pl.col(pl.String).cast(pl.Categorical)  # few distinct values
        read.append(rows.select(_ANSWER_FIELDS).with_columns(texts))
    answers = pl.concat(read) if read else pl.DataFrame(schema=dict.fromkeys(ANSWER_COLUMNS, pl.String))
    return without_places(observations_from_columns(questions or store.questions(), answers, gold))


_ANSWER_FIELDS: Final = (*ANSWER_COLUMNS, METHOD, REASONING_EFFORT)


def answer_table(rows: Sequence[Sequence[object]], names: Sequence[str] = _ANSWER_FIELDS) -> polars.DataFrame:
    """Rows of answers as a table with these columns."""
    import polars as pl

    kinds = {name: pl.Int8() if name == "option" else pl.String() for name in names}
    return pl.DataFrame(rows, schema=kinds, orient="row")


Extracted = dict[tuple[str, str], list[StoredExtraction]]
"""Language and extractor version → extractions."""


class ExtractionWorker:
    """Extracts responses in the helper process while requests are sent.

    A context manager that drops unfinished extractions on exit.
    """

    def __init__(self, store: RunStore, resources: PackPaths, helper: HelperProcess) -> None:
        """`helper`: the process that extracts; if it is not running, this process extracts."""
        self._store, self._resources, self._helper = store, resources, helper
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="mbbq-gen-reading")
        self._pending: deque[Future[Extracted]] = deque()
        self._uncommitted: dict[tuple[str, str], list[StoredExtraction]] = defaultdict(list)

    def __enter__(self) -> Self:
        self._thread.submit(self._helper.prepare)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for future in self._pending:
            future.cancel()
        self._thread.submit(self._helper.call, _close_source, self._store.path)
        self._thread.shutdown()

    def submit(self, responses: Iterable[Response]) -> None:
        """Queues stored responses for extraction and stores finished extractions."""
        keys = [response.request_key for response in responses if response.error is None]
        if keys:
            work = self._thread.submit(self._helper.call, _extract, self._store.path, self._resources, keys)
            self._pending.append(work)
        self._collect()
        if sum(map(len, self._uncommitted.values())) >= _BATCH_SIZE:
            self._commit()

    async def finish(self) -> None:
        """Waits until all submitted responses are extracted and stored."""
        while self._pending:
            await asyncio.wrap_future(self._pending[0])
            self._collect()
        self._commit()

    def _collect(self) -> None:
        """Moves finished extractions to `_uncommitted`; raises the error of a failed one."""
        while self._pending and self._pending[0].done():
            for version, extractions in self._pending.popleft().result().items():
                self._uncommitted[version] += extractions

    def _commit(self) -> None:
        """Stores the collected extractions."""
        for (language, version), extractions in self._uncommitted.items():
            store_extractions(self._store, language, version, extractions)
        self._uncommitted.clear()


_sources: Final[dict[Path, RunStore]] = {}
"""Stores that `_extract` keeps open between its calls."""


def _close_source(path: Path) -> None:
    """Closes the store that `_extract` opened."""
    if path in _sources:
        _sources.pop(path).close()


def _extract(path: Path, resources: PackPaths, request_keys: Sequence[str]) -> Extracted:
    """Extracts the responses to these requests; called by one thread only."""
    found: Extracted = {}
    readers: dict[str, Extractor] = {}
    if path not in _sources:
        _sources[path] = RunStore(path, read_only=True)
    for answered in parse_completed(_sources[path].answered(request_keys)):
        language = answered.prompt.language
        if (reader := readers.get(language)) is None:
            reader = readers[language] = extractor_for(ENGINE, language, resources)
        row = _row(answered, extract_response(answered, reader))
        found.setdefault((language, reader.version), []).append(row)
    return found
