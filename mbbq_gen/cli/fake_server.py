"""`mbbq-gen fake-server`: a chat API on this machine that answers as an oracle does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mbbq_gen.cli.option_groups import expand_options
from mbbq_gen.cli.options import Json, Packs, data_folder, example, resources, say
from mbbq_gen.errors import UsageError
from mbbq_gen.runs.names import all_of, words

if TYPE_CHECKING:
    from mbbq_gen.fake_server.ledger import Stats
    from mbbq_gen.fake_server.questions import Questions
    from mbbq_gen.fake_server.running import Address
    from mbbq_gen.fake_server.scenario import Scenario
    from mbbq_gen.records import Instance
    from mbbq_gen.resources import Resources

FLAGS = {
    "oracle": "answers.oracle",
    "speech": "answers.speech",
    "latency": "latency.seconds",
    "rate_limited": "faults.rate_limited",
    "retry_after": "faults.retry_after_s",
    "server_error": "faults.server_error",
    "filtered": "content.filtered_prompt",
    "rpm": "limits.rpm",
    "tpm": "limits.tpm",
    "key": "access.key",
    "batch_delay": "batches.delay_s",
    "seed": "seed",
}
"""Option → the setting that it stands for."""


@dataclass(frozen=True)
class KnownQuestions:
    """What the server knows questions from, as it was typed."""

    run: Annotated[
        Path | None, typer.Option("--run", metavar="RUN", help="Answer this run's questions; it may be planned later.")
    ] = None
    benchmark: Annotated[
        str | None, typer.Option(help="Recognise the questions of these benchmarks in any wording.", metavar="NAME,…")
    ] = None
    data: Annotated[Path | None, typer.Option(help="Folder of the benchmark's published files.", metavar="DIR")] = None
    languages: Annotated[
        str, typer.Option(help="Languages of these benchmarks, comma-separated, or `all`.", metavar="XX,…")
    ] = "all"

    def questions(self, where: Resources) -> list[Questions]:
        """What finds the questions; a run comes before benchmarks.

        Raises:
            UsageError: where the options contradict each other, or a benchmark can't be read.
        """
        from mbbq_gen.fake_server.questions import RunQuestions

        if self.data is not None and self.benchmark is None:
            raise UsageError("--data is the folder of --benchmark NAME; give that too")
        found: list[Questions] = [] if self.run is None else [RunQuestions(self.run)]
        if self.benchmark is not None:
            from mbbq_gen.fake_server.recognition import BenchmarkQuestions

            found.append(BenchmarkQuestions(self._instances(self.benchmark, where)))
        return found

    def _instances(self, benchmark: str, where: Resources) -> Iterator[Instance]:
        from mbbq_gen.datasets.registry import BENCHMARKS, benchmark_name, find_benchmark, load_benchmark

        for name in all_of("benchmark", [benchmark_name(word) for word in words(benchmark)], list(BENCHMARKS)):
            known = find_benchmark(name).languages
            wanted = None if self.languages == "all" else [code for code in words(self.languages) if code in known]
            if wanted == []:
                raise UsageError(f"{name} has none of the languages {self.languages}; it has {', '.join(known)}")
            yield from load_benchmark(name, data=data_folder(name, self.data), languages=wanted, resources=where)


@dataclass(frozen=True)
class ScenarioFlags:
    """The settings that have an option of their own, as they were typed; None: not given."""

    oracle: Annotated[
        str | None, typer.Option(help="Who answers: perfect, stereotyped, random…, see `mbbq-gen models`.")
    ] = None
    speech: Annotated[
        str | None, typer.Option(help="How: label (terse), sentence (chatty), refusal; none: as the oracle does.")
    ] = None
    latency: Annotated[float | None, typer.Option(help="Seconds to an answer.", metavar="S")] = None
    rate_limited: Annotated[float | None, typer.Option(help="Share of attempts answered 429.", metavar="SHARE")] = None
    retry_after: Annotated[float | None, typer.Option(help="What their Retry-After says.", metavar="S")] = None
    server_error: Annotated[float | None, typer.Option(help="Share of attempts answered 5xx.", metavar="SHARE")] = None
    filtered: Annotated[
        float | None, typer.Option(help="Share of questions stopped by the content filter.", metavar="SHARE")
    ] = None
    rpm: Annotated[int | None, typer.Option(help="Requests a minute, enforced.", metavar="N")] = None
    tpm: Annotated[int | None, typer.Option(help="Tokens a minute, enforced.", metavar="N")] = None
    key: Annotated[str | None, typer.Option(help="The only key that is let in; none: any.")] = None
    models: Annotated[
        str | None, typer.Option(help="Models that exist, comma-separated; none: every name does.", metavar="NAME,…")
    ] = None
    batch_delay: Annotated[
        float | None, typer.Option(help="Seconds from a batch's creation to its end.", metavar="S")
    ] = None
    seed: Annotated[int | None, typer.Option(help="Seed of all that looks random.", metavar="N")] = None
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any setting of docs/fake-server.md; may be repeated.", metavar="NAME=VALUE"),
    ] = None

    def over(self, path: Path | None) -> Scenario:
        """The scenario of a file, or the one as it comes, with these settings over it.

        Raises:
            UsageError: where a setting is unknown or wrong.
        """
        from mbbq_gen.fake_server.scenario import Scenario, changes_of, load_scenario

        base = Scenario() if path is None else load_scenario(path)
        given = {setting: getattr(self, name) for name, setting in FLAGS.items() if getattr(self, name) is not None}
        if self.models is not None:
            given["access.models"] = words(self.models)
        scenario = base.with_changes(changes_of(given), "options")
        return scenario.with_changes(changes_of(dict(map(_assignment, self.settings or []))), "--set")


def _assignment(text: str) -> tuple[str, Any]:
    """`faults.cut=0.1` as a name and a value: JSON where it is JSON, else the text itself; `none` is the default."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--set {text!r}: write it as NAME=VALUE, such as faults.cut=0.1")
    if value == "none":
        return name, None
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


