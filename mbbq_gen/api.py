"""The Python API: runs and benchmarks in notebooks and scripts.

    from mbbq_gen import Run, load_benchmark, extract, score

    run = Run.create("my-run", model="openai:gpt-4o-mini", benchmark="starter", languages=["en", "tr"])
    run.execute(progress=True)                     sends the pending requests (or: await run.execute_async())
    run = Run("my-run")                            an existing run
    run.samples()                                  polars: one row per response, with texts and extraction
    run.scores(group_by=["language", "split"])     the table that `mbbq-gen score` writes
    score(run.observations().filter(...), ["category"])

Only `execute` calls a model. Responses without an extraction are extracted first, as the commands do.
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mbbq_gen.analysis.scores import ScoreTable, score
from mbbq_gen.benchmarks import registry
from mbbq_gen.benchmarks.releases import benchmark_folder
from mbbq_gen.core.config import RunConfig, help_of, shapes
from mbbq_gen.core.errors import PYTHON
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.progress import CallbackListener, ProgressBars, ProgressEvent, ProgressListener
from mbbq_gen.core.records import Instance, Split
from mbbq_gen.core.text import one_of, visible_text
from mbbq_gen.extraction import ENGINE, extract
from mbbq_gen.runs.job import Job, JobResult
from mbbq_gen.runs.observations import (
    Answers,
    LoadOptions,
    ensure_extracted,
    ensure_scores_extracted,
    load_run_observations,
)
from mbbq_gen.runs.resolve import resolve_for
from mbbq_gen.runs.run_folder import Manifest, RunFolder
from mbbq_gen.runs.samples import BATCH_ITEMS, item_schema, sample_batches
from mbbq_gen.runs.stopping_rule import sequential_confidence_level
from mbbq_gen.scoring.cells import UnparsedPolicy
from mbbq_gen.scoring.codes import Average, PromptEffects
from mbbq_gen.scoring.observations import GoldLabels
from mbbq_gen.statistics.estimate import InferenceSettings
from mbbq_gen.storage.store import Progress

if TYPE_CHECKING:
    import polars

    from mbbq_gen.analysis.reasoning import ReasoningFrames

__all__ = ["JobResult", "ProgressEvent", "Run", "RunConfig", "extract", "load_benchmark", "score"]

Progressing = bool | Callable[[ProgressEvent], None]
"""True for a progress bar, or a function that gets the progress events."""


class Run:
    """A run folder, made by `create`, executed by `execute`, then analysed.

    Tables are polars frames; `.to_pandas()` of a frame gives pandas (install pandas and pyarrow).
    """

    def __init__(self, path: str | Path, *, packs: str | Path | None = None) -> None:
        """Opens a run; UsageError if there is none. `packs`: folder of your own language packs."""
        self.folder = RunFolder(Path(path)).require()
        self.resources = PackPaths(packs=_path(packs))

    @classmethod
    def create(
        cls,
        path: str | Path,
        config: RunConfig | None = None,
        *,
        packs: str | Path | None = None,
        progress: Progressing = False,
        **fields: Any,
    ) -> Run:
        """Plans a run, as `mbbq-gen run` does, and opens it; sends nothing and needs no key.

        The same call again opens the existing run. Several names are a list, or a text with commas.

        Args:
            path: Run folder: new, empty, or that of the same run.
            config: The settings, as a `RunConfig`, such as the `manifest.config` of another run.
            packs: Folder of your own language packs.
            progress: True shows a bar on a terminal; a function gets a `ProgressEvent` from time to time.
            fields: The settings by their names, instead of `config` or to change it.

        Raises:
            ConfigError: a wrong name or value, or a run made with other settings.
            UsageError: a folder with other content.
            DataError, PackError: a file of the benchmark, or a pack, is wrong.
        """
        given = RunConfig(**fields)
        if config is not None:
            named = {name: getattr(config, name) for name in config.model_fields_set}
            given = RunConfig(**named | {name: getattr(given, name) for name in given.model_fields_set})
        run, resources = RunFolder(Path(path)), PackPaths(packs=_path(packs))
        before = run.manifest().config if run.manifest_path.is_file() else None
        Job(run, resolve_for(given, before, resources), resources, _listener(progress, None)).plan()
        return cls(path, packs=packs)

    def execute(
        self, *, progress: Progressing = False, say: Callable[[str], None] | None = None, **fields: Any
    ) -> JobResult:
        """Sends the pending requests, extracts the responses as they arrive, and returns the state of the run.

        After any interruption the same call continues; no request is sent twice. It may be called inside a running
        event loop, as in a notebook, and blocks that loop until it ends.

        Args:
            progress: True shows a bar on a terminal; a function gets a `ProgressEvent` from time to time.
            say: Gets the messages that the command prints on stderr; None: stderr if there is a bar, else `logging`.
            fields: Settings of the execution that hold from now on, by their names, such as `max_cost`; others stay.

        Returns:
            The numbers of requests, responses and failures, and whether batches are under way.

        Raises:
            UsageError: something is missing, such as a key, or a setting must not change.
            ProviderError: no further request can succeed; what arrived is kept.
            RunError: too many requests fail or the cost limit is reached; what arrived is kept.
            RunLockedError: another process works on the run.
        """
        return self._job(progress, say, fields).execute()

    async def execute_async(
        self, *, progress: Progressing = False, say: Callable[[str], None] | None = None, **fields: Any
    ) -> JobResult:
        """`execute` as a coroutine, such as for several runs at once; cancelling keeps the responses that arrived.

        Args:
            progress: As for `execute`.
            say: As for `execute`.
            fields: As for `execute`.
        """
        return await self._job(progress, say, fields).execute_async()

    def _job(self, progress: Progressing, say: Callable[[str], None] | None, fields: Mapping[str, Any]) -> Job:
        """The job that continues the run; drops the cached manifest, which the job changes."""
        self.__dict__.pop("manifest", None)
        changes = resolve_for(RunConfig(**fields), self.folder.manifest().config, self.resources)
        return Job(self.folder, changes, self.resources, _listener(progress, say))

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    @property
    def path(self) -> Path:
        """The run folder."""
        return self.folder.path

    @property
    def name(self) -> str:
        """The name of the run folder."""
        return self.path.resolve().name

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest: configuration, versions, digests of packs and data; read once."""
        return self.folder.manifest()

    def progress(self) -> Progress:
        """The numbers of requests, responses and failures."""
        with self.folder.open_store(read_only=True) as store:
            return store.progress()

    def instances(self) -> Iterator[Instance]:
        """The instances of the run, by key."""
        with self.folder.open_store(read_only=True) as store:
            yield from store.instances()

    def extract(self, extractor: str = ENGINE, step: Callable[[int], None] = lambda _: None) -> dict[str, str]:
        """Extracts the responses that are not extracted yet; returns the extractor version of each language.

        The other methods call it. RunLockedError if another process writes to the run.

        Args:
            extractor: `rules`, a simple one (`strict-match`, `first-label`, `mbbq-like`, `answer-line`), or a stored
                version.
            step: Gets the size of each extracted batch, for a progress bar.
        """
        return ensure_extracted(self.folder, self.resources, extractor, step)

    def observations(
        self,
        *,
        gold: GoldLabels = "published",
        extractor: str = ENGINE,
        answers: Answers = "first",
    ) -> polars.DataFrame:
        """The table that scores are computed from: one row per response, without texts.

        Args:
            gold: Gold labels: `published`, or `corrected` (known errors fixed).
            extractor: As for `extract`.
            answers: `first`, or `follow-up`: replies to follow-ups where the first answer is unparsed.
        """
        reading = LoadOptions(self.resources, gold, extractor, answers=answers)
        frame, _ = load_run_observations(self.folder, self.manifest, reading)
        return frame

    def samples(
        self,
        *,
        gold: GoldLabels = "published",
        extractor: str = ENGINE,
        languages: Sequence[str] | None = None,
        messages: bool = False,
    ) -> polars.DataFrame:
        """The samples with their texts: one row per response, in plan order.

        The columns are those of `observations` and the texts: context, question, options as shown, response, rule,
        spans, evidence, … (the data dictionary has all). Use `sample_batches` for a large run.

        Args:
            gold: As for `observations`.
            extractor: As for `observations`.
            languages: Only these; None: all of the run.
            messages: Whether to add the messages as sent, and the last of them as `prompt`.
        """
        import polars as pl

        parts = list(self.sample_batches(gold=gold, extractor=extractor, languages=languages, messages=messages))
        return pl.concat(parts) if parts else pl.DataFrame(schema=item_schema(messages=messages))

    def sample_batches(
        self,
        size: int = BATCH_ITEMS,
        *,
        gold: GoldLabels = "published",
        extractor: str = ENGINE,
        languages: Sequence[str] | None = None,
        messages: bool = False,
    ) -> Iterator[polars.DataFrame]:
        """The rows of `samples` in tables of at most `size` rows, to limit memory."""
        versions = self._versions(languages, extractor)
        scored = ensure_scores_extracted(self.folder)
        with self.folder.open_store(read_only=True) as store:
            model = self.manifest.config.model
            yield from sample_batches(store, versions, model, gold, scored=scored, messages=messages, size=size)

    def _versions(self, languages: Sequence[str] | None, extractor: str = ENGINE) -> dict[str, str]:
        """The extractor versions of some languages of the run, after missing extractions."""
        versions = self.extract(extractor)
        codes = versions if languages is None else dict.fromkeys(languages)
        return {code: versions[one_of("language of the run", code, versions)] for code in codes}

    def reasoning(self, *, gold: GoldLabels = "published", extractor: str = ENGINE) -> ReasoningFrames:
        """The conclusions of reasoning traces and the answers, as three tables with the same rows.

        The tables of answers and of traces have the columns of `observations`, so that `score` takes either; the
        outcome of a missing trace is `error`. `facts` describes the traces. `extractor` is that of the answers.
        """
        from mbbq_gen.runs.reasoning import extract_all_reasoning, load_reasoning_frames

        extractors = self.extract(extractor)
        version = extract_all_reasoning(self.folder, self.resources, lambda _: None)
        with self.folder.open_store(read_only=True) as store:
            return load_reasoning_frames(store, version, extractors, self.manifest.config.model, gold)

    def scores(
        self,
        group_by: Sequence[str] = ("language", "split"),
        metrics: Sequence[str] | None = None,
        *,
        gold: GoldLabels = "published",
        extractor: str = ENGINE,
        unparsed: UnparsedPolicy = "discard",
        confidence_level: float | None = 0.95,
        n_resamples: int = 2000,
        seed: int = 0,
        prompt_effects: PromptEffects = "fixed",
        average: Average = "questions",
        answers: Answers = "first",
    ) -> ScoreTable:
        """The scores of the run by any grouping, with counts and confidence intervals.

        Args:
            group_by: Groupings of `mbbq_gen.scoring.tally.GROUPINGS`. Without `split`, bias and control are pooled.
            metrics: Names of `mbbq_gen.scoring.metrics.METRICS`; None: all.
            gold: As for `observations`.
            extractor: As for `observations`.
            answers: As for `observations`.
            unparsed: Unparsed responses in the denominators of bias: `discard` or `keep`.
            confidence_level: Of the intervals; None: no intervals. A run with interim looks gets wider intervals, so
                that their coverage holds.
            n_resamples: Bootstrap resamples over templates.
            seed: Seed of the bootstrap.
            prompt_effects: Intervals for these prompt variants (`fixed`) or for variants like them (`random`).
            average: Scores are means over `questions`, or over `templates` (each alike).
        """
        level = sequential_confidence_level(confidence_level or 0.95, [self.manifest.adaptive])
        return score(
            self.observations(gold=gold, extractor=extractor, answers=answers),
            group_by,
            metrics,
            InferenceSettings(level, n_resamples, seed, unparsed, prompt_effects, average),
            intervals=confidence_level is not None,
        )


