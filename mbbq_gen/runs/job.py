"""Plans, executes and extracts a run; used by the command line, the Python API and notebooks alike.

    config ──► prompts ──► responses, one by one or in batches ──► extractions ──► JobResult

All of it is stored in the run folder: an interrupted job continues with what is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from mbbq_gen.core.config import RunConfig
from mbbq_gen.core.errors import ConfigError, ProviderError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.progress import CallbackListener, ProgressListener
from mbbq_gen.prompts.render import orders_of
from mbbq_gen.providers.api.batches import supports_batches
from mbbq_gen.providers.base import Provider
from mbbq_gen.providers.prices import read_prices
from mbbq_gen.providers.registry import options_class
from mbbq_gen.runs.batch_session import Mode, choose_mode, failures_held, mode_of, run_batches
from mbbq_gen.runs.distributed.cluster import check_on
from mbbq_gen.runs.distributed.storage import DistributedConfig, fold_left_over
from mbbq_gen.runs.executor import Session, check_failures, execute, execute_planned, known_price, open_cost_guard
from mbbq_gen.runs.extraction import ExtractionWorker, extract_run, extractor_versions
from mbbq_gen.runs.follow_up import follow_up_status, follows_up, plan_follow_ups, read_follow_ups
from mbbq_gen.runs.helper_process import HelperProcess
from mbbq_gen.runs.planner import Planner, check_same_model
from mbbq_gen.runs.resolve import InstanceSource, check_together, notices, open_model
from mbbq_gen.runs.run_folder import Manifest, RunFolder
from mbbq_gen.runs.stopping_rule import rule_from, rule_of, set_rule
from mbbq_gen.storage.follow_ups import FollowUpTable
from mbbq_gen.storage.shards import FOLDER
from mbbq_gen.storage.store import NORMALISE, RunStore


@dataclass(frozen=True)
class JobResult:
    """How a run stands after a job."""

    run: str
    """The folder."""
    requests: int
    answered: int
    failed: int
    """Requests that failed; the next job asks them again."""
    prompts: int
    batches_under_way: bool
    """Whether the service still works on batches: the next job collects them."""


@dataclass(frozen=True)
class Job:
    """What is to be done with a run folder."""

    folder: RunFolder
    config: RunConfig
    """The settings given: a whole configuration (`resolve.resolve`), or for a run that exists, what changes."""
    resources: PackPaths
    watcher: ProgressListener = field(default_factory=CallbackListener)
    helper: HelperProcess = field(default_factory=HelperProcess)
    """Extracts answers while a service is waited for; the caller closes it."""
    rerun_lost: bool = False
    """Whether answers whose files are missing or damaged are requested again."""

    def plan(self) -> Manifest:
        """Plans the run, or makes sure that it was planned so; asks nothing and needs no key.

        Raises:
            UsageError: where the folder can't be used, or holds a run with other settings.
            MbbqGenError: what readers, packs and the model's options have wrong.
        """
        config = self.merged()
        provider = open_model(config, self.resources)
        extractor_versions(config.languages, self.resources)
        self.folder.create()
        with self.folder.locked(), self.folder.open_store() as store:
            return self._plan(store, provider, config)

    def execute(self) -> JobResult:
        """Does whatever is left to do, and says how it ended.

        Inside a running event loop, as in a notebook, on a thread of its own; that loop stands still meanwhile.

        Raises:
            UsageError: as `plan`, and where what asking needs is missing, such as a key.
            ProviderError: where no further request can succeed; what had arrived is kept.
            RunError: where too many requests fail, or the run's limit of cost is reached.
            KeyboardInterrupt: on Ctrl-C; what had arrived is kept.
        """
        in_loop = False
        with suppress(RuntimeError):
            in_loop = asyncio.get_running_loop() is not None
        if in_loop:
            return _on_a_thread(self)
        with self._opened() as work:
            under_way = asyncio.run(work.ask())
            self._read(work.session.store)
            return work.result(under_way)

    async def execute_async(self) -> JobResult:
        """The same for whoever has other work to do meanwhile; cancelling it keeps what had arrived.

        Planning, and extracting what an earlier job left, do block the event loop.
        """
        with self._opened() as work:
            under_way = await work.ask()
            self._read(work.session.store)
            return work.result(under_way)

    @contextmanager
    def _opened(self) -> Iterator[_Work]:
        """The run, planned and locked."""
        config = self.merged()
        if config.ray is not None:
            check_on(config.ray)
        provider = open_model(config, self.resources)
        provider.check_access()
        read_prices(config.prices)  # a price file that is wrong is said before anything is done
        if config.max_cost is not None and not self.folder.manifest_path.is_file():
            known_price(provider, config)
        extractor_versions(config.languages, self.resources)  # a pack that is wrong must not cost a run
        self.folder.create()
        with self.folder.locked(), self.folder.open_store() as store:
            manifest = self._plan(store, provider, config)
            # The line that describes the run: how much of the data, how many prompts.
            settings = manifest.config
            total, asked = sum(manifest.available.values()), manifest.counts.instances
            part = "all" if asked == total else "a template-balanced sample of the"
            self.watcher.say(
                f"{settings.model}: {part} {total:,} questions"
                + ("" if asked == total else f": {asked:,}")
                + f" × {len(settings.variants)} prompt variants"
                + ("" if settings.method == ("generate",) else f" by {' and '.join(settings.method)}")
                + (f" × {orders} option orders" if (orders := orders_of(settings.option_order)) > 1 else "")
                + (f" × {styles} label styles" if (styles := len(settings.label_style)) > 1 else "")
                + (f" × {levels} reasoning efforts" if (levels := len(settings.reasoning_effort)) > 1 else "")
                + f" = {manifest.counts.prompts:,} prompts"
                + f" ({manifest.counts.requests:,} different requests)"
            )
            if self.rerun_lost:
                self.watcher.say(f"{store.records.drop_lost_shards():,} responses were lost and are requested again")
            folded = fold_left_over(store, self.folder, self.watcher)
            if config.ray is not None:
                from mbbq_gen.runs.distributed.pool import distribute

                cluster = DistributedConfig(
                    config.ray, config.workers or 2, config.gpus_per_worker or 0.0, config.shard_dir
                )
                limited = config.max_cost is not None
                provider = distribute(
                    cluster, self.folder, store, provider, self.resources, limited=limited, folded=folded
                )
            yield _Work(self, Session(self.folder, store, provider, manifest.config, self.watcher), manifest)
            store.records.pack()

    def merged(self) -> RunConfig:
        """The settings given, over those of the run that is in the folder.

        Raises:
            ConfigError: where a setting that shapes prompts or answers differs.
        """
        config = self.config
        if self.folder.manifest_path.is_file():
            before = self.folder.manifest().config
            model = config.follow_up_model or before.follow_up_model or before.model
            config = before.resumed(config, options_class(model).may_change, str(self.folder.path))
            check_together(config)
        rule_from(self.config, config.languages)  # a rule that is wrong is said before anything is done
        return config

    def _plan(self, store: RunStore, provider: Provider, config: RunConfig) -> Manifest:
        """Stores the plan, or the execution settings that a planned run has from now on."""
        given, kind = self.config, config.model.partition(":")[0]
        rule = rule_from(given, config.languages)
        if store.meta("planned") and self.folder.manifest_path.is_file():
            manifest = self.folder.manifest()
            if not config.is_imported:
                check_same_model(manifest, provider, self.folder.path)
            if manifest.config != config:
                manifest = manifest.model_copy(update={"config": config})
                self.folder.write_manifest(manifest)
                if config.is_scored:
                    store.set_meta(NORMALISE, config.normalization)
        else:
            load, said = InstanceSource(config, self.resources), notices(config)
            with self.watcher.stage("planning") as advance:
                planner = Planner(
                    self.folder,
                    config,
                    provider,
                    self.resources,
                    load,
                    said,
                    control=load.control,
                    step=lambda: advance(1),
                )
                manifest = planner.plan(store)
        if rule is not None:
            set_rule(store, rule, config)
        choose_mode(store, given.batch, given.batch_size if supports_batches(kind) else None)
        if config.storage is not None and not store.records.in_files:
            store.records.enable_shards()
            self.watcher.say(f"prompts and responses are kept in {self.folder.path / FOLDER}")
        return manifest

    def _read(self, store: RunStore) -> None:
        """Extracts what was not extracted during the execution."""
        with self.watcher.stage("reading") as advance:
            extract_run(store, self.resources, advance)


@dataclass(frozen=True)
class _Work:
    """A job whose run is open."""

    job: Job
    session: Session
    manifest: Manifest

    async def ask(self) -> bool:
        """Asks what has no answer yet, then the follow-ups; whether batches are under way when it returns.

        Raises:
            UsageError: a follow-up is wanted of a model that takes no second turn.
        """
        if not follows_up(self.manifest.config):
            return await self._ask_first()
        provider = self.session.provider
        provider.check_dialogue()
        try:
            is_imported = self.manifest.config.is_imported
            return (not is_imported and await self._ask_first(close=False)) or await self._follow_up()
        finally:
            await provider.aclose()

    async def _follow_up(self) -> bool:
        """Follows up what could not be read; whether batches are under way when it returns."""
        session, resources = self.session, self.job.resources
        store, provider, rules, table = session.store, session.provider, session.rules, FollowUpTable(session.store)
        self.job._read(store)
        if planned := plan_follow_ups(store, provider, rules, resources):
            session.watcher.say(f"follow-up: {planned:,} answers are followed up")
        mode = mode_of(store)
        if table.progress().pending:
            if mode != "off":
                if await run_batches(session, mode, again=False):
                    return True
            else:
                try:
                    limit = rules.max_cost
                    guard = None if limit is None else open_cost_guard(store, provider, rules, limit)
                    await execute_planned(table, provider, rules, session.watcher, guard, close=False)
                except ProviderError:
                    table.withdraw()
                    raise
                finally:
                    session.store_runtime_info()
        read_follow_ups(store, resources)
        if found := follow_up_status(store):
            session.watcher.say(
                f"follow-up: {found.answered:,} of {found.requests:,} answered; {found.read:,} were read,"
                f" {found.none:,} chose none of the options"
            )
        return False

    async def _ask_first(self, *, close: bool = True) -> bool:
        """Asks what has no answer yet, one by one or in batches; whether batches are under way when it returns."""
        mode, config = mode_of(self.session.store), self.manifest.config
        if mode != "off" and config.is_scored:
            raise ConfigError(
                "batch", True, "works with {method} generate only; leave it out, or use another run for loglikelihoods"
            )
        if mode != "off" and config.ray is not None:
            raise ConfigError(
                "ray", config.ray, "workers send no batches; leave it out, or set {batch} to false (--no-batch)"
            )
        rule = rule_of(self.session.store)
        if rule is None:
            return await self._ask_all(mode, close=close)
        from mbbq_gen.runs.adaptive_run import AdaptiveRun  # imports numpy, scipy and polars

        session = self.session
        where = session.folder, session.store, self.job.resources, session.watcher
        rounds = AdaptiveRun(*where, rule, config, by_batch=mode != "off")
        try:
            return await rounds.execute(lambda: self._ask_all(mode, close=False))
        finally:
            if close:
                await session.provider.aclose()

    async def _ask_all(self, mode: Mode, *, close: bool = True) -> bool:
        """Asks whatever is planned, or taken by a round; whether batches are under way."""
        if mode != "off":
            return await run_batches(self.session, mode, again=self.job.config.batch is True)
        with ExtractionWorker(self.session.store, self.job.resources, self.job.helper) as extractions:
            try:
                await execute(self.session, extractions, close=close)
            except asyncio.CancelledError:
                path = self.session.folder.path
                self.session.watcher.say(f"\nstopped; received responses are kept. Continue with: mbbq-gen run {path}")
                raise
            await extractions.finish()
        return False

    def result(self, under_way: bool) -> JobResult:
        """How the run stands.

        Raises:
            RunError: as `check_failures`.
        """
        store = self.session.store
        in_batches, path = mode_of(store) != "off", self.session.folder.path
        again = f"{f'mbbq-gen run {path} --batch' if in_batches else 'the same command'} sends the others again"
        held = failures_held(store) if in_batches else 0
        line = None if under_way else check_failures(store, self.session.rules.max_error_rate, again, held)
        if line is not None:
            self.session.watcher.say(line)
        progress = store.progress()
        return JobResult(
            run=str(self.session.folder.path),
            requests=progress.requests,
            answered=progress.answered,
            failed=progress.failed,
            prompts=self.manifest.counts.prompts,
            batches_under_way=under_way,
        )


def _on_a_thread(job: Job) -> JobResult:
    """What `execute` gives, from another thread; Ctrl-C here stops it there."""
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[JobResult]]] = Future()

    async def execute() -> JobResult:
        task = asyncio.create_task(job.execute_async())
        started.set_result((asyncio.get_running_loop(), task))
        return await task

    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="mbbq-gen-job") as thread:
        ended = thread.submit(asyncio.run, execute())
        try:
            return ended.result()
        except KeyboardInterrupt:
            loop, task = started.result()
            with suppress(RuntimeError):  # it may have ended this very moment
                loop.call_soon_threadsafe(task.cancel)
            raise
