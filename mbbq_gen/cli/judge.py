"""`mbbq-gen judge`: a chat model reads the answers of a run a second time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mbbq_gen.cli.option_groups import expand_options
from mbbq_gen.cli.options import Json, Packs, RunPath, example, resources, result_console, say
from mbbq_gen.cli.progress import terminal
from mbbq_gen.cli.remote_options import AskingOptions, RemoteOptions
from mbbq_gen.cli.selection import provider_options
from mbbq_gen.errors import UsageError
from mbbq_gen.runs.bars import Bar
from mbbq_gen.runs.names import all_of, one_of

if TYPE_CHECKING:
    from mbbq_gen.providers.base import Provider
    from mbbq_gen.providers.prices import Price
    from mbbq_gen.resources import Resources
    from mbbq_gen.runs.folder import RunFolder
    from mbbq_gen.runs.judging.agreement import JudgeReport
    from mbbq_gen.runs.judging.choice import Choice
    from mbbq_gen.runs.judging.forecast import JudgeForecast
    from mbbq_gen.runs.judging.ledger import Judge, JudgeLedger
    from mbbq_gen.runs.purse import Purse
    from mbbq_gen.runs.store import RunStore


@example(
    "  mbbq-gen judge my-run --model openai:gpt-4o-mini --sample 200 --dry-run\n"
    "  mbbq-gen judge my-run --model openai:gpt-4o-mini --sample 200 --max-cost 1\n"
    "  mbbq-gen judge my-run --model openai:gpt-4o-mini --only unread,low,conflict\n"
    "  mbbq-gen judge my-run                                 (goes on where it stopped)\n"
    "  mbbq-gen judge my-run --report --json\n"
    "  mbbq-gen score my-run --extractor judge:gpt-4o-mini"
)
@expand_options
def judge(
    run_path: RunPath,
    model: Annotated[str | None, typer.Option(help="Who reads: kind:model, see `mbbq-gen models`.")] = None,
    name: Annotated[
        str | None, typer.Option(help="What the judge is called in this run; default: by its model.", metavar="NAME")
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            help="Only answers that the rules left unread, read with low confidence, or against other evidence.",
            metavar="unread,low,conflict",
        ),
    ] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, help="Only so many, drawn by chance within each language.", metavar="N")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sample, of a new judge's orders, of resamples.")] = 0,
    language: Annotated[str | None, typer.Option(help="Only these languages of the run.", metavar="XX,…")] = None,
    max_new_tokens: Annotated[int | None, typer.Option(help="Longest reply, in tokens.", metavar="N")] = None,
    option: Annotated[
        list[str] | None, typer.Option(help="Any other option of the model, as NAME=VALUE.", metavar="NAME=VALUE")
    ] = None,
    *,
    remote: RemoteOptions,
    asking: AskingOptions,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell what it would take and cost; nothing is asked or written.")
    ] = False,
    report: Annotated[bool, typer.Option("--report", help="Only show what the replies so far say.")] = False,
    interval: Annotated[float, typer.Option(min=0.5, max=0.999, help="Confidence of the intervals.")] = 0.95,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Lets a chat model read stored answers too, and shows where it and the rules agree and differ.

    The model is shown the question, the options under names of their own in a shuffled order, and the answer; never a
    role, the context, or what is right. Its readings are stored as the extractor judge:NAME beside those of the rules,
    which stay as they are. Money, rates, cache and going on are as in `run`; a faulty reply is unread, never an option.
    """
    from mbbq_gen.runs.folder import RunFolder

    folder = RunFolder(run_path)
    folder.require()
    job = _Judging(folder, resources(packs), language)
    given = {**provider_options({"max_new_tokens": max_new_tokens}, option or []), **remote.provider_options()}
    given |= asking.provider_options()
    found = job.judge_of(model, name, given, seed)
    if report:
        job.require_begun(found)
    elif dry_run:
        _show_forecast(job.forecast(found, _choice(only, sample, seed), remote.price_file), as_json=as_json)
        return
    else:
        # A judge that goes on without being told of what is left to do asks what it had been given.
        is_told = bool(model or only or sample)
        found = job.execute(found, _choice(only, sample, seed) if is_told else None, remote, asking)
    _show(job.report(found, interval, seed, remote.price_file), as_json=as_json)


def _choice(only: str | None, sample: int | None, seed: int) -> Choice:
    from mbbq_gen.runs.judging.choice import DOUBTS, Choice

    if only is not None and sample is not None:
        raise UsageError("give --only or --sample, one of them")
    doubts = all_of("kind of reading", only, list(DOUBTS)) if only is not None else []
    return Choice(only=tuple(doubts), sample=sample, seed=seed)


