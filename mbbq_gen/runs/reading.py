"""Reads stored responses: from answers to extractions, and from extractions to the rows that scores count.

Readings are kept per extractor version: the engine's is a digest of its packs, `1+be9bd7e0c1e6`, a simple reader's is
its name, `strict-letter+1`. Reading again after an upgrade asks the model nothing, and reading with the same version
does nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Protocol, get_args

from mbbq_gen.errors import UnknownNameError
from mbbq_gen.extraction.jsonl import ENGINE, extractor_names
from mbbq_gen.extraction.likelihood import NORMALISATIONS, Normalise, choose, version_of
from mbbq_gen.extraction.likelihood import PREFIX as LIKELIHOOD_PREFIX
from mbbq_gen.extraction.question import Question
from mbbq_gen.extraction.simple import SIMPLE_EXTRACTORS, SIMPLE_VERSION
from mbbq_gen.extraction.version import current_version
from mbbq_gen.languages import OPEN_VARIANT
from mbbq_gen.presentation import shown_options, shown_unknown
from mbbq_gen.records import DETECTED, NOT_HAD, Extraction, Outcome
from mbbq_gen.resources import Resources
from mbbq_gen.runs.names import one_of
from mbbq_gen.runs.store import NORMALISE, Answered, AnsweredReader, AnsweredRecords, Part, RunStore
from mbbq_gen.scoring.columns import ANSWER_COLUMNS, METHOD, THINKING, Questions, observations_from_columns
from mbbq_gen.scoring.observations import Labels

if TYPE_CHECKING:
    import polars

    from mbbq_gen.extraction.trace import Explanation
    from mbbq_gen.runs.spread.helpers import Helpers

_BATCH = 2000
_HANDED_ON = 500
"""Answers that a worker reads at a time."""
JUDGE_PREFIX = "judge:"
"""How the versions begin that are a second reader's, a chat model's (`runs.judging`); its name follows."""

UNDETECTED: tuple[Outcome, ...] = tuple(
    outcome for outcome in get_args(Outcome) if outcome not in DETECTED and outcome not in NOT_HAD
)
"""Outcomes of a response that chooses no option."""


def question_of(answered: Answered) -> Question:
    """What a reader is to be told of a stored answer: the prompt with the question once more, so that it stands last,
    and the options in the other languages that the run asks the same question in."""
    presentation, instance = answered.presentation, answered.instance
    roles = [instance.options[index].role for index in presentation.order]
    return Question(
        options=tuple(shown_options(instance, presentation.order, presentation.unknown_text)),
        labels=presentation.labels,
        unknown_index=shown_unknown(instance, presentation.order),
        prompt=f"{presentation.messages[-1].content if presentation.messages else ''}\n{instance.question}",
        aliases={
            language: tuple(texts[role] for role in roles if role is not None)
            for language, texts in answered.parallels.items()
        },
    )


class Reader(Protocol):
    """One way of reading the answers of a language: the engine's `Extractor`, or a `SimpleReader`."""

    @property
    def version(self) -> str:
        """What its readings are stored under."""

    def extract(self, response: str, question: Question, *, finish_reason: str | None = None) -> Extraction:
        """What a response was taken to mean."""


@dataclass(frozen=True)
class SimpleReader:
    """A simple reader for answers of one language."""

    name: str
    language: str

    @property
    def version(self) -> str:
        """What its readings are stored under."""
        return f"{self.name}+{SIMPLE_VERSION}"

    def extract(self, response: str, question: Question, *, finish_reason: str | None = None) -> Extraction:
        """What the simple reader takes a response to mean."""
        return SIMPLE_EXTRACTORS[self.name](response, question)


def load_reader(name: str, language: str, resources: Resources) -> Reader:
    """The engine, or a simple reader, for a language.

    Raises:
        UnknownNameError: where no reader has that name, or the engine no pack for the language.
    """
    if name == ENGINE:
        from mbbq_gen.extraction.engine import load_extractor

        return load_extractor(language, resources)
    if name not in SIMPLE_EXTRACTORS:
        raise UnknownNameError("extractor", name, extractor_names())
    return SimpleReader(name, language)


def read_answer(answered: Answered, reader: Reader) -> Extraction:
    """What one stored response means; a failure is `error` and a blocked answer `filtered`, whatever text they have."""
    settled = settled_reading(answered)
    if settled is not None:
        return settled
    response = answered.response
    return reader.extract(response.text or "", question_of(answered), finish_reason=response.finish_reason)


def settled_reading(answered: Answered) -> Extraction | None:
    """What the service itself says of an answer, for every reader the same; None where its text has to be read."""
    response = answered.response
    if response.error is not None:
        return Extraction(outcome="error", confidence="high", rule="response.error")
    if response.finish_reason == "content_filter":
        return Extraction(outcome="filtered", confidence="high", rule="response.content_filter")
    if (response.text or "").strip():
        return None
    if response.refusal:  # the service keeps the words of a refusal apart from the text
        unknown = question_of(answered).unknown_index
        return Extraction(outcome="refusal", option=unknown, confidence="high", rule="response.refusal")
    if response.finish_reason == "length":  # all tokens went into reasoning
        return Extraction(outcome="truncated", confidence="high", rule="response.length")
    return None