def _document(function: Callable[..., Any], names: Iterable[str]) -> None:
    """Adds settings to the docstring and the signature of a function with keyword arguments."""
    document, indent = inspect.getdoc(function) or "", " " * 4
    lines = (textwrap.fill(f"{name}: {help_of(name, PYTHON)}", 112, subsequent_indent=indent) for name in names)
    settings = "".join(f"\n{textwrap.indent(line, indent)}" for line in lines)
    head, section, rest = document.partition("\n\nRaises:" if "Returns:" not in document else "\n\nReturns:")
    function.__doc__ = head + settings + section + rest
    signature = inspect.signature(function)
    parameters = [param for param in signature.parameters.values() if param.kind is not param.VAR_KEYWORD]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=RunConfig.model_fields[name].default)
        for name in names
    ]
    function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]


_EXECUTION = [name for name in RunConfig.model_fields if shapes(name) == "execution"]
_document(Run.create.__func__, RunConfig.model_fields)  # type: ignore[attr-defined]
_document(Run.execute, ["model_args", *_EXECUTION])
_document(Run.execute_async, ["model_args", *_EXECUTION])


def _path(given: str | Path | None) -> Path | None:
    return None if given is None else Path(given)


def _to_stderr(text: str) -> None:
    print(visible_text(text), file=sys.stderr)  # noqa: T201 - a bar was requested


def _listener(progress: Progressing, say: Callable[[str], None] | None) -> ProgressListener:
    """The progress listener for a caller from Python."""
    if progress is True:
        return ProgressBars(say or _to_stderr)
    listener = CallbackListener() if say is None else CallbackListener(on_message=say)
    return listener if progress is False else replace(listener, on_step=progress)


def load_benchmark(
    name: str,
    *,
    data_dir: str | Path | None = None,
    languages: Sequence[str] | None = None,
    splits: Sequence[Split] | None = None,
    packs: str | Path | None = None,
) -> list[Instance]:
    """The instances of a benchmark (see `mbbq-gen data list`).

    UsageError for an unknown benchmark, language or split, or missing files; DataError for the first wrong row.

    Args:
        data_dir: Folder of its published files; None: the release from `mbbq-gen data download`.
        languages: Only these, in that order; None: all.
        splits: Only these, in that order; None: all.
        packs: Folder of your own language packs.
    """
    return list(
        registry.load_benchmark(
            name,
            data=benchmark_folder(name, _path(data_dir)),
            languages=languages,
            splits=splits,
            resources=PackPaths(packs=_path(packs)),
        )
    )
