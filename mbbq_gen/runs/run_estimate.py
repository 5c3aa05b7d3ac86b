"""The estimate of a run before it starts: plans it in a temporary store, and counts tokens, cost and time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from mbbq_gen.analysis.power import VarianceAssumptions
from mbbq_gen.core.config import RunConfig
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.option_display import SamplingUnit
from mbbq_gen.core.progress import Bar
from mbbq_gen.providers.base import Provider
from mbbq_gen.providers.prices import Price, price_of, read_prices, token_counter
from mbbq_gen.runs.cost_estimate import CostEstimate, estimate_cost, follow_up_estimate, priced_requests
from mbbq_gen.runs.follow_up import follow_up_rates, follow_up_text, follows_up
from mbbq_gen.runs.planner import PromptPlan
from mbbq_gen.runs.resolve import InstanceSource, open_model
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.runs.token_estimate import TokenEstimate, estimate, measured_outputs, probe
from mbbq_gen.storage.store import RunStore


def run_estimate(
    config: RunConfig,
    where: PackPaths,
    assumptions: VarianceAssumptions,
    *,
    tokenizer: Path | None = None,
    pilot: Path | None = None,
    with_probe: bool = False,
) -> CostEstimate:
    """The estimate of a run.

    Args:
        config: the run's, resolved.
        where: the language packs.
        assumptions: variances that interval widths are computed from.
        tokenizer: the model's tokenizer.json or its folder; None: the model's own where it is here.
        pilot: a run whose response lengths count; None: assumed.
        with_probe: runs ten requests on a local model.
    """
    provider, measured = open_model(config, where), _measured_lengths(pilot)
    counter, longest = token_counter(provider.kind, provider.model, tokenizer), provider.settings.get("max_tokens")
    price = run_price(provider, config)
    with _draft(config, where) as (draft, store, bar):
        with bar:
            draft.read(store)
            tokens = estimate(
                *(draft.prompts(store), counter, draft.kinds, measured),
                longest=longest if isinstance(longest, int) else None,
                rooms={level: provider.reasoning_settings(level).room for level in config.reasoning_effort},
            )
            tried = None
            if with_probe:
                tried = probe(provider, draft.prompts(store), store.instance, tokens.requests, seed=config.seed)
        found = estimate_cost(
            *(store, config, tokens, price),
            base_url=provider.capabilities.base_url,
            limits=(config.rpm, config.tpm),
            assumptions=assumptions,
        )
        again = None
        if follows_up(config):
            rates = None if pilot is None else follow_up_rates(RunFolder(pilot), config.follow_up, where)
            languages = {code: config.instruction_language or code for code in config.languages}
            questions = {code: counter.count(follow_up_text(where, name).text) for code, name in languages.items()}
            again = follow_up_estimate(config, tokens, found.price, questions, rates)
    return found.model_copy(update={"probe": tried, "follow_up": again})


def run_price(provider: Provider, config: RunConfig) -> Price | None:
    """The price of a run's model; None where it is not known."""
    prices, base_url = read_prices(config.prices), provider.capabilities.base_url
    return price_of(provider.kind, provider.model, prices, base_url=base_url)


def counted_requests(
    config: RunConfig, where: PackPaths, provider: Provider, pilot: Path | None
) -> tuple[list[SamplingUnit], TokenEstimate]:
    """The questions of a run, and the tokens of a balanced part of its requests; `pilot` as for `run_estimate`."""
    with _draft(config, where) as (draft, store, bar), bar:
        draft.read(store)
        outlines = list(store.outlines())
        counter = token_counter(provider.kind, provider.model, None)
        return outlines, priced_requests(draft, store, counter, _measured_lengths(pilot))


@contextmanager
def _draft(config: RunConfig, where: PackPaths) -> Iterator[tuple[PromptPlan, RunStore, Bar]]:
    """The plan of a run in a temporary store, whose questions are still to be read, and a bar for that."""
    bar = Bar("counting", None, "steps")
    with TemporaryDirectory(prefix="mbbq-gen-plan-") as folder, RunStore(Path(folder) / "plan.sqlite") as store:
        yield PromptPlan(config, where, InstanceSource(config, where), bar.advance), store, bar


def _measured_lengths(pilot: Path | None) -> dict[str, float]:
    """Prompt variant → tokens of a response in a pilot run."""
    if pilot is None:
        return {}
    with RunFolder(pilot).require().open_store(read_only=True) as store:
        return measured_outputs(store)