class _Judging:
    """The answers of a run as the rules read them, and the judge that reads them again."""

    def __init__(self, folder: RunFolder, where: Resources, language: str | None) -> None:
        from mbbq_gen.cli.loading import read_before_use
        from mbbq_gen.runs.judging.ledger import judges_of

        self._folder, self._where = folder, where
        self._versions = read_before_use(folder, where)
        if language is not None:
            wanted = all_of("language of the run", language, sorted(self._versions))
            self._versions = {code: self._versions[code] for code in wanted}
        with folder.open_store(read_only=True) as store:
            self._judges = judges_of(store)

    # --- which judge ---

    def judge_of(self, model: str | None, name: str | None, given: Mapping[str, Any], seed: int) -> Judge:
        """The judge that is meant: a new one, or one of the run, with the options that were given now.

        Raises:
            UsageError: where it is not said who is to read, or a judge of that name is another one.
        """
        from mbbq_gen.runs.judging.opening import name_of, new_judge

        if model is None:
            before = self._only_judge(name)
            return self._again(before, before.model, {**before.model_options, **given})
        title = name or name_of(model)
        if title in self._judges:
            return self._again(self._judges[title], model, dict(given))
        return new_judge(model, given, self._where, name=title, seed=seed)

    def _only_judge(self, name: str | None) -> Judge:
        """The run's judge of that name, or its only one."""
        if name is not None:
            return self._judges[one_of("judge", name, self._judges)]
        if len(self._judges) != 1:
            known = f"; this run has {', '.join(self._judges)}: name one with --name" if self._judges else ""
            raise UsageError(f"say who reads: --model kind:model (see `mbbq-gen models`){known}")
        return next(iter(self._judges.values()))

    def _again(self, before: Judge, model: str, options: dict[str, Any]) -> Judge:
        """A judge of the run that goes on; what shapes its replies must be as it was."""
        now = before.model_copy(update={"model": model, "model_options": options})
        old, new = before.provider_settings, dict(self.provider_of(now).settings)
        changed = sorted(key for key in {*old, *new} if old.get(key) != new.get(key))
        if model != before.model or changed:
            what = f"asks {before.model}" if model != before.model else f"was asked with other {', '.join(changed)}"
            raise UsageError(
                f"{self._folder.path}: the judge {before.name!r} of this run {what};"
                " give this one another --name, or go on with:"
                f" mbbq-gen judge {self._folder.path} --name {before.name}"
            )
        return now

    def provider_of(self, found: Judge) -> Provider:
        """The judge's model."""
        from mbbq_gen.runs.judging.opening import judge_provider

        return judge_provider(found.model, found.model_options, found.prompt, self._where)

    def require_begun(self, found: Judge) -> None:
        """Raises UsageError where a judge has never been asked."""
        if found.name not in self._judges:
            raise UsageError(f"{self._folder.path}: the judge {found.name!r} has read nothing yet; leave --report out")

    # --- price ---

    def forecast(self, found: Judge, choice: Choice, price_file: Path | None) -> JudgeForecast:
        """What asking it would take and cost."""
        from mbbq_gen.providers.prices import price_of, read_prices
        from mbbq_gen.providers.tokens import token_counter
        from mbbq_gen.runs.judging.choice import asks_of, chosen_readings
        from mbbq_gen.runs.judging.forecast import judge_forecast, measured_replies
        from mbbq_gen.runs.judging.ledger import JudgeLedger

        prices = read_prices(price_file or found.asking.price_file)
        provider = self.provider_of(found)
        base_url: str | None = getattr(provider, "base_url", None)
        longest = provider.settings.get("max_new_tokens")
        with self._folder.open_store(read_only=True) as store, Bar("counting", None, "answers", delay=1.0) as bar:
            chosen = chosen_readings(store, self._versions, choice)
            return judge_forecast(
                asks_of(store, found, chosen, provider.request_key, bar.advance),
                found,
                token_counter(provider.kind, provider.model),
                price_of(provider.kind, provider.model, prices, base_url=base_url),
                base_url=base_url,
                limits=(_limit(found, "rpm"), _limit(found, "tpm")),
                longest=longest if isinstance(longest, int) else None,
                known=JudgeLedger(store, found).answered_keys(),
                measured=measured_replies(store, found.name),
            )

    # --- asking ---

    def execute(self, found: Judge, choice: Choice | None, remote: RemoteOptions, asking: AskingOptions) -> Judge:
        """Plans, asks and reads whatever is left to do; None: what was planned before."""
        from mbbq_gen.providers.prices import read_prices
        from mbbq_gen.runs.judging.ledger import JudgeLedger
        from mbbq_gen.runs.session import ask_pending, check_access, purse_with

        rules = asking.changes(remote.price_file).applied_to(found.asking)
        prices = read_prices(rules.price_file)  # a price file that is wrong is said before anything is done
        provider = self.provider_of(found)
        check_access(provider)
        with self._folder.locked(), self._folder.open_store() as store:
            ledger = JudgeLedger(store, found)
            ledger.keep(found.model_copy(update={"asking": rules}))
            if choice is not None:
                self._plan(store, ledger, provider, choice)
            pending = ledger.progress().pending

            def purse_of(limit: float) -> Purse:
                return purse_with(ledger, provider, rules, limit, _spent(store, found, provider, prices))

            try:
                asyncio.run(ask_pending(ledger, provider, rules, terminal(), purse_of=purse_of))
            except KeyboardInterrupt:
                go_on = f"mbbq-gen judge {self._folder.path} --name {found.name}"
                say(f"\nstopped; what arrived is kept. Go on with: {go_on}")
                raise
            finally:
                ledger.read_replies()
                if pending:
                    ledger.keep(ledger.judge.model_copy(update={"facts": {**found.facts, **provider.facts()}}))
            if failed := ledger.progress().failed:
                say(f"{failed} requests failed; the same command asks them again")
            return ledger.judge

    def _plan(self, store: RunStore, ledger: JudgeLedger, provider: Provider, choice: Choice) -> None:
        from mbbq_gen.runs.judging.choice import asks_of, chosen_readings, settled_readings

        with Bar("planning", None, "answers", delay=1.0) as bar:
            chosen = chosen_readings(store, self._versions, choice)
            new = ledger.plan(asks_of(store, ledger.judge, chosen, provider.request_key, bar.advance), choice.chosen_by)
        if choice.chosen_by == "all":
            ledger.take_over(settled_readings(store, self._versions))
        requests = ledger.progress().requests
        say(
            f"{ledger.judge.model}: {len(chosen):,} answers to read, {new:,} of them new;"
            f" {requests:,} different requests in all"
        )

    # --- the result ---

    def report(self, found: Judge, interval: float, seed: int, price_file: Path | None) -> JudgeReport:
        """What its replies so far say."""
        from mbbq_gen.providers.prices import read_prices
        from mbbq_gen.runs.audit import VERDICTS_NAME, load_verdicts
        from mbbq_gen.runs.judging.agreement import judge_report, judged_pairs
        from mbbq_gen.runs.judging.ledger import JudgeLedger
        from mbbq_gen.runs.judging.standing import judge_cost
        from mbbq_gen.statistics.panel import Sampling

        prices = read_prices(price_file or found.asking.price_file)
        with self._folder.open_store(read_only=True) as store:
            return judge_report(
                judged_pairs(store, found, self._versions),
                found,
                self._versions,
                load_verdicts(self._folder.path / VERDICTS_NAME),
                JudgeLedger(store, found).progress(),
                run=str(self._folder.path),
                cost=judge_cost(store, found, prices),
                sampling=Sampling(confidence=interval, seed=seed),
            )


def _limit(found: Judge, name: str) -> float | None:
    """What the judge's options allow a minute."""
    value = found.model_options.get(name)
    return float(value) if isinstance(value, int | float | str) else None


def _spent(store: RunStore, found: Judge, provider: Provider, prices: tuple[Price, ...]) -> float:
    """The most that the judge can have cost so far, in US dollars, as far as prices are known."""
    from mbbq_gen.runs.money import judge_bill

    base_url: str | None = getattr(provider, "base_url", None)
    return judge_bill(store, found.name, prices, kind=provider.kind, model=provider.model, base_url=base_url).most


def _show_forecast(found: JudgeForecast, *, as_json: bool) -> None:
    from mbbq_gen.report.judge_tables import print_judge_forecast

    if as_json:
        typer.echo(found.model_dump_json(indent=2))
    else:
        print_judge_forecast(found, result_console())


def _show(found: JudgeReport, *, as_json: bool) -> None:
    from mbbq_gen.report.judge_tables import print_judge_report

    if as_json:
        typer.echo(found.model_dump_json(indent=2))
    else:
        print_judge_report(found, result_console())
