"""`mbbq-gen run`: the main job: plan, ask, read, score, show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mbbq_gen.cli.asking import ask, check_access, own_prices
from mbbq_gen.cli.batching import BatchOptions, ask_in_batches
from mbbq_gen.cli.option_groups import expand_options
from mbbq_gen.cli.options import Json, Packs, RunPath, example, print_json, resources, say
from mbbq_gen.cli.progress import Bar
from mbbq_gen.cli.remote_options import AskingOptions, RemoteOptions
from mbbq_gen.cli.selection import QuestionSource, Selection, notices
from mbbq_gen.errors import UsageError

if TYPE_CHECKING:
    from mbbq_gen.providers.base import Provider
    from mbbq_gen.resources import Resources
    from mbbq_gen.runs.asking import AskingSettings
    from mbbq_gen.runs.folder import Manifest, RunFolder, RunSettings
    from mbbq_gen.runs.store import RunStore


@example(
    "  mbbq-gen run my-run --model transformers:smollm2 --benchmark starter \\\n"
    "      --languages en,nl,es,tr --variants all --splits bias,control\n"
    "  mbbq-gen run my-run                                   (goes on where it stopped)\n"
    "  mbbq-gen run my-run --model openai:gpt-4o-mini --benchmark starter --batch    (and later: run my-run --resume)"
)
@expand_options
def run(
    run_path: RunPath,
    selection: Selection,
    remote: RemoteOptions,
    asking: AskingOptions,
    batching: BatchOptions,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Asks a model the questions of a benchmark, reads its answers, scores them and shows the result.

    Everything that arrives is stored in the folder RUN at once. The same command again, or `mbbq-gen run RUN`, goes on
    where the last one stopped, whatever ended it; nothing is asked twice.
    """
    from mbbq_gen.runs.folder import RunFolder

    folder = RunFolder(run_path)
    where = resources(packs)
    if batching.resume and not selection.is_empty:
        raise UsageError("--resume goes on with a run as it was planned; leave --model, --benchmark and the like out")
    if selection.is_empty:
        folder.require()
        settings = folder.manifest().settings
    else:
        settings = selection.settings(where)
    options = {**settings.model_options, **remote.provider_options(), **asking.provider_options()}
    settings = settings.model_copy(update={"model_options": options})
    size = selection.requests_in_batch(settings.model)
    summary = Job(folder, settings, where, remote, asking, batching, size).execute()
    if as_json:
        print_json(summary)
    elif not summary["batches_under_way"]:
        from mbbq_gen.cli.report import show_report

        show_report(folder, where)


class Job:
    """One run from plan to extraction, with a bar for each long part."""

    def __init__(
        self,
        folder: RunFolder,
        settings: RunSettings,
        where: Resources,
        remote: RemoteOptions,
        asking: AskingOptions,
        batching: BatchOptions,
        batch_size: int | None,
    ) -> None:
        """`batch_size`: the most requests in one batch; None: what the service takes."""
        self.folder = folder
        self.settings = settings
        self.where = where
        self.remote = remote
        self.asking = asking
        self.batching = batching
        self.batch_size = batch_size

    def execute(self) -> dict[str, Any]:
        """Does whatever is left to do and says how it ended."""
        from mbbq_gen.providers.registry import open_provider
        from mbbq_gen.runs.reading import extractor_versions

        provider = open_provider(self.settings.model, self.settings.model_options, self.where)
        check_access(provider)
        own_prices(self.remote.price_file)  # a price file that is wrong is said before anything is done
        extractor_versions(self.settings.languages, self.where)  # a pack that is wrong must not cost a run
        self.folder.create()
        with self.folder.locked(), self.folder.open_store() as store:
            manifest = self._plan(store, provider)
            self._announce(manifest)
            under_way = self._ask(store, provider)
            self._read(store)
            progress = store.progress()
        if progress.failed:
            say(f"{progress.failed} requests failed; the same command asks them again")
        return {
            "run": str(self.folder.path),
            "requests": progress.requests,
            "answered": progress.answered,
            "failed": progress.failed,
            "presentations": manifest.counts.presentations,
            "batches_under_way": under_way,
        }

    def _ask(self, store: RunStore, provider: Provider) -> bool:
        """Asks what has no answer yet, one by one or in batches; whether batches are under way when it returns."""
        rules, mode = self._rules(store), self.batching.mode(store, self.batch_size)
        if mode == "off":
            ask(self.folder, store, provider, rules)
            return False
        again = self.batching.batch is True
        return ask_in_batches(self.folder, store, provider, rules, mode, again=again)

    def _plan(self, store: RunStore, provider: Provider) -> Manifest:
        from mbbq_gen.runs.plan import Planner, check_same_settings

        if store.meta("planned") and self.folder.manifest_path.is_file():
            manifest = self.folder.manifest()
            check_same_settings(manifest, self.settings, provider, self.folder.path)
            if manifest.settings != self.settings:
                manifest = manifest.model_copy(update={"settings": self.settings})
                self.folder.write_manifest(manifest)
            return manifest
        with Bar("planning", None, "steps", delay=1.0) as bar:
            load, said = QuestionSource(self.settings, self.where), notices(self.settings)
            planner = Planner(self.folder, self.settings, provider, self.where, load, said, step=bar.advance)
            return planner.plan(store)

    def _rules(self, store: RunStore) -> AskingSettings:
        """The rules of asking: those that the run had, with what was given now."""
        from mbbq_gen.runs.asking import load_asking, save_asking

        before = load_asking(store)
        rules = self.asking.rules(before, self.remote.price_file)
        if rules != before:
            save_asking(store, rules)
        return rules

    def _announce(self, manifest: Manifest) -> None:
        """Says what part of the questions is asked."""
        from mbbq_gen.presentation import orders_of

        total, asked = sum(manifest.available.values()), manifest.counts.instances
        part = "all" if asked == total else "a template-balanced part of the"
        say(
            f"{self.settings.model}: {part} {total:,} questions"
            + ("" if asked == total else f": {asked:,}")
            + f" × {len(self.settings.variants)} wordings"
            + (f" × {orders} option orders" if (orders := orders_of(self.settings.order)) > 1 else "")
            + (f" × {styles} label styles" if (styles := len(self.settings.label_styles)) > 1 else "")
            + f" = {manifest.counts.presentations:,} presentations"
            + f" ({manifest.counts.requests:,} different requests)"
        )

    def _read(self, store: RunStore) -> None:
        from mbbq_gen.runs.reading import read_run

        with Bar("reading", None, "answers", delay=1.0) as bar:
            read_run(store, self.where, bar.advance)
