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
from typing import Final

from mbbq_gen.core.config import RunConfig
from mbbq_gen.core.errors import ConfigError, ProviderError, RunError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.progress import CallbackListener, ProgressListener
from mbbq_gen.providers.base import BATCH_KINDS, Provider
from mbbq_gen.providers.prices import read_prices
from mbbq_gen.providers.registry import options_class
from mbbq_gen.runs.distributed.cluster import check_ray
from mbbq_gen.runs.executor import Session, check_failures, execute, known_price
from mbbq_gen.runs.extraction import ExtractionWorker, extract_run, extractor_versions
from mbbq_gen.runs.follow_up import FollowUpTable, extract_follow_ups, follow_up_status, plan_follow_ups
from mbbq_gen.runs.helper_process import HelperProcess
from mbbq_gen.runs.planner import plan_run
from mbbq_gen.runs.resolve import InstanceSource, check_together, open_model
from mbbq_gen.runs.run_folder import Manifest, RunFolder
from mbbq_gen.runs.stopping_rule import rule_from
from mbbq_gen.storage.ledgers import BatchMode, BatchTable, choose_mode, mode_of
from mbbq_gen.storage.shards import FOLDER
from mbbq_gen.storage.store import IN_ROUNDS, NORMALISE, RunStore

_FIRST_REQUESTS: Final = 0.1
"""Seconds for the first requests before the rest of a growing plan is stored."""
_OTHER_FOLDER: Final = "name another run folder (--cache-dir shares responses between runs)"


@dataclass(frozen=True)
class JobResult:
    """The state of a run after a job."""

    run: str
    """The run folder."""
    requests: int
    answered: int
    failed: int
    """Failed requests, which the next job sends again."""
    prompts: int
    batches_under_way: bool
    """Whether batches are open at the service, which the next job collects."""