def explain_answer(answered: Answered, resources: Resources) -> Explanation | None:
    """How the engine reads one stored response; None where the service itself says what it is (`settled_reading`)."""
    if settled_reading(answered) is not None:
        return None
    from mbbq_gen.extraction.engine import load_extractor

    response = answered.response
    return load_extractor(answered.presentation.language, resources).explain(
        response.text or "", question_of(answered), finish_reason=response.finish_reason, resources=resources
    )


def reader_name(version: str) -> str:
    """Which reader a version is of: `engine`, the name of a simple one, or a version of a judge or of likelihoods."""
    if version.startswith((JUDGE_PREFIX, LIKELIHOOD_PREFIX)):
        return version
    name = version.rpartition("+")[0]
    return name if name in SIMPLE_EXTRACTORS else ENGINE


def extractor_versions(languages: Iterable[str], resources: Resources, name: str = ENGINE) -> dict[str, str]:
    """The version of a reader that is current for each language.

    Of the engine it is told from its files, without compiling packs for who finds all answers read already; a pack that
    is wrong is another version, and refused when it is to read.
    """
    if name == ENGINE:
        return {language: current_version(language, resources) for language in languages}
    return {language: load_reader(name, language, resources).version for language in languages}


def read_run(
    store: RunStore,
    resources: Resources,
    step: Callable[[int], None],
    *,
    extractor: str = ENGINE,
    languages: Sequence[str] | None = None,
    only: Sequence[Outcome] = (),
    helpers: Helpers | None = None,
) -> dict[str, str]:
    """Reads every answer that its language's reader has not read yet; says the reader's version by language.

    Args:
        store: Open for writing.
        resources: Where packs are looked for.
        step: Hears of each batch that is stored.
        extractor: Name of the reader.
        languages: Only these; None: all of the run.
        only: Only answers that the reading before (`reading_before`) gave one of these outcomes.
        helpers: Workers that read; None: this process does. Likelihoods, which need no reading, it compares itself.
    """
    names = store.languages() if languages is None else languages
    versions = extractor_versions(names, resources, extractor)

    def batches() -> Iterator[UnreadBatch]:
        for language, version in versions.items():
            before = reading_before(store, language, version, resources) if only else None
            unread = store.unread_records(version, language, before, only)
            while batch := tuple(islice(unread, _BATCH if helpers is None else _HANDED_ON)):
                yield UnreadBatch(language, batch)

    prepare = BatchReader(extractor, resources)
    done = map(prepare(), batches()) if helpers is None else helpers.each(prepare, batches())
    for language, readings in done:
        store_readings(store, language, versions[language], readings)
        step(len(readings))
    if not only:
        read_scores(store, step)
    return versions


@dataclass(frozen=True)
class UnreadBatch:
    """Answers in one language that are to be read."""

    language: str
    records: tuple[AnsweredRecords, ...]


@dataclass(frozen=True)
class BatchReader:
    """What reads batches of answers, here or in a worker."""

    extractor: str
    """Name of the reader."""
    resources: Resources

    def __call__(self) -> Callable[[UnreadBatch], tuple[str, list[Reading]]]:
        """The function that reads a batch, and gives its language and its readings; packs are loaded once for all."""
        readers: dict[str, Reader] = {}

        def read(batch: UnreadBatch) -> tuple[str, list[Reading]]:
            if batch.language not in readers:
                readers[batch.language] = load_reader(self.extractor, batch.language, self.resources)
            reader = readers[batch.language]
            return batch.language, [reading_of(answered, reader) for answered in map(AnsweredReader(), batch.records)]

        return read


def read_scores(store: RunStore, step: Callable[[int], None], normalise: Normalise | None = None) -> str | None:
    """Reads every answer that likelihoods were asked for and not read yet; says the version of the readings.

    None where the run asked for none.

    Args:
        store: Open for writing.
        step: Hears of each batch that is stored.
        normalise: How likelihoods are made comparable; None: as the run says.

    Raises:
        UsageError: where the run did not ask for what a normalisation needs.
    """
    version = scores_version(store, normalise)
    if version is None:
        return None
    how = normalise or run_normalise(store)
    for language in store.languages():
        unread = store.unread(version, language, scored=True)
        while batch := list(islice(unread, _BATCH)):
            readings = [(answered.presentation.presentation_id, read_scored(answered, how)) for answered in batch]
            store.add_extractions(version, readings)
            step(len(batch))
    return version


def run_normalise(store: RunStore) -> Normalise:
    """How a run's likelihoods are made comparable where nobody says otherwise."""
    return one_of("normalisation", store.meta(NORMALISE) or "sum", NORMALISATIONS)


def scores_version(store: RunStore, normalise: Normalise | None = None) -> str | None:
    """The version that readings of likelihoods are stored under; None where the run asked for none."""
    return version_of(normalise or run_normalise(store)) if store.is_scored else None


