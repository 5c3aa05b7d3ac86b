"""The Python API: runs made, asked and looked at, and benchmarks as tables, for notebooks and scripts.

    from mbbq_gen import Run, load_benchmark, extract, score

    run = Run.create("my-run", model="openai:gpt-4o-mini", benchmark="starter", languages=["en", "tr"])
    run.ask(progress=True)                         asks what has no answer yet (await run.ask_async() does so too)
    run = Run("my-run")                            a run that is there already
    run.items()                                    polars: one row an answer, with texts, reading and what it means
    run.scores(by=["language", "split"])           the table that `mbbq-gen score` writes
    score(run.observations().filter(...), ["category"])

Only `ask` asks a model. What the extractor has not read yet is read first, as the commands do.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mbbq_gen.extraction import extract
from mbbq_gen.extraction.jsonl import ENGINE
from mbbq_gen.records import Instance, Split
from mbbq_gen.resources import Resources
from mbbq_gen.runs.asking import RuleChanges
from mbbq_gen.runs.bars import Bars
from mbbq_gen.runs.batch_session import BatchWish
from mbbq_gen.runs.folder import Manifest, RunFolder
from mbbq_gen.runs.frames import read_before_use, read_scores_before_use, run_frame
from mbbq_gen.runs.goals import StopRule
from mbbq_gen.runs.honest import honest_confidence
from mbbq_gen.runs.items import BATCH_ITEMS, ItemChoice, item_batches, item_schema
from mbbq_gen.runs.job import Job, JobResult
from mbbq_gen.runs.names import Names
from mbbq_gen.runs.selection import Selection
from mbbq_gen.runs.store import Progress
from mbbq_gen.runs.watching import Listener, Step, Watcher
from mbbq_gen.scoring import Labels, ScoreTable, Undetected, score
from mbbq_gen.scoring.wordings import Wordings

if TYPE_CHECKING:
    import polars

    from mbbq_gen.runs.judging.agreement import JudgeLabel
    from mbbq_gen.statistics.thoughts import ThoughtFrames

__all__ = ["JobResult", "Run", "Step", "StopRule", "extract", "load_benchmark", "score"]

Progressing = bool | Callable[[Step], None]
"""How a caller hears of progress."""


class Run:
    """A run folder: made by `create`, asked by `ask`, opened for looking at.

    Tables are polars frames; `.to_pandas()` of a frame gives pandas (which then has to be installed, with pyarrow).
    """

    def __init__(self, path: str | Path, *, packs: str | Path | None = None) -> None:
        """Opens a run.

        Args:
            path: The run's folder.
            packs: A folder of language packs of your own; they come before those that ship.

        Raises:
            UsageError: where there is no run, or no pack in `packs`.
        """
        self.folder = RunFolder(Path(path))
        self.folder.require()
        self.resources = Resources(packs=None if packs is None else Path(packs))

    @classmethod
    def create(
        cls,
        path: str | Path,
        *,
        model: str,
        benchmark: Names | None = None,
        data: str | Path | None = None,
        instances: str | Path | None = None,
        field_map: str | Path | None = None,
        languages: Names = "all",
        variants: Names = "all",
        axes: str | None = None,
        design: str = "full",
        prompts: str = "own",
        splits: Names | None = None,
        order: str = "balanced",
        label_style: Names | None = None,
        unknown_wording: str | None = None,
        shots: int = 0,
        instruction_language: str | None = None,
        question_only: bool = False,
        sample: int | None = None,
        seed: int = 0,
        system: str | None = None,
        options: Mapping[str, Any] | None = None,
        method: Names = "generate",
        reasoning: Names | None = None,
        normalise: str = "sum",
        force: bool = False,
        packs: str | Path | None = None,
        progress: Progressing = False,
    ) -> Run:
        """Plans a run, as `mbbq-gen run` does, and opens it; nothing is asked yet and no key is needed.

        The same call again opens the run that is there. What takes several names takes a list, or a text with commas.

        Args:
            path: Folder of the run; new or empty, or that of this very run.
            model: `kind:model`, such as `openai:gpt-4o-mini` or `oracle:perfect`.
            benchmark: Names as `mbbq-gen data list` has them.
            data: Folder of the published files; None: what `mbbq-gen data pull` put on this machine.
            instances: A file of questions of your own, in place of a benchmark.
            field_map: TOML that says which fields of that file are which of ours.
            languages: ISO 639-1 codes; `all` that the benchmark has.
            variants: Ids of wordings (`mbbq-gen prompts list`), `all`, or `plain` for six paraphrases.
            axes: Axes that wordings are composed from instead, as `format=free+json,hint=all`.
            design: Which of their cells are asked: `full` or `fractional`.
            prompts: Whose wordings: `own`, or `published` (the authors').
            splits: `bias`, `control` or both; None: all that there are.
            order: Option orders: `published`, `shuffled`, `balanced`, `cyclic` (3 each) or `all` (6 each).
            label_style: How options are labelled: `A`, `a`, `(A)`, `1`, `native` (the language's own letters),
                `none`; None: `A`, or a published wording's own.
            unknown_wording: How the unknown option is worded anew, as the command takes it; None: as in the data.
            shots: Solved examples before each question, 0 to 9.
            instruction_language: Language of the wordings; None: the questions'.
            question_only: Whether contexts are left out.
            sample: Questions for each language and split, balanced over templates; None: all.
            seed: Of sampling and option orders.
            system: System message: a text, `none`, or `default` (the model's own); None: none of ours.
            options: Options of the model by name (`mbbq-gen models KIND`): `temperature`, `base_url`, `concurrency`…
            method: What is asked: `generate`, `likelihood`, `labels`, `first-token`, or `both` (docs/likelihood.md).
            reasoning: How much the model thinks first: `off`, `on`, `minimal`, `low`, `medium`, `high` or a number of
                tokens, several as an axis; None: nothing is said of it (docs/thinking.md).
            normalise: How likelihoods are made comparable: `sum`, `mean`, `per_char`, `per_byte` or `pmi`.
            force: Whether `published` is allowed as order where the place of an option tells its role.
            packs: A folder of language packs of your own.
            progress: True: a bar on a terminal. A function: called with a `Step` now and then.

        Raises:
            UsageError: for what can't be meant: names, options, a folder that holds something else, or a run that was
                made with other settings.
            DataError, PackError: where a file of the benchmark, or a pack, is wrong.
        """
        resources = Resources(packs=_path(packs))
        selection = Selection(
            model=model,
            benchmark=benchmark,
            data=_path(data),
            instances=_path(instances),
            field_map=_path(field_map),
            languages=languages,
            variants=variants,
            axes=axes,
            design=design,
            prompts=prompts,
            splits=splits,
            order=order,
            label_style=label_style,
            unknown_wording=unknown_wording,
            shots=shots,
            instruction_language=instruction_language,
            question_only=question_only,
            sample=sample,
            seed=seed,
            system=system,
            options=options or {},
            method=method,
            reasoning=reasoning,
            normalise=normalise,
            force=force,
        )
        folder = RunFolder(Path(path))
        Job(folder, selection.settings(resources), resources, watcher=_watcher(progress, None)).plan()
        return cls(path, packs=packs)

    def ask(
        self,
        *,
        options: Mapping[str, Any] | None = None,
        max_cost: float | None = None,
        max_errors: float | None = None,
        cache: str | Path | None = None,
        price_file: str | Path | None = None,
        batch: bool | None = None,
        batch_size: int | None = None,
        until: StopRule | None = None,
        progress: Progressing = False,
        say: Callable[[str], None] | None = None,
    ) -> JobResult:
        """Asks what has no answer yet and reads the answers as they come; says how the run stands then.

        Whatever ends it, the same call goes on where it stopped, and nothing is asked twice. It may be called inside a
        running event loop, as in a notebook: that loop then stands still until it ends.

        Args:
            options: Options of the model that shape no text and hold from now on, such as `api_key_env`,
                `concurrency`, `timeout`.
            max_cost: US dollars that the run may cost; None: as before.
            max_errors: Share of failed requests above which it stops; None: as before, at first 0.2.
            cache: Folder of answers that runs share; None: as before.
            price_file: Your own prices; None: as before.
            batch: Whether requests are handed over in batches, at about half the price: call it again later to collect
                them. None: as before.
            batch_size: Most requests in one batch; None: as before.
            until: What the run is after, in rounds, such as `StopRule(kind="width", width=0.2)`; None: as before.
            progress: True: a bar on a terminal. A function: called with a `Step` now and then.
            say: Takes the sentences that the command says on stderr; None: they go to stderr with a bar, else to
                `logging`.

        Returns:
            How many requests there are, are answered and have failed, and whether batches are under way.

        Raises:
            UsageError: where what asking needs is missing (a key, say), or an option may not change.
            ProviderError: where no further request can succeed; what had arrived is kept.
            RunError: where too many requests fail or the run's limit of cost is reached; what had arrived is kept.
            RunLockedError: where another process works on the run.
        """
        changes = RuleChanges(max_cost, max_errors, _path(cache), _path(price_file))
        return self._job(options or {}, changes, BatchWish(batch, batch_size), _watcher(progress, say), until).execute()

    async def ask_async(
        self,
        *,
        options: Mapping[str, Any] | None = None,
        max_cost: float | None = None,
        max_errors: float | None = None,
        cache: str | Path | None = None,
        price_file: str | Path | None = None,
        batch: bool | None = None,
        batch_size: int | None = None,
        until: StopRule | None = None,
        progress: Progressing = False,
        say: Callable[[str], None] | None = None,
    ) -> JobResult:
        """`ask` for whoever awaits it beside other work, another run say; cancelling it keeps what had arrived."""
        changes = RuleChanges(max_cost, max_errors, _path(cache), _path(price_file))
        job = self._job(options or {}, changes, BatchWish(batch, batch_size), _watcher(progress, say), until)
        return await job.execute_async()

    def _job(
        self,
        options: Mapping[str, Any],
        changes: RuleChanges,
        wish: BatchWish,
        watcher: Watcher,
        until: StopRule | None,
    ) -> Job:
        """What is left to do of the run. The manifest is read anew afterwards: asking adds to it."""
        self.__dict__.pop("manifest", None)
        settings = self.folder.manifest().settings
        settings = settings.model_copy(update={"model_options": {**settings.model_options, **options}})
        return Job(self.folder, settings, self.resources, changes, wish, watcher, rule=until)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    @property
    def path(self) -> Path:
        """The folder."""
        return self.folder.path

    @property
    def name(self) -> str:
        """The folder's own name."""
        return self.path.resolve().name

    @cached_property
    def manifest(self) -> Manifest:
        """What shaped the numbers: settings, versions, digests of packs and data; read once."""
        return self.folder.manifest()

    def progress(self) -> Progress:
        """How many requests there are, and how many are answered or have failed."""
        with self.folder.open_store(read_only=True) as store:
            return store.progress()

    def instances(self) -> Iterator[Instance]:
        """The questions that the run asks, by key."""
        with self.folder.open_store(read_only=True) as store:
            yield from store.instances()

    def read(self, extractor: str = ENGINE, step: Callable[[int], None] = lambda _: None) -> dict[str, str]:
        """Reads the answers that this extractor has not read yet; the other methods do it by themselves.

        Args:
            extractor: `engine`, a simple reader (`strict-letter`, `first-letter`, `mbbq-like`,
                `answer-form`), or a stored version.
            step: Hears of each batch of answers that is read, for a progress bar.

        Returns:
            The extractor's version for each language.

        Raises:
            UnknownNameError: for an extractor that nobody knows.
            RunLockedError: where something is to be read and another process is writing to the run.
        """
        return read_before_use(self.folder, self.resources, extractor, step)

    def observations(
        self, *, labels: Labels = "published", extractor: str = ENGINE, model: str | None = None
    ) -> polars.DataFrame:
        """The table that scores are counted from, one row an answer, without texts: small even for a million.

        Args:
            labels: Which right answers hold: `published`, or `corrected` where they are known to be wrong.
            extractor: Whose reading, as for `read`.
            model: What the model is called in the table; None: as the run calls it.
        """
        frame, _ = run_frame(self.folder, self.manifest, self.resources, labels, model=model, extractor=extractor)
        return frame

    def items(
        self,
        *,
        labels: Labels = "published",
        extractor: str = ENGINE,
        languages: Sequence[str] | None = None,
        ids: Collection[str] | None = None,
        messages: bool = False,
        model: str | None = None,
    ) -> polars.DataFrame:
        """The answered items with their texts, one row a presentation, in plan order.

        The columns are those of `observations` and the texts: context, question, options as shown, response, rule,
        spans, evidence… (docs/data-dictionary.md lists all). A run of 400,000 items is better taken by `item_batches`.

        Args:
            labels: As for `observations`.
            extractor: As for `read`.
            languages: Only these; None: all of the run.
            ids: Only the presentations with these ids; None: all.
            messages: Whether the messages as sent are added, and the last of them as `prompt`.
            model: As for `observations`.

        Raises:
            UsageError: for a language that the run does not have.
        """
        import polars as pl

        choice = self._choice(extractor, languages, ItemChoice({}, model or self._model, labels, ids, messages))
        with self.folder.open_store(read_only=True) as store:
            parts = list(item_batches(store, choice))
        return pl.concat(parts) if parts else pl.DataFrame(schema=item_schema(messages=messages))

    def item_batches(
        self,
        size: int = BATCH_ITEMS,
        *,
        labels: Labels = "published",
        extractor: str = ENGINE,
        languages: Sequence[str] | None = None,
        ids: Collection[str] | None = None,
        messages: bool = False,
        model: str | None = None,
    ) -> Iterator[polars.DataFrame]:
        """What `items` gives, in tables of at most `size` rows: memory stays small however large the run."""
        choice = self._choice(extractor, languages, ItemChoice({}, model or self._model, labels, ids, messages))
        with self.folder.open_store(read_only=True) as store:
            yield from item_batches(store, choice, size)

    @property
    def _model(self) -> str:
        return self.manifest.settings.model

    def _choice(self, extractor: str, languages: Sequence[str] | None, choice: ItemChoice) -> ItemChoice:
        """The choice with the versions that have read the languages wanted."""
        versions = self.read(extractor)
        wanted = {code: versions[code] for code in self._languages(languages, versions)}
        return replace(choice, versions=wanted, scored=read_scores_before_use(self.folder))

    def _languages(self, wanted: Sequence[str] | None, known: Collection[str]) -> list[str]:
        from mbbq_gen.errors import UnknownNameError

        for code in wanted or ():
            if code not in known:
                raise UnknownNameError("language of the run", code, known)
        return list(known if wanted is None else dict.fromkeys(wanted))

    def thoughts(self, *, labels: Labels = "published", extractor: str = ENGINE) -> ThoughtFrames:
        """What the model thought beside what it answered (docs/thinking.md), as three tables with the same rows.

        `answers` and `thoughts` have the columns of `observations`, so that `score` counts either; where nothing was
        thought, or none of it is told, the outcome of a thought is `error`. `facts` says how it was thought.

        Args:
            labels: As for `observations`.
            extractor: Whose reading of the answers, as for `read`; thoughts have one reader.

        Raises:
            RunLockedError: where something is to be read and another process is writing to the run.
        """
        from mbbq_gen.runs.thoughts import read_thoughts, thought_frames

        extractors = self.read(extractor)
        version = read_thoughts(self.folder, self.resources, lambda _: None)
        with self.folder.open_store(read_only=True) as store:
            return thought_frames(store, version, extractors, self._model, labels)

    def judge_labels(self, name: str, *, languages: Sequence[str] | None = None) -> dict[str, JudgeLabel]:
        """Presentation id → what a second reader (`mbbq-gen judge`) says that the answer chooses.

        Answers that it was not given, or did not read, are left out. The labels are a model's: measure them by an audit
        before anything is corrected by them (docs/judging.md).

        Args:
            name: What the judge is called in this run.
            languages: Only these; None: all of the run.

        Raises:
            UnknownNameError: for a judge that the run does not have.
            UsageError: for a language that the run does not have.
        """
        from mbbq_gen.errors import UnknownNameError
        from mbbq_gen.runs.judging.agreement import judge_labels
        from mbbq_gen.runs.judging.ledger import judges_of

        versions = self.read()
        with self.folder.open_store(read_only=True) as store:
            judges = judges_of(store)
            if name not in judges:
                raise UnknownNameError("judge", name, judges)
            wanted = self._languages(languages, versions)
            return judge_labels(store, judges[name], {code: versions[code] for code in wanted})

    def scores(
        self,
        by: Sequence[str] = ("language", "split"),
        metrics: Sequence[str] | None = None,
        *,
        labels: Labels = "published",
        extractor: str = ENGINE,
        undetected: Undetected = "discard",
        interval: float | None = 0.95,
        resamples: int = 2000,
        seed: int = 0,
        wordings: Wordings = "fixed",
    ) -> ScoreTable:
        """The scores of the run by any grouping, with counts, bounds and intervals.

        Args:
            by: Groupings, any of `mbbq_gen.scoring.GROUPINGS`. Leave `split` in, or bias and control are pooled.
            metrics: Names of `mbbq_gen.scoring.METRICS`; None: all.
            labels: As for `observations`.
            extractor: As for `read`.
            undetected: Whether undetected answers leave the denominators of bias (`discard`) or stay (`keep`).
            interval: Confidence of the intervals; None: none are made. Of a run that looked at results before it
                stopped they are made wider, so that they hold as often at whatever round that was (docs/design.md).
            resamples: Bootstrap resamples over templates.
            seed: Seed of the bootstrap.
            wordings: Whether intervals speak of the wordings that were asked (`fixed`) or of wordings like these
                (`random`).

        Raises:
            UsageError: for an unknown grouping or metric, or settings out of range.
        """
        return score(
            self.observations(labels=labels, extractor=extractor),
            by,
            metrics,
            interval=None if interval is None else honest_confidence(interval, [self.manifest.stopping]),
            resamples=resamples,
            seed=seed,
            undetected=undetected,
            wordings=wordings,
        )


def _path(given: str | Path | None) -> Path | None:
    return None if given is None else Path(given)


def _watcher(progress: Progressing, say: Callable[[str], None] | None) -> Watcher:
    """Who watches a run for a caller from Python."""
    if progress is True:
        return Bars(say or (lambda text: print(text, file=sys.stderr)))  # noqa: T201 - a bar was asked for
    listener = Listener() if say is None else Listener(on_words=say)
    return listener if progress is False else replace(listener, on_step=progress)


def load_benchmark(
    name: str,
    *,
    data: str | Path | None = None,
    languages: Sequence[str] | None = None,
    splits: Sequence[Split] | None = None,
    packs: str | Path | None = None,
) -> list[Instance]:
    """The questions of a benchmark.

    Args:
        name: As `mbbq-gen data list` names it.
        data: Folder of its published files; None: the release that `mbbq-gen data pull` put on this machine, if the
            benchmark does not ship.
        languages: Only these, in that order; None: all it has.
        splits: Only these, in that order; None: all it has.
        packs: A folder of language packs of your own.

    Raises:
        UnknownNameError: for a name that no benchmark has.
        UsageError: for a language or split that it does not have, or where its files are missing.
        DataError: at the first row that is wrong: file, row and field.
    """
    from mbbq_gen.datasets.pull import benchmark_folder
    from mbbq_gen.datasets.registry import load_benchmark as load

    return list(
        load(
            name,
            data=benchmark_folder(name, None if data is None else Path(data)),
            languages=languages,
            splits=splits,
            resources=Resources(packs=None if packs is None else Path(packs)),
        )
    )
