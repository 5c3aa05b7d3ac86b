"""`mbbq-gen run`: the main job: plan, ask, read, score, show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mbbq_gen.cli.options import (
    Json,
    Packs,
    RunPath,
    all_of,
    data_folder,
    example,
    one_of,
    print_json,
    resources,
    say,
    splits_of,
    words,
)
from mbbq_gen.cli.progress import Bar
from mbbq_gen.errors import UsageError

if TYPE_CHECKING:
    from mbbq_gen.providers.base import Provider
    from mbbq_gen.records import Instance, Response
    from mbbq_gen.resources import Resources
    from mbbq_gen.runs.folder import BenchmarkChoice, Manifest, RunFolder, RunSettings
    from mbbq_gen.runs.store import RunStore

PROVIDER_SHORTCUTS = ("max_new_tokens", "batch_size", "threads", "dtype", "device")


@example(
    "  mbbq-gen run my-run --model transformers:smollm2 --benchmark starter \\\n"
    "      --languages en,nl,es,tr --variants all --splits bias,control\n"
    "  mbbq-gen run my-run                                   (goes on where it stopped)"
)
def run(
    run_path: RunPath,
    model: Annotated[str | None, typer.Option(help="kind:model, see `mbbq-gen models`.")] = None,
    benchmark: Annotated[
        str | None, typer.Option(help="Benchmarks, comma-separated, see `mbbq-gen data list`.", metavar="NAME,…")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of the benchmark's published files.", metavar="DIR")] = None,
    instances: Annotated[
        Path | None, typer.Option(help="Your own questions: JSON Lines in the canonical fields.", metavar="FILE")
    ] = None,
    languages: Annotated[str, typer.Option(help="Languages, comma-separated, or `all`.", metavar="XX,…")] = "all",
    variants: Annotated[str, typer.Option(help="Prompt variants, comma-separated, or `all`.", metavar="ID,…")] = "all",
    splits: Annotated[str, typer.Option(help="bias, control or both.", metavar="SPLIT,…")] = "bias,control",
    order: Annotated[
        str, typer.Option(help="Option order: published, shuffled, balanced, cyclic (3 orders) or all (6).")
    ] = "balanced",
    label_style: Annotated[
        str, typer.Option(help="Labels of the options, comma-separated: A, a, (A), 1.", metavar="STYLE,…")
    ] = "A",
    shots: Annotated[int, typer.Option(min=0, max=9, help="Solved examples before each question.", metavar="N")] = 0,
    instruction_language: Annotated[
        str | None, typer.Option(help="Put the wording in this language round the question in its own.", metavar="XX")
    ] = None,
    question_only: Annotated[
        bool, typer.Option("--question-only", help="Leave the contexts out (a baseline).")
    ] = False,
    sample: Annotated[
        int | None,
        typer.Option(
            min=1, help="Ask only N questions for each language and split, balanced over templates.", metavar="N"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of sampling and option orders.")] = 0,
    system: Annotated[
        str | None, typer.Option(help="System message: a text, `none`, or `default` (the model's own).", metavar="TEXT")
    ] = None,
    max_new_tokens: Annotated[int | None, typer.Option(help="Longest answer, in tokens.", metavar="N")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Questions answered together.", metavar="N")] = None,
    threads: Annotated[int | None, typer.Option(help="CPU threads of a local model.", metavar="N")] = None,
    dtype: Annotated[str | None, typer.Option(help="Number type of a local model: float32, bfloat16, …")] = None,
    device: Annotated[str | None, typer.Option(help="Device of a local model: cpu, cuda, mps.")] = None,
    option: Annotated[
        list[str] | None, typer.Option(help="Any other option of the model, as NAME=VALUE.", metavar="NAME=VALUE")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Allow --order published where it is confounded.")] = False,
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
    if model is None and benchmark is None and instances is None:
        folder.require()
        settings = folder.manifest().settings
    else:
        given = {
            "max_new_tokens": max_new_tokens,
            "batch_size": batch_size,
            "threads": threads,
            "dtype": dtype,
            "device": device,
        }
        settings = _settings(
            where,
            model=model,
            choices=_choices(benchmark, data, instances),
            languages=languages,
            variants=variants,
            splits=splits,
            order=order,
            label_style=label_style,
            shots=shots,
            instruction_language=instruction_language,
            question_only=question_only,
            sample=sample,
            seed=seed,
            system=system,
            options=_provider_options(given, option or []),
            force=force,
        )
    summary = Job(folder, settings, where).execute()
    if as_json:
        print_json(summary)
    else:
        from mbbq_gen.cli.report import show_report

        show_report(folder, where)


def _choices(benchmark: str | None, data: Path | None, instances: Path | None) -> list[tuple[str, Path | None]]:
    """(name, folder or file) for each benchmark."""
    if instances is not None:
        if benchmark is not None or data is not None:
            raise UsageError("--instances takes the place of --benchmark and --data; give one or the other")
        return [("instances", instances)]
    if benchmark is None:
        raise UsageError("name what to ask: --benchmark NAME (see `mbbq-gen data list`) or --instances FILE")
    return [(name, data_folder(name, data)) for name in words(benchmark)]


def _provider_options(given: dict[str, Any], pairs: list[str]) -> dict[str, Any]:
    """The options of the provider that were given, by name."""
    options = {name: value for name, value in given.items() if value is not None}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"--option {pair!r}: write it as NAME=VALUE")
        options[name.strip().replace("-", "_")] = value
    return options


def _settings(where: Resources, **given: Any) -> RunSettings:
    """The run's settings, every name in them checked."""
    from mbbq_gen.datasets.registry import find_benchmark
    from mbbq_gen.languages import read_prompts
    from mbbq_gen.presentation import LABEL_STYLES, ORDER_POLICIES
    from mbbq_gen.runs.folder import BenchmarkChoice, RunSettings

    if given["model"] is None:
        raise UsageError("name the model to ask: --model kind:model (see `mbbq-gen models`)")
    order = one_of("option order", given["order"], ORDER_POLICIES)
    choices = given["choices"]
    infos = [find_benchmark(name) for name, _ in choices if name != "instances"]
    if order == "published" and not given["force"]:
        _refuse_confounded([info.name for info in infos if getattr(info, "confounded_order", False)])
    languages = _languages(where, given["languages"], choices, infos)
    other = (
        one_of("language", given["instruction_language"], where.names("prompts"))
        if given["instruction_language"]
        else None
    )
    known_variants = [variant.id for variant in read_prompts(where, other or languages[0]).variant]
    variants = (
        known_variants if given["variants"] == "all" else all_of("prompt variant", given["variants"], known_variants)
    )
    options = dict(given["options"])
    text = given["system"]
    if text in ("none", "default"):
        options["system"] = text
        text = None
    return RunSettings(
        model=given["model"],
        model_options=options,
        system=text,
        benchmarks=tuple(BenchmarkChoice(name=name, data=str(path) if path else None) for name, path in choices),
        languages=tuple(languages),
        splits=tuple(splits_of(given["splits"])),
        variants=tuple(variants),
        order=order,
        label_styles=tuple(all_of("label style", given["label_style"], list(LABEL_STYLES))),
        shots=given["shots"],
        instruction_language=other,
        question_only=given["question_only"],
        seed=given["seed"],
        sample=given["sample"],
    )


