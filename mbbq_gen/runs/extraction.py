"""Extracts the answers of stored responses, and turns extractions into observations.

Extractions are stored by extractor version: that of the rules is a digest of their packs, `1+be9bd7e0c1e6`, that of a
simple extractor is its name, `strict-match+1`. A new version extracts again without new requests; the same version
has nothing to do.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Self, get_args

from mbbq_gen.core.errors import UnknownNameError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.option_display import options_in_order, shown_unknown
from mbbq_gen.core.records import NO_RESPONSE, NORMALISATIONS, PARSED, Extraction, Normalise, Outcome, Response
from mbbq_gen.core.text import one_of
from mbbq_gen.extraction import current_version
from mbbq_gen.extraction.jsonl import ENGINE, extractor_names
from mbbq_gen.extraction.question import Question
from mbbq_gen.extraction.simple import PREFIX as LIKELIHOOD_PREFIX
from mbbq_gen.extraction.simple import SIMPLE_EXTRACTORS, SIMPLE_VERSION, choose_by_loglikelihood, version_of
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
from mbbq_gen.storage.store import ANSWER_ROW, NORMALISE, CompletedPrompt, Part, RunStore, StoredPrompt

if TYPE_CHECKING:
    import polars

    from mbbq_gen.extraction.explain import Explanation
    from mbbq_gen.runs.distributed.cluster import MapWorkers


_BATCH = 2000
_HANDED_ON = 500
"""Answers that a worker reads at a time."""
JUDGE_PREFIX = "judge:"
"""How the versions begin that are a second reader's, a chat model's (`annotation.judge`); its name follows."""

UNPARSED: tuple[Outcome, ...] = tuple(
    outcome for outcome in get_args(Outcome) if outcome not in PARSED and outcome not in NO_RESPONSE
)
"""Outcomes of a response that chooses no option."""


def question_of(answered: CompletedPrompt) -> Question:
    """What an extractor needs with a stored answer: the prompt with the question once more, so that it stands last,
    and the options in the other languages that the run asks the same question in."""
    prompt, instance = answered.prompt, answered.instance
    roles = [instance.options[index].role for index in prompt.option_order]
    return Question(
        options=tuple(options_in_order(instance, prompt.option_order, prompt.unknown_text)),
        labels=prompt.option_labels,
        unknown_index=shown_unknown(instance, prompt.option_order),
        prompt=f"{prompt.messages[-1].content if prompt.messages else ''}\n{instance.question}",
        aliases={
            language: tuple(texts[role] for role in roles if role is not None)
            for language, texts in answered.parallels.items()
        },
    )


class Extractor(NamedTuple):
    """One way of reading the answers of a language."""

    version: str
    extract: Callable[..., Extraction]
    """From a response, its question and `finish_reason`."""


def load_reader(name: str, language: str, resources: PackPaths) -> Extractor:
    """The engine, or a simple reader, for a language; UnknownNameError where none has that name."""
    if name == ENGINE:
        from mbbq_gen.extraction.engine import load_extractor

        engine = load_extractor(language, resources)
        return Extractor(engine.version, engine.extract)
    if name not in SIMPLE_EXTRACTORS:
        raise UnknownNameError("extractor", name, extractor_names())
    read = SIMPLE_EXTRACTORS[name]
    return Extractor(f"{name}+{SIMPLE_VERSION}", lambda response, question, finish_reason: read(response, question))


def extract_response(answered: CompletedPrompt, reader: Extractor) -> Extraction:
    """The extraction of one stored response: `error` and `content_filter` by its fields, whatever its text."""
    response = answered.response
    return outcome_without_text(answered) or reader.extract(
        response.text or "", question_of(answered), finish_reason=response.finish_reason
    )


def outcome_without_text(answered: CompletedPrompt) -> Extraction | None:
    """The outcome that the response's fields decide, whatever the extractor; None where its text decides."""
    response = answered.response
    if response.error is not None:
        return Extraction(outcome="error", confidence="high", rule="response.error")
    if response.finish_reason == "content_filter":
        return Extraction(outcome="content_filter", confidence="high", rule="response.content_filter")
    if (response.text or "").strip():
        return None
    if response.refusal:  # the service keeps the words of a refusal apart from the text
        unknown = question_of(answered).unknown_index
        return Extraction(outcome="refusal", option=unknown, confidence="high", rule="response.refusal")
    if response.finish_reason == "length":  # all tokens went into reasoning
        return Extraction(outcome="truncated", confidence="high", rule="response.length")
    return None


def explain_answer(answered: CompletedPrompt, resources: PackPaths) -> Explanation | None:
    """How the rules extract one stored response; None where `outcome_without_text` decides."""
    if outcome_without_text(answered) is not None:
        return None
    from mbbq_gen.extraction.engine import load_extractor

    response = answered.response
    return load_extractor(answered.prompt.language, resources).explain(
        response.text or "", question_of(answered), finish_reason=response.finish_reason
    )