@example(
    "  mbbq-gen fake-server --run my-run --oracle stereotyped --latency 0.05\n"
    "  OPENAI_API_KEY=any mbbq-gen run my-run --model openai:fake --base-url http://127.0.0.1:8123/v1 \\\n"
    "      --benchmark starter --languages en\n"
    "  mbbq-gen fake-server --benchmark starter --rate-limited 0.05 --set faults.cut=0.01\n"
    "  curl -s http://127.0.0.1:8123/admin/stats"
)
@expand_options
def fake_server(
    known: KnownQuestions,
    flags: ScenarioFlags,
    scenario: Annotated[
        Path | None, typer.Option(help="Settings from a TOML file; options come before it.", metavar="TOML")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at; 0: a free one.")] = 8123,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Serves a chat API on this machine that answers as an oracle does, and fails as services do.

    Speaks as OpenAI (chat completions, responses, files, batches), Azure, Anthropic (messages, batches) and Gemini do.
    Runs until Ctrl-C, then tells what it was asked. Settings can be changed meanwhile, at /admin/scenario.
    """
    from mbbq_gen.fake_server.running import serve_until_signal
    from mbbq_gen.fake_server.service import FakeService

    where = resources(packs)
    chosen = flags.over(scenario)
    questions = known.questions(where)
    service = FakeService(chosen, questions, where)
    if not questions:
        say("knows no question: every answer is the fixed text; give --run RUN or --benchmark NAME")
    serve_until_signal(service, host, port, lambda address: _announce(address, as_json=as_json))
    _sum_up(service.asking.ledger.stats(), as_json=as_json)


def _announce(address: Address, *, as_json: bool) -> None:
    """Tells where the server is, at once even where nobody watches."""
    if as_json:
        typer.echo(json.dumps({"root": address.root, "openai": address.openai, "port": address.port}))
        return
    say(f"OpenAI and compatible   --base-url {address.openai}")
    say(f"Anthropic, Gemini       --base-url {address.root}")
    say(f"settings and counts     {address.root}/admin/scenario, {address.root}/admin/stats")
    say("Ctrl-C ends it")


def _sum_up(stats: Stats, *, as_json: bool) -> None:
    """Tells what was asked."""
    if as_json:
        typer.echo(json.dumps(stats.model_dump()))
        return
    rate = f", {stats.answered / stats.seconds:,.0f} answers a second" if stats.seconds > 0 else ""
    typer.echo(f"{stats.requests:,} requests, {stats.distinct:,} different questions, {stats.answered:,} answers{rate}")
    statuses = ", ".join(f"{status}: {count:,}" for status, count in sorted(stats.by_status.items()))
    faults = ", ".join(f"{fault}: {count:,}" for fault, count in sorted(stats.by_fault.items()))
    if statuses:
        typer.echo(f"by status  {statuses}")
    if faults:
        typer.echo(f"faults     {faults}")
    if stats.paid_again:
        typer.echo(f"{stats.paid_again:,} answers were to questions that had been answered before")