def _refuse_confounded(names: list[str]) -> None:
    if names:
        raise UsageError(
            f"--order published: in {', '.join(names)} the published place of an option tells its role, so a preference"
            " for a place would look like bias; use another order, or --force"
        )


def _languages(where: Resources, text: str, choices: list[tuple[str, Path | None]], infos: list[Any]) -> list[str]:
    """The languages to ask in; each must have prompts, and `all` means what the benchmarks have."""
    known = where.names("prompts")
    if text != "all":
        return all_of("language", text, known)
    if infos:
        return list(dict.fromkeys(code for info in infos for code in info.languages if code in known))
    from mbbq_gen.datasets.canonical import read_instances

    found = dict.fromkeys(instance.language for _, path in choices if path for instance in read_instances(path))
    return [one_of("language", code, known) for code in found]


class Job:
    """One run from plan to extraction, with a bar for each long part."""

    def __init__(self, folder: RunFolder, settings: RunSettings, where: Resources) -> None:
        self.folder = folder
        self.settings = settings
        self.where = where

    def execute(self) -> dict[str, Any]:
        """Does whatever is left to do and says how it ended."""
        from mbbq_gen.providers.registry import open_provider
        from mbbq_gen.runs.reading import extractor_versions

        provider = open_provider(self.settings.model, self.settings.model_options, self.where)
        extractor_versions(self.settings.languages, self.where)  # a pack that is wrong must not cost a run
        self.folder.create()
        with self.folder.locked(), self.folder.open_store() as store:
            manifest = self._plan(store, provider)
            self._announce(manifest)
            self._ask(store, provider, manifest)
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
        }

    def _plan(self, store: RunStore, provider: Provider) -> Manifest:
        from mbbq_gen.runs.plan import Planner, check_same_settings

        if store.meta("planned") and self.folder.manifest_path.is_file():
            manifest = self.folder.manifest()
            check_same_settings(manifest, self.settings, provider, self.folder.path)
            return manifest
        with Bar("planning", None, "steps", delay=1.0) as bar:
            notices = _notices(self.settings)
            planner = Planner(self.folder, self.settings, provider, self.where, self._load, notices, step=bar.advance)
            return planner.plan(store)

    def _load(self, choice: BenchmarkChoice, languages: Iterable[str], splits: Iterable[str]) -> Iterator[Instance]:
        """The questions of one benchmark in those of the languages and splits that it has."""
        from mbbq_gen.datasets.canonical import read_instances
        from mbbq_gen.datasets.registry import find_benchmark, load_benchmark

        wanted = set(languages)
        chosen = list(splits)
        if choice.name == "instances":
            for instance in read_instances(Path(choice.data or "")):
                if instance.language in wanted and instance.split in chosen:
                    yield instance
            return
        info = find_benchmark(choice.name)
        several = len(self.settings.benchmarks) > 1
        yield from load_benchmark(
            choice.name,
            data=Path(choice.data) if choice.data else None,
            languages=[code for code in languages if code in info.languages or not several],
            splits=[split for split in chosen if split in info.splits or not several],  # type: ignore[misc]
            resources=self.where,
        )

    def _announce(self, manifest: Manifest) -> None:
        """Says what part of the questions is asked."""
        total, asked = sum(manifest.available.values()), manifest.counts.instances
        part = "all" if asked == total else "a template-balanced part of the"
        say(
            f"{self.settings.model}: {part} {total:,} questions"
            + ("" if asked == total else f": {asked:,}")
            + f" × {len(self.settings.variants)} wordings"
            + (f" × {styles} label styles" if (styles := len(self.settings.label_styles)) > 1 else "")
            + f" = {manifest.counts.presentations:,} presentations"
            + f" ({manifest.counts.requests:,} different requests)"
        )

    def _ask(self, store: RunStore, provider: Provider, manifest: Manifest) -> None:
        from mbbq_gen.runs.runner import answer_pending

        progress = store.progress()
        if not progress.pending:
            say("everything is answered already")
            return
        if progress.answered:
            say(f"{progress.answered:,} answered already, {progress.pending:,} to go")
        try:
            with Bar("asking", progress.pending, "answers") as bar:

                def stored(responses: list[Response]) -> None:
                    bar.advance(len(responses))

                answer_pending(store, provider, stored)
        except KeyboardInterrupt:
            say(f"\nstopped; what arrived is kept. Go on with: mbbq-gen run {self.folder.path}")
            raise
        finally:
            facts = provider.facts()
            if facts != manifest.provider_facts:
                self.folder.write_manifest(manifest.model_copy(update={"provider_facts": facts}))

    def _read(self, store: RunStore) -> None:
        from mbbq_gen.runs.reading import read_run

        with Bar("reading", None, "answers", delay=1.0) as bar:
            read_run(store, self.where, bar.advance)


def _notices(settings: RunSettings) -> tuple[str, ...]:
    from mbbq_gen.datasets.registry import find_benchmark

    infos = [find_benchmark(choice.name) for choice in settings.benchmarks if choice.name != "instances"]
    return tuple(f"{info.name}: {info.notice}" for info in infos if info.notice)