def reader_name(version: str) -> str:
    """Which reader a version is of: `rules`, the name of a simple one, or a version of a judge or of loglikelihoods."""
    if version.startswith((JUDGE_PREFIX, LIKELIHOOD_PREFIX)):
        return version
    name = version.rpartition("+")[0]
    return name if name in SIMPLE_EXTRACTORS else ENGINE


def extractor_versions(languages: Iterable[str], resources: PackPaths, name: str = ENGINE) -> dict[str, str]:
    """The version of a reader that is current for each language.

    The engine's version comes from its files, so that no pack is compiled if all answers are extracted already; a wrong
    pack has another version, and is refused when it is used.
    """
    if name == ENGINE:
        return {language: current_version(language, resources) for language in languages}
    return {language: load_reader(name, language, resources).version for language in languages}


PendingExtractions = tuple[str, tuple[StoredPrompt, ...]]
StoredExtraction = tuple[Value, ...]
"""A prompt's id and the columns of its extraction."""


def extract_run(
    store: RunStore,
    resources: PackPaths,
    step: Callable[[int], None],
    *,
    extractor: str = ENGINE,
    languages: Sequence[str] | None = None,
    only: Sequence[Outcome] = (),
    helpers: MapWorkers | None = None,
) -> dict[str, str]:
    """Reads every answer that its language's reader has not read yet; the reader's version by language.

    `languages`: None: all of the run. `only`: only answers that the extraction before (`previous_extraction`) gave one
    of these outcomes. `step` is called for each batch that is stored. `helpers`: workers that read; None: this process
    does.
    """
    versions = extractor_versions(store.languages() if languages is None else languages, resources, extractor)

    def batches() -> Iterator[PendingExtractions]:
        for language, version in versions.items():
            before = previous_extraction(store, language, version, resources) if only else None
            unparsed = store.without_extraction(version, language, before, only)
            while batch := tuple(islice(unparsed, _BATCH if helpers is None else _HANDED_ON)):
                yield language, batch

    prepare = partial(batch_reader, extractor, resources)
    done = map(prepare(), batches()) if helpers is None else helpers.each(prepare, batches())
    for language, extractions in done:
        store_extractions(store, language, versions[language], extractions)
        step(len(extractions))
    if not only:
        read_scores(store, step)
    return versions


def batch_reader(
    extractor: str, resources: PackPaths
) -> Callable[[PendingExtractions], tuple[str, list[StoredExtraction]]]:
    """The function from a batch to its language and extractions, for this process or a worker."""

    def read(batch: PendingExtractions) -> tuple[str, list[StoredExtraction]]:
        language, records = batch
        reader = load_reader(extractor, language, resources)
        found = parse_completed(records)
        return language, [_row(answered, extract_response(answered, reader)) for answered in found]

    return read


def _row(answered: CompletedPrompt, found: Extraction) -> StoredExtraction:
    return answered.prompt.prompt_id, *extraction_row(found)


def read_scores(store: RunStore, step: Callable[[int], None], normalise: Normalise | None = None) -> None:
    """Extracts from all loglikelihoods that were not read yet.

    `normalise`: how loglikelihoods are made comparable; None: as the run says. UsageError where the run did not ask for
    what a normalization needs.
    """
    version, how = scores_version(store, normalise), normalise or _run_normalise(store)
    for language in store.languages() if version else ():
        unparsed = parse_completed(store.without_extraction(str(version), language, scored=True), store)
        while batch := list(islice(unparsed, _BATCH)):
            rows = [_row(answered, read_scored(answered, how)) for answered in batch]
            store.add_extractions(str(version), rows)
            step(len(batch))


def scores_version(store: RunStore, normalise: Normalise | None = None) -> str | None:
    """The version that extractions of loglikelihoods are stored under; None without loglikelihood methods."""
    return version_of(normalise or _run_normalise(store)) if store.is_scored else None


def _run_normalise(store: RunStore) -> Normalise:
    return one_of("normalisation", store.meta(NORMALISE) or "sum", NORMALISATIONS)


def read_scored(answered: CompletedPrompt, normalise: Normalise) -> Extraction:
    """The option that the loglikelihoods choose; a failure is `error`."""
    shown = answered.prompt
    return outcome_without_text(answered) or choose_by_loglikelihood(
        answered.response.scores or (), shown.option_order, shown.method, normalise
    )


def store_extractions(store: RunStore, language: str, version: str, extractions: Sequence[StoredExtraction]) -> None:
    """Keeps what a reader's version made of answers in a language."""
    order = _order(store, language)
    if version not in order:
        store.set_meta(f"extractors/{language}", json.dumps([*order, version]))
    store.add_extractions(version, extractions)