@dataclass(frozen=True)
class Job:
    """Plans, executes and extracts one run folder."""

    folder: RunFolder
    config: RunConfig
    """A complete configuration (`resolve.resolve`); for an existing run, only the settings that change."""
    resources: PackPaths
    watcher: ProgressListener = field(default_factory=CallbackListener)
    helper: HelperProcess = field(default_factory=HelperProcess)
    """Extracts responses while requests are sent; closed by the caller."""

    def plan(self) -> Manifest:
        """Plans the run, or checks that it was planned with the same settings. Needs no API key.

        Raises:
            MbbqGenError: the folder cannot be used or has another run, or settings, packs or data are wrong.
        """
        config = self.merged()
        provider = open_model(config, self.resources)
        extractor_versions(config.languages, self.resources)
        self.folder.create()
        with self.folder.locked(), self.folder.open_store() as store:
            return self._plan(store, provider, config)

    def execute(self) -> JobResult:
        """Completes the run and returns its state. Received responses are kept if an error is raised.

        Inside a running event loop (a notebook), it runs in another thread and blocks that loop.

        Raises:
            UsageError: a key is missing.
            ProviderError: no further request can succeed.
            RunError: too many requests failed, or the budget is spent.
        """
        in_loop = False
        with suppress(RuntimeError):
            in_loop = asyncio.get_running_loop() is not None
        if in_loop:
            return _execute_in_thread(self)
        with self._opened() as session:
            return self._result(session, asyncio.run(self._send(session)))

    async def execute_async(self) -> JobResult:
        """Coroutine version of `execute`. Received responses are kept if it is cancelled.

        Planning, and extracting the responses of an earlier job, block the event loop.
        """
        with self._opened() as session:
            return self._result(session, await self._send(session))

    @contextmanager
    def _opened(self) -> Iterator[Session]:
        """Locks and plans the run."""
        config = self.merged()
        if config.ray is not None:
            check_ray(config.ray)
        provider = open_model(config, self.resources)
        provider.check_access()
        read_prices(config.prices)  # report a wrong price file before anything is done
        if config.max_cost is not None and not self.folder.manifest_path.is_file():
            known_price(provider, config)
        extractor_versions(config.languages, self.resources)  # report a wrong pack before money is spent
        self.folder.create()
        with self.folder.locked(), self.folder.open_store() as store:
            manifest = self._plan(store, provider, config, executes=True)
            self.watcher.say(_description(manifest))
            if config.ray is not None:
                from mbbq_gen.runs.distributed.pool import WorkerPool

                provider = WorkerPool(provider, manifest.config, self.resources)
            yield Session(self.folder, store, provider, manifest.config, self.watcher)
            store.records.pack()

    def merged(self) -> RunConfig:
        """The given settings merged into those of the run.

        Raises:
            ConfigError: a setting that shapes prompts or answers differs from the run's.
        """
        config = self.config
        if self.folder.manifest_path.is_file():
            before = self.folder.manifest().config
            config = before.resumed(config, options_class(before.model).may_change, str(self.folder.path))
            check_together(config)
            if before.stop_when_decided is not None and config.stop_when_decided is None:
                raise UsageError(
                    f"{self.folder.path}: was sent until a decision, so another rule would need other intervals;"
                    f" {_OTHER_FOLDER}"
                )
        rule_from(config)  # report a wrong rule before anything is done
        return config

    def _plan(self, store: RunStore, provider: Provider, config: RunConfig, *, executes: bool = False) -> Manifest:
        """Stores the plan of a new run, or changed execution settings of a planned one.

        `executes`: requests are sent next; the plan is completed meanwhile if they are sent one by one to a service.
        """
        given, rule = self.config, rule_from(config)
        has_begun = rule is not None and (store.progress().answered or BatchTable(store).batches())
        if has_begun and not store.is_in_rounds:
            raise UsageError(
                f"{self.folder.path}: was started without a stopping rule, so its answers are not a balanced sample;"
                f" {_OTHER_FOLDER}"
            )
        if store.meta("planned") and self.folder.manifest_path.is_file():
            manifest = self.folder.manifest()
            before, now = manifest.provider_settings, dict(provider.settings)
            changed = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
            if changed:
                what = f"the model has changed since this run began ({', '.join(changed)} changed)"
                raise RunError(f"{self.folder.path}: {what}; name another run folder")
            if manifest.config != config:
                manifest = manifest.model_copy(update={"config": config})
                self.folder.write_manifest(manifest)
                if config.is_scored:
                    store.set_meta(NORMALISE, config.normalization)
        else:
            load = InstanceSource(config, self.resources)
            with self.watcher.stage("planning") as advance:
                may_grow = executes and not config.follow_up and provider.capabilities.base_url is not None
                whole = rule, given.batch, config.ray, config.storage, config.cache_dir, config.max_cost
                grows = may_grow and not any(whole)
                manifest = plan_run(store, self.folder, provider, load, lambda: advance(1), grows=grows)
        if rule is not None:
            store.set_meta(IN_ROUNDS, "yes")
        has_batches = config.model.partition(":")[0] in BATCH_KINDS
        choose_mode(store, given.batch, given.batch_size if has_batches else None)
        if config.storage is not None and not store.records.in_files:
            store.records.enable_shards()
            self.watcher.say(f"prompts and responses are kept in {self.folder.path / FOLDER}")
        return manifest

    async def _send(self, session: Session) -> bool:
        """Sends pending requests, then follow-ups; returns whether batches are open."""
        try:
            if not session.config.follow_up:
                return await self._send_first(session)
            session.provider.check_dialogue()
            return await self._send_first(session) or await self._follow_up(session)
        finally:
            await session.provider.aclose()

    async def _follow_up(self, session: Session) -> bool:
        """Sends follow-ups for responses that could not be extracted; returns whether batches are open."""
        store, say = session.store, session.watcher.say
        self._extract(store)
        if planned := plan_follow_ups(store, session.provider, session.config, self.resources):
            say(f"follow-up: {planned:,} answers are followed up")
        mode, table = mode_of(store), FollowUpTable(store)
        if table.progress().pending:
            if mode != "off":
                if await _run_batches(session, mode, retry_failed=False):
                    return True
            else:
                try:
                    await execute(session, table)
                except ProviderError:
                    table.withdraw()
                    raise
        extract_follow_ups(store, self.resources)
        if found := follow_up_status(store):
            say(
                f"follow-up: {found.answered:,} of {found.requests:,} answered; {found.read:,} were read,"
                f" {found.none:,} chose none of the options"
            )
        return False

    async def _send_first(self, session: Session) -> bool:
        """Sends pending requests one by one or in batches; returns whether batches are open."""
        mode, config = mode_of(session.store), session.config
        if mode != "off" and config.is_scored:
            raise ConfigError(
                "batch", True, "works with {method} generate only; leave it out, or use another run for loglikelihoods"
            )
        if mode != "off" and config.ray is not None:
            raise ConfigError(
                "ray", config.ray, "workers send no batches; leave it out, or set {batch} to false (--no-batch)"
            )
        rule = rule_from(config)
        if rule is None:
            return await self._send_all(session, mode)
        from mbbq_gen.runs.adaptive import AdaptiveRun  # imports numpy, scipy and polars

        adaptive = AdaptiveRun(session, self.resources, rule, in_batches=mode != "off")
        return await adaptive.execute(lambda: self._send_all(session, mode))

    async def _send_all(self, session: Session, mode: BatchMode) -> bool:
        """Sends the planned requests, or those of an adaptive round; returns whether batches are open."""
        if mode != "off":
            return await _run_batches(session, mode, retry_failed=self.config.batch is True)
        with ExtractionWorker(session.store, self.resources, self.helper) as extractions:
            if session.store.progress().pending:
                planning = asyncio.create_task(_complete_plan(session.store))
                try:
                    await execute(session, session.store, extractions.submit)
                except asyncio.CancelledError:
                    hint = f"Continue with: mbbq-gen run {session.folder.path}"
                    session.watcher.say(f"\nstopped; received responses are kept. {hint}")
                    raise
                finally:
                    planning.cancel()
                    with suppress(asyncio.CancelledError):
                        await planning
                    while session.store.store_prompts():
                        pass
            else:
                session.watcher.say("all requests are answered already")
            await extractions.finish()
        return False

    def _extract(self, store: RunStore) -> None:
        """Extracts responses that were not extracted during execution."""
        with self.watcher.stage("reading") as advance:
            extract_run(store, self.resources, advance)

    def _result(self, session: Session, under_way: bool) -> JobResult:
        """Extracts remaining responses and returns the state of the run."""
        store, path = session.store, session.folder.path
        self._extract(store)
        command = "the same command" if mode_of(store) == "off" else f"mbbq-gen run {path} --batch"
        progress = store.progress()
        if not under_way:
            rate = session.config.max_error_rate
            if line := check_failures(store, progress, rate, f"{command} sends the others again"):
                session.watcher.say(line)
        return JobResult(
            run=str(path),
            requests=progress.requests,
            answered=progress.answered,
            failed=progress.failed,
            prompts=session.folder.manifest().counts.prompts,
            batches_under_way=under_way,
        )


async def _run_batches(session: Session, mode: BatchMode, *, retry_failed: bool) -> bool:
    from mbbq_gen.runs.batch_runner import run_batches  # imports the services' batches

    return await run_batches(session, mode, retry_failed=retry_failed)


async def _complete_plan(store: RunStore) -> None:
    """Stores the rest of a growing plan after the first requests were sent."""
    await asyncio.sleep(_FIRST_REQUESTS)
    while store.store_prompts():
        await asyncio.sleep(0)


def _description(manifest: Manifest) -> str:
    """One line about a run: its questions, variants and prompts."""
    counts, total = manifest.counts, sum(manifest.available.values())
    part = f"a template-balanced sample of the {total:,} questions: {counts.instances:,}"
    line = f"{manifest.config.model}: {f'all {total:,} questions' if counts.instances == total else part}"
    different = "" if counts.requests == counts.prompts else f" ({counts.requests:,} different requests)"
    return f"{line} × {len(manifest.config.variants)} prompt variants, {counts.prompts:,} prompts{different}"


def _execute_in_thread(job: Job) -> JobResult:
    """Runs `execute` on another thread; Ctrl-C in this thread cancels it."""
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