def read_scored(answered: Answered, normalise: Normalise) -> Extraction:
    """What the likelihoods of a question's answers choose; a failure is `error`."""
    settled = settled_reading(answered)
    if settled is not None:
        return settled
    shown = answered.presentation
    return choose(answered.response.scores or (), shown.order, shown.method, normalise)


Reading = tuple[str, Extraction]
"""A presentation's id, and what its answer was taken to mean."""


def reading_of(answered: Answered, reader: Reader) -> Reading:
    """The reading of a stored answer."""
    return answered.presentation.presentation_id, read_answer(answered, reader)


def store_readings(store: RunStore, language: str, version: str, readings: Sequence[Reading]) -> None:
    """Keeps what a reader's version made of answers in a language."""
    _remember(store, language, version)
    store.add_extractions(version, readings)


# --- which reading came before which ---------------------------------------------------------------------------------


def reading_before(store: RunStore, language: str, version: str, resources: Resources) -> str | None:
    """The version whose readings of a language those of `version` are compared with; None where there is none.

    For the engine, the one that read before it; for a simple reader, the engine as it is now, or as it last was.
    """
    order = _order(store, language)
    stored = sorted(store.extractors(language), key=lambda name: (order.index(name) if name in order else -1, name))
    engines = [name for name in stored if reader_name(name) == ENGINE]
    if reader_name(version) == ENGINE:
        place = engines.index(version) if version in engines else len(engines)
        return engines[place - 1] if place else None
    current = current_version(language, resources)
    return current if current in engines else engines[-1] if engines else None


def _order(store: RunStore, language: str) -> list[str]:
    """The versions that have read a language, in the order in which they first did."""
    found: list[str] = json.loads(store.meta(f"extractors/{language}") or "[]")
    return found


def _remember(store: RunStore, language: str, version: str) -> None:
    order = _order(store, language)
    if version not in order:
        store.set_meta(f"extractors/{language}", json.dumps([*order, version]))


# --- readings as a table ---------------------------------------------------------------------------------------------


def observations(
    store: RunStore,
    versions: Mapping[str, Sequence[str]],
    model: str,
    labels: Labels = "published",
    part: Part | None = None,
    *,
    questions: Questions | None = None,
) -> polars.DataFrame:
    """The observations of all answers that these extractor versions, by language, have read, in plan order.

    Of the whole run, or a part of it. `questions`: its questions, where they have been read already.
    """
    import polars as pl

    read = [_answers(batch, model) for batch in store.answer_rows(versions, part)]
    answers = pl.concat(read) if read else pl.DataFrame(schema=dict.fromkeys(ANSWER_COLUMNS, pl.String))
    return without_places(observations_from_columns(questions or store.instances(part), answers, labels))


def without_places(frame: polars.DataFrame) -> polars.DataFrame:
    """The observations, without order, labels and place where the wording lists no options: nothing was shown."""
    import polars as pl

    is_open = (pl.col("variant").cast(pl.String) == OPEN_VARIANT).fill_null(value=False)
    shown = ("order", "label_style", "chosen_place")
    return frame.with_columns(pl.when(~is_open).then(pl.col(name)).alias(name) for name in shown)


def model_by_method(model: str) -> polars.Expr:
    """What a model is called in a table with a column `method`: `MODEL (likelihood)` where it was not asked for words.

    So whatever compares or counts by model keeps the ways of asking apart.
    """
    import polars as pl

    scored = pl.format("{} ({})", pl.lit(model), pl.col("method").cast(pl.String))
    return pl.when(pl.col("method").cast(pl.String) == "generate").then(pl.lit(model)).otherwise(scored)


def _answers(batch: list[tuple[str, str, str, str]], model: str) -> polars.DataFrame:
    """Rows of the store as a table of answers; what was shown and read is parsed once for each different text."""
    import polars as pl

    names = ("instance_key", "shown", "read", "extractor")
    rows = pl.DataFrame(batch, schema=dict.fromkeys(names, pl.String), orient="row")
    shown = pl.DataFrame(
        [
            (text, variant, style, json.dumps(order), method or "generate", thinking)
            for text in rows["shown"].unique()
            for variant, style, order, method, thinking in (json.loads(text),)
        ],
        schema=dict.fromkeys(("shown", "variant", "label_style", "order", METHOD, THINKING), pl.String),
        orient="row",
    )
    read = pl.DataFrame(
        [(text, *json.loads(text)) for text in rows["read"].unique()],
        schema={"read": pl.String, "outcome": pl.String, "option": pl.Int8, "confidence": pl.String},
        orient="row",
    )
    joined = rows.join(shown, on="shown", maintain_order="left").join(read, on="read", maintain_order="left")
    answers = joined.with_columns(model=model_by_method(model)).select(*ANSWER_COLUMNS, METHOD, THINKING)
    return answers.with_columns(pl.col(pl.String).cast(pl.Categorical))  # a number a row: runs have few different texts