def previous_extraction(store: RunStore, language: str, version: str, resources: PackPaths) -> str | None:
    """The version whose extractions of a language those of `version` are compared with; None where there is none.

    For the engine, the one that read before it; for a simple reader, the engine as it is now, or as it last was.
    """
    order = _order(store, language)
    stored = sorted(store.extractors(language), key=lambda name: (order.index(name) if name in order else -1, name))
    engines = [name for name in stored if reader_name(name) == ENGINE]
    if reader_name(version) == ENGINE:
        engines = engines[: engines.index(version)] if version in engines else engines
    elif (current := current_version(language, resources)) in engines:
        return current
    return engines[-1] if engines else None


def _order(store: RunStore, language: str) -> list[str]:
    """The versions that have read a language, in the order in which they first did."""
    found: list[str] = json.loads(store.meta(f"extractors/{language}") or "[]")
    return found


def observations(
    store: RunStore,
    versions: Mapping[str, Sequence[str]],
    model: str,
    gold: GoldLabels = "published",
    part: Part | None = None,
    *,
    questions: Questions | None = None,
    follow_up: bool = False,
) -> polars.DataFrame:
    """The observations of all answers that these extractor versions, by language, have read, in plan order.

    Of the whole run, or a part of it. `questions`: its questions, where they have been read already. `follow_up`: with
    what follow-ups say in the place of what could not be read.
    """
    import polars as pl

    read = []
    for batch in store.answer_rows(versions, part, follow_up=follow_up):
        rows = answer_table(batch, ANSWER_ROW)
        orders = {order: json.dumps([*map(int, order)]) for order in rows["option_order"].unique()}
        rows = rows.with_columns(pl.col("option_order").replace_strict(orders), model=model_by_method(model))
        texts = pl.col(pl.String).cast(pl.Categorical)  # few different ones
        read.append(rows.select(_ANSWER).with_columns(texts))
    answers = pl.concat(read) if read else pl.DataFrame(schema=dict.fromkeys(ANSWER_COLUMNS, pl.String))
    return without_places(observations_from_columns(questions or store.questions(part), answers, gold))


_ANSWER: Final = (*ANSWER_COLUMNS, METHOD, REASONING_EFFORT)


def answer_table(rows: Sequence[Sequence[object]], names: Sequence[str] = _ANSWER) -> polars.DataFrame:
    """Answers as a table; `names`: the columns of the rows."""
    import polars as pl

    kinds = {name: pl.Int8() if name == "option" else pl.String() for name in names}
    return pl.DataFrame(rows, schema=kinds, orient="row")


_TOGETHER: Final = 500
"""Extractions that are stored together: each commit waits for the disk."""

Read = dict[tuple[str, str], list[StoredExtraction]]


class ExtractionWorker:
    """The extractions of one session of asking. Use it as a context; what is under way when it is left is dropped."""

    def __init__(self, store: RunStore, resources: PackPaths, helper: HelperProcess) -> None:
        """`helper`: the process that reads; its preparations are done here first where it does not run."""
        self._store, self._resources, self._helper = store, resources, helper
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="mbbq-gen-reading")
        self._under_way: deque[Future[Read]] = deque()
        self._found: dict[tuple[str, str], list[StoredExtraction]] = defaultdict(list)

    def __enter__(self) -> Self:
        self._thread.submit(self._helper.prepare)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for future in self._under_way:
            future.cancel()
        self._thread.submit(self._helper.call, _close_source, self._store.path)
        self._thread.shutdown()

    def hear(self, responses: Iterable[Response]) -> None:
        """Takes note of answers that have been stored, and stores the extractions that are ready."""
        keys = [response.request_key for response in responses if response.error is None]
        if keys:
            work = self._thread.submit(self._helper.call, _read, self._store.path, self._resources, keys)
            self._under_way.append(work)
        self._harvest()
        if sum(map(len, self._found.values())) >= _TOGETHER:
            self._keep()

    async def finish(self) -> None:
        """Waits until everything that was heard of is read and stored."""
        while self._under_way:
            await asyncio.wrap_future(self._under_way[0])
            self._harvest()
        self._keep()

    def _harvest(self) -> None:
        """Takes the extractions that the thread has finished; raises what it raised."""
        while self._under_way and self._under_way[0].done():
            for where, extractions in self._under_way.popleft().result().items():
                self._found[where] += extractions

    def _keep(self) -> None:
        """Stores the extractions that are ready."""
        for (language, version), extractions in self._found.items():
            store_extractions(self._store, language, version, extractions)
        self._found.clear()


_sources: Final[dict[Path, RunStore]] = {}
"""The store that `_read` reads, open between its calls."""


def _close_source(path: Path) -> None:
    """Closes that store."""
    if path in _sources:
        _sources.pop(path).close()


def _read(path: Path, resources: PackPaths, request_keys: Sequence[str]) -> Read:
    """The extractions of the answers to these requests, read on one thread of one process."""
    found: Read = {}
    if path not in _sources:
        _sources[path] = RunStore(path, read_only=True)
    for answered in parse_completed(_sources[path].answered(request_keys)):
        language = answered.prompt.language
        reader = load_reader(ENGINE, language, resources)
        row = _row(answered, extract_response(answered, reader))
        found.setdefault((language, reader.version), []).append(row)
    return found
